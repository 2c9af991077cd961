//! Tests of which cores a thread may use: other tests of this process may reserve cores meanwhile, so what
//! holds is looked at only while this one has reserved one, too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// A thread that does this, and then lives as long as the result.
fn thread(first: fn()) -> (Pid, Sender<()>) {
    let (end, ended): (Sender<()>, Receiver<()>) = channel();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        first();
        tell.send(gettid()).unwrap();
        // An error is the end.
        let _ = ended.recv();
    });
    (told.recv().unwrap(), end)
}

fn cores_of(thread: Pid) -> Vec<usize> {
    let allowed = sched_getaffinity(Some(thread)).unwrap();
    let is_set = |core: &usize| allowed.is_set(*core);
    (0..CpuSet::MAX_CPU).filter(is_set).collect()
}

#[test]
fn a_reserved_core_is_left_to_the_background_and_to_who_computes() {
    let (answering, _answering) = thread(mark_latency_sensitive);
    let (background, _background) = thread(mark_background);
    let (other, _other) = thread(|| ());
    let reserved = reserve_core();
    let all = cores();
    assert_eq!(cores_of(other), all);
    let (front, back) = (cores_of(answering), cores_of(background));
    if all.len() < 2 {
        assert_eq!((front, back), (all.clone(), all));
        return;
    }
    assert_eq!([front.clone(), back.clone()].concat(), all);
    let later = [mark_latency_sensitive, mark_background].map(thread);
    assert_eq!(
        later.each_ref().map(|(thread, _)| cores_of(*thread)),
        [front, back.clone()]
    );
    // Of a background thread that computes something long, the end of that changes nothing.
    let (computed, _computed) = thread(|| {
        mark_background();
        drop(pin_to_batch_cores());
    });
    assert_eq!(cores_of(computed), back);
    drop(reserved);
}

#[test]
fn nobody_waits_for_one_who_waits_for_a_core_on_which_others_compute() {
    /// Each computes for some ms until the next one has its turn.
    const COMPUTING: usize = 32;
    /// The other one goes on meanwhile, so that each wait is for it at another place.
    const PAUSE: Duration = Duration::from_millis(10);
    /// What all waits together take at most, on a busy machine too.
    const ALL_MAX: Duration = Duration::from_millis(250);
    if cores().len() < 2 {
        return;
    }
    let over = Arc::new(AtomicBool::new(false));
    let until_over = |work: fn(&AtomicBool)| {
        let over = Arc::clone(&over);
        std::thread::spawn(move || work(&over))
    };
    let mut threads: Vec<_> = (0..COMPUTING)
        .map(|_| {
            until_over(|over| {
                let _pin = pin_to_batch_cores();
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    threads.push(until_over(|over| {
        while !over.load(Ordering::Relaxed) {
            drop(pin_to_batch_cores());
        }
    }));
    mark_latency_sensitive();
    let took: Vec<Duration> = (0..31)
        .map(|_| {
            std::thread::sleep(PAUSE);
            let asked = Instant::now();
            drop(reserve_core());
            asked.elapsed()
        })
        .collect();
    over.store(true, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(took.iter().sum::<Duration>() < ALL_MAX, "{took:?}");
}
