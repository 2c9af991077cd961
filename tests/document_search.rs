//! Full-text search: what it finds, in which order, for whom; what was replaced, binned or erased
//! is not found, and erased words are in no file.

use std::time::Duration;

use serde_json::json;

use crate::support::documents::{DOCUMENTS, id_of};
use crate::support::{Answer, Client, Server, account, account_with_client, unique, until};

/// The contract's bound, and a little for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(35);

/// What a search finds right now: what was acknowledged before is known to it.
async fn search(c: &Client, q: &str) -> Answer {
    let mut query = String::new();
    for byte in q.bytes() {
        query.push_str(&format!("%{byte:02x}"));
    }
    c.get(&format!("{DOCUMENTS}?q={query}")).await.expect(200)
}

async fn finds(c: &Client, q: &str) -> Vec<String> {
    let found = search(c, q).await;
    assert_eq!(found.total(), found.data().len() as u64, "{found}");
    found.column("id")
}

async fn titled(c: &Client, title: &str, content: &str) -> String {
    let made = c
        .post(DOCUMENTS, json!({"title": title, "content": content}))
        .await
        .expect(201);
    made.header("location").to_owned()
}

#[tokio::test]
async fn title_and_content_are_searched_whatever_the_case_and_accents() {
    let (_account, c) = account_with_client().await;
    let at = titled(
        &c,
        "Refund policy",
        "Parcels come back within thirty days. Café Zürich. ключ 東京都\n",
    )
    .await;
    titled(&c, "Elsewhere", "nothing of that\n").await;
    let id = vec![id_of(&at).to_owned()];
    for q in [
        "refund",
        "POLICY",
        "parcels",
        "thirty days",
        "cafe",
        "ZÜRICH",
        "zurich",
        "КЛЮЧ",
        "東京",
        "refund parcels",
    ] {
        assert_eq!(finds(&c, q).await, id, "{q}");
    }
    for q in ["missing", "refund missing", "arcel"] {
        assert!(finds(&c, q).await.is_empty(), "{q}");
    }
    let found = search(&c, "refund").await;
    assert!(
        found["data"][0].get("content").is_none(),
        "a list leaves contents out: {found}"
    );
}

#[tokio::test]
async fn what_fits_better_stands_first() {
    let (_account, c) = account_with_client().await;
    let filler = "many other words stand here and there and everywhere else as well ".repeat(20);
    let weak = titled(&c, "One", &format!("{filler} zebra {filler}\n")).await;
    let strong = titled(&c, "Two", "zebra zebra zebra\n").await;
    titled(&c, "Three", &filler).await;
    assert_eq!(finds(&c, "zebra").await, [id_of(&strong), id_of(&weak)]);
    let second = c
        .get(&format!("{DOCUMENTS}?q=zebra&limit=1&offset=1"))
        .await
        .expect(200);
    assert_eq!(
        (second.column("id"), second.total()),
        (vec![id_of(&weak).to_owned()], 2)
    );
}

#[tokio::test]
async fn a_search_is_narrowed_by_the_other_filters() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let plain = json!({"title": "walrus", "content_type": "text/plain"});
    let plain = c
        .acting_for(&user)
        .post(DOCUMENTS, plain)
        .await
        .expect(201)
        .id("id");
    let other = id_of(&titled(&c, "walrus", "").await).to_owned();
    for (filter, expected) in [
        (format!("owner_id={user}"), vec![&plain]),
        ("content_type=text/markdown".to_owned(), vec![&other]),
        ("role=viewer".to_owned(), vec![]),
        ("deleted=true".to_owned(), vec![]),
    ] {
        let found = c
            .get(&format!("{DOCUMENTS}?q=walrus&{filter}"))
            .await
            .expect(200);
        assert_eq!(
            (found.column("id").iter().collect::<Vec<_>>(), found.total()),
            (expected.clone(), expected.len() as u64),
            "{filter}"
        );
    }
}

#[tokio::test]
async fn an_update_replaces_what_is_found_at_once() {
    let (_account, c) = account_with_client().await;
    let at = titled(&c, "Guide", "ostrich\n").await;
    let id = vec![id_of(&at).to_owned()];
    for (n, body) in [
        json!({"content": "penguin\n"}),
        json!({"content": "flamingo\n", "title": "Birds"}),
    ]
    .into_iter()
    .enumerate()
    {
        c.put(&at, body).await.expect(200);
        let (gone, found) = if n == 0 {
            ("ostrich", "penguin")
        } else {
            ("penguin", "flamingo")
        };
        assert!(finds(&c, gone).await.is_empty(), "{gone}");
        assert_eq!(finds(&c, found).await, id, "{found}");
    }
    assert_eq!(finds(&c, "birds").await, id);
    c.branch(&at, "side", "pelican\n").await;
    assert!(
        finds(&c, "pelican").await.is_empty(),
        "the head is searched"
    );
    c.post(
        &format!("{at}/merge"),
        json!({"source": "side", "strategy": "theirs"}),
    )
    .await
    .expect(201);
    assert_eq!(finds(&c, "pelican").await, id);
    c.call("POST", &format!("{at}/versions/1/restore"))
        .await
        .expect(201);
    assert_eq!(
        (finds(&c, "ostrich").await, finds(&c, "pelican").await),
        (id, vec![])
    );
}

/// Words that make a text long, of which the index takes in a part at a time.
fn filler() -> String {
    (0..40_000).map(|n| format!("filler{n} ")).collect()
}

#[tokio::test]
async fn a_long_document_is_found_by_all_that_a_short_one_is() {
    let (_account, c) = account_with_client().await;
    let filler = filler();
    let short = titled(&c, "Guide", "ostrich egg, penguin\n").await;
    let at = titled(&c, "Atlas", &format!("Ostrich {filler} Crème brûlée\n")).await;
    let [long, short] = [&at, &short].map(|at| vec![id_of(at).to_owned()]);
    for (q, found) in [
        ("ostrich creme", &long),
        ("\"creme brulee\"", &long),
        ("\"ostrich filler0\"", &long),
        ("\"filler19999 filler20000\"", &long),
        ("atlas filler39999", &long),
        ("bruleé", &long),
        ("filler3999", &long),
        ("ostrich egg", &short),
        ("\"ostrich egg\" penguin", &short),
    ] {
        assert_eq!(finds(&c, q).await, *found, "{q}");
    }
    for nothing in ["\"filler1 filler3\"", "ostrich absent", "\"atlas ostrich\""] {
        assert!(finds(&c, nothing).await.is_empty(), "{nothing}");
    }
    assert_eq!(search(&c, "ostrich").await.total(), 2);
    let contents = [
        "short pelican\n".to_owned(),
        format!("{filler} pelican\n"),
        format!("{filler} flamingo\n"),
        "short flamingo\n".to_owned(),
    ];
    let mut before = "brulee".to_owned();
    for content in contents {
        c.put(&at, json!({"content": content})).await.expect(200);
        let word = content.split_whitespace().next_back().unwrap();
        assert_eq!(finds(&c, word).await, long, "{word}");
        assert_eq!(
            finds(&c, &before).await.is_empty(),
            before != word,
            "{before}"
        );
        assert_eq!(
            finds(&c, "filler7").await.len(),
            usize::from(content.contains("filler7 "))
        );
        before = word.to_owned();
    }
}

#[tokio::test]
async fn the_bin_hides_and_restoring_finds_again() {
    for content in ["narwhal\n".to_owned(), format!("{} narwhal\n", filler())] {
        hidden_and_found_again(&content).await;
    }
}

async fn hidden_and_found_again(content: &str) {
    let (_account, c) = account_with_client().await;
    let at = titled(&c, "Guide", content).await;
    let id = vec![id_of(&at).to_owned()];
    assert_eq!(finds(&c, "narwhal").await, id);
    c.delete(&at).await.expect(204);
    assert!(finds(&c, "narwhal").await.is_empty());
    let bin = c
        .get(&format!("{DOCUMENTS}?deleted=true&q=narwhal"))
        .await
        .expect(200);
    assert_eq!((bin.column("id"), bin.total()), (id.clone(), 1));
    c.call("POST", &format!("{at}/restore")).await.expect(200);
    assert_eq!(finds(&c, "narwhal").await, id);
    c.delete(&format!("{at}?permanent=true")).await.expect(204);
    assert!(finds(&c, "narwhal").await.is_empty());
}

#[tokio::test]
async fn only_what_one_may_read_is_found_and_counted() {
    let account = account().await;
    let c = account.test();
    let user = c.user("agent").await;
    let mine = c.acting_for(&user);
    let hidden = titled(&c, "hidden", "axolotl\n").await;
    let shared = titled(&c, "shared", "axolotl\n").await;
    let own = titled(&mine, "own", "axolotl\n").await;
    c.post(
        &format!("{shared}/collaborators"),
        json!({"user_id": user, "role": "viewer"}),
    )
    .await
    .expect(201);
    let mut found = finds(&mine, "axolotl").await;
    found.sort_unstable();
    assert_eq!(found, [id_of(&shared), id_of(&own)]);
    assert_eq!(finds(&c, "axolotl").await.len(), 3);
    c.put(
        &format!("{hidden}/permissions"),
        json!({"visibility": "account"}),
    )
    .await
    .expect(200);
    assert_eq!(finds(&mine, "axolotl").await.len(), 3);
    c.delete(&format!("{shared}/collaborators/{user}"))
        .await
        .expect(204);
    assert_eq!(finds(&mine, "axolotl").await.len(), 2);
    assert!(
        finds(&account.live(), "axolotl").await.is_empty(),
        "the other mode"
    );
    assert!(
        finds(&crate::support::account().await.test(), "axolotl")
            .await
            .is_empty(),
        "another account"
    );
}

#[tokio::test]
async fn no_query_is_a_syntax_error() {
    let (_account, c) = account_with_client().await;
    titled(&c, "Guide", "okapi\n").await;
    for q in [
        "\"",
        "okapi\"",
        "AND",
        "okapi OR",
        "NEAR(",
        "*",
        "title:okapi",
        "-okapi",
        "(",
        "{a b}:",
        "^okapi",
        "'; DROP TABLE x;--",
        "🎈",
        "a\u{301}",
        "%",
    ] {
        search(&c, q).await;
    }
    search(&c, &"okapi ".repeat(300)).await;
    for q in ["okapi", "oka", " okapi ", "\"okapi\""] {
        assert_eq!(finds(&c, q).await.len(), 1, "{q}: the last word may go on");
    }
    c.get(&format!("{DOCUMENTS}?q=a%00b"))
        .await
        .error(400, "invalid_request", "q");
}

#[tokio::test]
async fn a_search_knows_everything_after_kill_9() {
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let filler = &filler();
    let made = futures_util::future::join_all((0..40).map(|n| {
        let c = c.clone();
        // Some are still being taken in.
        let words = if n % 8 == 0 { filler.as_str() } else { "" };
        async move { titled(&c, "Guide", &format!("quokka {words} number{n}end\n")).await }
    }))
    .await;
    server.restart();
    let c = server.with_key(&key);
    for (n, at) in made.iter().enumerate() {
        assert_eq!(
            finds(&c, &format!("number{n}end"))
                .await
                .first()
                .map(String::as_str),
            Some(id_of(at)),
            "{n}"
        );
    }
    assert_eq!(
        c.get(&format!("{DOCUMENTS}?q=quokka&limit=1"))
            .await
            .expect(200)
            .total(),
        40
    );
}

#[tokio::test]
async fn thirty_seconds_after_erasing_no_file_holds_the_words() {
    let server = Server::start();
    let c = server.account().await.test();
    let word = |stem: &str| unique(stem).replace('-', "");
    let (title, content, old, said) = (
        word("titleword"),
        word("contentword"),
        word("oldword"),
        word("commentword"),
    );
    let (long, replaced) = (word("longword"), word("replacedword"));
    let at_length = titled(&c, &title, &format!("{} {replaced}\n", filler())).await;
    assert_eq!(finds(&c, &replaced).await, [id_of(&at_length)]);
    assert!(!server.places_with(&replaced).is_empty());
    c.write(&at_length, &format!("{} {long}\n", filler())).await;
    assert_eq!(finds(&c, &long).await, [id_of(&at_length)]);
    let body = json!({"title": title, "content": format!("it was {old}\n")});
    let made = c
        .post(DOCUMENTS, body)
        .with("idempotency-key", "with-a-kept-answer")
        .await
        .expect(201);
    let at = made.header("location");
    c.write(at, &format!("now it is {content}\n")).await;
    c.post(
        &format!("{at}/comments"),
        json!({"start_line": 1, "body": said}),
    )
    .await
    .expect(201);
    assert_eq!(finds(&c, &content).await, [id_of(at)]);
    let words = [&title, &content, &old, &said, &long, &replaced];
    for word in words.into_iter().filter(|word| **word != replaced) {
        assert!(
            !server.places_with(word).is_empty(),
            "the search is blind: {word} was never in a file"
        );
    }
    for at in [at, &at_length] {
        c.delete(&format!("{at}?permanent=true")).await.expect(204);
    }
    // Something goes on meanwhile, as it would.
    for _ in 0..50 {
        c.document("ordinary\n").await;
    }
    until("no file holds the erased words", GONE_WITHIN, async || {
        words
            .iter()
            .all(|word| server.places_with(word).is_empty())
            .then_some(())
    })
    .await;
    assert!(
        words
            .iter()
            .all(|word| !server.log().contains(word.as_str())),
        "the log holds a document's words"
    );
}
