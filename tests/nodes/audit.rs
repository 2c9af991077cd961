//! The chain of the audit trail on a database that several nodes share: it is one, and whatever is done to
//! the database is found.

use ::mongodb::bson::{Document, doc};
use serde_json::json;

use super::nodes;
use crate::audit_chain::{assert_broken, assert_verified, audit, fill, said};
use crate::support::{Server, mongodb};

/// Ends all nodes; gives the first, whose folder names the database.
fn stopped(mut nodes: Vec<Server>) -> Server {
    for node in &mut nodes {
        assert!(node.term().success());
    }
    nodes.swap_remove(0)
}

#[tokio::test]
async fn what_several_nodes_write_is_one_chain_which_each_of_them_shows() {
    let mut nodes = nodes(3);
    let account = fill(&nodes[0]).await;
    for node in &nodes {
        let c = account.live().at(&node.address());
        let conversation = c.conversation().await;
        c.message(&conversation, "beside the others").await;
        assert_verified(&audit(node, &["verify"]));
    }
    let export = audit(&nodes[1], &["export"]);
    let lines = export.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert!(lines > 30, "{}", said(&export));
    // The node that has led so far is gone in the middle of it.
    let c = account.live().at(&nodes[1].address());
    let conversation = c.conversation().await;
    nodes[0].kill9();
    for number in 0..10 {
        c.message(&conversation, &format!("behind it {number}"))
            .await;
    }
    assert_verified(&audit(&nodes[1], &["verify"]));
    assert_verified(&audit(&nodes[2], &["verify"]));
    let third = audit(&nodes[2], &["export"]);
    assert!(
        third.stdout.starts_with(
            export
                .stdout
                .rsplitn(3, |byte| *byte == b'\n')
                .last()
                .unwrap()
        )
    );
    nodes.remove(0);
    assert_verified(&audit(&stopped(nodes), &["verify"]));
}

#[tokio::test]
async fn what_was_done_to_a_record_in_the_database_is_found() {
    let nodes = nodes(1);
    let _account = fill(&nodes[0]).await;
    let server = stopped(nodes);
    let work = server.work();
    assert_verified(&audit(&server, &["verify"]));
    let message = || doc! {"rows.0.kind": 4, "rows.0.salt": {"$exists": true}};
    let edit = || doc! {"rows.0.kind": 5, "rows.0.salt": {"$exists": true}};
    let redacted = || doc! {"rows.0.kind": 4, "rows.0.salt": {"$exists": false}};
    let made = || doc! {"rows.0.kind": 1};
    let set = |set: Document| Some(doc! {"$set": set});
    let without_salt = || Some(doc! {"$unset": {"rows.0.salt": ""}});
    for (filter, change) in [
        (message(), set(doc! {"rows.0.by.request": "another"})),
        (message(), set(doc! {"rows.0.at": 7_i64})),
        (message(), set(doc! {"rows.0.payload": "{}"})),
        (message(), set(doc! {"rows.0.payload": ""})),
        (message(), set(doc! {"tenant": 8_i64})),
        (message(), without_salt()),
        (edit(), without_salt()),
        (
            made(),
            Some(doc! {"$unset": {"rows.0.salt": ""}, "$set": {"rows.0.payload": ""}}),
        ),
        (redacted(), set(doc! {"rows.0.payload": "{}"})),
        (message(), None),
    ] {
        let before = mongodb::change(&work, ("log", filter), change);
        let at = before.get_i64("position").unwrap();
        assert_broken(&audit(&server, &["verify"]), at);
        mongodb::put_back(&work, "log", before);
    }
    // Two change places.
    let first = mongodb::change(&work, ("log", message()), None);
    let second = mongodb::change(&work, ("log", message()), None);
    let at = |document: &Document| document.get_i64("position").unwrap();
    let (one, other) = (at(&first), at(&second));
    for (document, position) in [(&first, other), (&second, one)] {
        let mut moved = document.clone();
        moved.insert("position", position);
        mongodb::put_back(&work, "log", moved);
    }
    assert_broken(&audit(&server, &["verify"]), one.min(other));
    for document in [&first, &second] {
        mongodb::lose(&work, "log", doc! {"_id": document.get("_id").cloned()});
    }
    for document in [first, second] {
        mongodb::put_back(&work, "log", document);
    }
    assert_verified(&audit(&server, &["verify"]));
}

#[tokio::test]
async fn a_tail_that_was_cut_off_a_database_is_found_and_no_start_heals_it() {
    let nodes = nodes(1);
    let account = fill(&nodes[0]).await;
    let mut server = stopped(nodes);
    let work = server.work();
    let slice = mongodb::last_of(&work, "audit_links", doc! {"_id": -1});
    let kept = slice.get_i64("first").unwrap() - 1;
    mongodb::lose(&work, "log", doc! {"position": {"$gt": kept}});
    mongodb::lose(
        &work,
        "audit_links",
        doc! {"_id": slice.get("_id").cloned()},
    );
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    // Without its end nobody begins another chain.
    mongodb::lose(&work, "meta", doc! {"_id": "audit_head"});
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    server.expect_errors();
    server.restart();
    let c = server.operator();
    c.post(
        "/admin/v1/accounts",
        json!({"name": "another", "plan": "basic"}),
    )
    .await
    .expect(201);
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    drop(account);
}
