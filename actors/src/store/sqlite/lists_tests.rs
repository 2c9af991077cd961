//! Lists in the order of the last change, page by page, against a plain model: with ties, in both
//! orders, while headers lag behind what is known and while what is known lags behind headers that
//! have just been written.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use rusqlite::{OpenFlags, params};

use super::super::dirty_headers::HeaderFlusher;
use super::super::file::connect;
use super::super::{document_lists, schema};
use super::*;
use crate::store::{DocumentOrder, DocumentQuery};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::id::CustomerId;
use colloquy_model::page::{Cursor, Paging};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// A conversation: what its header says, and what the writer has told beside it, each with a
/// sequence and a time.
#[derive(Debug, Clone)]
struct Talk {
    header: (u64, i64),
    told: Option<(u64, i64)>,
    status: i64,
}

impl Talk {
    /// What a list must show.
    fn shown(&self) -> (u64, i64) {
        self.told
            .filter(|told| told.0 > self.header.0)
            .unwrap_or(self.header)
    }
}

fn tenant() -> Tenant {
    Tenant::of(1, Mode::Live)
}

fn talks() -> impl Strategy<Value = Vec<Talk>> {
    // Few instants, so that many are the same. A later sequence has no earlier time.
    let talk = (
        1..5_u64,
        0..6_i64,
        proptest::option::of((0..4_u64, 0..6_i64, any::<bool>())),
        0..3_i64,
    );
    let talk = talk.prop_map(|(seq, at, told, status)| {
        let told = told.map(|(steps, later, ahead)| match (ahead, steps) {
            (true, _) => (seq + steps, if steps == 0 { at } else { at + later }),
            (false, _) => (
                seq.saturating_sub(steps),
                if steps == 0 { at } else { (at - later).max(0) },
            ),
        });
        Talk {
            header: (seq, at),
            told,
            status,
        }
    });
    proptest::collection::vec(talk, 0..60)
}

fn a_store() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(&folder.path().join("c.db"), flags).unwrap();
    schema::migrate(&mut connection).unwrap();
    connection
        .pragma_update(None, "synchronous", "OFF")
        .unwrap();
    (folder, connection)
}

fn number(index: usize) -> u64 {
    u64::try_from(index).unwrap() + 1
}

/// Writes the headers, and tells what lags.
fn put(connection: &Connection, talks: &[Talk]) -> DirtyHeaders {
    let (lagging, mut fold) = (DirtyHeaders::default(), HeaderFlusher::default());
    connection
        .execute_batch("BEGIN; DELETE FROM conversations; DELETE FROM counters")
        .unwrap();
    let mut insert = connection
        .prepare(
            "INSERT INTO conversations VALUES (?1, 1, ?2, 7, 7, 'Ada', 1, ?3, 1, 1, NULL, NULL, '{}', NULL, ?4, ?4, NULL, ?5,
             NULL, 0)",
        )
        .unwrap();
    for (index, talk) in talks.iter().enumerate() {
        let n = number(index);
        let (seq, at) = talk.header;
        insert
            .execute([int(n), tenant().number(), talk.status, int(seq), at])
            .unwrap();
        if let Some((seq, updated_at)) = talk.told {
            let lag = DirtyHeader {
                conversation: EntityNumber(n),
                tenant: tenant().number(),
                seq: Sequence(seq),
                position: Position::ZERO,
                messages: seq,
                last_message_at: None,
                updated_at: Timestamp(updated_at),
            };
            fold.note(&lagging, lag, 1, Position(1));
        }
    }
    drop(insert);
    connection
        .execute(
            "INSERT INTO counters SELECT scope, 0, 0, status, count(*) FROM conversations GROUP BY scope, status",
            [],
        )
        .unwrap();
    connection.execute_batch("COMMIT").unwrap();
    lagging
}

fn status(code: i64) -> Status {
    Status::from_code(code).unwrap()
}

#[test]
fn what_the_writer_tells_while_a_list_is_read_is_not_shown_with_what_the_list_reads() {
    let (_folder, connection) = a_store();
    let talk = Talk {
        header: (2, 10),
        told: Some((9, 90)),
        status: 1,
    };
    let lagging = put(&connection, &[talk]);
    let row = "INSERT INTO rows(pos, entity, seq, happened, scope, at, from_customer, from_agent, from_system, by_request, hash)
               VALUES (?1, 1, ?1, 1, ?2, ?1 * 10, ?1 - 1, 0, 0, '', x'')";
    for pos in [2, 3] {
        connection
            .execute(row, params![pos, tenant().number()])
            .unwrap();
    }
    // The writer has committed up to the ninth row since, with a change of the status among them.
    let mut fold = HeaderFlusher::default();
    let told = lagging.of(EntityNumber(1)).unwrap();
    let position = Position(9);
    fold.note(&lagging, DirtyHeader { position, ..told }, 1, position);
    for by_update in [false, true] {
        let paging = Paging {
            limit: 20,
            start: Start::Offset(0),
            order: Order::Desc,
        };
        let query = ConversationQuery {
            tenant: tenant(),
            facets: Facets::default(),
            by_update,
            paging,
        };
        let page = conversations(&connection, &lagging, &query)
            .unwrap()
            .unwrap();
        let shown: Vec<(u64, i64)> = page
            .items
            .iter()
            .map(|header| (header.messages, header.updated_at.0))
            .collect();
        assert_eq!(shown, [(2, 30)], "as of the last row that is read");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_conversations_by_their_last_change_are_the_models(
        talks in talks(), limit in 1..9_u32, only in proptest::option::of(0..3_i64), customers in any::<bool>(),
    ) {
        let (_folder, connection) = a_store();
        let lagging = put(&connection, &talks);
        for order in [Order::Desc, Order::Asc] {
            let mut wanted: Vec<(i64, u64, u64)> = talks
                .iter()
                .enumerate()
                .filter(|(_, talk)| only.is_none_or(|status| talk.status == status))
                .map(|(index, talk)| (talk.shown().1, number(index), talk.shown().0))
                .collect();
            wanted.sort_unstable();
            if order == Order::Desc {
                wanted.reverse();
            }
            let facets = Facets {
                status: only.map(status),
                customer: customers.then(|| CustomerId::from_parts(EntityNumber(7), 7)),
                ..Facets::default()
            };
            if customers {
                connection.execute("UPDATE counters SET field = 3, value = 7", []).unwrap();
            }
            let mut found = Vec::new();
            loop {
                let start = Start::Offset(u64::try_from(found.len()).unwrap());
                let paging = Paging { limit, start, order };
                let query = ConversationQuery { tenant: tenant(), facets, by_update: true, paging };
                let page = conversations(&connection, &lagging, &query).unwrap().unwrap();
                prop_assert_eq!(page.total, u64::try_from(wanted.len()).unwrap());
                prop_assert_eq!(page.before, !found.is_empty());
                found.extend(page.items.iter().map(|header| (header.updated_at.0, header.id.number().0, header.messages)));
                prop_assert_eq!(page.after, found.len() < wanted.len());
                if !page.after {
                    break;
                }
            }
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn pages_of_documents_in_any_order_are_the_models(
        documents in proptest::collection::vec((0..6_i64, 0..4_usize), 0..60), limit in 1..9_u32, offsets in any::<bool>(),
    ) {
        const TITLES: [&str; 4] = ["alpha", "Alpha", "beta", "BETA"];
        let (_folder, connection) = a_store();
        for (index, (at, title)) in documents.iter().enumerate() {
            let title = TITLES.get(*title).copied().unwrap_or_default();
            let mut insert = connection
                .prepare_cached("INSERT INTO documents VALUES (?1, 1, ?2, 1, ?3, ?4, 0, NULL, 0, NULL, '{}')")
                .unwrap();
            insert.execute(params![int(number(index)), tenant().number(), at, title]).unwrap();
        }
        connection
            .execute("INSERT INTO counters SELECT scope, 11, 0, 0, count(*) FROM documents GROUP BY scope", [])
            .unwrap();
        for (sort, order) in [DocumentOrder::Creation, DocumentOrder::Update, DocumentOrder::Title]
            .into_iter()
            .flat_map(|sort| [(sort, Order::Desc), (sort, Order::Asc)])
        {
            let place = |index: usize| {
                let (at, title) = documents.get(index).copied().unwrap();
                let title = TITLES.get(title).copied().unwrap_or_default().to_lowercase();
                match sort {
                    DocumentOrder::Creation => (0, String::new()),
                    DocumentOrder::Update => (at, String::new()),
                    DocumentOrder::Title => (0, title),
                }
            };
            let mut wanted: Vec<_> = (0..documents.len()).map(|index| (place(index), number(index))).collect();
            wanted.sort_unstable();
            if order == Order::Desc {
                wanted.reverse();
            }
            let mut found: Vec<u64> = Vec::new();
            loop {
                let start = match found.last() {
                    Some(last) if !offsets => Start::After(Cursor { number: EntityNumber(*last), tail: 1 }),
                    Some(_) | None => Start::Offset(u64::try_from(found.len()).unwrap()),
                };
                let query = DocumentQuery {
                    tenant: tenant(),
                    reader: None,
                    role: None,
                    owner: None,
                    content_type: None,
                    updated_after: None,
                    deleted: false,
                    among: None,
                    sort,
                    paging: Paging { limit, start, order },
                };
                let page = document_lists::page(&connection, &query).unwrap().unwrap();
                prop_assert_eq!(page.total, u64::try_from(wanted.len()).unwrap());
                found.extend(page.items.iter().map(|row| row.subject.number.0));
                prop_assert_eq!(page.after, found.len() < wanted.len());
                if !page.after {
                    break;
                }
            }
            let wanted: Vec<u64> = wanted.into_iter().map(|(_, number)| number).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
