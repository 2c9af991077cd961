//! What operators see of actors, how they steer them, and how they change their supervision while
//! they live. Knows no entity: every kind is a
//! [`SupervisedKind`](colloquy_runtime::SupervisedKind).

pub mod messages;

mod commands;
mod peers;
mod settings;
mod settings_view;
mod steering;
mod store_view;
mod turns;
mod views;

pub use commands::Steering;
pub use peers::Peers;
pub use settings::Supervision;
pub use settings_view::SettingsView;
pub use store_view::{Lags, StoreView};
pub use turns::{Turn, Turns};
pub use views::{ActorKindView, ActorStateView, InstanceSort, InstanceView, InstancesWanted};
