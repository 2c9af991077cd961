//! What a store promises of pages about documents: that each order goes on from any cursor, that
//! filters count what they let through, and that what was done is told by kind, actor and time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use colloquy_model::caller::{Actor, Caller, CredentialId};
use colloquy_model::commit::{Commit, Header, NewRow};
use colloquy_model::document::{DocumentHeader, DocumentListed};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ActivityId, DocumentId, Id, KeyId, Prefix, UserId, VersionId};
use colloquy_model::page::{Cursor, Order, Paging, Start};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

use super::documents::{FourDocuments, all, changed, header, reader, subject, version};
use super::fixture::{Acting, Bench, House, live, wait};
use crate::accounts::User;
use crate::accounts::record::{DeleteRecord, Record};
use crate::store::{
    ActivityQuery, ActivityRow, DocumentOrder, DocumentQuery, ReadError, StoredPage, VersionQuery,
};

fn cursor<K: Prefix>(id: Id<K>) -> Cursor {
    Cursor {
        number: id.number(),
        tail: id.tail(),
    }
}

fn paging(order: Order, start: Start, limit: u32) -> Paging {
    Paging {
        limit,
        start,
        order,
    }
}

/// A page as a test compares it: what stands on it, and whether anything stands before and behind.
type Shown = (String, bool, bool);

/// Two of the documents, from there on.
fn two<B: Bench>(
    four: &FourDocuments<B>,
    sort: DocumentOrder,
    order: Order,
    start: Start,
) -> Shown {
    let query = DocumentQuery {
        sort,
        paging: paging(order, start, 2),
        ..all()
    };
    let page = wait(four.house.store().documents(query.clone())).unwrap();
    assert_eq!(page.total, 4, "{query:?}");
    let (titles, _) = four.list(query);
    (titles, page.before, page.after)
}

pub(in crate::store) fn pages_of_documents_in_each_order_go_on_from_a_cursor<B: Bench>() {
    let four = FourDocuments::<B>::new();
    for (place, (title, at)) in [("d", 5_000), ("C", 3_000), ("b", 5_000), ("a", 4_000)]
        .into_iter()
        .enumerate()
    {
        let updated = DocumentHeader {
            updated_at: Timestamp(at),
            ..changed(title)
        };
        four.house.put(four.ids[place], 1, updated);
    }
    let orders = [
        (DocumentOrder::Creation, "dCba"),
        (DocumentOrder::Update, "Cadb"),
        (DocumentOrder::Title, "abCd"),
    ];
    for (sort, ascending) in orders {
        let descending: String = ascending.chars().rev().collect();
        for (order, whole) in [(Order::Asc, ascending), (Order::Desc, &descending)] {
            let id = |place: usize| {
                let title = &whole[place..=place];
                cursor(four.ids["dCba".find(title).unwrap()])
            };
            let shown = |start| two(&four, sort, order, start);
            let part = |range: std::ops::Range<usize>| whole[range].to_owned();
            assert_eq!(shown(Start::Offset(0)), (part(0..2), false, true));
            assert_eq!(shown(Start::Offset(3)), (part(3..4), true, false));
            assert_eq!(shown(Start::After(id(0))), (part(1..3), true, true));
            assert_eq!(shown(Start::After(id(2))), (part(3..4), true, false));
            assert_eq!(shown(Start::Before(id(3))), (part(1..3), true, true));
            assert_eq!(shown(Start::Before(id(1))), (part(0..1), false, true));
        }
    }
    let mut nothing = cursor(four.ids[0]);
    nothing.tail ^= 1;
    let behind_nothing = DocumentQuery {
        paging: paging(Order::Asc, Start::After(nothing), 2),
        ..all()
    };
    let refused = wait(four.house.store().documents(behind_nothing)).unwrap_err();
    assert_eq!(refused, ReadError::NoCursor("after"));
}

pub(in crate::store) fn a_list_of_documents_counts_what_its_filters_let_through<B: Bench>() {
    let four = FourDocuments::<B>::new();
    let listed = DocumentListed {
        owner: Some(four.user),
        content_type: 2,
        ..header("d").listed
    };
    let owned = DocumentHeader {
        updated_at: Timestamp(2_000),
        listed,
        readers: Some(vec![reader(four.user.number().0, 3)]),
        ..changed("d")
    };
    four.house.put(four.ids[0], 1, owned);
    let by = |query: DocumentQuery| four.list(query);
    let mine = DocumentQuery {
        owner: Some(four.user),
        ..all()
    };
    assert_eq!(by(mine), ("d".to_owned(), 1));
    let of_type = |content_type| DocumentQuery {
        content_type: Some(content_type),
        ..all()
    };
    assert_eq!(by(of_type(2)), ("d".to_owned(), 1));
    assert_eq!(by(of_type(0)), ("abC".to_owned(), 3));
    let since = |at| DocumentQuery {
        updated_after: Some(Timestamp(at)),
        ..all()
    };
    assert_eq!(by(since(1_000)), ("d".to_owned(), 1));
    assert_eq!(by(since(2_000)), (String::new(), 0));
    let as_role = |role| DocumentQuery {
        reader: Some(four.user),
        role: Some(role),
        ..all()
    };
    let roles = [(0, "C"), (1, "a"), (2, "b"), (3, "d")];
    for (role, title) in roles {
        assert_eq!(by(as_role(role)), (title.to_owned(), 1), "role {role}");
    }
    let found = DocumentQuery {
        among: Some(four.ids.iter().map(|id| id.number()).collect()),
        ..as_role(2)
    };
    assert_eq!(by(found), ("b".to_owned(), 1), "what is found is filtered");
}

/// A document of eleven versions, each on the one before but the last, which is on the second.
fn eleven_versions<B: Bench>(house: &House<B>) -> DocumentId {
    let id = DocumentId::new(Timestamp(1_000));
    for number in 1..=11_u64 {
        let base = match number {
            1 => None,
            11 => Some(2),
            _ => Some(number - 1),
        };
        let new = version(number, base, &format!("f{number}"));
        let header = DocumentHeader {
            was_deleted: (number > 1).then_some(false),
            version: Some(new),
            ..header("a")
        };
        house.put(id, number - 1, header);
    }
    id
}

pub(in crate::store) fn versions_are_listed_from_a_cursor_on_and_named_by_number<B: Bench>() {
    let house = House::<B>::new();
    let document = subject(eleven_versions(&house));
    let page = |start, branch: Option<&str>| {
        let query = VersionQuery {
            tenant: live(),
            document,
            branch: branch.map(str::to_owned),
            paging: paging(Order::Desc, start, 3),
        };
        wait(house.store().versions(query))
    };
    let numbers = |start, branch| {
        let page = page(start, branch).unwrap();
        let numbers: Vec<u64> = page.items.iter().map(|version| version.number).collect();
        (numbers, page.total, page.before, page.after)
    };
    let ids = wait(
        house
            .store()
            .version_ids(live(), document, vec![9, 2, 11, 3]),
    )
    .unwrap();
    let ordinals: Vec<u64> = ids.iter().map(|id| id.ordinal()).collect();
    assert_eq!(ordinals, [9, 2, 11, 3]);
    let (ninth, third) = (cursor(ids[0]), cursor(ids[3]));
    let main = Some("");
    assert_eq!(
        numbers(Start::Offset(0), None),
        (vec![11, 10, 9], 11, false, true)
    );
    assert_eq!(
        numbers(Start::After(ninth), None),
        (vec![8, 7, 6], 11, true, true)
    );
    assert_eq!(
        numbers(Start::Before(ninth), None),
        (vec![11, 10], 11, false, true)
    );
    assert_eq!(
        numbers(Start::After(third), main),
        (vec![2, 1], 10, true, false),
        "the third is on another branch"
    );
    let nothing = VersionId::from_parts(ninth.number, ninth.tail ^ (1 << 40));
    let refused = page(Start::Before(cursor(nothing)), None).unwrap_err();
    assert_eq!(refused, ReadError::NoCursor("before"));
}

pub(in crate::store) fn a_content_is_made_of_its_own_frames_however_long_their_chain<B: Bench>() {
    let house = House::<B>::new();
    let document = subject(eleven_versions(&house));
    let frames = |number| {
        let found = wait(house.store().version(live(), document, number)).unwrap();
        let frames = found.unwrap().frames;
        frames
            .iter()
            .map(|frame| String::from_utf8_lossy(frame).into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(frames(1), "f1");
    assert_eq!(frames(10), "f1 f2 f3 f4 f5 f6 f7 f8 f9 f10");
    assert_eq!(frames(11), "f1 f2 f11");
}

/// A document that a user and a key have worked on: four things were done to it.
struct Worked<B: Bench> {
    house: House<B>,
    document: Subject,
    user: Acting<Record<User>>,
    key: KeyId,
}

impl<B: Bench> Worked<B> {
    fn new() -> Self {
        let house = House::<B>::new();
        let user = house.user(live(), "ada@example.com").unwrap();
        let (key, _) = house.key();
        let id = DocumentId::new(Timestamp(1_000));
        house.put(id, 0, header("a"));
        let worked = Worked {
            document: subject(id),
            key,
            user,
            house,
        };
        let by_user = Actor {
            user: Some(worked.user.id),
            credential: CredentialId::Key(key),
            ..Actor::server("a test")
        };
        let kinds = [EventKind::DocumentUpdated, EventKind::DocumentShared];
        worked.does(id, by_user, 1, &kinds);
        let by_key = Actor {
            credential: CredentialId::Key(key),
            ..Actor::server("a test")
        };
        worked.does(id, by_key, 3, &[EventKind::DocumentCommented]);
        worked
    }

    /// Somebody does this behind so many others, which says at how many seconds, too.
    fn does(&self, id: DocumentId, actor: Actor, behind: u64, kinds: &[EventKind]) {
        let row = |kind: &EventKind| NewRow::new(*kind, "{}".into());
        let caller = Caller {
            tenant: live(),
            actor,
        };
        let at = Timestamp(1_000 + i64::try_from(behind).unwrap() * 1_000);
        let done = Commit {
            rows: kinds.iter().map(row).collect(),
            header: Header::Document(Box::new(changed("a"))),
            ..Commit::new(subject(id), Sequence(behind), caller, at)
        };
        self.house.commit(done).unwrap();
    }

    fn all(&self) -> ActivityQuery {
        ActivityQuery {
            tenant: live(),
            document: self.document,
            action: None,
            actor: None,
            since: None,
            until: None,
            paging: paging(Order::Desc, Start::Offset(0), 10),
        }
    }

    fn ask(&self, query: ActivityQuery) -> Result<StoredPage<ActivityRow>, ReadError> {
        wait(self.house.store().activity(query))
    }

    /// The last words of the kinds on a page, its total, and whether anything stands around it.
    fn told(&self, query: ActivityQuery) -> (String, u64, [bool; 2]) {
        let page = self.ask(query).unwrap();
        let words = page.items.iter().map(|row| row.kind.word());
        let words: Vec<&str> = words.filter_map(|word| word.split('.').nth(1)).collect();
        (words.join(" "), page.total, [page.before, page.after])
    }

    fn user(&self) -> Subject {
        named(Kind::User, self.user.id)
    }
}

fn named<K: Prefix>(kind: Kind, id: Id<K>) -> Subject {
    Subject {
        kind,
        number: id.number(),
        tail: id.tail(),
    }
}

fn shown(words: &str, total: u64, around: [bool; 2]) -> (String, u64, [bool; 2]) {
    (words.to_owned(), total, around)
}

pub(in crate::store) fn what_was_done_to_a_document_is_told_page_by_page<B: Bench>() {
    let worked = Worked::<B>::new();
    let page = worked.ask(worked.all()).unwrap();
    let (user, key) = (worked.user.id.to_string(), worked.key.to_string());
    let actors: Vec<Option<&str>> = page.items.iter().map(|row| row.actor.as_deref()).collect();
    let (user, key) = (Some(user.as_str()), Some(key.as_str()));
    assert_eq!(actors, [key, user, user, None]);
    let whole = shown("commented shared updated updated", 4, [false, false]);
    assert_eq!(worked.told(worked.all()), whole);
    let part = |order, start| ActivityQuery {
        paging: paging(order, start, 2),
        ..worked.all()
    };
    let offset = part(Order::Asc, Start::Offset(1));
    let middle = shown("updated shared", 4, [true, true]);
    assert_eq!(worked.told(offset), middle);
    let id = |place: usize| {
        let row = &page.items[place];
        cursor(ActivityId::at_position(row.at, row.position))
    };
    let after = part(Order::Desc, Start::After(id(1)));
    assert_eq!(
        worked.told(after),
        shown("updated updated", 4, [true, false])
    );
    let before = part(Order::Desc, Start::Before(id(3)));
    assert_eq!(
        worked.told(before),
        shown("shared updated", 4, [true, true])
    );
    let mut nothing = id(1);
    nothing.number.0 ^= 1 << 12;
    let refused = worked.ask(part(Order::Desc, Start::After(nothing)));
    assert_eq!(refused.unwrap_err(), ReadError::NoCursor("after"));
}

pub(in crate::store) fn what_was_done_to_a_document_is_found_by_kind_actor_and_time<B: Bench>() {
    let mut worked = Worked::<B>::new();
    let by = |actor| ActivityQuery {
        actor: Some(actor),
        ..worked.all()
    };
    let by_user = shown("shared updated", 2, [false, false]);
    assert_eq!(worked.told(by(worked.user())), by_user);
    let key = named(Kind::Key, worked.key);
    assert_eq!(worked.told(by(key)), shown("commented", 1, [false, false]));
    let updated = ActivityQuery {
        action: Some(EventKind::DocumentUpdated),
        ..worked.all()
    };
    assert_eq!(
        worked.told(updated.clone()),
        shown("updated updated", 2, [false, false])
    );
    let between = ActivityQuery {
        since: Some(Timestamp(1_000)),
        until: Some(Timestamp(4_000)),
        ..worked.all()
    };
    assert_eq!(worked.told(between.clone()), by_user);
    let page = worked.ask(updated.clone()).unwrap();
    let behind = ActivityQuery {
        paging: paging(
            Order::Desc,
            Start::After(cursor(ActivityId::at_position(
                page.items[0].at,
                page.items[0].position,
            ))),
            1,
        ),
        ..updated
    };
    assert_eq!(worked.told(behind), shown("updated", 2, [true, false]));
    let stranger = by(named(Kind::User, UserId::new(Timestamp(1_000))));
    assert_eq!(
        worked.ask(stranger).unwrap_err(),
        ReadError::NoCursor("actor")
    );
    worked.user.ask(DeleteRecord).unwrap();
    let departed = ActivityQuery {
        actor: Some(worked.user()),
        ..worked.all()
    };
    assert_eq!(worked.told(departed), by_user, "who did it is still told");
}
