//! What others ask of whoever delivers: that lists show everything up to now, that a delivery or
//! what happened before is sent again, how endpoints fare.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::dispatcher::{Dispatcher, Message, now_ms};
use super::endpoint_queue::EndpointQueue;
use super::lanes::RetryOutcome;
use super::messages::{AllHealth, DeliveryError, DeliveryView, Health, ReplayAsk, Reply, Retry};
use super::slice_builder::SliceNumbers;
use crate::store::{DeliveryState, ReadError, StoredDelivery, Waiting};
use colloquy_model::answer::Answer;
use colloquy_model::commit::Commit;
use colloquy_model::position::Position;
use colloquy_runtime::{Context, LoadError};

/// What waits until everything up to a position is matched, or everything up to a slice is written.
pub(super) enum Ask {
    /// Somebody who is about to read the store.
    Reach(oneshot::Sender<()>),
    /// A delivery that is to be sent again: the store has to know what became of it.
    Retry(Box<Retry>),
    /// Events of the past that are to be delivered again: the endpoint may just have been made.
    Replay(Box<ReplayAsk>),
    /// An answer that leaves when what it rests on is durable.
    Answer(Reply, Answer),
}

impl Dispatcher {
    /// Takes an ask that has to see everything that was committed before it.
    pub(super) fn ask(&mut self, ask: Ask) {
        let position = self.means.feed.last();
        if self.matcher.position() < position {
            self.means.feed.reach();
        }
        self.asked.push((position, ask));
    }

    /// What was asked goes on where all is matched.
    pub(super) fn pass_asked(&mut self, context: &mut Context<Message>) {
        let position = self.matcher.position();
        let (reached, asked) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition(|(at, _)| *at <= position);
        self.asked = asked;
        let reached: Vec<(Position, Ask)> = reached;
        for (_, ask) in reached {
            self.bar(ask, context);
        }
    }

    /// Goes on when everything so far is written.
    pub(super) fn bar(&mut self, ask: Ask, context: &mut Context<Message>) {
        let SliceNumbers { next, written } = self.queue.slices();
        let slice = if self.queue.unwritten() > 0 {
            next
        } else {
            next - 1
        };
        if slice <= written {
            self.pass(ask, context)
        } else {
            self.barriers.push((slice, ask))
        }
    }

    /// What waited for slices that are written now goes on.
    pub(super) fn pass_barriers(&mut self, context: &mut Context<Message>) {
        let SliceNumbers { written, .. } = self.queue.slices();
        let (passed, barriers) = std::mem::take(&mut self.barriers)
            .into_iter()
            .partition(|(at, _)| *at <= written);
        self.barriers = barriers;
        let passed: Vec<(u64, Ask)> = passed;
        for (_, ask) in passed {
            self.pass(ask, context);
        }
    }

    /// Whoever asked may have left: nobody is told then.
    fn pass(&mut self, ask: Ask, context: &mut Context<Message>) {
        match ask {
            Ask::Reach(reply) => drop(reply.send(())),
            Ask::Answer(reply, answer) => drop(reply.send(Ok(answer))),
            Ask::Replay(ask) => self.replay(*ask, context),
            Ask::Retry(retry) => {
                let found = self
                    .means
                    .store
                    .delivery(retry.asker.webhook.number(), retry.delivery.row());
                context.spawn(async move { Message::RetryRead(retry, found.await) });
            }
        }
    }

    /// Sends a delivery again, which the store has shown.
    pub(super) fn retry_read(
        &mut self,
        retry: Retry,
        found: Result<Option<StoredDelivery>, ReadError>,
        context: &mut Context<Message>,
    ) {
        let endpoint = retry.asker.webhook.number();
        let mut found = match (found, self.target_of(&retry.asker)) {
            (Err(error), _) => return retry.asker.refuse(LoadError::from(error).into()),
            (Ok(Some(found)), Some(target)) if found.id() == retry.delivery && target.enabled => {
                found
            }
            (Ok(Some(found)), Some(_)) if found.id() == retry.delivery => {
                return retry.asker.refuse(DeliveryError::Disabled);
            }
            (Ok(_), _) => return retry.asker.refuse(DeliveryError::NotFound),
        };
        if self.queue.is_unwritten(found.number) {
            // It has moved on since it was read.
            self.bar(Ask::Retry(Box::new(retry)), context);
            return;
        }
        let now = now_ms();
        if found.state == DeliveryState::Pending {
            let hurried = self.queue.retry_now(endpoint, found.key, found.number, now);
            if hurried != RetryOutcome::Queues {
                found.due = found.due.map(|due| due.min(now));
            }
        } else {
            let StoredDelivery {
                number,
                key,
                position,
                attempts,
                ..
            } = found;
            self.queue.send_again(
                endpoint,
                Waiting {
                    number,
                    key,
                    position,
                    attempts,
                    due: Some(now),
                },
                now,
            );
            (found.state, found.due) = (DeliveryState::Pending, Some(now));
        }
        let view = DeliveryView::new(retry.asker.webhook, &found);
        let answer = retry.asker.answer(&view, now);
        self.answer_when_written(answer, context);
    }

    /// The answer is kept, and leaves when it is durable.
    pub(super) fn answer_when_written(
        &mut self,
        (reply, answer, commit): (Reply, Answer, Option<Commit>),
        context: &mut Context<Message>,
    ) {
        if let Some(commit) = commit {
            self.queue.keep_answer(commit);
        }
        self.bar(Ask::Answer(reply, answer), context);
    }

    /// What memory knows of all endpoints.
    pub(super) fn health(&self) -> AllHealth {
        let one = |target: &Arc<colloquy_model::endpoint::Endpoint>| {
            let queue = self.queue.endpoint(target.id.number());
            let health = Health {
                id: target.id,
                tenant: target.tenant,
                url: target.url.clone(),
                enabled: target.enabled,
                in_flight: queue.map_or(0, EndpointQueue::in_flight),
                failing_since: queue.and_then(|queue| queue.health().failing_since()),
                last_success: queue.and_then(|queue| queue.health().last_success()),
            };
            (target.id, health)
        };
        self.targets.values().map(one).collect()
    }
}
