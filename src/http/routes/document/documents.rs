//! Documents as a whole: made, listed, read, changed, put into the bin and taken out of it.

use colloquy_actors::document::access::DocumentRole;
use colloquy_actors::document::messages::{
    BinDocument, ContentType, CreateDocument, EraseDocument, UpdateDocument, VersionName,
};
use colloquy_actors::document::{DocumentList, DocumentOrder};
use colloquy_model::id::{DocumentId, DocumentKind, UserId};
use colloquy_model::page::{Order, Start};

use colloquy_model::time::Timestamp;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{Addressed, addressed, ask};
use crate::http::api_call::{ApiCall, CommandCall};
use crate::http::body::{Empty, Json, OptionalJson};
use crate::http::output::{LinkStyle, Listing, Output};
use crate::http::problem::Problem;
use crate::http::query::Part;

/// By what a list of documents is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    CreatedAt,
    UpdatedAt,
    Title,
}

/// What a list of documents may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those in whose title or content all these words are, best first; words in quotation
    /// marks in this order, the last one may go on.
    q: Option<String>,
    /// Only this user's.
    #[param(inline)]
    owner_id: Option<UserId>,
    /// Only those in which the caller has this role.
    #[param(inline)]
    role: Option<DocumentRole>,
    /// Only those that are written in this.
    #[param(inline)]
    content_type: Option<ContentType>,
    /// Only those changed after this instant.
    #[param(inline)]
    updated_after: Option<Timestamp>,
    /// Whether the bin is listed, in place of what is not in it. Default: false.
    deleted: Option<bool>,
    /// By what the list is sorted; with `q` always by how well it fits. Default: `created_at`.
    #[param(inline)]
    sort: Option<Sort>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// A document's id: what follows it in the list's order.
    #[param(inline, value_type = Option<DocumentId>)]
    after: Option<String>,
    /// A document's id: what stands directly before it in the list's order.
    #[param(inline, value_type = Option<DocumentId>)]
    before: Option<String>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    order: Option<Order>,
}

/// Which version of a document is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadQuery {
    /// An older version: its ID, number or label, or a branch. Default: the head.
    #[param(inline)]
    version: Option<VersionName>,
}

/// How a document is deleted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteQuery {
    /// Whether it is erased at once, in place of going to the bin. Default: false.
    permanent: Option<bool>,
}

pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateDocument>,
) -> Result<Output, Problem> {
    let CommandCall { app, meta } = call.into_command();
    let documents = &app.system.documents;
    let meta = documents.with_requester(meta);
    Ok(documents.create(meta, new).await?.into())
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
    let paging = part.paging::<DocumentKind>(Order::Desc)?;
    if query.q.is_some() && !matches!(paging.start, Start::Offset(_)) {
        return Err(Problem::invalid(
            "q",
            "goes with offset only, not with after or before",
        ));
    }
    let documents = &call.app.system.documents;
    let wanted = DocumentList {
        q: query.q,
        owner: query.owner_id,
        role: query.role,
        content_type: query.content_type,
        updated_after: query.updated_after,
        deleted: query.deleted.unwrap_or(false),
        sort: match query.sort {
            Some(Sort::CreatedAt) | None => DocumentOrder::Creation,
            Some(Sort::UpdatedAt) => DocumentOrder::Update,
            Some(Sort::Title) => DocumentOrder::Title,
        },
        paging,
    };
    let page = documents
        .list(
            call.caller.tenant,
            documents.requester(&call.caller),
            wanted,
        )
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, query: ReadQuery) -> Result<Output, Problem> {
    let id = call.id::<DocumentKind>(0)?;
    let documents = &call.app.system.documents;
    let meta = documents.meta(call.caller.clone());
    Ok(documents.read(id, meta, query.version).await?.into())
}

pub(super) async fn update(
    call: ApiCall,
    OptionalJson(update): OptionalJson<UpdateDocument>,
) -> Result<Output, Problem> {
    let Addressed { app, id, meta } = addressed(call)?;
    Ok(app.system.documents.update(id, meta, update).await?.into())
}

pub(super) async fn remove(call: ApiCall, query: DeleteQuery) -> Result<Output, Problem> {
    if query.permanent.unwrap_or(false) {
        ask(call, EraseDocument).await
    } else {
        ask(call, BinDocument).await
    }
}

pub(super) async fn restore(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let Addressed { app, id, meta } = addressed(call)?;
    Ok(app.system.documents.restore(id, meta).await?.into())
}
