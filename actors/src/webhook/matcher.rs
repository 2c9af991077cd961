//! Which endpoints get which event: an endpoint gets what is committed while it is enabled, as its
//! filter stood then. So whoever reads the log again, after a crash, reads the endpoints' changes
//! in their places too.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::store::Matched;
use colloquy_model::caller::Tenant;
use colloquy_model::endpoint::Endpoint;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::position::Position;

/// Endpoints as of a position.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    matched: Matched,
    endpoints: HashMap<EntityNumber, Arc<Endpoint>>,
    by_tenant: HashMap<Tenant, BTreeSet<EntityNumber>>,
}

/// What a change of an endpoint means to its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing changes for the endpoints.
    No,
    /// It gets events from here on, or still does.
    Open,
    /// It gets none any more: what waits is given up.
    Shut,
}

impl Matcher {
    /// A matcher without endpoints that goes on behind this place.
    pub(super) fn new(matched: Matched) -> Self {
        Matcher {
            matched,
            ..Matcher::default()
        }
    }

    /// Everything up to here is matched.
    pub(super) fn position(&self) -> Position {
        self.matched.position
    }

    /// The same, with what is matched of the event behind it.
    pub(super) fn matched(&self) -> Matched {
        self.matched
    }

    /// Nothing happened up to here that was not told.
    pub(super) fn reached(&mut self, position: Position) {
        if position > self.matched.position {
            self.matched = Matched {
                position,
                within: EntityNumber::ZERO,
            };
        }
    }

    /// An endpoint as it was where the matcher begins.
    pub(super) fn begin_with(&mut self, endpoint: Arc<Endpoint>) {
        let number = endpoint.id.number();
        self.by_tenant
            .entry(endpoint.tenant)
            .or_default()
            .insert(number);
        self.endpoints.insert(number, endpoint);
    }

    /// The next endpoints that get this event, at most so many. While there are more, the position
    /// stays before it.
    pub(super) fn event(&mut self, event: &Event, most: usize) -> Vec<EntityNumber> {
        if event.position <= self.matched.position {
            return Vec::new();
        }
        self.reached(event.position.previous());
        let behind = (Bound::Excluded(self.matched.within), Bound::Unbounded);
        let candidates = self
            .by_tenant
            .get(&event.tenant)
            .into_iter()
            .flat_map(|numbers| numbers.range(behind));
        let gets = |number: &&EntityNumber| {
            self.endpoints
                .get(number)
                .is_some_and(|endpoint| endpoint.enabled && endpoint.wants.admits(event))
        };
        let found: Vec<EntityNumber> = candidates.filter(gets).take(most).copied().collect();
        match found.last() {
            Some(last) if found.len() == most => self.matched.within = *last,
            Some(_) | None => self.reached(event.position),
        }
        found
    }

    /// An endpoint as it is from this position on.
    pub(super) fn endpoint(&mut self, position: Position, endpoint: Arc<Endpoint>) -> Moved {
        if position <= self.matched.position {
            return Moved::No;
        }
        self.reached(position);
        let number = endpoint.id.number();
        let enabled = endpoint.enabled;
        let was_enabled = match self.endpoints.get_mut(&number) {
            Some(before) => std::mem::replace(before, endpoint).enabled,
            None => {
                self.begin_with(endpoint);
                false
            }
        };
        match (was_enabled, enabled) {
            (_, true) => Moved::Open,
            (true, false) => Moved::Shut,
            (false, false) => Moved::No,
        }
    }

    /// An endpoint is no more; false where that is no news. It may have deliveries also where it is
    /// not known here: who begins anew finds no record of it.
    pub(super) fn gone(&mut self, position: Position, number: EntityNumber) -> bool {
        if position <= self.matched.position {
            return false;
        }
        self.reached(position);
        if let Some(endpoint) = self.endpoints.remove(&number)
            && let Some(some) = self.by_tenant.get_mut(&endpoint.tenant)
        {
            some.remove(&number);
            if some.is_empty() {
                self.by_tenant.remove(&endpoint.tenant);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colloquy_model::caller::Mode;
    use colloquy_model::conversation::Channel;
    use colloquy_model::endpoint::Wants;
    use colloquy_model::event::{EventRow, SeenNow};
    use colloquy_model::event_kind::EventKind;
    use colloquy_model::id::WebhookId;
    use colloquy_model::sequence::Sequence;
    use colloquy_model::stream::FeedNumber;
    use colloquy_model::time::Timestamp;

    fn tenant() -> Tenant {
        Tenant::of(1, Mode::Live)
    }

    fn endpoint(id: WebhookId, enabled: bool, kinds: &[EventKind]) -> Arc<Endpoint> {
        let wants = Wants {
            kinds: kinds.to_vec(),
            ..Wants::default()
        };
        Arc::new(Endpoint {
            id,
            tenant: tenant(),
            url: String::new(),
            wants,
            enabled,
            secrets: Vec::new(),
        })
    }

    fn event(position: Position, kind: EventKind, tenant: Tenant) -> Event {
        let row = EventRow {
            position,
            tenant,
            number: FeedNumber(1),
            entity: EntityNumber(7),
            sequence: Sequence(1),
            kind,
            at: Timestamp(1_000),
            credential: None,
            text_bytes: 0,
        };
        let seen = SeenNow {
            channel: Some(Channel::Chat),
            ..SeenNow::default()
        };
        Event::new(row, seen, "{}".into())
    }

    #[test]
    fn an_endpoint_gets_what_is_committed_while_it_is_enabled() {
        let id = WebhookId::new(Timestamp(1));
        let mut matcher = Matcher::new(Matched {
            position: Position(10),
            within: EntityNumber::ZERO,
        });
        let most = usize::MAX;
        let (created, other) = (EventKind::MessageCreated, Tenant::of(1, Mode::Test));
        let message = |position| event(Position(position), created, tenant());
        assert_eq!(
            matcher.event(&message(11), most),
            [],
            "it does not exist yet"
        );
        assert_eq!(
            matcher.endpoint(Position(12), endpoint(id, true, &[])),
            Moved::Open
        );
        assert_eq!(matcher.event(&message(13), most), [id.number()]);
        assert_eq!(
            matcher.event(&message(13), most),
            [],
            "no event is matched twice"
        );
        assert_eq!(
            matcher.event(&event(Position(14), created, other), most),
            []
        );
        assert_eq!(
            matcher.endpoint(
                Position(15),
                endpoint(id, true, &[EventKind::ConversationClosed])
            ),
            Moved::Open
        );
        assert_eq!(
            matcher.event(&message(16), most),
            [],
            "as its filter stands now"
        );
        assert_eq!(
            matcher.endpoint(Position(17), endpoint(id, false, &[])),
            Moved::Shut
        );
        assert_eq!(matcher.event(&message(18), most), []);
        assert_eq!(
            matcher.endpoint(Position(17), endpoint(id, true, &[])),
            Moved::No,
            "an older version is no news"
        );
        assert!(
            matcher.gone(Position(20), id.number()) && !matcher.gone(Position(20), id.number()),
            "once"
        );
        assert!(
            matcher.gone(Position(21), id.number()),
            "also one that is not known"
        );
        assert_eq!(matcher.position(), Position(21));
    }

    #[test]
    fn an_event_of_many_endpoints_is_matched_a_few_at_a_time_also_by_whoever_goes_on_from_there() {
        let ids: Vec<WebhookId> = (1..=7).map(|_| WebhookId::new(Timestamp(1))).collect();
        let mut all: Vec<EntityNumber> = ids.iter().map(|id| id.number()).collect();
        all.sort_unstable();
        let fresh = |matched: Matched| {
            let mut matcher = Matcher::new(matched);
            ids.iter()
                .for_each(|id| matcher.begin_with(endpoint(*id, true, &[])));
            matcher
        };
        let message = event(Position(20), EventKind::MessageCreated, tenant());
        let mut matcher = fresh(Matched::default());
        let mut found = Vec::new();
        while matcher.position() < Position(20) {
            let some = matcher.event(&message, 3);
            assert!(some.len() <= 3 && (some.len() == 3) == (matcher.position() < Position(20)));
            found.extend(some);
            matcher = fresh(matcher.matched());
        }
        assert_eq!(found, all, "each once");
    }
}
