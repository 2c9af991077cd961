//! The list of documents: filters, sorting, totals, cursors, `Link`, and that it holds only what
//! one may read.

use serde_json::json;

use crate::support::documents::{DOCUMENTS, id_of};
use crate::support::shapes::{DOCUMENT, assert_shape};
use crate::support::{Answer, Client, account_with_client};

/// Makes documents of these titles, one after the other; gives their ids.
async fn titled(c: &Client, titles: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for title in titles {
        ids.push(
            c.post(DOCUMENTS, json!({"title": title}))
                .await
                .expect(201)
                .id("id"),
        );
    }
    ids
}

async fn list(c: &Client, query: &str) -> Answer {
    c.get(&format!("{DOCUMENTS}?{query}")).await.expect(200)
}

#[tokio::test]
async fn a_list_shows_documents_without_their_contents_newest_first() {
    let (_account, c) = account_with_client().await;
    let empty = c.get(DOCUMENTS).await.expect(200);
    assert_eq!(
        empty.body,
        json!({"data": [], "meta": {"total": 0, "limit": 20, "offset": 0}})
    );
    let first = c.document("one\n").await;
    let second = c.document("two\n").await;
    let all = c.get(DOCUMENTS).await.expect(200);
    assert_eq!(all.column("id"), [id_of(&second), id_of(&first)]);
    assert_eq!(all.total(), 2);
    assert_shape(&all["data"][0], DOCUMENT);
    let mut read = c.get(&second).await.expect(200).body;
    read.as_object_mut().unwrap().remove("content");
    assert_eq!(all["data"][0], read);
    assert!(all.etag().starts_with("W/"), "{all}");
    c.write(&first, "three\n").await;
    let later = c.get(DOCUMENTS).await.expect(200);
    assert_eq!(
        later["data"][1]["version_number"], 2,
        "the list lags behind"
    );
    assert_ne!(later.etag(), all.etag());
}

#[tokio::test]
async fn each_filter_leaves_what_it_says() {
    let (_account, c) = account_with_client().await;
    let (ada, bob) = (c.user("agent").await, c.user("agent").await);
    let plain = json!({"title": "plain", "content_type": "text/plain"});
    let of_ada = c
        .acting_for(&ada)
        .post(DOCUMENTS, plain)
        .await
        .expect(201)
        .id("id");
    let of_bob = c
        .acting_for(&bob)
        .post(DOCUMENTS, json!({"title": "bob's"}))
        .await
        .expect(201)
        .id("id");
    let of_all = c
        .post(DOCUMENTS, json!({"title": "the account's"}))
        .await
        .expect(201)
        .id("id");
    let binned = c.acting_for(&ada).document("bin\n").await;
    c.delete(&binned).await.expect(204);
    let cases = [
        (format!("owner_id={ada}"), vec![&of_ada]),
        (format!("owner_id={bob}"), vec![&of_bob]),
        ("content_type=text/plain".to_owned(), vec![&of_ada]),
        (
            "content_type=text%2Fmarkdown".to_owned(),
            vec![&of_all, &of_bob],
        ),
        (format!("content_type=text/plain&owner_id={bob}"), vec![]),
        ("role=owner".to_owned(), vec![&of_all, &of_bob, &of_ada]),
        ("role=viewer".to_owned(), vec![]),
        ("deleted=false".to_owned(), vec![&of_all, &of_bob, &of_ada]),
        (format!("deleted=true&owner_id={bob}"), vec![]),
    ];
    for (query, expected) in cases {
        let found = list(&c, &query).await;
        assert_eq!(
            (found.column("id").iter().collect::<Vec<_>>(), found.total()),
            (expected.clone(), expected.len() as u64),
            "{query}"
        );
    }
    let bin = list(&c, &format!("deleted=true&owner_id={ada}")).await;
    assert_eq!(bin.column("id"), [id_of(&binned)]);
}

#[tokio::test]
async fn updated_after_excludes_the_instant() {
    let (_account, c) = account_with_client().await;
    let old = c.document("old\n").await;
    let instant = c.get(&old).await.expect(200).id("updated_at");
    let new = crate::support::until(
        "the clock goes on",
        std::time::Duration::from_secs(5),
        async || {
            let at = c.document("new\n").await;
            (c.get(&at).await.id("created_at") > instant).then_some(at)
        },
    )
    .await;
    let found = list(&c, &format!("updated_after={instant}"))
        .await
        .column("id");
    assert!(
        found.contains(&id_of(&new).to_owned()) && !found.contains(&id_of(&old).to_owned()),
        "{found:?}"
    );
    c.write(&old, "changed\n").await;
    let found = list(&c, &format!("updated_after={instant}"))
        .await
        .column("id");
    assert!(found.contains(&id_of(&old).to_owned()), "{found:?}");
}

#[tokio::test]
async fn a_list_holds_and_counts_only_what_one_may_read() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let hidden = c.document("hidden\n").await;
    let mut ids = Vec::new();
    for role in ["viewer", "commenter", "editor"] {
        let at = c.document("shared\n").await;
        c.post(
            &format!("{at}/collaborators"),
            json!({"user_id": user, "role": role}),
        )
        .await
        .expect(201);
        ids.push((role, id_of(&at).to_owned()));
    }
    let mine = c.acting_for(&user);
    let open = c.document("open\n").await;
    c.put(
        &format!("{open}/permissions"),
        json!({"visibility": "account", "default_role": "commenter"}),
    )
    .await
    .expect(200);
    let own = id_of(&mine.document("own\n").await).to_owned();
    let all = list(&mine, "order=asc").await;
    let open_id = id_of(&open).to_owned();
    let expected = [&ids[0].1, &ids[1].1, &ids[2].1, &open_id, &own];
    assert_eq!(
        (all.column("id").iter().collect::<Vec<_>>(), all.total()),
        (expected.to_vec(), 5)
    );
    for (role, expected) in [
        ("viewer", vec![&ids[0].1]),
        ("commenter", vec![&ids[1].1, &open_id]),
        ("editor", vec![&ids[2].1]),
        ("owner", vec![&own]),
    ] {
        let found = list(&mine, &format!("role={role}&order=asc")).await;
        assert_eq!(
            (found.column("id").iter().collect::<Vec<_>>(), found.total()),
            (expected.clone(), expected.len() as u64),
            "{role}"
        );
        assert!(
            found.data().iter().all(|one| one["role"] == role),
            "{found}"
        );
    }
    let page = list(&mine, "limit=2&offset=4").await;
    assert_eq!(
        (page.total(), page.data().len()),
        (5, 1),
        "what is hidden takes no place"
    );
    c.delete(&open).await.expect(204);
    c.delete(&format!("{}/{}/collaborators/{user}", DOCUMENTS, ids[0].1))
        .await
        .expect(204);
    assert_eq!(list(&mine, "").await.total(), 3);
    assert_eq!(list(&mine, "deleted=true&role=owner").await.total(), 0);
    mine.get(&hidden).await.error(404, "not_found", "*");
}

#[tokio::test]
async fn where_a_document_stands_is_told_to_nobody_who_may_not_read_it() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let mine = c.acting_for(&user);
    let hidden = titled(&c, &["Layoff plan"]).await.remove(0);
    let own = titled(&mine, &["Lawn", "Lazy"]).await;
    let at =
        |sort: &str, place: &str| format!("{DOCUMENTS}?sort={sort}&order=asc&{place}={hidden}");
    for sort in ["title", "updated_at"] {
        for place in ["after", "before"] {
            mine.get(&at(sort, place))
                .await
                .error(400, "invalid_request", place);
            c.get(&at(sort, place)).await.expect(200);
        }
    }
    let share = format!("{DOCUMENTS}/{hidden}/collaborators");
    let reader = json!({"user_id": user, "role": "viewer"});
    c.post(&share, reader).await.expect(201);
    let behind = mine.get(&at("title", "after")).await.expect(200);
    assert_eq!(behind.column("id"), own[1..]);
    c.delete(&format!("{share}/{user}")).await.expect(204);
    mine.get(&at("title", "after"))
        .await
        .error(400, "invalid_request", "after");
    // By title one in the bin has its place, by change it has lost it.
    c.delete(&format!("{DOCUMENTS}/{}", own[0]))
        .await
        .expect(204);
    let behind = mine.get(&format!(
        "{DOCUMENTS}?sort=title&order=asc&after={}",
        own[0]
    ));
    assert_eq!(behind.await.expect(200).column("id"), own[1..]);
    let lost = mine.get(&format!("{DOCUMENTS}?sort=updated_at&after={}", own[0]));
    lost.await.error(400, "invalid_request", "after");
    let bin = mine.get(&format!(
        "{DOCUMENTS}?sort=updated_at&deleted=true&after={}",
        own[0]
    ));
    bin.await.expect(200);
}

#[tokio::test]
async fn sorting_by_title_and_by_change_goes_both_ways() {
    let (_account, c) = account_with_client().await;
    let ids = titled(&c, &["beta", "alpha", "gamma"]).await;
    let at = |n: usize| format!("{DOCUMENTS}/{}", ids[n]);
    c.write(&at(0), "changed last but one\n").await;
    c.write(&at(1), "changed last\n").await;
    let titles = async |query: &str| list(&c, query).await.column("title");
    assert_eq!(titles("sort=created_at").await, ["gamma", "alpha", "beta"]);
    assert_eq!(
        titles("sort=created_at&order=asc").await,
        ["beta", "alpha", "gamma"]
    );
    assert_eq!(
        titles("sort=title&order=asc").await,
        ["alpha", "beta", "gamma"]
    );
    assert_eq!(
        titles("sort=title&order=desc").await,
        ["gamma", "beta", "alpha"]
    );
    let changed = list(&c, "sort=updated_at").await;
    let times = changed.column("updated_at");
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "{times:?}");
    assert_eq!(
        list(&c, "sort=updated_at&order=asc")
            .await
            .column("updated_at")
            .first(),
        times.last()
    );
    let page = list(&c, "sort=title&order=asc&limit=1&offset=1").await;
    assert_eq!(
        (page.column("title"), page.total()),
        (vec!["beta".to_owned()], 3)
    );
}

#[tokio::test]
async fn cursors_and_links_lead_through_all_once() {
    let (_account, c) = account_with_client().await;
    let titles: Vec<String> = (0..23).map(|n| format!("{n}")).collect();
    let mut ids = titled(&c, &titles.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for order in ["asc", "desc"] {
        assert_eq!(
            walked(&c, &format!("{DOCUMENTS}?limit=5&order={order}")).await,
            ids,
            "{order}"
        );
        let middle = list(&c, &format!("order={order}&limit=4&after={}", ids[9])).await;
        assert_eq!(
            (middle.column("id"), middle.total()),
            (ids[10..14].to_vec(), 23)
        );
        let back = list(&c, &format!("order={order}&limit=4&before={}", ids[9])).await;
        assert_eq!(back.column("id"), ids[5..9]);
        let through = walked(
            &c,
            &format!("{DOCUMENTS}?order={order}&limit=4&after={}", ids[2]),
        )
        .await;
        assert_eq!(through, ids[3..]);
        ids.reverse();
    }
    // One that was deleted since is still a place in the list.
    c.delete(&format!("{DOCUMENTS}/{}", ids[9]))
        .await
        .expect(204);
    assert_eq!(
        list(&c, &format!("order=asc&limit=4&after={}", ids[9]))
            .await
            .column("id"),
        ids[10..14]
    );
}

/// Follows `next` to the end.
async fn walked(c: &Client, start: &str) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), Some(start.to_owned()));
    while let Some(path) = next {
        let page = c.get(&path).await.expect(200);
        found.extend(page.column("id"));
        next = page.link("next");
        assert!(found.len() <= 1000, "no end: {page}");
    }
    found
}

#[tokio::test]
async fn every_bad_parameter_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let id = id_of(&c.document("one\n").await).to_owned();
    let foreign = id_of(&crate::support::account().await.test().document("x").await).to_owned();
    let cases = [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("offset=-1", "offset"),
        ("order=up", "order"),
        ("sort=size", "sort"),
        ("role=boss", "role"),
        ("content_type=text/css", "content_type"),
        ("updated_after=yesterday", "updated_after"),
        ("deleted=maybe", "deleted"),
        ("owner_id=nobody", "owner_id"),
        ("owner_id=usr_0190163d8694739b85d52d5e4a4d6d5f", "owner_id"),
        ("unknown=1", "unknown"),
        ("after=x", "after"),
        ("limit=1&limit=2", "limit"),
        ("before=doc_", "before"),
    ];
    for (query, field) in cases {
        c.get(&format!("{DOCUMENTS}?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
    c.get(&format!("{DOCUMENTS}?after={foreign}"))
        .await
        .error(400, "invalid_request", "after");
    let both = c.get(&format!("{DOCUMENTS}?after={id}&offset=1")).await;
    both.error(400, "invalid_request", "*");
    assert_eq!(
        list(&c, "limit=100").await["meta"],
        json!({"total": 1, "limit": 100, "offset": 0})
    );
}
