//! For which host names certificates are wanted: those of the settings, and those that accounts have
//! proven to be theirs. One that is added is ordered at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Host names, in lower case.
pub(crate) type Names = BTreeSet<String>;

/// The names for which certificates are wanted, and who waits for a change of them.
#[derive(Debug)]
pub(crate) struct Domains {
    named: Mutex<Named>,
    wanted: watch::Sender<Arc<Names>>,
}

/// By whom they are named.
#[derive(Debug, Default)]
struct Named {
    by_settings: Names,
    by_accounts: Names,
}

impl Domains {
    /// These names of the settings, however they are written.
    pub(super) fn new(names: &[String]) -> Self {
        let by_settings = lower_case(names);
        Domains {
            wanted: watch::Sender::new(Arc::new(by_settings.clone())),
            named: Mutex::new(Named {
                by_settings,
                by_accounts: Names::new(),
            }),
        }
    }

    /// Lets the settings want these in the place of those before.
    pub(crate) fn set_of_settings(&self, names: &[String]) {
        self.set(|named| named.by_settings = lower_case(names));
    }

    /// Lets accounts want these in the place of those before.
    pub(crate) fn set_of_accounts(&self, names: &[String]) {
        self.set(|named| named.by_accounts = lower_case(names));
    }

    fn set(&self, change: impl FnOnce(&mut Named)) {
        let mut named = self.named.lock();
        change(&mut named);
        let names: Names = named
            .by_settings
            .union(&named.by_accounts)
            .cloned()
            .collect();
        self.wanted.send_if_modified(|wanted| {
            let is_changed = **wanted != names;
            *wanted = Arc::new(names);
            is_changed
        });
    }

    /// Those that are wanted now.
    pub(super) fn wanted(&self) -> Arc<Names> {
        Arc::clone(&self.wanted.borrow())
    }

    /// Tells of each change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Names>> {
        self.wanted.subscribe()
    }
}

fn lower_case(names: &[String]) -> Names {
    names.iter().map(|name| name.to_ascii_lowercase()).collect()
}
