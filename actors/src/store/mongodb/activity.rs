//! What was done to a document, page by page. It stands in the log: sequences have no gap, so a page
//! of all of it is found by arithmetic; a filter looks at all that was done, without what it was.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{damaged, int, uint};
use super::find::{Find, named};
use super::lists::{Scan, offset};
use super::loads::log_of;
use super::log::log_id;
use super::schema::{Collections, DOCUMENTS, LOG, RECORDS};
use crate::store::{ActivityQuery, ActivityRow, ReadError, StoredPage};
use colloquy_model::caller::{CredentialId, Tenant};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ActivityId, UserId};
use colloquy_model::page::Paging;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// A document of the log with what it says was done. One that only takes a position has no more
/// than that.
#[derive(Debug, Deserialize)]
struct LoggedDocument {
    position: i64,
    #[serde(default)]
    entity: i64,
    #[serde(default)]
    first: i64,
    #[serde(default)]
    rows: Vec<LoggedRow>,
}

/// One thing that was done.
#[derive(Debug, Deserialize)]
struct LoggedRow {
    kind: i32,
    at: i64,
    by: LoggedActor,
    /// Empty where it was not asked for.
    #[serde(default)]
    payload: String,
}

/// Who did it: as a user where there is one, else with a key.
#[derive(Debug, Clone, Copy, Deserialize)]
struct LoggedActor {
    user: Option<i64>,
    key: Option<i64>,
}

impl LoggedActor {
    fn number(self) -> Option<i64> {
        let of_credential = |code: i64| code & CredentialId::NUMBER_MASK;
        self.user.or(self.key.map(of_credential))
    }
}

impl LoggedDocument {
    /// All fields but large ones that are not shown.
    fn fields() -> Document {
        doc! {"header": 0, "answer": 0}
    }

    /// The same without what was done.
    fn fields_of_filters() -> Document {
        doc! {"header": 0, "answer": 0, "rows.payload": 0}
    }

    /// Its rows with their sequences.
    fn rows(self) -> impl Iterator<Item = (Sequence, Position, LoggedRow)> {
        let sequences = (uint(self.first)..).map(Sequence);
        let positions = Position(self.position).and_following();
        sequences
            .zip(positions)
            .zip(self.rows)
            .map(|((sequence, position), row)| (sequence, position, row))
    }
}

/// A page of what was done to a document.
pub(super) async fn page(
    collections: &Collections,
    query: ActivityQuery,
) -> Result<StoredPage<ActivityRow>, ReadError> {
    let (known, cursor, matched) = tokio::join!(
        is_actor(collections, &query),
        cursor(collections, query.document, query.paging),
        matched(collections, &query)
    );
    if !known? {
        return Err(ReadError::NoCursor("actor"));
    }
    let (cursor, matched) = (cursor?, matched?);
    let scan = Scan::new(query.paging.order, query.paging.start);
    let picked = matched.pick(scan, cursor, query.paging);
    let mut found = rows(collections, matched.holding(query.document, &picked)).await?;
    let mut shown = Vec::with_capacity(picked.len());
    for sequence in &picked {
        let place = || format!("{}: what was done as {}", query.document, sequence.0);
        let found = found.remove(sequence);
        let (position, row) = found.ok_or_else(|| damaged(&place(), "it is not there"))?;
        let kind = EventKind::from_code(row.kind.into())
            .ok_or_else(|| damaged(&place(), "the code of its kind stands for nothing"))?;
        shown.push((position, kind, row));
    }
    let actors = shown.iter().filter_map(|(.., row)| row.by.number());
    let tails = tails(collections, actors.collect()).await?;
    let items = shown.into_iter().map(|(position, kind, row)| ActivityRow {
        position,
        kind,
        at: Timestamp(row.at),
        actor: actor(row.by, &tails),
        payload: row.payload.into_bytes().into(),
    });
    Ok(scan.page(items.collect(), query.paging, matched.total()))
}

/// What passes the filter.
#[derive(Debug)]
enum Matched {
    /// All that was done, up to this sequence.
    All(Sequence),
    /// These, in order, each with the first sequence of the log document that holds it.
    Some(BTreeMap<Sequence, Sequence>),
}

impl Matched {
    fn total(&self) -> u64 {
        match self {
            Matched::All(last) => last.0,
            Matched::Some(some) => u64::try_from(some.len()).unwrap_or(u64::MAX),
        }
    }

    /// Those of a page and one more where any follow, in the direction in which is read.
    fn pick(&self, scan: Scan, cursor: Option<Sequence>, paging: Paging) -> Vec<Sequence> {
        let is_upwards = scan.direction() > 0;
        let range = match cursor {
            None => 1..=u64::MAX,
            Some(cursor) if is_upwards => cursor.0.saturating_add(1)..=u64::MAX,
            Some(cursor) => 1..=cursor.0.saturating_sub(1),
        };
        let skip = usize::try_from(offset(paging.start)).unwrap_or(usize::MAX);
        let count = usize::try_from(paging.limit).unwrap_or(usize::MAX);
        let count = count.saturating_add(1);
        let ascending = self.within(range);
        if is_upwards {
            ascending.skip(skip).take(count).collect()
        } else {
            ascending.rev().skip(skip).take(count).collect()
        }
    }

    /// Those in a range of sequences, in order.
    fn within(
        &self,
        range: RangeInclusive<u64>,
    ) -> Box<dyn DoubleEndedIterator<Item = Sequence> + '_> {
        let (low, high) = range.into_inner();
        match self {
            Matched::All(last) => Box::new((low..=high.min(last.0)).map(Sequence)),
            Matched::Some(some) => {
                let some = some.keys().copied();
                Box::new(some.filter(move |sequence| (low..=high).contains(&sequence.0)))
            }
        }
    }

    /// The documents of the log that hold these.
    fn holding(&self, document: Subject, picked: &[Sequence]) -> Find {
        let id = |first| log_id(document.number, first);
        match self {
            Matched::All(_) => {
                // They follow each other, and each document holds at least one.
                let last = picked.iter().max().copied().unwrap_or(Sequence::ZERO);
                let filter = doc! {"_id": {"$gte": id(Sequence::ZERO), "$lte": id(last)}};
                Find {
                    sort: doc! {"_id": -1},
                    limit: u32::try_from(picked.len().max(1)).unwrap_or(u32::MAX),
                    ..Find::all(LOG, filter, LoggedDocument::fields())
                }
            }
            Matched::Some(some) => {
                let ids = picked.iter().filter_map(|picked| some.get(picked));
                let ids: Vec<String> = ids.copied().map(id).collect();
                let filter = doc! {"_id": {"$in": ids}};
                Find::all(LOG, filter, LoggedDocument::fields())
            }
        }
    }
}

/// What passes the filter of a query.
async fn matched(collections: &Collections, query: &ActivityQuery) -> Result<Matched, ReadError> {
    let ActivityQuery {
        document,
        action,
        actor,
        since,
        until,
        ..
    } = query;
    let mut filter = log_of(document.number);
    let fields = LoggedDocument::fields_of_filters();
    if action.is_none() && actor.is_none() && since.is_none() && until.is_none() {
        let last = Find {
            sort: doc! {"_id": -1},
            limit: 1,
            ..Find::all(LOG, filter, fields)
        };
        let last: Vec<LoggedDocument> = last.read(collections).await?;
        let last = last.into_iter().next().and_then(|last| last.rows().last());
        return Ok(Matched::All(last.map_or(Sequence::ZERO, |(last, ..)| last)));
    }
    // The server leaves out what holds nothing of it; a document may hold other rows, too.
    if let Some(action) = action {
        filter.insert("rows.kind", *action as i32);
    }
    if let Some(actor) = actor {
        let number = int(actor.number);
        let is_by = [doc! {"rows.by.user": number}, doc! {"rows.by.key": number}];
        filter.insert("$or", is_by.to_vec());
    }
    let found = Find::all(LOG, filter, fields);
    let found: Vec<LoggedDocument> = found.read(collections).await?;
    let passes = |row: &LoggedRow| {
        action.is_none_or(|action| row.kind == action as i32)
            && actor.is_none_or(|actor| row.by.number() == Some(int(actor.number)))
            && since.is_none_or(|since| row.at > since.0)
            && until.is_none_or(|until| row.at < until.0)
    };
    let mut some = BTreeMap::new();
    for document in found {
        let first = Sequence(uint(document.first));
        let rows = document.rows().filter(|(.., row)| passes(row));
        some.extend(rows.map(|(sequence, ..)| (sequence, first)));
    }
    Ok(Matched::Some(some))
}

/// The rows of these documents, with their positions.
async fn rows(
    collections: &Collections,
    find: Find,
) -> Result<HashMap<Sequence, (Position, LoggedRow)>, ReadError> {
    let found: Vec<LoggedDocument> = find.read(collections).await?;
    let rows = found.into_iter().flat_map(LoggedDocument::rows);
    Ok(rows
        .map(|(sequence, position, row)| (sequence, (position, row)))
        .collect())
}

/// The sequence of the document's row that the page's cursor is.
async fn cursor(
    collections: &Collections,
    document: Subject,
    paging: Paging,
) -> Result<Option<Sequence>, ReadError> {
    let Some((at, field)) = paging.start.cursor() else {
        return Ok(None);
    };
    let meant = ActivityId::from_parts(at.number, at.tail);
    let filter = doc! {"position": {"$lte": meant.row()}, "rows": {"$exists": true}};
    let find = Find {
        sort: doc! {"position": -1},
        limit: 1,
        ..Find::all(LOG, filter, LoggedDocument::fields_of_filters())
    };
    let found: Vec<LoggedDocument> = find.read(collections).await?;
    let of_it = found
        .into_iter()
        .filter(|found| found.entity == int(document.number));
    let mut rows = of_it.flat_map(LoggedDocument::rows);
    let is_meant = |position: Position, row: &LoggedRow| {
        ActivityId::at_position(Timestamp(row.at), position) == meant
    };
    let row = rows.find(|(_, position, row)| is_meant(*position, row));
    row.map(|(sequence, ..)| Some(sequence))
        .ok_or(ReadError::NoCursor(field))
}

/// Whose a thing is, and whether it is gone.
#[derive(Debug, Deserialize)]
struct OwnerRow {
    tenant: i64,
    gone: bool,
}

/// Whether whoever is asked for is a user or key of the document's account, or was a user before it
/// was deleted.
async fn is_actor(collections: &Collections, query: &ActivityQuery) -> Result<bool, ReadError> {
    let Some(actor) = query.actor else {
        return Ok(true);
    };
    let fields = || doc! {"tenant": 1, "gone": 1};
    let mut filter = named(actor);
    filter.insert("kind", actor.kind as i32);
    let actors = Find::all(RECORDS, filter, fields());
    let documents = Find::all(DOCUMENTS, named(query.document), fields());
    let (actors, documents) = tokio::join!(
        actors.read::<OwnerRow>(collections),
        documents.read::<OwnerRow>(collections)
    );
    let account = |owner: &OwnerRow| Tenant::from_number(owner.tenant).account_number();
    let documents = documents?;
    let own = documents
        .iter()
        .find(|document| !document.gone)
        .map(account);
    Ok(match actors?.first() {
        None => false,
        Some(actor_row) if actor_row.gone => actor.kind == Kind::User,
        Some(actor_row) => Some(account(actor_row)) == own,
    })
}

/// The rest of an identifier.
#[derive(Debug, Deserialize)]
struct TailRow {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
    kind: i32,
    gone: bool,
}

/// The rest of the identifiers of these users and keys. That of a key which is no more is not
/// shown.
async fn tails(
    collections: &Collections,
    mut numbers: Vec<i64>,
) -> Result<HashMap<i64, i64>, ReadError> {
    if numbers.is_empty() {
        return Ok(HashMap::new());
    }
    numbers.sort_unstable();
    numbers.dedup();
    let filter = doc! {"_id": {"$in": numbers}};
    let find = Find::all(RECORDS, filter, doc! {"tail": 1, "kind": 1, "gone": 1});
    let found: Vec<TailRow> = find.read(collections).await?;
    let shown = found
        .into_iter()
        .filter(|row| !row.gone || row.kind == Kind::User as i32);
    Ok(shown.map(|row| (row.number, row.tail)).collect())
}

/// Who did it, as the interface names them.
fn actor(by: LoggedActor, tails: &HashMap<i64, i64>) -> Option<String> {
    let tail = uint(*tails.get(&by.number()?)?);
    match (by.user, by.key) {
        (Some(user), _) => Some(UserId::from_parts(uint(user), tail).to_string()),
        (None, Some(code)) => CredentialId::from_code(Some(code), tail, None)
            .and_then(CredentialId::shown_in_activity),
        (None, None) => None,
    }
}
