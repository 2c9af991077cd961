//! What a share link opens for whoever holds it: the document as a page or as JSON, and what the
//! link's role allows.

use std::sync::Arc;

use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use actix_web::web;
use bytes::Bytes;
use colloquy_actors::document::Link;
use colloquy_actors::document::messages::{AddComment, CommandMeta, UpdateDocument};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde::Deserialize;
use utoipa::ToSchema;

use super::page;
use crate::http::api_call::ApiCall;
use crate::http::body::{Form, OptionalJson, ShareLinkJson};
use crate::http::budget::{BytesPermit, Slack};
use crate::http::output::{CachePolicy, Output, Text};
use crate::http::problem::{Kind, More, Outcome, Problem, TOO_MANY_ANSWERS};
use crate::http::query::NoQuery;
use crate::http::response_body::SMALL_MAX;
use crate::http::{accept, conditions, idempotency};

/// What opens a link that has a password.
const PASSWORD: HeaderName = HeaderName::from_static("x-share-password");

/// What the page's form sends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The link's password.
    password: String,
}

pub(super) async fn open(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let given = header(&call);
    let shown = show(&call, given.as_deref()).await;
    shown.map_err(|problem| for_people(&call, given.as_deref(), problem))
}

pub(super) async fn enter(call: ApiCall, Form(entry): Form<Entry>) -> Result<Output, Problem> {
    let shown = show(&call, Some(&entry.password)).await;
    shown.map_err(|problem| for_people(&call, Some(&entry.password), problem))
}

pub(super) async fn update(
    call: ApiCall,
    OptionalJson(update): OptionalJson<UpdateDocument>,
) -> Result<Output, Problem> {
    let link = opened(&call, header(&call).as_deref()).await?;
    let meta = CommandMeta {
        if_match: call.if_match.clone(),
        ..link.meta(&call.caller.actor)
    };
    let documents = &call.app.system.documents;
    Ok(documents.update(link.document, meta, update).await?.into())
}

pub(super) async fn comment(
    call: ApiCall,
    ShareLinkJson(add): ShareLinkJson<AddComment>,
) -> Result<Output, Problem> {
    let link = opened(&call, header(&call).as_deref()).await?;
    // Beside the account's own keys: a token has none of their characters before the first U+0000.
    let key = call.idempotency_key.as_ref();
    let key = key.map(|key| format!("{}\0{key}", call.segment(0)));
    let reservation = match key.as_ref().zip(call.fingerprint) {
        Some((key, request)) => {
            match idempotency::look(&call.app, link.tenant, key, request).await? {
                Ok(reservation) => Some(reservation),
                Err(answer) => return Ok(answer.into()),
            }
        }
        None => None,
    };
    let meta = CommandMeta {
        if_match: call.if_match.clone(),
        reservation,
        ..link.meta(&call.caller.actor)
    };
    let documents = &call.app.system.documents;
    match documents.ask_computed(link.document, meta, add).await {
        Ok(answer) => Ok(answer.into()),
        Err(failure) => {
            let problem = failure.into();
            Err(idempotency::told_under(&call.app, link.tenant, key.as_deref(), problem).await)
        }
    }
}

fn header(call: &ApiCall) -> Option<String> {
    let value = call.request.headers().get(PASSWORD)?;
    // Whatever comes is a password, if only a wrong one.
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Whether there is such a link, whatever it takes to open it: nothing that is sent to any other is
/// read.
pub(super) fn known(call: &ApiCall) -> LocalBoxFuture<'_, Result<(), Problem>> {
    async {
        Ok(call
            .app
            .system
            .documents
            .knows_link(call.segment(0))
            .await?)
    }
    .boxed_local()
}

/// Refuses what a page's form sends where the link does not open, as a page.
pub(super) fn known_to_people(call: &ApiCall) -> LocalBoxFuture<'_, Result<(), Problem>> {
    known(call)
        .map(|known| known.map_err(|problem| for_people(call, None, problem)))
        .boxed_local()
}

/// Opens the link in the path, where its password fits.
async fn opened(call: &ApiCall, password: Option<&str>) -> Result<Link, Problem> {
    Ok(call
        .app
        .system
        .documents
        .open_link(call.segment(0), password, &call.caller.actor)
        .await?)
}

/// Shows the document, and counts the use before the answer leaves.
async fn show(call: &ApiCall, password: Option<&str>) -> Result<Output, Problem> {
    let documents = &call.app.system.documents;
    let actor = &call.caller.actor;
    let link = opened(call, password).await?;
    let answer = documents
        .read(link.document, link.meta(actor), None)
        .await?;
    let rendering = match accept::prefers_json(call.request.headers()) {
        true => Rendering::Json,
        false => Rendering::Page,
    };
    let known = answer
        .etag
        .as_ref()
        .filter(|_| rendering == Rendering::Json && call.method != Method::POST);
    let has_already =
        known.is_some_and(|etag| conditions::has_already(call.request.headers(), etag));
    let room = if has_already {
        None
    } else {
        room(call, &answer.body, rendering).await?
    };
    if !has_already && call.method != Method::HEAD {
        documents.use_link(&link, actor).await?;
    }
    if rendering == Rendering::Json {
        return Ok(answer.into());
    }
    // The room goes along: whoever hangs up meanwhile does not end the work.
    let page = web::block(move || page::document(&answer.body).map(|page| (page, room)));
    let (body, room) = page.await.ok().flatten().ok_or_else(Problem::crashed)?;
    Ok(Output::Text(Text {
        body,
        media_type: "text/html; charset=utf-8",
        cache: CachePolicy::NoStore,
        room,
    }))
}

/// As what a shared document is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rendering {
    /// As JSON, for programs to read.
    Json,
    /// As an HTML page, for people to read.
    Page,
}

/// Room for what is shown of a large document, before a page of it is made and its use is counted.
async fn room(
    call: &ApiCall,
    body: &Bytes,
    rendering: Rendering,
) -> Result<Option<BytesPermit>, Problem> {
    let Some(holder) = call
        .owner
        .filter(|_| page::bytes_max(body.len()) > SMALL_MAX)
    else {
        return Ok(None);
    };
    let (answers, body) = (Arc::clone(&call.app.answers), body.clone());
    let taken = web::block(move || {
        let bytes = match rendering {
            Rendering::Json => body.len(),
            Rendering::Page => page::bytes(&body),
        };
        if bytes <= SMALL_MAX {
            Some(None)
        } else {
            answers.take(holder, bytes, Slack::None).map(Some)
        }
    });
    let taken = taken.await.map_err(|_| Problem::crashed())?;
    taken.ok_or_else(|| Problem::unavailable(TOO_MANY_ANSWERS, Outcome::None, 1))
}

/// The refusal as a page, for who does not ask for JSON.
fn for_people(call: &ApiCall, given: Option<&str>, problem: Problem) -> Problem {
    let headers = call.request.headers();
    if accept::prefers_json(headers) {
        return problem;
    }
    let page = match (problem.kind, given.filter(|given| !given.is_empty())) {
        (Kind::Unauthorized, Some(_)) => {
            page::password(call.segment(0), "That is not the password.")
        }
        (Kind::Unauthorized, None) => page::password(call.segment(0), "It opens with a password."),
        (Kind::NotFound, _) => page::gone(),
        (_, _) => return page::refusal_page(headers, problem),
    };
    Problem {
        more: Some(Box::new(More::Page(page))),
        ..problem
    }
}
