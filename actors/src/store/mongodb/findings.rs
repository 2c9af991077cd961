//! What the checks of `colloquy check` share: the list of what they find, and the pages in which
//! they read.

use mongodb::Cursor;
use mongodb::bson::Document;
use mongodb::error::Error;

use crate::store::Finding;

/// How many documents are read or looked up at once.
pub(super) const AT_ONCE: usize = 500;

/// How many findings are told at most: who has as many knows enough.
const FINDINGS_MAX: usize = 1_000;

/// What a check has found wrong so far, up to a bound.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// All of it, in the order of the checks.
    pub(super) fn all(self) -> Vec<Finding> {
        self.0
    }

    /// Notes what a check found, unless enough is known.
    pub(super) fn note(&mut self, check: &'static str, found: String) {
        if self.0.len() < FINDINGS_MAX {
            self.0.push(Finding { check, found });
        }
    }
}

/// The next documents of a cursor, as many as are looked up at once; empty at its end.
pub(super) async fn page(cursor: &mut Cursor<Document>) -> Result<Vec<Document>, Error> {
    let mut page = Vec::new();
    while page.len() < AT_ONCE && cursor.advance().await? {
        page.push(cursor.deserialize_current()?);
    }
    Ok(page)
}
