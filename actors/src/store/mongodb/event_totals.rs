//! How many events of an account and mode match. Totals of all events up to a position are kept at
//! some positions, by kind, channel and assignee, so that however much is stored a count reads no
//! more than two of them and the events of two gaps between them. They are made by whoever counts
//! first: each event is counted once. What stands at positions that are decided does not change, so
//! two who make the same make it equal.

use std::collections::BTreeMap;

use mongodb::bson::{Binary, Document, doc};
use serde::Deserialize;

use super::codec::{binary, failed};
use super::connection::answered;
use super::event_rows::{RowSeen, Wanted, public_of};
use super::find::LIST_MAX;
use super::log::LogDocument;
use super::schema::{Collections, EVENT_TOTALS, LOG};
use super::statements::Statements;
use crate::store::ReadError;
use colloquy_model::caller::Tenant;
use colloquy_model::position::Position;

/// Documents of the log between one position at which totals are kept and the next. Tests want many
/// of them.
const GAP: usize = if cfg!(test) { 16 } else { 1_024 };

/// So many gaps are read at once.
const GAPS: usize = 16;

/// Bytes of one total: kind, channel, assignee, how many.
const TOTAL: usize = 24;

/// Totals of all events up to and with a position.
#[derive(Debug, Clone, Default)]
struct Totals {
    upto: Position,
    by_seen: BTreeMap<RowSeen, u64>,
}

/// The same, as the collection has them.
#[derive(Debug, Deserialize)]
struct TotalsDocument {
    position: i64,
    totals: Binary,
}

/// What filters see of a document's rows.
#[derive(Debug, Deserialize)]
struct SeenDocument {
    position: i64,
    rows: Vec<RowSeen>,
}

impl Totals {
    fn of(&self, wanted: &Wanted) -> u64 {
        let passing = self
            .by_seen
            .iter()
            .filter(|(seen, _)| wanted.admits(**seen));
        passing.map(|(_, total)| total).sum()
    }

    fn read(document: &TotalsDocument) -> Self {
        let total = |bytes: &[u8]| {
            let (kind, rest) = bytes.split_first_chunk::<4>()?;
            let (channel, rest) = rest.split_first_chunk::<4>()?;
            let (assignee, total) = rest.split_first_chunk::<8>()?;
            let seen = RowSeen {
                kind: i32::from_le_bytes(*kind),
                channel: Some(i32::from_le_bytes(*channel)).filter(|channel| *channel >= 0),
                assignee: Some(i64::from_le_bytes(*assignee)).filter(|user| *user >= 0),
            };
            Some((seen, u64::from_le_bytes(total.try_into().ok()?)))
        };
        let totals = document.totals.bytes.chunks_exact(TOTAL);
        Totals {
            upto: Position(document.position),
            by_seen: totals.filter_map(total).collect(),
        }
    }

    fn written(&self) -> Binary {
        let total = |(seen, total): (&RowSeen, &u64)| {
            let kind = seen.kind.to_le_bytes().into_iter();
            kind.chain(seen.channel.unwrap_or(-1).to_le_bytes())
                .chain(seen.assignee.unwrap_or(-1).to_le_bytes())
                .chain(total.to_le_bytes())
        };
        binary(&self.by_seen.iter().flat_map(total).collect::<Vec<u8>>())
    }

    /// Takes in some rows that follow.
    fn add(&mut self, documents: &[SeenDocument]) {
        for document in documents {
            for row in &document.rows {
                *self.by_seen.entry(*row).or_default() += 1;
            }
            let rows = i64::try_from(document.rows.len()).unwrap_or(0);
            self.upto = Position(document.position + rows - 1);
        }
    }
}

/// How many events behind one position, up to another, pass. Both are decided; the document in
/// whose middle the first one stands may be given with the tenant.
///
/// # Errors
/// [`ReadError::TooSlow`] where more than can be counted in time were never counted before: who
/// asks again goes on where this one ended.
pub(super) async fn between(
    collections: &Collections,
    (tenant, around): (Tenant, Option<&LogDocument>),
    (after, end): (Position, Position),
    wanted: &Wanted,
) -> Result<u64, ReadError> {
    let around = around.filter(|around| around.position <= after.0);
    let around = around.map_or(0, |around| {
        let rows = around.placed_rows().filter(|(position, _, row)| {
            *position > after && *position <= end && wanted.admits(RowSeen::of(row))
        });
        u64::try_from(rows.count()).unwrap_or(u64::MAX)
    });
    let counting = async {
        let counter = Counter {
            collections,
            tenant,
        };
        let near = counter.seen((after, end), GAP).await?;
        if near.len() < GAP {
            return Ok(around + passing(&near, (after, end), wanted));
        }
        let last = counter.up_to(end).await?;
        let first = doc! {"position": {"$gte": after.0, "$lte": last.upto.0}};
        let Some(first) = counter.kept(first, 1).await? else {
            return Ok(around + passing(&near, (after, end), wanted));
        };
        let (before, behind) = tokio::join!(
            counter.seen((after, first.upto), GAP),
            counter.seen((last.upto, end), GAP)
        );
        let before = passing(&before?, (after, first.upto), wanted);
        let behind = passing(&behind?, (last.upto, end), wanted);
        Ok(around + before + last.of(wanted).saturating_sub(first.of(wanted)) + behind)
    };
    let counted = tokio::time::timeout(LIST_MAX, counting).await;
    counted.unwrap_or(Err(ReadError::TooSlow))
}

fn passing(documents: &[SeenDocument], (after, end): (Position, Position), wanted: &Wanted) -> u64 {
    let rows = documents.iter().flat_map(|document| {
        let positions = Position(document.position).and_following();
        positions.zip(&document.rows)
    });
    let passing = rows
        .filter(|(position, row)| *position > after && *position <= end && wanted.admits(**row));
    u64::try_from(passing.count()).unwrap_or(u64::MAX)
}

/// Counts the events of one account and mode.
struct Counter<'c> {
    collections: &'c Collections,
    tenant: Tenant,
}

impl Counter<'_> {
    /// What filters see of documents that begin behind one position, up to another: of so many at
    /// most.
    async fn seen(
        &self,
        (after, end): (Position, Position),
        most: usize,
    ) -> Result<Vec<SeenDocument>, ReadError> {
        let mut filter = public_of(self.tenant);
        filter.insert("first", doc! {"$gt": 0});
        filter.insert("position", doc! {"$gt": after.0, "$lte": end.0});
        let log = self.collections.database.collection::<SeenDocument>(LOG);
        let fields = doc! {
            "position": 1, "rows.kind": 1, "rows.channel": 1, "rows.assignee": 1,
        };
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let found = log
            .find(filter)
            .projection(fields)
            .sort(doc! {"position": 1})
            .limit(most.into())
            .batch_size(most);
        let reading = async {
            let mut cursor = found.await?;
            let mut seen = Vec::new();
            while cursor.advance().await? {
                seen.push(cursor.deserialize_current()?);
            }
            Ok(seen)
        };
        answered(reading).await.map_err(|error| failed(&error))
    }

    /// The first or, with -1, the last totals that are kept at such a position.
    async fn kept(&self, filter: Document, order: i32) -> Result<Option<Totals>, ReadError> {
        let mut filter = filter;
        filter.insert("tenant", self.tenant.number());
        let kept = self.collections.database.collection(EVENT_TOTALS);
        let found = kept.find_one(filter).sort(doc! {"position": order});
        let found: Option<TotalsDocument> = answered(found.into_future())
            .await
            .map_err(|error| failed(&error))?;
        Ok(found.as_ref().map(Totals::read))
    }

    /// The last totals up to a position; makes those that are missing.
    async fn up_to(&self, end: Position) -> Result<Totals, ReadError> {
        let last = doc! {"position": {"$lte": end.0}};
        let mut totals = self.kept(last, -1).await?.unwrap_or_default();
        loop {
            let next = self.seen((totals.upto, end), GAPS * GAP).await?;
            let mut statements = Statements::default();
            let mut is_last = next.len() < GAPS * GAP;
            for gap in next.chunks_exact(GAP) {
                let mut following = totals.clone();
                following.add(gap);
                // What is not decided yet stands behind `end`.
                if following.upto > end {
                    is_last = true;
                    break;
                }
                totals = following;
                self.keep(&totals, &mut statements);
            }
            if !statements.is_empty() {
                statements
                    .run(&self.collections.database)
                    .await
                    .map_err(|error| failed(&error))?;
            }
            if is_last {
                return Ok(totals);
            }
        }
    }

    fn keep(&self, totals: &Totals, statements: &mut Statements) {
        let (tenant, position) = (self.tenant.number(), totals.upto.0);
        let set = doc! {
            "tenant": tenant, "position": position, "totals": totals.written(),
        };
        let change = doc! {"$setOnInsert": set};
        let id = format!("{tenant}.{position}");
        statements.put(EVENT_TOTALS, id, Document::new(), change);
    }
}
