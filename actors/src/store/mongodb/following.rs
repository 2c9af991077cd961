//! Brings what is committed to the sink, in the order of positions: what this node's writer hands
//! over, and between it what other nodes have written into the log.
//!
//! Positions are reserved before they are written, so that some come late. Nothing behind one that
//! is missing is told before it is there, or is taken by a document that says nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mongodb::bson::{self, Document, doc};
use mongodb::error::{Error, Result};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{Notify, watch};

use super::carrying::Carry;
use super::connection::{AGAIN, answered};
use super::event_rows::PlacedRow;
use super::gaps::take_gaps;
use super::header::HeaderDocument;
use super::log::{LogDocument, NO_EVENT};
use super::nodes::Membership;
use super::positions::number_of;
use super::schema::{Collections, LOG};
use super::veil::Veil;
use super::work::Landed;
use super::writer::Writer;
use crate::store::{
    CommitSink, CommittedBatch, FirstRow, Followed, FollowedChange, ReadError, StoredRecord,
};
use colloquy_model::damage::Unreadable;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// How often the log is looked at for what other nodes write.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The same, where no other node is known.
const LOOK_ALONE: Duration = Duration::from_secs(1);
/// How long a position may be missing before it is taken: whoever reserved it has given up by then,
/// or has ended.
const MISSING_MAX: Duration = Duration::from_secs(6);
/// Documents that are read at once.
pub(super) const AT_ONCE: i64 = 500;

/// The task that tells the sink what is committed, in the order of positions.
pub(super) struct LogFollower {
    collections: Collections,
    sink: Arc<dyn CommitSink>,
    membership: Arc<Membership>,
    landed: UnboundedReceiver<Landed>,
    /// Where documents of others go whose messages may have to be carried over.
    carry: UnboundedSender<Carry>,
    /// Told when a message is redacted: whoever did it may not get to erasing its text.
    redacted: Arc<Notify>,
    /// Up to which position the sink was told.
    followed: watch::Sender<Position>,
    waiting: BTreeMap<Position, Landed>,
    /// Since when the next position is missing.
    missing: Option<Instant>,
}

/// What stands in the log, as it is read.
enum Found {
    Written(Box<LogDocument>),
    /// Positions that hold nothing, or nothing that can be read.
    Nothing {
        first: Position,
        last: Position,
    },
}

impl LogFollower {
    /// The task beside this writer: `landed` is what the writer settles, `followed` how far the sink
    /// was told.
    pub(super) fn beside(
        writer: &Writer,
        landed: UnboundedReceiver<Landed>,
        followed: watch::Sender<Position>,
    ) -> Self {
        LogFollower {
            collections: writer.collections.clone(),
            sink: Arc::clone(&writer.sink),
            membership: Arc::clone(&writer.membership),
            landed,
            carry: writer.behind.clone(),
            redacted: Arc::clone(&writer.redacted),
            followed,
            waiting: BTreeMap::new(),
            missing: None,
        }
    }

    /// Runs until the writer is gone and all of it is told.
    pub(super) async fn run(mut self) {
        let mut look_at = Instant::now();
        loop {
            let until = look_at.saturating_duration_since(Instant::now());
            tokio::select! {
                landed = self.landed.recv() => match landed {
                    Some(landed) => self.take(landed),
                    None => return,
                },
                () = tokio::time::sleep(until) => {}
            }
            while let Ok(landed) = self.landed.try_recv() {
                self.take(landed);
            }
            self.tell_own();
            if self.waiting.is_empty() && Instant::now() < look_at {
                continue;
            }
            match self.look().await {
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "what other nodes write waits for MongoDB"),
            }
            look_at = Instant::now() + self.patience();
        }
    }

    fn take(&mut self, landed: Landed) {
        self.waiting.insert(landed.first, landed);
    }

    fn patience(&self) -> Duration {
        if !self.waiting.is_empty() {
            AGAIN / 10
        } else if self.membership.has_peers() || self.membership.awaited(self.position()).is_some()
        {
            LOOK_EVERY
        } else {
            LOOK_ALONE
        }
    }

    fn position(&self) -> Position {
        *self.followed.borrow()
    }

    /// Tells what this node has written and nothing is missing before.
    fn tell_own(&mut self) {
        while let Some(first) = self.waiting.first_entry()
            && *first.key() <= self.followed.borrow().next()
        {
            let landed = first.remove();
            self.missing = None;
            let changes_views = !landed.replies_everywhere.is_empty();
            self.sink.committed(CommittedBatch {
                commits: landed.commits,
                position: landed.last.max(self.position()),
            });
            self.reached(landed.last);
            if landed.redacts {
                self.redacted.notify_one();
            }
            // Nothing of others is missing up to there either.
            let _ = self
                .carry
                .send(Carry::OfOthers(Vec::new(), self.position()));
            for settle in landed.replies {
                settle(Ok(()));
            }
            if changes_views {
                let membership = Arc::clone(&self.membership);
                let (replies, last) = (landed.replies_everywhere, landed.last);
                tokio::spawn(async move {
                    if membership.may_have_peers() {
                        membership.taken_in_everywhere(last).await;
                    }
                    for settle in replies {
                        settle(Ok(()));
                    }
                });
            }
        }
    }

    fn reached(&self, position: Position) {
        self.followed.send_if_modified(|followed| {
            let moves = *followed < position;
            *followed = position.max(*followed);
            moves
        });
    }

    /// Reads what stands in the log behind what was told, and tells it as far as nothing is
    /// missing.
    async fn look(&mut self) -> std::result::Result<(), ReadError> {
        loop {
            let from = self.position();
            let found = behind(&self.collections, from).await;
            let found = found.map_err(|error| super::codec::failed(&error))?;
            let is_full = i64::try_from(found.len()).unwrap_or(i64::MAX) >= AT_ONCE;
            let first_found = found.first().map(Found::position);
            self.tell(found).await?;
            self.tell_own();
            if self.position() == from {
                return self.look_at_missing(first_found).await;
            }
            if !is_full {
                return Ok(());
            }
        }
    }

    /// Takes positions that are missing for too long, up to what stands behind them or is waited
    /// for.
    async fn look_at_missing(
        &mut self,
        found: Option<Position>,
    ) -> std::result::Result<(), ReadError> {
        let own = self.waiting.first_key_value().map(|(first, _)| *first);
        let from = self.position();
        let awaited = self.membership.awaited(from);
        let end = awaited.map(|awaited| awaited.position.next());
        let Some(present) = found.or(own).or(end) else {
            self.missing = None;
            return Ok(());
        };
        let since = *self.missing.get_or_insert_with(Instant::now);
        let is_lost =
            awaited.is_some_and(|awaited| awaited.at_once && present <= awaited.position.next());
        if (since.elapsed() < MISSING_MAX && !is_lost) || present <= from.next() {
            return Ok(());
        }
        let to = present.previous();
        tracing::warn!(from = %from.next().0, to = %to.0, "positions that nobody wrote are taken");
        take_gaps(&self.collections, &[], from, to)
            .await
            .map(|_| ())
            .map_err(|error| super::codec::failed(&error))
    }

    /// Tells documents that follow one another without a gap.
    async fn tell(&mut self, found: Vec<Found>) -> std::result::Result<(), ReadError> {
        let mut told = Vec::new();
        let mut to = self.position();
        for found in found {
            if found.position() > to.next() {
                break;
            }
            match found {
                Found::Nothing { last, .. } => to = to.max(last),
                Found::Written(document) => {
                    if document.node == self.membership.number() {
                        // Its writer tells it when it is carried over.
                        break;
                    }
                    to = to.max(document.last_position());
                    told.push(*document);
                }
            }
        }
        if to == self.position() {
            return Ok(());
        }
        self.missing = None;
        let veil = Veil::over(&self.collections, &told).await?;
        let followed = told.iter().filter_map(|document| {
            // What can't be read was told where it was found; others are not held up by it.
            followed(document, &veil).ok()
        });
        let changes_views = told.iter().any(LogDocument::changes_views);
        self.sink.followed(followed.collect(), to);
        self.reached(to);
        if changes_views {
            self.membership.renew.notify_one();
        }
        if told.iter().any(|document| document.redacts.is_some()) {
            self.redacted.notify_one();
        }
        // Ends with the store.
        let _ = self.carry.send(Carry::OfOthers(told, to));
        Ok(())
    }
}

impl Found {
    /// What a document of the log is. One that can't be read is told, and stands in nobody's way:
    /// its entity can't be loaded, all others can.
    fn read(document: Document) -> Result<Self> {
        let position = Position(document.get_i64("position").map_err(Error::custom)?);
        let Ok(rows) = document.get_array("rows").map(Vec::len) else {
            return Ok(Found::Nothing {
                first: position,
                last: position,
            });
        };
        Ok(match bson::deserialize_from_document(document) {
            Ok(written) => Found::Written(Box::new(written)),
            Err(error) => {
                super::codec::damaged(&format!("the document of the log at {}", position.0), error);
                let rows = i64::try_from(rows).unwrap_or(i64::MAX);
                Found::Nothing {
                    first: position,
                    last: Position(position.0.saturating_add(rows.max(1) - 1)),
                }
            }
        })
    }

    fn position(&self) -> Position {
        match self {
            Found::Written(document) => Position(document.position),
            Found::Nothing { first, .. } => *first,
        }
    }

    fn last_position(&self) -> Position {
        match self {
            Found::Written(document) => document.last_position(),
            Found::Nothing { last, .. } => *last,
        }
    }
}

/// The position up to which everything that anybody was told of is decided, as of now: an answer
/// leaves when nothing is missing before it.
pub(super) async fn decided(
    collections: &Collections,
    membership: &Membership,
) -> std::result::Result<Position, ReadError> {
    let mut decided = membership.followed();
    if !membership.had_peers() {
        return Ok(decided);
    }
    loop {
        let from = decided;
        let found = behind(collections, from).await;
        for found in found.map_err(|error| super::codec::failed(&error))? {
            if found.position() > decided.next() {
                return Ok(decided);
            }
            decided = decided.max(found.last_position());
        }
        if decided == from {
            return Ok(decided);
        }
    }
}

/// Waits until this node has taken in all that is acknowledged by now.
pub(super) async fn catch_up(
    collections: &Collections,
    membership: &Membership,
) -> std::result::Result<(), ReadError> {
    let decided = decided(collections, membership).await?;
    let mut followed = membership.known.followed.clone();
    let reached = followed.wait_for(|followed| *followed >= decided).await;
    reached.map(|_| ()).map_err(|_| ReadError::Away)
}

/// The next documents of the log behind a position.
async fn behind(collections: &Collections, position: Position) -> Result<Vec<Found>> {
    let log = collections.database.collection::<Document>(LOG);
    let found = async {
        let found = log.find(doc! {"position": {"$gt": position.0}});
        let mut cursor = found.sort(doc! {"position": 1}).limit(AT_ONCE).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            let document = cursor.deserialize_current()?;
            found.push(Found::read(document)?);
        }
        Ok(found)
    };
    answered(found).await
}

/// A document of another node as the sink takes it.
fn followed(document: &LogDocument, veil: &Veil) -> std::result::Result<Followed, Unreadable> {
    let subject = document.subject().ok_or_else(|| {
        super::codec::damaged(
            "a document of the log",
            "the code of its kind stands for nothing",
        )
    })?;
    let is_public = subject.kind.is_public();
    let rows = document.placed_rows();
    let rows = rows.filter(|(.., row)| is_public && row.kind != NO_EVENT);
    let events = rows.map(|(position, sequence, row)| {
        let row = PlacedRow {
            document,
            position,
            sequence,
            row,
        };
        row.event(veil).map_err(|_| Unreadable)
    });
    let first = Position(document.position);
    Ok(Followed {
        subject,
        tenant: document.tenant(),
        sequence: document.last_sequence(),
        first: FirstRow {
            position: first,
            number: number_of(subject.kind, first),
        },
        events: events.collect::<std::result::Result<_, _>>()?,
        renamed: document.renamed.clone(),
        redacts: document.redacts.is_some(),
        leaves_chore: document.chore.is_some(),
        change: change(document),
    })
}

fn change(document: &LogDocument) -> FollowedChange {
    let Some(subject) = document.subject() else {
        return FollowedChange::None;
    };
    match &document.header {
        Some(HeaderDocument::Record { name, body, .. }) => FollowedChange::Record(StoredRecord {
            subject,
            tenant: document.tenant(),
            sequence: Sequence(document.last_sequence().0),
            name: name.as_str().into(),
            body: body.clone(),
        }),
        Some(HeaderDocument::RecordGone) => FollowedChange::RecordGone,
        // Of what is erased as a record nothing is held in memory.
        Some(
            HeaderDocument::RecordErased
            | HeaderDocument::ConversationGone { .. }
            | HeaderDocument::DocumentGone { .. },
        ) => FollowedChange::Erased,
        Some(HeaderDocument::Conversation { after, .. }) => {
            after.snoozed_until.map_or(FollowedChange::None, |until| {
                FollowedChange::Snoozed(Timestamp(until))
            })
        }
        Some(HeaderDocument::Document(_) | HeaderDocument::LinkUsed { .. }) | None => {
            FollowedChange::None
        }
    }
}
