//! Programs that the tests start: where one is missing, the test fails with one line that names the
//! Debian package to install.

use std::io::{self, ErrorKind};
use std::process::{Command, Stdio};

/// The Debian package of each program.
const PACKAGES: [(&str, &str); 22] = [
    ("addr2line", "build-essential"),
    ("bash", "bash"),
    ("cc", "build-essential"),
    ("chromedriver", "chromium-driver"),
    ("chromium", "chromium"),
    ("chrt", "util-linux"),
    ("curl", "curl"),
    ("git", "git"),
    ("kill", "procps"),
    ("libfaketimeMT.so.1", "faketime"),
    ("mount", "mount"),
    ("nginx", "nginx-light"),
    ("nm", "build-essential"),
    ("openssl", "openssl"),
    ("patch", "patch"),
    ("pkill", "procps"),
    ("python3", "python3"),
    ("readelf", "build-essential"),
    ("renice", "bsdutils"),
    ("script", "bsdutils"),
    ("setpriv", "util-linux"),
    ("tar", "tar"),
];

/// What starting a program gave; where it is not there, the test fails with a line that says so.
pub(crate) fn started<T>(program: &str, started: io::Result<T>) -> T {
    match started {
        Ok(started) => started,
        Err(error) if error.kind() == ErrorKind::NotFound => is_missing(program),
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Fails the test with a line that names the package, and with no backtrace: nothing is wrong with
/// the code.
pub(crate) fn is_missing(program: &str) -> ! {
    let package = PACKAGES.iter().find(|(name, _)| *name == program);
    let package = package.map_or(program, |(_, package)| package);
    eprintln!("{program} is missing: apt-get install {package} (tests/run installs it)");
    std::panic::resume_unwind(Box::new("a tool is missing"))
}

/// What openssl says of a handshake with whoever listens at this address.
pub(crate) fn handshake(address: &str, how: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-connect", address])
        .args(how)
        .stdin(Stdio::null());
    let output = started("openssl", command.output());
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}
