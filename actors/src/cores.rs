//! Which cores long computations take. A thread that is woken on a core where another one computes
//! can wait there until the kernel's next tick, 4 ms at 250 Hz, though another core is idle. So
//! while there is something long to compute, it has the last core to itself and whatever answers
//! requests keeps to the others; otherwise everybody may use all. A second long one takes the last
//! but one, and so on up to half of the cores; beyond, they share these.
//!
//! A machine with one core, or a kernel that refuses, goes on as if this were not there.

use std::marker::PhantomData;

use parking_lot::Mutex;
use rustix::process::{Pid, getpid};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    prompt: Vec::new(),
    long: Vec::new(),
    jobs: 0,
    aside: 0,
});

thread_local! {
    static PROMPT: Prompt = Prompt::register();
}

/// The threads that are moved about.
struct Threads {
    /// Those that others wait for.
    prompt: Vec<Pid>,
    /// Those that compute something long just now.
    long: Vec<Pid>,
    /// What is long and goes from one of these threads to another.
    jobs: usize,
    /// Cores that are theirs.
    aside: usize,
}

/// A thread that others wait for, until it ends.
struct Prompt(Pid);

/// As long as it lives, this thread computes something long.
pub(crate) struct Long {
    thread: Pid,
    _here: PhantomData<*const ()>,
}

/// As long as it lives, something long is under way, also between the threads that do it in turn:
/// the others would come back to its core only to be driven away.
#[derive(Debug)]
pub(crate) struct Aside(());

/// Others wait for this thread: from now on it keeps away from long computations.
pub fn keep_prompt() {
    // At the end of a thread there is nothing to keep any more.
    let _ = PROMPT.try_with(|_| ());
}

impl Prompt {
    fn register() -> Self {
        let thread = gettid();
        let mut threads = THREADS.lock();
        threads.prompt.push(thread);
        threads.place(&[thread]);
        Prompt(thread)
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        THREADS.lock().prompt.retain(|thread| *thread != self.0);
    }
}

impl Aside {
    /// Something long begins.
    pub(crate) fn begin() -> Self {
        THREADS.lock().change(&[], |threads| threads.jobs += 1);
        Aside(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        THREADS
            .lock()
            .change(&[], |threads| threads.jobs = threads.jobs.saturating_sub(1));
    }
}

impl Long {
    /// What this thread does from here on is long.
    pub(crate) fn here() -> Self {
        let thread = gettid();
        THREADS
            .lock()
            .change(&[thread], |threads| threads.long.push(thread));
        Long {
            thread,
            _here: PhantomData,
        }
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        let thread = self.thread;
        THREADS.lock().change(&[thread], |threads| {
            if let Some(at) = threads.long.iter().position(|one| *one == thread) {
                threads.long.swap_remove(at);
            }
        });
    }
}

impl Threads {
    /// Begins or ends something, of which these threads are moved at any rate.
    fn change(&mut self, moved: &[Pid], change: impl FnOnce(&mut Self)) {
        let before = self.aside;
        change(self);
        self.aside = self.jobs.max(self.long.len()).min(cores().len() / 2);
        if self.aside == before {
            self.place(moved);
        } else {
            let all: Vec<Pid> = self
                .prompt
                .iter()
                .chain(&self.long)
                .chain(moved)
                .copied()
                .collect();
            self.place(&all);
        }
    }

    /// Puts these threads where they belong now.
    fn place(&self, threads: &[Pid]) {
        let cores = cores();
        let (front, back) = cores.split_at(cores.len().saturating_sub(self.aside));
        let [front, back, all] = [front, back, &cores].map(set);
        for thread in threads {
            let place = match (self.long.contains(thread), self.prompt.contains(thread)) {
                (true, _) if self.aside > 0 => &back,
                (false, true) => &front,
                (true | false, _) => &all,
            };
            // A thread that has ended, or cores that were taken away: the kernel places it then.
            let _ = sched_setaffinity(Some(*thread), place);
        }
    }
}

/// The cores that this process may use, as its first thread has them: that one is never moved.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Some(getpid())).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect()
}

fn set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    set
}
