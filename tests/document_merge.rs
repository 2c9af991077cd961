//! Merging over HTTP: the text is the one that the real `git merge-file` gives, conflicts are data,
//! nothing is merged silently, and what a dry run shows is what the merge does.

use serde_json::{Value, json};

use crate::support::git::{Triple, merge_file};
use crate::support::shapes::{VERSION, assert_shape, keys};
use crate::support::{Answer, Client, Dice, account_with_client};

/// Enough to meet every kind of change; the thousands are in the merge's own property tests.
const TRIPLES: u64 = 36;
const STYLES: [(&str, &[&str]); 3] = [
    ("merge", &[]),
    ("diff3", &["--diff3"]),
    ("zdiff3", &["--zdiff3"]),
];
const STRATEGIES: [(&str, &[&str]); 4] = [
    ("fail", &[]),
    ("ours", &["--ours"]),
    ("theirs", &["--theirs"]),
    ("union", &["--union"]),
];

/// A text of few different lines, with a few kinds of line ends.
fn some_lines(dice: &mut Dice) -> Vec<String> {
    (0..dice.below(24)).map(|_| some_line(dice)).collect()
}

fn some_line(dice: &mut Dice) -> String {
    let word = ["a", "b", "c", "", "  indented", "ключ 🎈", "}"][dice.below(7) as usize];
    let end = if dice.below(6) == 0 { "\r\n" } else { "\n" };
    format!("{word}{end}")
}

/// The same with a few lines put, taken, moved or replaced.
fn edited(lines: &[String], dice: &mut Dice) -> Vec<String> {
    let mut lines = lines.to_vec();
    for _ in 0..dice.below(6) {
        let at = dice.below(lines.len() as u64 + 1) as usize;
        match dice.below(5) {
            0 => lines.insert(at, some_line(dice)),
            1 if at < lines.len() => drop(lines.remove(at)),
            2 if at < lines.len() => lines[at] = some_line(dice),
            3 if at < lines.len() => {
                let moved = lines.remove(at);
                lines.insert(dice.below(lines.len() as u64 + 1) as usize, moved);
            }
            4 if dice.below(8) == 0 => lines.clear(),
            _ => lines.push(some_line(dice)),
        }
    }
    lines
}

fn text(lines: &[String], dice: &mut Dice) -> String {
    let mut text = lines.concat();
    if dice.below(4) == 0 {
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
    }
    text
}

fn triple(seed: u64) -> Triple {
    let mut dice = Dice::new(seed);
    let base = some_lines(&mut dice);
    let (ours, theirs) = (edited(&base, &mut dice), edited(&base, &mut dice));
    Triple {
        base: text(&base, &mut dice),
        ours: text(&ours, &mut dice),
        theirs: text(&theirs, &mut dice),
    }
}

/// A document whose head says `ours` and whose branch `side` says `theirs`, both made from `base`.
async fn forked(c: &Client, texts: &Triple) -> String {
    let at = c.document(&texts.base).await;
    c.branch(&at, "side", &texts.theirs).await;
    c.version(&at, json!({"content": texts.ours})).await;
    at
}

/// One that both sides changed in the same line, and each in a line of its own.
fn in_conflict() -> Triple {
    let of = |first: &str, third: &str, fifth: &str| format!("{first}\n2\n{third}\n4\n{fifth}\n");
    Triple {
        base: of("1", "3", "5"),
        ours: of("one", "three", "5"),
        theirs: of("1", "tres", "cinco"),
    }
}

fn clean() -> Triple {
    Triple {
        base: "1\n2\n3\n4\n5\n".to_owned(),
        ours: "one\n2\n3\n4\n5\n".to_owned(),
        theirs: "1\n2\n3\n4\nfive\n".to_owned(),
    }
}

fn merge(c: &Client, at: &str, body: Value) -> crate::support::client::Call {
    c.post(&format!("{at}/merge"), body)
}

async fn versions(c: &Client, at: &str) -> u64 {
    c.get(&format!("{at}/versions?limit=1"))
        .await
        .expect(200)
        .total()
}

/// The text that a merge or its dry run shows, and its conflicts.
fn outcome(answer: &Answer) -> (String, Vec<Value>) {
    let shown = match answer.status {
        200 => &answer.body,
        409 => &answer.body["error"]["details"],
        _ => panic!("neither merged nor refused: {answer}"),
    };
    let text = shown["merged"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {answer}"));
    (
        text.to_owned(),
        shown["conflicts"]
            .as_array()
            .unwrap_or_else(|| panic!("no conflicts: {answer}"))
            .clone(),
    )
}

/// Fails unless each conflict is one block of markers in the text.
fn assert_conflicts_stand(merged: &str, conflicts: &[Value]) {
    let lines: Vec<&str> = merged.split_inclusive('\n').collect();
    for (n, conflict) in conflicts.iter().enumerate() {
        assert_eq!(
            keys(conflict),
            ["base", "index", "ours", "start_line", "theirs"]
        );
        assert_eq!(conflict["index"], n);
        let start = usize::try_from(conflict["start_line"].as_u64().unwrap()).unwrap();
        assert!(
            lines[start - 1].starts_with("<<<<<<< head"),
            "{conflict} in\n{merged}"
        );
        let behind = lines[start..].concat();
        let ours = conflict["ours"].as_str().unwrap();
        assert!(behind.starts_with(ours), "{conflict} in\n{merged}");
        let theirs = conflict["theirs"].as_str().unwrap();
        assert!(behind.contains(theirs), "{conflict} in\n{merged}");
    }
}

#[tokio::test]
async fn every_strategy_in_every_style_gives_what_git_merge_file_gives() {
    let (_account, c) = account_with_client().await;
    let mut with_conflicts = 0;
    for seed in 0..TRIPLES {
        let texts = triple(seed);
        let at = forked(&c, &texts).await;
        for (style, of_style) in STYLES {
            for (strategy, of_strategy) in STRATEGIES {
                let what = format!("{style}, {strategy}, triple {seed}: {texts:?}");
                let body = json!({"source": "side", "strategy": strategy, "style": style, "dry_run": true});
                let answer = merge(&c, &at, body).await;
                let (expected, count) = merge_file(&texts, &[of_style, of_strategy].concat());
                let (merged, conflicts) = outcome(&answer);
                assert_eq!(merged, expected, "{what}");
                let refused = strategy == "fail" && count > 0;
                assert_eq!(answer.status, if refused { 409 } else { 200 }, "{what}");
                assert_eq!(conflicts.len(), if refused { count } else { 0 }, "{what}");
                assert_conflicts_stand(&merged, &conflicts);
                with_conflicts += usize::from(refused);
            }
        }
        assert_eq!(versions(&c, &at).await, 3, "a dry run writes nothing");
    }
    assert!(
        (10..TRIPLES as usize * 3 - 10).contains(&with_conflicts),
        "{with_conflicts} conflicts: the dice are loaded"
    );
}

#[tokio::test]
async fn a_dry_run_shows_what_the_following_merge_does() {
    let (_account, c) = account_with_client().await;
    for seed in 100..112 {
        let at = forked(&c, &triple(seed)).await;
        let (_, strategy) = (seed, STRATEGIES[(seed % 4) as usize].0);
        let body = |dry_run: bool| json!({"source": "side", "strategy": strategy, "style": "zdiff3", "dry_run": dry_run});
        let before = c.get(&at).await.expect(200);
        let (shown, conflicts) = outcome(&merge(&c, &at, body(true)).await);
        let after = c.get(&at).await.expect(200);
        assert_eq!(
            (after.etag(), after.body),
            (before.etag(), before.body),
            "a dry run changes nothing"
        );
        let done = merge(&c, &at, body(false)).await;
        if conflicts.is_empty() {
            done.expect(201);
            assert_eq!(c.text(&at).await, shown, "triple {seed}");
        } else {
            assert_eq!(
                outcome(&done.error(409, "merge_conflict", "*")),
                (shown, conflicts),
                "triple {seed}"
            );
            assert_eq!(versions(&c, &at).await, 3);
        }
    }
}

#[tokio::test]
async fn a_merge_is_a_version_with_two_parents() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &clean()).await;
    let (target, source) = (
        c.head(&at).await,
        c.get(&format!("{at}/versions/side"))
            .await
            .expect(200)
            .id("id"),
    );
    let user = c.user("admin").await;
    let body = json!({"source": "side", "message": "both"});
    let made = merge(&c.acting_for(&user), &at, body).await.expect(201);
    assert_shape(&made.body, VERSION);
    assert_eq!(
        made["parents"],
        json!([target, source]),
        "the target stands first"
    );
    assert_eq!(
        (&made["branch"], &made["message"], &made["author"]),
        (&json!("main"), &json!("both"), &json!(user))
    );
    assert_eq!(
        made.header("location"),
        format!("{at}/versions/{}", made.id("id"))
    );
    let now = c.get(&at).await.expect(200);
    assert_eq!(
        (&now["version"], &now["content"]),
        (&made["id"], &json!("one\n2\n3\n4\nfive\n"))
    );
    let events = c
        .get("/v1/events?after=0&event=document.merged")
        .await
        .expect(200);
    assert_eq!(events.total(), 1);
    assert_eq!(events["data"][0]["data"]["version"], made.body);
    let versions = c
        .get("/v1/events?after=0&event=document.version_created")
        .await
        .expect(200);
    assert_eq!(
        versions.total(),
        2,
        "a merge is document.merged in its place"
    );
}

#[tokio::test]
async fn a_merge_into_a_branch_leaves_the_head_alone() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &clean()).await;
    let head = c.head(&at).await;
    let made = merge(&c, &at, json!({"source": "main", "target": "side"}))
        .await
        .expect(201);
    assert_eq!(
        (&made["branch"], &made["parents"][1]),
        (&json!("side"), &json!(head))
    );
    assert_eq!(c.head(&at).await, head);
    assert_eq!(
        c.get(&format!("{at}/versions/side")).await.expect(200)["content"],
        "one\n2\n3\n4\nfive\n"
    );
    let tip = made.id("id");
    let back = merge(&c, &at, json!({"source": tip, "target": head}))
        .await
        .expect(201);
    assert_eq!(
        back["parents"],
        json!([head, tip]),
        "a version with two parents, also where the side holds all"
    );
    assert_eq!(c.text(&at).await, "one\n2\n3\n4\nfive\n");
}

#[tokio::test]
async fn a_merge_that_changes_no_text_is_still_a_version() {
    let (_account, c) = account_with_client().await;
    let same = Triple {
        base: "1\n".to_owned(),
        ours: "2\n".to_owned(),
        theirs: "2\n".to_owned(),
    };
    let at = forked(&c, &same).await;
    let made = merge(&c, &at, json!({"source": "side"})).await.expect(201);
    assert_eq!(
        (&made["number"], made["parents"].as_array().map(Vec::len)),
        (&json!(4), Some(2))
    );
    assert_eq!(c.text(&at).await, "2\n");
}

#[tokio::test]
async fn what_the_target_contains_is_up_to_date() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &clean()).await;
    merge(&c, &at, json!({"source": "side"})).await.expect(201);
    let before = c.get(&at).await.expect(200);
    let events = c
        .get("/v1/events?after=0&limit=1")
        .await
        .expect(200)
        .total();
    let expected = json!({"up_to_date": true, "version": before["version"]});
    for source in [
        "side",
        "head",
        "main",
        "1",
        "2",
        "3",
        "4",
        before.id("version").as_str(),
    ] {
        for more in [
            json!({}),
            json!({"dry_run": true}),
            json!({"strategy": "theirs"}),
        ] {
            let mut body = more;
            body["source"] = json!(source);
            assert_eq!(
                merge(&c, &at, body).await.expect(200).body,
                expected,
                "{source}"
            );
        }
    }
    let into_side = merge(&c, &at, json!({"source": "1", "target": "side"}))
        .await
        .expect(200);
    assert_eq!(
        (&into_side["up_to_date"], &into_side["version"]),
        (
            &json!(true),
            &c.get(&format!("{at}/versions/side")).await["id"]
        )
    );
    assert_eq!(c.get(&at).await.expect(200).body, before.body);
    assert_eq!(
        c.get("/v1/events?after=0&limit=1")
            .await
            .expect(200)
            .total(),
        events
    );
}

#[tokio::test]
async fn a_conflict_is_told_in_whole_and_changes_nothing() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &in_conflict()).await;
    let before = c.get(&at).await.expect(200);
    let refused = merge(&c, &at, json!({"source": "side"}))
        .await
        .error(409, "merge_conflict", "*");
    let details = &refused.body["error"]["details"];
    let merged = "one\n2\n<<<<<<< head\nthree\n=======\ntres\n>>>>>>> side\n4\ncinco\n";
    assert_eq!(details["merged"], merged);
    let conflict =
        json!({"index": 0, "base": "3\n", "ours": "three\n", "theirs": "tres\n", "start_line": 3});
    assert_eq!(details["conflicts"], json!([conflict]));
    assert_eq!(
        (&details["target"], &details["style"]),
        (&before["version"], &json!("merge"))
    );
    assert_eq!(
        details["source"],
        c.get(&format!("{at}/versions/side")).await.expect(200)["id"]
    );
    let problem = merge(&c, &at, json!({"source": "side"}))
        .with("accept", "application/problem+json")
        .await
        .expect(409);
    assert_eq!(
        (&problem["code"], &problem["details"]["merged"]),
        (&json!("merge_conflict"), &json!(merged))
    );
    let after = c.get(&at).await.expect(200);
    assert_eq!((after.etag(), after.body), (before.etag(), before.body));
    assert_eq!(
        c.get("/v1/events?after=0&event=document.merged")
            .await
            .expect(200)
            .total(),
        0
    );
}

#[tokio::test]
async fn markers_bear_the_names_of_the_call() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &in_conflict()).await;
    let (target, source) = (
        c.head(&at).await,
        c.get(&format!("{at}/versions/2"))
            .await
            .expect(200)
            .id("id"),
    );
    for (source, target, shown) in [
        ("side", None, "head"),
        ("2", Some("main"), "main"),
        (source.as_str(), Some(target.as_str()), target.as_str()),
    ] {
        let mut body = json!({"source": source, "style": "diff3"});
        if let Some(target) = target {
            body["target"] = json!(target);
        }
        let (merged, _) = outcome(&merge(&c, &at, body).await);
        for line in [
            format!("<<<<<<< {shown}\n"),
            "||||||| base\n".to_owned(),
            format!(">>>>>>> {source}\n"),
        ] {
            assert!(merged.contains(&line), "no {line} in\n{merged}");
        }
    }
}

/// The conflicts of a document's merge as the first try tells them: the ids of both sides.
async fn refused(c: &Client, at: &str) -> (String, String) {
    let answer = merge(c, at, json!({"source": "side"}))
        .await
        .error(409, "merge_conflict", "*");
    let id = |field: &str| {
        answer.body["error"]["details"][field]
            .as_str()
            .unwrap()
            .to_owned()
    };
    (id("source"), id("target"))
}

#[tokio::test]
async fn with_resolutions_for_every_conflict_it_goes_through() {
    let (_account, c) = account_with_client().await;
    let texts = Triple {
        base: "1\n2\n3\n4\n5\n6\n7\n".to_owned(),
        ours: "one\n2\n3\n4\n5\n6\nseven".to_owned(),
        theirs: "uno\n2\n3\ncuatro\n5\n6\nsiete\n".to_owned(),
    };
    let at = forked(&c, &texts).await;
    let (source, target) = refused(&c, &at).await;
    let resolutions =
        json!([{"index": 1, "content": "last\n"}, {"index": 0, "content": "first\nand more\n"}]);
    let body = json!({"source": source, "target": target, "resolutions": resolutions});
    let mut dry = body.clone();
    dry["dry_run"] = json!(true);
    let expected = "first\nand more\n2\n3\ncuatro\n5\n6\nlast\n";
    assert_eq!(
        merge(&c, &at, dry).await.expect(200).body,
        json!({"merged": expected, "conflicts": []})
    );
    assert_eq!(versions(&c, &at).await, 3);
    let made = merge(&c, &at, body).await.expect(201);
    assert_eq!(made["parents"], json!([target, source]));
    assert_eq!(c.text(&at).await, expected);
    let at = forked(&c, &in_conflict()).await;
    let (source, target) = refused(&c, &at).await;
    let nothing = json!([{"index": 0, "content": ""}]);
    merge(
        &c,
        &at,
        json!({"source": source, "target": target, "resolutions": nothing}),
    )
    .await
    .expect(201);
    assert_eq!(
        c.text(&at).await,
        "one\n2\n4\ncinco\n",
        "the block is taken away"
    );
}

#[tokio::test]
async fn resolutions_that_do_not_fit_are_refused() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &in_conflict()).await;
    let (source, target) = refused(&c, &at).await;
    let cases = [
        json!([]),
        json!([{"index": 1, "content": "x\n"}]),
        json!([{"index": 0, "content": "x\n"}, {"index": 1, "content": "x\n"}]),
        json!([{"index": 0, "content": "x\n"}, {"index": 0, "content": "y\n"}]),
        json!([{"index": 18_446_744_073_709_551_615_u64, "content": "x\n"}]),
        json!([{"index": -1, "content": "x\n"}]),
        json!([{"index": 0}]),
        json!([{"index": 0, "content": "x\u{0}"}]),
        json!({"0": "x"}),
    ];
    for resolutions in cases {
        let body = json!({"source": source, "target": target, "resolutions": resolutions});
        let refused = merge(&c, &at, body)
            .await
            .error(400, "invalid_request", "*");
        let field = refused.body["error"]["details"]["field"].as_str().unwrap();
        assert!(
            field.starts_with("resolutions")
                || field.contains("index")
                || field.contains("content"),
            "{refused}"
        );
    }
    assert_eq!(versions(&c, &at).await, 3);
}

#[tokio::test]
async fn resolutions_for_a_head_that_has_moved_on_are_412() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &in_conflict()).await;
    let (source, target) = refused(&c, &at).await;
    let first = c
        .get(&format!("{at}/versions/1"))
        .await
        .expect(200)
        .id("id");
    c.write(&at, "somebody was faster\n").await;
    let resolutions = json!([{"index": 0, "content": "x\n"}]);
    for body in [
        json!({"source": source, "target": target, "resolutions": resolutions}),
        json!({"source": source, "target": target, "strategy": "ours"}),
        json!({"source": source, "target": first, "strategy": "ours", "dry_run": true}),
    ] {
        merge(&c, &at, body)
            .await
            .error(412, "precondition_failed", "*");
    }
    assert_eq!(c.text(&at).await, "somebody was faster\n");
    let etag = c.get(&at).await.expect(200).etag();
    c.put(&at, json!({"title": "Other"})).await.expect(200);
    let late =
        merge(&c, &at, json!({"source": "side", "strategy": "ours"})).with("if-match", &etag);
    late.await.error(412, "precondition_failed", "*");
    assert_eq!(versions(&c, &at).await, 4);
}

#[tokio::test]
async fn every_bad_field_of_a_merge_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &clean()).await;
    let other = c.document("other\n").await;
    let foreign = c.head(&other).await;
    let cases = [
        (json!({}), "source"),
        (json!({"source": 1}), "source"),
        (json!({"source": foreign}), "source"),
        (json!({"source": "nothing"}), "source"),
        (json!({"source": "99"}), "source"),
        (json!({"source": "../side"}), "source"),
        (json!({"source": ""}), "source"),
        (json!({"source": "side", "target": foreign}), "target"),
        (json!({"source": "side", "target": "nothing"}), "target"),
        (json!({"source": "side", "strategy": "octopus"}), "strategy"),
        (json!({"source": "side", "style": "git"}), "style"),
        (json!({"source": "side", "dry_run": "yes"}), "dry_run"),
        (json!({"source": "side", "message": ""}), "message"),
        (json!({"source": "side", "into": "main"}), "into"),
    ];
    for (body, field) in cases {
        merge(&c, &at, body)
            .await
            .error(400, "invalid_request", field);
    }
    assert_eq!(versions(&c, &at).await, 3);
}

#[tokio::test]
async fn lines_that_crossed_merge_from_what_their_common_ancestors_come_to() {
    let (_account, c) = account_with_client().await;
    let at = c.document("1\n2\n3\n4\n5\n").await;
    c.branch(&at, "side", "A\n2\n3\n4\n5\n").await;
    let newest = "1\n2\n3\n4\nB\n";
    let on_main = c.write(&at, newest).await;
    merge(&c, &at, json!({"source": "side"})).await.expect(201);
    merge(&c, &at, json!({"source": on_main, "target": "side"}))
        .await
        .expect(201);
    // Neither version 2 nor version 3 is where both began, but what the two come to: since then
    // main took line 1 back.
    let texts = Triple {
        base: "A\n2\n3\n4\nB\n".to_owned(),
        ours: newest.to_owned(),
        theirs: "A\n2\nC\n4\nB\n".to_owned(),
    };
    c.write(&at, &texts.ours).await;
    c.branch(&at, "side", &texts.theirs).await;
    for _ in 0..2 {
        let (merged, _) = outcome(
            &merge(&c, &at, json!({"source": "side", "dry_run": true}))
                .await
                .expect(200),
        );
        assert_eq!(merged, merge_file(&texts, &[]).0);
    }
    let made = merge(&c, &at, json!({"source": "side"})).await.expect(201);
    assert_eq!(
        (c.text(&at).await.as_str(), &made["number"]),
        ("1\n2\nC\n4\nB\n", &json!(8))
    );
}

#[tokio::test]
async fn what_lines_that_crossed_decided_in_different_ways_is_a_conflict() {
    let (_account, c) = account_with_client().await;
    let at = c.document("x\n").await;
    c.branch(&at, "b", "B\n").await;
    let on_main = c.write(&at, "A\n").await;
    let head = merge(&c, &at, json!({"source": "b", "strategy": "ours"}))
        .await
        .expect(201)
        .id("id");
    let body = json!({"source": on_main, "target": "b", "strategy": "ours"});
    let tip = merge(&c, &at, body).await.expect(201).id("id");
    let base =
        "<<<<<<<<< Temporary merge branch 1\nB\n=========\nA\n>>>>>>>>> Temporary merge branch 2\n";
    for (target, source, ours, theirs) in [("main", "b", "A", "B"), ("b", "main", "B", "A")] {
        for style in ["merge", "diff3", "zdiff3"] {
            let of_base = if style == "merge" {
                String::new()
            } else {
                format!("||||||| base\n{base}")
            };
            for dry_run in [true, false] {
                let body =
                    json!({"source": source, "target": target, "style": style, "dry_run": dry_run});
                let refused = merge(&c, &at, body)
                    .await
                    .error(409, "merge_conflict", "source");
                let details = &refused.body["error"]["details"];
                let merged = format!(
                    "<<<<<<< {target}\n{ours}\n{of_base}=======\n{theirs}\n>>>>>>> {source}\n"
                );
                assert_eq!(
                    (&details["merged"], &details["style"]),
                    (&json!(merged), &json!(style))
                );
                let (ours, theirs) = (format!("{ours}\n"), format!("{theirs}\n"));
                let conflict = json!({"index": 0, "base": base, "ours": ours, "theirs": theirs, "start_line": 1});
                assert_eq!(details["conflicts"], json!([conflict]));
                let ids = if target == "b" {
                    (&head, &tip)
                } else {
                    (&tip, &head)
                };
                assert_eq!(
                    (&details["source"], &details["target"]),
                    (&json!(ids.0), &json!(ids.1))
                );
            }
        }
    }
    let resolutions = json!([{"index": 0, "content": "C\n"}]);
    merge(
        &c,
        &at,
        json!({"source": tip, "target": head, "resolutions": resolutions}),
    )
    .await
    .expect(201);
    assert_eq!(c.text(&at).await, "C\n");
}

#[tokio::test]
async fn of_many_merges_of_the_same_lines_one_is_a_version() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &clean()).await;
    let merges = (0..16).map(|_| merge(&c, &at, json!({"source": "side"})).into_future());
    let statuses: Vec<u16> = futures_util::future::join_all(merges)
        .await
        .iter()
        .map(|answer| answer.status)
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 201).count(),
        1,
        "{statuses:?}"
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        15,
        "the others are up to date: {statuses:?}"
    );
    assert_eq!(versions(&c, &at).await, 4);
}

#[tokio::test]
async fn a_dry_runs_answer_is_kept_under_its_key_like_any_other() {
    let (_account, c) = account_with_client().await;
    let at = forked(&c, &clean()).await;
    let body = json!({"source": "side", "dry_run": true});
    let dry = || {
        c.post(&format!("{at}/merge"), body.clone())
            .with("idempotency-key", "dry")
    };
    let first = dry().await.expect(200);
    assert_eq!(first["merged"], "one\n2\n3\n4\nfive\n");
    c.write(&at, "uno\n2\n3\n4\n5\n").await;
    let again = dry().await.expect(200);
    assert_eq!(
        (&again.bytes, again.header("idempotent-replayed")),
        (&first.bytes, "true")
    );
    let merge = c
        .post(&format!("{at}/merge"), json!({"source": "side"}))
        .with("idempotency-key", "dry");
    merge.await.error(422, "idempotency_key_reused", "*");
    assert_eq!(versions(&c, &at).await, 4, "the dry run wrote nothing");
}

#[tokio::test]
async fn thousands_of_conflicts_are_told_in_whole() {
    let (_account, c) = account_with_client().await;
    let text = |side: &str| {
        (0..5_000)
            .map(|n| format!("{n} {side}\n{n} a\n{n} b\n{n} c\n{n} d\n"))
            .collect::<String>()
    };
    let texts = Triple {
        base: text("base"),
        ours: text("ours"),
        theirs: text("theirs"),
    };
    let at = forked(&c, &texts).await;
    let plain =
        merge(&c, &at, json!({"source": "side"}))
            .await
            .error(409, "merge_conflict", "source");
    let (merged, conflicts) = outcome(&plain);
    assert_eq!(
        (conflicts.len(), &merged),
        (5_000, &merge_file(&texts, &[]).0)
    );
    assert_conflicts_stand(&merged, &conflicts[..50]);
    let call = c
        .post(&format!("{at}/merge"), json!({"source": "side"}))
        .with("accept", "application/problem+json");
    let problem = call.await.expect(409);
    assert_eq!(problem.header("content-type"), "application/problem+json");
    assert_eq!(
        (&problem["code"], &problem["details"]),
        (&json!("merge_conflict"), &plain["error"]["details"])
    );
    assert_eq!(problem["instance"], format!("{at}/merge"));
}
