//! The way in: documents by id. Beside it stand the ways in to lists, to a document's history, to
//! merging, to who may do what and through links. Whatever reads contents, compares or writes them
//! out runs on threads of its own.

use super::access::Requester;
use super::actor::{ComputedCommand, DocumentCommand};
use super::content_reader::{self, ContentQuery, unpack};
use super::messages::{
    CommandMeta, CreateDocument, DocumentError, ReadDocument, RestoreDocument, UpdateDocument,
    VersionFound, VersionName, WithoutContent,
};
use super::refusal::{Failure, invalid};
use super::rules::{ComputedRequest, DocumentRequest};
use super::search_indexer::SearchIndexer;
use super::state::Document;
use crate::accounts::Identity;
use crate::passwords::{HashPermits, PasswordTries};
use crate::store::{FramedVersion, Store, StoredVersion};
use bytes::{BufMut, Bytes, BytesMut};
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::command;
use colloquy_model::damage::Unreadable;
use colloquy_model::id::{DocumentId, ShareId, VersionId};
use colloquy_model::text::DocumentContent;
use colloquy_model::time::Timestamp;
use colloquy_model::user::Role;
use colloquy_runtime::offload::{self, Effort};
use colloquy_runtime::{AskError, Directory};
use serde_json::Value;
use std::sync::Arc;

/// All documents: the way in for the edge.
pub struct Documents {
    pub(crate) directory: Arc<Directory<Document>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) finder: Option<SearchIndexer>,
    /// Counts wrong passwords by share link.
    pub(crate) tries: Arc<PasswordTries<ShareId>>,
    /// Where passwords of share links are hashed.
    pub(crate) hashes: Arc<HashPermits>,
}

impl Documents {
    /// Who a caller is, as far as roles in documents go.
    #[must_use]
    pub fn requester(&self, caller: &Caller) -> Requester {
        match caller.actor.user {
            None => Requester::Account(None),
            Some(user) if self.identity.user(caller.tenant, user) == Some(Role::Admin) => {
                Requester::Account(Some(user))
            }
            Some(user) => Requester::User(user),
        }
    }

    /// Adds to what goes with a request who asks, as far as roles go.
    #[must_use]
    pub fn with_requester(&self, meta: command::CommandMeta) -> CommandMeta {
        let requester = self.requester(&meta.caller);
        CommandMeta {
            caller: meta.caller,
            requester,
            if_match: meta.if_match,
            reservation: meta.reservation,
        }
    }

    /// What goes with a request of this caller that has no condition and no idempotency key.
    #[must_use]
    pub fn meta(&self, caller: Caller) -> CommandMeta {
        let requester = self.requester(&caller);
        CommandMeta::new(caller, requester)
    }

    /// Creates a document.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn create(&self, meta: CommandMeta, new: CreateDocument) -> Result<Answer, Failure> {
        let id = DocumentId::new(Timestamp::now());
        let content = new.content.as_ref();
        let content = content.map_or_else(|| Arc::from(""), DocumentContent::shared);
        let tenant = meta.caller.tenant;
        let answer = self.ask_computed(id, meta, new).await?;
        completed_with(tenant, answer, content).await
    }

    /// Updates a document.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn update(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        update: UpdateDocument,
    ) -> Result<Answer, Failure> {
        let content = update.content.as_ref().map(DocumentContent::shared);
        let tenant = meta.caller.tenant;
        let answer = self.ask_computed(id, meta, update).await?;
        match content {
            // What was given is the head's content now.
            Some(content) => completed_with(tenant, answer, content).await,
            None => self.completed(tenant, answer.0).await,
        }
    }

    /// Takes a document out of the bin.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn restore(&self, id: DocumentId, meta: CommandMeta) -> Result<Answer, Failure> {
        let tenant = meta.caller.tenant;
        let answer = self.ask(id, meta, RestoreDocument).await?;
        self.completed(tenant, answer.0).await
    }

    /// Sends a request to a document, and waits for the reply of the request's type.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn ask<R: DocumentRequest>(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        request: R,
    ) -> Result<R::Reply, Failure> {
        self.directory.ask(id, self.command(meta, request)).await
    }

    /// The same for a request for which something must be computed first; the document waits for
    /// it.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked or computed.
    pub async fn ask_computed<R: ComputedRequest>(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        request: R,
    ) -> Result<R::Reply, Failure> {
        let command = ComputedCommand(self.command(meta, request));
        self.directory.ask(id, command).await
    }

    fn command<R>(&self, meta: CommandMeta, request: R) -> DocumentCommand<R> {
        DocumentCommand {
            meta,
            request,
            users: Arc::clone(&self.identity),
        }
    }

    /// One document with its content, or with that of one of its versions.
    ///
    /// # Errors
    /// It is not there for this caller, or why it could not be asked.
    pub async fn read(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        version: Option<VersionName>,
    ) -> Result<Answer, Failure> {
        let tenant = meta.caller.tenant;
        let versions = version.iter().cloned().collect();
        let read = ReadDocument {
            versions,
            ..ReadDocument::default()
        };
        let seen = self.ask(id, meta, read).await?;
        let shown = match version {
            Some(_) => {
                let named = seen.versions.first().copied().flatten();
                named.ok_or_else(|| invalid("version", "must be a version of this document"))?
            }
            None => seen.head,
        };
        let document = seen.document;
        let body = self.with_content_of(id, tenant, shown, move |_, content| {
            with_content(&document, Some(content))
        });
        let body = body.await?;
        let etag = if shown.number == seen.head.number {
            seen.etag
        } else {
            format!("{}-{}", seen.etag, shown.number)
        };
        Ok(Answer::ok(Some(etag), body))
    }

    /// Puts its content into an answer that shows a document; a kept answer is kept without. What
    /// was erased since is null.
    ///
    /// # Errors
    /// The content can't be read.
    pub async fn completed(&self, tenant: Tenant, answer: Answer) -> Result<Answer, Failure> {
        let shown: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| Unreadable::found("an answer that shows a document", error))?;
        let text = |field: &str| shown.get(field).and_then(Value::as_str);
        let id: Option<DocumentId> = text("id").and_then(|id| id.parse().ok());
        let version: Option<VersionId> = text("version").and_then(|id| id.parse().ok());
        let (Some(id), Some(version)) = (id, version) else {
            return Ok(answer);
        };
        let found = VersionFound {
            number: version.ordinal(),
            id: version,
            parent: None,
        };
        let document = answer.body.clone();
        let body = self.with_content_of(id, tenant, found, move |_, content| {
            with_content(&document, Some(content))
        });
        let body = match body.await {
            Err(AskError::Refused(DocumentError::NotFound)) => with_content(&answer.body, None),
            read => read?,
        };
        Ok(Answer { body, ..answer })
    }

    /// What is made of a version and its content, under one permit.
    pub(super) async fn with_content_of<T: Send + 'static>(
        &self,
        id: DocumentId,
        tenant: Tenant,
        version: VersionFound,
        make: impl FnOnce(StoredVersion, &str) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let wanted = ContentQuery {
            document: Document::subject(id),
            tenant,
            effort: Effort::Linear,
            extra_bytes: 0,
        };
        let (mut found, permit) =
            content_reader::read(&self.store, wanted, &[version.number]).await?;
        let FramedVersion {
            version: stored,
            frames,
        } = found
            .pop()
            .ok_or_else(|| AskError::impossible("to a version that was asked for"))?;
        let (document, number) = (wanted.document, version.number);
        let made = permit.run(move || {
            let (content, _) = unpack(&frames, document, number)?;
            Some(make(stored, &content))
        });
        made.await
            .ok_or(AskError::Crashed)?
            .ok_or(AskError::Unreadable)
    }
}

/// An answer that shows a document, with this content.
async fn completed_with(
    tenant: Tenant,
    WithoutContent(answer): WithoutContent,
    content: Arc<str>,
) -> Result<Answer, Failure> {
    let shown = answer.body.clone();
    let body = offload::run_linear(tenant, content.len(), move || {
        with_content(&shown, Some(&content))
    })
    .await?;
    Ok(Answer { body, ..answer })
}

/// A document's JSON with its content before the type of it. No other field can look like that one:
/// quotes in values are escaped.
fn with_content(document: &[u8], content: Option<&str>) -> Bytes {
    const NEXT: &[u8] = b"\"content_type\":";
    let place = document
        .windows(NEXT.len())
        .position(|window| window == NEXT)
        .unwrap_or(document.len());
    let (before, behind) = document.split_at(place);
    let mut body = BytesMut::with_capacity(document.len() + content.map_or(0, str::len) + 64);
    body.extend_from_slice(before);
    body.extend_from_slice(b"\"content\":");
    let mut writer = body.writer();
    // A string can always be written.
    let _ = serde_json::to_writer(&mut writer, &content);
    let mut body = writer.into_inner();
    body.put_u8(b',');
    body.extend_from_slice(behind);
    body.freeze()
}
