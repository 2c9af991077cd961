//! Writes what became of deliveries: one task, one slice after the other.
//!
//! A slice is written whole or not at all. One document of `meta` says how far deliveries have
//! come: its change, from the number of the slice before to that of this one, is the moment at
//! which the slice is written, and it takes along all that the slice still has to change elsewhere.
//! Then that is changed, each document with the slice's number, so that a change that is made again
//! or comes late does no harm; then the document lets it go. After a crash whatever it still has is
//! changed first.
//!
//! One task of one process writes slices. Where another one has written meanwhile, the number is
//! not the one that was expected: nothing is written, and whoever delivers begins anew.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use mongodb::bson::{Binary, Bson, Document, deserialize_from_slice, doc, serialize_to_vec};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::ReturnDocument;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use super::codec::{DUPLICATE_KEY, binary, malformed};
use super::connection::{AGAIN, answered};
use super::delivery_logs::silence;
use super::delivery_reads::SlicePart;
use super::delivery_slices::Redo;
use super::delivery_tidying::{self, Tidying};
use super::log::LogDocument;
use super::nodes::Membership;
use super::positions;
use super::progress::Progress;
use super::relayed_requests;
use super::schema::{Collections, DELIVERIES};
use super::work::Work;
use crate::store::{CommitSink, DeliverySlice, Later, ReadError, Unwritten, Written};
use colloquy_model::commit::Commit;
use colloquy_model::position::Position;

/// The `_id` of the document that says how far deliveries have come.
pub(super) const MARK: &str = "deliveries";

/// Requests to the task that writes deliveries.
enum DeliveryWork {
    Deliver {
        slice: Box<DeliverySlice>,
        reply: oneshot::Sender<Result<Written, Unwritten>>,
    },
    Begin {
        reply: oneshot::Sender<Result<Position, ReadError>>,
    },
    Close {
        done: SyncSender<()>,
    },
}

/// Why a slice is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Nothing is written; it may be later.
    NotNow,
    /// It can never be written: the server refuses its content.
    Never,
    /// Another node writes them, or has meanwhile.
    Elsewhere,
    /// The store closes.
    Closed,
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unreadable => Stop::Never,
            ReadError::TooSlow
            | ReadError::Busy
            | ReadError::Away
            | ReadError::NoCursor(_)
            | ReadError::Expired => Stop::NotNow,
        }
    }
}

/// What became of a slice whose answer did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Written,
    /// It is not written, and can't be any more.
    Lost,
    /// Another one has written.
    Overtaken,
}

/// How far a slice brings deliveries, as fields of the mark.
fn marks(slice: &DeliverySlice) -> Document {
    let mut marks = Document::new();
    if let Some(matched) = slice.matched {
        marks.insert("matched", matched.position.0);
        marks.insert("within", super::codec::int(matched.within));
    }
    if let Some(last) = slice.new.last() {
        marks.insert("last_delivery", last.number);
    }
    marks
}

/// Hands slices to the task that writes them.
#[derive(Clone)]
pub(super) struct Deliveries {
    works: UnboundedSender<DeliveryWork>,
    /// Ends what waits while the server is away.
    closing: watch::Sender<bool>,
}

impl Deliveries {
    /// Has a slice written, behind those that were handed in before.
    pub(super) fn deliver(&self, slice: Box<DeliverySlice>) -> Later<Result<Written, Unwritten>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is closed.
        let _ = self.works.send(DeliveryWork::Deliver { slice, reply });
        Box::pin(async move { answer.await.unwrap_or(Err(Unwritten::Closed)) })
    }

    /// Lets go what is left of endpoints that are no more, behind all slices that were handed in.
    pub(super) fn begin(&self) -> Later<Result<Position, ReadError>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away.
        let _ = self.works.send(DeliveryWork::Begin { reply });
        Box::pin(async move { answer.await.unwrap_or(Err(ReadError::Away)) })
    }

    /// Waits until all that was handed in is written, or that is known to wait for the server.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
        let (done, closed) = sync_channel(1);
        if self.works.send(DeliveryWork::Close { done }).is_ok() {
            // An error means that the task is gone already.
            let _ = closed.recv();
        }
    }
}

/// What the task works with.
pub(super) struct DeliveryParts {
    pub(super) collections: Collections,
    /// The writer's, which keeps answers.
    pub(super) inbox: UnboundedSender<Work>,
    pub(super) sink: Arc<dyn CommitSink>,
    pub(super) progress: Arc<Progress>,
    pub(super) membership: Arc<Membership>,
}

/// The task.
pub(super) struct Deliverer {
    collections: Collections,
    works: UnboundedReceiver<DeliveryWork>,
    inbox: UnboundedSender<Work>,
    sink: Arc<dyn CommitSink>,
    progress: Arc<Progress>,
    membership: Arc<Membership>,
    /// True when the store closes.
    closing: watch::Receiver<bool>,
    /// The number of the last slice; none where that is not known.
    standing: Option<i64>,
    tidying: Tidying,
}

impl Deliverer {
    /// The task, and what it is asked through.
    pub(super) fn beside(parts: DeliveryParts) -> (Deliveries, Self) {
        let (works, asked) = unbounded_channel();
        let (closing, is_closing) = watch::channel(false);
        let DeliveryParts {
            collections,
            inbox,
            sink,
            progress,
            membership,
        } = parts;
        let deliverer = Deliverer {
            collections,
            works: asked,
            inbox,
            sink,
            progress,
            closing: is_closing,
            standing: None,
            membership,
            tidying: Tidying::default(),
        };
        (Deliveries { works, closing }, deliverer)
    }

    /// Runs until the store closes.
    pub(super) async fn run(mut self) {
        while let Some(work) = self.works.recv().await {
            match work {
                DeliveryWork::Deliver { slice, reply } => {
                    // Whoever asked may have left; what was asked is done.
                    let _ = reply.send(self.deliver(slice).await);
                }
                DeliveryWork::Begin { reply } => {
                    let _ = reply.send(self.begin().await.map_err(|_| ReadError::Away));
                }
                DeliveryWork::Close { done } => {
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    async fn deliver(&mut self, mut slice: Box<DeliverySlice>) -> Result<Written, Unwritten> {
        if !self.membership.leads() {
            self.standing = None;
            return Err(Unwritten::Elsewhere);
        }
        let written = self.write(&slice).await;
        let answers = std::mem::take(&mut slice.answers);
        let written = match written {
            Ok(redo) => self.finish(&redo, answers).await,
            Err(Stop::NotNow) => {
                slice.answers = answers;
                return Err(Unwritten::NotNow(slice));
            }
            Err(stop) => Err(stop),
        };
        let tidied = match written {
            Ok(()) => self.tidy(&slice).await,
            Err(stop) => Err(stop),
        };
        match tidied {
            Ok(left) => Ok(Written { left }),
            // The slice itself is written.
            Err(Stop::NotNow) => Ok(Written { left: true }),
            Err(Stop::Never) => Err(Unwritten::Never),
            Err(Stop::Elsewhere) => Err(Unwritten::Elsewhere),
            Err(Stop::Closed) => Err(Unwritten::Closed),
        }
    }

    /// Writes a slice; gives what is still to be changed for it.
    async fn write(&mut self, slice: &DeliverySlice) -> Result<Redo, Stop> {
        let (parts, last) = SlicePart::of(slice);
        for part in parts {
            let number = self.stand().await?;
            let redo = part.redo(&self.collections, number + 1).await?;
            self.commit(&redo, Document::new()).await?;
            self.finish(&redo, Vec::new()).await?;
        }
        let number = self.stand().await?;
        let redo = last.redo(&self.collections, number + 1).await?;
        self.commit(&redo, marks(slice)).await?;
        Ok(redo)
    }

    async fn tidy(&mut self, slice: &DeliverySlice) -> Result<bool, Stop> {
        let number = self.stand().await?;
        let tidied = self
            .tidying
            .next(&self.collections, number + 1, slice.keep_from);
        let (redo, tidying, left) = tidied.await?;
        if !redo.is_empty() {
            self.commit(&redo, Document::new()).await?;
            self.finish(&redo, Vec::new()).await?;
        }
        self.tidying = tidying;
        Ok(left)
    }

    /// Waits until this node leads, then lets go what is left of endpoints that are no more.
    async fn begin(&mut self) -> Result<Position, Stop> {
        tokio::select! {
            () = self.membership.lead() => {}
            _ = self.closing.wait_for(|closing| *closing) => return Err(Stop::Closed),
        }
        // Another node may have written meanwhile.
        self.standing = None;
        relayed_requests::forget_taken(&self.collections)
            .await
            .map_err(|error| {
                tracing::warn!(%error, "deliveries wait for MongoDB");
                Stop::NotNow
            })?;
        let number = self.stand().await?;
        let position = self.membership.followed();
        let redo = delivery_tidying::forget_gone(&self.collections, number + 1).await?;
        if !redo.is_empty() {
            self.commit(&redo, Document::new()).await?;
            self.finish(&redo, Vec::new()).await?;
        }
        Ok(position)
    }

    /// The number of the last slice, all of which is written.
    async fn stand(&mut self) -> Result<i64, Stop> {
        if let Some(number) = self.standing {
            return Ok(number);
        }
        let number = recover(&self.collections).await.map_err(|error| {
            tracing::warn!(%error, "deliveries wait for MongoDB");
            Stop::NotNow
        })?;
        self.standing = Some(number);
        Ok(number)
    }

    /// The moment at which a slice is written.
    async fn commit(&mut self, redo: &Redo, marks: Document) -> Result<(), Stop> {
        let before = self.stand().await?;
        let mut set = marks;
        let token = token();
        set.extend(doc! {"slice": before + 1, "token": &token});
        if !redo.is_empty() {
            let bytes = serialize_to_vec(redo).map_err(|error| {
                tracing::error!(%error, "what became of deliveries can't be written");
                Stop::Never
            })?;
            set.insert("redo", binary(&bytes));
        }
        let filter = doc! {"_id": MARK, "slice": before};
        let update = self.collections.meta.update_one(filter, doc! {"$set": set});
        let fate = match answered(update.into_future()).await {
            Ok(updated) if updated.matched_count == 1 => Fate::Written,
            Err(error) if is_refused(&error) => {
                tracing::error!(%error, "what became of deliveries can't be written");
                return Err(Stop::Never);
            }
            said => {
                if let Err(error) = said {
                    tracing::warn!(%error, "MongoDB does not say whether deliveries are written");
                }
                self.decided(before, &token).await?
            }
        };
        match fate {
            Fate::Written => {
                self.standing = Some(before + 1);
                Ok(())
            }
            Fate::Lost => {
                self.standing = Some(before + 1);
                Err(Stop::NotNow)
            }
            Fate::Overtaken => {
                self.standing = None;
                Err(Stop::Elsewhere)
            }
        }
    }

    /// What became of a slice, however long the server is away.
    async fn decided(&self, before: i64, slice: &Binary) -> Result<Fate, Stop> {
        let void = token();
        loop {
            match decide(&self.collections, before, slice, &void).await {
                Ok(fate) => return Ok(fate),
                Err(error) => self.pause(&error).await?,
            }
        }
    }

    /// Changes all that a slice that is written has to change, however long the server is away.
    async fn finish(&self, redo: &Redo, answers: Vec<Commit>) -> Result<(), Stop> {
        if redo.is_empty() {
            return Ok(());
        }
        // The slice was written at this number a moment ago.
        let number = self.standing.ok_or(Stop::Elsewhere)?;
        let mut answers = Some(answers);
        loop {
            let done = async {
                change(&self.collections, redo).await?;
                for answer in answers.take().into_iter().flatten() {
                    self.keep(answer).await;
                }
                let sink = Some(&*self.sink);
                keep(&self.collections, &redo.answers, sink).await?;
                let_go(&self.collections, number).await
            };
            match done.await {
                Ok(()) => return Ok(()),
                Err(error) => self.pause(&error).await?,
            }
        }
    }

    /// Has the writer keep an answer. Where it can't, the answer is kept without it.
    async fn keep(&self, answer: Commit) {
        let (settled, kept) = oneshot::channel();
        let work = Work::Answer {
            commit: Box::new(answer),
            settle: Box::new(move |kept| {
                // Whoever waits for it does not leave.
                let _ = settled.send(kept);
            }),
        };
        let counters = &self.progress.counters;
        counters.sending();
        match self.inbox.send(work) {
            Ok(()) => drop(kept.await),
            Err(_) => counters.finished(1),
        }
    }

    async fn pause(&self, error: &Error) -> Result<(), Stop> {
        if *self.closing.borrow() {
            tracing::error!(
                "the server ends while MongoDB does not answer: what became of the last \
                 deliveries is decided at the next start"
            );
            return Err(Stop::Closed);
        }
        tracing::warn!(%error, "deliveries wait for MongoDB");
        tokio::time::sleep(AGAIN).await;
        Ok(())
    }
}

/// A number by which a slice is known again.
fn token() -> Binary {
    let mut token = [0; 12];
    colloquy_model::random::fill(&mut token);
    binary(&token)
}

/// Whether the server has taken offence at what it was asked, and will again.
fn is_refused(error: &Error) -> bool {
    matches!(
        error.kind.as_ref(),
        ErrorKind::Write(WriteFailure::WriteError(_))
            | ErrorKind::BsonSerialization(_)
            | ErrorKind::InvalidArgument { .. }
    )
}

/// What became of a slice: its number is taken, so that it can't be written any more, or it is.
async fn decide(
    collections: &Collections,
    before: i64,
    slice: &Binary,
    void: &Binary,
) -> Result<Fate, Error> {
    let taken = doc! {"$set": {"slice": before + 1, "token": void}};
    let filter = doc! {"_id": MARK, "slice": before};
    let update = collections.meta.update_one(filter, taken);
    if answered(update.into_future()).await?.matched_count == 1 {
        return Ok(Fate::Lost);
    }
    let mark = collections.meta.find_one(doc! {"_id": MARK});
    let mark = answered(mark.into_future()).await?.unwrap_or_default();
    let has = |token: &Binary| mark.get("token") == Some(&Bson::Binary(token.clone()));
    Ok(if has(slice) {
        Fate::Written
    } else if has(void) {
        Fate::Lost
    } else {
        Fate::Overtaken
    })
}

/// The document that says how far deliveries have come; makes it at the first start.
pub(super) async fn mark(collections: &Collections) -> Result<Document, Error> {
    let begin = doc! {"slice": 0_i64, "matched": 0_i64, "within": 0_i64, "last_delivery": 0_i64};
    let update = collections
        .meta
        .find_one_and_update(doc! {"_id": MARK}, doc! {"$setOnInsert": begin})
        .upsert(true)
        .return_document(ReturnDocument::After);
    let mark = answered(update.into_future()).await?;
    mark.ok_or_else(|| malformed("the database does not say how far deliveries have come"))
}

/// Changes what the last slice still has to change; gives its number.
///
/// # Errors
/// The server does not answer, or what is to be changed can't be read.
pub(super) async fn recover(collections: &Collections) -> Result<i64, Error> {
    let mark = mark(collections).await?;
    let number = mark.get_i64("slice").map_err(malformed)?;
    if let Ok(redo) = mark.get_binary_generic("redo") {
        let redo: Redo = deserialize_from_slice(redo).map_err(malformed)?;
        change(collections, &redo).await?;
        keep(collections, &redo.answers, None).await?;
        let_go(collections, number).await?;
    }
    Ok(number)
}

async fn change(collections: &Collections, redo: &Redo) -> Result<(), Error> {
    insert(collections, &redo.new).await?;
    redo.statements.run(&collections.database).await?;
    silence(collections, &redo.said).await
}

/// Inserts new deliveries, but for those that are there.
async fn insert(collections: &Collections, new: &[Document]) -> Result<(), Error> {
    if new.is_empty() {
        return Ok(());
    }
    let deliveries = collections.database.collection::<Document>(DELIVERIES);
    let inserted = deliveries.insert_many(new).ordered(false);
    match answered(inserted.into_future()).await {
        Ok(_) => Ok(()),
        Err(error) if are_there(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether all that was not inserted is there already.
pub(super) fn are_there(error: &Error) -> bool {
    let ErrorKind::InsertMany(failure) = error.kind.as_ref() else {
        return false;
    };
    let refused = failure.write_errors.as_deref().unwrap_or_default();
    failure.write_concern_error.is_none()
        && !refused.is_empty()
        && refused.iter().all(|error| error.code == DUPLICATE_KEY)
}

/// The last slice, which has this number, has nothing to change any more. Where another node has
/// written one since, what that has to change stays.
async fn let_go(collections: &Collections, number: i64) -> Result<(), Error> {
    let done = doc! {"$unset": {"redo": ""}};
    let filter = doc! {"_id": MARK, "slice": number};
    let update = collections.meta.update_one(filter, done);
    answered(update.into_future()).await.map(|_| ())
}

/// Keeps those of these answers whose keys have none.
async fn keep(
    collections: &Collections,
    answers: &[LogDocument],
    sink: Option<&dyn CommitSink>,
) -> Result<(), Error> {
    for answer in answers {
        let Some(key) = &answer.key else {
            continue;
        };
        let kept = collections.log.find_one(doc! {"key": key});
        if answered(kept.into_future()).await?.is_some() {
            continue;
        }
        let first = positions::reserve(collections, answer.positions()).await?;
        let mut answer = answer.clone();
        // No writer's: it is told like another node's.
        answer.stand_at(first);
        answered(collections.log.insert_one(&answer).into_future()).await?;
        if let (Some(sink), Ok(key)) = (sink, key.bytes.as_slice().try_into()) {
            sink.keys().note_recovered(&key, first);
        }
    }
    Ok(())
}
