//! Which endpoints get which event: an endpoint gets what is committed while it is enabled, as its filter stood then. So
//! whoever reads the log again, after a crash, reads the endpoints' changes in their places too.

use std::collections::HashMap;
use std::sync::Arc;

use super::endpoint::Endpoint;
use crate::caller::Scope;
use crate::feed::Event;

/// Endpoints as of a position.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    /// Everything up to here is matched.
    position: i64,
    endpoints: HashMap<u64, Arc<Endpoint>>,
    by_scope: HashMap<Scope, Vec<u64>>,
}

/// What a change of an endpoint means to its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing.
    No,
    /// It gets events from here on, or still does.
    Open,
    /// It gets none any more: what waits is given up.
    Shut,
}

impl Matcher {
    /// As of this position.
    pub(super) fn new(position: i64) -> Self {
        Matcher { position, ..Matcher::default() }
    }

    /// Everything up to here is matched.
    pub(super) fn position(&self) -> i64 {
        self.position
    }

    /// Nothing happened up to here that was not told.
    pub(super) fn reached(&mut self, position: i64) {
        self.position = self.position.max(position);
    }

    /// An endpoint as it was where the matcher begins.
    pub(super) fn begin_with(&mut self, endpoint: Arc<Endpoint>) {
        let number = endpoint.id.number();
        self.by_scope.entry(endpoint.scope).or_default().push(number);
        self.endpoints.insert(number, endpoint);
    }

    /// The endpoints that get this event.
    pub(super) fn event(&mut self, event: &Event) -> Vec<u64> {
        if event.position <= self.position {
            return Vec::new();
        }
        self.position = event.position;
        let candidates = self.by_scope.get(&event.scope).into_iter().flatten();
        let gets = |number: &&u64| {
            self.endpoints.get(number).is_some_and(|endpoint| endpoint.enabled && endpoint.wants.admits(event))
        };
        candidates.filter(gets).copied().collect()
    }

    /// An endpoint as it is from this position on.
    pub(super) fn endpoint(&mut self, position: i64, endpoint: Arc<Endpoint>) -> Moved {
        if position <= self.position {
            return Moved::No;
        }
        self.position = position;
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

    /// An endpoint is no more; true where it was there.
    pub(super) fn gone(&mut self, position: i64, number: u64) -> bool {
        if position <= self.position {
            return false;
        }
        self.position = position;
        let Some(endpoint) = self.endpoints.remove(&number) else { return false };
        if let Some(some) = self.by_scope.get_mut(&endpoint.scope) {
            some.retain(|other| *other != number);
            if some.is_empty() {
                self.by_scope.remove(&endpoint.scope);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Mode;
    use crate::conversation::messages::Channel;
    use crate::feed::{Place, SeenNow};
    use crate::id::WebhookId;
    use crate::store::Happened;
    use crate::webhook::Wants;

    fn scope() -> Scope {
        Scope::of(1, Mode::Live)
    }

    fn endpoint(id: WebhookId, enabled: bool, kinds: &[Happened]) -> Arc<Endpoint> {
        let wants = Wants { kinds: kinds.to_vec(), ..Wants::default() };
        Arc::new(Endpoint { id, scope: scope(), url: String::new(), wants, enabled, secrets: Vec::new() })
    }

    fn event(position: i64, happened: Happened, scope: Scope) -> Event {
        let place = Place { position, scope, number: 1, entity: 7, sequence: 1 };
        let seen = SeenNow { channel: Some(Channel::Chat), ..SeenNow::default() };
        Event::new(place, happened, 1_000, seen, "{}".into())
    }

    #[test]
    fn an_endpoint_gets_what_is_committed_while_it_is_enabled() {
        let id = WebhookId::new(1);
        let mut matcher = Matcher::new(10);
        let message = |position| event(position, Happened::MessageCreated, scope());
        assert_eq!(matcher.event(&message(11)), [0; 0], "it does not exist yet");
        assert_eq!(matcher.endpoint(12, endpoint(id, true, &[])), Moved::Open);
        assert_eq!(matcher.event(&message(13)), [id.number()]);
        assert_eq!(matcher.event(&message(13)), [0; 0], "no event is matched twice");
        assert_eq!(matcher.event(&event(14, Happened::MessageCreated, Scope::of(1, Mode::Test))), [0; 0]);
        assert_eq!(matcher.endpoint(15, endpoint(id, true, &[Happened::ConversationClosed])), Moved::Open);
        assert_eq!(matcher.event(&message(16)), [0; 0], "as its filter stands now");
        assert_eq!(matcher.endpoint(17, endpoint(id, false, &[])), Moved::Shut);
        assert_eq!(matcher.event(&message(18)), [0; 0]);
        assert_eq!(matcher.endpoint(17, endpoint(id, true, &[])), Moved::No, "an older version is no news");
        assert!(matcher.gone(20, id.number()) && !matcher.gone(21, id.number()));
        assert_eq!(matcher.position(), 21);
    }
}
