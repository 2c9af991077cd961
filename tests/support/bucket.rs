//! A bucket of an S3 server: the gateway that `tests/run` builds from `tests/versitygw`, which keeps
//! each object as a file of its own.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ports::free_port;
use super::server::Setup;
use super::{files, process, until_now};

const SOON: Duration = Duration::from_secs(30);
const NAME: &str = "colloquy";
const USER: &str = "tester";
const PASSWORD: &str = "a-password-of-the-tests";

/// A bucket, and the server that keeps it.
pub(crate) struct Bucket {
    folder: tempfile::TempDir,
    port: u16,
    gateway: Option<Child>,
}

impl Bucket {
    /// An empty one, on a free port.
    pub(crate) fn start() -> Self {
        let folder =
            tempfile::TempDir::with_prefix_in("bucket-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(folder.path().join(NAME)).unwrap();
        let mut bucket = Bucket {
            folder,
            port: free_port(),
            gateway: None,
        };
        bucket.open();
        bucket
    }

    /// Starts its server again.
    pub(crate) fn open(&mut self) {
        let mut command = Command::new("setpriv");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../versitygw");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(["--access", USER, "--secret", PASSWORD, "--quiet"])
            .args(["--port", &format!("127.0.0.1:{}", self.port)])
            .arg("posix")
            .arg(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.gateway = Some(process::spawn(command));
        until_now("the S3 server listens", SOON, || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
    }

    /// Ends its server at once; the objects stay.
    pub(crate) fn close(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            gateway.kill().unwrap();
            gateway.wait().unwrap();
        }
    }

    /// What `endpoint` is set to.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How settings name what lies in it under a prefix.
    pub(crate) fn url(&self, prefix: &str) -> String {
        format!("s3://{NAME}/{prefix}")
    }

    /// The credentials, as Amazon's own tools read them.
    pub(crate) fn credentials(&self) -> [(&'static str, &'static str); 3] {
        [
            ("AWS_ACCESS_KEY_ID", USER),
            ("AWS_SECRET_ACCESS_KEY", PASSWORD),
            ("AWS_REGION", "us-east-1"),
        ]
    }

    /// A server that keeps its attachments and its backups there.
    pub(crate) fn setup(&self) -> Setup {
        let setup = Setup::default()
            .env("COLLOQUY__OBJECTS__URL", &self.url("files"))
            .env("COLLOQUY__OBJECTS__ENDPOINT", &self.endpoint());
        let all = self.credentials();
        all.iter()
            .fold(setup, |setup, (name, value)| setup.env(name, value))
    }

    /// The objects in it, by name; parts of an upload that was not finished as well.
    pub(crate) fn objects(&self) -> Vec<PathBuf> {
        files::below(&self.folder.path().join(NAME))
    }

    /// The objects that hold the text, to the byte.
    pub(crate) fn objects_with(&self, text: &str) -> Vec<PathBuf> {
        files::files_with(self.folder.path(), text)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.close();
    }
}
