//! The way in to lists: documents, found and sorted; what one document holds; what was done to it.

use super::access::{DocumentRole, Requester, role_of};
use super::messages::{
    CommandMeta, CommentPage, ContentType, ListCollaborators, ListComments, ListShares,
    ReadDocument,
};
use super::refusal::{Failure, invalid};
use super::search_indexer::DocumentSearch;
use super::service::Documents;
use super::state::{Document, Facts, to_json};
use crate::sealing::texts;
use crate::search::Window;
use crate::store::{
    ActivityQuery, ActivityRow, DocumentOrder, DocumentQuery, DocumentRow, LinkUses, ListFailure,
    ReadError, StoredPage,
};
use bytes::{BufMut, Bytes, BytesMut};
use colloquy_model::answer::Invalid;
use colloquy_model::caller::Tenant;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ActivityId, DocumentId, KeyId, UserId};
use colloquy_model::page::{Order, Page, Paging, Start};
use colloquy_model::time::Timestamp;
use colloquy_runtime::LoadError;
use colloquy_runtime::offload::run_linear;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Which documents a list shows, in which order, and which page of it.
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

/// The user or key that did something to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityActor {
    /// A user, by itself or by a key that acts for it.
    User(UserId),
    /// A key with the account's own rights.
    Key(KeyId),
}

impl ActivityActor {
    fn subject(self) -> Subject {
        match self {
            ActivityActor::User(id) => Subject {
                kind: Kind::User,
                number: id.number(),
                tail: id.tail(),
            },
            ActivityActor::Key(id) => Subject {
                kind: Kind::Key,
                number: id.number(),
                tail: id.tail(),
            },
        }
    }
}

/// Which entries of a document's activity a list shows, and which page of it.
#[derive(Debug, Clone)]
pub struct ActivityList {
    /// Only this kind of event.
    pub action: Option<EventKind>,
    /// Only what this user or key did.
    pub actor: Option<ActivityActor>,
    /// Only after this instant …
    pub since: Option<Timestamp>,
    /// … and before this one.
    pub until: Option<Timestamp>,
    /// The page.
    pub paging: Paging,
}

/// An activity as the interface shows it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Activity)]
pub struct ActivityView {
    /// The entry's identifier.
    pub id: ActivityId,
    /// What was done: the kind of the event.
    pub action: &'static str,
    /// The user or key that did it.
    pub actor: Option<String>,
    /// When it was done.
    pub at: Timestamp,
    /// The version that was made, or the head.
    pub version: Option<String>,
    /// What the event says beside the document.
    #[schema(value_type = Object)]
    pub details: Value,
}

impl Documents {
    /// A page of documents, of those that the caller may read.
    ///
    /// # Errors
    /// A filter names what is not there, the store is unavailable, the search is behind, or the list took
    /// too long.
    pub async fn list(
        &self,
        tenant: Tenant,
        requester: Requester,
        query: DocumentList,
    ) -> Result<Page, ListFailure> {
        if query
            .owner
            .is_some_and(|user| self.identity.user(tenant, user).is_none())
        {
            return Err(ListFailure::Invalid(Invalid::new(
                "owner_id",
                "must be a valid user ID",
            )));
        }
        if query.sort == DocumentOrder::Title && texts::are_encrypted() {
            return Err(ListFailure::Invalid(Invalid::new(
                "sort",
                "must not be title on this server, where titles are encrypted",
            )));
        }
        let reader = match requester {
            Requester::Account(_) | Requester::Link(..) => None,
            Requester::User(user) => Some(user),
        };
        let nobody = reader.is_none() && query.role.is_some_and(|role| role != DocumentRole::Owner);
        let wanted = DocumentQuery {
            tenant,
            reader,
            role: query
                .role
                .filter(|_| reader.is_some())
                .map(|role| role as i64),
            owner: query.owner,
            content_type: query.content_type.map(ContentType::code),
            updated_after: query.updated_after,
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
        let shown = found
            .items
            .iter()
            .map(|row| listed(id(row), row, requester))
            .collect::<Result<Vec<Bytes>, _>>()?;
        Ok(page(&shown, Ends::of(&found.items, ids), &found))
    }

    /// A page of what a search finds.
    async fn search(
        &self,
        words: &str,
        wanted: DocumentQuery,
    ) -> Result<StoredPage<DocumentRow>, ListFailure> {
        let Some(finder) = &self.finder else {
            return Err(ListFailure::Invalid(Invalid::new(
                "q",
                "is switched off on this server; list without it",
            )));
        };
        let filtered = wanted.reader.is_some()
            || wanted.owner.is_some()
            || wanted.content_type.is_some()
            || wanted.updated_after.is_some();
        let limit = wanted.paging.limit;
        let offset = match wanted.paging.start {
            Start::Offset(offset) => offset,
            Start::After(_) | Start::Before(_) => 0,
        };
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let search = DocumentSearch {
            tenant: wanted.tenant,
            deleted: wanted.deleted,
            words,
            window: Window {
                limit: if filtered {
                    usize::MAX
                } else {
                    count(limit.into())
                },
                offset: if filtered { 0 } else { count(offset) },
            },
        };
        let hits = finder.find(search).await?;
        let among = Some(hits.numbers());
        if filtered {
            let wanted = DocumentQuery { among, ..wanted };
            return Ok(self.store.documents(wanted).await?);
        }
        // The index tells apart what is in the bin, and so it knows the page and the total.
        let paging = Paging {
            start: Start::Offset(0),
            ..wanted.paging
        };
        let page = DocumentQuery {
            among,
            paging,
            ..wanted
        };
        let after = offset.saturating_add(limit.into()) < hits.total;
        Ok(StoredPage {
            total: hits.total,
            before: offset > 0,
            after,
            ..self.store.documents(page).await?
        })
    }

    /// A page of a document's collaborators, newest first, with their e-mail addresses.
    ///
    /// # Errors
    /// The document is not there for this caller, or the role does not allow it.
    pub async fn collaborators(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        paging: Paging,
    ) -> Result<Page, Failure> {
        let tenant = meta.caller.tenant;
        let mut all = self.ask(id, meta, ListCollaborators).await?;
        all.retain(|one| self.identity.user(tenant, one.user_id).is_some());
        let found = part(all, paging);
        let mut shown = Vec::with_capacity(found.items.len());
        for collaborator in &found.items {
            shown.push(self.with_email(tenant, to_json(collaborator)).await?);
        }
        Ok(page(&shown, Ends::default(), &found))
    }

    /// A page of a document's share links, newest first.
    ///
    /// # Errors
    /// The document is not there for this caller, or the role does not allow it.
    pub async fn shares(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        paging: Paging,
    ) -> Result<Page, Failure> {
        let shares = self.ask(id, meta, ListShares).await?;
        let mut found = part(shares, paging);
        // Where links are used at other nodes, too, the store alone knows how often.
        let uses = self.store.link_uses(Document::subject(id)).await;
        let uses = uses.map_err(LoadError::from)?;
        for LinkUses { share, uses } in uses {
            let mut shown = found.items.iter_mut();
            if let Some(view) = shown.find(|view| view.share_id.number() == share) {
                view.uses = view.uses.max(uses);
            }
        }
        let shown: Vec<Bytes> = found.items.iter().map(to_json).collect();
        Ok(page(&shown, Ends::default(), &found))
    }

    /// A page of the comments on a document, newest first.
    ///
    /// # Errors
    /// The document is not there for this caller.
    pub async fn comments(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        list: ListComments,
    ) -> Result<Page, Failure> {
        let tenant = meta.caller.tenant;
        let CommentPage { comments, total } = self.ask(id, meta, list).await?;
        let bytes = comments.iter().map(|one| one.comment.body.len()).sum();
        let written = run_linear(tenant, bytes, move || {
            let skip = list.skip();
            let after = skip.saturating_add(comments.len()) < total;
            let shown: Vec<Bytes> = comments.iter().map(|one| to_json(&one.view())).collect();
            let found = StoredPage {
                items: comments,
                total: u64::try_from(total).unwrap_or(u64::MAX),
                before: skip > 0,
                after,
            };
            page(&shown, Ends::default(), &found)
        });
        Ok(written.await?)
    }

    /// A page of what was done to a document, newest first.
    ///
    /// # Errors
    /// The document is not there for this caller, the store is unavailable, or the list took too long.
    pub async fn activity(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        list: ActivityList,
    ) -> Result<Page, Failure> {
        let tenant = meta.caller.tenant;
        let role = self.ask(id, meta, ReadDocument::default()).await?.role;
        let ActivityList {
            action,
            actor,
            since,
            until,
            paging,
        } = list;
        let query = ActivityQuery {
            tenant,
            document: Document::subject(id),
            action,
            actor: actor.map(ActivityActor::subject),
            since,
            until,
            paging,
        };
        let found = self.store.activity(query).await.map_err(in_a_list)?;
        let view = |row: &ActivityRow| {
            let id = ActivityId::at_position(row.at, row.position);
            let (version, details) = details(&row.payload, role)
                .map_err(|error| Unreadable::found(format_args!("{id}: an event's data"), error))?;
            let (action, actor, at) = (row.kind.word(), row.actor.clone(), row.at);
            Ok(ActivityView {
                id,
                action,
                actor,
                at,
                version,
                details,
            })
        };
        let views: Vec<ActivityView> = found
            .items
            .iter()
            .map(view)
            .collect::<Result<_, Unreadable>>()?;
        let shown: Vec<Bytes> = views.iter().map(to_json).collect();
        let ids = |view: &ActivityView| view.id.to_string();
        Ok(page(&shown, Ends::of(&views, ids), &found))
    }
}

/// A document as a list shows it to this caller.
fn listed(id: DocumentId, row: &DocumentRow, requester: Requester) -> Result<Bytes, Unreadable> {
    let facts = Facts::stored(id, &row.body)?;
    let role = role_of(requester, &facts.permissions);
    Ok(to_json(&facts.view(id, role, row.updated_at)))
}

/// What an event says beside the document, as far as everybody may see it who may read the document
/// …
const EVERYBODYS: [&str; 5] = [
    "changes",
    "permanent",
    "comment",
    "collaborators",
    "removed",
];
/// … and what only owners may see.
const OWNERS: [&str; 2] = ["share", "share_id"];
/// Of what changes may be: the rest of the permission set is the owner's to see.
const EVERYBODYS_CHANGES: [&str; 5] = [
    "title",
    "content_type",
    "metadata",
    "owner_id",
    "collaborators",
];

/// What an event says beside the document, and which version it is about. Only what is named here
/// is shown.
fn details(payload: &[u8], role: DocumentRole) -> serde_json::Result<(Option<String>, Value)> {
    if payload.is_empty() {
        // Retention has taken it.
        return Ok((None, json!({})));
    }
    let mut data: Map<String, Value> = serde_json::from_slice(payload)?;
    let is_owner = role >= DocumentRole::Owner;
    let shown = EVERYBODYS.iter().chain(OWNERS.iter().filter(|_| is_owner));
    let shown = shown.filter_map(|field| Some(((*field).to_owned(), data.remove(*field)?)));
    let mut details: Map<String, Value> = shown.collect();
    if let Some(Value::Object(changes)) = details.get_mut("changes").filter(|_| !is_owner) {
        changes.retain(|field, _| EVERYBODYS_CHANGES.contains(&field.as_str()));
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
    Ok((version, Value::Object(details)))
}

/// The page of a list that is held newest first.
fn part<T>(mut all: Vec<T>, paging: Paging) -> StoredPage<T> {
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
    StoredPage {
        items: all.into_iter().skip(skip).take(limit).collect(),
        total,
        before: skip > 0,
        after,
    }
}

/// The identifiers at both ends of a page, by which a caller asks for the pages beside it; none where
/// the list goes by offsets only.
#[derive(Default)]
pub(super) struct Ends {
    first: Option<String>,
    last: Option<String>,
}

impl Ends {
    pub(super) fn of<T>(items: &[T], id: impl Fn(&T) -> String) -> Self {
        Ends {
            first: items.first().map(&id),
            last: items.last().map(id),
        }
    }
}

/// The page of a list, of items that are written out already.
pub(super) fn page<T>(shown: &[Bytes], ends: Ends, found: &StoredPage<T>) -> Page {
    let Ends { first, last } = ends;
    let mut data = BytesMut::from(&b"["[..]);
    for item in shown {
        if data.len() > 1 {
            data.put_u8(b',');
        }
        data.extend_from_slice(item);
    }
    data.put_u8(b']');
    let count = u32::try_from(shown.len()).unwrap_or(u32::MAX);
    Page {
        data: data.freeze().into(),
        count,
        total: found.total,
        first,
        last,
        before: found.before,
        after: found.after,
    }
}

/// A list of one document's that can't be read.
pub(super) fn in_a_list(error: ReadError) -> Failure {
    match error {
        ReadError::NoCursor(field) => invalid(field, "must be an ID of this list"),
        ReadError::TooSlow
        | ReadError::Busy
        | ReadError::Away
        | ReadError::Unreadable
        | ReadError::Expired => LoadError::from(error).into(),
    }
}
