//! HTTP/2 of one connection, over the crate `h2`. actix-http has an HTTP/2 of its own, which bounds
//! neither the requests of one connection nor their heads, and does not say goodbye when the server
//! stops. Requests and answers are those of HTTP/1.1 from here on.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use actix_http::body::{BodySize, BoxBody, MessageBody};
use actix_http::error::PayloadError;
use actix_http::header::{self, HeaderName, HeaderValue};
use actix_http::{HttpMessage, Method, Request, Response, StatusCode, Version};
use actix_server::GracefulShutdownSignal;
use actix_service::Service;
use actix_web::dev::Payload;
use bytes::Bytes;
use futures_util::stream::unfold;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::connection_data::ConnectionData;
use super::stream::Stream;

/// Requests of one connection that may be under way at once.
const STREAMS_MAX: u32 = 100;
/// Bytes of answers that may wait for a connection's client to take them; beyond it, no further
/// request of it begins.
const UNSENT_MAX: usize = 262_144;
/// What the heads of a connection's requests may take in memory; what comes beyond it is refused, so that it may
/// be asked again (RFC 9113, 8.7). A client writes a header once, and then says in a byte that it comes again
/// (RFC 7541).
const HEADS_MAX: usize = 2_097_152;
/// Bytes of one answer that are given to the connection before the client has taken them.
const SEND_BUFFER: usize = 16_384;
/// Bytes of one body, and of a connection's bodies, that a client may send before they are read.
const BODY_WINDOW: u32 = 131_072;
const CONNECTION_WINDOW: u32 = 2 * BODY_WINDOW;
/// Bytes that a request takes beside its head.
const REQUEST_MEMORY: usize = 1_024;
/// Bytes that a header's name takes: two places of a table that may be half empty, of some 200 bytes each.
const NAME_MEMORY: usize = 512;
/// Bytes that a header's value takes beside its own.
const VALUE_MEMORY: usize = 128;
/// Headers that mean a connection of HTTP/1.1, and that HTTP/2 forbids (RFC 9113, 8.2.2).
const OF_CONNECTION: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// How long a connection and its client may take, and how large a head may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Until the client has said that it speaks HTTP/2.
    pub(super) preface: Duration,
    /// Without a request.
    pub(super) idle: Duration,
    /// Until the client takes more of an answer; none: for ever.
    pub(super) unsent: Option<Duration>,
    /// Bytes of a head, each header counted with 32 more.
    pub(super) head_bytes: u32,
}

/// A connection on which HTTP/2 was agreed upon.
pub(super) struct Connection<S> {
    pub(super) service: Rc<S>,
    pub(super) data: Rc<ConnectionData>,
    pub(super) limits: Limits,
    pub(super) stopping: GracefulShutdownSignal,
}

/// The requests of a connection that are under way.
#[derive(Debug, Default)]
struct Streams {
    open: Cell<u32>,
    /// What their heads take, and of those that wait.
    heads: Cell<usize>,
    unsent: Cell<usize>,
    less: Notify,
}

impl Streams {
    fn have_room(&self) -> bool {
        self.open.get() < STREAMS_MAX && self.unsent.get() < UNSENT_MAX
    }
}

/// What the head of one request takes in memory; dropped with its answer.
struct Head {
    streams: Rc<Streams>,
    bytes: usize,
}

impl Head {
    /// That of one more request; none where they would take too much together.
    fn new(streams: &Rc<Streams>, request: &http::Request<RecvStream>) -> Option<Self> {
        let bytes = memory_of(request);
        let with = streams.heads.get() + bytes;
        // One alone is bounded by its own limits.
        if with > HEADS_MAX && with > bytes {
            return None;
        }
        streams.heads.set(with);
        Some(Head {
            streams: Rc::clone(streams),
            bytes,
        })
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.streams
            .heads
            .set(self.streams.heads.get() - self.bytes);
    }
}

/// A request that has come, and has not begun.
struct Arrived {
    request: http::Request<RecvStream>,
    respond: SendResponse<Bytes>,
    head: Head,
}

/// One request under way; dropped with its answer.
struct Open {
    streams: Rc<Streams>,
    _head: Head,
}

impl Open {
    fn new(head: Head) -> Self {
        let streams = Rc::clone(&head.streams);
        streams.open.set(streams.open.get() + 1);
        Open {
            streams,
            _head: head,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.open.set(self.streams.open.get() - 1);
        self.streams.less.notify_one();
    }
}

/// Bytes that wait for the client; dropped with those that are left.
struct Unsent<'s> {
    streams: &'s Streams,
    bytes: Bytes,
}

impl<'s> Unsent<'s> {
    fn new(streams: &'s Streams, bytes: Bytes) -> Self {
        streams.unsent.set(streams.unsent.get() + bytes.len());
        Unsent { streams, bytes }
    }

    /// The next of them, at most so many.
    fn take(&mut self, most: usize) -> Bytes {
        let taken = self.bytes.split_to(most.min(self.bytes.len()));
        self.less(taken.len());
        taken
    }

    fn less(&self, bytes: usize) {
        self.streams.unsent.set(self.streams.unsent.get() - bytes);
        self.streams.less.notify_one();
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        self.less(self.bytes.len());
    }
}

/// What a connection waits for beside its bytes.
enum Next {
    /// A request has come.
    Request(Box<(http::Request<RecvStream>, SendResponse<Bytes>)>),
    /// Fewer requests are under way, or less of their answers.
    Less,
    /// No request has come for as long as a connection may be idle.
    Idle,
    /// The server stops.
    Stopping,
    /// The connection has ended.
    End,
}

impl<S> Connection<S>
where
    S: Service<Request> + 'static,
    S::Future: 'static,
    S::Error: Into<Response<BoxBody>>,
{
    /// Answers what comes on it, until it ends.
    pub(super) async fn serve<B>(self, stream: Stream)
    where
        S::Response: Into<Response<B>>,
        B: MessageBody + 'static,
    {
        let shaken = self.builder().handshake::<_, Bytes>(stream);
        let Ok(Ok(mut connection)) = timeout(self.limits.preface, shaken).await else {
            return;
        };
        let streams = Rc::new(Streams::default());
        let mut waiting = VecDeque::new();
        let mut is_leaving = false;
        loop {
            while streams.have_room()
                && let Some(arrived) = waiting.pop_front()
            {
                self.begin(arrived);
            }
            match self.next(&mut connection, &streams, is_leaving).await {
                Next::Request(request) => {
                    // Beyond it, some of those that wait are given up by their client.
                    let has_room = waiting.len() < STREAMS_MAX as usize;
                    waiting.extend(arrived(*request, has_room, &streams));
                }
                Next::Less => {}
                Next::Idle if streams.open.get() > 0 => {}
                Next::Idle | Next::Stopping => {
                    connection.graceful_shutdown();
                    is_leaving = true;
                }
                Next::End => break,
            }
        }
        // What is under way knows the socket by its number, which is another's once this is closed.
        while streams.open.get() > 0 {
            streams.less.notified().await;
        }
    }

    fn builder(&self) -> Builder {
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(self.limits.head_bytes)
            .max_send_buffer_size(SEND_BUFFER)
            .initial_window_size(BODY_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        builder
    }

    async fn next(
        &self,
        connection: &mut h2::server::Connection<Stream, Bytes>,
        streams: &Streams,
        is_leaving: bool,
    ) -> Next {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok(begun)) => Next::Request(Box::new(begun)),
                Some(Err(_)) | None => Next::End,
            },
            () = streams.less.notified(), if !streams.have_room() => Next::Less,
            () = self.stopping.notified(), if !is_leaving => Next::Stopping,
            () = sleep(self.limits.idle), if !is_leaving => Next::Idle,
        }
    }

    /// Answers one request beside the others.
    fn begin<B>(&self, arrived: Arrived)
    where
        S::Response: Into<Response<B>>,
        B: MessageBody + 'static,
    {
        let Arrived {
            request,
            mut respond,
            head,
        } = arrived;
        let is_head = request.method() == http::Method::HEAD;
        let Some(request) = self.request(request) else {
            respond.send_reset(Reason::PROTOCOL_ERROR);
            return;
        };
        let (open, patience) = (Open::new(head), self.limits.unsent);
        let answering = self.service.call(request);
        actix_web::rt::spawn(async move {
            let answer = Answer {
                respond,
                is_head,
                patience,
                open,
            };
            match answering.await {
                Ok(response) => answer.send(response.into()).await,
                Err(error) => answer.send(error.into()).await,
            }
        });
    }

    /// The request as one of HTTP/1.1 would be; none where it could not be one.
    fn request(&self, request: http::Request<RecvStream>) -> Option<Request> {
        let (parts, body) = request.into_parts();
        let payload = match body.is_end_stream() {
            true => Payload::None,
            false => payload(body),
        };
        let mut request = Request::with_payload(payload);
        let target = parts.uri.path_and_query();
        let target = target.map_or("/", |target| target.as_str());
        let head = request.head_mut();
        head.uri = target.parse().ok()?;
        head.method = Method::from_bytes(parts.method.as_str().as_bytes()).ok()?;
        head.version = Version::HTTP_2;
        head.peer_addr = Some(self.data.peer());
        let mut cookies = Vec::new();
        for (name, value) in &parts.headers {
            if name == http::header::COOKIE {
                // A browser may send each by itself (RFC 9113, 8.2.3).
                cookies.push(value.as_bytes());
                continue;
            }
            let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
            head.headers.append(name, value_of(value.as_bytes())?);
        }
        if !cookies.is_empty() {
            let cookies = value_of(&cookies.join(&b"; "[..]))?;
            head.headers.insert(header::COOKIE, cookies);
        }
        if let Some(authority) = parts.uri.authority() {
            let host = value_of(authority.as_str().as_bytes())?;
            head.headers.insert(header::HOST, host);
        }
        request.extensions_mut().insert(Rc::clone(&self.data));
        Some(request)
    }
}

/// A request that has come, unless there is no room for it, or the heads of its connection's take too much.
fn arrived(
    (request, mut respond): (http::Request<RecvStream>, SendResponse<Bytes>),
    has_room: bool,
    streams: &Rc<Streams>,
) -> Option<Arrived> {
    let head = has_room.then(|| Head::new(streams, &request)).flatten();
    let Some(head) = head else {
        respond.send_reset(Reason::REFUSED_STREAM);
        return None;
    };
    Some(Arrived {
        request,
        respond,
        head,
    })
}

/// About what a request's head takes in memory.
fn memory_of(request: &http::Request<RecvStream>) -> usize {
    let (headers, uri) = (request.headers(), request.uri());
    let target = uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    // It becomes a header, too.
    let authority = uri
        .authority()
        .map_or(0, |authority| 2 * authority.as_str().len());
    let values = headers.values().map(|value| value.len() + VALUE_MEMORY);
    REQUEST_MEMORY
        + request.method().as_str().len()
        + target
        + authority
        + headers.keys_len() * NAME_MEMORY
        + values.sum::<usize>()
}

fn value_of(bytes: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_bytes(bytes).ok()
}

/// A body as it comes: what was given on makes room for more.
fn payload(body: RecvStream) -> Payload {
    let pieces = unfold(body, async |mut body| {
        let piece = body.data().await?;
        let piece = piece.and_then(|piece| {
            body.flow_control().release_capacity(piece.len())?;
            Ok(piece)
        });
        Some((piece.map_err(|_| PayloadError::Incomplete(None)), body))
    });
    Payload::Stream {
        payload: Box::pin(pieces),
    }
}

/// An answer on its way out.
struct Answer {
    respond: SendResponse<Bytes>,
    is_head: bool,
    patience: Option<Duration>,
    open: Open,
}

/// Why an answer is not sent to its end.
enum Cut {
    /// The client does not want it any more, or is gone.
    Left,
    /// The client takes nothing of it, or it can't be made.
    Failed,
}

impl Answer {
    async fn send<B: MessageBody>(mut self, response: Response<B>) {
        let (response, body) = response.into_parts();
        let has_none = matches!(
            response.status(),
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
        let size = body.size();
        let is_empty =
            self.is_head || has_none || matches!(size, BodySize::None | BodySize::Sized(0));
        let length = match size {
            BodySize::Sized(length) if !has_none => Some(length),
            BodySize::Sized(_) | BodySize::None | BodySize::Stream => None,
        };
        let head = head(&response, length);
        let Ok(mut stream) = self.respond.send_response(head, is_empty) else {
            return;
        };
        if is_empty {
            return;
        }
        match self.send_body(body, &mut stream).await {
            Ok(()) => drop(stream.send_data(Bytes::new(), true)),
            Err(Cut::Left) => {}
            Err(Cut::Failed) => stream.send_reset(Reason::CANCEL),
        }
    }

    async fn send_body(
        &self,
        body: impl MessageBody,
        stream: &mut SendStream<Bytes>,
    ) -> Result<(), Cut> {
        let mut body = pin!(body);
        loop {
            let piece = poll_fn(|context| match stream.poll_reset(context) {
                Poll::Ready(_) => Poll::Ready(Err(Cut::Left)),
                Poll::Pending => body.as_mut().poll_next(context).map(Ok),
            });
            match piece.await? {
                Some(Ok(piece)) => self.send_piece(piece, stream).await?,
                Some(Err(_)) => return Err(Cut::Failed),
                None => return Ok(()),
            }
        }
    }

    async fn send_piece(&self, piece: Bytes, stream: &mut SendStream<Bytes>) -> Result<(), Cut> {
        let mut unsent = Unsent::new(&self.open.streams, piece);
        while !unsent.bytes.is_empty() {
            stream.reserve_capacity(unsent.bytes.len());
            let room = poll_fn(|context| stream.poll_capacity(context));
            let room = match self.patience {
                Some(patience) => timeout(patience, room).await.map_err(|_| Cut::Failed)?,
                None => room.await,
            };
            let Some(Ok(room)) = room else {
                return Err(Cut::Left);
            };
            let sent = stream.send_data(unsent.take(room), false);
            sent.map_err(|_| Cut::Left)?;
        }
        Ok(())
    }
}

/// The head of an answer whose body has this length, where that is known.
fn head(response: &Response<()>, length: Option<u64>) -> http::Response<()> {
    let mut head = http::Response::new(());
    let status = http::StatusCode::from_u16(response.status().as_u16());
    *head.status_mut() = status.unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = head.headers_mut();
    let value = |bytes: &[u8]| http::HeaderValue::from_bytes(bytes);
    for (name, given) in response.headers() {
        let name = http::HeaderName::from_bytes(name.as_str().as_bytes());
        if let (Ok(name), Ok(value)) = (name, value(given.as_bytes()))
            && !OF_CONNECTION.contains(&name.as_str())
        {
            headers.append(name, value);
        }
    }
    if let Some(length) = length {
        headers.insert(http::header::CONTENT_LENGTH, length.into());
    }
    let now = httpdate::fmt_http_date(SystemTime::now());
    if let Ok(now) = value(now.as_bytes()) {
        headers.entry(http::header::DATE).or_insert(now);
    }
    head
}
