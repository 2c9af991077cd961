//! Versions of a document: listed, read, added, restored, merged, compared.

use actix_web::HttpRequest;
use actix_web::http::Uri;
use colloquy_actors::document::messages::{
    AddVersion, Merge, RestoreOlderVersion, RestoreVersion, VersionName,
};
use colloquy_actors::document::{Comparison, DiffFormat};
use colloquy_model::id::{DocumentKind, VersionId, VersionKind};
use colloquy_model::page::Order;
use colloquy_runtime::offload;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Addressed, addressed, ask_computed};
use crate::http::accept;
use crate::http::api_call::ApiCall;
use crate::http::body::{Json, OptionalJson};
use crate::http::output::{CachePolicy, LinkStyle, Listing, Output, Text};
use crate::http::problem::{Kind, More, Problem};
use crate::http::query::{NoQuery, Part};

/// Lines around a change, unless the caller says otherwise.
const CONTEXT_DEFAULT: u64 = 3;
/// Lines around a change at most.
const CONTEXT_MAX: u64 = 1_000;

/// What a list of versions may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those of this branch; `main` or `head`: of the main branch.
    #[param(inline)]
    branch: Option<VersionName>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// A version's id: what follows it in the list's order.
    #[param(inline, value_type = Option<VersionId>)]
    after: Option<String>,
    /// A version's id: what stands directly before it in the list's order.
    #[param(inline, value_type = Option<VersionId>)]
    before: Option<String>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    order: Option<Order>,
}

/// As what a difference is shown.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Unified,
    Json,
    Html,
    Stat,
}

/// What is compared.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffQuery {
    /// The older one. Default: the head's first parent.
    #[param(inline)]
    from: Option<VersionName>,
    /// The newer one. Default: the head.
    #[param(inline)]
    to: Option<VersionName>,
    /// As what the difference is shown. Default: `unified`.
    #[param(inline)]
    format: Option<Format>,
    /// Lines around each change. Default: 3.
    #[param(minimum = 0, maximum = 1000)]
    context: Option<u64>,
}

/// What a merge answers that made no version.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NotMerged {
    /// True where the target already contains the source.
    up_to_date: Option<bool>,
    /// The target, where it already contains the source.
    version: Option<VersionId>,
    /// With `dry_run`: the text that the merge would give.
    merged: Option<String>,
    /// With `dry_run`: empty.
    conflicts: Option<Vec<String>>,
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
    let paging = part.paging::<VersionKind>(Order::Desc)?;
    let id = call.id::<DocumentKind>(0)?;
    let documents = &call.app.system.documents;
    let meta = documents.meta(call.caller.clone());
    let page = documents.versions(id, meta, query.branch, paging).await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let (id, name) = (call.id::<DocumentKind>(0)?, name(&call)?);
    // What these name stays the same for ever; a branch goes on.
    let lasting = matches!(name, VersionName::Id(_) | VersionName::Number(_));
    let documents = &call.app.system.documents;
    let meta = documents.meta(call.caller.clone());
    let answer = documents.version(id, meta, name).await?;
    Ok(if lasting {
        Output::Immutable(answer)
    } else {
        answer.into()
    })
}

pub(super) async fn add(call: ApiCall, Json(add): Json<AddVersion>) -> Result<Output, Problem> {
    ask_computed(call, add).await
}

pub(super) async fn restore(
    call: ApiCall,
    OptionalJson(restore): OptionalJson<RestoreVersion>,
) -> Result<Output, Problem> {
    let version = name(&call)?;
    ask_computed(
        call,
        RestoreOlderVersion {
            version,
            body: restore,
        },
    )
    .await
}

pub(super) async fn merge(call: ApiCall, Json(merge): Json<Merge>) -> Result<Output, Problem> {
    let (request, uri) = (call.request.clone(), call.uri.clone());
    match merged(call, merge).await {
        Err(problem) if problem.kind == Kind::MergeConflict => {
            Err(written(&request, &uri, problem).await)
        }
        done => done,
    }
}

async fn merged(call: ApiCall, merge: Merge) -> Result<Output, Problem> {
    let Addressed { app, id, meta } = addressed(call)?;
    Ok(app.system.documents.merge(id, meta, merge).await?.into())
}

/// What a merge left undecided may be larger than the documents: it is written off the arbiters.
async fn written(request: &HttpRequest, uri: &Uri, problem: Problem) -> Problem {
    let instance = accept::prefers_problem(request.headers()).then(|| uri.path().to_owned());
    let write = move || {
        let body = problem.body(instance.as_deref());
        Problem {
            more: Some(Box::new(More::Written(body))),
            ..problem
        }
    };
    offload::run_on_batch_cores((), write)
        .await
        .unwrap_or_else(Problem::crashed)
}

pub(super) async fn diff(call: ApiCall, query: DiffQuery) -> Result<Output, Problem> {
    let context = query.context.unwrap_or(CONTEXT_DEFAULT);
    let context = usize::try_from(context)
        .ok()
        .filter(|_| context <= CONTEXT_MAX);
    let context = context.ok_or_else(|| {
        Problem::invalid(
            "context",
            format!("must be an integer from 0 to {CONTEXT_MAX}"),
        )
    })?;
    let (format, media_type) = match query.format.unwrap_or(Format::Unified) {
        Format::Unified => (DiffFormat::Unified, "text/x-diff; charset=utf-8"),
        Format::Json => (DiffFormat::Json, "application/json"),
        Format::Html => (DiffFormat::Html, "text/html; charset=utf-8"),
        Format::Stat => (DiffFormat::Stat, "application/json"),
    };
    let id = call.id::<DocumentKind>(0)?;
    let documents = &call.app.system.documents;
    let meta = documents.meta(call.caller.clone());
    let body = documents
        .diff(
            id,
            meta,
            Comparison {
                from: query.from,
                to: query.to,
                context,
                format,
            },
        )
        .await?;
    Ok(Output::Text(Text {
        body,
        media_type,
        cache: CachePolicy::Private,
        room: None,
    }))
}

/// The version that the path names; what can be no name is of nothing that exists.
fn name(call: &ApiCall) -> Result<VersionName, Problem> {
    call.segment(1).parse().map_err(|_| Problem::not_found())
}
