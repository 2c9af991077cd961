//! What a commit leaves of its entity beside rows: the header of a conversation or a document, a
//! record with its names, and how the counters of lists move with it.

use rusqlite::Connection;

use super::codec::{Columns, columns, insert, int, optional_millis, update, whole};
use super::counters::{Counted, Counter, CounterMoves};
use super::dirty_headers::DirtyHeader;
use super::documents::{self, BinCounts};
use super::erasing;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Commit, Header, NameField, RecordName};
use colloquy_model::conversation::{ConversationState, MessageCounts};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::position::Position;

columns! {
    /// A customer's name, and the revision that gave it.
    struct NameRow {
        name: String,
        seq: i64,
    }
}

/// Writes what a commit leaves of its entity into the running transaction.
pub(super) fn write(
    connection: &Connection,
    commit: &Commit,
    counters: &mut CounterMoves,
) -> rusqlite::Result<()> {
    let mut headers = Headers {
        connection,
        counters,
    };
    headers.write(commit)?;
    if let Some(attachment) = commit.takes {
        let taken = RecordName {
            field: NameField::TakenAttachment,
            value: attachment.to_string(),
        };
        headers.insert_names(commit, &[taken])?;
    }
    Ok(())
}

/// Headers on their way into the file.
struct Headers<'h> {
    connection: &'h Connection,
    counters: &'h mut CounterMoves,
}

impl Headers<'_> {
    fn write(&mut self, commit: &Commit) -> rusqlite::Result<()> {
        match &commit.header {
            Header::Unchanged => Ok(()),
            Header::Conversation {
                before: None,
                after,
            } => self.insert_conversation(commit, after),
            Header::Conversation {
                before: Some(before),
                after,
            } => self.update_conversation(commit, before, after),
            Header::Record {
                new,
                name,
                body,
                names,
            } => {
                self.put_record(commit, name, body)?;
                if *new {
                    self.count(
                        commit.tenant,
                        Counted::Records,
                        commit.subject.kind as i64,
                        1,
                    );
                } else {
                    self.delete_names(commit.subject)?;
                }
                self.insert_names(commit, names)
            }
            Header::ConversationGone { before } => self.delete_conversation(commit, before),
            Header::RecordGone => self.delete_record(commit),
            Header::RecordErased => {
                self.delete_record(commit)?;
                self.connection
                    .prepare_cached("DELETE FROM renames WHERE customer = ?1")?
                    .execute([int(commit.subject.number.0)])?;
                erasing::note(self.connection, commit.subject.number)
            }
            Header::Document(header) => {
                let moved = documents::put(self.connection, commit, header)?;
                self.count_documents(commit.tenant, moved);
                Ok(())
            }
            Header::LinkUsed { share, uses } => {
                documents::count_use(self.connection, commit.subject, *share, *uses)
            }
            Header::DocumentGone { .. } => {
                let moved = documents::delete(self.connection, commit)?;
                self.count_documents(commit.tenant, moved);
                Ok(())
            }
        }
    }

    fn insert_conversation(
        &mut self,
        commit: &Commit,
        after: &ConversationState,
    ) -> rusqlite::Result<()> {
        let lag = lag_of(commit).unwrap_or_else(|| empty_lag(commit));
        let sql = format!("SELECT {} FROM records WHERE n = ?1", NameRow::COLUMNS);
        let customer: NameRow = self
            .connection
            .prepare_cached(&sql)?
            .query_row([int(after.customer.number().0)], whole)?;
        insert!(self.connection, "INSERT INTO conversations", {
            n: int(commit.subject.number.0),
            tail: int(commit.subject.tail),
            scope: commit.tenant.number(),
            customer: int(after.customer.number().0),
            customer_tail: int(after.customer.tail()),
            customer_name: customer.name,
            customer_revision: customer.seq,
            status: after.status.code(),
            channel: after.channel.code(),
            priority: after.priority.code(),
            assignee: after.assignee.map(|user| int(user.number().0)),
            assignee_tail: after.assignee.map(|user| int(user.tail())),
            metadata: &*after.metadata,
            closed_at: optional_millis(after.closed_at),
            seq: int(lag.seq.0),
            messages: int(lag.messages),
            last_message_at: optional_millis(lag.last_message_at),
            updated_at: lag.updated_at.0,
            snoozed_until: optional_millis(after.snoozed_until),
            roused_at: after.activated_at.0,
        })?;
        self.count_conversation(commit.tenant, after, 1);
        Ok(())
    }

    fn update_conversation(
        &mut self,
        commit: &Commit,
        before: &ConversationState,
        after: &ConversationState,
    ) -> rusqlite::Result<()> {
        let lag = lag_of(commit).unwrap_or_else(|| empty_lag(commit));
        update!(self.connection, "UPDATE conversations", {
            status: after.status.code(),
            channel: after.channel.code(),
            priority: after.priority.code(),
            assignee: after.assignee.map(|user| int(user.number().0)),
            assignee_tail: after.assignee.map(|user| int(user.tail())),
            metadata: &*after.metadata,
            closed_at: optional_millis(after.closed_at),
            seq: int(lag.seq.0),
            messages: int(lag.messages),
            last_message_at: optional_millis(lag.last_message_at),
            updated_at: lag.updated_at.0,
            snoozed_until: optional_millis(after.snoozed_until),
            roused_at: after.activated_at.0,
        }, "WHERE n = ?", int(commit.subject.number.0))?;
        self.count_conversation(commit.tenant, before, -1);
        self.count_conversation(commit.tenant, after, 1);
        Ok(())
    }

    /// Takes a conversation away for good. The rest of its identifier stays, for what happened to it is
    /// still told; what it said is erased later.
    fn delete_conversation(
        &mut self,
        commit: &Commit,
        before: &ConversationState,
    ) -> rusqlite::Result<()> {
        let n = int(commit.subject.number.0);
        self.connection
            .prepare_cached("DELETE FROM conversations WHERE n = ?1")?
            .execute([n])?;
        self.connection
            .prepare_cached("INSERT INTO departed(n, tail) VALUES (?1, ?2)")?
            .execute([n, int(commit.subject.tail)])?;
        self.count_conversation(commit.tenant, before, -1);
        erasing::note(self.connection, commit.subject.number)
    }

    fn count_conversation(&mut self, tenant: Tenant, state: &ConversationState, delta: i64) {
        let status = state.status.code();
        let mut count = |field, value| {
            let counter = Counter {
                scope: tenant.number(),
                field,
                value,
                status,
            };
            self.counters.add(counter, delta);
        };
        count(Counted::All, 0);
        count(Counted::Channel, state.channel.code());
        count(Counted::Priority, state.priority.code());
        count(Counted::Customer, int(state.customer.number().0));
        if let Some(user) = state.assignee {
            count(Counted::Assignee, int(user.number().0));
        }
    }

    /// Moves a counter of what has no status.
    fn count(&mut self, tenant: Tenant, field: Counted, value: i64, delta: i64) {
        let counter = Counter {
            scope: tenant.number(),
            field,
            value,
            status: 0,
        };
        self.counters.add(counter, delta);
    }

    /// Moves the counters of a tenant's documents.
    fn count_documents(&mut self, tenant: Tenant, moved: BinCounts) {
        self.count(tenant, Counted::Documents, 0, moved.outside);
        self.count(tenant, Counted::Documents, 1, moved.inside);
    }

    fn put_record(&self, commit: &Commit, name: &str, body: &str) -> rusqlite::Result<()> {
        let Subject { kind, number, tail } = commit.subject;
        insert!(self.connection, "INSERT OR REPLACE INTO records", {
            n: int(number.0),
            tail: int(tail),
            kind: kind as i64,
            scope: commit.tenant.number(),
            seq: int(commit.last_sequence().0),
            name: name,
            body: body,
        })?;
        Ok(())
    }

    fn insert_names(&self, commit: &Commit, names: &[RecordName]) -> rusqlite::Result<()> {
        for RecordName { field, value } in names {
            insert!(self.connection, "INSERT INTO names", {
                scope: commit.tenant.number(),
                field: *field as i64,
                value: value,
                n: int(commit.subject.number.0),
            })?;
        }
        Ok(())
    }

    fn delete_names(&self, subject: Subject) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM names WHERE n = ?1")?
            .execute([int(subject.number.0)])?;
        Ok(())
    }

    fn delete_record(&mut self, commit: &Commit) -> rusqlite::Result<()> {
        let n = int(commit.subject.number.0);
        self.delete_names(commit.subject)?;
        if matches!(commit.subject.kind, Kind::User | Kind::Client) {
            let mut keep = self
                .connection
                .prepare_cached("INSERT INTO departed(n, tail) VALUES (?1, ?2)")?;
            keep.execute([n, int(commit.subject.tail)])?;
        }
        self.connection
            .prepare_cached("DELETE FROM records WHERE n = ?1")?
            .execute([n])?;
        self.count(
            commit.tenant,
            Counted::Records,
            commit.subject.kind as i64,
            -1,
        );
        Ok(())
    }
}

/// A header's numbers as of the last row of a conversation's commit that has no position yet.
pub(super) fn lag_of(commit: &Commit) -> Option<DirtyHeader> {
    let last = commit.rows.last()?;
    let MessageCounts {
        last_message_at, ..
    } = last.counts;
    Some(DirtyHeader {
        conversation: commit.subject.number,
        tenant: commit.tenant.number(),
        seq: commit.last_sequence(),
        position: Position::ZERO,
        messages: last.counts.total(),
        last_message_at,
        updated_at: commit.at,
    })
}

fn empty_lag(commit: &Commit) -> DirtyHeader {
    DirtyHeader {
        conversation: commit.subject.number,
        tenant: commit.tenant.number(),
        seq: commit.expected,
        position: Position::ZERO,
        messages: 0,
        last_message_at: None,
        updated_at: commit.at,
    }
}
