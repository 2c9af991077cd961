//! `colloquy check`: whether the file is sound and every count in it is what the rows say.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use sha2::{Digest, Sha256};

use super::codec::{self, Columns, columns, only, uint, whole};
use super::counters::Counted;
use super::delivery_tidying::TO_GO;
use super::file::{OpenError, connect, lock};
use super::slices::{self, EntryRow, Slice, Totals};
use super::{trails, transfer};
use crate::store::{DeliveryState, Finding, KnownAttachment};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{ChoreKind, NameField};
use colloquy_model::conversation::Status;
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::AttachmentId;
use colloquy_model::position::Position;
use colloquy_runtime::cores::ShortRests;

/// Steps of SQLite's machine between two looks at whether a check is to rest: some ten microseconds.
const BETWEEN_RESTS: i32 = 200;

/// Checks; each statement must find nothing, with [`codes`] in place of the names of parameters.
/// `at` of a header is checked after recovery, so the
/// file must not be in use.
const CHECKS: &[(&str, &str)] = &[
    (
        "counters of conversations",
        "WITH standing AS (
           SELECT d.*, d.state = :pending AND (d.lane < 0 OR d.d > ifnull(given_up, 0)) waits, ifnull(unsettled, 0) = :to_go goes
             FROM deliveries d LEFT JOIN endpoints ON n = endpoint),
         counted AS (
           SELECT scope, :all field, 0 value, status, count(*) total FROM conversations GROUP BY scope, status
           UNION ALL SELECT scope, :by_channel, channel, status, count(*) FROM conversations GROUP BY scope, channel, status
           UNION ALL SELECT scope, :by_priority, priority, status, count(*) FROM conversations GROUP BY scope, priority, status
           UNION ALL SELECT scope, :by_customer, customer, status, count(*) FROM conversations GROUP BY scope, customer, status
           UNION ALL SELECT scope, :by_assignee, assignee, status, count(*) FROM conversations WHERE assignee IS NOT NULL GROUP BY scope, assignee, status
           UNION ALL SELECT scope, :records, kind, 0, count(*) FROM records GROUP BY scope, kind
           UNION ALL SELECT scope, :documents, deleted, 0, count(*) FROM documents GROUP BY scope, deleted
           UNION ALL SELECT endpoint, :deliveries, happened, CASE WHEN waits THEN :pending WHEN state = :pending THEN :failed ELSE state END, count(*)
             FROM standing WHERE NOT goes GROUP BY endpoint, happened, 4)
         SELECT 'scope ' || scope || ' field ' || field || ' value ' || value || ' status ' || status FROM (
           SELECT * FROM counted EXCEPT SELECT * FROM counters
           UNION ALL SELECT * FROM (SELECT * FROM counters WHERE total <> 0
             AND NOT (field = :deliveries AND scope IN (SELECT n FROM endpoints WHERE unsettled = :to_go)) EXCEPT SELECT * FROM counted))",
    ),
    (
        "sequences without gap",
        "SELECT 'entity ' || entity FROM rows WHERE seq IS NOT NULL GROUP BY entity HAVING count(*) <> max(seq) OR min(seq) <> 1",
    ),
    (
        "headers as their last row",
        "SELECT 'conversation ' || n FROM conversations c JOIN rows r ON r.entity = c.n AND
           r.seq = (SELECT max(seq) FROM rows WHERE entity = c.n)
         WHERE c.seq <> r.seq OR c.messages <> r.from_customer + r.from_agent + r.from_system OR c.updated_at <> r.at",
    ),
    (
        "only pending conversations sleep",
        "SELECT 'conversation ' || n FROM conversations WHERE snoozed_until IS NOT NULL AND status <> :waiting",
    ),
    (
        "message counts",
        "SELECT 'conversation ' || n FROM conversations c
         WHERE c.messages <> (SELECT count(*) FROM rows WHERE entity = c.n AND happened = :message_created)",
    ),
    (
        "conversations have rows",
        "SELECT 'conversation ' || n FROM conversations c WHERE NOT EXISTS (SELECT 1 FROM rows WHERE entity = c.n)",
    ),
    (
        "records as their last row",
        "SELECT 'record ' || n FROM records WHERE seq <> (SELECT coalesce(max(seq), 0) FROM rows WHERE entity = records.n)",
    ),
    (
        "documents as their last row",
        "SELECT 'document ' || n FROM documents WHERE seq <> (SELECT coalesce(max(seq), 0) FROM rows WHERE entity = documents.n)",
    ),
    (
        "versions without gap, each on an older one",
        "SELECT 'document ' || document FROM versions WHERE document IN (SELECT n FROM documents)
         GROUP BY document HAVING count(*) <> max(number) OR min(number) <> 1 OR max(coalesce(base, 0) - number) >= 0",
    ),
    (
        "long frames have all their parts, and no parts are left",
        "SELECT 'version ' || id_number FROM versions v
         WHERE parts <> (SELECT count(*) FROM frame_parts p WHERE p.version = v.id_number AND p.part < v.parts)
         UNION ALL SELECT 'version ' || version FROM frame_parts WHERE version NOT IN (SELECT id_number FROM versions WHERE parts > 0)
           AND version NOT IN (SELECT version FROM loose_frames)",
    ),
    (
        "messages point to edits",
        "SELECT 'position ' || r.pos FROM rows r LEFT JOIN rows e ON e.pos = r.edit
         WHERE r.edit IS NOT NULL AND (e.pos IS NULL OR e.entity <> r.entity OR e.happened <> :message_updated)",
    ),
    (
        "edits are numbered, and messages point to the last",
        "SELECT 'entity ' || entity FROM edits GROUP BY entity, original HAVING count(*) <> max(number) OR min(number) <> 1
         UNION ALL SELECT 'position ' || pos FROM rows r WHERE happened = :message_created AND edit IS NOT
           (SELECT pos FROM edits e WHERE e.entity = r.entity AND e.original = r.seq ORDER BY number DESC LIMIT 1)",
    ),
    (
        "the first that waits in a lane is due, and no other",
        "WITH waits AS (SELECT d.* FROM deliveries d LEFT JOIN endpoints ON n = endpoint
           WHERE state = :pending AND (lane < 0 OR d > ifnull(given_up, 0)) AND ifnull(unsettled, 0) <> :to_go)
         SELECT 'delivery ' || d FROM (SELECT d, due, min(d) OVER (PARTITION BY endpoint, lane, entity) first FROM waits)
           WHERE (due IS NOT NULL) <> (d = first)
         UNION ALL SELECT 'delivery ' || d FROM deliveries WHERE state <> :pending AND due IS NOT NULL",
    ),
    (
        "what was made as the rows say, where retention has taken none of them",
        "WITH shown AS (SELECT generation, counted FROM figure_generations WHERE state = 1),
         kept AS (SELECT scope, sum(messages) messages, sum(documents) documents, sum(text_bytes) bytes
           FROM made JOIN shown USING (generation) WHERE day >= 0 GROUP BY scope),
         said AS (SELECT scope, sum(happened = :message_created) messages, sum(happened = :document_created) documents,
             sum(ifnull(text_bytes, 0)) bytes
           FROM rows JOIN shown ON pos <= counted WHERE number IS NOT NULL GROUP BY scope),
         wrong AS (SELECT * FROM (SELECT * FROM kept EXCEPT SELECT * FROM said)
           UNION ALL SELECT * FROM (SELECT * FROM said EXCEPT SELECT * FROM kept))
         SELECT 'scope ' || scope FROM wrong WHERE messages + documents + abs(bytes) > 0
           AND scope NOT IN (SELECT scope FROM scopes WHERE floor > 0)",
    ),
    ("names have records", "SELECT 'record ' || n FROM names WHERE field <> :taken AND n NOT IN (SELECT n FROM records)"),
    ("taken attachments have conversations", "SELECT 'conversation ' || n FROM names WHERE field = :taken AND n NOT IN (SELECT n FROM conversations) AND n NOT IN (SELECT n FROM departed)"),
    ("numbers of the feed", "SELECT 'scope ' || scope FROM rows WHERE number IS NOT NULL GROUP BY scope HAVING count(*) <> max(number)"),
];

/// What a check's parameters stand for.
fn codes() -> [(&'static str, i64); 16] {
    [
        (":pending", DeliveryState::Pending as i64),
        (":failed", DeliveryState::Failed as i64),
        (":to_go", TO_GO),
        (":all", Counted::All as i64),
        (":by_channel", Counted::Channel as i64),
        (":by_priority", Counted::Priority as i64),
        (":by_customer", Counted::Customer as i64),
        (":by_assignee", Counted::Assignee as i64),
        (":records", Counted::Records as i64),
        (":documents", Counted::Documents as i64),
        (":deliveries", Counted::Deliveries as i64),
        (":waiting", Status::Pending.code()),
        (":message_created", EventKind::MessageCreated as i64),
        (":message_updated", EventKind::MessageUpdated as i64),
        (":document_created", EventKind::DocumentCreated as i64),
        (":taken", NameField::TakenAttachment as i64),
    ]
}

/// Runs one check, and gives what it found.
fn find(connection: &Connection, check: &'static str, sql: &str) -> rusqlite::Result<Vec<Finding>> {
    let mut query = connection.prepare(sql)?;
    for (name, code) in codes() {
        if let Some(index) = query.parameter_index(name)? {
            query.raw_bind_parameter(index, code)?;
        }
    }
    let mut rows = query.raw_query();
    let mut findings = Vec::new();
    while let Some(row) = rows.next()? {
        let found: String = only(row)?;
        if found != "ok" {
            findings.push(Finding { check, found });
        }
    }
    Ok(findings)
}

/// Checks a store that is not in use. Recovers it first, as a start would.
///
/// # Errors
/// It is in use, has only a part of a dump, or can't be read.
pub fn check(path: &Path) -> Result<Vec<Finding>, OpenError> {
    let _lock = lock(path)?;
    check_opened(connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?, path)
}

/// Checks a store that is not in use, as [`check`] does, in a process that answers requests meanwhile:
/// it rests now and then, and takes somewhat longer.
///
/// # Errors
/// It is in use, has only a part of a dump, or can't be read.
pub fn check_beside_requests(path: &Path) -> Result<Vec<Finding>, OpenError> {
    let _lock = lock(path)?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut rests = ShortRests::begin();
    let rest = move || {
        rests.rest_if_due();
        false
    };
    connection.progress_handler(BETWEEN_RESTS, Some(rest))?;
    check_opened(connection, path)
}

fn check_opened(mut connection: Connection, path: &Path) -> Result<Vec<Finding>, OpenError> {
    super::schema::migrate(&mut connection)?;
    transfer::refuse_part(&connection, path)?;
    super::recovery::recover(&mut connection)?;
    let mut findings = find(
        &connection,
        "SQLite's integrity check",
        "PRAGMA integrity_check",
    )?;
    for (check, sql) in CHECKS {
        findings.extend(find(&connection, check, sql)?);
    }
    findings.extend(altered(&connection)?);
    findings.extend(misfed(&connection)?.into_iter().map(|found| Finding {
        check: "the feed by account",
        found,
    }));
    let trails = astray(&connection)?.into_iter();
    findings.extend(trails.map(|found| Finding {
        check: "the audit trails",
        found,
    }));
    Ok(findings)
}

columns! {
    /// A payload and what its digest was made of.
    struct DigestRow<'r> {
        pos: Position,
        salt: &'r [u8],
        payload: &'r [u8],
        hash: &'r [u8],
    }
}

columns! {
    /// What is known of an account and mode: its last number, and the last one that retention took
    /// away.
    struct ScopeRow {
        scope: i64,
        number: u64,
        floor: u64,
    }
}

/// Rows whose payload is not the one that was sealed; a redacted one has lost its salt.
fn altered(connection: &Connection) -> rusqlite::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let sql = format!(
        "SELECT {} FROM rows WHERE salt IS NOT NULL",
        DigestRow::COLUMNS
    );
    let mut query = connection.prepare(&sql)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let row = DigestRow::read(row)?;
        let digest = Sha256::new()
            .chain_update(row.salt)
            .chain_update(row.payload)
            .finalize();
        if digest[..] != *row.hash {
            let found = row.pos.to_string();
            findings.push(Finding {
                check: "payloads as they were sealed",
                found,
            });
        }
    }
    Ok(findings)
}

/// Slices that are not what the rows say, do not follow one another, or do not reach the last
/// number.
fn misfed(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut query = connection.prepare(&format!("SELECT {} FROM scopes", ScopeRow::COLUMNS))?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let ScopeRow {
            scope: tenant,
            number,
            floor,
        } = ScopeRow::read(row)?;
        if floor > number {
            findings.push(format!(
                "scope {tenant}: the floor is {floor}, the last number {number}"
            ));
        }
        let mut chain = Chain {
            connection,
            tenant,
            is_trail: false,
            findings: &mut findings,
        };
        let end = chain.walk(slices::first_of(floor))?;
        if end != number + 1 {
            findings.push(format!(
                "scope {tenant}: ends before {end}, not behind {number}"
            ));
        }
    }
    let strays = "SELECT 'scope ' || scope FROM (SELECT scope FROM feed UNION SELECT scope FROM feed_assignees)
                  WHERE scope % 4 <> 0 AND scope NOT IN (SELECT scope FROM scopes)";
    let mut query = connection.prepare(strays)?;
    let strays = query
        .query_map([], only)?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    findings.extend(strays);
    Ok(findings)
}

/// Trails that are not what the rows say, or do not tell of all of them.
fn astray(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut counted = trails::counted(connection)?;
    let sql = "SELECT DISTINCT scope FROM feed WHERE scope % 4 = 0";
    let mut query = connection.prepare(sql)?;
    let written = query.query_map([], only)?;
    for trail in written.collect::<rusqlite::Result<Vec<i64>>>()? {
        counted.entry(trail).or_insert(0);
    }
    for (trail, records) in counted {
        let mut chain = Chain {
            connection,
            tenant: trail,
            is_trail: true,
            findings: &mut findings,
        };
        let end = chain.walk(1)?;
        if end != records + 1 {
            findings.push(format!(
                "scope {trail}: ends before {end}, and has {records} records"
            ));
        }
    }
    Ok(findings)
}

/// The slices of one tenant, or of one audit trail, one after the other.
struct Chain<'c> {
    connection: &'c Connection,
    tenant: i64,
    is_trail: bool,
    findings: &'c mut Vec<String>,
}

impl Chain<'_> {
    fn found(&mut self, first: u64, what: &str) {
        self.findings
            .push(format!("scope {}, slice {first}: {what}", self.tenant));
    }

    /// Looks at all of them, which must begin at `latest` or before; gives the number behind the
    /// last.
    fn walk(&mut self, latest: u64) -> rusqlite::Result<u64> {
        let mut next: Option<(u64, Totals)> = None;
        let mut shares: HashMap<EntityNumber, u64> = HashMap::new();
        let mut listed = 0;
        while let Some(slice) = self.next_slice(next.as_ref().map_or(0, |next| next.0))? {
            match &next {
                None if slice.first > latest => self.found(slice.first, "those before are missing"),
                Some((end, before)) if slice.first != *end || slice.before != *before => {
                    self.found(slice.first, "it does not follow the one before");
                }
                None if slice.first == 1 && slice.before != Totals::default() => {
                    self.found(slice.first, "something is counted before the first");
                }
                None | Some(_) => {}
            }
            if slice.first != slices::first_of(slice.first) || slice.entries.is_empty() {
                self.found(slice.first, "it does not begin where it must, or is empty");
                return Ok(slice.end());
            }
            self.compare(&slice)?;
            listed += self.count_shares(&slice, &mut shares)?;
            next = Some((slice.end(), slice.after()));
        }
        let stored: i64 = self.connection.query_row(
            "SELECT count(*) FROM feed_assignees WHERE scope = ?1",
            [self.tenant],
            only,
        )?;
        if stored != listed {
            self.found(0, "assignees are counted where they have nothing");
        }
        Ok(next.map_or(1, |next| next.0))
    }

    /// The next slice from this number on; none where none is left that can be read.
    fn next_slice(&mut self, from: u64) -> rusqlite::Result<Option<Slice>> {
        match slices::oldest(self.connection, self.tenant, from) {
            Err(error) if codec::unreadable(&error).is_some() => {
                self.found(from, "it can't be read");
                Ok(None)
            }
            slice => slice,
        }
    }

    /// Compares each entry of a slice of a trail with its row.
    fn compare_records(&mut self, slice: &Slice) -> rusqlite::Result<()> {
        for (_, entry) in slice.numbered() {
            let found = trails::entry_at(self.connection, entry.pos)?;
            let is_same = found.is_some_and(|(found, trails)| {
                found == *entry && trails.contains(&Some(self.tenant))
            });
            if !is_same {
                self.found(slice.first, "a record is not as its row");
            }
        }
        Ok(())
    }

    /// Compares each entry of a slice with its row.
    fn compare(&mut self, slice: &Slice) -> rusqlite::Result<()> {
        if self.is_trail {
            return self.compare_records(slice);
        }
        let connection = self.connection;
        let mut query = connection.prepare_cached(&format!(
            "SELECT {} FROM rows WHERE pos = ?1 AND scope = ?2",
            EntryRow::COLUMNS
        ))?;
        for (number, entry) in slice.numbered() {
            let found = query
                .query_row([entry.pos.0, self.tenant], whole::<EntryRow>)
                .optional()?;
            let is_same =
                found.is_some_and(|found| found.number == Some(number) && found.entry() == *entry);
            if !is_same {
                self.found(slice.first, "an entry is not as its row");
            }
        }
        Ok(())
    }

    /// Each assignee's counts follow those of the assignee's slice before; how many there are.
    fn count_shares(
        &mut self,
        slice: &Slice,
        shares: &mut HashMap<EntityNumber, u64>,
    ) -> rusqlite::Result<i64> {
        let mut here: HashMap<EntityNumber, u64> = HashMap::new();
        slice
            .entries
            .iter()
            .filter(|entry| entry.assignee != EntityNumber::ZERO)
            .for_each(|entry| *here.entry(entry.assignee).or_default() += 1);
        let mut listed = 0;
        for (assignee, here) in here {
            listed += 1;
            let share = slices::share_until(self.connection, self.tenant, assignee, slice.first)?;
            let sound = share.filter(|share| share.first == slice.first && share.here == here);
            let sound = sound.filter(|share| {
                shares
                    .get(&assignee)
                    .is_none_or(|before| share.before == *before)
            });
            match sound {
                Some(share) => drop(shares.insert(assignee, share.before + share.here)),
                None => self.found(slice.first, "an assignee's counts are wrong"),
            }
        }
        Ok(listed)
    }
}

/// The attachments of a store that is not in use, and whether their bytes must be there.
///
/// # Errors
/// It is in use or can't be read.
pub fn attachments(path: &Path) -> Result<Vec<KnownAttachment>, OpenError> {
    let _lock = lock(path)?;
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut query = connection.prepare(
        "SELECT n, tail, scope, (SELECT happened FROM rows WHERE entity = records.n ORDER BY seq DESC LIMIT 1),
           EXISTS (SELECT 1 FROM chores WHERE scope = records.scope AND kind = ?2 AND n = records.n)
         FROM records WHERE kind = ?1",
    )?;
    let kinds = [Kind::Attachment as i64, ChoreKind::EraseAttachment as i64];
    let found = query.query_map(kinds, |row| {
        let (number, tail, scope) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (last, is_to_go): (i64, bool) = (row.get(3)?, row.get(4)?);
        Ok(KnownAttachment {
            tenant: Tenant::from_number(scope),
            id: AttachmentId::from_parts(EntityNumber(uint(number)), uint(tail)),
            is_whole: !is_to_go
                && EventKind::of_row(last).is_some_and(EventKind::leaves_an_attachment),
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rusqlite::StatementStatus;

    use super::*;

    /// SQLite takes a parameter without a value as NULL: the check would find nothing ever.
    #[test]
    fn every_parameter_of_a_check_has_a_value_and_every_code_is_used() {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::migrate(&mut connection).unwrap();
        let mut used = std::collections::BTreeSet::new();
        for (check, sql) in CHECKS {
            let query = connection.prepare(sql).unwrap();
            for index in 1..=query.parameter_count() {
                let name = query.parameter_name(index).unwrap().to_owned();
                assert!(
                    codes().iter().any(|(known, _)| *known == name),
                    "{check}: {name}"
                );
                used.insert(name);
            }
        }
        assert_eq!(used.len(), codes().len());
    }

    /// The steps of SQLite's machine that all checks take where so many deliveries wait in one lane.
    fn steps(deliveries: u32) -> i64 {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::migrate(&mut connection).unwrap();
        let pending = DeliveryState::Pending as i64;
        let insert = format!(
            "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {deliveries})
             INSERT INTO deliveries SELECT n, 1, 0, n, 1, 1, 0, {pending}, 0, iif(n = 1, 0, NULL), NULL FROM s"
        );
        connection.execute_batch(&insert).unwrap();
        let all = CHECKS.iter().map(|(_, sql)| {
            let mut query = connection.prepare(sql).unwrap();
            for (name, code) in codes() {
                if let Some(index) = query.parameter_index(name).unwrap() {
                    query.raw_bind_parameter(index, code).unwrap();
                }
            }
            let mut rows = query.raw_query();
            while rows.next().unwrap().is_some() {}
            drop(rows);
            i64::from(query.get_status(StatementStatus::VmStep))
        });
        all.sum()
    }

    #[test]
    fn what_waits_for_a_receiver_is_checked_in_time_that_grows_as_it_does() {
        let (few, many) = (steps(500), steps(4_000));
        assert!(many < few * 12, "{few} steps for 500, {many} for 4000");
    }
}
