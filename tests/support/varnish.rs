//! The Varnish of `deploy/varnish.vcl` as a child process, on a free port in front of a server. Only the
//! lines that name this machine are replaced.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ports::ReservedPort;
use super::{process, until_now};

/// The longest that a start may take on a busy machine: it compiles its configuration.
const SLACK: Duration = Duration::from_secs(60);

/// A running Varnish.
pub(crate) struct Varnish {
    _folder: tempfile::TempDir,
    child: Child,
    address: String,
}

impl Varnish {
    /// Listens at this port, in front of a server on this machine.
    pub(crate) fn start(port: &ReservedPort, server: &str) -> Self {
        let address = port.address();
        let folder =
            tempfile::TempDir::with_prefix_in("varnish-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let text =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/varnish.vcl")).unwrap();
        let (line, (_, server_port)) = (".port = \"8080\"", server.split_once(':').unwrap());
        assert!(text.contains(line), "deploy/varnish.vcl has no {line:?}");
        let file = folder.path().join("varnish.vcl");
        fs::write(
            &file,
            text.replace(line, &format!(".port = \"{server_port}\"")),
        )
        .unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "TERM", "--", "varnishd", "-F", "-j", "none"])
            .args(["-a", &address, "-s", "malloc,32m", "-f"])
            .arg(&file)
            .arg("-n")
            .arg(folder.path().join("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = process::spawn(command);
        until_now("Varnish listens", SLACK, || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "Varnish has ended at its start");
            TcpStream::connect(&address).ok()
        });
        Varnish {
            _folder: folder,
            child,
            address,
        }
    }

    /// `127.0.0.1:port`
    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }
}

impl Drop for Varnish {
    fn drop(&mut self) {
        process::signal("TERM", self.child.id());
        self.child.wait().unwrap();
    }
}
