//! A bucket of an S3 server: the gateway that `tests/run` builds from `tests/versitygw`, which keeps
//! each object as a file of its own. Or a container of Azure Blob Storage, where a test asks for one.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ports::free_port;
use super::server::Setup;
use super::{azurite, files, process, until_now};

const SOON: Duration = Duration::from_secs(30);
const NAME: &str = "colloquy";
const USER: &str = "tester";
const PASSWORD: &str = "a-password-of-the-tests";

/// Whose protocol its server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    S3,
    Azure,
}

/// A bucket, and the server that keeps it.
pub(crate) struct Bucket {
    folder: tempfile::TempDir,
    port: u16,
    provider: Provider,
    server: Option<Child>,
}

impl Bucket {
    /// An empty one of an S3 server, on a free port.
    pub(crate) fn start() -> Self {
        Self::start_of(Provider::S3)
    }

    /// An empty one, on a free port.
    pub(crate) fn start_of(provider: Provider) -> Self {
        let folder =
            tempfile::TempDir::with_prefix_in("bucket-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(folder.path().join(NAME)).unwrap();
        let mut bucket = Bucket {
            folder,
            port: free_port(),
            provider,
            server: None,
        };
        bucket.open();
        if provider == Provider::Azure {
            azurite::create(&bucket.container());
        }
        bucket
    }

    /// Starts its server again.
    pub(crate) fn open(&mut self) {
        let mut command = match self.provider {
            Provider::S3 => self.gateway(),
            Provider::Azure => azurite::command(self.folder.path(), self.port),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.server = Some(process::spawn(command));
        until_now("the server of the bucket listens", SOON, || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
    }

    fn gateway(&self) -> Command {
        let mut command = Command::new("setpriv");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../versitygw");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(["--access", USER, "--secret", PASSWORD, "--quiet"])
            .args(["--port", &format!("127.0.0.1:{}", self.port)])
            .arg("posix")
            .arg(self.folder.path());
        command
    }

    /// Ends its server; the objects stay.
    pub(crate) fn close(&mut self) {
        if let Some(mut server) = self.server.take() {
            match self.provider {
                Provider::S3 => server.kill().unwrap(),
                // What it holds is on the disk when it ends by itself.
                Provider::Azure => process::signal("TERM", server.id()),
            }
            server.wait().unwrap();
        }
    }

    /// What `endpoint` is set to.
    pub(crate) fn endpoint(&self) -> String {
        match self.provider {
            Provider::S3 => format!("http://127.0.0.1:{}", self.port),
            Provider::Azure => format!("http://127.0.0.1:{}/{}", self.port, azurite::ACCOUNT),
        }
    }

    /// The address of the container.
    fn container(&self) -> String {
        format!("{}/{NAME}", self.endpoint())
    }

    /// How settings name what lies in it under a prefix.
    pub(crate) fn url(&self, prefix: &str) -> String {
        match self.provider {
            Provider::S3 => format!("s3://{NAME}/{prefix}"),
            Provider::Azure => format!("az://{NAME}/{prefix}"),
        }
    }

    /// The credentials, as the provider's own tools read them.
    pub(crate) fn credentials(&self) -> Vec<(&'static str, &'static str)> {
        match self.provider {
            Provider::S3 => vec![
                ("AWS_ACCESS_KEY_ID", USER),
                ("AWS_SECRET_ACCESS_KEY", PASSWORD),
                ("AWS_REGION", "us-east-1"),
            ],
            Provider::Azure => vec![
                ("AZURE_STORAGE_ACCOUNT_NAME", azurite::ACCOUNT),
                ("AZURE_STORAGE_ACCOUNT_KEY", azurite::KEY),
            ],
        }
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

    /// The objects in it, by name; on S3, parts of an upload that was not finished as well.
    pub(crate) fn objects(&self) -> Vec<PathBuf> {
        match self.provider {
            Provider::S3 => files::below(&self.folder.path().join(NAME)),
            Provider::Azure => azurite::names(&self.container()),
        }
    }

    /// The objects that hold the text, to the byte.
    pub(crate) fn objects_with(&self, text: &str) -> Vec<PathBuf> {
        match self.provider {
            Provider::S3 => files::files_with(self.folder.path(), text),
            Provider::Azure => {
                let mut names = azurite::names(&self.container());
                names.retain(|name| {
                    let content = azurite::content(&self.container(), name);
                    content.is_some_and(|content| files::holds(&content, text.as_bytes()))
                });
                names
            }
        }
    }

    /// Puts an object into it that no server has put there.
    pub(crate) fn put(&self, name: &str, content: &str) {
        match self.provider {
            Provider::S3 => {
                let path = self.folder.path().join(NAME).join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            Provider::Azure => azurite::put(&self.container(), Path::new(name), content.as_bytes()),
        }
    }

    /// Moves all that lies under a prefix to another one.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        match self.provider {
            Provider::S3 => {
                let below = self.folder.path().join(NAME);
                fs::create_dir_all(below.join(to).parent().unwrap()).unwrap();
                fs::rename(below.join(from), below.join(to)).unwrap();
            }
            Provider::Azure => {
                let container = self.container();
                for name in azurite::names(&container) {
                    let Ok(rest) = name.strip_prefix(from) else {
                        continue;
                    };
                    let content = azurite::content(&container, &name).unwrap();
                    azurite::put(&container, &Path::new(to).join(rest), &content);
                    azurite::delete(&container, &name);
                }
            }
        }
    }

    /// Deletes one of [`Bucket::objects`].
    pub(crate) fn delete(&self, object: &Path) {
        match self.provider {
            Provider::S3 => fs::remove_file(object).unwrap(),
            Provider::Azure => azurite::delete(&self.container(), object),
        }
    }

    /// Whether its disk holds the text, to the byte; its server may be away.
    pub(crate) fn keeps(&self, text: &str) -> bool {
        !files::files_with(self.folder.path(), text).is_empty()
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }
}
