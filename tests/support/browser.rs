//! A real browser, Chromium without a window: what a page is once its scripts have had their time,
//! and what a person can do on it.

use std::process::Stdio;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::profile::Profile;
use super::{tool, until};

/// The longest that a browser may take on a busy machine.
const SHOWS_WITHIN: Duration = Duration::from_secs(60);

fn chromium() -> (Profile, Command) {
    let profile = Profile::new();
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-dev-shm-usage",
    ]);
    command.arg(profile.argument());
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--no-proxy-server",
    ]);
    command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    (profile, command)
}

/// The document as it stands after the page was loaded and its timers and scripts ran for two
/// seconds of its own time.
pub(crate) async fn dom_of(url: &str) -> String {
    let (_profile, mut command) = chromium();
    command.args(["--virtual-time-budget=2000", "--dump-dom", url]);
    let output = tokio::time::timeout(SHOWS_WITHIN, command.output())
        .await
        .expect("the browser ends in time");
    let output = tool::started("chromium", output);
    assert!(
        output.status.success(),
        "chromium ended with {}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A page that stays open; what is run on it stands above its policy, as what a person does.
pub(crate) struct Tab {
    _chromium: Child,
    _profile: Profile,
    socket: WebSocketStream<TcpStream>,
    session: Option<String>,
    asked: u64,
}

impl Tab {
    /// Opens a page.
    pub(crate) async fn open(url: &str) -> Self {
        let (profile, mut command) = chromium();
        let child = command
            .arg("--remote-debugging-port=0")
            .stdout(Stdio::null())
            .spawn();
        let child = tool::started("chromium", child);
        // Its port and the path of its own socket.
        let door = profile.path().join("DevToolsActivePort");
        let (port, path) = until("chromium listens", SHOWS_WITHIN, async || {
            let text = std::fs::read_to_string(&door).ok()?;
            let (port, path) = text.split_once('\n')?;
            Some((port.to_owned(), path.to_owned())).filter(|(_, path)| !path.is_empty())
        })
        .await;
        let stream = TcpStream::connect(format!("127.0.0.1:{port}"))
            .await
            .unwrap();
        let (socket, _) =
            tokio_tungstenite::client_async(format!("ws://127.0.0.1:{port}{path}"), stream)
                .await
                .unwrap();
        let mut tab = Self {
            _chromium: child,
            _profile: profile,
            socket,
            session: None,
            asked: 0,
        };
        let target = tab.ask("Target.createTarget", json!({"url": url})).await["targetId"].clone();
        let attached = tab
            .ask(
                "Target.attachToTarget",
                json!({"targetId": target, "flatten": true}),
            )
            .await;
        tab.session = attached["sessionId"].as_str().map(str::to_owned);
        tab
    }

    async fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut call = json!({"id": self.asked, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        self.socket
            .send(Message::text(call.to_string()))
            .await
            .unwrap();
        let answered = async {
            loop {
                let message = self
                    .socket
                    .next()
                    .await
                    .expect("chromium is there")
                    .unwrap();
                let Ok(text) = message.to_text() else {
                    continue;
                };
                let frame: Value = serde_json::from_str(text).unwrap_or_default();
                if frame["id"] == self.asked {
                    return frame["result"].clone();
                }
            }
        };
        tokio::time::timeout(SHOWS_WITHIN, answered)
            .await
            .unwrap_or_else(|_| panic!("no answer to {call}"))
    }

    /// What a script comes to, or its promise, on the page as it is now; null where the page is
    /// being replaced.
    pub(crate) async fn run(&mut self, script: &str) -> Value {
        let parameters = json!({"expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true});
        self.ask("Runtime.evaluate", parameters).await["result"]["value"].clone()
    }

    /// Waits until the page shows this.
    pub(crate) async fn shows(&mut self, words: &str) {
        let script = "document.readyState === 'complete' && document.body.innerText";
        until(words, SHOWS_WITHIN, async || {
            let text = self.run(script).await;
            text.as_str()
                .is_some_and(|text| text.contains(words))
                .then_some(())
        })
        .await;
    }
}
