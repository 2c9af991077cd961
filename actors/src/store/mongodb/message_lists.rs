//! Messages by their place among those of their conversation, and their earlier texts. The places
//! stand in a collection of their own, the texts in the log: a page reads the first, then the second.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use mongodb::bson::{Document, doc};
use serde_json::value::RawValue;

use super::codec::{damaged, failed, int, uint};
use super::connection::answered;
use super::find::{all, named, one};
use super::loads;
use super::log::{LogDocument, RowDocument};
use super::places::{EditDocument, PlaceDocument, message_id};
use super::schema::{CONVERSATIONS, Collections, LOG, MESSAGES};
use crate::sealing::texts;
use crate::store::{MessageQuery, ReadError, RevisionQuery, StoredMessage, StoredPage};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{MessageView, RevisionView, SenderType};
use colloquy_model::entity::Subject;
use colloquy_model::id::MessageId;
use colloquy_model::page::{Order, Start};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Documents of the log that hold texts.
struct Texts(HashMap<String, LogDocument>);

impl Texts {
    /// Reads those that hold these rows.
    async fn of(collections: &Collections, rows: &[EditDocument]) -> Result<Self, ReadError> {
        let mut ids: Vec<&str> = rows.iter().map(|row| row.stored_in.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        let filter = doc! {"_id": {"$in": ids}};
        let found: Vec<LogDocument> = all(collections, LOG, filter, doc! {"_id": 1}).await?;
        let by_id = found.into_iter().map(|found| (found.id.clone(), found));
        Ok(Texts(by_id.collect()))
    }

    fn row(&self, row: &EditDocument) -> Result<&RowDocument, ReadError> {
        let found = self.0.get(&row.stored_in);
        found
            .and_then(|document| document.row(Sequence(uint(row.seq))))
            .ok_or_else(|| damaged(&row.stored_in, "a message's row is not there").into())
    }
}

/// The sequence of a message's row, and whether this very message has it.
fn place_of(conversation: Subject, message: MessageId) -> Document {
    doc! {"_id": message_id(int(conversation.number), message.sequence())}
}

/// A text as its row has it.
pub(super) fn text(row: &RowDocument) -> Result<MessageView, ReadError> {
    let text = texts::opened_text(&row.payload);
    let text = text.map_err(|error| damaged("a message's text", error))?;
    serde_json::from_str(&text).map_err(|error| damaged("a message's text", error).into())
}

/// A message as it stands now.
pub(super) async fn message(
    collections: &Collections,
    conversation: Subject,
    message: MessageId,
) -> Result<Option<StoredMessage>, ReadError> {
    let found = stored(collections, conversation, message).await?;
    Ok(found.map(|(stored, _)| stored))
}

/// The same outside of the conversation's actor: none where the conversation is gone.
pub(super) async fn shown(
    collections: &Collections,
    conversation: Subject,
    message: MessageId,
) -> Result<Option<StoredMessage>, ReadError> {
    let (is_there, found) = tokio::join!(
        loads::is_conversation_there(collections, conversation),
        stored(collections, conversation, message)
    );
    let is_there = is_there?;
    Ok(found?.map(|(stored, _)| stored).filter(|_| is_there))
}

async fn stored(
    collections: &Collections,
    conversation: Subject,
    message: MessageId,
) -> Result<Option<(StoredMessage, PlaceDocument)>, ReadError> {
    let filter = place_of(conversation, message);
    let Some(place) = one::<PlaceDocument>(collections, MESSAGES, filter).await? else {
        return Ok(None);
    };
    let Some(latest) = place.now() else {
        return Ok(None);
    };
    let texts = Texts::of(collections, std::slice::from_ref(&latest)).await?;
    let now = text(texts.row(&latest)?)?;
    if now.message_id != message {
        return Ok(None);
    }
    let tenant = texts.0.get(&latest.stored_in).map(LogDocument::tenant);
    let stored = StoredMessage {
        tenant: tenant.unwrap_or(Tenant::OPERATORS),
        sequence: Sequence(uint(place.seq)),
        latest: Sequence(uint(latest.seq)),
        edits: u64::try_from(place.edits.len()).unwrap_or(u64::MAX),
        now,
    };
    Ok(Some((stored, place)))
}

/// A page of a message's earlier texts.
pub(super) async fn revisions(
    collections: &Collections,
    query: RevisionQuery,
) -> Result<Option<StoredPage<Bytes>>, ReadError> {
    let (is_there, found) = tokio::join!(
        loads::is_conversation_there(collections, query.conversation),
        stored(collections, query.conversation, query.message)
    );
    let is_there = is_there?;
    let found = found?.filter(|(found, _)| is_there && found.tenant == query.tenant);
    let Some((message, place)) = found else {
        return Ok(None);
    };
    let skip = match query.paging.start {
        Start::Offset(skip) => skip.min(message.edits),
        Start::After(_) | Start::Before(_) => 0,
    };
    let count = u64::from(query.paging.limit).min(message.edits - skip);
    let is_descending = query.paging.order == Order::Desc;
    let first = if is_descending {
        message.edits - skip - count
    } else {
        skip
    };
    let numbers = first..first + count;
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let rows: Vec<EditDocument> = (first..=first + count)
        .filter_map(|edits| place.text(number(edits)))
        .collect();
    let texts = Texts::of(collections, &rows).await?;
    let mut items = Vec::with_capacity(rows.len());
    for (before, edit) in rows
        .iter()
        .zip(rows.iter().skip(1))
        .take(number(numbers.end))
    {
        let mut earlier = text(texts.row(before)?)?;
        if message.now.redacted {
            // What the log still holds of it is nobody's to see.
            earlier.erase();
        }
        items.push(revision(earlier, texts.row(edit)?.at));
    }
    if is_descending {
        items.reverse();
    }
    Ok(Some(StoredPage {
        items,
        total: message.edits,
        before: skip > 0,
        after: skip + count < message.edits,
    }))
}

/// An earlier text as the interface shows it, in JSON.
fn revision(text: MessageView, replaced_at: i64) -> Bytes {
    let MessageView {
        content, metadata, ..
    } = text;
    // A shape of ours: it can't fail.
    serde_json::to_vec(&RevisionView {
        content,
        metadata,
        replaced_at: Timestamp(replaced_at),
    })
    .unwrap_or_default()
    .into()
}

/// The messages of one conversation that the filter lets through, each with its rank: from 1.
struct Transcript<'c> {
    collections: &'c Collections,
    conversation: i64,
    sender: Option<SenderType>,
}

/// Consecutive ranks: from the first to one beyond the last.
#[derive(Debug, Clone, Copy)]
struct RankRange {
    first: u64,
    end: u64,
}

/// A page of messages as JSON; none where the conversation is not there for this caller.
pub(super) async fn messages(
    collections: &Collections,
    query: MessageQuery,
) -> Result<Option<StoredPage<Arc<str>>>, ReadError> {
    let mut filter = named(query.conversation);
    filter.insert("tenant", query.tenant.number());
    if one::<Document>(collections, CONVERSATIONS, filter)
        .await?
        .is_none()
    {
        return Ok(None);
    }
    let mut cursor = None;
    if let Some((at, field)) = query.paging.start.cursor() {
        let id = MessageId::from_parts(at.number, at.tail);
        let found = stored(collections, query.conversation, id).await?;
        let (_, place) = found.ok_or(ReadError::NoCursor(field))?;
        cursor = Some(uint(place.nth));
    }
    let transcript = Transcript {
        collections,
        conversation: int(query.conversation.number),
        sender: query.sender,
    };
    transcript.page(&query, cursor).await.map(Some)
}

impl Transcript<'_> {
    fn filter(&self) -> Document {
        let mut filter = doc! {"conversation": self.conversation};
        if let Some(sender) = self.sender {
            filter.insert("sender", super::codec::code(SenderType::code(sender)));
        }
        filter
    }

    /// The field that holds the rank.
    fn rank_field(&self) -> &'static str {
        match self.sender {
            None => "nth",
            Some(_) => "nth_of_sender",
        }
    }

    /// How many of the filtered messages are among the first so many of the conversation.
    async fn rank_up_to(&self, nth: u64) -> Result<u64, ReadError> {
        if nth == 0 {
            return Ok(0);
        }
        let mut filter = self.filter();
        filter.insert("nth", doc! {"$lte": int(nth)});
        let messages = self.collections.messages.clone_with_type::<PlaceDocument>();
        let last = messages.find_one(filter).sort(doc! {self.rank_field(): -1});
        let last = answered(last.into_future()).await;
        let last = last.map_err(|error| failed(&error))?;
        Ok(last.map_or(0, |last| match self.sender {
            None => uint(last.nth),
            Some(_) => uint(last.nth_of_sender),
        }))
    }

    async fn page(
        &self,
        query: &MessageQuery,
        cursor: Option<u64>,
    ) -> Result<StoredPage<Arc<str>>, ReadError> {
        let total = self.rank_up_to(int(u64::MAX).unsigned_abs()).await?;
        let RankRange { first, end } = self.ranks(query, cursor, total).await?;
        let end = end.min(total + 1).max(first);
        let mut items = self.read(RankRange { first, end }).await?;
        let is_descending = query.paging.order == Order::Desc;
        if is_descending {
            items.reverse();
        }
        let (below, above) = (first > 1, end <= total);
        let (before, after) = if is_descending {
            (above, below)
        } else {
            (below, above)
        };
        Ok(StoredPage {
            items,
            total,
            before,
            after,
        })
    }

    /// The ranks that stand on the page.
    async fn ranks(
        &self,
        query: &MessageQuery,
        cursor: Option<u64>,
        total: u64,
    ) -> Result<RankRange, ReadError> {
        let limit = u64::from(query.paging.limit);
        let is_descending = query.paging.order == Order::Desc;
        let beyond = |first: u64| RankRange {
            first,
            end: first.saturating_add(limit).min(total + 1).max(first),
        };
        // What came since the total was read stands on no page of it, and takes no place there.
        let below = |end: u64| {
            let end = end.min(total + 1).max(1);
            let first = end.saturating_sub(limit).max(1);
            RankRange { first, end }
        };
        if query.after_seq.is_some() || query.before_seq.is_some() {
            let low = match query.after_seq {
                Some(seq) => self.rank_up_to(seq).await? + 1,
                None => 1,
            };
            let high = match query.before_seq {
                Some(seq) => self.rank_up_to(seq.saturating_sub(1)).await? + 1,
                None => total + 1,
            };
            let ranks = if is_descending || query.after_seq.is_none() {
                below(high)
            } else {
                beyond(low)
            };
            let first = ranks.first.max(low);
            let end = ranks.end.min(high).max(first);
            return Ok(RankRange { first, end });
        }
        let nth = cursor.unwrap_or(0);
        Ok(match (query.paging.start, is_descending) {
            (Start::Offset(skip), false) => beyond(skip.saturating_add(1).min(total + 1)),
            (Start::Offset(skip), true) => below((total + 1).saturating_sub(skip)),
            (Start::After(_), false) | (Start::Before(_), true) => {
                beyond(self.rank_up_to(nth).await? + 1)
            }
            (Start::After(_), true) | (Start::Before(_), false) => {
                below(self.rank_up_to(nth.saturating_sub(1)).await? + 1)
            }
        })
    }

    /// The texts of these messages as they stand now, in order.
    async fn read(&self, range: RankRange) -> Result<Vec<Arc<str>>, ReadError> {
        let RankRange { first, end } = range;
        if first >= end {
            return Ok(Vec::new());
        }
        let mut filter = self.filter();
        let field = self.rank_field();
        filter.insert(field, doc! {"$gte": int(first), "$lt": int(end)});
        let places: Vec<PlaceDocument> =
            all(self.collections, MESSAGES, filter, doc! {field: 1}).await?;
        let rows: Vec<EditDocument> = places.iter().filter_map(PlaceDocument::now).collect();
        let texts = Texts::of(self.collections, &rows).await?;
        let shown = |row: &EditDocument| {
            let payload = &texts.row(row)?.payload;
            serde_json::from_str::<&RawValue>(payload)
                .map_err(|error| damaged("a message's text", error))?;
            Ok(Arc::from(payload.as_str()))
        };
        rows.iter().map(shown).collect()
    }
}
