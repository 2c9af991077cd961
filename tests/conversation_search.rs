//! Full-text search over conversations: what it finds, in which order, for whom; what was edited
//! away or redacted is not found, and redacted words are in no file; an index that is lost is made
//! anew, and one that is switched off costs nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::server::Folder;
use crate::support::{
    Answer, Client, Server, Setup, SmallDisk, account, account_with_client, sized, unique, until,
};

/// The contract's bound, and a little for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(35);
const AGAIN_WITHIN: Duration = Duration::from_secs(30);
const CONVERSATIONS: &str = "/v1/conversations";

fn index_of(server: &Server) -> PathBuf {
    server.work().join("data/colloquy.db.message-search")
}

fn encoded(q: &str) -> String {
    q.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// What a search finds right now: what was acknowledged before is known to it.
async fn search(c: &Client, q: &str, filter: &str) -> Answer {
    let path = format!("{CONVERSATIONS}?q={}{filter}", encoded(q));
    c.get(&path).await.expect(200)
}

async fn finds(c: &Client, q: &str) -> Vec<String> {
    found(search(c, q, "").await)
}

fn found(answer: Answer) -> Vec<String> {
    assert_eq!(answer.total(), answer.data().len() as u64, "{answer}");
    answer.column("conversation_id")
}

/// A conversation with these messages.
async fn said(c: &Client, messages: &[&str]) -> String {
    let conversation = c.conversation().await;
    for message in messages {
        c.message(&conversation, message).await.expect(201);
    }
    conversation
}

async fn customer(c: &Client, name: &str) -> String {
    let made = c.post("/v1/customers", json!({"name": name})).await;
    made.expect(201).id("customer_id")
}

async fn change(c: &Client, conversation: &str, change: Value) {
    let at = format!("{CONVERSATIONS}/{conversation}");
    c.patch(&at, change).await.expect(200);
}

#[tokio::test]
async fn messages_and_the_customers_name_are_searched_whatever_the_case_and_accents() {
    let (_account, c) = account_with_client().await;
    let ada = customer(&c, "Zoë Müller-Lüdenscheidt").await;
    let conversation = c.conversation_of(&ada).await;
    for message in [
        "The parcel never came.",
        "Café Zürich, thirty days. ключ 東京都",
    ] {
        c.message(&conversation, message).await.expect(201);
    }
    said(&c, &["nothing of that"]).await;
    let id = vec![conversation];
    for q in [
        "parcel",
        "NEVER",
        "cafe",
        "ZÜRICH",
        "zurich",
        "КЛЮЧ",
        "東京",
        "\"thirty days\"",
        "zoe",
        "ludenscheidt",
        "müller-lüdenscheidt",
        "parc",
    ] {
        assert_eq!(finds(&c, q).await, id, "{q}");
    }
    for q in ["missing", "arcel", "\"days thirty\"", "\"came cafe\""] {
        assert!(finds(&c, q).await.is_empty(), "{q}");
    }
}

#[tokio::test]
async fn all_words_must_be_in_the_conversation_in_whichever_message_or_in_the_name() {
    let (_account, c) = account_with_client().await;
    let name = customer(&c, "Quentin").await;
    let conversation = c.conversation_of(&name).await;
    c.message(&conversation, "the walrus").await.expect(201);
    c.message(&conversation, "an ostrich").await.expect(201);
    said(&c, &["the walrus alone"]).await;
    for q in [
        "walrus ostrich",
        "ostrich walrus",
        "quentin ostrich",
        "walrus quent",
    ] {
        assert_eq!(finds(&c, q).await, [conversation.as_str()], "{q}");
    }
    assert!(finds(&c, "walrus ostrich missing").await.is_empty());
    assert_eq!(finds(&c, "walrus").await.len(), 2);
}

#[tokio::test]
async fn what_fits_better_stands_first_and_pages_follow_one_another() {
    let (_account, c) = account_with_client().await;
    let filler = "many other words stand here and there and everywhere else as well ".repeat(20);
    let named = c.conversation_of(&customer(&c, "Zebra").await).await;
    let often = said(&c, &["a zebra", "another zebra", "zebra again"]).await;
    let weak = said(&c, &[&format!("{filler} zebra {filler}")]).await;
    said(&c, &[&filler]).await;
    assert_eq!(finds(&c, "zebra").await[2], weak);
    let all: BTreeSet<String> = finds(&c, "zebra").await.into_iter().collect();
    assert_eq!(all, BTreeSet::from([weak, often, named]));
    let order = finds(&c, "zebra").await;
    let mut paged = Vec::new();
    let mut path = Some(format!("{CONVERSATIONS}?q=zebra&limit=1"));
    while let Some(next) = path {
        let page = c.get(&next).await.expect(200);
        assert_eq!((page.total(), page.data().len()), (3, 1), "{page}");
        paged.extend(page.column("conversation_id"));
        path = page.link("next");
    }
    assert_eq!(paged, order);
    let beyond = search(&c, "zebra", "&offset=3").await;
    assert_eq!((beyond.total(), beyond.data().len()), (3, 0));
}

#[tokio::test]
async fn a_search_goes_with_every_filter_and_its_total_is_exact() {
    let (_account, c) = account_with_client().await;
    let (user, other) = (c.user("agent").await, c.user("agent").await);
    let name = customer(&c, "Ada").await;
    let first = said(&c, &["an okapi"]).await;
    let second = c.conversation_of(&name).await;
    c.message(&second, "an okapi").await.expect(201);
    let by_mail = json!({"customer_id": name, "channel": "email"});
    let third = c.post(CONVERSATIONS, by_mail).await.expect(201);
    let made_at = third.body["created_at"].as_str().unwrap().to_owned();
    let third = third.id("conversation_id");
    c.message(&third, "an okapi").await.expect(201);
    said(&c, &["no such animal"]).await;
    change(&c, &first, json!({"priority": "high", "assignee_id": user})).await;
    c.call("POST", &format!("{CONVERSATIONS}/{second}/close"))
        .await
        .expect(200);
    for (filter, expected) in [
        ("", vec![&first, &second, &third]),
        ("&status=active", vec![&first, &third]),
        ("&status=closed", vec![&second]),
        ("&status=pending", vec![]),
        ("&channel=email", vec![&third]),
        ("&priority=high", vec![&first]),
        ("&priority=normal&status=closed", vec![&second]),
        (&format!("&customer_id={name}"), vec![&second, &third]),
        (&format!("&assignee_id={user}"), vec![&first]),
        (&format!("&assignee_id={other}"), vec![]),
        (&format!("&created_before={made_at}"), vec![&first, &second]),
        (&format!("&created_after={made_at}"), vec![]),
        (
            &format!("&customer_id={name}&channel=email&status=active"),
            vec![&third],
        ),
    ] {
        let answer = search(&c, "okapi", filter).await;
        let total = answer.total();
        let found: BTreeSet<String> = answer.column("conversation_id").into_iter().collect();
        let expected: BTreeSet<String> = expected.into_iter().cloned().collect();
        assert_eq!(
            (&found, total),
            (&expected, expected.len() as u64),
            "{filter}"
        );
        let first_page = search(&c, "okapi", &format!("{filter}&limit=1")).await;
        assert_eq!(first_page.total(), total, "{filter}");
    }
}

#[tokio::test]
async fn a_conversation_is_filtered_as_it_is_now_and_shown_as_lists_show_it() {
    let (_account, c) = account_with_client().await;
    let conversation = said(&c, &["a narwhal"]).await;
    let at = format!("{CONVERSATIONS}/{conversation}");
    let in_status = async |status: &str| {
        let answer = search(&c, "narwhal", &format!("&status={status}")).await;
        answer.total()
    };
    assert_eq!(
        (in_status("active").await, in_status("closed").await),
        (1, 0)
    );
    c.call("POST", &format!("{at}/close")).await.expect(200);
    assert_eq!(
        (in_status("active").await, in_status("closed").await),
        (0, 1)
    );
    c.call("POST", &format!("{at}/reopen")).await.expect(200);
    assert_eq!(
        (in_status("active").await, in_status("closed").await),
        (1, 0)
    );
    let listed = c.get(CONVERSATIONS).await.expect(200);
    let shown = search(&c, "narwhal", "").await;
    assert_eq!(shown["data"], listed["data"]);
    assert_eq!(shown["meta"], listed["meta"]);
}

#[tokio::test]
async fn nothing_is_found_by_another_account_or_in_the_other_mode() {
    let account = account().await;
    let c = account.test();
    said(&c, &["axolotl"]).await;
    assert_eq!(finds(&c, "axolotl").await.len(), 1);
    assert!(finds(&account.live(), "axolotl").await.is_empty());
    let other = crate::support::account().await;
    assert!(finds(&other.test(), "axolotl").await.is_empty());
}

#[tokio::test]
async fn edited_away_and_redacted_words_are_not_found_from_then_on() {
    let (_account, c) = account_with_client().await;
    let conversation = said(&c, &["an ostrich", "stays"]).await;
    let list = format!("{CONVERSATIONS}/{conversation}/messages");
    let sent = c.post(&list, json!({"content": "a penguin"})).await;
    let at = sent.expect(201).header("location").to_owned();
    let id = vec![conversation];
    assert_eq!(finds(&c, "penguin").await, id);
    for (new, gone) in [("a flamingo", "penguin"), ("a pelican", "flamingo")] {
        c.patch(&at, json!({"content": new})).await.expect(200);
        assert!(finds(&c, gone).await.is_empty(), "{gone}");
        assert_eq!(finds(&c, new).await, id, "{new}");
    }
    c.delete(&at).await.expect(204);
    assert!(finds(&c, "pelican").await.is_empty());
    assert_eq!(finds(&c, "ostrich stays").await, id, "the others stay");
}

#[tokio::test]
async fn a_renamed_customer_is_found_by_the_new_name_in_all_conversations() {
    let (_account, c) = account_with_client().await;
    let name = customer(&c, "Wombat").await;
    let mut all = BTreeSet::new();
    for _ in 0..3 {
        all.insert(c.conversation_of(&name).await);
    }
    let set = |found: Vec<String>| found.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(set(finds(&c, "wombat").await), all);
    for (new, gone) in [("Numbat", "wombat"), ("Dingo", "numbat")] {
        let at = format!("/v1/customers/{name}");
        c.patch(&at, json!({"name": new})).await.expect(200);
        assert!(finds(&c, gone).await.is_empty(), "{gone}");
        assert_eq!(set(finds(&c, new).await), all, "{new}");
    }
    all.insert(c.conversation_of(&name).await);
    assert_eq!(set(finds(&c, "dingo").await), all);
}

#[tokio::test]
async fn what_a_search_can_not_be_asked_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let conversation = said(&c, &["an okapi"]).await;
    for (query, field) in [
        ("q=", "q"),
        ("q=%20%09", "q"),
        ("q=a%00b", "q"),
        ("q=okapi&q=okapi", "q"),
        (&format!("q=okapi&after={conversation}"), "after"),
        (&format!("q=okapi&before={conversation}"), "before"),
        ("q=okapi&status=open", "status"),
    ] {
        let refused = c.get(&format!("{CONVERSATIONS}?{query}")).await;
        refused.error(400, "invalid_request", field);
    }
    for q in [
        "\"",
        "AND",
        "okapi OR",
        "NEAR(",
        "*",
        "words:okapi",
        "-okapi",
        "🎈",
        "^okapi",
    ] {
        search(&c, q, "").await;
    }
    search(&c, &"okapi ".repeat(300), "").await;
    for q in ["okapi", "oka", " okapi ", "\"okapi\"", "okapi okapi"] {
        assert_eq!(finds(&c, q).await.len(), 1, "{q}");
    }
    let sorted = search(&c, "okapi", "&sort=updated_at&order=asc").await;
    assert_eq!(sorted.total(), 1, "sorted by how well it fits all the same");
}

#[tokio::test]
async fn a_search_knows_everything_after_kill_9() {
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let name = customer(&c, "before").await;
    let first = c.conversation_of(&name).await;
    for (round, priority) in ["high", "low", "high", "low"].into_iter().enumerate() {
        let c = server.with_key(&key);
        let sends = (0..40).map(|n| {
            let (c, first) = (c.clone(), first.clone());
            async move {
                let text = format!("quokka number{round}x{n}end");
                c.message(&first, &text).await.expect(201);
            }
        });
        join_all(sends).await;
        said(&c, &["a quokka elsewhere"]).await;
        let new = format!("name{round}end");
        c.patch(&format!("/v1/customers/{name}"), json!({"name": new}))
            .await
            .expect(200);
        change(&c, &first, json!({"priority": priority})).await;
        server.kill9();
        server.restart();
        let c = server.with_key(&key);
        for n in [0, 17, 39] {
            let q = format!("number{round}x{n}end");
            assert_eq!(finds(&c, &q).await, [first.as_str()], "{q}");
        }
        assert_eq!(finds(&c, &new).await, [first.as_str()]);
        if round > 0 {
            let gone = format!("name{}end", round - 1);
            assert!(finds(&c, &gone).await.is_empty(), "{gone}");
        }
        let now = search(&c, "quokka", &format!("&priority={priority}")).await;
        assert_eq!(found(now), [first.as_str()]);
        let all = search(&c, "quokka", "&limit=1").await;
        assert_eq!(all.total(), round as u64 + 2);
    }
}

#[tokio::test]
async fn a_conversation_of_ten_thousand_messages_is_found_by_any_and_its_index_made_anew() {
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let conversation = c.conversation().await;
    let last = sized(10_000, 300) - 1;
    for from in (0..=last).step_by(100) {
        let message = |n: u64| {
            let body = json!({"content": format!("wombat number{n}end")});
            json!({"op": "message", "conversation_id": conversation, "body": body})
        };
        let operations: Vec<Value> = (from..from + 100).map(message).collect();
        let bulk = json!({"operations": operations});
        c.post("/v1/conversations/bulk", bulk).await.expect(200);
    }
    said(&c, &["a wombat elsewhere"]).await;
    for _ in 0..2 {
        let c = server.with_key(&key);
        until("the index has caught up", AGAIN_WITHIN, async || {
            let asked = c.get(&format!("{CONVERSATIONS}?q=wombat&limit=1")).await;
            (asked.status == 200).then(|| assert_eq!(asked.total(), 2))
        })
        .await;
        for n in [0, last / 2, last] {
            let q = format!("number{n}end");
            assert_eq!(finds(&c, &q).await, [conversation.as_str()], "{q}");
        }
        assert!(server.term().success());
        fs::remove_file(index_of(&server)).unwrap();
        server.restart();
    }
}

#[tokio::test]
async fn thirty_seconds_after_redaction_no_file_holds_the_words() {
    let server = Server::start();
    let c = server.account().await.test();
    let word = |stem: &str| unique(stem).replace('-', "").to_lowercase();
    let (first, second) = (word("firstword"), word("secondword"));
    let conversation = said(&c, &["ordinary"]).await;
    let list = format!("{CONVERSATIONS}/{conversation}/messages");
    let sent = c.post(&list, json!({"content": format!("it was {first}")}));
    let at = sent.await.expect(201).header("location").to_owned();
    assert_eq!(finds(&c, &first).await, [conversation.as_str()]);
    c.patch(&at, json!({"content": format!("now {second}")}))
        .await
        .expect(200);
    assert_eq!(finds(&c, &second).await, [conversation.as_str()]);
    let words = [&first, &second];
    let index = index_of(&server);
    let in_index = |word: &str| {
        let files = [index.clone(), index.with_extension("message-search-wal")];
        files.iter().any(|file| {
            let bytes = fs::read(file).unwrap_or_default();
            bytes
                .windows(word.len())
                .any(|part| part == word.as_bytes())
        })
    };
    assert!(in_index(&second), "the search is blind");
    c.delete(&at).await.expect(204);
    join_all((0..50).map(|n| {
        let (c, conversation) = (c.clone(), conversation.clone());
        async move { c.message(&conversation, &format!("ordinary {n}")).await }
    }))
    .await;
    until(
        "no file holds the redacted words",
        GONE_WITHIN,
        async || {
            let gone = |word: &&String| server.places_with(word).is_empty() && !in_index(word);
            words.iter().all(gone).then_some(())
        },
    )
    .await;
    assert!(
        words
            .iter()
            .all(|word| !server.log().contains(word.as_str()))
    );
}

#[tokio::test]
async fn an_index_that_was_lost_or_damaged_is_made_anew_while_everything_else_goes_on() {
    type Spoil = fn(&std::path::Path);
    let spoils: [(&str, Spoil); 4] = [
        ("it is gone", |path| fs::remove_file(path).unwrap()),
        ("it is empty", |path| fs::write(path, b"").unwrap()),
        ("all of it is garbage", |path| {
            fs::write(path, [0x5a; 200_000]).unwrap()
        }),
        ("all but its first page is garbage", |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[4_096..].fill(0x5a);
            fs::write(path, bytes).unwrap();
        }),
    ];
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let name = customer(&c, "Before").await;
    let conversation = c.conversation_of(&name).await;
    for n in 0..20 {
        let text = format!("numbat number{n}end");
        c.message(&conversation, &text).await.expect(201);
    }
    let sent = c.message(&conversation, "an edited word").await.expect(201);
    let edited = sent.header("location").to_owned();
    c.patch(&edited, json!({"content": "another text"}))
        .await
        .expect(200);
    c.patch(&format!("/v1/customers/{name}"), json!({"name": "Behind"}))
        .await
        .expect(200);
    for (when, spoil) in spoils {
        assert!(server.term().success());
        spoil(&index_of(&server));
        server.restart();
        let c = server.with_key(&key);
        c.message(&conversation, "goes on").await.expect(201);
        for (q, total) in [
            ("numbat", 1),
            ("number7end behind", 1),
            ("another text", 1),
            ("edited", 0),
            ("before", 0),
        ] {
            until(
                &format!("a search answers: {when}"),
                AGAIN_WITHIN,
                async || {
                    let answer = c.get(&format!("{CONVERSATIONS}?q={}", encoded(q))).await;
                    if answer.status == 503 {
                        return None;
                    }
                    assert_eq!(answer.expect(200).total(), total, "{q}: {when}");
                    Some(())
                },
            )
            .await;
        }
    }
}

#[tokio::test]
async fn an_index_that_lags_behind_retention_is_right_all_the_same() {
    let (mut server, clock) =
        Clock::start_as(Setup::default().env("COLLOQUY__EVENTS__RETENTION_DAYS", "0.00002"));
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let conversation = said(&c, &["a numbat"]).await;
    assert_eq!(finds(&c, "numbat").await, [conversation.as_str()]);
    assert!(server.term().success());
    let older = fs::read(index_of(&server)).unwrap();
    server.restart();
    let c = server.with_key(&key);
    let at = format!("{CONVERSATIONS}/{conversation}");
    c.call("POST", &format!("{at}/close")).await.expect(200);
    said(&c, &["a wombat"]).await;
    // What rows hold goes when no answer under a key needs it, a day later.
    clock.ahead(25 * 60);
    until("retention takes the events", AGAIN_WITHIN, async || {
        (c.get("/v1/events?after=0").await.expect(200).total() == 0).then_some(())
    })
    .await;
    assert!(server.term().success());
    fs::write(index_of(&server), older).unwrap();
    server.restart();
    let c = server.with_key(&key);
    until("a search answers", AGAIN_WITHIN, async || {
        let path = format!("{CONVERSATIONS}?q=numbat&status=closed");
        let answer = c.get(&path).await;
        (answer.status == 200).then(|| assert_eq!(answer.total(), 1))
    })
    .await;
    assert_eq!(search(&c, "numbat", "&status=active").await.total(), 0);
    assert_eq!(finds(&c, "wombat").await.len(), 1);
}

#[tokio::test]
async fn switched_off_a_search_is_refused_and_nothing_is_kept_and_switched_on_it_knows_everything()
{
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let before = said(&account.test(), &["a quoll"]).await;
    assert_eq!(finds(&account.test(), "quoll").await, [before.as_str()]);
    assert!(server.term().success());
    server.set_env("COLLOQUY__SEARCH__CONVERSATIONS", "false");
    server.restart();
    let c = server.with_key(&key);
    let refused = c.get(&format!("{CONVERSATIONS}?q=quoll")).await;
    let refused = refused.error(400, "invalid_request", "q");
    assert!(refused.reason().contains("switched off"), "{refused}");
    c.get(&format!("{CONVERSATIONS}?q="))
        .await
        .error(400, "invalid_request", "q");
    let during = said(&c, &["another quoll"]).await;
    assert_eq!(c.get(CONVERSATIONS).await.expect(200).total(), 2);
    assert!(
        !index_of(&server).exists(),
        "what is not followed must not stay"
    );
    c.get("/api/v1/documents?q=quoll").await.expect(200);
    assert!(server.term().success());
    server.set_env("COLLOQUY__SEARCH__CONVERSATIONS", "true");
    server.restart();
    let c = server.with_key(&key);
    until("a search answers", AGAIN_WITHIN, async || {
        let answer = c.get(&format!("{CONVERSATIONS}?q=quoll")).await;
        (answer.status == 200).then_some(())
    })
    .await;
    let all: BTreeSet<String> = finds(&c, "quoll").await.into_iter().collect();
    assert_eq!(all, BTreeSet::from([before, during]));
}

#[tokio::test]
async fn while_the_disk_of_the_index_is_full_messages_go_on_and_then_all_are_found() {
    let folder = Folder::new();
    let small = folder.work().join("small");
    let disk = SmallDisk::mount(&small, 8);
    let data = folder.work().join("data");
    fs::create_dir_all(&data).unwrap();
    let index = data.join("colloquy.db.message-search");
    std::os::unix::fs::symlink(small.join("index"), &index).unwrap();
    let mut server = Setup::default().start_in(folder);
    server.expect_errors();
    let c = server.account().await.test();
    let conversation = said(&c, &["a bilby"]).await;
    assert_eq!(finds(&c, "bilby").await, [conversation.as_str()]);
    let filler = disk.fill();
    let mut sent = 0;
    until("the index can't be written", AGAIN_WITHIN, async || {
        let words: String = (0..4_000).map(|n| format!("w{sent}x{n} ")).collect();
        c.message(&conversation, &words).await.expect(201);
        sent += 1;
        let answer = c.get(&format!("{CONVERSATIONS}?q=bilby")).await;
        (answer.status == 503).then_some(())
    })
    .await;
    c.message(&conversation, "still taken").await.expect(201);
    c.get("/api/v1/documents?q=bilby").await.expect(200);
    fs::remove_file(filler).unwrap();
    until("a search answers again", AGAIN_WITHIN, async || {
        let answer = c.get(&format!("{CONVERSATIONS}?q=still")).await;
        (answer.status == 200).then(|| assert_eq!(answer.total(), 1))
    })
    .await;
    let last = format!("w{}x3999", sent - 1);
    assert_eq!(finds(&c, &last).await, [conversation]);
    server.kill9();
    drop(disk);
}
