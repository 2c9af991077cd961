//! Links that open a document without a key: their tokens, how long they hold, and their passwords.
//! Pure apart from the table of tries; knows no store and no clock but the one that it is given.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

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

/// Whether two hashes are the same, in a time that tells nothing of where they differ.
#[must_use]
pub fn same_hash(one: &SecretHash, other: &SecretHash) -> bool {
    one.ct_eq(other).into()
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
    /// The password's hash, as [`hash_password`] gave it.
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

/// Bytes that a password may have: Argon2 would take more, but hashing what is sent must cost the
/// same each time.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// OWASP's first choice for Argon2id: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1_024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const SALT_BYTES: usize = 16;

/// The password could not be hashed: it is too long, or there is no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the password can't be hashed")]
pub struct NoHash;

fn argon2() -> Result<Argon2<'static>, NoHash> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|_| NoHash)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

/// A password's salted hash, in PHC form. Takes some 20 ms and 19 MiB: not for an arbiter, and not
/// many at once.
///
/// # Errors
/// [`NoHash`].
pub fn hash_password(password: &str) -> Result<String, NoHash> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(NoHash);
    }
    let mut salt = [0; SALT_BYTES];
    colloquy_model::random::fill(&mut salt);
    let hash: PasswordHash = argon2()?
        .hash_password_with_salt(password.as_bytes(), &salt)
        .map_err(|_| NoHash)?;
    Ok(hash.to_string())
}

/// Whether this is the password of that hash; compared in constant time. Costs what
/// [`hash_password`] costs, with the parameters that stand in the hash.
#[must_use]
pub fn password_fits(password: &str, hash: &str) -> bool {
    if password.len() > PASSWORD_BYTES_MAX {
        return false;
    }
    match (PasswordHash::new(hash), argon2()) {
        (Ok(hash), Ok(argon2)) => argon2.verify_password(password.as_bytes(), &hash).is_ok(),
        (Ok(_) | Err(_), _) => false,
    }
}

/// Tries that a link gets in any minute.
pub const TRIES_PER_MINUTE: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);
/// Links whose tries are remembered: about 2 MB. Only a link that has a password and is being tried
/// is one of them.
const LINKS_MAX: usize = 10_000;

/// Too many wrong passwords were given: none is looked at for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many tries; the next one in {retry_after_seconds} s")]
pub struct TooManyTries {
    /// Whole seconds, at least 1, after which the next try is let in.
    pub retry_after_seconds: u64,
}

/// Counts wrong passwords by link: after 10 in a minute no more are looked at, nor right ones,
/// until the minute is over. Of one link one is looked at at a time. In memory only; a restart
/// begins afresh. Other nodes can be told of each, so that it counts there too.
pub struct PasswordTries<K> {
    links: Mutex<HashMap<K, VecDeque<Timestamp>>>,
    links_max: usize,
    tell: Option<TellTry<K>>,
}

/// Tells other nodes of a wrong password for a link, without waiting.
pub type TellTry<K> = Box<dyn Fn(K) + Send + Sync>;

impl<K: Copy + Eq + Hash> Default for PasswordTries<K> {
    fn default() -> Self {
        PasswordTries {
            links: Mutex::default(),
            links_max: LINKS_MAX,
            tell: None,
        }
    }
}

impl<K: Copy + Eq + Hash> PasswordTries<K> {
    /// Has other nodes be told of each wrong password.
    pub(crate) fn shared(tell: TellTry<K>) -> Self {
        PasswordTries {
            tell: Some(tell),
            ..PasswordTries::default()
        }
    }

    /// Whether a password may be looked at now; counts nothing.
    ///
    /// # Errors
    /// [`TooManyTries`]: it must not be.
    pub fn look(&self, link: K, now: Timestamp) -> Result<(), TooManyTries> {
        self.links
            .lock()
            .get_mut(&link)
            .map_or(Ok(()), |tries| let_in(tries, now))
    }

    /// Counts a wrong password, and tells other nodes.
    pub fn was_wrong(&self, link: K, now: Timestamp) {
        self.count(link, now);
        if let Some(tell) = &self.tell {
            tell(link);
        }
    }

    /// Counts a wrong password that was given here or at another node.
    pub(crate) fn count(&self, link: K, now: Timestamp) {
        let mut links = self.links.lock();
        if !links.contains_key(&link) && links.len() >= self.links_max {
            forget_some(&mut links, now);
        }
        let tries = links.entry(link).or_default();
        tries.push_back(now);
        // Those of other nodes come here, too, and nobody may ever look: the newest decide.
        if tries.len() > TRIES_PER_MINUTE {
            tries.pop_front();
        }
    }
}

/// Forgets the tries whose minute is over, then tells whether one more is let in.
fn let_in(tries: &mut VecDeque<Timestamp>, now: Timestamp) -> Result<(), TooManyTries> {
    // What lies in the future was counted before the clock was set back: it must not lock the link
    // for longer.
    tries.retain(|at| now.abs_diff(*at) < WINDOW);
    if tries.len() < TRIES_PER_MINUTE {
        return Ok(());
    }
    let oldest = tries.front().copied().unwrap_or(now);
    let wait = (oldest + WINDOW).since(now);
    Err(TooManyTries {
        retry_after_seconds: wait
            .as_millis()
            .div_ceil(1_000)
            .try_into()
            .unwrap_or(u64::MAX)
            .max(1),
    })
}

/// Makes room: first those whose minute is over, else the one that was tried the longest ago.
fn forget_some<K: Copy + Eq + Hash>(links: &mut HashMap<K, VecDeque<Timestamp>>, now: Timestamp) {
    let before = links.len();
    links.retain(|_, tries| tries.back().is_some_and(|at| now.abs_diff(*at) < WINDOW));
    if links.len() == before
        && let Some(oldest) = links
            .iter()
            .min_by_key(|(_, tries)| tries.back())
            .map(|(link, _)| *link)
    {
        links.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::time::Instant;

    use proptest::prelude::*;

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

    #[test]
    fn the_right_password_fits_and_no_other() {
        let begun = Instant::now();
        let hash = hash_password("correct horse é").unwrap();
        eprintln!("one password hash: {:?}", begun.elapsed());
        assert!(
            hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{hash}"
        );
        assert!(!hash.contains("horse"));
        assert!(password_fits("correct horse é", &hash));
        for wrong in ["", "correct horse", "correct horse é "] {
            assert!(!password_fits(wrong, &hash), "{wrong}");
        }
        assert_ne!(hash_password("correct horse é").unwrap(), hash);
        for broken in ["", "x", "$argon2id$", "$argon2id$v=19$m=19456,t=2,p=1$AAAA"] {
            assert!(!password_fits("x", broken), "{broken}");
        }
        assert_eq!(
            hash_password(&"x".repeat(PASSWORD_BYTES_MAX + 1)),
            Err(NoHash)
        );
    }

    #[test]
    fn the_eleventh_password_in_a_minute_is_not_looked_at_where_ten_were_wrong() {
        let tries = PasswordTries::default();
        for second in 0..10 {
            assert_eq!(tries.look(1, Timestamp(second * 1_000)), Ok(()));
            tries.was_wrong(1, Timestamp(second * 1_000));
        }
        assert_eq!(
            tries.look(1, Timestamp(10_000)),
            Err(TooManyTries {
                retry_after_seconds: 50
            })
        );
        assert_eq!(tries.look(2, Timestamp(10_000)), Ok(()));
        assert_eq!(tries.look(1, Timestamp(60_000)), Ok(()));
        tries.was_wrong(1, Timestamp(60_000));
        assert_eq!(
            tries.look(1, Timestamp(60_000)),
            Err(TooManyTries {
                retry_after_seconds: 1
            })
        );
    }

    #[test]
    fn a_right_password_leaves_nothing_behind() {
        let tries = PasswordTries::default();
        assert_eq!(tries.look(1, Timestamp(0)), Ok(()));
        assert!(tries.links.lock().is_empty());
    }

    #[test]
    fn a_clock_set_back_does_not_lock_a_link() {
        let tries = PasswordTries::default();
        for _ in 0..10 {
            tries.was_wrong(1, Timestamp(10_000_000));
        }
        assert_eq!(tries.look(1, Timestamp(0)), Ok(()));
    }

    #[test]
    fn of_too_many_links_the_oldest_is_forgotten() {
        let tries = PasswordTries {
            links_max: 3,
            ..PasswordTries::default()
        };
        for link in 0..100 {
            tries.was_wrong(link, Timestamp(link));
        }
        assert_eq!(tries.links.lock().len(), 3);
        tries.was_wrong(100, Timestamp(1_000_000));
        assert_eq!(tries.links.lock().len(), 1);
    }

    proptest! {
        #[test]
        fn in_no_minute_more_than_ten_wrong_ones_are_looked_at(gaps in proptest::collection::vec(0..20_000_i64, 1..60)) {
            let (tries, mut now, mut let_in) = (PasswordTries::default(), 0, Vec::new());
            for gap in gaps {
                now += gap;
                let in_this_minute = let_in.iter().filter(|at| **at > now - 60_000).count();
                match tries.look((), Timestamp(now)) {
                    Ok(()) => {
                        tries.was_wrong((), Timestamp(now));
                        let_in.push(now);
                    }
                    Err(refused) => {
                        let wait = i64::try_from(refused.retry_after_seconds).unwrap() * 1_000;
                        let then = let_in.iter().filter(|at| **at > now + wait - 60_000).count();
                        prop_assert!(then < TRIES_PER_MINUTE);
                    }
                }
                prop_assert!(in_this_minute <= TRIES_PER_MINUTE);
                prop_assert_eq!(let_in.last() == Some(&now) || in_this_minute == TRIES_PER_MINUTE, true);
            }
        }
    }
}
