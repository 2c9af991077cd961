//! Deliveries to webhook endpoints: slices go to the task that writes them.

use std::sync::Arc;

use super::super::{MongoStore, Reading, delivery_lists, loads, relayed_requests};
use crate::store::{
    DeliveryQuery, DeliveryRelay, DeliverySlice, DeliveryStore, DeliveryTerm, DueLanes, DueQuery,
    EndpointTotals, Later, ReadError, RelayedRequest, StoredDelivery, StoredPage, Unwritten,
    WebhookState, Written,
};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;

impl DeliveryRelay for MongoStore {
    fn delivery_term(&self) -> Option<DeliveryTerm> {
        self.membership.term().map(DeliveryTerm)
    }

    fn relay(&self, body: Vec<u8>) -> Later<Result<Vec<u8>, ReadError>> {
        self.read(relayed_requests::relay(self.collections.clone(), body))
    }

    fn relayed(&self) -> Later<Vec<RelayedRequest>> {
        let membership = Arc::clone(&self.membership);
        // Without an end: what it had taken when its time was over would be lost.
        let relayed = async move { Ok(relayed_requests::relayed(membership).await) };
        let relayed = Reading(self.runtime.spawn(relayed));
        Box::pin(async move { relayed.await.unwrap_or_default() })
    }

    fn answer_relayed(&self, id: String, answer: Vec<u8>) -> Later<()> {
        let collections = self.collections.clone();
        let answered = self.read(async move {
            relayed_requests::answer(collections, id, answer).await;
            Ok(())
        });
        Box::pin(async move { answered.await.unwrap_or_default() })
    }
}

impl DeliveryStore for MongoStore {
    fn deliver(&self, slice: Box<DeliverySlice>) -> Later<Result<Written, Unwritten>> {
        self.deliveries.deliver(slice)
    }

    fn begin_deliveries(&self) -> Later<Result<Position, ReadError>> {
        self.deliveries.begin()
    }

    fn webhook_state(&self) -> Later<Result<WebhookState, ReadError>> {
        let collections = self.collections.clone();
        self.read_listed(async move {
            loads::wait_for_endpoints(&collections).await?;
            delivery_lists::state(&collections).await
        })
    }

    fn due(&self, query: DueQuery) -> Later<Result<DueLanes, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { delivery_lists::due(&collections, query).await })
    }

    fn deliveries(
        &self,
        query: DeliveryQuery,
    ) -> Later<Result<StoredPage<StoredDelivery>, ReadError>> {
        let collections = self.collections.clone();
        self.read(self.in_turn(query.tenant, async move {
            delivery_lists::page(&collections, query).await
        }))
    }

    fn delivery(
        &self,
        endpoint: EntityNumber,
        number: i64,
    ) -> Later<Result<Option<StoredDelivery>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { delivery_lists::delivery(&collections, endpoint, number).await })
    }

    fn endpoint_totals(
        &self,
        endpoints: Vec<EntityNumber>,
    ) -> Later<Result<Vec<EndpointTotals>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { delivery_lists::totals(&collections, endpoints).await })
    }
}
