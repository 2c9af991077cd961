//! Under systemd: what a manager of services is told over its socket (sd_notify(3)), and the unit in
//! `deploy/`.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::server::Setup;
use crate::support::{process, tool};

/// How long what is told may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A manager's socket.
struct Manager {
    folder: tempfile::TempDir,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        Manager { folder, socket }
    }

    /// A server that this manager starts.
    fn setup(&self) -> Setup {
        let path = self.folder.path().join("notify");
        Setup::default().env("NOTIFY_SOCKET", path.to_str().unwrap())
    }

    /// What it is told next.
    fn hears(&self) -> String {
        let mut bytes = [0; 512];
        let length = self.socket.recv(&mut bytes).expect("it is told in time");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }
}

#[tokio::test]
async fn a_manager_is_told_when_the_server_serves_and_when_it_stops() {
    let manager = Manager::new();
    let mut server = manager.setup().start();
    assert_eq!(manager.hears().trim_end(), "READY=1");
    assert!(server.term().success());
    assert_eq!(manager.hears().trim_end(), "STOPPING=1");
    server.restart();
    assert_eq!(manager.hears().trim_end(), "READY=1");
    server.kill9();
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0; 8]).is_err(), "nothing more");
}

#[tokio::test]
async fn a_manager_is_told_that_settings_are_read_again_and_when_that_is_done() {
    let manager = Manager::new();
    let server = manager.setup().start();
    assert_eq!(manager.hears().trim_end(), "READY=1");
    process::signal("HUP", server.pid());
    // Both in one message, as Type=notify-reload wants them.
    let begun = manager.hears();
    let mut lines = begun.lines();
    assert_eq!(lines.next(), Some("RELOADING=1"));
    let at = lines
        .next()
        .and_then(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(at.is_some_and(|at| at.parse::<u64>().is_ok()), "{begun}");
    assert_eq!(manager.hears().trim_end(), "READY=1");
}

#[tokio::test]
async fn a_server_that_can_not_start_is_never_told_to_serve() {
    let manager = Manager::new();
    let folder = tempfile::tempdir().unwrap();
    let setup = manager.setup().config("[limits]\nmax_body_bytes = -1\n");
    let (status, _) = setup.refused_in(folder.path());
    assert_eq!(status.code(), Some(2));
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0; 8]).is_err());
}

#[tokio::test]
async fn a_manager_that_watches_hears_in_time_that_the_server_is_alive() {
    const WANTED_WITHIN: Duration = Duration::from_secs(3);
    let manager = Manager::new();
    let wanted = WANTED_WITHIN.as_micros().to_string();
    let server = manager.setup().env("WATCHDOG_USEC", &wanted).start();
    assert_eq!(manager.hears().trim_end(), "READY=1");
    let mut last = Instant::now();
    for _ in 0..3 {
        assert_eq!(manager.hears().trim_end(), "WATCHDOG=1");
        assert!(last.elapsed() < WANTED_WITHIN, "{:?}", last.elapsed());
        last = Instant::now();
    }
    let stopped = process::pause(server.pid());
    manager.socket.set_nonblocking(true).unwrap();
    while manager.socket.recv(&mut [0; 64]).is_ok() {}
    manager.socket.set_nonblocking(false).unwrap();
    manager
        .socket
        .set_read_timeout(Some(WANTED_WITHIN))
        .unwrap();
    let silence = manager.socket.recv(&mut [0; 64]);
    assert!(silence.is_err(), "nobody speaks for a server that hangs");
    drop(stopped);
    manager.socket.set_read_timeout(Some(SOON)).unwrap();
    assert_eq!(manager.hears().trim_end(), "WATCHDOG=1");
}

/// Fails where systemd finds something wrong in the unit, or more open than need be (0 is closed, 10
/// open).
#[test]
fn the_unit_is_sound_and_closed() {
    const EXPOSURE_MAX: &str = "--threshold=15";
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/colloquy.service");
    let unit = fs::read_to_string(unit).unwrap();
    let binary = "/usr/local/bin/colloquy";
    assert!(unit.contains(&format!("ExecStart={binary}\n")));
    // Without it backups and merges run on the cores of requests, and the server says so.
    let filters: Vec<&str> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("SystemCallFilter="))
        .collect();
    assert_eq!(filters.last(), Some(&"sched_setaffinity"), "{filters:?}");
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("colloquy.service");
    let unit = unit.replace(binary, env!("CARGO_BIN_EXE_colloquy"));
    fs::write(&here, unit).unwrap();
    analyzed(&["verify"], &here);
    analyzed(&["security", "--offline=true", EXPOSURE_MAX], &here);
}

fn analyzed(asked: &[&str], unit: &Path) {
    let mut command = Command::new("systemd-analyze");
    command.arg("--no-pager").args(asked).arg(unit);
    let output = tool::started("systemd-analyze", command.output());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
