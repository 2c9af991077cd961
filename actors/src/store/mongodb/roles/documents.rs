//! Documents, their versions and what was done to them.

use std::sync::Arc;

use super::super::codec::failed;
use super::super::{
    MongoStore, activity, audit, chain, document_lists, document_loads, following, linking, loads,
    versions,
};
use crate::store::{
    ActivityQuery, ActivityRow, AuditLog, AuditQuery, AuditRow, ChainPage, DocumentQuery,
    DocumentRow, DocumentStore, FramedVersion, IndexedDocument, Later, LinkUses, OwnedDocument,
    ReadError, StoredPage, StoredVersion, VersionQuery,
};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::VersionId;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

impl AuditLog for MongoStore {
    /// What was acknowledged before is linked first.
    fn chain(&self, position: Position, most: u32) -> Later<Result<ChainPage, ReadError>> {
        let collections = self.collections.clone();
        let membership = Arc::clone(&self.membership);
        self.read(async move {
            following::catch_up(&collections, &membership).await?;
            let read = async {
                linking::link_up_to(&collections, membership.followed()).await?;
                chain::page(&collections, position.0, most).await
            };
            read.await.map_err(|error| failed(&error))
        })
    }

    fn audit(&self, query: AuditQuery) -> Later<Result<StoredPage<AuditRow>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(query.trail, async move {
            audit::page(&collections, query).await
        });
        self.read_visible(turn)
    }
}

/// All that is read here is carried over before its commit is acknowledged, or stands in the log.
impl DocumentStore for MongoStore {
    fn documents(&self, query: DocumentQuery) -> Later<Result<StoredPage<DocumentRow>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(query.tenant, async move {
            document_lists::page(&collections, query).await
        });
        self.read_visible(turn)
    }

    fn versions(&self, query: VersionQuery) -> Later<Result<StoredPage<StoredVersion>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(query.tenant, async move {
            versions::page(&collections, query).await
        });
        self.read_visible(turn)
    }

    fn document(
        &self,
        tenant: Tenant,
        number: EntityNumber,
    ) -> Later<Result<Option<IndexedDocument>, ReadError>> {
        let (collections, membership) = (self.collections.clone(), Arc::clone(&self.membership));
        self.read(async move {
            // Whoever asks has heard of its last commit, maybe before another node, which made it,
            // has carried it over.
            if membership.had_peers() {
                loads::wait_for_header(&collections, Kind::Document, number).await?;
            }
            document_lists::row(&collections, tenant, number).await
        })
    }

    fn version(
        &self,
        whom: Tenant,
        document: Subject,
        number: u64,
    ) -> Later<Result<Option<FramedVersion>, ReadError>> {
        let collections = self.collections.clone();
        self.read(self.in_turn(whom, async move {
            versions::framed(&collections, document, number).await
        }))
    }

    fn version_ids(
        &self,
        whom: Tenant,
        document: Subject,
        numbers: Vec<u64>,
    ) -> Later<Result<Vec<VersionId>, ReadError>> {
        let collections = self.collections.clone();
        self.read(self.in_turn(whom, async move {
            versions::ids(&collections, document, &numbers).await
        }))
    }

    fn activity(&self, query: ActivityQuery) -> Later<Result<StoredPage<ActivityRow>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(query.tenant, async move {
            activity::page(&collections, query).await
        });
        self.read_visible(turn)
    }

    fn link(&self, hash: [u8; 32]) -> Later<Result<Option<OwnedDocument>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { document_lists::link(&collections, hash).await })
    }

    fn link_uses(&self, document: Subject) -> Later<Result<Vec<LinkUses>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { document_loads::link_uses(&collections, document).await })
    }

    fn overdue_documents(
        &self,
        before: Timestamp,
        most: u32,
    ) -> Later<Result<Vec<OwnedDocument>, ReadError>> {
        let collections = self.collections.clone();
        let membership = Arc::clone(&self.membership);
        self.read(async move {
            membership.lead().await;
            document_lists::overdue(&collections, before, most).await
        })
    }

    fn documents_behind(
        &self,
        number: EntityNumber,
        most: u32,
    ) -> Later<Result<Vec<OwnedDocument>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { document_lists::behind(&collections, number, most).await })
    }
}
