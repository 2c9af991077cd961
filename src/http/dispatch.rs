//! One request from its head to its response. What is checked first wins: route, method,
//! credential, address, rate, permission, size, media type, body and query, idempotency, and then
//! whatever the handler finds.

use std::any::Any;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderMap, TRANSFER_ENCODING};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use colloquy_actors::accounts::token_holder;
use colloquy_actors::limiter::RateLimitStatus;
use colloquy_actors::usage::Who;
use colloquy_model::caller::{Actor, Caller, CredentialId, Tenant};
use colloquy_model::time::Timestamp;
use colloquy_model::usage::{CountedCredential, UsageCounts};
use futures_util::FutureExt;
use opentelemetry::KeyValue;

use super::admission::Arrival;
use super::api_call::{ApiCall, Credential};
use super::app_state::AppState;
use super::authentication::{self, Acting, Needs};
use super::body::{BodyReader, Encoding, RawBody, Upload, check_media_type};
use super::budget::BudgetOwner;
use super::concurrency::ConcurrencyPermit;
use super::connection_data::ConnectionData;
use super::deprecations::DeprecatedUse;
use super::forwarded;
use super::headers::{REQUEST_ID, block_bytes, line_bytes};
use super::idle::InUse;
use super::operation::{AuthRequirement, Operation, Verb};
use super::output::Output;
use super::problem::{Kind, More, Outcome, Problem, TOO_MANY_ANSWERS};
use super::request_log::{self, Answered, bytes_out};
use super::router::{PathParameters, RouteMatch};
use super::routes::refusal_page;
use super::same_site::check_same_site;
use super::site::Site;
use super::{
    accept, admission, conditions, conversation_access, idempotency, overtaken, refused, response,
    signed_requests,
};
use crate::console::{self, Reply, Visit};
use crate::log::words;
use crate::traces::TracedRequest;

/// What is known of one request so far; its response is made from it, however it ends.
pub(super) struct RequestContext {
    pub(super) app: Arc<AppState>,
    pub(super) request: HttpRequest,
    pub(super) request_id: Arc<str>,
    /// The connection that it came over, in use until its answer has been given out.
    pub(super) connection: Option<InUse>,
    /// At which host name it came in.
    pub(super) site: Site,
    pub(super) rate_limit: Option<RateLimitStatus>,
    /// On whose behalf its answer is in memory; none where all share one answer.
    pub(super) owner: Option<BudgetOwner>,
    /// A large answer that is in the making.
    large_answer: Option<ConcurrencyPermit>,
    /// Its body comes in chunks and has not come to its end: nobody knows when it will.
    pub(super) body_comes: bool,
    /// The operation's number in the table of routes; none where no route fits.
    pub(super) operation: Option<usize>,
    /// It came when the server was stopping.
    too_late: bool,
    /// Who asks, as far as that is known yet.
    pub(super) known: Option<Caller>,
    /// Bytes of its body that were read.
    body_bytes: usize,
    /// What it uses that will go away.
    pub(super) deprecated: DeprecatedUse,
}

/// What a request is answered with, before status and headers are chosen.
pub(super) enum Response {
    /// What an operation's handler gave.
    Output(Output),
    /// The methods that a path takes.
    AllowedMethods(&'static str),
}

/// What a request asks for, and who asks.
#[derive(Clone)]
struct Target<'o> {
    operation: &'o Operation,
    parameters: PathParameters,
    credential: Credential,
    arrival: Arrival,
}

/// Answers one request. A panic on the way is an answer too.
pub(super) async fn serve(
    app: Arc<AppState>,
    request: ServiceRequest,
) -> Result<ServiceResponse, actix_web::Error> {
    let started = Instant::now();
    let tracking = Arc::clone(&app);
    let guard = tracking.in_flight.enter();
    let (request, mut payload) = request.into_parts();
    let connection = ConnectionData::of(&request);
    let in_use = begin(&app, &request, connection.as_deref()).await;
    let request_id = request_id(request.headers());
    let too_late = guard.too_late;
    let mut context = RequestContext {
        site: Site::of(&app, &request),
        app,
        request: request.clone(),
        request_id,
        connection: in_use,
        rate_limit: None,
        owner: None,
        large_answer: None,
        body_comes: request.headers().contains_key(TRANSFER_ENCODING),
        operation: None,
        too_late,
        known: None,
        body_bytes: 0,
        deprecated: DeprecatedUse::default(),
    };
    let traced = context.traced();
    let name = Arc::clone(&context.request_id);
    let response = if console::serves(request.uri().path()) {
        // Apart, so that requests of the interface are not as large as a page.
        let page = or_crashed(&name, Box::pin(context.show(&mut payload))).await;
        match page {
            Ok(Reply {
                file: Some(file), ..
            }) => response::of_file(&context, *file),
            page => response::of_page(&context, page),
        }
    } else {
        let reply = or_crashed(&name, context.handle(&mut payload)).await;
        let prepared = response::prepared(&context, reply).await;
        context.large_answer = None;
        response::response(&context, prepared, payload)
    };
    let took = started.elapsed();
    if let (Some(connection), Some(owner)) = (connection, context.owner) {
        connection.is_of(owner);
    }
    context
        .app
        .request_metrics
        .count(context.operation, response.status().as_u16(), took);
    context.count_usage(&response);
    context.log(&response, took);
    if let Some(traced) = traced {
        context.trace(traced, &response);
    }
    drop(context);
    Ok(ServiceResponse::new(request, response))
}

/// Waits for a request's turn; its connection is in use for as long as the result lives.
async fn begin(
    app: &AppState,
    request: &HttpRequest,
    connection: Option<&ConnectionData>,
) -> Option<InUse> {
    let connection = connection?;
    let client = || BudgetOwner::at(forwarded::client_address(&app.proxies, request));
    Some(connection.begin(client).await)
}

/// A panic becomes an answer like any other; its words go to the log, once.
fn or_crashed<T>(
    request_id: &str,
    work: impl Future<Output = Result<T, Problem>>,
) -> impl Future<Output = Result<T, Problem>> {
    let crashed = move |panic: Box<dyn Any + Send>| {
        tracing::error!(
            request_id,
            panic = words(panic.as_ref()),
            "a handler panicked"
        );
        Err(Problem::crashed())
    };
    let done = AssertUnwindSafe(work).catch_unwind();
    done.map(move |done| done.unwrap_or_else(crashed))
}

/// The caller's name for the request where it has a usable one, otherwise a new one.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let usable = |text: &&str| (1..=128).contains(&text.len()) && text.bytes().all(plain);
    let given = headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(usable);
    given.map_or_else(
        || {
            let (high, low) = (colloquy_model::random::u64(), colloquy_model::random::u64());
            format!("req_{high:016x}{low:016x}").into()
        },
        Arc::from,
    )
}

/// Does what takes a body piece by piece, beside the reading of it, of which no piece may take longer
/// than this; gives how many bytes came, too.
pub(super) async fn beside_body<W: Future>(
    (body, within): (&mut BodyReader<'_>, Duration),
    work: impl FnOnce(Upload) -> W,
) -> (W::Output, usize) {
    let (upload, pieces) = Upload::new();
    let mut bytes = 0;
    let output = {
        let coming = pin!(body.hand_on(pieces, within, &mut bytes));
        let mut working = pin!(work(upload));
        tokio::select! {
            biased;
            done = &mut working => done,
            () = coming => working.await,
        }
    };
    (output, bytes)
}

impl RequestContext {
    /// Answers with a page of the console.
    async fn show(&mut self, payload: &mut Payload) -> Result<Reply, Problem> {
        let mut body = BodyReader::of(payload);
        let visit = Visit {
            app: Arc::clone(&self.app),
            request: self.request.clone(),
            request_id: Arc::clone(&self.request_id),
            address: forwarded::client_address(&self.app.proxies, &self.request),
            site: self.site.clone(),
        };
        let (owner, reply) = console::serve(visit, &mut body).await;
        self.owner = owner;
        self.body_comes = self.body_comes && !body.has_ended();
        Ok(reply)
    }

    async fn handle(&mut self, payload: &mut Payload) -> Result<Response, Problem> {
        let app = Arc::clone(&self.app);
        let request = self.request.clone();
        if line_bytes(&request) > app.request_line_bytes_max {
            let reason = format!(
                "the request line must be at most {} bytes",
                app.request_line_bytes_max
            );
            return Err(Problem::invalid("", reason));
        }
        if block_bytes(request.headers()) > app.header_bytes_max {
            let reason = format!(
                "the header block must be at most {} bytes",
                app.header_bytes_max
            );
            return Err(Problem::new(Kind::HeadersTooLarge, reason));
        }
        match app.router.find(request.method(), request.uri().path()) {
            RouteMatch::Operation(number, operation, parameters) => {
                self.is_for(number);
                let mut body = BodyReader::of(payload);
                let output = self.carry_out(operation, parameters, &mut body).await;
                self.body_comes = self.body_comes && !body.has_ended();
                if let Err(problem) = &output {
                    self.note_refusal(operation, problem);
                }
                output
                    .map(Response::Output)
                    .map_err(|problem| match operation.shows_pages() {
                        true => refusal_page(request.headers(), problem),
                        false if operation.auth == AuthRequirement::OAuthClient => {
                            problem.into_oauth()
                        }
                        false => problem,
                    })
            }
            RouteMatch::Options(allow) => Ok(Response::AllowedMethods(allow)),
            RouteMatch::OtherMethods(allow) => {
                let problem = Problem::new(
                    Kind::MethodNotAllowed,
                    "the path exists, but not with this method",
                );
                Err(for_visitors(
                    &request,
                    Problem {
                        allow: Some(allow),
                        ..problem
                    },
                ))
            }
            RouteMatch::Nothing if seeks_the_start(&request) => {
                let start = "/console".to_owned();
                Ok(Response::Output(Output::SeeOther(start)))
            }
            RouteMatch::Nothing => Err(for_visitors(
                &request,
                Problem::new(Kind::NotFound, "no such path"),
            )),
        }
    }

    /// Notes for which operation it is, and what of that it uses.
    fn is_for(&mut self, operation: usize) {
        self.operation = Some(operation);
        let query = self.request.query_string();
        self.deprecated = self.app.live().deprecations.used(operation, query);
    }

    async fn carry_out(
        &mut self,
        operation: &Operation,
        parameters: PathParameters,
        body: &mut BodyReader<'_>,
    ) -> Result<Output, Problem> {
        let arrival = Arrival {
            address: forwarded::client_address(&self.app.proxies, &self.request),
            at: Timestamp::now(),
        };
        self.site.check_operation(operation.auth)?;
        let identified =
            authentication::identify(&self.app, operation.auth, &self.request, arrival).await;
        if operation.auth != AuthRequirement::Public {
            authentication::check_is_current(&self.app)?;
        }
        let credential = identified?;
        self.owner = owner(operation.auth, &credential, arrival.address);
        let target = Target {
            operation,
            parameters,
            credential,
            arrival,
        };
        let own = Acting::by_itself(&target.credential);
        self.known = Some(self.caller(&target, own)?);
        let chunked = self.body_comes;
        let acting = tokio::select! {
            biased;
            admitted = self.admit(&target) => admitted?,
            problem = body.fault(), if chunked => return Err(problem),
        };
        self.known = self.caller(&target, acting).ok();
        // Forms of shared pages; others that are sent as forms are for programs.
        if operation.encoding == Encoding::Form
            && matches!(operation.auth, AuthRequirement::ShareLink)
        {
            check_same_site(&self.app, &self.request)?;
        }
        self.check_capacity(operation)?;
        if let Some(known) = operation.known {
            let call = self.call(target.clone(), self.caller(&target, acting)?);
            tokio::select! {
                biased;
                known = known(&call) => known?,
                problem = body.fault(), if chunked => return Err(problem),
            }
        }
        let raw_body = self.signed_body(&target, body).await?;
        let caller = self.caller(&target, acting)?;
        let mut call = self.call(target, caller);
        let headers = self.request.headers();
        if operation.conditional {
            call.if_match = conditions::if_match(headers)?;
        }
        if operation.repeatable {
            call.idempotency_key = conditions::idempotency_key(headers)?.map(str::to_owned);
        }
        if operation.encoding == Encoding::File {
            // Apart, so that other requests are not as large.
            return Box::pin(self.receive((operation, call), raw_body, body)).await;
        }
        self.work(operation, call, raw_body).await
    }

    /// Reads the body, and compares it with its digest where the request is signed. A file that is not
    /// signed is read by its handler.
    async fn signed_body(
        &mut self,
        target: &Target<'_>,
        body: &mut BodyReader<'_>,
    ) -> Result<RawBody, Problem> {
        let (operation, credential) = (target.operation, &target.credential);
        if operation.encoding == Encoding::File && !signed_requests::are_required_of(credential) {
            check_media_type(self.request.headers(), operation.verb, operation.encoding)?;
            return Ok(RawBody::default());
        }
        let raw_body = self.read(operation, body).await?;
        if operation.body.is_some() {
            let by = (credential, target.arrival);
            signed_requests::check_body(&self.app, by, self.request.headers(), raw_body.bytes())?;
        }
        Ok(raw_body)
    }

    /// Lets the handler read the body piece by piece, as it comes: what was read before, then the
    /// rest.
    async fn receive(
        &mut self,
        (operation, mut call): (&Operation, Box<ApiCall>),
        before: RawBody,
        body: &mut BodyReader<'_>,
    ) -> Result<Output, Problem> {
        body.push_front(&before);
        let within = self.app.body.timeout;
        let (output, bytes) = beside_body((body, within), |upload| {
            call.upload = Some(upload);
            self.work(operation, call, RawBody::default())
        })
        .await;
        self.body_bytes = bytes;
        output
    }

    /// Counts what the account's credential has sent and is answered. What comes through a stream or a
    /// socket has no size yet, and does not count.
    fn count_usage(&self, response: &HttpResponse) {
        let Some(Caller { tenant, actor }) = &self.known else {
            return;
        };
        let who = Who {
            account: tenant.account_number(),
            credential: actor.credential.into(),
        };
        if who.credential == CountedCredential::NONE {
            return;
        }
        let counts = UsageCounts {
            forbidden: u64::from(response.status() == StatusCode::FORBIDDEN),
            bytes_in: self.body_bytes as u64,
            bytes_out: bytes_out(&self.request, response),
            ..UsageCounts::default()
        };
        self.app
            .system
            .usage
            .counter
            .count(who, Timestamp::now(), counts);
    }

    /// Logs how the request went, where the settings want that.
    fn log(&self, response: &HttpResponse, took: Duration) {
        if self.app.live().requests_logged {
            let answered = Answered {
                app: &self.app,
                request: &self.request,
                request_id: &self.request_id,
                operation: self.operation,
                caller: self.known.as_ref(),
                bytes_in: self.body_bytes,
                took,
            };
            answered.log(response);
        }
    }

    /// Begins its trace, where it has one.
    fn traced(&self) -> Option<TracedRequest> {
        let traces = self.app.traces.as_ref()?;
        let parent = self.request.headers().get("traceparent");
        let parent = parent.and_then(|value| value.to_str().ok());
        traces.begin(&self.request_id, parent)
    }

    /// Ends its trace, by the names of OpenTelemetry's conventions for HTTP.
    fn trace(&self, traced: TracedRequest, response: &HttpResponse) {
        let operations = self.app.router.operations();
        let route = self.operation.and_then(|number| operations.get(number));
        let route = route.map(|operation| operation.path);
        let method = match *self.request.method() {
            Method::GET
            | Method::HEAD
            | Method::POST
            | Method::PUT
            | Method::PATCH
            | Method::DELETE
            | Method::OPTIONS => self.request.method().as_str(),
            _ => "_OTHER",
        };
        let account = self.known.as_ref().and_then(|caller| {
            let number = caller.tenant.account_number();
            self.app.system.identity.account_numbered(number)
        });
        let status = response.status().as_u16();
        let mut attributes = vec![
            KeyValue::new("http.request.method", method.to_owned()),
            KeyValue::new("http.response.status_code", i64::from(status)),
            KeyValue::new("request.id", self.request_id.to_string()),
        ];
        attributes.extend(route.map(|route| KeyValue::new("http.route", route)));
        let account = account.map(|account| account.view.account_id.to_string());
        attributes.extend(account.map(|account| KeyValue::new("account.id", account)));
        let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
        traced.end(name, status, attributes);
    }

    /// Records that the request was refused for who asked, if it was.
    fn note_refusal(&self, operation: &Operation, problem: &Problem) {
        let address = || forwarded::client_address(&self.app.proxies, &self.request);
        let stranger = || refused::stranger(address(), &self.request_id);
        let caller = self.known.clone().unwrap_or_else(stranger);
        refused::note_operation(&self.app, operation, &caller, problem);
    }

    /// Refuses what comes when the server stops, and a change of a document for whose answer there
    /// is no room: without room nothing is changed.
    fn check_capacity(&self, operation: &Operation) -> Result<(), Problem> {
        if self.too_late && !operation.watched {
            return Err(Problem::unavailable(
                "the server is stopping",
                Outcome::None,
                1,
            ));
        }
        let full = |owner| self.app.answers.is_spent(owner);
        if operation.whole && operation.verb != Verb::Get && self.owner.is_some_and(full) {
            return Err(Problem::unavailable(TOO_MANY_ANSWERS, Outcome::None, 1));
        }
        Ok(())
    }

    /// Lets the handler work, as soon as it may and for as long as somebody waits for what it
    /// reads.
    async fn work(
        &mut self,
        operation: &Operation,
        call: Box<ApiCall>,
        raw_body: RawBody,
    ) -> Result<Output, Problem> {
        let (app, owner) = (
            Arc::clone(&call.app),
            self.owner.filter(|_| operation.plentiful),
        );
        let working = async {
            let large_answer = match owner {
                Some(owner) => Some(app.large_answers.enter(owner).await?),
                None => None,
            };
            let output = run(operation, call, raw_body).await?;
            Ok::<_, Problem>((output, large_answer))
        };
        let (output, large_answer) = match &self.connection {
            // Dropped, nothing more is read for it. A change that has begun is not left halfway.
            Some(connection) if operation.verb == Verb::Get => tokio::select! {
                biased;
                done = working => done?,
                () = connection.socket().hung_up() => return Err(Problem::unavailable("the client has hung up", Outcome::None, 1)),
            },
            Some(_) | None => working.await?,
        };
        self.large_answer = large_answer;
        Ok(output)
    }

    /// The request as its handler receives it, but for what its headers ask beside. It stands apart:
    /// whatever hands it on would copy it.
    fn call(&self, target: Target<'_>, caller: Caller) -> Box<ApiCall> {
        let access = conversation_access::of_credential(&target.credential, caller.actor.user);
        Box::new(ApiCall {
            app: Arc::clone(&self.app),
            request: self.request.clone(),
            method: self.request.method().clone(),
            uri: self.request.uri().clone(),
            parameters: target.parameters,
            credential: target.credential,
            site: self.site.clone(),
            caller,
            access,
            owner: self.owner,
            if_match: None,
            idempotency_key: None,
            fingerprint: None,
            reservation: None,
            upload: None,
            list_format: None,
            whole: target.operation.whole,
            now: target.arrival.at,
        })
    }

    /// Address, rate and permission of a key, the limits of a share link; operators have all of
    /// these.
    async fn admit(&mut self, target: &Target<'_>) -> Result<Acting, Problem> {
        let Target {
            operation,
            credential,
            arrival,
            ..
        } = target;
        let permissions = match operation.auth {
            AuthRequirement::Key(permissions) | AuthRequirement::KeyOrTicket(permissions) => {
                permissions
            }
            AuthRequirement::ShareLink => return self.admit_link(target),
            AuthRequirement::Public
            | AuthRequirement::OAuthClient
            | AuthRequirement::Operator
            | AuthRequirement::Metrics => {
                return Ok(Acting::Nobody);
            }
        };
        if let Credential::Key(principal) | Credential::Ticket(principal, _) = credential {
            admission::admit(&self.app, principal, *arrival, &mut self.rate_limit).await?;
            // It is a good one, so it is counted wherever it is brought.
            self.site.check_credential(principal)?;
        }
        let needs = Needs {
            permissions,
            verb: operation.verb,
        };
        authentication::permit(&self.app, credential, needs, self.request.headers())
    }

    fn admit_link(&self, target: &Target<'_>) -> Result<Acting, Problem> {
        let token = target
            .parameters
            .segment(self.request.uri().path(), 0)
            .unwrap_or_default();
        admission::admit_link(&self.app, token, target.arrival).map(|()| Acting::Nobody)
    }

    async fn read(
        &mut self,
        operation: &Operation,
        body: &mut BodyReader<'_>,
    ) -> Result<RawBody, Problem> {
        if operation.body.is_none() {
            return Ok(RawBody::default());
        }
        let headers = self.request.headers();
        let limits = match (operation.encoding, operation.large) {
            (Encoding::Form, false) => &self.app.form_body,
            (Encoding::Form | Encoding::Json, true) => &self.app.document_body,
            (Encoding::Json, false) => &self.app.body,
            // What is handed on piece by piece is not read here, but for what is signed.
            (Encoding::File, _) => &self.app.document_body,
        };
        let Some(owner) = self.owner else {
            return Ok(RawBody::default());
        };
        let raw_body = limits.read(headers, owner, body).await?;
        if !raw_body.is_empty() {
            check_media_type(headers, operation.verb, operation.encoding)?;
        }
        self.body_bytes = raw_body.bytes().len();
        if let Some(number) = self.operation {
            let live = self.app.live();
            let used = &mut self.deprecated;
            live.deprecations.add_used(number, raw_body.bytes(), used);
        }
        Ok(raw_body)
    }

    fn caller(&self, target: &Target<'_>, acting: Acting) -> Result<Caller, Problem> {
        let (tenant, credential) = match &target.credential {
            Credential::None => (Tenant::OPERATORS, CredentialId::Visitor),
            Credential::Operator => (Tenant::OPERATORS, CredentialId::Operator(token_holder())),
            Credential::Key(principal) | Credential::Ticket(principal, _) => {
                (principal.tenant(), principal.credential())
            }
        };
        let request_id = Arc::clone(&self.request_id);
        Ok(Caller {
            tenant,
            actor: Actor {
                credential,
                user: acting.known()?,
                address: Some(target.arrival.address),
                request_id,
            },
        })
    }
}

/// Whether somebody has typed the server's name into a browser.
fn seeks_the_start(request: &HttpRequest) -> bool {
    request.uri().path() == "/"
        && matches!(*request.method(), Method::GET | Method::HEAD)
        && accept::names_a_page(request.headers())
}

/// The refusal as a page for a browser that went astray below a share link.
fn for_visitors(request: &HttpRequest, problem: Problem) -> Problem {
    let headers = request.headers();
    if request.uri().path().starts_with("/s/") && accept::names_a_page(headers) {
        refusal_page(headers, problem)
    } else {
        problem
    }
}

/// On whose behalf bytes are held for a request.
fn owner(auth: AuthRequirement, credential: &Credential, address: IpAddr) -> Option<BudgetOwner> {
    match (auth, credential) {
        (AuthRequirement::Public, _) => None,
        (_, Credential::Key(principal) | Credential::Ticket(principal, _)) => {
            Some(BudgetOwner::of(principal))
        }
        (_, Credential::Operator) => Some(BudgetOwner::Operator),
        (_, Credential::None) => Some(BudgetOwner::at(address)),
    }
}

/// Lets the handler work; the log tells what it found where that is not for the caller.
pub(super) async fn run(
    operation: &Operation,
    call: Box<ApiCall>,
    raw_body: RawBody,
) -> Result<Output, Problem> {
    let (app, caller) = (Arc::clone(&call.app), call.caller.clone());
    let done = decided(operation, call, raw_body).await;
    if let Err(problem) = &done
        && let Some(More::Found(finding)) = problem.more.as_deref()
    {
        request_log::tell(&app, &caller, finding);
    }
    done
}

/// Where nothing was done because another node had committed before, it is decided anew. Where no other
/// node can be, nothing is copied for that.
async fn decided(
    operation: &Operation,
    mut call: Box<ApiCall>,
    mut raw_body: RawBody,
) -> Result<Output, Problem> {
    for _ in 0..overtaken::ATTEMPTS_MAX {
        // What has come of a file is gone.
        if !call.app.system.is_shared() || call.upload.is_some() {
            break;
        }
        let (next_call, next_body) = (Box::new(call.again()), raw_body.again());
        let problem = match (operation.run)(call, raw_body).await {
            Err(problem) => {
                let key = next_call.idempotency_key.as_deref();
                let (app, tenant) = (&next_call.app, next_call.caller.tenant);
                idempotency::told_under(app, tenant, key, problem).await
            }
            done => return done,
        };
        if !problem.is_overtaken() {
            return Err(problem);
        }
        overtaken::pause().await;
        (call, raw_body) = (next_call, next_body);
    }
    (operation.run)(call, raw_body).await
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "what is tested")]
    use super::*;

    fn size<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// All of it is copied to where it lives, once for each request: 25,000 bytes were a tenth of what a
    /// small request costs.
    #[test]
    fn the_future_of_a_request_is_small() {
        let size = size(serve);
        assert!(size <= 4_096, "{size} bytes");
    }

    #[actix_web::test]
    async fn a_panic_in_a_handler_is_a_server_error_and_not_a_dropped_connection() {
        let crashing = async { if true { panic!("on purpose") } else { Ok(()) } };
        assert_eq!(or_crashed("req_1", crashing).await, Err(Problem::crashed()));
        assert_eq!(or_crashed("req_2", async { Ok(7) }).await, Ok(7));
    }
}
