//! What a store promises of documents: that they come back as they were committed, that lists hold
//! and count what one may read, that links lead there, and that what was erased is in no file.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;

use super::fixture::{Bench, Failed, House, live, other, test, wait};
use crate::accounts::record::DeleteRecord;
use crate::idempotency::{Looked, numbered};
use crate::store::{
    DocumentOrder, DocumentQuery, OwnedDocument, Stored, StoredComment, VersionQuery,
};
use colloquy_model::answer::Done;
use colloquy_model::caller::{Actor, Caller};
use colloquy_model::commit::{Commit, Condition, ConstraintViolation, Header, KeptAnswer, NewRow};
use colloquy_model::document::{
    CommentChange, DocumentHeader, DocumentListed, DocumentReader, NewLinks, NewVersion,
};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{DocumentId, UserId, VersionId};
use colloquy_model::idempotency::key_hash;
use colloquy_model::page::{Cursor, Order, Paging, Start};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation};

pub(super) fn subject(id: DocumentId) -> Subject {
    Subject {
        kind: Kind::Document,
        number: id.number(),
        tail: id.tail(),
    }
}

pub(super) fn version(number: u64, base: Option<u64>, frame: &str) -> NewVersion {
    NewVersion {
        number,
        id: VersionId::with_ordinal(Timestamp(1_000), number),
        label: (number == 1).then(|| "first".to_owned()),
        branch: if number == 3 {
            "side".to_owned()
        } else {
            String::new()
        },
        parents: (1..number).rev().take(1).collect(),
        message: None,
        author: None,
        base,
        frame: Bytes::copy_from_slice(frame.as_bytes()),
    }
}

/// A document's header with this title, new.
pub(super) fn header(title: &str) -> DocumentHeader {
    DocumentHeader {
        was_deleted: None,
        updated_at: Timestamp(1_000),
        listed: DocumentListed {
            title: title.to_owned(),
            content_type: 0,
            owner: None,
            deleted_at: None,
        },
        body: format!("{{\"title\":\"{title}\"}}"),
        readers: Some(Vec::new()),
        links: None,
        version: Some(version(1, None, "one")),
        comments: Vec::new(),
        anchors: None,
    }
}

/// One that is changed and nothing else.
pub(super) fn changed(title: &str) -> DocumentHeader {
    DocumentHeader {
        was_deleted: Some(false),
        readers: None,
        version: None,
        ..header(title)
    }
}

/// That a document is deleted for good, out of the bin or not.
fn gone(was_deleted: bool) -> Header {
    Header::DocumentGone { was_deleted }
}

pub(super) fn commit(id: DocumentId, expected: u64, header: Header, payload: &str) -> Commit {
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    let row = NewRow::new(EventKind::DocumentUpdated, payload);
    let caller = Caller {
        tenant: live(),
        actor: Actor::server("a test"),
    };
    Commit {
        rows: vec![row],
        header,
        ..Commit::new(subject(id), Sequence(expected), caller, Timestamp(1_000))
    }
}

impl<B: Bench> House<B> {
    pub(super) fn commit(&self, commit: Commit) -> Result<(), CommitFailure<ConstraintViolation>> {
        let (settled, outcome) = sync_channel(1);
        self.store().submit(
            Incarnation::next(),
            commit,
            Box::new(move |outcome| settled.send(outcome).unwrap()),
        );
        outcome.recv().unwrap()
    }

    pub(super) fn put(&self, id: DocumentId, expected: u64, header: DocumentHeader) {
        self.commit(commit(
            id,
            expected,
            Header::Document(Box::new(header)),
            "{}",
        ))
        .unwrap();
    }

    /// The documents of a list, by title, and its total.
    fn titles(&self, query: DocumentQuery) -> (Vec<String>, u64) {
        let found = wait(self.store().documents(query)).unwrap();
        let title =
            |body: &str| serde_json::from_str::<serde_json::Value>(body).unwrap()["title"].clone();
        (
            found
                .items
                .iter()
                .map(|row| title(&row.body).as_str().unwrap().to_owned())
                .collect(),
            found.total,
        )
    }
}

pub(super) fn all() -> DocumentQuery {
    DocumentQuery {
        tenant: live(),
        reader: None,
        role: None,
        owner: None,
        content_type: None,
        updated_after: None,
        deleted: false,
        among: None,
        sort: DocumentOrder::Creation,
        paging: Paging {
            limit: 100,
            start: Start::Offset(0),
            order: Order::Desc,
        },
    }
}

fn comment(number: u64, body: Option<&str>) -> CommentChange {
    CommentChange {
        number,
        body: body.map(str::to_owned),
    }
}

pub(super) fn reader(user: u64, role: i64) -> DocumentReader {
    DocumentReader {
        user: EntityNumber(user),
        role,
    }
}

/// A document of [`live`].
fn owned(id: DocumentId) -> OwnedDocument {
    OwnedDocument {
        subject: subject(id),
        tenant: live(),
    }
}

/// A document of three versions: the second with two comments and their anchors, of which the
/// third, on a side branch, takes the first comment away.
fn three_versions<B: Bench>(house: &House<B>) -> DocumentId {
    let id = DocumentId::new(Timestamp(1_000));
    house.put(id, 0, header("a"));
    let second = DocumentHeader {
        version: Some(version(2, Some(1), "two")),
        comments: vec![comment(1, Some("\"one\"")), comment(2, Some("\"two\""))],
        anchors: Some(Bytes::from_static(b"places")),
        ..changed("b")
    };
    house.put(id, 1, second);
    let third = DocumentHeader {
        version: Some(version(3, Some(2), "three")),
        comments: vec![comment(1, None)],
        ..changed("c")
    };
    house.put(id, 2, third);
    id
}

pub(in crate::store) fn a_document_comes_back_as_it_was_committed<B: Bench>() {
    let house = House::<B>::new();
    let id = three_versions(&house);
    let stale = commit(id, 2, Header::Document(Box::new(changed("lost"))), "{}");
    assert_eq!(
        house.commit(stale),
        Err(CommitFailure::Conflict),
        "the fence"
    );
    let house = house.crash();
    let Some(Stored::Document(found)) = wait(house.store().load(subject(id))).unwrap() else {
        panic!("no document")
    };
    assert_eq!(
        (found.sequence, found.body.as_str(), found.tenant),
        (Sequence(3), "{\"title\":\"c\"}", live())
    );
    let second = StoredComment {
        number: 2,
        body: "\"two\"".to_owned(),
    };
    assert_eq!(found.comments, [second]);
    assert_eq!(
        found.anchors.as_deref(),
        Some(&b"places"[..]),
        "they stay until they change"
    );
    let parents: Vec<_> = found
        .versions
        .iter()
        .map(|one| (one.number, one.parents.clone()))
        .collect();
    assert_eq!(parents, [(1, vec![]), (2, vec![1]), (3, vec![2])]);
    house.is_sound();
}

pub(in crate::store) fn a_version_comes_back_with_the_frames_that_make_its_content<B: Bench>() {
    let house = House::<B>::new();
    let id = three_versions(&house);
    let house = house.crash();
    let Some(Stored::Document(found)) = wait(house.store().load(subject(id))).unwrap() else {
        panic!("no document")
    };
    let read = |number| wait(house.store().version(live(), subject(id), number)).unwrap();
    let third = read(3).unwrap();
    assert_eq!(third.version, found.versions[2]);
    assert_eq!(third.frames, ["one", "two", "three"]);
    assert!(read(4).is_none());
    let side = VersionQuery {
        tenant: live(),
        document: subject(id),
        branch: Some("side".to_owned()),
        paging: all().paging,
    };
    assert_eq!(wait(house.store().versions(side)).unwrap().total, 1);
}

pub(in crate::store) fn a_long_frame_comes_back_whole_and_leaves_the_files<B: Bench>() {
    let house = House::<B>::new();
    let id = DocumentId::new(Timestamp(1_000));
    let frames: Vec<String> = [65_536, 65_537, 131_072, 131_073, 400_000, 1_000_003]
        .map(|bytes| "longword ".chars().cycle().take(bytes).collect())
        .to_vec();
    for (number, frame) in (1..).zip(&frames) {
        let title = if number == 1 {
            header("a")
        } else {
            changed("a")
        };
        let longer = DocumentHeader {
            version: Some(version(number, None, frame)),
            ..title
        };
        house.put(id, number - 1, longer);
    }
    house.is_sound();
    let house = house.crash();
    for (number, frame) in (1..).zip(&frames) {
        let found = wait(house.store().version(live(), subject(id), number)).unwrap();
        assert!(found.unwrap().frames == [frame], "{number}");
    }
    assert!(house.holds("longword"));
    house.commit(commit(id, 6, gone(false), "{}")).unwrap();
    house.until("no file has it", || !house.holds("longword"));
    house.is_sound();
}

/// Four documents, by title in their order, and a user who may read the last three.
pub(super) struct FourDocuments<B> {
    pub(super) house: House<B>,
    pub(super) ids: Vec<DocumentId>,
    pub(super) user: UserId,
}

impl<B: Bench> FourDocuments<B> {
    pub(super) fn new() -> Self {
        let house = House::<B>::new();
        let ids: Vec<DocumentId> = (0..4).map(|_| DocumentId::new(Timestamp(1_000))).collect();
        let user = UserId::new(Timestamp(1));
        let readers = [
            vec![],
            vec![reader(user.number().0, 0)],
            vec![reader(0, 0), reader(user.number().0, 2)],
            vec![reader(0, 1)],
        ];
        for ((id, title), readers) in ids.iter().zip(["d", "C", "b", "a"]).zip(readers) {
            let new = DocumentHeader {
                readers: Some(readers),
                ..header(title)
            };
            house.put(*id, 0, new);
        }
        FourDocuments { house, ids, user }
    }

    /// What a list has: all titles in one, and its total.
    pub(super) fn list(&self, query: DocumentQuery) -> (String, u64) {
        let (titles, total) = self.house.titles(query);
        (titles.concat(), total)
    }

    /// The third goes into the bin.
    fn bin_the_third(&self) {
        let listed = DocumentListed {
            deleted_at: Some(Timestamp(5)),
            ..header("b").listed
        };
        let binned = DocumentHeader {
            listed,
            ..changed("b")
        };
        self.house.put(self.ids[2], 1, binned);
    }
}

pub(in crate::store) fn lists_of_documents_hold_and_count_what_one_may_read<B: Bench>() {
    let four = FourDocuments::<B>::new();
    assert_eq!(four.list(all()), ("abCd".to_owned(), 4));
    let elsewhere = DocumentQuery {
        tenant: other(),
        ..all()
    };
    assert_eq!(four.list(elsewhere), (String::new(), 0));
    let mine = DocumentQuery {
        reader: Some(four.user),
        ..all()
    };
    assert_eq!(four.list(mine.clone()), ("abC".to_owned(), 3));
    let as_editor = DocumentQuery {
        role: Some(2),
        ..mine
    };
    assert_eq!(four.list(as_editor), ("b".to_owned(), 1));
    four.house.is_sound();
}

pub(in crate::store) fn a_list_of_documents_is_by_title_or_among_some_where_it_is_asked_so<
    B: Bench,
>() {
    let four = FourDocuments::<B>::new();
    let ascending = Paging {
        order: Order::Asc,
        ..all().paging
    };
    let by_title = DocumentQuery {
        sort: DocumentOrder::Title,
        paging: ascending,
        ..all()
    };
    assert_eq!(four.list(by_title).0, "abCd");
    let some: Arc<[EntityNumber]> =
        Arc::from([four.ids[0].number(), four.ids[3].number(), EntityNumber(7)]);
    let among = DocumentQuery {
        among: Some(some),
        ..all()
    };
    assert_eq!(four.list(among), ("da".to_owned(), 2));
    let behind = wait(
        four.house
            .store()
            .documents_behind(four.ids[0].number(), 10),
    );
    let others = [1, 2, 3].map(|place: usize| owned(four.ids[place]));
    assert_eq!(behind.unwrap(), others);
}

pub(in crate::store) fn a_document_in_the_bin_is_listed_there_only_and_is_still_a_place<
    B: Bench,
>() {
    let four = FourDocuments::<B>::new();
    four.bin_the_third();
    assert_eq!(four.list(all()), ("aCd".to_owned(), 3));
    let bin = DocumentQuery {
        deleted: true,
        ..all()
    };
    assert_eq!(four.list(bin), ("b".to_owned(), 1));
    let third = four.ids[2];
    let behind = DocumentQuery {
        paging: Paging {
            start: Start::After(Cursor {
                number: third.number(),
                tail: third.tail(),
            }),
            ..all().paging
        },
        ..all()
    };
    assert_eq!(four.list(behind), ("Cd".to_owned(), 3));
    let store = four.house.store();
    let overdue = |before| wait(store.overdue_documents(before, 10)).unwrap();
    assert_eq!(overdue(Timestamp(6)), [owned(third)]);
    assert_eq!(overdue(Timestamp(5)), []);
    let behind = wait(store.documents_behind(four.ids[1].number(), 1)).unwrap();
    assert_eq!(behind, [owned(third)], "who reads all documents meets it");
    four.house.is_sound();
}

pub(in crate::store) fn a_document_that_is_gone_is_taken_off_the_total_in_which_it_was<B: Bench>() {
    let four = FourDocuments::<B>::new();
    four.bin_the_third();
    let bin = DocumentQuery {
        deleted: true,
        ..all()
    };
    let erased = |place: usize, expected, was_deleted| {
        let erased = commit(four.ids[place], expected, gone(was_deleted), "{}");
        four.house.commit(erased).unwrap();
    };
    erased(0, 1, false);
    assert_eq!(four.list(all()), ("aC".to_owned(), 2));
    assert_eq!(four.list(bin.clone()), ("b".to_owned(), 1));
    erased(2, 2, true);
    assert_eq!(four.list(all()), ("aC".to_owned(), 2));
    assert_eq!(four.list(bin), (String::new(), 0));
    four.house.is_sound();
}

fn links(hashes: &[[u8; 32]], body: &str) -> Option<NewLinks> {
    Some(NewLinks {
        hashes: hashes.to_vec(),
        body: body.to_owned(),
    })
}

pub(in crate::store) fn a_link_leads_to_its_document_until_it_is_taken_back<B: Bench>() {
    let house = House::<B>::new();
    let id = DocumentId::new(Timestamp(1_000));
    house.put(
        id,
        0,
        DocumentHeader {
            links: links(&[[1; 32], [2; 32]], "both"),
            ..header("a")
        },
    );
    let link = |hash| wait(house.store().link(hash)).unwrap();
    let loaded = || {
        let Some(Stored::Document(document)) = wait(house.store().load(subject(id))).unwrap()
        else {
            panic!("the document is there")
        };
        document.links.unwrap()
    };
    assert_eq!(link([1; 32]), Some(owned(id)));
    house.put(id, 1, changed("b"));
    assert_eq!(link([2; 32]), Some(owned(id)));
    assert_eq!(
        loaded(),
        "both",
        "a commit that says nothing of them leaves them"
    );
    house.put(
        id,
        2,
        DocumentHeader {
            links: links(&[[2; 32]], "the second"),
            ..changed("b")
        },
    );
    assert_eq!((link([1; 32]), link([2; 32]).is_some()), (None, true));
    assert_eq!(loaded(), "the second");
    house.commit(commit(id, 3, gone(false), "{}")).unwrap();
    assert_eq!(link([2; 32]), None);
}

pub(in crate::store) fn what_was_erased_of_a_document_leaves_the_files<B: Bench>() {
    let house = House::<B>::new();
    let id = DocumentId::new(Timestamp(1_000));
    let new = DocumentHeader {
        version: Some(version(1, None, "frameword")),
        comments: vec![comment(1, Some("\"commentword\""))],
        links: links(&[[1; 32]], "linkword"),
        ..header("titleword")
    };
    let created = commit(
        id,
        0,
        Header::Document(Box::new(new)),
        "{\"id\":\"x\",\"title\":\"eventword\"}",
    );
    house.commit(created).unwrap();
    house.settle();
    let words = [
        "frameword",
        "commentword",
        "linkword",
        "titleword",
        "eventword",
    ];
    for word in words {
        assert!(house.holds(word), "{word}");
    }
    house
        .commit(commit(id, 1, gone(false), "{\"title\":\"lastword\"}"))
        .unwrap();
    assert!(wait(house.store().load(subject(id))).unwrap().is_none());
    for word in words.into_iter().chain(["lastword"]) {
        house.until(word, || !house.holds(word));
    }
    let events = wait(house.store().happened_behind(Position(0), 10)).unwrap();
    assert_eq!(events.len(), 2, "that something happened stays");
    house.is_sound();
}

pub(in crate::store) fn what_was_answered_about_an_erased_document_leaves_the_files<B: Bench>() {
    let house = House::<B>::new();
    let id = DocumentId::new(Timestamp(1_000));
    house.put(id, 0, header("a"));
    let looked = house
        .views
        .keys
        .look(key_hash(live(), "a key"), numbered(1));
    let Looked::Fresh(reservation, _) = looked else {
        panic!("it has been used")
    };
    // Kept of what changed nothing: it has no row.
    let answered = Commit {
        at: Timestamp::now(),
        rows: Vec::new(),
        answer: Some(KeptAnswer {
            reservation,
            done: Done::Ok,
            id: None,
            etag: None,
            body: Some(Bytes::from_static(b"{\"title\":\"answerword\"}")),
        }),
        ..commit(id, 1, Header::Unchanged, "{}")
    };
    house.commit(answered).unwrap();
    assert!(house.holds("answerword"));
    house.commit(commit(id, 1, gone(false), "{}")).unwrap();
    house.until("no answer has it", || !house.holds("answerword"));
    house.is_sound();
}

pub(in crate::store) fn a_user_who_owns_documents_stays<B: Bench>() {
    let house = House::<B>::new();
    let mut user = house.user(live(), "ada@example.com").unwrap();
    let id = DocumentId::new(Timestamp(1_000));
    let listed = DocumentListed {
        owner: Some(user.id),
        deleted_at: Some(Timestamp(5)),
        ..header("a").listed
    };
    house.put(
        id,
        0,
        DocumentHeader {
            listed,
            ..header("a")
        },
    );
    let refused = user.ask(DeleteRecord).unwrap_err();
    assert_eq!(
        refused,
        Failed::Commit(CommitFailure::Violated(ConstraintViolation::HasDocuments)),
        "in the bin it is theirs too"
    );
    house.commit(commit(id, 1, gone(true), "{}")).unwrap();
    user.ask(DeleteRecord).unwrap();
}

pub(in crate::store) fn a_commit_that_names_a_document_needs_it_in_its_own_account_and_mode<
    B: Bench,
>() {
    let house = House::<B>::new();
    let (named, bystander) = (
        DocumentId::new(Timestamp(1_000)),
        DocumentId::new(Timestamp(2_000)),
    );
    house.put(bystander, 0, header("names another"));
    let naming = |tenant, expected| {
        let header = Header::Document(Box::new(changed("names another")));
        house.commit(Commit {
            tenant,
            conditions: vec![Condition::DocumentExists(named)],
            ..commit(bystander, expected, header, "{}")
        })
    };
    let refused = Err(CommitFailure::Violated(ConstraintViolation::NoDocument));
    assert_eq!(naming(live(), 1), refused);
    house.put(named, 0, header("a"));
    for elsewhere in [test(), other()] {
        assert_eq!(naming(elsewhere, 1), refused);
    }
    assert_eq!(naming(live(), 1), Ok(()));
    let in_bin = DocumentListed {
        deleted_at: Some(Timestamp(5)),
        ..header("a").listed
    };
    house.put(
        named,
        1,
        DocumentHeader {
            listed: in_bin,
            ..changed("a")
        },
    );
    assert_eq!(naming(live(), 2), Ok(()), "it may come back");
    house.commit(commit(named, 2, gone(true), "{}")).unwrap();
    assert_eq!(naming(live(), 3), refused);
}
