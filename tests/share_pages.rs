//! Shared pages in a browser's words: Markdown as a page, comments at lines, editing with preview,
//! and what happened in between; all of it by plain forms.

use serde_json::{Value, json};

use crate::support::browser::Tab;
use crate::support::client::Call;
use crate::support::{Answer, Client, account};

const GUIDE: &str = "# Refunds\n\nWithin **30 days**.\n\n| plan | fee |\n|---|---:|\n| Basic | 2 |\n\n- [x] asked\n- [ ] paid\n\n~~never~~\n";

/// A document with one link, and whoever holds it.
struct Shared {
    owner: Client,
    holder: Client,
    at: String,
    share: String,
    link: String,
}

async fn shared(content: &str, terms: Value) -> Shared {
    let account = account().await;
    let owner = account.test();
    let at = owner.document(content).await;
    let (share, link) = owner.share(&at, terms).await;
    Shared {
        owner,
        holder: account.anonymous(),
        at,
        share,
        link,
    }
}

fn words(page: &Answer) -> String {
    String::from_utf8_lossy(&page.bytes).into_owned()
}

fn encoded(text: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric();
    text.bytes()
        .map(|byte| match byte {
            byte if kept(byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// The value of a hidden field of the page's forms, as a browser would send it.
fn hidden(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let from = page
        .find(&start)
        .unwrap_or_else(|| panic!("no {name} in {page}"))
        + start.len();
    let value = &page[from..];
    value[..value.find('"').unwrap()].replace("&quot;", "\"")
}

impl Shared {
    async fn page(&self) -> String {
        let page = self
            .holder
            .get(&self.link)
            .with("accept", "text/html")
            .await
            .expect(200);
        words(&page)
    }

    fn form(&self, below: &str, fields: &[(&str, &str)]) -> Call {
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        self.holder
            .call("POST", &format!("{}{below}", self.link))
            .bytes(fields.join("&"))
            .with("accept", "text/html")
            .with("content-type", "application/x-www-form-urlencoded")
    }

    /// Fills in the form with the text, as the page has it.
    fn edit(&self, page: &str, act: &str, text: &str) -> Call {
        let (base, text) = (hidden(page, "base"), text.replace('\n', "\r\n"));
        self.form(
            "/edit",
            &[("base", &base), ("content", &text), ("act", act)],
        )
    }

    fn comment(&self, page: &str, lines: (&str, &str), body: &str) -> Call {
        let (nonce, version) = (hidden(page, "nonce"), hidden(page, "version"));
        let (start_line, end_line) = lines;
        self.form(
            "/comment",
            &[
                ("nonce", &nonce),
                ("version", &version),
                ("start_line", start_line),
                ("end_line", end_line),
                ("body", body),
            ],
        )
    }

    async fn uses(&self) -> u64 {
        let list = self
            .owner
            .get(&format!("{}/share", self.at))
            .await
            .expect(200);
        let share = list
            .data()
            .iter()
            .find(|one| one["share_id"] == self.share.as_str())
            .cloned();
        share.unwrap()["uses"].as_u64().unwrap()
    }

    /// Where a form leads once it is done.
    async fn followed(&self, done: Answer) -> String {
        let done = done.expect(303);
        let page = self
            .holder
            .get(done.header("location"))
            .with("accept", "text/html")
            .await;
        words(&page.expect(200))
    }
}

#[tokio::test]
async fn markdown_is_shown_as_a_page_and_other_types_as_they_are() {
    let shared = shared(GUIDE, json!({})).await;
    let page = shared.page().await;
    for shown in [
        "<h2 id=\"text-refunds\">Refunds</h2>",
        "<strong>30 days</strong>",
        "<th class=\"right\">fee</th>",
        "<span class=\"task\">\u{2611}</span> asked",
        "<del>never</del>",
    ] {
        assert!(page.contains(shown), "no {shown} in {page}");
    }
    for none in ["<form", "<textarea", "Comments"] {
        assert!(!page.contains(none), "a viewer gets {none}");
    }
    for kind in ["text/plain", "text/html", "application/json"] {
        shared
            .owner
            .put(&shared.at, json!({"content_type": kind}))
            .await
            .expect(200);
        let page = shared.page().await;
        assert!(
            page.contains("# Refunds\n\nWithin **30 days**.") && !page.contains("<strong>"),
            "{kind}: {page}"
        );
    }
}

#[tokio::test]
async fn a_text_beyond_the_bound_stays_plain_and_is_not_edited_on_a_page() {
    let long = format!("# Long\n\n{}", "word ".repeat(60_000));
    let shared = shared(&long, json!({"role": "editor"})).await;
    let page = shared.page().await;
    assert!(page.contains("<pre>\n# Long") && !page.contains("<textarea id=\"content\""));
    assert!(page.contains("too long to be edited"));
}

#[tokio::test]
async fn a_commenter_comments_at_lines_and_sees_it_there() {
    let shared = shared(GUIDE, json!({"role": "commenter"})).await;
    let page = shared.page().await;
    assert!(
        page.contains("Comment on lines 5 to 7") && !page.contains("name=\"base\""),
        "{page}"
    );
    let after = shared
        .followed(
            shared
                .comment(&page, ("5", "7"), "Is this <b>so</b>?\r\nReally?")
                .await,
        )
        .await;
    assert!(after.contains("Your comment was added."), "{after}");
    let (table, rest) = (
        after.find("<table>").unwrap(),
        after.find("text-refunds").unwrap(),
    );
    let said = after
        .find("Is this &lt;b&gt;so&lt;/b&gt;?\nReally?")
        .unwrap_or_else(|| panic!("{after}"));
    assert!(
        rest < table && table < said && said < after.find("asked").unwrap(),
        "not below its lines: {after}"
    );
    let list = shared
        .owner
        .get(&format!("{}/comments", shared.at))
        .await
        .expect(200);
    assert_eq!(
        (
            list.total(),
            &list["data"][0]["start_line"],
            &list["data"][0]["end_line"]
        ),
        (1, &json!(5), &json!(7))
    );
    assert_eq!(list["data"][0]["body"], "Is this <b>so</b>?\nReally?");
    assert_eq!(
        shared.uses().await,
        2,
        "a comment is no use; the two pages were"
    );
}

#[tokio::test]
async fn a_comment_that_is_sent_twice_is_added_once_and_another_one_beside_it() {
    let shared = shared(GUIDE, json!({"role": "commenter"})).await;
    let page = shared.page().await;
    for body in ["first", "first", "second"] {
        shared.comment(&page, ("1", "1"), body).await.expect(303);
    }
    let list = shared
        .owner
        .get(&format!("{}/comments", shared.at))
        .await
        .expect(200);
    assert_eq!(list.column("body"), ["second", "first"]);
}

#[tokio::test]
async fn resolved_and_outdated_comments_say_so() {
    let shared = shared(GUIDE, json!({"role": "commenter"})).await;
    let at = format!("{}/comments", shared.at);
    for (line, body) in [(3, "about days"), (12, "about never")] {
        shared
            .owner
            .post(&at, json!({"start_line": line, "body": body}))
            .await
            .expect(201);
    }
    let first = shared
        .owner
        .get(&format!("{at}?order=asc"))
        .await
        .expect(200)["data"][0]["comment_id"]
        .clone();
    let path = format!("{at}/{}", first.as_str().unwrap());
    shared
        .owner
        .patch(&path, json!({"resolved": true}))
        .await
        .expect(200);
    shared
        .owner
        .write(&shared.at, &GUIDE.replace("~~never~~", "always"))
        .await;
    let page = shared.page().await;
    let remark = |body: &str| {
        let end = page.find(body).unwrap_or_else(|| panic!("{page}"));
        page[page[..end].rfind("<article").unwrap()..end].to_owned()
    };
    assert!(
        remark("about days").contains(">resolved<") && !remark("about days").contains(">outdated<")
    );
    assert!(
        remark("about never").contains(">outdated<")
            && !remark("about never").contains(">resolved<")
    );
    assert!(remark("about never").contains("line 12 of an earlier text"));
}

#[tokio::test]
async fn a_comment_on_lines_that_are_not_there_comes_back_with_its_words() {
    let shared = shared(GUIDE, json!({"role": "commenter"})).await;
    let page = shared.page().await;
    let refused = shared
        .comment(&page, ("99", "99"), "my long thought")
        .await
        .expect(400);
    assert!(
        refused.header("content-type").starts_with("text/html"),
        "{refused}"
    );
    let text = words(&refused);
    assert!(
        text.contains("my long thought") && text.contains("Your comment was not added"),
        "{text}"
    );
}

#[tokio::test]
async fn an_editor_previews_then_saves() {
    let shared = shared(GUIDE, json!({"role": "editor"})).await;
    let page = shared.page().await;
    let text = "# New\n\nA *better* text.\n";
    let preview = words(&shared.edit(&page, "preview", text).await.expect(200));
    assert!(
        preview.contains("<em>better</em>")
            && preview.contains("\n# New\n\nA *better* text.\n</textarea>"),
        "{preview}"
    );
    assert_eq!(
        shared.owner.text(&shared.at).await,
        GUIDE,
        "a preview saves nothing"
    );
    assert_eq!(shared.uses().await, 1, "a preview is no use");
    let after = shared
        .followed(shared.edit(&preview, "save", text).await)
        .await;
    assert!(
        after.contains("Your text was saved.") && after.contains("<em>better</em>"),
        "{after}"
    );
    assert_eq!(shared.owner.text(&shared.at).await, text);
    assert_eq!(
        shared.owner.get(&shared.at).await.expect(200)["version_number"],
        2
    );
    assert_eq!(
        shared.uses().await,
        3,
        "saving is one use, and so is the page that follows"
    );
}

#[tokio::test]
async fn where_the_document_moved_on_nothing_is_lost_and_the_history_is_told() {
    let shared = shared(GUIDE, json!({"role": "editor"})).await;
    let page = shared.page().await;
    let versions = format!("{}/versions", shared.at);
    let theirs = format!("{GUIDE}\nTheirs.\n");
    shared
        .owner
        .post(
            &versions,
            json!({"content": theirs, "message": "Say <more>"}),
        )
        .await
        .expect(201);
    shared
        .owner
        .write(&shared.at, &format!("{theirs}Again.\n"))
        .await;
    let uses = shared.uses().await;
    let mine = format!("{GUIDE}\nMine & \"yours\".\n");
    let refused = shared.edit(&page, "save", &mine).await.expect(412);
    let told = words(&refused);
    for shown in [
        "The document has moved on",
        "Version 3",
        "Version 2",
        "Say &lt;more&gt;",
        "Mine &amp; &quot;yours&quot;.",
    ] {
        assert!(told.contains(shown), "no {shown} in {told}");
    }
    assert!(!told.contains("Version 1<"), "it was there before: {told}");
    assert!(
        !told.contains("Theirs."),
        "the text is shown only where a use is counted: {told}"
    );
    assert_eq!(shared.uses().await, uses, "a save that fails is no use");
    assert_eq!(
        shared.owner.text(&shared.at).await,
        format!("{theirs}Again.\n")
    );
    let compared = words(&shared.edit(&told, "compare", &mine).await.expect(200));
    assert!(
        compared.contains("<del>-Theirs.</del>")
            && compared.contains("<ins>+Mine &amp; &quot;yours&quot;.</ins>"),
        "{compared}"
    );
    assert_eq!(
        shared.uses().await,
        uses + 1,
        "what shows the document is a use"
    );
    shared
        .followed(shared.edit(&compared, "save", &mine).await)
        .await;
    assert_eq!(shared.owner.text(&shared.at).await, mine);
    assert_eq!(
        shared.owner.get(&shared.at).await.expect(200)["version_number"],
        4
    );
}

#[tokio::test]
async fn a_change_of_the_title_alone_keeps_nobody_from_saving() {
    let shared = shared(GUIDE, json!({"role": "editor"})).await;
    let page = shared.page().await;
    shared
        .owner
        .put(&shared.at, json!({"title": "Another"}))
        .await
        .expect(200);
    shared.edit(&page, "save", "mine\n").await.expect(303);
    let now = shared.owner.get(&shared.at).await.expect(200);
    assert_eq!(
        (&now["title"], &now["content"]),
        (&json!("Another"), &json!("mine\n"))
    );
}

#[tokio::test]
async fn a_role_that_may_not_is_told_on_a_page() {
    for (role, comment, edit) in [
        ("viewer", 403, 403),
        ("commenter", 303, 403),
        ("editor", 303, 303),
    ] {
        let shared = shared(GUIDE, json!({"role": role})).await;
        let head = shared.owner.head(&shared.at).await;
        let page = format!(
            "name=\"nonce\" value=\"n\" name=\"version\" value=\"{head}\" name=\"base\" value=\"{head}\""
        );
        let commented = shared.comment(&page, ("1", "1"), "x").await.expect(comment);
        let saved = shared.edit(&page, "save", "kept words").await.expect(edit);
        let previewed = shared.edit(&page, "preview", "x").await;
        assert_eq!(
            previewed.status,
            if edit == 403 { 403 } else { 200 },
            "{role}"
        );
        for answer in [commented, saved, previewed] {
            if answer.status == 403 {
                assert!(
                    answer.header("content-type").starts_with("text/html"),
                    "{answer}"
                );
                assert!(
                    words(&answer).contains("Ask whoever gave you the link"),
                    "{answer}"
                );
            }
        }
        let text = shared.owner.text(&shared.at).await;
        assert_eq!(text == "kept words", edit == 303, "{role}");
    }
}

#[tokio::test]
async fn behind_a_password_the_forms_carry_on() {
    let shared = shared(
        GUIDE,
        json!({"role": "editor", "password": "open \"sesame\""}),
    )
    .await;
    let page = words(
        &shared
            .form("", &[("password", "open \"sesame\"")])
            .await
            .expect(200),
    );
    let (password, nonce, base) = (
        hidden(&page, "password"),
        hidden(&page, "nonce"),
        hidden(&page, "base"),
    );
    assert_eq!(password, "open \"sesame\"");
    let comment = |password: &str| {
        let fields = [
            ("password", password),
            ("nonce", &*nonce),
            ("version", &*base),
            ("start_line", "1"),
            ("end_line", "1"),
            ("body", "hm"),
        ];
        shared.form("/comment", &fields)
    };
    for wrong in ["", "close"] {
        let refused = comment(wrong).await.expect(401);
        assert!(words(&refused).contains("type=\"password\""), "{refused}");
    }
    let after = words(&comment(&password).await.expect(200));
    assert!(
        after.contains("Your comment was added.") && after.contains("hm</p>"),
        "{after}"
    );
    let saved = shared.form(
        "/edit",
        &[
            ("password", &password),
            ("base", &base),
            ("content", "new"),
            ("act", "save"),
        ],
    );
    let saved = words(&saved.await.expect(200));
    assert!(
        saved.contains("Your text was saved.") && saved.contains("<p>new</p>"),
        "{saved}"
    );
}

#[tokio::test]
async fn the_last_use_saves_and_says_so() {
    let shared = shared(GUIDE, json!({"role": "editor", "max_uses": 2})).await;
    let page = shared.page().await;
    let done = shared.edit(&page, "save", "the end\n").await.expect(303);
    let gone = shared
        .holder
        .get(done.header("location"))
        .with("accept", "text/html")
        .await
        .expect(404);
    assert!(words(&gone).contains("Your text was saved."), "{gone}");
    assert_eq!(shared.owner.text(&shared.at).await, "the end\n");
    let refused = shared.edit(&page, "save", "lost?").await.expect(404);
    assert!(
        refused.header("content-type").starts_with("text/html"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_browser_that_goes_astray_gets_a_page_and_a_program_json() {
    let shared = shared(GUIDE, json!({"role": "editor"})).await;
    let page = shared.page().await;
    for (method, below, status) in [
        ("GET", "/edit", 405),
        ("DELETE", "", 405),
        ("GET", "/nothing", 404),
    ] {
        let path = format!("{}{below}", shared.link);
        let refused = shared
            .holder
            .call(method, &path)
            .with("accept", "text/html,*/*;q=0.8")
            .await
            .expect(status);
        assert!(
            refused.header("content-type").starts_with("text/html"),
            "{refused}"
        );
        assert!(words(&refused).contains("Open the link again"), "{refused}");
        let told = shared.holder.call(method, &path).await.expect(status);
        assert!(
            told.header("content-type").starts_with("application/json"),
            "{told}"
        );
    }
    let bad = shared
        .form(
            "/edit",
            &[("base", "none"), ("content", "x"), ("act", "save")],
        )
        .await
        .expect(400);
    assert!(bad.header("content-type").starts_with("text/html"), "{bad}");
    let long = shared
        .edit(&page, "save", &"\u{e4}".repeat(1_500_000))
        .await
        .expect(413);
    assert!(
        words(&long).contains("what you wrote is still there"),
        "{long}"
    );
}

#[tokio::test]
async fn a_text_with_the_line_breaks_of_windows_keeps_them() {
    let shared = shared("a\r\nb\r\n", json!({"role": "editor"})).await;
    let page = shared.page().await;
    shared.edit(&page, "save", "a\nb\nc\n").await.expect(303);
    assert_eq!(shared.owner.text(&shared.at).await, "a\r\nb\r\nc\r\n");
}

#[tokio::test]
async fn lines_that_were_not_changed_keep_their_ends() {
    let mixed = "a\r\nb\nc\r\n\rd\n";
    let shared = shared(mixed, json!({"role": "editor"})).await;
    let page = shared.page().await;
    shared
        .edit(&page, "save", "a\nb\nc\n\nd\n")
        .await
        .expect(303);
    let now = shared.owner.get(&shared.at).await.expect(200);
    assert_eq!(
        (&now["version_number"], &now["content"]),
        (&json!(1), &json!(mixed)),
        "no word was changed"
    );
    let compared = words(
        &shared
            .edit(&page, "compare", "a\nb\nc\n\nd\n")
            .await
            .expect(200),
    );
    assert!(compared.contains("They are the same."), "{compared}");
    shared
        .edit(&page, "save", "a\nB\nc\n\nd\ne\n")
        .await
        .expect(303);
    assert_eq!(shared.owner.text(&shared.at).await, "a\r\nB\nc\r\n\rd\ne\n");
}

#[tokio::test]
async fn what_another_sites_page_sends_changes_nothing_and_shows_nothing() {
    let terms = json!({"role": "editor", "password": "open sesame"});
    let shared = shared(GUIDE, terms).await;
    let own = format!("http://{}", shared.holder.address());
    let password = ("password", "open sesame");
    let opened = || shared.form("", &[password]);
    let page = words(&opened().await.expect(200));
    let (base, nonce) = (hidden(&page, "base"), hidden(&page, "nonce"));
    let edited = || {
        let fields = [
            password,
            ("base", &base),
            ("content", "forged\n"),
            ("act", "save"),
        ];
        shared.form("/edit", &fields)
    };
    let commented = || {
        let fields = [
            password,
            ("nonce", &nonce),
            ("version", &base),
            ("start_line", "1"),
            ("end_line", "1"),
            ("body", "forged"),
        ];
        shared.form("/comment", &fields)
    };
    let other_scheme = own.replace("http:", "https:");
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", &other_scheme),
        ("origin", "null"),
    ] {
        for form in [opened(), edited(), commented()] {
            let refused = form.with(name, value).await.expect(403);
            let text = words(&refused);
            assert!(text.contains("comes from another site"), "{refused}");
            assert!(!text.contains("30 days"), "{name}: {value}: {text}");
        }
    }
    assert_eq!(shared.owner.text(&shared.at).await, GUIDE);
    let comments = format!("{}/comments", shared.at);
    assert_eq!(shared.owner.get(&comments).await.expect(200).total(), 0);
    let fetched = edited().with("sec-fetch-site", "same-origin");
    fetched.with("origin", "null").await.expect(200);
    commented().with("origin", &own).await.expect(200);
    // Without it, browsers would hide from this very server where its own forms come from.
    assert!(
        page.contains("<meta name=\"referrer\" content=\"same-origin\">"),
        "{page}"
    );
}

#[tokio::test]
async fn a_shared_page_has_the_icon_of_the_house() {
    let shared = shared(GUIDE, json!({})).await;
    let page = shared.page().await;
    let (_, rest) = page
        .split_once("<link rel=\"icon\" type=\"image/svg+xml\" href=\"")
        .unwrap_or_else(|| panic!("{page}"));
    let icon = rest.split('"').next().unwrap();
    let icon = shared.holder.get(icon).await.expect(200);
    assert_eq!(icon.header("content-type"), "image/svg+xml");
}

/// What a person finds missing on a page who hears it, or who has but a narrow window.
const MISSING: &str = "[...document.querySelectorAll('input:not([type=hidden]), textarea')].filter(field => !field.labels.length)\
     .map(field => field.name)\
     .concat([...document.querySelectorAll('[id]')].filter(one => document.querySelectorAll('#' + CSS.escape(one.id)).length > 1)\
     .map(one => one.id))\
     .concat(document.documentElement.lang === 'en' ? [] : ['lang'])\
     .concat(document.querySelectorAll('h1').length === 1 ? [] : ['h1'])\
     .concat(document.documentElement.scrollWidth <= innerWidth ? [] : ['width'])";

#[tokio::test]
async fn a_person_comments_and_edits_in_a_browser() {
    let shared = shared(GUIDE, json!({"role": "editor"})).await;
    let mut tab = Tab::open(&format!(
        "http://{}{}",
        shared.holder.address(),
        shared.link
    ))
    .await;
    tab.shows("You may comment and edit.").await;
    assert_eq!(tab.run(MISSING).await, json!([]));
    let comment = "const form = document.querySelector('#line-3 form'); form.closest('details').open = true; \
                   form.body.value = 'Why not 60?'; form.querySelector('button').click()";
    tab.run(comment).await;
    tab.shows("Your comment was added.").await;
    assert_eq!(
        tab.run("document.querySelector('#line-3 .said').textContent")
            .await,
        "Why not 60?"
    );
    let click = |act: &str| {
        format!(
            "content.value += '\\nOne _more_ line.\\n'; document.querySelector('button[value={act}]').click()"
        )
    };
    tab.run(&click("preview")).await;
    tab.shows("It is not saved yet.").await;
    assert_eq!(tab.run(MISSING).await, json!([]));
    assert_eq!(
        tab.run("document.querySelector('.preview em').textContent")
            .await,
        "more"
    );
    shared.owner.write(&shared.at, "# Other\n").await;
    tab.run(&click("save")).await;
    tab.shows("The document has moved on").await;
    assert_eq!(tab.run(MISSING).await, json!([]));
    tab.run("document.querySelector('button[value=save]').click()")
        .await;
    tab.shows("Your text was saved.").await;
    let twice = "\nOne _more_ line.\n".repeat(2);
    assert_eq!(
        shared.owner.text(&shared.at).await,
        format!("{GUIDE}{twice}")
    );
}
