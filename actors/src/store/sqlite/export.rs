//! Everything that the file holds, table by table. What is not handed out is made again or was of
//! no use any more:
//!
//! - `rows` are events; answers whose time is over stay behind. `edits` stand in the rows. `feed`,
//!   `feed_assignees`, `key_slices` and `older_keys` are made again from rows; `feed_numbers` is in
//!   the numbers of events.
//! - `store_key` is handed out as it is wrapped: its master key does not move.
//! - `conversations`, `records` with `names`, `departed`, `documents` with `readers`, `links`,
//!   `share_links`, `link_uses` and `anchors`, `versions` with `frame_parts`, `comments`, `renames`, `chores`, `key_uses`,
//!   `endpoints`, `deliveries`, `replays`, `counters`, `usage` and `operator` are handed out.
//! - of `figures`, `milestones` and `made` what is of the generation that is shown, and
//!   `figure_assignees`, are handed out: retention may have taken what they were made of.
//! - of `scopes` the floor is handed out, the number is the last one of the events; of `meta` what
//!   deliveries have reached, the others are marks of this file.
//! - `redactions` and `erasures` are done before. `loose_frames` are of no version. `imports` is of this file. `nonces` are of requests
//!   of the last minutes, and stay behind.

use std::io;

use rusqlite::{Connection, OptionalExtension, ToSql};
use serde::Deserialize;

use super::codec::{Columns, columns, int, only, whole};
use super::feed_numbers::FeedNumbers;
use super::transfer::SqliteTransfer;
use super::{frame_parts, slices, store_key};
use crate::store::{
    ActorItem, AnswerItem, Base64, ChoreItem, CommentItem, ConversationItem, CounterItem,
    DeliveryItem, DepartedItem, DocumentItem, EndpointItem, EventItem, Export, FeedItem,
    FigureAssigneeItem, FigureItem, Generation, Item, KeyUseItem, LinkUseItem, MadeItem, Marks,
    MilestonesItem, NameItem, OperatorItem, ReaderItem, RecordItem, RenameItem, ReplayItem,
    TakenAttachmentItem, Text, TransferError, UsageItem, VersionItem,
};
use colloquy_model::commit::NameField;
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::MessageId;
use colloquy_model::idempotency::KEPT_FOR;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

impl Export for SqliteTransfer {
    fn export(
        &mut self,
        take: &mut dyn FnMut(Item) -> io::Result<()>,
    ) -> Result<(), TransferError> {
        let connection = &self.connection;
        let mut take = |item| take(item).map_err(TransferError::Output);
        if let Some(key) = store_key::stored(connection)? {
            take(Item::StoreKey(key))?;
        }
        take(Item::Marks(marks(connection)?))?;
        each(connection, "operator", &mut |row| take(Item::Operator(row)))?;
        events(connection, &mut take)?;
        let conversation = |row| Item::Conversation(Box::new(row));
        each(connection, "conversations ORDER BY n", &mut |row| {
            take(conversation(row))
        })?;
        records(connection, &mut take)?;
        // A conversation that is gone says the rest of its identifier with each event.
        let erased = EventKind::ConversationErased as i64;
        let departed = format!(
            "departed WHERE n NOT IN (SELECT entity FROM rows WHERE happened = {erased}) ORDER BY n"
        );
        each(connection, &departed, &mut |row| take(Item::Departed(row)))?;
        documents(connection, &mut take)?;
        each(connection, "renames ORDER BY customer", &mut |row| {
            take(Item::Rename(row))
        })?;
        each(connection, "chores ORDER BY scope, kind, n", &mut |row| {
            take(Item::Chore(row))
        })?;
        let field = NameField::TakenAttachment as i64;
        let taken = format!("names WHERE field = {field} ORDER BY scope, value");
        each(connection, &taken, &mut |row| {
            take(Item::TakenAttachment(row))
        })?;
        each(connection, "key_uses ORDER BY n", &mut |row| {
            take(Item::KeyUse(row))
        })?;
        deliveries(connection, &mut take)?;
        let counters = "counters WHERE total <> 0 ORDER BY scope, field, value, status";
        each(connection, counters, &mut |row| take(Item::Counter(row)))?;
        feeds(connection, &mut take)?;
        figures(connection, &mut take)?;
        let usage = "usage ORDER BY account, day, credential, tail";
        each(connection, usage, &mut |row| take(Item::Usage(row)))
    }
}

/// What takes the things.
type Take<'t> = &'t mut dyn FnMut(Item) -> Result<(), TransferError>;

/// Hands out the rows of a table, one by one.
fn each<T: for<'r> Columns<'r>>(
    connection: &Connection,
    from: &str,
    take: &mut dyn FnMut(T) -> Result<(), TransferError>,
) -> Result<(), TransferError> {
    let mut query = connection.prepare(&format!("SELECT {} FROM {from}", T::COLUMNS))?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        take(T::read(row)?)?;
    }
    Ok(())
}

/// All rows of a table that belong to one thing.
fn all<T: for<'r> Columns<'r>>(
    connection: &Connection,
    from: &str,
    of: impl ToSql,
) -> rusqlite::Result<Vec<T>> {
    let sql = format!("SELECT {} FROM {from}", T::COLUMNS);
    let mut query = connection.prepare_cached(&sql)?;
    query.query_map([of], whole)?.collect()
}

/// The generation of figures that is shown; another one that is being made stays behind.
fn figures(connection: &Connection, take: Take<'_>) -> Result<(), TransferError> {
    let Generation(shown) = super::figures::generations(connection)?.shown.generation;
    let of_shown = |table: &str| format!("{table} WHERE generation = {shown}");
    each(connection, &of_shown("figures"), &mut |row| {
        take(Item::Figure(row))
    })?;
    each(connection, "figure_assignees", &mut |row| {
        take(Item::FigureAssignee(row))
    })?;
    each(connection, &of_shown("milestones"), &mut |row| {
        take(Item::Milestones(row))
    })?;
    each(connection, &of_shown("made"), &mut |row| {
        take(Item::Made(row))
    })
}

columns! { of FigureItem {
    tenant = "scope", length, assigned, start, channel, priority, opened, figures,
} }
columns! { of FigureAssigneeItem { number = "n", tail } }
columns! { of MilestonesItem { conversation = "entity", opened_at, answered } }
columns! { of MadeItem {
    tenant = "scope", day, credential = "nullif(credential, -1)", messages, documents, text_bytes,
} }

fn marks(connection: &Connection) -> rusqlite::Result<Marks> {
    let mut meta = connection.prepare("SELECT value FROM meta WHERE key = ?1")?;
    let mut mark = |key: &str| -> rusqlite::Result<i64> {
        let found = meta.query_row([key], only).optional()?;
        Ok(found.unwrap_or(0))
    };
    Ok(Marks {
        // Behind recovery it is the position that is given next.
        position: Position(mark("folded")?).previous().0,
        matched: mark("matched")?,
        matched_within: mark("matched_within")?,
        last_delivery: mark("last_delivery")?,
        counted: super::figures::generations(connection)?.shown.counted.0,
    })
}

columns! { of OperatorItem { hash } }

columns! { of UsageItem {
    account, day, credential, tail, requests, rate_limited, quota_exceeded, forbidden, deliveries, bytes_in, bytes_out,
} }

columns! {
    /// A row of the log of changes, with what is known of its entity.
    struct EventRow {
        pos: i64 = "r.pos",
        entity: i64 = "r.entity",
        /// The rest of the entity's identifier, where it is there.
        tail: Option<i64> = "coalesce(c.tail, k.tail, d.tail, p.tail)",
        record_kind: Option<i64> = "k.kind",
        is_document: bool = "d.n IS NOT NULL",
        seq: Option<i64> = "r.seq",
        happened: i64 = "r.happened",
        scope: i64 = "r.scope",
        number: Option<u64> = "r.number",
        at: i64 = "r.at",
        from_customer: i64 = "r.from_customer",
        from_agent: i64 = "r.from_agent",
        from_system: i64 = "r.from_system",
        last_message_at: Option<i64> = "r.last_message_at",
        channel: Option<i64> = "r.channel",
        priority: Option<i64> = "r.priority",
        assignee: Option<i64> = "r.assignee",
        sender: Option<i64> = "r.sender",
        text_bytes: Option<i64> = "r.text_bytes",
        by_key: Option<i64> = "r.by_key",
        by_user: Option<i64> = "r.by_user",
        by_address: Option<String> = "r.by_address",
        by_request: String = "r.by_request",
        salt: Option<Base64> = "r.salt",
        hash: Base64 = "r.hash",
        key: Option<Base64> = "r.key",
        request: Option<Base64> = "r.request",
        done: Option<i64> = "r.done",
        answer_id: Option<String> = "r.answer_id",
        etag: Option<String> = "r.etag",
        answer: Option<Text> = "r.answer",
        payload: Option<Text> = "r.payload",
    }
}

fn events(connection: &Connection, take: Take<'_>) -> Result<(), TransferError> {
    let numbers = FeedNumbers::of(connection)?;
    let kept_since = Timestamp::now() - KEPT_FOR;
    let from = "rows r LEFT JOIN conversations c ON c.n = r.entity
        LEFT JOIN records k ON k.n = r.entity LEFT JOIN documents d ON d.n = r.entity
        LEFT JOIN departed p ON p.n = r.entity ORDER BY r.pos";
    each(connection, from, &mut |row: EventRow| {
        let tenant = row.scope;
        let number = match row.number {
            Some(number) => Some(int(numbers.shown(tenant, number)?)),
            None => None,
        };
        let edits = row.edits(connection)?;
        let mut event = row.item();
        (event.number, event.edits) = (number, edits);
        if event.at < kept_since.0 {
            event.answer = None;
        }
        if event.seq.is_none() && event.answer.is_none() {
            return Ok(());
        }
        take(Item::Event(Box::new(event)))
    })
}

/// All that is to be known of an edit here.
#[derive(Deserialize)]
struct Edited {
    message_id: MessageId,
}

/// The identifier with which a record's payload begins, whatever kind it is of.
#[derive(Deserialize)]
struct Named {
    webhook_id: Option<serde_json::Value>,
}

impl EventRow {
    /// The sequence of the message that it edits.
    fn edits(&self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        if self.happened != EventKind::MessageUpdated as i64 {
            return Ok(None);
        }
        let payload = self.payload.as_ref().map(|payload| &*payload.0);
        let edited = payload.and_then(|payload| serde_json::from_slice::<Edited>(payload).ok());
        if let Some(Edited { message_id }) = edited {
            return Ok(Some(int(message_id.sequence().0)));
        }
        connection
            .prepare_cached("SELECT original FROM edits WHERE entity = ?1 AND pos = ?2")?
            .query_row([self.entity, self.pos], only)
            .optional()
    }

    /// The code of its entity's kind, as far as anything says it: of records that are gone only
    /// endpoints are asked for again.
    fn entity_kind(&self) -> Kind {
        if let Some(kind) = self.record_kind.and_then(Kind::from_code) {
            return kind;
        }
        let is_from = |kind: EventKind| self.happened >= kind as i64;
        if EventKind::of_row(self.happened).is_some_and(EventKind::is_of_conversation) {
            return Kind::Conversation;
        }
        if is_from(EventKind::RecordCreated) {
            let payload = self.payload.as_ref().map(|payload| &*payload.0);
            let named = payload.and_then(|json| serde_json::from_slice::<Named>(json).ok());
            match named.and_then(|named| named.webhook_id) {
                Some(_) => Kind::Webhook,
                None => Kind::Customer,
            }
        } else if is_from(EventKind::DocumentCreated) || self.is_document {
            Kind::Document
        } else {
            Kind::Conversation
        }
    }

    fn item(self) -> EventItem {
        let entity_kind = self.entity_kind() as i64;
        let answer = self.key.map(|key| AnswerItem {
            key,
            request: self.request.unwrap_or_else(|| Base64(Vec::new())),
            done: self.done.unwrap_or(0),
            id: self.answer_id,
            etag: self.etag,
            body: self.answer,
        });
        EventItem {
            position: self.pos,
            entity_kind,
            entity: self.entity,
            tail: self.tail.unwrap_or(0),
            seq: self.seq,
            tenant: self.scope,
            number: None,
            kind: self.happened,
            at: self.at,
            messages: [self.from_customer, self.from_agent, self.from_system],
            last_message_at: self.last_message_at,
            channel: self.channel,
            priority: self.priority,
            assignee: self.assignee,
            sender: self.sender,
            edits: None,
            text_bytes: self.text_bytes,
            by: ActorItem {
                key: self.by_key,
                user: self.by_user,
                address: self.by_address,
                request: self.by_request,
            },
            salt: self.salt,
            hash: self.hash,
            payload: self.payload,
            answer,
        }
    }
}

columns! { of ConversationItem {
    number = "n", tail, tenant = "scope", customer, customer_tail, customer_name,
    customer_revision, status, channel, priority, assignee, assignee_tail, metadata, closed_at,
    snoozed_until, activated_at = "roused_at", seq, messages, last_message_at, updated_at,
} }

columns! {
    /// A record without its names.
    struct RecordRow {
        n: i64,
        tail: i64,
        kind: i64,
        scope: i64,
        seq: i64,
        name: String,
        body: Text,
    }
}

columns! { of NameItem { field, value } }

fn records(connection: &Connection, take: Take<'_>) -> Result<(), TransferError> {
    each(connection, "records ORDER BY n", &mut |row: RecordRow| {
        let names = all(
            connection,
            "names WHERE n = ?1 ORDER BY field, value",
            row.n,
        )?;
        take(Item::Record(RecordItem {
            number: row.n,
            tail: row.tail,
            kind: row.kind,
            tenant: row.scope,
            seq: row.seq,
            name: row.name,
            body: row.body,
            names,
        }))
    })
}

columns! { of DepartedItem { number = "n", tail } }

columns! {
    /// A document's own row.
    struct DocumentRow {
        n: i64,
        tail: i64,
        scope: i64,
        seq: i64,
        updated_at: i64,
        title: String,
        content_type: i64,
        owner: Option<i64>,
        deleted_at: Option<i64>,
        body: Text,
    }
}

columns! { of ReaderItem { user, role } }
columns! { of LinkUseItem { share, uses } }
columns! {
    /// A share link of a document.
    struct LinkRow {
        hash: Base64,
    }
}
columns! {
    /// A document's share links as its actor reads them.
    struct ShareLinksRow {
        body: Text,
    }
}
columns! {
    /// Where a document's comments stand.
    struct AnchorsRow {
        places: Base64,
    }
}
columns! {
    /// A version, with its parents as the file holds them.
    struct VersionRow {
        document: i64,
        number: i64,
        id_number: i64,
        id_tail: i64,
        label: Option<String>,
        branch: String,
        parents: String,
        message: Option<String>,
        author: Option<i64>,
        author_tail: Option<i64>,
        at: i64,
        base: Option<i64>,
        parts: usize,
        frame: Vec<u8>,
    }
}
columns! { of CommentItem { document, number, body } }

fn documents(connection: &Connection, take: Take<'_>) -> Result<(), TransferError> {
    each(
        connection,
        "documents ORDER BY n",
        &mut |row: DocumentRow| {
            let n = row.n;
            let links = all(connection, "links WHERE document = ?1 ORDER BY hash", n)?;
            let share_links = all(connection, "share_links WHERE document = ?1", n)?;
            let anchors = all(connection, "anchors WHERE document = ?1", n)?;
            take(Item::Document(Box::new(DocumentItem {
                number: n,
                tail: row.tail,
                tenant: row.scope,
                seq: row.seq,
                updated_at: row.updated_at,
                title: row.title,
                content_type: row.content_type,
                owner: row.owner,
                deleted_at: row.deleted_at,
                body: row.body,
                readers: all(connection, "readers WHERE document = ?1 ORDER BY user", n)?,
                links: links.into_iter().map(|row: LinkRow| row.hash).collect(),
                share_links: share_links
                    .into_iter()
                    .map(|row: ShareLinksRow| row.body)
                    .next(),
                link_uses: all(
                    connection,
                    "link_uses WHERE document = ?1 ORDER BY share",
                    n,
                )?,
                anchors: anchors.into_iter().map(|row: AnchorsRow| row.places).next(),
            })))
        },
    )?;
    versions(connection, take)?;
    each(
        connection,
        "comments ORDER BY document, number",
        &mut |row| take(Item::Comment(row)),
    )
}

fn versions(connection: &Connection, take: Take<'_>) -> Result<(), TransferError> {
    let versions = "versions ORDER BY document, number";
    each(connection, versions, &mut |row: VersionRow| {
        let parents = row
            .parents
            .split(' ')
            .filter_map(|parent| parent.parse().ok());
        let frame = frame_parts::whole(connection, row.id_number, (row.parts, row.frame))?;
        take(Item::Version(Box::new(VersionItem {
            document: row.document,
            number: row.number,
            id_number: row.id_number,
            id_tail: row.id_tail,
            label: row.label,
            branch: row.branch,
            parents: parents.collect(),
            message: row.message,
            author: row.author,
            author_tail: row.author_tail,
            at: row.at,
            base: row.base,
            frame: Base64(frame),
        })))
    })
}

columns! { of RenameItem { customer, name, revision } }
columns! { of ChoreItem { tenant = "scope", kind, user = "n", tail } }

columns! { of TakenAttachmentItem { tenant = "scope", attachment = "value", conversation = "n" } }
columns! { of KeyUseItem { key = "n", at } }
columns! { of EndpointItem { number = "n", failing_since, given_up, unsettled } }
columns! { of DeliveryItem {
    number = "d", endpoint, lane, position = "pos", entity, kind = "happened",
    event_at = "coalesce((SELECT at FROM rows WHERE rows.pos = deliveries.pos), at)", at, state,
    attempts, due, log,
} }
columns! {
    /// A replay, with its kinds as the file holds them.
    struct ReplayRow {
        lane: i64,
        endpoint: i64,
        scope: i64,
        next: i64,
        last: i64,
        since: Option<i64>,
        until: Option<i64>,
        kinds: String,
    }
}

fn deliveries(connection: &Connection, take: Take<'_>) -> Result<(), TransferError> {
    each(connection, "endpoints ORDER BY n", &mut |row| {
        take(Item::Endpoint(row))
    })?;
    each(connection, "deliveries ORDER BY d", &mut |row| {
        take(Item::Delivery(Box::new(row)))
    })?;
    each(
        connection,
        "replays ORDER BY lane",
        &mut |row: ReplayRow| {
            take(Item::Replay(ReplayItem {
                lane: row.lane,
                endpoint: row.endpoint,
                tenant: row.scope,
                next: row.next,
                last: row.last,
                since: row.since,
                until: row.until,
                kinds: row.kinds.split_whitespace().map(str::to_owned).collect(),
            }))
        },
    )
}

columns! { of CounterItem { tenant = "scope", field, value, status, total } }

columns! {
    /// Up to which number retention has taken the events of an account and mode.
    struct FloorRow {
        scope: i64,
        floor: u64,
    }
}

fn feeds(connection: &Connection, take: Take<'_>) -> Result<(), TransferError> {
    let floors = "scopes WHERE floor > 0 ORDER BY scope";
    each(connection, floors, &mut |FloorRow { scope, floor }| {
        let slice = slices::read(connection, scope, slices::first_of(floor))?;
        let entry = slice.and_then(|slice| {
            let mut numbered = slice.numbered();
            numbered.find_map(|(number, entry)| (number == floor).then_some(entry.pos))
        });
        let missing = || TransferError::Missing(format!("the event {floor} of scope {scope}"));
        let Position(floor) = entry.ok_or_else(missing)?;
        take(Item::Feed(FeedItem {
            tenant: scope,
            floor,
        }))
    })
}
