//! The chain of the audit trail: whatever is done to the file is found, and what the server itself
//! does to it is not.

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::{Account, Server, Setup, process, until_now};

const SOON: Duration = Duration::from_secs(30);

/// Runs `colloquy audit` with these arguments, in the folder of a server.
pub(crate) fn audit(server: &Server, arguments: &[&str]) -> Output {
    let mut command = process::colloquy();
    command
        .arg("audit")
        .args(arguments)
        .current_dir(server.work())
        .envs(server.store())
        .env("COLLOQUY__SERVER__BIND", server.address())
        .env("COLLOQUY__ADMIN__TOKEN", crate::support::OPERATOR);
    command.output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8(both).unwrap()
}

#[track_caller]
pub(crate) fn assert_verified(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    assert!(
        said(output).contains("the end is signed"),
        "{}",
        said(output)
    );
}

/// Fails unless the chain was found broken there.
#[track_caller]
pub(crate) fn assert_broken(output: &Output, position: i64) {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    let place = format!("position {position}: ");
    assert!(said(output).starts_with(&place), "{}", said(output));
}

/// Runs this in Python with the file of the store open as `db`; gives what it prints.
fn python(server: &Server, script: &str) -> String {
    let begin = "import sqlite3\ndb = sqlite3.connect('data/colloquy.db', isolation_level=None)\n";
    let mut command = Command::new("python3");
    command.args(["-B", "-c", &format!("{begin}{script}")]);
    let output = command.current_dir(server.work()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Something of every sort.
pub(crate) async fn fill(server: &Server) -> Account {
    let account = server.account().await;
    let c = account.live();
    let customer = c.customer().await;
    let user = c.user("agent").await;
    let conversation = c.conversation_of(&customer).await;
    let mut messages = Vec::new();
    for number in 0..12 {
        let sent = c.message(&conversation, &format!("message {number}")).await;
        messages.push(sent.header("location").to_owned());
    }
    c.patch(&messages[2], json!({"content": "changed"}))
        .await
        .expect(200);
    c.delete(&messages[3]).await;
    let document = json!({"title": "Notes", "content": "one\n"});
    let owner = c.acting_for(&user);
    let made = owner.post("/api/v1/documents", document).await.expect(201);
    let at = made.header("location").to_owned();
    owner.delete(&at).await.expect(204);
    let gone = owner.document("one\n").await;
    let gone = owner.delete(&format!("{gone}?permanent=true")).await;
    gone.expect(204);
    c.get("/v1/customers")
        .with("authorization", "Bearer wrong")
        .await
        .expect(401);
    account
        .read()
        .post("/v1/customers", json!({"name": "x"}))
        .await
        .expect(403);
    for _ in 0..3 {
        c.customer().await;
    }
    account
}

async fn stopped() -> (Server, Account) {
    let mut server = Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .start();
    let account = fill(&server).await;
    let seconds = SOON.as_secs();
    let is_erased = format!(
        "import time
end = time.monotonic() + {seconds}
while db.execute('SELECT count(*) FROM erasures').fetchone()[0]:
    assert time.monotonic() < end, 'the document is not erased'
    time.sleep(.05)"
    );
    python(&server, &is_erased);
    assert!(server.term().success());
    assert_verified(&audit(&server, &["verify"]));
    (server, account)
}

/// The position of a message of the middle.
fn middle(server: &Server) -> i64 {
    let sql = "print(db.execute('SELECT pos FROM rows WHERE happened = 4 ORDER BY pos LIMIT 1 OFFSET 6').fetchone()[0])";
    python(server, sql).parse().unwrap()
}

#[tokio::test]
async fn a_record_that_was_altered_is_found() {
    let (server, _account) = stopped().await;
    let at = middle(&server);
    let file = server.work().join("data/colloquy.db");
    let whole = fs::read(&file).unwrap();
    for (column, value) in [
        ("by_request", "'another'"),
        ("by_address", "'192.0.2.1'"),
        ("at", "at + 1"),
        ("by_key", "by_key + 1"),
        ("happened", "5"),
        ("scope", "scope + 4"),
        ("hash", "zeroblob(32)"),
        ("assignee", "7"),
        ("link", "zeroblob(32)"),
        ("link", "NULL"),
        ("payload", "replace(payload, 'message', 'massage')"),
    ] {
        let column_is = if column == "payload" {
            format!("CAST({value} AS BLOB)")
        } else {
            value.to_owned()
        };
        python(
            &server,
            &format!("db.execute(\"UPDATE rows SET {column} = {column_is} WHERE pos = {at}\")"),
        );
        let found = audit(&server, &["verify"]);
        if column == "payload" {
            assert_eq!(found.status.code(), Some(1), "{}", said(&found));
        } else {
            assert_broken(&found, at);
        }
        fs::write(&file, &whole).unwrap();
        assert_verified(&audit(&server, &["verify"]));
    }
}

#[tokio::test]
async fn a_record_that_was_removed_or_moved_is_found() {
    let (server, _account) = stopped().await;
    let at = middle(&server);
    python(
        &server,
        &format!("db.execute('DELETE FROM rows WHERE pos = {at}')"),
    );
    assert_broken(&audit(&server, &["verify"]), at + 1);

    let (server, _account) = stopped().await;
    let at = middle(&server);
    let swap = format!(
        "for a, b in ((-1, {at}), ({at}, {at} + 1), ({at} + 1, -1)):\n    db.execute('UPDATE rows SET pos = ? WHERE pos = ?', (a, b))"
    );
    python(&server, &swap);
    assert_broken(&audit(&server, &["verify"]), at);
}

#[tokio::test]
async fn a_tail_that_was_cut_off_is_found_even_where_the_end_was_put_back() {
    let (mut server, account) = stopped().await;
    let last: i64 = python(
        &server,
        "print(db.execute('SELECT max(pos) FROM rows').fetchone()[0])",
    )
    .parse()
    .unwrap();
    let earlier = "(SELECT link FROM rows WHERE pos = (SELECT max(pos) FROM rows))";
    python(
        &server,
        &format!("db.execute('DELETE FROM rows WHERE pos > {last} - 3')"),
    );
    let kept = last - 3;
    assert_broken(&audit(&server, &["verify"]), kept);
    // What comes behind it does not heal it.
    server.expect_errors();
    server.restart();
    server.with_key(account.test_key()).customer().await;
    let running = audit(&server, &["verify"]);
    assert_broken(&running, last + 1);

    let (server, _account) = stopped().await;
    let last: i64 = python(
        &server,
        "print(db.execute('SELECT max(pos) FROM rows').fetchone()[0])",
    )
    .parse()
    .unwrap();
    let kept = last - 3;
    let put_back = format!(
        "db.execute('DELETE FROM rows WHERE pos > {kept}')\ndb.execute('UPDATE audit_head SET pos = {kept}, link = {earlier}')"
    );
    python(&server, &put_back);
    assert_broken(&audit(&server, &["verify"]), kept);
}

#[tokio::test]
async fn an_end_that_was_taken_away_is_missed_and_no_start_makes_another() {
    let (mut server, account) = stopped().await;
    python(&server, "db.execute('DELETE FROM audit_head')");
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    assert!(said(&found).contains("the end of the chain is gone"));
    server.expect_errors();
    server.restart();
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    let told = "the end of the audit trail's chain is gone";
    assert!(server.log().contains(told), "{}", server.log());
    server.with_key(account.test_key()).customer().await;
    assert!(server.term().success());
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
}

#[tokio::test]
async fn what_was_taken_away_without_a_redaction_is_found() {
    let (server, _account) = stopped().await;
    let position = |of: &str| -> i64 {
        let select = format!("SELECT pos FROM rows WHERE {of} LIMIT 1");
        let print = format!("print(db.execute('{select}').fetchone()[0])");
        python(&server, &print).parse().unwrap()
    };
    let message = "happened = 4 AND salt IS NOT NULL";
    let redacted = "happened = 4 AND salt IS NULL";
    let other = "payload = CAST(json_set(CAST(payload AS TEXT), '$.content', 'another') AS BLOB)";
    // What is redacted, and what was deleted for good.
    assert!(position(redacted) > 0 && position("happened = 6 AND salt IS NULL") > 0);
    for (of, change) in [
        (message, "salt = NULL"),
        (message, "salt = NULL, payload = NULL"),
        (message, "payload = NULL"),
        ("happened = 5 AND salt IS NOT NULL", "salt = NULL"),
        ("happened = 1", "salt = NULL, payload = NULL"),
        ("kind = 4", "salt = NULL"),
        (redacted, other),
    ] {
        let at = position(of);
        let taken = format!(
            "print(db.execute('SELECT hex(salt), hex(payload) FROM rows WHERE pos = {at}').fetchone())\n\
             assert db.execute(\"UPDATE rows SET {change} WHERE pos = {at}\").rowcount == 1"
        );
        let kept = python(&server, &taken);
        assert_broken(&audit(&server, &["verify"]), at);
        let back = format!(
            "salt, payload = map(bytes.fromhex, {kept})\n\
             db.execute('UPDATE rows SET salt = ?, payload = ? WHERE pos = {at}', (salt or None, payload))"
        );
        python(&server, &back);
        assert_verified(&audit(&server, &["verify"]));
    }
}

#[tokio::test]
async fn what_retention_took_away_leaves_the_chain_whole_and_checked() {
    let setup = Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .env("COLLOQUY__EVENTS__RETENTION_DAYS", "1");
    let (mut server, clock) = Clock::start_as(setup);
    let account = server.account().await;
    let c = account.live();
    let conversation = c.conversation().await;
    let at = format!("/v1/conversations/{conversation}");
    c.patch(&at, json!({"priority": "high"})).await.expect(200);
    // Retention frees whole slices of the feed.
    for number in 0..520 {
        c.message(&conversation, &format!("message {number}")).await;
    }
    clock.ahead(3 * 24 * 60);
    server.term();
    server.restart();
    let later = c.at(&server.address()).conversation().await;
    let freed = "SELECT coalesce(min(pos), 0) FROM rows WHERE happened = 2 AND payload IS NULL";
    let freed = format!("print(db.execute('{freed}').fetchone()[0])");
    let freed = until_now("payloads are freed", SOON, || {
        let freed: i64 = python(&server, &freed).parse().unwrap();
        (freed > 0).then_some(freed)
    });
    let at = format!("/v1/conversations/{later}");
    let later = c.at(&server.address());
    later
        .patch(&at, json!({"priority": "low"}))
        .await
        .expect(200);
    assert!(server.term().success());
    assert_verified(&audit(&server, &["verify"]));
    // What is newer is not retention's, and what is older is still told of.
    let newer = "SELECT max(pos) FROM rows WHERE happened = 1";
    let newer = format!("print(db.execute('{newer}').fetchone()[0])");
    let newer: i64 = python(&server, &newer).parse().unwrap();
    let set = |change: &str, at: i64| {
        python(
            &server,
            &format!("db.execute('UPDATE rows SET {change} WHERE pos = {at}')"),
        );
    };
    set("salt = NULL, payload = NULL", newer);
    assert_broken(&audit(&server, &["verify"]), newer);
    set("by_user = 7", freed);
    assert_broken(&audit(&server, &["verify"]), freed);
}

/// Makes the chain anew over what the rows say, as whoever has read the README can.
const FORGE: &str = "
import hashlib, struct
columns = 'pos kind entity tail seq happened scope number at from_customer from_agent from_system last_message_at channel priority assignee sender by_key by_user'.split()
number = lambda value: b'\\0' if value is None else b'\\1' + struct.pack('>q', value)
text = lambda value: b'\\0' if value is None else b'\\2' + struct.pack('>I', len(value)) + value
link = bytes(32)
for row in db.execute('SELECT by_address, by_request, hash, ' + ', '.join(columns) + ' FROM rows ORDER BY pos').fetchall():
    address, request, hashed, *numbers = row
    said = b''.join(map(number, numbers)) + text(address and address.encode()) + text(request.encode()) + text(hashed)
    link = hashlib.sha256(link + hashlib.sha256(b'colloquy audit record 1\\n' + said).digest()).digest()
    db.execute('UPDATE rows SET link = ? WHERE pos = ?', (link, numbers[0]))
db.execute('UPDATE audit_head SET link = ?', (link,))
";

#[tokio::test]
async fn a_chain_that_was_made_anew_without_the_master_key_is_found() {
    let (server, _account) = stopped().await;
    let at = middle(&server);
    // What the script makes is the chain: it finds what stands there.
    python(&server, FORGE);
    assert_verified(&audit(&server, &["verify"]));
    let altered = format!("db.execute('UPDATE rows SET by_user = 7 WHERE pos = {at}')\n{FORGE}");
    python(&server, &altered);
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    assert!(
        said(&found).contains("not the one that was signed"),
        "{}",
        said(&found)
    );
}

#[tokio::test]
async fn an_end_that_was_signed_once_is_no_end_of_a_longer_trail() {
    let mut server = Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .start();
    let account = fill(&server).await;
    assert!(server.term().success());
    let head =
        "print(db.execute('SELECT pos, hex(link), hex(signature) FROM audit_head').fetchone())";
    let earlier = python(&server, head);
    server.restart();
    let c = server.with_key(account.test_key());
    let conversation = c.conversation().await;
    c.message(&conversation, "to be denied").await;
    assert!(server.term().success());
    assert_verified(&audit(&server, &["verify"]));
    let put_back = format!(
        "pos, link, signature = {earlier}\ndb.execute('DELETE FROM rows WHERE pos > ?', (pos,))\n\
         db.execute('UPDATE audit_head SET pos = ?, link = unhex(?), signature = unhex(?)', (pos, link, signature))"
    );
    let put_back = put_back.replace(
        "unhex(?), signature = unhex(?)', (pos, link, signature)",
        "?, signature = ?', (pos, bytes.fromhex(link), bytes.fromhex(signature))",
    );
    python(&server, &put_back);
    let found = audit(&server, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    assert!(
        said(&found).contains("records behind it are missing"),
        "{}",
        said(&found)
    );
}

#[tokio::test]
async fn what_the_server_does_itself_leaves_the_chain_whole() {
    // What is encrypted is read to be explained, and hashed as it is stored.
    let encrypted = Setup::default()
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env("COLLOQUY__ENCRYPTION__MASTER_KEY", MASTER_KEY);
    for setup in [Setup::default(), encrypted] {
        leaves_the_chain_whole(setup).await;
    }
}

/// 32 bytes in base64.
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

async fn leaves_the_chain_whole(setup: Setup) {
    let mut server = setup.start();
    let account = fill(&server).await;
    assert_verified(&audit(&server, &["verify"]));
    let c = account.live();
    let conversation = c.conversation().await;
    let sent = c.message(&conversation, "to be redacted").await;
    c.delete(sent.header("location")).await;
    server.kill9();
    assert_verified(&audit(&server, &["verify"]));
    server.restart();
    server.with_key(account.test_key()).customer().await;
    assert_verified(&audit(&server, &["verify"]));
    assert!(server.term().success());
    assert_verified(&audit(&server, &["verify"]));
    server.assert_sound();
}

#[tokio::test]
async fn an_export_verifies_without_the_server_and_tells_what_was_done_to_it() {
    let server = Setup::default().start();
    let _account = fill(&server).await;
    let export = audit(&server, &["export"]);
    assert_eq!(export.status.code(), Some(0), "{}", said(&export));
    let text = String::from_utf8(export.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() > 20 && !text.contains("message 1"), "{text}");
    let verify = |name: &str, lines: &[&str]| {
        let path = server.work().join(name);
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        (audit(&server, &["verify", "--file", name]), path)
    };
    let (whole, path) = verify("whole", &lines);
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    let outsider = Command::new("python3")
        .args([
            "-B",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/audit_verify.py"),
        ])
        .arg(&path)
        .output()
        .unwrap();
    assert!(outsider.status.success(), "{}", said(&outsider));
    let record: Value = serde_json::from_str(lines[5]).unwrap();
    let position = |record: &Value| record["numbers"][0].as_i64().unwrap();
    let altered = lines[5].replace("\"request\":\"", "\"request\":\"x");
    let mut changed = lines.clone();
    changed[5] = &altered;
    assert_broken(&verify("altered", &changed).0, position(&record));
    let mut removed = lines.clone();
    removed.remove(5);
    assert_broken(&verify("removed", &removed).0, position(&record) + 1);
    let mut moved = lines.clone();
    moved.swap(5, 6);
    assert_broken(&verify("moved", &moved).0, position(&record) + 1);
    let cut = [&lines[..lines.len() - 3], &lines[lines.len() - 1..]].concat();
    let found = verify("cut", &cut).0;
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    let found = verify("without_end", &lines[..lines.len() - 1]).0;
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    let more = [&lines[..], &lines[5..6]].concat();
    let found = verify("more_behind_the_end", &more).0;
    assert!(!found.status.success(), "{}", said(&found));
    let renamed = lines[0].replace("\"entity\"", "\"user\"");
    assert_ne!(renamed, lines[0]);
    let renamed = [&[renamed.as_str()], &lines[1..]].concat();
    let found = verify("numbers_by_other_names", &renamed).0;
    assert!(!found.status.success(), "{}", said(&found));
}
