//! Figures that are made anew, from a terminal.

use std::time::Duration;

use serde::Deserialize;

use super::admin_client::{AdminClient, OperateError};
use super::table::{Align, Table};

/// How often it looks whether they are shown.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How far they have come, as the server answers.
#[derive(Debug, Deserialize)]
struct Progress {
    state: String,
}

/// Has figures made anew, and waits until they are shown; gives the last answer.
pub(super) async fn rebuild(client: &AdminClient) -> Result<Vec<u8>, OperateError> {
    client.post(&["analytics", "rebuild"]).await?;
    loop {
        let answer = client.get(&["analytics"], &[]).await?;
        let progress: Progress =
            serde_json::from_slice(&answer).map_err(|_| client.not_understood())?;
        if progress.state != "running" {
            return Ok(answer);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// That they are shown.
pub(super) fn rebuilt() -> Table {
    let mut table = Table::new(&[("figures", Align::Left)]);
    table.line("All figures were made anew from the log, and are shown.");
    table
}
