//! A bucket of an S3 server: the gateway that `tests/run` builds from `tests/versitygw`, which keeps
//! each object as a file of its own. Where a test asks for it, one of Google Cloud Storage, or a container
//! of Azure Blob Storage.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ports::free_port;
use super::server::Setup;
use super::{azurite, files, gcs, process, until_now};

const SOON: Duration = Duration::from_secs(30);
const NAME: &str = "colloquy";
const USER: &str = "tester";
const PASSWORD: &str = "a-password-of-the-tests";
/// The credentials of the S3 server.
const AWS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", USER),
    ("AWS_SECRET_ACCESS_KEY", PASSWORD),
    ("AWS_REGION", "us-east-1"),
];

/// Whose protocol its server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    S3,
    Gcs,
    Azure,
}

/// A bucket, and the servers that keep it.
pub(crate) struct Bucket {
    folder: tempfile::TempDir,
    /// What stands beside the bucket: the service account, and what its server prints.
    beside: tempfile::TempDir,
    port: u16,
    provider: Provider,
    /// The one that is asked is the last.
    servers: Vec<Child>,
}

impl Bucket {
    /// An empty one of an S3 server, on a free port.
    pub(crate) fn start() -> Self {
        Self::start_of(Provider::S3)
    }

    /// An empty one, on a free port.
    pub(crate) fn start_of(provider: Provider) -> Self {
        let [folder, beside] = ["bucket-", "beside-bucket-"].map(|prefix| {
            tempfile::TempDir::with_prefix_in(prefix, env!("CARGO_TARGET_TMPDIR")).unwrap()
        });
        fs::create_dir(folder.path().join(NAME)).unwrap();
        if provider == Provider::Gcs {
            gcs::make_account(beside.path());
        }
        let mut bucket = Bucket {
            folder,
            beside,
            port: free_port(),
            provider,
            servers: Vec::new(),
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
            Provider::S3 => self.s3(self.port),
            Provider::Gcs => {
                let port = free_port();
                let mut behind = self.s3(port);
                behind.stdout(Stdio::null());
                self.serve(behind, port);
                let mut gateway = gcs::command(self.beside.path(), self.port, port);
                gateway.envs(AWS);
                gateway
            }
            Provider::Azure => azurite::command(self.folder.path(), self.port),
        };
        let printed = fs::File::options()
            .append(true)
            .create(true)
            .open(self.printed());
        command.stdout(printed.unwrap());
        self.serve(command, self.port);
    }

    fn serve(&mut self, mut command: Command, port: u16) {
        command.stdin(Stdio::null());
        self.servers.push(process::spawn(command));
        until_now("the server of the bucket listens", SOON, || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
    }

    fn s3(&self, port: u16) -> Command {
        let mut command = Command::new("setpriv");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../versitygw");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(["--access", USER, "--secret", PASSWORD])
            .args(["--port", &format!("127.0.0.1:{port}")])
            .arg("posix")
            .arg(self.folder.path());
        command
    }

    /// Where the server writes a line for each request.
    fn printed(&self) -> PathBuf {
        self.beside.path().join("printed")
    }

    /// What its server was asked for an object so far, as it has printed it.
    pub(crate) fn requests_for(&self, object: &str) -> Vec<String> {
        let printed = fs::read_to_string(self.printed()).unwrap();
        let of_it = printed.lines().filter(|line| line.contains(object));
        of_it.map(str::to_owned).collect()
    }

    /// Ends its servers; the objects stay.
    pub(crate) fn close(&mut self) {
        while let Some(mut server) = self.servers.pop() {
            match self.provider {
                Provider::S3 | Provider::Gcs => server.kill().unwrap(),
                // What it holds is on the disk when it ends by itself.
                Provider::Azure => process::signal("TERM", server.id()),
            }
            server.wait().unwrap();
        }
    }

    /// What `endpoint` is set to.
    pub(crate) fn endpoint(&self) -> String {
        match self.provider {
            Provider::S3 | Provider::Gcs => format!("http://127.0.0.1:{}", self.port),
            Provider::Azure => format!("http://127.0.0.1:{}/{}", self.port, azurite::ACCOUNT),
        }
    }

    /// The address of the container.
    fn container(&self) -> String {
        format!("{}/{NAME}", self.endpoint())
    }

    /// How settings name what lies in it under a prefix.
    pub(crate) fn url(&self, prefix: &str) -> String {
        self.url_of(NAME, prefix)
    }

    /// The same for a bucket that may not be there.
    pub(crate) fn url_of(&self, bucket: &str, prefix: &str) -> String {
        let scheme = match self.provider {
            Provider::S3 => "s3",
            Provider::Gcs => "gs",
            Provider::Azure => "az",
        };
        format!("{scheme}://{bucket}/{prefix}")
    }

    /// The credentials, as the provider's own tools read them.
    pub(crate) fn credentials(&self) -> Vec<(&'static str, String)> {
        let all = match self.provider {
            Provider::S3 => AWS.to_vec(),
            Provider::Gcs => {
                let account = gcs::account(self.beside.path());
                let account = account.to_str().unwrap().to_owned();
                return vec![("GOOGLE_APPLICATION_CREDENTIALS", account)];
            }
            Provider::Azure => vec![
                ("AZURE_STORAGE_ACCOUNT_NAME", azurite::ACCOUNT),
                ("AZURE_STORAGE_ACCOUNT_KEY", azurite::KEY),
            ],
        };
        let owned = |(name, value): (_, &str)| (name, value.to_owned());
        all.into_iter().map(owned).collect()
    }

    /// Credentials that its server does not take.
    pub(crate) fn wrong_credentials(&self) -> Vec<(&'static str, String)> {
        let (secret, wrong) = match self.provider {
            Provider::S3 => ("AWS_SECRET_ACCESS_KEY", "another-password".to_owned()),
            Provider::Gcs => {
                let folder = self.beside.path().join("another");
                fs::create_dir_all(&folder).unwrap();
                gcs::make_account(&folder);
                let account = gcs::account(&folder).to_str().unwrap().to_owned();
                ("GOOGLE_APPLICATION_CREDENTIALS", account)
            }
            Provider::Azure => ("AZURE_STORAGE_ACCOUNT_KEY", azurite::ANOTHER_KEY.to_owned()),
        };
        let mut all = self.credentials();
        all.retain(|(name, _)| *name != secret);
        all.push((secret, wrong));
        all
    }

    /// What its server says to credentials that it does not take, and to the name of no bucket.
    pub(crate) fn refusals(&self) -> (&'static str, &'static str) {
        match self.provider {
            Provider::S3 => (
                "403 Forbidden: SignatureDoesNotMatch: ",
                "404 Not Found: NoSuchBucket: ",
            ),
            Provider::Gcs => (
                "401 Unauthorized: AuthenticationRequired: ",
                "404 Not Found: NoSuchBucket: ",
            ),
            Provider::Azure => (
                "403 Forbidden: AuthorizationFailure: ",
                "404 Not Found: ContainerNotFound: ",
            ),
        }
    }

    /// A server that keeps its attachments and its backups there.
    pub(crate) fn setup(&self) -> Setup {
        let setup = Setup::default()
            .env("COLLOQUY__OBJECTS__URL", &self.url("files"))
            .env("COLLOQUY__OBJECTS__ENDPOINT", &self.endpoint());
        with(setup, &self.credentials())
    }

    /// The objects in it, by name; on S3 and Google's, parts of an upload that was not finished as well.
    pub(crate) fn objects(&self) -> Vec<PathBuf> {
        match self.provider {
            Provider::S3 | Provider::Gcs => files::below(&self.folder.path().join(NAME)),
            Provider::Azure => azurite::names(&self.container()),
        }
    }

    /// The objects that hold the text, to the byte.
    pub(crate) fn objects_with(&self, text: &str) -> Vec<PathBuf> {
        match self.provider {
            Provider::S3 | Provider::Gcs => files::files_with(self.folder.path(), text),
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
            Provider::S3 | Provider::Gcs => {
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
            Provider::S3 | Provider::Gcs => {
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
            Provider::S3 | Provider::Gcs => fs::remove_file(object).unwrap(),
            Provider::Azure => azurite::delete(&self.container(), object),
        }
    }

    /// Whether its disk holds the text, to the byte; its server may be away.
    pub(crate) fn keeps(&self, text: &str) -> bool {
        !files::files_with(self.folder.path(), text).is_empty()
    }
}

/// A server with these credentials.
pub(crate) fn with(setup: Setup, credentials: &[(&'static str, String)]) -> Setup {
    let all = credentials.iter();
    all.fold(setup, |setup, (name, value)| setup.env(name, value))
}

impl Drop for Bucket {
    fn drop(&mut self) {
        for server in &mut self.servers {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }
}
