//! The way into the records of one kind: their actors by id, their lists.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};

use super::Identity;
use super::record::{Record, RecordCommand, RecordError, RecordRequest, RecordSpec, Secret};
use crate::store::{ListFailure, RecordQuery, Store};
use colloquy_model::caller::Tenant;
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::{NameField, RecordName};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Kind;
use colloquy_model::id::Id;
use colloquy_model::page::{Page, Paging};
use colloquy_runtime::{AskError, Directory};

/// What customers may be filtered by.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// With this e-mail address, whatever its case.
    pub email: Option<String>,
    /// With this identifier of the caller's.
    pub external_id: Option<String>,
}

/// All records of one kind: asks them one by one, and lists them.
pub struct Records<R: RecordSpec> {
    pub(crate) directory: Arc<Directory<Record<R>>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) identity: Arc<Identity>,
}

impl<R: RecordSpec> Records<R> {
    /// Sends a request to a record, and waits for the reply of the request's type.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn ask<Q: RecordRequest<R>>(
        &self,
        id: Id<R::Named>,
        meta: CommandMeta,
        request: Q,
    ) -> Result<Q::Reply, AskError<RecordError>> {
        let command = RecordCommand {
            meta,
            request,
            identity: Arc::clone(&self.identity),
        };
        self.directory.ask(id, command).await
    }

    /// Reads a page of a tenant's records.
    ///
    /// # Errors
    /// The store is away, or the list took too long.
    pub async fn list(
        &self,
        tenant: Tenant,
        filter: Filter,
        paging: Paging,
    ) -> Result<Page, ListFailure> {
        let field = if R::KIND == Kind::User {
            NameField::UserEmail
        } else {
            NameField::CustomerEmail
        };
        let by_email = filter.email.map(|value| RecordName {
            field,
            value: value.to_lowercase(),
        });
        let by_external_id = filter.external_id.map(|value| RecordName {
            field: NameField::CustomerExternalId,
            value,
        });
        let names = by_email.into_iter().chain(by_external_id).collect();
        let found = self
            .store
            .records(RecordQuery {
                tenant,
                kind: R::KIND,
                names,
                paging,
            })
            .await?;
        let id = |index: Option<usize>| {
            let record = found.items.get(index?)?;
            Some(Id::<R::Named>::from_parts(record.subject.number, record.subject.tail).to_string())
        };
        let (first, last) = (id(Some(0)), id(found.items.len().checked_sub(1)));
        let mut data = BytesMut::from(&b"["[..]);
        for record in &found.items {
            let state: R = serde_json::from_str(&record.body)
                .map_err(|error| Unreadable::found(record.subject, error))?;
            if data.len() > 1 {
                data.put_u8(b',');
            }
            data.extend_from_slice(&state.show(&self.identity, Secret::Hidden));
        }
        data.put_u8(b']');
        Ok(Page {
            data: data.freeze().into(),
            count: u32::try_from(found.items.len()).unwrap_or(u32::MAX),
            total: found.total,
            first,
            last,
            before: found.before,
            after: found.after,
        })
    }
}
