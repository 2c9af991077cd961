//! What met a commit of another node is decided anew: nothing of it was done.

use std::time::Duration;

use super::app_state::AppState;
use super::problem::Problem;

/// How often a request is decided anew that met a commit of another node.
pub(super) const ATTEMPTS_MAX: u32 = 12;
/// The longest wait before that.
const PAUSE_MS: u64 = 40;

/// Waits a moment, so that others who met the same commit come at other times.
pub(super) async fn pause() {
    let pause = colloquy_model::random::u64() % PAUSE_MS;
    tokio::time::sleep(Duration::from_millis(pause)).await;
}

/// Attempts it until it meets no commit of another node, or has too often.
pub(super) async fn decided_anew<T>(
    app: &AppState,
    mut attempt: impl AsyncFnMut() -> Result<T, Problem>,
) -> Result<T, Problem> {
    if app.system.is_shared() {
        for _ in 0..ATTEMPTS_MAX {
            match attempt().await {
                Err(problem) if problem.is_overtaken() => pause().await,
                done => return done,
            }
        }
    }
    attempt().await
}
