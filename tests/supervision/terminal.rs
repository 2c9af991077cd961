//! `colloquy actors`, `colloquy supervision` and `colloquy operators`: the same from a terminal.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{Operator, drilling};
use crate::support::{OPERATOR, Server, Setup, process, tool};

/// A folder without a config.toml, so that only the environment says where the server is.
const ELSEWHERE: &str = env!("CARGO_TARGET_TMPDIR");

/// What a command did.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(mut command: Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = tool::started("setpriv", command.output());
        Ran {
            code: status.code(),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    /// What it printed; it succeeded, said nothing else, and kept within 100 columns.
    fn printed(&self) -> &str {
        assert_eq!((self.code, &*self.err), (Some(0), ""), "{self:?}");
        for line in self.out.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        &self.out
    }

    /// What it said on stderr; it failed and printed nothing.
    fn refused(&self, code: i32) -> &str {
        assert_eq!((self.code, &*self.out), (Some(code), ""), "{self:?}");
        &self.err
    }
}

/// The command with these words for a server at this address.
fn command(address: &str, words: &str) -> Command {
    let mut command = process::colloquy();
    command
        .args(words.split(' '))
        .current_dir(ELSEWHERE)
        .env("COLLOQUY__SERVER__BIND", address)
        .env("COLLOQUY__ADMIN__TOKEN", OPERATOR);
    command
}

fn run(server: &Server, words: &str) -> Ran {
    Ran::of(command(&server.address(), words))
}

/// The cells of the row that begins with this word.
fn row<'a>(table: &'a str, first: &str) -> Vec<&'a str> {
    let rows = table.lines().map(|line| line.split_whitespace().collect());
    let mut rows = rows.filter(|row: &Vec<&str>| row.first() == Some(&first));
    rows.next()
        .unwrap_or_else(|| panic!("no {first} in\n{table}"))
}

fn json_of(server: &Server, words: &str) -> Value {
    let ran = run(server, &format!("{words} --json"));
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

#[tokio::test]
async fn kinds_and_actors_are_shown_as_the_interface_shows_them() {
    let server = Setup::default().start();
    let account = server.account().await;
    let conversation = account.test().conversation().await;
    let shown = run(&server, "actors");
    let kinds = Operator::of(&server).kind("conversation").await;
    let cells = row(shown.printed(), "conversation");
    assert_eq!(cells[1], kinds["live"].to_string(), "live");
    assert_eq!(*cells.last().unwrap(), "ready");
    assert!(!shown.out.contains('\x1b'), "no colours in a pipe");
    let all = json_of(&server, "actors");
    let all = all["data"].as_array().unwrap();
    assert!(all.iter().any(|kind| kind["kind"] == "conversation"));
    for kind in all {
        row(&shown.out, kind["kind"].as_str().unwrap());
    }

    let listed = run(
        &server,
        "actors conversation --state ready --sort bytes --limit 5",
    );
    assert_eq!(
        *row(listed.printed(), &conversation).last().unwrap(),
        "ready"
    );
    let none = run(&server, "actors conversation --state quarantined");
    assert!(none.printed().contains("none in memory"), "{none:?}");
    let one = run(&server, &format!("actors {conversation}"));
    assert_eq!(row(one.printed(), "state"), ["state", "ready"]);
    let seen = Operator::of(&server).seen(&conversation).await;
    let same = json_of(&server, &format!("actors {conversation}"));
    assert_eq!(
        (&same["id"], &same["revision"]),
        (&seen["id"], &seen["revision"])
    );
}

#[tokio::test]
async fn the_limiter_and_the_webhook_actor_are_taken_by_the_ids_that_are_shown() {
    let server = Setup::default().start();
    for id in ["limiter_0", "webhook_dispatcher"] {
        let restarted = run(&server, &format!("actors restart {id}"));
        assert_eq!(row(restarted.printed(), "id"), ["id", id]);
    }
    let one = run(&server, "actors limiter_0");
    assert_eq!(row(one.printed(), "id"), ["id", "limiter_0"]);
    let listed = run(&server, "actors webhook_dispatcher");
    row(listed.printed(), "webhook_dispatcher");
}

#[tokio::test]
async fn an_actor_is_crashed_released_restarted_and_passivated() {
    let mut server = drilling();
    let account = server.account().await;
    let client = account.test();
    let conversation = client.conversation().await;
    let steer = |command: &str| {
        let ran = run(&server, &format!("actors {command} {conversation}"));
        row(ran.printed(), "state").join(" ")
    };
    let restarted = steer("restart");
    assert!(
        ["state ready", "state loading"].contains(&&*restarted),
        "{restarted}"
    );
    Operator::of(&server)
        .quarantine(&conversation, &client)
        .await;
    let listed = run(&server, "actors conversation --state quarantined");
    assert!(row(listed.printed(), &conversation).contains(&"quarantined,"));
    let told = run(&server, "actors");
    assert!(row(told.printed(), "conversation").ends_with(&["1", "quarantined"]));
    run(&server, "supervision set conversation.quarantine_seconds=0").printed();
    let over = run(&server, "actors conversation --state quarantined");
    assert!(over.printed().contains("none in memory"), "{over:?}");
    let one = run(&server, &format!("actors {conversation}"));
    assert_eq!(row(one.printed(), "state"), ["state", "ready"]);
    run(&server, "supervision reset conversation.quarantine_seconds").printed();
    assert_eq!(steer("release"), "state ready");
    let path = format!("/v1/conversations/{conversation}");
    client.get(&path).await.expect(200);
    assert_eq!(steer("passivate"), "state passive");
    assert_eq!(steer("crash"), "state ready");
    client.get(&path).await.error(500, "server_error", "");
    client.get(&path).await.expect(200);
    assert!(server.term().success());
}

#[tokio::test]
async fn settings_are_set_shown_and_reset() {
    let server = Setup::default().start();
    let set = run(
        &server,
        "supervision set conversation.crashes_max=3 document.idle_seconds=1.5",
    );
    assert_eq!(
        row(set.printed(), "crashes_max"),
        ["crashes_max", "3", "5", "conversation"]
    );
    let held = || async {
        let settings = server.operator().get("/admin/v1/supervision").await;
        let kinds = settings.expect(200)["kinds"].clone();
        json!([
            kinds["conversation"]["crashes_max"]["value"],
            kinds["document"]["idle_seconds"]["value"]
        ])
    };
    assert_eq!(held().await, json!([3, 1.5]));
    let shown = run(&server, "supervision document");
    assert_eq!(
        row(shown.printed(), "idle_seconds"),
        ["idle_seconds", "1.5", "300", "document"]
    );
    let all = run(&server, "supervision");
    assert!(all.printed().contains("all kinds"), "{all:?}");
    let reset = "supervision reset conversation.crashes_max document.idle_seconds";
    run(&server, reset).printed();
    assert_eq!(held().await, json!([5, 300]));
    assert_eq!(
        json_of(&server, "supervision")["kinds"]["document"]["idle_seconds"],
        json!({"value": 300, "configured": 300})
    );
}

#[tokio::test]
async fn what_the_server_refuses_is_told_with_the_field_and_changes_nothing() {
    let server = Setup::default().start();
    for (words, told) in [
        (
            "supervision set conversation.crashes_max=0",
            "kinds.conversation.crashes_max",
        ),
        (
            "supervision set conversation.crashes_max=3 key.mailbox_places=65537",
            "kinds.key.mailbox_places",
        ),
        ("supervision set parrot.crashes_max=3", "parrot"),
        ("supervision reset conversation.feathers", "feathers"),
        ("actors parrot", "no such kind"),
        ("actors conversation --state asleep", "state"),
        ("actors conversation --limit 0", "limit"),
        ("actors conv_018f2f6e5c6a7c3e8d2b1a0f9e8d7c6b", "404"),
    ] {
        let ran = run(&server, words);
        assert!(ran.refused(1).contains(told), "{words}: {ran:?}");
    }
    let account = server.account().await;
    let conversation = account.test().conversation().await;
    let crash = run(&server, &format!("actors crash {conversation}"));
    assert!(crash.refused(1).contains("drills"), "{crash:?}");
    for (words, told) in [
        ("supervision parrot", "parrot"),
        ("supervision limiter", "limiter"),
        ("actors restart msg_1", "msg_1"),
        (
            "supervision set key.crashes_max=3 key.crashes_max=4",
            "key.crashes_max",
        ),
    ] {
        let ran = run(&server, words);
        assert!(ran.refused(1).contains(told), "{words}: {ran:?}");
    }
    let ran = run(&server, "supervision set key.crashes_max=many");
    assert!(ran.refused(2).contains("KIND.SETTING=NUMBER"), "{ran:?}");
    let settings = server.operator().get("/admin/v1/supervision").await;
    assert_eq!(
        settings.expect(200)["kinds"]["conversation"]["crashes_max"]["value"],
        5
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_or_lets_nobody_in_is_named() {
    let mut server = Setup::default().start();
    let address = server.address();
    let mut wrong = command(&address, "actors");
    wrong.env(
        "COLLOQUY__ADMIN__TOKEN",
        "op_another_token_0123456789abcdef",
    );
    let wrong = Ran::of(wrong);
    for told in ["401", "[admin] token", &address] {
        assert!(wrong.refused(1).contains(told), "{wrong:?}");
    }
    let mut unknown = command(&address, "actors");
    unknown.env_remove("COLLOQUY__ADMIN__TOKEN");
    let unknown = Ran::of(unknown);
    assert!(unknown.refused(1).contains("[admin] token"), "{unknown:?}");
    assert!(server.term().success());
    let gone = Ran::of(command(&address, "supervision"));
    assert!(
        gone.refused(1).contains(&format!("http://{address}")),
        "{gone:?}"
    );
    let nowhere = Ran::of(command("127.0.0.1:0", "actors"));
    assert!(nowhere.refused(1).contains("[server] bind"), "{nowhere:?}");
}

#[tokio::test]
async fn a_terminal_gets_colours_unless_it_wants_none() {
    let server = Setup::default().start();
    let on_a_terminal = |no_color: &str| {
        let mut script = Command::new("script");
        script
            .arg("-qec")
            .arg(format!("{} actors", env!("CARGO_BIN_EXE_colloquy")))
            .arg("/dev/null")
            .current_dir(ELSEWHERE)
            .env("COLLOQUY__SERVER__BIND", server.address())
            .env("COLLOQUY__ADMIN__TOKEN", OPERATOR)
            .env("NO_COLOR", no_color);
        let ran = tool::started("script", script.output());
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    assert!(on_a_terminal("").contains("\x1b[1mkind\x1b[0m"));
    assert!(!on_a_terminal("1").contains('\x1b'));
}

/// Whether a form lets somebody in to the console.
async fn lets_in(server: &Server, path: &str, form: &str) -> bool {
    let call = server.anonymous().call("POST", path).bytes(form);
    let answer = call
        .with("content-type", "application/x-www-form-urlencoded")
        .await;
    answer
        .header_opt("set-cookie")
        .is_some_and(|cookie| cookie.starts_with("colloquy_session="))
}

#[tokio::test]
async fn an_operator_is_added_signs_in_by_name_and_is_removed() {
    let server = Setup::default().start();
    let added = run(&server, "operators add Ada Lovelace");
    let link = added.printed().lines().last().unwrap();
    assert!(added.out.starts_with("Ada Lovelace sets a password here"));
    let (_, path) = link.split_once(&server.address()).unwrap();
    let password = "password=a+sentence+that+I+remember";
    let repeated = password.replace("password", "repeated");
    assert!(lets_in(&server, path, &format!("{password}&{repeated}")).await);
    let by_name = format!("name=ada+lovelace&{password}");
    assert!(lets_in(&server, "/console/sign-in", &by_name).await);

    let listed = run(&server, "operators");
    assert!(listed.printed().contains("Ada Lovelace"), "{listed:?}");
    let made = json_of(&server, "operators add Grace");
    assert!(
        made["url"]
            .as_str()
            .unwrap()
            .contains("/console/invitations/")
    );
    let all = json_of(&server, "operators");
    assert_eq!(all["data"].as_array().unwrap().len(), 2);

    let twice = run(&server, "operators add GRACE");
    assert!(twice.refused(1).contains("name"), "{twice:?}");
    let nobody = run(&server, "operators remove Alan");
    assert!(nobody.refused(1).contains("Alan"), "{nobody:?}");
    let nameless = run(&server, "operators add");
    assert!(nameless.refused(2).contains("which name?"), "{nameless:?}");

    let removed = run(&server, "operators remove ada LOVELACE");
    assert_eq!(removed.printed(), "Ada Lovelace is no operator any more.\n");
    assert!(!lets_in(&server, "/console/sign-in", &by_name).await);
    let left = json_of(&server, "operators");
    assert_eq!(left["data"][0]["name"], "Grace");
}
