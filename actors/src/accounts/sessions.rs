//! What a user's record is asked about signing in: invitations, and sessions in the console.

use bytes::Bytes;
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::id::AccountId;
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;
use colloquy_model::user::SessionTerms;

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
