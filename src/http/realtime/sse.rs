//! An event stream: events as they happen, several at once where they are ready, a comment where
//! none come. Whatever goes wrong ends it: the client comes again with the last cursor.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use colloquy_actors::feed::{Cursor, EventReader, ReadEnd};
use colloquy_model::event::Event;
use colloquy_model::stream::StreamOffset;
use futures_util::StreamExt;
use futures_util::stream::{LocalBoxStream, Stream, unfold};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::super::idle::InUse;
use super::super::slices::Backpressure;
use super::access_watch::AccessWatch;
use super::limits::LiveConnection;
use super::narrowing::{Narrowing, Verdict};

/// Bytes from which on what is ready goes out.
const CHUNK: usize = 16_384;
/// How often it is looked whether the client is still there: streams are few, and one that is gone
/// takes the place of another.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Keeps the connection open, and shows whether anybody is there.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// What comes from a reader; nothing after an end.
pub(super) type Events = LocalBoxStream<'static, Result<Arc<Event>, ReadEnd>>;

/// A reader as a stream: whatever wakes its connection, a read that is under way goes on.
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

/// What the offsets in a stream's cursors count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorKind {
    /// The events of one conversation.
    Conversation,
    /// The events of an account and mode.
    Account,
}

impl CursorKind {
    /// The cursor that clients are shown for this offset.
    fn cursor(self, offset: StreamOffset) -> String {
        match self {
            CursorKind::Conversation => offset.to_string(),
            CursorKind::Account => Cursor(offset).to_string(),
        }
    }
}

/// An event stream that is about to begin.
pub(crate) struct StreamOpening {
    pub(crate) access: AccessWatch,
    pub(crate) open: LiveConnection,
    pub(crate) reader: EventReader,
    pub(crate) narrowing: Narrowing,
    pub(crate) cursor_kind: CursorKind,
    pub(crate) connection: Option<InUse>,
    pub(crate) heartbeat: Duration,
}

/// The body of an event stream.
pub(crate) struct EventStream {
    /// Where it begins, so that a stream that breaks before its first event is taken up there.
    place: Option<Bytes>,
    events: Events,
    narrowing: Narrowing,
    cursor_kind: CursorKind,
    access: AccessWatch,
    heartbeat: Interval,
    looking: Interval,
    connection: Option<InUse>,
    backpressure: Backpressure,
    over: bool,
    _open: LiveConnection,
}

impl EventStream {
    pub(crate) fn new(beginning: StreamOpening) -> Self {
        let StreamOpening {
            access,
            open,
            reader,
            narrowing,
            cursor_kind,
            connection,
            heartbeat,
        } = beginning;
        let place = format!("id: {}\n\n", cursor_kind.cursor(reader.cursor()));
        EventStream {
            place: Some(place.into()),
            events: events(reader),
            narrowing,
            cursor_kind,
            access,
            heartbeat: every(heartbeat),
            looking: every(LOOK_EVERY),
            connection,
            backpressure: Backpressure::of(open.owner()),
            over: false,
            _open: open,
        }
    }

    /// Whether nobody may be told anything any more, or nobody is there.
    fn ends(&mut self, context: &mut Context<'_>) -> bool {
        while self.looking.poll_tick(context).is_ready() {
            self.over |= self
                .connection
                .as_ref()
                .is_some_and(|connection| connection.socket().is_closed());
        }
        self.over |= self.access.poll_end(context).is_ready();
        self.over
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl Stream for EventStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.over || this.ends(context) {
            return Poll::Ready(None);
        }
        if let Some(place) = this.place.take() {
            return Poll::Ready(Some(Ok(place)));
        }
        ready!(this.backpressure.poll_ready(context));
        let mut out = BytesMut::new();
        while out.len() < CHUNK {
            match this.events.poll_next_unpin(context) {
                // What has come was committed before this look: nothing is shown that came after a
                // right was gone.
                Poll::Ready(Some(Ok(event))) if this.access.holds() => {
                    match this.narrowing.judge(&event) {
                        Verdict::Shown => write(&mut out, this.cursor_kind, &event),
                        Verdict::Hidden => {}
                        Verdict::Taken => {
                            this.over = true;
                            break;
                        }
                    }
                }
                Poll::Ready(_) => {
                    this.over = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if !out.is_empty() {
            this.heartbeat.reset();
            this.backpressure.produced(out.len());
            return Poll::Ready(Some(Ok(out.freeze())));
        }
        if this.over {
            return Poll::Ready(None);
        }
        this.heartbeat.poll_tick(context).map(|_| Some(Ok(COMMENT)))
    }
}

fn write(out: &mut BytesMut, cursor_kind: CursorKind, event: &Event) {
    let body = event.body();
    let cursor = cursor_kind.cursor(match cursor_kind {
        CursorKind::Conversation => event.sequence.into(),
        CursorKind::Account => event.number.into(),
    });
    out.reserve(body.len() + 80);
    for part in [
        b"id: ",
        cursor.as_bytes(),
        b"\nevent: ",
        event.kind.word().as_bytes(),
        b"\ndata: ",
    ] {
        out.extend_from_slice(part);
    }
    let start = out.len();
    out.extend_from_slice(&body);
    // Between the tokens of what a caller gave, JSON may break lines; inside a string it can't.
    for byte in out.get_mut(start..).unwrap_or_default() {
        // Written in any case, which is done to many at once.
        *byte = match *byte {
            b'\n' | b'\r' => b' ',
            other => other,
        };
    }
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use colloquy_model::caller::{Mode, Tenant};
    use colloquy_model::event::{EventRow, SeenNow};
    use colloquy_model::event_kind::EventKind;

    use super::*;
    use colloquy_model::entity_number::EntityNumber;
    use colloquy_model::position::Position;
    use colloquy_model::sequence::Sequence;
    use colloquy_model::stream::FeedNumber;
    use colloquy_model::time::Timestamp;

    #[test]
    fn an_event_is_an_id_a_kind_and_one_line_of_data() {
        let row = EventRow {
            position: Position(7),
            tenant: Tenant::of(1, Mode::Live),
            number: FeedNumber(5),
            entity: EntityNumber(9),
            sequence: Sequence(3),
            kind: EventKind::MessageCreated,
            at: Timestamp(1_000),
            credential: None,
            text_bytes: 0,
        };
        let payload = Bytes::from_static(b"{\"a\":\n\"b\\n\"}");
        let event = Event::new(row, SeenNow::default(), payload);
        let mut out = BytesMut::new();
        write(&mut out, CursorKind::Conversation, &event);
        let text = String::from_utf8_lossy(&out).into_owned();
        let (head, data) = text.split_once("data: ").unwrap_or_default();
        assert_eq!(head, "id: 3\nevent: message.created\n");
        assert!(
            data.starts_with("{\"id\":\"evt_") && data.ends_with("\"data\":{\"a\": \"b\\n\"}}\n\n"),
            "{data}"
        );
        out.clear();
        write(&mut out, CursorKind::Account, &event);
        assert!(out.starts_with(format!("id: {}\n", Cursor(StreamOffset(5))).as_bytes()));
    }
}
