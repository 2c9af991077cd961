//! How the dispatcher begins replays and hands their deliveries to the queues.

use std::sync::Arc;

use super::delivery_queue::{Keep, Matching};
use super::dispatcher::Dispatcher;
use super::dispatcher_messages::Message;
use super::messages::{DeliveryError, ReplayRequest};
use super::replays::{ReplayPage, ReplayStart};
use colloquy_model::time::Timestamp;
use colloquy_runtime::{Context, LoadError};

impl Dispatcher {
    /// Looks where a replay begins; it is refused where the endpoint gets nothing.
    pub(super) fn find_replay(&mut self, ask: Box<ReplayRequest>, context: &mut Context<Message>) {
        if let Some(refusal) = self.replay_refusal(&ask) {
            return ask.requester.refuse(refusal);
        }
        let last = self.follower.last_position();
        let start = self.replays.prepare(ask, last, Timestamp::now());
        let store = Arc::clone(&self.dependencies.store);
        context.spawn(async move { Message::ReplayFound(Box::new(start.find(store).await)) });
    }

    fn replay_refusal(&self, ask: &ReplayRequest) -> Option<DeliveryError> {
        let endpoint = self.endpoints.named_by(&ask.requester);
        let most = self.dependencies.settings.replays_max;
        self.replays.refusal(endpoint.map(Arc::as_ref), most)
    }

    /// Begins a replay: the job is written down with its answer.
    pub(super) fn begin_replay(&mut self, start: ReplayStart, context: &mut Context<Message>) {
        let ReplayStart { ask, replay } = start;
        // Others may have begun meanwhile, or somebody may have disabled the endpoint.
        let replay = match (replay, self.replay_refusal(&ask)) {
            (_, Some(refusal)) => return ask.requester.refuse(refusal),
            (Err(error), None) => return ask.requester.refuse(LoadError::from(error).into()),
            (Ok(replay), None) => replay,
        };
        let change = self.replays.begin(replay);
        self.queue.change_replay(change);
        let ReplayRequest {
            requester, view, ..
        } = *ask;
        self.answer_when_written(requester.answer(&view, Timestamp::now()), context);
    }
    /// Has replays read on that need more deliveries.
    pub(super) fn read_replays(&mut self, context: &mut Context<Message>) {
        for read in self.replays.begin_reads(Timestamp::now()) {
            let store = Arc::clone(&self.dependencies.store);
            context.spawn(async move { Message::ReplayRead(Box::new(read.run(store).await)) });
        }
    }

    /// Makes deliveries of what a replay has read.
    pub(super) fn take_replay_page(&mut self, page: ReplayPage) {
        let now = Timestamp::now();
        let Some(step) = self.replays.take_page(page, &self.endpoints, now) else {
            return;
        };
        for event in &step.events {
            let matching = Matching {
                endpoint: step.endpoint,
                lane: step.lane,
                event,
                keep: Keep::InMemory,
            };
            self.queue.push(matching, now);
        }
        for change in step.changes {
            self.queue.change_replay(change);
        }
    }
}
