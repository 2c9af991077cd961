//! Client certificates of operators that their authority has taken back: the lists that say so, how
//! they are exchanged, and what becomes of them when they end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::tool::handshake;
use crate::support::{Authority, Client, OPERATOR, Pair, Server, Setup, process, tool, until};

const SOON: Duration = Duration::from_secs(20);
const ACCOUNTS: &str = "/admin/v1/accounts";
/// Tells when the first list ends.
const DAYS_LEFT: &str = "tls_admin_client_crl_days_left";
/// When a list ended that has ended.
const LONG_AGO: [&str; 4] = [
    "-crl_lastupdate",
    "20240101000000Z",
    "-crl_nextupdate",
    "20240102000000Z",
];

/// A server whose operators have to show a certificate that stands in no list.
struct Fixture {
    server: Server,
    authority: Authority,
    operators: Authority,
    lists: PathBuf,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// With this list of whoever vouches for operators.
    fn start(list: impl FnOnce(&Authority) -> Vec<u8>) -> Self {
        let (authority, operators) = (Authority::new(), Authority::new());
        let folder = tempfile::tempdir().unwrap();
        let lists = folder.path().join("lists.pem");
        fs::write(&lists, list(&operators)).unwrap();
        let ca = operators.certificate().display().to_string();
        let server = Setup::default()
            .env("COLLOQUY__TLS__CHECK_SECONDS", "0.05")
            .env("COLLOQUY__TLS__ADMIN_CLIENT_CA", &ca)
            .env(
                "COLLOQUY__TLS__ADMIN_CLIENT_CRL",
                &lists.display().to_string(),
            )
            .encrypted(&authority, &authority.issue("server"))
            .start();
        Self {
            server,
            authority,
            operators,
            lists,
            _folder: folder,
        }
    }

    /// An operator whose connections are new, and show this certificate.
    fn operator(&self, shown: &Pair) -> Client {
        let tls = self.authority.trusting_as(shown);
        self.server.over_tls(tls).with_operator(OPERATOR)
    }

    /// Whether a connection that comes now is let in with it.
    async fn lets_in(&self, shown: &Pair) -> bool {
        let answer = self.operator(shown).get(ACCOUNTS).try_send().await;
        answer.is_ok_and(|answer| answer.status == 200)
    }

    /// What a client is told whose handshake ends.
    fn alert(&self, shown: &Pair) -> String {
        let (certificate, key) = (shown.certificate.display(), shown.key.display());
        let (certificate, key) = (certificate.to_string(), key.to_string());
        // With TLS 1.3 the client is done before the server has looked.
        let how = ["-tls1_2", "-cert", &certificate, "-key", &key];
        handshake(&self.server.address(), &how)
    }

    /// Puts this in the place of the lists, all at once.
    fn exchange(&self, lists: &[u8]) {
        let beside = self.lists.with_extension("new");
        fs::write(&beside, lists).unwrap();
        fs::rename(beside, &self.lists).unwrap();
    }

    async fn is_told(&self, what: &str) {
        until(what, SOON, async || {
            self.server.log().contains(what).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_certificate_that_was_taken_back_is_refused_and_the_others_are_let_in() {
    let mut pairs = Vec::new();
    let fixture = Fixture::start(|operators| {
        pairs = ["good", "lost"].map(|name| operators.issue(name)).into();
        operators.revoke(&[&pairs[1]])
    });
    let [good, lost] = &pairs[..] else { panic!() };
    fixture.operator(good).get(ACCOUNTS).await.expect(200);
    assert!(!fixture.lets_in(lost).await);
    let told = fixture.alert(lost);
    assert!(told.contains("alert certificate revoked"), "{told}");
    // It is a list of operators: nobody else shows a certificate, or needs one.
    let server = &fixture.server;
    server.anonymous().get("/healthz").await.expect(200);
    let bare = server
        .over_tls(fixture.authority.trusting())
        .with_operator(OPERATOR);
    bare.get(ACCOUNTS).await.expect(403);
}

#[tokio::test]
async fn exchanged_lists_hold_without_a_restart_and_for_connections_that_are_there() {
    let fixture = Fixture::start(|operators| operators.revoke(&[]));
    let [good, lost] = ["good", "lost"].map(|name| fixture.operators.issue(name));
    let there = fixture.operator(&lost);
    there.get(ACCOUNTS).await.expect(200);
    fixture.exchange(&fixture.operators.revoke(&[&lost]));
    until("it is let in no more", SOON, async || {
        (!fixture.lets_in(&lost).await).then_some(())
    })
    .await;
    let refused = there.get(ACCOUNTS).await.expect(403);
    let message = refused.body["error"].to_string();
    assert!(message.contains("admin_client_crl"), "{message}");
    assert!(fixture.lets_in(&good).await);
    // What can't be used is told, and what held before holds on.
    fixture.exchange(b"no list");
    fixture.is_told("must be revocation lists in PEM").await;
    assert!(!fixture.lets_in(&lost).await);
    process::signal("HUP", fixture.server.pid());
    fixture.is_told("the settings were not read again").await;
    assert!(!fixture.lets_in(&lost).await);
    assert!(fixture.lets_in(&good).await);
    // Each authority must have its list: one of somebody else's would lock all operators out.
    fixture.exchange(&Authority::new().revoke(&[]));
    fixture
        .is_told("must have a list of each authority in tls.admin_client_ca")
        .await;
    assert!(fixture.lets_in(&good).await);
    // All lists of a file count: that of these operators and another one.
    let third = fixture.operators.issue("third");
    let lists = [
        Authority::new().revoke(&[]),
        fixture.operators.revoke(&[&good]),
    ];
    fixture.exchange(&lists.concat());
    until("the second list holds, too", SOON, async || {
        (!fixture.lets_in(&good).await).then_some(())
    })
    .await;
    assert!(fixture.lets_in(&third).await);
}

#[tokio::test]
async fn sighup_has_the_lists_read_that_the_settings_name_by_then() {
    let (authority, operators) = (Authority::new(), Authority::new());
    let (server, lost) = (authority.issue("server"), operators.issue("lost"));
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("lists.pem");
    fs::write(&list, operators.revoke(&[&lost])).unwrap();
    let settings = |more: &str| {
        let (certificate, key) = (server.certificate.display(), server.key.display());
        let ca = operators.certificate().display();
        format!(
            "[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\nadmin_client_ca = \"{ca}\"\n{more}"
        )
    };
    let server = Setup::default()
        .config(&settings(""))
        .trusting(&authority)
        .start();
    let there = server.over_tls(authority.trusting_as(&lost));
    let there = there.with_operator(OPERATOR);
    there.get(ACCOUNTS).await.expect(200);
    let named = settings(&format!("admin_client_crl = \"{}\"\n", list.display()));
    fs::write(server.work().join("config.toml"), named).unwrap();
    process::signal("HUP", server.pid());
    until("the list holds", SOON, async || {
        let answer = there.get(ACCOUNTS).await;
        (answer.status == 403).then_some(())
    })
    .await;
    until("the log tells of it", SOON, async || {
        let log = server.log();
        log.contains("holds_now=\"tls.admin_client_crl\"")
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_a_list_that_has_ended_no_certificate_is_taken_until_another_is_there() {
    let fixture = Fixture::start(|operators| operators.list(&LONG_AGO));
    let good = fixture.operators.issue("good");
    let ended = "a list of [tls] admin_client_crl has ended";
    fixture.is_told(ended).await;
    assert!(!fixture.lets_in(&good).await);
    fixture.exchange(&fixture.operators.revoke(&[]));
    until("it is let in again", SOON, async || {
        fixture.lets_in(&good).await.then_some(())
    })
    .await;
    // One that ends while the server runs, for connections that are there, too.
    let there = fixture.operator(&good);
    there.get(ACCOUNTS).await.expect(200);
    fixture.exchange(&fixture.operators.list(&["-crlsec", "2"]));
    until("it ends", SOON, async || {
        (there.get(ACCOUNTS).await.status == 403).then_some(())
    })
    .await;
    assert!(!fixture.lets_in(&good).await);
    until("that is told, too", SOON, async || {
        (fixture.server.log().matches(ended).count() == 2).then_some(())
    })
    .await;
}

/// That list of whoever vouches for operators, and a longer one of somebody else.
fn lists(operators: &Authority, hours: &str) -> Vec<u8> {
    let longer = Authority::new().list(&["-crldays", "90"]);
    [longer, operators.list(&["-crlhours", hours])].concat()
}

#[tokio::test]
async fn the_metrics_tell_in_how_many_days_the_first_list_ends() {
    let fixture = Fixture::start(|operators| lists(operators, "180"));
    let left = async || fixture.server.metric(DAYS_LEFT).await;
    assert_eq!(left().await, 7, "whole days of 180 hours");
    fixture.exchange(&lists(&fixture.operators, "732"));
    until("the newer list is told of", SOON, async || {
        (left().await == 30).then_some(())
    })
    .await;
    // One that has ended is told of, too: less than 0.
    fixture.exchange(&fixture.operators.list(&LONG_AGO));
    let ended = format!("\ncolloquy_{DAYS_LEFT} -");
    until("it has ended", SOON, async || {
        let metrics = fixture.server.operator().get("/metrics").await.expect(200);
        let text = String::from_utf8(metrics.bytes).unwrap();
        text.contains(&ended).then_some(())
    })
    .await;
}

#[test]
fn config_check_names_the_lists_that_can_not_be_used() {
    let (authority, operators) = (Authority::new(), Authority::new());
    let server = authority.issue("server");
    let folder = tempfile::tempdir().unwrap();
    let text = |path: &Path| path.display().to_string();
    let kept = |name: &str, lists: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, lists).unwrap();
        text(&file)
    };
    let good = kept("good.pem", &operators.revoke(&[]));
    let ended = kept("ended.pem", &operators.list(&LONG_AGO));
    let (ca, certificate) = (text(operators.certificate()), text(&server.certificate));
    let checked = |ca: &str, lists: &str| {
        let mut command = process::colloquy();
        command.args(["config", "check"]).current_dir(folder.path());
        command.env("COLLOQUY__TLS__CERTIFICATE", &certificate);
        command.env("COLLOQUY__TLS__KEY", &server.key);
        command.env("COLLOQUY__TLS__ADMIN_CLIENT_CA", ca);
        command.env("COLLOQUY__TLS__ADMIN_CLIENT_CRL", lists);
        let output = tool::started("setpriv", command.output());
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    // One that has ended is no mistake in the settings: a server would begin with it.
    for lists in [&good, &ended, &fs::read_to_string(&good).unwrap()] {
        let (is_good, told) = checked(&ca, lists);
        assert!(is_good, "{lists}: {told}");
    }
    let lines = fs::read_to_string(&good).unwrap();
    let without_the_first = lines.replacen(lines.lines().nth(1).unwrap(), "", 1);
    let cut = kept("cut.pem", without_the_first.as_bytes());
    // It says only what has changed since another list.
    let delta = operators.list(&["-name", "delta", "-crlhours", "24"]);
    let delta = kept("delta.pem", &delta);
    let foreign = kept("foreign.pem", &authority.revoke(&[]));
    for (ca, lists, right) in [
        (&*ca, "nowhere.pem", "must be a file that can be read"),
        (&ca, &certificate, "must be revocation lists in PEM"),
        (&ca, &cut, "must be revocation lists of X.509"),
        (&ca, &delta, "must be revocation lists that can be used"),
        (&ca, &foreign, "must have a list of each authority"),
        (
            "",
            &good,
            "must be empty unless tls.admin_client_ca is given",
        ),
    ] {
        let (is_good, told) = checked(ca, lists);
        assert!(!is_good, "{lists}");
        assert!(told.contains("`tls.admin_client_crl`"), "{lists}: {told}");
        assert!(told.contains(right), "{lists}: {told}");
    }
}
