//! What operators have changed of how actors are supervised, as it is stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What operators have set, by kind of actor and name of setting. What is not here holds as it is
/// configured. Names that this version does not know stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeptSettings(pub BTreeMap<String, BTreeMap<String, f64>>);
