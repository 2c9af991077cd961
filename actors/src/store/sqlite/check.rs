//! `colloquy check`: whether the file is sound and every count in it is what the rows say.

use std::path::Path;

use rusqlite::OpenFlags;

use super::{OpenError, connect, lock};

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub check: &'static str,
    /// What was found.
    pub found: String,
}

/// Checks; each statement must find nothing. `at` of a header is checked after recovery, so the file must not be in use.
const CHECKS: &[(&str, &str)] = &[
    (
        "counters of conversations",
        "WITH counted AS (
           SELECT scope, 0 field, 0 value, status, count(*) total FROM conversations GROUP BY scope, status
           UNION ALL SELECT scope, 1, channel, status, count(*) FROM conversations GROUP BY scope, channel, status
           UNION ALL SELECT scope, 2, priority, status, count(*) FROM conversations GROUP BY scope, priority, status
           UNION ALL SELECT scope, 3, customer, status, count(*) FROM conversations GROUP BY scope, customer, status
           UNION ALL SELECT scope, 4, assignee, status, count(*) FROM conversations WHERE assignee IS NOT NULL GROUP BY scope, assignee, status
           UNION ALL SELECT scope, 10, kind, 0, count(*) FROM records GROUP BY scope, kind)
         SELECT 'scope ' || scope || ' field ' || field || ' value ' || value || ' status ' || status FROM (
           SELECT * FROM counted EXCEPT SELECT * FROM counters
           UNION ALL SELECT * FROM (SELECT * FROM counters WHERE total <> 0 EXCEPT SELECT * FROM counted))",
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
        "message counts",
        "SELECT 'conversation ' || n FROM conversations c
         WHERE c.messages <> (SELECT count(*) FROM rows WHERE entity = c.n AND happened = 4)",
    ),
    ("numbers of the feed", "SELECT 'scope ' || scope FROM rows WHERE number IS NOT NULL GROUP BY scope HAVING count(*) <> max(number)"),
];

/// Checks a store that is not in use. Recovers it first, as a start would.
///
/// # Errors
/// It is in use or can't be read.
pub fn check(path: &Path) -> Result<Vec<Finding>, OpenError> {
    let _lock = lock(path)?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    super::schema::migrate(&mut connection)?;
    super::recovery::recover(&mut connection)?;
    let mut findings = Vec::new();
    let mut run = |check: &'static str, sql: &str| -> rusqlite::Result<()> {
        let mut query = connection.prepare(sql)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let found: String = row.get(0)?;
            if found != "ok" {
                findings.push(Finding { check, found });
            }
        }
        Ok(())
    };
    run("SQLite's integrity check", "PRAGMA integrity_check")?;
    for (check, sql) in CHECKS {
        run(check, sql)?;
    }
    Ok(findings)
}
