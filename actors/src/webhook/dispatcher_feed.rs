//! What the dispatcher does with what happens: has it read and matched, and hands what is matched to
//! the queues and the replays.

use super::delivery_queue::Matching;
use super::dispatcher::Dispatcher;
use super::dispatcher_messages::Message;
use super::endpoint_queue::{Sending, StoredQueue};
use super::feed_follower::{FeedStep, Redacted};
use super::feed_reading::FeedNews;
use crate::store::LIVE;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Context;

/// With so much to write nothing more is matched: a slice holds the writer for some milliseconds at most.
const UNWRITTEN_MAX: usize = 64;

impl Dispatcher {
    /// Reads on, where there is room for what comes.
    pub(super) fn read_feed(&mut self, context: &mut Context<Message>) {
        if self.queue.unwritten() < UNWRITTEN_MAX
            && let Some(read) = self.follower.begin_read()
        {
            context.spawn(async move { Message::FeedRead(Box::new(read.run().await)) });
        }
    }

    /// Takes what was read, to be matched.
    pub(super) fn take_news(&mut self, news: FeedNews) {
        match self.follower.take(news, &mut self.endpoints) {
            Redacted::Of(entities) => {
                for entity in entities {
                    self.queue.forget_events_of(entity);
                }
            }
            Redacted::Unknown => self.queue.forget_all_events(),
        }
    }

    /// Matches what has come, as far as the next slice has room: an event of many endpoints takes
    /// several.
    pub(super) fn match_on(&mut self) {
        while let room @ 1.. = UNWRITTEN_MAX.saturating_sub(self.queue.unwritten())
            && let Some(step) = self.follower.match_next(room, &mut self.endpoints)
        {
            self.take_step(step);
        }
    }

    fn take_step(&mut self, step: FeedStep) {
        match step {
            FeedStep::Deliver {
                event,
                keep,
                endpoints,
            } => {
                for endpoint in endpoints {
                    let matching = Matching {
                        endpoint,
                        lane: LIVE,
                        event: &event,
                        keep,
                    };
                    self.queue.push(matching, Timestamp::now());
                }
            }
            FeedStep::EndpointOpen(version) => {
                let number = version.id.number();
                self.queue.open(StoredQueue {
                    account: version.tenant.account_number(),
                    endpoint: number,
                    waiting: 0,
                    failing_since: None,
                });
                let now = self.endpoints.get(number);
                let sending = now.map_or(Sending::Paused, |endpoint| Sending::of(endpoint));
                self.queue.set_sending(number, sending);
            }
            FeedStep::EndpointShut(number) => {
                self.queue.give_up(number);
                self.replays.give_up(number);
            }
            FeedStep::EndpointGone(number) => {
                self.queue.remove(number);
                self.replays.give_up(number);
            }
        }
    }
}
