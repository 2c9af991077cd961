//! The actor around an entity. It holds the order only: load, look up, decide, apply, submit; the
//! answer is sent when the commit is durable.

use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, Supervised, WrapFuture,
};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ask_error::{AskError, Cause, SOON};
use super::command::{Command, Decision, Lookup};
use super::entity::Entity;
use super::entity_handle::{CircuitState, EntityHandle, MailboxPermit};
use super::journal::{CommitFailure, Incarnation, LoadError};
use super::metrics::{Histogram, Metrics, count};
use super::pending_commit::{Applied, PendingCommit};
use super::request::{Answer, Phase, Request, Responder};
use super::traces::OpenSpan;

/// The actor of one entity: it holds the copy in memory while one is loaded.
pub(super) struct EntityActor<E: Entity> {
    handle: Arc<EntityHandle<E>>,
    /// `None` before the first message, and again after a crash.
    entity: Option<E>,
    incarnation: Incarnation,
    /// Messages taken since the neighbours on this thread last ran.
    messages_in_turn: u32,
    turn_budget: u32,
    /// Set after a failed load: what was queued then gets this answer without another load.
    load_error: Option<LoadError>,
}

/// A message of the runtime to an actor; it takes no mailbox permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// A commit failed: load the state again if it has not been loaded since.
    Reload,
    /// An operator wants the state in memory to be dropped.
    Restart,
    /// Everything that was queued when a load failed has been answered.
    EndLoadError,
}

impl Message for Control {
    type Result = ();
}

/// The message that loads an entity which no command needs yet. It holds a mailbox permit, so that
/// the entity is not passivated meanwhile.
pub(super) struct Activate<E: Entity> {
    pub(super) permit: MailboxPermit<E>,
    /// Told how the load ended; dropped when the actor is lost before.
    pub(super) report: oneshot::Sender<Result<(), LoadError>>,
}

impl<E: Entity> Message for Activate<E> {
    type Result = ();
}

impl<E: Entity, C: Command<E>> Message for Request<E, C> {
    type Result = ();
}

// The entity is never pinned.
impl<E: Entity> Unpin for EntityActor<E> {}

impl<E: Entity> EntityActor<E> {
    pub(super) fn new(handle: Arc<EntityHandle<E>>) -> Self {
        let turn_budget = handle.registry.policy.load().turn_budget;
        Self {
            handle,
            entity: None,
            incarnation: Incarnation(0),
            messages_in_turn: 0,
            turn_budget,
            load_error: None,
        }
    }

    /// Whether the state in memory may be used.
    fn is_current(&self) -> bool {
        self.entity.is_some() && !self.handle.has_failed(self.incarnation)
    }

    /// Takes one command, after the load or the lookup that it needs.
    fn process<C: Command<E>>(&mut self, request: Request<E, C>, ctx: &mut Context<Self>) {
        if request.responder.is_abandoned() {
            count(&self.handle.registry.metrics.abandoned);
        } else if let Some(error) = self.load_error {
            request.responder.load_failed(error);
        } else if !self.is_current() {
            self.load(ctx, |actor, loaded, ctx| match loaded {
                Ok(()) => actor.process(request, ctx),
                Err(error) => request.responder.load_failed(error),
            });
        } else if let Some(lookup) = self
            .entity
            .as_ref()
            .and_then(|entity| request.command.lookup(entity))
        {
            self.look_up(lookup, request, ctx);
        } else if request.responder.start() {
            self.decide(request, None, ctx);
        } else {
            count(&self.handle.registry.metrics.abandoned);
        }
    }

    /// Loads the entity, then goes on with what needed it.
    fn load(
        &mut self,
        ctx: &mut Context<Self>,
        then: impl FnOnce(&mut Self, Result<(), LoadError>, &mut Context<Self>) + 'static,
    ) {
        self.entity = None;
        self.handle.load_begun();
        let handle = Arc::clone(&self.handle);
        let loading = async move {
            let _permit = handle.registry.loads.permit().await;
            if handle.was_loaded() {
                handle.registry.journal.reload(handle.id)
            } else {
                handle.registry.journal.load(handle.id)
            }
            .await
        };
        ctx.wait(
            loading
                .into_actor(self)
                .map(|loaded, actor: &mut Self, ctx| {
                    let loaded = actor.loaded(loaded, ctx);
                    then(actor, loaded, ctx);
                    actor.handle.registry.remove_if_unused(&actor.handle);
                }),
        );
    }

    /// Takes the outcome of a load: the entity, or why what is queued is refused.
    fn loaded(
        &mut self,
        loaded: Result<Option<E>, LoadError>,
        ctx: &mut Context<Self>,
    ) -> Result<(), LoadError> {
        match loaded {
            Ok(stored) => {
                let entity = stored.unwrap_or_else(|| E::vacant(self.handle.id));
                self.incarnation = Incarnation::next();
                self.handle.record_load(self.incarnation, &entity);
                self.entity = Some(entity);
                Ok(())
            }
            Err(error) => {
                self.handle.load_failed();
                self.load_error = Some(error);
                ctx.address().do_send(Control::EndLoadError);
                self.handle.mark_removable();
                Err(error)
            }
        }
    }

    /// Waits until everything submitted is settled, then looks up what the command must know.
    fn look_up<C: Command<E>>(
        &mut self,
        lookup: C::Lookup,
        request: Request<E, C>,
        ctx: &mut Context<Self>,
    ) {
        if self.handle.is_settled(self.incarnation) {
            return self.find(lookup, request, ctx);
        }
        let (settle, settled) = oneshot::channel();
        let report = Box::new(move |outcome: Result<(), _>| {
            let _ = settle.send(outcome.is_ok());
        });
        self.handle
            .registry
            .journal
            .barrier(self.handle.id, self.incarnation, report);
        let settled = async move { settled.await.unwrap_or(false) };
        ctx.wait(
            settled
                .into_actor(self)
                .map(|is_settled, actor: &mut Self, ctx| {
                    if is_settled && actor.is_current() {
                        actor.find(lookup, request, ctx);
                    } else {
                        // The state that the lookup was made from is lost: begin again from what is
                        // stored.
                        actor.handle.mark_failed(actor.incarnation);
                        actor.process(request, ctx);
                    }
                }),
        );
    }

    /// Looks up what the command must know, then decides it.
    fn find<C: Command<E>>(
        &mut self,
        lookup: C::Lookup,
        request: Request<E, C>,
        ctx: &mut Context<Self>,
    ) {
        if !request.responder.start() {
            return count(&self.handle.registry.metrics.abandoned);
        }
        self.handle.mark_needed();
        let finding = lookup.find(self.handle.registry.journal.source());
        ctx.wait(
            finding
                .into_actor(self)
                .map(|found, actor: &mut Self, ctx| match found {
                    Ok(found) => actor.decide(request, Some(found), ctx),
                    Err(error) => {
                        actor.restore_removable();
                        request.responder.load_failed(error);
                    }
                }),
        );
    }

    /// Lets the entity decide a command that has started, and carries the decision out. A panic
    /// from here on is the command's crash.
    fn decide<C: Command<E>>(
        &mut self,
        request: Request<E, C>,
        found: Option<<C::Lookup as Lookup<E>>::Found>,
        ctx: &mut Context<Self>,
    ) {
        let Request {
            command,
            mut responder,
        } = request;
        let Some(entity) = self.entity.as_ref() else {
            return;
        };
        // Otherwise the permit that a panic returns would take the crash history with it.
        self.handle.mark_needed();
        self.end_phase(&mut responder, |metrics| &metrics.waiting);
        self.crash_if_drilled();
        let trace = responder.trace.as_deref();
        let span = trace.map(|trace| OpenSpan::begin(*trace, "decide"));
        let decision = command.decide(entity, found, Timestamp::now());
        if let Some(span) = span {
            span.end(false, Vec::new());
        }
        self.handle.count_handled();
        self.carry_out(decision, responder, ctx);
    }

    /// Panics where an operator asked for it, with the command that is about to be decided.
    fn crash_if_drilled(&self) {
        #[expect(clippy::panic, reason = "a drill is a real crash")]
        if self.handle.takes_drill() {
            panic!("a drill: an operator asked for this crash");
        }
    }

    fn carry_out<R: Send + 'static>(
        &mut self,
        decision: Decision<E, R>,
        mut responder: Responder<E, R>,
        ctx: &mut Context<Self>,
    ) {
        let Some(entity) = self.entity.as_mut() else {
            return;
        };
        match decision {
            Decision::Answer(reply) => self.answer(responder, Ok(reply)),
            Decision::Refuse(refusal) => self.answer(responder, Err(AskError::Refused(refusal))),
            Decision::Keep { commit, reply } => {
                let revision = entity.revision();
                self.restore_removable();
                self.submit(
                    PendingCommit::begin(responder, self.incarnation, Applied::NotYet, revision),
                    commit,
                    reply,
                );
            }
            Decision::Change {
                change,
                commit,
                reply,
                pipelined: true,
            } => {
                entity.apply(change);
                self.handle.record_state(entity);
                let revision = entity.revision();
                self.end_phase(&mut responder, |metrics| &metrics.handling);
                self.submit(
                    PendingCommit::begin(responder, self.incarnation, Applied::Already, revision),
                    commit,
                    reply,
                );
            }
            Decision::Change {
                change,
                commit,
                reply,
                pipelined: false,
            } => {
                self.end_phase(&mut responder, |metrics| &metrics.handling);
                let settled = self.submit_conditional(responder, commit, reply);
                self.apply_when_durable(change, settled, ctx);
            }
        }
    }

    /// Answers without a change, when everything submitted before is durable.
    fn answer<R: Send + 'static>(&mut self, mut responder: Responder<E, R>, answer: Answer<E, R>) {
        self.restore_removable();
        self.end_phase(&mut responder, |metrics| &metrics.handling);
        let journal = &self.handle.registry.journal;
        let is_shared = journal.is_shared();
        if !is_shared && self.handle.is_settled(self.incarnation) {
            return responder.respond(answer);
        }
        responder.phase = Phase::Barrier;
        let incarnation = self.incarnation;
        let has_failed = move |handle: &Arc<EntityHandle<E>>| handle.has_failed(incarnation);
        let settle = Box::new(
            move |outcome: Result<(), CommitFailure<E::Violation>>| match outcome {
                Ok(()) if !responder.handle().is_some_and(has_failed) => responder.respond(answer),
                Ok(()) => responder.unavailable(Cause::Conflict, SOON),
                Err(CommitFailure::Conflict) => {
                    if let Some(handle) = responder.handle()
                        && handle.mark_failed(incarnation)
                    {
                        handle.registry.request_reload(handle);
                    }
                    responder.unavailable(Cause::Conflict, SOON);
                }
                Err(
                    CommitFailure::Violated(_)
                    | CommitFailure::Unavailable
                    | CommitFailure::Unknown,
                ) => {
                    responder.unavailable(Cause::StoreUnavailable, SOON);
                }
            },
        );
        if is_shared && let Some(entity) = &self.entity {
            return journal.confirm(self.handle.id, incarnation, entity.revision(), settle);
        }
        journal.barrier(self.handle.id, incarnation, settle);
    }

    /// Submits a commit and goes on; the answer is sent when it is settled.
    fn submit<R: Send + 'static>(
        &mut self,
        pending: PendingCommit<E, R>,
        commit: E::Commit,
        reply: R,
    ) {
        let settle = Box::new(move |outcome| pending.complete(reply, outcome));
        self.handle
            .registry
            .journal
            .submit(self.incarnation, commit, settle);
    }

    /// Submits a commit that may be refused; the receiver tells whether it became durable.
    fn submit_conditional<R: Send + 'static>(
        &mut self,
        responder: Responder<E, R>,
        commit: E::Commit,
        reply: R,
    ) -> oneshot::Receiver<bool> {
        let (settle, settled) = oneshot::channel();
        let pending =
            PendingCommit::begin(responder, self.incarnation, Applied::NotYet, Sequence::ZERO);
        let report = Box::new(move |outcome: Result<(), _>| {
            // The actor hears it first, so that a panic while answering can't keep it from applying
            // the change.
            let _ = settle.send(outcome.is_ok());
            pending.complete(reply, outcome);
        });
        self.handle
            .registry
            .journal
            .submit(self.incarnation, commit, report);
        settled
    }

    /// Takes no message until a conditional commit is settled; applies the change if it is durable.
    fn apply_when_durable(
        &mut self,
        change: E::Change,
        settled: oneshot::Receiver<bool>,
        ctx: &mut Context<Self>,
    ) {
        let settled = async move { settled.await.unwrap_or(false) };
        ctx.wait(
            settled
                .into_actor(self)
                .map(|is_durable, actor: &mut Self, _| {
                    if is_durable && let Some(entity) = actor.entity.as_mut() {
                        entity.apply(change);
                        actor.handle.record_state(entity);
                        actor.handle.mark_committed(entity.revision());
                    }
                    actor.restore_removable();
                    actor.handle.registry.remove_if_unused(&actor.handle);
                }),
        );
    }

    /// Lets the entity go with its last permit if it is vacant.
    fn restore_removable(&self) {
        if self.entity.as_ref().is_some_and(E::is_vacant) {
            self.handle.mark_removable();
        } else {
            self.handle.mark_needed();
        }
    }

    /// Records how long a sampled request's phase took; the next one begins.
    fn end_phase<R: Send + 'static>(
        &self,
        responder: &mut Responder<E, R>,
        of: impl Fn(&Metrics) -> &Histogram,
    ) {
        if let Some(begun) = responder.sample {
            let now = Instant::now();
            let took = now.saturating_duration_since(begun);
            of(&self.handle.registry.metrics).record(took);
            responder.sample = Some(now);
        }
    }

    /// Counts a message; after the turn's budget the neighbours on this thread run first.
    fn count_turn(&mut self, ctx: &mut Context<Self>) {
        self.messages_in_turn += 1;
        if self.messages_in_turn >= self.turn_budget {
            self.messages_in_turn = 0;
            self.turn_budget = self.handle.registry.policy.load().turn_budget;
            ctx.wait(tokio::task::yield_now().into_actor(self));
        }
    }
}

impl<E: Entity> Actor for EntityActor<E> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let CircuitState::BackingOff { .. } = self.handle.circuit() {
            let handle = Arc::clone(&self.handle);
            let backing_off = async move { handle.backed_off().await };
            ctx.wait(backing_off.into_actor(self));
        }
    }
}

impl<E: Entity> Supervised for EntityActor<E> {
    fn restarting(&mut self, _: &mut Self::Context) {
        self.load_error = None;
        self.entity = None;
        self.handle.record_drop();
    }
}

impl<E: Entity, C: Command<E>> Handler<Request<E, C>> for EntityActor<E> {
    type Result = ();

    fn handle(&mut self, request: Request<E, C>, ctx: &mut Self::Context) {
        self.count_turn(ctx);
        self.process(request, ctx);
    }
}

impl<E: Entity> Handler<Activate<E>> for EntityActor<E> {
    type Result = ();

    fn handle(&mut self, activate: Activate<E>, ctx: &mut Self::Context) {
        let Activate { permit, report } = activate;
        self.load(ctx, |actor, loaded, _| {
            if loaded.is_err() {
                // Otherwise it would stay in the directory for a drill that was refused.
                actor.handle.end_drill();
            }
            drop(permit);
            // An operator who has left needs no answer.
            let _ = report.send(loaded);
        });
    }
}

impl<E: Entity> Handler<Control> for EntityActor<E> {
    type Result = ();

    fn handle(&mut self, control: Control, ctx: &mut Self::Context) {
        match control {
            Control::Reload if self.is_current() => {}
            Control::Reload => self.load(ctx, |_, _, _| {}),
            Control::Restart => {
                self.handle.restart_done();
                self.handle.record_drop();
                self.entity = None;
                // Loaded before anybody asks, so that operators see it as it is; one that is about
                // to leave needs no state.
                if !self.handle.is_leaving() {
                    self.load(ctx, |_, _, _| {});
                }
            }
            Control::EndLoadError => self.load_error = None,
        }
    }
}
