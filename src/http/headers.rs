//! Response headers that are the same each time, made once, and those that show the limits.

use std::cell::RefCell;

use actix_web::http::header::{
    CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponseBuilder};
use colloquy_actors::limiter::RateLimitStatus;

use crate::config::Config;

/// The caller's or our name for a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header that says which version of the interface answers.
pub(super) const API_VERSION: HeaderName = HeaderName::from_static("x-api-version");
/// Marks an answer that was given before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// For how long a browser comes back over HTTPS only, where the server speaks TLS and nothing else
/// is set.
const TWO_YEARS: &str = "max-age=63072000";

/// Who is to read a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// People, who read the answer in a browser.
    People,
    /// People in the console, whose pages run scripts of ours.
    Console,
    /// The same, of a page with a script of ours.
    PeopleWithScript,
    /// Programs, which take the answer as data.
    Programs,
}

/// Headers of every response.
pub(crate) struct SecurityHeaders {
    everywhere: Vec<(HeaderName, HeaderValue)>,
    policy: Option<HeaderValue>,
    page_policy: Option<HeaderValue>,
    console_policy: Option<HeaderValue>,
    script_policy: Option<HeaderValue>,
}

impl SecurityHeaders {
    pub(super) fn new(config: &Config) -> Self {
        let settings = &config.security_headers;
        let transport_security = match settings.strict_transport_security.as_str() {
            "" if config.tls.is_on() => TWO_YEARS,
            said => said,
        };
        let value = |text: &str| {
            HeaderValue::from_str(text)
                .ok()
                .filter(|value| !value.is_empty())
        };
        let mut everywhere = vec![(API_VERSION, HeaderValue::from_static("1.0"))];
        for (name, text) in [
            (
                X_CONTENT_TYPE_OPTIONS,
                settings.x_content_type_options.as_str(),
            ),
            (REFERRER_POLICY, &settings.referrer_policy),
            (STRICT_TRANSPORT_SECURITY, transport_security),
        ] {
            everywhere.extend(value(text).map(|value| (name, value)));
        }
        SecurityHeaders {
            everywhere,
            policy: value(&settings.content_security_policy),
            page_policy: value(&settings.page_content_security_policy),
            console_policy: value(&settings.console_content_security_policy),
            script_policy: value(&with_our_scripts(&settings.page_content_security_policy)),
        }
    }

    /// The console's policy for a page whose forms may also lead there.
    pub(super) fn console_policy_to(&self, place: &str) -> Option<HeaderValue> {
        let policy = self.console_policy.as_ref()?.to_str().ok()?;
        let own = "form-action 'self'";
        HeaderValue::from_str(&policy.replace(own, &format!("{own} {place}"))).ok()
    }

    /// Adds them; a page for people has a policy of its own.
    pub(super) fn add(&self, response: &mut HttpResponseBuilder, audience: Audience) {
        for (name, value) in &self.everywhere {
            response.insert_header((name.clone(), value.clone()));
        }
        if audience == Audience::Console {
            // Without a referrer, a form's POST would say that it comes from nowhere.
            response.insert_header((REFERRER_POLICY, HeaderValue::from_static("same-origin")));
        }
        let policy = match audience {
            Audience::People => &self.page_policy,
            Audience::Console => &self.console_policy,
            Audience::PeopleWithScript => &self.script_policy,
            Audience::Programs => &self.policy,
        };
        if let Some(policy) = policy {
            response.insert_header((CONTENT_SECURITY_POLICY, policy.clone()));
        }
    }
}

/// The policy of pages, as far as it has no word of its own on scripts with ours allowed.
fn with_our_scripts(policy: &str) -> String {
    if policy.is_empty() || policy.contains("script-src") {
        policy.to_owned()
    } else {
        format!("{policy}; script-src 'self'")
    }
}

thread_local! {
    /// The last policy that was written: most callers have the same.
    static LAST_POLICY: RefCell<Option<(u32, u32, HeaderValue)>> = const { RefCell::new(None) };
}

/// Shows how much of the limits is left.
pub(super) fn add_limits(response: &mut HttpResponseBuilder, status: &RateLimitStatus) {
    response.insert_header((LIMIT, HeaderValue::from(status.limit)));
    response.insert_header((REMAINING, HeaderValue::from(status.remaining)));
    response.insert_header((RESET, HeaderValue::from(status.reset_unix_seconds)));
    response.insert_header((POLICY, policy(status.limit, status.burst)));
    let text = format!(
        "\"rate\";r={};t={}, \"burst\";r={};t={}",
        status.remaining,
        status.reset_after_seconds,
        status.burst_remaining,
        status.burst_reset_after_seconds
    );
    if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(text)) {
        response.insert_header((RATE_LIMIT, value));
    }
}

fn policy(rate: u32, burst: u32) -> HeaderValue {
    LAST_POLICY.with_borrow_mut(|last| match last {
        Some((last_rate, last_burst, value)) if (*last_rate, *last_burst) == (rate, burst) => {
            value.clone()
        }
        Some(_) | None => {
            let text = format!("\"rate\";q={rate};w=60, \"burst\";q={burst};w=60");
            let value =
                HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"rate\""));
            *last = Some((rate, burst, value.clone()));
            value
        }
    })
}

/// How large a request's first line is, as it stood on the wire.
pub(super) fn line_bytes(request: &HttpRequest) -> usize {
    let target = request
        .uri()
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    request.method().as_str().len() + target + " ".len() + " HTTP/1.1".len()
}

/// How large a request's header block is, as it stood on the wire.
pub(super) fn block_bytes(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum()
}
