//! Tells systemd, or another service manager that speaks sd_notify(3), when the server serves, when it
//! stops, and that it is alive. Without `NOTIFY_SOCKET` in the environment nobody is told.

use std::convert::Infallible;

use sd_notify::NotifyState;

/// Tells the manager that the server answers requests from now on (`READY=1`).
pub(crate) fn serves() {
    tell(&[NotifyState::Ready]);
}

/// It reads its settings again, and serves meanwhile.
pub(crate) fn reloads() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "the clock can't be read for the service manager"),
    }
}

/// Tells the manager that the server has begun to end (`STOPPING=1`).
pub(crate) fn stops() {
    tell(&[NotifyState::Stopping]);
}

/// Says again and again that this thread goes on, twice as often as the manager wants to hear it; for
/// ever where it wants nothing.
pub(crate) async fn lives() -> Infallible {
    let Some(wanted_within) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    loop {
        tell(&[NotifyState::Watchdog]);
        tokio::time::sleep(wanted_within / 2).await;
    }
}

/// A manager that can't be told starts no other server: the log says so.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager can't be told");
    }
}
