//! Every page, filled at a desk and on a phone, light and dark, and empty on a phone: nothing keeps
//! people out, nothing is wider than its screen, nothing comes from elsewhere. The pictures stay in
//! `target/tmp/pictures`.

use serde_json::json;

use super::super::support::{Account, Browser, OPERATOR, Server};
use super::browser_of;

/// An account with something on every page.
async fn fill(account: &Account) -> Vec<String> {
    let live = account.live();
    let name = "😀".repeat(100);
    let customer = json!({"name": name, "email": "a@example.com", "metadata": {"tier": "gold"}});
    let customer = live
        .post("/v1/customers", customer)
        .await
        .expect(201)
        .id("customer_id");
    let mut conversations = Vec::new();
    for number in 0..30 {
        let new = json!({"customer_id": customer, "initial_message": format!("Question {number}: where is it?"), "priority": "high"});
        conversations.push(
            live.post("/v1/conversations", new)
                .await
                .expect(201)
                .id("conversation_id"),
        );
    }
    let open = &conversations[29];
    for (sender, words) in [
        ("agent", "I am looking."),
        ("system", "Moved to the night shift."),
        ("customer", "Thank you!"),
    ] {
        let body = json!({"content": words, "sender_type": sender});
        live.post(&format!("/v1/conversations/{open}/messages"), body)
            .await
            .expect(201);
    }
    let hook =
        json!({"url": "https://example.com/hook", "events": ["*"], "description": "The shop"});
    let hook = live
        .post("/v1/webhooks", hook)
        .await
        .expect(201)
        .id("webhook_id");
    let user = live.user("agent").await;
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    let key = account
        .operator()
        .get(&keys)
        .await
        .expect(200)
        .column("key_id")[0]
        .clone();
    let mut pages = vec![
        format!("/console/inbox/{open}"),
        format!("/console/customers/{customer}"),
        format!("/console/webhooks/{hook}"),
        format!("/console/settings/users/{user}"),
        format!("/console/settings/api-keys/{key}"),
    ];
    pages.extend(document(account).await);
    pages
}

/// A document with a history and a comment: its pages.
async fn document(account: &Account) -> [String; 6] {
    let live = account.live();
    let text = json!({"title": "Guide", "content": "# Guide\n\nOne *line*.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"});
    let made = live.post("/api/v1/documents", text).await.expect(201);
    let id = made.id("id");
    let at = format!("/api/v1/documents/{id}");
    let table = "| customer_identifier | conversation | explanation | responsibility | acknowledgement |\n|---|---|---|---|---|\n\
        | acknowledgement | responsibility | interoperability | disproportionately | 1 |\n";
    let version =
        json!({"content": format!("# Guide\n\nAnother line.\n\n{table}"), "message": "Second"});
    let versions = format!("{at}/versions");
    live.post(&versions, version).await.expect(201);
    let comment = json!({"body": "Is it so?", "start_line": 1, "end_line": 1});
    let comments = format!("{at}/comments");
    live.post(&comments, comment).await.expect(201);
    [
        "",
        "/edit",
        "/history",
        "/comments",
        "/sharing",
        "/activity",
    ]
    .map(|page| format!("/console/documents/{id}{page}"))
}

const PAGES: &[&str] = &[
    "/console/inbox",
    "/console/inbox?status=closed",
    "/console/customers",
    "/console/customers/new",
    "/console/webhooks",
    "/console/webhooks/new",
    "/console/settings/api-keys",
    "/console/settings/api-keys/new",
    "/console/settings/applications",
    "/console/settings/applications/new",
    "/console/settings/users",
    "/console/settings/users/new",
    "/console/settings/account",
    "/console/analytics",
    "/console/analytics?interval=month&group_by=assignee_id",
    "/console/analytics?from=2026-11-05&to=2026-11-01",
    "/console/documents",
    "/console/documents/new",
    "/console/usage",
    "/console/usage?group_by=key,day",
    "/console/usage?from=2026-11-05&to=2026-11-01",
    "/console/audit",
    "/console/audit?action=webhook.disabled",
    "/console/session",
    "/console/session/password",
    "/console/nothing",
];

/// A part of an address, an identifier without what is unlike in each run.
fn kind(part: &str) -> &str {
    match part.split_once('_') {
        Some((kind, _)) => kind,
        None => part,
    }
}

/// The words in tables that are cut in two by a line's end, though their table could scroll.
const CUT: &str = r"
    const cut = [];
    for (const cell of document.querySelectorAll('table:not(.sides) :is(th, td)')) {
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const text = texts.currentNode;
            for (const word of text.data.matchAll(/[\p{L}\p{N}_]{2,60}/gu)) {
                const range = document.createRange();
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
                if (lines.size > 1) cut.push(word[0]);
            }
        }
    }
    return cut;";

/// How a page is looked at: how wide the window is, and the scheme of colours.
type Way = (u32, &'static str);
const WAYS: [Way; 2] = [(1440, "light"), (390, "dark")];

/// Looks at these pages in each of these ways.
async fn look(browser: &Browser, name: &str, pages: &[String], ways: &[Way]) {
    let mut found = Vec::new();
    for page in pages {
        for &(width, scheme) in ways {
            browser.looks(width, scheme).await;
            browser.go(page).await;
            browser.waits_for("main").await;
            let at = format!("{page} at {width}, {scheme}");
            for barrier in browser.barriers().await {
                found.push(format!("{at}: {barrier}"));
            }
            for elsewhere in browser.loaded_elsewhere().await {
                found.push(format!("{at}: loads {elsewhere}"));
            }
            let over = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
            if browser.run(over, vec![]).await.as_i64() > Some(0) {
                found.push(format!("{at}: is wider than its screen"));
            }
            let cut = browser.run(CUT, vec![]).await;
            for word in cut.as_array().unwrap() {
                found.push(format!("{at}: cuts {word}"));
            }
            let file: Vec<&str> = page.split(['/', '?', '=']).map(kind).collect();
            let file = file.join("-");
            browser
                .picture(&format!("{name}-{file}-{width}-{scheme}"))
                .await;
        }
    }
    let errors = browser.errors().await;
    // A page that is not there answers 404, a form that is refused 422, and the browser notes that.
    let is_meant = |error: &String| {
        error.contains("/console/nothing") || error.contains("to=2026-11-01 - Failed to load")
    };
    found.extend(errors.into_iter().filter(|error| !is_meant(error)));
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test]
async fn an_accounts_pages_keep_nobody_out_when_they_are_filled() {
    let server = Server::start();
    let account = server.account().await;
    let mut pages: Vec<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    pages.extend(fill(&account).await);
    let (browser, _) = browser_of(&server, &account, "admin").await;
    look(&browser, "filled", &pages, &WAYS).await;
}

#[tokio::test]
async fn an_accounts_pages_keep_nobody_out_when_they_are_empty() {
    let server = Server::start();
    let account = server.account().await;
    let (browser, _) = browser_of(&server, &account, "admin").await;
    let pages: Vec<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    // Without anything on them they differ from the filled ones by a sentence.
    look(&browser, "empty", &pages, &WAYS[1..]).await;
}

#[tokio::test]
async fn the_way_in_keeps_nobody_out() {
    let server = Server::start();
    let browser = Browser::open(&server).await;
    let account = server.account().await;
    let user = account.live().user("agent").await;
    let path = format!("/v1/users/{user}/invitations");
    let url = account
        .live()
        .post(&path, json!({}))
        .await
        .expect(201)
        .id("url");
    let invitation = format!("/console/{}", url.split_once("/console/").unwrap().1);
    look(
        &browser,
        "door",
        &["/console/sign-in".to_owned(), invitation],
        &WAYS,
    )
    .await;
}

#[tokio::test]
async fn the_operators_pages_keep_nobody_out() {
    let server = Server::start();
    let account = server.account().await;
    let conversation = account.live().conversation().await;
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    let domains = json!({
        "domains": ["chat.shop.example", format!("{}.example", "long-".repeat(11) + "one")],
        "cors_origins": ["https://app.shop.example"],
    });
    let set = account.operator().patch(&path, domains);
    set.await.expect(200);
    let browser = Browser::open(&server).await;
    browser.sign_in_as_operator(OPERATOR).await;
    let pages = [
        "/console/overview".to_owned(),
        "/console/actors".to_owned(),
        "/console/actors/conversation".to_owned(),
        format!("/console/actors/conversation/{conversation}"),
        "/console/accounts".to_owned(),
        format!("/console/accounts/{}", account.account_id),
        "/console/limits".to_owned(),
        "/console/store".to_owned(),
        "/console/backups".to_owned(),
        "/console/nodes".to_owned(),
        "/console/all-audit".to_owned(),
        "/console/operators".to_owned(),
    ];
    look(&browser, "operators", &pages, &WAYS).await;
}
