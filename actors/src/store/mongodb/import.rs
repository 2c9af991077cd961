//! Puts what another store held into the database: a block of a dump is inserted, but for what is
//! there already, then the mark is moved up to it. Places of messages are carried over from the
//! events as always.

use std::collections::{BTreeMap, HashMap};

use mongodb::bson::{Bson, Document, doc, serialize_to_document};
use mongodb::error::Error;

use super::codec::{binary, code, uint};
use super::connection::answered;
use super::deliveries::{self, are_there};
use super::delivery_documents::NewAttempts;
use super::documents::{part_id, role_key};
use super::feed_numbers::{self, Step};
use super::log::{
    ActorDocument, AnswerDocument, ChoreDocument, LogDocument, RowDocument, answer_id, log_id,
};
use super::schema::{
    CHORES, COMMENTS, CONVERSATIONS, COUNTERS, Collections, DELIVERIES, DOCUMENTS, ENDPOINTS,
    FEEDS, FIGURE_ASSIGNEES, FIGURE_GENERATIONS, FIGURES, KEY_USES, LOG, MADE, META, MILESTONES,
    NAMES, RECORDS, RENAMES, REPLAYS, USAGE, VERSIONS,
};
use super::statements::Statements;
use super::transfer::{DatabaseImport, MongoTransfer, import_of, is_empty, note_import};
use super::{carry_over, figure_documents, figure_generations, open, positions, store_key, usage};
use crate::sealing::{MasterKeys, WrappedKey};
use crate::store::transfer::refuse_other_key;
use crate::store::transfer_items::COUNTS_DELIVERIES;
use crate::store::{
    AnswerItem, Base64, ChoreItem, ConversationItem, CounterItem, DeliveryItem, DepartedItem,
    DocumentItem, EndpointItem, EventItem, Import, ImportMark, ImportProgress, Item, Marks,
    RecordItem, ReplayItem, TakenAttachmentItem, Text, TransferError, VersionItem,
};
use colloquy_model::attempt::Attempt;
use colloquy_model::commit::NameField;
use colloquy_model::conversation::Status;
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

impl Import for MongoTransfer {
    fn progress(&mut self) -> Result<ImportProgress, TransferError> {
        let collections = &self.collections;
        let progress = self.runtime.block_on(async {
            Ok::<_, Error>(match import_of(collections).await? {
                Some(DatabaseImport {
                    mark,
                    is_done: true,
                }) => ImportProgress::Done(mark),
                Some(DatabaseImport {
                    mark,
                    is_done: false,
                }) => ImportProgress::Begun(mark),
                None if is_empty(collections).await? => ImportProgress::Empty,
                None => ImportProgress::Occupied,
            })
        })?;
        self.was_begun = matches!(progress, ImportProgress::Begun(_));
        Ok(progress)
    }

    fn write(&mut self, items: Vec<Item>, mark: ImportMark) -> Result<(), TransferError> {
        let mut block = Block {
            collections: &self.collections,
            master_keys: self.master_keys.as_ref(),
            leads: &mut self.leads,
            was_begun: self.was_begun,
            inserts: BTreeMap::new(),
            statements: Statements::default(),
            log: Vec::new(),
        };
        for item in items {
            block.put(item)?;
        }
        self.runtime.block_on(block.write(mark))?;
        Ok(())
    }

    fn finish(&mut self, mark: ImportMark) -> Result<(), TransferError> {
        let is_done = true;
        let done = note_import(&self.collections, DatabaseImport { mark, is_done });
        Ok(self.runtime.block_on(done)?)
    }
}

/// One block on its way into the database.
struct Block<'t> {
    collections: &'t Collections,
    /// What unwraps the store key.
    master_keys: Option<&'t MasterKeys>,
    /// By how much positions are ahead of the numbers that cursors show, by tenant.
    leads: &'t mut HashMap<i64, i64>,
    /// Whether an earlier run may have brought events of a tenant that is not known here.
    was_begun: bool,
    inserts: BTreeMap<&'static str, Vec<Document>>,
    statements: Statements,
    log: Vec<LogDocument>,
}

impl Block<'_> {
    /// A mark comes before everything, so that no server starts on a part, and the block's behind it.
    async fn write(self, mark: ImportMark) -> Result<(), Error> {
        let collections = self.collections;
        let begun = DatabaseImport {
            mark: ImportMark {
                lines: 0,
                digest: [0; 32],
            },
            is_done: false,
        };
        if import_of(collections).await?.is_none() {
            note_import(collections, begun).await?;
        }
        let mut statements = self.statements;
        statements.extend(carry_over::places(&self.log));
        let log = self.log.iter().map(serialize_to_document);
        let mut inserts = self.inserts;
        inserts.insert(LOG, log.collect::<Result<_, _>>().map_err(Error::custom)?);
        for (collection, documents) in inserts {
            insert(collections, collection, documents).await?;
        }
        if !statements.is_empty() {
            statements.run(&collections.database).await?;
        }
        let is_done = false;
        note_import(collections, DatabaseImport { mark, is_done }).await
    }

    fn insert(&mut self, collection: &'static str, document: Document) {
        self.inserts.entry(collection).or_default().push(document);
    }

    fn put_store_key(&mut self, key: WrappedKey) -> Result<(), TransferError> {
        refuse_other_key(&key, self.master_keys)?;
        let set = doc! {"$set": {"name": key.name, "wrapped": key.wrapped}};
        self.statements
            .put(META, store_key::STORE_KEY, Document::new(), set);
        Ok(())
    }

    fn put(&mut self, item: Item) -> Result<(), TransferError> {
        match item {
            Item::Marks(marks) => self.put_marks(marks),
            Item::StoreKey(key) => self.put_store_key(key)?,
            Item::Operator(operator) => {
                let set = doc! {"$setOnInsert": {"hash": binary(&operator.hash.0)}};
                self.statements
                    .put(META, open::OPERATOR, Document::new(), set);
            }
            Item::Event(event) => self.put_event(*event),
            Item::Conversation(conversation) => {
                self.insert(CONVERSATIONS, conversation_document(*conversation));
            }
            Item::Record(record) => self.put_record(record),
            Item::Departed(user) => self.insert(RECORDS, departed_document(&user)),
            Item::Document(document) => self.insert(DOCUMENTS, document_document(*document)),
            Item::Version(version) => self.insert(VERSIONS, version_document(*version)),
            Item::Comment(comment) => self.insert(
                COMMENTS,
                doc! {
                    "_id": part_id(comment.document, comment.number),
                    "document": comment.document, "number": comment.number,
                    "body": text(comment.body), "seq": 0_i64,
                },
            ),
            Item::Rename(rename) => self.insert(
                RENAMES,
                doc! {"_id": rename.customer, "name": rename.name, "revision": rename.revision},
            ),
            Item::Chore(chore) => self.put_chore(&chore),
            Item::TakenAttachment(taken) => self.put_taken(taken),
            Item::KeyUse(used) => self.insert(KEY_USES, doc! {"_id": used.key, "at": used.at}),
            Item::Endpoint(endpoint) => self.insert(ENDPOINTS, endpoint_document(&endpoint)),
            Item::Delivery(delivery) => {
                let delivery = delivery_document(*delivery)?;
                self.insert(DELIVERIES, delivery);
            }
            Item::Replay(replay) => self.insert(REPLAYS, replay_document(&replay)),
            Item::Counter(counter) => self.put_counter(&counter),
            Item::Feed(feed) => {
                let change = doc! {"$max": {"floor": feed.floor, "freed": 0_i64}};
                self.statements
                    .put(FEEDS, feed.tenant, Document::new(), change);
            }
            Item::Figure(figure) => self.insert(FIGURES, figure_documents::figure_document(figure)),
            Item::FigureAssignee(user) => self.insert(
                FIGURE_ASSIGNEES,
                doc! {"_id": user.number, "tail": user.tail},
            ),
            Item::Milestones(milestones) => {
                self.insert(
                    MILESTONES,
                    figure_documents::milestones_document(&milestones),
                );
            }
            Item::Made(made) => self.insert(MADE, figure_documents::made_document(&made)),
            Item::Usage(used) => self.insert(USAGE, usage::imported(&used)),
        }
        Ok(())
    }

    fn put_marks(&mut self, marks: Marks) {
        let meta = super::schema::META;
        let next = doc! {"$set": {"next": marks.position.saturating_add(1)}};
        self.statements
            .put(meta, positions::COUNT, Document::new(), next);
        self.insert(
            FIGURE_GENERATIONS,
            figure_generations::first_generation(Position(marks.counted)),
        );
        let carried = doc! {"$set": {"carried": marks.position}};
        self.statements
            .put(meta, positions::CARRIED, Document::new(), carried);
        let delivered = doc! {"$set": {
            "slice": 0_i64, "matched": marks.matched, "within": marks.matched_within,
            "last_delivery": marks.last_delivery,
        }};
        self.statements
            .put(meta, deliveries::MARK, Document::new(), delivered);
    }

    fn put_chore(&mut self, item: &ChoreItem) {
        let ChoreItem {
            tenant,
            kind,
            user,
            tail,
        } = *item;
        let chore = ChoreDocument {
            tenant,
            kind,
            user,
            tail,
        };
        let mut fields = chore.fields();
        fields.insert("_id", chore.id());
        self.insert(CHORES, fields);
    }

    fn put_taken(&mut self, item: TakenAttachmentItem) {
        let field = NameField::TakenAttachment as i32;
        self.insert(
            NAMES,
            doc! {
                "_id": format!("{}.{field}.{}", item.tenant, item.attachment),
                "tenant": item.tenant, "field": field, "value": item.attachment,
                "record": item.conversation, "at": 0_i64,
            },
        );
    }

    fn put_event(&mut self, event: EventItem) {
        if let Some(shown) = event.number {
            self.note_number(event.tenant, event.position, shown);
        }
        self.log.push(log_document(event));
    }

    /// Notes where cursors show another number than the position.
    fn note_number(&mut self, tenant: i64, position: i64, shown: i64) {
        let lead = position - shown;
        let known = self.leads.insert(tenant, lead);
        let known = known.or((!self.was_begun).then_some(0));
        if known != Some(lead) {
            let step = Step {
                tenant,
                position,
                shown,
            };
            feed_numbers::note(step, &mut self.statements);
        }
        if lead != 0 {
            let change = doc! {"$max": {
                "numbered_to": position, "floor": 0_i64, "freed": 0_i64,
            }};
            self.statements.put(FEEDS, tenant, Document::new(), change);
        }
    }

    fn put_record(&mut self, item: RecordItem) {
        let mut names = Vec::with_capacity(item.names.len());
        for name in item.names {
            let field = code(name.field);
            let base = format!("{}.{field}.{}", item.tenant, name.value);
            let is_unique = NameField::from_code(name.field).is_none_or(NameField::unique);
            let id = if is_unique {
                base
            } else {
                format!("{base}.{}", item.number)
            };
            names.push(id.clone());
            self.insert(
                NAMES,
                doc! {
                    "_id": id, "tenant": item.tenant, "field": field, "value": name.value,
                    "record": item.number, "at": 0_i64,
                },
            );
        }
        self.insert(
            RECORDS,
            doc! {
                "_id": item.number, "tail": item.tail, "kind": code(item.kind),
                "tenant": item.tenant, "seq": item.seq, "name": item.name,
                "names": names, "body": text(item.body), "gone": false,
            },
        );
    }

    /// Deliveries are counted in their endpoints.
    fn put_counter(&mut self, item: &CounterItem) {
        let CounterItem {
            tenant,
            field,
            value,
            status,
            total,
        } = *item;
        if field == COUNTS_DELIVERIES {
            let change = doc! {
                "$set": {format!("totals.{value}_{status}"): total},
                "$setOnInsert": {"slice": 0_i64, "given_up": 0_i64, "unsettled": 0},
            };
            self.statements
                .put(ENDPOINTS, tenant, Document::new(), change);
            return;
        }
        // Those of the first writer, as of before everything that it commits.
        self.insert(
            COUNTERS,
            doc! {
                "_id": format!("{tenant}.{field}.{value}.{status}.0"), "tenant": tenant,
                "field": code(field), "value": value, "status": code(status), "total": total,
                "last": 0_i64,
            },
        );
    }
}

/// A user who is no more, but whose work is told.
fn departed_document(user: &DepartedItem) -> Document {
    doc! {
        "_id": user.number, "tail": user.tail, "kind": Kind::User as i32, "tenant": 0_i64,
        "seq": 0_i64, "gone": true,
    }
}

fn endpoint_document(endpoint: &EndpointItem) -> Document {
    doc! {
        "_id": endpoint.number, "slice": 0_i64, "failing_since": endpoint.failing_since,
        "given_up": endpoint.given_up, "unsettled": code(endpoint.unsettled), "totals": {},
    }
}

/// Inserts documents, but for those that are there.
async fn insert(
    collections: &Collections,
    collection: &str,
    documents: Vec<Document>,
) -> Result<(), Error> {
    if documents.is_empty() {
        return Ok(());
    }
    let collection = collections.database.collection::<Document>(collection);
    let inserted = collection.insert_many(documents).ordered(false);
    match answered(inserted.into_future()).await {
        Ok(_) => Ok(()),
        Err(error) if are_there(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Texts are kept as such.
fn text(text: Text) -> String {
    match String::from_utf8(text.0) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

fn log_document(event: EventItem) -> LogDocument {
    let entity = uint(event.entity);
    let [from_customer, from_agent, from_system] = event.messages;
    let (id, first) = match event.seq {
        Some(seq) => (log_id(entity, Sequence(uint(seq))), seq),
        None => (answer_id(entity, Position(event.position)), 0),
    };
    let row = event.seq.map(|_| RowDocument {
        kind: code(event.kind),
        at: event.at,
        from_customer,
        from_agent,
        from_system,
        last_message_at: event.last_message_at,
        channel: event.channel.map(code),
        priority: event.priority.map(code),
        assignee: event.assignee,
        sender: event.sender.map(code),
        edits: event.edits,
        text_bytes: event.text_bytes,
        by: ActorDocument {
            key: event.by.key,
            user: event.by.user,
            address: event.by.address,
            request: event.by.request,
        },
        salt: event.salt.map(|Base64(salt)| binary(&salt)),
        hash: binary(&event.hash.0),
        payload: event.payload.map(text).unwrap_or_default(),
    });
    let (key, answer) = event
        .answer
        .map(|answer| answer_document(answer, event.at))
        .unzip();
    LogDocument {
        id,
        position: event.position,
        kind: code(event.entity_kind),
        entity: event.entity,
        tail: event.tail,
        tenant: event.tenant,
        node: 0,
        slot: 0,
        first,
        key,
        answer,
        rows: row.into_iter().collect(),
        header: None,
        redacts: None,
        takes: None,
        renamed: None,
        chore: None,
    }
}

fn answer_document(answer: AnswerItem, at: i64) -> (mongodb::bson::Binary, AnswerDocument) {
    let document = AnswerDocument {
        at,
        request: binary(&answer.request.0),
        done: answer.done,
        id: answer.id,
        etag: answer.etag,
        body: answer.body.map(|Text(body)| binary(&body)),
    };
    (binary(&answer.key.0), document)
}

fn conversation_document(item: ConversationItem) -> Document {
    let is_open = item.status != Status::Closed.code() && item.snoozed_until.is_none();
    let active_at = item.activated_at.max(item.last_message_at.unwrap_or(0));
    doc! {
        "_id": item.number, "tail": item.tail, "tenant": item.tenant,
        "customer": item.customer, "customer_tail": item.customer_tail,
        "customer_name": item.customer_name, "customer_revision": item.customer_revision,
        "status": code(item.status), "channel": code(item.channel),
        "priority": code(item.priority), "assignee": item.assignee,
        "assignee_tail": item.assignee_tail, "metadata": text(item.metadata),
        "closed_at": item.closed_at, "snoozed_until": item.snoozed_until,
        "activated_at": item.activated_at, "seq": item.seq, "messages": item.messages,
        "last_message_at": item.last_message_at, "updated_at": item.updated_at,
        "active_at": is_open.then_some(active_at),
    }
}

fn document_document(item: DocumentItem) -> Document {
    let readers = item.readers.iter();
    let readers =
        readers.flat_map(|reader| (0..=reader.role).map(|role| role_key(reader.user, role)));
    let uses = item.link_uses.iter();
    let uses: Document = uses
        .map(|used| (used.share.to_string(), Bson::from(used.uses)))
        .collect();
    let links = item.links.iter().map(|link| Bson::from(binary(&link.0)));
    let mut document = doc! {
        "_id": item.number, "tail": item.tail, "tenant": item.tenant, "seq": item.seq,
        "updated_at": item.updated_at, "sorted_title": item.title.to_ascii_lowercase(),
        "title": item.title, "content_type": item.content_type, "owner": item.owner,
        "deleted": item.deleted_at.is_some(), "deleted_at": item.deleted_at,
        "body": text(item.body), "gone": false,
        "readers": readers.map(Bson::from).collect::<Vec<Bson>>(),
        "links": links.collect::<Vec<Bson>>(), "link_uses": uses,
    };
    if let Some(links) = item.share_links {
        document.insert("share_links", text(links));
    }
    if let Some(Base64(anchors)) = item.anchors {
        document.insert("anchors", binary(&anchors));
    }
    document
}

fn version_document(item: VersionItem) -> Document {
    doc! {
        "_id": part_id(item.document, item.number), "document": item.document,
        "number": item.number, "id_number": item.id_number, "id_tail": item.id_tail,
        "label": item.label, "branch": item.branch, "parents": item.parents,
        "message": item.message, "author": item.author, "author_tail": item.author_tail,
        "at": item.at, "base": item.base, "frame": binary(&item.frame.0),
    }
}

fn delivery_document(item: DeliveryItem) -> Result<Document, TransferError> {
    let unreadable = |error: serde_json::Error| TransferError::Store(Box::new(error));
    let log: Vec<Attempt> = match &item.log {
        Some(Text(log)) => serde_json::from_slice(log).map_err(unreadable)?,
        None => Vec::new(),
    };
    let mut attempts = NewAttempts::default();
    attempts.add(u32::try_from(item.attempts).unwrap_or(u32::MAX), &log);
    let mut document = doc! {
        "_id": item.number, "slice": 0_i64, "endpoint": item.endpoint, "lane": item.lane,
        "entity": item.entity, "position": item.position, "event_at": item.event_at,
        "kind": code(item.kind), "at": item.at, "state": code(item.state),
        "attempts": item.attempts, "due": item.due,
    };
    document.extend(attempts.into_fields());
    Ok(document)
}

fn replay_document(item: &ReplayItem) -> Document {
    let kinds = item.kinds.iter().filter_map(|kind| {
        let mut events = EventKind::EVENTS.iter();
        events
            .find(|event| event.word() == kind)
            .map(|event| *event as i32)
    });
    doc! {
        "_id": item.lane, "slice": 0_i64, "endpoint": item.endpoint, "tenant": item.tenant,
        "next": item.next, "last": item.last, "since": item.since, "until": item.until,
        "kinds": kinds.collect::<Vec<i32>>(),
    }
}
