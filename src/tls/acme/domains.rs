//! For which host names certificates are wanted: those of the settings now. Whoever has proven that
//! further ones lead here has them added in this place; what is added is ordered at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

/// Host names, in lower case.
pub(crate) type Names = BTreeSet<String>;

/// The names for which certificates are wanted, and who waits for a change of them.
#[derive(Debug)]
pub(crate) struct Domains(watch::Sender<Arc<Names>>);

impl Domains {
    /// These names, however they are written.
    pub(super) fn new(names: &[String]) -> Self {
        Domains(watch::Sender::new(Arc::new(lower_case(names))))
    }

    /// Lets these be wanted in the place of those before.
    pub(crate) fn replace(&self, names: &[String]) {
        let names = lower_case(names);
        self.0.send_if_modified(|wanted| {
            let is_changed = **wanted != names;
            *wanted = Arc::new(names);
            is_changed
        });
    }

    /// Those that are wanted now.
    pub(super) fn wanted(&self) -> Arc<Names> {
        Arc::clone(&self.0.borrow())
    }

    /// Tells of each change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Names>> {
        self.0.subscribe()
    }
}

fn lower_case(names: &[String]) -> Names {
    names.iter().map(|name| name.to_ascii_lowercase()).collect()
}
