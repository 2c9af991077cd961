//! What other processes ask of the dispatcher, which do not deliver themselves.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::dispatcher::Dispatcher;
use super::dispatcher_messages::Message;
use super::messages::{DeliveryError, Reply, Retry};
use super::pending_requests::PendingRequest;
use super::relaying::{Relayed, RelayedAnswer};
use super::taken_request::{TakenRequest, answer};
use colloquy_model::answer::Answer;
use colloquy_runtime::Context;

impl Dispatcher {
    /// Waits for what other processes ask.
    pub(super) fn listen(&self, context: &mut Context<Message>) {
        let store = Arc::clone(&self.dependencies.store);
        let keys = Arc::clone(&self.dependencies.keys);
        context.spawn(async move {
            let mut taken = Vec::new();
            for request in store.relayed().await {
                taken.extend(TakenRequest::of(request, &*store, &keys).await);
            }
            Message::Relayed(taken)
        });
    }

    /// Takes what other processes ask, and goes on listening.
    pub(super) fn take_relayed(
        &mut self,
        requests: Vec<TakenRequest>,
        context: &mut Context<Message>,
    ) {
        if self.is_draining() {
            // Whoever leads next takes those that follow; these are without an answer.
            return;
        }
        for request in requests {
            self.take_one(request, context);
        }
        self.listen(context);
    }

    fn take_one(&mut self, request: TakenRequest, context: &mut Context<Message>) {
        let store = Arc::clone(&self.dependencies.store);
        let TakenRequest {
            id,
            relayed,
            reservation,
        } = request;
        match relayed {
            Relayed::Health => {
                let health = RelayedAnswer::of_health(&self.health());
                context.spawn(async move {
                    answer(&*store, id, &health).await;
                    Message::Wake
                });
            }
            Relayed::Reach => {
                let (reply, reached) = oneshot::channel();
                self.request(PendingRequest::Reach(reply));
                context.spawn(async move {
                    if reached.await.is_ok() {
                        answer(&*store, id, &RelayedAnswer::Reached).await;
                    }
                    Message::Wake
                });
            }
            Relayed::Retry(caller, delivery) => {
                let requester = caller.requester(reservation, self.answers(id, context));
                let retry = Box::new(Retry {
                    requester,
                    delivery,
                });
                self.request(PendingRequest::Retry(retry));
            }
            Relayed::Replay(caller, replay) => {
                let requester = caller.requester(reservation, self.answers(id, context));
                let ask = Box::new(replay.request(requester));
                self.request(PendingRequest::Replay(ask));
            }
        }
    }

    /// Where the answer to a request of another process goes. Without one it asks in vain.
    fn answers(&self, id: String, context: &mut Context<Message>) -> Reply {
        let (reply, said) = oneshot::channel::<Result<Answer, DeliveryError>>();
        let store = Arc::clone(&self.dependencies.store);
        context.spawn(async move {
            if let Ok(said) = said.await {
                answer(&*store, id, &RelayedAnswer::of(said)).await;
            }
            Message::Wake
        });
        reply
    }
}
