//! A person at a real browser: Chromium, driven through Debian's ChromeDriver as WebDriver (W3C) has
//! it. Clicks and keys are what a person's are; a page's errors fail the test.

use std::process::Stdio;
use std::time::Duration;

use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::client::no_tls;
use super::profile::Profile;
use super::{Server, tool, until};

/// The longest that a page may take to show something on a busy machine.
const SHOWS_WITHIN: Duration = Duration::from_secs(60);
/// Finds what keeps people out (Deque, axe-core 4.14.1, MPL-2.0, as it is on npm).
const AXE: &str = include_str!("axe.min.js");

/// A browser of one person.
pub(crate) struct Browser {
    client: Client,
    driver: String,
    http: reqwest::Client,
    base: String,
    _process: Child,
    _profile: Profile,
}

/// A driver and its port. It takes a free port of IPv4 and then the same of IPv6, and ends where
/// somebody has that one: then another is started.
async fn driver() -> (Child, String) {
    for _ in 0..10 {
        let mut command = Command::new("chromedriver");
        command
            .args(["--port=0"])
            // In the C locale it finds no file whose name has other letters.
            .env("LC_ALL", "C.UTF-8")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut process = tool::started("chromedriver", command.spawn());
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some((_, port)) = line.rsplit_once("started successfully on port ") {
                return (process, port.trim_end_matches('.').to_owned());
            }
        }
    }
    panic!("chromedriver says its port");
}

impl Browser {
    /// Opens one beside others of the same test.
    pub(crate) async fn open(server: &Server) -> Self {
        Self::open_at(&server.address()).await
    }

    /// The same for any address.
    pub(crate) async fn open_at(address: &str) -> Self {
        let (process, port) = driver().await;
        let profile = Profile::new();
        let options = json!({
            "goog:chromeOptions": {"args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
                "--disable-background-networking", "--disable-component-update", "--no-proxy-server",
                "--window-size=1440,900", profile.argument(),
            ]},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let driver = format!("http://127.0.0.1:{port}");
        let Value::Object(capabilities) = options else {
            unreachable!("it is an object")
        };
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&driver)
            .await
            .expect("chromium starts");
        Self {
            client,
            driver,
            http: reqwest::Client::builder()
                .tls_backend_preconfigured(no_tls())
                .no_proxy()
                .build()
                .unwrap(),
            base: format!("http://{address}"),
            _process: process,
            _profile: profile,
        }
    }

    /// Goes to a page of the server.
    pub(crate) async fn go(&self, path: &str) {
        self.client
            .goto(&format!("{}{path}", self.base))
            .await
            .unwrap();
    }

    /// The path and query of the page that is open.
    pub(crate) async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        url.as_str().trim_start_matches(&self.base).to_owned()
    }

    /// Signs in as a person, and waits for the page that this leads to.
    pub(crate) async fn sign_in(&self, name: &str, password: &str) {
        self.go("/console/sign-in").await;
        self.fill("#field-name", name).await;
        self.fill("#field-password", password).await;
        self.click(".door > form .button").await;
        self.waits_for("header.side").await;
    }

    /// Signs in with the operator token.
    pub(crate) async fn sign_in_as_operator(&self, token: &str) {
        self.go("/console/sign-in").await;
        self.click(".door summary").await;
        self.fill("#field-token", token).await;
        self.click(".door details .button").await;
        self.waits_for("header.side").await;
    }

    /// What matches first, once it is there.
    pub(crate) async fn waits_for(&self, css: &str) -> Element {
        let wait = self.client.wait().at_most(SHOWS_WITHIN);
        wait.for_element(Locator::Css(css))
            .await
            .unwrap_or_else(|error| panic!("{css} does not come: {error}"))
    }

    /// Does something with what matches, once it is there; again where the page has put another one
    /// in its place meanwhile.
    async fn with(&self, css: &str, act: impl AsyncFn(Element) -> Result<(), CmdError>) {
        until(css, SHOWS_WITHIN, async || {
            match act(self.waits_for(css).await).await {
                Ok(()) => Some(()),
                Err(error) if is_passing(&error) => None,
                Err(error) => panic!("{css}: {error}"),
            }
        })
        .await;
    }

    /// Clicks what matches, once it is there.
    pub(crate) async fn click(&self, css: &str) {
        self.with(css, async |element| element.click().await).await;
    }

    /// Clicks the first button or link with these words.
    pub(crate) async fn press(&self, words: &str) {
        let xpath = format!("//main//*[self::a or self::button][normalize-space()='{words}']");
        until(words, SHOWS_WITHIN, async || {
            let found = self.client.find(Locator::XPath(&xpath)).await;
            let pressed = match found {
                Ok(element) => element.click().await,
                Err(error) => Err(error),
            };
            match pressed {
                Ok(()) => Some(()),
                Err(error) if is_passing(&error) => None,
                Err(error) => panic!("{words:?} can't be pressed: {error}"),
            }
        })
        .await;
    }

    /// Says yes to the question that a button has asked.
    pub(crate) async fn confirm(&self) {
        self.click("#confirm[open] [data-yes]").await;
    }

    /// Types into a field, in place of what it holds.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        self.with(css, async |field| {
            field.clear().await?;
            field.send_keys(text).await
        })
        .await;
    }

    /// Chooses by the value.
    pub(crate) async fn choose(&self, css: &str, value: &str) {
        self.with(css, async |field| field.select_by_value(value).await)
            .await;
    }

    /// Types keys without a field.
    pub(crate) async fn keys(&self, keys: &str) {
        until(keys, SHOWS_WITHIN, async || {
            let typed = match self.client.active_element().await {
                Ok(active) => active.send_keys(keys).await,
                Err(error) => Err(error),
            };
            match typed {
                Ok(()) => Some(()),
                Err(error) if is_passing(&error) => None,
                Err(error) => panic!("{keys:?} can't be typed: {error}"),
            }
        })
        .await;
    }

    /// Ctrl and Enter in a field.
    pub(crate) async fn ctrl_enter(&self, css: &str) {
        let keys = format!("{}{}", char::from(Key::Control), char::from(Key::Enter));
        self.waits_for(css).await.send_keys(&keys).await.unwrap();
    }

    /// The words that are seen where this matches; empty where nothing does.
    pub(crate) async fn text(&self, css: &str) -> String {
        let script = "const all = [...document.querySelectorAll(arguments[0])]; return all.map((one) => one.innerText).join('\\n')";
        let text = self.run(script, vec![json!(css)]).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// How many match.
    pub(crate) async fn count(&self, css: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        self.run(script, vec![json!(css)]).await.as_u64().unwrap()
    }

    /// What a field holds.
    pub(crate) async fn value(&self, css: &str) -> String {
        let script = "return document.querySelector(arguments[0]).value";
        let value = self.run(script, vec![json!(css)]).await;
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until these words are seen where this matches.
    pub(crate) async fn shows(&self, css: &str, words: &str) {
        until(&format!("{words:?} in {css}"), SHOWS_WITHIN, async || {
            self.text(css).await.contains(words).then_some(())
        })
        .await;
    }

    /// What a script comes to on the page as it is now.
    pub(crate) async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client
            .execute(script, arguments)
            .await
            .unwrap_or_default()
    }

    /// As a phone's screen, or a desk's; light or dark.
    pub(crate) async fn looks(&self, width: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", size)
            .await;
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// Cuts the browser off from the server, or lets it back.
    pub(crate) async fn offline(&self, is_offline: bool) {
        self.devtools("Network.enable", json!({})).await;
        let network = json!({"offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.devtools("Network.emulateNetworkConditions", network)
            .await;
    }

    /// Lets no request out whose address is as one of these patterns; all, where there is none.
    pub(crate) async fn blocks(&self, patterns: &[&str]) {
        self.devtools("Network.enable", json!({})).await;
        self.devtools("Network.setBlockedURLs", json!({"urls": patterns}))
            .await;
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.driver_post("goog/cdp/execute", body).await
    }

    async fn driver_post(&self, path: &str, body: Value) -> Value {
        let session = self.client.session_id().await.unwrap().unwrap();
        let url = format!("{}/session/{session}/{path}", self.driver);
        let answer = self.http.post(url).json(&body).send().await.unwrap();
        let mut answer: Value = answer.json().await.unwrap();
        answer["value"].take()
    }

    /// What the browser has noted since this was asked before: errors of scripts, refused loads.
    pub(crate) async fn errors(&self) -> Vec<String> {
        let log = self.driver_post("se/log", json!({"type": "browser"})).await;
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].to_string()).collect()
    }

    /// Fails where the browser has noted an error.
    pub(crate) async fn assert_quiet(&self) {
        assert_eq!(
            self.errors().await,
            Vec::<String>::new(),
            "in the browser's log"
        );
    }

    /// What keeps people out of this page, as axe-core finds it: serious and critical findings.
    pub(crate) async fn barriers(&self) -> Vec<String> {
        self.run(AXE, vec![]).await;
        let script = "const done = arguments[arguments.length - 1];
            axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations']})
               .then((found) => done(found.violations), (error) => done([{id: String(error), impact: 'critical', nodes: []}]))";
        let found = self.client.execute_async(script, vec![]).await.unwrap();
        let found = found.as_array().cloned().unwrap();
        let serious = |one: &&Value| matches!(one["impact"].as_str(), Some("serious" | "critical"));
        let told = |one: &Value| format!("{} at {}", one["id"], one["nodes"][0]["html"]);
        found.iter().filter(serious).map(told).collect()
    }

    /// What the page loaded from elsewhere.
    pub(crate) async fn loaded_elsewhere(&self) -> Vec<String> {
        let script = "return performance.getEntriesByType('resource').map((one) => one.name)
            .filter((name) => new URL(name).host !== location.host)";
        let names = self.run(script, vec![]).await;
        let names = names.as_array().cloned().unwrap_or_default();
        names.iter().map(Value::to_string).collect()
    }

    /// Keeps a picture of the page for whoever wants to look at it: in the folder that
    /// `COLLOQUY_TEST_PICTURES` names.
    pub(crate) async fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("COLLOQUY_TEST_PICTURES") else {
            return;
        };
        let folder = std::path::PathBuf::from(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let picture = self.client.screenshot().await.unwrap();
        std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }
}

/// Whether what failed may work in a moment: the page has put another element in the place of one,
/// or shows it soon.
fn is_passing(error: &CmdError) -> bool {
    error.is_stale_element_reference()
        || error.is_no_such_element()
        || error.is_element_not_interactable()
}
