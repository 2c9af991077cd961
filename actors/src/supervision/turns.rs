//! Turns at one actor: of commands that hold for one state of it only, one is judged and carried out
//! after the other. Nobody waits for another actor's turn.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// An actor's kind and id.
type ActorName = (&'static str, String);

/// The actors at which somebody has a turn or waits for one, by kind and id.
#[derive(Default)]
pub struct Turns {
    taken: Mutex<HashMap<ActorName, Weak<tokio::sync::Mutex<()>>>>,
}

/// A turn at an actor; it ends when this is dropped.
pub struct Turn(#[expect(dead_code, reason = "held until it is dropped")] OwnedMutexGuard<()>);

impl Turns {
    /// Waits for a turn at the actor of this kind with this id, which need not exist.
    pub async fn take(&self, kind: &'static str, id: &str) -> Turn {
        let turn = {
            let mut taken = self.taken.lock();
            // Otherwise it would grow with every actor that somebody ever had a turn at.
            taken.retain(|_, turn| turn.strong_count() > 0);
            let place = taken.entry((kind, id.to_owned())).or_default();
            place.upgrade().unwrap_or_else(|| {
                let turn = Arc::default();
                *place = Arc::downgrade(&turn);
                turn
            })
        };
        Turn(turn.lock_owned().await)
    }
}
