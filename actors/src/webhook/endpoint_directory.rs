//! The endpoints as they are now: where an attempt goes, what signs it, and whose it is. What an
//! event is matched with stands in the matcher, as of that event's position.

use std::collections::HashMap;
use std::sync::Arc;

use super::messages::Requester;
use super::restore::restore_endpoint;
use crate::store::StoredEndpoint;
use colloquy_model::damage::Unreadable;
use colloquy_model::endpoint::Endpoint;
use colloquy_model::entity_number::EntityNumber;

/// The endpoints as they are now, by number.
#[derive(Debug, Default)]
pub(super) struct EndpointDirectory {
    endpoints: HashMap<EntityNumber, Arc<Endpoint>>,
}

impl EndpointDirectory {
    /// The endpoint of this number.
    pub(super) fn get(&self, number: EntityNumber) -> Option<&Arc<Endpoint>> {
        self.endpoints.get(&number)
    }

    /// The endpoint that a caller names, if it is the one of all the identifier's bits and the
    /// caller's own.
    pub(super) fn named_by(&self, requester: &Requester) -> Option<&Arc<Endpoint>> {
        let endpoint = self.get(requester.webhook.number());
        endpoint.filter(|endpoint| {
            endpoint.id == requester.webhook && endpoint.tenant == requester.caller.tenant
        })
    }

    /// Whether an endpoint is known, and gets events.
    pub(super) fn is_enabled(&self, number: EntityNumber) -> bool {
        self.get(number).is_some_and(|endpoint| endpoint.enabled)
    }

    /// All endpoints, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints.values()
    }

    /// Takes an endpoint as it is now.
    pub(super) fn insert(&mut self, endpoint: Arc<Endpoint>) {
        self.endpoints.insert(endpoint.id.number(), endpoint);
    }

    /// Takes an endpoint's record as it is now; none where it can't be read, which is logged. Such
    /// an endpoint gets nothing; what happens meanwhile can be replayed once its record has been
    /// put right.
    pub(super) fn insert_stored(&mut self, stored: &StoredEndpoint) -> Option<Arc<Endpoint>> {
        let record = &stored.record;
        match restore_endpoint(record.body.as_bytes(), stored.id(), record.tenant) {
            Ok(endpoint) => {
                let endpoint = Arc::new(endpoint);
                self.insert(Arc::clone(&endpoint));
                Some(endpoint)
            }
            Err(error) => {
                Unreadable::found(stored.id(), error);
                None
            }
        }
    }

    /// Forgets an endpoint that is no more.
    pub(super) fn remove(&mut self, number: EntityNumber) {
        self.endpoints.remove(&number);
    }
}
