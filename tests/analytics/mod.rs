//! What conversations have come to. Everything that is shown is compared with what a program makes
//! of `GET /v1/events` that knows nothing but the contract's text.

mod figures;
mod history;
mod rebuild;
mod recomputed;
mod refusals;

use crate::support::{Answer, Client};
use recomputed::{Event, Log};

/// The list of figures.
const FIGURES: &str = "/v1/analytics/conversations";

/// All events of the key's account and mode, page by page.
async fn log(c: &Client) -> Log {
    let mut events = Vec::new();
    let mut next = "/v1/events?limit=100".to_owned();
    loop {
        let page = c.get(&next).await.expect(200);
        if page.data().is_empty() {
            return Log::of(events);
        }
        events.extend(page.data().iter().map(Event::read));
        next = page.link("next").unwrap();
    }
}

/// Asks for figures.
async fn asked(c: &Client, query: &[(&str, &str)]) -> Answer {
    let query: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    c.get(&format!("{FIGURES}?{}", query.join("&")))
        .await
        .expect(200)
}
