//! Tests of connections that listen to one another, with the thread's work done by the test.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::task::Waker;
use std::time::{Duration, Instant};

use super::super::node_signals::Place;
use super::*;
use colloquy_model::caller::Mode;
use colloquy_model::time::Timestamp;

/// A hub and the thread's side of it, with a clock of its own.
struct TenantTopics {
    hub: Arc<Hub>,
    told: Receiver<HubMessage>,
    table: Table,
    now: Instant,
    tenant: Tenant,
}

fn id(number: u32) -> ConversationId {
    format!("conv_0190163d8694739b85d52d5e{number:08x}")
        .parse()
        .unwrap()
}

impl TenantTopics {
    fn new() -> Self {
        TenantTopics::with(3)
    }

    fn with(presences_max: usize) -> Self {
        let (hub, told) = Hub::with(presences_max);
        TenantTopics {
            hub,
            told,
            table: Table::default(),
            now: Instant::now(),
            tenant: Tenant::of(1, Mode::Live),
        }
    }

    fn connection(&self) -> Connection {
        self.hub.enter(self.tenant)
    }

    /// Takes in all that was told.
    fn take(&mut self) {
        for told in self.told.try_iter() {
            self.table.hear(told, self.now);
        }
    }

    /// A round, after all that was told.
    fn round(&mut self) {
        self.take();
        self.now += Duration::from_millis(100);
        self.table.tell(self.now);
    }
}

fn waiting(member: &Connection) -> Vec<Signal> {
    let mut context = Context::from_waker(Waker::noop());
    let mut all = Vec::new();
    while let Poll::Ready(Some(signal)) = member.poll_signal(&mut context) {
        all.push(signal);
    }
    all
}

#[test]
fn what_nodes_tell_of_one_another_adds_up_and_goes_with_them() {
    let told: Arc<Mutex<Vec<NodeSignals>>> = Arc::default();
    let telling = Arc::clone(&told);
    let mut here = TenantTopics::new();
    here.table = Table::telling(Some(Arc::new(move |signals| telling.lock().push(signals))));
    let (user, node) = (UserId::new(Timestamp(1)), NodeId::new(Timestamp(1)));
    let place = Place {
        tenant: here.tenant,
        conversation: id(1),
    };
    let at = |presence| PresenceAt {
        place,
        user,
        presence,
    };
    let mut listener = here.connection();
    listener.listen(id(1));
    let elsewhere = |presence| NodeSignals::Changed {
        presence: vec![at(presence)],
        typing: Vec::new(),
    };
    let signal = |presence| Signal::Presence(id(1), user, presence);
    here.hub.hear(node, elsewhere(Presence::Online));
    here.round();
    assert_eq!(waiting(&listener), [signal(Presence::Online)]);
    assert!(told.lock().is_empty(), "it is not sent back");
    let mut own = here.connection();
    own.say(id(1), user, Presence::Away).unwrap();
    here.round();
    assert_eq!(waiting(&listener), [signal(Presence::Away)]);
    assert_eq!(told.lock().pop(), Some(elsewhere(Presence::Away)));
    here.hub.hear(node, NodeSignals::Wanted { of: node });
    here.round();
    let all = NodeSignals::All {
        presence: vec![at(Presence::Away)],
    };
    assert_eq!(told.lock().pop(), Some(all));
    own.say(id(1), user, Presence::Offline).unwrap();
    here.round();
    assert_eq!(waiting(&listener), [signal(Presence::Online)]);
    assert_eq!(told.lock().pop(), Some(elsewhere(Presence::Offline)));
    here.hub.forget(node);
    here.round();
    assert_eq!(waiting(&listener), [signal(Presence::Offline)]);
    assert!(here.hub.presences.lock().is_empty());
}

#[test]
fn a_line_keeps_no_conversation_that_it_has_left() {
    let mut tenant_topics = TenantTopics::new();
    let (mut connection, user) = (tenant_topics.connection(), UserId::new(Timestamp(1)));
    connection.listen(id(1));
    connection.say(id(1), user, Presence::Online).unwrap();
    connection.unlisten(id(1));
    assert!(connection.is_in(id(1)), "its user is still there");
    connection.say(id(1), user, Presence::Offline).unwrap();
    assert_eq!(
        (connection.conversations(), connection.is_in(id(1))),
        (0, false)
    );
    tenant_topics.round();
    assert!(tenant_topics.table.is_empty());
}

#[test]
fn typing_reaches_every_other_line_once_and_no_other_account() {
    let mut tenant_topics = TenantTopics::new();
    let (mut writer, mut reader) = (tenant_topics.connection(), tenant_topics.connection());
    let mut stranger = tenant_topics.hub.enter(Tenant::of(2, Mode::Live));
    writer.listen(id(1));
    reader.listen(id(1));
    reader.listen_to_all();
    stranger.listen_to_all();
    writer.typing(id(1), Some(UserId::new(Timestamp(1))));
    writer.typing(id(2), None);
    tenant_topics.round();
    assert!(waiting(&writer).is_empty() && waiting(&stranger).is_empty());
    assert_eq!(waiting(&reader).len(), 2);
}

#[test]
fn who_types_all_the_time_is_told_once_a_second_from_whichever_line() {
    let mut tenant_topics = TenantTopics::new();
    let (one, other, mut reader) = (
        tenant_topics.connection(),
        tenant_topics.connection(),
        tenant_topics.connection(),
    );
    reader.listen(id(1));
    let (mut heard, user) = (0, UserId::new(Timestamp(1)));
    for _ in 0..25 {
        for connection in [&one, &other] {
            connection.typing(id(1), Some(user));
        }
        tenant_topics.round();
        heard += waiting(&reader).len();
    }
    assert_eq!(heard, 3, "at 0, 1 and 2 seconds");
}

#[test]
fn a_round_tells_so_much_and_presence_waits_for_the_next() {
    let mut tenant_topics = TenantTopics::with(100);
    let mut readers: Vec<Connection> = (0..1_000).map(|_| tenant_topics.connection()).collect();
    readers.iter_mut().for_each(Connection::listen_to_all);
    let (mut connection, user) = (tenant_topics.connection(), UserId::new(Timestamp(1)));
    for number in 0..20 {
        connection.say(id(number), user, Presence::Online).unwrap();
        connection.typing(id(number), Some(user));
    }
    tenant_topics.round();
    let first: usize = readers.iter().map(|reader| waiting(reader).len()).sum();
    assert_eq!(first, 2_000);
    for _ in 0..10 {
        tenant_topics.round();
    }
    let heard: Vec<Signal> = waiting(readers.last().unwrap());
    let presence = heard
        .iter()
        .filter(|signal| matches!(signal, Signal::Presence(..)))
        .count();
    assert_eq!(presence, 18, "none is lost");
}

#[test]
fn a_presence_that_changes_all_the_time_is_told_by_its_newest_state() {
    let mut tenant_topics = TenantTopics::new();
    let (mut connection, mut reader, user) = (
        tenant_topics.connection(),
        tenant_topics.connection(),
        UserId::new(Timestamp(1)),
    );
    reader.listen(id(1));
    for presence in [Presence::Online, Presence::Away].repeat(50) {
        connection.say(id(1), user, presence).unwrap();
    }
    tenant_topics.round();
    assert_eq!(
        waiting(&reader),
        [Signal::Presence(id(1), user, Presence::Away)]
    );
}

#[test]
fn an_account_is_present_in_so_many_conversations() {
    let tenant_topics = TenantTopics::new();
    let (mut connection, mut other, user) = (
        tenant_topics.connection(),
        tenant_topics.connection(),
        UserId::new(Timestamp(1)),
    );
    for number in 0..3 {
        connection.say(id(number), user, Presence::Online).unwrap();
    }
    assert_eq!(
        other.say(id(9), user, Presence::Away),
        Err(TooManyPresences)
    );
    connection.say(id(0), user, Presence::Away).unwrap();
    connection.say(id(0), user, Presence::Offline).unwrap();
    other.say(id(9), user, Presence::Away).unwrap();
    let mut stranger = tenant_topics.hub.enter(Tenant::of(2, Mode::Live));
    stranger.say(id(9), user, Presence::Away).unwrap();
    drop((connection, other, stranger));
    assert!(tenant_topics.hub.presences.lock().is_empty());
}

#[test]
fn a_user_is_offline_when_the_last_line_that_said_otherwise_is_gone() {
    let mut tenant_topics = TenantTopics::new();
    let (mut first, mut second, mut reader, user) = (
        tenant_topics.connection(),
        tenant_topics.connection(),
        tenant_topics.connection(),
        UserId::new(Timestamp(1)),
    );
    let is = |presence| Signal::Presence(id(1), user, presence);
    first.say(id(1), user, Presence::Online).unwrap();
    second.say(id(1), user, Presence::Away).unwrap();
    tenant_topics.round();
    reader.listen(id(1));
    tenant_topics.take();
    assert_eq!(waiting(&reader), [is(Presence::Away)]);
    drop(second);
    tenant_topics.round();
    assert_eq!(waiting(&reader), [is(Presence::Online)]);
    drop(first);
    tenant_topics.round();
    assert_eq!(waiting(&reader), [is(Presence::Offline)]);
}

#[test]
fn nothing_is_left_when_all_lines_are_gone() {
    let mut tenant_topics = TenantTopics::new();
    let mut one = tenant_topics.connection();
    one.listen(id(1));
    one.listen_to_all();
    one.say(id(1), UserId::new(Timestamp(1)), Presence::Online)
        .unwrap();
    one.unlisten(id(1));
    drop(one);
    tenant_topics.round();
    assert!(tenant_topics.table.is_empty());
}

#[test]
fn who_listened_comes_again_when_the_thread_has_lost_its_table() {
    let mut tenant_topics = TenantTopics::new();
    let mut reader = tenant_topics.connection();
    reader.listen(id(1));
    tenant_topics.take();
    tenant_topics.table = Table::default();
    assert_eq!(
        reader.poll_signal(&mut Context::from_waker(Waker::noop())),
        Poll::Ready(None)
    );
}
