//! What a store holds, as it moves to another one: every thing by itself, in codes and numbers that
//! mean the same in every store. What a store can make again from these (places, totals, indexes,
//! marks of its own) does not move.

use std::error::Error;
use std::io;

use serde::{Deserialize, Serialize};

use crate::sealing::{MasterKeys, UnwrapError, WrappedKey};

use super::transfer_items::{
    ChoreItem, CommentItem, ConversationItem, CounterItem, DeliveryItem, DepartedItem,
    DocumentItem, EndpointItem, EventItem, FeedItem, FigureAssigneeItem, FigureItem, KeyUseItem,
    MadeItem, Marks, MilestonesItem, OperatorItem, RecordItem, RenameItem, ReplayItem,
    TakenAttachmentItem, UsageItem, VersionItem,
};

/// A store out of which everything can be taken while no server uses it.
pub trait Export {
    /// Hands out everything that the store holds, each thing once and in the order of [`Item`]'s
    /// variants. What was still to be erased is erased before.
    ///
    /// # Errors
    /// The store can't be read, or whoever takes the things can't go on.
    fn export(&mut self, take: &mut dyn FnMut(Item) -> io::Result<()>)
    -> Result<(), TransferError>;
}

/// A store into which what another one held can be put while no server uses it.
pub trait Import {
    /// How far an import has come.
    ///
    /// # Errors
    /// The store can't be read.
    fn progress(&mut self) -> Result<ImportProgress, TransferError>;

    /// Writes some things, behind all that were written before, and that the import has come so far.
    /// After a crash things may be there without the mark: they are written again.
    ///
    /// # Errors
    /// The store can't be written.
    fn write(&mut self, items: Vec<Item>, mark: ImportMark) -> Result<(), TransferError>;

    /// Makes what the store makes of all that was written, and lets servers start on it.
    ///
    /// # Errors
    /// The store can't be written.
    fn finish(&mut self, mark: ImportMark) -> Result<(), TransferError>;
}

/// Up to where a dump was written into a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportMark {
    /// How many lines of the dump stand before.
    pub lines: u64,
    /// The SHA-256 of these lines.
    pub digest: [u8; 32],
}

/// How far an import into a store has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportProgress {
    /// The store holds nothing.
    Empty,
    /// An import came so far and did not end.
    Begun(ImportMark),
    /// An import ended here.
    Done(ImportMark),
    /// The store holds something that no import brought.
    Occupied,
}

/// Why something can't be moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store, in its own words.
    #[error("the store: {0}")]
    Store(Box<dyn Error + Send + Sync>),
    /// Whoever takes what is exported can't go on.
    #[error(transparent)]
    Output(io::Error),
    /// The master keys at hand do not open what is imported.
    #[error("the master key: {0}")]
    OtherMasterKey(#[from] UnwrapError),
    /// A thing names another one that was not written before.
    #[error("{0} is not there")]
    Missing(String),
}

/// One thing that a store holds. The codes of kinds, states and counters are those of the stores.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// The store key, wrapped under the master key of the store that it came from.
    StoreKey(WrappedKey),
    /// Where everything stands.
    Marks(Marks),
    /// How operators are known, where the first start made their token.
    Operator(OperatorItem),
    /// What happened, with the answer that is kept of it; by position.
    Event(Box<EventItem>),
    /// A conversation as lists show it.
    Conversation(Box<ConversationItem>),
    /// An account, key, user, customer, webhook endpoint or the settings of supervision.
    Record(RecordItem),
    /// A user who is no more, but whose work is told.
    Departed(DepartedItem),
    /// A document without its versions and comments.
    Document(Box<DocumentItem>),
    /// A version of a document.
    Version(Box<VersionItem>),
    /// A comment on a document.
    Comment(CommentItem),
    /// A customer's new name that some conversations do not show yet.
    Rename(RenameItem),
    /// What is still to be done.
    Chore(ChoreItem),
    /// An attachment that a conversation has taken for one of its messages.
    TakenAttachment(TakenAttachmentItem),
    /// When a key was used last.
    KeyUse(KeyUseItem),
    /// What a webhook endpoint has come to.
    Endpoint(EndpointItem),
    /// A delivery to a webhook endpoint.
    Delivery(Box<DeliveryItem>),
    /// A replay whose deliveries are not all made.
    Replay(ReplayItem),
    /// How many there are of what lists count.
    Counter(CounterItem),
    /// Where the events of an account and mode begin.
    Feed(FeedItem),
    /// What conversations have come to in an interval.
    Figure(FigureItem),
    /// A user who is or was somebody's assignee.
    FigureAssignee(FigureAssigneeItem),
    /// The milestones of a conversation.
    Milestones(MilestonesItem),
    /// What was made with a credential on a day.
    Made(MadeItem),
    /// What an account used on one day, by one credential.
    Usage(UsageItem),
}

impl Item {
    /// The name of its kind, as a dump writes it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Item::StoreKey(_) => "store_key",
            Item::Marks(_) => "marks",
            Item::Operator(_) => "operator",
            Item::Event(_) => "event",
            Item::Conversation(_) => "conversation",
            Item::Record(_) => "record",
            Item::Departed(_) => "departed",
            Item::Document(_) => "document",
            Item::Version(_) => "version",
            Item::Comment(_) => "comment",
            Item::Rename(_) => "rename",
            Item::Chore(_) => "chore",
            Item::TakenAttachment(_) => "taken_attachment",
            Item::KeyUse(_) => "key_use",
            Item::Endpoint(_) => "endpoint",
            Item::Delivery(_) => "delivery",
            Item::Replay(_) => "replay",
            Item::Counter(_) => "counter",
            Item::Feed(_) => "feed",
            Item::Figure(_) => "figure",
            Item::FigureAssignee(_) => "figure_assignee",
            Item::Milestones(_) => "milestones",
            Item::Made(_) => "made",
            Item::Usage(_) => "usage",
        }
    }
}

/// Refuses a store key that none of the master keys at hand unwraps.
///
/// # Errors
/// That none does.
pub(super) fn refuse_other_key(
    key: &WrappedKey,
    keys: Option<&MasterKeys>,
) -> Result<(), TransferError> {
    let Some(keys) = keys else {
        let under = key.master_key().ok_or(UnwrapError::Damaged)?;
        return Err(UnwrapError::other(under, None).into());
    };
    keys.unwrap_key(key)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::store::Text;

    #[test]
    fn json_is_written_as_it_is_and_everything_reads_back_byte_for_byte() {
        let texts: [&[u8]; 9] = [
            r#"{"content":"caf\u00e9 ☕"}"#.as_bytes(),
            br#"{"b":1,"a":1.50}"#,
            b"null",
            b"",
            b"{\"a\":\n1}",
            b" 1 ",
            b"\xff\x00",
            b"{broken",
            br#"{"$bytes":"AAAA"}"#,
        ];
        for (index, text) in texts.into_iter().enumerate() {
            let item = CommentItem {
                document: 1,
                number: 2,
                body: Text(text.to_vec()),
            };
            let line = serde_json::to_string(&Item::Comment(item)).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(line.contains("$bytes"), index > 2, "{line}");
            let Item::Comment(read) = serde_json::from_str(&line).unwrap() else {
                unreachable!("{line}");
            };
            assert_eq!(read.body.0, text);
        }
    }
}
