//! What a share link opens for whoever holds it: the document as a page or as JSON, and what the
//! link's role allows.

use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use colloquy_actors::document::access::{DocumentRole, Requester};
use colloquy_actors::document::messages::{AddComment, CommandMeta, ListComments, UpdateDocument};
use colloquy_actors::document::{Link, LinkError};
use colloquy_model::answer::Answer;
use colloquy_model::caller::Tenant;
use colloquy_model::id::VersionKind;
use colloquy_model::idempotency::Fingerprint;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::time::Timestamp;
use colloquy_runtime::offload;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::page::{self, COMMENTS_MAX, Comments, Done, Reading, Visitor};
use crate::http::api_call::ApiCall;
use crate::http::body::{Form, OptionalJson, ShareLinkJson};
use crate::http::budget::{BytesPermit, Slack};
use crate::http::output::{CachePolicy, Output, Text};
use crate::http::problem::{Kind, More, Outcome, Problem, TOO_MANY_ANSWERS};
use crate::http::query::NoQuery;
use crate::http::response_body::SMALL_MAX;
use crate::http::{accept, conditions, idempotency};
use crate::shared_caches::SharedCaching;

/// What opens a link that has a password.
const PASSWORD: HeaderName = HeaderName::from_static("x-share-password");

/// What the page's form sends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The link's password.
    password: String,
}

/// What the address of a shared page may say.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenQuery {
    /// What was just done, which the page says on top.
    #[param(inline)]
    done: Option<Done>,
}

pub(super) async fn open(call: ApiCall, query: OpenQuery) -> Result<Output, Problem> {
    let given = header(&call);
    let shown = show(&call, given.as_deref(), query.done).await;
    shown.map_err(|problem| for_people(&call, given.as_deref(), query.done, problem))
}

pub(super) async fn open_version(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let version = call.id::<VersionKind>(1)?;
    let documents = &call.app.system.documents;
    let link = opened(&call, header(&call).as_deref()).await?;
    let caching = call.app.shared_caches.may_keep(&link, Timestamp::now());
    let meta = link.meta(&call.caller.actor);
    let answer = documents.version_by_link(&link, meta, version).await?;
    show_answer(&call, &link, answer, caching.map(SharedCaching::lasting)).await
}

pub(super) async fn enter(call: ApiCall, Form(entry): Form<Entry>) -> Result<Output, Problem> {
    let shown = show(&call, Some(&entry.password), None).await;
    shown.map_err(|problem| for_people(&call, Some(&entry.password), None, problem))
}

/// The document once something was done to it by a form: at its own address, so that to load the
/// page again does nothing again; behind a password at once, which must not stand in an address.
pub(super) async fn shown_after(
    call: ApiCall,
    visitor: Visitor,
    done: Done,
) -> Result<Output, Problem> {
    let Visitor { token, password } = visitor;
    let Some(password) = password else {
        let place = format!("/s/{token}?done={}", done.word());
        return Ok(Output::SeeOther(place));
    };
    let shown = show(&call, Some(&password), Some(done)).await;
    shown.map_err(|problem| for_people(&call, Some(&password), Some(done), problem))
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
    let key = call.idempotency_key.clone().zip(call.fingerprint);
    Ok(commented(&call, link, add, key).await?.into())
}

/// Adds a comment by a link, once under a key.
pub(super) async fn commented(
    call: &ApiCall,
    link: Link,
    add: AddComment,
    key: Option<(String, Fingerprint)>,
) -> Result<Answer, Problem> {
    // Beside the account's own keys: a token has none of their characters before the first U+0000.
    let key = key.map(|(key, request)| (format!("{}\0{key}", call.segment(0)), request));
    let reservation = match &key {
        Some((key, request)) => {
            match idempotency::look(&call.app, link.tenant, key, *request).await? {
                Ok(reservation) => Some(reservation),
                Err(answer) => return Ok(answer),
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
        Ok(answer) => Ok(answer),
        Err(failure) => {
            let (problem, key) = (failure.into(), key.as_ref().map(|(key, _)| key.as_str()));
            Err(idempotency::told_under(&call.app, link.tenant, key, problem).await)
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
        let documents = &call.app.system.documents;
        let owner = documents.link_owner(call.segment(0)).await?;
        check_site(call, owner)
    }
    .boxed_local()
}

/// Refuses what a page's form sends where the link does not open, as a page.
pub(super) fn known_to_people(call: &ApiCall) -> LocalBoxFuture<'_, Result<(), Problem>> {
    known(call)
        .map(|known| known.map_err(|problem| for_people(call, None, None, problem)))
        .boxed_local()
}

/// Opens the link in the path, where its password fits.
pub(super) async fn opened(call: &ApiCall, password: Option<&str>) -> Result<Link, Problem> {
    let documents = &call.app.system.documents;
    if call.site.domain().is_some() {
        // Told before a password is tried.
        check_site(call, documents.link_owner(call.segment(0)).await?)?;
    }
    let actor = &call.caller.actor;
    Ok(documents
        .open_link(call.segment(0), password, actor)
        .await?)
}

/// Refuses a link of another account than the one at whose domain it is opened, as if there were none.
fn check_site(call: &ApiCall, owner: Tenant) -> Result<(), Problem> {
    match call.site.serves(owner) {
        true => Ok(()),
        false => Err(LinkError::Gone.into()),
    }
}

/// Shows the document, and counts the use before the answer leaves.
async fn show(
    call: &ApiCall,
    password: Option<&str>,
    done: Option<Done>,
) -> Result<Output, Problem> {
    let documents = &call.app.system.documents;
    let actor = &call.caller.actor;
    let link = opened(call, password).await?;
    let caching = call.app.shared_caches.may_keep(&link, Timestamp::now());
    let caching = caching.filter(|_| call.method != Method::POST && done.is_none());
    let answer = documents
        .read(link.document, link.meta(actor), None)
        .await?;
    if !accept::prefers_json(call.request.headers()) {
        let reading = reading(call, &link, answer, password, done).await?;
        return show_page(call, &link, (reading, caching)).await;
    }
    show_answer(call, &link, answer, caching).await
}

/// Shows JSON, and counts the use before it leaves.
async fn show_answer(
    call: &ApiCall,
    link: &Link,
    answer: Answer,
    caching: Option<SharedCaching>,
) -> Result<Output, Problem> {
    let known = answer.etag.as_ref().filter(|_| call.method != Method::POST);
    let has_already =
        known.is_some_and(|etag| conditions::has_already(call.request.headers(), etag));
    if !has_already {
        let _room = room(call, answer.body.len())?;
        count(call, link).await?;
    }
    Ok(match caching {
        Some(caching) => Output::Shared(answer, caching),
        None => answer.into(),
    })
}

/// Counts a use, unless nothing of the document leaves.
async fn count(call: &ApiCall, link: &Link) -> Result<(), Problem> {
    if call.method != Method::HEAD {
        let documents = &call.app.system.documents;
        documents.use_link(link, &call.caller.actor).await?;
    }
    Ok(())
}

/// What a page shows: the document, and to those who may comment what is said of it.
async fn reading(
    call: &ApiCall,
    link: &Link,
    answer: Answer,
    password: Option<&str>,
    done: Option<Done>,
) -> Result<Reading, Problem> {
    let comments = match link.requester {
        Requester::Link(role, _) if role >= DocumentRole::Commenter => {
            let paging = Paging {
                limit: COMMENTS_MAX,
                start: Start::Offset(0),
                order: Order::Desc,
            };
            let list = ListComments {
                resolved: None,
                paging,
            };
            let documents = &call.app.system.documents;
            let meta = link.meta(&call.caller.actor);
            let page = documents.comments(link.document, meta, list).await?;
            Some(Comments {
                newest: page.data.array(),
                total: page.total,
            })
        }
        Requester::Account(_) | Requester::User(_) | Requester::Link(..) => None,
    };
    Ok(Reading {
        document: answer.body,
        comments,
        visitor: Visitor {
            token: call.segment(0).to_owned(),
            password: password.map(str::to_owned),
        },
        done,
        nonce: format!("{:016x}", colloquy_model::random::u64()),
    })
}

/// Shows the page. Room for a long one is found before it is made; a short one is made first, for
/// nobody knows before how long it will be. Its use is counted between that and the answer.
async fn show_page(
    call: &ApiCall,
    link: &Link,
    (reading, caching): (Reading, Option<SharedCaching>),
) -> Result<Output, Problem> {
    let bytes = reading.document.len();
    let made = if reading.is_bounded() {
        let page = offload::run_linear(link.tenant, bytes, move || page::document(&reading));
        let page = page.await.map_err(|_| Problem::crashed())?;
        let body = page.ok_or_else(Problem::crashed)?;
        let room = room(call, body.len())?;
        count(call, link).await?;
        (body, room)
    } else {
        let measured = offload::run_on_batch_cores((), move || (reading.bytes(), reading));
        let (bytes, reading) = measured.await.ok_or_else(Problem::crashed)?;
        let room = room(call, bytes)?;
        count(call, link).await?;
        // The room goes along: whoever hangs up meanwhile does not end the work.
        let make = move || page::document(&reading).map(|page| (page, room));
        let page = offload::run_on_batch_cores((), make).await;
        page.flatten().ok_or_else(Problem::crashed)?
    };
    let (body, room) = made;
    Ok(Output::Text(Text {
        body,
        media_type: super::HTML,
        cache: caching.map_or(CachePolicy::NoStore, CachePolicy::Shared),
        room,
    }))
}

/// Room for a large answer, before its use is counted.
fn room(call: &ApiCall, bytes: usize) -> Result<Option<BytesPermit>, Problem> {
    let Some(holder) = call.owner.filter(|_| bytes > SMALL_MAX) else {
        return Ok(None);
    };
    match call.app.answers.take(holder, bytes, Slack::None) {
        Some(permit) => Ok(Some(permit)),
        None => Err(Problem::unavailable(TOO_MANY_ANSWERS, Outcome::None, 1)),
    }
}

/// The refusal as a page, for who does not ask for JSON.
pub(super) fn for_people(
    call: &ApiCall,
    given: Option<&str>,
    done: Option<Done>,
    problem: Problem,
) -> Problem {
    let headers = call.request.headers();
    if accept::prefers_json(headers) {
        return problem;
    }
    let page = match (problem.kind, given.filter(|given| !given.is_empty())) {
        (Kind::Unauthorized, Some(_)) => {
            page::password(call.segment(0), "That is not the password.")
        }
        (Kind::Unauthorized, None) => page::password(call.segment(0), "It opens with a password."),
        (Kind::NotFound, _) => page::gone(done),
        (_, _) => return page::refusal_page(headers, problem),
    };
    Problem {
        more: Some(Box::new(More::Page(page))),
        ..problem
    }
}
