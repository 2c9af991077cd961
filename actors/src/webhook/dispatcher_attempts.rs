//! How the dispatcher begins and ends attempts, and disables the endpoints whose receivers want no
//! more.

use std::sync::Arc;

use super::attempt_runner::{Conclusion, EndedAttempt};
use super::delivery_queue::Verdict;
use super::disabling::{DisableEndpoint, Disabling};
use super::dispatcher::{Dispatcher, PAUSE};
use super::dispatcher_messages::Message;
use super::endpoint_queue::{PendingAttempt, Sending};
use colloquy_model::time::Timestamp;
use colloquy_runtime::Context;

impl Dispatcher {
    /// Begins an attempt; one at an endpoint that is not known any more waits.
    pub(super) fn begin_attempt(
        &mut self,
        attempt: PendingAttempt,
        context: &mut Context<Message>,
    ) {
        let Some(endpoint) = self.endpoints.get(attempt.endpoint) else {
            self.queue.put_back(&attempt, Timestamp::now());
            return;
        };
        let attempt = self.attempts.begin(attempt, Arc::clone(endpoint));
        context.spawn(async move { Message::AttemptEnded(Box::new(attempt.await)) });
    }

    /// Takes what an attempt came to.
    pub(super) fn attempt_ended(&mut self, ended: EndedAttempt, context: &mut Context<Message>) {
        let EndedAttempt { attempt, end } = ended;
        let now = Timestamp::now();
        let queue = self.queue.endpoint(attempt.endpoint);
        let failing_since = queue.and_then(|queue| queue.health().failing_since());
        match self.attempts.end(end, failing_since, now) {
            Conclusion::TryAgain => self.queue.put_back(&attempt, now),
            Conclusion::GivenUp(log) => {
                self.queue.event_gone(&attempt, log, now);
                self.delivery_ended(attempt.key.lane);
            }
            Conclusion::Judged {
                verdict,
                log,
                disable,
            } => {
                self.queue.attempt_ended(&attempt, verdict, log, now);
                if !matches!(verdict, Verdict::Later(_)) {
                    self.delivery_ended(attempt.key.lane);
                }
                if let (Some(reason), Some(endpoint)) =
                    (disable, self.endpoints.get(attempt.endpoint))
                {
                    let (id, tenant) = (endpoint.id, endpoint.tenant);
                    self.disable(DisableEndpoint { id, tenant, reason }, context);
                }
            }
        }
    }

    fn delivery_ended(&mut self, lane: i64) {
        if let Some(change) = self.replays.delivery_ended(lane) {
            self.queue.change_replay(change);
        }
    }

    /// Nothing is sent from here on; the record says so as soon as it can, and the feed brings it
    /// back.
    pub(super) fn disable(&mut self, endpoint: DisableEndpoint, context: &mut Context<Message>) {
        let number = endpoint.id.number();
        if self.is_draining() || !self.endpoints.is_enabled(number) {
            return;
        }
        self.queue.set_sending(number, Sending::Paused);
        let done = (self.dependencies.disabler)(endpoint);
        context.spawn(async move {
            let disabling = done.await;
            Message::Disabled {
                endpoint,
                disabling,
            }
        });
    }

    /// Tries again later where the record could not be changed.
    pub(super) fn disabled(
        &self,
        endpoint: DisableEndpoint,
        disabling: Disabling,
        context: &mut Context<Message>,
    ) {
        if disabling == Disabling::NotNow && self.endpoints.is_enabled(endpoint.id.number()) {
            context.send_after(PAUSE, Message::Disable(endpoint));
        }
    }
}
