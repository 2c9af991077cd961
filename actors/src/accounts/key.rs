//! A key: a secret with which an account's software calls, and what that secret may do.

use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use super::identity::KnownKey;
use super::network::{networks, networks_present};
use super::record::{
    CommandContext, NewRecord, Outcome, RecordError, RecordRequest, RecordSpec, Secret, to_json,
};
use super::signing::{self, StoredSigningSecrets};
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::commit::{Condition, Effect};
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AccountId, KeyKind, UserId};
use colloquy_model::key::{KeyType, KeyView, Permission, Secrets, secret_hash};
use colloquy_model::present::present;
use colloquy_model::secret;
use colloquy_model::text::{Name, Text};
use colloquy_model::time::{Timestamp, unix_ms};

/// Makes a key.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// What it may do by its kind.
    #[serde(rename = "type")]
    pub kind: KeyType,
    /// A name for people to read; nothing depends on it.
    #[serde(default)]
    pub name: Option<Name>,
    /// Narrows it to these; null: all.
    #[serde(default)]
    pub scopes: Option<Vec<Permission>>,
    /// Addresses that may use it, alone or as CIDR; empty: all.
    #[serde(default, deserialize_with = "networks")]
    #[schema(value_type = Vec<String>)]
    pub allowed_ips: Vec<IpNet>,
    /// When it ends.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// The user that it acts as.
    #[serde(default)]
    pub user_id: Option<UserId>,
    /// Whether it takes only signed requests (RFC 9421); the answer then shows `signing_secret`.
    #[serde(default)]
    pub require_signature: bool,
}

/// Changes a key.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeKey {
    /// A name for people to read; nothing depends on it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Name>)]
    pub name: Option<Option<Name>>,
    /// Narrows it to these; null: all.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Vec<Permission>>)]
    pub scopes: Option<Option<Vec<Permission>>>,
    /// Addresses that may use it, alone or as CIDR; empty: all.
    #[serde(default, deserialize_with = "networks_present")]
    #[schema(nullable = false, value_type = Option<Vec<String>>)]
    pub allowed_ips: Option<Vec<IpNet>>,
    /// When it ends; null: never.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Timestamp>)]
    pub expires_at: Option<Option<Timestamp>>,
    /// The user that it acts as; null: the account itself.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<UserId>)]
    pub user_id: Option<Option<UserId>>,
    /// Whether it takes only signed requests (RFC 9421); from false to true the answer shows
    /// `signing_secret`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub require_signature: Option<bool>,
}

/// Gives a key a new secret.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    /// How long the old secret stays valid; default 86,400, 0: not at all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, maximum = 31_536_000)]
    pub overlap_seconds: Option<u32>,
}

/// Issues a key of an account.
#[derive(Debug)]
pub struct IssueKey {
    /// The key as the operator asks for it.
    pub new: CreateKey,
    /// The account as the key shows it.
    pub account: AccountId,
}

/// Ends a key at once; one that is revoked stays as it is.
#[derive(Debug)]
pub struct RevokeKey;

/// Keeps the answer to a request that made something with a key which is not stored.
#[derive(Debug)]
pub struct KeepAnswer {
    /// What the answer shows, this once.
    pub shown: Bytes,
    /// What it shows to whoever asks again.
    pub kept: Bytes,
}

/// A secret as it is stored: its hash alone, in hex, and until when it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredSecret {
    hash: String,
    #[serde(with = "unix_ms::option", default)]
    until: Option<Timestamp>,
}

/// An API key as its record is stored: with its secrets' hashes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Key {
    #[serde(flatten)]
    view: KeyView,
    account: u32,
    secrets: Vec<StoredSecret>,
    #[serde(default)]
    signing: StoredSigningSecrets,
    label: String,
}

/// What stands between two secrets that one answer shows.
const BETWEEN_SECRETS: char = '\n';

const OVERLAP_SECONDS: u32 = 86_400;
const OVERLAP_SECONDS_MAX: u32 = 31_536_000;

impl Key {
    fn is_revoked(&self) -> bool {
        self.view.revoked_at.is_some()
    }

    /// The key as the view of who may come in holds it.
    pub(super) fn known(&self) -> (KnownKey, Secrets) {
        let known = KnownKey {
            view: self.view.clone(),
            account: self.account,
            signing: self.signing.known(),
            last_used_ms: std::sync::Arc::default(),
        };
        (known, self.hashes())
    }

    fn hashes(&self) -> Secrets {
        let unhex = |secret: &StoredSecret| {
            let mut hash = [0; 32];
            for (index, byte) in hash.iter_mut().enumerate() {
                *byte = u8::from_str_radix(secret.hash.get(2 * index..2 * index + 2)?, 16).ok()?;
            }
            Some((hash, secret.until))
        };
        if self.is_revoked() {
            Vec::new()
        } else {
            self.secrets.iter().filter_map(unhex).collect()
        }
    }

    /// A new secret; only its hash stays here.
    fn new_secret(&mut self) -> String {
        let secret = secret::generate(self.view.kind.prefix());
        let hash = secret_hash(&secret)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.view.last4 = secret
            .get(secret.len().saturating_sub(4)..)
            .unwrap_or_default()
            .to_owned();
        self.secrets.insert(0, StoredSecret { hash, until: None });
        secret
    }
}

impl Key {
    /// A new secret, and where requests are signed a new one for that, too.
    fn new_secrets(&mut self) -> String {
        let mut secrets = self.new_secret();
        if self.view.require_signature {
            secrets.push(BETWEEN_SECRETS);
            secrets.push_str(&self.signing.add());
        }
        secrets
    }
}

/// Why a key that is revoked is neither changed nor rotated.
const REVOKED: RecordError = RecordError::InUse {
    reason: "the key is revoked",
};

impl RecordRequest<Key> for IssueKey {
    type Reply = Answer;

    fn decide(self, _: &Key, _: &CommandContext<Key>) -> Result<Outcome<Key>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(self, context: &CommandContext<Key>) -> Result<NewRecord<Key>, RecordError> {
        let IssueKey { new, account } = self;
        if new.expires_at.is_some_and(|at| at <= context.now) {
            return Err(RecordError::Invalid(Invalid::new(
                "expires_at",
                "must be in the future",
            )));
        }
        let mut key = Key {
            view: KeyView {
                key_id: context.id,
                account_id: account,
                kind: new.kind,
                name: new.name.map(Text::into_string),
                prefix: new.kind.prefix().to_owned(),
                last4: String::new(),
                scopes: new.scopes,
                allowed_ips: new.allowed_ips,
                expires_at: new.expires_at,
                user_id: new.user_id,
                require_signature: new.require_signature,
                created_at: context.id.created_at(),
                last_used_at: None,
                revoked_at: None,
                key: None,
                signing_secret: None,
            },
            account: u32::try_from(context.tenant.number() / 4).unwrap_or(0),
            secrets: Vec::new(),
            signing: StoredSigningSecrets::default(),
            label: String::new(),
        };
        key.label = key.view.name.clone().unwrap_or_default();
        let secret = Some(key.new_secrets());
        Ok(NewRecord {
            state: key,
            conditions: new.user_id.map(Condition::UserExists).into_iter().collect(),
            secret,
            chore: None,
        })
    }
}

impl RecordRequest<Key> for ChangeKey {
    type Reply = Answer;

    fn decide(self, held: &Key, _: &CommandContext<Key>) -> Result<Outcome<Key>, RecordError> {
        let mut key = held.clone();
        if let Some(name) = self.name {
            key.view.name = name.map(Text::into_string);
            key.label = key.view.name.clone().unwrap_or_default();
        }
        key.view.scopes = self.scopes.unwrap_or(key.view.scopes);
        key.view.allowed_ips = self.allowed_ips.unwrap_or(key.view.allowed_ips);
        key.view.expires_at = self.expires_at.unwrap_or(key.view.expires_at);
        key.view.user_id = self.user_id.unwrap_or(key.view.user_id);
        if let Some(required) = self.require_signature {
            key.view.require_signature = required;
        }
        if key == *held {
            return Ok(Outcome::Show);
        }
        if held.is_revoked() {
            return Err(REVOKED);
        }
        let condition = key
            .view
            .user_id
            .filter(|_| key.view.user_id != held.view.user_id)
            .map(Condition::UserExists);
        let conditions = condition.into_iter().collect();
        Ok(
            match (held.view.require_signature, key.view.require_signature) {
                (false, true) => {
                    let secret = key.signing.add();
                    Outcome::PutSecret(key, conditions, secret)
                }
                (true, false) => {
                    key.signing = StoredSigningSecrets::default();
                    Outcome::Put(key, conditions)
                }
                (true, true) | (false, false) => Outcome::Put(key, conditions),
            },
        )
    }
}

impl RecordRequest<Key> for RevokeKey {
    type Reply = Answer;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::KeyRevoked)
    }

    fn decide(
        self,
        held: &Key,
        context: &CommandContext<Key>,
    ) -> Result<Outcome<Key>, RecordError> {
        if held.is_revoked() {
            return Ok(Outcome::NoContent);
        }
        let mut key = held.clone();
        key.view.revoked_at = Some(context.now);
        Ok(Outcome::PutWithoutContent(key))
    }
}

impl RecordRequest<Key> for RotateKey {
    type Reply = Answer;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::KeyRotated)
    }

    /// The old secret holds for the overlap; every earlier one ends now.
    fn decide(
        self,
        held: &Key,
        context: &CommandContext<Key>,
    ) -> Result<Outcome<Key>, RecordError> {
        if held.is_revoked() {
            return Err(REVOKED);
        }
        let overlap = self.overlap_seconds.unwrap_or(OVERLAP_SECONDS);
        if overlap > OVERLAP_SECONDS_MAX {
            return Err(RecordError::Invalid(Invalid::new(
                "overlap_seconds",
                "must be 0 to 31536000",
            )));
        }
        let mut key = held.clone();
        let overlap = Duration::from_secs(overlap.into());
        key.secrets.truncate(usize::from(!overlap.is_zero()));
        for old in &mut key.secrets {
            old.until = Some(context.now + overlap);
        }
        key.signing.retire(overlap, context.now);
        let secrets = key.new_secrets();
        Ok(Outcome::PutSecret(key, Vec::new(), secrets))
    }
}

impl RecordRequest<Key> for KeepAnswer {
    type Reply = Answer;

    fn decide(self, _: &Key, _: &CommandContext<Key>) -> Result<Outcome<Key>, RecordError> {
        let KeepAnswer { shown, kept } = self;
        Ok(Outcome::ShowBodyOnce { shown, kept })
    }
}

impl RecordSpec for Key {
    const KIND: Kind = Kind::Key;
    const NAME: &'static str = "key";
    type Named = KeyKind;

    fn show(&self, identity: &Identity, secret: Secret<'_>) -> Bytes {
        let mut view = self.view.clone();
        let used = identity.key(view.key_id).map_or(0, |known| {
            known
                .last_used_ms
                .load(std::sync::atomic::Ordering::Relaxed)
        });
        view.last_used_at = (used > 0).then_some(Timestamp(used));
        match secret {
            Secret::Hidden => {}
            Secret::Withheld => {
                view.key = Some(None);
                view.signing_secret = view.require_signature.then_some(None);
            }
            Secret::Shown(secrets) => {
                for secret in secrets.split(BETWEEN_SECRETS) {
                    let shown = match secret.starts_with(signing::PREFIX) {
                        true => &mut view.signing_secret,
                        false => &mut view.key,
                    };
                    *shown = Some(Some(secret.to_owned()));
                }
            }
        }
        to_json(&view)
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn effects(&self, _: Option<&Self>, _: &CommandContext<Self>) -> Vec<Effect> {
        vec![Effect::Key(
            Box::new(self.view.clone()),
            self.account,
            self.hashes(),
            self.signing.known(),
        )]
    }
}
