//! Domains in the console: operators see what to publish and have it looked up; at a domain there are its
//! account's people and nobody else.

use serde_json::json;

use super::{address, at, host, prove, set, setup, text, two_accounts};
use crate::support::console::Person;
use crate::support::{Account, Nameserver};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_shown_the_record_and_has_it_looked_up() {
    let names = Nameserver::start();
    let server = setup(&names)
        .env("COLLOQUY__DOMAINS__RETRY_SECONDS_MIN", "3600")
        .env("COLLOQUY__DOMAINS__RETRY_SECONDS_MAX", "3600")
        .start();
    let account = Account::make(server.anonymous()).await;
    let (host, operator) = (host(), Person::operator(&server).await);
    let page = format!("/console/accounts/{}", account.account_id);
    let form = [
        ("name", "Shop"),
        ("plan", "basic"),
        ("domains", host.as_str()),
        ("origins", "own"),
        ("cors_origins", "https://app.shop.example"),
    ];
    operator.post(&page, &form).await.expect(303);
    let shown = account.operator().get(&at(&account)).await.expect(200);
    assert_eq!(shown.body["domains"][0]["host"], host);
    assert_eq!(
        shown.body["cors_origins"],
        json!(["https://app.shop.example"])
    );
    let (name, value) = (
        text(&shown.body["domains"][0], "txt_name"),
        text(&shown.body["domains"][0], "txt_value"),
    );
    let seen = operator.page(&page).await;
    for words in [&name, &value, "pending", "Verify now"] {
        assert!(seen.contains(words), "{words} is not in {seen}");
    }
    let verify = format!("{page}/verify");
    operator.post(&verify, &[("host", &host)]).await.expect(303);
    names.publish(&name, &value).await;
    operator.post(&verify, &[("host", &host)]).await.expect(303);
    let seen = operator.page(&page).await;
    assert!(seen.contains("proven") && !seen.contains("Verify now"));
    // What a form does not name is what it was.
    let form = [("name", "Shop"), ("plan", "basic"), ("domains", &host)];
    operator.post(&page, &form).await.expect(303);
    let shown = account.operator().get(&at(&account)).await.expect(200);
    assert_eq!(shown.body["domains"][0]["state"], "proven");
    assert!(shown.body["cors_origins"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_domain_there_are_its_accounts_people_and_nobody_else() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = two_accounts(&server).await;
    let host = host();
    prove(&names, &a, &host).await;
    let own = Person::user(&a, "agent").await;
    let other = Person::user(&b, "agent").await;
    let operator = Person::operator(&server).await;
    for (person, page, status) in [
        (own.behind("host", &*host), "/console/inbox", 200),
        (other.behind("host", &*host), "/console/inbox", 303),
        (operator.behind("host", &*host), "/console/accounts", 303),
    ] {
        let seen = person.get(page).await.expect(status);
        if status == 303 {
            assert!(seen.location().starts_with("/console/sign-in"));
        }
    }
    let mut stranger = Person::stranger(&server).behind("host", &*host);
    let token = [("token", crate::support::OPERATOR)];
    stranger.sign_in(&token).await.expect(422);
    // Another account's invitation opens nothing there.
    let user = b.live().user("agent").await;
    let path = format!("/v1/users/{user}/invitations");
    let invited = b.live().post(&path, json!({})).await.expect(201);
    let url = text(&invited.body, "url");
    let (_, page) = url.split_once("/console/").unwrap();
    let page = format!("/console/{page}");
    stranger.get(&page).await.expect(404);
    let here = Person::stranger(&server);
    here.get(&page).await.expect(200);
    set(&a, json!({"domains": []})).await.expect(200);
    assert_ne!(
        address(&server, &host),
        format!("http://{}", server.address())
    );
    stranger.get(&page).await.expect(200);
}
