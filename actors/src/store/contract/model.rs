//! Random commands against a plain model in memory: whatever is asked, store and model show the
//! same.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use serde_json::json;

use super::fixture::{Acting, Bench, House, live, test, wait};
use crate::accounts::{ChangeCustomer, Customer};
use crate::conversation::Conversation;
use crate::conversation::messages::{ReadConversation, RedactMessage, ReviseMessage, SendMessage};
use crate::store::{ConversationQuery, Facets, MessageQuery, RecordQuery, StoredPage};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, MessageView, Priority, SenderType, Status};
use colloquy_model::entity::Kind;
use colloquy_model::id::{CustomerId, Id, MessageId, Prefix, UserId};
use colloquy_model::page::{Cursor, Order, Paging, Start};
use colloquy_model::time::Timestamp;

/// What is done. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    Create {
        customer: usize,
        first: bool,
        channel: usize,
        priority: usize,
    },
    Send {
        conversation: usize,
        sender: usize,
    },
    Change {
        conversation: usize,
        status: Option<usize>,
        priority: Option<usize>,
        assignee: Option<usize>,
    },
    Edit {
        conversation: usize,
        message: usize,
    },
    Redact {
        conversation: usize,
        message: usize,
    },
    Rename {
        customer: usize,
    },
    Crash,
}

/// What is asked in the end.
#[derive(Debug, Clone)]
struct Question {
    live: bool,
    status: Option<usize>,
    channel: Option<usize>,
    priority: Option<usize>,
    customer: Option<usize>,
    assignee: Option<usize>,
    since: Option<usize>,
    until: Option<usize>,
    sender: Option<usize>,
    by_update: bool,
    descending: bool,
    start: (u8, usize),
    limit: u32,
    window: (Option<u64>, Option<u64>),
}

#[derive(Debug, Clone)]
struct Said {
    id: MessageId,
    sender: SenderType,
    content: String,
}

struct Talk {
    acting: Acting<Conversation>,
    customer: usize,
    status: Status,
    channel: Channel,
    priority: Priority,
    assignee: Option<UserId>,
    said: Vec<Said>,
    updated_at: Timestamp,
}

const SENDERS: [SenderType; 3] = [SenderType::Customer, SenderType::Agent, SenderType::System];
const CUSTOMERS: usize = 4;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0..1000_usize;
    let step = prop_oneof![
        4 => (number.clone(), any::<bool>(), 0..3_usize, 0..3_usize)
            .prop_map(|(customer, first, channel, priority)| Step::Create { customer, first, channel, priority }),
        8 => (number.clone(), 0..3_usize).prop_map(|(conversation, sender)| Step::Send { conversation, sender }),
        4 => (number.clone(), proptest::option::of(0..3_usize), proptest::option::of(0..3_usize), proptest::option::of(0..3_usize))
            .prop_map(|(conversation, status, priority, assignee)| Step::Change { conversation, status, priority, assignee }),
        2 => (number.clone(), number.clone()).prop_map(|(conversation, message)| Step::Edit { conversation, message }),
        1 => (number.clone(), number.clone()).prop_map(|(conversation, message)| Step::Redact { conversation, message }),
        1 => number.prop_map(|customer| Step::Rename { customer }),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..80)
}

fn questions(count: usize) -> impl Strategy<Value = Vec<Question>> {
    let rarely = |most: usize| proptest::option::weighted(0.2, 0..most);
    let facets = (
        rarely(3),
        rarely(3),
        rarely(3),
        rarely(CUSTOMERS),
        rarely(2),
        rarely(1000),
        rarely(1000),
    );
    let seq = || proptest::option::weighted(0.3, 0..20_u64);
    let paging = (
        any::<bool>(),
        any::<bool>(),
        (0..3_u8, 0..60_usize),
        1..12_u32,
        (seq(), seq()),
    );
    let question = (prop::bool::weighted(0.8), facets, rarely(3), paging).prop_map(
        |(live, facets, sender, paging)| {
            let (status, channel, priority, customer, assignee, since, until) = facets;
            let (by_update, descending, start, limit, window) = paging;
            Question {
                live,
                status,
                channel,
                priority,
                customer,
                assignee,
                since,
                until,
                sender,
                by_update,
                descending,
                start,
                limit,
                window,
            }
        },
    );
    proptest::collection::vec(question, count)
}

pub(in crate::store) fn lists_totals_and_transcripts_are_what_the_model_says<B: Bench>() {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(B::VOLUME.of(16, 2));
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let strategy = (any::<bool>(), steps(), questions(B::VOLUME.of(60, 20)));
    let outcome = runner.run(&strategy, |(lagging, steps, questions)| {
        let house = if lagging {
            House::<B>::lagging()
        } else {
            House::<B>::new()
        };
        let mut model = Model::new(house);
        for step in steps {
            model = model.take(&step);
        }
        for question in &questions {
            model.compare_list(question)?;
            model.compare_transcript(question)?;
            model.compare_customers(question)?;
        }
        model.house.is_sound();
        Ok(())
    });
    if let Err(failure) = outcome {
        std::panic::panic_any(failure.to_string());
    }
}

struct Model<B> {
    house: House<B>,
    customers: Vec<(Tenant, CustomerId, String)>,
    users: Vec<UserId>,
    talks: Vec<Talk>,
    texts: usize,
}

fn pick<T: Copy>(of: &[T], index: usize) -> T {
    of[index % of.len()]
}

impl<B: Bench> Model<B> {
    fn new(house: House<B>) -> Self {
        let customers = (0..CUSTOMERS)
            .map(|index| {
                let (tenant, name) = (
                    if index == 0 { test() } else { live() },
                    format!("customer {index}"),
                );
                (tenant, house.customer(tenant, &name), name)
            })
            .collect();
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
            texts: 0,
        }
    }

    fn take(mut self, step: &Step) -> Self {
        match *step {
            Step::Create {
                customer,
                first,
                channel,
                priority,
            } => self.create(customer, first, (channel, priority)),
            Step::Rename { customer } => self.rename(customer % CUSTOMERS),
            Step::Crash => return self.crash(),
            Step::Send { conversation, .. }
            | Step::Change { conversation, .. }
            | Step::Edit { conversation, .. }
            | Step::Redact { conversation, .. } => {
                let (talks, users) = (self.talks.len(), self.users.clone());
                self.texts += 1;
                let text = format!("text {}", self.texts);
                if let Some(talk) = conversation
                    .checked_rem(talks)
                    .and_then(|index| self.talks.get_mut(index))
                {
                    talk.take(step, &users, &text);
                }
            }
        }
        self
    }

    fn create(&mut self, customer: usize, first: bool, (channel, priority): (usize, usize)) {
        let customer = customer % CUSTOMERS;
        let (tenant, id, _) = self.customers[customer];
        let (channel, priority) = (pick(Channel::ALL, channel), pick(Priority::ALL, priority));
        let content = first.then_some("the first");
        let new = json!({"customer_id": id, "initial_message": content, "channel": channel, "priority": priority});
        let acting = self.house.create(tenant, id, new).unwrap();
        let mut talk = Talk {
            acting,
            customer,
            status: Status::Active,
            channel,
            priority,
            assignee: None,
            said: Vec::new(),
            updated_at: Timestamp(0),
        };
        if let Some(content) = content {
            // Its identifier is not in the answer; the transcript has it.
            let page = self.house.transcript(tenant, talk.acting.id);
            let message: MessageView = serde_json::from_str(&page.items[0]).unwrap();
            talk.said.push(Said {
                id: message.message_id,
                sender: SenderType::Customer,
                content: content.to_owned(),
            });
        }
        talk.see();
        self.talks.push(talk);
    }

    fn rename(&mut self, index: usize) {
        let (tenant, id, _) = self.customers[index];
        self.texts += 1;
        let name = format!("renamed {}", self.texts);
        let change = json!({ "name": name });
        let change: ChangeCustomer = serde_json::from_value(change).unwrap();
        self.house
            .record::<Customer>(tenant, id)
            .ask(change)
            .unwrap();
        self.customers[index].2 = name;
    }

    fn crash(mut self) -> Self {
        self.house = self.house.crash();
        for talk in &mut self.talks {
            talk.acting = self.house.reopened(talk.acting.id);
        }
        self
    }

    fn compare_list(&self, question: &Question) -> Result<(), TestCaseError> {
        let tenant = if question.live { live() } else { test() };
        let instant = |index: Option<usize>| {
            index.map(|index| {
                self.talks
                    .get(index % 50)
                    .map_or(Timestamp::now().0, |talk| talk.acting.id.created_at().0)
            })
        };
        let facets = Facets {
            status: question.status.map(|index| pick(Status::ALL, index)),
            channel: question.channel.map(|index| pick(Channel::ALL, index)),
            priority: question.priority.map(|index| pick(Priority::ALL, index)),
            customer: question.customer.map(|index| self.customers[index].1),
            assignee: question.assignee.map(|index| self.users[index]),
            created_after: instant(question.since).map(Timestamp),
            created_before: instant(question.until).map(Timestamp),
        };
        let mut wanted: Vec<&Talk> = self
            .talks
            .iter()
            .filter(|talk| talk.matches(tenant, &facets, self))
            .collect();
        if question.by_update {
            wanted.sort_by_key(|talk| (talk.updated_at, talk.acting.id));
        }
        if question.descending {
            wanted.reverse();
        }
        let of_scope = self
            .talks
            .iter()
            .filter(|talk| talk.matches(tenant, &Facets::default(), self));
        let start = question.start_among(
            of_scope.map(|talk| cursor(talk.acting.id)).collect(),
            question.by_update,
        );
        let paging = question.paging(start);
        let query = ConversationQuery {
            tenant,
            facets,
            by_update: question.by_update,
            paging,
        };
        let page = wait(self.house.store().conversations(query)).unwrap();
        let ids: Vec<_> = wanted
            .iter()
            .map(|talk| (talk.acting.id.number().0, talk.shown(self)))
            .collect();
        let shown = |header: &crate::store::ConversationHeader| {
            let at = (
                header.messages,
                header.updated_at,
                header.last_message_at.is_some(),
            );
            (
                header.id.number().0,
                (at, self.house.name_of(header).to_string()),
            )
        };
        same(page, &ids, paging, |at| at.number.0, shown)
    }

    fn compare_transcript(&self, question: &Question) -> Result<(), TestCaseError> {
        let Some(talk) = question
            .start
            .1
            .checked_rem(self.talks.len())
            .map(|index| &self.talks[index])
        else {
            return Ok(());
        };
        let sender = question.sender.map(|index| SENDERS[index]);
        let (after_seq, before_seq) = question.seqs();
        let windowed = after_seq.is_some() || before_seq.is_some();
        let mut wanted = talk.messages_from(sender);
        let all = u64::try_from(wanted.len()).unwrap();
        question.narrow(&mut wanted);
        let start = if windowed {
            Start::Offset(0)
        } else {
            question.start_among(
                talk.said.iter().map(|said| cursor(said.id)).collect(),
                false,
            )
        };
        let paging = question.paging(start);
        let conversation = Conversation::subject(talk.acting.id);
        let query = MessageQuery {
            tenant: talk.acting.tenant,
            conversation,
            sender,
            after_seq,
            before_seq,
            paging,
        };
        let mut page = wait(self.house.store().messages(query)).unwrap().unwrap();
        prop_assert_eq!(page.total, all);
        if windowed {
            // What stands around a window is not compared here.
            page.total = u64::try_from(wanted.len()).unwrap();
            (page.before, page.after) = (false, wanted.len() > page.items.len());
        }
        let row = |at: Cursor| MessageId::from_parts(at.number, at.tail).sequence().0;
        same(page, &wanted, paging, row, |json| {
            let message: MessageView = serde_json::from_str(json).unwrap();
            (
                message.message_id.sequence().0,
                (message.seq, message.content),
            )
        })
    }

    fn compare_customers(&self, question: &Question) -> Result<(), TestCaseError> {
        let tenant = if question.live { live() } else { test() };
        let of_scope = self.customers.iter().filter(|(of, _, _)| *of == tenant);
        let mut wanted: Vec<(u64, String)> = of_scope
            .map(|(_, id, name)| (id.number().0, name.clone()))
            .collect();
        if question.descending {
            wanted.reverse();
        }
        let start = question.start_among(
            self.customers
                .iter()
                .map(|(_, id, _)| cursor(*id))
                .collect(),
            false,
        );
        let paging = question.paging(start);
        let query = RecordQuery {
            tenant,
            kind: Kind::Customer,
            names: Vec::new(),
            paging,
        };
        let page = wait(self.house.store().records(query)).unwrap();
        same(
            page,
            &wanted,
            paging,
            |at| at.number.0,
            |record| (record.subject.number.0, record.name.to_string()),
        )
    }
}

/// Compares a page with the part of the list that it must be.
fn same<T, V: PartialEq + std::fmt::Debug + Clone>(
    page: StoredPage<T>,
    list: &[(u64, V)],
    paging: Paging,
    place: impl Fn(Cursor) -> u64,
    shown: impl Fn(&T) -> (u64, V),
) -> Result<(), TestCaseError> {
    let limit = usize::try_from(paging.limit).unwrap();
    let descending = paging.order == Order::Desc;
    let follows = |number: u64, bound: u64| {
        if descending {
            number < bound
        } else {
            number > bound
        }
    };
    let precedes = |number: u64, bound: u64| {
        if descending {
            number > bound
        } else {
            number < bound
        }
    };
    let (from, to) = match paging.start {
        Start::Offset(skip) => {
            let from = usize::try_from(skip).unwrap().min(list.len());
            (from, (from + limit).min(list.len()))
        }
        Start::After(at) => {
            let bound = place(at);
            let from = list
                .iter()
                .position(|(number, _)| follows(*number, bound))
                .unwrap_or(list.len());
            (from, (from + limit).min(list.len()))
        }
        Start::Before(at) => {
            let bound = place(at);
            let to = list
                .iter()
                .take_while(|(number, _)| precedes(*number, bound))
                .count();
            (to.saturating_sub(limit), to)
        }
    };
    let got: Vec<_> = page.items.iter().map(shown).collect();
    prop_assert_eq!(&got[..], &list[from..to]);
    prop_assert_eq!(page.total, u64::try_from(list.len()).unwrap());
    if !got.is_empty() {
        // A cursor is taken to stand on something, so the page may say that there is more on its
        // side.
        let exact = matches!(paging.start, Start::Offset(_));
        prop_assert!(
            page.before == (from > 0) || (!exact && page.before),
            "before"
        );
        prop_assert!(
            page.after == (to < list.len()) || (!exact && page.after),
            "after"
        );
    }
    Ok(())
}

fn cursor<K: Prefix>(id: Id<K>) -> Cursor {
    Cursor {
        number: id.number(),
        tail: id.tail(),
    }
}

impl Question {
    fn paging(&self, start: Start) -> Paging {
        Paging {
            limit: self.limit,
            start,
            order: if self.descending {
                Order::Desc
            } else {
                Order::Asc
            },
        }
    }

    /// The places between which messages are asked for, without both of them.
    fn seqs(&self) -> (Option<u64>, Option<u64>) {
        if self.start.0 == 0 {
            self.window
        } else {
            (None, None)
        }
    }

    /// Leaves the messages that stand between the places that are asked for, in the order of the
    /// page; of those, where only an upper end is given, the last.
    fn narrow(&self, messages: &mut Vec<(u64, (u64, String))>) {
        let (after, before) = self.seqs();
        messages.retain(|(_, (seq, _))| {
            after.is_none_or(|after| *seq > after) && before.is_none_or(|before| *seq < before)
        });
        let windowed = after.is_some() || before.is_some();
        if windowed && (self.descending || after.is_none()) {
            let limit = usize::try_from(self.limit).unwrap();
            messages.drain(..messages.len().saturating_sub(limit));
        }
        if self.descending {
            messages.reverse();
        }
    }

    /// An offset, or one of these cursors.
    fn start_among(&self, cursors: Vec<Cursor>, only_offset: bool) -> Start {
        let (kind, index) = self.start;
        match (kind, cursors.get(index / 2)) {
            (1, Some(at)) if !only_offset => Start::After(*at),
            (2, Some(at)) if !only_offset => Start::Before(*at),
            _ => Start::Offset(u64::try_from(index / 4).unwrap()),
        }
    }
}

impl Talk {
    /// The row of each of its messages from this kind of sender, with its place and text.
    fn messages_from(&self, sender: Option<SenderType>) -> Vec<(u64, (u64, String))> {
        (1..)
            .zip(&self.said)
            .filter(|(_, said)| sender.is_none_or(|sender| sender == said.sender))
            .map(|(seq, said)| (said.id.sequence().0, (seq, said.content.clone())))
            .collect()
    }

    fn take(&mut self, step: &Step, users: &[UserId], text: &str) {
        match *step {
            Step::Send { sender, .. } => {
                let sender = SENDERS[sender];
                let send = json!({"content": text, "sender_type": sender});
                let send: SendMessage = serde_json::from_value(send).unwrap();
                let sent = self.acting.ask(send);
                assert_eq!(
                    sent.is_err(),
                    self.status == Status::Closed && sender != SenderType::Customer
                );
                if let Ok(sent) = sent {
                    self.said.push(Said {
                        id: sent.id.unwrap().parse().unwrap(),
                        sender,
                        content: text.to_owned(),
                    });
                    if sender == SenderType::Customer {
                        self.status = Status::Active;
                    }
                }
            }
            Step::Change {
                status,
                priority,
                assignee,
                ..
            } => self.change(
                status,
                priority,
                assignee.map(|index| users.get(index).copied()),
            ),
            Step::Edit { message, .. } => {
                let Some(index) = message.checked_rem(self.said.len()) else {
                    return;
                };
                let edited = self.acting.ask(ReviseMessage {
                    message: self.said[index].id,
                    edit: serde_json::from_value(json!({"content": text})).unwrap(),
                });
                assert_eq!(
                    edited.is_err(),
                    self.said[index].content.is_empty(),
                    "a redacted one is not edited"
                );
                if edited.is_ok() {
                    self.said[index].content = text.to_owned();
                }
            }
            Step::Redact { message, .. } => {
                let Some(index) = message.checked_rem(self.said.len()) else {
                    return;
                };
                let message = self.said[index].id;
                self.acting.ask(RedactMessage { message }).unwrap();
                self.said[index].content.clear();
            }
            Step::Create { .. } | Step::Rename { .. } | Step::Crash => {}
        }
        self.see();
    }

    fn change(
        &mut self,
        status: Option<usize>,
        priority: Option<usize>,
        assignee: Option<Option<UserId>>,
    ) {
        // Customers of the test mode share the account's users.
        let mut change = serde_json::Map::new();
        let status = status.map(|index| pick(Status::ALL, index));
        let priority = priority.map(|index| pick(Priority::ALL, index));
        change.extend(status.map(|status| ("status".to_owned(), json!(status))));
        change.extend(priority.map(|priority| ("priority".to_owned(), json!(priority))));
        change.extend(assignee.map(|assignee| ("assignee_id".to_owned(), json!(assignee))));
        let changed = self.acting.ask(super::change(change.into()));
        let refused = self.status == Status::Closed && status == Some(Status::Pending);
        assert_eq!(changed.is_err(), refused);
        if !refused {
            self.status = status.unwrap_or(self.status);
            self.priority = priority.unwrap_or(self.priority);
            self.assignee = assignee.unwrap_or(self.assignee);
        }
    }

    /// The time of the last change is the conversation's own to give.
    fn see(&mut self) {
        let shown: serde_json::Value =
            serde_json::from_slice(&self.acting.ask(ReadConversation).unwrap().body).unwrap();
        let updated_at = serde_json::from_value::<Timestamp>(shown["updated_at"].clone())
            .unwrap()
            .0;
        assert!(updated_at >= self.updated_at.0);
        self.updated_at = Timestamp(updated_at);
    }

    fn matches<B>(&self, tenant: Tenant, facets: &Facets, model: &Model<B>) -> bool {
        let customer = model.customers[self.customer].1;
        let made = self.acting.id.created_at();
        self.acting.tenant == tenant
            && facets.status.is_none_or(|status| status == self.status)
            && facets.channel.is_none_or(|channel| channel == self.channel)
            && facets
                .priority
                .is_none_or(|priority| priority == self.priority)
            && facets.customer.is_none_or(|wanted| wanted == customer)
            && facets
                .assignee
                .is_none_or(|wanted| Some(wanted) == self.assignee)
            && facets.created_after.is_none_or(|after| made > after)
            && facets.created_before.is_none_or(|before| made < before)
    }

    fn shown<B>(&self, model: &Model<B>) -> ((u64, Timestamp, bool), String) {
        let messages = u64::try_from(self.said.len()).unwrap();
        (
            (messages, self.updated_at, messages > 0),
            model.customers[self.customer].2.clone(),
        )
    }
}
