//! One operation of the interface: how it is reached, what it takes and answers, and who carries it
//! out. From the same value come the route and its entry in the OpenAPI document, so neither can
//! exist without the other.

use std::future::Future;

use colloquy_model::key::Permission;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::openapi::path::ParameterIn;
use utoipa::{IntoParams, ToSchema};

use super::api_call::ApiCall;
use super::body::{Body, BodySchema, Encoding, ParsedBody, RawBody};
use super::output::Output;
use super::problem::{Kind, Problem};
use super::{idempotency, query};

/// A method of the interface. HEAD comes with GET; OPTIONS is answered for every path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    pub(crate) const ALL: [Verb; 5] = [Verb::Get, Verb::Post, Verb::Put, Verb::Patch, Verb::Delete];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        }
    }
}

/// The credential that an operation requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthRequirement {
    /// No credential is needed.
    Public,
    /// An API key with one of these permissions; with none named, any key.
    Key(&'static [Permission]),
    /// A share link's token, which stands in the path.
    ShareLink,
    /// An OAuth client, by its secret or by its name alone; what is answered is as RFC 6749 has it.
    OAuthClient,
    /// An API key with one of these permissions, or a ticket that was made with one.
    KeyOrTicket(&'static [Permission]),
    /// The operators' token, and nothing else.
    Operator,
    /// The operator token, unless the settings open it.
    Metrics,
}

/// The status of a success, and the schema of its body.
#[derive(Debug, Clone)]
pub(crate) enum Success {
    /// 200 with this schema.
    Ok(String),
    /// 201 with this schema.
    Created(String),
    /// 202 with this schema.
    Accepted(String),
    /// 204, without a body.
    Deleted,
    /// 200 with a page of this schema.
    Page(String),
    /// 200 with text of this media type.
    Text(&'static str),
    /// 200 with the bytes of a file, or 206 with a part of them.
    File,
    /// 101: the connection carries frames from then on.
    Switched,
}

/// How the `Location` of what was created follows from its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocationRule {
    /// The request's path, then the identifier.
    UnderRequestPath,
    /// This path, then the identifier.
    UnderPath(&'static str),
    /// The request's path without its last segments, so many; then this, then the identifier.
    FurtherUp(usize, &'static str),
}

type Run = Box<
    dyn Fn(Box<ApiCall>, RawBody) -> LocalBoxFuture<'static, Result<Output, Problem>> + Send + Sync,
>;

/// Whether what the path leads to is there, for a body that anybody could send.
type Known = for<'c> fn(&'c ApiCall) -> LocalBoxFuture<'c, Result<(), Problem>>;

/// One operation of the interface: a row of the table of routes.
pub(crate) struct Operation {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    pub(crate) auth: AuthRequirement,
    pub(crate) parameters: Vec<Value>,
    pub(crate) body: Option<BodySchema>,
    /// Whether its body may hold a document's content.
    pub(crate) large: bool,
    /// How the body of a request to it has to be encoded.
    pub(crate) encoding: Encoding,
    pub(crate) success: Success,
    /// What it may answer with 200 beside that.
    pub(crate) otherwise: Option<String>,
    /// What it may answer with 202 beside that.
    pub(crate) goes_on: Option<String>,
    /// Whether its page has a script of ours.
    pub(crate) scripted: bool,
    /// Whether it may lead on to a page.
    pub(crate) leads_on: bool,
    /// As which media types it may answer beside the first.
    pub(crate) forms: &'static [&'static str],
    pub(crate) location: LocationRule,
    pub(crate) secret: bool,
    pub(crate) conditional: bool,
    /// Whether the answers to its requests are kept under their idempotency keys.
    pub(crate) repeatable: bool,
    /// Whether its answer shows a document: it is kept without the content.
    pub(crate) whole: bool,
    /// Whether its answer may be large: few of these are made at once for one caller.
    pub(crate) plentiful: bool,
    /// Whether it also answers as `text/event-stream`.
    pub(crate) streams: bool,
    /// Whether shared caches may keep its answers, where the settings let them.
    pub(crate) shared: bool,
    /// What is asked before the body is read.
    pub(crate) known: Option<Known>,
    /// Whether it is answered while the server stops, for those who watch it.
    pub(crate) watched: bool,
    pub(crate) refusals: Vec<Kind>,
    pub(crate) schemas: Vec<(String, Value)>,
    pub(crate) run: Run,
}

/// An operation of which it has not been said who may call it: no row of the table is one, since it
/// becomes an operation only by saying so.
pub(crate) struct Unguarded(Operation);

impl Unguarded {
    /// Where it stands in the document, and what it is for.
    pub(crate) fn about(
        self,
        tag: &'static str,
        summary: &'static str,
        description: &'static str,
    ) -> Self {
        Unguarded(Operation {
            tag,
            summary,
            description,
            ..self.0
        })
    }

    /// The credential that it requires.
    pub(crate) fn auth(self, auth: AuthRequirement) -> Operation {
        Operation { auth, ..self.0 }
    }
}

impl Operation {
    /// Whether it answers people with pages, refusals too: it is what a share link opens in a
    /// browser, or where a browser is sent.
    pub(crate) fn shows_pages(&self) -> bool {
        match self.auth {
            AuthRequirement::ShareLink => {
                !self.forms.is_empty() || matches!(self.success, Success::Text(_))
            }
            // Where a browser is sent to sign in.
            AuthRequirement::Public => self.leads_on,
            AuthRequirement::OAuthClient
            | AuthRequirement::Key(_)
            | AuthRequirement::KeyOrTicket(_)
            | AuthRequirement::Operator
            | AuthRequirement::Metrics => false,
        }
    }
}

/// An operation that asks and changes nothing.
pub(crate) fn get<Q, F, Fut>(path: &'static str, id: &'static str, run: F) -> Unguarded
where
    Q: DeserializeOwned + IntoParams + 'static,
    F: Fn(ApiCall, Q) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Problem>> + 'static,
{
    Unguarded(Operation::new::<Q, (), _, _>(
        Verb::Get,
        path,
        id,
        move |call, query, ()| run(call, query),
    ))
}

/// An operation that makes something or does something.
pub(crate) fn post<B, F, Fut>(path: &'static str, id: &'static str, run: F) -> Unguarded
where
    B: Body,
    F: Fn(ApiCall, B) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Problem>> + 'static,
{
    let mut made =
        Operation::new::<query::NoQuery, B, _, _>(Verb::Post, path, id, move |call, _, body| {
            run(call, body)
        });
    made.repeatable = true;
    Unguarded(made)
}

/// An operation that changes something.
pub(crate) fn patch<B, F, Fut>(path: &'static str, id: &'static str, run: F) -> Unguarded
where
    B: Body,
    F: Fn(ApiCall, B) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Problem>> + 'static,
{
    let made =
        Operation::new::<query::NoQuery, B, _, _>(Verb::Patch, path, id, move |call, _, body| {
            run(call, body)
        });
    Unguarded(made.conditional())
}

/// An operation that puts something in the place of something.
pub(crate) fn put<B, F, Fut>(path: &'static str, id: &'static str, run: F) -> Unguarded
where
    B: Body,
    F: Fn(ApiCall, B) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Problem>> + 'static,
{
    let made =
        Operation::new::<query::NoQuery, B, _, _>(Verb::Put, path, id, move |call, _, body| {
            run(call, body)
        });
    Unguarded(made.conditional())
}

/// An operation that takes something away, in the way that the query says.
pub(crate) fn delete_as<Q, F, Fut>(path: &'static str, id: &'static str, run: F) -> Unguarded
where
    Q: DeserializeOwned + IntoParams + 'static,
    F: Fn(ApiCall, Q) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Problem>> + 'static,
{
    let made = Operation::new::<Q, (), _, _>(Verb::Delete, path, id, move |call, query, ()| {
        run(call, query)
    });
    let made = Operation {
        success: Success::Deleted,
        ..made
    };
    Unguarded(made.conditional())
}

/// An operation that takes something away.
pub(crate) fn delete<F, Fut>(path: &'static str, id: &'static str, run: F) -> Unguarded
where
    F: Fn(ApiCall) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Problem>> + 'static,
{
    let made =
        Operation::new::<query::NoQuery, (), _, _>(Verb::Delete, path, id, move |call, _, ()| {
            run(call)
        });
    let made = Operation {
        success: Success::Deleted,
        ..made
    };
    Unguarded(made.conditional())
}

impl Operation {
    fn new<Q, B, F, Fut>(verb: Verb, path: &'static str, id: &'static str, run: F) -> Self
    where
        Q: DeserializeOwned + IntoParams + 'static,
        B: Body,
        F: Fn(ApiCall, Q, B) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Problem>> + 'static,
    {
        let parameters = Q::into_params(|| Some(ParameterIn::Query));
        let mut schemas = Vec::new();
        Operation {
            verb,
            path,
            id,
            tag: "",
            summary: "",
            description: "",
            auth: AuthRequirement::Public,
            parameters: parameters
                .iter()
                .filter_map(|parameter| serde_json::to_value(parameter).ok())
                .collect(),
            body: B::document(&mut schemas),
            large: false,
            encoding: B::ENCODING,
            success: Success::Ok(String::new()),
            otherwise: None,
            goes_on: None,
            scripted: false,
            leads_on: false,
            forms: &[],
            location: LocationRule::UnderRequestPath,
            secret: false,
            conditional: false,
            repeatable: false,
            whole: false,
            plentiful: false,
            streams: false,
            shared: false,
            known: None,
            watched: false,
            refusals: Vec::new(),
            schemas,
            run: Box::new(move |call, raw_body| {
                carry_out::<Q, B, F, Fut>(call, raw_body, run).boxed_local()
            }),
        }
    }

    /// Says that it answers 200 with this schema.
    pub(crate) fn shows<T: ToSchema>(mut self) -> Self {
        self.success = Success::Ok(self.schema::<T>());
        self
    }

    /// Says that it answers 201 with this schema.
    pub(crate) fn creates<T: ToSchema>(mut self, location: LocationRule) -> Self {
        self.success = Success::Created(self.schema::<T>());
        Operation { location, ..self }
    }

    /// It may answer 202 with this instead.
    pub(crate) fn or_accepts<T: ToSchema>(mut self) -> Self {
        self.goes_on = Some(self.schema::<T>());
        self
    }

    /// It may answer 200 with this instead.
    pub(crate) fn or_shows<T: ToSchema>(mut self) -> Self {
        self.otherwise = Some(self.schema::<T>());
        self
    }

    /// It may answer as one of these media types instead.
    pub(crate) fn or_writes(self, forms: &'static [&'static str]) -> Self {
        Operation { forms, ..self }
    }

    /// Its page has a script of ours.
    pub(crate) fn scripted(self) -> Self {
        Operation {
            scripted: true,
            ..self
        }
    }

    /// Done, it may lead on to a page, with 303.
    pub(crate) fn leads_on(self) -> Self {
        Operation {
            leads_on: true,
            ..self
        }
    }

    /// Its body may hold a document's content.
    pub(crate) fn large(self) -> Self {
        Operation {
            large: true,
            ..self
        }
    }

    /// Its answer shows a document.
    pub(crate) fn whole(self) -> Self {
        Operation {
            whole: true,
            ..self
        }
    }

    /// Sent again, it is done again.
    pub(crate) fn unrepeatable(self) -> Self {
        Operation {
            repeatable: false,
            ..self
        }
    }

    /// Says that it answers 202 with this schema.
    pub(crate) fn accepts<T: ToSchema>(mut self) -> Self {
        self.success = Success::Accepted(self.schema::<T>());
        self
    }

    /// It answers 200 with a page of these.
    pub(crate) fn lists<T: ToSchema>(mut self) -> Self {
        self.success = Success::Page(self.schema::<T>());
        self.plentiful()
    }

    /// Its answer may be large, so few are made at once for one caller.
    pub(crate) fn plentiful(self) -> Self {
        Operation {
            plentiful: true,
            ..self
        }
    }

    /// It answers the same as a stream, where that is asked for.
    pub(crate) fn streams(self) -> Self {
        Operation {
            streams: true,
            ..self
        }
    }

    /// Shared caches may keep its answers, where the settings let them.
    pub(crate) fn shared(self) -> Self {
        Operation {
            shared: true,
            ..self
        }
    }

    /// It turns the connection into a WebSocket.
    pub(crate) fn switches(self) -> Self {
        Operation {
            success: Success::Switched,
            ..self
        }
    }

    /// It answers with the bytes of a file, or with a part of them.
    pub(crate) fn serves_a_file(self) -> Self {
        Operation {
            success: Success::File,
            ..self
        }
        .refuses(&[Kind::RangeNotSatisfiable])
    }

    /// It answers 200 with text of this media type.
    pub(crate) fn writes(self, media_type: &'static str) -> Self {
        Operation {
            success: Success::Text(media_type),
            ..self
        }
    }

    /// Its answer holds a secret that no cache may keep.
    pub(crate) fn secret(self) -> Self {
        Operation {
            secret: true,
            ..self
        }
    }

    /// Says that it takes `If-Match`.
    pub(crate) fn conditional(self) -> Self {
        Operation {
            conditional: true,
            ..self
        }
    }

    /// Its body is read only if this finds nothing wrong.
    pub(crate) fn known_by(self, known: Known) -> Self {
        Operation {
            known: Some(known),
            ..self
        }
    }

    /// It is answered while the server stops, too.
    pub(crate) fn watched(self) -> Self {
        Operation {
            watched: true,
            ..self
        }
    }

    /// What else it may be refused for.
    pub(crate) fn refuses(mut self, kinds: &[Kind]) -> Self {
        self.refusals.extend(kinds);
        self
    }

    fn schema<T: ToSchema>(&mut self) -> String {
        register::<T>(&mut self.schemas)
    }
}

/// Adds a type's schema and all that it refers to; gives its name.
pub(crate) fn register<T: ToSchema>(schemas: &mut Vec<(String, Value)>) -> String {
    let mut found = Vec::new();
    T::schemas(&mut found);
    let name = T::name().into_owned();
    found.push((name.clone(), T::schema()));
    let as_json = |(name, schema)| {
        serde_json::to_value(schema)
            .ok()
            .map(|schema| (name, schema))
    };
    schemas.extend(found.into_iter().filter_map(as_json));
    name
}

/// Query, body, idempotency, then the operation itself: in the order in which the contract has them
/// checked.
async fn carry_out<Q, B, F, Fut>(
    mut call: Box<ApiCall>,
    raw_body: RawBody,
    run: F,
) -> Result<Output, Problem>
where
    Q: DeserializeOwned,
    B: Body,
    F: Fn(ApiCall, Q, B) -> Fut,
    Fut: Future<Output = Result<Output, Problem>> + 'static,
{
    let asked: Q = query::parse(call.query())?;
    let ParsedBody {
        body,
        fingerprint,
        permit,
    } = raw_body.parse::<B>(&call).await?;
    call.fingerprint = fingerprint;
    if !B::HANDLES_IDEMPOTENCY
        && let Some(replay) = idempotency::reserve(&mut call).await?
    {
        return completed(&call, replay).await;
    }
    let running = run(*call, asked, body);
    let Some(permit) = permit else {
        return running.await;
    };
    // It goes on when its caller is gone, and so long it is in memory.
    let held = async move {
        let answered = running.await;
        drop(permit);
        answered
    };
    actix_web::rt::spawn(held)
        .await
        .unwrap_or_else(|_| Err(Problem::crashed()))
}

/// An answer that is given again, with what is not kept of it.
async fn completed(call: &ApiCall, replay: Output) -> Result<Output, Problem> {
    if let (Output::Answer(answer), true) = (&replay, call.whole) {
        return Ok(call
            .app
            .system
            .documents
            .completed(call.caller.tenant, answer.clone())
            .await?
            .into());
    }
    Ok(replay)
}
