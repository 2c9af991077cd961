//! The way in: documents by id, their lists, their versions and what differs between them. Whatever reads contents, compares
//! or writes them out runs on threads of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Value, json};

use super::access::{DocumentRole, Who, role_of};
use super::bin;
use super::diff;
use super::finder::Finder;
use super::messages::{
    AddCollaborator, CommentList, ContentType, CreateDocument, DocumentCommand, DocumentError, MAIN, Part, Reply,
    Request, Seen, SetPermissions, VersionFound, VersionName, VersionView,
};
use super::shares::PasswordTries;
use super::state::{Document, Facts, tag, to_json};
use super::work::{unpack, unpacked_bytes};
use crate::accounts::{Identity, Role};
use crate::answer::{Answer, Done, Invalid, Precondition};
use crate::background::Background;
use crate::caller::{Caller, Scope};
use crate::id::{ActivityId, DocumentId, ShareId, UserId, VersionId};
use crate::idempotency::Reservation;
use crate::offload;
use crate::page::{ListFailure, Order, Page, Paging, Start};
use crate::runtime::{AskError, Cause, Directory};
use crate::store::{
    ActivityQuery, DocumentOrder, DocumentQuery, DocumentRow, Happened, Kind, NameField, ReadError, RecordQuery, Store,
    Stored, StoredPage, StoredVersion, Subject, VersionQuery,
};
use crate::text::{DocumentContent, Email};
use crate::time::Timestamp;

/// Why a document could not be asked.
pub type Failure = AskError<DocumentError>;

/// A list of documents.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the parameters' own names")]
pub struct DocumentList {
    pub q: Option<String>,
    pub owner: Option<UserId>,
    pub role: Option<DocumentRole>,
    pub content_type: Option<ContentType>,
    pub updated_after: Option<Timestamp>,
    pub deleted: bool,
    pub sort: DocumentOrder,
    pub paging: Paging,
}

/// What is compared, and how it is shown.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Default: the first parent of the head.
    pub from: Option<VersionName>,
    /// Default: the head.
    pub to: Option<VersionName>,
    /// Lines around each change.
    pub context: usize,
    /// As what it is shown.
    pub format: DiffFormat,
}

/// As what a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the parameter's own words")]
pub enum DiffFormat {
    Unified,
    Json,
    Html,
    Stat,
}

/// What is wanted of a document's activity.
#[derive(Debug, Clone)]
pub struct ActivityList {
    /// Only this.
    pub action: Option<Happened>,
    /// Only what this user or key did: its identifier's number.
    pub actor: Option<u64>,
    /// Only after this instant …
    pub since: Option<Timestamp>,
    /// … and before this one.
    pub until: Option<Timestamp>,
    /// Which part.
    pub paging: Paging,
}

/// All documents.
pub struct Documents {
    pub(crate) directory: Arc<Directory<Document>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) finder: Finder,
    /// Wrong passwords, by share link.
    pub(crate) tries: PasswordTries<ShareId>,
}

/// An activity as the interface shows it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Activity)]
pub struct ActivityView {
    /// Names it.
    pub id: ActivityId,
    /// What was done, as the event is called.
    pub action: &'static str,
    /// The user or key that did it.
    pub actor: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The version that was made, or the head.
    pub version: Option<String>,
    /// What the event says beside the document.
    #[schema(value_type = Object)]
    pub details: Value,
}

impl Documents {
    /// Starts what erases documents that have been in the bin for so long.
    pub(crate) fn empty_bin(documents: &Arc<Self>, keep: Duration) -> Option<Background> {
        bin::start(Arc::clone(documents), keep)
    }

    /// What a caller is to documents.
    #[must_use]
    pub fn who(&self, caller: &Caller) -> Who {
        match caller.by.user {
            None => Who::Account(None),
            Some(user) if self.identity.user(caller.scope, user) == Some(Role::Admin) => Who::Account(Some(user)),
            Some(user) => Who::User(user),
        }
    }

    /// Makes a document.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn create(
        &self,
        caller: Caller,
        new: CreateDocument,
        reservation: Option<Reservation>,
    ) -> Result<Answer, Failure> {
        let id = DocumentId::new(Timestamp::now().0);
        let who = self.who(&caller);
        self.change(id, (caller, who), None, reservation, Request::Create(Box::new(new))).await
    }

    /// Asks one document to change; an answer that shows the document shows its content too.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn change(
        &self,
        id: DocumentId,
        (caller, who): (Caller, Who),
        if_match: Option<Precondition>,
        reservation: Option<Reservation>,
        request: Request,
    ) -> Result<Answer, Failure> {
        let whole = matches!(request, Request::Create(_) | Request::Update(_) | Request::Restore);
        let given = if let Request::Create(new) = &request {
            Some(new.content.as_ref().map_or_else(|| Arc::from(""), DocumentContent::shared))
        } else if let Request::Update(update) = &request {
            update.content.as_ref().map(DocumentContent::shared)
        } else {
            None
        };
        let Reply::Answer(answer) = self.ask(id, (caller, who), if_match, reservation, request).await? else {
            return Err(away());
        };
        match given {
            // What was given is the head's content now.
            Some(content) => completed_with(answer, Some(content)).await,
            None if whole => self.completed(answer).await,
            None => Ok(answer),
        }
    }

    pub(super) async fn ask(
        &self,
        id: DocumentId,
        (caller, who): (Caller, Who),
        if_match: Option<Precondition>,
        reservation: Option<Reservation>,
        request: Request,
    ) -> Result<Reply, Failure> {
        let people = Arc::clone(&self.identity);
        let command = DocumentCommand { caller, who, if_match, reservation, request, people };
        self.directory.ask(id, command).await
    }

    async fn look(&self, id: DocumentId, by: (Caller, Who), names: Vec<VersionName>) -> Result<Seen, Failure> {
        match self.ask(id, by, None, None, Request::Look(names)).await? {
            Reply::Seen(seen) => Ok(*seen),
            Reply::Answer(_)
            | Reply::Opened(_)
            | Reply::Listed(_)
            | Reply::Comments(..)
            | Reply::Prepared(_)
            | Reply::Overtaken(_) => Err(away()),
        }
    }

    /// One document with its content, or with that of one of its versions.
    ///
    /// # Errors
    /// It is not there for this caller, or why it could not be asked.
    pub async fn read(
        &self,
        id: DocumentId,
        by: (Caller, Who),
        version: Option<VersionName>,
    ) -> Result<Answer, Failure> {
        let seen = self.look(id, by, version.iter().cloned().collect()).await?;
        let shown = match version {
            Some(_) => {
                let named = seen.versions.first().copied().flatten();
                named.ok_or_else(|| invalid("version", "must be a version of this document"))?
            }
            None => seen.head,
        };
        let (_, content) = self.content(id, shown).await?;
        let body = go_over(content.len(), move || with_content(&seen.document, Some(&content))).await?;
        let etag = if shown.number == seen.head.number { seen.etag } else { format!("{}-{}", seen.etag, shown.number) };
        Ok(Answer { done: Done::Ok, id: None, etag: Some(etag), body, replayed: false })
    }

    /// Puts its content into an answer that shows a document; a kept answer is kept without. What was erased since is null.
    ///
    /// # Errors
    /// The content can't be read.
    pub async fn completed(&self, answer: Answer) -> Result<Answer, Failure> {
        let shown: Value = serde_json::from_slice(&answer.body).map_err(|_| away())?;
        let text = |field: &str| shown.get(field).and_then(Value::as_str);
        let id: Option<DocumentId> = text("id").and_then(|id| id.parse().ok());
        let version: Option<VersionId> = text("version").and_then(|id| id.parse().ok());
        let (Some(id), Some(version)) = (id, version) else { return Ok(answer) };
        let found = VersionFound { number: version.sequence(), id: version, parent: None };
        let content = match self.content(id, found).await {
            Ok((_, content)) => Some(Arc::from(content)),
            Err(AskError::Refused(DocumentError::NotFound)) => None,
            Err(failure) => return Err(failure),
        };
        completed_with(answer, content).await
    }

    async fn content(&self, id: DocumentId, version: VersionFound) -> Result<(StoredVersion, String), Failure> {
        let found = self.store.version(Document::subject(id), version.number).await.map_err(|_| away())?;
        let (stored, frames) = found.ok_or(AskError::Refused(DocumentError::NotFound))?;
        let unpacked = go_over(unpacked_bytes(&frames), move || unpack(&frames)).await?;
        Ok((stored, unpacked.ok_or_else(away)?.0))
    }

    /// One version with its content.
    ///
    /// # Errors
    /// It is not there for this caller, or why it could not be asked.
    pub async fn version(&self, id: DocumentId, by: (Caller, Who), name: VersionName) -> Result<Answer, Failure> {
        let seen = self.look(id, by, vec![name]).await?;
        let found = seen.versions.first().copied().flatten().ok_or(AskError::Refused(DocumentError::NotFound))?;
        let (stored, content) = self.content(id, found).await?;
        let parents = self.parents(id, &stored).await?;
        let etag = stored.id.to_string();
        let body = go_over(content.len(), move || {
            to_json(&VersionWithContent { version: version_view(id, &stored, parents), content: &content })
        });
        Ok(Answer { done: Done::Ok, id: None, etag: Some(etag), body: body.await?, replayed: false })
    }

    async fn parents(&self, id: DocumentId, version: &StoredVersion) -> Result<Vec<VersionId>, Failure> {
        let found = self.store.version_ids(Document::subject(id), version.parents.clone()).await;
        found.map_err(|_| away())
    }

    /// What differs between two versions; version 1 is compared with the empty text.
    ///
    /// # Errors
    /// The document is not there for this caller, a version is not one of its, or why it could not be asked.
    pub async fn diff(&self, id: DocumentId, by: (Caller, Who), asked: Comparison) -> Result<Bytes, Failure> {
        let names: Vec<VersionName> = asked.from.iter().chain(asked.to.iter()).cloned().collect();
        let seen = self.look(id, by, names).await?;
        let mut versions = seen.versions.iter().copied();
        let mut named = |field, name: &Option<VersionName>| match name {
            Some(_) => {
                versions.next().flatten().map(Some).ok_or_else(|| invalid(field, "must be a version of this document"))
            }
            None => Ok(None),
        };
        let from = named("from", &asked.from)?;
        let to = named("to", &asked.to)?.unwrap_or(seen.head);
        let first_parent = seen.head.parent.map(|number| VersionFound { number, ..seen.head });
        let old = match from.or(first_parent) {
            Some(from) => self.content(id, from).await?.1,
            None => String::new(),
        };
        let new = self.content(id, to).await?.1;
        let compared =
            offload::compare(old.len() + new.len(), move || compare(&old, &new, asked.context, asked.format)).await;
        compared.ok_or(AskError::Crashed)
    }

    /// A page of documents, of those that the caller may read.
    ///
    /// # Errors
    /// A filter names what is not there, the store is away, the search is behind, or the list took too long.
    pub async fn list(&self, scope: Scope, who: Who, query: DocumentList) -> Result<Page, ListFailure> {
        if query.owner.is_some_and(|user| self.identity.user(scope, user).is_none()) {
            return Err(ListFailure::Invalid(Invalid::new("owner_id", "must be a valid user ID")));
        }
        let reader = match who {
            Who::Account(_) | Who::Link(..) => None,
            Who::User(user) => Some(user),
        };
        let nobody = reader.is_none() && query.role.is_some_and(|role| role != DocumentRole::Owner);
        let wanted = DocumentQuery {
            scope,
            reader,
            role: query.role.filter(|_| reader.is_some()).map(|role| role as i64),
            owner: query.owner,
            content_type: query.content_type.map(ContentType::code),
            updated_after: query.updated_after.map(|at| at.0),
            deleted: query.deleted,
            // An account-level caller is owner of everything: with another role there is nothing.
            among: nobody.then(|| Arc::from([])),
            sort: query.sort,
            paging: query.paging,
        };
        let found = match &query.q {
            Some(words) if !nobody => self.search(words, wanted).await?,
            Some(_) | None => self.store.documents(wanted).await?,
        };
        let id = |row: &DocumentRow| DocumentId::from_parts(row.subject.number, row.subject.tail);
        let ids = |row: &DocumentRow| id(row).to_string();
        let shown = found.items.iter().map(|row| listed(id(row), row, who)).collect::<Option<Vec<Bytes>>>();
        let shown = shown.ok_or(ListFailure::Away)?;
        Ok(page(&shown, (found.items.first().map(ids), found.items.last().map(ids)), &found))
    }

    /// A page of what a search finds.
    async fn search(&self, words: &str, wanted: DocumentQuery) -> Result<StoredPage<DocumentRow>, ListFailure> {
        let filtered = wanted.reader.is_some()
            || wanted.owner.is_some()
            || wanted.content_type.is_some()
            || wanted.updated_after.is_some();
        let DocumentQuery { scope, deleted, .. } = wanted;
        if filtered {
            let hits = self.finder.find((scope, deleted), words, (usize::MAX, 0)).await?;
            return Ok(self.store.documents(DocumentQuery { among: Some(hits.numbers()), ..wanted }).await?);
        }
        // The index tells apart what is in the bin, and so it knows the page and the total.
        let limit = wanted.paging.limit;
        let offset = match wanted.paging.start {
            Start::Offset(offset) => offset,
            Start::After(_) | Start::Before(_) => 0,
        };
        let part = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let hits = self.finder.find((scope, deleted), words, (part(limit.into()), part(offset))).await?;
        let paging = Paging { start: Start::Offset(0), ..wanted.paging };
        let page = DocumentQuery { among: Some(hits.numbers()), paging, ..wanted };
        let after = offset.saturating_add(limit.into()) < hits.total;
        Ok(StoredPage { total: hits.total, before: offset > 0, after, ..self.store.documents(page).await? })
    }

    /// A page of a document's versions, newest first.
    ///
    /// # Errors
    /// The document is not there for this caller, the store is away, or the list took too long.
    pub async fn versions(
        &self,
        id: DocumentId,
        by: (Caller, Who),
        branch: Option<VersionName>,
        paging: Paging,
    ) -> Result<Page, Failure> {
        self.look(id, by, Vec::new()).await?;
        let branch = match branch {
            None => None,
            Some(VersionName::Head | VersionName::Main) => Some(String::new()),
            Some(VersionName::Mark(mark)) => Some(mark.to_string()),
            Some(VersionName::Id(_) | VersionName::Number(_)) => return Err(invalid("branch", "must be a branch")),
        };
        let is_side_line = branch.as_ref().is_some_and(|branch| !branch.is_empty());
        let query = VersionQuery { document: Document::subject(id), branch, paging };
        let found = self.store.versions(query).await.map_err(in_a_list)?;
        if is_side_line && found.total == 0 {
            return Err(invalid("branch", "must be a branch of this document"));
        }
        let numbers = found.items.iter().flat_map(|version| version.parents.iter().copied()).collect();
        let parents = self.store.version_ids(Document::subject(id), numbers).await.map_err(|_| away())?;
        let mut parents = parents.into_iter();
        let mut shown = Vec::with_capacity(found.items.len());
        for version in &found.items {
            let its = parents.by_ref().take(version.parents.len()).collect();
            shown.push(to_json(&version_view(id, version, its)));
        }
        let ids = |version: &StoredVersion| version.id.to_string();
        Ok(page(&shown, (found.items.first().map(ids), found.items.last().map(ids)), &found))
    }

    /// A page of what a document holds in lists, newest first.
    ///
    /// # Errors
    /// The document is not there for this caller, or the role does not allow it.
    pub async fn part(&self, id: DocumentId, by: (Caller, Who), part: Part, paging: Paging) -> Result<Page, Failure> {
        let scope = by.0.scope;
        let Reply::Listed(mut all) = self.ask(id, by, None, None, Request::List(part)).await? else {
            return Err(away());
        };
        if part == Part::Collaborators {
            all.retain(|one| self.is_there(scope, one));
        }
        if paging.order == Order::Asc {
            all.reverse();
        }
        let skip = match paging.start {
            Start::Offset(skip) => usize::try_from(skip).unwrap_or(usize::MAX).min(all.len()),
            Start::After(_) | Start::Before(_) => 0,
        };
        let total = u64::try_from(all.len()).unwrap_or(u64::MAX);
        let limit = usize::try_from(paging.limit).unwrap_or(0);
        let after = skip + limit < all.len();
        let mut items: Vec<Bytes> = all.into_iter().skip(skip).take(limit).collect();
        if part == Part::Collaborators {
            items = self.with_emails(scope, items).await?;
        }
        let found = StoredPage { items, total, before: skip > 0, after };
        Ok(page(&found.items, (None, None), &found))
    }

    /// A page of what is said about a document, newest first.
    ///
    /// # Errors
    /// The document is not there for this caller.
    pub async fn comments(&self, id: DocumentId, by: (Caller, Who), list: CommentList) -> Result<Page, Failure> {
        let Reply::Comments(found, total) = self.ask(id, by, None, None, Request::ListComments(list)).await? else {
            return Err(away());
        };
        let bytes = found.iter().map(|comment| comment.body.len()).sum();
        go_over(bytes, move || {
            let skip = list.skip();
            let after = skip.saturating_add(found.len()) < total;
            let items: Vec<Bytes> = found.iter().map(|comment| to_json(&**comment)).collect();
            let found = StoredPage { items, total: u64::try_from(total).unwrap_or(u64::MAX), before: skip > 0, after };
            page(&found.items, (None, None), &found)
        })
        .await
    }

    /// The permission set.
    ///
    /// # Errors
    /// The document is not there for this caller, or the role does not allow it.
    pub async fn permissions(&self, id: DocumentId, by: (Caller, Who)) -> Result<Answer, Failure> {
        let scope = by.0.scope;
        match self.ask(id, by, None, None, Request::List(Part::Permissions)).await? {
            Reply::Listed(mut found) => {
                let body = found.pop().unwrap_or_default();
                self.permissions_shown(scope, Answer { done: Done::Ok, id: None, etag: None, body, replayed: false })
                    .await
            }
            Reply::Answer(_)
            | Reply::Seen(_)
            | Reply::Opened(_)
            | Reply::Comments(..)
            | Reply::Prepared(_)
            | Reply::Overtaken(_) => Err(away()),
        }
    }

    /// A permission set with its collaborators' e-mail addresses.
    async fn permissions_shown(&self, scope: Scope, answer: Answer) -> Result<Answer, Failure> {
        let mut set: Value = serde_json::from_slice(&answer.body).map_err(|_| away())?;
        let stored = tag(&answer.body);
        if let Some(Value::Array(list)) = set.get_mut("collaborators") {
            list.retain(|one| self.has_user(scope, one));
            for one in list {
                self.add_email(scope, one).await?;
            }
        }
        let body = to_json(&set);
        Ok(Answer { etag: Some(format!("{stored}-{}", tag(&body))), body, ..answer })
    }

    /// Changes the permission set.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn set_permissions(
        &self,
        id: DocumentId,
        by: (Caller, Who),
        if_match: Option<Precondition>,
        set: SetPermissions,
    ) -> Result<Answer, Failure> {
        let scope = by.0.scope;
        let if_match = match if_match {
            Some(Precondition::OneOf(tags)) => {
                // The document knows its half of the tag; the other half is the e-mail addresses.
                let shown = self.permissions(id, by.clone()).await?.etag.filter(|shown| tags.contains(shown));
                let stored = shown.and_then(|tag| tag.split('-').next().map(str::to_owned));
                Some(Precondition::OneOf(stored.into_iter().collect()))
            }
            Some(Precondition::Any) | None => if_match,
        };
        let answer = self.change(id, by, if_match, None, Request::SetPermissions(Box::new(set))).await?;
        self.permissions_shown(scope, answer).await
    }

    /// A collaborator with the e-mail address.
    ///
    /// # Errors
    /// The store is away.
    pub async fn collaborator_shown(&self, scope: Scope, answer: Answer) -> Result<Answer, Failure> {
        let body = self.with_emails(scope, vec![answer.body.clone()]).await?.pop();
        Ok(Answer { body: body.unwrap_or_default(), ..answer })
    }

    /// Whether a collaborator, in JSON, is still a user.
    fn is_there(&self, scope: Scope, collaborator: &[u8]) -> bool {
        serde_json::from_slice(collaborator).is_ok_and(|one: Value| self.has_user(scope, &one))
    }

    fn has_user(&self, scope: Scope, collaborator: &Value) -> bool {
        user_of(collaborator).is_some_and(|user| self.identity.user(scope, user).is_some())
    }

    async fn with_emails(&self, scope: Scope, items: Vec<Bytes>) -> Result<Vec<Bytes>, Failure> {
        let mut shown = Vec::with_capacity(items.len());
        for item in items {
            let mut one: Value = serde_json::from_slice(&item).map_err(|_| away())?;
            self.add_email(scope, &mut one).await?;
            shown.push(to_json(&one));
        }
        Ok(shown)
    }

    async fn add_email(&self, scope: Scope, collaborator: &mut Value) -> Result<(), Failure> {
        let email = match user_of(collaborator) {
            Some(id) => self.email(scope, id).await?,
            None => None,
        };
        if let Value::Object(fields) = collaborator {
            fields.insert("email".to_owned(), json!(email));
        }
        Ok(())
    }

    /// Lets a user in, by identifier or by e-mail address.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn add_collaborator(
        &self,
        id: DocumentId,
        by: (Caller, Who),
        new: AddCollaborator,
        if_match: Option<Precondition>,
        reservation: Option<Reservation>,
    ) -> Result<Answer, Failure> {
        let scope = by.0.scope;
        // Who may not do it learns nothing of who is a user.
        self.ask(id, by.clone(), None, None, Request::List(Part::Permissions)).await?;
        let user = match (new.user_id, &new.email) {
            (Some(user), None) => user,
            (None, Some(email)) => self.user_of(scope, email).await?,
            (Some(_), Some(_)) => return Err(invalid("email", "must not stand beside user_id")),
            (None, None) => return Err(invalid("user_id", "must be given, or email")),
        };
        let email = self.email(scope, user).await?;
        self.change(id, by, if_match, reservation, Request::AddCollaborator(user, new.role, email)).await
    }

    async fn email(&self, scope: Scope, id: UserId) -> Result<Option<String>, Failure> {
        let subject = Subject { kind: Kind::User, number: id.number(), tail: id.tail() };
        match self.store.load(subject).await.map_err(|_| away())? {
            Some(Stored::Record(record)) if record.scope == scope.account_wide() => {
                let user: Value = serde_json::from_str(&record.body).map_err(|_| away())?;
                Ok(user.get("email").and_then(Value::as_str).map(str::to_owned))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// The user with this e-mail address.
    async fn user_of(&self, scope: Scope, email: &Email) -> Result<UserId, Failure> {
        let paging = Paging { limit: 1, start: Start::Offset(0), order: Order::Desc };
        let names = vec![(NameField::UserEmail, email.to_lowercase())];
        let query = RecordQuery { scope: scope.account_wide(), kind: Kind::User, names, paging };
        let found = self.store.records(query).await.map_err(|_| away())?;
        let user = found.items.first().map(|record| UserId::from_parts(record.subject.number, record.subject.tail));
        user.ok_or_else(|| invalid("email", "must be a user's e-mail address"))
    }

    /// A page of what was done to a document, newest first.
    ///
    /// # Errors
    /// The document is not there for this caller, the store is away, or the list took too long.
    pub async fn activity(&self, id: DocumentId, by: (Caller, Who), list: ActivityList) -> Result<Page, Failure> {
        let role = self.look(id, by, Vec::new()).await?.role;
        let ActivityList { action, actor, since, until, paging } = list;
        let query = ActivityQuery {
            document: Document::subject(id),
            action,
            actor,
            since: since.map(|at| at.0),
            until: until.map(|at| at.0),
            paging,
        };
        let found = self.store.activity(query).await.map_err(in_a_list)?;
        let views: Vec<ActivityView> = found
            .items
            .iter()
            .map(|row| {
                let (version, details) = details(&row.payload, role);
                let id = ActivityId::at_position(row.at, row.position);
                let (action, actor, at) = (row.happened.word(), row.actor.clone(), Timestamp(row.at));
                ActivityView { id, action, actor, at, version, details }
            })
            .collect();
        let shown: Vec<Bytes> = views.iter().map(to_json).collect();
        let ids = |view: &ActivityView| view.id.to_string();
        Ok(page(&shown, (views.first().map(ids), views.last().map(ids)), &found))
    }
}

/// The user that a collaborator, in JSON, is.
fn user_of(collaborator: &Value) -> Option<UserId> {
    collaborator.get("user_id").and_then(Value::as_str).and_then(|id| id.parse().ok())
}

/// Goes over so many bytes, off the arbiters if they are many.
async fn go_over<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    offload::go_over(bytes, work).await.ok_or(AskError::Crashed)
}

/// An answer that shows a document, with this content.
async fn completed_with(answer: Answer, content: Option<Arc<str>>) -> Result<Answer, Failure> {
    let (shown, bytes) = (answer.body.clone(), content.as_deref().map_or(0, str::len));
    let body = go_over(bytes, move || with_content(&shown, content.as_deref())).await?;
    Ok(Answer { body, ..answer })
}

/// A document's JSON with its content before the type of it. No other field can look like that one: quotes in values are
/// escaped.
fn with_content(document: &[u8], content: Option<&str>) -> Bytes {
    const NEXT: &[u8] = b"\"content_type\":";
    let place = document.windows(NEXT.len()).position(|window| window == NEXT).unwrap_or(document.len());
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

fn compare(old: &str, new: &str, context: usize, format: DiffFormat) -> Bytes {
    let names = diff::Names { old: "a/document", new: "b/document" };
    match format {
        DiffFormat::Unified => diff::unified(old, new, &names, context).into(),
        DiffFormat::Json => to_json(&diff::line_diff(old, new, context)),
        DiffFormat::Html => diff::html(old, new, &names, context).into(),
        DiffFormat::Stat => to_json(&diff::stat(old, new)),
    }
}

/// A document as a list shows it to this caller.
fn listed(id: DocumentId, row: &DocumentRow, who: Who) -> Option<Bytes> {
    let facts: Facts = serde_json::from_str(&row.body).ok()?;
    let role = role_of(who, &facts.permissions);
    Some(to_json(&facts.view(id, role, row.updated_at)))
}

fn version_view(id: DocumentId, version: &StoredVersion, parents: Vec<VersionId>) -> VersionView<'_> {
    VersionView {
        id: version.id,
        document_id: id,
        number: version.number,
        label: version.label.as_deref(),
        branch: if version.branch.is_empty() { MAIN } else { &version.branch },
        parents,
        message: version.message.as_deref(),
        author: version.author,
        created_at: Timestamp(version.at),
    }
}

/// A single version.
#[derive(Serialize)]
struct VersionWithContent<'a> {
    #[serde(flatten)]
    version: VersionView<'a>,
    content: &'a str,
}

/// What an event says beside the document, and which version it is about. Links and the permission set are the owner's to
/// see; everybody sees collaborators.
fn details(payload: &[u8], role: DocumentRole) -> (Option<String>, Value) {
    const BESIDE: [&str; 7] = ["changes", "permanent", "share", "share_id", "comment", "collaborators", "removed"];
    const OWNERS: [&str; 5] = ["share", "share_id", "visibility", "default_role", "link_sharing"];
    let Ok(Value::Object(mut data)) = serde_json::from_slice(payload) else { return (None, json!({})) };
    let mut details = serde_json::Map::new();
    for field in BESIDE {
        if let Some(value) = data.remove(field) {
            details.insert(field.to_owned(), value);
        }
    }
    if role < DocumentRole::Owner {
        details.retain(|field, _| !OWNERS.contains(&field.as_str()));
        if let Some(Value::Object(changes)) = details.get_mut("changes") {
            changes.retain(|field, _| !OWNERS.contains(&field.as_str()));
        }
    }
    let version = match data.remove("version") {
        Some(Value::Object(version)) => {
            let id = version.get("id").and_then(Value::as_str).map(str::to_owned);
            details.insert("version".to_owned(), Value::Object(version));
            id
        }
        Some(Value::String(id)) => Some(id),
        Some(_) | None => None,
    };
    (version, Value::Object(details))
}

fn page<T>(shown: &[Bytes], (first, last): (Option<String>, Option<String>), found: &StoredPage<T>) -> Page {
    let mut data = BytesMut::from(&b"["[..]);
    for item in shown {
        if data.len() > 1 {
            data.put_u8(b',');
        }
        data.extend_from_slice(item);
    }
    data.put_u8(b']');
    let count = u32::try_from(shown.len()).unwrap_or(u32::MAX);
    Page { data: data.freeze(), count, total: found.total, first, last, before: found.before, after: found.after }
}

pub(super) fn invalid(field: &'static str, reason: &str) -> Failure {
    AskError::Refused(DocumentError::Invalid(Invalid::new(field, reason)))
}

pub(super) fn away() -> Failure {
    AskError::Unavailable { cause: Cause::StoreAway, retry_after: Duration::from_secs(1) }
}

/// A list of one document's that can't be read.
fn in_a_list(error: ReadError) -> Failure {
    match error {
        ReadError::NoCursor(field) => invalid(field, "must be an ID of this list"),
        ReadError::TooSlow | ReadError::Away | ReadError::Expired => away(),
    }
}
