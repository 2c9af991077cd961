//! The master key: where it comes from, how it is written, and what is derived from it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::derivation::{self, KEY_BYTES};

/// The key under which the store key is wrapped: 256 bits that nobody must know who has a copy of the
/// store.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey([u8; KEY_BYTES]);

/// Where the master key comes from.
#[derive(Debug, Clone)]
pub enum MasterKeySource {
    /// The settings give it.
    Given(MasterKey),
    /// It stands in this file.
    File(PathBuf),
    /// None is given.
    NotGiven,
}

impl MasterKeySource {
    /// The key, where one is given.
    ///
    /// # Errors
    /// The file can't be read, or holds something else.
    pub fn read(&self) -> Result<Option<MasterKey>, KeyFileError> {
        match self {
            MasterKeySource::Given(key) => Ok(Some(key.clone())),
            MasterKeySource::File(path) => MasterKey::read(path).map(Some),
            MasterKeySource::NotGiven => Ok(None),
        }
    }
}

/// Where the master keys come from that the settings give.
#[derive(Debug, Clone)]
pub struct MasterKeySources {
    /// The one under which the store key is to be; where none is given, the store keeps one, and makes
    /// it at its first start.
    pub present: MasterKeySource,
    /// The one whose place it takes.
    pub previous: MasterKeySource,
}

impl MasterKeySources {
    /// The keys that are given.
    ///
    /// # Errors
    /// A file can't be read, or holds something else.
    pub fn read(&self) -> Result<GivenKeys, KeyFileError> {
        Ok(GivenKeys {
            present: self.present.read()?,
            previous: self.previous.read()?,
        })
    }
}

/// The master keys that the settings give.
#[derive(Debug, Clone)]
pub struct GivenKeys {
    /// The one under which the store key is to be.
    pub present: Option<MasterKey>,
    /// The one whose place it takes.
    pub previous: Option<MasterKey>,
}

impl GivenKeys {
    /// None is given.
    pub const NONE: GivenKeys = GivenKeys {
        present: None,
        previous: None,
    };
}

/// Why a file gives no master key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file can't be read or made.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// It holds something else.
    #[error(
        "{0} must hold a master key: 32 bytes in base64, such as `openssl rand -base64 32` prints"
    )]
    NoKey(String),
}

impl MasterKey {
    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        let mut bytes = [0; KEY_BYTES];
        colloquy_model::random::fill(&mut bytes);
        MasterKey(bytes)
    }

    /// The key of these bytes; none unless there are 32.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(MasterKey)
    }

    /// The key that is written so; none unless it is 32 bytes in base64.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        let bytes = BASE64_STANDARD.decode(text.trim()).ok()?;
        Self::from_bytes(&bytes)
    }

    /// The key that stands in this file.
    ///
    /// # Errors
    /// The file can't be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let name = || path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| KeyFileError::File(name(), error))?;
        Self::from_base64(&text).ok_or_else(|| KeyFileError::NoKey(name()))
    }

    /// Writes the key into a new file, which its owner alone may read, and makes that durable.
    ///
    /// # Errors
    /// There is such a file already, or none can be made.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyFileError> {
        let written = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            writeln!(file, "{}", BASE64_STANDARD.encode(self.0))?;
            file.sync_all()?;
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        written().map_err(|error| KeyFileError::File(path.display().to_string(), error))
    }

    /// Its bytes, to be kept where the store keeps it.
    #[must_use]
    pub fn bytes(&self) -> [u8; KEY_BYTES] {
        self.0
    }

    /// What it is called in words for operators: 16 hex digits, from which nothing can be told of it.
    #[must_use]
    pub fn name(&self) -> String {
        derivation::name(&self.0)
    }

    /// The key that is derived from it for this purpose.
    pub(super) fn derived(&self, purpose: &'static str) -> [u8; KEY_BYTES] {
        derivation::derived(&self.0, purpose)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MasterKey").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_key_file_is_its_owners_alone_and_made_once() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("colloquy.key");
        let key = MasterKey::generate();
        key.write_new(&path).unwrap();
        assert_eq!(MasterKey::read(&path).unwrap(), key);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(key.write_new(&path).is_err());
        fs::write(&path, "short").unwrap();
        assert!(matches!(
            MasterKey::read(&path),
            Err(KeyFileError::NoKey(_))
        ));
    }
}
