//! Attachments across nodes, in one bucket: each node has what another was given, and one message
//! has one, whichever nodes are asked.

use serde_json::json;

use super::{SLACK, nodes_with};
use crate::support::attachments::{content_of, uploaded};
use crate::support::{Bucket, unique, until};

fn messages_of(conversation: &str) -> String {
    format!("/v1/conversations/{conversation}/messages")
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_messages_at_two_nodes_one_has_it() {
    let bucket = Bucket::start();
    let nodes = nodes_with(&bucket.setup(), 2);
    let first = nodes[0].account().await.test();
    let second = first.at(&nodes[1].address());
    let conversations = [first.conversation().await, first.conversation().await];
    for round in 0..12 {
        let id = uploaded(&first, &format!("content {round}")).await;
        let message = json!({"type": "file", "attachment_id": id});
        let at = conversations.each_ref().map(|one| messages_of(one));
        let (one, other) = tokio::join!(
            first.post(&at[0], message.clone()),
            second.post(&at[1], message.clone())
        );
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "{one} {other}");
        for taken in [one, other] {
            if taken.status == 409 {
                taken.error(409, "conflict", "attachment_id");
            }
        }
        // Nobody has it a second time, at whichever node.
        for (c, at) in [(&first, &at[1]), (&second, &at[0])] {
            let again = c.post(at, message.clone()).await;
            again.error(409, "conflict", "attachment_id");
        }
    }
    let mut taken = 0;
    for conversation in &conversations {
        let shown = second.get(&messages_of(conversation)).await.expect(200);
        taken += shown.data().len();
    }
    assert_eq!(taken, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_was_given_outlives_it_and_goes_by_another() {
    let bucket = Bucket::start();
    let mut nodes = nodes_with(&bucket.setup(), 2);
    let first = nodes[0].account().await.test();
    let second = first.at(&nodes[1].address());
    let words = unique("given to a node");
    let id = uploaded(&first, &words).await;
    let conversation = first.conversation().await;
    nodes[0].kill9();
    let read = until("the other node has it", SLACK, async || {
        let read = second.get(&content_of(&id)).await;
        (read.status == 200).then_some(read)
    })
    .await;
    assert_eq!(read.bytes, words.as_bytes());
    let message = json!({"type": "file", "attachment_id": id});
    let at = messages_of(&conversation);
    let sent = until("the other node takes the message", SLACK, async || {
        let sent = second.post(&at, message.clone()).await;
        (sent.status == 201).then_some(sent)
    })
    .await;
    assert_eq!(bucket.objects_with(&words).len(), 1);
    let at = format!("{at}/{}", sent.id("message_id"));
    second.delete(&at).await.expect(204);
    until("its bytes are gone", 3 * SLACK, async || {
        bucket.objects_with(&words).is_empty().then_some(())
    })
    .await;
    nodes[0].restart();
    let first = first.at(&nodes[0].address());
    first
        .get(&content_of(&id))
        .await
        .error(404, "not_found", "");
    let redacted = first.get(&at).await.expect(200);
    assert_eq!(redacted["redacted"], json!(true));
}
