//! An erasure: a customer who is taken away for good, with all conversations, and how far that is. Its
//! record begins before anything goes and stays behind as the proof; it holds no word of anybody's.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use super::record::{
    CommandContext, NewRecord, Outcome, RecordError, RecordRequest, RecordSpec, Secret, to_json,
};
use colloquy_model::answer::Answer;
use colloquy_model::commit::{Chore, Condition, Effect, NameField, RecordName};
use colloquy_model::entity::Kind;
use colloquy_model::id::{CustomerId, ErasureId, ErasureKind};
use colloquy_model::time::Timestamp;

/// How far an erasure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErasureState {
    /// Something may be left; nobody is shown it any more.
    Running,
    /// No file, index, delivery or kept answer holds a text or a name.
    Finished,
}

/// An erasure as the interface shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Erasure)]
pub struct ErasureView {
    /// The identifier of the erasure.
    pub erasure_id: ErasureId,
    /// Who is erased.
    pub customer_id: CustomerId,
    /// How far it is.
    pub state: ErasureState,
    /// How many conversations the customer had.
    pub conversations: u64,
    /// How many messages these had.
    pub messages: u64,
    /// How many files they had.
    pub attachments: u64,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When nothing was left; null while it runs.
    pub finished_at: Option<Timestamp>,
}

/// What an erasure takes away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErasureCounts {
    /// How many conversations.
    pub conversations: u64,
    /// How many messages in them.
    pub messages: u64,
    /// How many files of these.
    pub attachments: u64,
}

/// An erasure as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Erasure {
    #[serde(flatten)]
    view: ErasureView,
    /// Whether its numbers are known: nothing goes before.
    is_counted: bool,
}

impl Erasure {
    /// As the interface shows it.
    #[must_use]
    pub fn view(&self) -> &ErasureView {
        &self.view
    }

    /// Whether its numbers are known.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Whether nothing is left to be done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.view.state == ErasureState::Finished
    }
}

/// Begins to erase a customer; from the commit on it will be carried out.
#[derive(Debug)]
pub struct BeginErasure {
    /// The customer, of whom no other erasure may be under way.
    pub customer: CustomerId,
}

/// Says how much there is to be erased; only the first time it changes anything.
#[derive(Debug)]
pub struct CountErasure(pub ErasureCounts);

/// Says that nothing is left.
#[derive(Debug)]
pub struct FinishErasure;

impl RecordRequest<Erasure> for BeginErasure {
    type Reply = Answer;

    fn decide(
        self,
        _: &Erasure,
        _: &CommandContext<Erasure>,
    ) -> Result<Outcome<Erasure>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(
        self,
        context: &CommandContext<Erasure>,
    ) -> Result<NewRecord<Erasure>, RecordError> {
        let state = Erasure {
            view: ErasureView {
                erasure_id: context.id,
                customer_id: self.customer,
                state: ErasureState::Running,
                conversations: 0,
                messages: 0,
                attachments: 0,
                requested_at: context.id.created_at(),
                finished_at: None,
            },
            is_counted: false,
        };
        Ok(NewRecord {
            conditions: vec![Condition::CustomerExists(self.customer)],
            chore: Some(Chore::EraseCustomer(context.tenant, context.id)),
            ..NewRecord::new(state)
        })
    }
}

impl RecordRequest<Erasure> for CountErasure {
    type Reply = ();

    fn decide(
        self,
        held: &Erasure,
        _: &CommandContext<Erasure>,
    ) -> Result<Outcome<Erasure>, RecordError> {
        if held.is_counted {
            return Ok(Outcome::NoContent);
        }
        let ErasureCounts {
            conversations,
            messages,
            attachments,
        } = self.0;
        Ok(Outcome::PutWithoutContent(Erasure {
            view: ErasureView {
                conversations,
                messages,
                attachments,
                ..held.view.clone()
            },
            is_counted: true,
        }))
    }
}

impl RecordRequest<Erasure> for FinishErasure {
    type Reply = ();

    fn decide(
        self,
        held: &Erasure,
        context: &CommandContext<Erasure>,
    ) -> Result<Outcome<Erasure>, RecordError> {
        if held.is_finished() {
            return Ok(Outcome::NoContent);
        }
        Ok(Outcome::PutWithoutContent(Erasure {
            view: ErasureView {
                state: ErasureState::Finished,
                finished_at: Some(context.now.max(held.view.requested_at)),
                ..held.view.clone()
            },
            ..held.clone()
        }))
    }
}

impl RecordSpec for Erasure {
    const KIND: Kind = Kind::Erasure;
    const NAME: &'static str = "erasure";
    type Named = ErasureKind;

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        to_json(&self.view)
    }

    fn label(&self) -> &str {
        ""
    }

    /// While it runs it is found by its customer, so that nobody begins a second one.
    fn names(&self) -> Vec<RecordName> {
        match self.view.state {
            ErasureState::Running => vec![erasure_of(self.view.customer_id)],
            ErasureState::Finished => Vec::new(),
        }
    }

    fn effects(&self, _: Option<&Self>, _: &CommandContext<Self>) -> Vec<Effect> {
        Vec::new()
    }
}

/// The name of the erasure of a customer that is under way.
pub(crate) fn erasure_of(customer: CustomerId) -> RecordName {
    RecordName {
        field: NameField::ErasedCustomer,
        value: customer.to_string(),
    }
}
