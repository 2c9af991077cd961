//! The numbers of events as cursors show them. They are those of the rows, which have no gap, but
//! where the events came out of a store whose numbers have gaps: there cursors that were given out
//! before go on, because a table says from which event on the numbers are others, and by how much.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{Columns, columns, int, uint, whole};
use crate::store::FirstRow;
use colloquy_model::caller::Tenant;
use colloquy_model::stream::FeedNumber;

columns! {
    /// From the event `number` on, cursors show `shown` and what follows.
    #[derive(Debug, Clone, Copy)]
    struct Step {
        number: i64,
        shown: i64,
    }
}

/// What cursors of one file show; most files have nothing to say about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedNumbers<'c>(Option<&'c Connection>);

impl<'c> FeedNumbers<'c> {
    /// As of the running transaction.
    pub(super) fn of(connection: &'c Connection) -> rusqlite::Result<Self> {
        let any = connection
            .prepare_cached("SELECT 1 FROM feed_numbers")?
            .exists([])?;
        Ok(FeedNumbers(any.then_some(connection)))
    }

    /// What cursors show for the event with this number.
    pub(super) fn shown(&self, tenant: i64, number: u64) -> rusqlite::Result<u64> {
        let until = "number <= ?2 ORDER BY number DESC";
        let step = self.step(tenant, until, number)?;
        Ok(step.map_or(number, |step| uint(step.shown + int(number) - step.number)))
    }

    /// The number of the last event up to which a cursor has read.
    pub(super) fn read_up_to(&self, tenant: i64, shown: u64) -> rusqlite::Result<u64> {
        let step = self.step(tenant, "shown <= ?2 ORDER BY shown DESC", shown)?;
        let number = step.map_or(int(shown), |step| step.number + int(shown) - step.shown);
        let next = self.step(tenant, "shown > ?2 ORDER BY shown", shown)?;
        Ok(uint(
            next.map_or(number, |next| number.min(next.number - 1)),
        ))
    }

    fn step(&self, tenant: i64, which: &str, value: u64) -> rusqlite::Result<Option<Step>> {
        let Some(connection) = self.0 else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT {} FROM feed_numbers WHERE scope = ?1 AND {which} LIMIT 1",
            Step::COLUMNS
        );
        connection
            .prepare_cached(&sql)?
            .query_row([tenant, int(value)], whole)
            .optional()
    }
}

columns! {
    /// By how much cursors are ahead of the numbers of an account and mode's newest events.
    struct LeadRow {
        scope: i64,
        lead: i64 = "shown - number",
    }
}

/// By how much cursors are ahead of the newest numbers, where they are: what the writer gives out
/// goes on from there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FeedLeads(HashMap<i64, i64>);

impl FeedLeads {
    /// As the file has them; only an import changes them.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = format!(
            "SELECT {} FROM feed_numbers ORDER BY scope, number",
            LeadRow::COLUMNS
        );
        let mut query = connection.prepare(&sql)?;
        let rows = query.query_map([], whole::<LeadRow>)?;
        // The last one of each counts.
        let leads = rows.map(|row| row.map(|LeadRow { scope, lead }| (scope, lead)));
        leads.collect::<Result<_, _>>().map(FeedLeads)
    }

    /// Where a commit's rows begin, with the number that cursors show.
    pub(super) fn shown(&self, tenant: Tenant, first: FirstRow) -> FirstRow {
        match self.0.get(&tenant.number()) {
            Some(lead) => FirstRow {
                number: FeedNumber(uint(int(first.number.0).saturating_add(*lead))),
                ..first
            },
            None => first,
        }
    }
}

/// Notes that cursors show this for the event with this number, and go on from there.
pub(super) fn note(
    connection: &Connection,
    tenant: i64,
    number: i64,
    shown: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO feed_numbers(scope, number, shown) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![tenant, number, shown])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn cursors_with_gaps_and_numbers_without_mean_the_same_events() {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::migrate(&mut connection).unwrap();
        // Cursors of the events 1, 2, 3 …
        let shown = [1, 2, 7, 8, 20, 21, 22];
        let mut lead = 0;
        for (number, shown) in (1..).zip(shown) {
            if shown - number != lead {
                lead = shown - number;
                note(&connection, 5, number, shown).unwrap();
            }
        }
        let numbers = FeedNumbers::of(&connection).unwrap();
        for (number, shown) in (1..).zip(shown) {
            let shown = uint(shown);
            assert_eq!(numbers.shown(5, number).unwrap(), shown);
            assert_eq!(numbers.read_up_to(5, shown).unwrap(), number);
        }
        let between = [(0, 0), (5, 2), (6, 2), (9, 4), (19, 4), (23, 8)];
        for (shown, number) in between {
            assert_eq!(numbers.read_up_to(5, shown).unwrap(), number, "{shown}");
        }
        assert_eq!(numbers.shown(6, 9).unwrap(), 9, "another one's");
        let leads = FeedLeads::read(&connection).unwrap();
        assert_eq!(leads, FeedLeads(HashMap::from([(5, 15)])));
    }
}
