//! Events against a plain model: whichever way they are asked for, and whether they stand in memory
//! or are written behind.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::fixture::{Bench, House, Numbering, live, other, test, wait};
use crate::feed::{EventReader, Falling, Followed, ReadEnd};
use crate::store::{EventPage, EventQuery, FeedRow, ReadError, Store};
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::commit::{Commit, Header, NewRow};
use colloquy_model::conversation::{
    Channel, ConversationState, MessageCounts, Priority, Seen, SenderType, Status,
};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::{ConversationId, CustomerId, UserId, WebhookId};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Incarnation;

/// What an event is, as the model knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    tenant: Tenant,
    entity: EntityNumber,
    seq: u64,
    number: u64,
    kind: EventKind,
    channel: Channel,
    assignee: Option<UserId>,
    position: Position,
}

impl Known {
    /// What `EventFilter` admits, in the model's own words.
    fn is_admitted_by(&self, filter: &EventFilter) -> bool {
        let EventFilter {
            kinds,
            channel,
            assignee,
        } = filter;
        (kinds.is_empty() || kinds.contains(&self.kind))
            && channel.is_none_or(|channel| channel == self.channel)
            && assignee.is_none_or(|user| Some(user) == self.assignee)
    }
}

/// A conversation of which rows are committed as they come, without its rules.
struct Talk {
    tenant: Tenant,
    subject: Subject,
    customer: CustomerId,
    seq: u64,
    counts: MessageCounts,
    incarnation: Incarnation,
}

/// A row: what happened, the channel, the assignee.
type Said = (EventKind, Channel, Option<UserId>);

impl Talk {
    fn new(tenant: Tenant, customer: CustomerId) -> Self {
        let id = ConversationId::new(Timestamp::now());
        let subject = Subject {
            kind: Kind::Conversation,
            number: id.number(),
            tail: id.tail(),
        };
        let incarnation = Incarnation::next();
        Talk {
            tenant,
            subject,
            customer,
            seq: 0,
            counts: MessageCounts::default(),
            incarnation,
        }
    }

    fn commit(&mut self, said: &[Said], at: Timestamp) -> Commit {
        let expected = self.seq;
        self.seq += u64::try_from(said.len()).unwrap();
        let rows = said.iter().map(|said| self.row(*said, at)).collect();
        let state = ConversationState {
            customer: self.customer,
            status: Status::Active,
            channel: Channel::Chat,
            priority: Priority::Normal,
            assignee: None,
            metadata: "{}".into(),
            closed_at: None,
            snoozed_until: None,
            activated_at: at,
        };
        // What is no message writes the header, as a conversation's actor does: recovery counts on
        // it.
        let messages = said.iter().all(|(kind, _, _)| {
            matches!(kind, EventKind::MessageCreated | EventKind::MessageUpdated)
        });
        let before = (expected > 0).then(|| Box::new(state.clone()));
        let put = Header::Conversation {
            before,
            after: Box::new(state),
        };
        let header = if expected > 0 && messages {
            Header::Unchanged
        } else {
            put
        };
        let caller = Caller {
            tenant: self.tenant,
            actor: Actor::server("a test"),
        };
        Commit {
            rows,
            header,
            ..Commit::new(self.subject, Sequence(expected), caller, at)
        }
    }

    fn row(&mut self, (kind, channel, assignee): Said, at: Timestamp) -> NewRow {
        if kind == EventKind::MessageCreated {
            self.counts = self.counts.plus(SenderType::Agent, at);
        }
        let seen = Seen {
            channel,
            priority: Priority::Normal,
            assignee,
            sender: (kind == EventKind::MessageCreated).then_some(SenderType::Agent),
        };
        let payload = Bytes::from(format!("{{\"at\":{}}}", at.0));
        NewRow {
            counts: self.counts,
            seen: Some(seen),
            ..NewRow::new(kind, payload)
        }
    }

    /// Commits without waiting; tells when it is durable.
    fn submit(
        &mut self,
        store: &dyn Store,
        rows: &[Said],
        at: Timestamp,
    ) -> std::sync::mpsc::Receiver<bool> {
        let (settled, outcome) = sync_channel(1);
        let commit = self.commit(rows, at);
        store.submit(
            self.incarnation,
            commit,
            Box::new(move |outcome| settled.send(outcome.is_ok()).unwrap()),
        );
        outcome
    }
}

/// What is done. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    Begin {
        tenant: usize,
    },
    Happens {
        talk: usize,
        rows: Vec<(usize, usize, usize)>,
    },
    Crash,
}

/// The request itself.
#[derive(Debug, Clone)]
struct Question {
    scope: usize,
    talk: Option<usize>,
    after: usize,
    until: Option<usize>,
    kinds: Vec<usize>,
    channel: Option<usize>,
    assignee: Option<usize>,
    limit: u32,
    total: bool,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    // Some kinds and assignees are rare, so that whole slices lie between two of them.
    let kind = prop_oneof![20 => Just(3_usize), 4 => 0..5_usize, 1 => Just(2_usize)];
    let assignee = prop_oneof![20 => Just(0_usize), 6 => Just(1_usize), 1 => Just(2_usize)];
    let rows = proptest::collection::vec((kind, 0..3_usize, assignee), 1..4);
    let step = prop_oneof![
        2 => (0..6_usize).prop_map(|tenant| Step::Begin { tenant }),
        40 => (0..1000_usize, rows).prop_map(|(talk, rows)| Step::Happens { talk, rows }),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..most)
}

fn questions(count: usize) -> impl Strategy<Value = Vec<Question>> {
    let sometimes = |most: usize| proptest::option::weighted(0.4, 0..most);
    let kinds =
        prop_oneof![1 => Just(Vec::new()), 1 => proptest::collection::vec(0..5_usize, 1..3)];
    let filter = (kinds, sometimes(3), sometimes(2));
    let place = (
        0..3_usize,
        sometimes(1000),
        0..400_usize,
        proptest::option::weighted(0.3, 0..500_usize),
    );
    let question =
        (place, filter, 1..30_u32, any::<bool>()).prop_map(|(place, filter, limit, total)| {
            let ((scope, talk, after, until), (kinds, channel, assignee)) = (place, filter);
            Question {
                scope,
                talk,
                after,
                until,
                kinds,
                channel,
                assignee,
                limit,
                total,
            }
        });
    proptest::collection::vec(question, count)
}

struct Model<B> {
    house: House<B>,
    customers: Vec<CustomerId>,
    users: Vec<UserId>,
    talks: Vec<Talk>,
    known: Vec<Known>,
}

const TENANTS: usize = 3;

fn tenants() -> [Tenant; TENANTS] {
    [live(), test(), other()]
}

impl<B: Bench> Model<B> {
    fn new(house: House<B>) -> Self {
        let customers = tenants()
            .map(|tenant| house.customer(tenant, "Ada"))
            .to_vec();
        let users = (0..2)
            .map(|index| {
                house
                    .user(live(), &format!("{index}@example.org"))
                    .unwrap()
                    .id
            })
            .collect();
        Model {
            house,
            customers,
            users,
            talks: Vec::new(),
            known: Vec::new(),
        }
    }

    fn take(mut self, step: Step) -> Self {
        match step {
            Step::Begin { tenant } => {
                // Most of it happens in one tenant.
                let tenant = tenant.saturating_sub(3);
                self.talks
                    .push(Talk::new(tenants()[tenant], self.customers[tenant]));
                let talk = self.talks.len() - 1;
                self.happens(
                    talk,
                    vec![(EventKind::ConversationCreated, Channel::Chat, None)],
                    Timestamp::now(),
                );
            }
            Step::Happens { talk, rows } => {
                let Some(talk) = talk.checked_rem(self.talks.len()) else {
                    return self;
                };
                let said = |(kind, channel, assignee): &(usize, usize, usize)| {
                    let assignee = assignee.checked_sub(1).map(|index| self.users[index]);
                    (EventKind::EVENTS[*kind], Channel::ALL[*channel], assignee)
                };
                let rows = rows.iter().map(said).collect();
                self.happens(talk, rows, Timestamp::now());
            }
            Step::Crash => {
                self.house = self.house.crash();
                self.talks
                    .iter_mut()
                    .for_each(|talk| talk.incarnation = Incarnation::next());
            }
        }
        self
    }

    fn happens(&mut self, talk: usize, rows: Vec<Said>, at: Timestamp) {
        let talk = &mut self.talks[talk];
        let first = talk.seq + 1;
        assert!(talk.submit(&*self.house.store(), &rows, at).recv().unwrap());
        let (tenant, entity) = (talk.tenant, talk.subject.number);
        let number = self
            .known
            .iter()
            .filter(|known| known.tenant == tenant)
            .count();
        for ((seq, number), (kind, channel, assignee)) in (first..)
            .zip(1 + u64::try_from(number).unwrap()..)
            .zip(rows)
        {
            self.known.push(Known {
                tenant,
                entity,
                seq,
                number,
                kind,
                channel,
                assignee,
                position: Position(0),
            });
        }
    }

    /// Everything by position is what was committed, in that order; gives the model its positions.
    fn read_all(&mut self) {
        let mut known = self.known.iter_mut();
        let mut position = Position::ZERO;
        loop {
            let rows = wait(self.house.store().happened_behind(position, 7)).unwrap();
            for row in &rows {
                let FeedRow::Event(event) = row else {
                    panic!("{row:?} is no event")
                };
                let known = known.next().unwrap();
                assert!(event.position > position);
                position = event.position;
                known.position = position;
                if B::NUMBERING == Numbering::ByPosition {
                    known.number = u64::try_from(position.0).unwrap();
                }
                assert_eq!(
                    (event.tenant, event.entity, event.sequence.0),
                    (known.tenant, known.entity, known.seq)
                );
                assert_eq!((event.number.0, event.kind), (known.number, known.kind));
                assert_eq!(event.channel, Some(known.channel));
                assert_eq!(event.assignee, known.assignee.map(|user| user.number()));
                let again = wait(self.house.store().event_at(position))
                    .unwrap()
                    .unwrap();
                assert_eq!(again.body(), event.body());
            }
            if rows.len() < 7 {
                break;
            }
        }
        assert_eq!(known.len(), 0);
    }

    /// The conversation that a question is about; none where it is about a whole account.
    fn talk(&self, question: &Question) -> Option<&Talk> {
        question
            .talk
            .and_then(|talk| self.talks.get(talk.checked_rem(self.talks.len())?))
    }

    /// The events in which a question looks, in their order.
    fn looked_at(&self, question: &Question) -> Vec<&Known> {
        let all = self.known.iter();
        match self.talk(question) {
            Some(talk) => all
                .filter(|known| known.entity == talk.subject.number)
                .collect(),
            None => all
                .filter(|known| known.tenant == tenants()[question.scope])
                .collect(),
        }
    }

    /// The offset of an event in what a question is about.
    fn offset(&self, question: &Question, known: &Known) -> u64 {
        match self.talk(question) {
            Some(_) => known.seq,
            None => known.number,
        }
    }

    /// The question as the store is asked it, about these events.
    fn query(&self, question: &Question, of: &[&Known]) -> EventQuery {
        let talk = self.talk(question);
        let after = if question.after > 300 {
            0
        } else {
            question.after % (of.len() + 2)
        };
        let offset = |index: usize| of.get(index).map(|known| self.offset(question, known));
        let after = match after.checked_sub(1).map(|index| (index, offset(index))) {
            None => 0,
            Some((_, Some(offset))) => offset,
            Some((index, None)) => index.checked_sub(1).and_then(offset).unwrap_or(0) + 1,
        };
        let position = |index: usize| match self.known.get(index) {
            Some(known) => known.position,
            None => Position(i64::try_from(index).unwrap()),
        };
        EventQuery {
            tenant: talk.map_or(tenants()[question.scope], |talk| talk.tenant),
            source: talk.map(|talk| talk.subject).into(),
            after: StreamOffset(after),
            until: question.until.map(position),
            filter: EventFilter {
                kinds: question
                    .kinds
                    .iter()
                    .map(|kind| EventKind::EVENTS[*kind])
                    .collect(),
                channel: question.channel.map(|channel| Channel::ALL[channel]),
                assignee: question.assignee.map(|user| self.users[user]),
            },
            limit: question.limit,
            total: question.total,
        }
    }

    fn compare(&self, question: &Question) -> Result<(), TestCaseError> {
        let of = self.looked_at(question);
        let query = self.query(question, &of);
        let got = wait(self.house.store().events(query.clone()));
        let offset = |known: &Known| self.offset(question, known);
        if query.after.0 > of.last().map_or(0, |last| offset(last)) {
            prop_assert_eq!(got.unwrap_err(), ReadError::NoCursor("after"));
            return Ok(());
        }
        let page = got.unwrap().unwrap();
        let placed: Vec<(u64, &Known)> = of.iter().map(|known| (offset(known), *known)).collect();
        let expected = Expected::of(&query, &placed);
        let positions: Vec<Position> = page.events.iter().map(|event| event.position).collect();
        prop_assert_eq!(positions, expected.positions);
        prop_assert_eq!(
            (page.more, page.cursor.0, page.total),
            (expected.more, expected.cursor, expected.total)
        );
        Ok(())
    }
}

/// The page that the model answers a query with.
struct Expected {
    positions: Vec<Position>,
    more: bool,
    cursor: u64,
    total: u64,
}

impl Expected {
    /// Of these events with their offsets, the whole span of the query.
    fn of(query: &EventQuery, events: &[(u64, &Known)]) -> Self {
        let after = query.after.0;
        let limit = usize::try_from(query.limit).unwrap();
        let is_in =
            |(_, known): &&(u64, &Known)| query.until.is_none_or(|until| known.position <= until);
        let span: Vec<&(u64, &Known)> = events.iter().filter(is_in).collect();
        let end = span.last().map_or(0, |(offset, _)| *offset);
        let matching: Vec<(u64, Position)> = span
            .into_iter()
            .filter(|(offset, known)| *offset > after && known.is_admitted_by(&query.filter))
            .map(|(offset, known)| (*offset, known.position))
            .collect();
        let shown = matching.iter().take(limit);
        let more = matching.len() > limit;
        Expected {
            positions: shown.map(|(_, position)| *position).collect(),
            more,
            cursor: if more {
                matching[limit - 1].0
            } else {
                end.max(after)
            },
            total: if query.total {
                u64::try_from(matching.len()).unwrap()
            } else {
                0
            },
        }
    }
}

pub(in crate::store) fn events_and_their_totals_are_what_the_model_says<B: Bench>() {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(B::VOLUME.of(16, 2));
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let (steps, questions) = B::VOLUME.of((150, 150), (100, 40));
    let strategy = (
        any::<bool>(),
        self::steps(steps),
        self::questions(questions),
    );
    let outcome = runner.run(&strategy, |(lagging, steps, questions)| {
        let house = if lagging {
            House::<B>::lagging()
        } else {
            House::<B>::new()
        };
        let mut model = Model::new(house);
        for step in steps {
            model = model.take(step);
        }
        model.read_all();
        for question in &questions {
            model.compare(question)?;
        }
        model.house.is_sound();
        model.house = model.house.crash();
        for question in &questions {
            model.compare(question)?;
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        std::panic::panic_any(failure.to_string());
    }
}

fn of_scope(tenant: Tenant, after: u64) -> EventQuery {
    EventQuery {
        tenant,
        source: EventSource::Account,
        after: StreamOffset(after),
        until: None,
        filter: EventFilter::default(),
        limit: 100,
        total: true,
    }
}

fn page<B: Bench>(house: &House<B>, query: EventQuery) -> Result<EventPage, ReadError> {
    wait(house.store().events(query)).map(|page| page.unwrap())
}

const MESSAGE: Said = (EventKind::MessageCreated, Channel::Chat, None);

pub(in crate::store) fn a_page_is_whole_while_events_are_written_behind<B: Bench>() {
    let house = House::<B>::new();
    let mut talk = Talk::new(live(), house.customer(live(), "Ada"));
    let store = house.store();
    let writer = std::thread::spawn(move || {
        for _ in 0..40 {
            let sent: Vec<_> = (0..25)
                .map(|_| talk.submit(&*store, &[MESSAGE], Timestamp::now()))
                .collect();
            assert!(sent.into_iter().all(|sent| sent.recv().unwrap()));
        }
    });
    let (mut seen, mut after) = (0, 0);
    while seen < 1000 {
        // What was seen once stays: neither gap nor end may fall behind it.
        let found = page(&house, of_scope(live(), after)).unwrap();
        let sequences: Vec<u64> = found.events.iter().map(|event| event.sequence.0).collect();
        let shown = u64::try_from(sequences.len()).unwrap();
        assert_eq!(sequences, (seen + 1..=seen + shown).collect::<Vec<_>>());
        assert!(found.total >= shown);
        if B::NUMBERING == Numbering::WithoutGaps {
            assert_eq!(found.cursor.0, seen + shown);
        }
        (seen, after) = (seen + shown, found.cursor.0);
    }
    writer.join().unwrap();
    house.is_sound();
}

fn reader<B: Bench>(house: &House<B>, followed: Followed) -> EventReader {
    EventReader::new(house.store(), Arc::clone(&house.views.feed), followed)
}

/// All events of a source from the first on, however slowly they are read.
fn all_of(source: EventSource) -> Followed {
    Followed {
        tenant: live(),
        source,
        filter: EventFilter::default(),
        after: StreamOffset(0),
        falling: Falling::Behind,
    }
}

/// Commits so many messages, in rounds.
fn talk_on(
    mut talk: Talk,
    store: Arc<dyn Store>,
    rounds: usize,
    each: usize,
) -> std::thread::JoinHandle<Talk> {
    std::thread::spawn(move || {
        for round in 0..rounds {
            let kind = if round % 7 == 0 {
                EventKind::MessageUpdated
            } else {
                EventKind::MessageCreated
            };
            let rows = [(kind, Channel::Chat, None)];
            let sent: Vec<_> = (0..each)
                .map(|_| talk.submit(&*store, &rows, Timestamp::now()))
                .collect();
            assert!(sent.into_iter().all(|sent| sent.recv().unwrap()));
        }
        talk
    })
}

/// Reads so many events on a thread of its own; gives the place of each in its source.
fn places_read(
    mut reader: EventReader,
    source: EventSource,
    count: usize,
) -> std::thread::JoinHandle<Vec<u64>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let mut places = Vec::new();
        while places.len() < count {
            // A stream that looks at other things meanwhile drops the future again and again.
            let next = runtime.block_on(async {
                let next = tokio::time::timeout(Duration::from_millis(1), reader.next());
                next.await.ok().map(Result::unwrap)
            });
            let Some(event) = next else { continue };
            places.push(source.offset(&event).0);
            assert_eq!(reader.cursor(), StreamOffset(places[places.len() - 1]));
        }
        places
    })
}

pub(in crate::store) fn a_reader_that_joins_misses_nothing_and_sees_nothing_twice<B: Bench>() {
    /// Rounds of messages, of which one is of edits.
    const CYCLE: usize = 7;
    let (cycles, turns) = B::VOLUME.of((15, 4), (2, 2));
    let rounds = cycles * CYCLE;
    // How far the feed has come between one turn of readers and the next.
    let positions = u64::try_from(rounds * 4).unwrap();
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut talks: Vec<Talk> = (0..2).map(|_| Talk::new(live(), customer)).collect();
    for talk in &mut talks {
        let sent = talk.submit(&*house.store(), &[MESSAGE], Timestamp::now());
        assert!(sent.recv().unwrap());
    }
    let begun_at = house.views.feed.last();
    let own = EventSource::Entity(talks[0].subject);
    let writers: Vec<_> = talks
        .into_iter()
        .map(|talk| talk_on(talk, house.store(), rounds, 10))
        .collect();
    let any = EventFilter::default();
    let [rare, often] =
        [EventKind::MessageUpdated, EventKind::MessageCreated].map(|kind| EventFilter {
            kinds: vec![kind],
            ..EventFilter::default()
        });
    let mut readers = Vec::new();
    for turn in 0..turns {
        // Looked at now and then: whoever writes needs the processor.
        while house.views.feed.last().distance_from(begun_at) < turn * positions {
            std::thread::sleep(Duration::from_millis(1));
        }
        let after = u64::from(turn % 2 != 0);
        for (source, filter, all, first_is_of_it) in [
            (EventSource::Account, &any, 2 + rounds * 20, true),
            (EventSource::Account, &rare, cycles * 20, false),
            (own, &any, 1 + rounds * 10, true),
            (own, &often, 1 + (rounds - cycles) * 10, true),
        ] {
            let followed = Followed {
                filter: filter.clone(),
                after: StreamOffset(after),
                ..all_of(source)
            };
            let reader = reader(&house, followed);
            let count = all - usize::from(after == 1 && first_is_of_it);
            readers.push(places_read(reader, source, count));
        }
    }
    for writer in writers {
        writer.join().unwrap();
    }
    for (index, reader) in readers.into_iter().enumerate() {
        let places = reader.join().unwrap();
        assert!(
            places.is_sorted_by(|a, b| a < b),
            "reader {index} went back"
        );
        if matches!(index % 4, 0 | 2) {
            let span = places[places.len() - 1] + 1 - places[0];
            assert_eq!(span, u64::try_from(places.len()).unwrap(), "reader {index}");
        }
    }
}

pub(in crate::store) fn a_reader_that_is_too_slow_goes_on_from_the_store_or_ends<B: Bench>() {
    let house = House::<B>::new();
    let mut talk = Talk::new(live(), house.customer(live(), "Ada"));
    assert!(
        talk.submit(&*house.store(), &[MESSAGE], Timestamp(1))
            .recv()
            .unwrap()
    );
    let all = all_of(EventSource::Entity(talk.subject));
    let [mut behind, mut out] = [Falling::Behind, Falling::Out].map(|falling| {
        let followed = Followed {
            falling,
            ..all.clone()
        };
        reader(&house, followed)
    });
    // Each is at the end of the log and follows the feed.
    for reader in [&mut behind, &mut out] {
        assert_eq!(wait(reader.next()).unwrap().sequence, Sequence(1));
    }
    // More than a queue holds.
    let rounds = B::VOLUME.of(30, 12);
    talk_on(talk, house.store(), rounds, 100).join().unwrap();
    for seq in 2..=u64::try_from(1 + rounds * 100).unwrap() {
        assert_eq!(wait(behind.next()).unwrap().sequence, Sequence(seq));
    }
    // What waited is let go with it: it is all in the store.
    assert_eq!(wait(out.next()).unwrap_err(), ReadEnd::TooSlow);
    assert_eq!(out.cursor(), StreamOffset(1));
    drop((behind, out));
    assert_eq!(house.views.feed.listeners(), 0);
}

pub(in crate::store) fn a_reader_is_let_go_when_the_feed_closes<B: Bench>() {
    let house = House::<B>::new();
    let mut talk = Talk::new(live(), house.customer(live(), "Ada"));
    assert!(
        talk.submit(&*house.store(), &[MESSAGE, MESSAGE], Timestamp(1))
            .recv()
            .unwrap()
    );
    let all = || all_of(EventSource::Account);
    let end = page(&house, of_scope(live(), 0)).unwrap().cursor;
    let mut idle = reader(
        &house,
        Followed {
            after: end,
            ..all()
        },
    );
    let mut read = reader(&house, all());
    assert_eq!(wait(read.next()).unwrap().sequence, Sequence(1));
    let feed = Arc::clone(&house.views.feed);
    let closing = std::thread::spawn(move || {
        // `read` listens already: it has read up to the end.
        while feed.listeners() < 2 {
            std::thread::yield_now();
        }
        feed.close();
    });
    assert_eq!(wait(idle.next()).unwrap_err(), ReadEnd::Closed);
    closing.join().unwrap();
    assert_eq!(
        wait(read.next()).unwrap().sequence,
        Sequence(2),
        "it had been read"
    );
    assert_eq!(wait(read.next()).unwrap_err(), ReadEnd::Closed);
    let out = Falling::Out;
    let mut late = reader(
        &house,
        Followed {
            falling: out,
            ..all()
        },
    );
    assert_eq!(wait(late.next()).unwrap_err(), ReadEnd::Closed);
}

/// Conversations of which most events are older than they are kept for: of `live()`, the first 60
/// of 80 in two conversations, and of `test()`, the first 30 of 40 in one.
struct Trimmed<B> {
    house: House<B>,
    talks: Vec<Talk>,
    /// To whom every second event is assigned.
    user: UserId,
}

impl<B: Bench> Trimmed<B> {
    /// When retention has taken them.
    fn new() -> Self {
        let day = Duration::from_secs(86_400);
        let house = House::<B>::keeping(5 * day);
        let (now, days) = (Timestamp::now().0, i64::try_from(day.as_millis()).unwrap());
        let mut talks: Vec<Talk> = [live(), live(), test()]
            .into_iter()
            .map(|tenant| Talk::new(tenant, house.customer(tenant, "Ada")))
            .collect();
        let user = house.user(live(), "ada@example.org").unwrap().id;
        let changed = (EventKind::ConversationUpdated, Channel::Email, Some(user));
        for round in 0..20 {
            for talk in &mut talks {
                let at = if round < 15 { now - 10 * days } else { now };
                let sent = talk.submit(&*house.store(), &[MESSAGE, changed], Timestamp(at));
                assert!(sent.recv().unwrap());
            }
        }
        let trimmed = Trimmed { house, talks, user };
        for (tenant, nth) in [(live(), 59), (test(), 29)] {
            let last_expired = trimmed.number(tenant, nth);
            let house = &trimmed.house;
            house.until("the floor has moved", || {
                page(house, of_scope(tenant, last_expired)).is_err()
            });
        }
        trimmed.house.is_sound();
        trimmed
    }

    /// The number of the nth event of an account and mode; 0 for the one before the first. Every
    /// second is a message's, which are stored for good.
    fn number(&self, tenant: Tenant, nth: u64) -> u64 {
        let Some(before) = nth.checked_sub(1) else {
            return 0;
        };
        let rows = wait(self.house.store().happened_behind(Position(0), 1000)).unwrap();
        let mut numbers = rows.into_iter().filter_map(|row| match row {
            FeedRow::Event(event) => (event.tenant == tenant
                && event.kind == EventKind::MessageCreated)
                .then_some(event.number.0),
            FeedRow::Endpoint { .. } | FeedRow::Renamed { .. } => None,
        });
        let message = numbers.nth(usize::try_from(before / 2).unwrap());
        message.unwrap() + before % 2
    }
}

pub(in crate::store) fn what_retention_took_is_no_event_of_its_account_any_more<B: Bench>() {
    let trimmed = Trimmed::<B>::new();
    let number = |nth| trimmed.number(live(), nth);
    let Trimmed { house, user, .. } = &trimmed;
    for after in [1, 59] {
        assert_eq!(
            page(house, of_scope(live(), number(after))).unwrap_err(),
            ReadError::Expired
        );
    }
    for (after, left) in [(0, 20), (60, 20), (61, 19), (80, 0)] {
        let found = page(house, of_scope(live(), number(after))).unwrap();
        assert_eq!(
            (found.events.len(), found.total, found.cursor.0),
            (left, u64::try_from(left).unwrap(), number(80))
        );
    }
    let assigned = EventFilter {
        assignee: Some(*user),
        ..EventFilter::default()
    };
    let messages = EventFilter {
        kinds: vec![EventKind::MessageCreated],
        ..EventFilter::default()
    };
    for filter in [assigned, messages] {
        let query = EventQuery {
            filter,
            limit: 3,
            ..of_scope(live(), 0)
        };
        let found = page(house, query).unwrap();
        assert_eq!((found.events.len(), found.total, found.more), (3, 10, true));
    }
}

pub(in crate::store) fn what_retention_took_is_no_event_of_its_entity_any_more<B: Bench>() {
    let Trimmed { house, talks, .. } = Trimmed::<B>::new();
    let own = |after| EventQuery {
        source: EventSource::Entity(talks[0].subject),
        ..of_scope(live(), after)
    };
    assert_eq!(page(&house, own(29)).unwrap_err(), ReadError::Expired);
    for after in [0, 30] {
        let found = page(&house, own(after)).unwrap();
        assert_eq!(
            (found.events[0].sequence.0, found.total, found.cursor.0),
            (31, 10, 40)
        );
    }
}

pub(in crate::store) fn what_retention_took_is_found_by_no_position<B: Bench>() {
    let house = Trimmed::<B>::new().house;
    let left = wait(house.store().happened_behind(Position(0), 1000)).unwrap();
    assert!(
        left.len() >= 75,
        "messages are stored for good: {}",
        left.len()
    );
    let position = |row: &FeedRow| match row {
        FeedRow::Event(event) => Some(event.position),
        FeedRow::Endpoint { .. } | FeedRow::Renamed { .. } => None,
    };
    let first = left.iter().find_map(position).unwrap();
    let at = |position| wait(house.store().event_at(position)).unwrap();
    assert!(at(first).is_some());
    assert!(at(first.previous()).is_none());
    let request = |position| wait(house.store().request_at(position)).unwrap();
    assert_eq!(request(first).as_deref(), Some("a test"));
    assert_eq!(request(Position(i64::MAX)), None);
}

/// What becomes of a webhook endpoint, as its `expected`th row after the first.
fn endpoint_commit(
    (id, shown): (WebhookId, &Bytes),
    expected: u64,
    kind: EventKind,
    customer: CustomerId,
) -> Commit {
    let header = if kind == EventKind::RecordDeleted {
        Header::RecordGone
    } else {
        Header::Record {
            new: kind == EventKind::RecordCreated,
            name: "a".into(),
            body: "{}".into(),
            names: Vec::new(),
        }
    };
    let row = NewRow::new(kind, shown.clone());
    Commit {
        subject: Subject {
            kind: Kind::Webhook,
            number: id.number(),
            tail: id.tail(),
        },
        expected: Sequence(expected),
        rows: vec![row],
        header,
        ..Talk::new(live(), customer).commit(&[], Timestamp(1))
    }
}

pub(in crate::store) fn endpoints_are_read_among_the_events_by_position<B: Bench>() {
    let house = House::<B>::new();
    let mut talk = Talk::new(live(), house.customer(live(), "Ada"));
    let id = WebhookId::new(Timestamp::now());
    let shown = Bytes::from(format!(
        "{{\"webhook_id\":\"{id}\",\"url\":\"https://example.org\"}}"
    ));
    let mut wanted = Vec::new();
    for (expected, kind) in (0..).zip([
        EventKind::RecordCreated,
        EventKind::RecordUpdated,
        EventKind::RecordDeleted,
    ]) {
        assert!(
            talk.submit(&*house.store(), &[MESSAGE], Timestamp(1))
                .recv()
                .unwrap()
        );
        let commit = endpoint_commit((id, &shown), expected, kind, talk.customer);
        let (settled, outcome) = sync_channel(1);
        let settle = Box::new(move |outcome: Result<_, _>| settled.send(outcome.is_ok()).unwrap());
        house.store().submit(Incarnation::next(), commit, settle);
        assert!(outcome.recv().unwrap());
        let shown = (kind != EventKind::RecordDeleted).then(|| shown.clone());
        wanted.extend([None, Some((id.number(), shown))]);
    }
    let rows = wait(house.store().happened_behind(Position(0), 100)).unwrap();
    let got: Vec<_> = rows
        .into_iter()
        .map(|row| match row {
            FeedRow::Event(event) => {
                assert!(Arc::strong_count(&event) == 1);
                None
            }
            FeedRow::Endpoint { number, body, .. } => Some((number, body)),
            FeedRow::Renamed { .. } => panic!("no customer has a new name"),
        })
        .collect();
    assert_eq!(got, wanted);
}
