//! What callers ask of the dispatcher: that lists show everything up to now, that a delivery or
//! what happened before is sent again, how endpoints fare.

use std::sync::Arc;

use super::dispatcher::Dispatcher;
use super::dispatcher_messages::{Message, RetryRead};
use super::endpoint_queue::EndpointQueue;
use super::lanes::RetryOutcome;
use super::messages::{AcceptedAnswer, AllHealth, DeliveryError, DeliveryView, Health, Retry};
use super::pending_requests::PendingRequest;
use super::slice_builder::SliceNumbers;
use crate::store::{DeliveryState, StoredDelivery, Waiting};
use colloquy_model::endpoint::Endpoint;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{Context, LoadError};

impl Dispatcher {
    /// Takes a request that has to see everything that was committed before it.
    pub(super) fn request(&mut self, request: PendingRequest) {
        self.follower.ask_for_position();
        let position = self.follower.last_position();
        self.requests.wait_until_matched(position, request);
    }

    /// Requests for which enough is matched go on.
    pub(super) fn pass_matched(&mut self, context: &mut Context<Message>) {
        for request in self.requests.take_matched(self.follower.position()) {
            self.pass_when_written(request, context);
        }
    }

    /// Requests for which enough is written go on.
    pub(super) fn pass_written(&mut self, context: &mut Context<Message>) {
        for request in self.requests.take_written(self.queue.slices().written) {
            self.pass(request, context);
        }
    }

    /// A request goes on when everything so far is written.
    fn pass_when_written(&mut self, request: PendingRequest, context: &mut Context<Message>) {
        let SliceNumbers { next, written } = self.queue.slices();
        let slice = if self.queue.unwritten() > 0 {
            next
        } else {
            next - 1
        };
        if slice <= written {
            self.pass(request, context);
        } else {
            self.requests.wait_until_written(slice, request);
        }
    }

    /// A request goes on. Whoever asked may have left: nobody is told then.
    fn pass(&mut self, request: PendingRequest, context: &mut Context<Message>) {
        match request {
            PendingRequest::Reach(reply) => drop(reply.send(())),
            PendingRequest::Answer { reply, answer } => drop(reply.send(Ok(answer))),
            PendingRequest::Replay(ask) => self.find_replay(ask, context),
            PendingRequest::Retry(retry) => {
                let endpoint = retry.requester.webhook.number();
                let number = retry.delivery.row();
                let found = self.dependencies.store.delivery(endpoint, number);
                context.spawn(async move {
                    let found = found.await;
                    Message::RetryRead(Box::new(RetryRead { retry, found }))
                });
            }
        }
    }

    /// Sends a delivery again, which the store has shown.
    pub(super) fn send_again(&mut self, read: RetryRead, context: &mut Context<Message>) {
        let RetryRead { retry, found } = read;
        let found = match (found, self.endpoints.named_by(&retry.requester)) {
            (Err(error), _) => return retry.requester.refuse(LoadError::from(error).into()),
            (Ok(Some(found)), Some(endpoint)) if found.id() == retry.delivery => {
                if !endpoint.enabled {
                    return retry.requester.refuse(DeliveryError::Disabled);
                }
                found
            }
            (Ok(_), _) => return retry.requester.refuse(DeliveryError::NotFound),
        };
        if self.queue.is_unwritten(found.number) {
            // It has moved on since it was read.
            self.pass_when_written(PendingRequest::Retry(retry), context);
            return;
        }
        let Retry { requester, .. } = *retry;
        let now = Timestamp::now();
        let found = self.retried(requester.webhook.number(), found, now);
        let view = DeliveryView::new(requester.webhook, &found);
        self.answer_when_written(requester.answer(&view, now), context);
    }

    /// Has the queue send a delivery now; gives it as it is then.
    fn retried(
        &mut self,
        endpoint: EntityNumber,
        mut found: StoredDelivery,
        now: Timestamp,
    ) -> StoredDelivery {
        if found.state == DeliveryState::Pending {
            let outcome = self.queue.retry_now(endpoint, found.key, found.number, now);
            if outcome != RetryOutcome::Queues {
                found.due = found.due.map(|due| due.min(now));
            }
            return found;
        }
        let delivery = Waiting {
            number: found.number,
            key: found.key,
            position: found.position,
            attempts: found.attempts,
            due: Some(now),
        };
        self.queue.send_again(endpoint, delivery, now);
        (found.state, found.due) = (DeliveryState::Pending, Some(now));
        found
    }

    /// The answer is kept, and leaves when it is durable.
    pub(super) fn answer_when_written(
        &mut self,
        answer: AcceptedAnswer,
        context: &mut Context<Message>,
    ) {
        let AcceptedAnswer {
            reply,
            answer,
            kept,
        } = answer;
        if let Some(kept) = kept {
            self.queue.keep_answer(kept);
        }
        self.pass_when_written(PendingRequest::Answer { reply, answer }, context);
    }

    /// What memory knows of all endpoints.
    pub(super) fn health(&self) -> AllHealth {
        let one = |endpoint: &Arc<Endpoint>| {
            let queue = self.queue.endpoint(endpoint.id.number());
            let health = Health {
                id: endpoint.id,
                tenant: endpoint.tenant,
                url: endpoint.url.clone(),
                enabled: endpoint.enabled,
                in_flight: queue.map_or(0, EndpointQueue::in_flight),
                failing_since: queue.and_then(|queue| queue.health().failing_since()),
                last_success: queue.and_then(|queue| queue.health().last_success()),
            };
            (endpoint.id, health)
        };
        self.endpoints.iter().map(one).collect()
    }
}
