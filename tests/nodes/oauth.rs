//! OAuth 2.0 across nodes: a code and a token given by one are good at all of them, once, and what one ends is
//! over at all of them.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::nodes_with;
use crate::oauth::{Authority, Registered, code, text};
use crate::support::console::Person;
use crate::support::server::Folder;
use crate::support::{Server, Setup};

/// 32 bytes in base64, and others.
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER_KEY: &str = "HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Where clients find the nodes: what is issued by one is issued by all.
const PUBLIC_URL: &str = "https://api.example.com";

#[tokio::test]
async fn what_one_node_has_given_is_good_at_all_of_them_and_over_where_one_ends_it() {
    let setup = Setup::default().env("COLLOQUY__SERVER__PUBLIC_URL", PUBLIC_URL);
    let nodes = nodes_with(&setup, 2);
    let account = nodes[0].account().await;
    let person = Person::user(&account, "agent").await;
    let at = |node: usize| Authority::of(&nodes[node]);
    let api = |node: usize, given: &Value| {
        account
            .live()
            .at(&nodes[node].address())
            .with_key(&text(given, "access_token"))
    };
    let client = Registered::web(&account.live()).await;

    // The code was given by the first node.
    let given = code(&person, &client, &[]).await;
    let authorities = [at(0), at(1)];
    let tries = (0..8).map(|place| authorities[place % 2].redeem(&client, &given, &[]));
    let tries = join_all(tries).await;
    let good: Vec<_> = tries
        .into_iter()
        .filter(|tried| tried.status == 200)
        .collect();
    assert_eq!(good.len(), 1, "a code is taken once");

    let given = code(&person, &client, &[]).await;
    let first = at(1).redeem(&client, &given, &[]).await.expect(200);
    for node in 0..2 {
        api(node, &first).get("/v1/conversations").await.expect(200);
    }
    let second = at(0)
        .refresh(&client, &text(&first, "refresh_token"))
        .await
        .expect(200);
    api(1, &second).get("/v1/conversations").await.expect(200);
    let fields = [("token", second["refresh_token"].as_str().unwrap())];
    at(0)
        .post("/oauth/revoke", &client, &fields)
        .await
        .expect(200);
    for node in [1, 0] {
        let refused = api(node, &second).get("/v1/conversations").await;
        refused.error(401, "unauthorized", "");
    }

    // A key that one node begins to sign with is known to the others.
    nodes[0]
        .operator()
        .post("/admin/v1/oauth/rotate-keys", json!({}))
        .await
        .expect(200);
    let machine = Registered::machine(&account.live()).await;
    let token = json!({"access_token": at(0).credentials(&machine).await});
    api(1, &token).get("/v1/conversations").await.expect(200);
}

#[tokio::test]
async fn another_master_key_takes_over_while_nodes_are_restarted_one_after_the_other() {
    const PRESENT: &str = "COLLOQUY__ENCRYPTION__MASTER_KEY";
    const PREVIOUS: &str = "COLLOQUY__ENCRYPTION__PREVIOUS_MASTER_KEY";
    let mut nodes = nodes_with(&Setup::default().env(PRESENT, MASTER_KEY), 2);
    let account = nodes[0].account().await;
    let restart = |node: &mut Server, previous: &str| {
        node.term();
        node.set_env(PRESENT, OTHER_KEY);
        node.set_env(PREVIOUS, previous);
        node.restart();
    };
    let rotate = async |node: &Server| {
        let rotated = node
            .operator()
            .post("/admin/v1/encryption/rotate", json!({}));
        rotated.await.expect(200).body
    };
    // One node knows the next key, the other does not: both serve, and only the first rotates.
    restart(&mut nodes[1], MASTER_KEY);
    let same = rotate(&nodes[0]).await;
    assert_eq!(same["was"], same["master_key"]);
    restart(&mut nodes[0], MASTER_KEY);
    let rotated = rotate(&nodes[1]).await;
    assert_eq!(rotated["was"], same["master_key"]);
    for node in &mut nodes {
        restart(node, "");
    }
    for node in &nodes {
        let c = node.with_key(account.test_key());
        c.get("/v1/conversations").await.expect(200);
        let state = node
            .operator()
            .get("/admin/v1/encryption")
            .await
            .expect(200);
        assert_eq!(state.body["wrapped_under"], rotated["master_key"]);
    }
    let there = account.live().at(&nodes[1].address());
    let machine = Registered::machine(&there).await;
    Authority::of(&nodes[1]).credentials(&machine).await;
}

#[test]
fn a_node_with_another_master_key_does_not_join() {
    let sealed_by = |key: &str| Setup::default().env("COLLOQUY__ENCRYPTION__MASTER_KEY", key);
    let nodes = nodes_with(&sealed_by(MASTER_KEY), 1);
    let folder = Folder::new();
    let joining = sealed_by(OTHER_KEY).joining(&nodes[0]);
    let (status, output) = joining.refused_in(&folder.work());
    assert!(!status.success());
    assert!(
        output.contains("the store is under the master key named"),
        "{output}"
    );
}
