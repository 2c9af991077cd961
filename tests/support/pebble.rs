//! Pebble, the ACME server of Let's Encrypt for tests, and the DNS by which it finds every name on
//! this machine. `tests/run` builds both. Pebble keeps nothing: after a start it knows no account and
//! has other roots.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use serde_json::{Value, json};

use super::client::no_tls;
use super::ports::{free_port, free_port_of_both};
use super::server::Setup;
use super::{Authority, Client, process, until, until_now};

/// The longest that a start may take on a busy machine.
const SLACK: Duration = Duration::from_secs(30);

/// How certificates are issued.
pub(crate) struct Issuing {
    /// For how many seconds they are valid.
    pub(crate) validity_seconds: u64,
    /// How many seconds it waits at most before it looks whether a name is ours.
    pub(crate) look_seconds: u64,
    /// The account elsewhere that it wants: its name, and its key in base64url.
    pub(crate) external: Option<(&'static str, &'static str)>,
}

impl Default for Issuing {
    fn default() -> Self {
        Self {
            validity_seconds: 90 * 86_400,
            look_seconds: 0,
            external: None,
        }
    }
}

/// A running authority.
pub(crate) struct Pebble {
    folder: tempfile::TempDir,
    /// Who vouches for the authority's own server.
    authority: Authority,
    issuing: Issuing,
    dns: Child,
    child: Option<Child>,
    starts: u32,
    ports: Ports,
}

struct Ports {
    directory: u16,
    management: u16,
    dns: u16,
    dns_management: u16,
    /// Where it asks for names over HTTP, and in TLS.
    http: u16,
    tls: u16,
}

impl Pebble {
    pub(crate) async fn start(issuing: Issuing) -> Self {
        let folder =
            tempfile::TempDir::with_prefix_in("pebble-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let ports = Ports {
            directory: free_port(),
            management: free_port(),
            dns: free_port_of_both(),
            dns_management: free_port(),
            http: free_port(),
            tls: free_port(),
        };
        let mut dns = program("pebble-challtestsrv");
        for (name, value) in [
            ("-dnsserver", format!("127.0.0.1:{}", ports.dns)),
            ("-management", format!("127.0.0.1:{}", ports.dns_management)),
            ("-http01", String::new()),
            ("-https01", String::new()),
            ("-tlsalpn01", String::new()),
            ("-doh", String::new()),
            ("-defaultIPv6", String::new()),
        ] {
            dns.args([name, &value]);
        }
        let log = File::create(folder.path().join("dns.log")).unwrap();
        let dns = process::spawn(logged(dns, &log));
        let mut pebble = Self {
            folder,
            authority: Authority::new(),
            issuing,
            dns,
            child: None,
            starts: 0,
            ports,
        };
        pebble.go_on().await;
        pebble
    }

    /// Ends it: whoever asks gets no answer.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it, at the same address as before.
    pub(crate) async fn go_on(&mut self) {
        let pair = self.authority.issue("pebble");
        let (ports, issuing) = (&self.ports, &self.issuing);
        let profile = json!({"description": "", "validityPeriod": issuing.validity_seconds});
        let mut settings = json!({
            "listenAddress": format!("127.0.0.1:{}", ports.directory),
            "managementListenAddress": format!("127.0.0.1:{}", ports.management),
            "certificate": pair.certificate,
            "privateKey": pair.key,
            "httpPort": ports.http,
            "tlsPort": ports.tls,
            "domainBlocklist": ["blocked.example"],
            "retryAfter": {"authz": 1, "order": 1},
            "keyAlgorithm": "ecdsa",
            "profiles": {"default": profile, "brief": {"description": "", "validityPeriod": 86_400}},
        });
        if let Some((name, key)) = issuing.external {
            settings["externalAccountBindingRequired"] = true.into();
            settings["externalAccountMACKeys"] = json!({name: key});
        }
        let file = self.folder.path().join("pebble.json");
        fs::write(&file, json!({"pebble": settings}).to_string()).unwrap();
        let mut command = program("pebble");
        command.arg("-config").arg(&file);
        command.args(["-dnsserver", &format!("127.0.0.1:{}", ports.dns)]);
        // A tenth of all nonces are refused, as the protocol lets an authority do.
        command.env("PEBBLE_WFE_NONCEREJECT", "10");
        match issuing.look_seconds {
            0 => command.env("PEBBLE_VA_NOSLEEP", "1"),
            seconds => command.env("PEBBLE_VA_SLEEPTIME", seconds.to_string()),
        };
        self.starts += 1;
        let log = File::create(self.log_file(self.starts)).unwrap();
        self.child = Some(process::spawn(logged(command, &log)));
        until("pebble answers", SLACK, async || {
            let answer = self.management().get("/roots/0").open().await;
            answer.ok().filter(|answer| answer.status() == 200)
        })
        .await;
        until_now("the DNS answers", SLACK, || {
            std::net::TcpStream::connect(("127.0.0.1", self.ports.dns_management)).ok()
        });
    }

    fn log_file(&self, start: u32) -> PathBuf {
        self.folder.path().join(format!("pebble.log.{start}"))
    }

    /// How often it was asked when it suggests that a certificate is renewed (RFC 9773).
    pub(crate) fn times_asked_when_to_renew(&self) -> usize {
        self.log().matches("/draft-ietf-acme-ari").count()
    }

    /// Suggests from now on that this certificate, which it has issued, is renewed then.
    pub(crate) async fn suggest(
        &self,
        certificate: &CertificateDer<'_>,
        window: [DateTime<Utc>; 2],
    ) {
        let [start, end] = window.map(|at| at.to_rfc3339());
        let info = json!({"suggestedWindow": {"start": start, "end": end}});
        let certificate = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            BASE64_STANDARD.encode(certificate)
        );
        let body = json!({"certificate": certificate, "ariResponse": info.to_string()});
        let set = self.management().post("/set-renewal-info/", body);
        // It refuses whoever does not say what they are (RFC 8555, 6.1).
        let set = set.with("user-agent", "colloquy-tests").open().await;
        assert_eq!(set.unwrap().status(), 200);
    }

    /// How many certificates it has issued, and how many orders it was given.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let log = self.log();
        let count = |text: &str| log.matches(text).count();
        (count("Issued certificate serial"), count("Added order "))
    }

    fn log(&self) -> String {
        let logs = (1..=self.starts).map(|start| fs::read_to_string(self.log_file(start)).unwrap());
        logs.collect()
    }

    /// Where it asks over HTTP whether a name is ours.
    pub(crate) fn http_port(&self) -> u16 {
        self.ports.http
    }

    /// Where it asks that in TLS, and where a server of [`Pebble::setup`] listens.
    pub(crate) fn tls_port(&self) -> u16 {
        self.ports.tls
    }

    fn management(&self) -> Client {
        let base = format!("https://127.0.0.1:{}", self.ports.management);
        Client::over_tls(&base, self.authority.trusting())
    }

    /// A client of the servers for which it issues.
    pub(crate) async fn trusting(&self) -> ClientConfig {
        let root = self.management().get("/roots/0").open().await.unwrap();
        let root = CertificateDer::from_pem_slice(&root.bytes().await.unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(root).unwrap();
        let provider = Arc::clone(no_tls().crypto_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// Has this name lead to another address of this machine.
    pub(crate) async fn lead(&self, name: &str, address: &str) {
        let url = format!("http://127.0.0.1:{}/add-a", self.ports.dns_management);
        let body = json!({"host": name, "addresses": [address]}).to_string();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(no_tls())
            .no_proxy()
            .build()
            .unwrap();
        let done = http.post(url).body(body).send().await.unwrap();
        assert_eq!(done.status(), 200);
    }

    /// The settings by which a server has certificates issued for these names.
    pub(crate) fn settings(&self, names: &[&str]) -> Vec<(String, String)> {
        let directory = format!("https://127.0.0.1:{}/dir", self.ports.directory);
        let root = self.authority.certificate().display().to_string();
        let domains = Value::from(names.to_vec()).to_string();
        [
            ("DOMAINS", domains),
            ("DIRECTORY", directory),
            ("DIRECTORY_CA", root),
            ("CONTACT", r#"["mailto:ops@example.com"]"#.to_owned()),
            ("TERMS_OF_SERVICE_AGREED", "true".to_owned()),
            // Where none is named pebble takes any, by chance.
            ("PROFILE", "default".to_owned()),
        ]
        .map(|(name, value)| (format!("COLLOQUY__TLS__ACME__{name}"), value))
        .into()
    }

    /// A server for these names, asked in TLS whether they are its own.
    pub(crate) fn setup(&self, names: &[&str]) -> Setup {
        let settings = self.settings(names).into_iter();
        let setup = settings.fold(Setup::default(), |setup, (name, value)| {
            setup.env(&name, &value)
        });
        let bind = format!("127.0.0.1:{}", self.ports.tls);
        setup
            .env("COLLOQUY__SERVER__BIND", &bind)
            .env("COLLOQUY__TLS__CHECK_SECONDS", "0.2")
            .over_tls(trusting_anybody())
    }

    /// The same, asked over HTTP at this address of this machine.
    pub(crate) fn setup_over_http(&self, names: &[&str], address: &str) -> Setup {
        let redirect = format!("{address}:{}", self.ports.http);
        self.setup(names)
            .env("COLLOQUY__SERVER__BIND", "127.0.0.1:0")
            .env("COLLOQUY__SERVER__PUBLIC_URL", "https://a.example")
            .env("COLLOQUY__TLS__REDIRECT_FROM", &redirect)
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
        drop(self.dns.kill());
        drop(self.dns.wait());
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log_file(self.starts)).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            eprintln!("--- pebble's log, newest first:\n{}", tail.join("\n"));
        }
    }
}

/// A client of whoever answers at `address` by this name.
pub(crate) fn at(address: &str, name: &str, tls: ClientConfig) -> reqwest::Client {
    let address: SocketAddr = address.parse().unwrap();
    reqwest::Client::builder()
        .no_proxy()
        .resolve(name, address)
        .tls_backend_preconfigured(tls)
        .timeout(SLACK)
        .build()
        .unwrap()
}

/// A client that takes any certificate: of a server that has none yet, for example.
fn trusting_anybody() -> ClientConfig {
    let provider = Arc::clone(no_tls().crypto_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth()
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = no_tls().crypto_provider().signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

fn program(name: &str) -> Command {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..").join(name);
    assert!(
        program.exists(),
        "{} is not there: tests/run builds it",
        program.display()
    );
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn logged(mut command: Command, log: &File) -> Command {
    let (out, err) = (log.try_clone().unwrap(), log.try_clone().unwrap());
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    command
}
