//! What an account used, as it is asked for: between two days, by day, by credential, or by both.
//! Pure rules over what was counted.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::store::{Made, MadeCell};
use colloquy_model::answer::Invalid;
use colloquy_model::caller::CredentialCode;
use colloquy_model::interval::Interval;
use colloquy_model::time::Timestamp;
use colloquy_model::usage::{CountedCredential, DayUsage, UsageCounts};

/// Days that one report covers at most: a year, a leap year too.
const DAYS_MAX: u64 = 366;
/// Rows of one report at most.
pub(super) const ROWS_MAX: usize = 10_000;

/// What usage is added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub enum UsageGroup {
    /// All days of a key together.
    #[serde(rename = "key")]
    Key,
    /// All keys together; a day on which nothing was used stands there, too.
    #[default]
    #[serde(rename = "day")]
    Day,
    /// Each key on each day.
    #[serde(rename = "key,day")]
    KeyDay,
}

/// The days that a report covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsagePeriod {
    /// When the first day begins.
    pub from: Timestamp,
    /// When the day behind the last one begins.
    pub to: Timestamp,
}

impl UsagePeriod {
    /// The days that are asked for; by default the month of the last day up to that day, which is
    /// today by default.
    ///
    /// # Errors
    /// One of them is not the beginning of a day, or they are too many or none.
    pub fn of(
        from: Option<Timestamp>,
        to: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Self, Invalid> {
        for (field, at) in [("from", from), ("to", to)] {
            if at.is_some_and(|at| !Interval::Day.begins_at(at)) {
                return Err(Invalid::new(
                    field,
                    "must be the beginning of a day in UTC, such as 2026-11-01",
                ));
            }
        }
        let to = to.unwrap_or_else(|| Interval::Day.next(Interval::Day.start_of(now)));
        let last = Timestamp(to.0.saturating_sub(1));
        let from = from.unwrap_or_else(|| Interval::Month.start_of(last));
        if from >= to {
            return Err(Invalid::new("from", "must be before `to`"));
        }
        if Interval::Day.count(from, to) > DAYS_MAX {
            let reason = format!("must be at most {DAYS_MAX} days after `from`");
            return Err(Invalid::new("to", reason));
        }
        Ok(UsagePeriod { from, to })
    }
}

/// What was used in one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageRow {
    /// When the day begins; none where all days stand together.
    pub day: Option<Timestamp>,
    /// With which credential; none where all stand together.
    pub credential: Option<CountedCredential>,
    /// What was counted of requests.
    pub counts: UsageCounts,
    /// What was made.
    pub made: Made,
}

/// Finds a credential of which no request was counted.
pub type FindCredential<'f> = dyn Fn(CredentialCode) -> Option<CountedCredential> + Sync + 'f;

/// Adds up what was used and made in a period, by day and then by credential; what no credential of
/// the account did comes last.
pub(super) fn grouped(
    days: &[DayUsage],
    made: &[(MadeCell, Made)],
    (period, group): (UsagePeriod, UsageGroup),
    find: &FindCredential<'_>,
) -> Vec<UsageRow> {
    let known: HashMap<i64, CountedCredential> = days
        .iter()
        .map(|usage| (usage.credential.code, usage.credential))
        .collect();
    let whose = |code: Option<CredentialCode>| {
        let code = code.unwrap_or(CredentialCode(CountedCredential::NONE.code));
        let found = known.get(&code.0).copied().or_else(|| find(code));
        found.unwrap_or(CountedCredential::NONE)
    };
    let mut rows = Rows::new(period, group);
    for usage in days {
        rows.of(usage.day, usage.credential).0 += usage.counts;
    }
    for (cell, made) in made {
        rows.of(cell.day, whose(cell.credential)).1.merge(*made);
    }
    rows.finish()
}

/// Where a row stands: those of no credential last.
type Place = (Option<Timestamp>, Option<(bool, CountedCredential)>);

/// The rows of a report in the making.
struct Rows {
    group: UsageGroup,
    rows: BTreeMap<Place, (UsageCounts, Made)>,
}

impl Rows {
    fn new(period: UsagePeriod, group: UsageGroup) -> Self {
        let mut rows = BTreeMap::new();
        if group == UsageGroup::Day {
            let all = Interval::Day.starts(period.from, period.to);
            rows.extend(all.map(|day| ((Some(day), None), Default::default())));
        }
        Rows { group, rows }
    }

    /// The row in which this day and credential count.
    fn of(&mut self, day: Timestamp, credential: CountedCredential) -> &mut (UsageCounts, Made) {
        let is_none = credential == CountedCredential::NONE;
        let place = (
            (self.group != UsageGroup::Key).then_some(day),
            (self.group != UsageGroup::Day).then_some((is_none, credential)),
        );
        self.rows.entry(place).or_default()
    }

    fn finish(self) -> Vec<UsageRow> {
        let row = |((day, credential), (counts, made)): (Place, (UsageCounts, Made))| UsageRow {
            day,
            credential: credential.map(|(_, credential)| credential),
            counts,
            made,
        };
        let is_shown = |row: &UsageRow| {
            let made = row.made.messages + row.made.documents;
            // A day is shown also where nothing was used.
            self.group == UsageGroup::Day || made > 0 || row.counts != UsageCounts::default()
        };
        self.rows.into_iter().map(row).filter(is_shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colloquy_model::caller::{Mode, Tenant};

    const DAY_MS: i64 = 86_400_000;

    fn day(number: i64) -> Timestamp {
        Timestamp((20_000 + number) * DAY_MS)
    }

    fn key(code: i64) -> CountedCredential {
        CountedCredential { code, tail: 1 }
    }

    fn used(number: i64, credential: CountedCredential, requests: u64) -> DayUsage {
        let counts = UsageCounts {
            requests,
            ..UsageCounts::default()
        };
        DayUsage {
            day: day(number),
            credential,
            counts,
        }
    }

    fn made(number: i64, code: Option<i64>, messages: u64) -> (MadeCell, Made) {
        let cell = MadeCell {
            tenant: Tenant::of(1, Mode::Live),
            day: day(number),
            credential: code.map(CredentialCode),
        };
        let made = Made {
            messages,
            ..Made::default()
        };
        (cell, made)
    }

    type Shown = (Option<Timestamp>, Option<CountedCredential>, u64, u64);

    fn shown(group: UsageGroup) -> Vec<Shown> {
        let days = [
            used(2, CountedCredential::NONE, 5),
            used(2, key(8), 4),
            used(0, key(8), 1),
            used(0, key(7), 2),
            used(0, key(7), 10),
        ];
        let made = [
            made(0, Some(7), 100),
            made(2, None, 200),
            made(2, Some(9), 300),
        ];
        let period = UsagePeriod {
            from: day(0),
            to: day(3),
        };
        let find = |code: CredentialCode| Some(key(code.0));
        let rows = grouped(&days, &made, (period, group), &find);
        let shown = rows.into_iter().map(|row| {
            (
                row.day,
                row.credential,
                row.counts.requests,
                row.made.messages,
            )
        });
        shown.collect()
    }

    #[test]
    fn usage_is_added_up_by_day_by_credential_or_by_both() {
        assert_eq!(
            shown(UsageGroup::Day),
            [
                (Some(day(0)), None, 13, 100),
                (Some(day(1)), None, 0, 0),
                (Some(day(2)), None, 9, 500)
            ]
        );
        let none = CountedCredential::NONE;
        assert_eq!(
            shown(UsageGroup::Key),
            [
                (None, Some(key(7)), 12, 100),
                (None, Some(key(8)), 5, 0),
                (None, Some(key(9)), 0, 300),
                (None, Some(none), 5, 200)
            ]
        );
        assert_eq!(
            shown(UsageGroup::KeyDay),
            [
                (Some(day(0)), Some(key(7)), 12, 100),
                (Some(day(0)), Some(key(8)), 1, 0),
                (Some(day(2)), Some(key(8)), 4, 0),
                (Some(day(2)), Some(key(9)), 0, 300),
                (Some(day(2)), Some(none), 5, 200)
            ]
        );
    }

    #[test]
    fn a_period_is_whole_days_of_a_year_at_most_and_by_default_the_month_to_date() {
        let at = |text: &str| text.parse().unwrap_or(Timestamp::MIN);
        let now = at("2026-11-22T10:30:00Z");
        let of = |from: Option<&str>, to: Option<&str>| {
            UsagePeriod::of(from.map(at), to.map(at), now)
                .map(|period| (period.from, period.to))
                .map_err(|invalid| invalid.field)
        };
        let (month, tomorrow) = ("2026-11-01T00:00:00Z", "2026-11-23T00:00:00Z");
        assert_eq!(of(None, None), Ok((at(month), at(tomorrow))));
        let december = "2026-12-01T00:00:00Z";
        assert_eq!(of(None, Some(december)), Ok((at(month), at(december))));
        assert_eq!(of(Some(tomorrow), None), Err("from"));
        assert_eq!(of(Some(december), Some(month)), Err("from"));
        assert_eq!(of(Some("2026-11-01T00:00:00.001Z"), None), Err("from"));
        assert_eq!(of(None, Some("2026-11-01T12:00:00Z")), Err("to"));
        assert_eq!(
            of(Some(month), Some("2027-11-02T00:00:00Z")),
            Ok((at(month), at("2027-11-02T00:00:00Z")))
        );
        assert_eq!(of(Some(month), Some("2027-11-03T00:00:00Z")), Err("to"));
        assert_eq!(of(Some("9999-12-31T00:00:00Z"), None), Err("from"));
        assert_eq!(of(Some(month), Some("9999-12-31T00:00:00Z")), Err("to"));
    }
}
