//! Makes the chain over the records of the log, behind them: positions are given before anything
//! stands there, and at several nodes. What stands up to a position below which everything is decided
//! is linked in the order of positions, in slices that are inserted once: the number of a slice is its
//! `_id`, so that two nodes that do the same at the same time make one chain.

use std::sync::Arc;

use mongodb::bson::{Binary, Document, deserialize_from_document, doc};
use mongodb::error::{Error, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::codec::{Met, binary, damaged, met};
use super::connection::answered;
use super::following::AT_ONCE;
use super::nodes::Membership;
use super::pace::Pace;
use super::positions::{self, COUNT};
use super::schema::{AUDIT_LINKS, Collections, LOG, META};
use super::sealed_documents::SealedDocument;
use super::writer::Writer;
use crate::store::audit_chain::{Link, SliceEnd, head_key, link, lost_link, sign_head};
use colloquy_model::position::Position;

/// Records of a slice: it ends with the document of the log that brings it to so many.
const SLICE: usize = if cfg!(test) { 4 } else { 1_024 };
/// Bytes of an entry: the position, the highest byte first, and the digest.
pub(super) const ENTRY: usize = 40;
/// The `_id` of the head.
pub(super) const HEAD: &str = "audit_head";
/// The field beside the count of positions that says that there is a chain: up to where everything
/// was carried over when it had reached the end of the log for the first time.
const CHAINED: &str = "chained";

/// Some links of the chain, never changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SliceDocument {
    #[serde(rename = "_id")]
    pub(super) number: i64,
    /// The link before its first record.
    pub(super) before: Binary,
    /// From which position on it tells of all records …
    pub(super) first: i64,
    /// … up to this one's.
    pub(super) last: i64,
    /// A position and a digest for each record.
    pub(super) entries: Binary,
    /// The link of its last record.
    pub(super) link: Binary,
    pub(super) signature: Binary,
}

impl SliceDocument {
    /// Its end; none where its link is none.
    pub(super) fn end(&self) -> Option<SliceEnd> {
        Some(SliceEnd {
            number: self.number,
            position: self.last,
            link: self.link.bytes.as_slice().try_into().ok()?,
        })
    }

    /// The positions of its records, each with the digest.
    pub(super) fn entries(&self) -> impl Iterator<Item = (i64, [u8; 32])> {
        self.entries.bytes.chunks_exact(ENTRY).filter_map(|entry| {
            let (position, digest) = entry.split_first_chunk::<8>()?;
            Some((i64::from_be_bytes(*position), digest.try_into().ok()?))
        })
    }
}

/// The end of the chain as it is signed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct HeadDocument {
    pub(super) number: i64,
    pub(super) position: i64,
    pub(super) link: Binary,
    pub(super) signature: Binary,
}

/// The head; none where it is gone, or was not made yet.
pub(super) async fn head(collections: &Collections) -> Result<Option<HeadDocument>> {
    let meta = collections.database.collection::<HeadDocument>(META);
    answered(meta.find_one(doc! {"_id": HEAD}).into_future()).await
}

/// The last slice.
pub(super) async fn last_slice(collections: &Collections) -> Result<Option<SliceDocument>> {
    let slices = collections
        .database
        .collection::<SliceDocument>(AUDIT_LINKS);
    let last = slices.find_one(doc! {}).sort(doc! {"_id": -1});
    answered(last.into_future()).await
}

/// Up to where everything was carried over when the chain was whole for the first time; none where
/// it never was.
pub(super) async fn chained(collections: &Collections) -> Result<Option<i64>> {
    let found = collections.meta.find_one(doc! {"_id": COUNT});
    let found = answered(found.into_future()).await?;
    Ok(found.and_then(|found| found.get_i64(CHAINED).ok()))
}

/// Where the next slice follows. A head without its slice is gone on from, so that a tail that was
/// cut off is found later, too; a slice that follows the head was made just before a crash.
async fn end(collections: &Collections) -> Result<SliceEnd> {
    let last = last_slice(collections).await?;
    let last = last.as_ref().and_then(SliceDocument::end);
    let Some(head) = head(collections).await? else {
        return match (chained(collections).await?, last) {
            (Some(chained), last) => Ok(lost(chained, last)),
            (None, Some(last)) => Ok(last),
            (None, None) => Ok(SliceEnd {
                number: 0,
                position: 0,
                link: [0; 32],
            }),
        };
    };
    let link = Link::try_from(head.link.bytes.as_slice()).unwrap_or_default();
    let end = SliceEnd {
        number: head.number,
        position: head.position,
        link,
    };
    Ok(last.filter(|last| last.number > end.number).unwrap_or(end))
}

fn lost(chained: i64, last: Option<SliceEnd>) -> SliceEnd {
    tracing::error!(
        "the end of the audit trail's chain is gone: somebody has taken it away; \
         `colloquy audit verify` says so from now on"
    );
    let (number, position) = last.map_or((0, chained), |last| (last.number, last.position));
    SliceEnd {
        number,
        position,
        link: lost_link(position),
    }
}

/// Links all records up to this position, where that is not done: everything up to there has to be
/// decided. Who does it at the same time does no harm.
///
/// # Errors
/// The server does not answer; what was linked stays so.
pub(super) async fn link_up_to(collections: &Collections, decided: Position) -> Result<()> {
    let mut from = Position::ZERO;
    loop {
        let end = end(collections).await?;
        from = from.max(Position(end.position));
        if from >= decided {
            return Ok(());
        }
        let behind = Behind::read(collections, from, decided).await?;
        from = match write_slices(collections, end, &behind.documents).await? {
            Written::All => behind.reached,
            // Where that one has come to stands in the database.
            Written::BySomebodyElse => Position::ZERO,
        };
    }
}

/// The next documents of the log behind a position.
pub(super) struct Behind {
    pub(super) documents: Vec<SealedDocument>,
    /// Up to where nothing else stands.
    pub(super) reached: Position,
}

impl Behind {
    /// Those behind a position, up to another one. What can't be read was told where it was found,
    /// and is not linked: whoever verifies finds it.
    pub(super) async fn read(
        collections: &Collections,
        from: Position,
        end: Position,
    ) -> Result<Self> {
        let log = collections.database.collection::<Document>(LOG);
        let found = async {
            let behind = log.find(doc! {"position": {"$gt": from.0, "$lte": end.0}});
            let fields = doc! {"rows.payload": 0, "header": 0, "answer": 0};
            let behind = behind.projection(fields).sort(doc! {"position": 1});
            let mut cursor = behind.limit(AT_ONCE).await?;
            let (mut documents, mut reached, mut found) = (Vec::new(), from, 0);
            while cursor.advance().await? {
                found += 1;
                let document = cursor.deserialize_current()?;
                let position = document.get_i64("position").map_err(Error::custom)?;
                match deserialize_from_document::<SealedDocument>(document) {
                    Ok(document) => {
                        reached = Position(document.last_position());
                        documents.push(document);
                    }
                    Err(error) => {
                        reached = Position(position);
                        damaged("a document of the log, for the audit trail's chain", error);
                    }
                }
            }
            if found < AT_ONCE {
                reached = end.max(reached);
            }
            Ok(Behind { documents, reached })
        };
        answered(found).await
    }
}

/// Who has linked what was to be linked.
enum Written {
    /// All of it stands behind the end that was known.
    All,
    /// Another node was faster, with more of it or with less.
    BySomebodyElse,
}

/// Inserts what these documents hold behind this end; no more where somebody else was faster.
async fn write_slices(
    collections: &Collections,
    mut end: SliceEnd,
    documents: &[SealedDocument],
) -> Result<Written> {
    let slices = collections
        .database
        .collection::<SliceDocument>(AUDIT_LINKS);
    let mut left = documents;
    while !left.is_empty() {
        let (slice, linked, behind) = next_slice(end, left);
        left = behind;
        if slice.entries.bytes.is_empty() {
            continue;
        }
        match answered(slices.insert_one(slice).into_future()).await {
            Ok(_) => {}
            Err(error) if met(&error) == Met::Duplicate => return Ok(Written::BySomebodyElse),
            Err(error) => return Err(error),
        }
        write_head(collections, linked).await?;
        end = linked;
    }
    Ok(Written::All)
}

/// A slice of the first of these documents, its end, and the documents behind it.
fn next_slice(
    end: SliceEnd,
    documents: &[SealedDocument],
) -> (SliceDocument, SliceEnd, &[SealedDocument]) {
    let mut linked = SliceEnd {
        number: end.number + 1,
        ..end
    };
    let (mut entries, mut taken) = (Vec::new(), 0);
    for document in documents {
        if entries.len() >= SLICE * ENTRY {
            break;
        }
        taken += 1;
        for record in document.records() {
            let digest = record.sealed().digest();
            linked.link = link(&linked.link, &digest);
            linked.position = record.position;
            entries.extend(record.position.to_be_bytes());
            entries.extend(digest);
        }
    }
    let signature = head_key().map_or(Vec::new(), |key| linked.sign(&key).to_vec());
    let slice = SliceDocument {
        number: linked.number,
        before: binary(&end.link),
        first: end.position + 1,
        last: linked.position,
        entries: binary(&entries),
        link: binary(&linked.link),
        signature: binary(&signature),
    };
    (slice, linked, documents.get(taken..).unwrap_or_default())
}

/// Signs the end of the chain; an earlier one never takes the place of a later one.
async fn write_head(collections: &Collections, end: SliceEnd) -> Result<()> {
    let signature = head_key().map(|key| sign_head(&key, end.position, &end.link));
    let signature = signature.map_or_else(Vec::new, |signature| signature.to_vec());
    let set = doc! {
        "number": end.number, "position": end.position, "link": binary(&end.link),
        "signature": binary(&signature),
    };
    let earlier = doc! {"_id": HEAD, "number": {"$lt": end.number}};
    let meta = &collections.meta;
    let moved = meta.update_one(earlier, doc! {"$set": set.clone()});
    if answered(moved.into_future()).await?.matched_count > 0 {
        return Ok(());
    }
    let mut first = doc! {"_id": HEAD};
    first.extend(set);
    match answered(meta.insert_one(first).into_future()).await {
        Err(error) if met(&error) != Met::Duplicate => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Notes that the chain has reached the end of the log: from now on it is missed where it is gone.
/// False where it is not begun.
async fn note_chained(collections: &Collections) -> Result<bool> {
    if head(collections).await?.is_none() {
        return Ok(false);
    }
    if chained(collections).await?.is_some() {
        return Ok(true);
    }
    let carried = positions::standing(collections).await?.carried;
    let noted = doc! {"$max": {CHAINED: carried.0}};
    let noted = collections.meta.update_one(doc! {"_id": COUNT}, noted);
    answered(noted.into_future()).await.map(|_| true)
}

/// Links what was written before the store closes, as far as its node still may.
pub(super) async fn link_last(membership: &Membership) {
    if !membership.is_current() {
        return;
    }
    let collections = &membership.collections;
    let linked = async {
        link_up_to(collections, membership.followed()).await?;
        note_chained(collections).await
    };
    if let Err(error) = linked.await {
        tracing::warn!(%error, "the audit trail's chain waits for the next start");
    }
}

/// The task that links what nodes have written, at the one that leads.
pub(super) struct Linker {
    membership: Arc<Membership>,
    pace: Pace,
    /// True when the store closes.
    closing: watch::Receiver<bool>,
}

impl Linker {
    /// The task beside this writer, until `closing` is true.
    pub(super) fn beside(writer: &Writer, pace: Pace, closing: watch::Receiver<bool>) -> Self {
        Linker {
            membership: Arc::clone(&writer.membership),
            pace,
            closing,
        }
    }

    /// Runs until the store closes.
    pub(super) async fn run(mut self) {
        let (mut linked, mut is_noted) = (Position::ZERO, false);
        while !*self.closing.borrow() {
            let decided = self.membership.followed();
            if self.membership.leads() && decided > linked {
                match self.link(is_noted, decided).await {
                    Ok(noted) => (linked, is_noted) = (decided, noted),
                    Err(error) => {
                        tracing::warn!(%error, "the audit trail's chain waits for MongoDB");
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.pace.link_every) => {}
                _ = self.closing.changed() => {}
            }
        }
    }

    /// Links what is decided; whether it is noted that there is a chain.
    async fn link(&self, is_noted: bool, decided: Position) -> Result<bool> {
        let collections = &self.membership.collections;
        link_up_to(collections, decided).await?;
        match is_noted {
            true => Ok(true),
            false => note_chained(collections).await,
        }
    }
}
