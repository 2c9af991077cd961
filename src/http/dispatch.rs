//! One request from its head to its response. What is checked first wins: route, method,
//! credential, address, rate, permission, size, media type, body and query, idempotency, and then
//! whatever the handler finds.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use actix_web::HttpRequest;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderMap, TRANSFER_ENCODING};
use colloquy_actors::accounts::Principal;
use colloquy_actors::limiter::Permit;
use colloquy_model::caller::{By, Caller, Scope};
use colloquy_model::time::Timestamp;
use futures_util::FutureExt;

use super::body::{Incoming, Pieces, check_media_type};
use super::budget::Holder;
use super::call::{Call, Who};
use super::concurrency::UnderWay;
use super::credential::{self, Acting};
use super::edge::Edge;
use super::headers::{REQUEST_ID, block_bytes, line_bytes};
use super::idle::{IdleTimer, InUse};
use super::operation::{Door, Operation, Verb};
use super::pipelining::Turns;
use super::problem::{Kind, Outcome, Problem, TOO_MANY_ANSWERS};
use super::reply::Output;
use super::router::{Found, Place};
use super::routes::refusal_page;
use super::{admission, conditions, respond};
use crate::log::words;

/// What has become known of a request so far; its response shows it, however it ends.
pub(super) struct Exchange {
    pub(super) edge: Arc<Edge>,
    pub(super) request: HttpRequest,
    pub(super) request_id: Arc<str>,
    /// The connection that it came over, in use until its answer has been given out.
    pub(super) connection: Option<InUse>,
    pub(super) permit: Option<Permit>,
    /// On whose behalf its answer is in memory; none where all share one answer.
    pub(super) holder: Option<Holder>,
    /// A large answer that is in the making.
    making: Option<UnderWay>,
    /// Its body comes in chunks and has not come to its end: nobody knows when it will.
    pub(super) body_comes: bool,
    /// Its number in the table.
    pub(super) operation: Option<usize>,
    /// It came when the server was stopping.
    too_late: bool,
}

/// What a request came to, before it is a response.
pub(super) enum Verdict {
    /// An operation's result.
    Done(Output),
    /// The methods that a path takes.
    Methods(&'static str),
}

/// Answers one request. A panic on the way is an answer too.
pub(super) async fn serve(
    edge: Arc<Edge>,
    request: ServiceRequest,
) -> Result<ServiceResponse, actix_web::Error> {
    let started = Instant::now();
    let running = Arc::clone(&edge);
    let entered = running.running.enter();
    let (request, mut payload) = request.into_parts();
    request
        .conn_data::<Rc<Turns>>()
        .into_iter()
        .for_each(|turns| turns.begin());
    let request_id = request_id(request.headers());
    let too_late = entered.too_late;
    let mut exchange = Exchange {
        edge,
        request: request.clone(),
        request_id,
        connection: request.conn_data().map(IdleTimer::in_use),
        permit: None,
        holder: None,
        making: None,
        body_comes: request.headers().contains_key(TRANSFER_ENCODING),
        operation: None,
        too_late,
    };
    let name = Arc::clone(&exchange.request_id);
    let verdict = or_crashed(&name, exchange.judge(&mut payload)).await;
    let prepared = respond::prepared(&exchange, verdict).await;
    exchange.making = None;
    let response = respond::response(&exchange, prepared, payload);
    exchange.edge.traffic.count(
        exchange.operation,
        response.status().as_u16(),
        started.elapsed(),
    );
    drop(exchange);
    Ok(ServiceResponse::new(request, response))
}

/// A panic becomes an answer like any other; its words go to the log, once.
async fn or_crashed<T>(
    request_id: &str,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| {
            tracing::error!(
                request_id,
                panic = words(panic.as_ref()),
                "a handler panicked"
            );
            Err(Problem::crashed())
        })
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

impl Exchange {
    async fn judge(&mut self, payload: &mut Payload) -> Result<Verdict, Problem> {
        let edge = Arc::clone(&self.edge);
        let request = self.request.clone();
        if line_bytes(&request) > edge.request_line_bytes_max {
            let reason = format!(
                "the request line must be at most {} bytes",
                edge.request_line_bytes_max
            );
            return Err(Problem::invalid("", reason));
        }
        if block_bytes(request.headers()) > edge.header_bytes_max {
            let reason = format!(
                "the header block must be at most {} bytes",
                edge.header_bytes_max
            );
            return Err(Problem::new(Kind::HeadersTooLarge, reason));
        }
        match edge.table.find(request.method(), request.uri().path()) {
            Found::Operation(number, operation, place) => {
                self.operation = Some(number);
                let mut body = Pieces::of(payload);
                let output = self.carry_out(operation, place, &mut body).await;
                self.body_comes = self.body_comes && !body.has_ended();
                output.map(Verdict::Done)
            }
            Found::Options(allow) => Ok(Verdict::Methods(allow)),
            Found::OtherMethods(allow) => {
                let problem = Problem::new(
                    Kind::MethodNotAllowed,
                    "the path exists, but not with this method",
                );
                Err(Problem {
                    allow: Some(allow),
                    ..problem
                })
            }
            Found::Nothing => Err(Problem::new(Kind::NotFound, "no such path")),
        }
    }

    async fn carry_out(
        &mut self,
        operation: &Operation,
        place: Place,
        body: &mut Pieces<'_>,
    ) -> Result<Output, Problem> {
        let edge = Arc::clone(&self.edge);
        let now_ms = Timestamp::now().0;
        let address = admission::client_address(&edge.proxies, &self.request);
        let who = credential::identify(&edge, operation.door, &self.request, (address, now_ms))?;
        self.holder = holder(operation.door, &who, address);
        let chunked = self.body_comes;
        let acting = tokio::select! {
            biased;
            admitted = self.admit((operation, &place), &who, (address, now_ms)) => admitted?,
            problem = body.fault(), if chunked => return Err(problem),
        };
        if self.too_late && !operation.watched {
            return Err(Problem::unavailable(
                "the server is stopping",
                Outcome::None,
                1,
            ));
        }
        // What changes a document answers with it: without room for that nothing is changed.
        let full = |holder| edge.answers.is_spent(holder);
        if operation.whole && operation.verb != Verb::Get && self.holder.is_some_and(full) {
            return Err(Problem::unavailable(TOO_MANY_ANSWERS, Outcome::None, 1));
        }
        if let Some(known) = operation.known {
            let call = self.call(
                operation,
                place.clone(),
                (who.clone(), self.caller(&who, acting, address)?),
                now_ms,
            );
            tokio::select! {
                biased;
                known = known(&call) => known?,
                problem = body.fault(), if chunked => return Err(problem),
            }
        }
        let incoming = self.read(operation, body).await?;
        let caller = self.caller(&who, acting, address)?;
        let mut call = self.call(operation, place, (who, caller), now_ms);
        let headers = self.request.headers();
        call.if_match = if operation.conditional {
            conditions::if_match(headers)?
        } else {
            None
        };
        let key = if operation.repeatable {
            conditions::idempotency_key(headers)?
        } else {
            None
        };
        call.idempotency_key = key.map(str::to_owned);
        self.work(operation, call, incoming).await
    }

    /// Lets the handler work, as soon as it may and for as long as somebody waits for what it
    /// reads.
    async fn work(
        &mut self,
        operation: &Operation,
        call: Call,
        incoming: Incoming,
    ) -> Result<Output, Problem> {
        let (edge, holder) = (
            Arc::clone(&call.edge),
            self.holder.filter(|_| operation.plentiful),
        );
        let working = async {
            let making = match holder {
                Some(holder) => Some(edge.making.enter(holder).await?),
                None => None,
            };
            let output = (operation.run)(call, incoming).await?;
            Ok::<_, Problem>((output, making))
        };
        let (output, making) = match &self.connection {
            // Dropped, nothing more is read for it. A change that has begun is not left halfway.
            Some(connection) if operation.verb == Verb::Get => tokio::select! {
                biased;
                done = working => done?,
                () = connection.outlet().hung_up() => return Err(Problem::unavailable("the client has hung up", Outcome::None, 1)),
            },
            Some(_) | None => working.await?,
        };
        self.making = making;
        Ok(output)
    }

    /// The request as its handler receives it, but for what its headers ask beside.
    fn call(
        &self,
        operation: &Operation,
        place: Place,
        (who, caller): (Who, Caller),
        now_ms: i64,
    ) -> Call {
        Call {
            edge: Arc::clone(&self.edge),
            request: self.request.clone(),
            place,
            who,
            caller,
            holder: self.holder,
            if_match: None,
            idempotency_key: None,
            fingerprint: None,
            reservation: None,
            whole: operation.whole,
            now_ms,
        }
    }

    /// Address, rate and permission of a key, the limits of a share link; operators have all of
    /// these.
    async fn admit(
        &mut self,
        (operation, place): (&Operation, &Place),
        who: &Who,
        from: (IpAddr, i64),
    ) -> Result<Acting, Problem> {
        let needs = match operation.door {
            Door::Key(needs) | Door::Line(needs) => needs,
            Door::Link => {
                let token = place
                    .segment(self.request.uri().path(), 0)
                    .unwrap_or_default();
                let admitted = admission::admit_link(&self.edge, token, from);
                let headers = self.request.headers();
                return admitted.map(|()| Acting::Nobody).map_err(|problem| {
                    match operation.shows_pages() {
                        true => refusal_page(headers, problem),
                        false => problem,
                    }
                });
            }
            Door::Open | Door::Operator | Door::Metrics => return Ok(Acting::Nobody),
        };
        if let Who::Key(principal) | Who::Ticket(principal, _) = who {
            admission::admit(&self.edge, principal, from, &mut self.permit).await?;
        }
        credential::permit(
            &self.edge,
            who,
            (needs, operation.verb),
            self.request.headers(),
        )
    }

    async fn read(
        &self,
        operation: &Operation,
        body: &mut Pieces<'_>,
    ) -> Result<Incoming, Problem> {
        if operation.body.is_none() {
            return Ok(Incoming::default());
        }
        let headers = self.request.headers();
        let limits = match (operation.form, operation.large) {
            (true, _) => &self.edge.form_body,
            (false, true) => &self.edge.document_body,
            (false, false) => &self.edge.body,
        };
        let Some(holder) = self.holder else {
            return Ok(Incoming::default());
        };
        let incoming = limits.read(headers, holder, body).await?;
        if !incoming.is_empty() {
            check_media_type(headers, operation.verb, operation.form)?;
        }
        Ok(incoming)
    }

    fn caller(&self, who: &Who, acting: Acting, address: IpAddr) -> Result<Caller, Problem> {
        let key = |principal: &Principal| principal.key.view.key_id;
        let (scope, key) = match who {
            Who::Nobody | Who::Operator => (Scope::OPERATORS, None),
            Who::Key(principal) | Who::Ticket(principal, _) => {
                (principal.scope(), Some(key(principal)))
            }
        };
        let request_id = Arc::clone(&self.request_id);
        Ok(Caller {
            scope,
            by: By {
                key,
                user: acting.known()?,
                address: Some(address),
                request_id,
            },
        })
    }
}

/// On whose behalf bytes are held for a request.
fn holder(door: Door, who: &Who, address: IpAddr) -> Option<Holder> {
    match (door, who) {
        (Door::Open, _) => None,
        (_, Who::Key(principal) | Who::Ticket(principal, _)) => {
            Some(Holder::Account(principal.account.view.account_id.bits()))
        }
        (_, Who::Operator) => Some(Holder::Operator),
        (_, Who::Nobody) => Some(Holder::at(address)),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "what is tested")]
    use super::*;

    #[actix_web::test]
    async fn a_panic_in_a_handler_is_a_server_error_and_not_a_dropped_connection() {
        let crashing = async { if true { panic!("on purpose") } else { Ok(()) } };
        assert_eq!(or_crashed("req_1", crashing).await, Err(Problem::crashed()));
        assert_eq!(or_crashed("req_2", async { Ok(7) }).await, Ok(7));
    }
}
