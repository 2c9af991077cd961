//! OAuth clients and grants as a view in memory: what a token that is well signed still opens.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use colloquy_model::access_token::AccessToken;
use colloquy_model::caller::Tenant;
use colloquy_model::client::{KnownClient, KnownGrant};
use colloquy_model::id::{ClientId, GrantId, UserId};
use colloquy_model::time::Timestamp;

/// All clients, and all grants that are not forgotten.
#[derive(Debug, Default)]
pub struct Authorizations {
    tables: RwLock<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    clients: HashMap<ClientId, Arc<KnownClient>>,
    grants: HashMap<GrantId, Arc<KnownGrant>>,
}

impl Authorizations {
    /// The client with this identifier.
    #[must_use]
    pub fn client(&self, id: ClientId) -> Option<Arc<KnownClient>> {
        self.tables.read().clients.get(&id).cloned()
    }

    /// The clients of an account, in both modes.
    pub(super) fn clients_of(&self, account: u32) -> Vec<ClientId> {
        let tables = self.tables.read();
        let clients = tables.clients.iter();
        let own = clients.filter(|(_, client)| client.tenant.account_number() == account);
        own.map(|(id, _)| *id).collect()
    }

    /// The grant with this identifier.
    #[must_use]
    pub fn grant(&self, id: GrantId) -> Option<Arc<KnownGrant>> {
        self.tables.read().grants.get(&id).cloned()
    }

    /// What a user of this account has allowed clients that are still there, newest first.
    #[must_use]
    pub fn consents(&self, tenant: Tenant, user: UserId, now: Timestamp) -> Vec<Arc<KnownGrant>> {
        let tables = self.tables.read();
        let holds = |grant: &&Arc<KnownGrant>| {
            grant.user == user
                && grant.tenant.account_wide() == tenant.account_wide()
                && grant.is_open
                && grant.ends_at > now
                && tables.clients.contains_key(&grant.client)
        };
        let mut found: Vec<_> = tables.grants.values().filter(holds).cloned().collect();
        found.sort_by_key(|grant| std::cmp::Reverse(grant.id));
        found
    }

    /// Grants of which nothing will ever hold again.
    #[must_use]
    pub fn over(&self, now: Timestamp) -> Vec<Arc<KnownGrant>> {
        let tables = self.tables.read();
        let is_over = |grant: &&Arc<KnownGrant>| {
            let ends_at = match grant.is_open {
                true => grant.ends_at,
                false => grant.given_at + UNUSED_FOR,
            };
            ends_at <= now || !tables.clients.contains_key(&grant.client)
        };
        tables.grants.values().filter(is_over).cloned().collect()
    }

    /// Takes in a client; gives the one that it replaces.
    pub(super) fn put_client(&self, client: KnownClient) -> Option<Arc<KnownClient>> {
        let id = client.view.client_id;
        self.tables.write().clients.insert(id, Arc::new(client))
    }

    /// Lets go of a client; gives it.
    pub(super) fn drop_client(&self, id: ClientId) -> Option<Arc<KnownClient>> {
        self.tables.write().clients.remove(&id)
    }

    /// Takes in a grant; gives the one that it replaces.
    pub(super) fn put_grant(&self, grant: KnownGrant) -> Option<Arc<KnownGrant>> {
        self.tables.write().grants.insert(grant.id, Arc::new(grant))
    }

    /// Lets go of a grant.
    pub(super) fn drop_grant(&self, id: GrantId) {
        self.tables.write().grants.remove(&id);
    }

    /// The client of a token, if what the token rests on still holds at `now`.
    pub(super) fn holds(&self, token: &AccessToken, now: Timestamp) -> Option<Arc<KnownClient>> {
        let tables = self.tables.read();
        let client = tables.clients.get(&token.client)?;
        let ended = &client.ended;
        if token.ends_at <= now
            || ended.tokens.iter().any(|(id, _)| *id == token.id)
            || token.grant.is_none() && token.issued_at <= ended.issued_until
        {
            return None;
        }
        if let Some(grant) = token.grant {
            let grant = tables.grants.get(&grant)?;
            let fits = grant.client == token.client && Some(grant.user) == token.user;
            if !fits || !grant.is_open || grant.ends_at <= now {
                return None;
            }
        }
        Some(Arc::clone(client))
    }
}

/// How long a grant that gives nothing is kept: its code may be tried once more.
const UNUSED_FOR: std::time::Duration = std::time::Duration::from_mins(10);
