//! The supervisor of an entity's actor: a panic costs one message and the state in memory, never
//! the address, the queue or the thread. (actix's own supervisor does not restart after a panic.)

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
use super::entity_handle::{EntityHandle, SupervisionDecision};

const TEXT_BYTES_MAX: usize = 512;

/// The future of an actor, polled so that panics are caught.
pub(super) struct SupervisedActor<E: Entity> {
    actor: ContextFut<EntityActor<E>, Context<EntityActor<E>>>,
    handle: Arc<EntityHandle<E>>,
}

impl<E: Entity> SupervisedActor<E> {
    /// The actor of an entity, with the receiving end of its address.
    pub(super) fn new(
        handle: Arc<EntityHandle<E>>,
        mailbox: AddressReceiver<EntityActor<E>>,
    ) -> Self {
        handle.set_supervised(true);
        let actor =
            Context::with_receiver(mailbox).into_future(EntityActor::new(Arc::clone(&handle)));
        Self { actor, handle }
    }

    /// Restarts or stops the actor after a panic; true when it goes on with the same queue.
    fn recover(&mut self, panic: Box<dyn Any + Send>) -> bool {
        let decision = self.handle.crashed(text_of(panic));
        let actor = &mut self.actor;
        let restarted = match decision {
            // Dropping the state may panic too; and without an address nobody is left to go on for.
            SupervisionDecision::Restart => {
                catch_unwind(AssertUnwindSafe(|| actor.restart())).unwrap_or(false)
            }
            SupervisionDecision::Quarantine => false,
        };
        if !restarted {
            // Otherwise actix would run the broken actor once more when it is dropped.
            self.actor.ctx().terminate();
        }
        self.handle.answer_crashed();
        restarted
    }
}

impl<E: Entity> Future for SupervisedActor<E> {
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

impl<E: Entity> Drop for SupervisedActor<E> {
    fn drop(&mut self) {
        // The thread ends: actix must not poll the actor once more.
        self.actor.ctx().terminate();
        self.handle.set_supervised(false);
        self.handle.answer_crashed();
    }
}

/// The message of a panic, cut to 512 bytes.
pub(super) fn text_of(panic: Box<dyn Any + Send>) -> String {
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
