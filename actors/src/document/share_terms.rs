//! Links that open a document without a key: their tokens and how long they hold. Pure; knows no
//! store and no clock but the one that it is given.

use serde::{Deserialize, Serialize};

use super::access::DocumentRole;
use colloquy_model::key::{SecretHash, secret_hash};
use colloquy_model::secret;
use colloquy_model::time::Timestamp;

/// A new link's token: 256 random bits and a checksum, base62. It is shown once, in
/// `{public_url}/s/{token}`; only its hash is kept.
#[must_use]
pub fn new_token() -> (String, SecretHash) {
    let token = secret::generate("");
    let hash = secret_hash(&token);
    (token, hash)
}

/// The hash to look a token up by; none where the text can be no token, so that nothing need be
/// asked.
#[must_use]
pub fn token_hash(token: &str) -> Option<SecretHash> {
    secret::plausible(token).then(|| secret_hash(token))
}

/// What a link holds as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareTerms {
    /// The hash of the link's token.
    pub token: SecretHash,
    /// What it lets its holder do; never owner.
    pub role: DocumentRole,
    /// From this instant on it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// How often it opens; none: any number of times.
    pub max_uses: Option<u64>,
    /// How often it has been opened.
    pub uses: u64,
    /// The password's hash, as `passwords` gave it.
    pub password: Option<String>,
}

/// What a link's creation asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `ShareTerms`")]
pub struct ShareWanted {
    pub role: Option<DocumentRole>,
    pub expires_at: Option<Timestamp>,
    pub max_uses: Option<u64>,
}

/// A parameter that no link can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct BadTerms {
    /// The parameter's name.
    pub field: &'static str,
    /// What it must be.
    pub reason: &'static str,
}

/// Whether a link opens, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Expired or used up: as if it had never been.
    Gone,
    /// It opens once the password was given.
    WithPassword,
    /// It opens.
    Open,
}

impl ShareTerms {
    /// Checks the parameters of a new link, and gives its terms.
    ///
    /// # Errors
    /// The parameter that can't be taken.
    pub fn new(
        token: SecretHash,
        wanted: ShareWanted,
        password: Option<String>,
        now: Timestamp,
    ) -> Result<Self, BadTerms> {
        let role = wanted.role.unwrap_or(DocumentRole::Viewer);
        if role == DocumentRole::Owner {
            return Err(BadTerms {
                field: "role",
                reason: "must be viewer, commenter or editor",
            });
        }
        if wanted.expires_at.is_some_and(|at| at <= now) {
            return Err(BadTerms {
                field: "expires_at",
                reason: "must be in the future",
            });
        }
        if wanted.max_uses == Some(0) {
            return Err(BadTerms {
                field: "max_uses",
                reason: "must be at least 1",
            });
        }
        let (expires_at, max_uses) = (wanted.expires_at, wanted.max_uses);
        Ok(ShareTerms {
            token,
            role,
            expires_at,
            max_uses,
            uses: 0,
            password,
        })
    }

    /// What it is at this instant. Who asks is told "gone" before a password is asked for.
    #[must_use]
    pub fn opening(&self, now: Timestamp) -> Opening {
        let used_up = self.max_uses.is_some_and(|max| self.uses >= max);
        if used_up || self.expires_at.is_some_and(|at| at <= now) {
            Opening::Gone
        } else if self.password.is_some() {
            Opening::WithPassword
        } else {
            Opening::Open
        }
    }

    /// Opened once more. To be committed before the answer leaves: two requests for the last use
    /// must not both have it.
    pub fn count_use(&mut self) {
        self.uses = self.uses.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use colloquy_model::key::same_hash;

    use super::*;

    fn terms(
        expires_at: Option<Timestamp>,
        max_uses: Option<u64>,
        password: Option<&str>,
    ) -> ShareTerms {
        let wanted = ShareWanted {
            role: None,
            expires_at,
            max_uses,
        };
        ShareTerms::new([0; 32], wanted, password.map(str::to_owned), Timestamp(0)).unwrap()
    }

    #[test]
    fn a_token_is_known_by_its_hash_and_a_typing_error_is_none() {
        let (token, hash) = new_token();
        assert_eq!(token.len(), 43 + 6);
        assert!(token.bytes().all(|b| b.is_ascii_alphanumeric()));
        assert!(same_hash(&token_hash(&token).unwrap(), &hash));
        assert!(!same_hash(&secret_hash("x"), &hash));
        for wrong in [
            "",
            "x",
            "../../etc/passwd",
            &token.to_lowercase(),
            &format!("{token}x"),
            &"é".repeat(25),
        ] {
            assert_eq!(token_hash(wrong), None, "{wrong}");
        }
        assert_ne!(new_token().0, token);
    }

    #[test]
    fn a_link_opens_until_it_expires_or_is_used_up() {
        assert_eq!(
            terms(None, None, None).opening(Timestamp(i64::MAX)),
            Opening::Open
        );
        assert_eq!(
            terms(Some(Timestamp(10)), None, None).opening(Timestamp(9)),
            Opening::Open
        );
        assert_eq!(
            terms(Some(Timestamp(10)), None, None).opening(Timestamp(10)),
            Opening::Gone
        );
        let mut twice = terms(None, Some(2), None);
        twice.count_use();
        assert_eq!(twice.opening(Timestamp(0)), Opening::Open);
        twice.count_use();
        assert_eq!(twice.opening(Timestamp(0)), Opening::Gone);
        assert_eq!(
            terms(None, None, Some("hash")).opening(Timestamp(0)),
            Opening::WithPassword
        );
        assert_eq!(
            terms(Some(Timestamp(1)), None, Some("hash")).opening(Timestamp(1)),
            Opening::Gone
        );
    }

    #[test]
    fn terms_that_open_nothing_are_refused_by_name() {
        let refused = |wanted| {
            ShareTerms::new([0; 32], wanted, None, Timestamp(5))
                .unwrap_err()
                .field
        };
        let wanted = ShareWanted::default();
        assert_eq!(
            refused(ShareWanted {
                role: Some(DocumentRole::Owner),
                ..wanted
            }),
            "role"
        );
        assert_eq!(
            refused(ShareWanted {
                expires_at: Some(Timestamp(5)),
                ..wanted
            }),
            "expires_at"
        );
        assert_eq!(
            refused(ShareWanted {
                max_uses: Some(0),
                ..wanted
            }),
            "max_uses"
        );
    }
}
