//! Passwords of share links and of people: how they are hashed, how many at once, and how often one
//! may be wrong.

mod browsers;
mod guesses;
mod hashing;
mod permits;
mod tries;

pub use browsers::{BROWSER_KNOWS, KnownBrowsers};
pub use guesses::{Guess, SignInTry};
pub use hashing::{NoHash, PASSWORD_BYTES_MAX, hash_password, nobodys_hash, password_fits};
pub use permits::{HashClaim, HashPermit, HashPermits, HashSettings, NoHashPermit};
pub use tries::{Bound, PasswordTries, TooManyTries, Tried};
