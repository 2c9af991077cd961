//! One WebSocket: what comes from the client goes to its session, what the session says goes out, as the body of the
//! response that opened it. Nothing is made while the connection has no room, and no frame is read that can't be acted on.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::dev::Payload;
use bytes::{Bytes, BytesMut};
use futures_util::future::LocalBoxFuture;
use futures_util::stream::Stream;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};

use super::super::edge::Edge;
use super::super::problem::{Kind, Problem};
use super::frames::{self, Frames};
use super::handshake::Handshake;
use super::limits::{OpenLine, Way};
use super::outlet::Outlet;
use super::session::{Over, Session};
use super::standing::{End, Holder};
use super::wire::{self, Code, Incoming, Reader};

/// Bytes from which on what is ready goes out.
const CHUNK: usize = 16_384;
/// How long a socket that ends waits for messages that are under way.
const LAST_SENDS: Duration = Duration::from_millis(500);
/// How long the client may take to say goodbye.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Signs of life that may be owed.
const UNANSWERED_MAX: u32 = 2;

/// A WebSocket that is about to be opened.
pub(crate) struct Opening {
    pub(crate) edge: Arc<Edge>,
    pub(crate) handshake: Handshake,
    pub(crate) holder: Holder,
    pub(crate) session: Session,
    pub(crate) outlet: Option<Outlet>,
}

enum State {
    Open,
    /// It ends with this code when nothing is under way any more, or it is time.
    Ending(Code, Pin<Box<Sleep>>),
    /// It has said goodbye, and waits for the client's so long.
    Parting(Pin<Box<Sleep>>),
    /// Both have: the last word has to leave before the connection is shut.
    Parted {
        written: bool,
    },
    Over,
}

struct Out(BytesMut);

impl Frames for Out {
    fn put(&mut self, parts: &[&[u8]]) {
        wire::text(&mut self.0, parts);
    }
}

/// The body of the response that opened it.
pub(crate) struct Socket {
    payload: Payload,
    reader: Reader,
    session: Session,
    ended: LocalBoxFuture<'static, End>,
    heartbeat: Interval,
    unanswered: u32,
    state: State,
    out: Out,
    outlet: Option<Outlet>,
    _open: OpenLine,
}

impl Socket {
    pub(crate) fn new(opening: Opening, payload: Payload) -> Self {
        let Opening { edge, holder, session, outlet, .. } = opening;
        let period = edge.lines.heartbeat;
        let mut heartbeat = interval_at(Instant::now() + period, period);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Socket {
            payload,
            reader: Reader::new(edge.lines.message_bytes_max),
            session,
            heartbeat,
            unanswered: 0,
            state: State::Open,
            out: Out(BytesMut::new()),
            outlet,
            _open: edge.open.open(Way::Socket),
            ended: holder.ended(edge).boxed_local(),
        }
    }

    /// Does one thing; false where there is nothing to do.
    fn turn(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.state {
            State::Over | State::Parted { .. } => false,
            State::Parting(time) => {
                if time.poll_unpin(context).is_ready() {
                    // It may be slow, and what was said still on its way: the connection ends when that is written.
                    self.state = State::Over;
                    return false;
                }
                self.hear(context)
            }
            State::Ending(code, time) => {
                let code = *code;
                let late = time.poll_unpin(context).is_ready();
                if self.session.poll_sends(context, &mut self.out).is_ready() {
                    return true;
                }
                if late || !self.session.sends() {
                    self.close(code);
                    return true;
                }
                false
            }
            State::Open => self.live(context),
        }
    }

    fn live(&mut self, context: &mut Context<'_>) -> bool {
        if let Poll::Ready(end) = self.ended.poll_unpin(context) {
            self.end(match end {
                End::Void => Code::Policy,
                End::Leaving => Code::GoingAway,
            });
            return true;
        }
        if self.heartbeat.poll_tick(context).is_ready() {
            self.unanswered += 1;
            if self.unanswered > UNANSWERED_MAX {
                // Nobody is there to read a farewell.
                self.state = State::Over;
                return false;
            }
            wire::ping(&mut self.out.0);
            return true;
        }
        if self.session.listens() && self.hear(context) {
            return true;
        }
        match self.session.poll(context, &mut self.out) {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(over)) => {
                self.end(match over {
                    Over::ComeAgain => Code::TryAgain,
                    Over::Leaving => Code::GoingAway,
                });
                true
            }
            Poll::Pending => false,
        }
    }

    /// Takes in what has come; false where nothing has.
    fn hear(&mut self, context: &mut Context<'_>) -> bool {
        match self.reader.next() {
            Ok(Some(incoming)) => {
                self.take(incoming);
                return true;
            }
            Ok(None) => {}
            Err(code) => {
                if code == Code::TooBig {
                    let problem = Problem::new(Kind::PayloadTooLarge, "the frame is too long");
                    frames::error(&mut self.out, None, &problem);
                }
                // What it says on is not understood any more.
                if !matches!(self.state, State::Parting(_)) {
                    self.close(code);
                }
                self.state = State::Parted { written: false };
                return true;
            }
        }
        match self.payload.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(bytes))) => {
                self.unanswered = 0;
                self.reader.feed(&bytes);
                true
            }
            Poll::Ready(Some(Err(_)) | None) => {
                self.state = State::Over;
                true
            }
            Poll::Pending => false,
        }
    }

    fn take(&mut self, incoming: Incoming) {
        let parting = matches!(self.state, State::Parting(_));
        match incoming {
            Incoming::Close(_) if parting => self.state = State::Parted { written: false },
            _ if parting => {}
            Incoming::Text(text) => self.session.receive(&text, &mut self.out),
            Incoming::Binary => {
                frames::error(&mut self.out, None, &Problem::invalid("", "must be a text frame that holds JSON"));
            }
            Incoming::Ping(payload) => wire::pong(&mut self.out.0, &payload),
            Incoming::Pong => {}
            Incoming::Close(code) => {
                wire::bye(&mut self.out.0, code, "");
                self.state = State::Parted { written: false };
            }
        }
    }

    /// Ends when what is under way has been answered.
    fn end(&mut self, code: Code) {
        self.state = State::Ending(code, Box::pin(sleep(LAST_SENDS)));
    }

    fn close(&mut self, code: Code) {
        let reason = match code {
            Code::GoingAway => "the server is stopping",
            Code::Protocol => "the frame breaks the protocol",
            Code::NotUtf8 => "the text is not UTF-8",
            Code::Policy => "the credential holds no more",
            Code::TooBig => "the frame is too long",
            Code::TryAgain => "too slow: resume where you stand",
        };
        wire::bye(&mut self.out.0, Some(code as u16), reason);
        self.state = State::Parting(Box::pin(sleep(LAST_WORD)));
    }
}

impl Stream for Socket {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while this.out.0.len() < CHUNK && this.turn(context) {}
        if !this.out.0.is_empty() {
            let chunk = std::mem::take(&mut this.out.0).freeze();
            return Poll::Ready(Some(Ok(chunk)));
        }
        match &mut this.state {
            State::Parted { written } if !*written => {
                // The connection writes what it has when there is nothing more for now.
                *written = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            State::Parted { .. } => {
                this.outlet.take().into_iter().for_each(Outlet::shut);
                this.state = State::Over;
                Poll::Ready(None)
            }
            State::Over => Poll::Ready(None),
            State::Open | State::Ending(..) | State::Parting(_) => Poll::Pending,
        }
    }
}
