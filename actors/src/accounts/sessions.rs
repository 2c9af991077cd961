//! What a user's record is asked about signing in: invitations, and sessions in the console.

use bytes::Bytes;
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::AccountId;
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;
use colloquy_model::user::{SessionTerms, SignInBounds};

use super::record::{CommandContext, NewRecord, Outcome, RecordError, RecordRequest};
use super::sign_in::{Invitation, SignIn, token_holder};
use super::user::User;

/// Invites a user to set a password; a new invitation ends the earlier one.
#[derive(Debug)]
pub struct InviteUser {
    /// The hash of the invitation's token.
    pub token: SecretHash,
    /// Until when the invitation holds.
    pub until: Timestamp,
    /// What whoever invites could at most do.
    pub bounds: SignInBounds,
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

/// Sets another password in the place of the one that is held. Ends all sessions of the user but one,
/// and the invitation.
#[derive(Debug)]
pub struct ChangePassword {
    /// The hash of the password that was given, as it was held when it was found to fit.
    pub held: String,
    /// The new password's hash, in PHC form.
    pub password: String,
    /// The hash of the token of the session that goes on.
    pub session: SecretHash,
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

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::UserInvited)
    }

    fn decide(
        self,
        held: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        // A password would outlive the token.
        if context.id == token_holder() {
            return Err(RecordError::InUse {
                reason: "whoever has the operator token signs in with that",
            });
        }
        let InviteUser {
            token,
            until,
            bounds,
            shown,
            kept,
        } = self;
        let mut state = held.clone();
        state.sign_in.invitation = Some(Invitation {
            token,
            until,
            bounds,
        });
        Ok(Outcome::PutShowingOnce { state, shown, kept })
    }
}

impl RecordRequest<User> for AcceptInvitation {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::PasswordSet)
    }

    fn decide(
        self,
        held: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        let invited = held.sign_in.invitation.as_ref();
        let invited =
            invited.filter(|invited| invited.token == self.token && invited.until > context.now);
        let bounds = invited.ok_or(RecordError::NotFound)?.bounds.clone();
        let mut user = held.clone();
        user.sign_in = SignIn {
            password: Some(self.password),
            bounds,
            ..SignIn::default()
        };
        Ok(Outcome::PutWithoutContent(user))
    }
}

impl RecordRequest<User> for ChangePassword {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::PasswordSet)
    }

    fn decide(
        self,
        held: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        let sessions = held.sign_in.sessions.iter();
        let own = sessions
            .filter(|open| open.token == self.session && open.ends_at > context.now)
            .cloned()
            .collect::<Vec<_>>();
        // Meanwhile another one was set, or the session has ended: that it is asked for is no longer so.
        if own.is_empty() || held.sign_in.password.as_ref() != Some(&self.held) {
            return Err(RecordError::NotFound);
        }
        let mut user = held.clone();
        user.sign_in = SignIn {
            password: Some(self.password),
            invitation: None,
            sessions: own,
            bounds: held.sign_in.bounds.clone(),
        };
        Ok(Outcome::PutWithoutContent(user))
    }
}

impl RecordRequest<User> for OpenSession {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::SessionOpened)
    }

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

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::SessionClosed)
    }

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

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::SessionClosed)
    }

    fn decide(self, held: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        let mut user = held.clone();
        user.sign_in.sessions.clear();
        Ok(Outcome::PutWithoutContent(user))
    }
}

impl RecordRequest<User> for ChangeSession {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::SessionChanged)
    }

    fn decide(self, held: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        let mut user = held.clone();
        let mut sessions = user.sign_in.sessions.iter_mut();
        let session = sessions
            .find(|session| session.token == self.token)
            .ok_or(RecordError::NotFound)?;
        if !session.bounds.test_only {
            session.mode = self.mode.unwrap_or(session.mode);
        }
        session.account = self.account.unwrap_or(session.account);
        Ok(Outcome::PutWithoutContent(user))
    }
}
