//! Secrets that can be told from a typing error: 256 random bits and a checksum, base62.

use sha2::{Digest, Sha256};

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 43 digits of base 62 hold 256 bits.
const RANDOM_DIGITS: usize = 43;
const CHECKSUM_DIGITS: usize = 6;

/// A new secret with this prefix.
#[must_use]
pub fn generate(prefix: &str) -> String {
    let mut secret = String::with_capacity(prefix.len() + RANDOM_DIGITS + CHECKSUM_DIGITS);
    secret.push_str(prefix);
    let mut drawn = 0;
    while drawn < RANDOM_DIGITS {
        let mut byte = [0];
        crate::random::fill(&mut byte);
        // Bytes from 248 on would make the first digits likelier.
        let [byte] = byte;
        if byte < 248
            && let Some(digit) = DIGITS.get(usize::from(byte % 62))
        {
            secret.push(char::from(*digit));
            drawn += 1;
        }
    }
    let sum = checksum(&secret);
    secret.push_str(&sum);
    secret
}

/// Whether the checksum fits what stands before it.
#[must_use]
pub fn plausible(secret: &str) -> bool {
    let split = secret
        .len()
        .checked_sub(CHECKSUM_DIGITS)
        .and_then(|at| secret.split_at_checked(at));
    split.is_some_and(|(body, sum)| checksum(body) == sum)
}

fn checksum(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    let digit = |byte: &u8| {
        DIGITS
            .get(usize::from(byte % 62))
            .map_or('0', |digit| char::from(*digit))
    };
    digest.iter().take(CHECKSUM_DIGITS).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_does_not_pass() {
        let secret = generate("sk_test_");
        assert_eq!(secret.len(), 8 + 43 + 6);
        assert!(plausible(&secret));
        assert!(!plausible(&secret.replacen("sk_test_", "sk_prod_", 1)));
        assert_ne!(secret, generate("sk_test_"));
    }
}
