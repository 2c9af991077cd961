//! Puts what another store held into the file: a block of a dump is one transaction, together with
//! the mark up to which the dump is there. The feed by account is made from the rows at the end, as
//! a start makes it.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{insert, only, update};
use super::transfer::{FileImport, SqliteTransfer, import_of};
use super::{feed_numbers, frame_parts, recovery, store_key, usage};
use crate::sealing::MasterKeys;
use crate::store::transfer::refuse_other_key;
use crate::store::{
    AnswerItem, ChoreItem, ConversationItem, CounterItem, DeliveryItem, DocumentItem, EventItem,
    FeedItem, Import, ImportMark, ImportProgress, Item, Marks, RecordItem, ReplayItem,
    TakenAttachmentItem, Text, TransferError, VersionItem,
};
use colloquy_model::commit::NameField;
use colloquy_model::event_kind::EventKind;

/// Blocks behind which SQLite's log is emptied.
const LOG_BLOCKS: u64 = 64;

impl Import for SqliteTransfer {
    fn progress(&mut self) -> Result<ImportProgress, TransferError> {
        let connection = &self.connection;
        Ok(match import_of(connection)? {
            Some(FileImport {
                mark,
                is_done: true,
            }) => ImportProgress::Done(mark),
            Some(FileImport {
                mark,
                is_done: false,
            }) => ImportProgress::Begun(mark),
            None if is_empty(connection)? => ImportProgress::Empty,
            None => ImportProgress::Occupied,
        })
    }

    fn write(&mut self, items: Vec<Item>, mark: ImportMark) -> Result<(), TransferError> {
        let transaction = self.connection.transaction()?;
        let mut block = Block::new(&transaction);
        block.master_keys = self.master_keys.as_ref();
        for item in items {
            block.put(item)?;
        }
        block.finish()?;
        note(&transaction, mark, Stage::Begun)?;
        transaction.commit()?;
        self.blocks += 1;
        if self.blocks.is_multiple_of(LOG_BLOCKS) {
            self.empty_log()?;
        }
        Ok(())
    }

    fn finish(&mut self, mark: ImportMark) -> Result<(), TransferError> {
        recovery::recover(&mut self.connection)?;
        // The next start would make the operators' token anew.
        let cleared = self.first_start.clear();
        cleared.map_err(|error| TransferError::Store(Box::new(error)))?;
        note(&self.connection, mark, Stage::Done)?;
        Ok(self.empty_log()?)
    }
}

/// Whether nothing was ever written.
fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let any = connection.query_row(
        "SELECT EXISTS(SELECT 1 FROM rows) OR EXISTS(SELECT 1 FROM records) OR EXISTS(SELECT 1 FROM operator)",
        [],
        only::<bool>,
    )?;
    Ok(!any)
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begun,
    Done,
}

/// Notes how far the import has come.
fn note(connection: &Connection, mark: ImportMark, stage: Stage) -> rusqlite::Result<()> {
    let lines = i64::try_from(mark.lines).unwrap_or(i64::MAX);
    let done = stage == Stage::Done;
    let changed = connection
        .prepare_cached("UPDATE imports SET lines = ?1, digest = ?2, done = ?3")?
        .execute(params![lines, mark.digest, done])?;
    if changed == 0 {
        insert!(connection, "INSERT INTO imports", {
            lines: lines,
            digest: mark.digest,
            done: done,
        })?;
    }
    Ok(())
}

/// The last event of an account and mode that is there.
#[derive(Debug, Clone, Copy, Default)]
struct LastEvent {
    number: i64,
    /// By how much cursors are ahead of it.
    lead: i64,
}

/// One block on its way into the file.
struct Block<'c> {
    connection: &'c Connection,
    /// What unwraps the store key.
    master_keys: Option<&'c MasterKeys>,
    /// Of the accounts and modes that the block has events of.
    last: HashMap<i64, LastEvent>,
}

impl<'c> Block<'c> {
    fn new(connection: &'c Connection) -> Self {
        Block {
            connection,
            master_keys: None,
            last: HashMap::new(),
        }
    }

    fn put(&mut self, item: Item) -> Result<(), TransferError> {
        let connection = self.connection;
        match item {
            Item::Marks(marks) => put_marks(connection, marks)?,
            Item::StoreKey(key) => {
                refuse_other_key(&key, self.master_keys)?;
                store_key::put(connection, &key)?;
            }
            Item::Operator(operator) => {
                insert!(connection, "INSERT INTO operator", { hash: operator.hash.0 })?;
            }
            Item::Event(event) => self.put_event(*event)?,
            Item::Conversation(conversation) => put_conversation(connection, *conversation)?,
            Item::Record(record) => put_record(connection, record)?,
            Item::Departed(user) => {
                insert!(connection, "INSERT INTO departed", { n: user.number, tail: user.tail })?;
            }
            Item::Document(document) => put_document(connection, *document)?,
            Item::Version(version) => put_version(connection, *version)?,
            Item::Comment(comment) => {
                insert!(connection, "INSERT INTO comments", {
                    document: comment.document,
                    number: comment.number,
                    body: text(comment.body),
                })?;
            }
            Item::Rename(rename) => {
                insert!(connection, "INSERT INTO renames", {
                    customer: rename.customer,
                    name: rename.name,
                    revision: rename.revision,
                })?;
            }
            Item::Chore(chore) => put_chore(connection, &chore)?,
            Item::TakenAttachment(taken) => put_taken(connection, taken)?,
            Item::KeyUse(used) => {
                insert!(connection, "INSERT INTO key_uses", { n: used.key, at: used.at })?;
            }
            Item::Endpoint(endpoint) => {
                insert!(connection, "INSERT INTO endpoints", {
                    n: endpoint.number,
                    failing_since: endpoint.failing_since,
                    given_up: endpoint.given_up,
                    unsettled: endpoint.unsettled,
                })?;
            }
            Item::Delivery(delivery) => put_delivery(connection, *delivery)?,
            Item::Replay(replay) => put_replay(connection, replay)?,
            Item::Counter(counter) => put_counter(connection, &counter)?,
            Item::Feed(feed) => put_floor(connection, &feed)?,
            Item::Figure(_) | Item::FigureAssignee(_) | Item::Milestones(_) | Item::Made(_) => {
                put_figures(connection, item)?
            }
            Item::Usage(used) => usage::put(connection, &used)?,
        }
        Ok(())
    }

    /// Writes how far numbers have come.
    fn finish(self) -> rusqlite::Result<()> {
        for (tenant, last) in self.last {
            insert!(self.connection, "INSERT INTO scopes", {
                scope: tenant,
                number: last.number,
            }, "ON CONFLICT DO UPDATE SET number = excluded.number")?;
        }
        Ok(())
    }

    /// The number of an event here, whose cursor shows this.
    fn next_number(&mut self, tenant: i64, shown: i64) -> rusqlite::Result<i64> {
        let mut last = match self.last.get(&tenant) {
            Some(last) => *last,
            None => last_event(self.connection, tenant)?,
        };
        last.number += 1;
        if shown - last.number != last.lead {
            last.lead = shown - last.number;
            feed_numbers::note(self.connection, tenant, last.number, shown)?;
        }
        self.last.insert(tenant, last);
        Ok(last.number)
    }

    fn put_event(&mut self, event: EventItem) -> Result<(), TransferError> {
        let number = match event.number {
            Some(shown) => Some(self.next_number(event.tenant, shown)?),
            None => None,
        };
        let edit = self.repoint(&event)?;
        let [from_customer, from_agent, from_system] = event.messages;
        let answer = event.answer.as_ref();
        insert!(self.connection, "INSERT INTO rows", {
            pos: event.position,
            entity: event.entity,
            seq: event.seq,
            happened: event.kind,
            scope: event.tenant,
            number: number,
            at: event.at,
            from_customer: from_customer,
            from_agent: from_agent,
            from_system: from_system,
            last_message_at: event.last_message_at,
            channel: event.channel,
            priority: event.priority,
            assignee: event.assignee,
            sender: event.sender,
            edit: edit,
            text_bytes: event.text_bytes,
            by_key: event.by.key,
            by_user: event.by.user,
            by_address: event.by.address,
            by_request: event.by.request,
            salt: event.salt.map(|salt| salt.0),
            hash: event.hash.0,
            key: answer.map(|answer| &answer.key.0),
            request: answer.map(|answer| &answer.request.0),
            done: answer.map(|answer| answer.done),
            answer_id: answer.and_then(|answer| answer.id.as_ref()),
            etag: answer.and_then(|answer| answer.etag.as_ref()),
            answer: answer.and_then(AnswerItem::body_bytes),
            payload: event.payload.map(|payload| payload.0),
        })?;
        if event.kind == EventKind::ConversationErased as i64 {
            insert!(self.connection, "INSERT INTO departed", { n: event.entity, tail: event.tail })?;
        }
        Ok(())
    }

    /// Points a message to its new edit, and numbers that; gives what it pointed to before.
    fn repoint(&self, event: &EventItem) -> Result<Option<i64>, TransferError> {
        let Some(original) = event.edits else {
            return Ok(None);
        };
        let (connection, entity) = (self.connection, event.entity);
        let before: Option<Option<i64>> = connection
            .prepare_cached("SELECT edit FROM rows WHERE entity = ?1 AND seq = ?2")?
            .query_row([entity, original], only)
            .optional()?;
        let missing =
            || TransferError::Missing(format!("the message edited at {}", event.position));
        let before = before.ok_or_else(missing)?;
        update!(connection, "UPDATE rows", { edit: event.position },
            "WHERE entity = ? AND seq = ?", entity, original)?;
        connection
            .prepare_cached(
                "INSERT INTO edits(entity, original, number, pos)
                 SELECT ?1, ?2, coalesce(max(number), 0) + 1, ?3 FROM edits
                 WHERE entity = ?1 AND original = ?2",
            )?
            .execute([entity, original, event.position])?;
        Ok(before)
    }
}

impl AnswerItem {
    fn body_bytes(&self) -> Option<&[u8]> {
        self.body.as_ref().map(|body| &*body.0)
    }
}

/// The last event that earlier blocks have brought.
fn last_event(connection: &Connection, tenant: i64) -> rusqlite::Result<LastEvent> {
    let number = connection
        .prepare_cached("SELECT number FROM scopes WHERE scope = ?1")?
        .query_row([tenant], only)
        .optional()?;
    let lead = connection
        .prepare_cached(
            "SELECT shown - number FROM feed_numbers WHERE scope = ?1 ORDER BY number DESC LIMIT 1",
        )?
        .query_row([tenant], only)
        .optional()?;
    Ok(LastEvent {
        number: number.unwrap_or(0),
        lead: lead.unwrap_or(0),
    })
}

/// Columns hold texts that are always text as such.
fn text(text: Text) -> String {
    match String::from_utf8(text.0) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

fn put_marks(connection: &Connection, marks: Marks) -> rusqlite::Result<()> {
    update!(connection, "UPDATE figure_generations", { counted: marks.counted },
        "WHERE generation = ?", FIRST_GENERATION)?;
    let marks = [
        ("folded", marks.position.saturating_add(1)),
        ("matched", marks.matched),
        ("matched_within", marks.matched_within),
        ("last_delivery", marks.last_delivery),
    ];
    for (key, value) in marks {
        insert!(connection, "INSERT OR REPLACE INTO meta", { key: key, value: value })?;
    }
    Ok(())
}

fn put_counter(connection: &Connection, item: &CounterItem) -> rusqlite::Result<()> {
    insert!(connection, "INSERT INTO counters", {
        scope: item.tenant,
        field: item.field,
        value: item.value,
        status: item.status,
        total: item.total,
    })?;
    Ok(())
}

/// The generation that a file begins with.
const FIRST_GENERATION: i64 = 1;

fn put_figures(connection: &Connection, item: Item) -> rusqlite::Result<()> {
    if let Item::Figure(figure) = item {
        insert!(connection, "INSERT INTO figures", {
            generation: FIRST_GENERATION,
            scope: figure.tenant,
            length: figure.length,
            assigned: figure.assigned,
            start: figure.start,
            channel: figure.channel,
            priority: figure.priority,
            opened: figure.opened,
            figures: text(figure.figures),
        })?;
    } else if let Item::FigureAssignee(user) = item {
        insert!(connection, "INSERT INTO figure_assignees", { n: user.number, tail: user.tail })?;
    } else if let Item::Milestones(milestones) = item {
        insert!(connection, "INSERT INTO milestones", {
            generation: FIRST_GENERATION,
            entity: milestones.conversation,
            opened_at: milestones.opened_at,
            answered: milestones.answered,
        })?;
    } else if let Item::Made(made) = item {
        insert!(connection, "INSERT INTO made", {
            generation: FIRST_GENERATION,
            scope: made.tenant,
            day: made.day,
            credential: made.credential.unwrap_or(-1),
            messages: made.messages,
            documents: made.documents,
            text_bytes: made.text_bytes,
        })?;
    }
    Ok(())
}

fn put_chore(connection: &Connection, item: &ChoreItem) -> rusqlite::Result<()> {
    insert!(connection, "INSERT INTO chores", {
        scope: item.tenant,
        kind: item.kind,
        n: item.user,
        tail: item.tail,
    })?;
    Ok(())
}

fn put_taken(connection: &Connection, item: TakenAttachmentItem) -> rusqlite::Result<()> {
    insert!(connection, "INSERT INTO names", {
        scope: item.tenant,
        field: NameField::TakenAttachment as i64,
        value: item.attachment,
        n: item.conversation,
    })?;
    Ok(())
}

fn put_conversation(connection: &Connection, item: ConversationItem) -> rusqlite::Result<()> {
    insert!(connection, "INSERT INTO conversations", {
        n: item.number,
        tail: item.tail,
        scope: item.tenant,
        customer: item.customer,
        customer_tail: item.customer_tail,
        customer_name: item.customer_name,
        customer_revision: item.customer_revision,
        status: item.status,
        channel: item.channel,
        priority: item.priority,
        assignee: item.assignee,
        assignee_tail: item.assignee_tail,
        metadata: text(item.metadata),
        closed_at: item.closed_at,
        seq: item.seq,
        messages: item.messages,
        last_message_at: item.last_message_at,
        updated_at: item.updated_at,
        snoozed_until: item.snoozed_until,
        roused_at: item.activated_at,
    })?;
    Ok(())
}

fn put_record(connection: &Connection, item: RecordItem) -> rusqlite::Result<()> {
    insert!(connection, "INSERT INTO records", {
        n: item.number,
        tail: item.tail,
        kind: item.kind,
        scope: item.tenant,
        seq: item.seq,
        name: item.name,
        body: text(item.body),
    })?;
    for name in item.names {
        insert!(connection, "INSERT INTO names", {
            scope: item.tenant,
            field: name.field,
            value: name.value,
            n: item.number,
        })?;
    }
    Ok(())
}

fn put_document(connection: &Connection, item: DocumentItem) -> rusqlite::Result<()> {
    let n = item.number;
    insert!(connection, "INSERT INTO documents", {
        n: n,
        tail: item.tail,
        scope: item.tenant,
        seq: item.seq,
        updated_at: item.updated_at,
        title: item.title,
        content_type: item.content_type,
        owner: item.owner,
        deleted: item.deleted_at.is_some(),
        deleted_at: item.deleted_at,
        body: text(item.body),
    })?;
    for reader in item.readers {
        insert!(connection, "INSERT INTO readers", {
            user: reader.user,
            document: n,
            role: reader.role,
        })?;
    }
    for link in item.links {
        insert!(connection, "INSERT INTO links", {
            hash: link.0,
            document: n,
            document_tail: item.tail,
            scope: item.tenant,
        })?;
    }
    if let Some(links) = item.share_links {
        insert!(connection, "INSERT INTO share_links", { document: n, body: text(links) })?;
    }
    for used in item.link_uses {
        insert!(connection, "INSERT INTO link_uses", {
            document: n,
            share: used.share,
            uses: used.uses,
        })?;
    }
    if let Some(anchors) = item.anchors {
        insert!(connection, "INSERT INTO anchors", { document: n, places: anchors.0 })?;
    }
    Ok(())
}

fn put_version(connection: &Connection, item: VersionItem) -> rusqlite::Result<()> {
    let parents: Vec<String> = item.parents.iter().map(i64::to_string).collect();
    let (parts, rest) = frame_parts::put_rest(connection, item.id_number, &item.frame.0)?;
    insert!(connection, "INSERT INTO versions", {
        document: item.document,
        number: item.number,
        id_number: item.id_number,
        id_tail: item.id_tail,
        label: item.label,
        branch: item.branch,
        parents: parents.join(" "),
        message: item.message,
        author: item.author,
        author_tail: item.author_tail,
        at: item.at,
        base: item.base,
        parts: parts,
        frame: rest,
    })?;
    Ok(())
}

fn put_delivery(connection: &Connection, item: DeliveryItem) -> rusqlite::Result<()> {
    insert!(connection, "INSERT INTO deliveries", {
        d: item.number,
        endpoint: item.endpoint,
        lane: item.lane,
        pos: item.position,
        entity: item.entity,
        happened: item.kind,
        at: item.at,
        state: item.state,
        attempts: item.attempts,
        due: item.due,
        log: item.log.map(|log| log.0),
    })?;
    Ok(())
}

fn put_replay(connection: &Connection, item: ReplayItem) -> rusqlite::Result<()> {
    insert!(connection, "INSERT INTO replays", {
        lane: item.lane,
        endpoint: item.endpoint,
        scope: item.tenant,
        next: item.next,
        last: item.last,
        since: item.since,
        until: item.until,
        kinds: item.kinds.join(" "),
    })?;
    Ok(())
}

/// The floor is the number of the last event up to its position.
fn put_floor(connection: &Connection, item: &FeedItem) -> rusqlite::Result<()> {
    let floor: Option<i64> = connection
        .prepare_cached(
            "SELECT number FROM rows WHERE pos <= ?1 AND scope = ?2 AND number IS NOT NULL
             ORDER BY pos DESC LIMIT 1",
        )?
        .query_row([item.floor, item.tenant], only)
        .optional()?;
    let floor = floor.unwrap_or(0);
    insert!(connection, "INSERT INTO scopes", {
        scope: item.tenant,
        number: floor,
        floor: floor,
    }, "ON CONFLICT DO UPDATE SET floor = excluded.floor")?;
    Ok(())
}
