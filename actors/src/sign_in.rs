//! Signing in to the console: by password, by invitation or with the operator token. Gives a session's
//! token, which the browser keeps; what it may do stands in the user's record.

use std::sync::Arc;
use std::time::Duration;

use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::id::UserId;
use colloquy_model::key::{SecretHash, same_hash, secret_hash};
use colloquy_model::secret;
use colloquy_model::time::Timestamp;
use colloquy_model::user::SessionTerms;
use colloquy_runtime::{AskError, Cause, offload};

use crate::accounts::record::{RecordError, RecordRequest};
use crate::accounts::{
    AcceptInvitation, EndSession, EndSessions, Identity, OpenSession, Records, User, token_holder,
};
use crate::passwords::{
    HashClaim, HashPermit, HashPermits, NoHashPermit, PASSWORD_BYTES_MAX, PasswordTries,
    TooManyTries, hash_password, password_fits,
};

/// What a session's token begins with.
const TOKEN_PREFIX: &str = "cs_";
/// The fewest characters of a person's password.
pub const PASSWORD_CHARACTERS_MIN: usize = 12;
/// How long a person has to accept an invitation.
pub const INVITATION_HOLDS: Duration = Duration::from_hours(72);
/// People of one name whose passwords are tried: those of several accounts may share an e-mail
/// address.
const PEOPLE_MAX: usize = 8;

/// Why nobody was signed in.
#[derive(Debug)]
pub enum SignInError {
    /// No person has this name and this password, or the token is not the one.
    Wrong,
    /// Too many wrong passwords were given for this name.
    TooManyTries(TooManyTries),
    /// Several people have this name and this password: it has to be said who is meant.
    Several(Vec<Person>),
    /// The invitation has been used, has ended, or never was.
    NotInvited,
    /// No password of a person can be like this one.
    BadPassword(&'static str),
    /// It could not be found out.
    Failed(AskError<RecordError>),
}

impl From<AskError<RecordError>> for SignInError {
    fn from(error: AskError<RecordError>) -> Self {
        SignInError::Failed(error)
    }
}

/// A person who signs in: a user of an account, or an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person {
    /// The account in both modes, or the operators.
    pub tenant: Tenant,
    /// The user.
    pub user: UserId,
}

/// Signs people in and out.
pub struct SignIns {
    identity: Arc<Identity>,
    users: Arc<Records<User>>,
    hashes: Arc<HashPermits>,
    /// Wrong passwords by a digest of the name.
    tries: Arc<PasswordTries<SecretHash>>,
    operator_token: SecretHash,
    /// A hash that no password fits: names that nobody has cost what others cost.
    nobody: String,
    session: Duration,
}

/// What people are looked up in, and what limits how often they try.
pub(crate) struct SignInDependencies {
    pub(crate) identity: Arc<Identity>,
    pub(crate) users: Arc<Records<User>>,
    pub(crate) hashes: Arc<HashPermits>,
    pub(crate) tries: Arc<PasswordTries<SecretHash>>,
}

impl SignIns {
    pub(crate) fn new(
        dependencies: SignInDependencies,
        operator_token: SecretHash,
        session: Duration,
    ) -> Self {
        let SignInDependencies {
            identity,
            users,
            hashes,
            tries,
        } = dependencies;
        SignIns {
            identity,
            users,
            hashes,
            tries,
            operator_token,
            nobody: hash_password(&secret::generate("")).unwrap_or_default(),
            session,
        }
    }

    /// Opens a session for whoever has the operator token.
    ///
    /// # Errors
    /// It is another token, or the session could not be opened.
    pub async fn with_token(&self, token: &str, actor: Actor) -> Result<String, SignInError> {
        let given = secret_hash(token);
        if !same_hash(&given, &self.operator_token) {
            return Err(SignInError::Wrong);
        }
        let holder = Person {
            tenant: Tenant::OPERATORS,
            user: token_holder(),
        };
        self.open(holder, Some(given), actor).await
    }

    /// Opens a session for the person with this name and password; `tenant` says which, where
    /// several have both.
    ///
    /// # Errors
    /// Why there is no session.
    pub async fn with_password(
        &self,
        name: &str,
        password: String,
        tenant: Option<Tenant>,
        actor: Actor,
    ) -> Result<String, SignInError> {
        let name = name.trim().to_lowercase();
        let tried = secret_hash(&name);
        let look = || self.tries.look(tried, Timestamp::now());
        look().map_err(SignInError::TooManyTries)?;
        let permit = self.permit(tried).await?;
        // Again: of one name one password is looked at at a time, and those before may be wrong.
        look().map_err(SignInError::TooManyTries)?;
        let mut people = self.identity.people_named(&name);
        people.retain(|(of, _)| tenant.is_none_or(|tenant| tenant == *of));
        people.truncate(PEOPLE_MAX);
        let known = people.into_iter().filter_map(|(tenant, user)| {
            let password = self.identity.person(tenant, user)?.password.clone()?;
            Some((Person { tenant, user }, password))
        });
        let mut hashes: Vec<(Option<Person>, Arc<str>)> =
            known.map(|(person, hash)| (Some(person), hash)).collect();
        if hashes.is_empty() {
            hashes.push((None, Arc::from(self.nobody.as_str())));
        }
        let checked = offload::run_on_batch_cores(permit, move || {
            let fits = |(person, hash): (Option<Person>, Arc<str>)| {
                person.filter(|_| password_fits(&password, &hash))
            };
            // Each of them, whether one has fitted already or not.
            hashes.into_iter().filter_map(fits).collect::<Vec<_>>()
        });
        let fitting = checked.await.ok_or(AskError::Crashed)?;
        match fitting.as_slice() {
            [] => {
                self.tries.was_wrong(tried, Timestamp::now());
                Err(SignInError::Wrong)
            }
            [person] => self.open(*person, None, actor).await,
            several => Err(SignInError::Several(several.to_vec())),
        }
    }

    /// Sets the password of whoever was invited by this token, and opens a session.
    ///
    /// # Errors
    /// Why there is no session; only [`SignInError::Failed`] may have set the password.
    pub async fn accept(
        &self,
        invitation: &str,
        password: String,
        actor: Actor,
    ) -> Result<String, SignInError> {
        let token = secret_hash(invitation);
        let invited = || self.identity.invited(&token, Timestamp::now());
        let (tenant, user) = invited().ok_or(SignInError::NotInvited)?;
        check_password(&password).map_err(SignInError::BadPassword)?;
        let permit = self.permit(token).await?;
        let hashed = offload::run_on_batch_cores(permit, move || hash_password(&password)).await;
        let password = hashed.ok_or(AskError::Crashed)?;
        let password = password.map_err(|_| AskError::Crashed)?;
        let person = Person { tenant, user };
        let accept = AcceptInvitation { token, password };
        match self.ask(person, actor.clone(), accept).await {
            Ok(()) => self.open(person, None, actor).await,
            Err(AskError::Refused(RecordError::NotFound)) => Err(SignInError::NotInvited),
            Err(error) => Err(error.into()),
        }
    }

    /// Who was invited by this token, and may still come.
    #[must_use]
    pub fn invited(&self, invitation: &str) -> Option<Person> {
        let invited = self
            .identity
            .invited(&secret_hash(invitation), Timestamp::now());
        invited.map(|(tenant, user)| Person { tenant, user })
    }

    /// Whether a session that was opened with the operator token was opened with the one that holds.
    #[must_use]
    pub fn token_holds(&self, terms: &SessionTerms) -> bool {
        terms
            .operator_token
            .is_none_or(|token| same_hash(&token, &self.operator_token))
    }

    /// Ends one session of a person.
    ///
    /// # Errors
    /// It could not be ended.
    pub async fn end(
        &self,
        person: Person,
        token: SecretHash,
        actor: Actor,
    ) -> Result<(), AskError<RecordError>> {
        self.ask(person, actor, EndSession(token)).await
    }

    /// Ends all sessions of a person.
    ///
    /// # Errors
    /// They could not be ended.
    pub async fn end_all(&self, person: Person, actor: Actor) -> Result<(), AskError<RecordError>> {
        self.ask(person, actor, EndSessions).await
    }

    /// Asks a person's record.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn ask<Q: RecordRequest<User>>(
        &self,
        person: Person,
        actor: Actor,
        request: Q,
    ) -> Result<Q::Reply, AskError<RecordError>> {
        let caller = Caller {
            tenant: person.tenant,
            actor,
        };
        let meta = CommandMeta::new(caller);
        self.users.ask(person.user, meta, request).await
    }

    async fn open(
        &self,
        person: Person,
        operator_token: Option<SecretHash>,
        actor: Actor,
    ) -> Result<String, SignInError> {
        let token = secret::generate(TOKEN_PREFIX);
        let now = Timestamp::now();
        let terms = SessionTerms {
            token: secret_hash(&token),
            opened_at: now,
            ends_at: now + self.session,
            mode: Mode::Live,
            account: None,
            operator_token,
        };
        let actor = Actor {
            user: (person.tenant != Tenant::OPERATORS).then_some(person.user),
            ..actor
        };
        self.ask(person, actor, OpenSession(terms)).await?;
        Ok(token)
    }

    async fn permit(&self, of: SecretHash) -> Result<HashPermit, SignInError> {
        let bits = |bits: u128, byte: &u8| bits << 8 | u128::from(*byte);
        let claim = HashClaim {
            account: Tenant::OPERATORS,
            link: of.iter().take(16).fold(0, bits),
        };
        self.hashes.place(claim).await.map_err(|none| {
            let cause = match none {
                NoHashPermit::Full => Cause::MailboxFull,
                NoHashPermit::TooLate => Cause::TimedOut,
            };
            SignInError::Failed(AskError::unavailable(cause))
        })
    }
}

/// Refuses what can be no person's password. Length is what counts (NIST SP 800-63B, 3.1.1.2).
fn check_password(password: &str) -> Result<(), &'static str> {
    if password.trim().chars().count() < PASSWORD_CHARACTERS_MIN {
        return Err("must have at least 12 characters");
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err("must have at most 1024 bytes");
    }
    Ok(())
}
