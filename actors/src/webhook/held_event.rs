//! Events that are held in memory until they are sent, within a bound on the bytes of all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use colloquy_model::event::Event;

/// Counts the bytes of all events that are held, against their bound.
#[derive(Debug)]
pub(super) struct EventMemory {
    held: Arc<AtomicUsize>,
    max: usize,
}

impl EventMemory {
    /// Nothing is held yet, and never more than `max` bytes are.
    pub(super) fn new(max: usize) -> Self {
        EventMemory {
            held: Arc::default(),
            max,
        }
    }

    /// Holds an event; none where all that are held would exceed the bound.
    pub(super) fn hold(&self, event: Arc<Event>) -> Option<HeldEvent> {
        // Its data, and its body once that is written.
        let bytes = 2 * event.payload.len() + 512;
        if self.held.load(Ordering::Relaxed) + bytes > self.max {
            return None;
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Some(HeldEvent {
            event,
            bytes,
            held: Arc::clone(&self.held),
        })
    }
}

/// An event that counts against the bound until this is dropped.
#[derive(Debug)]
pub(super) struct HeldEvent {
    event: Arc<Event>,
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl HeldEvent {
    /// The event itself, to be sent; it counts no more.
    pub(super) fn release(self) -> Arc<Event> {
        Arc::clone(&self.event)
    }
}

impl Drop for HeldEvent {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
