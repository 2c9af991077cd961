//! Conversations: each call becomes one message to the conversation's actor, lists go to the
//! store's readers.

use colloquy_actors::conversation::messages::{
    ChangeConversation, CloseConversation, CreateConversation, ReadConversation, ReopenConversation,
};
use colloquy_actors::conversation::{ConversationList, ConversationRequest};
use colloquy_model::answer::Answer;
use colloquy_model::conversation::{Channel, Priority, Status};
use colloquy_model::id::{ConversationId, ConversationKind, CustomerId, UserId};
use colloquy_model::page::{Order, Start};
use colloquy_model::time::{RoundedUp, Timestamp};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::super::api_call::{ApiCall, CommandCall};
use super::super::body::{Empty, Json, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::{NoQuery, Part};

/// By what a list of conversations is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    CreatedAt,
    UpdatedAt,
}

/// What a list of conversations may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those in whose messages or customer's name all these words are, best first; words in
    /// quotation marks in this order in one of them, the last one may go on. Not blank; goes with
    /// every filter and with `offset` only.
    #[param(min_length = 1)]
    q: Option<String>,
    /// Only those with this status.
    #[param(inline)]
    status: Option<Status>,
    /// Only this customer's.
    #[param(inline)]
    customer_id: Option<CustomerId>,
    /// Only those that came this way.
    #[param(inline)]
    channel: Option<Channel>,
    /// Only those with this priority.
    #[param(inline)]
    priority: Option<Priority>,
    /// Only those assigned to this user.
    #[param(inline)]
    assignee_id: Option<UserId>,
    /// Only those created after this instant.
    #[param(inline)]
    created_after: Option<Timestamp>,
    /// Only those created before this instant.
    #[param(inline)]
    #[param(value_type = Option<Timestamp>)]
    created_before: Option<RoundedUp>,
    /// By what the list is sorted; `updated_at` goes with `offset` only; with `q` always by how well
    /// it fits. Default: `created_at`.
    #[param(inline)]
    sort: Option<Sort>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// A conversation's id: what follows it in the list's order.
    #[param(inline, value_type = Option<ConversationId>)]
    after: Option<String>,
    /// A conversation's id: what stands directly before it in the list's order.
    #[param(inline, value_type = Option<ConversationId>)]
    before: Option<String>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    order: Option<Order>,
}

pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateConversation>,
) -> Result<Output, Problem> {
    let CommandCall { app, meta } = call.into_command();
    Ok(app.system.conversations.create(meta, new).await?.into())
}

pub(super) async fn list(call: ApiCall, query: ListQuery) -> Result<Output, Problem> {
    let (after, before) = (query.after.as_deref(), query.before.as_deref());
    let part = Part {
        limit: query.limit,
        offset: query.offset,
        after,
        before,
        order: query.order,
    };
    let paging = part.paging::<ConversationKind>(Order::Desc)?;
    if let Some(q) = &query.q {
        if q.trim().is_empty() {
            return Err(Problem::invalid("q", "must not be blank"));
        }
        if let Some((_, field)) = paging.start.cursor() {
            let reason = "does not go with q; page by offset";
            return Err(Problem::invalid(field, reason));
        }
    }
    let by_update = query.sort == Some(Sort::UpdatedAt);
    if by_update && !matches!(paging.start, Start::Offset(_)) {
        return Err(Problem::invalid(
            "sort",
            "goes with offset only, not with after or before",
        ));
    }
    let wanted = ConversationList {
        q: query.q,
        status: query.status,
        customer: query.customer_id,
        channel: query.channel,
        priority: query.priority,
        assignee: query.assignee_id,
        created_after: query.created_after,
        created_before: query.created_before.map(|at| at.0),
        by_update,
        paging,
    };
    let page = call
        .app
        .system
        .conversations
        .list(&call.meta(), wanted)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    ask(call, ReadConversation).await
}

pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeConversation>,
) -> Result<Output, Problem> {
    ask(call, change).await
}

pub(super) async fn close(
    call: ApiCall,
    OptionalJson(close): OptionalJson<CloseConversation>,
) -> Result<Output, Problem> {
    ask(call, close).await
}

pub(super) async fn reopen(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    ask(call, ReopenConversation).await
}

/// Sends a request to the conversation in the path, and shows its answer.
pub(super) async fn ask<R>(call: ApiCall, request: R) -> Result<Output, Problem>
where
    R: ConversationRequest<Reply = Answer>,
{
    let id = call.id::<ConversationKind>(0)?;
    let CommandCall { app, meta } = call.into_command();
    let conversations = &app.system.conversations;
    Ok(conversations.ask(id, meta, request).await?.into())
}
