//! What is said about a document, and what was done to it.

use colloquy_actors::document::messages::{
    AddComment, ChangeComment, EditComment, ListComments, RemoveComment,
};
use colloquy_actors::document::{ActivityActor, ActivityList};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ActivityId, ActivityKind, CommentKind, DocumentKind};
use colloquy_model::page::Order;
use colloquy_model::time::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::records::PlainQuery;
use super::{ask, ask_computed};
use crate::http::api_call::ApiCall;
use crate::http::body::{Json, OptionalJson};
use crate::http::output::{LinkStyle, Listing, Output};
use crate::http::problem::Problem;
use crate::http::query::Part;

/// What a list of comments may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct CommentsQuery {
    /// Only the settled ones, or only the open ones.
    resolved: Option<bool>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    order: Option<Order>,
}

/// What a list of what was done may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ActivityQuery {
    /// Only this, such as `document.updated`.
    action: Option<String>,
    /// Only what this user or key did.
    #[param(pattern = "^(usr|key)_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$")]
    actor: Option<String>,
    /// Only what was done after this instant.
    #[param(inline)]
    since: Option<Timestamp>,
    /// Only what was done before this instant.
    #[param(inline)]
    until: Option<Timestamp>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// An entry's id: what follows it in the list's order.
    #[param(inline, value_type = Option<ActivityId>)]
    after: Option<String>,
    /// An entry's id: what stands directly before it in the list's order.
    #[param(inline, value_type = Option<ActivityId>)]
    before: Option<String>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    order: Option<Order>,
}

pub(super) async fn list(call: ApiCall, query: CommentsQuery) -> Result<Output, Problem> {
    let CommentsQuery {
        resolved,
        limit,
        offset,
        order,
    } = query;
    let paging = PlainQuery {
        limit,
        offset,
        order,
    }
    .part()
    .paging::<DocumentKind>(Order::Desc)?;
    let id = call.id::<DocumentKind>(0)?;
    let documents = &call.app.system.documents;
    let meta = documents.meta(call.caller.clone());
    let page = documents
        .comments(id, meta, ListComments { resolved, paging })
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn add(call: ApiCall, Json(add): Json<AddComment>) -> Result<Output, Problem> {
    ask_computed(call, add).await
}

pub(super) async fn edit(
    call: ApiCall,
    OptionalJson(edit): OptionalJson<ChangeComment>,
) -> Result<Output, Problem> {
    let comment = call.id::<CommentKind>(1)?;
    ask(
        call,
        EditComment {
            comment,
            change: edit,
        },
    )
    .await
}

pub(super) async fn remove(call: ApiCall) -> Result<Output, Problem> {
    let comment = call.id::<CommentKind>(1)?;
    ask(call, RemoveComment { comment }).await
}

pub(super) async fn activity(call: ApiCall, query: ActivityQuery) -> Result<Output, Problem> {
    let (after, before) = (query.after.as_deref(), query.before.as_deref());
    let page = Part {
        limit: query.limit,
        offset: query.offset,
        after,
        before,
        order: query.order,
    };
    let paging = page.paging::<ActivityKind>(Order::Desc)?;
    let action = query.action.as_deref().map(action).transpose()?;
    let actor = query.actor.as_deref().map(actor).transpose()?;
    let id = call.id::<DocumentKind>(0)?;
    let wanted = ActivityList {
        action,
        actor,
        since: query.since,
        until: query.until,
        paging,
    };
    let documents = &call.app.system.documents;
    let meta = documents.meta(call.caller.clone());
    let page = documents.activity(id, meta, wanted).await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

fn action(word: &str) -> Result<EventKind, Problem> {
    let found = EventKind::from_word(word).filter(|kind| kind.is_of_document());
    found.ok_or_else(|| {
        Problem::invalid(
            "action",
            "must be what happens to documents, such as document.updated",
        )
    })
}

/// The user or key of this identifier.
fn actor(text: &str) -> Result<ActivityActor, Problem> {
    let user = text.parse().map(ActivityActor::User);
    let found = user.or_else(|_| text.parse().map(ActivityActor::Key));
    found.map_err(|_| Problem::invalid("actor", "must be a valid user ID or key ID"))
}
