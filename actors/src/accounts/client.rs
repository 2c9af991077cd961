//! An OAuth client: software of others, registered by an account in one mode.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use super::record::{
    CommandContext, DeleteRecord, Deletion, NewRecord, Outcome, RecordError, RecordRequest,
    RecordSpec, Secret, to_json,
};
use super::redirect_uri::RedirectUri;
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::client::{ClientView, EndedTokens, GrantType, KnownClient};
use colloquy_model::commit::{Condition, Effect};
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::ClientKind;
use colloquy_model::key::{Permission, SecretHash, Secrets, secret_hash};
use colloquy_model::present::present;
use colloquy_model::secret;
use colloquy_model::text::{Name, Text};
use colloquy_model::time::{Timestamp, unix_ms};
use std::time::Duration;

/// What a client's secret begins with.
const SECRET_PREFIX: &str = "cls_";
/// Clients of an account and mode.
const CLIENTS_MAX: usize = 100;
/// Redirect URIs of one client.
const REDIRECT_URIS_MAX: usize = 20;
/// Tokens of one client that are remembered by name to be ended; beyond it all that were issued so
/// far are.
const ENDED_TOKENS_MAX: usize = 1_000;
const OVERLAP_SECONDS: u32 = 86_400;
const OVERLAP_SECONDS_MAX: u32 = 31_536_000;

/// Registers a client.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateClient {
    /// As users read it when they are asked for consent.
    pub name: Name,
    /// Where browsers may be sent back to: `https`, a scheme of the application's own with a dot in
    /// it (RFC 8252, 7.1), or `http` on a loopback address, whose port does not count. At most 20.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub redirect_uris: Vec<RedirectUri>,
    /// How it may get access tokens. Default: `authorization_code` and `refresh_token` where it has
    /// redirect URIs, else `client_credentials`.
    #[serde(default)]
    pub grant_types: Option<Vec<GrantType>>,
    /// The most that it may be allowed.
    pub scopes: Vec<Permission>,
    /// Whether it has a secret. Default: true.
    #[serde(default)]
    pub confidential: Option<bool>,
}

/// Changes a client; what is narrowed holds for tokens that were issued before, too.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeClient {
    /// As users read it when they are asked for consent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<Name>,
    /// Where browsers may be sent back to.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<Vec<String>>)]
    pub redirect_uris: Option<Vec<RedirectUri>>,
    /// How it may get access tokens.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub grant_types: Option<Vec<GrantType>>,
    /// The most that it may be allowed.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub scopes: Option<Vec<Permission>>,
}

/// Gives a client a new secret.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateClientSecret {
    /// How long the old secret stays valid; default 86,400, 0: not at all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, maximum = 31_536_000)]
    pub overlap_seconds: Option<u32>,
}

/// Ends one of the client's own tokens before its time.
#[derive(Debug)]
pub struct EndToken {
    /// Its `jti`.
    pub id: String,
    /// When it would end by itself.
    pub ends_at: Timestamp,
}

/// A secret as it is stored: by its hash alone, and until when it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredSecret {
    hash: SecretHash,
    #[serde(with = "unix_ms::option", default)]
    until: Option<Timestamp>,
}

/// A client as its record is stored: with its secrets' hashes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    #[serde(flatten)]
    view: ClientView,
    secrets: Vec<StoredSecret>,
    #[serde(default)]
    ended: EndedTokens,
}

impl Client {
    /// The client as the view of who may come in holds it.
    pub(super) fn known(&self, tenant: Tenant) -> KnownClient {
        let secrets: Secrets = self
            .secrets
            .iter()
            .map(|held| (held.hash, held.until))
            .collect();
        KnownClient {
            view: self.view.clone(),
            tenant,
            secrets,
            ended: self.ended.clone(),
        }
    }

    /// A new secret; only its hash stays here.
    fn new_secret(&mut self) -> String {
        let secret = secret::generate(SECRET_PREFIX);
        let hash = secret_hash(&secret);
        self.secrets.insert(0, StoredSecret { hash, until: None });
        secret
    }

    fn check(&self) -> Result<(), RecordError> {
        let wrong = |field: &'static str, reason: &'static str| {
            Err(RecordError::Invalid(Invalid::new(field, reason)))
        };
        let ClientView {
            redirect_uris,
            grant_types,
            scopes,
            confidential,
            ..
        } = &self.view;
        if redirect_uris.len() > REDIRECT_URIS_MAX {
            return wrong("redirect_uris", "must be at most 20");
        }
        if has_repeats(redirect_uris) {
            return wrong("redirect_uris", "must not repeat one");
        }
        if grant_types.is_empty() || has_repeats(grant_types) {
            return wrong("grant_types", "must name at least one, and none twice");
        }
        if scopes.is_empty() || has_repeats(scopes) {
            return wrong("scopes", "must name at least one, and none twice");
        }
        let may = |one: GrantType| grant_types.contains(&one);
        if may(GrantType::AuthorizationCode) && redirect_uris.is_empty() {
            return wrong(
                "redirect_uris",
                "must not be empty: `authorization_code` leads back to one of them",
            );
        }
        if may(GrantType::RefreshToken) && !may(GrantType::AuthorizationCode) {
            return wrong(
                "grant_types",
                "must hold `authorization_code` where it holds `refresh_token`",
            );
        }
        if may(GrantType::ClientCredentials) && !confidential {
            return wrong(
                "grant_types",
                "must not hold `client_credentials` for a client without a secret",
            );
        }
        Ok(())
    }
}

fn has_repeats<T: PartialEq>(values: &[T]) -> bool {
    let is_repeated =
        |(place, value): (usize, &T)| values.iter().take(place).any(|one| one == value);
    values.iter().enumerate().any(is_repeated)
}

fn texts(uris: Vec<RedirectUri>) -> Vec<String> {
    uris.into_iter().map(RedirectUri::into_string).collect()
}

impl RecordRequest<Client> for CreateClient {
    type Reply = Answer;

    fn decide(
        self,
        _: &Client,
        _: &CommandContext<Client>,
    ) -> Result<Outcome<Client>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(
        self,
        context: &CommandContext<Client>,
    ) -> Result<NewRecord<Client>, RecordError> {
        let grant_types = self
            .grant_types
            .unwrap_or_else(|| match self.redirect_uris.is_empty() {
                true => vec![GrantType::ClientCredentials],
                false => vec![GrantType::AuthorizationCode, GrantType::RefreshToken],
            });
        let mut client = Client {
            view: ClientView {
                client_id: context.id,
                name: self.name.into_string(),
                redirect_uris: texts(self.redirect_uris),
                grant_types,
                scopes: self.scopes,
                confidential: self.confidential.unwrap_or(true),
                mode: match context.tenant.mode() {
                    Some(mode) => mode,
                    None => Mode::Live,
                },
                created_at: context.id.created_at(),
                client_secret: None,
            },
            secrets: Vec::new(),
            ended: EndedTokens::default(),
        };
        client.check()?;
        let secret = client.view.confidential.then(|| client.new_secret());
        Ok(NewRecord {
            state: client,
            conditions: vec![Condition::FewerThan(Kind::Client, CLIENTS_MAX)],
            secret,
            chore: None,
        })
    }
}

impl RecordRequest<Client> for ChangeClient {
    type Reply = Answer;

    fn decide(
        self,
        held: &Client,
        _: &CommandContext<Client>,
    ) -> Result<Outcome<Client>, RecordError> {
        let mut client = held.clone();
        let view = &mut client.view;
        view.name = self
            .name
            .map_or_else(|| held.view.name.clone(), Text::into_string);
        view.redirect_uris = self
            .redirect_uris
            .map_or_else(|| held.view.redirect_uris.clone(), texts);
        view.grant_types = self
            .grant_types
            .unwrap_or_else(|| held.view.grant_types.clone());
        view.scopes = self.scopes.unwrap_or_else(|| held.view.scopes.clone());
        if client == *held {
            return Ok(Outcome::Show);
        }
        client.check()?;
        Ok(Outcome::Put(client, Vec::new()))
    }
}

impl RecordRequest<Client> for RotateClientSecret {
    type Reply = Answer;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::ClientSecretRotated)
    }

    /// The old secret holds for the overlap; every earlier one ends now.
    fn decide(
        self,
        held: &Client,
        context: &CommandContext<Client>,
    ) -> Result<Outcome<Client>, RecordError> {
        if !held.view.confidential {
            return Err(RecordError::InUse {
                reason: "the client has no secret",
            });
        }
        let overlap = self.overlap_seconds.unwrap_or(OVERLAP_SECONDS);
        if overlap > OVERLAP_SECONDS_MAX {
            return Err(RecordError::Invalid(Invalid::new(
                "overlap_seconds",
                "must be 0 to 31536000",
            )));
        }
        let mut client = held.clone();
        client.secrets.truncate(if overlap == 0 { 0 } else { 1 });
        for old in &mut client.secrets {
            old.until = Some(context.now + Duration::from_secs(overlap.into()));
        }
        let secret = client.new_secret();
        Ok(Outcome::PutSecret(client, Vec::new(), secret))
    }
}

impl RecordRequest<Client> for EndToken {
    type Reply = ();

    fn decide(
        self,
        held: &Client,
        context: &CommandContext<Client>,
    ) -> Result<Outcome<Client>, RecordError> {
        let mut client = held.clone();
        let ended = &mut client.ended;
        ended.tokens.retain(|(_, ends_at)| *ends_at > context.now);
        if ended.tokens.iter().any(|(id, _)| *id == self.id) || self.ends_at <= context.now {
            return Ok(Outcome::NoContent);
        }
        if ended.tokens.len() >= ENDED_TOKENS_MAX {
            // None may be forgotten: all that were issued so far end.
            ended.issued_until = context.now;
            ended.tokens.clear();
        } else {
            ended.tokens.push((self.id, self.ends_at));
        }
        Ok(Outcome::PutWithoutContent(client))
    }
}

/// Its tokens and grants are void from the answer on.
impl RecordRequest<Client> for DeleteRecord {
    type Reply = Answer;

    fn decide(
        self,
        _: &Client,
        context: &CommandContext<Client>,
    ) -> Result<Outcome<Client>, RecordError> {
        Ok(Outcome::Delete(Deletion {
            effects: vec![Effect::ClientGone(context.id)],
            ..Deletion::default()
        }))
    }
}

impl RecordSpec for Client {
    const KIND: Kind = Kind::Client;
    const NAME: &'static str = "client";
    type Named = ClientKind;

    fn show(&self, _: &Identity, secret: Secret<'_>) -> Bytes {
        let mut view = self.view.clone();
        view.client_secret = match secret {
            Secret::Hidden => None,
            Secret::Withheld => Some(None),
            Secret::Shown(secret) => Some(Some(secret.to_owned())),
        };
        to_json(&view)
    }

    fn label(&self) -> &str {
        &self.view.name
    }

    fn effects(&self, _: Option<&Self>, context: &CommandContext<Self>) -> Vec<Effect> {
        vec![Effect::Client(Box::new(self.known(context.tenant)))]
    }
}
