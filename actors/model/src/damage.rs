//! Stored data that can't be read back: told to the operators once, answered as a fault of ours,
//! never replaced by anything.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Damages that are remembered as told; what is found beyond is told each time.
const TOLD_MAX: usize = 10_000;

static TOLD: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

/// What is stored can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what is stored can't be read")]
pub struct Unreadable;

impl Unreadable {
    /// Tells what was found: `place` names the entity and its field. Whoever asks again and again
    /// is not told again.
    pub fn found(place: impl Display, error: impl Display) -> Self {
        let (place, error) = (place.to_string(), error.to_string());
        if is_new(&(&place, &error)) {
            tracing::error!(
                place,
                error,
                "what is stored can't be read; it stays as it is"
            );
        }
        Unreadable
    }
}

fn is_new(damage: &impl Hash) -> bool {
    let mut hasher = DefaultHasher::new();
    damage.hash(&mut hasher);
    let mut told = TOLD.lock();
    if told.len() < TOLD_MAX {
        told.insert(hasher.finish())
    } else {
        !told.contains(&hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damage_is_told_once_and_another_one_too() {
        assert!(is_new(&"a test's metadata"));
        assert!(!is_new(&"a test's metadata"));
        assert!(is_new(&"a test's title"));
    }
}
