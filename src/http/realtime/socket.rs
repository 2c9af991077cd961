//! One WebSocket: what comes from the client goes to its session, what the session says goes out,
//! as the body of the response that opened it. Nothing is made while the connection has no room,
//! and no frame is read that can't be acted on.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::dev::Payload;
use bytes::{Bytes, BytesMut};
use futures_util::stream::Stream;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};

use super::super::app_state::AppState;
use super::super::idle::InUse;
use super::super::problem::{Kind, Problem};
use super::super::slices::Backpressure;
use super::frame_bucket::FrameBucket;
use super::handshake::Handshake;
use super::json_frames::{self, Frames};
use super::limits::LiveConnection;
use super::session::{Session, SessionEnd};
use super::websocket_codec::{self, CloseCode, Frame, Incoming, Reader};

/// Bytes from which on what is ready goes out.
const CHUNK: usize = 16_384;
/// How long a socket that ends waits for messages that are under way.
const LAST_SENDS: Duration = Duration::from_millis(500);
/// How long the client may take to say goodbye.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Signs of life that may be owed.
const UNANSWERED_MAX: u32 = 2;

/// A WebSocket that is about to be opened.
pub(crate) struct SocketOpening {
    pub(crate) app: Arc<AppState>,
    pub(crate) handshake: Handshake,
    pub(crate) session: Session,
    pub(crate) open: LiveConnection,
    pub(crate) connection: Option<InUse>,
}

enum State {
    Open,
    /// It ends with this code when nothing is under way any more, or it is time.
    Ending(CloseCode, Pin<Box<Sleep>>),
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
        websocket_codec::text(&mut self.0, parts);
    }
}

/// The body of the response that opened it.
pub(crate) struct Socket {
    payload: Payload,
    reader: Reader,
    session: Session,
    bucket: FrameBucket,
    /// How long a frame of the message that is coming is too soon, if it is.
    too_soon: Option<Duration>,
    /// Until then nothing is read.
    pause: Option<Pin<Box<Sleep>>>,
    heartbeat: Interval,
    unanswered: u32,
    state: State,
    out: Out,
    connection: Option<InUse>,
    backpressure: Backpressure,
    _open: LiveConnection,
}

impl Socket {
    pub(crate) fn new(opening: SocketOpening, payload: Payload) -> Self {
        let SocketOpening {
            app,
            session,
            open,
            connection,
            ..
        } = opening;
        let period = app.realtime_limits.heartbeat;
        let mut heartbeat = interval_at(Instant::now() + period, period);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Socket {
            payload,
            reader: Reader::new(app.realtime_limits.message_bytes_max, &open.frame_budget()),
            session,
            bucket: FrameBucket::new(app.realtime_limits.frames, Instant::now()),
            too_soon: None,
            pause: None,
            heartbeat,
            unanswered: 0,
            state: State::Open,
            out: Out(BytesMut::new()),
            connection,
            backpressure: Backpressure::of(open.owner()),
            _open: open,
        }
    }

    /// Does one thing; false where there is nothing to do.
    fn turn(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.state {
            State::Over | State::Parted { .. } => false,
            State::Parting(time) => {
                if time.poll_unpin(context).is_ready() {
                    // It may be slow, and what was said still on its way: the connection ends when
                    // that is written.
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
        if let Poll::Ready(over) = self.session.poll_end(context) {
            self.end(over);
            return true;
        }
        if self.heartbeat.poll_tick(context).is_ready() {
            self.unanswered += 1;
            if self.unanswered > UNANSWERED_MAX {
                // Nobody is there to read a farewell.
                self.state = State::Over;
                return false;
            }
            websocket_codec::ping(&mut self.out.0);
            return true;
        }
        if self.session.listens() && self.hear(context) {
            return true;
        }
        match self.session.poll(context, &mut self.out) {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(over)) => {
                self.end(over);
                true
            }
            Poll::Pending => false,
        }
    }

    /// Takes in what has come; false where nothing has, or nothing is to be read now.
    fn hear(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(pause) = &mut self.pause {
            if pause.poll_unpin(context).is_pending() {
                return false;
            }
            self.pause = None;
        }
        match self.reader.next() {
            Ok(Some(frame)) => {
                self.take(frame);
                return true;
            }
            Ok(None) => {}
            Err(code) => {
                if code == CloseCode::TooBig {
                    let problem = Problem::new(Kind::PayloadTooLarge, "the frame is too long");
                    json_frames::error(&mut self.out, None, &problem);
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

    fn take(&mut self, frame: Frame) {
        let (now, parting) = (Instant::now(), matches!(self.state, State::Parting(_)));
        let too_soon = self.bucket.take(frame.bytes, now).err();
        if too_soon.is_some() {
            self.pause = self.bucket.pause(now).map(|wait| Box::pin(sleep(wait)));
        }
        match frame.incoming {
            Incoming::Close(_) if parting => self.state = State::Parted { written: false },
            _ if parting => {}
            Incoming::Part => self.too_soon = self.too_soon.max(too_soon),
            Incoming::Text(text) => match self.too_soon.take().max(too_soon) {
                Some(wait) => json_frames::refuse(&mut self.out, &text, wait),
                None => self.session.receive(&text, frame.held, &mut self.out),
            },
            Incoming::Binary => match self.too_soon.take().max(too_soon) {
                Some(wait) => json_frames::refuse(&mut self.out, &[], wait),
                None => {
                    let problem = Problem::invalid("", "must be a text frame that holds JSON");
                    json_frames::error(&mut self.out, None, &problem);
                }
            },
            Incoming::Ping(payload) if too_soon.is_none() => {
                websocket_codec::pong(&mut self.out.0, &payload)
            }
            Incoming::Ping(_) | Incoming::Pong => {}
            Incoming::Close(code) => {
                websocket_codec::bye(&mut self.out.0, code, "");
                self.state = State::Parted { written: false };
            }
        }
    }

    /// Ends when what is under way has been answered.
    fn end(&mut self, over: SessionEnd) {
        let code = match over {
            SessionEnd::Reconnect => CloseCode::TryAgain,
            SessionEnd::ServerStopping => CloseCode::GoingAway,
            SessionEnd::AccessRevoked => CloseCode::Policy,
            SessionEnd::Unreadable => CloseCode::InternalError,
        };
        self.state = State::Ending(code, Box::pin(sleep(LAST_SENDS)));
    }

    fn close(&mut self, code: CloseCode) {
        let reason = match code {
            CloseCode::GoingAway => "the server is stopping",
            CloseCode::Protocol => "the frame breaks the protocol",
            CloseCode::NotUtf8 => "the text is not UTF-8",
            CloseCode::Policy => "the credential holds no more",
            CloseCode::TooBig => "the frame is too long",
            CloseCode::InternalError => "what is stored can't be read",
            CloseCode::TryAgain => "too much at once: come again, and resume where you stand",
        };
        websocket_codec::bye(&mut self.out.0, Some(code as u16), reason);
        self.state = State::Parting(Box::pin(sleep(LAST_WORD)));
    }
}

impl Stream for Socket {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        ready!(this.backpressure.poll_ready(context));
        while this.out.0.len() < CHUNK && this.turn(context) {}
        if !this.out.0.is_empty() {
            let chunk = std::mem::take(&mut this.out.0).freeze();
            this.backpressure.produced(chunk.len());
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
                this.connection
                    .take()
                    .into_iter()
                    .for_each(|connection| connection.socket().shut());
                this.state = State::Over;
                Poll::Ready(None)
            }
            State::Over => Poll::Ready(None),
            State::Open | State::Ending(..) | State::Parting(_) => Poll::Pending,
        }
    }
}
