//! The HTTP response to a request: status, headers and body, in one place for all operations.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use actix_web::body::{BodyStream, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LINK, LOCATION,
    RETRY_AFTER, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use actix_web::http::{ConnectionType, Method, StatusCode, Version};
use actix_web::{HttpResponse, HttpResponseBuilder, web};
use bytes::{Bytes, BytesMut};
use colloquy_model::answer::{Answer, Done};
use colloquy_model::page::Start;
use colloquy_runtime::offload;

use super::budget::{BudgetOwner, BytesPermit, Slack};
use super::cors::{AllowedOrigins, CorsRequest};
use super::dispatch::{RequestContext, Response};
use super::headers::{Audience, REPLAYED, REQUEST_ID, add_limits};
use super::idle::InUse;
use super::operation::{LocationRule, Operation, Verb};
use super::output::{BulkOutcome, CachePolicy, FileContent, Listing, Output, Text};
use super::problem::{Kind, More, Problem, TOO_MANY_ANSWERS};
use super::realtime::{Handshake, PROTOCOL, Socket};
use super::response_body::{EmptyBody, FileBody, LargeBody, SMALL_MAX};
use super::{accept, conditions, links, problem};
use crate::console::{self, Ending, Reply};
use crate::shared_caches::SharedCaching;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// How an OAuth client says who it is (RFC 6749, 2.3.1).
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"colloquy\"");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");
const LASTING: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");
const PUBLIC: HeaderValue = HeaderValue::from_static("public, no-cache");
const PUBLIC_LASTING: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const VARY_BY_CALLER: HeaderValue = HeaderValue::from_static("Authorization, X-Acting-User");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The tags by which Fastly, and others after it, purge.
const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
/// The tags by which Cloudflare purges.
const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const HTML: &str = "text/html; charset=utf-8";

/// A body and its entity tag, without quotes.
struct TaggedBody {
    body: Bytes,
    etag: String,
}

/// An answer for which there is room in memory, its large parts written.
pub(super) struct PreparedResponse {
    reply: Result<Response, Problem>,
    room: Option<BytesPermit>,
    /// What takes long to write where it is large.
    tagged: Option<TaggedBody>,
}

/// Finds room for the answer, and writes a large one off this thread, which others wait for.
pub(super) async fn prepared(
    context: &RequestContext,
    reply: Result<Response, Problem>,
) -> PreparedResponse {
    let (reply, room) = context.room(reply);
    let output = match &reply {
        Ok(Response::Output(output)) if room.is_some() => Some(output),
        Ok(Response::Output(_) | Response::AllowedMethods(_)) | Err(_) => None,
    };
    let work: Box<dyn FnOnce() -> TaggedBody + Send> = match output {
        Some(Output::Page(listing)) => {
            let listing = listing.clone();
            Box::new(move || page(&listing))
        }
        Some(Output::Text(text)) if text.cache != CachePolicy::NoStore => {
            let body = text.body.clone();
            Box::new(move || tagged(body))
        }
        Some(
            Output::Answer(_)
            | Output::Immutable(_)
            | Output::Shared(..)
            | Output::Bulk(..)
            | Output::SeeOther(_)
            | Output::Text(_)
            | Output::File(_)
            | Output::Events(_)
            | Output::WebSocket(_),
        )
        | None => {
            return PreparedResponse {
                reply,
                room,
                tagged: None,
            };
        }
    };
    // The room goes along: whoever hangs up meanwhile does not end the work.
    let bytes = room.as_ref().map_or(0, BytesPermit::bytes);
    let written = web::block(move || {
        let _pin = offload::pin_if_large(bytes);
        (work(), room)
    });
    match written.await {
        Ok((tagged, room)) => PreparedResponse {
            reply,
            room,
            tagged: Some(tagged),
        },
        Err(_) => PreparedResponse {
            reply: Err(Problem::crashed()),
            room: None,
            tagged: None,
        },
    }
}

/// What a reply is, however its body was made.
#[derive(Clone, Copy)]
struct Nature {
    audience: Audience,
    cors: CorsRequest,
    streams: bool,
    switches: bool,
    /// Whether it is what somebody uploaded.
    is_file: bool,
}

impl Nature {
    fn of(reply: &Result<Response, Problem>, row: Option<&Operation>) -> Self {
        let for_people = match reply {
            Ok(Response::Output(Output::Text(text))) => text.media_type == HTML,
            Err(problem) => matches!(problem.more.as_deref(), Some(More::Page(_))),
            Ok(_) => false,
        };
        Nature {
            audience: match (for_people, row.is_some_and(|row| row.scripted)) {
                (true, true) => Audience::PeopleWithScript,
                (true, false) => Audience::People,
                (false, _) => Audience::Programs,
            },
            cors: match reply {
                Ok(Response::AllowedMethods(_)) => CorsRequest::Preflight,
                Ok(Response::Output(_)) | Err(_) => CorsRequest::Actual,
            },
            streams: matches!(reply, Ok(Response::Output(Output::Events(_)))),
            switches: matches!(reply, Ok(Response::Output(Output::WebSocket(_)))),
            is_file: matches!(reply, Ok(Response::Output(Output::File(_)))),
        }
    }
}

/// Makes the HTTP response; a WebSocket takes the rest of the request as what comes through it.
pub(super) fn response(
    context: &RequestContext,
    prepared: PreparedResponse,
    payload: Payload,
) -> HttpResponse {
    let PreparedResponse {
        mut reply,
        room,
        tagged,
    } = prepared;
    let nature = Nature::of(&reply, context.row());
    // Of many operations the last one knows best what is left of the limits.
    let last_rate_limit = match &mut reply {
        Ok(Response::Output(Output::Bulk(_, last))) => last.take(),
        Ok(_) | Err(_) => None,
    };
    let whole = |parts| context.whole(parts, room);
    let ResponseParts { mut head, body } = match reply {
        Ok(Response::Output(Output::Events(events))) => ResponseParts {
            head: stream_head(),
            body: BodyStream::new(events).boxed(),
        },
        Ok(Response::Output(Output::WebSocket(opening))) => ResponseParts {
            head: switch_head(&opening.handshake),
            body: BodyStream::new(Socket::new(*opening, payload)).boxed(),
        },
        Ok(Response::Output(Output::File(file))) => context.file(*file),
        Ok(Response::Output(Output::Answer(answer))) => whole(context.answer(answer, PRIVATE)),
        Ok(Response::Output(Output::Immutable(answer))) => whole(context.answer(answer, LASTING)),
        Ok(Response::Output(Output::Shared(answer, caching))) => {
            let ResponseParts { mut head, body } = context.answer(answer, NO_STORE);
            add_shared_caching(&mut head, caching);
            whole(ResponseParts { head, body })
        }
        Ok(Response::Output(Output::Page(listing))) => whole(context.page(&listing, tagged)),
        Ok(Response::Output(Output::Text(text))) => whole(context.text(text, tagged)),
        Ok(Response::Output(Output::Bulk(outcomes, _))) => whole(bulk(&outcomes)),
        Ok(Response::Output(Output::SeeOther(place))) => whole(see_other(place)),
        Ok(Response::AllowedMethods(allow)) => whole(ResponseParts {
            head: started(
                StatusCode::NO_CONTENT,
                (ALLOW, HeaderValue::from_static(allow)),
            ),
            body: Bytes::new(),
        }),
        Err(problem) => whole(context.problem(&problem)),
    };
    context.add_common_headers(&mut head, nature);
    if nature.is_file {
        add_file_guards(&mut head);
    }
    if let Some(rate_limit) = last_rate_limit.as_ref().or(context.rate_limit.as_ref()) {
        add_limits(&mut head, rate_limit);
    }
    context.framed(head.body(body), nature)
}

/// Makes the HTTP response that shows a page of the console.
pub(super) fn of_page(context: &RequestContext, page: Result<Reply, Problem>) -> HttpResponse {
    let counted = page.and_then(|reply| Ok((context.room_for_page(&reply)?, reply)));
    // What else is left is a panic: whatever is refused has a page of its own.
    let (room, reply) = counted.unwrap_or_else(|problem| (None, console::failed(&problem)));
    let status = match reply.ending {
        Ending::Shown => StatusCode::OK,
        Ending::GoesOn => StatusCode::SEE_OTHER,
        Ending::Moved => StatusCode::PERMANENT_REDIRECT,
        Ending::Empty => StatusCode::NO_CONTENT,
        Ending::FormRefused => StatusCode::UNPROCESSABLE_ENTITY,
        Ending::Refused(kind) => kind.status(),
    };
    let mut head = HttpResponse::build(status);
    reply.headers.into_iter().for_each(|header| {
        head.append_header(header);
    });
    let nature = Nature {
        audience: Audience::Console,
        cors: CorsRequest::Actual,
        streams: false,
        switches: false,
        is_file: false,
    };
    let whole = ResponseParts {
        head,
        body: reply.body,
    };
    let ResponseParts { mut head, body } = context.whole(whole, room);
    context.add_common_headers(&mut head, nature);
    let leads_to = reply.leads_to.as_deref();
    if let Some(policy) =
        leads_to.and_then(|place| context.app.live().security_headers.console_policy_to(place))
    {
        head.insert_header((CONTENT_SECURITY_POLICY, policy));
    }
    context.framed(head.body(body), nature)
}

/// The response with a file for a page.
pub(super) fn of_file(context: &RequestContext, file: FileContent) -> HttpResponse {
    let nature = Nature {
        audience: Audience::Console,
        cors: CorsRequest::Actual,
        streams: false,
        switches: false,
        is_file: true,
    };
    let ResponseParts { mut head, body } = context.file(file);
    head.insert_header((VARY, "Cookie"));
    context.add_common_headers(&mut head, nature);
    add_file_guards(&mut head);
    context.framed(head.body(body), nature)
}

/// No proxy may hold a stream back to make it shorter.
fn stream_head() -> HttpResponseBuilder {
    let mut response = started(StatusCode::OK, (CACHE_CONTROL, NO_STORE));
    response.insert_header((VARY, VARY_BY_CALLER));
    response.insert_header((CONTENT_TYPE, EVENT_STREAM));
    response.insert_header((ACCEL_BUFFERING, HeaderValue::from_static("no")));
    response
}

fn switch_head(handshake: &Handshake) -> HttpResponseBuilder {
    let mut response = started(StatusCode::SWITCHING_PROTOCOLS, (CACHE_CONTROL, NO_STORE));
    response.upgrade("websocket");
    response.insert_header((SEC_WEBSOCKET_ACCEPT, handshake.accept.clone()));
    if handshake.protocol {
        response.insert_header((SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL)));
    }
    response
}

type Header = (HeaderName, HeaderValue);

/// A response in the making: its status and headers, and its body.
struct ResponseParts<B = Bytes> {
    head: HttpResponseBuilder,
    body: B,
}

fn started(status: StatusCode, header: Header) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response.insert_header(header);
    response
}

fn not_modified(mut head: HttpResponseBuilder) -> ResponseParts {
    head.status(StatusCode::NOT_MODIFIED);
    ResponseParts {
        head,
        body: Bytes::new(),
    }
}

fn shared(text: String) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(Bytes::from(text)).ok()
}

impl RequestContext {
    /// Adds what every response has, and ends the connection where no request can follow.
    fn add_common_headers(&self, response: &mut HttpResponseBuilder, nature: Nature) {
        if let Ok(id) = HeaderValue::from_str(&self.request_id) {
            response.insert_header((REQUEST_ID, id));
        }
        self.deprecated.tell(response);
        let live = self.app.live();
        live.security_headers.add(response, nature.audience);
        if nature.audience != Audience::Console {
            let allowed = AllowedOrigins::of(self);
            let headers = self.request.headers();
            live.cors.add(headers, response, (nature.cors, &allowed));
        }
        if (self.app.in_flight.leaving() || self.body_comes) && !nature.switches {
            response.force_close();
        }
        if self.body_comes {
            self.connection.iter().for_each(InUse::is_last);
        }
    }

    /// Frames the body as its status and the request's version of HTTP want it.
    fn framed(&self, mut response: HttpResponse, nature: Nature) -> HttpResponse {
        if matches!(
            response.status(),
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        ) {
            response = response.set_body(EmptyBody.boxed());
            response.head_mut().no_chunking(true);
        }
        if nature.streams && self.request.version() < Version::HTTP_11 {
            // It knows no chunks (RFC 9112, 6.1): what has no length ends with its connection.
            response.head_mut().no_chunking(true);
            response
                .head_mut()
                .set_connection_type(ConnectionType::Close);
        }
        response
    }

    /// Room for a large answer, before it is copied or hashed; without room the refusal is the
    /// answer.
    fn room(
        &self,
        mut reply: Result<Response, Problem>,
    ) -> (Result<Response, Problem>, Option<BytesPermit>) {
        if let Ok(Response::Output(Output::Text(Text { room, .. }))) = &mut reply
            && let Some(room) = room.take()
        {
            return (reply, Some(room));
        }
        let bytes = bytes_of(&reply);
        let Some(owner) = self.owner.filter(|_| bytes > SMALL_MAX) else {
            return (reply, None);
        };
        let reads = self.row().is_some_and(|row| row.verb == Verb::Get);
        match self.room_for(owner, bytes, reads) {
            Ok(permit) => (reply, Some(permit)),
            Err(problem) => (Err(problem), None),
        }
    }

    /// Finds room for a large page of somebody who is signed in.
    fn room_for_page(&self, reply: &Reply) -> Result<Option<BytesPermit>, Problem> {
        let (bytes, method) = (reply.body.len(), self.request.method());
        let Some(owner) = self.owner.filter(|_| bytes > SMALL_MAX) else {
            return Ok(None);
        };
        let reads = matches!(*method, Method::GET | Method::HEAD);
        self.room_for(owner, bytes, reads).map(Some)
    }

    /// Finds room for so many bytes: more for what tells of a change than for what only reads.
    fn room_for(
        &self,
        owner: BudgetOwner,
        bytes: usize,
        reads: bool,
    ) -> Result<BytesPermit, Problem> {
        let (slack, outcome) = if reads {
            (Slack::None, problem::Outcome::None)
        } else {
            (Slack::Twice, problem::Outcome::Unknown)
        };
        let room = self.app.answers.take(owner, bytes, slack);
        room.ok_or_else(|| Problem::unavailable(TOO_MANY_ANSWERS, outcome, 1))
    }

    /// A response with its body, in the way in which a body of its size leaves.
    fn whole(
        &self,
        ResponseParts { head, body }: ResponseParts,
        room: Option<BytesPermit>,
    ) -> ResponseParts<BoxBody> {
        let body = if body.len() <= SMALL_MAX {
            body.boxed()
        } else {
            LargeBody::new(body, room, self.app.read_pace, self.connection.clone()).boxed()
        };
        ResponseParts { head, body }
    }

    fn row(&self) -> Option<&Operation> {
        self.operation
            .and_then(|number| self.app.router.operations().get(number))
    }

    fn answer(&self, answer: Answer, keep: HeaderValue) -> ResponseParts {
        let row = self.row();
        let secret = row.is_some_and(|row| row.secret);
        let mut response = started(
            status(answer.done),
            (CACHE_CONTROL, if secret { NO_STORE } else { keep }),
        );
        response.insert_header((VARY, VARY_BY_CALLER));
        if answer.replayed {
            response.insert_header((REPLAYED, HeaderValue::from_static("true")));
        }
        if let (Done::Created, Some(id), Some(row)) = (answer.done, &answer.id, row) {
            response.insert_header((LOCATION, self.location(row.location, id)));
        }
        let reading = row.is_some_and(|row| row.verb == Verb::Get);
        if let Some(etag) = &answer.etag {
            if let Some(value) = shared(format!("\"{etag}\"")) {
                response.insert_header((ETAG, value));
            }
            if reading && conditions::has_already(self.request.headers(), etag) {
                return not_modified(response);
            }
        }
        if answer.done != Done::Deleted {
            response.insert_header((CONTENT_TYPE, JSON));
        }
        ResponseParts {
            head: response,
            body: answer.body,
        }
    }

    fn location(&self, location: LocationRule, id: &str) -> String {
        match location {
            LocationRule::UnderRequestPath => format!("{}/{id}", self.request.uri().path()),
            LocationRule::UnderPath(path) => format!("{path}{id}"),
            LocationRule::FurtherUp(segments, then) => {
                let path = self.request.uri().path();
                let above = path
                    .rsplitn(segments + 1, '/')
                    .nth(segments)
                    .unwrap_or_default();
                format!("{above}{then}{id}")
            }
        }
    }

    fn page(&self, listing: &Listing, tagged: Option<TaggedBody>) -> ResponseParts {
        let TaggedBody { body, etag } = tagged.unwrap_or_else(|| page(listing));
        let mut response = started(StatusCode::OK, (CACHE_CONTROL, PRIVATE));
        response.insert_header((VARY, VARY_BY_CALLER));
        response.insert_header((ETAG, format!("W/\"{etag}\"")));
        let uri = self.request.uri();
        if let Some(link) =
            links::link(uri.path(), self.request.query_string(), listing).and_then(shared)
        {
            response.insert_header((LINK, link));
        }
        if conditions::has_already(self.request.headers(), &etag) {
            return not_modified(response);
        }
        response.insert_header((CONTENT_TYPE, JSON));
        ResponseParts {
            head: response,
            body,
        }
    }

    fn text(&self, text: Text, ready: Option<TaggedBody>) -> ResponseParts {
        let (keep, strength) = match text.cache {
            CachePolicy::NoStore => (NO_STORE, None),
            CachePolicy::Public => (PUBLIC, Some("")),
            CachePolicy::PublicLasting => (PUBLIC_LASTING, Some("")),
            CachePolicy::Private => (PRIVATE, Some("")),
            CachePolicy::PrivateList => (PRIVATE, Some("W/")),
            CachePolicy::Shared(_) => (NO_STORE, Some("")),
        };
        let mut response = started(StatusCode::OK, (CACHE_CONTROL, keep));
        if matches!(text.cache, CachePolicy::Private | CachePolicy::PrivateList) {
            response.insert_header((VARY, VARY_BY_CALLER));
        }
        if let CachePolicy::Shared(caching) = text.cache {
            add_shared_caching(&mut response, caching);
        }
        if let Some(strength) = strength {
            let TaggedBody { etag, .. } = ready.unwrap_or_else(|| tagged(text.body.clone()));
            response.insert_header((ETAG, format!("{strength}\"{etag}\"")));
            if conditions::has_already(self.request.headers(), &etag) {
                return not_modified(response);
            }
        }
        response.insert_header((CONTENT_TYPE, HeaderValue::from_static(text.media_type)));
        ResponseParts {
            head: response,
            body: text.body,
        }
    }

    /// The content of a file, or a part of it.
    fn file(&self, file: FileContent) -> ResponseParts<BoxBody> {
        let FileContent {
            content,
            length,
            part,
            etag,
            content_type,
            disposition,
        } = file;
        let mut response = started(StatusCode::OK, (CACHE_CONTROL, PRIVATE));
        response.insert_header((VARY, VARY_BY_CALLER));
        if let Some(value) = shared(format!("\"{etag}\"")) {
            response.insert_header((ETAG, value));
        }
        response.insert_header((ACCEPT_RANGES, HeaderValue::from_static("bytes")));
        if conditions::has_already(self.request.headers(), &etag) {
            let ResponseParts { head, body } = not_modified(response);
            let body = body.boxed();
            return ResponseParts { head, body };
        }
        response.insert_header((CONTENT_TYPE, HeaderValue::from_static(content_type)));
        if let Some(disposition) = shared(disposition) {
            response.insert_header((CONTENT_DISPOSITION, disposition));
        }
        let range = part.clone().unwrap_or(0..length);
        if part.is_some() {
            response.status(StatusCode::PARTIAL_CONTENT);
            let (start, end) = (range.start, range.end - 1);
            let told = format!("bytes {start}-{end}/{length}");
            response.insert_header((CONTENT_RANGE, told));
        }
        let bytes = range.end - range.start;
        let body = FileBody::new(
            Arc::clone(&self.request_id),
            (content, bytes),
            self.app.read_pace,
            self.connection.clone(),
        );
        ResponseParts {
            head: response,
            body: body.boxed(),
        }
    }

    fn problem(&self, problem: &Problem) -> ResponseParts {
        let mut response = started(problem.kind.status(), (CACHE_CONTROL, NO_STORE));
        if problem.kind.status() == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        if let Some(More::Length(length)) = problem.more.as_deref() {
            response.insert_header((CONTENT_RANGE, format!("bytes */{length}")));
        }
        if let Some(allow) = problem.allow {
            response.insert_header((ALLOW, HeaderValue::from_static(allow)));
        }
        if let Some(seconds) = problem.retry_after_seconds {
            response.insert_header((RETRY_AFTER, HeaderValue::from(seconds)));
        }
        if let Some(More::Page(page)) = problem.more.as_deref() {
            response.insert_header((CONTENT_TYPE, HeaderValue::from_static(HTML)));
            return ResponseParts {
                head: response,
                body: page.clone(),
            };
        }
        if let Some(More::OAuth(code)) = problem.more.as_deref() {
            if problem.kind == Kind::Unauthorized {
                response.insert_header((WWW_AUTHENTICATE, BASIC));
            }
            response.insert_header((CONTENT_TYPE, JSON));
            return ResponseParts {
                head: response,
                body: problem.oauth_json(code),
            };
        }
        let instance =
            accept::prefers_problem(self.request.headers()).then(|| self.request.uri().path());
        response.insert_header((
            CONTENT_TYPE,
            if instance.is_some() {
                PROBLEM_JSON
            } else {
                JSON
            },
        ));
        let body = match problem.more.as_deref() {
            Some(More::Written(body)) => body.clone(),
            Some(
                More::Conflict(_)
                | More::Page(_)
                | More::OAuth(_)
                | More::Overtaken
                | More::Length(_)
                | More::Found(_),
            )
            | None => problem.body(instance),
        };
        ResponseParts {
            head: response,
            body,
        }
    }
}

/// Lets shared caches keep what a share link opens, a page or JSON, in the place of what was said of it
/// before. Browsers ask each time what may change.
fn add_shared_caching(response: &mut HttpResponseBuilder, caching: SharedCaching) {
    let seconds = caching.seconds;
    let keep = match caching.is_lasting {
        true => format!("public, max-age={seconds}, immutable"),
        false => format!("public, max-age=0, s-maxage={seconds}, must-revalidate"),
    };
    response.insert_header((CACHE_CONTROL, keep));
    response.insert_header((VARY, HeaderValue::from_static("Accept")));
    let tags = caching.tags();
    response.insert_header((SURROGATE_KEY, tags.join(" ")));
    response.insert_header((CACHE_TAG, tags.join(",")));
}

/// What others uploaded runs nothing and is taken for nothing else, whatever the settings say.
fn add_file_guards(response: &mut HttpResponseBuilder) {
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox");
    response.insert_header((CONTENT_SECURITY_POLICY, policy));
    let as_told = HeaderValue::from_static("nosniff");
    response.insert_header((X_CONTENT_TYPE_OPTIONS, as_told));
}

/// Leads on to another page.
fn see_other(place: String) -> ResponseParts {
    let mut head = started(StatusCode::SEE_OTHER, (CACHE_CONTROL, NO_STORE));
    head.insert_header((LOCATION, place));
    ResponseParts {
        head,
        body: Bytes::new(),
    }
}

/// How large the answer will be, but for what is little.
fn bytes_of(reply: &Result<Response, Problem>) -> usize {
    match reply {
        Ok(Response::Output(output)) => match output {
            Output::Answer(answer) | Output::Immutable(answer) | Output::Shared(answer, _) => {
                answer.body.len()
            }
            Output::Page(listing) => listing.page.data.array_bytes(),
            Output::Text(text) => text.body.len(),
            Output::Bulk(outcomes, _) => outcomes
                .iter()
                .flatten()
                .map(|answer| answer.body.len())
                .sum(),
            Output::File(_) | Output::Events(_) | Output::SeeOther(_) | Output::WebSocket(_) => 0,
        },
        Ok(Response::AllowedMethods(_)) => 0,
        Err(problem) => match problem.more.as_deref() {
            Some(More::Written(body) | More::Page(body)) => body.len(),
            Some(
                More::Conflict(_)
                | More::OAuth(_)
                | More::Overtaken
                | More::Length(_)
                | More::Found(_),
            )
            | None => 0,
        },
    }
}

fn status(done: Done) -> StatusCode {
    match done {
        Done::Created => StatusCode::CREATED,
        Done::Accepted => StatusCode::ACCEPTED,
        Done::Ok => StatusCode::OK,
        Done::Deleted => StatusCode::NO_CONTENT,
    }
}

/// Each outcome in its place, with the status and the body that a single call would have.
fn bulk(outcomes: &[BulkOutcome]) -> ResponseParts {
    let mut body = BytesMut::from(&b"{\"data\":["[..]);
    for (index, outcome) in outcomes.iter().enumerate() {
        let (status, shown) = match outcome {
            Ok(answer) => (status(answer.done), answer.body.clone()),
            Err(problem) => (problem.kind.status(), Bytes::from(problem.json())),
        };
        let comma = if index > 0 { "," } else { "" };
        // Writing to memory can't fail.
        let _ = write!(body, "{comma}{{\"status\":{},\"body\":", status.as_u16());
        body.extend_from_slice(&shown);
        body.extend_from_slice(b"}");
    }
    body.extend_from_slice(b"]}");
    let mut response = started(StatusCode::OK, (CACHE_CONTROL, PRIVATE));
    response.insert_header((VARY, VARY_BY_CALLER));
    response.insert_header((CONTENT_TYPE, JSON));
    if outcomes
        .iter()
        .all(|outcome| outcome.as_ref().is_ok_and(|answer| answer.replayed))
    {
        response.insert_header((REPLAYED, HeaderValue::from_static("true")));
    }
    ResponseParts {
        head: response,
        body: body.freeze(),
    }
}

/// The body of a page of a list, with the tag of what it shows.
fn page(Listing { page, paging, .. }: &Listing) -> TaggedBody {
    let offset = match paging.start {
        Start::Offset(offset) => offset,
        Start::After(_) | Start::Before(_) => 0,
    };
    let tail = format!(
        ",\"meta\":{{\"total\":{},\"limit\":{},\"offset\":{offset}}}}}",
        page.total, paging.limit
    );
    let mut body = BytesMut::with_capacity(page.data.array_bytes() + tail.len() + 8);
    body.extend_from_slice(b"{\"data\":");
    page.data.write(&mut body);
    body.extend_from_slice(tail.as_bytes());
    tagged(body.freeze())
}

/// The address of a file that is part of the binary: another one with each version, so that caches may
/// keep it for ever.
pub(super) fn lasting_address(path: &str, text: &str) -> String {
    format!("{path}?v={}", tag_of(text.as_bytes()))
}

/// The entity tag of bytes that have no revision of their own.
pub(super) fn tag_of(body: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(body);
    format!("{:016x}", hasher.finish())
}

/// Bytes that have no revision of their own, with a tag.
fn tagged(body: Bytes) -> TaggedBody {
    let etag = tag_of(&body);
    TaggedBody { body, etag }
}
