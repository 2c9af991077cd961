//! What a user signs in to the console by: a password, which is set by invitation, and the sessions
//! that were opened with it. Part of the user's record, so all of it ends with the user.
//! What changes it: `sessions.rs`.

use std::sync::Arc;

use colloquy_model::caller::Mode;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::UserId;
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;
use colloquy_model::user::{SessionTerms, SignInBounds};
use serde::{Deserialize, Serialize};

/// Sessions of one user; the one that was opened first gives way.
const SESSIONS_MAX: usize = 20;
/// The number of the user who stands for whoever has the operator token, which no identifier that is
/// made can have; 1 is the record of the supervision's.
const TOKEN_HOLDER: u64 = 2;

/// What a user signs in by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SignIn {
    /// The password's hash, in PHC form.
    pub(super) password: Option<String>,
    pub(super) invitation: Option<Invitation>,
    pub(super) sessions: Vec<SessionTerms>,
    /// Of the invitation with which the password was set.
    #[serde(default, skip_serializing_if = "SignInBounds::are_none")]
    pub(super) bounds: SignInBounds,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Invitation {
    pub(super) token: SecretHash,
    pub(super) until: Timestamp,
    /// Whoever comes with it may do no more than whoever made it.
    #[serde(default, skip_serializing_if = "SignInBounds::are_none")]
    pub(super) bounds: SignInBounds,
}

impl SignIn {
    pub(super) fn password(&self) -> Option<Arc<str>> {
        self.password.as_deref().map(Arc::from)
    }

    pub(super) fn invitation(&self) -> Option<(SecretHash, Timestamp)> {
        let Invitation { token, until, .. } = self.invitation.as_ref()?;
        Some((*token, *until))
    }

    pub(super) fn sessions(&self) -> &[SessionTerms] {
        &self.sessions
    }

    pub(super) fn open(&mut self, mut session: SessionTerms, now: Timestamp) {
        session.bounds = self.bounds.clone();
        if session.bounds.test_only {
            session.mode = Mode::Test;
        }
        self.sessions.retain(|open| open.ends_at > now);
        let surplus = (self.sessions.len() + 1).saturating_sub(SESSIONS_MAX);
        self.sessions.drain(..surplus);
        self.sessions.push(session);
    }
}

/// The user who stands for whoever has the operator token.
#[must_use]
pub fn token_holder() -> UserId {
    UserId::from_parts(EntityNumber(TOKEN_HOLDER), 0)
}
