//! Where the server prints: a full disk or a closed pipe behind stdout or stderr neither ends it
//! nor costs a secret.

use std::fs::{self, File};
use std::io::{PipeReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::ports::free_port;
use crate::support::server::Folder;
use crate::support::{Setup, mongodb, process, until_now};

const START_MAX: Duration = Duration::from_secs(30);
const SECRETS: [&str; 4] = ["sk_test_", "sk_prod_", "sk_read_", "op_"];

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A server in this folder that logs a lot.
fn command(folder: &Folder, port: u16) -> Command {
    let mut command = process::colloquy();
    command.current_dir(folder.work()).stdin(Stdio::null());
    command
        .env("COLLOQUY__LOG__LEVEL", "trace")
        .env("COLLOQUY__SERVER__BIND", format!("127.0.0.1:{port}"));
    command
}

fn answers(port: u16, path: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().is_ok_and(|text| text.starts_with("HTTP/1.1 200"))
}

#[test]
fn a_log_that_can_not_be_written_harms_nobody() {
    let folder = Folder::new();
    let port = free_port();
    let mut server = command(&folder, port);
    server.stdout(Stdio::null()).stderr(full());
    let mut server = process::spawn(server);
    until_now("it serves", START_MAX, || {
        answers(port, "/readyz").then_some(())
    });
    assert!((0..20).all(|_| answers(port, "/healthz")));
    process::signal("TERM", server.id());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_start_serves_though_stdout_can_not_be_written() {
    let mut first = Setup::default().start();
    assert_eq!(first.term().code(), Some(0));
    let port = free_port();
    let mut server = process::colloquy();
    server
        .current_dir(first.work())
        .envs(mongodb::store_of(&first.work()))
        .env("COLLOQUY__SERVER__BIND", format!("127.0.0.1:{port}"));
    server.stdin(Stdio::null()).stdout(full()).stderr(full());
    let mut server = process::spawn(server);
    until_now("it serves", START_MAX, || {
        answers(port, "/readyz").then_some(())
    });
    process::signal("TERM", server.id());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_first_start_whose_secrets_can_not_be_printed_is_taken_back() {
    let folder = Folder::new();
    let mut refused = command(&folder, free_port());
    refused
        .env("COLLOQUY__LOG__LEVEL", "info")
        .stdout(full())
        .stderr(Stdio::piped());
    let output = process::spawn(refused).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("stdout") && said.contains("first start again"),
        "{said}"
    );
    for secret in SECRETS {
        assert!(!said.contains(secret), "{said}");
    }
    // The folder of attachments may stay: nothing in it is a store.
    let left: Vec<_> = std::fs::read_dir(folder.work().join("data"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let server = Setup::default()
        .unset("COLLOQUY__ADMIN__TOKEN")
        .start_in(folder);
    for secret in SECRETS {
        assert!(
            server.printed_token(secret).is_some(),
            "{secret}: {}",
            server.printed()
        );
    }
}

/// A first start that has done everything but shown its secrets: what reads its output has no room.
struct Unread {
    server: Child,
    output: PipeReader,
    log: tempfile::NamedTempFile,
}

impl Unread {
    fn start(folder: &Folder) -> Self {
        let (output, mut full) = std::io::pipe().unwrap();
        let log = tempfile::NamedTempFile::new().unwrap();
        // A pipe of the kernel's usual size.
        full.write_all(&[b' '; 1 << 16]).unwrap();
        let mut command = command(folder, 0);
        command
            .envs(mongodb::store_of(&folder.work()))
            .env("COLLOQUY__LOG__LEVEL", "info")
            .stdout(full)
            .stderr(log.reopen().unwrap());
        let server = process::spawn(command);
        let threads = format!("/proc/{}/task", server.id());
        until_now("it waits for its reader", START_MAX, || {
            let waits = |thread: std::io::Result<fs::DirEntry>| {
                let at = thread.ok().map(|thread| thread.path().join("wchan"));
                let at = at.and_then(|at| fs::read_to_string(at).ok());
                at.is_some_and(|at| at.ends_with("pipe_write"))
            };
            fs::read_dir(&threads).unwrap().any(waits).then_some(())
        });
        Unread {
            server,
            output,
            log,
        }
    }
}

#[tokio::test]
async fn a_first_start_that_was_killed_before_its_secrets_were_seen_is_one_again() {
    let folder = Folder::new();
    for _ in 0..2 {
        let mut unread = Unread::start(&folder);
        unread.server.kill().unwrap();
        unread.server.wait().unwrap();
    }
    let setup = Setup::default().unset("COLLOQUY__ADMIN__TOKEN");
    let mut server = setup.start_in(folder);
    let [test, _, _, operator] = SECRETS.map(|secret| server.printed_token(secret).unwrap());
    server.with_key(&test).get("/v1").await.expect(200);
    let operators = server.anonymous().with_operator(&operator);
    let accounts = operators.get("/admin/v1/accounts").await.expect(200);
    assert_eq!(accounts.total(), 1, "{accounts}");
    // Once they were seen no start makes any again.
    assert_eq!(server.term().code(), Some(0));
    server.restart();
    for secret in SECRETS {
        assert_eq!(server.printed_token(secret), None);
    }
    server.with_key(&test).get("/v1").await.expect(200);
}

#[test]
fn a_start_that_is_told_to_stop_ends_as_told() {
    for signal in ["TERM", "INT"] {
        let folder = Folder::new();
        let mut unread = Unread::start(&folder);
        process::signal(signal, unread.server.id());
        assert_eq!(unread.server.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_start_that_is_told_to_read_its_settings_again_does_so_when_it_serves() {
    let folder = Folder::new();
    let mut unread = Unread::start(&folder);
    process::signal("HUP", unread.server.id());
    // There is room now.
    let mut output = unread.output;
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    until_now("the settings are read again", START_MAX, || {
        let log = fs::read_to_string(unread.log.path()).unwrap();
        log.contains("the settings were read again").then_some(())
    });
    process::signal("TERM", unread.server.id());
    assert_eq!(unread.server.wait().unwrap().code(), Some(0));
}
