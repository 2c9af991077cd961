//! Reads what happened, for the follower: a page of the store, or what the feed tells.

use std::sync::Arc;
use std::time::Duration;

use crate::feed::{Ended, Item, Subscription};
use crate::store::{FeedRow, ReadError, Store, WebhookState};
use colloquy_model::position::Position;

/// Items taken from the feed at once.
const ITEMS_AT_ONCE: usize = 64;
/// Rows read from the store at once.
const PAGE_ROWS: u32 = 256;
/// The wait after the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// What is read next, and where.
pub(super) enum FeedRead {
    Store {
        store: Arc<dyn Store>,
        position: Position,
    },
    Subscription(Box<Subscription>),
}

/// What was read of the store, or told by the feed.
pub(super) enum FeedNews {
    /// A page of what the store has.
    Page(Result<FeedPage, ReadError>),
    /// Items that the feed told, or its end.
    Items(FeedItems),
}

/// Rows of the store; with the endpoints as they are now, where one of them changed.
pub(super) struct FeedPage {
    pub(super) rows: Vec<FeedRow>,
    pub(super) state: Option<WebhookState>,
    pub(super) end: PageEnd,
}

/// Whether the store had more than a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageEnd {
    /// It had nothing behind it when it was read.
    Last,
    /// It was full: more may follow.
    MoreFollow,
}

/// Items of the feed, and the subscription to wait on next.
pub(super) struct FeedItems {
    pub(super) subscription: Box<Subscription>,
    pub(super) items: Vec<Item>,
    /// Why nothing more comes, where nothing does.
    pub(super) ended: Option<Ended>,
}

impl FeedRead {
    /// Waits until there is something to match.
    pub(super) async fn run(self) -> FeedNews {
        match self {
            FeedRead::Store { store, position } => {
                let page = page_behind(&*store, position).await;
                if page.is_err() {
                    // Told after a pause, so that it is not asked again at once.
                    tokio::time::sleep(PAUSE).await;
                }
                FeedNews::Page(page)
            }
            FeedRead::Subscription(subscription) => FeedNews::Items(next_items(subscription).await),
        }
    }
}

async fn page_behind(store: &dyn Store, position: Position) -> Result<FeedPage, ReadError> {
    let rows = store.happened_behind(position, PAGE_ROWS).await?;
    let changed = rows
        .iter()
        .any(|row| matches!(row, FeedRow::Endpoint { .. }));
    let state = if changed {
        Some(store.webhook_state().await?)
    } else {
        None
    };
    let end = if rows.len() < usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX) {
        PageEnd::Last
    } else {
        PageEnd::MoreFollow
    };
    Ok(FeedPage { rows, state, end })
}

async fn next_items(mut subscription: Box<Subscription>) -> FeedItems {
    let mut items = Vec::new();
    let mut ended = None;
    match subscription.next().await {
        Ok(first) => items.push(first),
        Err(end) => ended = Some(end),
    }
    while !items.is_empty()
        && items.len() < ITEMS_AT_ONCE
        && let Some(item) = subscription.waiting()
    {
        items.push(item);
    }
    FeedItems {
        subscription,
        items,
        ended,
    }
}
