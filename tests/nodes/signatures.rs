//! Signed requests across nodes: of what was signed once, one request is let in at all of them.

use futures_util::future::join_all;
use serde_json::json;

use super::nodes_with;
use crate::support::Setup;
use crate::support::signing::Signer;

/// Where clients find the nodes.
const PUBLIC_URL: &str = "https://api.example.com";

#[tokio::test]
async fn a_replay_is_refused_at_another_node() {
    let setup = Setup::default().env("COLLOQUY__SERVER__PUBLIC_URL", PUBLIC_URL);
    let nodes = nodes_with(&setup, 2);
    let account = nodes[0].account().await;
    let body = json!({"type": "test", "require_signature": true});
    let (client, made) = account.key(body).await;
    let signer = Signer {
        client,
        key_id: made["key_id"].as_str().unwrap().to_owned(),
        secret: made["signing_secret"].as_str().unwrap().to_owned(),
        public_url: PUBLIC_URL.to_owned(),
    };
    for _ in 0..3 {
        let headers = signer.get("/v1").headers();
        let sent = nodes.iter().cycle().take(16).map(|node| {
            let call = signer.client.at(&node.address()).get("/v1");
            let call = headers
                .iter()
                .fold(call, |call, (name, value)| call.with(name, value));
            call.into_future()
        });
        let answers = join_all(sent).await;
        let passed = answers.iter().filter(|answer| answer.status == 200);
        assert_eq!(passed.count(), 1);
        let refused = answers.iter().filter(|answer| answer.status == 401);
        assert_eq!(refused.count(), 15);
    }
}
