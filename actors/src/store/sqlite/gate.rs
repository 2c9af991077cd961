//! Between long reads and whoever has to empty the log, which takes a moment without any of them.
//! Nobody waits for that moment while commits do: it is brought about by letting no further ones
//! begin.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Longer than any read may take. Then they begin again, whatever came of it.
pub(super) const BARRED_MAX: Duration = Duration::from_secs(3);

/// Readers enter; the writer bars it and opens it again.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inside: usize,
    barred_until: Option<Instant>,
}

/// A read that is under way; dropped, it has ended.
pub(crate) struct Inside<'g>(&'g Gate);

impl Gate {
    /// Begins a read, once it may.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let mut state = self.state.lock();
        while let Some(until) = state.barred_until
            && !self.opened.wait_until(&mut state, until).timed_out()
        {}
        state.inside += 1;
        Inside(self)
    }

    /// Lets no further ones begin.
    pub(super) fn bar(&self) {
        self.state.lock().barred_until = Some(Instant::now() + BARRED_MAX);
    }

    /// Lets those that wait begin.
    pub(super) fn open(&self) {
        self.state.lock().barred_until = None;
        self.opened.notify_all();
    }

    /// Whether none is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().inside == 0
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside = state.inside.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn nobody_enters_a_barred_gate_until_it_opens_and_those_inside_are_known() {
        let gate = Arc::new(Gate::default());
        let inside = gate.enter();
        assert!(!gate.is_empty());
        gate.bar();
        let (entered, is_in) = channel();
        let other = Arc::clone(&gate);
        let thread = std::thread::spawn(move || {
            let _inside = other.enter();
            entered.send(()).unwrap();
        });
        assert!(is_in.recv_timeout(Duration::from_millis(50)).is_err());
        drop(inside);
        assert!(gate.is_empty());
        gate.open();
        is_in.recv_timeout(Duration::from_secs(10)).unwrap();
        thread.join().unwrap();
        assert!(gate.is_empty());
    }

    #[test]
    fn a_gate_that_nobody_opens_holds_nobody_for_ever() {
        let gate = Gate::default();
        gate.bar();
        let begun = Instant::now();
        drop(gate.enter());
        assert!(begun.elapsed() >= BARRED_MAX);
    }
}
