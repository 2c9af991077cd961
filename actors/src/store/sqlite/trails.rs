//! The audit trails: that of each account in both modes, and that of everything. They stand in
//! slices like the feed by account, under a tenant that has no feed; retention leaves them.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};
use serde::Deserialize;

use super::codec::{self, Columns, columns, int, only, whole};
use super::slices::{self, Entry, Slice};
use crate::sealing::texts;
use colloquy_model::audit::AuditAction;
use colloquy_model::caller::{CredentialId, Tenant};
use colloquy_model::commit::{Commit, Effect};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// The trail of everything.
pub(super) const ALL: i64 = 0;

/// The trails that a record belongs to: that of everything, and that of its account.
pub(super) type Trails = [Option<i64>; 2];

/// The trails that a commit belongs to.
pub(super) fn of(commit: &Commit) -> Trails {
    let account = commit.effects.iter().find_map(|effect| match effect {
        Effect::Account(_, number, ..) => Some(Tenant::account(*number)),
        Effect::Key(..)
        | Effect::User(..)
        | Effect::UserGone(..)
        | Effect::CustomerRenamed(..)
        | Effect::Client(_)
        | Effect::ClientGone(_)
        | Effect::Grant(_)
        | Effect::GrantGone(_)
        | Effect::SigningKeys(_)
        | Effect::Endpoint(_)
        | Effect::EndpointGone(_)
        | Effect::Snoozed(_)
        | Effect::Supervision(_) => None,
    });
    both(account.unwrap_or(commit.tenant.account_wide()))
}

fn both(account: Tenant) -> Trails {
    let account = account.number();
    [Some(ALL), (account != ALL).then_some(account)]
}

/// A row of a commit as a record of a trail.
pub(super) fn entry(commit: &Commit, event: EventKind, pos: Position) -> Entry {
    let credential = commit.actor.credential.code();
    Entry {
        pos,
        at: commit.at,
        assignee: who(
            commit.actor.user.map(|user| int(user.number().0)),
            credential,
        ),
        kind: AuditAction::of(commit.subject.kind, event).code(),
        channel: 0,
    }
}

/// The number of who did something: of the user, else of what it was done with; 0: of neither.
fn who(user: Option<i64>, credential: Option<i64>) -> EntityNumber {
    let number = user.or(credential.map(|code| code & CredentialId::NUMBER_MASK));
    EntityNumber(
        number
            .and_then(|number| u64::try_from(number).ok())
            .unwrap_or(0),
    )
}

/// The number that comes next in each trail that is written.
pub(super) fn numbers(connection: &Connection) -> rusqlite::Result<HashMap<i64, u64>> {
    let mut query = connection.prepare("SELECT DISTINCT scope FROM feed WHERE scope % 4 = 0")?;
    let trails: Vec<i64> = query
        .query_map([], only)?
        .collect::<rusqlite::Result<_>>()?;
    let mut numbers = HashMap::new();
    for trail in trails {
        if let Some(newest) = newest(connection, trail)? {
            numbers.insert(trail, newest.end());
        }
    }
    Ok(numbers)
}

/// The newest slice of a trail; none where there is none, or where it can't be read: that is told, the
/// trail's lists answer with it, and all else goes on.
fn newest(connection: &Connection, trail: i64) -> rusqlite::Result<Option<Slice>> {
    match slices::newest(connection, trail) {
        Err(error) if codec::unreadable(&error).is_some() => Ok(None),
        newest => newest,
    }
}

columns! {
    /// A row of the log as a record of a trail.
    struct TrailRow {
        pos: Position,
        entity: EntityNumber,
        kind: Option<i64>,
        tail: Option<u64>,
        happened: i64,
        scope: Tenant,
        at: Timestamp,
        by_key: Option<i64>,
        by_user: Option<i64>,
        payload: Option<Vec<u8>>,
    }
}

columns! {
    /// What names a record beside its number.
    struct NamedRecord {
        kind: i64,
        tail: u64,
    }
}

/// Writes the rows of these positions that are in no slice yet, in the caller's transaction.
pub(super) fn catch_up(
    connection: &Connection,
    from: Position,
    to: Position,
) -> rusqlite::Result<()> {
    let mut found: HashMap<i64, Vec<Entry>> = HashMap::new();
    let mut query = connection.prepare_cached(&format!(
        "SELECT {} FROM rows WHERE pos >= ?1 AND pos < ?2 AND seq IS NOT NULL ORDER BY pos",
        TrailRow::COLUMNS
    ))?;
    let mut rows = query.query([from.0, to.0])?;
    while let Some(row) = rows.next()? {
        let Some((entry, trails)) = TrailRow::read(row)?.entry(connection)? else {
            continue;
        };
        for trail in trails.into_iter().flatten() {
            found.entry(trail).or_default().push(entry);
        }
    }
    for (trail, mut entries) in found {
        let newest = newest(connection, trail)?.unwrap_or_else(Slice::beginning);
        let last = newest.entries.last().map(|entry| entry.pos);
        entries.retain(|entry| last.is_none_or(|last| last < entry.pos));
        slices::append(connection, trail, newest.end(), &entries)?;
    }
    Ok(())
}

/// What the log says of the record at this position, and the trails that it belongs to; none where
/// there is none.
pub(super) fn entry_at(
    connection: &Connection,
    position: Position,
) -> rusqlite::Result<Option<(Entry, Trails)>> {
    let sql = format!(
        "SELECT {} FROM rows WHERE pos = ?1 AND seq IS NOT NULL",
        TrailRow::COLUMNS
    );
    let row: Option<TrailRow> = connection
        .prepare_cached(&sql)?
        .query_row([position.0], whole)
        .optional()?;
    row.map_or(Ok(None), |row| row.entry(connection))
}

/// How many records each trail has by the log.
pub(super) fn counted(connection: &Connection) -> rusqlite::Result<HashMap<i64, u64>> {
    let mut query = connection.prepare(&format!(
        "SELECT {} FROM rows WHERE seq IS NOT NULL",
        TrailRow::COLUMNS
    ))?;
    let mut rows = query.query([])?;
    let mut counted = HashMap::new();
    while let Some(row) = rows.next()? {
        let entry = TrailRow::read(row)?.entry(connection)?;
        for trail in entry.into_iter().flat_map(|(_, trails)| trails).flatten() {
            *counted.entry(trail).or_default() += 1;
        }
    }
    Ok(counted)
}

impl TrailRow {
    /// It as a record, and the trails that it belongs to; none where it is of no kind that is known.
    fn entry(&self, connection: &Connection) -> rusqlite::Result<Option<(Entry, Trails)>> {
        let Some(event) = EventKind::of_row(self.happened) else {
            return Ok(None);
        };
        let subject = self.subject(connection)?;
        let entry = Entry {
            pos: self.pos,
            at: self.at,
            assignee: who(self.by_user, self.by_key),
            kind: subject.map_or(0, |subject| AuditAction::of(subject.kind, event).code()),
            channel: 0,
        };
        Ok(Some((entry, self.trails(connection, subject)?)))
    }

    /// What it was done to. A file of an older version does not say it with the row: it is looked
    /// up, and written there.
    fn subject(&self, connection: &Connection) -> rusqlite::Result<Option<Subject>> {
        let event = EventKind::of_row(self.happened);
        if let Some(kind) = self.kind.and_then(Kind::from_code) {
            return Ok(Some(Subject {
                kind,
                number: self.entity,
                tail: self.tail.unwrap_or(0),
            }));
        }
        let kind = match event {
            Some(event) if event.is_of_document() => Kind::Document,
            Some(event) if event.is_of_conversation() => Kind::Conversation,
            Some(_) | None => return self.record(connection),
        };
        Ok(Some(Subject {
            kind,
            number: self.entity,
            tail: 0,
        }))
    }

    fn record(&self, connection: &Connection) -> rusqlite::Result<Option<Subject>> {
        let sql = format!("SELECT {} FROM records WHERE n = ?1", NamedRecord::COLUMNS);
        let kept: Option<NamedRecord> = connection
            .prepare_cached(&sql)?
            .query_row([int(self.entity.0)], whole)
            .optional()?;
        let kind = |kept: &NamedRecord| Kind::from_code(kept.kind);
        let subject = match kept.and_then(|kept| Some((kind(&kept)?, kept.tail))) {
            Some((kind, tail)) => Some(Subject {
                kind,
                number: self.entity,
                tail,
            }),
            None => self
                .payload
                .as_deref()
                .and_then(|payload| named(payload, self.entity)),
        };
        if let Some(subject) = subject {
            connection
                .prepare_cached("UPDATE rows SET kind = ?2, tail = ?3 WHERE pos = ?1")?
                .execute([self.pos.0, subject.kind as i64, int(subject.tail)])?;
        }
        Ok(subject)
    }

    fn trails(
        &self,
        connection: &Connection,
        subject: Option<Subject>,
    ) -> rusqlite::Result<Trails> {
        if subject.is_none_or(|subject| subject.kind != Kind::Account) {
            return Ok(both(self.scope.account_wide()));
        }
        let number: Option<Option<u32>> = connection
            .prepare_cached("SELECT json_extract(body, '$.number') FROM records WHERE n = ?1")?
            .query_row([int(self.entity.0)], only)
            .optional()?;
        Ok(both(Tenant::account(number.flatten().unwrap_or(0))))
    }
}

/// What the row of a record that is gone names as its own.
fn named(payload: &[u8], entity: EntityNumber) -> Option<Subject> {
    #[derive(Deserialize)]
    struct Named {
        customer_id: Option<String>,
        webhook_id: Option<String>,
        user_id: Option<String>,
        attachment_id: Option<String>,
    }
    let Named {
        customer_id,
        webhook_id,
        user_id,
        attachment_id,
    } = serde_json::from_slice(&texts::opened(payload).ok()?).ok()?;
    [customer_id, webhook_id, user_id, attachment_id]
        .into_iter()
        .flatten()
        .filter_map(|id| Subject::from_id(&id))
        .find(|subject| subject.number == entity)
}
