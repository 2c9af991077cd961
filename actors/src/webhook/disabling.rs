//! How the server disables an endpoint because of how its receiver answers: by a request to the
//! endpoint's record, as a caller does.

use std::sync::Arc;

use super::record::DisabledReason;
use crate::store::Later;
use colloquy_model::caller::Tenant;
use colloquy_model::id::WebhookId;

/// An endpoint that is to get nothing more, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DisableEndpoint {
    pub(crate) id: WebhookId,
    pub(crate) tenant: Tenant,
    pub(crate) reason: DisabledReason,
}

/// What became of the wish to disable an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disabling {
    /// Its record says that it is disabled.
    Done,
    /// Its record could not be changed now.
    NotNow,
}

/// Disables an endpoint's record.
pub(crate) type Disabler = Arc<dyn Fn(DisableEndpoint) -> Later<Disabling> + Send + Sync>;
