//! Why an ask brought no reply, and whether anything was done.

use std::time::Duration;

use colloquy_model::damage::Unreadable;

use super::journal::LoadError;
use super::offload::ComputeError;

/// When asking again makes sense if nothing better is known.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// Why an ask brought no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError<R> {
    /// The entity refused the command.
    #[error("refused")]
    Refused(R),
    /// Nothing was done; asking again is safe.
    #[error("unavailable: {cause}")]
    Unavailable {
        /// The cause for which nothing was done.
        cause: Cause,
        /// When asking again makes sense.
        retry_after: Duration,
    },
    /// What is stored of the entity can't be read. Nothing was done; asking again gives the same.
    #[error("unreadable")]
    Unreadable,
    /// The entity crashed on this command; the outcome is unknown.
    #[error("crashed")]
    Crashed,
    /// No answer came in time although the command had started; the outcome is unknown.
    #[error("timed out")]
    TimedOut,
    /// It is not known whether the commit became durable.
    #[error("outcome unknown")]
    Unknown,
}

impl<R> AskError<R> {
    /// Nothing was done, and nothing better is known than to ask again soon.
    pub fn unavailable(cause: Cause) -> Self {
        unavailable(cause, SOON)
    }

    /// Whether something went wrong: anything but a refusal by a rule.
    pub(super) fn is_failure(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// Logs an answer that this command can't have, which is a bug; something may have been done.
    pub fn impossible(answer: &'static str) -> Self {
        tracing::error!(answer, "an answer that can't be");
        Self::Crashed
    }
}

impl<R> From<LoadError> for AskError<R> {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Unavailable => unavailable(Cause::StoreUnavailable, SOON),
            LoadError::Busy => unavailable(Cause::TimedOut, SOON),
            LoadError::Unreadable => Self::Unreadable,
        }
    }
}

impl<R> From<Unreadable> for AskError<R> {
    fn from(_: Unreadable) -> Self {
        Self::Unreadable
    }
}

impl<R> From<ComputeError> for AskError<R> {
    fn from(error: ComputeError) -> Self {
        match error {
            ComputeError::Overloaded => unavailable(Cause::TimedOut, SOON),
            ComputeError::Panicked => Self::Crashed,
        }
    }
}

/// Why a command was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cause {
    /// All mailbox permits of the entity are taken.
    #[error("mailbox full")]
    MailboxFull,
    /// The entity crashed and waits for its restart, or its thread ended before the command
    /// started.
    #[error("backing off")]
    BackingOff,
    /// The entity crashed too often and is in quarantine.
    #[error("quarantined")]
    Quarantined,
    /// The directory takes no new commands, or has no thread for them.
    #[error("draining")]
    Draining,
    /// The store does not answer.
    #[error("store away")]
    StoreUnavailable,
    /// The command did not start in time; it will not be done.
    #[error("timed out before its turn")]
    TimedOut,
    /// Another copy of the entity had committed meanwhile; this one has been reloaded.
    #[error("conflict")]
    Conflict,
}

impl Cause {
    /// All causes, in the order of the counters.
    pub const ALL: [Self; 7] = [
        Self::MailboxFull,
        Self::BackingOff,
        Self::Quarantined,
        Self::Draining,
        Self::StoreUnavailable,
        Self::TimedOut,
        Self::Conflict,
    ];

    /// The value of a metric's label for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::MailboxFull => "mailbox_full",
            Self::BackingOff => "backing_off",
            Self::Quarantined => "quarantined",
            Self::Draining => "draining",
            Self::StoreUnavailable => "store_away",
            Self::TimedOut => "timed_out_before_its_turn",
            Self::Conflict => "conflict",
        }
    }
}

/// The error that says that nothing was done, and when to ask again.
pub(super) const fn unavailable<R>(cause: Cause, retry_after: Duration) -> AskError<R> {
    AskError::Unavailable { cause, retry_after }
}
