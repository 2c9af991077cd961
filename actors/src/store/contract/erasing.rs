//! What every store promises of what is erased: it is nowhere from the commit on, its texts leave every
//! file behind it, and that it happened stays.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;

use super::fixture::{Acting, Bench, Failed, House, live, other, wait};
use super::{change, message};
use crate::accounts::record::{Record, RecordError};
use crate::accounts::{
    Attachment, BeginAttachment, BeginErasure, ChangeCustomer, CreateCustomer, Customer,
    EraseCustomer, Erasure, FinishErasure,
};
use crate::conversation::messages::{
    CloseConversation, ConversationError, RedactMessage, ReopenConversation, ReviseMessage,
};
use crate::conversation::{Conversation, EraseConversation, FileEraser};
use crate::idempotency::Known;
use crate::store::{
    ErasableConversation, ErasableQuery, Erasing, Facets, FeedRow, RecordQuery, Stored, StoredPage,
    StoredRecord, TimedQuery, Timing,
};
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::commit::{
    Chore, Commit, ConstraintViolation, ErasedConversation, Header, NameField, NewRow, RecordName,
};
use colloquy_model::conversation::ConversationState;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AttachmentId, CustomerId};
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, BoxFuture, Cause, CommitFailure};

const ERASURE: EntityNumber = EntityNumber(4_711);

fn erase(tenant: Tenant) -> EraseConversation {
    EraseConversation {
        caller: Caller {
            tenant,
            actor: Actor::server("a test"),
        },
        erasure: ERASURE,
        closed_before: None,
        files: None,
    }
}

/// The identifiers of what may have to be erased, two at a time, in their order.
fn erasable<B: Bench>(house: &House<B>, erasing: Erasing) -> Vec<ErasableConversation> {
    let (mut behind, mut all) = (EntityNumber::ZERO, Vec::new());
    loop {
        let query = ErasableQuery {
            tenant: live(),
            erasing,
            behind,
            limit: 2,
        };
        let page = wait(house.store().erasable(query)).unwrap();
        let Some(last) = page.last() else { return all };
        assert!(page.len() <= 2);
        behind = last.id.number();
        all.extend(page);
    }
}

pub(in crate::store) fn what_may_have_to_be_erased_is_listed_by_number<B: Bench>() {
    let house = House::<B>::lagging();
    let (ada, eve) = (house.customer(live(), "Ada"), house.customer(live(), "Eve"));
    let mut talks: Vec<_> = (0..5)
        .map(|_| house.conversation(live(), ada, Some("first")))
        .collect();
    let mut of_eve = house.conversation(live(), eve, None);
    let stranger = house.customer(other(), "Ada");
    house
        .conversation(other(), stranger, None)
        .ask(CloseConversation::default())
        .unwrap();
    talks[1]
        .send("a message that the header lags behind")
        .unwrap();
    talks[2].ask(CloseConversation::default()).unwrap();
    of_eve.ask(CloseConversation::default()).unwrap();
    talks.remove(4).ask(erase(live())).unwrap();
    let told = |house: &House<B>| {
        let of_ada: Vec<_> = erasable(house, Erasing::OfCustomer(ada))
            .into_iter()
            .map(|one| (one.id, one.messages, one.closed_at.is_some()))
            .collect();
        let wanted = [(0, 1, false), (1, 2, false), (2, 1, true), (3, 1, false)];
        let wanted = wanted.map(|(at, messages, closed)| (talks[at].id, messages, closed));
        assert_eq!(of_ada, wanted);
        let closed: Vec<_> = erasable(house, Erasing::Closed)
            .into_iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(closed, [talks[2].id, of_eve.id]);
    };
    told(&house);
    told(&house.crash());
}

pub(in crate::store) fn what_is_to_be_erased_is_loaded_without_its_texts<B: Bench>() {
    let house = House::<B>::new();
    let user = house.user(live(), "agent@example.org").unwrap().id;
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, Some("first"));
    let changed = json!({"priority": "high", "assignee_id": user, "metadata": {"a": "b"}});
    conversation.ask(change(changed)).unwrap();
    conversation.send("second").unwrap();
    conversation.ask(CloseConversation::default()).unwrap();
    let load = |house: &House<B>| {
        let found = house.store().load_to_erase(conversation.subject());
        wait(found).unwrap()
    };
    let bare = |house: &House<B>| {
        let found = load(house).unwrap();
        let whole = house.store().load(conversation.subject());
        let Some(Stored::Conversation(whole)) = wait(whole).unwrap() else {
            unreachable!("it is there")
        };
        let state = ConversationState {
            metadata: "{}".into(),
            activated_at: found.state.activated_at,
            ..whole.state
        };
        assert_eq!(found.state, state);
        assert_eq!(
            (found.tenant, found.sequence, found.updated_at, found.counts),
            (whole.tenant, whole.sequence, whole.updated_at, whole.counts)
        );
        assert_eq!(found.counts.total(), 2);
    };
    bare(&house);
    let house = house.crash();
    bare(&house);
    let mut conversation = house.reopened(conversation.id);
    conversation.ask(erase(live())).unwrap();
    let found = house.store().load_to_erase(conversation.subject());
    assert!(wait(found).unwrap().is_none());
}

/// What is left to be done of a conversation that is erased.
fn left_of(conversation: &Acting<Conversation>) -> Chore {
    let erased = ErasedConversation {
        conversation: conversation.id.number(),
        erasure: ERASURE,
    };
    Chore::FinishConversation(conversation.tenant, erased)
}

fn is_there<B: Bench>(house: &House<B>, conversation: &Acting<Conversation>) -> bool {
    let found = wait(house.store().load(conversation.subject())).unwrap();
    let store = house.store();
    let number = conversation.id.number();
    let among = wait(store.conversations_among(conversation.tenant, [number].into())).unwrap();
    let behind = wait(store.conversations_behind(EntityNumber::ZERO, 100)).unwrap();
    let is_listed = behind.iter().any(|one| one.id == conversation.id);
    assert_eq!(
        [found.is_some(), !among.is_empty()],
        [is_listed; 2],
        "every way shows the same"
    );
    is_listed
}

/// The kinds of everything that happened, in its order.
fn kinds<B: Bench>(house: &House<B>) -> Vec<EventKind> {
    let rows = wait(house.store().happened_behind(Position(0), 1_000)).unwrap();
    let kind = |row| match row {
        FeedRow::Event(event) => Some(event.kind),
        FeedRow::Endpoint { .. } | FeedRow::Renamed { .. } => None,
    };
    rows.into_iter().filter_map(kind).collect()
}

pub(in crate::store) fn an_erased_conversation_is_nowhere_and_takes_nothing<B: Bench>() {
    let house = House::<B>::lagging();
    let (here, there) = (
        house.customer(live(), "Ada"),
        house.customer(other(), "Eve"),
    );
    let mut erased = house.conversation(live(), here, Some("first"));
    let snooze = json!({"status": "pending", "snoozed_until": Timestamp(1_000)});
    erased.ask(change(snooze)).unwrap();
    let mut late = house.reopened(erased.id);
    let kept = house.conversation(live(), here, Some("kept"));
    let neighbour = house.conversation(other(), there, Some("kept"));
    let stranger = erased.ask(erase(other()));
    assert_eq!(
        stranger,
        Err(Failed::Refused(ConversationError::NotFound)),
        "it is of another account"
    );
    assert!(is_there(&house, &erased));
    erased.ask(erase(live())).unwrap();
    let is_gone = |house: &House<B>| {
        assert!(!is_there(house, &erased));
        assert!(is_there(house, &kept) && is_there(house, &neighbour));
        assert_eq!(house.counted(live(), None), 1);
        let of_customer = Facets {
            customer: Some(here),
            ..Facets::default()
        };
        assert_eq!(house.list(live(), of_customer).items[0].id, kept.id);
        let timed = TimedQuery {
            timing: Timing::Snooze,
            until: Timestamp(5_000),
            behind: None,
            limit: 10,
        };
        assert_eq!(wait(house.store().timed(timed)).unwrap(), []);
        assert_eq!(wait(house.store().chores()).unwrap(), [left_of(&erased)]);
    };
    is_gone(&house);
    let refused = late.prepare(message("late")).settled();
    assert_eq!(refused, Err(CommitFailure::Conflict));
    let house = house.crash();
    is_gone(&house);
    house.is_sound();
}

/// The words of a conversation in all places that hold some.
const WORDS: [&str; 7] = [
    "initialword",
    "metadataword",
    "contentword",
    "editedword",
    "noteword",
    "reasonword",
    "changedword",
];

/// A conversation that says each of [`WORDS`].
fn talkative<B: Bench>(house: &House<B>, customer: CustomerId) -> Acting<Conversation> {
    let new = json!({
        "customer_id": customer, "initial_message": "initialword", "metadata": {"a": "metadataword"},
    });
    let mut conversation = house.create(live(), customer, new).unwrap();
    let sent = conversation.ask_with_key("of it", message("contentword"));
    let id = sent.unwrap().id.unwrap().parse().unwrap();
    let edit = json!({"content": "editedword", "metadata": {"b": "noteword"}});
    let edit = serde_json::from_value(edit).unwrap();
    conversation
        .ask(ReviseMessage { message: id, edit })
        .unwrap();
    conversation
        .ask(change(json!({"metadata": {"c": "changedword"}})))
        .unwrap();
    // Kept of what changes nothing: it has no row.
    let nothing = change(json!({"status": "active"}));
    conversation.ask_with_key("of nothing", nothing).unwrap();
    let reason = json!({"reason": "reasonword"});
    let close: CloseConversation = serde_json::from_value(reason).unwrap();
    conversation.ask(close).unwrap();
    conversation
}

pub(in crate::store) fn what_was_said_in_an_erased_conversation_leaves_the_files<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut conversation = talkative(&house, customer);
    house.conversation(live(), customer, Some("neighbourword"));
    house.settle();
    for word in WORDS {
        assert!(house.holds(word), "{word}");
    }
    let before = kinds(&house);
    conversation.ask(erase(live())).unwrap();
    // Killed before any of it is done, or in the middle.
    let house = house.crash();
    for word in WORDS {
        house.until(word, || !house.holds(word));
    }
    let numbers = || vec![conversation.id.number()];
    house.until("the store says so", || {
        wait(house.store().still_erasing(numbers()))
            .unwrap()
            .is_empty()
    });
    assert!(house.holds("neighbourword"));
    let happened = [before, vec![EventKind::ConversationErased]].concat();
    assert_eq!(kinds(&house), happened, "that something happened stays");
    for key in ["of it", "of nothing"] {
        let request = 1;
        let Known::Replay(again) = house.look(live(), key, request) else {
            unreachable!("a kept answer stays for its 24 hours")
        };
        let body = String::from_utf8_lossy(&again.body).into_owned();
        assert!(WORDS.iter().all(|word| !body.contains(word)), "{body}");
        assert!(body.contains(&conversation.id.to_string()), "{body}");
    }
    let house = house.crash();
    assert_eq!(kinds(&house), happened);
    house.is_sound();
}

pub(in crate::store) fn what_is_still_erased_is_told_until_no_file_holds_it<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut talks: Vec<_> = (0..B::VOLUME.of(20, 5))
        .map(|n| house.conversation(live(), customer, Some(&format!("markedword{n}end"))))
        .collect();
    let kept = house.conversation(live(), customer, Some("neighbourword"));
    let numbers: Vec<_> = talks.iter().map(|talk| talk.id.number()).collect();
    let asked = [numbers.clone(), vec![kept.id.number()]].concat();
    let left = || wait(house.store().still_erasing(asked.clone())).unwrap();
    assert_eq!(left(), [], "what is there is not being erased");
    for talk in &mut talks {
        talk.ask(erase(live())).unwrap();
    }
    // Each is looked for once, when the store tells for the first time that it is gone.
    let seen = RefCell::new(numbers.clone());
    house.until("nothing is left", || {
        let (left, mut seen) = (left(), seen.borrow_mut());
        assert!(left.iter().all(|one| seen.contains(one)), "none comes back");
        // The last one first: it has had the least time.
        for (index, number) in numbers.iter().enumerate().rev() {
            let word = format!("markedword{index}end");
            let is_new = seen.contains(number) && !left.contains(number);
            assert!(!is_new || !house.holds(&word), "told to be gone: {word}");
        }
        *seen = left;
        seen.is_empty()
    });
    // A start may do some of it once more.
    let house = house.crash();
    house.until("nothing is left after a crash", || {
        let left = house.store().still_erasing(asked.clone());
        wait(left).unwrap().is_empty()
    });
}

/// What the texts of a conversation add to those of its account is known from its rows, whatever
/// happened to them: an erasing takes off as much.
pub(in crate::store) fn the_bytes_of_a_conversation_are_those_of_its_texts<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, Some("12345"));
    let sent = conversation.ask(message("1234567890")).unwrap();
    let second = conversation.ask(message("123")).unwrap();
    let id = |answer: Answer| answer.id.unwrap().parse().unwrap();
    let edit = serde_json::from_value(json!({"content": "1234567"})).unwrap();
    let edit = ReviseMessage {
        message: id(sent),
        edit,
    };
    conversation.ask(edit).unwrap();
    let number = conversation.id.number();
    let bytes = |house: &House<B>| wait(house.store().text_bytes_of(number)).unwrap();
    assert_eq!(bytes(&house), 5 + 7 + 3);
    let message = id(second);
    conversation.ask(RedactMessage { message }).unwrap();
    assert_eq!(bytes(&house), 5 + 7);
    let house = house.crash();
    assert_eq!(bytes(&house), 5 + 7);
    let mut conversation = house.reopened(conversation.id);
    conversation.ask(erase(live())).unwrap();
    assert_eq!(bytes(&house), 0);
    assert_eq!(bytes(&house.crash()), 0);
}

pub(in crate::store) fn the_files_of_a_conversation_are_known_when_it_is_gone<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, Some("with files"));
    let files = || {
        let (uploader, key) = (None, None);
        let mut file = house.vacant::<Attachment>(live());
        file.ask(BeginAttachment { uploader, key }).unwrap();
        file.id
    };
    let mut taken: Vec<AttachmentId> = (0..3).map(|_| files()).collect();
    for file in &taken {
        conversation.ask_taking(*file, message("a file")).unwrap();
    }
    files();
    let number = conversation.id.number();
    taken.sort_unstable_by_key(|file| file.number());
    let of = |house: &House<B>, number| {
        let mut found = wait(house.store().attachments_of(number)).unwrap();
        found.sort_unstable_by_key(|file| file.number());
        found
    };
    assert_eq!(of(&house, number), taken);
    assert_eq!(of(&house, customer.number()), []);
    conversation.ask(erase(live())).unwrap();
    assert_eq!(of(&house, number), taken);
    let house = house.crash();
    assert_eq!(of(&house, number), taken);
}

/// Notes whose files it was asked to erase.
#[derive(Debug, Default)]
struct Noted(Mutex<Vec<EntityNumber>>);

impl FileEraser for Noted {
    fn erase_files(self: Arc<Self>, _: Tenant, conversation: EntityNumber) -> BoxFuture<()> {
        self.0.lock().push(conversation);
        Box::pin(std::future::ready(()))
    }
}

/// One that was reopened before its turn came is not touched.
pub(in crate::store) fn files_go_before_a_conversation_that_is_due_and_stay_with_one_that_is_not<
    B: Bench,
>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut closed = house.conversation(live(), customer, None);
    let mut reopened = house.conversation(live(), customer, None);
    for conversation in [&mut closed, &mut reopened] {
        conversation.ask(CloseConversation::default()).unwrap();
    }
    let page = erasable(&house, Erasing::Closed);
    assert_eq!(page.len(), 2);
    reopened.ask(ReopenConversation).unwrap();
    let noted = Arc::new(Noted::default());
    let files: Arc<dyn FileEraser> = noted.clone();
    let retained = || EraseConversation {
        closed_before: Some(Timestamp(i64::MAX)),
        files: Some(Arc::clone(&files)),
        ..erase(live())
    };
    for conversation in [&mut closed, &mut reopened] {
        conversation.ask(retained()).unwrap();
    }
    assert_eq!(*noted.0.lock(), [closed.id.number()]);
    assert!(!is_there(&house, &closed) && is_there(&house, &reopened));
}

/// As where its record can't be read.
pub(in crate::store) fn what_is_known_of_a_record_is_enough_to_erase_it<B: Bench>() {
    let house = House::<B>::new();
    let new = json!({
        "name": "nameword", "email": "mailword@example.com", "external_id": "externalword",
    });
    let mut customer = named(&house, new);
    let renamed = serde_json::from_value(json!({"name": "secondword"})).unwrap();
    customer.ask::<ChangeCustomer>(renamed).unwrap();
    let known = |subject| wait(house.store().record_to_erase(subject)).unwrap();
    let subject = customer.subject();
    let found = known(subject).unwrap();
    assert_eq!((found.tenant, found.sequence), (live(), Sequence(2)));
    for stranger in [
        Subject {
            kind: Kind::User,
            ..subject
        },
        Subject {
            tail: subject.tail ^ 1,
            ..subject
        },
    ] {
        assert_eq!(known(stranger), None);
    }
    let caller = erase(live()).caller;
    let erasing = |expected| Commit {
        rows: vec![NewRow::new(
            EventKind::CustomerErased,
            Bytes::from_static(b"{}"),
        )],
        header: Header::RecordErased,
        ..Commit::new(subject, expected, caller.clone(), Timestamp::now())
    };
    let store = house.store();
    let gone = RecordError::NotFound;
    let asked = wait(store.commit_end(erasing(Sequence(1)), gone.clone()));
    let conflict = AskError::unavailable(Cause::Conflict);
    assert_eq!(asked, Err(conflict), "it has changed since");
    wait(store.commit_end(erasing(found.sequence), gone.clone())).unwrap();
    assert_eq!(known(subject), None);
    let again = wait(store.commit_end(erasing(found.sequence), gone.clone()));
    assert_eq!(again, Err(AskError::Refused(gone)), "it is gone");
    for word in ["nameword", "mailword", "externalword", "secondword"] {
        house.until(word, || !house.holds(word));
    }
    house.is_sound();
}

fn named<B: Bench>(house: &House<B>, new: serde_json::Value) -> Acting<Record<Customer>> {
    let mut customer = house.vacant::<Customer>(live());
    let new: CreateCustomer = serde_json::from_value(new).unwrap();
    customer.ask_with_key("of the customer", new).unwrap();
    customer
}

pub(in crate::store) fn an_erased_customer_leaves_the_files_and_gives_up_its_names<B: Bench>() {
    let house = House::<B>::new();
    let new = json!({
        "name": "nameword", "email": "mailword@example.com", "external_id": "externalword",
        "metadata": {"a": "noteword"},
    });
    let mut customer = named(&house, new);
    let renamed = serde_json::from_value(json!({"name": "secondword"})).unwrap();
    customer.ask::<ChangeCustomer>(renamed).unwrap();
    let mut conversation = house.conversation(live(), customer.id, None);
    house.settle();
    let words = [
        "nameword",
        "mailword",
        "externalword",
        "noteword",
        "secondword",
    ];
    for word in words {
        assert!(house.holds(word), "{word}");
    }
    customer.ask(EraseCustomer).unwrap();
    assert!(
        wait(house.store().load(customer.subject()))
            .unwrap()
            .is_none()
    );
    let nobody = house.create(live(), customer.id, json!({"customer_id": customer.id}));
    let nobody = nobody.map(|_| ());
    let violated = CommitFailure::Violated(ConstraintViolation::NoCustomer);
    assert_eq!(nobody, Err(Failed::Commit(violated)));
    // Its conversations go by themselves, and show its name until then.
    conversation.ask(erase(live())).unwrap();
    let house = house.crash();
    for word in words {
        house.until(word, || !house.holds(word));
    }
    let number = customer.id.number();
    house.until("the store says so", || {
        let left = house.store().still_erasing(vec![number]);
        wait(left).unwrap().is_empty()
    });
    let Known::Replay(again) = house.look(live(), "of the customer", 1) else {
        unreachable!("a kept answer stays for its 24 hours")
    };
    let body = String::from_utf8_lossy(&again.body).into_owned();
    assert!(words.iter().all(|word| !body.contains(word)), "{body}");
    house.is_sound();
    let mut next = house.vacant::<Customer>(live());
    let new = json!({"name": "Another", "external_id": "externalword"});
    let new: CreateCustomer = serde_json::from_value(new).unwrap();
    assert!(next.ask(new).is_ok(), "the name is free again");
}

pub(in crate::store) fn one_erasure_of_a_customer_runs_until_it_is_finished<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let begin = |house: &House<B>| {
        let mut erasure = house.vacant::<Erasure>(live());
        let begun = erasure.ask(BeginErasure { customer });
        begun.map(|_| erasure.id)
    };
    let first = begin(&house).unwrap();
    let taken = ConstraintViolation::Taken(NameField::ErasedCustomer);
    let is_taken = |house: &House<B>| {
        let second = begin(house);
        assert_eq!(second, Err(Failed::Commit(CommitFailure::Violated(taken))));
    };
    is_taken(&house);
    let chore = Chore::EraseCustomer(live(), first);
    assert_eq!(wait(house.store().chores()).unwrap(), [chore]);
    let house = house.crash();
    is_taken(&house);
    assert_eq!(wait(house.store().chores()).unwrap(), [chore]);
    let found = running(&house, customer);
    assert_eq!(found.total, 1);
    house
        .record::<Erasure>(live(), first)
        .ask(FinishErasure)
        .unwrap();
    house.store().chore_done(chore);
    let house = house.crash();
    assert_eq!(wait(house.store().chores()).unwrap(), []);
    assert_eq!(running(&house, customer).total, 0);
    assert!(begin(&house).is_ok(), "the customer has not gone by itself");
    house
        .record::<Customer>(live(), customer)
        .ask(EraseCustomer)
        .unwrap();
    house.is_sound();
}

/// The erasures of a customer that are under way.
fn running<B: Bench>(house: &House<B>, customer: CustomerId) -> StoredPage<StoredRecord> {
    let name = RecordName {
        field: NameField::ErasedCustomer,
        value: customer.to_string(),
    };
    let query = RecordQuery {
        tenant: live(),
        kind: Kind::Erasure,
        names: vec![name],
        paging: Paging {
            limit: 10,
            start: Start::Offset(0),
            order: Order::Desc,
        },
    };
    wait(house.store().records(query)).unwrap()
}
