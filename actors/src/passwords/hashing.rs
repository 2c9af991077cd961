//! Hashes of passwords: Argon2id, with the parameters that stand in each hash.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;

/// Bytes that a password may have: Argon2 would take more, but hashing what is sent must cost the
/// same each time.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// OWASP's first choice for Argon2id: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1_024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

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

/// A hash that is no password's, which costs what others cost to compare with. It is drawn, not
/// computed: the 19 MiB of a computation would stay with a server that has nothing else to do.
#[must_use]
pub fn nobodys_hash() -> String {
    let (mut salt, mut hash) = ([0; SALT_BYTES], [0; HASH_BYTES]);
    colloquy_model::random::fill(&mut salt);
    colloquy_model::random::fill(&mut hash);
    let [salt, hash] = [&salt[..], &hash].map(|bytes| BASE64_STANDARD_NO_PAD.encode(bytes));
    format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${hash}")
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::time::Instant;

    use super::*;

    #[test]
    fn nobodys_hash_is_compared_with_as_any_other_and_fits_none() {
        let [nobodys, somebodys] = [nobodys_hash(), hash_password("x").unwrap()]
            .map(|hash| PasswordHash::new(&hash).unwrap());
        // All that the cost of comparing depends on. Measured times would depend on the machine's
        // load, too.
        let cost = |hash: &PasswordHash| {
            let (salt, digest) = (hash.salt.unwrap(), hash.hash.unwrap());
            let (version, params) = (hash.version, hash.params.clone());
            (hash.algorithm, version, params, salt.len(), digest.len())
        };
        assert_eq!(cost(&nobodys), cost(&somebodys));
        // That it fits none, nothing but its digest says, which is compared after all is computed:
        // with the computed one in its place the password would fit.
        assert!(!password_fits("y", &nobodys.to_string()));
        let computed: PasswordHash = argon2()
            .unwrap()
            .hash_password_with_salt(b"y", &nobodys.salt.unwrap())
            .unwrap();
        let fitting = PasswordHash {
            hash: computed.hash,
            ..nobodys.clone()
        };
        assert!(password_fits("y", &fitting.to_string()));
        assert_ne!(nobodys.to_string(), nobodys_hash());
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
}
