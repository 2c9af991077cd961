//! What operators have set of how actors are supervised, in memory. It is set between the fsync of
//! a change and its answer, and at once holds for actors that live.

use std::sync::{Arc, OnceLock};

use colloquy_model::sequence::Sequence;
use colloquy_model::supervision::KeptSettings;
use parking_lot::Mutex;

/// Called with what was kept before and what is kept now, in the order of commits.
type Listener = Box<dyn Fn(&KeptSettings, &KeptSettings) + Send + Sync>;

/// What operators have set, as it was committed last.
#[derive(Default)]
pub struct SettingsView {
    kept: Mutex<Kept>,
    listener: OnceLock<Listener>,
}

/// Settings with the revision that brought them; 0 where none were ever set.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    pub(super) revision: Sequence,
    pub(super) settings: Arc<KeptSettings>,
}

impl SettingsView {
    /// Takes in what was committed as this revision; an older one changes nothing.
    pub fn put(&self, revision: Sequence, settings: KeptSettings) {
        let mut kept = self.kept.lock();
        if revision <= kept.revision {
            return;
        }
        let settings = Arc::new(settings);
        let before = std::mem::replace(
            &mut *kept,
            Kept {
                revision,
                settings: Arc::clone(&settings),
            },
        );
        if let Some(listener) = self.listener.get() {
            listener(&before.settings, &settings);
        }
    }

    /// What operators have set, as it was committed last.
    pub(super) fn get(&self) -> Kept {
        self.kept.lock().clone()
    }

    /// Lets this be called with what is kept now, and then with every change.
    pub(super) fn listen(&self, listener: Listener) {
        let kept = self.kept.lock();
        let listener = self.listener.get_or_init(|| listener);
        listener(&KeptSettings::default(), &kept.settings);
    }
}

impl std::fmt::Debug for SettingsView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SettingsView").finish_non_exhaustive()
    }
}
