//! The console's pages of documents, by forms alone: what is posted is what the interface shows
//! afterwards, nothing that was written is lost, and what others wrote never becomes markup.

use serde_json::{Value, json};

use crate::support::account;
use crate::support::console::{Person, Seen};
use crate::support::documents::{DOCUMENTS, id_of};

/// What stands between two marks, the first time.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let rest = text.split_once(before);
    let (_, rest) = rest.unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split_once(after).unwrap().0
}

/// The value of a hidden field.
fn hidden(page: &str, name: &str) -> String {
    let before = format!("type=\"hidden\" name=\"{name}\" value=\"");
    between(page, &before, "\"").to_owned()
}

/// What the form for editing holds, with these fields filled in anew.
async fn save(person: &Person, here: &str, page: &str, typed: &[(&str, &str)]) -> Seen {
    let names = [
        "branch",
        "base",
        "tip",
        "etag",
        "was_title",
        "was_content_type",
    ];
    let held = names.map(|name| (name, hidden(page, name)));
    let mut fields: Vec<(&str, &str)> = held
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .filter(|(name, _)| typed.iter().all(|(typed, _)| typed != name))
        .collect();
    for (name, was) in [("title", "was_title"), ("content_type", "was_content_type")] {
        let value = held.iter().find(|(held, _)| *held == was).unwrap();
        if typed.iter().all(|(typed, _)| *typed != name) {
            fields.push((name, &value.1));
        }
    }
    fields.extend_from_slice(typed);
    person.post(&format!("{here}/edit"), &fields).await
}

/// The page of a document.
fn here(at: &str) -> String {
    format!("/console/documents/{}", id_of(at))
}

#[tokio::test]
async fn a_document_is_made_found_edited_and_deleted() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    assert!(
        person
            .page("/console/documents")
            .await
            .contains("No documents yet")
    );
    let made = person
        .post(
            "/console/documents",
            &[
                ("title", "Guide"),
                ("content", "# One\r\n\r\ntwo\r\n"),
                ("content_type", "text/markdown"),
            ],
        )
        .await
        .expect(303);
    let here = made.location().to_owned();
    let at = format!("{DOCUMENTS}/{}", id_of(&here));
    assert_eq!(api.text(&at).await, "# One\n\ntwo\n");
    let page = person.page(&here).await;
    assert!(page.contains("<h2 id=\"text-one\">One</h2>"), "{page}");
    assert!(person.page("/console/documents").await.contains(&here));
}

#[tokio::test]
async fn an_edit_makes_a_version_with_its_words_and_an_older_one_comes_back() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("# One\n\ntwo\n").await;
    let here = here(&at);
    let form = person.page(&format!("{here}/edit")).await;
    let typed = [
        ("title", "Handbook"),
        ("content", "# Two\n"),
        ("message", "Shorter"),
        ("label", "v2"),
    ];
    save(&person, &here, &form, &typed).await.expect(303);
    let document = api.get(&at).await.expect(200);
    assert_eq!(
        (
            &document["title"],
            &document["content"],
            &document["version_number"]
        ),
        (&json!("Handbook"), &json!("# Two\n"), &json!(2))
    );
    let version = api.get(&format!("{at}/versions/v2")).await.expect(200);
    assert_eq!(version["message"], "Shorter");
    let old = person.page(&format!("{here}?version=1")).await;
    assert!(old.contains(">One</h2>"), "{old}");
    person
        .post(&format!("{here}/versions/1/restore"), &[])
        .await
        .expect(303);
    assert_eq!(api.text(&at).await, "# One\n\ntwo\n");
}

#[tokio::test]
async fn a_document_goes_to_the_bin_and_comes_back() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let refused = person
        .post("/console/documents", &[("title", ""), ("content", "kept")])
        .await
        .expect(422);
    assert!(refused.text.contains("kept"), "{}", refused.text);

    person
        .post(&format!("{here}/delete"), &[])
        .await
        .expect(303);
    api.get(&at).await.expect(404);
    let bin = person.page("/console/documents?bin=true").await;
    assert!(bin.contains(&format!("{here}/restore")), "{bin}");
    person
        .post(&format!("{here}/restore"), &[])
        .await
        .expect(303);
    api.get(&at).await.expect(200);
    person
        .post(&format!("{here}/delete"), &[])
        .await
        .expect(303);
    person
        .post(&format!("{here}/erase"), &[("from", "bin")])
        .await
        .expect(303);
    api.post(&format!("{at}/restore"), json!({}))
        .await
        .expect(404);
}

#[tokio::test]
async fn only_what_is_in_the_bin_is_deleted_for_good_there_and_in_one_step() {
    let account = account().await;
    let (person, viewer) = (
        Person::user(&account, "admin").await,
        Person::user(&account, "agent").await,
    );
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let everybody = json!({"visibility": "account"});
    api.put(&format!("{at}/permissions"), everybody)
        .await
        .expect(200);
    let from_bin = [("from", "bin")];
    let erase = format!("{here}/erase");
    person.post(&erase, &from_bin).await.expect(404);
    assert_eq!(api.text(&at).await, "1\n", "it was not in the bin");
    person
        .post(&format!("{here}/delete"), &[])
        .await
        .expect(303);
    viewer.post(&erase, &from_bin).await.expect(403);
    let gone = person.post(&erase, &from_bin).await.expect(303);
    assert_eq!(gone.location(), "/console/documents?bin=true");
    api.post(&format!("{at}/restore"), json!({}))
        .await
        .expect(404);
    let told = |event: &str| format!("/v1/events?after=0&event=document.{event}");
    let restored = api.get(&told("restored")).await.expect(200);
    assert_eq!(restored.total(), 0, "it never came back: {restored}");
    let deleted = api.get(&told("deleted")).await.expect(200);
    assert_eq!(deleted.total(), 2, "to the bin, and for good: {deleted}");
}

#[tokio::test]
async fn lines_that_were_not_changed_keep_their_ends() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let mixed = "one\r\ntwo\nthree\r\n\rfour\nfive";
    let at = api.document(mixed).await;
    let here = here(&at);
    let form = person.page(&format!("{here}/edit")).await;
    // As a browser sends what its field holds.
    let untouched = "one\r\ntwo\r\nthree\r\n\r\nfour\r\nfive";
    for fields in [
        vec![("content", untouched)],
        vec![("content", untouched), ("title", "Named")],
    ] {
        save(&person, &here, &form, &fields).await.expect(303);
        let now = api.get(&at).await.expect(200);
        assert_eq!(
            (&now["version_number"], &now["content"]),
            (&json!(1), &json!(mixed)),
            "no word was changed"
        );
    }
    let form = person.page(&format!("{here}/edit")).await;
    let changed = "zero\r\none\r\n2\r\nthree\r\n\r\nfour\r\nfive\r\nsix\r\n";
    save(&person, &here, &form, &[("content", changed)])
        .await
        .expect(303);
    assert_eq!(
        api.text(&at).await,
        "zero\r\none\r\n2\nthree\r\n\rfour\nfive\nsix\n"
    );
}

#[tokio::test]
async fn a_base_that_no_page_has_named_is_refused_with_the_text_kept() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let others = api.document("2\n").await;
    let foreign = api.head(&others).await;
    let form = person.page(&format!("{here}/edit")).await;
    for base in [
        "",
        "head",
        "main",
        "1",
        "nonsense",
        "../../x",
        "ver_0190163d8694739b85d52d5e4a4d6d5f",
        &foreign,
    ] {
        let fields = [("base", base), ("content", "an hour of work\n")];
        let refused = save(&person, &here, &form, &fields).await.expect(422).text;
        assert!(
            refused.contains("an hour of work")
                && refused.contains("<code>base</code> must be the version that the page was made"),
            "{base:?}: {refused}"
        );
    }
    assert_eq!(api.text(&at).await, "1\n");
    let comments = format!("{here}/comments");
    for version in ["nonsense", &foreign] {
        let fields = [
            ("version", version),
            ("start_line", "1"),
            ("body", "kept words"),
        ];
        let refused = person.post(&comments, &fields).await.expect(422).text;
        assert!(
            refused.contains("<code>version</code>") && refused.contains("kept words"),
            "{version:?}: {refused}"
        );
    }
}

#[tokio::test]
async fn what_is_searched_for_is_found() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let at = person.api(&account).document("nothing but quinces\n").await;
    let path = "/console/documents?q=quinces";
    crate::support::until(
        "the search knows it",
        std::time::Duration::from_secs(20),
        async || person.page(path).await.contains(&here(&at)).then_some(()),
    )
    .await;
    let none = person.page("/console/documents?q=pomegranate").await;
    assert!(none.contains("Nothing found"), "{none}");
}

#[tokio::test]
async fn a_lost_update_keeps_the_text_and_shows_what_happened() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n2\n3\n").await;
    let here = here(&at);
    let form = person.page(&format!("{here}/edit")).await;
    api.version(
        &at,
        json!({"content": "one\n2\n3\n", "message": "From elsewhere"}),
    )
    .await;
    let lost = save(&person, &here, &form, &[("content", "1\n2\nthree\n")])
        .await
        .expect(422);
    let lost = lost.text;
    assert!(
        lost.contains("1\n2\nthree\n") && lost.contains("From elsewhere"),
        "{lost}"
    );
    assert_eq!(
        api.text(&at).await,
        "one\n2\n3\n",
        "nothing is saved unasked"
    );

    let mine = [("content", "1\n2\nthree\n"), ("go_on", "apart")];
    let kept = save(&person, &here, &lost, &mine).await.expect(303);
    let merge = person.page(kept.location()).await;
    assert!(merge.contains("merges without conflicts"), "{merge}");
    let sides = [
        ("source", hidden(&merge, "source")),
        ("target", hidden(&merge, "target")),
    ];
    let sides = sides
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    person
        .post(&format!("{here}/merge"), &sides)
        .await
        .expect(303);
    assert_eq!(api.text(&at).await, "one\n2\nthree\n");

    let on_top = save(&person, &here, &lost, &[("content", "mine\n")]).await;
    on_top.expect(422);
}

#[tokio::test]
async fn a_title_that_was_changed_meanwhile_stays() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let form = person.page(&format!("{here}/edit")).await;
    api.put(&at, json!({"title": "Their title"}))
        .await
        .expect(200);
    let lost = save(&person, &here, &form, &[("content", "mine\n")])
        .await
        .expect(422)
        .text;
    assert!(lost.contains("Their title"), "{lost}");
    save(&person, &here, &lost, &[("content", "mine\n")])
        .await
        .expect(303);
    let now = api.get(&at).await.expect(200);
    assert_eq!(
        (&now["title"], &now["content"]),
        (&json!("Their title"), &json!("mine\n"))
    );
}

#[tokio::test]
async fn a_branch_that_has_moved_on_keeps_the_text_too() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let form = person.page(&format!("{here}/edit")).await;
    let apart = [("content", "side\n"), ("new_branch", "side")];
    save(&person, &here, &form, &apart).await.expect(303);
    assert_eq!(api.text(&at).await, "1\n", "the head is left alone");
    let form = person.page(&format!("{here}/edit?branch=side")).await;
    api.branch(&at, "side", "theirs\n").await;
    let mine = [
        ("content", "mine\n"),
        ("title", ""),
        ("content_type", "text/markdown"),
    ];
    let lost = save(&person, &here, &form, &mine).await.expect(422).text;
    assert!(
        lost.contains("mine\n") && lost.contains("Somebody else has saved"),
        "{lost}"
    );
    save(&person, &here, &lost, &mine).await.expect(303);
    let tip = api.get(&format!("{at}/versions/side")).await.expect(200);
    assert_eq!(
        (&tip["content"], &tip["number"]),
        (&json!("mine\n"), &json!(4))
    );
}

#[tokio::test]
async fn what_stands_in_a_conflicts_place_keeps_the_line_ends_of_its_sides() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let of = |first: &str, last: &str| format!("{first}1\r\n2\r\n3\r\n4\r\n5\r\n{last}");
    let at = api.document(&of("a\r\n", "b\r\n")).await;
    api.branch(&at, "side", &of("a2\r\n", "")).await;
    api.write(&at, &of("a1\n", "b1\r\n")).await;
    let here = here(&at);
    let merge = person
        .page(&format!("{here}/merge?source=side&target=main"))
        .await;
    assert!(merge.contains("Conflict 2 of 2"), "{merge}");
    let ids = ["source", "target"].map(|name| (name, hidden(&merge, name)));
    let mut fields = vec![
        ("source_name", "side"),
        ("target_name", "main"),
        ("choice-0", "edited"),
        ("text-0", "a1\r\na2\r\n"),
        ("choice-1", "edited"),
        ("text-1", "b1\r\n"),
    ];
    fields.extend(ids.iter().map(|(name, value)| (*name, value.as_str())));
    let path = format!("{here}/merge");
    person.post(&path, &fields).await.expect(303);
    assert_eq!(api.text(&at).await, of("a1\na2\r\n", "b1\r\n"));
}

#[tokio::test]
async fn conflicts_are_decided_one_by_one() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let of = |letters: [&str; 4]| letters.map(|it| format!("{it}\n1\n2\n3\n4\n5\n")).concat();
    let at = api.document(&of(["a", "b", "c", "d"])).await;
    api.branch(&at, "side", &of(["a2", "b2", "c2", "d2"])).await;
    api.write(&at, &of(["a1", "b1", "c1", "d1"])).await;
    let here = here(&at);
    let merge = person
        .page(&format!("{here}/merge?source=side&target=main"))
        .await;
    assert!(merge.contains("Conflict 4 of 4"), "{merge}");
    let ids = [
        ("source", hidden(&merge, "source")),
        ("target", hidden(&merge, "target")),
    ];
    let mut fields = vec![
        ("source_name", "side"),
        ("target_name", "main"),
        ("choice-0", "ours"),
        ("choice-1", "theirs"),
        ("choice-2", "both"),
        ("message", "Together"),
    ];
    fields.extend(ids.iter().map(|(name, value)| (*name, value.as_str())));
    let path = format!("{here}/merge");
    let open = person.post(&path, &fields).await.expect(422).text;
    assert!(open.contains("conflict 4 is not decided yet"), "{open}");
    fields.extend([("choice-3", "edited"), ("text-3", "words of my own")]);
    api.write(&at, &of(["a1", "b1", "c1", "d1x"])).await;
    let stale = person.post(&path, &fields).await.expect(422).text;
    assert!(stale.contains("somebody has saved meanwhile"), "{stale}");
    assert!(stale.contains("words of my own"), "{stale}");
    let target = hidden(&stale, "target");
    fields.retain(|(name, _)| *name != "target");
    fields.push(("target", &target));
    person.post(&path, &fields).await.expect(303);
    let merged = of(["a1", "b2", "c1\nc2", "words of my own"]);
    assert_eq!(api.text(&at).await, merged);
    let head = api.get(&format!("{at}/versions/head")).await.expect(200);
    assert_eq!(head["parents"].as_array().unwrap().len(), 2);
    assert_eq!(head["message"], "Together");
    let again = person.page(&format!("{here}/merge?source=side")).await;
    assert!(again.contains("already contains"), "{again}");
    let history = person.page(&format!("{here}/history")).await;
    assert!(
        history.contains("<svg class=\"graph\"") && history.contains("merges version 2"),
        "{history}"
    );
}

#[tokio::test]
async fn versions_stand_side_by_side_with_their_words_marked() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("the <b>quick</b> fox\nsame\n").await;
    api.write(&at, "the <b>slow</b> fox\nsame\n").await;
    let here = here(&at);
    let page = person.page(&format!("{here}/compare?from=1&to=2")).await;
    assert!(
        page.contains("the &lt;b&gt;<del>quick</del>&lt;/b&gt; fox"),
        "{page}"
    );
    assert!(page.contains("<ins>slow</ins>"), "{page}");
    let unknown = person.page(&format!("{here}/compare?from=99&to=2")).await;
    assert!(unknown.contains("class=\"notice wrong\""), "{unknown}");
    let patch = person
        .page(&format!("{here}/raw?patch=true&from=1&to=2"))
        .await;
    assert!(patch.contains("-the <b>quick</b> fox"), "{patch}");
}

#[tokio::test]
async fn comments_stand_at_their_lines() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n2\n3\n").await;
    let comments = format!("{}/comments", here(&at));
    let said = [
        ("start_line", "2"),
        ("end_line", "3"),
        ("body", "Why <i>this</i>?"),
    ];
    person.post(&comments, &said).await.expect(303);
    let list = api.get(&format!("{at}/comments")).await.expect(200);
    let comment = list.data()[0].clone();
    assert_eq!(
        (&comment["start_line"], &comment["end_line"]),
        (&json!(2), &json!(3))
    );
    let page = person.page(&comments).await;
    let line = between(&page, "<li id=\"L3\">", "</li>");
    assert!(line.contains("Why &lt;i&gt;this&lt;/i&gt;?"), "{page}");
    let beyond = [("start_line", "9"), ("body", "kept words")];
    let refused = person.post(&comments, &beyond).await.expect(422).text;
    assert!(
        refused.contains("kept words") && refused.contains("p class=\"wrong\""),
        "{refused}"
    );

    let one = format!("{comments}/{}", comment["comment_id"].as_str().unwrap());
    person.post(&one, &[("body", "Changed")]).await.expect(303);
    person.post(&one, &[("resolved", "true")]).await.expect(303);
    let list = api.get(&format!("{at}/comments")).await.expect(200);
    assert_eq!(
        (&list.data()[0]["body"], &list.data()[0]["resolved"]),
        (&json!("Changed"), &json!(true))
    );
    assert!(
        !person.page(&comments).await.contains("Changed"),
        "it is settled"
    );
    api.write(&at, "1\nother\n").await;
    let page = person.page(&format!("{comments}?resolved=true")).await;
    assert!(
        page.contains("outdated") && page.contains("Changed"),
        "{page}"
    );
    person.post(&format!("{one}/delete"), &[]).await.expect(303);
    assert_eq!(
        api.get(&format!("{at}/comments")).await.expect(200).total(),
        0
    );
}

#[tokio::test]
async fn links_are_made_shown_once_and_revoked() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let sharing = format!("{here}/sharing");
    let asked = [
        ("role", "viewer"),
        ("max_uses", "2"),
        ("expires_at", "2099-01-01T00:00"),
        ("password", "open sesame please"),
    ];
    let shown = person
        .post(&format!("{sharing}/links"), &asked)
        .await
        .expect(200)
        .text;
    let url = between(&shown, "readonly value=\"", "\"");
    let link = &url[url.find("/s/").unwrap()..];
    account.anonymous().get(link).await.expect(401);
    account
        .anonymous()
        .get(link)
        .with("x-share-password", "open sesame please")
        .with("accept", "application/json")
        .await
        .expect(200);
    let share = api.get(&format!("{at}/share")).await.expect(200).data()[0].clone();
    assert_eq!(
        (&share["max_uses"], &share["has_password"]),
        (&json!(2), &json!(true))
    );
    let id = share["share_id"].as_str().unwrap();
    assert!(
        !person.page(&sharing).await.contains(link),
        "it is shown once"
    );
    person
        .post(&format!("{sharing}/links/{id}/revoke"), &[])
        .await
        .expect(303);
    account.anonymous().get(link).await.expect(404);
    let bad = [("role", "viewer"), ("max_uses", "0")];
    let bad = person
        .post(&format!("{sharing}/links"), &bad)
        .await
        .expect(422)
        .text;
    assert!(bad.contains("wrong-max_uses"), "{bad}");
}

#[tokio::test]
async fn roles_are_given_changed_and_handed_on() {
    let account = account().await;
    let (person, other) = (
        Person::user(&account, "admin").await,
        Person::user(&account, "agent").await,
    );
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let sharing = format!("{here}/sharing");
    other.get(&here).await.expect(404);
    let email = account
        .live()
        .get(&format!("/v1/users/{}", other.user))
        .await
        .expect(200);
    let email = email["email"].as_str().unwrap().to_owned();
    person
        .post(
            &format!("{sharing}/people"),
            &[("email", &email), ("role", "viewer")],
        )
        .await
        .expect(303);
    let page = other.page(&here).await;
    assert!(
        !page.contains(&format!("{here}/edit")) && !page.contains("Delete for good"),
        "{page}"
    );
    person
        .post(
            &format!("{sharing}/people/{}", other.user),
            &[("role", "editor")],
        )
        .await
        .expect(303);
    assert!(other.page(&here).await.contains(&format!("{here}/edit")));
    person
        .post(
            &format!("{sharing}/owner"),
            &[("transfer_owner_to", &other.user)],
        )
        .await
        .expect(303);
    assert_eq!(
        api.get(&at).await.expect(200)["owner_id"],
        json!(other.user)
    );
}

#[tokio::test]
async fn what_everybody_may_is_set() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let sharing = format!("{here}/sharing");
    let set = [
        ("visibility", "account"),
        ("default_role", "commenter"),
        ("link_sharing", "true"),
    ];
    person
        .post(&format!("{sharing}/permissions"), &set)
        .await
        .expect(303);
    let set = api.get(&format!("{at}/permissions")).await.expect(200);
    assert_eq!(
        (&set["visibility"], &set["default_role"]),
        (&json!("account"), &json!("commenter"))
    );
    let log = person.page(&format!("{here}/activity")).await;
    assert!(log.contains("changed who may do what"), "{log}");
}

#[tokio::test]
async fn who_may_not_is_refused_with_words_and_nothing_changes() {
    let account = account().await;
    let (person, viewer) = (
        Person::user(&account, "admin").await,
        Person::user(&account, "agent").await,
    );
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let body = json!({"user_id": viewer.user, "role": "viewer"});
    api.post(&format!("{at}/collaborators"), body)
        .await
        .expect(201);
    let form = person.page(&format!("{here}/edit")).await;
    let before = api.get(&at).await.expect(200).body;
    let edited = save(&viewer, &here, &form, &[("content", "mine\n")]).await;
    let edited = edited.expect(422).text;
    assert!(
        edited.contains("but not edit it") && edited.contains("mine\n"),
        "{edited}"
    );
    for (path, status) in [
        ("delete", 403),
        ("erase", 403),
        ("versions/1/restore", 403),
        ("sharing/links", 403),
        ("sharing/owner", 403),
        ("comments", 422),
    ] {
        let fields = [
            ("start_line", "1"),
            ("body", "b"),
            ("transfer_owner_to", viewer.user.as_str()),
        ];
        let refused = viewer.post(&format!("{here}/{path}"), &fields).await;
        let refused = refused.expect(status).text;
        assert!(refused.contains("does not allow this"), "{path}: {refused}");
    }
    for path in [
        "",
        "/edit",
        "/sharing",
        "/comments",
        "/history",
        "/activity",
        "/merge?source=1",
        "/compare",
    ] {
        viewer.page(&format!("{here}{path}")).await;
    }
    let api = person.api(&account);
    let after = api.get(&at).await.expect(200).body;
    assert_eq!(before, after);
}

#[tokio::test]
async fn documents_of_others_are_nothing_at_all() {
    let (account, others) = (account().await, account().await);
    let person = Person::user(&account, "admin").await;
    let at = others.live().document("secret words\n").await;
    let here = here(&at);
    for path in [
        "",
        "/edit",
        "/history",
        "/compare",
        "/merge",
        "/comments",
        "/sharing",
        "/activity",
        "/raw",
    ] {
        let page = person.get(&format!("{here}{path}")).await.expect(404).text;
        assert!(!page.contains("secret words"), "{path}");
    }
    for path in [
        "delete",
        "erase",
        "restore",
        "edit",
        "merge",
        "comments",
        "sharing/links",
        "versions/1/restore",
    ] {
        person
            .post(&format!("{here}/{path}"), &[])
            .await
            .expect(404);
    }
    assert_eq!(others.live().text(&at).await, "secret words\n");
    person.get("/console/documents/nonsense").await.expect(404);
    // Test data is another kind of data.
    let test = account.test().document("test words\n").await;
    person
        .get(&format!("/console/documents/{}", id_of(&test)))
        .await
        .expect(404);
}

#[tokio::test]
async fn what_others_wrote_is_text() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let evil = "<script>alert(1)</script><img src=x onerror=alert(2)>";
    for content_type in ["text/markdown", "text/html", "text/plain"] {
        let title = format!("{evil}{}", "🎈".repeat(200));
        let body =
            json!({"title": title, "content": format!("{evil}\n"), "content_type": content_type});
        let at = api
            .post(DOCUMENTS, body)
            .await
            .expect(201)
            .header("location")
            .to_owned();
        let body = json!({"content": format!("{evil}2\n"), "message": evil, "branch": "side"});
        api.version(&at, body).await;
        let body = json!({"start_line": 1, "body": evil});
        api.post(&format!("{at}/comments"), body).await.expect(201);
        let here = here(&at);
        for path in [
            "",
            "/edit",
            "/history",
            "/comments",
            "/sharing",
            "/activity",
            "/compare?from=1&to=2",
            "/merge?source=side",
            "/compare?from=<script>",
        ] {
            let page = person
                .get(&format!("{here}{}", path.replace('<', "%3C")))
                .await
                .expect(200);
            assert_plain(&page.text, path);
        }
    }
    assert_plain(&person.page("/console/documents").await, "list");
    let shown = person
        .post(
            "/console/documents/preview",
            &[("content", evil), ("content_type", "text/markdown")],
        )
        .await
        .expect(200);
    assert_plain(&shown.text, "preview");
}

/// Nothing but the console's own scripts, and no style in any element.
fn assert_plain(page: &str, what: &str) {
    let own = page.matches("<script src=\"/console/assets/").count();
    assert_eq!(page.matches("<script").count(), own, "{what}: {page}");
    assert!(
        !page.contains("<img") && !page.contains(" style="),
        "{what}: {page}"
    );
}

#[tokio::test]
async fn a_post_without_the_sessions_token_changes_nothing() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let at = api.document("1\n").await;
    let here = here(&at);
    let csrf = person.token().await;
    for token in ["", "another", &csrf[1..]] {
        let fields = [("csrf", token), ("title", "x")];
        for path in [
            "/delete",
            "/erase",
            "/edit",
            "/comments",
            "/sharing/links",
            "/merge",
            "/preview",
        ] {
            person
                .post_without_token(&format!("{here}{path}"), &fields)
                .await
                .expect(403);
        }
        person
            .post_without_token("/console/documents", &fields)
            .await
            .expect(403);
    }
    assert_eq!(api.get(DOCUMENTS).await.expect(200).total(), 1);
    assert_eq!(
        api.get(&format!("{at}/activity")).await.expect(200).total(),
        1
    );
}

#[tokio::test]
async fn long_texts_and_long_histories_stay_readable() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let api = person.api(&account);
    let long = "a line of a long log\n".repeat(300_000);
    let body: Value = json!({"title": "Long", "content": long});
    let at = api
        .post(DOCUMENTS, body)
        .await
        .expect(201)
        .header("location")
        .to_owned();
    let here_long = here(&at);
    for path in ["", "/edit", "/comments"] {
        let page = person.page(&format!("{here_long}{path}")).await;
        assert!(page.len() < 1_500_000, "{path}: {}", page.len());
    }
    let raw = person.get(&format!("{here_long}/raw")).await.expect(200);
    assert_eq!(raw.text.len(), long.len());
    assert!(
        raw.header("content-disposition").starts_with("attachment"),
        "{:?}",
        raw.headers
    );
    let at = api.document("0\n").await;
    for number in 1..60 {
        let branch = format!("line-{}", number / 4);
        api.branch(&at, &branch, &format!("{number}\n")).await;
    }
    let here = here(&at);
    let first = person.page(&format!("{here}/history")).await;
    assert_eq!(first.matches("<circle").count(), 25);
    assert!(
        first.contains("of 60") && first.contains("?page=2"),
        "{first}"
    );
    let last = person.page(&format!("{here}/history?page=3")).await;
    assert_eq!(last.matches("<circle").count(), 10);
    let side = person.page(&format!("{here}/history?branch=line-2")).await;
    assert_eq!(side.matches("<circle").count(), 4);
}
