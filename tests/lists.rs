//! Lists: `limit`/`offset`, `after`/`before`, `order`, filters, totals, `Link`.

use std::time::Duration;

use serde_json::json;

use crate::support::{Answer, Client, account, account_with_client};

async fn many(c: &Client, count: usize) -> Vec<String> {
    let customer = c.customer().await;
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(c.conversation_of(&customer).await);
    }
    ids.reverse();
    ids
}

fn ids(page: &Answer) -> Vec<String> {
    page.column("conversation_id")
}

#[tokio::test]
async fn a_list_has_exactly_data_and_meta_with_their_defaults() {
    let (_account, c) = account_with_client().await;
    for path in ["/v1/conversations", "/v1/customers", "/v1/users"] {
        let empty = c.get(path).await.expect(200);
        assert_eq!(
            empty.body,
            json!({"data": [], "meta": {"total": 0, "limit": 20, "offset": 0}}),
            "{path}"
        );
        assert!(
            empty.link("next").is_none() && empty.link("prev").is_none(),
            "{empty}"
        );
    }
}

#[tokio::test]
async fn offset_pages_cover_the_list_newest_first() {
    let (_account, c) = account_with_client().await;
    let expected = many(&c, 25).await;
    let first = c.get("/v1/conversations").await.expect(200);
    assert_eq!((ids(&first), first.total()), (expected[..20].to_vec(), 25));
    let second = c.get("/v1/conversations?offset=20").await.expect(200);
    assert_eq!(ids(&second), expected[20..]);
    assert_eq!(
        second["meta"],
        json!({"total": 25, "limit": 20, "offset": 20})
    );
    let beyond = c.get("/v1/conversations?offset=1000").await.expect(200);
    assert_eq!((ids(&beyond).len(), beyond.total()), (0, 25));
    let ascending = c
        .get("/v1/conversations?order=asc&limit=100")
        .await
        .expect(200);
    let mut oldest_first = expected.clone();
    oldest_first.reverse();
    assert_eq!(ids(&ascending), oldest_first);
}

async fn follow(c: &Client, start: &str, relation: &str) -> (Vec<String>, String) {
    let (mut seen, mut path) = (Vec::new(), start.to_owned());
    for _ in 0..50 {
        let page = c.get(&path).await.expect(200);
        seen.push(ids(&page));
        match page.link(relation) {
            Some(next) => path = next,
            None => break,
        }
    }
    if relation == "prev" {
        seen.reverse();
    }
    (seen.concat(), path)
}

#[tokio::test]
async fn links_lead_through_the_whole_list_and_back() {
    let (_account, c) = account_with_client().await;
    let expected = many(&c, 23).await;
    let last = expected.last().unwrap();
    for start in [
        "/v1/conversations?limit=5".to_owned(),
        format!("/v1/conversations?limit=5&before={last}&order=desc"),
    ] {
        if start.contains("before") {
            let (seen, _) = follow(&c, &start, "prev").await;
            assert_eq!(seen, expected[..22], "all that stands before the last");
        } else {
            let (seen, end) = follow(&c, &start, "next").await;
            assert_eq!(seen, expected);
            assert_eq!(follow(&c, &end, "prev").await.0, expected);
        }
    }
    let (seen, _) = follow(
        &c,
        &format!("/v1/conversations?limit=5&after={}", expected[2]),
        "next",
    )
    .await;
    assert_eq!(seen, expected[3..]);
}

#[tokio::test]
async fn links_keep_the_filters() {
    let (_account, c) = account_with_client().await;
    let expected = many(&c, 6).await;
    for id in &expected[..3] {
        c.patch(
            &format!("/v1/conversations/{id}"),
            json!({"priority": "high"}),
        )
        .await
        .expect(200);
    }
    let (seen, _) = follow(&c, "/v1/conversations?priority=high&limit=2", "next").await;
    assert_eq!(seen, expected[..3]);
}

#[tokio::test]
async fn after_and_before_give_what_stands_next_to_an_id() {
    let (_account, c) = account_with_client().await;
    let expected = many(&c, 10).await;
    for (query, range) in [
        (format!("after={}&limit=3", expected[4]), 5..8),
        (format!("before={}&limit=3", expected[4]), 1..4),
        (format!("before={}", expected[0]), 0..0),
        (format!("after={}", expected[9]), 10..10),
    ] {
        let page = c
            .get(&format!("/v1/conversations?{query}"))
            .await
            .expect(200);
        assert_eq!(ids(&page), expected[range], "{query}");
        assert_eq!(
            (&page["meta"]["offset"], page.total()),
            (&json!(0), 10),
            "{query}"
        );
    }
    let ascending = c
        .get(&format!(
            "/v1/conversations?order=asc&limit=2&after={}",
            expected[4]
        ))
        .await
        .expect(200);
    assert_eq!(ids(&ascending), [expected[3].clone(), expected[2].clone()]);
}

#[tokio::test]
async fn cursor_pages_neither_skip_nor_repeat_while_the_list_grows() {
    let (_account, c) = account_with_client().await;
    let expected = many(&c, 12).await;
    let first = c.get("/v1/conversations?limit=4").await.expect(200);
    many(&c, 3).await;
    let last = ids(&first)[3].clone();
    let second = c
        .get(&format!("/v1/conversations?limit=4&after={last}"))
        .await
        .expect(200);
    assert_eq!(ids(&second), expected[4..8]);
}

#[tokio::test]
async fn messages_have_the_same_cursors_oldest_first() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let mut sent = Vec::new();
    for n in 0..6 {
        sent.push(
            c.message(&conversation, &format!("n {n}"))
                .await
                .id("message_id"),
        );
    }
    let list = format!("/v1/conversations/{conversation}/messages");
    let after = c
        .get(&format!("{list}?after={}&limit=2", sent[1]))
        .await
        .expect(200);
    assert_eq!(after.column("message_id"), sent[2..4]);
    let before = c
        .get(&format!("{list}?before={}&limit=2", sent[4]))
        .await
        .expect(200);
    assert_eq!(before.column("message_id"), sent[2..4]);
    let newest = c
        .get(&format!("{list}?order=desc&limit=2"))
        .await
        .expect(200);
    assert_eq!(
        newest.column("message_id"),
        [sent[5].clone(), sent[4].clone()]
    );
}

#[tokio::test]
async fn bad_paging_is_refused_naming_the_parameter() {
    let (_account, c) = account_with_client().await;
    let cursor = many(&c, 1).await.remove(0);
    let customer = c.customer().await;
    let huge = "99999999999999999999999999";
    for (query, field) in [
        ("limit=0".to_owned(), "limit"),
        ("limit=101".to_owned(), "limit"),
        ("limit=-1".to_owned(), "limit"),
        ("limit=ten".to_owned(), "limit"),
        ("limit=".to_owned(), "limit"),
        ("limit=1.5".to_owned(), "limit"),
        (format!("limit={huge}"), "limit"),
        ("offset=-1".to_owned(), "offset"),
        (format!("offset={huge}"), "offset"),
        ("order=up".to_owned(), "order"),
        ("sort=name".to_owned(), "sort"),
        ("page=2".to_owned(), "page"),
        ("limit=5&limit=6".to_owned(), "limit"),
        ("after=nonsense".to_owned(), "after"),
        (format!("before={customer}"), "before"),
    ] {
        c.get(&format!("/v1/conversations?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
    for query in [
        format!("after={cursor}&offset=1"),
        format!("sort=updated_at&after={cursor}"),
    ] {
        c.get(&format!("/v1/conversations?{query}"))
            .await
            .expect(400);
    }
    for query in ["limit=1", "limit=100", "offset=0"] {
        c.get(&format!("/v1/conversations?{query}"))
            .await
            .expect(200);
    }
}

#[tokio::test]
async fn bad_filters_are_refused_naming_the_parameter() {
    let (_account, c) = account_with_client().await;
    for (query, field) in [
        ("status=open", "status"),
        ("status=", "status"),
        ("channel=fax", "channel"),
        ("priority=urgent", "priority"),
        ("customer_id=cus_1", "customer_id"),
        (
            "customer_id=cus_0190163d8694739b85d52d5e4a4d6d5f",
            "customer_id",
        ),
        (
            "assignee_id=usr_0190163d8694739b85d52d5e4a4d6d5f",
            "assignee_id",
        ),
        ("created_after=yesterday", "created_after"),
        ("created_before=2026-13-01T00:00:00.000Z", "created_before"),
        ("status=active&status=closed", "status"),
        ("colour=red", "colour"),
    ] {
        c.get(&format!("/v1/conversations?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
}

#[tokio::test]
async fn totals_are_exact_for_every_filter_while_states_change() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let all = many(&c, 12).await;
    for (n, id) in all.iter().enumerate() {
        let status = ["active", "pending", "closed"][n % 3];
        let channel = ["chat", "email"][n % 2];
        let assignee = if n % 4 == 0 { json!(user) } else { json!(null) };
        let body = json!({"status": status, "channel": channel, "assignee_id": assignee});
        c.patch(&format!("/v1/conversations/{id}"), body)
            .await
            .expect(200);
    }
    for (query, total) in [
        ("status=active".to_owned(), 4),
        ("status=closed".to_owned(), 4),
        ("channel=email".to_owned(), 6),
        ("channel=email&status=pending".to_owned(), 2),
        (format!("assignee_id={user}"), 3),
        (format!("assignee_id={user}&status=active"), 1),
        ("priority=normal".to_owned(), 12),
        ("channel=chat&priority=normal&status=closed".to_owned(), 2),
        ("channel=voice".to_owned(), 0),
    ] {
        let page = c
            .get(&format!("/v1/conversations?{query}&limit=1"))
            .await
            .expect(200);
        assert_eq!(page.total(), total, "{query}");
        let page = c
            .get(&format!("/v1/conversations?{query}&limit=100"))
            .await
            .expect(200);
        assert_eq!(page.data().len() as u64, total, "{query}");
    }
}

#[tokio::test]
async fn created_filters_exclude_the_instant() {
    let (_account, c) = account_with_client().await;
    let id = many(&c, 1).await.remove(0);
    let created = c
        .get(&format!("/v1/conversations/{id}"))
        .await
        .expect(200)
        .id("created_at");
    for (query, total) in [
        (format!("created_after={created}"), 0),
        (format!("created_before={created}"), 0),
        ("created_after=2020-01-01T00:00:00.000Z".to_owned(), 1),
        ("created_before=2020-01-01T00:00:00Z".to_owned(), 0),
    ] {
        assert_eq!(
            c.get(&format!("/v1/conversations?{query}"))
                .await
                .expect(200)
                .total(),
            total,
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_cursor_beyond_what_is_filtered_lets_in_nothing_more() {
    let (_account, c) = account_with_client().await;
    let mut all = Vec::new();
    for _ in 0..6 {
        all.extend(many(&c, 1).await);
        // Each in a millisecond of its own.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let third = c.get(&format!("/v1/conversations/{}", all[2])).await;
    let third = third.expect(200).id("created_at");
    let (first, last) = (&all[0], &all[5]);
    for (query, expected) in [
        (format!("created_before={third}&after={last}"), [1, 0]),
        (
            format!("created_before={third}&order=asc&before={last}"),
            [0, 1],
        ),
        (
            format!("created_after={third}&limit=2&before={first}"),
            [4, 3],
        ),
        (
            format!("created_after={third}&limit=2&order=asc&after={first}"),
            [3, 4],
        ),
    ] {
        let page = c.get(&format!("/v1/conversations?{query}")).await;
        let expected = expected.map(|place: usize| all[place].clone());
        assert_eq!(ids(&page.expect(200)), expected, "{query}");
    }
}

#[tokio::test]
async fn sorted_by_updated_at_the_last_touched_stands_first() {
    let (_account, c) = account_with_client().await;
    let all = many(&c, 4).await;
    c.message(&all[2], "bump").await;
    let sorted = c.get("/v1/conversations?sort=updated_at").await.expect(200);
    let times = sorted.column("updated_at");
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    c.patch(
        &format!("/v1/conversations/{}", all[3]),
        json!({"priority": "low"}),
    )
    .await
    .expect(200);
    let sorted = c
        .get("/v1/conversations?sort=updated_at&limit=1")
        .await
        .expect(200);
    assert_eq!(ids(&sorted), [all[3].clone()]);
}

#[tokio::test]
async fn a_list_shows_everything_that_was_acknowledged_before_it_was_asked() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    for total in 1..=30 {
        let made = c.conversation_of(&customer).await;
        let page = c
            .get(&format!("/v1/conversations?customer_id={customer}&limit=1"))
            .await
            .expect(200);
        assert_eq!((page.total(), ids(&page)), (total, vec![made]));
    }
}

#[tokio::test]
async fn a_cursor_that_is_no_id_of_the_list_is_refused() {
    let account = account().await;
    let (c, live) = (account.test(), account.live());
    let customer = c.customer().await;
    let first = c.conversation_of(&customer).await;
    let second = c.conversation_of(&customer).await;
    let sent = c
        .post(
            &format!("/v1/conversations/{first}/messages"),
            json!({"content": "x"}),
        )
        .await
        .expect(201);
    let message = sent.body["message_id"].as_str().unwrap().to_owned();
    for parameter in ["after", "before"] {
        let list = format!("/v1/conversations/{second}/messages?{parameter}={message}");
        c.get(&list).await.error(400, "invalid_request", parameter);
        let list = format!("/v1/conversations?{parameter}={first}");
        live.get(&list)
            .await
            .error(400, "invalid_request", parameter);
        c.get(&list).await.expect(200);
    }
}

#[tokio::test]
async fn an_instant_between_two_milliseconds_excludes_only_itself() {
    let account = account().await;
    let c = account.test();
    let customer = c.customer().await;
    let made = c
        .post("/v1/conversations", json!({"customer_id": customer}))
        .await
        .expect(201);
    let at = made.body["created_at"]
        .as_str()
        .unwrap()
        .trim_end_matches('Z')
        .to_owned();
    let total = |filter: String| {
        let c = &c;
        async move {
            c.get(&format!("/v1/conversations?{filter}"))
                .await
                .expect(200)
                .body["meta"]["total"]
                .clone()
        }
    };
    assert_eq!(total(format!("created_before={at}500Z")).await, 1);
    assert_eq!(total(format!("created_before={at}Z")).await, 0);
    assert_eq!(total(format!("created_after={at}500Z")).await, 0);
}

#[tokio::test]
async fn beyond_the_end_prev_leads_to_the_last_page_that_has_something() {
    let (_account, c) = account_with_client().await;
    for _ in 0..5 {
        c.customer().await;
    }
    let beyond = c.get("/v1/customers?limit=2&offset=1000").await.expect(200);
    assert!(
        beyond.data().is_empty() && beyond.link("next").is_none(),
        "{beyond}"
    );
    let last = c.get(&beyond.link("prev").unwrap()).await.expect(200);
    assert_eq!(
        (last.data().len(), &last["meta"]["offset"]),
        (2, &json!(3)),
        "{last}"
    );
}

#[tokio::test]
async fn an_offset_is_at_most_what_the_document_says() {
    let (account, c) = account_with_client().await;
    let document = account.anonymous().get("/openapi.json").await.expect(200);
    let parameters = document["paths"]["/v1/customers"]["get"]["parameters"]
        .as_array()
        .unwrap();
    let offset = parameters
        .iter()
        .find(|parameter| parameter["name"] == "offset")
        .unwrap();
    let most = offset["schema"]["maximum"].as_u64().unwrap();
    assert_eq!(most, 9_007_199_254_740_991);
    c.get(&format!("/v1/customers?offset={most}"))
        .await
        .expect(200);
    for beyond in [
        format!("{}", most + 1),
        u64::MAX.to_string(),
        "9".repeat(30),
    ] {
        c.get(&format!("/v1/customers?offset={beyond}"))
            .await
            .error(400, "invalid_request", "offset");
    }
}

#[tokio::test]
async fn empty_elements_of_a_list_of_tags_are_ignored() {
    let (_account, c) = account_with_client().await;
    let path = format!("/v1/customers/{}", c.customer().await);
    let etag = c.get(&path).await.expect(200).etag();
    c.get(&path)
        .with("if-none-match", &format!("\"x\",,{etag}"))
        .await
        .expect(304);
    let patch = || c.patch(&path, json!({"name": "Grace Hopper"}));
    patch()
        .with("if-match", "\"x\",, \"y\" ,")
        .await
        .error(412, "precondition_failed", "*");
    patch()
        .with("if-match", ",")
        .await
        .error(400, "invalid_request", "If-Match");
    patch()
        .with("if-match", &format!(", \"x\",,{etag}"))
        .await
        .expect(200);
}
