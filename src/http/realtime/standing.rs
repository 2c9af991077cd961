//! Whether a line may go on: looked at again whenever a key, an account or a user has changed, and when a key ends by
//! itself. In between it costs nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use colloquy_actors::accounts::{Permission, Principal, SecretHash};
use colloquy_actors::caller::Caller;
use colloquy_actors::id::UserId;
use colloquy_actors::time::Timestamp;

use super::super::credential;
use super::super::edge::Edge;

/// The longest wait for a key's end: the wall clock may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Who opened a line, and from where.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    secret: SecretHash,
    /// The user for whom the key acts.
    pub(super) user: Option<UserId>,
    address: Option<IpAddr>,
    /// One of these is needed.
    needs: &'static [Permission],
}

/// Why a line must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// What opened it opens it no more.
    Void,
    /// The server is stopping.
    Leaving,
}

impl Holder {
    pub(crate) fn new(principal: &Principal, caller: &Caller, needs: &'static [Permission]) -> Self {
        Holder { secret: principal.secret, user: caller.by.user, address: caller.by.address, needs }
    }

    /// Who it is now; none where it may not go on.
    pub(super) fn principal(&self, edge: &Edge, now_ms: i64) -> Option<Principal> {
        let principal = edge.system.identity.bearer(&self.secret, now_ms)?;
        let own_user = principal.key.view.user_id.is_none_or(|own| self.user == Some(own));
        let known = |user| edge.system.identity.user(principal.scope(), user).is_some();
        let allowed = self.needs.iter().any(|one| credential::granted(&principal, *one))
            && self.address.is_none_or(|address| credential::address_allowed(&principal, address));
        (own_user && allowed && self.user.is_none_or(known)).then_some(principal)
    }

    /// Waits until it may not go on.
    pub(super) async fn ended(self, edge: Arc<Edge>) -> End {
        let mut changes = edge.system.identity.changes();
        let mut leaving = edge.running.until_leaving();
        loop {
            changes.borrow_and_update();
            let now_ms = Timestamp::now().0;
            let Some(principal) = self.principal(&edge, now_ms) else { return End::Void };
            let wait = principal.ends_ms.map(|at| {
                let wait = u64::try_from(at.saturating_sub(now_ms)).unwrap_or(0);
                Duration::from_millis(wait).min(LOOK_AGAIN)
            });
            let ends = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = leaving.wait_for(|leaving| *leaving) => return End::Leaving,
                _ = changes.changed() => {}
                () = ends => {}
            }
        }
    }
}
