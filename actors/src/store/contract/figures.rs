//! What every store promises of figures.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use super::fixture::{Bench, House, live, test, wait};
use crate::store::{
    FigureGroup, FigureQuery, FigureSlice, FigureTable, Generations, Grouping, Made, MadeCell,
    MadeQuery,
};
use colloquy_model::caller::CredentialCode;
use colloquy_model::conversation::{Channel, Priority, SenderType};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::figures::{Cell, Figures, Group, Milestones};
use colloquy_model::id::UserId;
use colloquy_model::interval::Interval;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// An hour in the middle of a day in the middle of a month.
const HOUR: Timestamp = Timestamp(1_790_000_000_000 - 1_790_000_000_000 % 3_600_000);

fn group(channel: Channel, assignee: Option<UserId>) -> Group {
    Group {
        channel,
        priority: Priority::Normal,
        assignee: assignee.map(|user| user.number()),
    }
}

fn slice(marks: Generations, reached: i64) -> FigureSlice {
    FigureSlice {
        generation: marks.shown.generation,
        behind: marks.shown.counted,
        reached: Position(reached),
        cells: Vec::new(),
        milestones: Vec::new(),
        made: Vec::new(),
        assignees: Vec::new(),
    }
}

/// One conversation that was created and answered.
fn one() -> Figures {
    let mut figures = Figures {
        created: 1,
        opened: 1,
        ..Figures::default()
    };
    figures.messages.add(SenderType::Agent);
    figures.first_response.add(300);
    figures
}

fn cells(group: Group, at: Timestamp, figures: &Figures) -> Vec<(Cell, Figures)> {
    let cells = Cell::all(live(), group, at);
    cells.map(|cell| (cell, figures.clone())).collect()
}

fn begin<B: Bench>(house: &House<B>) -> Generations {
    wait(house.store().begin_counting()).unwrap()
}

fn count<B: Bench>(house: &House<B>, slice: FigureSlice) -> bool {
    wait(house.store().count(Box::new(slice))).unwrap()
}

fn query(grouping: Grouping, from: Timestamp) -> FigureQuery {
    FigureQuery {
        tenant: live(),
        interval: Interval::Hour,
        from,
        to: HOUR + std::time::Duration::from_hours(2),
        grouping,
        channel: None,
        priority: None,
        assignee: None,
        entries_max: 100,
    }
}

fn figures<B: Bench>(house: &House<B>, query: FigureQuery) -> FigureTable {
    wait(house.store().figures(query)).unwrap()
}

fn created(table: &FigureTable, at: Timestamp, group: FigureGroup) -> u64 {
    let found = table.entries.get(&(at, group));
    found.map_or(0, |figures| figures.created)
}

pub(in crate::store) fn a_slice_of_figures_is_counted_once_and_behind_the_one_before<B: Bench>() {
    let house = House::<B>::new();
    let begun = begin(&house);
    assert_eq!((begun.shown.counted, begun.rebuilt), (Position::ZERO, None));
    let first = FigureSlice {
        cells: cells(group(Channel::Chat, None), HOUR, &one()),
        ..slice(begun, 7)
    };
    assert!(count(&house, first.clone()));
    // What is repeated, or comes from somebody who does not know of it, counts nothing.
    assert!(!count(&house, first));
    assert!(!count(&house, slice(begun, 9)));
    let house = house.crash();
    let now = begin(&house);
    assert_eq!(now.shown.counted, Position(7));
    let second = FigureSlice {
        cells: cells(group(Channel::Chat, None), HOUR, &one()),
        ..slice(now, 9)
    };
    assert!(count(&house, second));
    let table = figures(&house, query(Grouping::Whole, HOUR));
    let whole = &table.entries[&(HOUR, FigureGroup::Whole)];
    assert_eq!((whole.created, whole.messages.agent), (2, 2));
    assert_eq!(whole.first_response.count, 2);
}

pub(in crate::store) fn figures_are_given_by_interval_and_group_with_what_was_open_before<
    B: Bench,
>() {
    let house = House::<B>::new();
    let user = UserId::new(HOUR);
    let mut first = slice(begin(&house), 5);
    let next = Interval::Hour.next(HOUR);
    let long_ago = Timestamp(HOUR.0 - 400 * 24 * 3_600_000);
    for (group, at) in [
        (group(Channel::Chat, Some(user)), HOUR),
        (group(Channel::Email, None), next),
        (group(Channel::Email, Some(user)), long_ago),
    ] {
        first.cells.extend(cells(group, at, &one()));
    }
    first.assignees = vec![user];
    assert!(count(&house, first));

    let whole = figures(&house, query(Grouping::Whole, HOUR));
    assert_eq!(created(&whole, HOUR, FigureGroup::Whole), 1);
    assert_eq!(created(&whole, next, FigureGroup::Whole), 1);
    assert_eq!(whole.open_before[&FigureGroup::Whole], 1);
    let channels = figures(&house, query(Grouping::Channel, HOUR));
    let email = FigureGroup::Channel(Channel::Email);
    assert_eq!(created(&channels, HOUR, email), 0);
    assert_eq!(created(&channels, next, email), 1);
    assert_eq!(channels.open_before.get(&email), Some(&1));
    let assignees = figures(&house, query(Grouping::Assignee, HOUR));
    let theirs = FigureGroup::Assignee(Some(user.number()));
    assert_eq!(created(&assignees, HOUR, theirs), 1);
    assert_eq!(created(&assignees, next, FigureGroup::Assignee(None)), 1);
    assert_eq!(assignees.assignees.get(&user.number()), Some(&user));
    let only = FigureQuery {
        assignee: Some(user),
        channel: Some(Channel::Chat),
        priority: Some(Priority::Normal),
        ..query(Grouping::Whole, HOUR)
    };
    let only = figures(&house, only);
    assert_eq!(created(&only, HOUR, FigureGroup::Whole), 1);
    assert_eq!(only.entries.len(), 1);
    assert!(only.open_before.values().all(|open| *open == 0));
    let cut = FigureQuery {
        entries_max: 1,
        ..query(Grouping::Whole, HOUR)
    };
    assert_eq!(figures(&house, cut).entries.len(), 2);
    let others = FigureQuery {
        tenant: test(),
        ..query(Grouping::Whole, HOUR)
    };
    assert!(figures(&house, others).entries.is_empty());
}

pub(in crate::store) fn milestones_and_what_was_made_come_back_as_they_were_counted<B: Bench>() {
    let house = House::<B>::new();
    let (one, other) = (EntityNumber(7 << 20), EntityNumber(9 << 20));
    let milestones = |opened_at| Milestones {
        opened_at: Timestamp(opened_at),
        is_answered: opened_at > 5,
    };
    let day = Interval::Day.start_of(HOUR);
    let made_in = |credential| MadeCell {
        tenant: live(),
        day,
        credential,
    };
    let (key, nobody) = (made_in(Some(CredentialCode(11))), made_in(None));
    for (reached, opened_at) in [(3, 5), (6, 8)] {
        let made = |messages| Made {
            messages,
            documents: 1,
            text_bytes: 4 - opened_at,
        };
        let slice = FigureSlice {
            milestones: vec![(one, milestones(opened_at))],
            made: vec![(key, made(2)), (nobody, made(1))],
            ..slice(begin(&house), reached)
        };
        assert!(count(&house, slice));
    }
    let house = house.crash();
    let generation = begin(&house).shown.generation;
    let found = wait(house.store().milestones(generation, vec![other, one]));
    assert_eq!(found.unwrap(), [(one, milestones(8))]);
    let to = Interval::Day.next(day);
    let asked =
        |tenant, from, to| wait(house.store().made(MadeQuery { tenant, from, to })).unwrap();
    let expected = |messages| Made {
        messages,
        documents: 2,
        text_bytes: -5,
    };
    let found = asked(live(), day, to);
    assert_eq!(found.len(), 2);
    assert!(found.contains(&(key, expected(4))) && found.contains(&(nobody, expected(2))));
    assert!(asked(live(), to, Interval::Day.next(to)).is_empty());
    assert!(asked(test(), day, to).is_empty());
}

pub(in crate::store) fn figures_that_are_made_anew_take_the_place_of_the_others_when_they_know_as_much<
    B: Bench,
>() {
    let house = House::<B>::new();
    let store = || house.store();
    let damaged = FigureSlice {
        cells: cells(group(Channel::Chat, None), HOUR, &one()),
        ..slice(begin(&house), 5)
    };
    assert!(count(&house, damaged));
    assert!(
        wait(store().end_rebuild()).unwrap(),
        "there is nothing to end"
    );
    for _ in 0..2 {
        assert!(wait(store().begin_rebuild()).unwrap());
    }
    let begun = begin(&house);
    let rebuilt = begun.rebuilt.unwrap();
    assert_eq!(rebuilt.counted, Position::ZERO);
    assert!(!wait(store().end_rebuild()).unwrap(), "it knows less");
    // It is shown as before until then.
    let shown = || figures(&house, query(Grouping::Whole, HOUR));
    assert_eq!(created(&shown(), HOUR, FigureGroup::Whole), 1);
    let right = FigureSlice {
        generation: rebuilt.generation,
        behind: Position::ZERO,
        ..slice(begun, 5)
    };
    assert!(count(&house, right));
    assert!(wait(store().end_rebuild()).unwrap());
    assert_eq!(created(&shown(), HOUR, FigureGroup::Whole), 0);
    let now = begin(&house);
    assert_eq!(
        (now.shown.generation, now.rebuilt),
        (rebuilt.generation, None)
    );
    assert_eq!(now.shown.counted, Position(5));
    // Whoever counts in the old one is told so.
    assert!(!count(&house, slice(begun, 8)));
    assert!(count(&house, slice(now, 8)));
}
