//! A courier whose attempts are counted, by the account whose endpoint they go to.

use std::sync::Arc;

use super::courier::{Courier, Lost, OutboundRequest, Reply};
use crate::store::Later;

/// Told of each attempt before it is made, by the account's small number.
pub(crate) type CountAttempt = Box<dyn Fn(u32) + Send + Sync>;

/// Brings requests to receivers and counts them.
pub(crate) struct CountedCourier {
    /// Who brings them.
    pub(crate) courier: Arc<dyn Courier>,
    /// Who counts them.
    pub(crate) count: CountAttempt,
}

impl Courier for CountedCourier {
    fn post(&self, request: OutboundRequest) -> Later<Result<Reply, Lost>> {
        (self.count)(request.account);
        self.courier.post(request)
    }
}
