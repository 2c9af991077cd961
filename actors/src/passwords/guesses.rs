//! Whom a wrong password at sign-in counts against, so that nobody guesses one and nobody keeps
//! somebody else out by guessing. Knows no cookie.

use std::time::Duration;

use colloquy_model::key::{SecretHash, secret_hash};
use serde::{Deserialize, Serialize};

use super::tries::{Bound, Tried};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
/// A name, wherever it is tried (OWASP ASVS 2.2.1: at most 100 in an hour).
const OF_NAME: [Bound; 1] = [bound(100, HOUR)];
/// A name from one address: half of the above, so that one address alone shuts out nobody else.
const FROM_ADDRESS: [Bound; 2] = [bound(10, MINUTE), bound(50, HOUR)];
/// A name in one browser that knows it.
const IN_BROWSER: [Bound; 2] = [bound(10, MINUTE), bound(100, HOUR)];

const fn bound(tries: usize, within: Duration) -> Bound {
    Bound { tries, within }
}

/// What a password at sign-in is tried for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SignInTry {
    /// A name, by its hash.
    Name(SecretHash),
    /// A name and an address from which it is tried, by their hash.
    From(SecretHash),
    /// A browser in which the person of a name has signed in before.
    Browser(SecretHash),
}

impl Tried for SignInTry {
    fn bounds(&self) -> &'static [Bound] {
        match self {
            SignInTry::Name(_) => &OF_NAME,
            SignInTry::From(_) => &FROM_ADDRESS,
            SignInTry::Browser(_) => &IN_BROWSER,
        }
    }
}

/// One try to sign in.
#[derive(Debug, Clone, Copy)]
pub struct Guess {
    /// Where none of these has had too many wrong ones, the password is looked at.
    pub looked_up: [SignInTry; 2],
    /// What a wrong one counts against.
    pub counted: [SignInTry; 2],
    /// Of one of these, one password is looked at at a time.
    pub queue: SecretHash,
}

impl Guess {
    /// A name from an address, in a browser that may be one that knows it.
    #[must_use]
    pub fn new(name: &str, address: &str, browser: Option<SecretHash>) -> Self {
        let queue = secret_hash(name);
        let of_name = SignInTry::Name(queue);
        match browser {
            // What others have tried elsewhere is nothing to it.
            Some(browser) => Guess {
                looked_up: [SignInTry::Browser(browser); 2],
                counted: [SignInTry::Browser(browser), of_name],
                queue: browser,
            },
            None => {
                let from = secret_hash(&format!("{address} {name}"));
                let both = [SignInTry::From(from), of_name];
                Guess {
                    looked_up: both,
                    counted: both,
                    queue,
                }
            }
        }
    }
}
