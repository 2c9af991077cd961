//! The service about itself: version, changelog, health, metrics, and the document in both its
//! forms.

use std::borrow::Cow;

use bytes::Bytes;
use colloquy_merge::diff;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::api_call::ApiCall;
use super::super::docs;
use super::super::live_settings::Description;
use super::super::metrics::MEDIA_TYPE;
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::{Outcome, Problem};
use super::super::query::NoQuery;
use super::super::response::tag_of;

/// Which version of the interface this is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InterfaceVersion)]
pub(super) struct Version {
    /// The version that requests are made against.
    api_version: &'static str,
    /// The release.
    version: &'static str,
    /// When it came.
    released: &'static str,
    /// How firm it is.
    status: &'static str,
}

/// All releases.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Changelog {
    /// Newest first.
    data: Vec<Release>,
}

/// One release.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Release {
    /// What it is called.
    version: &'static str,
    /// When it came.
    #[schema(value_type = String)]
    released: Cow<'static, str>,
    /// How firm it is; `Deprecation`: from that day on something of it is deprecated.
    status: &'static str,
    /// What it brought.
    #[schema(value_type = Vec<String>)]
    changes: Cow<'static, [Cow<'static, str>]>,
}

const VERSION: Version = Version {
    api_version: "1.0",
    version: "v1.0.0",
    released: "2024-03-15",
    status: "Stable",
};

const RELEASES: [Release; 2] = [
    Release {
        version: "v1.0.0",
        released: Cow::Borrowed("2024-03-15"),
        status: "Stable",
        changes: Cow::Borrowed(&[
            Cow::Borrowed("Initial release"),
            Cow::Borrowed("Conversation management"),
            Cow::Borrowed("Message handling"),
            Cow::Borrowed("Webhook support"),
        ]),
    },
    Release {
        version: "v0.9.0",
        released: Cow::Borrowed("2024-02-15"),
        status: "Beta",
        changes: Cow::Borrowed(&[Cow::Borrowed("Beta with limited access")]),
    },
];

pub(super) async fn version(_: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(json(&VERSION))
}

pub(super) async fn changelog(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let live = call.app.live();
    let announced = live.deprecations.announced().map(|said| Release {
        version: VERSION.version,
        released: said.since.to_string().into(),
        status: "Deprecation",
        changes: vec![format!("{}: {}", said.subject(), said.words()).into()].into(),
    });
    let mut data: Vec<Release> = announced.chain(RELEASES).collect();
    // Dates as texts are in the order of dates; of one day, what came first stays first.
    data.sort_by(|one, other| other.released.cmp(&one.released));
    Ok(json(&Changelog { data }))
}

pub(super) async fn health(_: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(plain("alive\n".into()))
}

pub(super) async fn readiness(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    if call.app.system.ready() && !call.app.in_flight.leaving() {
        return Ok(plain(ready(&call).into()));
    }
    let reason = if call.app.system.has_store() {
        "the server starts, stops, or is to be taken out"
    } else {
        "the store does not answer: nothing is served until it does"
    };
    Err(Problem::unavailable(reason, Outcome::None, 1))
}

/// What is answered by a server that can serve. It can without a certificate: who has it taken out of
/// service for that keeps the authority from asking it, and it gets none.
fn ready(call: &ApiCall) -> String {
    let acme = call.app.tls.as_ref().and_then(|tls| tls.acme.as_ref());
    let status = acme.map(|acme| acme.status()).unwrap_or_default();
    let missing = status.iter().filter(|one| one.ends_unix_seconds.is_none());
    match missing.count() {
        0 => "ready\n".to_owned(),
        count => {
            let all = status.len();
            format!(
                "ready\nno TLS certificate yet for {count} of {all} host names: the log says why\n"
            )
        }
    }
}

pub(super) async fn metrics(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(Output::Text(Text {
        body: call.app.metrics.text().into(),
        media_type: MEDIA_TYPE,
        cache: CachePolicy::NoStore,
        room: None,
    }))
}

/// What the interface says of itself, written beside the requests that are under way.
async fn description(call: ApiCall) -> Result<Description, Problem> {
    let app = call.app;
    let written = tokio::task::spawn_blocking(move || {
        app.live().description(app.router.operations()).clone()
    });
    written.await.map_err(|_| Problem::crashed())
}

pub(super) async fn openapi(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(Output::Text(Text {
        body: description(call).await?.openapi,
        media_type: "application/json",
        cache: CachePolicy::Public,
        room: None,
    }))
}

pub(super) async fn docs(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(Output::Text(Text {
        body: description(call).await?.page,
        media_type: "text/html; charset=utf-8",
        cache: CachePolicy::Public,
        room: None,
    }))
}

/// Which version of a file of the documentation's pages is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct AssetQuery {
    /// The version, as the pages that need the file have it: caches may keep that one for ever.
    v: Option<String>,
}

pub(super) async fn docs_style(_: ApiCall, query: AssetQuery) -> Result<Output, Problem> {
    Ok(style(docs::STYLE, query))
}

pub(super) async fn docs_script(_: ApiCall, query: AssetQuery) -> Result<Output, Problem> {
    Ok(asset(docs::SCRIPT, "text/javascript; charset=utf-8", query))
}

pub(super) async fn share_style(_: ApiCall, query: AssetQuery) -> Result<Output, Problem> {
    Ok(style(super::document::STYLE, query))
}

pub(super) async fn diff_style(_: ApiCall, query: AssetQuery) -> Result<Output, Problem> {
    Ok(style(diff::STYLE, query))
}

fn style(text: &'static str, query: AssetQuery) -> Output {
    asset(text, "text/css; charset=utf-8", query)
}

fn asset(text: &'static str, media_type: &'static str, AssetQuery { v }: AssetQuery) -> Output {
    let is_this_version = v.is_some_and(|version| version == tag_of(text.as_bytes()));
    Output::Text(Text {
        body: Bytes::from_static(text.as_bytes()),
        media_type,
        cache: match is_this_version {
            true => CachePolicy::PublicLasting,
            false => CachePolicy::Public,
        },
        room: None,
    })
}

fn plain(body: Bytes) -> Output {
    Output::Text(Text {
        body,
        media_type: "text/plain; charset=utf-8",
        cache: CachePolicy::NoStore,
        room: None,
    })
}

fn json<T: Serialize>(value: &T) -> Output {
    let body = Bytes::from(serde_json::to_vec(value).unwrap_or_default());
    Output::Text(Text {
        body,
        media_type: "application/json",
        cache: CachePolicy::Private,
        room: None,
    })
}
