//! By which host names accounts are reached, and which pages may call them: a view in memory, set with
//! that of who may come in. Where no account has any of these, a request costs one look at a number.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use colloquy_model::account::AccountView;
use colloquy_model::domain::DomainView;
use colloquy_model::id::AccountId;
use colloquy_model::origin::ANY;
use parking_lot::RwLock;
use tokio::sync::watch;

/// An account's domains and origins, where it has any.
#[derive(Debug)]
struct Of {
    account: AccountId,
    domains: Vec<DomainView>,
    origins: Option<Arc<[String]>>,
}

#[derive(Debug, Default)]
struct Tables {
    /// Accounts that have domains or origins, by number.
    accounts: HashMap<u32, Of>,
    /// Proven host names, and the number of the account whose each is.
    proven: HashMap<String, u32>,
    /// Origins, and how many accounts name each.
    origins: HashMap<String, usize>,
}

/// A domain of which nobody knows yet whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingDomain {
    pub(crate) account: AccountId,
    pub(crate) domain: DomainView,
}

/// Which account a host name is, and whose pages may call.
#[derive(Debug, Default)]
pub struct Hosts {
    tables: RwLock<Tables>,
    /// How many host names are proven.
    proven: AtomicUsize,
    /// How many accounts name origins of their own.
    with_origins: AtomicUsize,
    /// Counts changes of any account's domains.
    changes: watch::Sender<u64>,
}

impl Hosts {
    /// The number of the account that has proven this host name, which is in small letters.
    #[must_use]
    pub fn account_at(&self, host: &str) -> Option<u32> {
        if self.are_none() {
            return None;
        }
        self.tables.read().proven.get(host).copied()
    }

    /// Whether no account has a proven domain.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.proven.load(Ordering::Acquire) == 0
    }

    /// The first proven domain of the account with this number.
    #[must_use]
    pub fn first_of(&self, account: u32) -> Option<String> {
        if self.are_none() {
            return None;
        }
        let tables = self.tables.read();
        let mut domains = tables.accounts.get(&account)?.domains.iter();
        let first = domains.find(|domain| domain.is_proven())?;
        Some(first.host.clone())
    }

    /// The proven domains of all accounts, sorted: for these the server may be asked for a
    /// certificate.
    #[must_use]
    pub fn all_proven(&self) -> Vec<String> {
        let mut hosts: Vec<String> = self.tables.read().proven.keys().cloned().collect();
        hosts.sort_unstable();
        hosts
    }

    /// Tells whenever any account's domains have changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether any account names origins of its own.
    #[must_use]
    pub fn have_origins(&self) -> bool {
        self.with_origins.load(Ordering::Acquire) > 0
    }

    /// The origins that the account with this number names; none where config.toml says which.
    #[must_use]
    pub fn origins_of(&self, account: u32) -> Option<Arc<[String]>> {
        if !self.have_origins() {
            return None;
        }
        let tables = self.tables.read();
        tables.accounts.get(&account)?.origins.clone()
    }

    /// Whether pages of this origin may call any account that names its origins.
    #[must_use]
    pub fn any_allows(&self, origin: &str) -> bool {
        let tables = self.tables.read();
        tables.origins.contains_key(origin) || tables.origins.contains_key(ANY)
    }

    /// The domains that are to be proven.
    pub(crate) fn pending(&self) -> Vec<PendingDomain> {
        let tables = self.tables.read();
        let of_account = |of: &Of| {
            let account = of.account;
            let pending = of.domains.iter().filter(|domain| !domain.is_proven());
            let pending = pending.map(|domain| PendingDomain {
                account,
                domain: domain.clone(),
            });
            pending.collect::<Vec<_>>()
        };
        tables.accounts.values().flat_map(of_account).collect()
    }

    /// Takes in an account as a commit left it; one that was forgotten has none of these.
    pub(super) fn put(&self, number: u32, account: &AccountView) {
        let is_open = account.forgotten_at.is_none();
        let has_any = !account.domains.is_empty() || account.cors_origins.is_some();
        let now = (is_open && has_any).then(|| Of {
            account: account.account_id,
            domains: account.domains.clone(),
            origins: account.cors_origins.as_deref().map(Arc::from),
        });
        if now.is_none() && !self.tables.read().accounts.contains_key(&number) {
            return;
        }
        let mut tables = self.tables.write();
        let before = tables.accounts.remove(&number);
        let domains = |of: &Option<Of>| of.as_ref().map_or(Vec::new(), |of| of.domains.clone());
        let have_changed = domains(&before) != domains(&now);
        if let Some(before) = &before {
            tables.leave(number, before);
        }
        if let Some(now) = now {
            tables.enter(number, now);
        }
        let with_origins = tables.accounts.values().filter(|of| of.origins.is_some());
        self.with_origins
            .store(with_origins.count(), Ordering::Release);
        self.proven.store(tables.proven.len(), Ordering::Release);
        drop(tables);
        if have_changed {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

impl Tables {
    fn leave(&mut self, number: u32, before: &Of) {
        for domain in &before.domains {
            // Another account may have proven it since.
            if self.proven.get(&domain.host) == Some(&number) {
                self.proven.remove(&domain.host);
            }
        }
        for origin in before.origins.iter().flat_map(|origins| origins.iter()) {
            if let Some(count) = self.origins.get_mut(origin) {
                *count -= 1;
                if *count == 0 {
                    self.origins.remove(origin);
                }
            }
        }
    }

    fn enter(&mut self, number: u32, now: Of) {
        let proven = now.domains.iter().filter(|domain| domain.is_proven());
        self.proven
            .extend(proven.map(|domain| (domain.host.clone(), number)));
        for origin in now.origins.iter().flat_map(|origins| origins.iter()) {
            *self.origins.entry(origin.clone()).or_default() += 1;
        }
        self.accounts.insert(number, now);
    }
}
