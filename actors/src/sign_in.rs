//! Signing in to the console: by password, by invitation or with the operator token. Gives a session's
//! token, which the browser keeps; what it may do stands in the user's record.

use std::sync::Arc;
use std::time::Duration;

use colloquy_model::caller::{Actor, Caller, CredentialId, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::UserId;
use colloquy_model::json;
use colloquy_model::key::{SecretHash, same_hash, secret_hash};
use colloquy_model::secret;
use colloquy_model::time::Timestamp;
use colloquy_model::user::{SessionTerms, SignInBounds};
use colloquy_runtime::{AskError, Cause, offload};
use serde_json::Value;

use crate::accounts::record::{RecordError, RecordRequest};
use crate::accounts::{
    AcceptInvitation, ChangePassword, EndSession, EndSessions, Identity, OpenSession, Records,
    User, token_holder,
};
use crate::audit::{AuditTrail, Refusal};
use crate::limiter::ClientAddress;
use crate::passwords::{
    Guess, HashClaim, HashPermit, HashPermits, KnownBrowsers, NoHashPermit, PASSWORD_BYTES_MAX,
    PasswordTries, SignInTry, TooManyTries, hash_password, nobodys_hash, password_fits,
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
    audit: Arc<AuditTrail>,
    tries: Arc<PasswordTries<SignInTry>>,
    browsers: KnownBrowsers,
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
    pub(crate) audit: Arc<AuditTrail>,
    pub(crate) tries: Arc<PasswordTries<SignInTry>>,
    pub(crate) browsers: KnownBrowsers,
}

/// What somebody signs in with by name.
pub struct Given<'g> {
    /// The name, as it was typed.
    pub name: &'g str,
    /// The password.
    pub password: String,
    /// Whose, where several people have both.
    pub tenant: Option<Tenant>,
    /// What the browser has kept from signing in before.
    pub browser: Option<&'g str>,
}

/// What somebody who is signed in changes the own password with.
pub struct NewPassword<'n> {
    /// Who it is.
    pub person: Person,
    /// The session, by the hash of its token.
    pub session: SecretHash,
    /// The password that holds.
    pub old: String,
    /// The one that is to hold.
    pub new: String,
    /// What the browser has kept from signing in before.
    pub browser: Option<&'n str>,
}

/// What a browser keeps of whoever has signed in.
pub struct SignedIn {
    /// The session's token.
    pub token: String,
    /// What tells the browser from all others when the person signs in there again.
    pub browser: Option<String>,
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
            audit,
            tries,
            browsers,
        } = dependencies;
        SignIns {
            identity,
            users,
            hashes,
            audit,
            tries,
            browsers,
            operator_token,
            nobody: nobodys_hash(),
            session,
        }
    }

    /// Opens a session for whoever has the operator token.
    ///
    /// # Errors
    /// It is another token, or the session could not be opened.
    pub async fn with_token(&self, token: &str, actor: Actor) -> Result<SignedIn, SignInError> {
        let given = secret_hash(token);
        if !same_hash(&given, &self.operator_token) {
            self.refused(Tenant::OPERATORS, &actor, "wrong_token");
            return Err(SignInError::Wrong);
        }
        let holder = Person {
            tenant: Tenant::OPERATORS,
            user: token_holder(),
        };
        let token = self.open(holder, Some(given), actor).await?;
        Ok(SignedIn {
            token,
            browser: None,
        })
    }

    /// Opens a session for the person with this name and password.
    ///
    /// # Errors
    /// Why there is no session.
    pub async fn with_password(
        &self,
        given: Given<'_>,
        actor: Actor,
    ) -> Result<SignedIn, SignInError> {
        let name = given.name.trim().to_lowercase();
        let guess = self.guess(&name, given.browser, &actor);
        let hashes = || {
            let mut people = self.identity.people_named(&name);
            people.retain(|(of, _)| given.tenant.is_none_or(|tenant| tenant == *of));
            people.truncate(PEOPLE_MAX);
            let people = people.into_iter();
            people
                .filter_map(|(tenant, user)| self.hash_of(Person { tenant, user }))
                .collect()
        };
        let fitting = self.fitting(hashes, given.password, guess).await?;
        match fitting.as_slice() {
            [] => {
                self.refused_to(&name, given.tenant, &actor);
                Err(SignInError::Wrong)
            }
            [person] => Ok(SignedIn {
                token: self.open(*person, None, actor).await?,
                browser: Some(self.browsers.text(&name, Timestamp::now())),
            }),
            several => Err(SignInError::Several(several.to_vec())),
        }
    }

    /// A try at this name.
    fn guess(&self, name: &str, browser: Option<&str>, actor: &Actor) -> Guess {
        let recognize = |text| self.browsers.recognize(text, name, Timestamp::now());
        let address = actor.address.map(ClientAddress::from);
        Guess::new(name, &json::text(&address), browser.and_then(recognize))
    }

    /// A person with the hash of the password, if there is one.
    fn hash_of(&self, person: Person) -> Option<(Person, Arc<str>)> {
        let known = self.identity.person(person.tenant, person.user)?;
        Some((person, known.password.clone()?))
    }

    /// Those of these people whose password it is; where it is nobody's, that is counted.
    async fn fitting(
        &self,
        people: impl Fn() -> Vec<(Person, Arc<str>)>,
        password: String,
        guess: Guess,
    ) -> Result<Vec<Person>, SignInError> {
        let look = || {
            let mut each = guess.looked_up.iter();
            each.try_for_each(|of| self.tries.look(*of, Timestamp::now()))
        };
        look().map_err(SignInError::TooManyTries)?;
        let permit = self.permit(guess.queue).await?;
        // Again: of one name one password is looked at at a time, and those before may be wrong.
        look().map_err(SignInError::TooManyTries)?;
        let known = people().into_iter();
        let mut hashes: Vec<(Option<Person>, Arc<str>)> =
            known.map(|(person, hash)| (Some(person), hash)).collect();
        if hashes.is_empty() {
            hashes.push((None, Arc::from(self.nobody.as_str())));
        }
        let tries = Arc::clone(&self.tries);
        let checked = offload::run_on_batch_cores(permit, move || {
            let fits = |(person, hash): (Option<Person>, Arc<str>)| {
                person.filter(|_| password_fits(&password, &hash))
            };
            // Each of them, whether one has fitted already or not.
            let fitting: Vec<Person> = hashes.into_iter().filter_map(fits).collect();
            if fitting.is_empty() {
                // Here, before the place is given back, and whether the caller still waits or not.
                let counted = guess.counted.into_iter();
                counted.for_each(|of| tries.was_wrong(of, Timestamp::now()));
            }
            fitting
        });
        Ok(checked.await.ok_or(AskError::Crashed)?)
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
    ) -> Result<SignedIn, SignInError> {
        let token = secret_hash(invitation);
        let invited = || self.identity.invited(&token, Timestamp::now());
        let (tenant, user) = invited().ok_or(SignInError::NotInvited)?;
        check_password(&password).map_err(SignInError::BadPassword)?;
        let password = self.hashed(token, password).await?;
        let person = Person { tenant, user };
        let accept = AcceptInvitation { token, password };
        match self.ask(person, actor.clone(), accept).await {
            Ok(()) => Ok(SignedIn {
                token: self.open(person, None, actor).await?,
                browser: self.browser_of(person),
            }),
            Err(AskError::Refused(RecordError::NotFound)) => Err(SignInError::NotInvited),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets another password for whoever is signed in and gives the one that holds. All other sessions
    /// of the person end.
    ///
    /// # Errors
    /// Why it was not set. A wrong old one counts as it does at sign-in.
    pub async fn change_password(
        &self,
        change: NewPassword<'_>,
        actor: Actor,
    ) -> Result<(), SignInError> {
        let NewPassword {
            person,
            session,
            old,
            new,
            browser,
        } = change;
        check_password(&new).map_err(SignInError::BadPassword)?;
        if new == old {
            return Err(SignInError::BadPassword("must be another one"));
        }
        let (_, held) = self.hash_of(person).ok_or(SignInError::NotInvited)?;
        let known = self.identity.person(person.tenant, person.user);
        let name = known.map(|known| known.sign_in_name.clone());
        let guess = self.guess(&name.unwrap_or_default(), browser, &actor);
        let of_person = || vec![(person, Arc::clone(&held))];
        if self.fitting(of_person, old, guess).await?.is_empty() {
            self.refused_to_person(person, &actor);
            return Err(SignInError::Wrong);
        }
        let password = self.hashed(guess.queue, new).await?;
        let change = ChangePassword {
            held: held.as_ref().to_owned(),
            password,
            session,
        };
        Ok(self.ask(person, actor, change).await?)
    }

    /// A new password's hash; `queue` says among which others it waits.
    async fn hashed(&self, queue: SecretHash, password: String) -> Result<String, SignInError> {
        let permit = self.permit(queue).await?;
        let hashed = offload::run_on_batch_cores(permit, move || hash_password(&password)).await;
        let hashed = hashed.ok_or(AskError::Crashed)?;
        Ok(hashed.map_err(|_| AskError::Crashed)?)
    }

    /// What a browser keeps in which this person has signed in.
    fn browser_of(&self, Person { tenant, user }: Person) -> Option<String> {
        let name = &self.identity.person(tenant, user)?.sign_in_name;
        Some(self.browsers.text(name, Timestamp::now()))
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
            bounds: SignInBounds::default(),
        };
        let (credential, user) = match person.tenant == Tenant::OPERATORS {
            true => (CredentialId::Operator(person.user), None),
            false => (CredentialId::Session, Some(person.user)),
        };
        let actor = Actor {
            credential,
            user,
            ..actor
        };
        self.ask(person, actor, OpenSession(terms)).await?;
        Ok(token)
    }

    /// Records that somebody gave a wrong password for this name: with each account that has it, with
    /// the operators where none has.
    fn refused_to(&self, name: &str, tenant: Option<Tenant>, actor: &Actor) {
        let mut people = self.identity.people_named(name);
        people.retain(|(of, _)| tenant.is_none_or(|tenant| tenant == *of));
        people.truncate(PEOPLE_MAX);
        if people.is_empty() {
            self.refused(Tenant::OPERATORS, actor, "unknown_name");
        }
        for (tenant, user) in people {
            self.refused_to_person(Person { tenant, user }, actor);
        }
    }

    /// Records that somebody gave a wrong password for this person.
    fn refused_to_person(&self, Person { tenant, user }: Person, actor: &Actor) {
        let details = [("user_id".to_owned(), user.to_string().into())];
        let details = details
            .into_iter()
            .chain([reason("wrong_password")])
            .collect();
        self.audit.refused(Refusal {
            event: EventKind::SessionRefused,
            caller: Caller {
                tenant,
                actor: actor.clone(),
            },
            details,
        });
    }

    fn refused(&self, tenant: Tenant, actor: &Actor, why: &'static str) {
        self.audit.refused(Refusal {
            event: EventKind::SessionRefused,
            caller: Caller {
                tenant,
                actor: actor.clone(),
            },
            details: [reason(why)].into_iter().collect(),
        });
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

/// Why nobody was signed in, as the audit trail has it.
fn reason(why: &'static str) -> (String, Value) {
    ("reason".to_owned(), why.into())
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
