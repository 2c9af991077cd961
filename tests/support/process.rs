//! Starts processes that die with the test binary, however that ends: `setpriv --pdeathsig` in
//! front of each.

use std::io;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};

use super::tool;

/// One order to the spawning thread: what to start, and where the child goes.
type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// A command for the server under test that the kernel kills when the test binary is gone.
pub(crate) fn colloquy() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_colloquy")]);
    command
}

/// Spawns from one thread that lives as long as the binary: the death signal follows the *thread*
/// that spawned, and a test's own thread ends with its test.
pub(crate) fn spawn(command: Command) -> Child {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                drop(reply.send(command.spawn()));
            }
        });
        orders
    });
    let (reply, child) = mpsc::channel();
    spawner
        .send((command, reply))
        .expect("the spawning thread lives");
    let child = child.recv().expect("the spawning thread answers");
    tool::started("setpriv", child)
}

/// The most that a process has held in memory so far, in MiB.
pub(crate) fn peak_mib(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() / 1_024
}

/// Sends a signal by name to one process.
pub(crate) fn signal(name: &str, id: u32) {
    let done = Command::new("kill")
        .args([&format!("-{name}"), &id.to_string()])
        .status();
    let done = tool::started("kill", done);
    assert!(done.success(), "kill -{name} {id}");
}

/// Stops a process in the midst of whatever it does; it goes on when this is dropped.
pub(crate) fn pause(id: u32) -> Pause {
    signal("STOP", id);
    Pause(id)
}

/// A process that is stopped for as long as this lives.
pub(crate) struct Pause(u32);

impl Drop for Pause {
    fn drop(&mut self) {
        signal("CONT", self.0);
    }
}
