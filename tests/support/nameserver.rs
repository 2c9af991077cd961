//! A nameserver on this machine that answers what a test says (pebble-challtestsrv, built by
//! `tests/run`).

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::no_tls;
use super::ports::{free_port, free_port_of_both};
use super::{process, tool, until_now};

/// The longest that a start may take on a busy machine.
const SLACK: Duration = Duration::from_secs(30);

/// A running nameserver.
pub(crate) struct Nameserver {
    child: Child,
    dns: u16,
    management: u16,
    http: reqwest::Client,
}

impl Nameserver {
    pub(crate) fn start() -> Self {
        let dns = free_port_of_both();
        let management = free_port();
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let program = target.join("pebble-challtestsrv");
        if !program.exists() {
            tool::is_missing("pebble-challtestsrv");
        }
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "TERM", "--"])
            .arg(program)
            .args(["-dnsserver", &format!("127.0.0.1:{dns}")])
            .args(["-management", &format!("127.0.0.1:{management}")])
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = process::spawn(command);
        until_now("the nameserver answers", SLACK, || {
            let tcp = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).ok();
            tcp(management).and(tcp(dns))
        });
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_backend_preconfigured(no_tls())
            .build()
            .unwrap();
        Self {
            child,
            dns,
            management,
            http,
        }
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.dns)
    }

    /// Publishes a TXT record, beside those that the name has.
    pub(crate) async fn publish(&self, name: &str, value: &str) {
        self.manage(
            "set-txt",
            json!({"host": format!("{name}."), "value": value}),
        )
        .await;
    }

    /// Takes all TXT records of a name away.
    pub(crate) async fn withdraw(&self, name: &str) {
        self.manage("clear-txt", json!({"host": format!("{name}.")}))
            .await;
    }

    async fn manage(&self, what: &str, body: Value) {
        let url = format!("http://127.0.0.1:{}/{what}", self.management);
        let sent = self.http.post(url).body(body.to_string()).send().await;
        assert_eq!(sent.unwrap().status().as_u16(), 200, "{what} {body}");
    }
}

impl Drop for Nameserver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
