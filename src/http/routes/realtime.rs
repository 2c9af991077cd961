//! WebSockets, and the tickets that open them.

use bytes::Bytes;
use colloquy_actors::accounts::KeepAnswer;
use colloquy_actors::realtime::Ticket;
use colloquy_model::answer::Answer;
use colloquy_model::command::CommandMeta;
use colloquy_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::output::Output;
use super::super::problem::{Kind, Outcome, Problem};
use super::super::realtime::{ConnectionAuth, Session, SocketOpening, Transport, handshake};
use super::super::signed_requests;
use super::LINES;

/// What the opening of a WebSocket may say.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenQuery {
    /// A ticket, in place of a key.
    ticket: Option<String>,
}

/// A ticket.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RealtimeTicket)]
pub(super) struct TicketShown<'a> {
    /// Opens one WebSocket; shown once.
    ticket: Option<&'a str>,
    /// Until when.
    expires_at: Timestamp,
}

pub(super) async fn open(call: ApiCall, query: OpenQuery) -> Result<Output, Problem> {
    let handshake = handshake(&call.request)?;
    let principal = call.principal().ok_or_else(Problem::crashed)?;
    let auth = ConnectionAuth::new(principal, &call.caller, LINES);
    // Before the ticket is used up: a refusal costs nothing.
    let open = call
        .app
        .live_connections
        .open(Transport::WebSocket, principal)?;
    if call.by_ticket() {
        let ticket = query.ticket.unwrap_or_default();
        let redeemed =
            call.app.system.tickets.redeem(&ticket).await.map_err(|_| {
                Problem::unavailable("the ticket may be used up", Outcome::Unknown, 1)
            })?;
        if !redeemed {
            return Err(Problem::new(
                Kind::Unauthorized,
                "the ticket was used already",
            ));
        }
    }
    let connection = call.connection();
    let session = Session::new(call.app.clone(), auth);
    Ok(Output::WebSocket(Box::new(SocketOpening {
        app: call.app,
        handshake,
        session,
        open,
        connection,
    })))
}

pub(super) async fn ticket(mut call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let principal = call.principal().ok_or_else(Problem::crashed)?;
    let ends_at = call.now + call.app.realtime_limits.ticket;
    let account = principal.account.number;
    let ticket = Ticket {
        account,
        bearer: principal.bearer.clone(),
        user: call.caller.actor.user,
        signed: signed_requests::are_required(principal),
        ends_at,
    };
    let text = call.app.system.tickets.issue(ticket, call.now).await?;
    let (shown, kept) = (body(Some(&text), ends_at), body(None, ends_at));
    if call.reservation.is_none() {
        return Ok(Output::Answer(Answer::created(String::new(), None, shown)));
    }
    let id = principal.key.view.key_id;
    let meta = CommandMeta {
        reservation: call.reservation.take(),
        ..CommandMeta::new(call.account_caller())
    };
    let keys = &call.app.system.keys;
    Ok(keys.ask(id, meta, KeepAnswer { shown, kept }).await?.into())
}

fn body(ticket: Option<&str>, ends_at: Timestamp) -> Bytes {
    serde_json::to_vec(&TicketShown {
        ticket,
        expires_at: ends_at,
    })
    .unwrap_or_default()
    .into()
}
