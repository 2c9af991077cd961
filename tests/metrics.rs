//! `/metrics`, as OpenMetrics readers see it, and what is made of it in `deploy/`: Grafana's
//! dashboard and Prometheus' alert rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::documents::DOCUMENTS;
use crate::support::server::{Server, Setup, shared};
use crate::support::{Authority, Client, tool, until};

/// A family of metrics, as `prometheus-client` reads it.
#[derive(Debug, Deserialize)]
struct Family {
    r#type: String,
    unit: String,
    help: String,
    /// Names with labels.
    samples: Vec<(String, BTreeMap<String, String>)>,
    exemplars: usize,
}

const SOON: Duration = Duration::from_secs(60);

/// Labels that Prometheus sets itself when it reads.
const SET_BY_PROMETHEUS: [&str; 2] = ["instance", "job"];

#[tokio::test]
async fn metrics_want_the_operator_token() {
    shared()
        .anonymous()
        .get("/metrics")
        .await
        .error(401, "unauthorized", "");
    let (_account, key) = crate::support::account_with_client().await;
    key.get("/metrics").await.error(401, "unauthorized", "");
    let metrics = shared().operator().get("/metrics").await.expect(200);
    assert_eq!(
        metrics.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(metrics.bytes.ends_with(b"\n# EOF\n"), "{metrics}");
}

#[tokio::test]
async fn a_reader_of_openmetrics_finds_every_family_with_its_type_unit_and_explanation() {
    let families = families(shared()).await;
    for (name, family) in &families {
        assert!(name.starts_with("colloquy_"), "{name}");
        assert!(family.help.split(' ').count() > 1, "{name}: {family:?}");
        assert_eq!(family.exemplars, 0, "{name}");
        let unit = ["seconds", "bytes"]
            .into_iter()
            .find(|unit| name.ends_with(&format!("_{unit}")));
        assert_eq!(family.unit, unit.unwrap_or_default(), "{name}");
        match family.r#type.as_str() {
            "histogram" => assert_ne!(family.unit, "", "{name} has no unit"),
            kind => assert!(["counter", "gauge"].contains(&kind), "{name}: {kind}"),
        }
    }
    let sampled = families
        .values()
        .filter(|family| !family.samples.is_empty());
    assert!(sampled.count() > 30, "{families:?}");
    assert_eq!(
        families["colloquy_http_request_seconds"].r#type,
        "histogram"
    );
    assert_eq!(families["colloquy_store_batch_seconds"].r#type, "counter");
}

/// How saturated the server is for a cause.
async fn saturation(operator: &Client, cause: &str) -> f64 {
    let metrics = operator.get("/metrics").await.expect(200);
    let text = String::from_utf8(metrics.bytes).unwrap();
    let start = format!("colloquy_saturation{{cause=\"{cause}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&start));
    value
        .unwrap_or_else(|| panic!("{start}: {text}"))
        .parse()
        .unwrap()
}

#[tokio::test]
async fn saturation_is_a_share_of_what_there_is_by_cause() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__CONNECTIONS_MAX", "40")
        .start();
    let operator = server.operator();
    let causes = ["answers", "bodies", "connections", "cpu", "store"];
    for cause in causes {
        let share = saturation(&operator, cause).await;
        assert!((0.0..=1.0).contains(&share), "{cause}: {share}");
    }
    // An address may have a quarter of them: one is the reader's.
    let mut open = Vec::new();
    for _ in 0..7 {
        open.push(TcpStream::connect(server.address()).await.unwrap());
    }
    until("they count", SOON, async || {
        (saturation(&operator, "connections").await >= 0.2).then_some(())
    })
    .await;
    drop(open);
    until("they count no more", SOON, async || {
        (saturation(&operator, "connections").await <= 0.1).then_some(())
    })
    .await;
    let account = server.account().await;
    let load: Vec<_> = (0..8)
        .map(|_| {
            let c = account.test();
            tokio::spawn(async move {
                loop {
                    c.get("/v1/conversations").await.expect(200);
                }
            })
        })
        .collect();
    let busy = until("the processors are busy", SOON, async || {
        let share = saturation(&operator, "cpu").await;
        (share > 0.4).then_some(share)
    })
    .await;
    for one in load {
        one.abort();
    }
    // Who looks keeps them busy, too.
    until("and are not any more", SOON, async || {
        (saturation(&operator, "cpu").await < busy / 2.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn saturation_tells_of_bodies_answers_and_commits_that_wait() {
    let server = Setup::default()
        .env("COLLOQUY__LIMITS__BODIES_IN_FLIGHT_BYTES", "33554432")
        .env("COLLOQUY__LIMITS__ANSWERS_IN_FLIGHT_BYTES", "33554432")
        .start();
    let operator = server.operator();
    let account = server.account().await;
    let c = account.test();
    let reaches = async |cause: &str, least: f64| {
        until(&format!("{cause} count"), SOON, async || {
            (saturation(&operator, cause).await >= least).then_some(())
        })
        .await;
    };
    let falls = async |cause: &str| {
        until(&format!("{cause} count no more"), SOON, async || {
            (saturation(&operator, cause).await < 0.05).then_some(())
        })
        .await;
    };
    let begun = async |head: &str| {
        let mut line = TcpStream::connect(server.address()).await.unwrap();
        let key = account.test_key();
        let request = format!("{head}\r\nHost: test\r\nAuthorization: Bearer {key}\r\n");
        line.write_all(request.as_bytes()).await.unwrap();
        line
    };

    // An account may have a quarter of the bytes.
    let mut line = begun("POST /v1/attachments HTTP/1.1").await;
    line.write_all(b"Content-Length: 8000000\r\n\r\nx")
        .await
        .unwrap();
    reaches("bodies", 0.2).await;
    drop(line);
    falls("bodies").await;

    let content = json!({"title": "Long", "content": "x".repeat(8_000_000)});
    let document = c.post(DOCUMENTS, content).await.expect(201).id("id");
    let mut line = begun(&format!("GET {DOCUMENTS}/{document} HTTP/1.1")).await;
    line.write_all(b"\r\n").await.unwrap();
    reaches("answers", 0.2).await;
    drop(line);
    falls("answers").await;

    // Of 1,024 works that one transaction takes.
    let load: Vec<_> = (0..128)
        .map(|_| {
            let c = c.clone();
            tokio::spawn(async move {
                loop {
                    c.customer().await;
                }
            })
        })
        .collect();
    reaches("store", 0.03).await;
    for one in load {
        one.abort();
    }
    falls("store").await;
}

#[tokio::test]
async fn counters_only_grow_and_count_what_was_done() {
    let server = Server::start();
    let account = server.account().await;
    let before = server.metric("messages_total").await;
    let id = account.live().conversation().await;
    account.live().message(&id, "one").await.expect(201);
    account.live().message(&id, "two").await.expect(201);
    assert_eq!(server.metric("messages_total").await, before + 2);
}

#[tokio::test]
async fn the_dashboard_asks_for_what_there_is() {
    let server = busy().await;
    let families = families(&server).await;
    let dashboard: Value = serde_json::from_str(&deployed("grafana-dashboard.json")).unwrap();
    let mut rules = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].is_string(), "{title} explains nothing");
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string(),
            "{title} has no unit"
        );
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} asks for nothing");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            asks_for_what_there_is(title, expression, &families);
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                assert!(expression.contains(label), "{title}: {legend}");
            }
            let expression = expression.replace("$__rate_interval", "5m");
            rules.push(
                json!({"record": format!("colloquy:rule{}", rules.len()), "expr": expression}),
            );
        }
    }
    assert!(rules.len() > 20, "{rules:?}");
    // As recording rules, promtool reads the expressions.
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard-rules.yaml");
    let rules = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(&file, rules.to_string()).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()]);
}

#[tokio::test]
async fn prometheus_own_tool_reads_the_metrics_without_a_remark() {
    let server = busy().await;
    let metrics = server.operator().get("/metrics").await.expect(200);
    let mut check = Command::new(promtool_path());
    let output = fed("promtool", check.args(["check", "metrics"]), &metrics.bytes);
    let said = String::from_utf8_lossy(&output.stderr);
    // It reads the older text format, in which a counter's help stands under its whole name, and people
    // count a certificate's days.
    let is_known = |remark: &&str| {
        remark.ends_with("_total no help text") || remark.contains("_days_left use base unit")
    };
    let remarks: Vec<&str> = said.lines().filter(|remark| !is_known(remark)).collect();
    assert_eq!(remarks, [] as [&str; 0]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
}

#[tokio::test]
async fn the_alert_rules_ask_for_what_there_is_and_fire_when_they_should() {
    let server = busy().await;
    let families = families(&server).await;
    let rules = deployed("prometheus-alerts.yaml");
    asks_for_what_there_is("alerts", &without_comments(&rules), &families);
    let path = format!(
        "{}/deploy/prometheus-alerts.yaml",
        env!("CARGO_MANIFEST_DIR")
    );
    promtool(&["check", "rules", &path]);
    let histories = include_str!("alerts.yaml").replace("RULES", &path);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alerts.yaml");
    fs::write(&file, &histories).unwrap();
    promtool(&["test", "rules", file.to_str().unwrap()]);
    for line in rules.lines() {
        if let Some(alert) = line.trim().strip_prefix("- alert: ") {
            assert!(
                histories.contains(&format!("\"{alert}\"")),
                "no history fires {alert}"
            );
        }
    }
}

/// A server that has answered, committed and delivered, over TLS, and whose operators show a certificate.
async fn busy() -> Server {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let list = String::from_utf8(authority.revoke(&[])).unwrap();
    let vouching = authority.certificate().display().to_string();
    let server = Setup::default()
        .env("COLLOQUY__TLS__ADMIN_CLIENT_CA", &vouching)
        .env("COLLOQUY__TLS__ADMIN_CLIENT_CRL", &list)
        .encrypted(&authority, &pair)
        .over_tls(authority.trusting_as(&authority.issue("operator")))
        .start();
    let account = server.account().await;
    let id = account.live().conversation().await;
    account.live().message(&id, "one").await.expect(201);
    let draft = json!({"title": "one", "content": "text"});
    account
        .live()
        .post("/api/v1/documents", draft)
        .await
        .expect(201);
    server
}

/// What stands in a file of `deploy/`.
fn deployed(name: &str) -> String {
    fs::read_to_string(format!("{}/deploy/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// What the server's metrics are to a reader of OpenMetrics.
async fn families(server: &Server) -> BTreeMap<String, Family> {
    let metrics = server.operator().get("/metrics").await.expect(200);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut command = Command::new(target.join("../python/bin/python"));
    command.args([
        "-B",
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openmetrics.py"),
    ]);
    let output = fed("python", &mut command, &metrics.bytes);
    assert!(output.status.success(), "{metrics}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a program says to this input.
fn fed(program: &str, command: &mut Command, input: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tool::started(program, command.spawn());
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Fails where an expression names a sample, a label or a label's value that no metric has.
fn asks_for_what_there_is(place: &str, expression: &str, families: &BTreeMap<String, Family>) {
    let mut labels_there = BTreeSet::from(SET_BY_PROMETHEUS);
    for (at, _) in expression.match_indices("colloquy_") {
        let rest = &expression[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let samples: Vec<_> = families
            .values()
            .flat_map(|family| &family.samples)
            .filter(|(sample, _)| sample == name)
            .map(|(_, labels)| labels)
            .collect();
        assert!(!samples.is_empty(), "{place}: /metrics has no {name}");
        labels_there.extend(
            samples
                .iter()
                .flat_map(|labels| labels.keys())
                .map(String::as_str),
        );
        let matchers = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split('}').next());
        for matcher in matchers
            .unwrap_or_default()
            .split(',')
            .filter(|one| !one.is_empty())
        {
            let (label, value) = matcher.split_once('=').unwrap();
            if SET_BY_PROMETHEUS.contains(&label) {
                continue;
            }
            let values: BTreeSet<_> = samples
                .iter()
                .filter_map(|labels| labels.get(label))
                .collect();
            assert!(!values.is_empty(), "{place}: {name} has no {label}");
            // A status is shown once it was answered.
            let is_known =
                label == "status" || values.contains(&value.trim_matches('"').to_owned());
            assert!(is_known, "{place}: {name} has no {matcher}: {values:?}");
        }
    }
    for grouped in expression.split(" by (").skip(1) {
        for label in grouped.split(')').next().unwrap().split(", ") {
            assert!(
                labels_there.contains(label),
                "{place}: nothing has {label}: {expression}"
            );
        }
    }
}

/// Runs Prometheus' own tool.
fn promtool(arguments: &[&str]) {
    let mut command = Command::new(promtool_path());
    let output = tool::started("promtool", command.args(arguments).output());
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

fn promtool_path() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../promtool");
    assert!(
        program.exists(),
        "{} is missing: tests/run gets it",
        program.display()
    );
    program
}
