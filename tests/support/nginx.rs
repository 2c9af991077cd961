//! The nginx of `deploy/nginx.conf` as a child process, on a free port in front of any nodes. Only
//! the lines that name this machine are replaced; the rest is what operators get.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustls::ClientConfig;

use super::{Authority, Pair, process, tool, until_now};

/// The longest that a start or an end may take on a busy machine.
const SLACK: Duration = Duration::from_secs(30);

/// What nginx would keep below `/var/lib/nginx`, where one of the machine's own may be.
const TEMPORARY: [&str; 5] = ["client_body", "proxy", "fastcgi", "scgi", "uwsgi"];

/// A running nginx.
pub(crate) struct Nginx {
    folder: tempfile::TempDir,
    child: Child,
    ports: Ports,
    authority: Authority,
}

/// Where it listens on this machine.
#[derive(Clone, Copy)]
struct Ports {
    /// What is served encrypted is served here as it is, for the tests that are about nodes.
    plain: u16,
    encrypted: u16,
    /// Here nothing is served.
    leading: u16,
}

impl Ports {
    fn free() -> Self {
        let free = [0; 3].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let [plain, encrypted, leading] = free.map(|one| one.local_addr().unwrap().port());
        Self {
            plain,
            encrypted,
            leading,
        }
    }
}

/// One line of the access log: what nginx did with one request.
#[derive(Debug)]
pub(crate) struct Passed {
    /// The nodes that it asked, one after the other; none where it had kept the answer.
    pub(crate) nodes: Vec<String>,
}

impl Nginx {
    /// In front of three nodes (`host:port`).
    pub(crate) fn start(nodes: [&str; 3]) -> Self {
        Self::with(nodes, |text| text)
    }

    /// The same with a cache everywhere, not only where something may be kept: it goes by the headers of
    /// the answers alone.
    pub(crate) fn caching_everywhere(nodes: [&str; 3]) -> Self {
        Self::with(nodes, |text| {
            let (key, cache) = ("    proxy_cache_key ", "            proxy_cache kept;\n");
            assert!(text.contains(key) && text.contains(cache), "{text}");
            let text = text.replace(cache, "");
            text.replace(key, &format!("    proxy_cache kept;\n{key}"))
        })
    }

    fn with(nodes: [&str; 3], change: impl FnOnce(String) -> String) -> Self {
        let version = Command::new("nginx").arg("-v").output();
        tool::started("nginx", version);
        let folder =
            tempfile::TempDir::with_prefix_in("nginx-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let ports = Ports::free();
        let authority = Authority::new();
        authority.issue("nginx").replace(&Pair {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
        });
        fs::write(
            folder.path().join("nginx.conf"),
            change(adapted(folder.path(), nodes, ports)),
        )
        .unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "TERM", "--", "nginx", "-c"])
            .arg(folder.path().join("nginx.conf"))
            // Its workers write into the test's folder, which nobody else can enter.
            .args(["-g", "daemon off; user root;"])
            .stdin(Stdio::null());
        let mut child = process::spawn(command);
        until_now("nginx listens", SLACK, || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "nginx has ended at its start");
            std::net::TcpStream::connect(("127.0.0.1", ports.plain)).ok()
        });
        Self {
            folder,
            child,
            ports,
            authority,
        }
    }

    /// `127.0.0.1:port`, over plain HTTP.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.plain)
    }

    /// `127.0.0.1:port`, over TLS.
    pub(crate) fn encrypted(&self) -> String {
        format!("127.0.0.1:{}", self.ports.encrypted)
    }

    /// `127.0.0.1:port`, where operators' clients speak plain HTTP.
    pub(crate) fn leading(&self) -> String {
        format!("127.0.0.1:{}", self.ports.leading)
    }

    /// The certificate of the authority that vouches for it.
    pub(crate) fn authority(&self) -> &Path {
        self.authority.certificate()
    }

    /// What a client goes by that trusts this nginx and nobody else.
    pub(crate) fn trusting(&self) -> ClientConfig {
        self.authority.trusting()
    }

    /// Its configuration as it stands.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.folder.path().join("nginx.conf")
    }

    /// What it did with the requests whose line has this text, as far as they have ended.
    pub(crate) fn passed(&self, text: &str) -> Vec<Passed> {
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
        let lines = log.lines().filter(|line| line.contains(text));
        lines.map(parsed).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        process::signal("TERM", self.child.id());
        self.child.wait().unwrap();
        if std::thread::panicking() {
            let errors = fs::read_to_string(self.folder.path().join("error.log"));
            let errors = errors.unwrap_or_default();
            let tail: Vec<&str> = errors.lines().rev().take(15).collect();
            eprintln!("--- nginx's errors, newest first:\n{}", tail.join("\n"));
        }
    }
}

/// The configuration with the addresses and the paths of a test.
fn adapted(folder: &Path, nodes: [&str; 3], ports: Ports) -> String {
    let mut text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/nginx.conf")).unwrap();
    let mut replace = |line: &str, by: String| {
        assert!(text.contains(line), "deploy/nginx.conf has no {line:?}");
        text = text.replace(line, &by);
    };
    for (number, node) in nodes.into_iter().enumerate() {
        replace(
            &format!("server node{}:8080 ", number + 1),
            format!("server {node} "),
        );
    }
    let Ports {
        plain,
        encrypted,
        leading,
    } = ports;
    replace("listen 80;", format!("listen 127.0.0.1:{leading};"));
    replace(
        "listen 443 ssl;",
        format!("listen 127.0.0.1:{encrypted} ssl;\n        listen 127.0.0.1:{plain};"),
    );
    replace("/etc/nginx/tls/", format!("{}/", folder.display()));
    replace("/run/", format!("{}/", folder.display()));
    replace("/var/log/nginx/", format!("{}/", folder.display()));
    replace("/var/cache/", format!("{}/", folder.display()));
    let temporary = TEMPORARY.map(|name| {
        let folder = folder.display();
        format!("    {name}_temp_path {folder}/{name};\n")
    });
    replace("http {\n", format!("http {{\n{}", temporary.concat()));
    text
}

/// As `log_format nodes` writes it: `… "GET /path" 200 [node, node] …`.
fn parsed(line: &str) -> Passed {
    let (_, rest) = line.split_once("\" ").unwrap();
    let (_, rest) = rest.split_once(" [").unwrap();
    let (nodes, _) = rest.split_once(']').unwrap();
    // A colon by itself stands between what one place of the configuration asked and the next.
    let nodes = nodes.split([',', ' ']).filter(|node| node.len() > 1);
    Passed {
        nodes: nodes.map(str::to_owned).collect(),
    }
}
