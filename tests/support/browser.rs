//! A real browser, Chromium without a window: what a page is once its scripts have had their time.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// The longest that a browser may take on a busy machine.
const SHOWS_WITHIN: Duration = Duration::from_secs(60);

/// The document as it stands after the page was loaded and its timers and scripts ran for two seconds of its own time.
pub(crate) async fn dom_of(url: &str) -> String {
    let profile = tempfile::TempDir::with_prefix_in("browser-", env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"]);
    command.args(["--virtual-time-budget=2000", "--dump-dom", url]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(SHOWS_WITHIN, command.output()).await.expect("the browser ends in time");
    let output = output.unwrap_or_else(|error| panic!("chromium: {error}; tests/run installs it"));
    assert!(output.status.success(), "chromium ended with {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
