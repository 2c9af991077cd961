//! When and how the dispatcher has written what became of deliveries.

use std::time::Instant;

use super::dispatcher::{Dispatcher, PAUSE};
use super::dispatcher_messages::Message;
use super::write_schedule::{Leftovers, PendingWrite};
use crate::store::{DeliverySlice, Unwritten, Written};
use colloquy_model::time::Timestamp;
use colloquy_runtime::Context;

impl Dispatcher {
    /// What there is to write, and who waits for it.
    pub(super) fn pending_write(&self) -> PendingWrite {
        let changes = self.queue.unwritten();
        PendingWrite {
            changes,
            matched: self.follower.matched(),
            has_callers: self.requests.wait_for_a_slice(),
            needs_refill: changes > 0 && self.queue.needs_refill(),
        }
    }

    /// Writes what has gathered, when it is time to.
    pub(super) fn write_if_due(&mut self, pending: PendingWrite, context: &mut Context<Message>) {
        if self.queue.is_writing() {
            return;
        }
        let now = Instant::now();
        if self.writes.is_idle(now) && self.follower.is_live() {
            self.follower.ask_for_position();
        }
        if self.writes.is_due(pending, now) {
            self.write_slice(context);
        }
    }

    /// Writes what has gathered, while nothing is being written.
    pub(super) fn write_slice(&mut self, context: &mut Context<Message>) {
        if let Some(matched) = self.writes.slice_taken(self.follower.matched()) {
            self.queue.set_matched(matched);
        }
        let (now, keep) = (Timestamp::now(), self.dependencies.settings.keep_deliveries);
        let slice = self.queue.take_slice(now, now - keep);
        self.write(slice, context);
    }

    pub(super) fn write(&self, slice: Box<DeliverySlice>, context: &mut Context<Message>) {
        let written = self.dependencies.store.deliver(slice);
        context.spawn(async move { Message::Written(written.await) });
    }

    /// Takes what became of a slice.
    pub(super) fn written(
        &mut self,
        written: Result<Written, Unwritten>,
        context: &mut Context<Message>,
    ) {
        match written {
            Ok(Written { left }) => {
                let leftovers = if left {
                    Leftovers::Some
                } else {
                    Leftovers::None
                };
                self.writes.slice_written(leftovers);
                self.queue.slice_written();
                self.pass_written(context);
            }
            Err(Unwritten::NotNow(slice)) => {
                self.writes.slice_failed();
                context.send_after(PAUSE, Message::WriteAgain(slice));
            }
            Err(Unwritten::Never) => {
                tracing::error!(
                    "what became of deliveries can't be written and is given up: they begin anew from the store"
                );
                context.restart();
            }
            // What it does not know is delivered again, by whoever delivers next.
            Err(Unwritten::Elsewhere) if !self.is_draining() => context.begin_anew(),
            Err(Unwritten::Elsewhere | Unwritten::Closed) => context.stop(),
        }
    }
}
