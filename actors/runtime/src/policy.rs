//! The limits and times by which a kind of entity is run. They may change while it runs.

use std::time::Duration;

/// The limits and times of one kind of entity.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How many commands one entity may hold, queued and under way; the next one is refused.
    pub mailbox_max: u32,
    /// After how many messages in a row an actor lets others on its thread run.
    pub turn_budget: u32,
    /// How long a caller waits for an answer.
    pub ask_timeout: Duration,
    /// How many entities may be active; beyond this the least recently used ones are passivated.
    pub active_max: usize,
    /// How much memory the states may hold, in bytes; beyond this the least recently used ones are
    /// passivated.
    pub bytes_max: usize,
    /// How long an entity may be idle before it is passivated.
    pub idle: Duration,
    /// How often the sweeper looks for what to passivate.
    pub sweep: Duration,
    /// How many loads may be under way at once.
    pub loads_max: usize,
    /// How many crashes within `window` quarantine an entity.
    pub crashes_max: u32,
    /// For how long a crash counts.
    pub window: Duration,
    /// The delay before the restart after the first crash in the window.
    pub backoff_first: Duration,
    /// The delay after the second crash; each further one doubles it.
    pub backoff_min: Duration,
    /// The longest delay before a restart, before it varies by the jitter.
    pub backoff_max: Duration,
    /// The part of a delay (0 to 1) by which it varies at random, so that entities that crashed
    /// together do not restart together.
    pub jitter: f64,
    /// How long a quarantine lasts.
    pub quarantine: Duration,
}

#[cfg(test)]
impl Default for Policy {
    fn default() -> Self {
        Self {
            mailbox_max: 256,
            turn_budget: 32,
            ask_timeout: Duration::from_secs(5),
            active_max: 100_000,
            bytes_max: 256 << 20,
            idle: Duration::from_secs(300),
            sweep: Duration::from_secs(5),
            loads_max: 50,
            crashes_max: 5,
            window: Duration::from_secs(30),
            backoff_first: Duration::ZERO,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            jitter: 0.2,
            quarantine: Duration::from_secs(60),
        }
    }
}

impl Policy {
    /// The delay before the restart after the `nth` crash in the window (from 1). `chance` is in
    /// 0..1, places it within the jitter.
    pub(super) fn backoff(&self, nth: u32, chance: f64) -> Duration {
        let delay = match nth {
            0 | 1 => self.backoff_first,
            _ => {
                let doublings = nth.saturating_sub(2).min(20);
                self.backoff_min
                    .saturating_mul(1 << doublings)
                    .min(self.backoff_max)
            }
        };
        let jitter = self.jitter.clamp(0.0, 1.0);
        delay.mul_f64(1.0 - jitter + 2.0 * jitter * chance.clamp(0.0, 1.0))
    }
}

/// One number of a policy, as settings and operators name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields of `Policy` say what each is")]
pub enum PolicySetting {
    MailboxPlaces,
    TurnBudget,
    AskTimeout,
    ActiveMax,
    BytesMax,
    Idle,
    Sweep,
    LoadsMax,
    CrashesMax,
    Window,
    BackoffFirst,
    BackoffMin,
    BackoffMax,
    BackoffJitter,
    Quarantine,
}

/// No wait and no amount is larger than this.
const VALUE_MAX: f64 = 1e15;
/// The most mailbox permits that an entity may be given.
const MAILBOX_PLACES_MAX: f64 = 65_536.0;

impl PolicySetting {
    /// All of them, in the order of config.toml.
    pub const ALL: [Self; 15] = [
        Self::MailboxPlaces,
        Self::TurnBudget,
        Self::AskTimeout,
        Self::ActiveMax,
        Self::BytesMax,
        Self::Idle,
        Self::Sweep,
        Self::LoadsMax,
        Self::CrashesMax,
        Self::Window,
        Self::BackoffFirst,
        Self::BackoffMin,
        Self::BackoffMax,
        Self::BackoffJitter,
        Self::Quarantine,
    ];

    /// Its name in config.toml, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::MailboxPlaces => "mailbox_places",
            Self::TurnBudget => "turn_budget",
            Self::AskTimeout => "ask_timeout_seconds",
            Self::ActiveMax => "active_max",
            Self::BytesMax => "bytes_max",
            Self::Idle => "idle_seconds",
            Self::Sweep => "sweep_seconds",
            Self::LoadsMax => "loads_max",
            Self::CrashesMax => "crashes_max",
            Self::Window => "window_seconds",
            Self::BackoffFirst => "backoff_first_seconds",
            Self::BackoffMin => "backoff_min_seconds",
            Self::BackoffMax => "backoff_max_seconds",
            Self::BackoffJitter => "backoff_jitter",
            Self::Quarantine => "quarantine_seconds",
        }
    }

    /// The setting with this name in config.toml, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// Its value in a policy; times are in seconds.
    pub fn of(self, policy: &Policy) -> f64 {
        match self {
            Self::MailboxPlaces => f64::from(policy.mailbox_max),
            Self::TurnBudget => f64::from(policy.turn_budget),
            Self::AskTimeout => policy.ask_timeout.as_secs_f64(),
            Self::ActiveMax => policy.active_max as f64,
            Self::BytesMax => policy.bytes_max as f64,
            Self::Idle => policy.idle.as_secs_f64(),
            Self::Sweep => policy.sweep.as_secs_f64(),
            Self::LoadsMax => policy.loads_max as f64,
            Self::CrashesMax => f64::from(policy.crashes_max),
            Self::Window => policy.window.as_secs_f64(),
            Self::BackoffFirst => policy.backoff_first.as_secs_f64(),
            Self::BackoffMin => policy.backoff_min.as_secs_f64(),
            Self::BackoffMax => policy.backoff_max.as_secs_f64(),
            Self::BackoffJitter => policy.jitter,
            Self::Quarantine => policy.quarantine.as_secs_f64(),
        }
    }

    /// Sets it in a policy to a value that [`Self::check`] has passed.
    pub fn set(self, policy: &mut Policy, value: f64) {
        let seconds = |value| Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX);
        match self {
            Self::MailboxPlaces => policy.mailbox_max = value as u32,
            Self::TurnBudget => policy.turn_budget = value as u32,
            Self::AskTimeout => policy.ask_timeout = seconds(value),
            Self::ActiveMax => policy.active_max = value as usize,
            Self::BytesMax => policy.bytes_max = value as usize,
            Self::Idle => policy.idle = seconds(value),
            Self::Sweep => policy.sweep = seconds(value),
            Self::LoadsMax => policy.loads_max = value as usize,
            Self::CrashesMax => policy.crashes_max = value as u32,
            Self::Window => policy.window = seconds(value),
            Self::BackoffFirst => policy.backoff_first = seconds(value),
            Self::BackoffMin => policy.backoff_min = seconds(value),
            Self::BackoffMax => policy.backoff_max = seconds(value),
            Self::BackoffJitter => policy.jitter = value,
            Self::Quarantine => policy.quarantine = seconds(value),
        }
    }

    /// Checks a value against its bounds.
    ///
    /// # Errors
    /// What would be right, as [`Self::requirement`] says it.
    pub fn check(self, value: f64) -> Result<(), String> {
        let (least, most) = self.bounds();
        let is_right =
            (least..=most).contains(&value) && (value.fract() == 0.0 || !self.is_count());
        is_right.then_some(()).ok_or_else(|| self.requirement())
    }

    /// What a value must be, such as `must be an integer from 1 to 65536`.
    pub fn requirement(self) -> String {
        let (least, most) = self.bounds();
        let number = if self.is_count() {
            "an integer"
        } else {
            "a number"
        };
        format!("must be {number} from {least} to {most}")
    }

    /// The least and the most that it may be.
    pub fn bounds(self) -> (f64, f64) {
        match self {
            Self::MailboxPlaces => (1.0, MAILBOX_PLACES_MAX),
            Self::TurnBudget | Self::CrashesMax => (1.0, f64::from(u32::MAX)),
            Self::ActiveMax | Self::BytesMax | Self::LoadsMax => (1.0, VALUE_MAX),
            Self::BackoffJitter => (0.0, 1.0),
            Self::AskTimeout
            | Self::Idle
            | Self::Sweep
            | Self::Window
            | Self::BackoffFirst
            | Self::BackoffMin
            | Self::BackoffMax
            | Self::Quarantine => (0.0, VALUE_MAX),
        }
    }

    /// Whether it counts something, and is a whole number.
    fn is_count(self) -> bool {
        matches!(
            self,
            Self::MailboxPlaces
                | Self::TurnBudget
                | Self::CrashesMax
                | Self::ActiveMax
                | Self::BytesMax
                | Self::LoadsMax
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_read_back_as_it_was_set_and_changes_no_other() {
        for setting in PolicySetting::ALL {
            let (before, mut policy) = (Policy::default(), Policy::default());
            setting.set(&mut policy, 1.0);
            for other in PolicySetting::ALL {
                let expected = if other == setting {
                    1.0
                } else {
                    other.of(&before)
                };
                assert!(
                    (other.of(&policy) - expected).abs() < f64::EPSILON,
                    "{setting:?} {other:?}"
                );
            }
            assert_eq!(PolicySetting::named(setting.name()), Some(setting));
        }
    }

    #[test]
    fn a_value_beyond_its_bounds_is_told_what_would_be_right() {
        const CRASHES: &str = "must be an integer from 1 to 4294967295";
        const SECONDS: &str = "must be a number from 0 to 1000000000000000";
        for (setting, bad, right) in [
            (PolicySetting::CrashesMax, 0.0, CRASHES),
            (PolicySetting::CrashesMax, 1.5, CRASHES),
            (
                PolicySetting::MailboxPlaces,
                65_537.0,
                "must be an integer from 1 to 65536",
            ),
            (
                PolicySetting::BackoffJitter,
                1.1,
                "must be a number from 0 to 1",
            ),
            (PolicySetting::Quarantine, -0.1, SECONDS),
            (PolicySetting::Quarantine, f64::NAN, SECONDS),
            (PolicySetting::Idle, f64::INFINITY, SECONDS),
        ] {
            assert_eq!(setting.check(bad).err().as_deref(), Some(right));
        }
        for (setting, good) in [
            (PolicySetting::MailboxPlaces, 65_536.0),
            (PolicySetting::BackoffJitter, 0.0),
            (PolicySetting::BackoffJitter, 1.0),
            (PolicySetting::Quarantine, 0.0),
        ] {
            assert_eq!(setting.check(good), Ok(()));
        }
    }
}
