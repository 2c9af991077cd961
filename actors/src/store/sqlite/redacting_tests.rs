//! Redactions that take many slices: what they leave to be seen meanwhile, across a crash, and of
//! files of before.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::pace::Phase;
use super::redacting::{Redacting, Veil};
use super::tests::{Bare, Folder};
use super::{events, loads, revisions};
use crate::conversation::messages::{RedactMessage, SendMessage};
use crate::idempotency::{Idempotency, Known};
use crate::store::contract::{Bench, House, wait};
use crate::store::{EventQuery, FeedRow, RevisionQuery, StoredMessage, StoredPage};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::commit::{Commit, NewRow};
use colloquy_model::conversation::{MessageCounts, MessageView};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::{ConversationId, MessageId};
use colloquy_model::idempotency::Fingerprint;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Incarnation;

const MARKER: &str = "hocus-pocus-27182";
/// Some slices more than one transaction erases.
const EDITS: usize = 3_000;

fn tenant() -> Tenant {
    Tenant::of(1, Mode::Live)
}

/// A message that was edited very often, as the rules of today would not have it.
struct Often {
    bare: Bare,
    conversation: ConversationId,
    first: MessageView,
    counts: MessageCounts,
    sequence: u64,
}

impl Often {
    fn new() -> Self {
        let house = House::<Folder>::new();
        let customer = house.customer(tenant(), "Ada");
        let mut conversation = house.conversation(tenant(), customer, None);
        let text = json!({"content": format!("{MARKER} 0"), "metadata": {"note": MARKER}});
        let text: SendMessage = serde_json::from_value(text).unwrap();
        let sent = conversation.ask_with_key("its key", text).unwrap();
        let id = conversation.id;
        house.store().close();
        let bare = Bare::on(house.bench().killed());
        let first: MessageView = serde_json::from_slice(&sent.body).unwrap();
        let counts = MessageCounts {
            customer: 1,
            last_message_at: Some(first.sent_at),
            ..MessageCounts::default()
        };
        let mut often = Often {
            bare,
            conversation: id,
            first,
            counts,
            sequence: 2,
        };
        let edits: Vec<Commit> = (1..=EDITS)
            .map(|n| often.edit(&format!("{MARKER} {n} {}", "x".repeat(900))))
            .collect();
        let incarnation = Incarnation::next();
        let settled = often
            .bare
            .batch(edits.into_iter().map(|edit| (incarnation, edit)).collect());
        assert!(settled.iter().all(Result::is_ok));
        often
    }

    fn subject(&self) -> Subject {
        Subject {
            kind: Kind::Conversation,
            number: self.conversation.number(),
            tail: self.conversation.tail(),
        }
    }

    fn id(&self) -> MessageId {
        self.first.message_id
    }

    /// One row more of the message.
    fn edit(&mut self, content: &str) -> Commit {
        let at = self.first.sent_at.0 + i64::try_from(self.sequence).unwrap();
        let text = MessageView {
            content: content.to_owned(),
            edited_at: Some(Timestamp(at)),
            ..self.first.clone()
        };
        self.row(&text, Timestamp(at))
    }

    fn redaction(&mut self) -> Commit {
        let mut text = self.first.clone();
        text.erase();
        Commit {
            redacts: Some(Sequence(2)),
            ..self.row(&text, Timestamp(self.first.sent_at.0 + 1_000_000))
        }
    }

    fn row(&mut self, text: &MessageView, at: Timestamp) -> Commit {
        let payload = Bytes::from(serde_json::to_vec(text).unwrap());
        let row = NewRow {
            counts: self.counts,
            edits: Some(Sequence(2)),
            ..NewRow::new(EventKind::MessageUpdated, payload)
        };
        self.sequence += 1;
        let caller = Caller {
            tenant: tenant(),
            actor: Actor::server("a test"),
        };
        Commit {
            rows: vec![row],
            ..Commit::new(self.subject(), Sequence(self.sequence - 1), caller, at)
        }
    }

    fn redact(&mut self) {
        let redaction = self.redaction();
        assert_eq!(
            self.bare.batch(vec![(Incarnation::next(), redaction)]),
            [Ok(())]
        );
    }

    /// Everything that readers show of it.
    fn shown(&self) -> Vec<Bytes> {
        let connection = &self.bare.writer.connection;
        let mut shown = Vec::new();
        for source in [EventSource::Entity(self.subject()), EventSource::Account] {
            let filter = EventFilter::default();
            let query = EventQuery {
                tenant: tenant(),
                source,
                after: StreamOffset(0),
                until: None,
                filter,
                limit: 10_000,
                total: true,
            };
            let fresh = match query.source {
                EventSource::Account => self.bare.writer.slicing.fresh().of(tenant().number()),
                EventSource::Entity(_) => None,
            };
            let page = events::page(connection, fresh, &query)
                .unwrap()
                .unwrap()
                .unwrap();
            assert!(page.events.len() > EDITS);
            shown.extend(page.events.iter().map(|event| event.payload.clone()));
        }
        for row in events::behind(connection, Position(0), 10_000).unwrap() {
            let FeedRow::Event(event) = row else { continue };
            shown.push(
                events::at(connection, event.position)
                    .unwrap()
                    .unwrap()
                    .payload
                    .clone(),
            );
            shown.push(event.payload.clone());
        }
        let mut keyed = connection
            .prepare("SELECT pos FROM rows WHERE key IS NOT NULL")
            .unwrap();
        for pos in keyed.query_map([], |row| row.get(0).map(Position)).unwrap() {
            shown.push(loads::kept(connection, pos.unwrap()).unwrap().unwrap().body);
        }
        shown.extend(self.revisions(0, 10_000, Order::Asc).items);
        shown
    }

    fn revisions(&self, skip: u64, limit: u32, order: Order) -> StoredPage<Bytes> {
        let paging = Paging {
            limit,
            start: Start::Offset(skip),
            order,
        };
        let query = RevisionQuery {
            tenant: tenant(),
            conversation: self.subject(),
            message: self.id(),
            paging,
        };
        revisions::page(&self.bare.writer.connection, &query)
            .unwrap()
            .unwrap()
    }

    fn under_way(&self) -> i64 {
        let sql = "SELECT count(*) FROM redactions";
        self.bare
            .writer
            .connection
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    }
}

fn holds_marker(shown: &[Bytes]) -> usize {
    shown
        .iter()
        .filter(|bytes| String::from_utf8_lossy(bytes).contains(MARKER))
        .count()
}

fn message(house: &House<Folder>, often: (ConversationId, MessageId)) -> StoredMessage {
    let (id, message) = often;
    let subject = Subject {
        kind: Kind::Conversation,
        number: id.number(),
        tail: id.tail(),
    };
    wait(house.store().message(subject, message))
        .unwrap()
        .unwrap()
}

#[test]
fn a_redaction_in_slices_shows_nothing_meanwhile_and_goes_on_after_a_crash() {
    let mut often = Often::new();
    assert!(
        holds_marker(&often.shown()) > 4 * EDITS,
        "the test looks where texts are"
    );
    often.redact();
    let mut slices = 0;
    while slices < 2 {
        assert_eq!(
            often.under_way(),
            1,
            "one transaction has no room for so much"
        );
        let shown = often.shown();
        assert_eq!(holds_marker(&shown), 0, "after {slices} slices");
        assert!(
            shown
                .iter()
                .all(|bytes| serde_json::from_slice::<Value>(bytes).is_ok())
        );
        often.bare.writer.keep_house(Phase::Running);
        slices += 1;
    }
    let (id, first) = (often.conversation, often.id());
    let crashed = often.bare.folder.killed();
    assert!(crashed.holds(MARKER), "the crash comes in the middle");
    let house = House::<Folder>::at(crashed);
    house.until("the text is gone", || !house.holds(MARKER));
    let held = message(&house, (id, first));
    assert!(held.now.redacted);
    assert_eq!(held.edits, u64::try_from(EDITS).unwrap() + 1);
    let idempotency = Idempotency::new(house.views.keys.clone(), house.store());
    for request in [1, 2] {
        let known = wait(async {
            idempotency
                .look(tenant(), "its key", crate::idempotency::numbered(request))
                .await
        });
        let Known::Replay(again) = known.unwrap() else {
            panic!("the key is not known")
        };
        let again: MessageView = serde_json::from_slice(&again.body).unwrap();
        assert!(
            again.redacted && again.content.is_empty() && again.edited_at.is_none(),
            "{again:?}"
        );
    }
    house.is_sound();
}

/// In how many slices a redaction is done whose texts are late after so long.
fn slices(late_after: Duration) -> usize {
    let mut often = Often::new();
    often.redact();
    let (mut redacting, mut slices) = (Redacting::open(late_after), 0);
    while often.under_way() > 0 {
        let erased = redacting.run(&often.bare.writer.connection, Phase::Running);
        slices += usize::from(erased.unwrap() > 0);
    }
    slices
}

#[test]
fn texts_go_in_slices_as_short_as_commits_unless_they_are_late() {
    let (short, long) = (slices(Duration::MAX), slices(Duration::ZERO));
    assert!(
        short > 40 && long < 8,
        "{short} short slices, {long} long ones"
    );
}

#[test]
fn texts_go_also_where_their_redaction_can_t_be_read() {
    let mut often = Often::new();
    often.redact();
    let Bare { writer, .. } = &often.bare;
    let sql = "UPDATE rows SET payload = x'7b' WHERE pos = (SELECT max(pos) FROM rows)";
    assert_eq!(writer.connection.execute(sql, []).unwrap(), 1);
    while often.under_way() > 0 {
        often.bare.writer.keep_house(Phase::Running);
        assert!(
            often.bare.writer.healthy.load(Ordering::Relaxed),
            "the writer goes on"
        );
    }
    let sql = "SELECT count(*) FROM rows WHERE instr(payload, ?1)";
    let left: i64 = often
        .bare
        .writer
        .connection
        .query_row(sql, [MARKER.as_bytes()], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

#[test]
fn revisions_are_numbered_whichever_way_they_are_paged() {
    let often = Often::new();
    let content = |revision: &Bytes| {
        let revision: Value = serde_json::from_slice(revision).unwrap();
        let number = revision["content"]
            .as_str()
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse::<usize>()
            .unwrap();
        let replaced = Timestamp(often.first.sent_at.0 + i64::try_from(number).unwrap() + 2);
        assert_eq!(
            revision["replaced_at"],
            json!(replaced),
            "the time of the edit behind it"
        );
        number
    };
    let total = u64::try_from(EDITS).unwrap();
    for (skip, limit) in [
        (0, 1),
        (0, 20),
        (17, 100),
        (total - 5, 20),
        (total, 20),
        (u64::MAX, 1),
    ] {
        let expected: Vec<usize> = (0..EDITS)
            .skip(usize::try_from(skip).unwrap())
            .take(limit)
            .collect();
        let page = often.revisions(skip, u32::try_from(limit).unwrap(), Order::Asc);
        assert_eq!(
            page.items.iter().map(content).collect::<Vec<_>>(),
            expected,
            "{skip}"
        );
        assert_eq!((page.total, page.before), (total, skip > 0));
        assert_eq!(
            page.after,
            skip.saturating_add(u64::try_from(limit).unwrap()) < total
        );
        let page = often.revisions(skip, u32::try_from(limit).unwrap(), Order::Desc);
        let expected: Vec<usize> = expected.iter().map(|number| EDITS - 1 - number).collect();
        assert_eq!(
            page.items.iter().map(content).collect::<Vec<_>>(),
            expected,
            "{skip}, newest first"
        );
    }
}

#[test]
fn a_message_of_an_older_file_is_redacted_however_often_it_was_edited() {
    let mut often = Often::new();
    let connection = &often.bare.writer.connection;
    connection
        .execute_batch(
            "DROP TABLE edits; DROP TABLE redactions; DROP TABLE audit_head;
             DELETE FROM meta WHERE key = 'chained';
             ALTER TABLE rows DROP COLUMN kind; ALTER TABLE rows DROP COLUMN tail;
             ALTER TABLE rows DROP COLUMN link; ALTER TABLE rows DROP COLUMN text_bytes;
             ALTER TABLE made DROP COLUMN text_bytes; ALTER TABLE versions DROP COLUMN parts;
             DROP TABLE frame_parts; DROP TABLE loose_frames; DROP TABLE share_links;
             PRAGMA user_version = 4",
        )
        .unwrap();
    connection
        .execute_batch("UPDATE rows SET request = substr(request, 1, 16) WHERE key IS NOT NULL")
        .unwrap();
    often = Often {
        bare: Bare::on(often.bare.folder.killed()),
        ..often
    };
    assert_eq!(often.revisions(0, 10_000, Order::Asc).items.len(), EDITS);
    assert!(
        !Veil::of(&often.bare.writer.connection)
            .unwrap()
            .hides_at(Position(5))
            .unwrap()
    );
    let house = House::<Folder>::at(often.bare.folder.killed());
    house
        .reopened(often.conversation)
        .ask(RedactMessage {
            message: often.id(),
        })
        .unwrap();
    let held = message(&house, (often.conversation, often.id()));
    assert!(held.now.redacted);
    house.until("the text is gone", || !house.holds(MARKER));
    house.is_sound();
    house.store().close();
    let connection = Connection::open(house.bench().path()).unwrap();
    let kept = "SELECT count(*) FROM rows WHERE key IS NOT NULL AND length(request) > 8";
    assert_eq!(
        connection
            .query_row(kept, [], |row| row.get::<_, i64>(0))
            .unwrap(),
        0,
        "the request's digest goes too"
    );
}

#[test]
fn what_is_left_of_requests_tells_them_apart_and_confirms_no_text() {
    let bare = Bare::on(Folder::new());
    let connection = &bare.writer.connection;
    let head = |path| colloquy_model::idempotency::RequestHead {
        method: "POST",
        path,
        query: "",
        user: "",
    };
    let (mine, theirs) = (
        Fingerprint::of(head("/a"), b"hello"),
        Fingerprint::of(head("/b"), b"hello"),
    );
    let other = Fingerprint::of(head("/a"), b"other");
    let left = |kept: &[u8]| -> Vec<u8> {
        connection
            .query_row("SELECT substr(?1, 17)", [kept], |row| row.get(0))
            .unwrap()
    };
    assert!(
        mine.is_of(&mine.bytes()) && !other.is_of(&mine.bytes()) && !theirs.is_of(&mine.bytes())
    );
    let left_of_mine = left(&mine.bytes());
    assert_eq!(
        left_of_mine,
        left(&other.bytes()),
        "nothing of the body is left"
    );
    assert!(
        mine.is_of(&left_of_mine) && other.is_of(&left_of_mine) && !theirs.is_of(&left_of_mine)
    );
    let earlier = &mine.bytes()[..16];
    assert!(mine.is_of(earlier) && !other.is_of(earlier));
    assert!(
        theirs.is_of(&left(earlier)),
        "of what earlier versions kept nothing is left"
    );
}
