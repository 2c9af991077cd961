//! Another account on the attacked server: it sends messages, or lists its conversations, all the
//! while and says how long that took.

use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard, oneshot};

use crate::support::{Client, Server, tool, until};

/// Between two messages.
const PACE: Duration = Duration::from_millis(10);
/// Requests whose times make a figure.
const REQUESTS_MIN: usize = 200;
/// The same without an attack: on a debug build nothing is compared with it.
const ALONE_MIN: usize = if cfg!(debug_assertions) {
    20
} else {
    REQUESTS_MIN
};
/// Whether the figures are the server's own. On a debug build, whose tests run beside others, what is
/// preferred here would be taken from those.
const MEASURES: bool = !cfg!(debug_assertions);
/// What the p99 beside an attack may be in a debug build on a busy machine. The promise itself,
/// twice what it is without, is measured by `tests/bench/run --only hostile`, which runs these
/// tests one by one on a release build.
const P99_MAX: Duration = Duration::from_millis(2_000);
/// What some hundred requests of the neighbour take at most on a busy machine.
const GOES_ON: Duration = Duration::from_secs(120);
/// Conversations that the messages go to, so that they live on every worker.
const CONVERSATIONS: usize = 8;
/// Where this variable is set, the neighbour has a server of its own, which nobody attacks: what its messages
/// then take beside an attack is the machine's doing, and what they take beyond that the attacked server's.
const ELSEWHERE: &str = "HOSTILE_ELSEWHERE";

/// An account of its own, with conversations on every worker.
pub(super) struct Neighbour {
    orders: mpsc::Sender<Order>,
    /// Its requests that were answered so far.
    answered: Arc<AtomicUsize>,
    /// Its own server, where it is not on the attacked one.
    _elsewhere: Option<Server>,
    /// Attacks run one after the other: each has the machine to itself.
    _turn: MutexGuard<'static, ()>,
}

/// What an attack did to the server.
pub(super) struct Beside<T> {
    /// What the attack gave.
    pub(super) attack: T,
    /// The most that the server held while it lasted, as resident bytes.
    pub(super) peak_bytes: u64,
    /// What the slowest of the neighbour's messages took beside it: they go one by one, so a halt
    /// of seconds slows only one.
    pub(super) slowest: Duration,
}

impl Neighbour {
    /// Waits for its turn and makes the account.
    pub(super) async fn of(server: &Server) -> Self {
        static TURN: OnceLock<Mutex<()>> = OnceLock::new();
        let turn = TURN.get_or_init(Mutex::default).lock().await;
        let attacked = server;
        let elsewhere = std::env::var_os(ELSEWHERE).map(|_| Server::start());
        let server = elsewhere.as_ref().unwrap_or(attacked);
        let account = server.account().await;
        let (client, mut conversations) = (account.test(), Vec::new());
        let customer = client.customer().await;
        for _ in 0..CONVERSATIONS {
            conversations.push(client.conversation_of(&customer).await);
        }
        let (address, key) = (server.address(), account.test_key().to_owned());
        let answered = Arc::<AtomicUsize>::default();
        let sender = Sender {
            address,
            key,
            conversations,
            process: server.pid(),
            answered: Arc::clone(&answered),
        };
        let (orders, inbox) = mpsc::channel();
        std::thread::spawn(move || {
            if MEASURES {
                take_the_processor_at_once();
            }
            sender.run(&inbox);
        });
        leave_the_processor_to_others();
        if MEASURES {
            prefer(attacked.pid());
            prefer(server.pid());
        }
        Neighbour {
            orders,
            answered,
            _elsewhere: elsewhere,
            _turn: turn,
        }
    }

    /// Runs the attack beside the neighbour's messages: each is answered 201, and their p99 stays
    /// bounded.
    pub(super) async fn beside<T>(&self, name: &str, attack: impl Future<Output = T>) -> Beside<T> {
        self.beside_its(Asks::Messages, name, attack).await
    }

    /// Runs the attack beside the neighbour's lists: each is answered 200, and their p99 stays
    /// bounded.
    pub(super) async fn lists_beside<T>(
        &self,
        name: &str,
        attack: impl Future<Output = T>,
    ) -> Beside<T> {
        self.beside_its(Asks::Lists, name, attack).await
    }

    /// Waits until so many further requests of the neighbour were answered: an attack that goes on
    /// behind its last answer has no other end.
    pub(super) async fn is_answered(&self, more: usize) {
        let enough = self.answered.load(Ordering::Relaxed) + more;
        until("the neighbour goes on", GOES_ON, async || {
            (self.answered.load(Ordering::Relaxed) >= enough).then_some(())
        })
        .await;
    }

    async fn beside_its<T>(
        &self,
        asks: Asks,
        name: &str,
        attack: impl Future<Output = T>,
    ) -> Beside<T> {
        let alone = p99(self
            .start(asks, ALONE_MIN, Arc::new(AtomicBool::new(true)))
            .await
            .unwrap()
            .0);
        let over = Arc::new(AtomicBool::new(false));
        let sending = self.start(asks, REQUESTS_MIN, Arc::clone(&over));
        let attack = attack.await;
        over.store(true, Ordering::Relaxed);
        let (took, peak_bytes) = sending.await.unwrap();
        let slowest = took.iter().copied().max().unwrap_or_default();
        let beside = p99(took);
        eprintln!(
            "hostile: {name}: p99 of the neighbour's {} {:.2} ms alone, {:.2} ms beside, at worst {:.2} ms, \
             {:.0} MiB at most",
            asks.word(),
            alone.as_secs_f64() * 1e3,
            beside.as_secs_f64() * 1e3,
            slowest.as_secs_f64() * 1e3,
            peak_bytes as f64 / f64::from(1 << 20),
        );
        assert!(
            beside < P99_MAX,
            "{name}: the neighbour's p99 was {alone:?} and is {beside:?}"
        );
        Beside {
            attack,
            peak_bytes,
            slowest,
        }
    }

    /// Has requests sent until there are enough and it is over; gives how long each took, and the
    /// server's greatest size.
    fn start(
        &self,
        asks: Asks,
        requests_min: usize,
        over: Arc<AtomicBool>,
    ) -> oneshot::Receiver<(Vec<Duration>, u64)> {
        let (done, figures) = oneshot::channel();
        let order = Order {
            asks,
            requests_min,
            over,
            done,
        };
        self.orders.send(order).unwrap();
        figures
    }
}

/// The attack's clients run where neither the server nor the neighbour needs the processor, as they
/// do on a machine of their own: the figures are to say what the server does. Threads that these
/// start are like them.
fn leave_the_processor_to_others() {
    let this = this_thread();
    for thread in std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(Result::unwrap)
    {
        // One that has ended meanwhile has no name.
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if name.starts_with("tokio-") || this == thread.file_name() {
            schedule(&thread.file_name(), &["--idle", "--pid", "0"]);
        }
    }
}

/// Has the server's threads preferred to the attack's clients by more, where that is allowed (root): even a
/// thread of `SCHED_IDLE` runs for 4 ms, until the kernel's next tick, once the others have run for long
/// enough, which is once in 1.4 s, and in 12 s with this.
fn prefer(process: u32) {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let threads: Vec<_> = threads.map(|thread| thread.unwrap().file_name()).collect();
    let done = Command::new("renice")
        .args(["-n", "-10", "-p"])
        .args(threads)
        .output();
    tool::started("renice", done);
}

/// The calling thread, which is the neighbour's, waits for no processor, as if it had a machine of its own,
/// where the kernel allows it (root): otherwise much of what a message takes is the client's own waiting.
pub(super) fn take_the_processor_at_once() {
    schedule(&this_thread(), &["--fifo", "--pid", "1"]);
}

/// Has the kernel schedule a thread so, if it allows it.
fn schedule(thread: &OsStr, policy: &[&str]) {
    let done = Command::new("chrt").args(policy).arg(thread).output();
    tool::started("chrt", done);
}

/// The number of the calling thread.
fn this_thread() -> OsString {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_owned()
}

/// What the neighbour asks for.
#[derive(Clone, Copy)]
enum Asks {
    Messages,
    Lists,
}

impl Asks {
    fn word(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Lists => "lists",
        }
    }
}

/// What the neighbour's thread is to do.
struct Order {
    asks: Asks,
    requests_min: usize,
    over: Arc<AtomicBool>,
    done: oneshot::Sender<(Vec<Duration>, u64)>,
}

/// Sends the requests on a thread of its own, which waits for nothing that the attack's clients do.
struct Sender {
    address: String,
    key: String,
    conversations: Vec<String>,
    process: u32,
    answered: Arc<AtomicUsize>,
}

impl Sender {
    /// Does what it is asked until nobody asks any more.
    fn run(&self, inbox: &mpsc::Receiver<Order>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for order in inbox {
            let figures = runtime.block_on(self.send(&order));
            // The test may have failed meanwhile.
            let _ = order.done.send(figures);
        }
    }

    async fn send(&self, order: &Order) -> (Vec<Duration>, u64) {
        let client = Client::anonymous(&format!("http://{}", self.address)).with_key(&self.key);
        let (mut took, mut peak) = (Vec::new(), 0);
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while took.len() < order.requests_min || !order.over.load(Ordering::Relaxed) {
            pace.tick().await;
            let asked = Instant::now();
            match order.asks {
                Asks::Messages => {
                    client
                        .message(
                            &self.conversations[took.len() % CONVERSATIONS],
                            "are you there?",
                        )
                        .await;
                }
                Asks::Lists => {
                    client.get("/v1/conversations?limit=5").await.expect(200);
                }
            }
            took.push(asked.elapsed());
            self.answered.fetch_add(1, Ordering::Relaxed);
            peak = peak.max(self.resident_bytes());
        }
        (took, peak)
    }

    /// What the server holds in memory now. Pages of its file are the system's to take, and of a debug
    /// build a third of all.
    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process)).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
    }
}

fn p99(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[(took.len() * 99).div_ceil(100) - 1]
}
