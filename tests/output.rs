//! Where the server prints: a full disk or a closed pipe behind stdout or stderr neither ends it
//! nor costs a secret.

use std::fs::File;
use std::process::{Command, Stdio};
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
    use std::io::{Read, Write};
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
