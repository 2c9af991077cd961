//! The secrets with which the requests of a key are signed: kept with the key, sealed, since a
//! signature can only be checked by who can read them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use colloquy_model::key::{SigningSecret, SigningSecrets};
use colloquy_model::secret;
use colloquy_model::time::{Timestamp, unix_ms};

/// What such a secret begins with.
pub(super) const PREFIX: &str = "ss_";

/// A signing secret as it is stored, and until when it holds.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct StoredSigningSecret {
    #[serde(with = "crate::sealing::signing_secret")]
    secret: String,
    #[serde(with = "unix_ms::option", default)]
    until: Option<Timestamp>,
}

/// All that hold of a key, the newest first; none where it takes unsigned requests.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct StoredSigningSecrets(Vec<StoredSigningSecret>);

impl std::fmt::Debug for StoredSigningSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} signing secrets", self.0.len())
    }
}

impl StoredSigningSecrets {
    /// A new secret in front of those that hold.
    pub(super) fn add(&mut self) -> String {
        let secret = secret::generate(PREFIX);
        let stored = StoredSigningSecret {
            secret: secret.clone(),
            until: None,
        };
        self.0.insert(0, stored);
        secret
    }

    /// The newest holds for so long from now on, and no other; none at all where that is no time.
    pub(super) fn retire(&mut self, overlap: Duration, now: Timestamp) {
        self.0.truncate(usize::from(!overlap.is_zero()));
        for old in &mut self.0 {
            old.until = Some(now + overlap);
        }
    }

    /// They as the view of who may come in holds them.
    pub(super) fn known(&self) -> SigningSecrets {
        let known = |stored: &StoredSigningSecret| SigningSecret {
            secret: stored.secret.clone(),
            until: stored.until,
        };
        self.0.iter().map(known).collect()
    }
}
