//! What operators may change of how actors are supervised, what they are shown of it, and why a
//! change is refused.

use std::fmt;

use colloquy_model::present::present;
use colloquy_runtime::PolicySetting;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

/// Why a change is refused; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SupervisionError {
    /// `If-Match` named another state.
    #[error("the settings have changed")]
    Precondition,
    /// A value is out of its bounds.
    #[error("{field}: {reason}")]
    OutOfBounds {
        /// The parameter, such as `kinds.conversation.crashes_max`.
        field: String,
        /// What would be right, such as `must be an integer from 1 to 65536`.
        reason: String,
    },
}

/// A setting of a kind that a change names: what it gives, or `None` for what is configured.
pub(super) type Given = (&'static str, PolicySetting, Option<GivenValue>);

/// A number as JSON has it: a whole one without a point.
#[derive(Debug, Clone, Copy, PartialEq, ToSchema)]
#[schema(value_type = f64)]
pub struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Number(value) = *self;
        if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
            serializer.serialize_i64(value as i64)
        } else {
            serializer.serialize_f64(value)
        }
    }
}

/// Up to here every whole number has a float of its own.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A setting's value, and the one that config.toml and the environment give it.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = SupervisionSetting)]
pub struct SettingView {
    /// The value that holds now.
    #[schema(value_type = f64)]
    pub value: Number,
    /// What holds where no operator has set anything.
    #[schema(value_type = f64)]
    pub configured: Number,
}

/// What stands for a setting's value in a change: a number, or something else, which is refused
/// with the setting's bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GivenValue {
    /// A number, which may be out of bounds.
    Number(f64),
    /// A text, an array or whatever else is no number.
    NotANumber,
}

impl<'de> Deserialize<'de> for GivenValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenValueVisitor)
    }
}

struct GivenValueVisitor;

impl<'de> Visitor<'de> for GivenValueVisitor {
    type Value = GivenValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number")
    }

    fn visit_f64<E>(self, number: f64) -> Result<GivenValue, E> {
        Ok(GivenValue::Number(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<GivenValue, E> {
        // What is rounded is far out of bounds.
        Ok(GivenValue::Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<GivenValue, E> {
        Ok(GivenValue::Number(number as f64))
    }

    fn visit_bool<E>(self, _: bool) -> Result<GivenValue, E> {
        Ok(GivenValue::NotANumber)
    }

    fn visit_str<E>(self, _: &str) -> Result<GivenValue, E> {
        Ok(GivenValue::NotANumber)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<GivenValue, A::Error> {
        IgnoredAny.visit_seq(items).map(|_| GivenValue::NotANumber)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<GivenValue, A::Error> {
        IgnoredAny.visit_map(fields).map(|_| GivenValue::NotANumber)
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $number:ident ($($bound:tt)*) = $setting:ident,)*) => {
        /// Changes how the actors of one kind are supervised. Null goes back to what is configured.
        #[derive(Debug, Clone, Default, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = ChangeKindSupervision)]
        pub struct ChangeKind {
            $(
                $(#[$doc])*
                #[serde(default, deserialize_with = "present")]
                #[schema(value_type = Option<$number>, $($bound)*)]
                pub $name: Option<Option<GivenValue>>,
            )*
        }

        impl ChangeKind {
            /// The settings that are named.
            fn given(self, kind: &'static str) -> Vec<Given> {
                let all = [$((PolicySetting::$setting, self.$name)),*];
                let named = all.into_iter();
                named.filter_map(|(setting, value)| Some((kind, setting, value?))).collect()
            }
        }

        /// How the actors of one kind are supervised.
        #[derive(Debug, Serialize, ToSchema)]
        #[schema(as = KindSupervision)]
        pub struct KindSettingsView {
            $($(#[$doc])* $name: SettingView,)*
        }

        impl KindSettingsView {
            fn of(setting: impl Fn(PolicySetting) -> SettingView) -> Self {
                KindSettingsView {
                    $($name: setting(PolicySetting::$setting),)*
                }
            }
        }
    };
}

settings! {
    /// Requests that one actor may hold, queued and under way.
    mailbox_places: u32 (minimum = 1, maximum = 65_536) = MailboxPlaces,
    /// Messages after which a busy actor lets its neighbours run.
    turn_budget: u32 (minimum = 1, maximum = 4_294_967_295_u32) = TurnBudget,
    /// Seconds that a caller waits for an actor.
    ask_timeout_seconds: f64 (minimum = 0, maximum = 1e15) = AskTimeout,
    /// Actors of the kind in memory.
    active_max: u64 (minimum = 1, maximum = 1_000_000_000_000_000_u64) = ActiveMax,
    /// Bytes that their states may hold.
    bytes_max: u64 (minimum = 1, maximum = 1_000_000_000_000_000_u64) = BytesMax,
    /// Seconds without use after which an actor is passivated.
    idle_seconds: f64 (minimum = 0, maximum = 1e15) = Idle,
    /// Seconds between two looks at who is idle; 0 is as often as costs a hundredth of a core.
    sweep_seconds: f64 (minimum = 0, maximum = 1e15) = Sweep,
    /// Actors that may be loading at once.
    loads_max: u64 (minimum = 1, maximum = 1_000_000_000_000_000_u64) = LoadsMax,
    /// The crash within `window_seconds` that quarantines an actor.
    crashes_max: u32 (minimum = 1, maximum = 4_294_967_295_u32) = CrashesMax,
    /// Seconds for which a crash counts.
    window_seconds: f64 (minimum = 0, maximum = 1e15) = Window,
    /// Seconds before the restart after a first crash.
    backoff_first_seconds: f64 (minimum = 0, maximum = 1e15) = BackoffFirst,
    /// Seconds before the restart after a second crash; doubled with each that follows.
    backoff_min_seconds: f64 (minimum = 0, maximum = 1e15) = BackoffMin,
    /// The longest such wait, in seconds.
    backoff_max_seconds: f64 (minimum = 0, maximum = 1e15) = BackoffMax,
    /// The part of a wait by which it varies.
    backoff_jitter: f64 (minimum = 0, maximum = 1) = BackoffJitter,
    /// Seconds for which an actor in quarantine is left alone.
    quarantine_seconds: f64 (minimum = 0, maximum = 1e15) = Quarantine,
}

macro_rules! kinds {
    ($($kind:ident),*) => {
        /// Changes of settings by kind of actor; what is left out stays.
        #[derive(Debug, Clone, Default, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = ChangeSupervisionKinds)]
        #[expect(missing_docs, reason = "the names say it")]
        pub struct ChangeKinds {
            $(
                #[serde(default, deserialize_with = "present")]
                #[schema(nullable = false)]
                pub $kind: Option<ChangeKind>,
            )*
        }

        impl ChangeKinds {
            /// The settings that are named.
            pub(super) fn given(self) -> Vec<Given> {
                let mut all = Vec::new();
                $(all.extend(self.$kind.into_iter().flat_map(|kind| kind.given(stringify!($kind))));)*
                all
            }
        }

        /// The settings by kind of actor.
        #[derive(Debug, Serialize, ToSchema)]
        #[schema(as = SupervisionKinds)]
        pub struct KindsView {
            $($kind: KindSettingsView,)*
        }

        impl KindsView {
            /// The shape, its settings read one by one.
            pub(super) fn of(setting: impl Fn(&'static str, PolicySetting) -> SettingView) -> Self {
                KindsView {
                    $($kind: KindSettingsView::of(|one| setting(stringify!($kind), one)),)*
                }
            }
        }

        /// The kinds of actors that have settings.
        pub const KINDS: &[&str] = &[$(stringify!($kind)),*];
    };
}

kinds!(
    conversation,
    document,
    account,
    key,
    user,
    customer,
    webhook,
    client,
    grant
);

/// Changes how actors are supervised. What is left out stays.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSupervision {
    /// The changes by kind of actor.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub kinds: Option<ChangeKinds>,
}

/// How actors are supervised.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Supervision)]
pub struct SupervisionView {
    /// Every setting of every kind of actor.
    pub kinds: KindsView,
}
