//! Records that no actor can begin with, because what is stored of them can't be read: they are erased
//! all the same, by what is known of them.

use super::record::{RecordError, RecordSpec, last_words_of, subject};
use super::records::Records;
use crate::store::ErasableRecord;
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::commit::{Commit, Header, NewRow};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::Id;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, LoadError};

impl<R: RecordSpec> Records<R> {
    /// What is known of a record of a tenant, whatever of it can't be read.
    ///
    /// # Errors
    /// There is no such record, or the store is away.
    pub(crate) async fn known(
        &self,
        tenant: Tenant,
        id: Id<R::Named>,
    ) -> Result<ErasableRecord, AskError<RecordError>> {
        let found = self.store.record_to_erase(subject::<R>(id)).await;
        let found = found.map_err(LoadError::from)?;
        let own = found.filter(|found| found.tenant == tenant);
        own.ok_or(AskError::Refused(RecordError::NotFound))
    }

    /// Erases a record that can't be read, and all that was ever said of it; `event` says what has
    /// happened.
    ///
    /// # Errors
    /// There is no such record any more, the store is away, or the commit's outcome is not known.
    pub(crate) async fn erase_unreadable(
        &self,
        id: Id<R::Named>,
        caller: Caller,
        event: EventKind,
    ) -> Result<(), AskError<RecordError>> {
        let known = self.known(caller.tenant, id).await?;
        let commit = Commit {
            rows: vec![NewRow::new(event, last_words_of::<R>(id))],
            header: Header::RecordErased,
            ..Commit::new(subject::<R>(id), known.sequence, caller, Timestamp::now())
        };
        self.store.commit_end(commit, RecordError::NotFound).await
    }
}
