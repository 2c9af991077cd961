//! How many commands an operation sends before it is answered: each is a round trip.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use serde_json::json;

use super::OwnDatabase;
use super::commands::Commands;
use crate::accounts::Customer;
use crate::conversation::Conversation;
use crate::conversation::messages::{
    CloseConversation, ReopenConversation, ReviseMessage, SendMessage,
};
use crate::store::Facets;
use crate::store::contract::{House, wait};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::conversation::Status;
use colloquy_model::id::{ConversationId, CustomerId};
use colloquy_runtime::Incarnation;

/// What each operation takes where nobody shares it; some are asked at the same time.
const ROUND_TRIPS: [(&str, usize); 8] = [
    ("a message", 2),
    ("a message with a key", 2),
    ("a creation", 8),
    ("an edit", 4),
    ("a closing", 4),
    ("a load", 3),
    ("a page of messages", 4),
    ("a page of conversations by status", 2),
];

fn live() -> Tenant {
    Tenant::of(1, Mode::Live)
}

fn message(text: &str) -> SendMessage {
    serde_json::from_value(json!({"content": text})).unwrap()
}

/// A store that does nothing by itself, with a conversation, and what it sends.
struct Quiet {
    house: House<OwnDatabase>,
    customer: CustomerId,
    conversation: ConversationId,
    commands: std::sync::Arc<Commands>,
}

impl Quiet {
    fn new() -> Self {
        let own = OwnDatabase::quiet();
        let commands = Commands::of(&own.name);
        let house = House::at(own);
        let customer = house.customer(live(), "Ada");
        let conversation = house.conversation(live(), customer, Some("hello")).id;
        Quiet {
            house,
            customer,
            conversation,
            commands,
        }
    }

    /// Waits until what follows behind commits is carried over; gives how much was sent by then.
    fn settled(&self) -> usize {
        self.house.transcript(live(), self.conversation);
        self.commands.count()
    }

    /// The commands that a change of the conversation sends before its answer.
    fn change<R>(&self, request: R) -> Vec<String>
    where
        Conversation: crate::store::contract::Asked<R>,
    {
        let conversation = self.house.reopened(self.conversation);
        let (before, commands) = (self.settled(), self.commands.clone());
        conversation.ask_and_look(request, move |_| commands.behind(before))
    }

    /// Of a few times that something is done: the commands of the one that sent the fewest. On a
    /// busy machine what is carried over behind an answer, or what the store does by itself once
    /// in a while, may be there before one looks.
    fn fewest(&self, mut done: impl FnMut(&Self) -> Vec<String>) -> Vec<String> {
        let all = (0..5).map(|_| done(self));
        all.min_by_key(Vec::len).unwrap()
    }

    /// The commands that a reading sends.
    fn reading<T>(&self, read: impl Fn(&House<OwnDatabase>) -> T) -> Vec<String> {
        self.fewest(|quiet| quiet.sent(&read))
    }

    fn sent<T>(&self, act: impl FnOnce(&House<OwnDatabase>) -> T) -> Vec<String> {
        let before = self.settled();
        act(&self.house);
        self.commands.behind(before)
    }

    /// The commands of a conversation's creation, up to the last that the answer waits for: its
    /// header.
    fn creation(&self) -> Vec<String> {
        // The fixture loads the customer first, as the server has it in memory.
        let customer = self.reading(|house| house.record::<Customer>(live(), self.customer));
        self.fewest(|quiet| {
            let mut creation = quiet.sent(|house| house.conversation(live(), quiet.customer, None));
            creation.drain(..customer.len());
            let last = creation
                .iter()
                .rposition(|sent| sent == "update conversations");
            creation.truncate(last.unwrap() + 1);
            creation
        })
    }

    /// The commands of a message's edit.
    fn edit(&self) -> Vec<String> {
        let message = self.house.transcript(live(), self.conversation);
        let message: serde_json::Value = serde_json::from_str(&message.items[0]).unwrap();
        let mut edits = 0;
        self.fewest(|quiet| {
            edits += 1;
            quiet.change(ReviseMessage {
                message: message["message_id"].as_str().unwrap().parse().unwrap(),
                edit: serde_json::from_value(json!({"content": format!("edit {edits}")})).unwrap(),
            })
        })
    }

    /// The commands of a conversation's closing.
    fn closing(&self) -> Vec<String> {
        self.fewest(|quiet| {
            let closing = quiet.change(CloseConversation::default());
            quiet.change(ReopenConversation);
            closing
        })
    }
}

#[test]
fn an_operation_takes_no_more_round_trips_than_it_needs() {
    let quiet = Quiet::new();
    let mut keys = 0;
    let with_key = quiet.fewest(|quiet| {
        keys += 1;
        let mut conversation = quiet.house.reopened(quiet.conversation);
        let (before, commands) = (quiet.settled(), quiet.commands.clone());
        let look = move |_: &_| commands.behind(before);
        conversation.ask_with_key_and_look(&format!("key {keys}"), message("with a key"), look)
    });
    let subject = quiet.house.reopened(quiet.conversation).subject();
    let by_status = || Facets {
        status: Some(Status::Active),
        ..Facets::default()
    };
    let sent = [
        quiet.fewest(|quiet| quiet.change(message("plain"))),
        with_key,
        quiet.creation(),
        quiet.edit(),
        quiet.closing(),
        quiet.reading(|house| wait(house.store().load(subject)).unwrap()),
        quiet.reading(|house| house.transcript(live(), quiet.conversation)),
        quiet.reading(|house| house.list(live(), by_status())),
    ];
    let counted: Vec<(&str, usize)> = ROUND_TRIPS
        .iter()
        .zip(&sent)
        .map(|((operation, _), sent)| (*operation, sent.len()))
        .collect();
    assert_eq!(counted, ROUND_TRIPS, "{sent:#?}");
}

#[test]
fn messages_that_come_together_share_their_round_trips() {
    let quiet = Quiet::new();
    let mut conversations: Vec<_> = (0..64)
        .map(|_| quiet.house.conversation(live(), quiet.customer, None))
        .collect();
    let before = quiet.settled();
    let sent: Vec<_> = conversations
        .iter_mut()
        .map(|conversation| conversation.prepare(message("at once")))
        .collect();
    assert!(sent.into_iter().all(|sent| sent.settled() == Ok(())));
    let commands = quiet.commands.behind(before);
    // What is carried over behind answers is nobody's round trip.
    let waited_for: Vec<&String> = commands
        .iter()
        .filter(|command| ["findAndModify meta", "insert log"].contains(&command.as_str()))
        .collect();
    assert!(waited_for.len() < 32, "{commands:?}");
    assert_eq!(
        conversations[0].barrier_of(Incarnation::next()),
        Ok(()),
        "all of it is settled"
    );
}
