//! A store with its views, and entities that commit to it without a runtime.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::accounts::record::{Record, RecordCommand, RecordRequest, RecordSpec};
use crate::accounts::{
    Account, CreateCustomer, CreateUser, Customer, IssueKey, Key, OpenAccount, User,
};
use crate::conversation::messages::{ConversationError, CustomerShown, StartConversation};
use crate::conversation::{
    Conversation, ConversationCommand, ConversationRequest, EraseConversation,
};
use crate::idempotency::{Keys, Looked};
use crate::journal::Kept;
use crate::store::{
    ConversationHeader, ConversationQuery, Facets, MessageQuery, Store, Stored, StoredPage,
};
use crate::views::Views;
use colloquy_model::account::AccountNumber;
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::ConstraintViolation;
use colloquy_model::conversation::Status;
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AttachmentId, ConversationId, CustomerId, Id, KeyId};
use colloquy_model::idempotency::{Reservation, key_hash};
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::time::Timestamp;
use colloquy_runtime::{Command, CommitFailure, Decision, Incarnation, Lookup};

/// Live data of account 1.
pub(super) fn live() -> Tenant {
    Tenant::of(1, Mode::Live)
}

/// Its test data.
pub(super) fn test() -> Tenant {
    Tenant::of(1, Mode::Test)
}

/// Live data of account 2.
pub(super) fn other() -> Tenant {
    Tenant::of(2, Mode::Live)
}

/// Waits for what a store gives later.
pub(in crate::store) fn wait<T>(later: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(later)
}

/// An open store.
pub(in crate::store) type Opened = Arc<dyn Store>;

/// How a store numbers the events of an account and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Numbering {
    /// 1, 2, 3 …
    WithoutGaps,
    /// By their positions.
    ByPosition,
}

/// How much a test lets a store hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Volume {
    /// So much that what is slow where much is stored is seen.
    Large,
    /// No more than shows the promise: for a server that reads all that is stored for each query.
    Small,
}

impl Volume {
    /// How many of something, or how much.
    pub(in crate::store) fn of<T>(self, large: T, small: T) -> T {
        match self {
            Volume::Large => large,
            Volume::Small => small,
        }
    }
}

/// A place where a store can be opened, again and again.
pub(in crate::store) trait Bench: Sized {
    /// What the number of an event is.
    const NUMBERING: Numbering;
    /// How much is stored in it.
    const VOLUME: Volume;

    /// An empty one.
    fn new() -> Self;

    /// Opens what is there. Whatever is written behind happens within milliseconds.
    fn open(&self, views: Views) -> Opened;

    /// The same, but headers are not folded by themselves.
    fn open_lagging(&self, views: Views) -> Opened;

    /// Opens what is there, and keeps events for so long.
    fn open_keeping(&self, views: Views, kept: Duration) -> Opened;

    /// What would be left if the process were killed now.
    fn killed(&self) -> Self;

    /// Whether any file has this text.
    fn holds(&self, text: &str) -> bool;

    /// What a check of what would be left finds.
    fn findings(&self) -> Vec<String>;
}

/// A bench, the store on it, and its views.
pub(in crate::store) struct House<B> {
    bench: B,
    store: Opened,
    pub(in crate::store) views: Views,
    bounds: (usize, usize),
    lagging: bool,
}

impl<B> Drop for House<B> {
    fn drop(&mut self) {
        self.store.close();
    }
}

/// Why a command came to nothing.
#[derive(Debug, PartialEq)]
pub(in crate::store) enum Failed<R> {
    /// The rules refused.
    Refused(R),
    /// The store refused.
    Commit(CommitFailure<ConstraintViolation>),
}

impl<B: Bench> House<B> {
    pub(in crate::store) fn new() -> Self {
        Self::with_keys(1000, 500)
    }

    pub(in crate::store) fn with_keys(keys_max: usize, slice: usize) -> Self {
        Self::on(B::new(), (keys_max, slice), false)
    }

    /// Headers lag for as long as the store is open.
    pub(in crate::store) fn lagging() -> Self {
        Self::on(B::new(), (1000, 500), true)
    }

    fn views(bounds: (usize, usize)) -> Views {
        Views {
            keys: Arc::new(Keys::bounded(bounds.0, bounds.1)),
            ..Views::default()
        }
    }

    /// On files that are there.
    pub(in crate::store) fn at(bench: B) -> Self {
        Self::on(bench, (1000, 500), false)
    }

    /// Events older than this are no events any more.
    pub(in crate::store) fn keeping(kept: Duration) -> Self {
        let (bench, bounds) = (B::new(), (1000, 500));
        let views = Self::views(bounds);
        let store = bench.open_keeping(views.clone(), kept);
        House {
            bench,
            store,
            views,
            bounds,
            lagging: false,
        }
    }

    fn on(bench: B, bounds: (usize, usize), lagging: bool) -> Self {
        let views = Self::views(bounds);
        let store = if lagging {
            bench.open_lagging(views.clone())
        } else {
            bench.open(views.clone())
        };
        House {
            bench,
            store,
            views,
            bounds,
            lagging,
        }
    }

    pub(in crate::store) fn bench(&self) -> &B {
        &self.bench
    }

    /// The process is killed and started again.
    pub(in crate::store) fn crash(self) -> Self {
        self.settle();
        let bench = self.bench.killed();
        let (bounds, lagging) = (self.bounds, self.lagging);
        drop(self);
        Self::on(bench, bounds, lagging)
    }

    pub(in crate::store) fn store(&self) -> Opened {
        Arc::clone(&self.store)
    }

    /// Waits until all that was submitted is settled.
    pub(in crate::store) fn settle(&self) {
        let (settled, outcome) = sync_channel(1);
        let settle = Box::new(move |_| settled.send(()).unwrap());
        let nobody = Subject {
            kind: colloquy_model::entity::Kind::User,
            number: EntityNumber(1),
            tail: 1,
        };
        self.store.barrier(nobody, Incarnation::next(), settle);
        outcome.recv().unwrap();
    }

    /// Looks again and again until this holds; what is written behind has no other sign.
    ///
    /// # Panics
    /// It does not hold within 20 s.
    pub(in crate::store) fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "not within 20 s: {what}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(in crate::store) fn holds(&self, text: &str) -> bool {
        self.bench.holds(text)
    }

    /// Nothing is found by a check.
    pub(in crate::store) fn is_sound(&self) {
        self.settle();
        assert_eq!(self.bench.killed().findings(), Vec::<String>::new());
    }

    pub(in crate::store) fn list(
        &self,
        tenant: Tenant,
        facets: Facets,
    ) -> StoredPage<ConversationHeader> {
        let paging = Paging {
            limit: 1000,
            start: Start::Offset(0),
            order: Order::Desc,
        };
        wait(self.store.conversations(ConversationQuery {
            tenant,
            facets,
            by_update: false,
            paging,
        }))
        .unwrap()
    }

    pub(in crate::store) fn counted(&self, tenant: Tenant, status: Option<Status>) -> u64 {
        self.list(
            tenant,
            Facets {
                status,
                ..Facets::default()
            },
        )
        .total
    }

    /// The customer's name as lists show it.
    pub(in crate::store) fn name_of(&self, header: &ConversationHeader) -> Box<str> {
        let newer = self.views.names.renamed(header.state.customer.number());
        newer.unwrap_or_else(|| header.customer_name.clone())
    }

    pub(in crate::store) fn transcript(
        &self,
        tenant: Tenant,
        id: ConversationId,
    ) -> StoredPage<Arc<str>> {
        let paging = Paging {
            limit: 1000,
            start: Start::Offset(0),
            order: Order::Asc,
        };
        let conversation = Conversation::subject(id);
        let query = MessageQuery {
            tenant,
            conversation,
            sender: None,
            after_seq: None,
            before_seq: None,
            paging,
        };
        wait(self.store.messages(query)).unwrap().unwrap()
    }

    pub(in crate::store) fn vacant<R: RecordSpec>(&self, tenant: Tenant) -> Acting<Record<R>> {
        self.acting(tenant, Id::new(Timestamp::now()), None)
    }

    pub(in crate::store) fn record<R: RecordSpec>(
        &self,
        tenant: Tenant,
        id: Id<R::Named>,
    ) -> Acting<Record<R>> {
        self.acting(tenant, id, self.load::<Record<R>>(id))
    }

    pub(in crate::store) fn customer(&self, tenant: Tenant, name: &str) -> CustomerId {
        let mut customer = self.vacant::<Customer>(tenant);
        let new: CreateCustomer = serde_json::from_value(json!({"name": name})).unwrap();
        customer.ask(new).unwrap();
        customer.id
    }

    pub(in crate::store) fn new_user(&self, email: &str) -> CreateUser {
        serde_json::from_value(json!({"name": "Somebody", "email": email, "role": "agent"}))
            .unwrap()
    }

    pub(in crate::store) fn user(
        &self,
        tenant: Tenant,
        email: &str,
    ) -> Result<Acting<Record<User>>, Failed<crate::accounts::record::RecordError>> {
        let mut user = self.vacant::<User>(tenant.account_wide());
        user.ask(self.new_user(email))?;
        Ok(user)
    }

    /// An account's key and its secret.
    pub(in crate::store) fn key(&self) -> (KeyId, String) {
        let mut account = self.vacant::<Account>(Tenant::OPERATORS);
        let new = serde_json::from_value(json!({"name": "An account"})).unwrap();
        let number = AccountNumber(1);
        account.ask(OpenAccount { new, number }).unwrap();
        let mut key = self.vacant::<Key>(Tenant::account(1));
        let new = serde_json::from_value(json!({"type": "test"})).unwrap();
        let account = account.id;
        let shown = key.ask(IssueKey { new, account }).unwrap();
        let shown: serde_json::Value = serde_json::from_slice(&shown.body).unwrap();
        (
            key.id,
            shown.get("key").unwrap().as_str().unwrap().to_owned(),
        )
    }

    pub(in crate::store) fn conversation(
        &self,
        tenant: Tenant,
        customer: CustomerId,
        first: Option<&str>,
    ) -> Acting<Conversation> {
        self.try_conversation(tenant, customer, first).unwrap()
    }

    pub(in crate::store) fn try_conversation(
        &self,
        tenant: Tenant,
        customer: CustomerId,
        first: Option<&str>,
    ) -> Result<Acting<Conversation>, Failed<ConversationError>> {
        let new = json!({"customer_id": customer, "initial_message": first});
        self.create(tenant, customer, new)
    }

    pub(in crate::store) fn create(
        &self,
        tenant: Tenant,
        customer: CustomerId,
        new: serde_json::Value,
    ) -> Result<Acting<Conversation>, Failed<ConversationError>> {
        let mut conversation = self.acting(tenant, ConversationId::new(Timestamp::now()), None);
        let subject = Subject {
            kind: colloquy_model::entity::Kind::Customer,
            number: customer.number(),
            tail: customer.tail(),
        };
        let Ok(Some(Stored::Record(found))) = wait(self.store.load(subject)) else {
            return Err(Failed::Commit(CommitFailure::Violated(
                ConstraintViolation::NoCustomer,
            )));
        };
        let name = self
            .views
            .names
            .cell(customer.number(), &found.name, found.sequence);
        let customer = CustomerShown { id: customer, name };
        let new = serde_json::from_value(new).unwrap();
        conversation.ask(StartConversation { new, customer })?;
        Ok(conversation)
    }

    /// Another copy of a conversation, as it is stored.
    pub(in crate::store) fn reopened(&self, id: ConversationId) -> Acting<Conversation> {
        let Ok(Some(Stored::Conversation(stored))) =
            wait(self.store.load(Conversation::subject(id)))
        else {
            panic!("{id} is not there")
        };
        self.acting(stored.tenant, id, self.load::<Conversation>(id))
    }

    fn load<E: Kept>(&self, id: E::Id) -> Option<E> {
        let stored = wait(self.store.load(E::subject(id))).unwrap()?;
        Some(E::restore(id, stored, &self.views.names).unwrap())
    }

    fn acting<E: Kept>(&self, tenant: Tenant, id: E::Id, held: Option<E>) -> Acting<E> {
        Acting {
            id,
            entity: held.unwrap_or_else(|| E::vacant(id)),
            incarnation: Incarnation::next(),
            tenant,
            store: self.store(),
            views: self.views.clone(),
        }
    }
}

/// One copy of an entity: what its actor would do, one command after the other.
pub(in crate::store) struct Acting<E: Kept> {
    pub(in crate::store) id: E::Id,
    pub(in crate::store) tenant: Tenant,
    entity: E,
    incarnation: Incarnation,
    store: Opened,
    views: Views,
}

impl<E: Kept> std::fmt::Debug for Acting<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}

/// A commit on its way.
pub(in crate::store) struct Pending(Receiver<Result<(), CommitFailure<ConstraintViolation>>>);

impl Pending {
    pub(in crate::store) fn settled(self) -> Result<(), CommitFailure<ConstraintViolation>> {
        self.0.recv().unwrap()
    }
}

/// An entity that can be asked with requests of this type.
pub(in crate::store) trait Asked<R>: Kept {
    type Command: Command<Self>;

    /// The command that carries the request.
    fn command(
        acting: &Acting<Self>,
        request: R,
        reservation: Option<Reservation>,
    ) -> Self::Command;
}

/// What an entity replies to a request of this type.
type Reply<E, R> = <<E as Asked<R>>::Command as Command<E>>::Reply;

impl<R: ConversationRequest> Asked<R> for Conversation {
    type Command = ConversationCommand<R>;

    fn command(
        acting: &Acting<Self>,
        request: R,
        reservation: Option<Reservation>,
    ) -> ConversationCommand<R> {
        ConversationCommand {
            attachment: None,
            meta: CommandMeta {
                reservation,
                ..CommandMeta::new(acting.caller())
            },
            request,
            users: Arc::clone(&acting.views.identity),
        }
    }
}

impl Asked<EraseConversation> for Conversation {
    type Command = EraseConversation;

    fn command(
        _: &Acting<Self>,
        request: EraseConversation,
        _: Option<Reservation>,
    ) -> EraseConversation {
        request
    }
}

impl<R: RecordSpec, Q: RecordRequest<R>> Asked<Q> for Record<R> {
    type Command = RecordCommand<Q>;

    fn command(
        acting: &Acting<Self>,
        request: Q,
        reservation: Option<Reservation>,
    ) -> RecordCommand<Q> {
        RecordCommand {
            meta: CommandMeta {
                reservation,
                ..CommandMeta::new(acting.caller())
            },
            request,
            identity: Arc::clone(&acting.views.identity),
        }
    }
}

impl<E: Kept> Acting<E> {
    pub(in crate::store) fn subject(&self) -> Subject {
        E::subject(self.id)
    }

    fn caller(&self) -> Caller {
        Caller {
            tenant: self.tenant,
            actor: Actor::server("a test"),
        }
    }

    fn decide<R>(&self, request: R, reservation: Option<Reservation>) -> Decision<E, Reply<E, R>>
    where
        E: Asked<R>,
    {
        let command = E::command(self, request, reservation);
        let found = command
            .lookup(&self.entity)
            .map(|lookup| wait(lookup.find(Arc::clone(&self.store))).unwrap());
        command.decide(&self.entity, found, Timestamp::now())
    }

    fn submit(&self, commit: E::Commit) -> Pending {
        let (settled, outcome) = sync_channel(1);
        let settle = Box::new(move |outcome| settled.send(outcome).unwrap());
        self.store.submit(self.incarnation, commit, settle);
        Pending(outcome)
    }

    /// Asks, and has `look` look at the views when the reply leaves, on the store's own thread.
    pub(in crate::store) fn ask_and_look<R, T: Send + 'static>(
        &self,
        request: R,
        look: impl FnOnce(&Views) -> T + Send + 'static,
    ) -> T
    where
        E: Asked<R>,
    {
        self.look_when_settled(self.decide(request, None), look)
    }

    /// The same, with an idempotency key that has not been used.
    pub(in crate::store) fn ask_with_key_and_look<R, T: Send + 'static>(
        &mut self,
        key: &str,
        request: R,
        look: impl FnOnce(&Views) -> T + Send + 'static,
    ) -> T
    where
        E: Asked<R>,
    {
        let reservation = self.reserve(key);
        self.look_when_settled(self.decide(request, Some(reservation)), look)
    }

    fn look_when_settled<T: Send + 'static, A>(
        &self,
        decision: Decision<E, A>,
        look: impl FnOnce(&Views) -> T + Send + 'static,
    ) -> T {
        let Decision::Change { commit, .. } = decision else {
            panic!("{self:?} is not changed by it")
        };
        let (views, (looked, seen)) = (self.views.clone(), sync_channel(1));
        let settle = Box::new(move |outcome: Result<(), CommitFailure<_>>| {
            outcome.unwrap();
            looked.send(look(&views)).unwrap();
        });
        self.store.submit(self.incarnation, commit, settle);
        seen.recv().unwrap()
    }

    /// Asks, and waits for the commit.
    pub(in crate::store) fn ask<R>(&mut self, request: R) -> Result<Reply<E, R>, Failed<E::Refusal>>
    where
        E: Asked<R>,
    {
        let decision = self.decide(request, None);
        self.conclude(decision)
    }

    /// The same, with an idempotency key that has not been used.
    pub(in crate::store) fn ask_with_key<R>(
        &mut self,
        key: &str,
        request: R,
    ) -> Result<Reply<E, R>, Failed<E::Refusal>>
    where
        E: Asked<R>,
    {
        let reservation = self.reserve(key);
        let decision = self.decide(request, Some(reservation));
        self.conclude(decision)
    }

    fn reserve(&self, key: &str) -> Reservation {
        let looked = self
            .views
            .keys
            .look(key_hash(self.tenant, key), crate::idempotency::numbered(1));
        let Looked::Fresh(reservation, _) = looked else {
            panic!("{key} has been used")
        };
        reservation
    }

    fn conclude<T>(&mut self, decision: Decision<E, T>) -> Result<T, Failed<E::Refusal>> {
        match decision {
            Decision::Answer(reply) => Ok(reply),
            Decision::Refuse(refusal) => Err(Failed::Refused(refusal)),
            Decision::Keep { commit, reply } => {
                self.submit(commit).settled().map_err(Failed::Commit)?;
                Ok(reply)
            }
            Decision::Change {
                change,
                commit,
                reply,
                ..
            } => {
                self.submit(commit).settled().map_err(Failed::Commit)?;
                self.entity.apply(change);
                Ok(reply)
            }
        }
    }

    /// Decides and applies at once, as an actor does; the commit is on its way.
    pub(in crate::store) fn prepare<R>(&mut self, request: R) -> Pending
    where
        E: Asked<R>,
    {
        match self.decide(request, None) {
            Decision::Change { change, commit, .. } => {
                self.entity.apply(change);
                self.submit(commit)
            }
            Decision::Keep { .. } | Decision::Answer(_) | Decision::Refuse(_) => {
                panic!("this changes nothing")
            }
        }
    }

    pub(in crate::store) fn barrier(&self) -> Result<(), CommitFailure<ConstraintViolation>> {
        self.barrier_of(self.incarnation)
    }

    pub(in crate::store) fn barrier_of(
        &self,
        incarnation: Incarnation,
    ) -> Result<(), CommitFailure<ConstraintViolation>> {
        let (settled, outcome) = sync_channel(1);
        let settle = Box::new(move |outcome| settled.send(outcome).unwrap());
        self.store.barrier(self.subject(), incarnation, settle);
        outcome.recv().unwrap()
    }
}

impl Acting<Conversation> {
    pub(in crate::store) fn send(
        &mut self,
        text: &str,
    ) -> Result<Answer, Failed<ConversationError>> {
        self.ask(super::message(text))
    }

    /// Asks for what takes this attachment.
    pub(in crate::store) fn ask_taking<R: ConversationRequest>(
        &mut self,
        attachment: AttachmentId,
        request: R,
    ) -> Result<R::Reply, Failed<ConversationError>> {
        let mut decision = self.decide(request, None);
        if let Decision::Change { commit, .. } = &mut decision {
            commit.takes = Some(attachment);
        }
        self.conclude(decision)
    }
}
