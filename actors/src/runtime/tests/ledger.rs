//! The entity of these tests: a list of numbers.

use std::thread;
use std::time::{Duration, Instant};

use crate::runtime::{Decision, Entity};

/// A list of numbers, vacant while it is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ledger {
    pub(super) id: u64,
    pub(super) entries: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    /// Appends, pipelined.
    Add(u64),
    /// Appends under a condition, not pipelined.
    AddIf(u64),
    /// Appends the double of what a lookup finds.
    AddFound(u64),
    /// Keeps an answer without a change.
    Keep(u64),
    Read,
    /// Refused.
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
pub(super) struct Broken;

pub(super) enum Change {
    Append(u64),
    Panic,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Append {
    pub(super) id: u64,
    pub(super) number: u64,
    /// The revision that the change follows; none for what is only kept.
    pub(super) after: Option<u64>,
}

impl Ledger {
    fn append(&self, number: u64, pipelined: bool) -> Decision<Self> {
        let commit = Append {
            id: self.id,
            number,
            after: Some(self.revision()),
        };
        Decision::Change {
            change: Change::Append(number),
            commit,
            reply: vec![number],
            pipelined,
        }
    }
}

impl Entity for Ledger {
    const KIND: &'static str = "ledger";
    type Id = u64;
    type Command = Ask;
    type Reply = Vec<u64>;
    type Refusal = Refused;
    type Lookup = u64;
    type Found = u64;
    type Change = Change;
    type Commit = Append;
    type Broken = Broken;

    fn vacant(id: u64) -> Self {
        Self {
            id,
            entries: Vec::new(),
        }
    }

    fn is_vacant(&self) -> bool {
        self.entries.is_empty()
    }

    fn lookup(&self, command: &Ask) -> Option<u64> {
        assert!(!matches!(command, Ask::PanicInLookup), "poison in lookup");
        if let Ask::AddFound(number) = command {
            Some(*number)
        } else {
            None
        }
    }

    fn decide(&self, command: Ask, found: Option<u64>, _: i64) -> Decision<Self> {
        match command {
            Ask::Add(number) => self.append(number, true),
            Ask::AddIf(number) => self.append(number, false),
            Ask::AddFound(_) => self.append(found.unwrap_or_default(), true),
            Ask::Keep(number) => Decision::Keep {
                commit: Append {
                    id: self.id,
                    number,
                    after: None,
                },
                reply: vec![number],
            },
            Ask::Read | Ask::PanicInLookup => Decision::Answer(self.entries.clone()),
            Ask::Never => Decision::Refuse(Refused),
            Ask::Spin(span) => {
                let start = Instant::now();
                while start.elapsed() < span {
                    thread::yield_now();
                }
                Decision::Answer(Vec::new())
            }
            Ask::PanicInDecide => panic!("poison in decide"),
            Ask::PanicInApply => {
                let commit = Append {
                    id: self.id,
                    number: 0,
                    after: Some(self.revision()),
                };
                Decision::Change {
                    change: Change::Panic,
                    commit,
                    reply: Vec::new(),
                    pipelined: true,
                }
            }
        }
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

    fn refused(_: Broken) -> Refused {
        Refused
    }

    fn revision(&self) -> u64 {
        self.entries.len() as u64
    }

    fn bytes(&self) -> usize {
        self.entries.len() * 8
    }
}
