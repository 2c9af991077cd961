//! What the dispatcher is told, by callers and by its own futures, and what it works with.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::attempt::WebhookSettings;
use super::attempt_runner::EndedAttempt;
use super::courier::Courier;
use super::delivery_metrics::DeliveryCounters;
use super::disabling::{DisableEndpoint, Disabler, Disabling};
use super::endpoint_queue::Refill;
use super::feed_reading::FeedNews;
use super::messages::{AllHealth, ReplayRequest, Retry};
use super::opening::Opened;
use super::replays::{ReplayPage, ReplayStart};
use super::taken_request::TakenRequest;
use crate::feed::Feed;
use crate::store::{DeliverySlice, DueLanes, ReadError, Store, StoredDelivery, Unwritten, Written};
use colloquy_model::idempotency::ReservedKeys;

/// What the dispatcher works with.
#[derive(Clone)]
pub(super) struct Dependencies {
    pub(super) store: Arc<dyn Store>,
    pub(super) feed: Arc<Feed>,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) disabler: Disabler,
    pub(super) keys: Arc<dyn ReservedKeys>,
    pub(super) settings: Arc<WebhookSettings>,
    pub(super) counters: Arc<DeliveryCounters>,
}

/// What callers tell the dispatcher, and what its own futures bring it.
pub(super) enum Message {
    /// Answers when all that was committed up to now is matched and written.
    Reach(oneshot::Sender<()>),
    Retry(Box<Retry>),
    Replay(Box<ReplayRequest>),
    Health(oneshot::Sender<AllHealth>),
    Drain(Drain),

    Open,
    Opened(Box<Result<Opened, ReadError>>),
    FeedRead(Box<FeedNews>),
    AttemptEnded(Box<EndedAttempt>),
    Refilled {
        refill: Refill,
        found: Option<DueLanes>,
    },
    Written(Result<Written, Unwritten>),
    WriteAgain(Box<DeliverySlice>),
    Disable(DisableEndpoint),
    Disabled {
        endpoint: DisableEndpoint,
        disabling: Disabling,
    },
    ReplayFound(Box<ReplayStart>),
    ReplayRead(Box<ReplayPage>),
    RetryRead(Box<RetryRead>),
    /// What other processes ask, which do not deliver.
    Relayed(Vec<TakenRequest>),
    Wake,
}

/// Takes nothing more; ends when nothing is under way and all is written, or the time is over.
pub(super) struct Drain {
    pub(super) until: Instant,
    /// Told when the dispatcher has ended.
    pub(super) done: oneshot::Sender<()>,
}

/// A delivery that is to be sent again, as the store shows it.
pub(super) struct RetryRead {
    pub(super) retry: Box<Retry>,
    pub(super) found: Result<Option<StoredDelivery>, ReadError>,
}
