//! The operators' side of the console, as a browser without scripts would use it: every page, and
//! from each form that is sent to its effect at the interface.

use std::time::Duration;

use serde_json::{Value, json};

use crate::backups::{begun, ended, older};
use crate::support::console::{PASSWORD, Person, Seen};
use crate::support::{Server, Setup, account, shared, until};

const POLLED: Duration = Duration::from_secs(30);

/// What stands between these two in a page.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split_once(after).unwrap().0
}

/// Sends a form to where a page takes it, with the tag that the page shows.
async fn save(person: &Person, page: &str, to: &str, fields: &[(&str, &str)]) -> Seen {
    let etag = person.get(page).await.expect(200).held("etag");
    let tag = [("etag", &*etag)];
    let fields: Vec<_> = tag.into_iter().chain(fields.iter().copied()).collect();
    person.post(to, &fields).await
}

/// The server's operator at the interface, and what it shows of a conversation's actor.
async fn actor(server: &Server, id: &str) -> Value {
    let path = format!("/admin/v1/actors/conversation/instances/{id}");
    server.operator().get(&path).await.expect(200).body
}

async fn crashes_max(server: &Server) -> Value {
    let settings = server.operator().get("/admin/v1/supervision").await;
    settings.expect(200)["kinds"]["conversation"]["crashes_max"].clone()
}

#[tokio::test]
async fn every_page_is_for_operators_and_for_nobody_else() {
    let server = shared();
    let account = account().await;
    let conversation = account.live().conversation().await;
    let (operator, admin) = (
        Person::operator(server).await,
        Person::user(&account, "admin").await,
    );
    let one = format!("/console/accounts/{}", account.account_id);
    let actor = format!("/console/actors/conversation/{conversation}");
    for path in [
        "/console/overview",
        "/console/overview?span=day",
        "/console/overview/series",
        "/console/overview/charts/latency",
        "/console/actors",
        "/console/actors/conversation?state=ready&sort=bytes&limit=100",
        "/console/actors/limiter",
        &actor,
        "/console/accounts",
        "/console/accounts/new",
        &one,
        "/console/store",
        "/console/backups",
        "/console/nodes",
        "/console/all-audit",
        "/console/operators",
    ] {
        operator.get(path).await.expect(200);
        let refused = admin.get(path).await.expect(403).text;
        assert!(refused.contains("this page is for operators"), "{path}");
        let nobody = server.anonymous().get(path).await.expect(303);
        let to = nobody.header("location");
        assert!(to.starts_with("/console/sign-in?next=%2Fconsole"), "{to}");
    }
    let start = operator.page("/console").await;
    assert!(start.contains("<h1>Overview</h1>"), "{start}");
    let menu = admin.get("/console/session").await.expect(200);
    assert!(!menu.text.contains("/console/operators"));
}

#[tokio::test]
async fn what_is_not_there_is_a_page_that_says_so() {
    let server = shared();
    let operator = Person::operator(server).await;
    let nothing = "0190163d8694739b85d52d5e4a4d6d5f";
    for path in [
        "/console/actors/parrot".to_owned(),
        format!("/console/actors/conversation/conv_{nothing}"),
        format!("/console/accounts/acc_{nothing}"),
        "/console/accounts/x".to_owned(),
        "/console/overview/charts/parrots".to_owned(),
        "/console/store/x".to_owned(),
    ] {
        let page = operator.get(&path).await.expect(404).text;
        assert!(page.contains("Nothing here"), "{path}: {page}");
    }
    for path in [
        "/console/actors/limiter/settings".to_owned(),
        "/console/actors/limiter/limiter_0/explode".to_owned(),
        format!("/console/actors/conversation/conv_{nothing}/restart"),
        format!("/console/accounts/acc_{nothing}/open"),
        format!("/console/operators/usr_{nothing}/delete"),
    ] {
        operator.post(&path, &[]).await.expect(404);
    }
    operator
        .post("/console/nodes/drain", &[("node", "node_x")])
        .await
        .expect(404);
}

#[tokio::test]
async fn a_form_without_the_sessions_token_changes_nothing() {
    let server = shared();
    let operator = Person::operator(server).await;
    let account = account().await;
    let own = format!("/console/accounts/{}", account.account_id);
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    let before = server.operator().get(&path).await.expect(200);
    let settings = crashes_max(server).await;
    let token = operator.token().await;
    let name = crate::support::unique("nobody");
    for (path, fields) in [
        (own.clone(), [("name", "Other"), ("plan", "pro")]),
        (
            "/console/accounts".to_owned(),
            [("name", &*name), ("plan", "pro")],
        ),
        (
            "/console/operators".to_owned(),
            [("name", &*name), ("", "")],
        ),
        (
            "/console/actors/conversation/settings".to_owned(),
            [("crashes_max", "9"), ("", "")],
        ),
        (format!("{own}/open"), [("", ""), ("", "")]),
    ] {
        for csrf in ["", "another", &"x".repeat(token.len())] {
            let fields: Vec<_> = fields.into_iter().chain([("csrf", csrf)]).collect();
            let refused = operator.post_without_token(&path, &fields).await;
            refused.expect(403);
        }
    }
    let after = server.operator().get(&path).await.expect(200);
    assert_eq!(before.body, after.body);
    assert_eq!(settings, crashes_max(server).await);
    for list in ["/admin/v1/accounts", "/admin/v1/operators"] {
        let listed = server.operator().get(&format!("{list}?limit=100")).await;
        assert!(!listed.expect(200).column("name").contains(&name));
    }
    let start = operator.page("/console").await;
    assert!(start.contains("<h1>Overview</h1>"), "no account is opened");
}

#[tokio::test]
async fn an_actor_is_restarted_passivated_crashed_and_released() {
    let mut server = Setup::default()
        .env("COLLOQUY__SUPERVISION__DRILLS", "true")
        .env("COLLOQUY__SUPERVISION__BACKOFF_MIN_SECONDS", "0")
        .start();
    server.expect_errors();
    let operator = Person::operator(&server).await;
    let client = server.account().await.live();
    let id = client.conversation().await;
    let here = format!("/console/actors/conversation/{id}");
    let restarts = actor(&server, &id).await["restarts"].as_u64().unwrap();
    let steer = async |command: &str| {
        let answer = operator.post(&format!("{here}/{command}"), &[]).await;
        assert_eq!(answer.expect(303).location(), here);
    };
    steer("restart").await;
    client
        .get(&format!("/v1/conversations/{id}"))
        .await
        .expect(200);
    let restarted = actor(&server, &id).await["restarts"].as_u64().unwrap();
    assert_eq!(restarted, restarts + 1);
    steer("passivate").await;
    assert_eq!(actor(&server, &id).await["state"], "passive");
    for _ in 0..5 {
        steer("crash").await;
        let crashed = client.get(&format!("/v1/conversations/{id}")).await;
        crashed.error(500, "server_error", "");
    }
    assert_eq!(actor(&server, &id).await["state"], "quarantined");
    let listed = operator
        .page("/console/actors/conversation?state=quarantined")
        .await;
    assert!(listed.contains(&here), "{listed}");
    let overview = operator.page("/console/overview").await;
    assert!(
        overview.contains("1 of conversation: quarantined"),
        "{overview}"
    );
    assert!(overview.contains("/console/actors/conversation?state=quarantined"));
    steer("release").await;
    assert_eq!(actor(&server, &id).await["state"], "ready");
    client
        .get(&format!("/v1/conversations/{id}"))
        .await
        .expect(200);
}

#[tokio::test]
async fn without_drills_no_page_lets_an_actor_crash() {
    let server = shared();
    let operator = Person::operator(server).await;
    let account = account().await;
    let client = account.live();
    let id = client.conversation().await;
    let here = format!("/console/actors/conversation/{id}");
    assert!(!operator.page(&here).await.contains("drill"));
    let refused = operator.post(&format!("{here}/crash"), &[]).await;
    assert!(refused.expect(403).text.contains("drills are off"));
    client
        .get(&format!("/v1/conversations/{id}"))
        .await
        .expect(200);
}

#[tokio::test]
async fn settings_are_changed_with_what_became_of_them_and_go_back() {
    let server = Setup::default().start();
    let operator = Person::operator(&server).await;
    let (page, to) = (
        "/console/actors/conversation",
        "/console/actors/conversation/settings",
    );
    let saved = save(&operator, page, to, &[("crashes_max", "3")]).await;
    let said = format!("{:?}", saved.expect(303).headers);
    assert!(
        said.contains("crashes+max+is+3+now%2C+configured+is+5"),
        "{said}"
    );
    assert_eq!(
        crashes_max(&server).await,
        json!({"value": 3, "configured": 5})
    );
    for bad in ["0", "many", "1.5", "-1"] {
        let fields = [("crashes_max", bad), ("idle_seconds", "7")];
        let refused = save(&operator, page, to, &fields).await.expect(422).text;
        assert!(
            refused.contains("<code>conversation.crashes_max</code> must be"),
            "{refused}"
        );
        assert!(
            refused.contains(&format!("value=\"{bad}\"")),
            "{bad} stands in the form"
        );
    }
    assert_eq!(crashes_max(&server).await["value"], 3);
    let stale = [("etag", "old"), ("crashes_max", "4")];
    let refused = operator.post(to, &stale).await.expect(422);
    assert!(refused.text.contains("has changed"), "{}", refused.text);
    assert_eq!(crashes_max(&server).await["value"], 3);
    let restore = format!("{to}/restore");
    let back = save(&operator, page, &restore, &[("setting", "crashes_max")]).await;
    back.expect(303);
    assert_eq!(
        crashes_max(&server).await,
        json!({"value": 5, "configured": 5})
    );
}

#[tokio::test]
async fn an_account_is_created_and_changed() {
    let server = shared();
    let operator = Person::operator(server).await;
    let list = "/console/accounts";
    let refused = operator
        .post(list, &[("name", "Acme"), ("plan", "enterprise")])
        .await;
    let refused = refused.expect(422).text;
    assert!(refused.contains("wrong-rate_per_minute"), "{refused}");
    assert!(refused.contains("value=\"Acme\""), "what was typed stays");
    let made = operator
        .post(list, &[("name", "Acme"), ("plan", "basic")])
        .await;
    let here = made.expect(303).location().to_owned();
    let path = here.replace("/console/", "/admin/v1/");
    let of = async || server.operator().get(&path).await.expect(200).body;
    assert_eq!(
        (&of().await["name"], &of().await["plan"]),
        (&json!("Acme"), &json!("basic"))
    );
    let fields = [
        ("name", "Acme & Sons"),
        ("plan", "enterprise"),
        ("rate_per_minute", "900"),
        ("allowed_ips", "203.0.113.7\n2001:db8::/32"),
        ("auto_close_after_minutes", "60"),
    ];
    save(&operator, &here, &here, &fields).await.expect(303);
    let changed = of().await;
    assert_eq!(changed["name"], "Acme & Sons");
    assert_eq!(
        (
            &changed["rate_per_minute"],
            &changed["auto_close_after_minutes"]
        ),
        (&json!(900), &json!(60))
    );
    assert_eq!(changed["allowed_ips"].as_array().map(Vec::len), Some(2));
    for (field, bad) in [
        ("allowed_ips", "not an address"),
        ("auto_close_after_minutes", "3"),
        ("rate_per_minute", "none"),
    ] {
        let others = fields.iter().copied().filter(|(name, _)| *name != field);
        let bad: Vec<_> = others.chain([(field, bad)]).collect();
        let refused = save(&operator, &here, &here, &bad).await.expect(422).text;
        assert!(
            refused.contains(&format!("wrong-{field}")),
            "{field}: {refused}"
        );
    }
    let stale = [("etag", "old"), ("name", "Nobody"), ("plan", "basic")];
    operator.post(&here, &stale).await.expect(422);
    assert_eq!(of().await, changed);
    let back = [("name", "Acme"), ("plan", "basic")];
    save(&operator, &here, &here, &back).await.expect(303);
    let back = of().await;
    assert_eq!(
        (&back["plan"], &back["auto_close_after_minutes"]),
        (&json!("basic"), &Value::Null)
    );
}

#[tokio::test]
async fn an_accounts_side_is_opened_and_left_and_that_is_logged() {
    let server = shared();
    let operator = Person::operator(server).await;
    let (one, other) = (account().await, account().await);
    let keys = "/console/settings/api-keys";
    let no_side = operator.get(keys).await.expect(303);
    assert_eq!(no_side.location(), "/console/accounts");
    for account in [&one, &other] {
        let (_, key) = account
            .key(json!({"type": "test", "name": account.account_id}))
            .await;
        assert_eq!(key["name"], account.account_id.as_str());
    }
    let open = format!("/console/accounts/{}/open", one.account_id);
    let opened = operator.post(&open, &[]).await.expect(303);
    assert_eq!(opened.location(), "/console/inbox");
    let request = opened.header("x-request-id").to_owned();
    let shown = operator.page(keys).await;
    assert!(shown.contains(&one.account_id), "{shown}");
    assert!(
        !shown.contains(&other.account_id),
        "only one account's keys"
    );
    let log = server.log();
    let mut lines = log.lines();
    let line =
        lines.find(|line| line.contains("has opened an account's side") && line.contains(&request));
    let line = line.unwrap_or_else(|| panic!("no line for {request}"));
    assert!(
        line.contains(&one.account_id) && line.contains("operator token"),
        "{line}"
    );
    let elsewhere = operator
        .post(&open, &[("to", "https://example.com/")])
        .await;
    assert_eq!(elsewhere.expect(303).location(), "/console/inbox");
    let to_keys = operator.post(&open, &[("to", keys)]).await;
    assert_eq!(to_keys.expect(303).location(), keys);
    let left = operator
        .post("/console/session/leave", &[])
        .await
        .expect(303);
    assert_eq!(left.location(), "/console/accounts");
    operator.get(keys).await.expect(303);
}

#[tokio::test]
async fn a_backup_is_made_and_shown() {
    let setup = Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .env("COLLOQUY__BACKUP__URL", "file:backups")
        .env("COLLOQUY__BACKUP__EVERY_HOURS", "0");
    let server = setup.start();
    let operator = Person::operator(&server).await;
    let page = operator.page("/console/backups").await;
    assert!(page.contains("No backups"), "{page}");
    operator.post("/console/backups/new", &[]).await.expect(303);
    let page = until("it is shown", Duration::from_secs(30), async || {
        let page = operator.page("/console/backups").await;
        page.contains("restored and sound").then_some(page)
    })
    .await;
    let made = server.operator().get("/admin/v1/backups").await;
    let url = made.expect(200).data()[0]["url"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(page.contains(&url), "{page}");
}

#[tokio::test]
async fn many_backups_are_shown_page_by_page() {
    let setup = Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .env("COLLOQUY__BACKUP__URL", "file:backups")
        .env("COLLOQUY__BACKUP__EVERY_HOURS", "0");
    let server = setup.start();
    let made = begun(&server.operator()).await;
    let made = ended(&server.operator(), &made["backup_id"]).await;
    let older = older(&made, 29);
    let operator = Person::operator(&server).await;
    let first = operator.page("/console/backups").await;
    assert!(
        first.contains("30") && first.contains("rel=\"next\""),
        "{first}"
    );
    assert_eq!(first.matches("bak_").count(), 25, "{first}");
    let second = operator.page("/console/backups?page=2").await;
    assert!(second.contains(&older[28]) && !second.contains(&older[0]));
    assert_eq!(second.matches("bak_").count(), 5, "{second}");
    // What the page asks for again and again is its own part of the list.
    let again = between(&second, "hx-get=\"", "\"");
    assert_eq!(again, "/console/backups?page=2");
}

#[tokio::test]
async fn a_node_is_drained() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__REGION", "eu-central-1")
        .start();
    let operator = Person::operator(&server).await;
    let nodes = async || {
        let nodes = server.operator().get("/admin/v1/nodes").await;
        nodes.expect(200).data()[0].clone()
    };
    let node = nodes().await["node"].as_str().unwrap().to_owned();
    let page = operator.page("/console/nodes").await;
    assert!(page.contains(&node), "{page}");
    assert!(page.contains("<td>eu-central-1</td>"), "{page}");
    operator
        .post("/console/nodes/drain", &[("node", "node_0")])
        .await
        .expect(404);
    assert_eq!(nodes().await["state"], "live");
    let drained = operator
        .post("/console/nodes/drain", &[("node", &node)])
        .await;
    drained.expect(303);
    // On a shared store it is told with the node's next sign of life.
    until("it drains", Duration::from_secs(30), async || {
        (nodes().await["state"] == "draining").then_some(())
    })
    .await;
    let overview = operator.page("/console/overview").await;
    assert!(overview.contains("is draining"), "{overview}");
}

#[tokio::test]
async fn an_operator_is_added_signs_in_and_is_deleted() {
    let server = shared();
    let operator = Person::operator(server).await;
    let name = crate::support::unique("Olga");
    let list = "/console/operators";
    let made = operator
        .post(list, &[("name", &name)])
        .await
        .expect(200)
        .text;
    let url = between(&made, "id=\"secret\"", "spellcheck");
    let url = between(url, "value=\"", "\"").to_owned();
    let olga = Person::invited(&server.anonymous(), &url).await;
    olga.get("/console/overview").await.expect(200);
    let used = server
        .anonymous()
        .get(&format!(
            "/console/{}",
            url.split_once("/console/").unwrap().1
        ))
        .await;
    used.expect(404);
    let fields = [("name", &*name), ("password", PASSWORD)];
    Person::stranger(server).sign_in(&fields).await.expect(303);
    let taken = operator.post(list, &[("name", &name.to_uppercase())]).await;
    assert!(taken.expect(422).text.contains("wrong-name"));
    let none = operator.post(list, &[("name", " ")]).await;
    assert!(none.expect(422).text.contains("wrong-name"));
    let listed = server
        .operator()
        .get("/admin/v1/operators?limit=100")
        .await
        .expect(200);
    let olgas = listed
        .data()
        .iter()
        .find(|one| one["name"] == name.as_str());
    let id = olgas.unwrap()["operator_id"].as_str().unwrap().to_owned();
    operator
        .post(&format!("{list}/{id}/delete"), &[])
        .await
        .expect(303);
    olga.get("/console/overview").await.expect(303);
    assert!(!operator.page(list).await.contains(&name));
}

/// How much a chart has counted in the last hour, in all of its lines.
async fn counted(operator: &Person, chart: &str) -> f64 {
    let series = operator.page("/console/overview/series").await;
    let series: Value = serde_json::from_str(&series).unwrap();
    let charts = series["charts"].as_array().unwrap();
    let chart = charts.iter().find(|one| one["id"] == chart).unwrap();
    let lines = chart["lines"].as_array().unwrap().iter();
    let points = series["at"].as_array().unwrap().len();
    lines
        .flat_map(|line| {
            let values = line["values"].as_array().unwrap();
            assert_eq!(values.len(), points, "a value for each point: {line}");
            values.clone()
        })
        .filter_map(|value| value.as_f64())
        .sum()
}

#[tokio::test]
async fn the_charts_count_what_was_requested() {
    let server = shared();
    let operator = Person::operator(server).await;
    let account = account().await;
    let client = account.live();
    let conversation = client.conversation().await;
    let before = (
        counted(&operator, "requests").await,
        counted(&operator, "messages").await,
    );
    for index in 0..20 {
        client
            .message(&conversation, &format!("message {index}"))
            .await;
        client.get("/v1/customers?limit=0").await.expect(400);
    }
    until("the charts have them", POLLED, async || {
        let requests = counted(&operator, "requests").await - before.0;
        let messages = counted(&operator, "messages").await - before.1;
        (requests >= 40.0 && messages >= 20.0).then_some(())
    })
    .await;
    let table = operator.page("/console/overview/charts/requests").await;
    assert!(table.contains("Refused (4xx)"), "{table}");
}
