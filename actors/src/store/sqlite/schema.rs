//! The tables, and how a file of an older version becomes one of this.

use rusqlite::Connection;

use super::codec::only;
use super::file::OpenError;

/// One for each version, in order; a file's `user_version` is how many of them it has had.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        description: "conversations, messages and records",
        script: V1,
    },
    Migration {
        description: "the feed by account, webhooks and timers",
        script: V2,
    },
    Migration {
        description: "documents and their versions",
        script: V3,
    },
    Migration {
        description: "uses of share links",
        script: V4,
    },
    Migration {
        description: "messages' edits by number, redactions",
        script: V5,
    },
    Migration {
        description: "where comments stand",
        script: V6,
    },
    Migration {
        description: "what was done to documents, by kind",
        script: V7,
    },
    Migration {
        description: "what came out of another store",
        script: V8,
    },
    Migration {
        description: "the audit trail",
        script: V9,
    },
    Migration {
        description: "nonces of signed requests",
        script: V10,
    },
    Migration {
        description: "the end of the audit trail's chain",
        script: V11,
    },
    Migration {
        description: "the store key",
        script: V12,
    },
    Migration {
        description: "figures of conversations",
        script: V13,
    },
    Migration {
        description: "what accounts used",
        script: V14,
    },
    Migration {
        description: "bytes of texts",
        script: V15,
    },
    Migration {
        description: "long frames of versions in parts",
        script: V16,
    },
    Migration {
        description: "share links apart from documents",
        script: V17,
    },
    // Changes nothing: it keeps binaries out that know only longer parts.
    Migration {
        description: "parts of long frames half as long",
        script: "",
    },
];

/// What makes a file of one version one of the next.
pub(super) struct Migration {
    /// What the next version has, for people.
    pub(super) description: &'static str,
    pub(super) script: &'static str,
}

/// Lean: a message's commit inserts one row and its `rows_by_entity` entry, nothing else.
///
/// Numbers of entities are those of their identifiers (60 bits, in order of creation), so that no
/// index is needed to find one. `rows.edit` of a message points to its latest edit, that of an edit
/// to the one before. `counters` holds a total for (scope, field, value, status), where status is 0
/// for what has none. `older_keys` holds idempotency keys that memory does not: blocks of (key,
/// position), sorted by key, whose filters stand in `key_slices`.
const V1: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE rows(
  pos INTEGER PRIMARY KEY, entity INTEGER NOT NULL, seq INTEGER, happened INTEGER NOT NULL, scope INTEGER NOT NULL,
  number INTEGER, at INTEGER NOT NULL,
  from_customer INTEGER NOT NULL, from_agent INTEGER NOT NULL, from_system INTEGER NOT NULL, last_message_at INTEGER,
  channel INTEGER, priority INTEGER, assignee INTEGER, sender INTEGER, edit INTEGER,
  by_key INTEGER, by_user INTEGER, by_address TEXT, by_request TEXT NOT NULL, salt BLOB, hash BLOB NOT NULL,
  key BLOB, request BLOB, done INTEGER, answer_id TEXT, etag TEXT, answer BLOB, payload BLOB) STRICT;
CREATE UNIQUE INDEX rows_by_entity ON rows(entity, seq);
CREATE INDEX rows_by_key ON rows(pos, key) WHERE key IS NOT NULL;
CREATE TABLE conversations(
  n INTEGER PRIMARY KEY, tail INTEGER NOT NULL, scope INTEGER NOT NULL,
  customer INTEGER NOT NULL, customer_tail INTEGER NOT NULL, customer_name TEXT NOT NULL, customer_revision INTEGER NOT NULL,
  status INTEGER NOT NULL, channel INTEGER NOT NULL, priority INTEGER NOT NULL,
  assignee INTEGER, assignee_tail INTEGER, metadata TEXT NOT NULL, closed_at INTEGER,
  seq INTEGER NOT NULL, messages INTEGER NOT NULL, last_message_at INTEGER, updated_at INTEGER NOT NULL) STRICT;
CREATE INDEX conversations_by_status ON conversations(scope, status, n);
CREATE INDEX conversations_by_channel ON conversations(scope, channel, status, n);
CREATE INDEX conversations_by_priority ON conversations(scope, priority, status, n);
CREATE INDEX conversations_by_customer ON conversations(customer, status, n);
CREATE INDEX conversations_by_assignee ON conversations(assignee, status, n) WHERE assignee IS NOT NULL;
CREATE INDEX conversations_by_update ON conversations(scope, updated_at, n);
CREATE TABLE records(
  n INTEGER PRIMARY KEY, tail INTEGER NOT NULL, kind INTEGER NOT NULL, scope INTEGER NOT NULL, seq INTEGER NOT NULL,
  name TEXT NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX records_by_scope ON records(scope, kind, n);
CREATE TABLE names(scope INTEGER NOT NULL, field INTEGER NOT NULL, value TEXT NOT NULL, n INTEGER NOT NULL,
  PRIMARY KEY(scope, field, value, n)) STRICT, WITHOUT ROWID;
CREATE INDEX names_by_owner ON names(n);
CREATE TABLE counters(scope INTEGER NOT NULL, field INTEGER NOT NULL, value INTEGER NOT NULL, status INTEGER NOT NULL,
  total INTEGER NOT NULL, PRIMARY KEY(scope, field, value, status)) STRICT, WITHOUT ROWID;
CREATE TABLE scopes(scope INTEGER PRIMARY KEY, number INTEGER NOT NULL) STRICT;
CREATE TABLE renames(customer INTEGER PRIMARY KEY, name TEXT NOT NULL, revision INTEGER NOT NULL) STRICT;
CREATE TABLE chores(scope INTEGER NOT NULL, kind INTEGER NOT NULL, n INTEGER NOT NULL, tail INTEGER NOT NULL,
  PRIMARY KEY(scope, kind, n)) STRICT, WITHOUT ROWID;
CREATE TABLE key_uses(n INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT;

CREATE TABLE key_slices(
  slice INTEGER PRIMARY KEY, last_pos INTEGER NOT NULL, at INTEGER NOT NULL, filter BLOB NOT NULL) STRICT;
CREATE TABLE older_keys(slice INTEGER NOT NULL, first INTEGER NOT NULL, keys BLOB NOT NULL,
  PRIMARY KEY(slice, first)) STRICT, WITHOUT ROWID;
CREATE TABLE operator(hash BLOB NOT NULL) STRICT;
INSERT INTO meta VALUES ('folded', 0);
";

/// The feed by account, webhooks, timers.
///
/// `feed` holds, in slices of consecutive numbers of one tenant, where each event stands and what
/// filters see of it, `at` is the newest instant in it; its `before` and that of `feed_assignees`
/// hold totals up to the slice, so that a page and a total cost the same wherever they begin. Rows
/// before the position `fed` are in there. `scopes.floor` is the last number that retention took
/// away. A delivery is one row, from its match to its end; `due` is set where nothing before it in
/// its lane (endpoint, lane, entity) waits, so that what is to be tried next is found by an index.
/// Rows up to an endpoint's `given_up` that still wait count as failed; `unsettled` says that some
/// are left that do not say so themselves (1), or that the endpoint is no more and its rows go (2).
/// `roused_at` is when a conversation last came to need somebody: made, reopened or woken.
const V2: &str = "
ALTER TABLE conversations ADD COLUMN snoozed_until INTEGER;
ALTER TABLE conversations ADD COLUMN roused_at INTEGER NOT NULL DEFAULT 0;
UPDATE conversations SET roused_at = n >> 12;
CREATE INDEX conversations_snoozed ON conversations(snoozed_until, n) WHERE snoozed_until IS NOT NULL;
CREATE INDEX conversations_idle ON conversations(scope, max(roused_at, ifnull(last_message_at, 0)), n)
  WHERE status <> 2 AND snoozed_until IS NULL;

ALTER TABLE scopes ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;
CREATE TABLE feed(scope INTEGER NOT NULL, first INTEGER NOT NULL, at INTEGER NOT NULL, before BLOB NOT NULL,
  entries BLOB NOT NULL, PRIMARY KEY(scope, first)) STRICT;
CREATE TABLE feed_assignees(scope INTEGER NOT NULL, assignee INTEGER NOT NULL, first INTEGER NOT NULL,
  before INTEGER NOT NULL, here INTEGER NOT NULL, PRIMARY KEY(scope, assignee, first)) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('fed', 0);

CREATE TABLE deliveries(
  d INTEGER PRIMARY KEY, endpoint INTEGER NOT NULL, lane INTEGER NOT NULL, pos INTEGER NOT NULL, entity INTEGER NOT NULL,
  happened INTEGER NOT NULL, at INTEGER NOT NULL, state INTEGER NOT NULL, attempts INTEGER NOT NULL, due INTEGER,
  log BLOB) STRICT;
CREATE INDEX deliveries_by_endpoint ON deliveries(endpoint, happened, state, d);
CREATE INDEX deliveries_waiting ON deliveries(endpoint, lane, entity, d) WHERE state = 0;
CREATE INDEX deliveries_due ON deliveries(endpoint, due, d) WHERE due IS NOT NULL;
CREATE INDEX deliveries_by_event ON deliveries(pos);
CREATE TABLE endpoints(n INTEGER PRIMARY KEY, failing_since INTEGER, given_up INTEGER NOT NULL, unsettled INTEGER NOT NULL)
  STRICT;
CREATE INDEX endpoints_unsettled ON endpoints(n) WHERE unsettled <> 0;
CREATE TABLE replays(
  lane INTEGER PRIMARY KEY, endpoint INTEGER NOT NULL, scope INTEGER NOT NULL, next INTEGER NOT NULL, last INTEGER NOT NULL,
  since INTEGER, until INTEGER, kinds TEXT NOT NULL) STRICT;
CREATE INDEX replays_by_endpoint ON replays(endpoint, lane);
INSERT INTO meta VALUES ('matched', 0), ('last_delivery', 0);
";

/// Documents, their versions and who may read them.
///
/// `documents.body` is what the entity reads back; the other columns are what lists sort and filter
/// by. `readers` says who may read what: users by number, 0 for everybody of the account.
/// `departed` keeps the other half of the identifiers of users who were deleted, for what they did
/// is still told. A version's `frame` is its content against that of `base`; from version 16 of the
/// file on, what its `frame_parts` leave of it. `erasures` names documents that are gone and whose texts
/// are still to be erased, in slices: versions and comments first, then what stands in rows, up to the
/// position `erased_to` so far.
const V3: &str = "
CREATE TABLE documents(
  n INTEGER PRIMARY KEY, tail INTEGER NOT NULL, scope INTEGER NOT NULL, seq INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  title TEXT NOT NULL, content_type INTEGER NOT NULL, owner INTEGER, deleted INTEGER NOT NULL, deleted_at INTEGER,
  body TEXT NOT NULL) STRICT;
CREATE INDEX documents_by_creation ON documents(scope, deleted, n);
CREATE INDEX documents_by_update ON documents(scope, deleted, updated_at, n);
CREATE INDEX documents_by_title ON documents(scope, deleted, title COLLATE NOCASE, n);
CREATE INDEX documents_by_owner ON documents(owner, deleted, n) WHERE owner IS NOT NULL;
CREATE INDEX documents_in_bin ON documents(deleted_at) WHERE deleted_at IS NOT NULL;
CREATE TABLE readers(user INTEGER NOT NULL, document INTEGER NOT NULL, role INTEGER NOT NULL,
  PRIMARY KEY(user, document)) STRICT, WITHOUT ROWID;
CREATE INDEX readers_by_document ON readers(document);
CREATE TABLE links(hash BLOB PRIMARY KEY, document INTEGER NOT NULL, document_tail INTEGER NOT NULL, scope INTEGER NOT NULL)
  STRICT, WITHOUT ROWID;
CREATE INDEX links_by_document ON links(document);
CREATE TABLE versions(
  document INTEGER NOT NULL, number INTEGER NOT NULL, id_number INTEGER NOT NULL, id_tail INTEGER NOT NULL,
  label TEXT, branch TEXT NOT NULL, parents TEXT NOT NULL, message TEXT, author INTEGER, author_tail INTEGER,
  at INTEGER NOT NULL, base INTEGER, frame BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX versions_by_document ON versions(document, number);
CREATE TABLE comments(document INTEGER NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY(document, number)) STRICT, WITHOUT ROWID;
CREATE TABLE departed(n INTEGER PRIMARY KEY, tail INTEGER NOT NULL) STRICT;
CREATE TABLE erasures(document INTEGER PRIMARY KEY, erased_to INTEGER NOT NULL) STRICT;
";

/// Uses of share links: each is a row of its own. Headers count them too, as of when they were
/// written; a count never goes down, so the larger one holds.
const V4: &str = "
CREATE TABLE link_uses(document INTEGER NOT NULL, share INTEGER NOT NULL, uses INTEGER NOT NULL,
  PRIMARY KEY(document, share)) STRICT, WITHOUT ROWID;
";

/// Messages' edits by number, and redactions that are under way.
///
/// `edits` holds where the edits of a message stand, 1, 2, 3 …, the last of which `rows.edit` of
/// the message points to: so a page of its earlier texts costs what it shows. `redactions` names
/// messages that are redacted and whose earlier texts are still to be erased, in slices: from edit
/// `next` on (0: the message's own row), and there from the delivery behind `delivery` on.
const V5: &str = "
CREATE TABLE IF NOT EXISTS edits(entity INTEGER NOT NULL, original INTEGER NOT NULL, number INTEGER NOT NULL, pos INTEGER NOT NULL,
  PRIMARY KEY(entity, original, number)) STRICT, WITHOUT ROWID;
WITH RECURSIVE chain(entity, original, pos) AS (
  SELECT entity, seq, edit FROM rows WHERE happened = 4 AND edit IS NOT NULL
  UNION ALL SELECT chain.entity, original, edit FROM chain JOIN rows ON rows.pos = chain.pos WHERE edit IS NOT NULL)
INSERT OR IGNORE INTO edits SELECT entity, original, row_number() OVER (PARTITION BY entity, original ORDER BY pos), pos FROM chain;
CREATE TABLE IF NOT EXISTS redactions(entity INTEGER NOT NULL, original INTEGER NOT NULL, next INTEGER NOT NULL, delivery INTEGER NOT NULL,
  PRIMARY KEY(entity, original)) STRICT, WITHOUT ROWID;
";

/// Where the comments of a document stand whose own rows say something else, all of them in one
/// row: a new head can move thousands.
const V6: &str = "
CREATE TABLE IF NOT EXISTS anchors(document INTEGER PRIMARY KEY, places BLOB NOT NULL) STRICT;
";

/// What was done to a document, by kind: nobody else pays for the index. A query has to name its
/// condition to use it.
const V7: &str = "
CREATE INDEX IF NOT EXISTS rows_of_documents ON rows(entity, happened, seq) WHERE happened >= 6 AND happened <= 14;
";

/// What came out of another store.
///
/// `feed_numbers` says under which numbers cursors know the events of an account and mode, where
/// these are others than `rows.number`: from the event `number` on they go on from `shown`. Other
/// stores leave gaps. `imports` holds one row where a dump was imported: how many of its lines are
/// in the file, and their SHA-256; no server starts before it is `done`.
const V8: &str = "
CREATE TABLE IF NOT EXISTS feed_numbers(scope INTEGER NOT NULL, number INTEGER NOT NULL, shown INTEGER NOT NULL,
  PRIMARY KEY(scope, number)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS feed_numbers_by_shown ON feed_numbers(scope, shown);
CREATE TABLE IF NOT EXISTS imports(lines INTEGER NOT NULL, digest BLOB NOT NULL, done INTEGER NOT NULL) STRICT;
";

/// The audit trail.
///
/// `rows.kind` and `rows.tail` say what a record or a document is, also when it is no more; of a
/// conversation its own row does. `feed` also has a slice for each trail: `scope` is then an
/// account's in both modes, or 0 for all of them; `assignee` is who did it, `happened` the action.
/// `rows.link` is the chain over all rows, and `audit_head` its end as of the last transaction.
const V9: &str = "
ALTER TABLE rows ADD COLUMN kind INTEGER;
ALTER TABLE rows ADD COLUMN tail INTEGER;
ALTER TABLE rows ADD COLUMN link BLOB;
CREATE TABLE audit_head(one INTEGER PRIMARY KEY, pos INTEGER NOT NULL, link BLOB NOT NULL, signature BLOB NOT NULL) STRICT;
UPDATE meta SET value = 0 WHERE key = 'fed';
";

/// Nonces of signed requests that were let in, each until its time is over.
const V10: &str = "
CREATE TABLE IF NOT EXISTS nonces(hash BLOB PRIMARY KEY, ends_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS nonces_by_end ON nonces(ends_at);
";

/// `meta.chained` is 1 from the moment at which the chain over the rows has its end: from then on
/// none is made anew.
const V11: &str = "
INSERT INTO meta SELECT 'chained', count(*) FROM audit_head;
";

/// The store key, wrapped under the master key; one row.
const V12: &str = "
CREATE TABLE IF NOT EXISTS store_key(one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL, wrapped TEXT NOT NULL) STRICT;
";

/// Figures: what conversations have come to, and what was made with which credential.
///
/// A cell of `figures` holds them of one interval; `length` says how long it is, `assigned` is the
/// assignee's number, 0 for nobody's and -1 for all together, `opened` repeats what the text says of
/// it, so that it can be summed. `milestones` holds them of conversations that have other ones than
/// their creation. `made.credential` is -1 where there was none. `figure_generations.state` is 0 for
/// one that is being made, 1 for the one that is shown, 2 for one whose rows go; `counted` is the
/// position up to which everything is counted in it.
const V13: &str = "
CREATE TABLE IF NOT EXISTS figure_generations(generation INTEGER PRIMARY KEY, counted INTEGER NOT NULL, state INTEGER NOT NULL) STRICT;
INSERT OR IGNORE INTO figure_generations VALUES (1, 0, 1);
CREATE TABLE IF NOT EXISTS figures(
  generation INTEGER NOT NULL, scope INTEGER NOT NULL, length INTEGER NOT NULL, assigned INTEGER NOT NULL, start INTEGER NOT NULL,
  channel INTEGER NOT NULL, priority INTEGER NOT NULL, opened INTEGER NOT NULL, figures TEXT NOT NULL,
  PRIMARY KEY(generation, scope, length, assigned, start, channel, priority)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS milestones(
  generation INTEGER NOT NULL, entity INTEGER NOT NULL, opened_at INTEGER NOT NULL, answered INTEGER NOT NULL,
  PRIMARY KEY(generation, entity)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS made(
  generation INTEGER NOT NULL, scope INTEGER NOT NULL, day INTEGER NOT NULL, credential INTEGER NOT NULL,
  messages INTEGER NOT NULL, documents INTEGER NOT NULL,
  PRIMARY KEY(generation, scope, day, credential)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS figure_assignees(n INTEGER PRIMARY KEY, tail INTEGER NOT NULL) STRICT;
";

/// What accounts used: by day (when it begins) and by the code of the credential, 0 for none.
const V14: &str = "
CREATE TABLE IF NOT EXISTS usage(
  account INTEGER NOT NULL, day INTEGER NOT NULL, credential INTEGER NOT NULL, tail INTEGER NOT NULL,
  requests INTEGER NOT NULL, rate_limited INTEGER NOT NULL, quota_exceeded INTEGER NOT NULL, forbidden INTEGER NOT NULL,
  deliveries INTEGER NOT NULL, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,
  PRIMARY KEY(account, day, credential, tail)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS usage_by_day ON usage(day, account, requests);
";

/// How many bytes an event adds to the texts that are stored of an account, none where it changes
/// nothing of them, and what that comes to by day and credential. Events of before say nothing.
const V15: &str = "
ALTER TABLE rows ADD COLUMN text_bytes INTEGER;
ALTER TABLE made ADD COLUMN text_bytes INTEGER NOT NULL DEFAULT 0;
";

/// Long frames of versions, in parts of one size, by the number of the version's identifier; how many it
/// has stands in `versions.parts`, and what comes behind them in `frame`. Versions of before have all in
/// `frame`. `loose_frames` names versions that have parts and no row: the row is still to come, or, where
/// they are `given_up`, it never will, and the parts are deleted.
const V16: &str = "
ALTER TABLE versions ADD COLUMN parts INTEGER NOT NULL DEFAULT 0;
CREATE TABLE frame_parts(version INTEGER NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY(version, part)) STRICT;
CREATE TABLE loose_frames(version INTEGER PRIMARY KEY, given_up INTEGER NOT NULL) STRICT;
";

/// Documents' share links, which earlier versions kept in `documents.body`: so a document with many of
/// them writes all only where these change. One without a row has those of its body.
const V17: &str = "
CREATE TABLE share_links(document INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
";

/// The version of the file.
///
/// # Errors
/// A file of a newer version is refused as it stands.
pub(super) fn version(connection: &Connection) -> Result<usize, OpenError> {
    let version = connection.pragma_query_value(None, "user_version", only::<i64>)?;
    let found = usize::try_from(version).unwrap_or(usize::MAX);
    let known = MIGRATIONS.len();
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    Ok(found)
}

/// Brings the file to this version.
///
/// # Errors
/// A file of a newer version is refused as it stands.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    let found = version(connection)?;
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(found) {
        step(connection, migration, index + 1)?;
    }
    Ok(())
}

/// Brings the file to the next version, which is this one.
///
/// # Errors
/// The file is as it was.
pub(super) fn step(
    connection: &mut Connection,
    migration: &Migration,
    version: usize,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(migration.script)?;
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()
}
