//! What a user signs in to the console by: a password, which is set by invitation, and the sessions
//! that were opened with it. Part of the user's record, so all of it ends with the user.

use std::sync::Arc;

use bytes::Bytes;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::id::{AccountId, UserId};
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;
use colloquy_model::user::SessionTerms;
use serde::{Deserialize, Serialize};

use super::record::{CommandContext, NewRecord, Outcome, RecordError, RecordRequest};
use super::user::User;
use colloquy_model::answer::Answer;
use colloquy_model::entity_number::EntityNumber;

/// Sessions of one user; the one that was opened first gives way.
const SESSIONS_MAX: usize = 20;
/// The number of the user who stands for whoever has the operator token, which no identifier that is
/// made can have; 1 is the record of the supervision's.
const TOKEN_HOLDER: u64 = 2;

/// What a user signs in by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SignIn {
    /// The password's hash, in PHC form.
    password: Option<String>,
    invitation: Option<Invitation>,
    sessions: Vec<SessionTerms>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Invitation {
    token: SecretHash,
    until: Timestamp,
}

impl SignIn {
    pub(super) fn password(&self) -> Option<Arc<str>> {
        self.password.as_deref().map(Arc::from)
    }

    pub(super) fn invitation(&self) -> Option<(SecretHash, Timestamp)> {
        let Invitation { token, until } = self.invitation.as_ref()?;
        Some((*token, *until))
    }

    pub(super) fn sessions(&self) -> &[SessionTerms] {
        &self.sessions
    }

    fn open(&mut self, session: SessionTerms, now: Timestamp) {
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

/// Invites a user to set a password; a new invitation ends the earlier one.
#[derive(Debug)]
pub struct InviteUser {
    /// The hash of the invitation's token.
    pub token: SecretHash,
    /// Until when the invitation holds.
    pub until: Timestamp,
    /// What the answer shows, this once.
    pub shown: Bytes,
    /// What it shows to whoever asks again.
    pub kept: Bytes,
}

/// Sets the password for which a user was invited. Ends the user's sessions, and the invitation.
#[derive(Debug)]
pub struct AcceptInvitation {
    /// The hash of the invitation's token.
    pub token: SecretHash,
    /// The password's hash, in PHC form.
    pub password: String,
}

/// Opens a session in the console.
#[derive(Debug)]
pub struct OpenSession(pub SessionTerms);

/// Ends a session; one that has ended stays so.
#[derive(Debug)]
pub struct EndSession(pub SecretHash);

/// Ends all sessions of the user.
#[derive(Debug)]
pub struct EndSessions;

/// Changes what an open session shows.
#[derive(Debug)]
pub struct ChangeSession {
    /// The hash of the session's token.
    pub token: SecretHash,
    /// The data that it shows from now on.
    pub mode: Option<Mode>,
    /// The account whose side an operator has opened from now on; the inner `None`: none.
    pub account: Option<Option<AccountId>>,
}

impl RecordRequest<User> for InviteUser {
    type Reply = Answer;

    fn decide(self, held: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        let InviteUser {
            token,
            until,
            shown,
            kept,
        } = self;
        let mut state = held.clone();
        state.sign_in.invitation = Some(Invitation { token, until });
        Ok(Outcome::PutShowingOnce { state, shown, kept })
    }
}

impl RecordRequest<User> for AcceptInvitation {
    type Reply = ();

    fn decide(
        self,
        held: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        let invited = held.sign_in.invitation();
        if invited.is_none_or(|(token, until)| token != self.token || until <= context.now) {
            return Err(RecordError::NotFound);
        }
        let mut user = held.clone();
        user.sign_in = SignIn {
            password: Some(self.password),
            ..SignIn::default()
        };
        Ok(Outcome::PutWithoutContent(user))
    }
}

impl RecordRequest<User> for OpenSession {
    type Reply = ();

    fn decide(
        self,
        held: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        let mut user = held.clone();
        user.sign_in.open(self.0, context.now);
        Ok(Outcome::PutWithoutContent(user))
    }

    /// Whoever has the operator token is a user from the first session on.
    fn decide_vacant(self, context: &CommandContext<User>) -> Result<NewRecord<User>, RecordError> {
        if context.id != token_holder() || context.tenant != Tenant::OPERATORS {
            return Err(RecordError::NotFound);
        }
        let mut user = User::operator("operator token".to_owned(), context);
        user.sign_in.open(self.0, context.now);
        Ok(NewRecord::new(user))
    }
}

impl RecordRequest<User> for EndSession {
    type Reply = ();

    fn decide(self, held: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        let mut user = held.clone();
        let open = user.sign_in.sessions.len();
        user.sign_in
            .sessions
            .retain(|session| session.token != self.0);
        Ok(if user.sign_in.sessions.len() == open {
            Outcome::NoContent
        } else {
            Outcome::PutWithoutContent(user)
        })
    }
}

impl RecordRequest<User> for EndSessions {
    type Reply = ();

    fn decide(self, held: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        let mut user = held.clone();
        user.sign_in.sessions.clear();
        Ok(Outcome::PutWithoutContent(user))
    }
}

impl RecordRequest<User> for ChangeSession {
    type Reply = ();

    fn decide(self, held: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        let mut user = held.clone();
        let mut sessions = user.sign_in.sessions.iter_mut();
        let session = sessions
            .find(|session| session.token == self.token)
            .ok_or(RecordError::NotFound)?;
        session.mode = self.mode.unwrap_or(session.mode);
        session.account = self.account.unwrap_or(session.account);
        Ok(Outcome::PutWithoutContent(user))
    }
}
