//! Who may come in: keys, accounts and users as a view in memory, set by the writer between the
//! fsync and the reply. So a key that was revoked is revoked for the very next request, on every
//! worker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::authorizations::Authorizations;
use super::hosts::Hosts;
use super::plans::plan_rates;
use crate::store::KeyUse;
use colloquy_model::access_token::Bearer;
use colloquy_model::account::AccountView;
use colloquy_model::caller::{CredentialCode, CredentialId, Mode, Tenant};
use colloquy_model::client::KnownClient;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AccountId, ClientId, KeyId, UserId};
use colloquy_model::key::{KeyType, KeyView, SecretHash, Secrets, SigningSecrets, secret_hash};
use colloquy_model::time::Timestamp;
use colloquy_model::user::{KnownUser, Role, SessionTerms, SignInBounds};

/// A key as requests meet it.
#[derive(Debug)]
pub struct KnownKey {
    /// What the interface shows of it.
    pub view: KeyView,
    /// The account's small number.
    pub account: u32,
    /// With which of these its requests are signed, where it takes signed ones only.
    pub signing: SigningSecrets,
    /// When it was used last, in Unix milliseconds, to the minute; 0: never.
    pub last_used_ms: Arc<AtomicI64>,
}

/// An account as requests meet it.
#[derive(Debug)]
pub struct KnownAccount {
    /// What the interface shows of it, by the plans as they were when it changed last.
    pub view: AccountView,
    /// Its small number, given by the store.
    pub number: u32,
    /// The most requests in a calendar month, where it has a number of its own.
    pub own_quota: Option<u64>,
}

impl KnownAccount {
    /// How many requests a minute each of its keys may send for long, and the most in any minute.
    #[must_use]
    pub fn rates(&self) -> (u32, u32) {
        match plan_rates(self.view.plan) {
            Some(plan) => (plan.rate_per_minute, plan.burst_per_minute),
            None => (self.view.rate_per_minute, self.view.burst_per_minute),
        }
    }

    /// The most requests in a calendar month; 0: no bound.
    #[must_use]
    pub fn monthly_quota(&self) -> u64 {
        let of_plan = || plan_rates(self.view.plan).map_or(0, |plan| plan.monthly_quota);
        self.own_quota.unwrap_or_else(of_plan)
    }
}

/// A valid credential's bearer.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The key that the request came with.
    pub key: Arc<KnownKey>,
    /// The account that the key belongs to.
    pub account: Arc<KnownAccount>,
    /// What was shown, as it is known.
    pub bearer: Bearer,
    /// When the secret or its key ends by itself.
    pub ends_at: Option<Timestamp>,
    /// The session in the console that it is, in the place of a key of the interface.
    pub session: Option<Arc<KnownSession>>,
}

/// A session in the console as requests meet it.
#[derive(Debug)]
pub struct KnownSession {
    /// The tenant of the person: an account's in both modes, or the operators'.
    pub tenant: Tenant,
    /// Whose session it is.
    pub user: UserId,
    /// What it shows, and for how long.
    pub terms: SessionTerms,
}

impl KnownSession {
    /// What is done in it is done with this.
    #[must_use]
    pub fn credential(&self) -> CredentialId {
        match self.is_operator() {
            true => CredentialId::Operator(self.user),
            false => CredentialId::Session,
        }
    }

    /// Whether it is an operator's.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.tenant == Tenant::OPERATORS
    }
}

impl Principal {
    /// What changes are made with, as these name it.
    #[must_use]
    pub fn credential(&self) -> CredentialId {
        match &self.session {
            Some(session) => session.credential(),
            None => match &self.bearer {
                Bearer::Secret(_) => CredentialId::Key(self.key.view.key_id),
                Bearer::Token(token) => CredentialId::Client(token.client),
            },
        }
    }

    /// What a person may at most do whom it lets in.
    #[must_use]
    pub fn bounds(&self) -> SignInBounds {
        match &self.session {
            Some(session) => session.terms.bounds.clone(),
            None => SignInBounds {
                test_only: self.key.view.kind == KeyType::Test,
                scopes: self.key.view.scopes.clone(),
            },
        }
    }

    /// The tenant whose data the key opens: its account, in its mode.
    #[must_use]
    pub fn tenant(&self) -> Tenant {
        let mode = if self.key.view.kind == KeyType::Test {
            Mode::Test
        } else {
            Mode::Live
        };
        Tenant::of(self.account.number, mode)
    }
}

#[derive(Debug, Default)]
struct Tables {
    secrets: HashMap<SecretHash, (KeyId, Option<Timestamp>)>,
    keys: HashMap<KeyId, (Arc<KnownKey>, Secrets)>,
    /// The accounts of keys whose records can't be read: these let nobody in.
    unreadable_keys: HashMap<KeyId, u32>,
    accounts: HashMap<AccountId, Arc<KnownAccount>>,
    /// The accounts' identifiers by number.
    numbers: HashMap<u32, AccountId>,
    /// By number: those that have set it.
    auto_closing: HashMap<u32, u32>,
    /// By number, in days: those that have set it.
    retaining: HashMap<u32, u32>,
    users: HashMap<Person, Arc<KnownUser>>,
    /// By what they sign in by: people of several accounts may share an e-mail address.
    names: HashMap<String, Vec<Person>>,
    invitations: HashMap<SecretHash, Person>,
    sessions: HashMap<SecretHash, Arc<KnownSession>>,
}

/// A user of an account, or an operator.
type Person = (Tenant, UserId);

impl Tables {
    /// Lets go of all that is known of a person.
    fn drop_person(&mut self, person: Person) -> Option<Arc<KnownUser>> {
        let user = self.users.remove(&person)?;
        if let Some(people) = self.names.get_mut(&user.sign_in_name) {
            people.retain(|one| *one != person);
            if people.is_empty() {
                self.names.remove(&user.sign_in_name);
            }
        }
        if let Some((token, _)) = user.invitation {
            self.invitations.remove(&token);
        }
        for session in &user.sessions {
            self.sessions.remove(&session.token);
        }
        Some(user)
    }

    fn put_person(&mut self, person: Person, user: KnownUser) {
        let (tenant, id) = person;
        let name = user.sign_in_name.clone();
        self.names.entry(name).or_default().push(person);
        if let Some((token, _)) = user.invitation {
            self.invitations.insert(token, person);
        }
        self.sessions.extend(user.sessions.iter().map(|terms| {
            let session = KnownSession {
                tenant,
                user: id,
                terms: terms.clone(),
            };
            (terms.token, Arc::new(session))
        }));
        self.users.insert(person, Arc::new(user));
    }

    /// Whether this tenant's account was forgotten.
    fn is_forgotten(&self, tenant: Tenant) -> bool {
        let id = self.numbers.get(&tenant.account_number());
        let account = id.and_then(|id| self.accounts.get(id));
        account.is_some_and(|account| account.view.forgotten_at.is_some())
    }

    /// An account that was not forgotten: others let nobody in.
    fn open_account(&self, id: AccountId) -> Option<&Arc<KnownAccount>> {
        let account = self.accounts.get(&id)?;
        account.view.forgotten_at.is_none().then_some(account)
    }

    /// Who comes by this session: its user in its user's account, or an operator who has opened an
    /// account's side.
    fn session_bearer(&self, secret: &SecretHash, now: Timestamp) -> Option<Principal> {
        let session = self.sessions.get(secret)?;
        if session.terms.ends_at <= now {
            return None;
        }
        let (account, user) = match session.is_operator() {
            true => (session.terms.account?, None),
            false => (
                *self.numbers.get(&session.tenant.account_number())?,
                Some(session.user),
            ),
        };
        let account = self.open_account(account)?;
        // What a key is to requests, under a name that no key has.
        let (number, tail) = secret.split_at(8);
        let bits = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        let view = KeyView {
            key_id: KeyId::from_parts(EntityNumber(bits(number)), bits(tail)),
            account_id: account.view.account_id,
            kind: match session.terms.mode {
                Mode::Live => KeyType::Prod,
                Mode::Test => KeyType::Test,
            },
            name: None,
            prefix: String::new(),
            last4: String::new(),
            scopes: session.terms.bounds.scopes.clone(),
            allowed_ips: Vec::new(),
            expires_at: Some(session.terms.ends_at),
            user_id: user,
            require_signature: false,
            created_at: session.terms.opened_at,
            last_used_at: None,
            revoked_at: None,
            key: None,
            signing_secret: None,
        };
        Some(Principal {
            key: Arc::new(KnownKey {
                view,
                account: account.number,
                signing: SigningSecrets::new(),
                last_used_ms: Arc::default(),
            }),
            account: Arc::clone(account),
            bearer: Bearer::Secret(*secret),
            ends_at: Some(session.terms.ends_at),
            session: Some(Arc::clone(session)),
        })
    }
}

/// The view of all keys, accounts and users.
#[derive(Debug, Default)]
pub struct Identity {
    tables: RwLock<Tables>,
    /// By which host names accounts are reached, and whose pages may call.
    pub hosts: Hosts,
    /// OAuth clients, and what they were allowed.
    pub authorizations: Authorizations,
    /// Keys whose last use has not been written down.
    used: Mutex<HashSet<KeyId>>,
    /// By account's number, for accounts with open streams or sockets: counts changes that may have
    /// taken a right away.
    changes: Mutex<HashMap<u32, watch::Sender<u64>>>,
}

impl Identity {
    /// Who bears this secret at `now`; none where it is unknown, expired or revoked. Looked up
    /// by a hash of 256 random bits, so the time that it takes tells nothing.
    #[must_use]
    pub fn authenticate(&self, secret: &str, now: Timestamp) -> Option<Principal> {
        let principal = self.key_bearer(&secret_hash(secret), now)?;
        let key = &principal.key;
        let minute = now.0 - now.0.rem_euclid(60_000);
        if key.last_used_ms.load(Ordering::Relaxed) != minute {
            key.last_used_ms.store(minute, Ordering::Relaxed);
            self.used.lock().insert(key.view.key_id);
        }
        Some(principal)
    }

    /// The same for who has shown it before; it does not count as a use. The secret may also be a
    /// session's.
    #[must_use]
    pub fn bearer(&self, bearer: &Bearer, now: Timestamp) -> Option<Principal> {
        match bearer {
            Bearer::Secret(secret) => self.secret_bearer(secret, now),
            Bearer::Token(token) => self.token_bearer(token, now),
        }
    }

    fn secret_bearer(&self, secret: &SecretHash, now: Timestamp) -> Option<Principal> {
        self.key_bearer(secret, now)
            .or_else(|| self.tables.read().session_bearer(secret, now))
    }

    /// The open session with this token.
    #[must_use]
    pub fn session(&self, token: &SecretHash, now: Timestamp) -> Option<Arc<KnownSession>> {
        let tables = self.tables.read();
        let session = tables.sessions.get(token)?;
        let is_open = session.terms.ends_at > now && !tables.is_forgotten(session.tenant);
        is_open.then(|| Arc::clone(session))
    }

    /// A user of this tenant's account, or an operator.
    #[must_use]
    pub fn person(&self, tenant: Tenant, id: UserId) -> Option<Arc<KnownUser>> {
        let person = (tenant.account_wide(), id);
        self.tables.read().users.get(&person).cloned()
    }

    /// Everybody who signs in by this name, whatever its case.
    #[must_use]
    pub fn people_named(&self, name: &str) -> Vec<(Tenant, UserId)> {
        let name = name.to_lowercase();
        let tables = self.tables.read();
        let mut people = tables.names.get(&name).cloned().unwrap_or_default();
        people.retain(|(tenant, _)| !tables.is_forgotten(*tenant));
        people
    }

    /// Who was invited by this token, and may still come.
    #[must_use]
    pub fn invited(&self, token: &SecretHash, now: Timestamp) -> Option<(Tenant, UserId)> {
        let tables = self.tables.read();
        let person = *tables.invitations.get(token)?;
        let (_, until) = tables.users.get(&person)?.invitation?;
        (until > now && !tables.is_forgotten(person.0)).then_some(person)
    }

    /// The identifier of the account with this number.
    #[must_use]
    pub fn account_numbered(&self, number: u32) -> Option<Arc<KnownAccount>> {
        let tables = self.tables.read();
        let id = tables.numbers.get(&number)?;
        tables.accounts.get(id).cloned()
    }

    fn key_bearer(&self, secret: &SecretHash, now: Timestamp) -> Option<Principal> {
        let tables = self.tables.read();
        let (key, until) = tables.secrets.get(secret)?;
        let (key, _) = tables.keys.get(key)?;
        let expires = key.view.expires_at;
        let ends_at = until.iter().chain(&expires).min().copied();
        if ends_at.is_some_and(|at| at <= now) || key.view.revoked_at.is_some() {
            return None;
        }
        let account = tables.open_account(key.view.account_id)?;
        Some(Principal {
            key: Arc::clone(key),
            account: Arc::clone(account),
            bearer: Bearer::Secret(*secret),
            ends_at,
            session: None,
        })
    }

    /// Tells whenever a right in this tenant's account may have been taken away, because the
    /// account, a key or a user of it was changed or deleted.
    #[must_use]
    pub fn changes(&self, tenant: Tenant) -> watch::Receiver<u64> {
        self.changes
            .lock()
            .entry(tenant.account_number())
            .or_default()
            .subscribe()
    }

    pub(super) fn changed(&self, account: u32) {
        let mut changes = self.changes.lock();
        if let Some(count) = changes.get(&account) {
            count.send_modify(|count| *count += 1);
            if count.receiver_count() == 0 {
                changes.remove(&account);
            }
        }
    }

    /// The largest number that an account has; 0: there is none.
    #[must_use]
    pub fn account_numbers(&self) -> u32 {
        self.tables
            .read()
            .accounts
            .values()
            .map(|account| account.number)
            .max()
            .unwrap_or(0)
    }

    /// The accounts whose conversations close by themselves, by number, and after how many minutes.
    #[must_use]
    pub fn auto_closing(&self) -> Vec<(u32, u32)> {
        self.tables
            .read()
            .auto_closing
            .iter()
            .map(|(account, minutes)| (*account, *minutes))
            .collect()
    }

    /// After how many minutes conversations of this tenant's account close by themselves; none where
    /// they don't.
    #[must_use]
    pub fn auto_close_minutes(&self, tenant: Tenant) -> Option<u32> {
        self.tables
            .read()
            .auto_closing
            .get(&tenant.account_number())
            .copied()
    }

    /// The accounts whose closed conversations are erased by themselves, by number, and after how many
    /// days.
    #[must_use]
    pub fn retaining(&self) -> Vec<(u32, u32)> {
        let tables = self.tables.read();
        let retaining = tables.retaining.iter();
        retaining.map(|(account, days)| (*account, *days)).collect()
    }

    /// The names of all accounts, by number.
    #[must_use]
    pub fn account_ids(&self) -> HashMap<u32, AccountId> {
        let tables = self.tables.read();
        tables
            .accounts
            .iter()
            .map(|(id, account)| (account.number, *id))
            .collect()
    }

    /// How many accounts were forgotten.
    #[must_use]
    pub fn forgotten_accounts(&self) -> usize {
        let tables = self.tables.read();
        let accounts = tables.accounts.values();
        accounts
            .filter(|account| account.view.forgotten_at.is_some())
            .count()
    }

    /// Whether this tenant's account was forgotten: nobody comes in there, and nothing is done by
    /// itself.
    #[must_use]
    pub fn is_forgotten(&self, tenant: Tenant) -> bool {
        self.tables.read().is_forgotten(tenant)
    }

    /// The OAuth client with this identifier, unless its account was forgotten.
    #[must_use]
    pub fn client(&self, id: ClientId) -> Option<Arc<KnownClient>> {
        let client = self.authorizations.client(id)?;
        (!self.is_forgotten(client.tenant)).then_some(client)
    }

    /// The account with this identifier, unless it was forgotten.
    #[must_use]
    pub(super) fn open_account(&self, id: AccountId) -> Option<Arc<KnownAccount>> {
        self.tables.read().open_account(id).cloned()
    }

    /// Finds an account by its identifier.
    #[must_use]
    pub fn account(&self, id: AccountId) -> Option<Arc<KnownAccount>> {
        self.tables.read().accounts.get(&id).cloned()
    }

    /// The key of this name, revoked ones too.
    #[must_use]
    pub fn key(&self, id: KeyId) -> Option<Arc<KnownKey>> {
        self.tables
            .read()
            .keys
            .get(&id)
            .map(|(key, _)| Arc::clone(key))
    }

    /// The key or client of an account that a store writes by this code. All of them are looked
    /// through.
    #[must_use]
    pub fn credential(&self, account: u32, code: CredentialCode) -> Option<CredentialId> {
        let is_meant = |credential: &CredentialId| credential.code() == Some(code.0);
        let tables = self.tables.read();
        let keys = tables
            .keys
            .iter()
            .filter(|(_, (key, _))| key.account == account);
        let mut keys = keys.map(|(id, _)| CredentialId::Key(*id));
        let key = keys.find(is_meant);
        key.or_else(|| {
            let clients = self.authorizations.clients_of(account).into_iter();
            clients.map(CredentialId::Client).find(is_meant)
        })
    }

    /// The small number of the account whose key it is, also where its record can't be read.
    #[must_use]
    pub fn account_of_key(&self, id: KeyId) -> Option<u32> {
        let tables = self.tables.read();
        let known = tables.keys.get(&id).map(|(key, _)| key.account);
        known.or_else(|| tables.unreadable_keys.get(&id).copied())
    }

    /// Takes note of a key whose record can't be read.
    pub(crate) fn put_unreadable_key(&self, id: KeyId, account: u32) {
        self.tables.write().unreadable_keys.insert(id, account);
    }

    /// What a user of this tenant's account may do; none where there is no such user.
    #[must_use]
    pub fn user(&self, tenant: Tenant, id: UserId) -> Option<Role> {
        self.tables
            .read()
            .users
            .get(&(tenant.account_wide(), id))
            .map(|user| user.role)
    }

    /// The last uses since this was asked before, for the store to write down.
    #[must_use]
    pub fn last_uses(&self) -> Vec<KeyUse> {
        let used = std::mem::take(&mut *self.used.lock());
        let last = |key: KeyId| {
            let at = self.key(key)?.last_used_ms.load(Ordering::Relaxed);
            Some(KeyUse {
                key,
                at: Timestamp(at),
            })
        };
        used.into_iter().filter_map(last).collect()
    }

    /// Takes in an account as a commit left it.
    pub fn put_account(&self, account: KnownAccount) {
        let mut tables = self.tables.write();
        let is_open = account.view.forgotten_at.is_none();
        match account.view.auto_close_after_minutes.filter(|_| is_open) {
            Some(minutes) => tables.auto_closing.insert(account.number, minutes),
            None => tables.auto_closing.remove(&account.number),
        };
        match account.view.retention_days.filter(|_| is_open) {
            Some(days) => tables.retaining.insert(account.number, days),
            None => tables.retaining.remove(&account.number),
        };
        let number = account.number;
        self.hosts.put(number, &account.view);
        tables.numbers.insert(number, account.view.account_id);
        let before = tables
            .accounts
            .insert(account.view.account_id, Arc::new(account));
        drop(tables);
        if before.is_some() {
            self.changed(number);
        }
    }

    /// Takes in a user as a commit left it: these sessions and no others hold from here on.
    pub fn put_user(&self, account: Tenant, id: UserId, user: KnownUser) {
        let person = (account.account_wide(), id);
        let (role, sessions) = (user.role, user.sessions.clone());
        let mut tables = self.tables.write();
        let before = tables.drop_person(person);
        tables.put_person(person, user);
        drop(tables);
        let Some(before) = before else { return };
        let ended = |session: &&SessionTerms| !sessions.contains(session);
        let ended: Vec<_> = before.sessions.iter().filter(ended).collect();
        if before.role != role || !ended.is_empty() {
            self.changed(account.account_number());
        }
        self.left(&ended);
    }

    /// Operators' sessions have left the accounts whose side they had opened.
    fn left(&self, ended: &[&SessionTerms]) {
        for opened in ended.iter().filter_map(|session| session.account) {
            if let Some(account) = self.account(opened) {
                self.changed(account.number);
            }
        }
    }

    /// Lets go of a user who was deleted.
    pub fn drop_user(&self, account: Tenant, id: UserId) {
        let person = (account.account_wide(), id);
        let before = self.tables.write().drop_person(person);
        self.changed(account.account_number());
        if let Some(before) = before {
            self.left(&before.sessions.iter().collect::<Vec<_>>());
        }
    }

    /// Takes in a key with the secrets that it has now: these and no others hold from here on.
    pub fn put_key(&self, mut key: KnownKey, secrets: Secrets) {
        let mut tables = self.tables.write();
        let id = key.view.key_id;
        let before = tables.keys.remove(&id);
        let known = before.is_some();
        if let Some((before, ended)) = before {
            key.last_used_ms = Arc::clone(&before.last_used_ms);
            for (hash, _) in ended {
                tables.secrets.remove(&hash);
            }
        }
        tables
            .secrets
            .extend(secrets.iter().map(|(hash, until)| (*hash, (id, *until))));
        let account = key.account;
        tables.keys.insert(id, (Arc::new(key), secrets));
        drop(tables);
        if known {
            self.changed(account);
        }
    }
}
