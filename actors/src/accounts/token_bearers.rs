//! Who bears an access token, and what ends it: the part of the view of who may come in that is about the
//! software of others.

use std::sync::Arc;

use super::identity::{Identity, KnownKey, Principal};
use colloquy_model::access_token::{AccessToken, Bearer};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::client::{KnownClient, KnownGrant};
use colloquy_model::id::{ClientId, GrantId, KeyId};
use colloquy_model::key::{KeyType, KeyView};
use colloquy_model::scope;
use colloquy_model::time::Timestamp;

impl Identity {
    /// Who bears this token, whose signature is known to be good: none where the client, the grant,
    /// the user or the account is no more, or the token has ended.
    #[must_use]
    pub fn token_bearer(&self, token: &Arc<AccessToken>, now: Timestamp) -> Option<Principal> {
        let account = self.open_account(token.account)?;
        let tenant = Tenant::of(account.number, token.mode);
        if let Some(domain) = &token.domain
            && self.hosts.account_at(domain) != Some(account.number)
        {
            return None;
        }
        let scopes = match token.issuer {
            Some(_) => (token.ends_at > now).then(|| token.scopes.clone())?,
            None => {
                let client = self.authorizations.holds(token, now)?;
                let own = client.tenant == tenant;
                own.then(|| scope::shared(&token.scopes, &client.view.scopes))?
            }
        };
        if token
            .user
            .is_some_and(|user| self.user(tenant, user).is_none())
        {
            return None;
        }
        let id = token.client;
        let view = KeyView {
            // What a key is to requests, under a name that no key has.
            key_id: KeyId::from_parts(id.number(), id.tail()),
            account_id: token.account,
            kind: match token.mode {
                Mode::Live => KeyType::Prod,
                Mode::Test => KeyType::Test,
            },
            name: None,
            prefix: String::new(),
            last4: String::new(),
            scopes: Some(scopes),
            allowed_ips: Vec::new(),
            expires_at: Some(token.ends_at),
            user_id: token.user,
            require_signature: false,
            created_at: token.issued_at,
            last_used_at: None,
            revoked_at: None,
            key: None,
            signing_secret: None,
        };
        Some(Principal {
            key: Arc::new(KnownKey {
                view,
                account: account.number,
                signing: Vec::new(),
                last_used_ms: Arc::default(),
            }),
            account,
            bearer: Bearer::Token(Arc::clone(token)),
            ends_at: Some(token.ends_at),
            session: None,
        })
    }

    /// Takes in a client as a commit left it.
    pub fn put_client(&self, client: KnownClient) {
        let account = client.tenant.account_number();
        if self.authorizations.put_client(client).is_some() {
            self.changed(account);
        }
    }

    /// Lets go of a client that was deleted.
    pub fn drop_client(&self, id: ClientId) {
        if let Some(client) = self.authorizations.drop_client(id) {
            self.changed(client.tenant.account_number());
        }
    }

    /// Takes in a grant as a commit left it.
    pub fn put_grant(&self, grant: KnownGrant) {
        let (account, is_open) = (grant.tenant.account_number(), grant.is_open);
        let before = self.authorizations.put_grant(grant);
        if !is_open && before.is_some_and(|before| before.is_open) {
            self.changed(account);
        }
    }

    /// Lets go of a grant that is over.
    pub fn drop_grant(&self, id: GrantId) {
        self.authorizations.drop_grant(id);
    }
}
