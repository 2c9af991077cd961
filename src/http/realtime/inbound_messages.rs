//! Messages that come through a socket: carried out as the POST would be, under the same keys and
//! limits. Those to one conversation keep their order, those to different ones run side by side.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use colloquy_actors::conversation::messages::SendMessage;
use colloquy_model::caller::Caller;
use colloquy_model::command::CommandMeta;
use colloquy_model::conversation_access::ConversationAccess;
use colloquy_model::id::ConversationId;
use colloquy_model::time::Timestamp;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::super::admission::Arrival;
use super::super::app_state::AppState;
use super::super::authentication::Needs;
use super::super::idempotency::RequestIdentity;
use super::super::operation::Verb;
use super::super::problem::{Kind, Problem};
use super::super::routes::WRITING;
use super::super::{admission, authentication, conditions, idempotency, json, overtaken};
use super::access_watch::ConnectionAuth;
use super::limits::FrameBytes;

/// Who is at the other end of a WebSocket.
pub(super) struct SocketPeer {
    pub(super) app: Arc<AppState>,
    pub(super) auth: ConnectionAuth,
    pub(super) caller: Caller,
}

/// A message that came through a WebSocket and is to be sent.
pub(super) struct InboundMessage {
    pub(super) reference: String,
    pub(super) conversation: ConversationId,
    pub(super) message: Bytes,
    /// What its frame holds of its account's room, until it is done.
    pub(super) held: Option<FrameBytes>,
}

/// What became of one inbound message.
pub(super) struct SendResult {
    pub(super) reference: String,
    /// The message as it was stored, in JSON.
    pub(super) outcome: Result<Bytes, Problem>,
}

/// The inbound messages of one WebSocket that are under way: one at a time for each conversation.
#[derive(Default)]
pub(super) struct InboundMessages {
    in_flight: FuturesUnordered<LocalBoxFuture<'static, (ConversationId, SendResult)>>,
    /// What waits behind the one that runs, by conversation.
    behind: HashMap<ConversationId, VecDeque<InboundMessage>>,
    count: usize,
}

impl InboundMessages {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, peer: &Rc<SocketPeer>, send: InboundMessage) {
        self.count += 1;
        match self.behind.get_mut(&send.conversation) {
            Some(behind) => behind.push_back(send),
            None => {
                self.behind.insert(send.conversation, VecDeque::new());
                self.start(peer, send);
            }
        }
    }

    fn start(&mut self, peer: &Rc<SocketPeer>, send: InboundMessage) {
        let peer = Rc::clone(peer);
        self.in_flight.push(
            async move {
                let outcome = carry_out(&peer, &send).await;
                drop(send.held);
                (
                    send.conversation,
                    SendResult {
                        reference: send.reference,
                        outcome,
                    },
                )
            }
            .boxed_local(),
        );
    }

    /// The next one that is done.
    pub(super) fn poll(
        &mut self,
        peer: &Rc<SocketPeer>,
        context: &mut Context<'_>,
    ) -> Poll<SendResult> {
        let Some((conversation, sent)) = ready!(self.in_flight.poll_next_unpin(context)) else {
            return Poll::Pending;
        };
        self.count -= 1;
        match self
            .behind
            .get_mut(&conversation)
            .and_then(VecDeque::pop_front)
        {
            Some(next) => self.start(peer, next),
            None => {
                self.behind.remove(&conversation);
            }
        }
        Poll::Ready(sent)
    }
}

/// What sending a message needs, as the POST does.
const SENDING: Needs = Needs {
    permissions: WRITING,
    verb: Verb::Post,
};

/// Credential, address, rate, permission, body, idempotency, and then the conversation: in the
/// order of the contract.
async fn carry_out(peer: &SocketPeer, send: &InboundMessage) -> Result<Bytes, Problem> {
    let SocketPeer { app, auth, caller } = peer;
    let at = Timestamp::now();
    let principal = auth
        .principal(app, at)
        .ok_or_else(|| Problem::new(Kind::Unauthorized, "the key holds no more"))?;
    authentication::check_is_current(app)?;
    let address = caller
        .actor
        .address
        .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    admission::admit(app, &principal, Arrival { address, at }, &mut None).await?;
    authentication::check_key_type(&principal, SENDING)?;
    authentication::check_permissions(&principal, SENDING)?;
    let access = auth.access(&principal);
    overtaken::decided_anew(app, async || write(peer, send, access).await).await
}

/// The idempotency key, and then the conversation.
async fn write(
    peer: &SocketPeer,
    send: &InboundMessage,
    access: ConversationAccess,
) -> Result<Bytes, Problem> {
    let SocketPeer { app, caller, .. } = peer;
    let message: SendMessage = json::parse(&send.message)?;
    let request = RequestIdentity::of_message(send.conversation, caller.actor.user)
        .fingerprint(&send.message);
    // The answer echoes it as it came; as a key it is the same with and without quotes.
    let key = conditions::sound_key(&send.reference).unwrap_or(&send.reference);
    let reservation = match idempotency::look(app, caller.tenant, key, request).await? {
        Ok(reservation) => reservation,
        Err(first_answer) => return Ok(first_answer.body),
    };
    let meta = CommandMeta {
        access,
        reservation: Some(reservation),
        ..CommandMeta::new(caller.clone())
    };
    let conversations = &app.system.conversations;
    match conversations.ask(send.conversation, meta, message).await {
        Ok(answer) => Ok(answer.body),
        Err(failure) => {
            let problem = failure.into();
            Err(idempotency::told_under(app, caller.tenant, Some(key), problem).await)
        }
    }
}
