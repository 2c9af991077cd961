//! Messages: written through their conversation's actor, read from it or from the store's readers.

use std::sync::Arc;

use colloquy_actors::conversation::MessageList;
use colloquy_actors::conversation::messages::{
    EditMessage, RedactMessage, ReviseMessage, SendMessage,
};
use colloquy_model::conversation::SenderType;
use colloquy_model::id::{ConversationKind, MessageId, MessageKind};
use colloquy_model::page::{Order, Start};
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::api_call::ApiCall;
use super::super::body::{Json, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::{NoQuery, Part};
use super::conversations::ask;

/// What a list of messages may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those that these senders wrote.
    #[param(inline)]
    sender_type: Option<SenderType>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// A message's id: what follows it in the list's order.
    #[param(inline, value_type = Option<MessageId>)]
    after: Option<String>,
    /// A message's id: what stands directly before it in the list's order.
    #[param(inline, value_type = Option<MessageId>)]
    before: Option<String>,
    /// A message's `seq`: what follows it.
    #[param(minimum = 0)]
    after_seq: Option<u64>,
    /// A message's `seq`: the last ones below it, still ascending.
    #[param(minimum = 0)]
    before_seq: Option<u64>,
    /// The list's direction. Default: `asc`.
    #[param(inline)]
    order: Option<Order>,
}

/// What a list of revisions may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct RevisionsQuery {
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

pub(super) async fn send(
    call: ApiCall,
    Json(message): Json<SendMessage>,
) -> Result<Output, Problem> {
    ask(call, message).await
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
    let paging = part.paging::<MessageKind>(Order::Asc)?;
    let (after_seq, before_seq) = (query.after_seq, query.before_seq);
    let by_sequence = after_seq.is_some() || before_seq.is_some();
    if by_sequence && (query.offset.is_some() || !matches!(paging.start, Start::Offset(_))) {
        let at_fault = if after_seq.is_some() {
            "after_seq"
        } else {
            "before_seq"
        };
        return Err(Problem::invalid(
            at_fault,
            "must not stand beside offset, after or before",
        ));
    }
    if by_sequence && paging.order == Order::Desc {
        return Err(Problem::invalid(
            "order",
            "must be asc beside after_seq or before_seq",
        ));
    }
    if after_seq.is_some() && before_seq.is_some() {
        return Err(Problem::invalid(
            "before_seq",
            "must not stand beside after_seq",
        ));
    }
    let id = call.id::<ConversationKind>(0)?;
    let wanted = MessageList {
        paging,
        after_seq,
        before_seq,
        sender_type: query.sender_type,
    };
    let page = call
        .app
        .system
        .conversations
        .messages(&call.meta(), id, wanted)
        .await?;
    let style = if by_sequence {
        LinkStyle::Sequence
    } else {
        LinkStyle::Plain
    };
    Ok(Output::Page(Listing {
        page,
        paging,
        style,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let (id, message) = (call.id::<ConversationKind>(0)?, call.id::<MessageKind>(1)?);
    Ok(call
        .app
        .system
        .conversations
        .message(&call.meta(), id, message)
        .await?
        .into())
}

pub(super) async fn edit(
    call: ApiCall,
    OptionalJson(edit): OptionalJson<EditMessage>,
) -> Result<Output, Problem> {
    let message = call.id::<MessageKind>(1)?;
    ask(call, ReviseMessage { message, edit }).await
}

pub(super) async fn redact(call: ApiCall) -> Result<Output, Problem> {
    let (id, message) = (call.id::<ConversationKind>(0)?, call.id::<MessageKind>(1)?);
    let app = Arc::clone(&call.app);
    let caller = call.caller.clone();
    let attachment = app.system.conversations.attachment_of(id, message).await?;
    let redacted = ask(call, RedactMessage { message }).await?;
    // From the answer on it is nobody's; a crash before leaves that to what the commit left to do.
    if let Some(attachment) = attachment {
        app.system.attachments.hide(caller, attachment).await?;
    }
    Ok(redacted)
}

pub(super) async fn revisions(call: ApiCall, query: RevisionsQuery) -> Result<Output, Problem> {
    let part = Part {
        limit: query.limit,
        offset: query.offset,
        order: query.order,
        ..Part::default()
    };
    let paging = part.paging::<MessageKind>(Order::Desc)?;
    let (id, message) = (call.id::<ConversationKind>(0)?, call.id::<MessageKind>(1)?);
    let page = call
        .app
        .system
        .conversations
        .revisions(&call.meta(), id, message, paging)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}
