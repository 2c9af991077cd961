//! A document with very many versions, comments, links and collaborators: each operation costs what
//! it costs in a small one.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::Neighbour;
use super::timing::{assert_near, least};
use crate::support::{Client, Server};

/// Versions of the large one: enough that going over them would show.
const VERSIONS: usize = 10_000;
/// Its comments.
const COMMENTS: usize = 2_000;
/// Its links, and its collaborators.
const PEOPLE: usize = 300;
/// As many of each as the small one has.
const FEW: usize = 10;
const AT_ONCE: usize = 16;

/// How much a document has of everything.
struct Sizes {
    versions: usize,
    comments: usize,
    people: usize,
}

/// A document that is asked for everything.
struct Document {
    at: String,
    sizes: Sizes,
    comment: String,
}

/// Makes so many of them, several at once.
async fn make(count: usize, call: impl AsyncFn(usize)) {
    stream::iter((0..count).map(|n| call(n)))
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;
}

fn text(n: usize) -> String {
    format!("a line that stays\nnumber {n}\n")
}

async fn filled(c: &Client, users: &[String], sizes: Sizes) -> Document {
    let at = c.document(&text(0)).await;
    let side = json!({"content": text(1), "branch": "side", "label": "the-first"});
    c.version(&at, side).await;
    let post =
        async |what: &str, body: Value| c.post(&format!("{at}/{what}"), body).await.expect(201);
    make(sizes.versions, async |n| {
        drop(post("versions", json!({"content": text(n)})).await)
    })
    .await;
    make(sizes.people, async |_| {
        drop(post("share", json!({"role": "viewer"})).await)
    })
    .await;
    make(sizes.people, async |n| {
        drop(
            post(
                "collaborators",
                json!({"user_id": users[n], "role": "viewer"}),
            )
            .await,
        )
    })
    .await;
    make(sizes.comments, async |_| {
        drop(post("comments", json!({"body": "why?", "start_line": 1})).await)
    })
    .await;
    let comment = post("comments", json!({"body": "how?", "start_line": 2}))
        .await
        .id("comment_id");
    Document { at, sizes, comment }
}

/// What is asked of a document, by name.
const READS: [(&str, &str); 14] = [
    ("a document", ""),
    ("its first page of versions", "/versions"),
    ("its last page of versions", "/versions?offset={last}"),
    ("its versions of a side line", "/versions?branch=side"),
    ("a version by its number", "/versions/{half}"),
    ("a version by its label", "/versions/the-first"),
    ("the text of an old version", "?version={half}"),
    ("its last difference", "/diff"),
    ("an old difference", "/diff?from=1&to={half}"),
    ("its activity", "/activity"),
    (
        "its activity of a kind that is rare",
        "/activity?action=document.created",
    ),
    ("its first page of comments", "/comments"),
    ("its first page of links", "/share"),
    ("its first page of collaborators", "/collaborators"),
];

impl Document {
    fn path(&self, template: &str) -> String {
        let path = template.replace("{half}", &(self.sizes.versions / 2).to_string());
        self.at.clone() + &path.replace("{last}", &(self.sizes.versions - FEW / 2).to_string())
    }

    /// What is done to it, by name, and the least that each takes.
    async fn changes(&self, c: &Client) -> Vec<(&'static str, Duration)> {
        let mut turn = 0;
        let mut next = || {
            turn += 1;
            format!("change {turn}")
        };
        let post =
            async |what: &str, body: Value| c.post(&format!("{}/{what}", self.at), body).await;
        let comment = format!("{}/comments/{}", self.at, self.comment);
        vec![
            (
                "a new head",
                least(async || drop(c.write(&self.at, &format!("{}\n{}", text(1), next())).await))
                    .await,
            ),
            (
                "a new title",
                least(async || drop(c.put(&self.at, json!({"title": next()})).await.expect(200)))
                    .await,
            ),
            (
                "a side line's version",
                least(async || drop(c.branch(&self.at, "side", &next()).await)).await,
            ),
            (
                "a labelled version",
                least(async || {
                    let label = next().replace(' ', "-");
                    post("versions", json!({"content": "labelled\n", "label": label}))
                        .await
                        .expect(201);
                })
                .await,
            ),
            (
                "a merge that is tried",
                least(async || {
                    let tried = json!({"source": "side", "strategy": "ours", "dry_run": true});
                    post("merge", tried).await.expect(200);
                })
                .await,
            ),
            (
                "an old version restored",
                least(async || drop(post("versions/2/restore", json!({})).await.expect(201))).await,
            ),
            (
                "a comment changed",
                least(async || drop(c.patch(&comment, json!({"body": next()})).await.expect(200)))
                    .await,
            ),
            (
                "into the bin and out",
                least(async || self.through_the_bin(c).await).await,
            ),
        ]
    }

    async fn through_the_bin(&self, c: &Client) {
        c.delete(&self.at).await.expect(204);
        let restore = format!("{}/restore", self.at);
        c.post(&restore, json!({})).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_costs_more_in_a_document_with_very_many_of_everything() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let users: Vec<String> = stream::iter((0..PEOPLE).map(async |_| c.user("agent").await))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let attack = async {
        let small = filled(
            &c,
            &users,
            Sizes {
                versions: FEW,
                comments: FEW,
                people: FEW,
            },
        )
        .await;
        let sizes = Sizes {
            versions: VERSIONS,
            comments: COMMENTS - 1,
            people: PEOPLE,
        };
        let large = filled(&c, &users, sizes).await;
        for (name, template) in READS {
            let ask = async |one: &Document| {
                let path = one.path(template);
                least(async || drop(c.get(&path).await.expect(200))).await
            };
            assert_near(name, ask(&small).await, ask(&large).await);
        }
        for ((name, few), (_, many)) in small
            .changes(&c)
            .await
            .into_iter()
            .zip(large.changes(&c).await)
        {
            assert_near(name, few, many);
        }
        large
    };
    let large = neighbour
        .beside("a document with very many of everything", attack)
        .await
        .attack;
    assert_eq!(
        c.get(&large.path("/comments?limit=1"))
            .await
            .expect(200)
            .total(),
        COMMENTS as u64
    );
    c.delete(&large.path("?permanent=true")).await.expect(204);
    c.get(&large.at).await.expect(404);
}
