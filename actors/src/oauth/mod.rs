//! The authorization server (OAuth 2.0, RFC 6749 with RFC 9700): codes, tokens and what ends them.
//!
//! - `signing_keys.rs` the keys that sign access tokens; `crypto.rs` their signatures
//! - `tokens.rs` access tokens, signed and verified; `issuers.rs` those of issuers that are trusted;
//!   `remembered.rs` those whose signature is known to be good
//!
//! What lasts stands in the records of `accounts/`: a client, and for each consent a grant, whose
//! actor sees to it that a code or a refresh token is taken once.

mod crypto;
mod issuers;
mod remembered;
mod signing_keys;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use colloquy_model::access_token::AccessToken;
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::client::{GrantType, KnownClient};
use colloquy_model::command::CommandMeta;
use colloquy_model::id::{ClientId, GrantId, UserId};
use colloquy_model::key::{Permission, SecretHash, same_hash, secret_hash};
use colloquy_model::public_url::PublicUrl;
use colloquy_model::scope;
use colloquy_model::secret;
use colloquy_model::time::Timestamp;
use colloquy_runtime::AskError;
use colloquy_runtime::threads::BackgroundThread;

pub use issuers::{BadIssuer, FetchText, IssuerSettings, KeysFrom};
pub(crate) use signing_keys::make_first;
pub use signing_keys::{Jwk, Jwks, SigningKeys, SigningKeysError, SigningKeysView};

use self::issuers::Issuers;
use self::tokens::Tokens;
use crate::accounts::record::{DeleteRecord, RecordError, RecordRequest};
use crate::accounts::{
    Client, EndToken, Grant, Identity, IsCurrent, OpenGrant, Principal, Records, RedeemCode,
    Refresh, RefreshHashes, RevokeGrant, Taken,
};

/// What a code begins with.
const CODE_PREFIX: &str = "oac_";
/// What a refresh token begins with.
const REFRESH_PREFIX: &str = "ort_";
/// Between two looks at what is over, at most and at least.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Hex digits of an identifier.
const ID_DIGITS: usize = 32;

/// How long what is given holds.
#[derive(Debug, Clone, Copy)]
pub struct OAuthSettings {
    /// A code, until it is taken for tokens.
    pub code: Duration,
    /// An access token.
    pub access_token: Duration,
    /// A consent, with its refresh tokens.
    pub consent: Duration,
    /// A key that signs, until the next one does; none: until an operator says so.
    pub signing_key: Option<Duration>,
}

/// Why no token is given, in the words of RFC 6749 (5.2).
#[derive(Debug)]
pub enum Denied {
    /// The code or the refresh token is no good.
    Grant,
    /// The scope is unknown, or more than was allowed.
    Scope,
    /// The client may not get tokens in this way.
    Client,
    /// It could not be found out.
    Failed(AskError<RecordError>),
}

impl From<AskError<RecordError>> for Denied {
    fn from(error: AskError<RecordError>) -> Self {
        match error {
            AskError::Refused(_) => Denied::Grant,
            failed @ (AskError::Unavailable { .. }
            | AskError::Unreadable
            | AskError::Crashed
            | AskError::TimedOut
            | AskError::Unknown) => Denied::Failed(failed),
        }
    }
}

/// What a client is given.
#[derive(Debug)]
pub struct Issued {
    /// The access token.
    pub access_token: String,
    /// For how long it holds.
    pub expires_in: Duration,
    /// The permissions that the access token carries.
    pub scopes: Vec<Permission>,
    /// The refresh token, where the client may go on without the user.
    pub refresh_token: Option<String>,
}

/// What a user allows a client.
#[derive(Debug)]
pub struct Consent {
    /// Who may act.
    pub client: ClientId,
    /// Who allows it.
    pub user: UserId,
    /// What is allowed.
    pub scopes: Vec<Permission>,
    /// Where the code is sent.
    pub redirect_uri: String,
    /// The code challenge (RFC 7636, S256).
    pub challenge: String,
}

/// A client that asks for tokens.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// Who asks.
    pub client: &'a KnownClient,
    /// The domain of its account at which it asks; none at the server's own address.
    pub domain: Option<&'a str>,
}

/// A code that a client brings.
#[derive(Debug)]
pub struct BroughtCode<'a> {
    /// The code.
    pub code: &'a str,
    /// Where it was sent, as the client says.
    pub redirect_uri: Option<&'a str>,
    /// What the challenge was made of.
    pub verifier: &'a str,
}

/// What is known of a token that somebody asks about (RFC 7662).
#[derive(Debug)]
pub struct TokenState {
    /// The permissions that it carries.
    pub scopes: Vec<Permission>,
    /// The user who allowed it.
    pub user: Option<UserId>,
    /// When it ends.
    pub ends_at: Timestamp,
    /// The access token that it is; none for a refresh token.
    pub access: Option<Arc<AccessToken>>,
}

/// Starts the thread that forgets grants which are over, and lets the next key sign when it is time.
///
/// # Errors
/// The system starts no further thread.
pub(crate) fn start_upkeep(oauth: &Arc<OAuth>) -> std::io::Result<BackgroundThread> {
    let oauth = Arc::clone(oauth);
    // Keys that sign for seconds are looked at often.
    let pause = oauth.settings.signing_key.unwrap_or(LOOK_EVERY) / 8;
    let pause = pause.clamp(LOOK_AGAIN, LOOK_EVERY);
    BackgroundThread::start("oauth", move || {
        let oauth = Arc::clone(&oauth);
        async move {
            loop {
                tokio::time::sleep(pause).await;
                oauth.tidy().await;
                if let Some(holds) = oauth.settings.signing_key
                    && let Err(error) = oauth
                        .keys
                        .rotate_after(holds, Actor::server("signing keys"))
                        .await
                {
                    tracing::warn!(%error, "the next key does not sign yet: it is tried again");
                }
            }
        }
    })
}

/// The authorization server.
pub struct OAuth {
    /// The keys that sign access tokens.
    pub keys: SigningKeys,
    identity: Arc<Identity>,
    clients: Arc<Records<Client>>,
    grants: Arc<Records<Grant>>,
    tokens: Tokens,
    issuers: Issuers,
    settings: OAuthSettings,
}

/// What the authorization server is made of.
pub(crate) struct OAuthParts {
    pub(crate) identity: Arc<Identity>,
    pub(crate) clients: Arc<Records<Client>>,
    pub(crate) grants: Arc<Records<Grant>>,
    pub(crate) keys: Arc<SigningKeysView>,
    /// `public_url`.
    pub(crate) issuer: PublicUrl,
    /// Whom else the settings trust.
    pub(crate) trusted: Vec<IssuerSettings>,
    /// How their keys are fetched.
    pub(crate) source: Arc<dyn FetchText>,
}

impl OAuth {
    pub(crate) fn new(
        parts: OAuthParts,
        store: Arc<dyn crate::store::Store>,
        settings: OAuthSettings,
    ) -> Result<Self, BadIssuer> {
        crypto::install();
        Ok(OAuth {
            keys: SigningKeys::new(Arc::clone(&parts.keys), store, settings.access_token),
            identity: parts.identity,
            clients: parts.clients,
            grants: parts.grants,
            tokens: Tokens::new(parts.keys, parts.issuer),
            issuers: Issuers::new(parts.trusted, parts.source)?,
            settings,
        })
    }

    /// Who bears this access token at `now`; none where it is no good, or opens nothing any more.
    #[must_use]
    pub async fn authenticate(&self, token: &str, now: Timestamp) -> Option<Principal> {
        let known = match self.tokens.verified(token, now) {
            Some(own) => Some(own),
            None => self.issuers.verified(token, &self.identity, now).await,
        };
        self.identity.token_bearer(&known?, now)
    }

    /// The client with this identifier and this secret; one that has no secret brings none.
    #[must_use]
    pub fn client(
        &self,
        id: &str,
        secret: Option<&str>,
        now: Timestamp,
    ) -> Option<Arc<KnownClient>> {
        let client = self.identity.client(id.parse().ok()?)?;
        self.identity
            .account_numbered(client.tenant.account_number())?;
        let brought = secret.map(secret_hash);
        let fits = |brought: &SecretHash| {
            // Each of them, so that the time tells nothing.
            client.secrets.iter().fold(false, |fits, (held, until)| {
                fits | (same_hash(held, brought) & until.is_none_or(|until| until > now))
            })
        };
        let is_known = match (client.view.confidential, &brought) {
            (true, Some(brought)) => fits(brought),
            (false, None) => true,
            (true, None) | (false, Some(_)) => false,
        };
        is_known.then_some(client)
    }

    /// Keeps what a user allows; gives the code for it.
    ///
    /// # Errors
    /// It could not be kept.
    pub async fn consent(
        &self,
        tenant: Tenant,
        actor: Actor,
        consent: Consent,
    ) -> Result<String, AskError<RecordError>> {
        let now = Timestamp::now();
        let id = GrantId::new(now);
        let own = secret::generate("");
        let open = OpenGrant {
            client: consent.client,
            user: consent.user,
            scopes: consent.scopes,
            redirect_uri: consent.redirect_uri,
            challenge: consent.challenge,
            code: secret_hash(&own),
            code_until: now + self.settings.code,
            ends_at: now + self.settings.consent,
        };
        self.ask_grant(tenant, id, actor, open).await?;
        Ok(format!("{CODE_PREFIX}{}{own}", digits(id)))
    }

    /// Tokens for a code. It is used up, whatever is wrong.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn redeem(
        &self,
        asking: Asking<'_>,
        brought: BroughtCode<'_>,
        actor: Actor,
    ) -> Result<Issued, Denied> {
        let client = asking.client;
        if !may(client, GrantType::AuthorizationCode) {
            return Err(Denied::Client);
        }
        let (id, own) = split(brought.code, CODE_PREFIX).ok_or(Denied::Grant)?;
        let grant = self
            .identity
            .authorizations
            .grant(id)
            .ok_or(Denied::Grant)?;
        let (family, first) = (secret::generate(""), secret::generate(""));
        let redeem = RedeemCode {
            client: client.view.client_id,
            code: secret_hash(own),
            redirect_uri: brought.redirect_uri.map(str::to_owned),
            verifier: brought.verifier.to_owned(),
            first: RefreshHashes {
                family: secret_hash(&family),
                own: secret_hash(&first),
            },
        };
        match self.ask_grant(grant.tenant, id, actor, redeem).await? {
            Taken::Granted => {}
            Taken::Refused => return Err(Denied::Grant),
        }
        let refresh = format!("{REFRESH_PREFIX}{}{family}{first}", digits(id));
        let scopes = grant.scopes.clone();
        self.issued(asking, Some((id, grant.user)), scopes, Some(refresh))
    }

    /// Tokens for a refresh token, which is used up; `wanted` may leave out some of what was allowed.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn refresh(
        &self,
        asking: Asking<'_>,
        token: &str,
        wanted: Option<Vec<Permission>>,
        actor: Actor,
    ) -> Result<Issued, Denied> {
        let client = asking.client;
        let (id, family, own) = refresh_parts(token).ok_or(Denied::Grant)?;
        let grant = self
            .identity
            .authorizations
            .grant(id)
            .ok_or(Denied::Grant)?;
        if grant.client != client.view.client_id {
            return Err(Denied::Grant);
        }
        if !may(client, GrantType::RefreshToken) {
            return Err(Denied::Client);
        }
        let scopes = narrowed(&grant.scopes, wanted)?;
        // What was taken away from the client since.
        if scope::shared(&scopes, &client.view.scopes).is_empty() {
            return Err(Denied::Scope);
        }
        let next = secret::generate("");
        let refresh = Refresh {
            client: client.view.client_id,
            brought: RefreshHashes {
                family: secret_hash(family),
                own: secret_hash(own),
            },
            next: secret_hash(&next),
        };
        match self.ask_grant(grant.tenant, id, actor, refresh).await? {
            Taken::Granted => {}
            Taken::Refused => return Err(Denied::Grant),
        }
        let refresh = format!("{REFRESH_PREFIX}{}{family}{next}", digits(id));
        self.issued(asking, Some((id, grant.user)), scopes, Some(refresh))
    }

    /// A token with which the client acts for its account itself.
    ///
    /// # Errors
    /// Why there is none.
    pub fn client_credentials(
        &self,
        asking: Asking<'_>,
        wanted: Option<Vec<Permission>>,
    ) -> Result<Issued, Denied> {
        let client = asking.client;
        if !may(client, GrantType::ClientCredentials) {
            return Err(Denied::Client);
        }
        let scopes = narrowed(&client.view.scopes, wanted)?;
        self.issued(asking, None, scopes, None)
    }

    fn issued(
        &self,
        asking: Asking<'_>,
        grant: Option<(GrantId, UserId)>,
        scopes: Vec<Permission>,
        refresh_token: Option<String>,
    ) -> Result<Issued, Denied> {
        let client = asking.client;
        // What was allowed to the client once may be more than it is now.
        let scopes = scope::shared(&scopes, &client.view.scopes);
        let failed = || Denied::Failed(AskError::Crashed);
        let account = client.tenant.account_number();
        let account = self.identity.account_numbered(account).ok_or_else(failed)?;
        let (now, holds) = (Timestamp::now(), self.settings.access_token);
        let mut id = [0; 16];
        colloquy_model::random::fill(&mut id);
        let token = AccessToken {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            client: client.view.client_id,
            grant: grant.map(|(id, _)| id),
            issuer: None,
            domain: asking.domain.map(str::to_owned),
            user: grant.map(|(_, user)| user),
            account: account.view.account_id,
            mode: client.view.mode,
            scopes: scopes.clone(),
            issued_at: now,
            ends_at: now + holds,
            hash: [0; 32],
        };
        let refresh_token = refresh_token.filter(|_| may(client, GrantType::RefreshToken));
        Ok(Issued {
            access_token: self.tokens.signed(&token).ok_or_else(failed)?,
            expires_in: holds,
            scopes,
            refresh_token,
        })
    }

    /// Ends a token of the client's (RFC 7009): a refresh token, or an access token that a user
    /// allowed, ends all that the consent gave. One that is unknown is ended already.
    ///
    /// # Errors
    /// It could not be ended.
    pub async fn revoke(
        &self,
        client: &KnownClient,
        token: &str,
        actor: Actor,
    ) -> Result<(), AskError<RecordError>> {
        let now = Timestamp::now();
        let own = client.view.client_id;
        let access = self.tokens.verified(token, now);
        let access = access.filter(|token| token.client == own);
        if let Some(access) = &access
            && access.grant.is_none()
        {
            let end = EndToken {
                id: access.id.clone(),
                ends_at: access.ends_at,
            };
            let meta = CommandMeta::new(Caller {
                tenant: client.tenant,
                actor,
            });
            return match self.clients.ask(own, meta, end).await {
                // Deleted meanwhile, it opens nothing.
                Err(AskError::Refused(_)) | Ok(()) => Ok(()),
                Err(error) => Err(error),
            };
        }
        let grant = access.and_then(|access| access.grant);
        let Some(grant) = grant.or_else(|| self.grant_of(client, token)) else {
            return Ok(());
        };
        self.withdraw(client.tenant, grant, actor).await
    }

    /// Ends a grant, and every token that it gave.
    ///
    /// # Errors
    /// It could not be ended.
    pub async fn withdraw(
        &self,
        tenant: Tenant,
        grant: GrantId,
        actor: Actor,
    ) -> Result<(), AskError<RecordError>> {
        match self.ask_grant(tenant, grant, actor, RevokeGrant).await {
            Err(AskError::Refused(_)) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The grant of a refresh token that is the client's, known by what all of the grant have in
    /// common.
    fn grant_of(&self, client: &KnownClient, token: &str) -> Option<GrantId> {
        let (id, _, _) = refresh_parts(token)?;
        let grant = self.identity.authorizations.grant(id)?;
        (grant.client == client.view.client_id).then_some(id)
    }

    /// What a token of the client's still allows; none where it allows nothing.
    ///
    /// # Errors
    /// It could not be found out.
    pub async fn introspect(
        &self,
        client: &KnownClient,
        token: &str,
    ) -> Result<Option<TokenState>, AskError<RecordError>> {
        let now = Timestamp::now();
        let Some(access) = self.tokens.verified(token, now) else {
            return self.introspect_refresh(client, token, now).await;
        };
        let principal = self.identity.token_bearer(&access, now);
        let own = principal.filter(|_| access.client == client.view.client_id);
        Ok(own.map(|principal| TokenState {
            scopes: principal.key.view.scopes.clone().unwrap_or_default(),
            user: access.user,
            ends_at: access.ends_at,
            access: Some(access),
        }))
    }

    async fn introspect_refresh(
        &self,
        client: &KnownClient,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<TokenState>, AskError<RecordError>> {
        let authorizations = &self.identity.authorizations;
        let parts = refresh_parts(token);
        let Some((id, family, own)) = parts.filter(|_| may(client, GrantType::RefreshToken)) else {
            return Ok(None);
        };
        let grant = authorizations.grant(id).filter(|grant| {
            grant.client == client.view.client_id && grant.is_open && grant.ends_at > now
        });
        let Some(grant) = grant else {
            return Ok(None);
        };
        let brought = RefreshHashes {
            family: secret_hash(family),
            own: secret_hash(own),
        };
        let actor = Actor::server("introspection");
        let current = match self
            .ask_grant(grant.tenant, id, actor, IsCurrent(brought))
            .await
        {
            Ok(taken) => taken == Taken::Granted,
            Err(AskError::Refused(_)) => false,
            Err(error) => return Err(error),
        };
        Ok(current.then(|| TokenState {
            scopes: scope::shared(&grant.scopes, &client.view.scopes),
            user: Some(grant.user),
            ends_at: grant.ends_at,
            access: None,
        }))
    }

    /// Deletes grants of which nothing will ever hold again.
    async fn tidy(&self) {
        for grant in self.identity.authorizations.over(Timestamp::now()) {
            let actor = Actor::server("grants");
            // One that can't be deleted now is found again.
            let _ = self
                .ask_grant(grant.tenant, grant.id, actor, DeleteRecord)
                .await;
        }
    }

    async fn ask_grant<Q: RecordRequest<Grant>>(
        &self,
        tenant: Tenant,
        id: GrantId,
        actor: Actor,
        request: Q,
    ) -> Result<Q::Reply, AskError<RecordError>> {
        let meta = CommandMeta::new(Caller { tenant, actor });
        self.grants.ask(id, meta, request).await
    }
}

fn may(client: &KnownClient, one: GrantType) -> bool {
    client.view.grant_types.contains(&one)
}

/// What is wanted of what is allowed; all of it unless it is said.
fn narrowed(
    allowed: &[Permission],
    wanted: Option<Vec<Permission>>,
) -> Result<Vec<Permission>, Denied> {
    match wanted {
        None => Ok(allowed.to_vec()),
        Some(wanted) if wanted.is_empty() => Err(Denied::Scope),
        Some(wanted) if wanted.iter().all(|one| allowed.contains(one)) => Ok(wanted),
        Some(_) => Err(Denied::Scope),
    }
}

/// An identifier's hex digits.
fn digits(id: GrantId) -> String {
    let text = id.to_string();
    text.split_once('_')
        .map_or_else(String::new, |(_, digits)| digits.to_owned())
}

/// The grant that a code or a token names, and what follows.
fn split<'t>(text: &'t str, prefix: &str) -> Option<(GrantId, &'t str)> {
    let (digits, rest) = text.strip_prefix(prefix)?.split_at_checked(ID_DIGITS)?;
    Some((format!("gra_{digits}").parse().ok()?, rest))
}

/// The grant that a refresh token names, what all of that have in common, and what is its own.
fn refresh_parts(text: &str) -> Option<(GrantId, &str, &str)> {
    let (id, rest) = split(text, REFRESH_PREFIX)?;
    let (family, own) = rest.split_at_checked(rest.len() / 2)?;
    Some((id, family, own))
}
