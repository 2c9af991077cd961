//! Whether an open connection may go on showing what it shows. Looked at again when its account's
//! keys, users or settings have changed, when its key ends by itself, and right before anything is
//! shown: so nothing is shown that was committed after a right was gone. In between it costs a look
//! at one number.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use colloquy_actors::accounts::Principal;
use colloquy_model::access_token::Bearer;
use colloquy_model::caller::Caller;
use colloquy_model::conversation_access::{ConversationAccess, Reach};
use colloquy_model::key::Permission;
use colloquy_model::time::Timestamp;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::sync::watch;

use super::super::app_state::AppState;
use super::super::authentication::VisibleEvents;
use super::super::{authentication, conversation_access, signed_requests};

/// The longest wait for a key's end: the wall clock may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long changes gather before a silent connection looks at them: who changes a key in a loop
/// costs each connection ten looks a second.
const GATHER: Duration = Duration::from_millis(100);

/// The credential with which a connection was opened, and from where.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionAuth {
    bearer: Bearer,
    pub(super) caller: Caller,
    /// The conversations that it could read then.
    pub(super) reads: Reach,
    /// Whether its opening was signed.
    signed: bool,
    /// The permissions of which the credential needs one.
    needs: &'static [Permission],
}

/// What a connection shows, in the order of the rights that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Visibility {
    /// Answers to what is said through it.
    Nothing,
    /// What happens to conversations.
    Conversations,
    /// These events of an account, beside those of conversations.
    Account(VisibleEvents),
}

/// Why a connection must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessEnd {
    /// The credential or a right that it needs is gone.
    Revoked,
    /// The server is stopping.
    ServerStopping,
}

impl ConnectionAuth {
    pub(crate) fn new(
        principal: &Principal,
        caller: &Caller,
        needs: &'static [Permission],
    ) -> Self {
        ConnectionAuth {
            bearer: principal.bearer.clone(),
            caller: caller.clone(),
            reads: conversation_access::of_principal(principal, caller.actor.user).reads,
            signed: signed_requests::are_required(principal),
            needs,
        }
    }

    /// Who it is now; none where it may not go on.
    pub(super) fn principal(&self, app: &AppState, now: Timestamp) -> Option<Principal> {
        let principal = app.system.identity.bearer(&self.bearer, now)?;
        // An operator's session may have gone on to another account's side.
        if principal.tenant() != self.caller.tenant {
            return None;
        }
        if signed_requests::are_required(&principal) && !self.signed {
            return None;
        }
        let (user, address) = (self.caller.actor.user, self.caller.actor.address);
        let own_user = principal
            .key
            .view
            .user_id
            .is_none_or(|own| user == Some(own));
        let known = |user| app.system.identity.user(principal.tenant(), user).is_some();
        let allowed = self
            .needs
            .iter()
            .any(|one| authentication::granted(&principal, *one))
            && address.is_none_or(|address| authentication::address_allowed(&principal, address));
        (own_user && allowed && user.is_none_or(known)).then_some(principal)
    }

    /// Which conversations this principal, who is its own, reads and writes now.
    pub(super) fn access(&self, principal: &Principal) -> ConversationAccess {
        conversation_access::of_principal(principal, self.caller.actor.user)
    }
}

/// What woke a connection that shows nothing at the moment.
enum Wake {
    Look,
    Leaving,
}

/// Watches whether one connection may go on: whenever rights change, and before anything is shown.
pub(crate) struct AccessWatch {
    app: Arc<AppState>,
    auth: ConnectionAuth,
    shows: Visibility,
    /// The conversations of which it shows something.
    reads: Reach,
    changes: watch::Receiver<u64>,
    /// When its key ends by itself; none where it has not been looked at.
    looked: Option<Option<Timestamp>>,
    waking: LocalBoxFuture<'static, Wake>,
}

impl AccessWatch {
    pub(crate) fn new(app: Arc<AppState>, auth: ConnectionAuth, shows: Visibility) -> Self {
        let changes = app.system.identity.changes(auth.caller.tenant);
        // The first look is due at once.
        let waking = std::future::ready(Wake::Look).boxed_local();
        AccessWatch {
            app,
            reads: auth.reads,
            auth,
            shows,
            changes,
            looked: None,
            waking,
        }
    }

    /// It shows this from now on.
    pub(super) fn show(&mut self, shows: Visibility) {
        if self.shows != shows {
            (self.shows, self.looked) = (shows, None);
        }
    }

    /// What it shows is of these conversations from now on.
    pub(super) fn read(&mut self, reads: Reach) {
        if self.reads != reads {
            (self.reads, self.looked) = (reads, None);
        }
    }

    /// Whether it may go on: to be asked when something has come and before it is shown.
    pub(super) fn holds(&mut self) -> bool {
        let now = Timestamp::now();
        let unchanged = !self.changes.has_changed().unwrap_or(true);
        if unchanged
            && self
                .looked
                .is_some_and(|ends_at| ends_at.is_none_or(|at| at > now))
        {
            return true;
        }
        // Before the look: what changes while it looks is another change.
        self.changes.borrow_and_update();
        self.looked = self.allowed(now).map(|principal| principal.ends_at);
        self.looked.is_some()
    }

    fn allowed(&self, now: Timestamp) -> Option<Principal> {
        let principal = self.auth.principal(&self.app, now)?;
        let reads = || self.auth.access(&principal).reads.covers(self.reads);
        let visible = || authentication::visible_events(&self.app, &principal, &self.auth.caller);
        let allowed = match self.shows {
            Visibility::Nothing => true,
            Visibility::Conversations => reads(),
            Visibility::Account(shown) => reads() && visible().covers(shown),
        };
        allowed.then_some(principal)
    }

    /// Waits until it may not go on.
    pub(super) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<AccessEnd> {
        loop {
            match self.waking.poll_unpin(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Wake::Leaving) => return Poll::Ready(AccessEnd::ServerStopping),
                Poll::Ready(Wake::Look) => {}
            }
            if !self.holds() {
                return Poll::Ready(AccessEnd::Revoked);
            }
            let ends_in = self
                .looked
                .flatten()
                .map(|at| at.since(Timestamp::now()).min(LOOK_AGAIN));
            let leaving = self.app.in_flight.until_leaving();
            self.waking = woken(self.changes.clone(), leaving, ends_in).boxed_local();
        }
    }
}

async fn woken(
    mut changes: watch::Receiver<u64>,
    mut leaving: watch::Receiver<bool>,
    ends_in: Option<Duration>,
) -> Wake {
    let changed = async {
        // An error would mean that nobody can tell any more: then it looks, too.
        let _ = changes.changed().await;
        tokio::time::sleep(GATHER).await;
    };
    let ends = async {
        match ends_in {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        _ = leaving.wait_for(|leaving| *leaving) => Wake::Leaving,
        () = changed => Wake::Look,
        () = ends => Wake::Look,
    }
}
