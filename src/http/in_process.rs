//! Calls of the interface's operations in this process, for the pages of the console: the same
//! queries and bodies, checks, messages to actors and refusals as over HTTP, without its bytes.

use std::net::IpAddr;
use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::{Method, Uri};
use bytes::Bytes;
use colloquy_actors::accounts::Principal;
use colloquy_actors::document::messages::EraseFromBin;
use colloquy_model::answer::Precondition;
use colloquy_model::caller::{Actor, Caller, CredentialId, Tenant};
use colloquy_model::id::DocumentId;
use colloquy_model::time::Timestamp;
use colloquy_model::user::Role;
use colloquy_runtime::offload::{self, ComputeError};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::api_call::{ApiCall, Credential};
use super::app_state::AppState;
use super::authentication::{self, Needs};
use super::body::{BodyReader, RawBody};
use super::budget::BudgetOwner;
use super::concurrency::ConcurrencyPermit;
use super::conversation_access;
use super::csv::ListFormat;
use super::dispatch;
use super::operation::{AuthRequirement, Operation, Verb};
use super::output::{FileContent, Output};
use super::overtaken;
use super::problem::{More, Outcome, Problem};
use super::router::RouteMatch;
use super::site::Site;

/// Who calls, on behalf of a request for a page.
#[derive(Clone)]
pub(crate) struct InProcess {
    pub(crate) app: Arc<AppState>,
    pub(crate) request: HttpRequest,
    pub(crate) request_id: Arc<str>,
    pub(crate) address: IpAddr,
    /// An account's side; none where only operators' operations may be called.
    pub(crate) principal: Option<Principal>,
    /// The role of the account's user; none for an operator, who may do everything there.
    pub(crate) role: Option<Role>,
    /// Whether operators' operations may be called.
    pub(crate) is_operator: bool,
    /// What the page's visitor has shown.
    pub(crate) credential: CredentialId,
    /// The page's turn to have large answers made, from the first one until the page is made: what it shows of
    /// them is in memory all the while.
    pub(crate) large_answers: Arc<OnceCell<ConcurrencyPermit>>,
}

/// What is asked of an operation.
pub(crate) struct Request<'r> {
    pub(crate) verb: Verb,
    /// Path and query.
    pub(crate) target: &'r str,
    pub(crate) body: Option<&'r Value>,
    /// An entity tag, without quotation marks: the change is made only where it still holds.
    pub(crate) if_match: Option<&'r str>,
    /// A repeat under the same key is done once.
    pub(crate) idempotency_key: Option<&'r str>,
    /// How a list is written, whatever the browser's `Accept` says.
    pub(crate) list_format: ListFormat,
}

impl<'r> Request<'r> {
    pub(crate) fn get(target: &'r str) -> Self {
        Request {
            verb: Verb::Get,
            target,
            body: None,
            if_match: None,
            idempotency_key: None,
            list_format: ListFormat::Json,
        }
    }

    /// Reads a list as CSV.
    pub(crate) fn csv(target: &'r str) -> Self {
        Request {
            list_format: ListFormat::Csv,
            ..Request::get(target)
        }
    }

    pub(crate) fn new(verb: Verb, target: &'r str, body: &'r Value) -> Self {
        Request {
            verb,
            body: Some(body),
            ..Request::get(target)
        }
    }
}

/// What an operation answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    /// The body; null where there is none, a string where it is no JSON.
    pub(crate) body: Value,
    /// The entity tag, without quotation marks.
    pub(crate) etag: Option<String>,
    /// Whether anything follows the last item of a page.
    pub(crate) has_after: bool,
}

impl InProcess {
    /// Reads what an operation shows.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(crate) async fn get(&self, target: &str) -> Result<Found, Problem> {
        self.ask(Request::get(target)).await
    }

    /// Asks an operation.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(crate) async fn ask(&self, request: Request<'_>) -> Result<Found, Problem> {
        let output = self.output(&request).await?;
        Ok(found(output))
    }

    /// Reads the JSON that an operation shows, where that is no longer than so much; none where it is.
    ///
    /// # Errors
    /// The refusal of the operation; or there was no room to parse it.
    pub(crate) async fn get_short(
        &self,
        target: &str,
        bytes_max: usize,
    ) -> Result<Option<Value>, Problem> {
        let json = match self.output(&Request::get(target)).await? {
            Output::Text(text) => text.body,
            Output::Answer(answer) | Output::Immutable(answer) | Output::Shared(answer, _) => {
                answer.body
            }
            Output::Page(_)
            | Output::Bulk(..)
            | Output::File(_)
            | Output::Events(_)
            | Output::WebSocket(_)
            | Output::SeeOther(_) => {
                tracing::error!(target, "a page asks for the JSON of what shows none");
                return Err(Problem::crashed());
            }
        };
        if json.len() > bytes_max {
            return Ok(None);
        }
        let tenant = self.principal.as_ref().map(Principal::tenant);
        let tenant = tenant.unwrap_or(Tenant::OPERATORS);
        let parsed =
            offload::run_linear(tenant, json.len(), move || serde_json::from_slice(&json)).await;
        match parsed {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(error)) => {
                tracing::error!(target, %error, "an operation gave a page what is no JSON");
                Err(Problem::crashed())
            }
            Err(ComputeError::Panicked) => Err(Problem::crashed()),
            Err(ComputeError::Overloaded) => {
                let reason = "too much is computed for the account";
                Err(Problem::unavailable(reason, Outcome::None, 1))
            }
        }
    }

    /// What an operation gives.
    async fn output(&self, request: &Request<'_>) -> Result<Output, Problem> {
        let (operation, call) = self.call(request)?;
        let body = match request.body {
            Some(body) if operation.body.is_some() => colloquy_model::json::bytes(body),
            Some(_) | None => Bytes::new(),
        };
        self.run(operation, call, RawBody::of(body)).await
    }

    /// Gives an operation the body of the page's own request, piece by piece as it comes, with what its
    /// headers say of it.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(crate) async fn upload(
        &self,
        request: Request<'_>,
        body: &mut BodyReader<'_>,
    ) -> Result<Found, Problem> {
        let (operation, mut call) = self.call(&request)?;
        let within = self.app.body.timeout;
        let (output, _) = dispatch::beside_body((body, within), |upload| {
            call.upload = Some(upload);
            self.run(operation, call, RawBody::default())
        })
        .await;
        Ok(found(output?))
    }

    /// Reads a file that an operation gives.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(crate) async fn file(&self, target: &str) -> Result<Box<FileContent>, Problem> {
        let (operation, call) = self.call(&Request::get(target))?;
        match self.run(operation, call, RawBody::default()).await? {
            Output::File(file) => Ok(file),
            Output::Answer(_)
            | Output::Immutable(_)
            | Output::Shared(..)
            | Output::Page(_)
            | Output::Text(_)
            | Output::Bulk(..)
            | Output::Events(_)
            | Output::WebSocket(_)
            | Output::SeeOther(_) => Err(Problem::not_found()),
        }
    }

    /// The operation that is asked for, and the call of it.
    fn call(&self, request: &Request<'_>) -> Result<(&Operation, Box<ApiCall>), Problem> {
        let uri: Uri = request.target.parse().map_err(|_| Problem::not_found())?;
        let method = method(request.verb);
        let RouteMatch::Operation(_, operation, parameters) =
            self.app.router.find(&method, uri.path())
        else {
            return Err(Problem::not_found());
        };
        let (credential, tenant) = self.credential(operation)?;
        let access = conversation_access::of_credential(&credential, credential.user());
        let call = Box::new(ApiCall {
            app: Arc::clone(&self.app),
            request: self.request.clone(),
            method,
            uri: uri.clone(),
            parameters,
            credential,
            caller: self.caller(tenant),
            access,
            site: Site::of(&self.app, &self.request),
            owner: Some(self.owner()),
            if_match: request.if_match.map(Precondition::of_tag),
            idempotency_key: request.idempotency_key.map(str::to_owned),
            fingerprint: None,
            reservation: None,
            upload: None,
            list_format: Some(request.list_format),
            whole: operation.whole,
            now: Timestamp::now(),
        });
        Ok((operation, call))
    }

    async fn run(
        &self,
        operation: &Operation,
        call: Box<ApiCall>,
        body: RawBody,
    ) -> Result<Output, Problem> {
        if let Some(known) = operation.known {
            known(&call).await?;
        }
        if operation.plentiful {
            let entering = || self.app.large_answers.enter(self.owner());
            self.large_answers.get_or_try_init(entering).await?;
        }
        dispatch::run(operation, call, body).await
    }

    /// Erases a document where it is in the bin. No operation of the interface does: for them it is
    /// nowhere to be found there. Whoever may delete it by one may do this.
    ///
    /// # Errors
    /// 404: it is not in the bin, or nothing that this caller may know of; and other refusals.
    pub(crate) async fn erase_from_bin(&self, id: DocumentId) -> Result<(), Problem> {
        let path = format!("/api/v1/documents/{id}");
        let RouteMatch::Operation(_, delete, _) = self.app.router.find(&Method::DELETE, &path)
        else {
            return Err(Problem::not_found());
        };
        let (_, tenant) = self.credential(delete)?;
        let caller = self.caller(tenant);
        let documents = &self.app.system.documents;
        let erased = overtaken::decided_anew(&self.app, async || {
            let meta = documents.meta(caller.clone());
            Ok(documents.ask(id, meta, EraseFromBin).await?)
        });
        erased.await.map(drop)
    }

    /// Who is said to have done it.
    fn caller(&self, tenant: Tenant) -> Caller {
        let principal = self.principal.as_ref();
        Caller {
            tenant,
            actor: Actor {
                credential: self.credential,
                user: principal.and_then(|principal| principal.key.view.user_id),
                address: Some(self.address),
                request_id: Arc::clone(&self.request_id),
            },
        }
    }

    /// Who pays for the memory that answers hold.
    pub(crate) fn owner(&self) -> BudgetOwner {
        match &self.principal {
            Some(principal) => BudgetOwner::of(principal),
            None => BudgetOwner::Operator,
        }
    }

    /// With what the operation is called, and for which tenant.
    fn credential(&self, operation: &Operation) -> Result<(Credential, Tenant), Problem> {
        let permissions = match operation.auth {
            AuthRequirement::Operator | AuthRequirement::Metrics if self.is_operator => {
                return Ok((Credential::Operator, Tenant::OPERATORS));
            }
            AuthRequirement::Key(permissions) | AuthRequirement::KeyOrTicket(permissions) => {
                permissions
            }
            AuthRequirement::Operator
            | AuthRequirement::Metrics
            | AuthRequirement::Public
            | AuthRequirement::OAuthClient
            | AuthRequirement::ShareLink => return Err(Problem::not_found()),
        };
        let Some(principal) = &self.principal else {
            return Err(Problem::forbidden("open an account's side first"));
        };
        let needs = Needs {
            permissions,
            verb: operation.verb,
        };
        authentication::check_key_type(principal, needs)?;
        authentication::check_permissions(principal, needs)?;
        authentication::check_role(principal, self.role, needs)?;
        Ok((Credential::Key(principal.clone()), principal.tenant()))
    }
}

fn method(verb: Verb) -> Method {
    match verb {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
        Verb::Put => Method::PUT,
        Verb::Patch => Method::PATCH,
        Verb::Delete => Method::DELETE,
    }
}

fn found(output: Output) -> Found {
    let json = |bytes: &[u8]| serde_json::from_slice(bytes);
    let (body, etag) = match output {
        Output::Answer(answer) | Output::Immutable(answer) | Output::Shared(answer, _) => {
            (json(&answer.body).unwrap_or_default(), answer.etag)
        }
        Output::Page(listing) => {
            let page = listing.page;
            let data: Value = json(&page.data.array()).unwrap_or_default();
            return Found {
                body: serde_json::json!({"data": data, "total": page.total}),
                etag: None,
                has_after: page.after,
            };
        }
        Output::Text(text) => {
            let string = || Value::String(String::from_utf8_lossy(&text.body).into_owned());
            (json(&text.body).unwrap_or_else(|_| string()), None)
        }
        // No page asks for these.
        Output::Bulk(..)
        | Output::File(_)
        | Output::Events(_)
        | Output::WebSocket(_)
        | Output::SeeOther(_) => (Value::Null, None),
    };
    Found {
        body,
        etag,
        has_after: false,
    }
}

impl Found {
    /// The items of a list.
    pub(crate) fn items(&self) -> &[Value] {
        self.body
            .get("data")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// How many items the whole list has.
    pub(crate) fn total(&self) -> u64 {
        self.body
            .get("total")
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }
}

/// What a merge that was refused leaves undecided, as the interface tells it: `conflicts`, `merged`,
/// `source`, `target`. None where it was refused for something else.
pub(crate) fn undecided(problem: &Problem) -> Option<Value> {
    let told: Value = match problem.more.as_deref()? {
        More::Conflict(_) => serde_json::from_slice(&problem.json()).ok()?,
        // Written in the form that the browser's `Accept` prefers, which may be either of two.
        More::Written(body) => serde_json::from_slice(body).ok()?,
        More::Overtaken | More::Page(_) | More::OAuth(_) | More::Length(_) | More::Found(_) => {
            return None;
        }
    };
    let details = ["/error/details", "/details"];
    let found = details.iter().find_map(|at| told.pointer(at));
    found.cloned()
}
