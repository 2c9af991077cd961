//! Customers' new names on their way into the headers of their conversations: in slices that are
//! bounded in time, whatever number of conversations a customer has, or of customers were renamed.
//! Until then lists take them from a view in memory.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::codec::{Columns, columns, int, only};
use crate::store::CommitSink;
use colloquy_model::conversation::Status;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::sequence::Sequence;

/// Headers that are written between two looks at the clock.
const PAGE: i64 = 16;
/// Time that a slice may take before its commit: about as long as a commit itself.
pub(super) const SLICE: Duration = Duration::from_micros(500);

/// A customer whose conversations' headers still hold an older name.
#[derive(Debug)]
struct Rename {
    name: Box<str>,
    revision: Sequence,
    /// Conversations up to this number have the name. A conversation's number never changes,
    /// whatever else of it does, so that none is passed over; those that are made meanwhile begin
    /// with the new name.
    behind: i64,
}

columns! {
    /// A new name that is still to be copied, and the customer's revision that gave it.
    struct RenameRow {
        customer: EntityNumber,
        name: Box<str>,
        revision: Sequence,
    }
}

/// All of them, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Renames {
    order: VecDeque<EntityNumber>,
    by_customer: HashMap<EntityNumber, Rename>,
}

impl Renames {
    /// What an earlier run left to be done.
    pub(super) fn open(connection: &Connection, sink: &dyn CommitSink) -> rusqlite::Result<Self> {
        let mut renames = Renames::default();
        let sql = format!("SELECT {} FROM renames", RenameRow::COLUMNS);
        let mut query = connection.prepare(&sql)?;
        let mut found = query.query([])?;
        while let Some(row) = found.next()? {
            let row = RenameRow::read(row)?;
            sink.recovered_name(row.customer, &row.name, row.revision);
            renames.add(row.customer, &row.name, row.revision);
        }
        Ok(renames)
    }

    /// A customer has a new name: what was copied of an older one is copied over.
    pub(super) fn add(&mut self, customer: EntityNumber, name: &str, revision: Sequence) {
        let rename = Rename {
            name: name.into(),
            revision,
            behind: 0,
        };
        if self.by_customer.insert(customer, rename).is_none() {
            self.order.push_back(customer);
        }
    }

    /// How many customers' names are still to be copied.
    pub(super) fn waiting(&self) -> usize {
        self.order.len()
    }

    /// Copies for about so long, at least one page; whether there was anything to copy.
    pub(super) fn slice(
        &mut self,
        connection: &Connection,
        sink: &dyn CommitSink,
        at_most: Duration,
    ) -> rusqlite::Result<bool> {
        if self.order.is_empty() {
            return Ok(false);
        }
        let begun = Instant::now();
        let mut copied: Vec<(EntityNumber, Sequence)> = Vec::new();
        let mut reached = None;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for customer in &self.order {
            let Some(rename) = self.by_customer.get(customer) else {
                continue;
            };
            let behind = rename.copy(connection, *customer, || begun.elapsed() < at_most)?;
            match behind {
                Some(behind) => reached = Some((*customer, behind)),
                None => copied.push((*customer, rename.revision)),
            }
            if reached.is_some() || begun.elapsed() >= at_most {
                break;
            }
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        for (customer, revision) in copied {
            self.order.pop_front();
            self.by_customer.remove(&customer);
            sink.name_copied(customer, revision);
        }
        if let Some((customer, behind)) = reached
            && let Some(rename) = self.by_customer.get_mut(&customer)
        {
            rename.behind = behind;
        }
        Ok(true)
    }
}

impl Rename {
    /// Copies page by page while there is time; gives how far it came, none where everything is
    /// copied.
    fn copy(
        &self,
        connection: &Connection,
        customer: EntityNumber,
        has_time: impl Fn() -> bool,
    ) -> rusqlite::Result<Option<i64>> {
        let mut next = connection.prepare_cached(&next_page())?;
        let mut update = connection.prepare_cached(
            "UPDATE conversations SET customer_name = ?2, customer_revision = ?3 WHERE n = ?1 AND customer_revision < ?3",
        )?;
        let mut behind = self.behind;
        loop {
            let page = next.query_map(params![int(customer.0), behind, PAGE], only)?;
            let page = page.collect::<rusqlite::Result<Vec<i64>>>()?;
            for n in &page {
                update.execute(params![n, self.name, int(self.revision.0)])?;
            }
            match page.last() {
                Some(last) if page.len() == usize::try_from(PAGE).unwrap_or(0) => behind = *last,
                Some(_) | None => break,
            }
            if !has_time() {
                return Ok(Some(behind));
            }
        }
        connection
            .prepare_cached("DELETE FROM renames WHERE customer = ?1 AND revision = ?2")?
            .execute(params![int(customer.0), int(self.revision.0)])?;
        Ok(None)
    }
}

/// The next conversations of a customer by number: one ordered range of the index for each status,
/// merged as they are read.
fn next_page() -> String {
    let arm = |status: Status| {
        format!(
            "SELECT n FROM conversations INDEXED BY conversations_by_customer WHERE customer = ?1 AND status = {} AND n > ?2",
            status.code()
        )
    };
    let arms: Vec<String> = Status::ALL.iter().copied().map(arm).collect();
    format!("{} ORDER BY n LIMIT ?3", arms.join(" UNION ALL "))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use proptest::prelude::*;

    use super::super::schema;
    use super::*;
    use crate::store::eraser::Eraser;

    /// Whoever is told nothing of names.
    const NOBODY: Eraser = Eraser(<[u8]>::to_vec);

    const CUSTOMER: EntityNumber = EntityNumber(7);
    const OTHER: EntityNumber = EntityNumber(8);

    fn empty() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        connection
    }

    fn insert(connection: &Connection, n: i64, customer: EntityNumber, status: i64) {
        let sql = "INSERT INTO conversations(n, tail, scope, customer, customer_tail, customer_name, customer_revision, status,
             channel, priority, metadata, seq, messages, updated_at)
             VALUES (?1, 0, 5, ?2, 0, 'old', 1, ?3, 0, 0, '{}', 1, 0, 0)";
        connection
            .execute(sql, params![n, int(customer.0), status])
            .unwrap();
    }

    fn named(connection: &Connection, customer: EntityNumber, name: &str) -> usize {
        let sql = "SELECT count(*) FROM conversations WHERE customer = ?1 AND customer_name = ?2";
        let count: i64 = connection
            .query_row(sql, params![int(customer.0), name], |row| row.get(0))
            .unwrap();
        usize::try_from(count).unwrap()
    }

    /// Gives a customer the name that a commit leaves it with.
    fn rename(
        connection: &Connection,
        renames: &mut Renames,
        (customer, name, revision): (EntityNumber, &str, Sequence),
    ) {
        let sql = "INSERT OR REPLACE INTO renames(customer, name, revision) VALUES (?1, ?2, ?3)";
        connection
            .execute(sql, params![int(customer.0), name, int(revision.0)])
            .unwrap();
        renames.add(customer, name, revision);
    }

    fn left(connection: &Connection) -> i64 {
        connection
            .query_row("SELECT count(*) FROM renames", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_slice_without_time_copies_one_page_and_the_next_goes_on() {
        let (connection, mut renames) = (empty(), Renames::default());
        (1..=100).for_each(|n| insert(&connection, n, CUSTOMER, n % 3));
        insert(&connection, 101, OTHER, 0);
        rename(&connection, &mut renames, (CUSTOMER, "new", Sequence(2)));
        let page = usize::try_from(PAGE).unwrap();
        for slices in 1..=100_usize.div_ceil(page) {
            assert!(renames.slice(&connection, &NOBODY, Duration::ZERO).unwrap());
            assert_eq!(
                named(&connection, CUSTOMER, "new"),
                (slices * page).min(100)
            );
        }
        assert_eq!(
            (
                renames.waiting(),
                left(&connection),
                named(&connection, OTHER, "old")
            ),
            (0, 0, 1)
        );
        assert!(!renames.slice(&connection, &NOBODY, Duration::ZERO).unwrap());
    }

    #[test]
    fn many_customers_go_into_one_slice_and_what_a_crash_left_is_done_by_the_next_run() {
        let (connection, mut renames) = (empty(), Renames::default());
        for customer in 1..=1_000 {
            insert(&connection, int(customer), EntityNumber(customer), 0);
            rename(
                &connection,
                &mut renames,
                (EntityNumber(customer), "new", Sequence(2)),
            );
        }
        renames.slice(&connection, &NOBODY, Duration::ZERO).unwrap();
        assert_eq!((renames.waiting(), left(&connection)), (999, 999));
        let mut renames = Renames::open(&connection, &NOBODY).unwrap();
        renames.slice(&connection, &NOBODY, Duration::MAX).unwrap();
        let all: i64 = connection
            .query_row(
                "SELECT count(*) FROM conversations WHERE customer_name = 'new'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!((renames.waiting(), left(&connection), all), (0, 0, 1_000));
    }

    proptest! {
        /// Whatever status conversations move to between slices, and however often the customer is
        /// renamed again: in the end each has the last name.
        #[test]
        fn no_conversation_is_passed_over(
            steps in proptest::collection::vec((1_i64..=60, 0_i64..3, 0_u8..8), 1..40),
        ) {
            let (connection, mut renames) = (empty(), Renames::default());
            (1..=60).for_each(|n| insert(&connection, n, CUSTOMER, n % 3));
            let mut revision = 2;
            rename(&connection, &mut renames, (CUSTOMER, "name 2", Sequence(revision)));
            for (n, status, again) in steps {
                connection.execute("UPDATE conversations SET status = ?2 WHERE n = ?1", [n, status]).unwrap();
                if again == 0 {
                    revision += 1;
                    rename(&connection, &mut renames, (CUSTOMER, &format!("name {revision}"), Sequence(revision)));
                }
                renames.slice(&connection, &NOBODY, Duration::ZERO).unwrap();
            }
            while renames.slice(&connection, &NOBODY, Duration::ZERO).unwrap() {}
            prop_assert_eq!(named(&connection, CUSTOMER, &format!("name {revision}")), 60);
            prop_assert_eq!(left(&connection), 0);
        }
    }
}
