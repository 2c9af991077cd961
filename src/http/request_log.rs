//! A line of the log for each answer, where the settings want one: who asked for what, and how it
//! went. Names the route as the table has it and never the path, in which a link's token may stand.

use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse};
use colloquy_model::caller::{Caller, CredentialId};
use tracing::field::display;

use super::app_state::AppState;
use super::forwarded;

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
        let (mut key, mut client) = (None, None);
        match actor.map(|actor| actor.credential) {
            Some(CredentialId::Key(id)) => key = Some(display(id)),
            Some(CredentialId::Client(id)) => client = Some(display(id)),
            Some(
                CredentialId::Operator(_)
                | CredentialId::Session
                | CredentialId::Visitor
                | CredentialId::Server,
            )
            | None => {}
        }
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
