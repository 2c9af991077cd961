//! The nodes that share the database.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use tokio::runtime::Handle;

use super::super::account_numbers;
use super::super::broadcasts::Broadcasts;
use super::super::codec::failed;
use super::super::first_start;
use super::super::nodes::Membership;
use super::super::schema::Collections;
use super::super::tickets;
use super::super::{MongoStore, Reading};
use crate::store::{
    Broadcast, DescribeNode, Later, Nodes, ReadError, SharedTickets, Ticket, ToMake,
};
use colloquy_model::account::AccountNumber;
use colloquy_model::id::NodeId;
use colloquy_model::key::SecretHash;
use colloquy_model::node::Node;

/// This node, and the way to the others.
struct MongoNodes {
    membership: Arc<Membership>,
    broadcasts: Arc<Broadcasts>,
    runtime: Handle,
}

impl MongoStore {
    /// This node, and the way to the others.
    pub(super) fn shared_nodes(&self) -> Arc<dyn Nodes> {
        Arc::new(MongoNodes {
            membership: Arc::clone(&self.membership),
            broadcasts: Arc::clone(&self.broadcasts),
            runtime: self.runtime.clone(),
        })
    }
}

impl MongoNodes {
    fn ask<T: Send + 'static>(
        &self,
        asking: impl Future<Output = mongodb::error::Result<T>> + Send + 'static,
    ) -> Later<Result<T, ReadError>> {
        let asking = async move { asking.await.map_err(|error| failed(&error)) };
        Box::pin(Reading(self.runtime.spawn(asking)))
    }
}

impl MongoNodes {
    /// Waits for the store's thread, which is not this one.
    fn wait<T: Send + 'static>(
        &self,
        asking: impl Future<Output = mongodb::error::Result<T>> + Send + 'static,
    ) -> Result<T, ReadError> {
        let (tell, told) = sync_channel(1);
        self.runtime.spawn(async move {
            // Whoever waits is below.
            let _ = tell.send(asking.await);
        });
        let told = told.recv().map_err(|_| ReadError::Away)?;
        told.map_err(|error| failed(&error))
    }
}

impl Nodes for MongoNodes {
    fn describe(&self, figures: DescribeNode) {
        self.membership.describe(figures);
    }

    fn list(&self) -> Later<Result<Vec<Node>, ReadError>> {
        let membership = Arc::clone(&self.membership);
        self.ask(async move { membership.list().await })
    }

    fn drain(&self, node: NodeId) -> Later<Result<bool, ReadError>> {
        let membership = Arc::clone(&self.membership);
        self.ask(async move { membership.drain(node).await })
    }

    fn is_draining(&self) -> bool {
        self.membership.is_draining()
    }

    fn is_current(&self) -> bool {
        self.membership.is_current()
    }

    fn broadcast(&self) -> Option<Arc<dyn Broadcast>> {
        Some(Arc::clone(&self.broadcasts) as Arc<dyn Broadcast>)
    }

    fn tickets(&self) -> Option<Arc<dyn SharedTickets>> {
        Some(Arc::new(MongoTickets {
            collections: self.membership.collections.clone(),
            runtime: self.runtime.clone(),
        }))
    }

    fn next_account(&self, above: u32) -> Later<Result<AccountNumber, ReadError>> {
        let membership = Arc::clone(&self.membership);
        self.ask(async move { account_numbers::next(&membership.collections, above).await })
    }

    fn first_start(&self, highest: u32, makes_token: bool) -> Result<ToMake, ReadError> {
        let membership = Arc::clone(&self.membership);
        self.wait(async move { first_start::to_make(&membership, highest, makes_token).await })
    }

    fn secrets_shown(&self) -> Result<(), ReadError> {
        let membership = Arc::clone(&self.membership);
        self.wait(async move { first_start::secrets_shown(&membership).await })
    }
}

/// The tickets of all nodes.
struct MongoTickets {
    collections: Collections,
    runtime: Handle,
}

impl MongoTickets {
    fn ask<T, A>(&self, asking: impl FnOnce(Collections) -> A) -> Later<Result<T, ReadError>>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, ReadError>> + Send + 'static,
    {
        let asking = asking(self.collections.clone());
        Box::pin(Reading(self.runtime.spawn(asking)))
    }
}

impl SharedTickets for MongoTickets {
    fn issue(
        &self,
        hash: SecretHash,
        ticket: Ticket,
        per_account: usize,
    ) -> Later<Result<(), ReadError>> {
        self.ask(move |collections| async move {
            let issued = tickets::issue(&collections, hash, ticket, per_account).await;
            issued.map_err(|error| failed(&error))
        })
    }

    fn find(&self, hash: SecretHash) -> Later<Result<Option<Ticket>, ReadError>> {
        self.ask(|collections| async move { tickets::find(&collections, hash).await })
    }

    fn redeem(&self, hash: SecretHash) -> Later<Result<bool, ReadError>> {
        self.ask(|collections| async move { tickets::redeem(&collections, hash).await })
    }
}
