//! How actors are supervised, and how operators change that while they live. What is changed is one
//! record in the store, with one fixed id: committed, numbered and fenced as any other.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use colloquy_model::answer::{Answer, Precondition};
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::commit::{Commit, Effect, Header, NewRow};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::SupervisionId;
use colloquy_model::json;
use colloquy_model::sequence::Sequence;
use colloquy_model::supervision::KeptSettings;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, Cause, CommitFailure, Policy, PolicySetting, SupervisedKind};

use super::messages::{
    ChangeSupervision, Given, GivenValue, KINDS, KindsView, Number, SettingView, SupervisionError,
    SupervisionView,
};
use super::peers::Peers;
use super::settings_view::SettingsView;
use super::turns::Turns;
use crate::store::{Store, Stored};
use colloquy_model::entity_number::EntityNumber;

/// How often a change is tried again when another one came first.
const TRIES_MAX: usize = 3;
/// The number of the one record, which no identifier that is made can have.
const NUMBER: u64 = 1;

/// Every kind of actor, and how each is supervised.
pub struct Supervision {
    kinds: Vec<Arc<dyn SupervisedKind>>,
    applied: Arc<Applied>,
    kept: Arc<SettingsView>,
    store: Arc<dyn Store>,
    /// The way to other nodes, where there may be some.
    peers: Option<Arc<Peers>>,
    /// Held while a change is judged and committed, so that the next one sees it.
    changing: tokio::sync::Mutex<()>,
    turns: Turns,
}

impl Supervision {
    /// Takes over how these kinds are supervised: what they are run by now is what is configured,
    /// and what operators have set goes over it at once and with every change.
    pub(crate) fn new(
        kinds: Vec<Arc<dyn SupervisedKind>>,
        kept: Arc<SettingsView>,
        store: Arc<dyn Store>,
    ) -> Self {
        let policy =
            |kind: &Arc<dyn SupervisedKind>| Some((kind.kind(), Policy::clone(&*kind.policy()?)));
        let configured: BTreeMap<_, _> = kinds.iter().filter_map(policy).collect();
        let applied = Arc::new(Applied {
            kinds: kinds.iter().map(Arc::downgrade).collect(),
            configured: Mutex::new(configured),
        });
        applied.warn_of_unknown(&kept.get().settings);
        let changed = Arc::clone(&applied);
        kept.listen(Box::new(move |before, after| changed.apply(before, after)));
        Supervision {
            kinds,
            applied,
            kept,
            store,
            peers: None,
            changing: tokio::sync::Mutex::default(),
            turns: Turns::default(),
        }
    }

    /// The same, with the actors of other nodes.
    pub(crate) fn with_peers(self, peers: Arc<Peers>) -> Self {
        Supervision {
            peers: Some(peers),
            ..self
        }
    }

    /// The way to other nodes, where there may be some.
    pub(super) fn peers(&self) -> Option<&Peers> {
        self.peers.as_deref()
    }

    /// Every kind of actor, in the order in which operators see them.
    pub fn kinds(&self) -> &[Arc<dyn SupervisedKind>] {
        &self.kinds
    }

    /// Turns at single actors, for commands that hold for one state of an actor only.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// How actors are supervised now.
    pub fn settings(&self) -> Answer {
        let kept = self.kept.get();
        let setting = |kind: &'static str, setting: PolicySetting| {
            let configured = self.configured(kind, setting);
            let own = known(&kept.settings, kind, setting);
            SettingView {
                value: Number(own.unwrap_or(configured)),
                configured: Number(configured),
            }
        };
        let view = SupervisionView {
            kinds: KindsView::of(setting),
        };
        Answer::ok(Some(self.etag(&kept.settings)), json::bytes(&view))
    }

    /// Changes how actors are supervised. The answer leaves when the change is durable and holds
    /// for actors that live.
    ///
    /// # Errors
    /// [`SupervisionError`], or why it could not be committed.
    pub async fn change(
        &self,
        caller: Caller,
        if_match: Option<Precondition>,
        change: ChangeSupervision,
    ) -> Result<Answer, AskError<SupervisionError>> {
        let given = change.kinds.unwrap_or_default().given();
        let wanted = checked(given).map_err(AskError::Refused)?;
        let _turn = self.changing.lock().await;
        for _ in 0..TRIES_MAX {
            let kept = self.kept.get();
            let etag = self.etag(&kept.settings);
            if if_match.as_ref().is_some_and(|known| !known.holds(&etag)) {
                return Err(AskError::Refused(SupervisionError::Precondition));
            }
            let next = laid_over(&kept.settings, &wanted);
            if next == *kept.settings {
                return Ok(self.settings());
            }
            let commit = self.commit_of(kept.revision, next, caller.clone());
            match self.store.commit(commit).await {
                Ok(()) => {
                    let changed = self.settings();
                    // To keep what is configured may change nothing of what holds.
                    if changed.etag != Some(etag) {
                        let request_id = &*caller.actor.request_id;
                        tracing::info!(request_id, "an operator has changed the supervision");
                    }
                    return Ok(changed);
                }
                Err(CommitFailure::Conflict) => self.reload().await?,
                Err(CommitFailure::Unavailable | CommitFailure::Violated(_)) => {
                    return Err(AskError::unavailable(Cause::StoreUnavailable));
                }
                Err(CommitFailure::Unknown) => return Err(AskError::Unknown),
            }
        }
        Err(AskError::unavailable(Cause::Conflict))
    }

    /// Makes these what holds where no operator has set anything, for actors that live too.
    pub(crate) fn configure(&self, configured: &BTreeMap<&'static str, Policy>) {
        self.applied.configure(configured, &self.kept);
    }

    /// Takes in what another node has committed.
    async fn reload(&self) -> Result<(), AskError<SupervisionError>> {
        if let Some(Stored::Record(record)) = self.store.reload(subject(id())).await?
            && let Ok(settings) = serde_json::from_str(&record.body)
        {
            self.kept.put(record.sequence, settings);
        }
        Ok(())
    }

    fn commit_of(&self, revision: Sequence, settings: KeptSettings, caller: Caller) -> Commit {
        let body = json::text(&settings);
        let mut commit = Commit::new(subject(id()), revision, caller, Timestamp::now());
        let payload = body.clone().into();
        let row = NewRow::new(EventKind::SupervisionChanged, payload);
        commit.rows.push(row);
        commit.header = Header::Record {
            new: revision == Sequence::ZERO,
            name: "supervision".to_owned(),
            body,
            names: Vec::new(),
        };
        commit.effects = vec![Effect::Supervision(Box::new(settings))];
        Commit {
            tenant: Tenant::OPERATORS,
            ..commit
        }
    }

    fn configured(&self, kind: &str, setting: PolicySetting) -> f64 {
        let configured = self.applied.configured.lock();
        configured
            .get(kind)
            .map_or(0.0, |policy| setting.of(policy))
    }

    /// Changes with what holds and with what is configured: the settings show both.
    fn etag(&self, kept: &KeptSettings) -> String {
        let mut hasher = DefaultHasher::new();
        for kind in KINDS {
            for setting in PolicySetting::ALL {
                let configured = self.configured(kind, setting);
                let value = known(kept, kind, setting).unwrap_or(configured);
                [value, configured].map(f64::to_bits).hash(&mut hasher);
            }
        }
        format!("{:016x}", hasher.finish())
    }
}

/// A setting of a kind that is to be changed: its new value, or `None` for what is configured.
type Wanted = (&'static str, PolicySetting, Option<f64>);

/// Checks all values that a change names.
fn checked(given: Vec<Given>) -> Result<Vec<Wanted>, SupervisionError> {
    let one = |(kind, setting, given): Given| {
        let checked = given.map(|given| match given {
            GivenValue::Number(value) => setting.check(value).map(|()| value),
            GivenValue::NotANumber => Err(setting.requirement()),
        });
        let value = checked.transpose();
        let value = value.map_err(|reason| SupervisionError::OutOfBounds {
            field: format!("kinds.{kind}.{}", setting.name()),
            reason,
        })?;
        Ok((kind, setting, value))
    };
    given.into_iter().map(one).collect()
}

/// What is kept when a change has been made.
fn laid_over(kept: &KeptSettings, wanted: &[Wanted]) -> KeptSettings {
    let KeptSettings(mut all) = kept.clone();
    for (kind, setting, value) in wanted {
        let of_kind = all.entry((*kind).to_owned()).or_default();
        match value {
            Some(value) => drop(of_kind.insert(setting.name().to_owned(), *value)),
            None => drop(of_kind.remove(setting.name())),
        }
    }
    all.retain(|_, of_kind| !of_kind.is_empty());
    KeptSettings(all)
}

/// What operators have set of a setting; none where that is nothing, or of no use to this version.
fn known(kept: &KeptSettings, kind: &str, setting: PolicySetting) -> Option<f64> {
    let value = *kept.0.get(kind)?.get(setting.name())?;
    setting.check(value).ok().map(|()| value)
}

/// The kinds as changes of their settings reach them. It does not keep them alive.
struct Applied {
    kinds: Vec<Weak<dyn SupervisedKind>>,
    /// What holds where no operator has set anything. Locked while what holds is set anew, so that
    /// what is set last is of both as they are last.
    configured: Mutex<BTreeMap<&'static str, Policy>>,
}

impl Applied {
    /// Lets what is kept hold for actors that live.
    fn apply(&self, before: &KeptSettings, after: &KeptSettings) {
        let configured = self.configured.lock();
        for kind in self.kinds.iter().filter_map(Weak::upgrade) {
            if let Some(configured) = configured.get(kind.kind()) {
                hold(&*kind, (configured, before), (configured, after));
            }
        }
    }

    /// Lets what is configured anew hold for actors that live.
    fn configure(&self, anew: &BTreeMap<&'static str, Policy>, kept: &SettingsView) {
        let mut configured = self.configured.lock();
        let kept = kept.get().settings;
        for kind in self.kinds.iter().filter_map(Weak::upgrade) {
            if let (Some(before), Some(after)) =
                (configured.get_mut(kind.kind()), anew.get(kind.kind()))
            {
                hold(&*kind, (before, &kept), (after, &kept));
                before.clone_from(after);
            }
        }
    }

    /// Tells of what an earlier or later version has kept and this one can't use.
    fn warn_of_unknown(&self, kept: &KeptSettings) {
        let configured = self.configured.lock();
        for (kind, of_kind) in &kept.0 {
            for (name, value) in of_kind {
                let setting = PolicySetting::named(name);
                let is_known = configured.contains_key(kind.as_str())
                    && setting.is_some_and(|setting| setting.check(*value).is_ok());
                if !is_known {
                    tracing::warn!(
                        kind,
                        setting = name,
                        value = %value,
                        "a kept setting of supervision is not known to this version: what is \
                         configured holds"
                    );
                }
            }
        }
    }
}

/// What is configured of a kind, and what operators have set over it.
type Held<'a> = (&'a Policy, &'a KeptSettings);

/// Lets these hold for actors that live, and logs what has changed of what holds.
fn hold(kind: &dyn SupervisedKind, before: Held<'_>, after: Held<'_>) {
    let mut policy = after.0.clone();
    for setting in PolicySetting::ALL {
        let kept = |settings: &KeptSettings| known(settings, kind.kind(), setting);
        if let Some(value) = kept(after.1) {
            setting.set(&mut policy, value);
        }
        let holds = |(configured, settings): Held<'_>| {
            kept(settings).unwrap_or_else(|| setting.of(configured))
        };
        let (from, to) = (holds(before), holds(after));
        if from != to {
            // As it is written: a whole number without a point.
            let (from, to) = (tracing::field::display(from), tracing::field::display(to));
            tracing::info!(
                kind = kind.kind(),
                setting = setting.name(),
                from,
                to,
                "a setting of supervision has changed"
            );
        }
    }
    kind.set_policy(policy);
}

/// The identifier of the one record.
fn id() -> SupervisionId {
    SupervisionId::from_parts(EntityNumber(NUMBER), 0)
}

fn subject(id: SupervisionId) -> Subject {
    Subject {
        kind: Kind::Supervision,
        number: id.number(),
        tail: id.tail(),
    }
}
