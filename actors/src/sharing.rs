//! What nodes keep in step beside what is committed: limits, once a second, wrong passwords, and who
//! types and who is there, at once. Where only one node can serve the store nothing of this runs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limiter::{SharedLimits, Spending};
use crate::passwords::{PasswordTries, Tried};
use crate::realtime::{Hub, NodeSignals, TellNodes};
use crate::store::{Broadcast, Heard, Topic};
use colloquy_model::id::NodeId;
use colloquy_model::json;
use colloquy_model::time::Timestamp;
use colloquy_runtime::threads::BackgroundThread;

/// How often other nodes are told what was spent.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Keeps limits in step with those of other nodes: tells what was spent here, if anything was, and
/// counts what they tell.
///
/// # Errors
/// The system starts no further thread.
pub(crate) fn share_limits(
    broadcast: &Arc<dyn Broadcast>,
    limits: SharedLimits,
) -> io::Result<BackgroundThread> {
    let counted = limits.clone();
    let count = move |_, heard: Heard<'_>| match heard {
        Heard::Said(text) => match serde_json::from_str::<Spending>(text) {
            Ok(spending) => counted.spend_elsewhere(spending, Timestamp::now()),
            Err(error) => tracing::warn!(%error, "what another node has spent can't be read"),
        },
        // What was lost was spent all the same: it is part of the overshoot.
        Heard::Lost | Heard::Gone => {}
    };
    broadcast.listen(Topic::Limits, Box::new(count));
    let broadcast = Arc::clone(broadcast);
    BackgroundThread::start("limits", move || {
        let (broadcast, limits) = (Arc::clone(&broadcast), limits.clone());
        async move { tell_spending(&*broadcast, &limits).await }
    })
}

async fn tell_spending(broadcast: &dyn Broadcast, limits: &SharedLimits) {
    let mut ticks = tokio::time::interval(TELL_EVERY);
    loop {
        ticks.tick().await;
        let spent = limits.take_spent().await;
        if broadcast.is_heard() && !spent.is_empty() {
            let text = json::text(&spent);
            broadcast.say(Topic::Limits, text);
        }
    }
}

/// A counter of wrong passwords by what they were given for: a share link, or a name at sign-in. Where
/// the store serves several nodes, each counts those that were given at the others.
pub(crate) fn tries_of_all_nodes<K>(
    broadcast: Option<Arc<dyn Broadcast>>,
    topic: Topic,
) -> Arc<PasswordTries<K>>
where
    K: Tried + Serialize + DeserializeOwned + Send + 'static,
{
    let Some(broadcast) = broadcast else {
        return Arc::default();
    };
    let telling = Arc::clone(&broadcast);
    let tries = Arc::new(PasswordTries::shared(Box::new(move |tried: K| {
        if telling.is_heard() {
            telling.say(topic, json::text(&tried));
        }
    })));
    let counted = Arc::clone(&tries);
    let count = move |_, heard: Heard<'_>| match heard {
        Heard::Said(text) => match serde_json::from_str(text) {
            // By this node's clock: the other one's may differ.
            Ok(tried) => counted.count(tried, Timestamp::now()),
            Err(error) => tracing::warn!(%error, "a try at another node can't be read"),
        },
        Heard::Lost | Heard::Gone => {}
    };
    broadcast.listen(topic, Box::new(count));
    tries
}

/// The way from this node's connections to all other nodes.
pub(crate) fn tell_signals(broadcast: Arc<dyn Broadcast>) -> TellNodes {
    Arc::new(move |signals| {
        if broadcast.is_heard() {
            broadcast.say(Topic::Signals, json::text(&signals));
        }
    })
}

/// Hands what other nodes tell of their connections to those of this one. A node that is heard of
/// for the first time, or of whose words some are lost, is asked who is there.
pub(crate) fn hear_signals(broadcast: &Arc<dyn Broadcast>, hub: &Arc<Hub>) {
    let (asking, hub) = (Arc::downgrade(broadcast), Arc::downgrade(hub));
    let hear = move |node: NodeId, heard: Heard<'_>| {
        let (Some(broadcast), Some(hub)) = (asking.upgrade(), hub.upgrade()) else {
            return;
        };
        match heard {
            Heard::Said(text) => match serde_json::from_str(text) {
                Ok(NodeSignals::Wanted { of }) if of != broadcast.node() => {}
                Ok(signals) => hub.hear(node, signals),
                Err(error) => tracing::warn!(%error, "signals of another node can't be read"),
            },
            Heard::Lost => {
                let wanted = NodeSignals::Wanted { of: node };
                broadcast.say(Topic::Signals, json::text(&wanted));
            }
            Heard::Gone => hub.forget(node),
        }
    };
    broadcast.listen(Topic::Signals, Box::new(hear));
}
