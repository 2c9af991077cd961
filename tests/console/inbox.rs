//! The inbox in a browser: conversations come and change by themselves, answers arrive once, two
//! agents see each other, and a line that drops loses and doubles nothing.

use std::time::Duration;

use serde_json::json;

use super::super::support::console::PASSWORD;
use super::super::support::{Account, Browser, Person, Server, until};
use super::{browser_of, email_of, texts};

const SOON: Duration = Duration::from_secs(60);

/// A conversation that a customer has begun.
async fn question(account: &Account) -> String {
    let customer = json!({"name": "Ada Lovelace", "email": "ada@example.com"});
    let customer = account
        .live()
        .post("/v1/customers", customer)
        .await
        .expect(201)
        .id("customer_id");
    let new = json!({"customer_id": customer, "initial_message": "Where is my parcel?"});
    account
        .live()
        .post("/v1/conversations", new)
        .await
        .expect(201)
        .id("conversation_id")
}

#[tokio::test]
async fn a_conversation_is_read_answered_edited_redacted_and_closed() {
    let server = Server::start();
    let account = server.account().await;
    let id = question(&account).await;
    let (browser, user) = browser_of(&server, &account, "agent").await;
    browser.shows("#list", "Ada Lovelace").await;
    browser.shows("#list", "Where is my parcel?").await;
    browser.click("#list a").await;
    browser.shows("#messages", "Where is my parcel?").await;
    browser.shows("#side", "ada@example.com").await;

    browser.fill("#answer-text", "It is on its way.").await;
    browser.press("Send").await;
    browser
        .shows(
            "#messages article.is-mine:not(.is-sending)",
            "It is on its way.",
        )
        .await;
    assert_eq!(
        texts(&account, &id).await,
        ["Where is my parcel?", "It is on its way."]
    );
    let path = format!("/v1/conversations/{id}");
    let sent = account
        .live()
        .get(&format!("{path}/messages?limit=100"))
        .await
        .expect(200);
    assert_eq!(
        sent.data()[1]["sender_id"],
        json!(user),
        "in the name of whoever is signed in"
    );

    browser.click("article.is-mine .tools summary").await;
    browser
        .fill("article.is-mine textarea", "It comes tomorrow.")
        .await;
    browser
        .click("article.is-mine form[action$='/edit'] button")
        .await;
    browser.shows("#messages", "edited").await;
    assert_eq!(texts(&account, &id).await[1], "It comes tomorrow.");
    browser.click("article.is-mine .tools summary").await;
    browser
        .click("article.is-mine form[action$='/redact'] button")
        .await;
    browser.confirm().await;
    browser
        .shows("#messages", "This message was redacted.")
        .await;
    assert_eq!(texts(&account, &id).await[1], "");

    browser.assert_quiet().await;
}

#[tokio::test]
async fn a_conversation_is_assigned_snoozed_closed_and_reopened() {
    let server = Server::start();
    let account = server.account().await;
    let id = account.live().conversation().await;
    let path = format!("/v1/conversations/{id}");
    let (browser, user) = browser_of(&server, &account, "agent").await;
    browser.go(&format!("/console/inbox/{id}")).await;
    browser.waits_for("[data-line='up']").await;
    browser.choose("#priority", "high").await;
    browser.shows("#notices", "The priority is saved.").await;
    browser.choose("#assignee", &user).await;
    browser.shows("#notices", "The assignment is saved.").await;
    browser.choose("#snooze", "3600").await;
    browser.shows("#head", "snoozed").await;
    let shown = account.live().get(&path).await.expect(200).body;
    assert_eq!(
        (&shown["priority"], &shown["assignee_id"]),
        (&json!("high"), &json!(user))
    );
    assert_ne!(shown["snoozed_until"], json!(null));
    browser.press("Close").await;
    browser
        .shows("#answer", "This conversation is closed")
        .await;
    assert_eq!(
        account.live().get(&path).await.expect(200).body["status"],
        "closed"
    );
    browser.press("Reopen").await;
    browser.waits_for("#answer-text").await;
    browser.assert_quiet().await;
}

#[tokio::test]
async fn a_search_finds_conversations_by_what_was_said_in_them() {
    let server = Server::start();
    let account = server.account().await;
    let (parcel, other) = (
        account.live().conversation().await,
        account.live().conversation().await,
    );
    account
        .live()
        .message(&parcel, "the zeppelin has landed")
        .await
        .expect(201);
    let said = account
        .live()
        .message(&other, "a zeppelin too")
        .await
        .expect(201)
        .id("message_id");
    let (browser, _) = browser_of(&server, &account, "agent").await;
    let search = async |words: &str| {
        browser.fill("[data-search]", words).await;
        browser.click("form.search details summary").await;
        browser.press("Apply").await;
        browser.waits_for(".tabs a[aria-current]").await;
    };
    browser.go("/console/inbox").await;
    search("zeppelin").await;
    assert_eq!(browser.count("#list li").await, 2);
    let path = format!("/v1/conversations/{other}/messages/{said}");
    account.live().delete(&path).await.expect(204);
    browser.go("/console/inbox?q=zeppelin").await;
    browser.waits_for("#list li").await;
    assert_eq!(
        browser.count("#list li").await,
        1,
        "what was redacted is found"
    );
    browser.go("/console/inbox?q=nowhere").await;
    browser.shows("#list", "Nothing found").await;
    browser.assert_quiet().await;
}

/// A conversation that an agent has open in the inbox, where it hears what happens.
async fn open_conversation(server: &Server) -> (Account, String, Browser) {
    let account = server.account().await;
    let id = account.live().conversation().await;
    let (browser, _) = browser_of(server, &account, "agent").await;
    browser.go(&format!("/console/inbox/{id}")).await;
    browser.waits_for("[data-line='up']").await;
    (account, id, browser)
}

#[tokio::test]
async fn what_happens_elsewhere_shows_by_itself_once_and_in_order() {
    let server = Server::start();
    let (account, id, browser) = open_conversation(&server).await;
    for number in 0..30 {
        account
            .live()
            .message(&id, &format!("message {number}"))
            .await
            .expect(201);
    }
    browser.shows("#messages", "message 29").await;
    let script = "return [...document.querySelectorAll('#messages article')].map((one) => Number(one.dataset.seq))";
    let numbers: Vec<u64> = serde_json::from_value(browser.run(script, vec![]).await).unwrap();
    assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
    browser.shows("#side", "Messages\n30").await;
    // Another conversation comes to the top of the list, and the open one closes.
    let customer = account
        .live()
        .post("/v1/customers", json!({"name": "New Nora"}))
        .await
        .expect(201);
    account
        .live()
        .conversation_of(&customer.id("customer_id"))
        .await;
    browser.shows("#list", "New Nora").await;
    account
        .live()
        .post(&format!("/v1/conversations/{id}/close"), json!({}))
        .await
        .expect(200);
    browser
        .shows("#answer", "This conversation is closed")
        .await;
    browser.assert_quiet().await;
}

#[tokio::test]
async fn two_agents_see_each_other_type_and_answer() {
    let server = Server::start();
    let account = server.account().await;
    let id = account.live().conversation().await;
    let mut people = Vec::new();
    for name in ["Grace Hopper", "Alan Turing"] {
        let user = Person::user(&account, "agent").await.user;
        account
            .live()
            .patch(&format!("/v1/users/{user}"), json!({"name": name}))
            .await
            .expect(200);
        let browser = Browser::open(&server).await;
        browser
            .sign_in(&email_of(&account, &user).await, PASSWORD)
            .await;
        browser.go(&format!("/console/inbox/{id}")).await;
        browser.waits_for("[data-line='up']").await;
        people.push(browser);
    }
    let [grace, alan] = people.try_into().ok().unwrap();
    grace.shows("#present", "Alan Turing is here too").await;
    // Who was there first is told of who comes, and who comes of who is there.
    until("Alan sees Grace", SOON, async || {
        grace.go(&format!("/console/inbox/{id}")).await;
        alan.text("#present")
            .await
            .contains("Grace Hopper")
            .then_some(())
    })
    .await;
    grace.waits_for("[data-line='up']").await;
    grace.fill("#answer-text", "I take this one").await;
    alan.shows("#signs", "Grace Hopper is writing").await;
    grace.ctrl_enter("#answer-text").await;
    alan.shows("#messages", "I take this one").await;
    alan.fill("#answer-text", "and I the other").await;
    alan.ctrl_enter("#answer-text").await;
    grace.shows("#messages", "and I the other").await;
    assert_eq!(
        texts(&account, &id).await,
        ["I take this one", "and I the other"]
    );
    for browser in [&grace, &alan] {
        assert_eq!(browser.count("#messages article").await, 2);
        browser.assert_quiet().await;
    }
}

#[tokio::test]
async fn a_line_that_drops_neither_loses_nor_doubles_an_answer() {
    let server = Server::start();
    let (account, id, browser) = open_conversation(&server).await;
    browser.offline(true).await;
    for number in 0..3 {
        browser
            .fill("#answer-text", &format!("written offline {number}"))
            .await;
        browser.ctrl_enter("#answer-text").await;
    }
    browser.shows("#messages", "the line is down").await;
    account
        .live()
        .message(&id, "from the customer meanwhile")
        .await
        .expect(201);
    browser.offline(false).await;
    browser
        .shows("#messages article:not(.is-sending)", "written offline 2")
        .await;
    browser
        .shows("#messages", "from the customer meanwhile")
        .await;
    until("nothing waits to be sent", SOON, async || {
        (browser.count(".is-sending").await == 0).then_some(())
    })
    .await;
    let stored = texts(&account, &id).await;
    let mut sorted = stored.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 4, "lost or doubled: {stored:?}");
    assert_eq!(stored.len(), 4, "doubled: {stored:?}");
    assert_eq!(browser.count("#messages article").await, 4);
}

#[tokio::test]
async fn what_came_before_an_answer_is_shown_though_the_answer_was_placed_first() {
    let server = Server::start();
    let (account, id, browser) = open_conversation(&server).await;
    browser.blocks(&["*after_seq=*"]).await;
    account
        .live()
        .message(&id, "from the customer before")
        .await
        .expect(201);
    browser.fill("#answer-text", "the answer").await;
    browser.ctrl_enter("#answer-text").await;
    browser
        .shows("#messages article:not(.is-sending)", "the answer")
        .await;
    assert_eq!(browser.count("#messages article").await, 1);
    browser.blocks(&[]).await;
    browser.shows("#messages", "from the customer before").await;
    let shown = browser.text("#messages").await;
    assert!(shown.find("from the customer") < shown.find("the answer"));
    assert_eq!(browser.count("#messages article").await, 2);
}

#[tokio::test]
async fn a_server_that_restarts_under_an_open_inbox_is_found_again() {
    let mut server = Server::start();
    let account = server.account().await;
    let id = account.live().conversation().await;
    let (browser, _) = browser_of(&server, &account, "agent").await;
    browser.go(&format!("/console/inbox/{id}")).await;
    browser.waits_for("[data-line='up']").await;
    let address = server.address();
    server.kill9();
    browser.waits_for("[data-line='down']").await;
    browser
        .fill("#answer-text", "written while nobody listens")
        .await;
    browser.ctrl_enter("#answer-text").await;
    server.set_env("COLLOQUY__SERVER__BIND", &address);
    server.restart();
    browser.waits_for("[data-line='up']").await;
    browser
        .shows(
            "#messages article:not(.is-sending)",
            "written while nobody listens",
        )
        .await;
    assert_eq!(texts(&account, &id).await, ["written while nobody listens"]);
    account
        .live()
        .message(&id, "and it goes on")
        .await
        .expect(201);
    browser.shows("#messages", "and it goes on").await;
    assert_eq!(browser.count("#messages article").await, 2);
}

const RIGHT_TO_LEFT: &str = "مرحبا، أين طلبي رقم 4711؟";

/// A conversation and its customer, whose every text looks like a script; one is as long as can be.
async fn nasty(account: &Account) -> (String, String) {
    let nasty =
        "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
    let name = format!("<b>{nasty}</b>");
    let name: String = name.chars().take(200).collect();
    let customer = json!({"name": name, "email": "n@example.com", "metadata": {(nasty): nasty}});
    let customer = account
        .live()
        .post("/v1/customers", customer)
        .await
        .expect(201)
        .id("customer_id");
    let new = json!({"customer_id": customer, "initial_message": nasty});
    let id = account
        .live()
        .post("/v1/conversations", new)
        .await
        .expect(201)
        .id("conversation_id");
    account.live().message(&id, RIGHT_TO_LEFT).await.expect(201);
    account
        .live()
        .message(&id, &"long ".repeat(13_107))
        .await
        .expect(201);
    let image = json!({"content": "https://example.com/a.png", "type": "image"});
    account
        .live()
        .post(&format!("/v1/conversations/{id}/messages"), image)
        .await
        .expect(201);
    (id, customer)
}

#[tokio::test]
async fn what_looks_like_a_script_is_text_and_nothing_of_it_runs() {
    let server = Server::start();
    let account = server.account().await;
    let (id, customer) = nasty(&account).await;
    let (browser, _) = browser_of(&server, &account, "agent").await;
    for page in [
        format!("/console/inbox/{id}"),
        "/console/inbox".to_owned(),
        format!("/console/customers/{customer}"),
        "/console/customers".to_owned(),
    ] {
        browser.go(&page).await;
        browser.shows("main", "<script>").await;
        let injected = browser.count("main script, main img, main b").await;
        assert_eq!(injected, 0, "{page}");
        assert!(
            browser
                .run("return document.title", vec![])
                .await
                .as_str()
                .unwrap()
                .ends_with("Colloquy")
        );
        assert_eq!(
            browser.loaded_elsewhere().await,
            Vec::<String>::new(),
            "{page}"
        );
        let over = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth", vec![]).await;
        assert_eq!(over, 0, "{page} is wider than its window");
    }
    browser.go(&format!("/console/inbox/{id}")).await;
    browser.shows("#messages", RIGHT_TO_LEFT).await;
    browser.assert_quiet().await;
}

#[tokio::test]
async fn filters_tabs_and_keys_lead_through_the_list() {
    let server = Server::start();
    let account = server.account().await;
    let mut ids = Vec::new();
    for (name, channel) in [("One", "chat"), ("Two", "email"), ("Three", "voice")] {
        let customer = account
            .live()
            .post("/v1/customers", json!({"name": name}))
            .await
            .expect(201);
        let new = json!({"customer_id": customer.id("customer_id"), "channel": channel});
        ids.push(
            account
                .live()
                .post("/v1/conversations", new)
                .await
                .expect(201)
                .id("conversation_id"),
        );
    }
    account
        .live()
        .post(&format!("/v1/conversations/{}/close", ids[0]), json!({}))
        .await
        .expect(200);
    let (browser, _) = browser_of(&server, &account, "agent").await;
    browser.shows("#list", "Three").await;
    assert!(
        !browser.text("#list").await.contains("One"),
        "closed ones wait behind their tab"
    );
    browser.click(".tabs a[href$='status=closed']").await;
    browser.shows("#list", "One").await;
    browser.go("/console/inbox?status=all&channel=email").await;
    browser.shows("#list", "Two").await;
    assert_eq!(browser.count("#list li").await, 1);
    browser.go("/console/inbox").await;
    browser.waits_for("[data-item]").await;
    browser.keys("?").await;
    browser.shows("#shortcuts", "Keyboard shortcuts").await;
    browser.click("#shortcuts form button").await;
    browser.waits_for("#shortcuts:not([open])").await;
    browser.keys("j").await;
    browser.keys("j").await;
    browser.keys("\u{e007}").await;
    browser.shows("#head", "Two").await;
    browser.keys("gc").await;
    browser.shows("h1", "Customers").await;
    browser.keys("/").await;
    let focused = browser
        .run("return document.activeElement.name", vec![])
        .await;
    assert_eq!(focused, "find");
}

#[tokio::test]
async fn ten_thousand_conversations_are_one_list_whose_pages_stay_quick() {
    let server = Server::start();
    let account = server.account().await;
    let customer = account.live().customer().await;
    for _ in 0..100 {
        let one = json!({"op": "create", "body": {"customer_id": customer}});
        let all: Vec<_> = std::iter::repeat_n(one, 100).collect();
        account
            .live()
            .post("/v1/conversations/bulk", json!({"operations": all}))
            .await
            .expect(200);
    }
    let person = Person::user(&account, "agent").await;
    let first = person.get("/console/inbox").await.expect(200).text;
    assert!(first.contains("of 10\u{202f}000"), "{first}");
    let last = person.get("/console/inbox?page=400").await.expect(200).text;
    assert_eq!(last.matches("id=\"row-").count(), 25);
    let beyond = person.get("/console/inbox?page=401").await.expect(200).text;
    assert_eq!(beyond.matches("id=\"row-").count(), 0);
    person
        .get("/console/inbox?page=99999999999999999999")
        .await
        .expect(200);
    person
        .get("/console/inbox?status=nonsense")
        .await
        .expect(200);
}
