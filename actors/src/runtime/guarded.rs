//! The supervisor of an entity's actor: a panic costs one message and the state in memory, never
//! the address, the queue or the thread. (actix's own supervisor never restarts after a panic.)

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use actix::dev::ContextFut;
use actix::dev::channel::AddressReceiver;
use actix::{ActorContext, Context};

use super::entity::Entity;
use super::entity_actor::EntityActor;
use super::slot::{Slot, Verdict};

const TEXT_BYTES_MAX: usize = 512;

/// An actor's future, polled behind a wall.
pub(super) struct Guarded<E: Entity> {
    actor: ContextFut<EntityActor<E>, Context<EntityActor<E>>>,
    slot: Arc<Slot<E>>,
}

impl<E: Entity> Guarded<E> {
    pub(super) fn new(slot: Arc<Slot<E>>, mailbox: AddressReceiver<EntityActor<E>>) -> Self {
        let actor =
            Context::with_receiver(mailbox).into_future(EntityActor::new(Arc::clone(&slot)));
        Self { actor, slot }
    }

    /// After a panic: true when the actor goes on with fresh state and the same queue.
    fn recover(&mut self, panic: Box<dyn Any + Send>) -> bool {
        let verdict = self.slot.crashed(text_of(panic));
        let actor = &mut self.actor;
        let restarted = match verdict {
            // Dropping the broken state may panic too. Without an address there is nobody left to
            // go on for.
            Verdict::Restart => catch_unwind(AssertUnwindSafe(|| actor.restart())).unwrap_or(false),
            Verdict::GiveUp => false,
        };
        if !restarted {
            // Otherwise actix would run the broken actor once more when it is dropped.
            self.actor.ctx().terminate();
        }
        restarted
    }
}

impl<E: Entity> Future for Guarded<E> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            let actor = &mut this.actor;
            match catch_unwind(AssertUnwindSafe(|| Pin::new(actor).poll(task))) {
                Ok(polled) => return polled,
                Err(panic) => {
                    if !this.recover(panic) {
                        return Poll::Ready(());
                    }
                }
            }
        }
    }
}

impl<E: Entity> Drop for Guarded<E> {
    fn drop(&mut self) {
        // The thread ends: actix must not poll the actor once more.
        self.actor.ctx().terminate();
    }
}

/// The panic's own words.
fn text_of(panic: Box<dyn Any + Send>) -> String {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text.as_str(),
        (None, None) => "a panic without words",
    };
    let text = text
        .get(..text.floor_char_boundary(TEXT_BYTES_MAX))
        .unwrap_or_default()
        .to_owned();
    // A payload may panic when it is dropped; that one is lost.
    drop(catch_unwind(AssertUnwindSafe(|| drop(panic))));
    text
}
