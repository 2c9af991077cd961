//! Whether something costs more where much is stored: the least of several times, for whatever else
//! runs only adds to it.

use std::time::{Duration, Instant};

/// Times that each operation is asked for.
pub(super) const ASKED: usize = 15;
/// How many times as much something may take as where little is stored …
const TIMES_MAX: u32 = 4;
/// … and what chance may add to that in a debug build on a busy machine.
const NOISE: Duration = Duration::from_millis(12);

/// The least that it takes.
pub(super) async fn least(mut ask: impl AsyncFnMut()) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..ASKED {
        let asked = Instant::now();
        ask().await;
        least = least.min(asked.elapsed());
    }
    least
}

/// Tells both times, and fails where one is much more.
pub(super) fn assert_near(name: &str, few: Duration, many: Duration) {
    eprintln!("hostile: {name}: {few:?} where there are few, {many:?} where there are many");
    assert!(
        many < few * TIMES_MAX + NOISE,
        "{name}: {many:?} in place of {few:?}"
    );
}
