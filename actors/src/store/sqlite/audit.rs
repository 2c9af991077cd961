//! Pages of the audit trail: of a trail out of its slices, of one thing out of its own rows.

use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{self, Columns, columns, int, only};
use super::identifiers;
use super::row_page::{RowPage, Scan, Where};
use super::slices::{Entry, Wanted};
use super::timeline::Timeline;
use crate::store::{AuditQuery, AuditRow, ReadError, StoredPage};
use colloquy_model::audit::AuditAction;
use colloquy_model::caller::{CredentialId, Tenant};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AuditId, UserId};
use colloquy_model::page::{Cursor, Order, Start};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

columns! {
    /// A row of the log with what names who did what to what.
    struct StoredAudit {
        pos: Position,
        entity: EntityNumber,
        seq: Option<Sequence>,
        kind: Option<i64>,
        tail: Option<u64> = "coalesce(tail, (SELECT tail FROM conversations WHERE n = entity),
            (SELECT tail FROM documents WHERE n = entity), (SELECT tail FROM departed WHERE n = entity))",
        happened: i64,
        scope: Tenant,
        at: Timestamp,
        by_key: Option<i64>,
        key_tail: Option<u64> = "coalesce((SELECT tail FROM records WHERE n = by_key & 1152921504606846975),
            (SELECT tail FROM departed WHERE n = by_key & 1152921504606846975))",
        by_user: Option<EntityNumber>,
        user_tail: Option<u64> = "coalesce((SELECT tail FROM records WHERE n = by_user),
            (SELECT tail FROM departed WHERE n = by_user))",
        by_address: Option<String>,
        by_request: String,
        payload: Option<Vec<u8>>,
    }
}

/// A page of the audit trail; `fresh` was taken from memory before anything was read.
pub(super) fn page(
    connection: &Connection,
    fresh: Option<(u64, Vec<Entry>)>,
    query: &AuditQuery,
) -> rusqlite::Result<Result<StoredPage<AuditRow>, ReadError>> {
    match query.subject {
        Some(subject) => of_subject(connection, subject, query),
        None => of_trail(connection, fresh, query),
    }
}

/// Numbers behind the first, up to the last.
#[derive(Debug, Clone, Copy)]
struct Span {
    after: u64,
    end: u64,
}

fn of_trail(
    connection: &Connection,
    fresh: Option<(u64, Vec<Entry>)>,
    query: &AuditQuery,
) -> rusqlite::Result<Result<StoredPage<AuditRow>, ReadError>> {
    let wanted = Wanted::of_audit(query);
    let timeline = Timeline::open(connection, query.trail.number(), fresh, wanted)?;
    let mut span = Span {
        after: 0,
        end: timeline.last(),
    };
    if let Some(since) = query.since {
        span.after = timeline.last_where(|entry| entry.at <= since)?;
    }
    if let Some(until) = query.until {
        span.end = span.end.min(timeline.last_where(|entry| entry.at < until)?);
    }
    let total = timeline.count_between(span.after, span.end.max(span.after))?;
    let scan = Scan::new(query.paging.order, query.paging.start);
    if let Some((at, field)) = query.paging.start.cursor() {
        let Some(position) = position(connection, at)? else {
            return Ok(Err(ReadError::NoCursor(field)));
        };
        let number = timeline.last_at(position)?;
        if timeline.at(number)? != Some(position) {
            return Ok(Err(ReadError::NoCursor(field)));
        }
        match scan.compare() {
            "<" => span.end = span.end.min(number - 1),
            _ => span.after = span.after.max(number),
        }
    }
    let positions = positions(&timeline, span, query)?;
    let mut rows = Vec::with_capacity(positions.len());
    for position in positions {
        rows.extend(row_at(connection, position)?);
    }
    Ok(Ok(scan.page(rows, query.paging, total)))
}

/// Where the records of a page stand, and one more, in the direction in which they are read.
fn positions(
    timeline: &Timeline<'_>,
    span: Span,
    query: &AuditQuery,
) -> rusqlite::Result<Vec<Position>> {
    let most = u64::from(query.paging.limit) + 1;
    let Span { after, end } = span;
    if after >= end {
        return Ok(Vec::new());
    }
    let skip = match query.paging.start {
        Start::Offset(offset) => offset,
        Start::After(_) | Start::Before(_) => 0,
    };
    let descends =
        (query.paging.order == Order::Desc) != matches!(query.paging.start, Start::Before(_));
    if timeline.is_walked() {
        return walked(timeline, span, (skip, most), descends);
    }
    let count = timeline.count_between(after, end)?;
    let wanted = most.min(count.saturating_sub(skip));
    let first = match descends {
        true => count.saturating_sub(skip).saturating_sub(wanted),
        false => skip,
    };
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let begin = timeline.behind(after, end, first)?;
    let limit = usize::try_from(wanted).unwrap_or(usize::MAX);
    let (found, _) = timeline.find(begin, end, limit)?;
    let mut positions: Vec<Position> = found.into_iter().map(|(_, position)| position).collect();
    if descends {
        positions.reverse();
    }
    Ok(positions)
}

/// The same where all that match have to be gone over anyway.
fn walked(
    timeline: &Timeline<'_>,
    span: Span,
    (skip, most): (u64, u64),
    descends: bool,
) -> rusqlite::Result<Vec<Position>> {
    let (found, _) = timeline.find(span.after, span.end, usize::MAX)?;
    let mut positions: Vec<Position> = found.into_iter().map(|(_, position)| position).collect();
    if descends {
        positions.reverse();
    }
    let (skip, most) = (usize::try_from(skip), usize::try_from(most));
    let skip = skip.unwrap_or(usize::MAX);
    let shown = positions.into_iter().skip(skip);
    Ok(shown.take(most.unwrap_or(usize::MAX)).collect())
}

/// The records of one thing.
fn of_subject(
    connection: &Connection,
    subject: Subject,
    query: &AuditQuery,
) -> rusqlite::Result<Result<StoredPage<AuditRow>, ReadError>> {
    let mut filter = Where::default();
    filter.and("entity = ?", int(subject.number.0));
    filter.conditions.push("seq IS NOT NULL".to_owned());
    if !belongs(connection, subject, query.trail)? {
        filter.conditions.push("0".to_owned());
    }
    if query.action.is_some() || query.outcome.is_some() {
        let admitted = AuditAction::all().filter(|action| query.admits(*action));
        let events = admitted.filter_map(|action| match action.parts()? {
            (event, Some(kind)) if kind == subject.kind => Some(event),
            (event, None) => Some(event),
            _ => None,
        });
        let codes: Vec<String> = events.map(|event| (event as i64).to_string()).collect();
        let listed = format!("happened IN ({})", codes.join(", "));
        filter.conditions.push(listed);
    }
    if let Some(actor) = query.actor {
        let condition = format!(
            "coalesce(by_user, by_key & {}) = ?",
            CredentialId::NUMBER_MASK
        );
        filter.and(&condition, int(actor.0));
    }
    if let Some(since) = query.since {
        filter.and("at > ?", since.0);
    }
    if let Some(until) = query.until {
        filter.and("at < ?", until.0);
    }
    let total = filter.total(connection, "count(*)", "rows")?;
    if let Some((at, field)) = query.paging.start.cursor() {
        let Some(position) = position(connection, at)? else {
            return Ok(Err(ReadError::NoCursor(field)));
        };
        let scan = Scan::new(query.paging.order, query.paging.start);
        filter.and(&format!("pos {} ?", scan.compare()), position.0);
    }
    let page = RowPage {
        select: &format!("SELECT {} FROM rows", StoredAudit::COLUMNS),
        sorted_by: &["seq"],
        paging: query.paging,
        total,
    };
    let mut found = page.read(connection, filter, audit_row)?;
    for row in &mut found.items {
        add_before(connection, row)?;
    }
    found
        .items
        .iter_mut()
        .for_each(|row| row.row.subject = Some(subject));
    Ok(Ok(StoredPage {
        items: found.items.into_iter().map(|read| read.row).collect(),
        total: found.total,
        before: found.before,
        after: found.after,
    }))
}

/// Whether it is this very thing, and of this trail.
fn belongs(connection: &Connection, subject: Subject, trail: Tenant) -> rusqlite::Result<bool> {
    let is_of = |tenant: Tenant| trail == Tenant::OPERATORS || tenant.account_wide() == trail;
    if subject.kind == Kind::Account {
        let account = identifiers::account_number(connection, subject)?;
        return Ok(account.is_some_and(|number| is_of(Tenant::account(number))));
    }
    if let Some(tenant) = identifiers::scope_of(connection, subject)? {
        return Ok(is_of(tenant));
    }
    // The rows of a conversation leave its kind and the rest of its identifier out.
    let sql = "SELECT scope FROM rows WHERE entity = ?1 AND seq = (SELECT max(seq) FROM rows WHERE entity = ?1)
               AND (kind = ?2 AND tail = ?3 OR ?2 = ?4 AND kind IS NULL AND EXISTS (SELECT 1 FROM departed WHERE n = ?1 AND tail = ?3))";
    let gone: Option<Tenant> = connection
        .prepare_cached(sql)?
        .query_row(
            [
                int(subject.number.0),
                subject.kind as i64,
                int(subject.tail),
                Kind::Conversation as i64,
            ],
            only,
        )
        .optional()?;
    Ok(gone.is_some_and(is_of))
}

/// The position of the record that a cursor names; none where no record has this identifier.
fn position(connection: &Connection, at: Cursor) -> rusqlite::Result<Option<Position>> {
    let meant = AuditId::from_parts(at.number, at.tail);
    let position = Position(meant.row());
    let found: Option<Timestamp> = connection
        .prepare_cached("SELECT at FROM rows WHERE pos = ?1 AND seq IS NOT NULL")?
        .query_row([position.0], only)
        .optional()?;
    let is_meant = |at: Timestamp| AuditId::at_position(at, position) == meant;
    Ok(found.is_some_and(is_meant).then_some(position))
}

fn row_at(connection: &Connection, position: Position) -> rusqlite::Result<Option<AuditRow>> {
    let sql = format!("SELECT {} FROM rows WHERE pos = ?1", StoredAudit::COLUMNS);
    let read = connection
        .prepare_cached(&sql)?
        .query_row([position.0], audit_row)
        .optional()?;
    let Some(mut read) = read else {
        return Ok(None);
    };
    add_before(connection, &mut read)?;
    Ok(Some(read.row))
}

/// A record, and where the one before it of the same thing stands.
struct Read {
    row: AuditRow,
    entity: EntityNumber,
    sequence: Sequence,
}

/// A changed record says what has changed by what it was before.
fn add_before(connection: &Connection, read: &mut Read) -> rusqlite::Result<()> {
    if read.row.event != EventKind::RecordUpdated || read.sequence.0 < 2 {
        return Ok(());
    }
    let before: Option<Option<Vec<u8>>> = connection
        .prepare_cached("SELECT payload FROM rows WHERE entity = ?1 AND seq = ?2")?
        .query_row([int(read.entity.0), int(read.sequence.0 - 1)], only)
        .optional()?;
    read.row.before = before.flatten().map(Into::into);
    Ok(())
}

fn audit_row(row: &Row<'_>) -> rusqlite::Result<Read> {
    let row = StoredAudit::read(row)?;
    let place = || format!("the row at {}", row.pos);
    let event = EventKind::of_row(row.happened)
        .ok_or_else(|| codec::damaged(place(), "the code of its kind stands for nothing"))?;
    let kind = match row.kind {
        Some(code) => Kind::from_code(code),
        None if event.is_of_document() => Some(Kind::Document),
        None if event.is_of_conversation() => Some(Kind::Conversation),
        None => None,
    };
    let user = row
        .by_user
        .zip(row.user_tail)
        .map(|(number, tail)| UserId::from_parts(number, tail));
    let credential = match (row.by_key, row.key_tail) {
        (None, _) if row.by_user.is_some() => Some(CredentialId::Session),
        (code, tail) => CredentialId::known(code, tail),
    };
    Ok(Read {
        row: AuditRow {
            position: row.pos,
            at: row.at,
            tenant: row.scope,
            subject: kind.zip(row.tail).map(|(kind, tail)| Subject {
                kind,
                number: row.entity,
                tail,
            }),
            action: kind.map(|kind| AuditAction::of(kind, event)),
            event,
            credential,
            user,
            address: row.by_address,
            request_id: row.by_request,
            payload: row.payload.map(Into::into),
            before: None,
        },
        entity: row.entity,
        sequence: row.seq.unwrap_or_default(),
    })
}
