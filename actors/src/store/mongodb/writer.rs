//! The one task that commits. It takes what has gathered, reserves positions for it, inserts it in
//! one request, carries over what lists show of it, hands it to the sink, and only then lets the
//! replies go.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use mongodb::bson::{self, Document, doc};
use mongodb::error::{Error, ErrorKind};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::carrying::Carry;
use super::codec::{Met, met};
use super::connection::{AGAIN, answered};
use super::counters::{CounterMoves, CountersMoved};
use super::gaps::void;
use super::header::HeaderDocument;
use super::header_carrying::{carry_over_conditioned, carry_over_headers, erase_again};
use super::intents::Admitted;
use super::log::{ChoreDocument, LogDocument};
use super::nodes::Membership;
use super::positions::number_of;
use super::progress::Progress;
use super::schema::{CHORES, Collections};
use super::work::{Insert, Landed, PendingCommit, Reloading, Round, Work};
use super::{loads, positions};
use crate::store::digest::PayloadDigests;
use crate::store::{CommitSink, Committed, FirstRow};
use colloquy_model::commit::{Chore, ConstraintViolation};
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;
use colloquy_runtime::{CommitFailure, Incarnation, LoadError};

/// How often a document is written that lost its position: to whoever missed it for too long or
/// could not wait for it, or because the server handed it out twice.
const WRITTEN_AGAIN_MAX: u32 = 12;

/// Who takes longer to carry over may have been taken for gone: another node has then done it, and
/// a document may have been deleted for good, and its texts erased, since.
const CARRIED_LATE: Duration = Duration::from_secs(1);

/// What became of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is in the log.
    Committed,
    /// Another commit came first.
    Conflict,
    /// It is not in the log, and never will be at this position.
    Lost,
    /// Neither: another node has answered its idempotency key, at this position.
    Answered(Position),
}

/// What the server said of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// It is in the log.
    Inserted,
    /// It is not: another document has its `_id`, its position or its key.
    Refused,
    /// Nothing: it may be in the log, or may still come.
    Nothing,
}

/// An incarnation of which a commit failed, and how.
pub(super) struct Banned {
    incarnation: Incarnation,
    failure: CommitFailure<ConstraintViolation>,
}

/// What the writer has and remembers.
pub(super) struct Writer {
    pub(super) collections: Collections,
    pub(super) sink: Arc<dyn CommitSink>,
    /// Wakes the housekeeping.
    pub(super) wake: Arc<Notify>,
    /// Told when a commit keeps an answer under a key.
    pub(super) keyed: Arc<Notify>,
    /// Told when a message is redacted.
    pub(super) redacted: Arc<Notify>,
    pub(super) inbox: UnboundedReceiver<Work>,
    /// Where documents go whose messages are carried over behind.
    pub(super) behind: UnboundedSender<Carry>,
    /// Where what is settled goes, to be told in the order of positions.
    pub(super) landed: UnboundedSender<Landed>,
    pub(super) membership: Arc<Membership>,
    pub(super) listed: tokio::sync::watch::Receiver<Position>,
    pub(super) progress: Arc<Progress>,
    /// Whom to tell of the end, where that was asked for while the store was away.
    pub(super) closes: Option<SyncSender<()>>,
    /// Nothing more of these incarnations is taken.
    pub(super) banned: HashMap<EntityNumber, Vec<Banned>>,
}

impl Writer {
    /// Runs until it is asked to close or every sender is gone. Gives whom to tell when the rest of
    /// the store has ended, too.
    pub(super) async fn run(mut self) -> Option<SyncSender<()>> {
        while let Some(first) = self.inbox.recv().await {
            let mut round = Round::default();
            let mut next = Some(first);
            let mut closing = None;
            while let Some(work) = next.take() {
                if let Some(done) = self.take(work, &mut round).await {
                    closing = Some(done);
                    break;
                }
                next = self.inbox.try_recv().ok();
            }
            self.commit(&mut round).await;
            closing = closing.or(self.closes.take());
            if closing.is_some() {
                self.close().await;
                return closing;
            }
        }
        None
    }

    /// Takes a work into the round; the round is committed first where the work does not go with it.
    /// Gives whom to tell that all is done, where that is asked for.
    async fn take(&mut self, work: Work, round: &mut Round) -> Option<SyncSender<()>> {
        match work {
            Work::Commit {
                incarnation,
                commit,
                digests,
                settle,
            } => {
                let pending = PendingCommit {
                    incarnation,
                    commit,
                    settle,
                };
                self.take_commit(pending, &digests, round).await;
                None
            }
            Work::Barrier {
                subject,
                incarnation,
                settle,
            } => {
                if round.has(subject.number) {
                    self.commit(round).await;
                }
                let failure = self.banned(subject.number, incarnation);
                self.finished(1);
                settle(failure.map_or(Ok(()), Err));
                None
            }
            Work::Reload { subject, reply } => {
                if round.has(subject.number) {
                    self.commit(round).await;
                }
                self.reload(subject, reply);
                self.finished(1);
                None
            }
            Work::ChoreDone { chore } => {
                self.chore_done(chore).await;
                self.finished(1);
                None
            }
            Work::Answer { commit, settle } => {
                self.commit(round).await;
                self.write(vec![Insert::of_answer(commit, settle)]).await;
                None
            }
            Work::Close { done } => Some(done),
        }
    }

    /// Takes a commit into the round, or refuses it.
    async fn take_commit(
        &mut self,
        mut pending: PendingCommit,
        digests: &PayloadDigests,
        round: &mut Round,
    ) {
        loop {
            let banned = self.banned(pending.commit.subject.number, pending.incarnation);
            if let Some(failure) = banned {
                drop(pending.commit);
                self.finished(1);
                (pending.settle)(Err(failure));
                return;
            }
            match round.take(pending, digests) {
                Ok(()) => return,
                Err(refused) => pending = refused,
            }
            self.commit(round).await;
        }
    }

    /// Loads an entity again, beside what is committed meanwhile, and lifts its ban.
    fn reload(&mut self, subject: Subject, reply: Reloading) {
        self.banned.remove(&subject.number);
        let collections = self.collections.clone();
        tokio::spawn(async move {
            let loaded = loads::load(&collections, subject).await;
            // Whoever asked may have left.
            let _ = reply.send(loaded.map_err(LoadError::from));
        });
    }

    pub(super) fn finished(&self, works: usize) {
        self.progress.counters.finished(works);
    }

    async fn chore_done(&self, chore: Chore) {
        let chores = self.collections.database.collection::<Document>(CHORES);
        let done = chores.delete_one(doc! {"_id": ChoreDocument::of(chore).id()});
        if let Err(error) = answered(done.into_future()).await {
            tracing::warn!(%error, "a chore that is done stays on the list until the next start");
        }
    }

    /// Why nothing more of this incarnation is taken; none where it is.
    fn banned(
        &self,
        entity: EntityNumber,
        incarnation: Incarnation,
    ) -> Option<CommitFailure<ConstraintViolation>> {
        let banned = self.banned.get(&entity)?;
        let banned = banned
            .iter()
            .find(|banned| banned.incarnation == incarnation);
        banned.map(|banned| banned.failure)
    }

    fn ban(&mut self, entity: EntityNumber, banned: Banned) {
        let all = self.banned.entry(entity).or_default();
        if all
            .iter()
            .all(|other| other.incarnation != banned.incarnation)
        {
            all.push(banned);
        }
    }

    /// Commits a round: nothing of it is left.
    async fn commit(&mut self, round: &mut Round) {
        let inserts = std::mem::take(round).inserts;
        if inserts.is_empty() {
            return;
        }
        if let Some(inserts) = self.judged(inserts).await
            && !inserts.is_empty()
        {
            self.write(inserts).await;
        }
    }

    /// Writes what may be written. What lost its position is written once more at another one.
    async fn write(&mut self, mut inserts: Vec<Insert>) {
        for _ in 0..WRITTEN_AGAIN_MAX {
            inserts = self.write_once(inserts).await;
            if inserts.is_empty() {
                return;
            }
        }
        for insert in inserts {
            self.refuse(insert, CommitFailure::Unavailable);
        }
    }

    /// Writes documents at the next positions; gives those whose positions were taken meanwhile.
    async fn write_once(&mut self, mut inserts: Vec<Insert>) -> Vec<Insert> {
        let begun = Instant::now();
        let count = inserts
            .iter()
            .map(|insert| insert.document.positions())
            .sum();
        let first = match positions::reserve(&self.collections, count).await {
            Ok(first) => first,
            Err(error) => {
                self.fail(inserts, &error);
                return Vec::new();
            }
        };
        let mut next = first.0;
        for insert in &mut inserts {
            insert.document.stand_at(Position(next));
            self.membership.sign(&mut insert.document);
            next += insert.document.positions();
        }
        if !self.membership.is_current() {
            // Others may have carried over already what this node leaves.
            let reserved = inserts.iter().map(|insert| insert.document.all_positions());
            self.take_positions(reserved.flatten().collect());
            for insert in inserts {
                self.refuse(insert, CommitFailure::Unavailable);
            }
            return Vec::new();
        }
        let Admitted { inserts, announced } = self.admitted(inserts).await;
        // What is plain is seen only when it is acknowledged.
        if !inserts.iter().all(|insert| insert.document.is_plain()) {
            self.progress.visible.store(next - 1, Ordering::Release);
        }
        let fates = self.insert(&inserts).await;
        let last = Position(next - 1);
        let (landed, lost) = self.told(inserts, fates);
        self.conclude(landed, first, last, begun).await;
        announced.take_back(&self.collections);
        lost
    }

    /// Nothing of these was written.
    pub(super) fn fail(&mut self, inserts: Vec<Insert>, error: &Error) {
        self.away(error);
        for insert in inserts {
            self.refuse(insert, CommitFailure::Unavailable);
        }
    }

    fn away(&self, error: &Error) {
        if !self.progress.away.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "MongoDB does not answer: nothing is committed meanwhile");
        }
    }

    /// All commits of a document fail alike: those behind the first depended on it.
    pub(super) fn refuse(&mut self, insert: Insert, failure: CommitFailure<ConstraintViolation>) {
        for pending in insert.commits {
            let PendingCommit {
                incarnation,
                commit,
                settle,
            } = pending;
            let banned = Banned {
                incarnation,
                failure,
            };
            self.ban(commit.subject.number, banned);
            // With it goes its idempotency key: whoever is told may come again at once.
            drop(commit);
            self.finished(1);
            settle(Err(failure));
        }
    }

    /// Another node has answered this request: whoever asks again gets that answer.
    pub(super) fn answered_elsewhere(&mut self, insert: Insert, position: Position) {
        let key = insert.document.key.as_ref();
        let key = key.and_then(|key| KeyHash::try_from(key.bytes.as_slice()).ok());
        for pending in insert.commits {
            let banned = Banned {
                incarnation: pending.incarnation,
                failure: CommitFailure::Conflict,
            };
            self.ban(pending.commit.subject.number, banned);
            drop(pending.commit);
            if let Some(key) = &key {
                self.sink.keys().note_recovered(key, position);
            }
            self.finished(1);
            (pending.settle)(Err(CommitFailure::Conflict));
        }
    }

    /// Inserts them; says for certain what became of each.
    async fn insert(&mut self, inserts: &[Insert]) -> Vec<Fate> {
        if inserts.is_empty() {
            return Vec::new();
        }
        let documents = inserts.iter().map(|insert| &insert.document);
        let sent = self.collections.log.insert_many(documents).ordered(false);
        let said = match answered(sent.into_future()).await {
            Ok(_) => {
                self.progress.answers();
                return vec![Fate::Committed; inserts.len()];
            }
            Err(error) => self.said(inserts.len(), &error),
        };
        let mut fates = Vec::with_capacity(inserts.len());
        for (insert, said) in inserts.iter().zip(said) {
            fates.push(match said {
                Said::Inserted => Fate::Committed,
                Said::Refused | Said::Nothing => self.decided(&insert.document, said).await,
            });
        }
        fates
    }

    /// What an error says of each document of an insert.
    fn said(&self, documents: usize, error: &Error) -> Vec<Said> {
        let ErrorKind::InsertMany(failure) = error.kind.as_ref() else {
            self.away(error);
            return vec![Said::Nothing; documents];
        };
        if failure.write_concern_error.is_some() {
            self.away(error);
            return vec![Said::Nothing; documents];
        }
        let mut said = vec![Said::Inserted; documents];
        for error in failure.write_errors.iter().flatten() {
            if let Some(said) = said.get_mut(error.index) {
                *said = Said::Refused;
            }
        }
        said
    }

    /// What became of a document, however long the server is away.
    async fn decided(&mut self, document: &LogDocument, said: Said) -> Fate {
        loop {
            match self.decide(document, said).await {
                Ok(fate) => {
                    self.progress.answers();
                    return fate;
                }
                Err(error) => {
                    self.away(&error);
                    self.refuse_waiting();
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Where nothing is known of a document, its position is taken: then it can't land any more, or
    /// it has landed.
    async fn decide(&self, document: &LogDocument, said: Said) -> Result<Fate, Error> {
        let log = self.collections.log.clone_with_type::<Document>();
        if said == Said::Nothing {
            let void = void(Position(document.position));
            match answered(log.insert_one(void).into_future()).await {
                Ok(_) => {}
                Err(error) if met(&error) == Met::Duplicate => {}
                Err(error) => return Err(error),
            }
        }
        let found = answered(log.find_one(doc! {"_id": &document.id}).into_future()).await?;
        Ok(match found {
            Some(found) if found.get_i64("position").ok() == Some(document.position) => {
                Fate::Committed
            }
            Some(found) => {
                self.carry_over_use(found).await?;
                Fate::Conflict
            }
            None => match self.answer_of(document).await? {
                Some(position) => Fate::Answered(position),
                None => Fate::Lost,
            },
        })
    }

    /// Carries over another node's use of a link, where it is one: no revision of the document
    /// tells whoever loads it next to wait for that.
    async fn carry_over_use(&self, found: Document) -> Result<(), Error> {
        match bson::deserialize_from_document::<LogDocument>(found) {
            Ok(used) if matches!(used.header, Some(HeaderDocument::LinkUsed { .. })) => {
                carry_over_conditioned(&self.collections, &used).await
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Where the answer under a document's idempotency key stands.
    pub(super) async fn answer_of(
        &self,
        document: &LogDocument,
    ) -> Result<Option<Position>, Error> {
        let Some(key) = &document.key else {
            return Ok(None);
        };
        let log = self.collections.log.clone_with_type::<Document>();
        let found = log.find_one(doc! {"key": key});
        let found = answered(found.projection(doc! {"position": 1}).into_future()).await?;
        Ok(found.and_then(|found| found.get_i64("position").ok().map(Position)))
    }

    /// Tells whoever waits behind what can't be decided now that the store is away.
    fn refuse_waiting(&mut self) {
        while let Ok(work) = self.inbox.try_recv() {
            // Who asks to close counts nowhere.
            if !matches!(work, Work::Close { .. }) {
                self.finished(1);
            }
            match work {
                Work::Commit {
                    incarnation,
                    commit,
                    settle,
                    ..
                } => {
                    let failure = CommitFailure::Unavailable;
                    let banned = Banned {
                        incarnation,
                        failure,
                    };
                    self.ban(commit.subject.number, banned);
                    drop(commit);
                    settle(Err(failure));
                }
                Work::Barrier { settle, .. } | Work::Answer { settle, .. } => {
                    settle(Err(CommitFailure::Unavailable));
                }
                // The next start finds it again, and nothing left to do in it.
                Work::ChoreDone { .. } => {}
                Work::Reload { reply, .. } => {
                    let _ = reply.send(Err(LoadError::Unavailable));
                }
                Work::Close { done } => self.closes = Some(done),
            }
        }
    }

    /// Tells those that another commit or answer came before. Gives those that are in the log, and
    /// those that lost their positions.
    fn told(&mut self, inserts: Vec<Insert>, fates: Vec<Fate>) -> (Vec<Insert>, Vec<Insert>) {
        let (mut landed, mut lost) = (Vec::with_capacity(inserts.len()), Vec::new());
        let mut unused = Vec::new();
        for (insert, fate) in inserts.into_iter().zip(fates) {
            if fate != Fate::Committed {
                unused.extend(insert.document.all_positions());
            }
            match fate {
                Fate::Committed => landed.push(insert),
                Fate::Lost => lost.push(insert),
                Fate::Conflict => self.refuse(insert, CommitFailure::Conflict),
                Fate::Answered(position) => self.answered_elsewhere(insert, position),
            }
        }
        self.take_positions(unused);
        (landed, lost)
    }

    /// Carries over what lists show, and hands the batch over to be told.
    async fn conclude(
        &mut self,
        landed: Vec<Insert>,
        first: Position,
        last: Position,
        begun: Instant,
    ) {
        self.carry_over(&landed).await;
        let mut settled = Landed {
            first,
            last,
            commits: Vec::new(),
            redacts: landed
                .iter()
                .any(|insert| insert.document.redacts.is_some()),
            replies: Vec::new(),
            replies_everywhere: Vec::new(),
        };
        let mut documents = Vec::new();
        for insert in landed {
            let replies = if insert.document.changes_views() {
                &mut settled.replies_everywhere
            } else {
                &mut settled.replies
            };
            let mut position = Position(insert.document.position);
            for pending in insert.commits {
                let rows = i64::try_from(pending.commit.rows.len()).unwrap_or(0);
                let first = FirstRow {
                    position,
                    number: number_of(pending.commit.subject.kind, position),
                };
                position = Position(position.0 + rows);
                self.progress.counters.commit(pending.commit.rows.len());
                settled.commits.push(Committed {
                    commit: pending.commit,
                    first,
                });
                replies.push(pending.settle);
            }
            documents.push(insert.document);
        }
        self.progress.stands_at(last);
        let counters = &self.progress.counters;
        let commits = settled.commits.len();
        counters.queue(commits);
        counters.batch(begun.elapsed());
        counters.transaction(commits, commits, begun.elapsed());
        // The follower ends behind the writer.
        let _ = self.landed.send(settled);
        if documents.iter().any(leaves_work) {
            self.wake.notify_one();
        }
        if documents.iter().any(|document| document.key.is_some()) {
            self.keyed.notify_one();
        }
        // What has no rows tells how far the log has come.
        let _ = self.behind.send(Carry::Own(documents, last));
    }

    /// Takes positions at which nothing will stand, so that nobody waits for them; beside what is
    /// committed meanwhile.
    pub(super) fn take_positions(&self, positions: Vec<Position>) {
        if positions.is_empty() {
            return;
        }
        let log = self.collections.log.clone_with_type::<Document>();
        let voids: Vec<Document> = positions.into_iter().map(void).collect();
        tokio::spawn(async move {
            let taken = log.insert_many(voids).ordered(false);
            // Those that are not taken so, because they are already or because the server is away,
            // are taken by whoever misses them.
            let _ = answered(taken.into_future()).await;
        });
    }

    /// What lists show of a commit is carried over before its answer leaves, however long the
    /// server is away.
    async fn carry_over(&mut self, landed: &[Insert]) {
        let documents = || landed.iter().map(|insert| &insert.document);
        if documents().all(LogDocument::is_plain) {
            return;
        }
        let begun = Instant::now();
        loop {
            let none = CountersMoved::new();
            let counters = CounterMoves::new(self.membership.slot, &none);
            let carried = async {
                carry_over_headers(&self.collections, documents(), counters).await?;
                if begun.elapsed() > CARRIED_LATE {
                    erase_again(&self.collections, documents()).await?;
                }
                Ok(())
            };
            match carried.await {
                Ok(()) => return,
                Err(error) => {
                    self.away(&error);
                    self.refuse_waiting();
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Waits until what lags is carried over.
    async fn close(mut self) {
        drop((self.behind, self.landed));
        while self.listed.changed().await.is_ok() {}
    }
}

/// Whether something is to be done behind it.
fn leaves_work(document: &LogDocument) -> bool {
    document.renamed.is_some()
        || document.redacts.is_some()
        || matches!(
            document.header,
            Some(
                HeaderDocument::DocumentGone { .. }
                    | HeaderDocument::ConversationGone { .. }
                    | HeaderDocument::RecordErased
            )
        )
}
