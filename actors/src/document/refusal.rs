//! Why a document refuses a request, and why it could not be asked.

use std::time::Duration;

use super::access::{Denied, PermissionError};
use super::views::MergeConflict;
use colloquy_model::answer::Invalid;
use colloquy_runtime::{AskError, Cause};

/// Why a document refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// There is no such document for this caller, or no such part of it.
    #[error("no such document")]
    NotFound,
    /// The caller may see it, but not do this.
    #[error("the role does not allow this")]
    Forbidden,
    /// `If-Match` named another state, or the target has moved on.
    #[error("the document has changed")]
    Precondition,
    /// The document's state stands in the way.
    #[error("{field}: {reason}")]
    Conflict {
        /// The parameter, where one is at fault.
        field: &'static str,
        /// What stands in the way.
        reason: &'static str,
    },
    /// Both sides changed the same lines.
    #[error("both sides changed the same lines")]
    Merge(Box<MergeConflict>),
    /// A value is not acceptable.
    #[error("{}: {}", .0.field, .0.reason)]
    Invalid(Invalid),
}

impl From<Denied> for DocumentError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::NotFound => DocumentError::NotFound,
            Denied::Forbidden(_) => DocumentError::Forbidden,
        }
    }
}

impl From<PermissionError> for DocumentError {
    fn from(error: PermissionError) -> Self {
        let conflict = |field, reason| DocumentError::Conflict { field, reason };
        match error {
            PermissionError::AddedTwice => conflict("user_id", "is a collaborator already"),
            PermissionError::OwnerStays => conflict(
                "user_id",
                "is the owner; an owner is made with transfer_owner_to",
            ),
            PermissionError::NotACollaborator => DocumentError::NotFound,
            PermissionError::Invalid { field, reason } => {
                DocumentError::Invalid(Invalid::new(field, reason))
            }
        }
    }
}

/// Why a document did not reply: its refusal, or why it could not be asked.
pub type Failure = AskError<DocumentError>;

/// The refusal of a parameter.
pub(super) fn invalid(field: &'static str, reason: &str) -> Failure {
    AskError::Refused(DocumentError::Invalid(Invalid::new(field, reason)))
}

/// Nothing was done, for this cause; asking again in a second makes sense.
pub(super) fn unavailable(cause: Cause) -> Failure {
    AskError::Unavailable {
        cause,
        retry_after: Duration::from_secs(1),
    }
}
