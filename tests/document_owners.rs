//! Whose a document is when everything happens at once: a user's document is always exactly one
//! user's, and that user is there.

use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use serde_json::json;

use crate::support::documents::{DOCUMENTS, id_of};
use crate::support::{Answer, Client, Dice, account_with_client, sized};

/// Pairs of requests that race each other, and how many of them at once: the writer then takes both
/// in one batch.
fn races() -> usize {
    sized(120, 24)
}

const AT_ONCE: usize = 12;
const PEOPLE: usize = 6;
/// Changes of one document's people, all sent at once.
fn storm() -> usize {
    sized(90, 24)
}

/// A document of a new user's; the path and the user.
async fn owned(c: &Client) -> (String, String) {
    let owner = c.user("agent").await;
    let made = c
        .acting_for(&owner)
        .post(DOCUMENTS, json!({"title": "Mine", "content": "1\n"}))
        .await
        .expect(201);
    (made.header("location").to_owned(), owner)
}

fn transfer(to: &str) -> serde_json::Value {
    json!({"transfer_owner_to": to})
}

/// Fails unless the document has exactly one owner, who is a user, wherever it is asked; gives the
/// owner.
async fn assert_owned(c: &Client, at: &str) -> String {
    let set = c.get(&format!("{at}/permissions")).await.expect(200);
    let owner = set.id("owner_id");
    c.get(&format!("/v1/users/{owner}")).await.expect(200);
    let collaborators = set["collaborators"].as_array().unwrap();
    assert!(
        collaborators
            .iter()
            .all(|one| one["user_id"] != owner.as_str() && one["role"] != "owner"),
        "{set}"
    );
    assert_eq!(c.get(at).await.expect(200)["owner_id"], owner.as_str());
    assert_eq!(
        c.acting_for(&owner).get(at).await.expect(200)["role"],
        "owner"
    );
    let listed = c
        .get(&format!("{DOCUMENTS}?limit=100&owner_id={owner}"))
        .await
        .expect(200)
        .column("id");
    assert!(
        listed.contains(&id_of(at).to_owned()),
        "not in the owner's list"
    );
    owner
}

/// A transfer to a user beside that user's deletion: at most one of them is done.
async fn race(c: &Client, n: usize) {
    let (at, before) = owned(c).await;
    let heir = c.user("agent").await;
    // Whoever is named already is no new name in the set.
    let named = n.is_multiple_of(2);
    if named {
        let body = json!({"user_id": heir, "role": "editor"});
        c.post(&format!("{at}/collaborators"), body)
            .await
            .expect(201);
    }
    let given = c
        .put(&format!("{at}/permissions"), transfer(&heir))
        .into_future();
    let deleted = c.delete(&format!("/v1/users/{heir}")).into_future();
    let (given, deleted) = if n % 4 < 2 {
        join(given, deleted).await
    } else {
        let (deleted, given) = join(deleted, given).await;
        (given, deleted)
    };
    let owner = match (given.status, deleted.status) {
        (200, 409) => heir,
        (400, 204) => before,
        other => {
            panic!("the heir (named before: {named}) was given the document and deleted: {other:?}")
        }
    };
    assert_eq!(assert_owned(c, &at).await, owner);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_never_goes_to_a_user_who_is_deleted_meanwhile() {
    let (_account, c) = account_with_client().await;
    let races = (0..races()).map(|n| race(&c, n));
    futures_util::stream::iter(races)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<()>>()
        .await;
}

/// A creation by a user beside that user's deletion: at most one of them is done.
async fn created_beside_deletion(c: &Client) {
    let user = c.user("agent").await;
    let created = c
        .acting_for(&user)
        .post(DOCUMENTS, json!({"title": "Last words"}))
        .into_future();
    let (created, deleted) = join(
        created,
        c.delete(&format!("/v1/users/{user}")).into_future(),
    )
    .await;
    match (created.status, deleted.status) {
        (201, 409) => assert_eq!(assert_owned(c, created.header("location")).await, user),
        // The key may not act for one who is no more.
        (400 | 401 | 403, 204) => {}
        other => panic!("the document's maker is gone: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_is_deleted_meanwhile_makes_no_document() {
    let (_account, c) = account_with_client().await;
    let races = (0..races()).map(|_| created_beside_deletion(&c));
    futures_util::stream::iter(races)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<()>>()
        .await;
}

/// One change of who may do what.
async fn change(c: &Client, at: &str, people: &[String], seed: u64) -> Answer {
    let mut dice = Dice::new(seed);
    let mut one = || people[usize::try_from(dice.below(people.len() as u64)).unwrap()].as_str();
    let (user, other) = (one(), one());
    let (set, list) = (format!("{at}/permissions"), format!("{at}/collaborators"));
    match seed % 8 {
        0..=2 => c.put(&set, transfer(user)).await,
        3 => {
            c.put(
                &set,
                json!({"collaborators": [{"user_id": user, "role": "viewer"}]}),
            )
            .await
        }
        4 => {
            let body = json!({"transfer_owner_to": user, "collaborators": [{"user_id": other, "role": "editor"}]});
            c.put(&set, body).await
        }
        5 => c.delete(&format!("{list}/{user}")).await,
        6 => {
            c.put(&format!("{list}/{user}"), json!({"role": "viewer"}))
                .await
        }
        _ => c.delete(&format!("/v1/users/{user}")).await,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_storm_of_changes_there_is_always_exactly_one_owner() {
    let (_account, c) = account_with_client().await;
    let (at, first) = owned(&c).await;
    let mut people = vec![first];
    for _ in 1..PEOPLE {
        people.push(c.user("agent").await);
    }
    let answers = join_all((0..storm() as u64).map(|seed| change(&c, &at, &people, seed))).await;
    let mut done = 0;
    for answer in &answers {
        assert!(
            [200, 204, 400, 404, 409].contains(&answer.status),
            "{answer}"
        );
        done += usize::from(answer.status < 300);
    }
    assert!(done > 5, "only {done} of {} changes were done", storm());
    let owner = assert_owned(&c, &at).await;
    // The log says whose it was, step by step, without a gap.
    let log = c
        .get(&format!("{at}/activity?limit=100&order=asc"))
        .await
        .expect(200);
    let mut whose = json!(people[0]);
    for entry in log.data() {
        let change = &entry["details"]["changes"]["owner_id"];
        if !change.is_null() {
            assert_eq!(change["from"], whose, "{entry}");
            assert!(change["to"].is_string(), "nobody's: {entry}");
            whose = change["to"].clone();
        }
    }
    assert_eq!(whose, owner.as_str());
    c.delete(&format!("/v1/users/{owner}"))
        .await
        .error(409, "conflict", "*");
}
