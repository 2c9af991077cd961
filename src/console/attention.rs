//! What needs an operator: each thing with what it means and where to act.

use colloquy_actors::backup::BackupStatus;
use maud::{Markup, html};
use serde_json::Value;

use super::figures::{decimal, part, rounded, words};
use super::history::{ANSWERED, FAILED, REFUSED, Series, TURNED_AWAY};
use super::parts::{badge, grouped, is, number, target, text};
use super::session::Session;
use crate::http::{AppState, Found};
use crate::tls::{DomainStatus, days_until};

/// Commits that take longer than this, in milliseconds, are slow.
const COMMIT_MS_SLOW: f64 = 500.0;
/// More commits than this do not wait unless the store is slow.
const QUEUE_LONG: u64 = 1_000;
/// Who is further behind than this is not merely busy.
const LAG_LONG: u64 = 1_000;
/// Points of the hour's charts that are looked at: the last minute.
const LAST_POINTS: usize = 6;
/// Of fewer requests a share says nothing.
const REQUESTS_MIN: f64 = 20.0;
/// A larger share of requests that fail, or of commands that are turned away, needs somebody …
const SHARE_FAILED: f64 = 0.01;
/// … and a larger one that is refused, too.
const SHARE_REFUSED: f64 = 0.5;
/// In fewer days a certificate should be renewed; whoever renews by themselves has done so before.
const DAYS_LEFT_FEW: i64 = 14;
/// Host names that are told of.
const DOMAINS_MAX: usize = 10;
/// Endpoints that are looked at.
const ENDPOINTS_MAX: u64 = 1_000;

/// Something that needs an operator.
pub(super) struct Thing {
    is_bad: bool,
    what: String,
    meaning: String,
    link: String,
    action: &'static str,
}

/// What was looked at.
pub(super) struct Looked {
    pub(super) things: Vec<Thing>,
    pub(super) kinds: Vec<Value>,
    pub(super) store: Value,
}

/// Looks at everything.
pub(super) async fn look(app: &AppState, session: &Session, hour: &Series) -> Looked {
    let of = |found: Option<Found>| {
        found
            .map(|found| found.items().to_vec())
            .unwrap_or_default()
    };
    let store = session.get("/admin/v1/store").await;
    let store = store.map(|found| found.body).unwrap_or_default();
    let kinds = of(session.get("/admin/v1/actors").await.ok());
    let mut things = of_store(app, &store);
    things.extend(kinds.iter().flat_map(of_kind));
    match session.get("/admin/v1/nodes").await {
        Ok(found) => things.extend(found.items().iter().filter_map(of_node)),
        Err(problem) => things.push(unknown("nodes", &problem.reason, "/console/nodes")),
    }
    match endpoints(session).await {
        Ok(endpoints) => things.extend(endpoints.iter().filter_map(of_endpoint)),
        Err(reason) => things.push(unknown("webhook endpoints", &reason, "/console/store")),
    }
    things.extend(of_requests(hour));
    things.extend(of_certificates(app));
    things.extend(of_backups(&app.system.backups.status()));
    things.sort_by_key(|thing| !thing.is_bad);
    Looked {
        things,
        kinds,
        store,
    }
}

/// How the endpoints of all accounts fare.
async fn endpoints(session: &Session) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for offset in (0..ENDPOINTS_MAX).step_by(100) {
        let offset = offset.to_string();
        let address = target(
            "/admin/v1/webhooks",
            &[("limit", "100"), ("offset", &offset)],
        );
        let found = session.get(&address).await;
        let found = found.map_err(|problem| problem.reason.into_owned())?;
        all.extend(found.items().iter().cloned());
        if u64::try_from(all.len()).is_ok_and(|seen| seen >= found.total()) {
            break;
        }
    }
    Ok(all)
}

fn unknown(what: &str, reason: &str, link: &str) -> Thing {
    Thing {
        is_bad: true,
        what: format!("Nobody can say how the {what} fare"),
        meaning: format!("The server says: {reason}."),
        link: link.to_owned(),
        action: "Look there",
    }
}

fn of_store(app: &AppState, store: &Value) -> Vec<Thing> {
    let mut things = Vec::new();
    let mut say = |is_bad, what: String, meaning: &str| {
        things.push(Thing {
            is_bad,
            what,
            meaning: meaning.to_owned(),
            link: "/console/store".to_owned(),
            action: "See the store",
        });
    };
    if !app.system.has_store() {
        let meaning =
            "Changes are answered with 503 until it is back; what was acknowledged is kept.";
        say(true, "The store does not answer".to_owned(), meaning);
    }
    let slowest = decimal(part(store, "commit_ms"), "p99");
    if slowest > COMMIT_MS_SLOW {
        let what = format!(
            "Commits are slow: one in a hundred takes {} ms",
            rounded(slowest)
        );
        say(
            false,
            what,
            "Every change waits for its commit: look at the disk, or at the database's load.",
        );
    }
    let queue = number(store, "queue");
    if queue > QUEUE_LONG {
        let what = format!("{} commits wait for the store", grouped(queue));
        say(true, what, "More comes in than the store can write.");
    }
    let lag = |name| number(part(store, name), "lag");
    if lag("feed") > LAG_LONG {
        let what = format!("Webhooks are {} events behind", grouped(lag("feed")));
        say(
            false,
            what,
            "Endpoints hear of what happened late; nothing is lost.",
        );
    }
    if lag("index") > LAG_LONG {
        let what = format!("Search is {} changes behind", grouped(lag("index")));
        say(
            false,
            what,
            "Searches wait for what their own account has changed.",
        );
    }
    things
}

/// Why no backup can be made, or else why the latest has failed.
fn of_backups(status: &BackupStatus) -> Option<Thing> {
    let (what, why) = match (&status.unusable, &status.failed) {
        (Some(why), _) => ("No backup can be made", why),
        (None, Some(why)) => ("The latest backup has failed", why),
        (None, None) => return None,
    };
    let next = match status.every {
        Some(_) => "It is tried again by itself.",
        None => "None is made by itself: [backup] every_hours is 0.",
    };
    Some(Thing {
        is_bad: true,
        what: what.to_owned(),
        meaning: format!("{why}. {next}"),
        link: "/console/backups".to_owned(),
        action: "See the backups",
    })
}

fn of_certificates(app: &AppState) -> Vec<Thing> {
    let Some(tls) = &app.tls else {
        return Vec::new();
    };
    let status = tls.acme.as_ref().map(|acme| acme.status());
    let of_acme = status.unwrap_or_default();
    let of_acme = of_acme.iter().filter_map(of_domain).take(DOMAINS_MAX);
    of_files(tls.days_left())
        .into_iter()
        .chain(of_acme)
        .collect()
}

fn of_files(days_left: Option<i64>) -> Option<Thing> {
    let days_left = days_left.filter(|days| *days < DAYS_LEFT_FEW)?;
    Some(Thing {
        is_bad: days_left < 1,
        what: format!("The TLS certificate {}", ends_in(days_left)),
        meaning: "Put the renewed files in their place: they are taken from there without a restart, or the log says why not."
            .to_owned(),
        link: "/console/nodes".to_owned(),
        action: "See the nodes",
    })
}

/// What is wrong with a name whose certificate is ordered. One that has failed once is tried again by
/// itself, and there is time for that.
fn of_domain(domain: &DomainStatus) -> Option<Thing> {
    let name = &domain.name;
    let days_left = domain.ends_unix_seconds.map(days_until);
    let what = match (days_left, &domain.problem) {
        (None, _) => format!("There is no TLS certificate for {name} yet"),
        (Some(days), Some(_)) => format!(
            "The TLS certificate for {name} {}, and was not renewed",
            ends_in(days)
        ),
        (Some(_), None) => return None,
    };
    let problem = domain.problem.as_deref();
    Some(Thing {
        is_bad: days_left.is_none_or(|days| days < 1) && problem.is_some(),
        what,
        meaning: match problem {
            Some(problem) => format!(
                "{problem}. It is tried again by itself, later each time; SIGHUP has it tried at once."
            ),
            None => "It is being ordered.".to_owned(),
        },
        link: "/console/nodes".to_owned(),
        action: "See the nodes",
    })
}

/// When a certificate ends.
pub(super) fn ends_in(days_left: i64) -> String {
    match days_left {
        ..0 => "has ended".to_owned(),
        0 => "ends today".to_owned(),
        days => format!("ends in {days} days"),
    }
}

fn of_kind(kind: &Value) -> Vec<Thing> {
    let (name, states) = (text(kind, "kind"), part(kind, "by_state"));
    let thing = |state: &str, is_bad, meaning: &str| {
        let count = number(states, state);
        (count > 0).then(|| Thing {
            is_bad,
            what: format!("{} of {}: {}", grouped(count), words(name), words(state)),
            meaning: meaning.to_owned(),
            link: format!("/console/actors/{name}?state={state}"),
            action: "See which",
        })
    };
    let quarantined = "Crashed again and again: requests to them are answered with 503 until the quarantine ends. \
                       See the last failure; release them once the cause is gone.";
    let backing_off = "Crashed, and will be started again by themselves in a moment.";
    let things = [
        thing("quarantined", true, quarantined),
        thing("backing_off", false, backing_off),
    ];
    things.into_iter().flatten().collect()
}

fn of_node(node: &Value) -> Option<Thing> {
    let (address, state) = (text(node, "address"), text(node, "state"));
    let meaning = match state {
        "gone" => {
            "It has ended, or was not heard of for longer than its lease; the others have taken over."
        }
        "draining" => "It still serves, and a balancer takes it out. It waits for its end.",
        _ => return None,
    };
    Some(Thing {
        is_bad: state == "gone",
        what: format!("The node {address} is {state}"),
        meaning: meaning.to_owned(),
        link: "/console/nodes".to_owned(),
        action: "See the nodes",
    })
}

fn of_endpoint(endpoint: &Value) -> Option<Thing> {
    let (is_enabled, since) = (is(endpoint, "enabled"), text(endpoint, "failing_since"));
    let reason = text(endpoint, "disabled_reason");
    let (word, meaning) = match (is_enabled, since.is_empty(), reason.is_empty()) {
        (true, false, _) => (
            "fails",
            "No attempt has worked since; deliveries wait and are tried again.".to_owned(),
        ),
        (false, _, false) => (
            "was disabled",
            format!(
                "By the server: {}. Tell the account, which can enable it again.",
                words(reason)
            ),
        ),
        (true, true, _) | (false, _, true) => return None,
    };
    Some(Thing {
        is_bad: false,
        what: format!("The endpoint {} {word}", text(endpoint, "url")),
        meaning,
        link: format!("/console/accounts/{}", text(endpoint, "account_id")),
        action: "Go to its account",
    })
}

fn of_requests(hour: &Series) -> Vec<Thing> {
    let of = |chart, line| hour.counted(chart, line, LAST_POINTS);
    let (answered, refused) = (of("requests", ANSWERED), of("requests", REFUSED));
    let (failed, turned_away) = (of("requests", FAILED), of("refusals", TURNED_AWAY));
    let all = answered + refused + failed;
    let mut things = Vec::new();
    let mut say = |count: f64, share: f64, words: &str, meaning: &str, link: &str| {
        if all >= REQUESTS_MIN && count / all > share {
            things.push(Thing {
                is_bad: share < SHARE_REFUSED,
                what: format!(
                    "{} of {} requests in the last minute {words}",
                    rounded(count),
                    rounded(all)
                ),
                meaning: meaning.to_owned(),
                link: link.to_owned(),
                action: "Look there",
            });
        }
    };
    let meaning = "Answered with 500 or 503: the log says why, under each request's name.";
    say(failed, SHARE_FAILED, "failed", meaning, "/console/actors");
    let meaning =
        "Their actors were full, restarting or in quarantine: callers are told to come again.";
    say(
        turned_away,
        SHARE_FAILED,
        "were turned away by actors",
        meaning,
        "/console/actors",
    );
    let meaning = "Some caller does something wrong, or beyond its limit: the account's keys tell who is busy.";
    say(
        refused,
        SHARE_REFUSED,
        "were refused",
        meaning,
        "/console/accounts",
    );
    things
}

/// The things as a list.
pub(super) fn list(things: &[Thing]) -> Markup {
    html! {
        @if things.is_empty() {
            div.notice.done { strong { "All is well." } " Nothing needs attention." }
        } @else {
            ul.attention {
                @for thing in things {
                    li.is-bad[thing.is_bad] {
                        (badge(if thing.is_bad { "Act" } else { "Look" }, if thing.is_bad { "bad" } else { "warn" }))
                        div { strong { (thing.what) } p { (thing.meaning) } }
                        a.button.small href=(thing.link) { (thing.action) span.hidden { ": " (thing.what) } }
                    }
                }
            }
        }
    }
}
