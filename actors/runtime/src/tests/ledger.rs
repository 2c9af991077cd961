//! The entity of these tests: a list of numbers.

use std::thread;
use std::time::{Duration, Instant};

use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

use super::memory_journal::Lookups;
use crate::{BoxFuture, Decision, Entity, LoadError, Lookup};

/// A list of numbers, vacant while it is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ledger {
    pub(super) id: u64,
    pub(super) entries: Vec<u64>,
}

/// The commands of a ledger.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// Appends the number, pipelined.
    Add(u64),
    /// Appends the number under a condition, not pipelined.
    AddIf(u64),
    /// Appends what a lookup finds: the double of the number.
    AddFound(u64),
    /// Keeps an answer without a change.
    Keep(u64),
    Read,
    /// A command that is refused.
    Never,
    /// Keeps the thread busy.
    Spin(Duration),
    PanicInDecide,
    PanicInApply,
    PanicInLookup,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused;

/// A condition outside the ledger did not hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Violation;

/// The changes of a ledger.
pub(super) enum Change {
    Append(u64),
    Panic,
}

/// A commit of one number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Append {
    pub(super) id: u64,
    pub(super) number: u64,
    /// The revision that the change follows; none for what is only kept.
    pub(super) after: Option<Sequence>,
}

impl Ledger {
    fn append(&self, number: u64) -> Append {
        Append {
            id: self.id,
            number,
            after: Some(self.revision()),
        }
    }
}

impl Entity for Ledger {
    const KIND: &'static str = "ledger";
    type Id = u64;
    type Refusal = Refused;
    type Source = Lookups;
    type Change = Change;
    type Commit = Append;
    type Violation = Violation;

    fn vacant(id: u64) -> Self {
        Self {
            id,
            entries: Vec::new(),
        }
    }

    fn is_vacant(&self) -> bool {
        self.entries.is_empty()
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Append(number) => self.entries.push(number),
            Change::Panic => {
                self.entries.push(u64::MAX);
                panic!("poison in apply");
            }
        }
    }

    fn refused(_: Violation) -> Refused {
        Refused
    }

    fn revision(&self) -> Sequence {
        Sequence(self.entries.len() as u64)
    }

    fn bytes(&self) -> usize {
        self.entries.len() * 8
    }
}

/// Looks up the double of a number.
pub(super) struct Double(u64);

impl Lookup<Ledger> for Double {
    type Found = u64;

    fn find(self, source: Lookups) -> BoxFuture<Result<u64, LoadError>> {
        Box::pin(async move {
            match source {
                Lookups::Succeed => Ok(self.0 * 2),
                Lookups::Fail => Err(LoadError::Unavailable),
                Lookups::Panic => panic!("poison in find"),
            }
        })
    }
}

impl crate::Command<Ledger> for Command {
    type Reply = Vec<u64>;
    type Lookup = Double;

    fn lookup(&self, _: &Ledger) -> Option<Double> {
        assert!(!matches!(self, Command::PanicInLookup), "poison in lookup");
        if let Command::AddFound(number) = self {
            Some(Double(*number))
        } else {
            None
        }
    }

    fn decide(
        self,
        ledger: &Ledger,
        found: Option<u64>,
        _: Timestamp,
    ) -> Decision<Ledger, Vec<u64>> {
        match self {
            Command::Add(number) => pipelined(ledger.append(number)),
            Command::AddIf(number) => Decision::Change {
                change: Change::Append(number),
                commit: ledger.append(number),
                reply: vec![number],
                pipelined: false,
            },
            Command::AddFound(_) => pipelined(ledger.append(found.unwrap_or_default())),
            Command::Keep(number) => Decision::Keep {
                commit: Append {
                    id: ledger.id,
                    number,
                    after: None,
                },
                reply: vec![number],
            },
            Command::Read | Command::PanicInLookup => Decision::Answer(ledger.entries.clone()),
            Command::Never => Decision::Refuse(Refused),
            Command::Spin(span) => {
                let start = Instant::now();
                while start.elapsed() < span {
                    thread::yield_now();
                }
                Decision::Answer(Vec::new())
            }
            Command::PanicInDecide => panic!("poison in decide"),
            Command::PanicInApply => Decision::Change {
                change: Change::Panic,
                commit: ledger.append(0),
                reply: Vec::new(),
                pipelined: true,
            },
        }
    }
}

/// Appends a number at once; the actor goes on.
fn pipelined(commit: Append) -> Decision<Ledger, Vec<u64>> {
    Decision::Change {
        change: Change::Append(commit.number),
        commit,
        reply: vec![commit.number],
        pipelined: true,
    }
}
