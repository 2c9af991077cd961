//! What all nodes share, as small files in a folder or in object storage: the account, and for each
//! name its certificate, the order that is under way, and why the latest one has failed. Everything
//! lies below the name of the authority: what is of another one is not mixed up with it.

use std::collections::BTreeMap;

use colloquy_actors::sealing::{self, UnsealError};
use colloquy_objects::{Object, ObjectError, Objects};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config;

/// What keys are sealed as, where `[encryption]` is enabled.
const PURPOSE: &str = "keys of ACME";
/// How a sealed text begins.
const SEALED: &str = "sealed:";

const ACCOUNT: &str = "account.json";
pub(super) const CERTIFICATES: &str = "certificates";
pub(super) const FAILURES: &str = "failures";
const ORDERS: &str = "orders";
const CHALLENGES: &str = "challenges";
const LEASES: &str = "lease";
const JSON: &str = ".json";

/// Why something is not kept, or can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum StorageError {
    #[error("[tls.acme] storage: {0}")]
    Objects(#[from] ObjectError),
    #[error(
        "[tls.acme] storage: {file} is not what was kept there ({why}); where it can't be brought back, delete it"
    )]
    Damaged { file: String, why: String },
    #[error("a key can't be sealed: {0}")]
    Seal(#[from] UnsealError),
}

/// The account at the authority.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Account {
    /// What the client knows it by, with its key: JSON, perhaps sealed.
    pub(super) credentials: String,
    pub(super) contact: Vec<String>,
}

/// A certificate, as it was issued.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Certificate {
    /// In PEM, the server's own first.
    pub(super) chain: String,
    /// In PEM, perhaps sealed.
    pub(super) key: String,
}

/// An order that is under way. Whoever finds it goes on with it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) url: String,
    /// The key that the certificate is for: in PEM, perhaps sealed.
    pub(super) key: String,
}

/// Why the latest order has failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Failure {
    /// How many have failed one after the other.
    pub(super) failures: u32,
    pub(super) problem: String,
    /// In seconds since 1970.
    pub(super) failed_at: i64,
    /// When the next one is begun, in seconds since 1970.
    pub(super) next_at: i64,
}

/// What the authority is answered that asks whether a name is ours.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Challenge {
    pub(super) domain: String,
    pub(super) key_authorization: String,
}

/// The files.
#[derive(Debug)]
pub(super) struct Storage {
    objects: Objects,
    /// What all their names begin with.
    authority: String,
    seals: bool,
}

impl Storage {
    /// Opens it; a folder that is missing is made.
    ///
    /// # Errors
    /// It can't be opened.
    pub(super) fn open(settings: &config::Acme, seals: bool) -> Result<Self, ObjectError> {
        let location = settings.location().map_err(std::io::Error::other)?;
        Ok(Storage {
            objects: location.open()?,
            authority: folder_of(&settings.directory),
            seals,
        })
    }

    pub(super) async fn account(&self) -> Result<Option<Account>, StorageError> {
        let Some(account) = self.read::<Account>(ACCOUNT).await? else {
            return Ok(None);
        };
        let credentials = self.opened(ACCOUNT, account.credentials)?;
        Ok(Some(Account {
            credentials,
            ..account
        }))
    }

    pub(super) async fn put_account(&self, account: Account) -> Result<(), StorageError> {
        let credentials = self.sealed(account.credentials)?;
        let account = Account {
            credentials,
            ..account
        };
        self.write(ACCOUNT, &account).await
    }

    pub(super) async fn delete_account(&self) -> Result<(), StorageError> {
        self.delete(ACCOUNT).await
    }

    pub(super) async fn certificate(
        &self,
        name: &str,
    ) -> Result<Option<Certificate>, StorageError> {
        let file = named(CERTIFICATES, name);
        let Some(kept) = self.read::<Certificate>(&file).await? else {
            return Ok(None);
        };
        let key = self.opened(&file, kept.key)?;
        Ok(Some(Certificate { key, ..kept }))
    }

    /// The chain of a certificate, for whoever has no way to open its key.
    pub(super) async fn chain(&self, name: &str) -> Result<Option<String>, StorageError> {
        let kept = self.read::<Certificate>(&named(CERTIFICATES, name)).await?;
        Ok(kept.map(|kept| kept.chain))
    }

    /// Keeps a certificate. With it the order has ended, and no failure counts any more.
    pub(super) async fn put_certificate(
        &self,
        name: &str,
        certificate: Certificate,
    ) -> Result<(), StorageError> {
        let key = self.sealed(certificate.key)?;
        let sealed = Certificate { key, ..certificate };
        self.write(&named(CERTIFICATES, name), &sealed).await?;
        self.delete(&named(FAILURES, name)).await?;
        self.delete_order(name).await
    }

    pub(super) async fn order(&self, name: &str) -> Result<Option<Order>, StorageError> {
        let file = named(ORDERS, name);
        let Some(order) = self.read::<Order>(&file).await? else {
            return Ok(None);
        };
        let key = self.opened(&file, order.key)?;
        Ok(Some(Order { key, ..order }))
    }

    pub(super) async fn put_order(&self, name: &str, order: Order) -> Result<(), StorageError> {
        let key = self.sealed(order.key)?;
        self.write(&named(ORDERS, name), &Order { key, ..order })
            .await
    }

    pub(super) async fn delete_order(&self, name: &str) -> Result<(), StorageError> {
        self.delete(&named(ORDERS, name)).await
    }

    pub(super) async fn failure(&self, name: &str) -> Result<Option<Failure>, StorageError> {
        self.read(&named(FAILURES, name)).await
    }

    pub(super) async fn put_failure(
        &self,
        name: &str,
        failure: &Failure,
    ) -> Result<(), StorageError> {
        self.write(&named(FAILURES, name), failure).await
    }

    /// The names for which there is a file of this kind, each with what changes with it.
    pub(super) async fn versions(
        &self,
        kind: &str,
    ) -> Result<BTreeMap<String, Option<String>>, StorageError> {
        let files = self.list(kind).await?;
        let one = |(name, file): (String, Object)| Some((without_ending(&name)?, file.version));
        Ok(files.into_iter().filter_map(one).collect())
    }

    /// All challenges by their tokens. Those that are known need not be read: none ever changes.
    pub(super) async fn challenges(
        &self,
        known: &BTreeMap<String, Challenge>,
    ) -> Result<BTreeMap<String, Challenge>, StorageError> {
        let mut found = BTreeMap::new();
        for token in self.versions(CHALLENGES).await?.into_keys() {
            let challenge = match known.get(&token) {
                Some(challenge) => Some(challenge.clone()),
                None => self.read(&named(CHALLENGES, &token)).await?,
            };
            found.extend(challenge.map(|challenge| (token, challenge)));
        }
        Ok(found)
    }

    pub(super) async fn put_challenge(
        &self,
        token: &str,
        challenge: &Challenge,
    ) -> Result<(), StorageError> {
        self.write(&named(CHALLENGES, token), challenge).await
    }

    pub(super) async fn delete_challenges(&self) -> Result<(), StorageError> {
        for token in self.versions(CHALLENGES).await?.into_keys() {
            self.delete(&named(CHALLENGES, &token)).await?;
        }
        Ok(())
    }

    /// The numbers of all leases that were taken and not yet deleted.
    pub(super) async fn leases(&self) -> Result<Vec<u64>, StorageError> {
        let files = self.list(LEASES).await?;
        let numbers = files.iter().filter_map(|(name, _)| name.parse().ok());
        Ok(numbers.collect())
    }

    /// What stands in a lease; none where it is gone.
    pub(super) async fn lease(&self, number: u64) -> Result<Option<Vec<u8>>, StorageError> {
        self.bytes(&lease(number)).await
    }

    /// Takes the lease of this number, unless somebody has.
    pub(super) async fn create_lease(
        &self,
        number: u64,
        content: String,
    ) -> Result<bool, StorageError> {
        let file = self.path(&lease(number));
        Ok(self.objects.create(&file, content.into()).await?)
    }

    pub(super) async fn put_lease(&self, number: u64, content: String) -> Result<(), StorageError> {
        let file = self.path(&lease(number));
        Ok(self.objects.put(&file, content.into()).await?)
    }

    pub(super) async fn delete_lease(&self, number: u64) -> Result<(), StorageError> {
        self.delete(&lease(number)).await
    }

    /// The files of a kind, by their names within it.
    async fn list(&self, kind: &str) -> Result<Vec<(String, Object)>, StorageError> {
        let files = self.objects.list(&self.path(kind)).await?;
        let below = self.path(&format!("{kind}/"));
        let named = |file: Object| Some((file.name.strip_prefix(&below)?.to_owned(), file));
        Ok(files.into_iter().filter_map(named).collect())
    }

    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.authority)
    }

    async fn bytes(&self, file: &str) -> Result<Option<Vec<u8>>, StorageError> {
        match self.objects.get(&self.path(file)).await {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn read<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>, StorageError> {
        let Some(bytes) = self.bytes(file).await? else {
            return Ok(None);
        };
        let value = serde_json::from_slice(&bytes);
        value.map(Some).map_err(|error| self.damaged(file, error))
    }

    async fn write(&self, file: &str, value: &impl Serialize) -> Result<(), StorageError> {
        let text = serde_json::to_vec(value).map_err(|error| self.damaged(file, error))?;
        let file = self.path(file);
        Ok(self.objects.put_secret(&file, text.into()).await?)
    }

    async fn delete(&self, file: &str) -> Result<(), StorageError> {
        Ok(self.objects.delete_unfinished(&self.path(file)).await?)
    }

    fn sealed(&self, text: String) -> Result<String, StorageError> {
        match self.seals {
            true => Ok(sealing::seal(PURPOSE, &text)?),
            false => Ok(text),
        }
    }

    fn opened(&self, file: &str, text: String) -> Result<String, StorageError> {
        match text.starts_with(SEALED) {
            true => sealing::unseal(PURPOSE, &text).map_err(|error| self.damaged(file, error)),
            false => Ok(text),
        }
    }

    fn damaged(&self, file: &str, why: impl ToString) -> StorageError {
        StorageError::Damaged {
            file: self.objects.url(&self.path(file)),
            why: why.to_string(),
        }
    }
}

fn named(kind: &str, name: &str) -> String {
    format!("{kind}/{name}{JSON}")
}

fn without_ending(file: &str) -> Option<String> {
    file.strip_suffix(JSON).map(str::to_owned)
}

fn lease(number: u64) -> String {
    format!("{LEASES}/{number}")
}

/// What the files of the authority with this directory lie below.
fn folder_of(directory: &str) -> String {
    let rest = directory.strip_prefix("https://").unwrap_or(directory);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    rest.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}
