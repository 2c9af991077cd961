//! How a running server ends: readiness off, running requests finish while new ones are refused,
//! then the actors, then the listener.

use std::io;
use std::time::{Duration, Instant};

use actix_web::dev::Server;

use crate::http::AppState;
use crate::log;
use crate::service_manager;
use crate::signals::Signals;

/// Left for the store's last flush and the end of the process.
const RESERVE: Duration = Duration::from_millis(500);
/// How long requests keep being taken that may have been sent before the signal, while they keep
/// coming.
const TAKEN_MAX: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or Ctrl-C, then drains within the given time.
pub(crate) async fn serve_until_told(
    server: Server,
    app: &AppState,
    signals: &Signals,
    drain_seconds: f64,
) -> io::Result<()> {
    let handle = server.handle();
    let mut running = actix_web::rt::spawn(server);
    signals.serves();
    service_manager::serves();
    tokio::select! {
        ended = &mut running => return ended.map_err(io::Error::other)?,
        () = signals.stop() => {}
        never = service_manager::lives() => match never {},
    }
    service_manager::stops();
    let whole = Duration::from_secs_f64(drain_seconds);
    let reserve = RESERVE.min(whole / 8);
    let end = Instant::now() + whole.saturating_sub(reserve);
    tracing::info!(drain_seconds, "stopping: running requests finish");
    app.in_flight.leave(TAKEN_MAX.min(whole / 8)).await;
    if !app
        .in_flight
        .none_left(left(end).saturating_sub(reserve))
        .await
    {
        tracing::warn!("requests are still running: they are not waited for");
    }
    app.system.drain();
    app.system.drained(left(end)).await;
    let stopping = async {
        // A connection that is taken while the workers end would be logged as if they had died. Behind the
        // answer to this, the thread that takes them may have one in its hands.
        handle.pause().await;
        log::leave_out_new_connections();
        handle.stop(true).await;
    };
    if tokio::time::timeout(left(end), stopping).await.is_err() {
        tracing::warn!("connections are still open: they are closed");
        // Not waited for: what hangs would hold it as well.
        drop(actix_web::rt::spawn(handle.stop(false)));
    }
    Ok(())
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
