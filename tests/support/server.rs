//! The real server as a child process in a folder of its own. Its `Drop` fails the test when the
//! log holds an error that the test did not expect.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tempfile::TempDir;

use super::account::Account;
use super::client::Client;
use super::files::files_with;
use super::{Authority, Pair, mongodb, process, tool, until_now};

/// What is written to and read from.
trait Conversation: Read + Write {}

impl<T: Read + Write> Conversation for T {}

/// A connection to this machine inside of TLS.
pub(crate) fn encrypted(
    stream: TcpStream,
    tls: &ClientConfig,
) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(tls.clone()), name).unwrap();
    StreamOwned::new(connection, stream)
}

/// The operator token that the fixture gives every server unless a test wants the made one.
pub(crate) const OPERATOR: &str = "op_blackbox0123456789abcdefghijABCDEFGHIJ";
/// The longest that a start may take in a debug build on a busy machine, and on a busy database.
const START_MAX: Duration = Duration::from_secs(60);
/// Drain is 10 s by default, and a lease that is waited for 5 s; beyond this it hangs.
const STOP_MAX: Duration = Duration::from_secs(40);

/// How a server is to be started.
#[derive(Clone)]
pub(crate) struct Setup {
    env: Vec<(String, String)>,
    config: Option<String>,
    /// Whether the store was somebody's before: then no secrets are printed.
    known: bool,
    /// What is started, where it is not the server alone.
    command: Option<&'static str>,
    /// How its clients trust it, where it speaks TLS.
    tls: Option<ClientConfig>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            env: Vec::new(),
            config: None,
            known: false,
            command: None,
            tls: None,
        }
        .env("COLLOQUY__SERVER__BIND", "127.0.0.1:0")
        .env("COLLOQUY__ADMIN__TOKEN", OPERATOR)
        .env("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "1000000")
        .env(
            "COLLOQUY__LIMITS__LINK_REQUESTS_PER_ADDRESS_PER_MINUTE",
            "1000000",
        )
        .env("COLLOQUY__LIMITS__LINK_REQUESTS_PER_MINUTE", "1000000")
    }
}

impl Setup {
    /// Sets one variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Has it speak TLS with this certificate, for which that authority vouches.
    pub(crate) fn encrypted(self, authority: &Authority, pair: &Pair) -> Self {
        let (certificate, key) = (pair.certificate.display(), pair.key.display());
        self.env("COLLOQUY__TLS__CERTIFICATE", &certificate.to_string())
            .env("COLLOQUY__TLS__KEY", &key.to_string())
            .trusting(authority)
    }

    /// Says that the settings have it speak TLS, with a certificate for which that authority vouches.
    pub(crate) fn trusting(self, authority: &Authority) -> Self {
        self.over_tls(authority.trusting())
    }

    /// Says that the settings have it speak TLS, and how its clients trust it.
    pub(crate) fn over_tls(self, tls: ClientConfig) -> Self {
        let tls = Some(tls);
        Self { tls, ..self }
    }

    /// Lets webhooks go to this machine, tried again after these seconds, each for this long.
    pub(crate) fn delivering(self, schedule: &str, timeout_seconds: &str) -> Self {
        self.env("COLLOQUY__WEBHOOKS__ALLOW_PRIVATE_TARGETS", "true")
            .env("COLLOQUY__WEBHOOKS__RETRY_SCHEDULE_SECONDS", schedule)
            .env("COLLOQUY__WEBHOOKS__TIMEOUT_SECONDS", timeout_seconds)
    }

    /// Makes it a further node on the database of one whose store is on MongoDB.
    pub(crate) fn joining(mut self, server: &Server) -> Self {
        for (name, value) in mongodb::settings_of(&server.work()) {
            self = self.env(name, &value);
        }
        self.known()
    }

    /// Whether its store is on MongoDB wherever those of the other tests are.
    fn is_on_mongodb(&self) -> bool {
        self.env.iter().any(|(name, _)| name == mongodb::URI)
    }

    /// Says that the store is not made by the first start.
    pub(crate) fn known(self) -> Self {
        Self {
            known: true,
            ..self
        }
    }

    /// Starts the server with something in it.
    pub(crate) fn demo(self) -> Self {
        Self {
            command: Some("demo"),
            ..self
        }
    }

    /// Takes one variable away, so that the default holds.
    pub(crate) fn unset(mut self, name: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    /// Writes `config.toml` before the start.
    pub(crate) fn config(mut self, text: &str) -> Self {
        self.config = Some(text.to_owned());
        self
    }

    /// Makes the folder and starts; waits for the printed address and for `/readyz`.
    pub(crate) fn start(self) -> Server {
        self.start_in(Folder::new())
    }

    /// The same in a folder that the test has prepared.
    pub(crate) fn start_in(self, folder: Folder) -> Server {
        if let Some(text) = &self.config {
            fs::write(folder.work().join("config.toml"), text).unwrap();
        }
        let mut server = Server {
            setup: self,
            folder,
            child: None,
            starts: 0,
            port: 0,
            printed: String::new(),
            allow_errors: false,
        };
        server.launch();
        server
    }

    /// Starts in `work` what must refuse to start; gives its exit status and all that it printed.
    pub(crate) fn refused_in(self, work: &Path) -> (ExitStatus, String) {
        let output = tempfile::NamedTempFile::new().unwrap();
        if let Some(text) = &self.config {
            fs::write(work.join("config.toml"), text).unwrap();
        }
        let mut command = process::colloquy();
        // What a test writes of the store is what it is about.
        if !self.config.is_some_and(|text| text.contains("[store]")) {
            command.envs(mongodb::store_of(work));
        }
        command
            .current_dir(work)
            .env("NO_COLOR", "1")
            .envs(self.env)
            .stdin(std::process::Stdio::null());
        // One handle for both, so that they share its place in the file.
        let both = output.reopen().unwrap();
        command.stdout(both.try_clone().unwrap()).stderr(both);
        let mut child = process::spawn(command);
        let read = || String::from_utf8_lossy(&fs::read(output.path()).unwrap()).into_owned();
        let status = until_now("a server that must not start has ended", START_MAX, || {
            if first_port(&read()).is_some() {
                child.kill().unwrap();
                panic!("it started: {}", read());
            }
            child.try_wait().unwrap()
        });
        (status, read())
    }
}

/// A temporary folder: `work` is the server's, `out` is where its output goes.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// Inside the target folder, so that it lies on the same disk as the build and goes with it.
    pub(crate) fn new() -> Self {
        let folder = TempDir::with_prefix_in("colloquy-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        Self(folder)
    }

    /// The server's working folder.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    fn out(&self, name: &str, start: u32) -> PathBuf {
        self.0.path().join("out").join(format!("{name}.{start}"))
    }
}

/// A running server.
pub(crate) struct Server {
    setup: Setup,
    folder: Folder,
    child: Option<Child>,
    starts: u32,
    port: u16,
    printed: String,
    allow_errors: bool,
}

/// One server for all tests that neither stop nor configure it. It lives until the test binary
/// ends.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(Server::start)
}

/// How soon the shared server for deliveries tries again: 9 attempts, as by default, in seconds.
const RETRY_SCHEDULE: &str = "[0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3, 3]";

/// One server that delivers to this machine, for all tests that neither stop nor configure it.
pub(crate) fn delivering() -> &'static Server {
    static DELIVERING: OnceLock<Server> = OnceLock::new();
    DELIVERING.get_or_init(|| Setup::default().delivering(RETRY_SCHEDULE, "5").start())
}

impl Server {
    /// A server of the test's own, with the fixture's settings.
    pub(crate) fn start() -> Self {
        Setup::default().start()
    }

    fn launch(&mut self) {
        self.starts += 1;
        let out = File::create(self.folder.out("stdout", self.starts)).unwrap();
        let log = File::create(self.folder.out("stderr", self.starts)).unwrap();
        let mut command = process::colloquy();
        command
            .args(self.setup.command)
            .current_dir(self.folder.work())
            .env("NO_COLOR", "1")
            .envs(mongodb::store_of(&self.folder.work()))
            .envs(self.setup.env.clone());
        command
            .stdin(std::process::Stdio::null())
            .stdout(out)
            .stderr(log);
        let is_there = |file: &str| self.folder.work().join(file).exists();
        let is_made = if mongodb::is_used() || self.setup.is_on_mongodb() {
            self.starts == 1
        } else {
            !["data/colloquy.db", "data/colloquy.db.search"]
                .iter()
                .any(|file| is_there(file))
        };
        let first = is_made && !self.setup.known;
        let mut child = process::spawn(command);
        let path = self.folder.out("stdout", self.starts);
        self.printed = until_now("the server prints its address", START_MAX, || {
            let ended = child.try_wait().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let keys = ["sk_test_", "sk_prod_", "sk_read_"]
                .iter()
                .all(|prefix| token(&text, prefix).is_some());
            if text.ends_with('\n') && first_port(&text).is_some() && (keys || !first) {
                return Some(text);
            }
            if let Some(status) = ended {
                panic!(
                    "the server ended at its start with {status}:\n{text}\n{}",
                    self.log()
                );
            }
            None
        });
        self.port = first_port(&self.printed).unwrap();
        self.child = Some(child);
        until_now("readyz answers 200", START_MAX, || {
            self.is_ready().then_some(())
        });
        self.printed = fs::read_to_string(&path).unwrap();
    }

    /// Asks `/readyz` over a bare socket.
    pub(crate) fn is_ready(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let stream = TcpStream::connect(self.address())?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let mut stream: Box<dyn Conversation> = match &self.setup.tls {
                Some(tls) => Box::new(encrypted(stream, tls)),
                None => Box::new(stream),
            };
            stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        ask().is_ok_and(|text| text.starts_with("HTTP/1.1 200"))
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A client without a credential.
    pub(crate) fn anonymous(&self) -> Client {
        match &self.setup.tls {
            Some(tls) => self.over_tls(tls.clone()),
            None => Client::anonymous(&format!("http://{}", self.address())),
        }
    }

    /// The same over TLS, at a server that is trusted as this says.
    pub(crate) fn over_tls(&self, tls: ClientConfig) -> Client {
        Client::over_tls(&format!("https://{}", self.address()), tls)
    }

    /// How its clients trust it, where it speaks TLS.
    pub(crate) fn tls(&self) -> ClientConfig {
        self.setup.tls.clone().expect("it speaks TLS")
    }

    /// A client with an API key.
    pub(crate) fn with_key(&self, key: &str) -> Client {
        self.anonymous().with_key(key)
    }

    /// A client with the fixture's operator token.
    pub(crate) fn operator(&self) -> Client {
        self.anonymous().with_operator(OPERATOR)
    }

    /// The number that `/metrics` tells under this name.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let metrics = self.operator().get("/metrics").await.expect(200);
        let text = String::from_utf8_lossy(&metrics.bytes).into_owned();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("colloquy_{name}")));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("no {name}: {text}"))
    }

    /// A fresh account with three keys and a limit that no test reaches.
    pub(crate) async fn account(&self) -> Account {
        Account::make(self.anonymous()).await
    }

    /// What the last start printed on stdout.
    pub(crate) fn printed(&self) -> &str {
        &self.printed
    }

    /// The secret with this prefix that the last start printed.
    pub(crate) fn printed_token(&self, prefix: &str) -> Option<String> {
        token(&self.printed, prefix)
    }

    /// The server's working folder.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.work()
    }

    /// Where the store holds this text: its files, and the collections of its database.
    pub(crate) fn places_with(&self, text: &str) -> Vec<PathBuf> {
        let mut found = files_with(&self.work(), text);
        if mongodb::is_used() {
            let collections = mongodb::collections_with(&self.work(), text);
            found.extend(collections.into_iter().map(PathBuf::from));
        }
        found
    }

    /// Tells that errors in the log are what the test is about.
    pub(crate) fn expect_errors(&mut self) {
        self.allow_errors = true;
    }

    /// Everything that every start of this server has logged.
    pub(crate) fn log(&self) -> String {
        (1..=self.starts)
            .flat_map(|start| {
                [
                    self.folder.out("stderr", start),
                    self.folder.out("stdout", start),
                ]
            })
            .map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned())
            .collect()
    }

    /// Fails when the log holds an error or a panic.
    pub(crate) fn assert_quiet(&self) {
        let log = self.log();
        let loud: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("ERROR") || line.contains("panicked"))
            .take(20)
            .collect();
        assert!(
            self.allow_errors || loud.is_empty(),
            "the server logged errors:\n{}",
            loud.join("\n")
        );
    }

    /// Fails unless `colloquy check` finds nothing in the store of this server, which has ended.
    pub(crate) fn assert_sound(&self) {
        let check = self.check();
        assert!(check.status.success(), "colloquy check: {check:?}");
        assert_eq!(check.stdout, b"The store is sound.\n", "{check:?}");
    }

    /// Runs `colloquy check` on the store of this server.
    pub(crate) fn check(&self) -> Output {
        let check = process::colloquy()
            .arg("check")
            .current_dir(self.work())
            .envs(self.store())
            .output();
        tool::started("setpriv", check)
    }

    /// The settings of its store, and all others that the test gave.
    pub(crate) fn store(&self) -> Vec<(String, String)> {
        let store = mongodb::store_of(&self.work()).into_iter();
        let store = store.map(|(name, value)| (name.to_owned(), value));
        store.chain(self.setup.env.clone()).collect()
    }

    /// kill -9, and waits until the process is gone.
    pub(crate) fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Only sends SIGTERM; [`Server::ended`] waits.
    pub(crate) fn send_term(&self) {
        process::signal("TERM", self.pid());
    }

    /// Waits for the end of a server that was told to stop.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        until_now("the server has ended", STOP_MAX, || {
            child.try_wait().unwrap()
        })
    }

    /// SIGTERM, and the exit status.
    pub(crate) fn term(&mut self) -> ExitStatus {
        self.send_term();
        self.ended()
    }

    /// Sets one variable of the environment for the next start.
    pub(crate) fn set_env(&mut self, name: &str, value: &str) {
        self.setup = self.setup.clone().env(name, value);
    }

    /// Starts again in the same folder; the port is another.
    pub(crate) fn restart(&mut self) {
        self.kill9();
        self.launch();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            eprintln!("--- the server's log, newest first:\n{}", tail.join("\n"));
        } else {
            self.assert_quiet();
        }
    }
}

/// The first port other than 0 in `http://127.0.0.1:PORT`, or `https://127.0.0.1:PORT`.
fn first_port(text: &str) -> Option<u16> {
    let bound = ["http://127.0.0.1:", "https://127.0.0.1:", "http://[::]:"];
    let mut rests = bound.iter().flat_map(|host| text.split(host).skip(1));
    rests.find_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|port| *port != 0)
    })
}

/// The first word with this prefix and something behind it.
fn token(text: &str, prefix: &str) -> Option<String> {
    text.match_indices(prefix).find_map(|(at, _)| {
        let word: String = text[at..]
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        (word.len() > prefix.len() + 10).then_some(word)
    })
}
