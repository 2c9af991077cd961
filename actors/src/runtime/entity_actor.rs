//! The actor around an entity. Only order: load, look up, decide, apply, submit; the answer rides
//! on the commit.

use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, Supervised, WrapFuture,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::ask::{AskError, Cause, Pledge, SOON, Step, Work};
use super::entity::{Decision, Entity};
use super::flight::{Applied, Flight};
use super::journal::{CommitFailure, Incarnation, LoadError};
use super::metrics::{Restart, count};
use super::room::wall_ms;
use super::slot::{Gate, Slot};

/// One entity's actor.
pub(super) struct EntityActor<E: Entity> {
    slot: Arc<Slot<E>>,
    /// Nothing until the first message, and again after a crash.
    entity: Option<E>,
    incarnation: Incarnation,
    turn: u32,
    turn_budget: u32,
    /// After a failed load: what was queued then is answered without another one.
    turning_away: Option<LoadError>,
}

/// What the runtime itself says to an actor; outside the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// A commit failed: load again.
    Refresh,
    /// Forget the state in memory.
    Restart,
    /// Everything that was queued when a load failed has been answered.
    Accept,
}

impl Message for Control {
    type Result = ();
}

impl<E: Entity> Message for Work<E> {
    type Result = ();
}

// The entity is never pinned.
impl<E: Entity> Unpin for EntityActor<E> {}

impl<E: Entity> EntityActor<E> {
    pub(super) fn new(slot: Arc<Slot<E>>) -> Self {
        let turn_budget = slot.room.policy.load().turn_budget;
        Self {
            slot,
            entity: None,
            incarnation: Incarnation(0),
            turn: 0,
            turn_budget,
            turning_away: None,
        }
    }

    /// Whether the state in memory may be used.
    fn is_fresh(&self) -> bool {
        self.entity.is_some() && !self.slot.has_failed(self.incarnation)
    }

    /// Takes one command as far as it goes: it may have to wait for a load or a lookup first.
    fn attend(&mut self, work: Work<E>, ctx: &mut Context<Self>) {
        if work.pledge.abandoned() {
            count(&self.slot.room.metrics.abandoned);
        } else if let Some(error) = self.turning_away {
            work.pledge.not_loaded(error);
        } else if !self.is_fresh() {
            self.load(Some(work), ctx);
        } else if let Some(lookup) = self
            .entity
            .as_ref()
            .and_then(|entity| entity.lookup(&work.command))
        {
            self.look_up(lookup, work, ctx);
        } else if work.pledge.start() {
            self.judge(work, None, ctx);
        } else {
            count(&self.slot.room.metrics.abandoned);
        }
    }

    /// Loads the entity, then goes on with the command that needed it.
    fn load(&mut self, work: Option<Work<E>>, ctx: &mut Context<Self>) {
        self.entity = None;
        let slot = Arc::clone(&self.slot);
        let loading = async move {
            let _permit = slot.room.loads.permit().await;
            if slot.was_loaded() {
                slot.room.journal.reload(slot.id)
            } else {
                slot.room.journal.load(slot.id)
            }
            .await
        };
        ctx.wait(
            loading
                .into_actor(self)
                .map(|loaded, actor: &mut Self, ctx| actor.loaded(loaded, work, ctx)),
        );
    }

    fn loaded(
        &mut self,
        loaded: Result<Option<E>, LoadError>,
        work: Option<Work<E>>,
        ctx: &mut Context<Self>,
    ) {
        match loaded {
            Ok(stored) => {
                let entity = stored.unwrap_or_else(|| E::vacant(self.slot.id));
                self.incarnation = Incarnation::next();
                self.slot.incarnated(self.incarnation, &entity);
                self.entity = Some(entity);
                if let Some(work) = work {
                    self.attend(work, ctx);
                }
            }
            Err(error) => {
                self.turning_away = Some(error);
                ctx.address().do_send(Control::Accept);
                self.slot.set_expendable(true);
                if let Some(work) = work {
                    work.pledge.not_loaded(error);
                }
            }
        }
        self.slot.room.forget_expendable(&self.slot);
    }

    /// Waits until everything submitted is settled, finds what the command must know, then judges
    /// it.
    fn look_up(&mut self, lookup: E::Lookup, work: Work<E>, ctx: &mut Context<Self>) {
        if self.slot.is_settled(self.incarnation) {
            return self.find(lookup, work, ctx);
        }
        let (settle, settled) = oneshot::channel();
        let report = Box::new(move |outcome: Result<(), _>| {
            let _ = settle.send(outcome.is_ok());
        });
        self.slot
            .room
            .journal
            .barrier(self.slot.id, self.incarnation, report);
        let settled = async move { settled.await.unwrap_or(false) };
        ctx.wait(
            settled
                .into_actor(self)
                .map(|is_settled, actor: &mut Self, ctx| {
                    if is_settled && actor.is_fresh() {
                        actor.find(lookup, work, ctx);
                    } else {
                        // What the lookup was made from is lost: look again from what is stored.
                        actor.slot.fail(actor.incarnation);
                        actor.attend(work, ctx);
                    }
                }),
        );
    }

    fn find(&mut self, lookup: E::Lookup, work: Work<E>, ctx: &mut Context<Self>) {
        if !work.pledge.start() {
            return count(&self.slot.room.metrics.abandoned);
        }
        self.slot.set_expendable(false);
        let finding = self.slot.room.journal.find(lookup);
        ctx.wait(
            finding
                .into_actor(self)
                .map(|found, actor: &mut Self, ctx| match found {
                    Ok(found) => actor.judge(work, Some(found), ctx),
                    Err(error) => {
                        actor.restore_expendable();
                        work.pledge.not_loaded(error);
                    }
                }),
        );
    }

    /// Decides, applies, submits. The command has started: a panic from here on is its crash.
    fn judge(&mut self, work: Work<E>, found: Option<E::Found>, ctx: &mut Context<Self>) {
        let Work {
            command,
            mut pledge,
        } = work;
        let Some(entity) = self.entity.as_mut() else {
            return;
        };
        // Lest the place that a panic gives back takes the memory of the crash with it.
        self.slot.set_expendable(false);
        if let Some(asked) = pledge.sample {
            let now = Instant::now();
            self.slot
                .room
                .metrics
                .waiting
                .record(now.saturating_duration_since(asked));
            pledge.sample = Some(now);
        }
        let decision = entity.decide(command, found, wall_ms());
        self.slot.count_handled();
        match decision {
            Decision::Answer(reply) => self.answer(pledge, Ok(reply)),
            Decision::Refuse(refusal) => self.answer(pledge, Err(AskError::Refused(refusal))),
            Decision::Keep { commit, reply } => {
                let revision = entity.revision();
                self.restore_expendable();
                self.submit(
                    Flight::depart(pledge, self.incarnation, Applied::NotYet, revision),
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
                self.slot.note(entity);
                let revision = entity.revision();
                self.time_handling(&mut pledge);
                self.submit(
                    Flight::depart(pledge, self.incarnation, Applied::Already, revision),
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
                self.time_handling(&mut pledge);
                self.submit_and_wait(pledge, change, commit, reply, ctx);
            }
        }
    }

    /// Answers without a change: behind what was submitted before, at once when there is nothing.
    fn answer(&mut self, mut pledge: Pledge<E>, answer: Result<E::Reply, AskError<E::Refusal>>) {
        self.restore_expendable();
        self.time_handling(&mut pledge);
        if self.slot.is_settled(self.incarnation) {
            return pledge.answer(answer);
        }
        pledge.step = Step::Barrier;
        let incarnation = self.incarnation;
        let has_failed = move |slot: &Arc<Slot<E>>| slot.has_failed(incarnation);
        let settle = Box::new(
            move |outcome: Result<(), CommitFailure<E::Broken>>| match outcome {
                Ok(()) if !pledge.slot().is_some_and(has_failed) => pledge.answer(answer),
                Ok(()) | Err(CommitFailure::Conflict) => pledge.turn_away(Cause::Conflict, SOON),
                Err(CommitFailure::Broken(_) | CommitFailure::Away | CommitFailure::Unknown) => {
                    pledge.turn_away(Cause::StoreAway, SOON);
                }
            },
        );
        self.slot
            .room
            .journal
            .barrier(self.slot.id, self.incarnation, settle);
    }

    fn submit(&mut self, flight: Flight<E>, commit: E::Commit, reply: E::Reply) {
        let settle = Box::new(move |outcome| flight.land(reply, outcome));
        self.slot
            .room
            .journal
            .submit(self.incarnation, commit, settle);
    }

    /// Submits a commit that may be refused, and takes no next message until that is known.
    fn submit_and_wait(
        &mut self,
        pledge: Pledge<E>,
        change: E::Change,
        commit: E::Commit,
        reply: E::Reply,
        ctx: &mut Context<Self>,
    ) {
        let (settle, settled) = oneshot::channel();
        let flight = Flight::depart(pledge, self.incarnation, Applied::NotYet, 0);
        let report = Box::new(move |outcome: Result<(), _>| {
            // The actor hears it first, so that a panic in the answer's way cannot keep it from
            // applying.
            let _ = settle.send(outcome.is_ok());
            flight.land(reply, outcome);
        });
        self.slot
            .room
            .journal
            .submit(self.incarnation, commit, report);
        let settled = async move { settled.await.unwrap_or(false) };
        ctx.wait(
            settled
                .into_actor(self)
                .map(|is_durable, actor: &mut Self, _| {
                    if is_durable && let Some(entity) = actor.entity.as_mut() {
                        entity.apply(change);
                        actor.slot.note(entity);
                        actor.slot.committed_to(entity.revision());
                    }
                    actor.restore_expendable();
                    actor.slot.room.forget_expendable(&actor.slot);
                }),
        );
    }

    fn restore_expendable(&self) {
        self.slot
            .set_expendable(self.entity.as_ref().is_some_and(E::is_vacant));
    }

    fn time_handling(&self, pledge: &mut Pledge<E>) {
        if let Some(started) = pledge.sample {
            let now = Instant::now();
            self.slot
                .room
                .metrics
                .handling
                .record(now.saturating_duration_since(started));
            pledge.sample = Some(now);
        }
    }

    /// Lets the neighbours on this thread run after a turn of so many messages.
    fn count_turn(&mut self, ctx: &mut Context<Self>) {
        self.turn += 1;
        if self.turn >= self.turn_budget {
            self.turn = 0;
            self.turn_budget = self.slot.room.policy.load().turn_budget;
            ctx.wait(tokio::task::yield_now().into_actor(self));
        }
    }
}

impl<E: Entity> Actor for EntityActor<E> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Gate::BackingOff { until_ms } = self.slot.gate() {
            let slot = Arc::clone(&self.slot);
            let backing_off = async move {
                sleep_until(slot.room.instant(until_ms)).await;
                slot.backed_off();
            };
            ctx.wait(backing_off.into_actor(self));
        }
    }
}

impl<E: Entity> Supervised for EntityActor<E> {
    fn restarting(&mut self, _: &mut Self::Context) {
        self.turning_away = None;
        self.entity = None;
    }
}

impl<E: Entity> Handler<Work<E>> for EntityActor<E> {
    type Result = ();

    fn handle(&mut self, work: Work<E>, ctx: &mut Self::Context) {
        self.count_turn(ctx);
        self.attend(work, ctx);
    }
}

impl<E: Entity> Handler<Control> for EntityActor<E> {
    type Result = ();

    fn handle(&mut self, control: Control, ctx: &mut Self::Context) {
        match control {
            Control::Refresh if self.is_fresh() => {}
            Control::Refresh => self.load(None, ctx),
            Control::Restart => {
                self.entity = None;
                self.slot.room.metrics.restarted(Restart::Operator);
            }
            Control::Accept => self.turning_away = None,
        }
    }
}
