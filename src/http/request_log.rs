//! A line of the log for each answer, where the settings want one: who asked for what, and how it
//! went. Names the route as the table has it and never the path, in which a link's token may stand.

use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse};
use colloquy_model::caller::{Actor, Caller, CredentialId};
use colloquy_model::id::{ClientId, KeyId};
use tracing::field::{DisplayValue, display};

use super::app_state::AppState;
use super::forwarded;
use super::problem::Finding;

/// An answer that is about to leave.
pub(super) struct Answered<'a> {
    pub(super) app: &'a AppState,
    pub(super) request: &'a HttpRequest,
    pub(super) request_id: &'a str,
    /// The operation's number in the table of routes; none where no route fits.
    pub(super) operation: Option<usize>,
    /// Who asked, where that is known.
    pub(super) caller: Option<&'a Caller>,
    /// Bytes of the request's body that were read.
    pub(super) bytes_in: usize,
    pub(super) took: Duration,
}

impl Answered<'_> {
    /// Logs it.
    pub(super) fn log(&self, response: &HttpResponse) {
        let operations = self.app.router.operations();
        let operation = self.operation.and_then(|number| operations.get(number));
        let actor = self.caller.map(|caller| &caller.actor);
        let account = self.caller.and_then(|caller| {
            let number = caller.tenant.account_number();
            self.app.system.identity.account_numbered(number)
        });
        let (key, client) = key_or_client(actor);
        tracing::info!(
            method = self.request.method().as_str(),
            route = operation.map(|operation| operation.path),
            status = response.status().as_u16(),
            ms = whole_microseconds(self.took),
            request_id = self.request_id,
            account = account.map(|account| display(account.view.account_id)),
            key,
            client,
            user = actor.and_then(|actor| actor.user).map(display),
            address = %forwarded::client_address(&self.app.proxies, self.request),
            bytes_in = self.bytes_in,
            bytes_out = bytes_out(self.request, response),
            "answered"
        );
    }
}

/// The key or the client that an actor came with, if either.
fn key_or_client(
    actor: Option<&Actor>,
) -> (Option<DisplayValue<KeyId>>, Option<DisplayValue<ClientId>>) {
    match actor.map(|actor| actor.credential) {
        Some(CredentialId::Key(id)) => (Some(display(id)), None),
        Some(CredentialId::Client(id)) => (None, Some(display(id))),
        Some(
            CredentialId::Operator(_)
            | CredentialId::Session
            | CredentialId::Visitor
            | CredentialId::Server,
        )
        | None => (None, None),
    }
}

/// Tells what was found in the place of what this caller has asked for.
pub(super) fn tell(app: &AppState, caller: &Caller, finding: &Finding) {
    let number = caller.tenant.account_number();
    let account = app.system.identity.account_numbered(number);
    let account = account.map(|account| display(account.view.account_id));
    let (key, client) = key_or_client(Some(&caller.actor));
    let request_id = &*caller.actor.request_id;
    let Finding {
        what,
        error,
        is_fault,
    } = finding;
    match is_fault {
        true => tracing::error!(error, request_id, account, key, client, "{what}"),
        false => tracing::warn!(error, request_id, account, key, client, "{what}"),
    }
}

/// Bytes of an answer's body; none of one that is sent as it comes.
pub(super) fn bytes_out(request: &HttpRequest, response: &HttpResponse) -> u64 {
    match response.body().size() {
        BodySize::Sized(bytes) if request.method() != Method::HEAD => bytes,
        BodySize::Sized(_) | BodySize::None | BodySize::Stream => 0,
    }
}

/// In milliseconds with three places.
fn whole_microseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
