//! SIGHUP: the settings are read again. Those that can change while the server runs hold at once; of
//! the others the log says that they need a restart.

use std::convert::Infallible;
use std::sync::Arc;

use crate::config::{ConfigError, Loaded};
use crate::http::AppState;
use crate::signals::Signals;
use crate::{log, service_manager};

/// What can change while the server runs: names of settings, or what these begin with.
const LIVE: [&str; 8] = [
    "cors.",
    "deprecations",
    "log.level",
    "log.requests",
    "metrics.public",
    "plans.",
    "security_headers.",
    "supervision.",
];
/// The same of a server that speaks TLS; one that does not can't begin to.
const LIVE_WITH_TLS: [&str; 3] = ["tls.admin_client_", "tls.certificate", "tls.key"];
/// The same of a server that orders certificates.
const LIVE_WITH_ACME: [&str; 1] = ["tls.acme.domains"];
/// Begins as they do, but what operators may do is settled at the start.
const DRILLS: &str = "supervision.drills";

/// Reads the settings again with each SIGHUP, for as long as the process runs.
pub(crate) async fn whenever_told(
    app: Arc<AppState>,
    started: Arc<Loaded>,
    signals: Arc<Signals>,
) -> Infallible {
    let mut holds: Option<Loaded> = None;
    loop {
        signals.reload().await;
        service_manager::reloads();
        match read_again(&app, &started) {
            Ok(read) => {
                let held = holds.as_ref().unwrap_or(&started);
                tell(&started, held, &read);
                holds = Some(read);
            }
            Err(error) => {
                tracing::warn!(%error, "the settings were not read again: nothing has changed")
            }
        }
        service_manager::serves();
    }
}

/// Reads the settings, and lets those hold that can.
fn read_again(app: &AppState, started: &Loaded) -> Result<Loaded, ConfigError> {
    let read = started.again()?;
    app.set_anew(&read.config)?;
    log::set_level(&read.config.log.level);
    Ok(read)
}

/// Says which settings have changed, and which of them only a restart would let hold.
fn tell(started: &Loaded, held: &Loaded, read: &Loaded) {
    let has_tls = started.config.tls.is_on() && read.config.tls.is_on();
    let has_acme = started.config.tls.acme.is_on() && read.config.tls.acme.is_on();
    let is_live = |name: &str| {
        is_live(name)
            || has_tls && is_one_of(&LIVE_WITH_TLS, name)
            || has_acme && is_one_of(&LIVE_WITH_ACME, name)
    };
    let mut holds_now = held.changes(read);
    holds_now.retain(|name| is_live(name));
    let mut needs_a_restart = started.changes(read);
    needs_a_restart.retain(|name| !is_live(name));
    let is_all = needs_a_restart.is_empty();
    let (holds_now, needs_a_restart) = (holds_now.join(", "), needs_a_restart.join(", "));
    if is_all {
        tracing::info!(holds_now, "the settings were read again");
    } else {
        tracing::warn!(holds_now, needs_a_restart, "the settings were read again");
    }
}

fn is_live(name: &str) -> bool {
    name != DRILLS && is_one_of(&LIVE, name)
}

fn is_one_of(beginnings: &[&str], name: &str) -> bool {
    beginnings.iter().any(|live| name.starts_with(live))
}
