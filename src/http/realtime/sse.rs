//! An event stream: events as they happen, several at once where they are ready, a comment where none come. Whatever
//! goes wrong ends it: the client comes again with the last cursor.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use colloquy_actors::feed::{Cursor, Event, EventReader, ReadEnd};
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{LocalBoxStream, Stream, unfold};
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::super::edge::Edge;
use super::limits::{OpenLine, Way};
use super::standing::{End, Holder};

/// Bytes from which on what is ready goes out.
const CHUNK: usize = 16_384;
/// Keeps the line open, and shows whether anybody is there.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// What comes from a reader; nothing after an end.
pub(super) type Events = LocalBoxStream<'static, Result<Arc<Event>, ReadEnd>>;

/// A reader as a stream: whatever wakes its line, a read that is under way goes on.
pub(super) fn events(reader: EventReader) -> Events {
    unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        match reader.next().await {
            Ok(event) => Some((Ok(event), Some(reader))),
            Err(end) => Some((Err(end), None)),
        }
    })
    .boxed_local()
}

/// What a cursor counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The events of one conversation.
    Conversation,
    /// Those of an account and mode.
    Account,
}

impl Counting {
    /// A place as clients see it.
    fn cursor(self, place: u64) -> String {
        match self {
            Counting::Conversation => place.to_string(),
            Counting::Account => Cursor(place).to_string(),
        }
    }
}

/// The body of an event stream.
pub(crate) struct EventStream {
    /// Where it begins, so that a line that breaks before its first event is taken up there.
    place: Option<Bytes>,
    events: Events,
    counting: Counting,
    ended: LocalBoxFuture<'static, End>,
    heartbeat: Interval,
    over: bool,
    _open: OpenLine,
}

impl EventStream {
    pub(crate) fn new(edge: &Arc<Edge>, holder: Holder, reader: EventReader, counting: Counting) -> Self {
        let period = edge.lines.heartbeat;
        let mut heartbeat = interval_at(Instant::now() + period, period);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let place = format!("id: {}\n\n", counting.cursor(reader.cursor()));
        EventStream {
            place: Some(place.into()),
            events: events(reader),
            counting,
            ended: holder.ended(Arc::clone(edge)).boxed_local(),
            heartbeat,
            over: false,
            _open: edge.open.open(Way::Stream),
        }
    }
}

impl Stream for EventStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.over || this.ended.poll_unpin(context).is_ready() {
            this.over = true;
            return Poll::Ready(None);
        }
        if let Some(place) = this.place.take() {
            return Poll::Ready(Some(Ok(place)));
        }
        let mut out = BytesMut::new();
        while out.len() < CHUNK {
            match this.events.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(event))) => write(&mut out, this.counting, &event),
                Poll::Ready(Some(Err(_)) | None) => {
                    this.over = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if !out.is_empty() {
            this.heartbeat.reset();
            return Poll::Ready(Some(Ok(out.freeze())));
        }
        if this.over {
            return Poll::Ready(None);
        }
        this.heartbeat.poll_tick(context).map(|_| Some(Ok(COMMENT)))
    }
}

fn write(out: &mut BytesMut, counting: Counting, event: &Event) {
    let body = event.body();
    let cursor = counting.cursor(match counting {
        Counting::Conversation => event.sequence,
        Counting::Account => event.number,
    });
    out.reserve(body.len() + 80);
    for part in [b"id: ", cursor.as_bytes(), b"\nevent: ", event.happened.word().as_bytes(), b"\ndata: "] {
        out.extend_from_slice(part);
    }
    let start = out.len();
    out.extend_from_slice(&body);
    // Between the tokens of what a caller gave, JSON may break lines; inside a string it can't.
    for byte in out.iter_mut().skip(start) {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use colloquy_actors::caller::{Mode, Scope};
    use colloquy_actors::feed::{Happened, Place, SeenNow};

    use super::*;

    #[test]
    fn an_event_is_an_id_a_kind_and_one_line_of_data() {
        let place = Place { position: 7, scope: Scope::of(1, Mode::Live), number: 5, entity: 9, sequence: 3 };
        let payload = Bytes::from_static(b"{\"a\":\n\"b\\n\"}");
        let event = Event::new(place, Happened::MessageCreated, 1_000, SeenNow::default(), payload);
        let mut out = BytesMut::new();
        write(&mut out, Counting::Conversation, &event);
        let text = String::from_utf8_lossy(&out).into_owned();
        let (head, data) = text.split_once("data: ").unwrap_or_default();
        assert_eq!(head, "id: 3\nevent: message.created\n");
        assert!(data.starts_with("{\"id\":\"evt_") && data.ends_with("\"data\":{\"a\": \"b\\n\"}}\n\n"), "{data}");
        out.clear();
        write(&mut out, Counting::Account, &event);
        assert!(out.starts_with(format!("id: {}\n", Cursor(5)).as_bytes()));
    }
}
