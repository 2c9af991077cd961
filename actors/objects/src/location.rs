//! Where files are kept, as settings name it, and how that is opened.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path as FilePath, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::probe::{self, Unusable};
use super::{ObjectError, Objects};

/// The secrets of a provider among the variables of the environment.
const AWS_SECRETS: [&str; 2] = ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
const AZURE_SECRETS: [&str; 5] = [
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_SAS_TOKEN",
];

/// How long the storage may take to take a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may say nothing. A whole file may take longer, in either direction.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How often, and for how long, a request is sent again that the storage did not do. Somebody waits
/// for it.
const RETRIES: usize = 3;
const RETRY_FOR: Duration = Duration::from_secs(20);

/// The forms of a location, for whoever wrote another one.
const FORMS: &str =
    "must be file:FOLDER, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX";

/// Where files are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    kind: Kind,
    /// The address of the storage's service; unset, the provider's own.
    endpoint: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Folder(PathBuf),
    Bucket {
        provider: Provider,
        bucket: String,
        prefix: Path,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    S3,
    GoogleCloud,
    Azure,
}

impl Provider {
    fn scheme(self) -> &'static str {
        match self {
            Provider::S3 => "s3",
            Provider::GoogleCloud => "gs",
            Provider::Azure => "az",
        }
    }
}

/// A bucket that was opened, what signs addresses in it, and what lists a few of its names.
struct Bucket {
    storage: Arc<dyn ObjectStore>,
    signer: Arc<dyn Signer>,
    pages: Arc<dyn PaginatedListStore>,
}

impl Bucket {
    fn new<S: ObjectStore + Signer + PaginatedListStore>(storage: S) -> Self {
        let storage = Arc::new(storage);
        Self {
            signer: Arc::<S>::clone(&storage),
            pages: Arc::<S>::clone(&storage),
            storage,
        }
    }
}

/// It names no place where files can be kept; says what would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotALocation(String);

impl Location {
    /// Reads a setting: `file:` and a folder (which may be relative to the one in which the process
    /// works, and may be written as a `file://` URL), or `s3://`, `gs://` or `az://`, a bucket and
    /// what the names begin with. An empty endpoint is the provider's own.
    ///
    /// # Errors
    /// The URL has another scheme, or names no folder or bucket.
    pub fn parse(url: &str, endpoint: &str) -> Result<Self, NotALocation> {
        let not = || NotALocation(FORMS.to_owned());
        let endpoint = (!endpoint.is_empty()).then(|| endpoint.to_owned());
        let (scheme, rest) = url.split_once(':').ok_or_else(not)?;
        let provider = match scheme {
            "file" => {
                let folder = rest.strip_prefix("//").unwrap_or(rest);
                return match folder {
                    "" => Err(not()),
                    folder => Ok(Self {
                        kind: Kind::Folder(PathBuf::from(folder)),
                        endpoint: None,
                    }),
                };
            }
            "s3" => Provider::S3,
            "gs" => Provider::GoogleCloud,
            "az" => Provider::Azure,
            _ => return Err(not()),
        };
        let rest = rest.strip_prefix("//").ok_or_else(not)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(not());
        }
        let prefix = Path::parse(prefix).map_err(|error| NotALocation(error.to_string()))?;
        Ok(Self {
            kind: Kind::Bucket {
                provider,
                bucket: bucket.to_owned(),
                prefix,
            },
            endpoint,
        })
    }

    /// The folder in which this file stands.
    #[must_use]
    pub fn folder_of(file: &FilePath) -> Self {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        Self::folder_at(folder.unwrap_or(FilePath::new(".")))
    }

    /// A folder of this machine.
    #[must_use]
    pub fn folder_at(folder: &FilePath) -> Self {
        Self {
            kind: Kind::Folder(folder.to_owned()),
            endpoint: None,
        }
    }

    /// Whether the other is this one, or below it.
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Folder(folder), Kind::Folder(other)) => {
                resolved(other).starts_with(resolved(folder))
            }
            (
                Kind::Bucket {
                    provider,
                    bucket,
                    prefix,
                },
                Kind::Bucket {
                    provider: other_provider,
                    bucket: other_bucket,
                    prefix: below,
                },
            ) => {
                let own = (provider, bucket, &self.endpoint);
                let is_same = own == (other_provider, other_bucket, &other.endpoint);
                is_same && below.prefix_matches(prefix)
            }
            (Kind::Folder(_), Kind::Bucket { .. }) | (Kind::Bucket { .. }, Kind::Folder(_)) => {
                false
            }
        }
    }

    /// The folder, where it is one of this machine.
    #[must_use]
    pub fn folder(&self) -> Option<&FilePath> {
        match &self.kind {
            Kind::Folder(folder) => Some(folder),
            Kind::Bucket { .. } => None,
        }
    }

    /// Opens it; a folder that is missing is made. Credentials of a cloud are taken from the
    /// environment as the provider's own tools read them (`AWS_…`, `GOOGLE_…`, `AZURE_…`). What is
    /// wrong with them, [`Location::ask`] finds.
    ///
    /// # Errors
    /// The folder can't be made, or settings of the provider are missing.
    pub fn open(&self) -> Result<Objects, ObjectError> {
        if let Kind::Folder(folder) = &self.kind {
            // What is kept may be for nobody else on the machine.
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        self.open_existing()
    }

    /// The same to read what is there: no folder is made.
    ///
    /// # Errors
    /// There is no such folder, or settings of the provider are missing.
    pub fn open_existing(&self) -> Result<Objects, ObjectError> {
        match &self.kind {
            Kind::Folder(folder) => {
                let folder = folder.canonicalize()?;
                let storage = LocalFileSystem::new_with_prefix(&folder)?
                    .with_fsync(true)
                    .with_automatic_cleanup(true);
                Ok(Objects {
                    storage: Arc::new(storage),
                    prefix: Path::ROOT,
                    url: format!("file:{}", folder.display()),
                    folder: Some(folder),
                    signer: None,
                })
            }
            Kind::Bucket {
                provider,
                bucket,
                prefix,
            } => {
                let url = bucket_url(*provider, bucket, prefix);
                let bucket = self.bucket(*provider, bucket)?;
                Ok(Objects {
                    storage: bucket.storage,
                    prefix: prefix.clone(),
                    url,
                    folder: None,
                    signer: Some(bucket.signer),
                })
            }
        }
    }

    /// Asks the storage of a bucket whether it lets these credentials in and has the bucket, within a
    /// few seconds, and with a client of its own. A folder needs no asking.
    ///
    /// # Errors
    /// It does not, or nobody knows.
    pub async fn ask(&self) -> Result<(), Unusable> {
        let Kind::Bucket {
            provider,
            bucket,
            prefix,
        } = &self.kind
        else {
            return Ok(());
        };
        let url = bucket_url(*provider, bucket, prefix);
        match self.bucket(*provider, bucket) {
            Ok(bucket) => probe::ask(&*bucket.pages, prefix, url).await,
            Err(error) => Err(Unusable::Refused {
                url,
                answer: error.to_string(),
            }),
        }
    }

    fn bucket(&self, provider: Provider, bucket: &str) -> Result<Bucket, ObjectError> {
        // Whoever came first has set the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let endpoint = self.endpoint.as_deref();
        // One that is named is often on a private network, without TLS.
        let http = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
        let client = ClientOptions::new()
            .with_allow_http(http)
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_read_timeout(READ_TIMEOUT)
            .with_timeout_disabled();
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_FOR,
            ..RetryConfig::default()
        };
        Ok(match provider {
            Provider::S3 => {
                let mut builder = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    .with_client_options(client)
                    .with_retry(retry);
                for (key, secret) in secrets_in_files(&AWS_SECRETS)? {
                    builder = builder.with_config(key, secret);
                }
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint);
                }
                Bucket::new(builder.build()?)
            }
            Provider::GoogleCloud => {
                let mut builder = GoogleCloudStorageBuilder::from_env()
                    .with_bucket_name(bucket)
                    .with_client_options(client)
                    .with_retry(retry);
                if let Some(endpoint) = endpoint {
                    builder = builder.with_base_url(endpoint);
                }
                Bucket::new(builder.build()?)
            }
            Provider::Azure => {
                let mut builder = MicrosoftAzureBuilder::from_env()
                    .with_container_name(bucket)
                    .with_client_options(client)
                    .with_retry(retry);
                for (key, secret) in secrets_in_files(&AZURE_SECRETS)? {
                    builder = builder.with_config(key, secret);
                }
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint.to_owned());
                }
                Bucket::new(builder.build()?)
            }
        })
    }
}

/// The secrets of which a variable of the environment names the file (`AWS_SECRET_ACCESS_KEY_FILE`), without
/// the line's end behind it. Google's are in files anyway (`GOOGLE_APPLICATION_CREDENTIALS`).
fn secrets_in_files<K: FromStr<Err = object_store::Error>>(
    names: &[&str],
) -> Result<Vec<(K, String)>, ObjectError> {
    let mut secrets = Vec::new();
    for name in names {
        let variable = format!("{name}_FILE");
        let Some(file) = std::env::var_os(&variable).filter(|file| !file.is_empty()) else {
            continue;
        };
        let held = match std::env::var_os(name) {
            Some(_) => Err(io::Error::other(format!("{name} is set, too"))),
            None => std::fs::read_to_string(&file),
        };
        let held = held.map_err(|error| io::Error::other(format!("{variable}: {error}")))?;
        let secret = held.trim_end_matches(['\r', '\n']).to_owned();
        secrets.push((name.to_ascii_lowercase().parse()?, secret));
    }
    Ok(secrets)
}

/// A folder by its real name as far as it is there, and by its words from there on.
fn resolved(folder: &FilePath) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let there = folder
        .ancestors()
        .find_map(|above| above.canonicalize().ok().map(|real| (above, real)));
    let Some((above, mut real)) = there else {
        return folder;
    };
    for part in folder.strip_prefix(above).unwrap_or(&folder).components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => real.push(part),
            Component::CurDir => {}
        }
    }
    real
}

/// How settings name what lies in a bucket below a prefix.
fn bucket_url(provider: Provider, bucket: &str, prefix: &Path) -> String {
    let url = format!("{}://{bucket}/{prefix}", provider.scheme());
    url.trim_end_matches('/').to_owned()
}
