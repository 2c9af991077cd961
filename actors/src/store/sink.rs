//! What a store tells of what it holds and commits. It knows nobody who listens: the system gives
//! it one sink, and every store tells that one the same.

use colloquy_model::caller::Tenant;
use colloquy_model::commit::Commit;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::id::{KeyId, WebhookId};
use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;
use colloquy_model::time::Timestamp;

use super::{KeyPosition, KeySlice, StoredRecord};

/// The kinds whose records the sink is told when a store is opened, in this order.
pub const RECOVERED: [Kind; 7] = [
    Kind::SigningKeys,
    Kind::Account,
    Kind::Key,
    Kind::User,
    Kind::Supervision,
    Kind::Client,
    Kind::Grant,
];

/// Takes in what is committed, between the moment at which it is durable and the replies.
///
/// The store's one writer calls it, in the order of commits; what it takes, every commit waits for.
pub trait CommitSink: Send + Sync + 'static {
    /// Takes in a record of one of the kinds in [`RECOVERED`] that stood in the store when it was
    /// opened, with the last use of a key in Unix milliseconds, before anything is asked of the store.
    ///
    /// # Errors
    /// The record can't be read, and going on without it would lose something.
    fn recovered_record(
        &self,
        record: &StoredRecord,
        last_used: Timestamp,
    ) -> serde_json::Result<()>;

    /// Takes in a webhook endpoint that stood in the store when it was opened.
    fn recovered_endpoint(&self, id: WebhookId, tenant: Tenant);

    /// Takes in a customer's new name that some headers did not show when the store was opened,
    /// with the customer's revision that gave it.
    fn recovered_name(&self, customer: EntityNumber, name: &str, revision: Sequence);

    /// The store is open: everything up to this position is in it.
    fn opened(&self, position: Position);

    /// Takes in a batch that is durable. When it returns, whatever is asked shows all of it.
    fn committed(&self, batch: CommittedBatch);

    /// Takes in what other processes committed, up to a position. When it returns, whatever is asked
    /// shows all of it.
    fn followed(&self, batch: Vec<Followed>, position: Position);

    /// The names that are held on to for lists, for some headers may not show them.
    fn names_held(&self) -> Vec<HeldName>;

    /// Every header shows the name that a customer got by this revision: it need not be held on to
    /// for lists any more.
    fn name_copied(&self, customer: EntityNumber, revision: Sequence);

    /// Gives the last uses of keys since this was asked before, to be written down.
    fn key_uses(&self) -> Vec<KeyUse>;

    /// Gives what may stay of the JSON of an event, or of a kept answer, of what was erased: everything
    /// but what people wrote.
    fn redacted(&self, json: &[u8]) -> Vec<u8>;

    /// The idempotency keys that are held in memory.
    fn keys(&self) -> &dyn KeyCache;
}

/// A customer's new name that is held on to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldName {
    /// The number of the customer.
    pub customer: EntityNumber,
    /// The customer's revision that gave it.
    pub revision: Sequence,
}

/// When an API key was used last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyUse {
    /// The API key that was used.
    pub key: KeyId,
    /// The instant of its last use.
    pub at: Timestamp,
}

/// The idempotency keys that are held in memory, as the store sees them: it takes the oldest out of
/// memory into slices of its own.
pub trait KeyCache: Send + Sync {
    /// Notes at the start where a key's answer stands, unless a newer answer is known.
    fn note_recovered(&self, key: &KeyHash, position: Position);

    /// The oldest keys, with the positions of their answers, where memory holds too many.
    fn overflow(&self) -> Option<Vec<KeyPosition>>;

    /// The oldest slices of about one size, where there are enough of them to become one.
    fn slices_to_merge(&self) -> Option<Vec<i64>>;

    /// The store holds the keys of this slice: memory lets them go, and the slices that they come
    /// from.
    fn put_behind(&self, slice: KeySlice, in_place_of: &[i64]);

    /// The time of all keys of this slice is over.
    fn drop_slice(&self, slice: i64);
}

/// Commits that became durable together.
#[derive(Debug, Default)]
pub struct CommittedBatch {
    /// The commits that took effect, in their order.
    pub commits: Vec<Committed>,
    /// The last position that is committed by now.
    pub position: Position,
}

/// A commit that took effect.
#[derive(Debug)]
pub struct Committed {
    /// The commit: everything that was changed.
    pub commit: Box<Commit>,
    /// The position and number of its first row.
    pub first: FirstRow,
}

/// Where a commit's rows begin.
#[derive(Debug, Clone, Copy, Default)]
pub struct FirstRow {
    /// The position of the first one among everything that was ever committed.
    pub position: Position,
    /// The number of the first one in its account and mode, where it is a public event.
    pub number: FeedNumber,
}

/// A commit of another process, as it stands in the store.
#[derive(Debug)]
pub struct Followed {
    /// The entity that was changed.
    pub subject: Subject,
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The sequence of its last row.
    pub sequence: Sequence,
    /// The position and number of its first row.
    pub first: FirstRow,
    /// Its public events.
    pub events: Vec<Event>,
    /// What became of the entity beside.
    pub change: FollowedChange,
    /// A customer's new name.
    pub renamed: Option<String>,
    /// Whether texts of the entity were redacted.
    pub redacts: bool,
    /// Whether it left a chore to be done.
    pub leaves_chore: bool,
}

/// What a commit of another process did to its entity, as far as anything in memory shows it.
#[derive(Debug)]
pub enum FollowedChange {
    /// Nothing that is held in memory.
    None,
    /// It put a record.
    Record(StoredRecord),
    /// It deleted the record.
    RecordGone,
    /// It took the entity away with all that was said of it: a conversation or a document.
    Erased,
    /// The conversation sleeps until then.
    Snoozed(Timestamp),
}
