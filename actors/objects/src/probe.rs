//! Asks a bucket once whether it can be used, and tells what only other settings or rights will change
//! from what may pass by itself.

use std::time::Duration;

use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use tokio::time::timeout;

use super::{in_one_line, innermost};

/// How long an answer may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// How the innermost error begins where the storage has answered, or whoever gives the credentials for
/// it: the type of that error is private to `object_store`.
const ANSWERED: &str = "Server returned non-2xx status code: ";
/// The same, where it leads elsewhere and does not say where to: the region of a bucket is another one.
const LED_ELSEWHERE: &str = "Received redirect without LOCATION";
/// Answers that the same request may not get later: it took too long to come, or there were too many.
const PASSING: [&str; 2] = ["408", "429"];

/// Why a bucket can't be used now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Its storage does not let these credentials in, or has no such bucket.
    #[error("{url} is refused: {answer}")]
    Refused {
        /// How settings name what was asked for.
        url: String,
        /// What the provider says.
        answer: String,
    },
    /// Its storage does not answer, or fails.
    #[error("{url} does not answer: {reason}")]
    Away {
        /// How settings name what was asked for.
        url: String,
        /// What the network, or the provider, says to that.
        reason: String,
    },
}

/// Asks for one name below the prefix.
pub(crate) async fn ask(
    bucket: &dyn PaginatedListStore,
    prefix: &Path,
    url: String,
) -> Result<(), Unusable> {
    let below = format!("{prefix}/");
    let below = (below != "/").then_some(below);
    let options = PaginatedListOptions {
        max_keys: Some(1),
        ..PaginatedListOptions::default()
    };
    let listing = bucket.list_paginated(below.as_deref(), options);
    match timeout(PROBE_TIMEOUT, listing).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(unusable(&error, url)),
        Err(late) => Err(Unusable::Away {
            url,
            reason: late.to_string(),
        }),
    }
}

fn unusable(error: &object_store::Error, url: String) -> Unusable {
    let reason = innermost(error);
    let answer = reason.strip_prefix(ANSWERED);
    let is_refusal = |answer: &str| {
        answer.starts_with(['3', '4']) && !PASSING.iter().any(|one| answer.starts_with(one))
    };
    match answer {
        Some(answer) if is_refusal(answer) => Unusable::Refused {
            url,
            answer: told(answer),
        },
        None if reason.starts_with(LED_ELSEWHERE) => Unusable::Refused {
            url,
            answer: reason,
        },
        Some(answer) => Unusable::Away {
            url,
            reason: told(answer),
        },
        None => Unusable::Away { url, reason },
    }
}

/// An answer in one line: its status, then the code and the message of its XML, or what it says else.
fn told(answer: &str) -> String {
    let (status, body) = answer.split_once(": ").unwrap_or((answer, ""));
    let said = match (element(body, "Code"), element(body, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(_) | None, _) => body.to_owned(),
    };
    match said.is_empty() {
        true => status.to_owned(),
        false => in_one_line(&format!("{status}: {said}")),
    }
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (content, _) = rest.split_once(&format!("</{name}>"))?;
    Some(content)
}
