//! How a running server ends: readiness off, no new work, running requests finish, then the listener goes.

use std::io;
use std::time::{Duration, Instant};

use actix_web::dev::Server;
use colloquy_actors::system::System;

/// Left for the store's last flush and the end of the process.
const RESERVE: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or Ctrl-C, then drains within the given time.
pub(crate) async fn serve_until_told(server: Server, system: &System, drain_seconds: f64) -> io::Result<()> {
    let handle = server.handle();
    let mut running = actix_web::rt::spawn(server);
    tokio::select! {
        ended = &mut running => return ended.map_err(io::Error::other)?,
        told = told_to_stop() => told?,
    }
    let whole = Duration::from_secs_f64(drain_seconds);
    let deadline = Instant::now() + whole.saturating_sub(RESERVE.min(whole / 4));
    tracing::info!(drain_seconds, "stopping: running requests finish");
    system.drain();
    system.drained(left(deadline)).await;
    let stopping = handle.stop(true);
    if tokio::time::timeout(left(deadline), stopping).await.is_err() {
        tracing::warn!("connections are still open: they are closed");
        // Not waited for: what hangs would hold it as well.
        drop(actix_web::rt::spawn(handle.stop(false)));
    }
    Ok(())
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

async fn told_to_stop() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
