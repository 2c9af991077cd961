//! What operators may have one actor do.

use colloquy_runtime::{Found, SupervisedKind};
use serde::{Deserialize, Serialize};

/// A command of an operator to one actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// It drops its state and loads it again.
    Restart,
    /// It leaves memory as soon as it holds no request.
    Passivate,
    /// Its quarantine or backoff ends, and its crashes are forgotten.
    Release,
    /// It crashes on its next request.
    Crash,
}

impl Steering {
    /// Gives the command to an actor of this node.
    pub(super) fn command<'k>(self, kind: &'k dyn SupervisedKind, id: &'k str) -> Found<'k> {
        match self {
            Steering::Restart => kind.restart(id),
            Steering::Passivate => kind.passivate(id),
            Steering::Release => kind.release(id),
            Steering::Crash => kind.crash(id),
        }
    }
}
