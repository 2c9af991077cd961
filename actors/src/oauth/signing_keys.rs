//! The keys that sign access tokens: one record with a fixed id, in which the private halves are sealed.
//! The next key is published before it signs, so that whoever keeps the public ones knows it by then;
//! one that signs no more is published until the last token that it signed has ended.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::commit::{Commit, ConstraintViolation, Effect, Header, KeptAnswer, NewRow};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::SigningKeysId;
use colloquy_model::idempotency::Reservation;
use colloquy_model::json;
use colloquy_model::sequence::Sequence;
use colloquy_model::signing_key::{KeptSigningKeys, SigningKey};
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation};
use jsonwebtoken::{DecodingKey, EncodingKey};
use parking_lot::RwLock;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::Serialize;

use crate::sealing::{self, UnsealError};
use crate::store::{CommitLog, Store, Stored};

/// The number of the one record, which no identifier that is made can have; others are 1 and 2.
const NUMBER: u64 = 3;
/// What a private half is sealed as.
const SEALED_AS: &str = "private key of access tokens";
/// How often a change is tried again when another node's came first.
const TRIES_MAX: usize = 5;

/// Why the keys could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum SigningKeysError {
    /// The store does not answer, or another change came first every time.
    #[error("the signing keys can't be stored: the store does not answer")]
    Away,
    /// The keys were rotated, and the answer is not kept.
    #[error("the signing keys were rotated, and the answer could not be kept")]
    Unknown,
    /// No key can be made or sealed.
    #[error("no signing key can be made: {0}")]
    Making(String),
}

/// One key, ready to sign or to verify.
#[derive(Clone)]
pub(super) struct ReadyKey {
    pub(super) stored: SigningKey,
    pub(super) verifies: DecodingKey,
}

/// The keys as they hold now.
#[derive(Default)]
struct Held {
    revision: Sequence,
    kept: KeptSigningKeys,
    ready: Vec<ReadyKey>,
    signs: Option<(String, Arc<EncodingKey>)>,
    unreadable: Option<UnsealError>,
}

/// The view of the keys, set by the writer between the fsync and the reply.
#[derive(Default)]
pub struct SigningKeysView {
    held: RwLock<Held>,
}

impl std::fmt::Debug for SigningKeysView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKeysView").finish_non_exhaustive()
    }
}

impl SigningKeysView {
    /// Takes in what was committed as this revision; an older one changes nothing.
    pub fn put(&self, revision: Sequence, kept: KeptSigningKeys) {
        let mut held = self.held.write();
        if revision <= held.revision {
            return;
        }
        let signs = kept
            .0
            .iter()
            .find(|key| key.signs_from.is_some() && key.retired_at.is_none());
        let unsealed = signs.map(|key| (key.name.clone(), private(key)));
        let (signs, unreadable) = match unsealed {
            Some((name, Ok(key))) => (Some((name, Arc::new(key))), None),
            Some((_, Err(error))) => (None, Some(error)),
            None => (None, None),
        };
        let ready = kept.0.iter().filter_map(ready).collect();
        *held = Held {
            revision,
            kept,
            ready,
            signs,
            unreadable,
        };
    }

    /// Why the key that signs can't be read, if so: it is sealed under another key.
    #[must_use]
    pub fn unreadable(&self) -> Option<UnsealError> {
        self.held.read().unreadable.clone()
    }

    /// The key that signs, with its name.
    pub(super) fn signs(&self) -> Option<(String, Arc<EncodingKey>)> {
        self.held.read().signs.clone()
    }

    /// The key of this name.
    pub(super) fn named(&self, name: &str) -> Option<ReadyKey> {
        let held = self.held.read();
        held.ready
            .iter()
            .find(|key| key.stored.name == name)
            .cloned()
    }

    /// When the key that signs began to.
    fn signs_since(&self) -> Option<Timestamp> {
        let held = self.held.read();
        let mut signing = held.kept.0.iter().filter(|key| key.retired_at.is_none());
        signing.find_map(|key| key.signs_from)
    }

    fn kept(&self) -> (Sequence, KeptSigningKeys) {
        let held = self.held.read();
        (held.revision, held.kept.clone())
    }

    /// All public halves (RFC 7517).
    fn published(&self) -> Jwks {
        let held = self.held.read();
        let jwk = |key: &ReadyKey| Jwk {
            kty: "OKP",
            crv: "Ed25519",
            alg: "EdDSA",
            usage: "sig",
            kid: key.stored.name.clone(),
            x: key.stored.public.clone(),
        };
        Jwks {
            keys: held.ready.iter().map(jwk).collect(),
        }
    }
}

/// The public keys, as `/.well-known/jwks.json` shows them.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Jwks {
    /// The one that signs, the next one, and those whose tokens may still hold.
    pub keys: Vec<Jwk>,
}

/// A public key (RFC 8037).
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Jwk {
    /// Always `OKP`.
    pub kty: &'static str,
    /// Always `Ed25519`.
    pub crv: &'static str,
    /// Always `EdDSA`.
    pub alg: &'static str,
    /// Always `sig`.
    #[serde(rename = "use")]
    pub usage: &'static str,
    /// The key's name, which stands in the header of what it signs.
    pub kid: String,
    /// The public key, in base64url.
    pub x: String,
}

fn private(key: &SigningKey) -> Result<EncodingKey, UnsealError> {
    let sealed = key.sealed_private.as_deref().ok_or(UnsealError::Damaged)?;
    let text = sealing::unseal(SEALED_AS, sealed)?;
    let der = BASE64_STANDARD
        .decode(text)
        .map_err(|_| UnsealError::Damaged)?;
    Ok(EncodingKey::from_ed_der(&der))
}

fn ready(key: &SigningKey) -> Option<ReadyKey> {
    let public = BASE64_URL_SAFE_NO_PAD.decode(&key.public).ok()?;
    Some(ReadyKey {
        stored: key.clone(),
        verifies: DecodingKey::from_ed_der(&public),
    })
}

/// A new key, which signs from this instant on, or comes next.
fn new_key(signs_from: Option<Timestamp>) -> Result<SigningKey, SigningKeysError> {
    let making = |error: &dyn std::fmt::Display| SigningKeysError::Making(error.to_string());
    let der =
        Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|error| making(&error))?;
    let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).map_err(|error| making(&error))?;
    let sealed = sealing::seal(SEALED_AS, &BASE64_STANDARD.encode(der.as_ref()));
    let mut name = [0; 9];
    colloquy_model::random::fill(&mut name);
    Ok(SigningKey {
        name: BASE64_URL_SAFE_NO_PAD.encode(name),
        public: BASE64_URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()),
        sealed_private: Some(sealed.map_err(|error| making(&error))?),
        signs_from,
        retired_at: None,
    })
}

/// The keys after one step: what came next signs, what signed is retired, what has been retired for
/// as long as its tokens could hold goes, and a new one comes next.
fn rotated(
    kept: &KeptSigningKeys,
    now: Timestamp,
    tokens_hold: Duration,
) -> Result<KeptSigningKeys, SigningKeysError> {
    let KeptSigningKeys(mut keys) = kept.clone();
    keys.retain(|key| key.retired_at.is_none_or(|at| at + tokens_hold > now));
    for key in &mut keys {
        match key.signs_from {
            None => key.signs_from = Some(now),
            Some(_) => {
                key.retired_at = key.retired_at.or(Some(now));
                key.sealed_private = None;
            }
        }
    }
    if !keys.iter().any(|key| key.retired_at.is_none()) {
        keys.push(new_key(Some(now))?);
    }
    keys.push(new_key(None)?);
    Ok(KeptSigningKeys(keys))
}

/// The identifier of the one record.
fn id() -> SigningKeysId {
    SigningKeysId::from_parts(EntityNumber(NUMBER), 0)
}

fn operators(actor: Actor) -> Caller {
    Caller {
        tenant: Tenant::OPERATORS,
        actor,
    }
}

fn subject(id: SigningKeysId) -> Subject {
    Subject {
        kind: Kind::SigningKeys,
        number: id.number(),
        tail: id.tail(),
    }
}

fn commit_of(revision: Sequence, kept: KeptSigningKeys, actor: Actor, now: Timestamp) -> Commit {
    let mut commit = Commit::new(subject(id()), revision, operators(actor), now);
    let names: Vec<&str> = kept.0.iter().map(|key| key.name.as_str()).collect();
    let kind = match revision {
        Sequence::ZERO => EventKind::RecordCreated,
        _ => EventKind::SigningKeysRotated,
    };
    commit.rows.push(NewRow::new(kind, json::bytes(&names)));
    commit.header = Header::Record {
        new: revision == Sequence::ZERO,
        name: "signing keys".to_owned(),
        body: json::text(&kept),
        names: Vec::new(),
    };
    commit.effects = vec![Effect::SigningKeys(Box::new(kept))];
    commit
}

/// Makes the first keys where there are none, at a start. Of nodes that start together one makes them.
///
/// # Errors
/// They can't be made or stored.
pub(crate) fn make_first(
    store: &Arc<dyn Store>,
    view: &SigningKeysView,
    tokens_hold: Duration,
) -> Result<(), SigningKeysError> {
    if view.signs().is_some() {
        return Ok(());
    }
    let now = Timestamp::now();
    let (revision, kept) = view.kept();
    let commit = commit_of(
        revision,
        rotated(&kept, now, tokens_hold)?,
        Actor::server("signing keys"),
        now,
    );
    let (settle, settled) = std::sync::mpsc::sync_channel(1);
    let settle = Box::new(move |outcome: Result<(), _>| {
        // Whoever waits is in the next line.
        let _ = settle.send(outcome);
    });
    store.submit(Incarnation::next(), commit, settle);
    match settled.recv() {
        // Another node was faster: its keys come with the log.
        Ok(Ok(()) | Err(CommitFailure::Conflict)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(SigningKeysError::Away),
    }
}

/// The way to change the keys while the server runs.
pub struct SigningKeys {
    pub(super) view: Arc<SigningKeysView>,
    store: Arc<dyn Store>,
    tokens_hold: Duration,
    /// Held while a change is made and committed, so that the next one sees it.
    changing: tokio::sync::Mutex<()>,
}

impl SigningKeys {
    pub(super) fn new(
        view: Arc<SigningKeysView>,
        store: Arc<dyn Store>,
        tokens_hold: Duration,
    ) -> Self {
        SigningKeys {
            view,
            store,
            tokens_hold,
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// All public keys.
    #[must_use]
    pub fn published(&self) -> Jwks {
        self.view.published()
    }

    /// Lets the next key sign, and publishes one more. Tokens that were signed before hold on. The
    /// answer shows the public keys, and is kept where the request came with an idempotency key.
    ///
    /// # Errors
    /// It could not be made or stored: then nothing has changed, unless the outcome is unknown.
    pub async fn rotate(
        &self,
        actor: Actor,
        reservation: Option<Reservation>,
    ) -> Result<Answer, SigningKeysError> {
        let published = self.rotate_where(|_| true, actor.clone()).await?;
        let answer = Answer::ok(None, json::bytes(&published));
        let Some(reservation) = reservation else {
            return Ok(answer);
        };
        // A place of its own: another node may have rotated meanwhile.
        let (id, caller) = (SigningKeysId::new(Timestamp::now()), operators(actor));
        let mut commit = Commit::new(subject(id), Sequence::ZERO, caller, Timestamp::now());
        commit.answer = Some(KeptAnswer {
            reservation,
            done: answer.done,
            id: None,
            etag: None,
            body: Some(answer.body.clone()),
        });
        let kept = self.commit(commit).await;
        kept.map(|()| answer).map_err(|_| SigningKeysError::Unknown)
    }

    /// The same where the key that signs has done so for at least this long.
    pub(super) async fn rotate_after(
        &self,
        holds: Duration,
        actor: Actor,
    ) -> Result<Jwks, SigningKeysError> {
        let is_due =
            |since: Option<Timestamp>| since.is_some_and(|since| since + holds <= Timestamp::now());
        self.rotate_where(is_due, actor).await
    }

    async fn rotate_where(
        &self,
        is_due: impl Fn(Option<Timestamp>) -> bool,
        actor: Actor,
    ) -> Result<Jwks, SigningKeysError> {
        let _turn = self.changing.lock().await;
        for _ in 0..TRIES_MAX {
            // Another node may have done it meanwhile.
            if !is_due(self.view.signs_since()) {
                return Ok(self.view.published());
            }
            let now = Timestamp::now();
            let (revision, kept) = self.view.kept();
            let next = rotated(&kept, now, self.tokens_hold)?;
            let commit = commit_of(revision, next, actor.clone(), now);
            match self.commit(commit).await {
                Ok(()) => return Ok(self.view.published()),
                Err(CommitFailure::Conflict) => self.reload().await?,
                Err(_) => return Err(SigningKeysError::Away),
            }
        }
        Err(SigningKeysError::Away)
    }

    /// Takes in what another node has committed.
    async fn reload(&self) -> Result<(), SigningKeysError> {
        let stored = self.store.reload(subject(id())).await;
        if let Ok(Some(Stored::Record(record))) = stored
            && let Ok(kept) = serde_json::from_str(&record.body)
        {
            self.view.put(record.sequence, kept);
            return Ok(());
        }
        Err(SigningKeysError::Away)
    }

    async fn commit(&self, commit: Commit) -> Result<(), CommitFailure<ConstraintViolation>> {
        let (settle, settled) = tokio::sync::oneshot::channel();
        let settle = Box::new(move |outcome| {
            // Whoever asked may have left.
            let _ = settle.send(outcome);
        });
        CommitLog::submit(&*self.store, Incarnation::next(), commit, settle);
        settled.await.unwrap_or(Err(CommitFailure::Unknown))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const HOLD: Duration = Duration::from_mins(15);

    fn signing(kept: &KeptSigningKeys) -> Vec<&SigningKey> {
        let signs = |key: &&SigningKey| key.signs_from.is_some() && key.retired_at.is_none();
        kept.0.iter().filter(signs).collect()
    }

    #[test]
    fn what_signs_was_published_before_and_is_published_until_its_tokens_have_ended() {
        let first = rotated(&KeptSigningKeys::default(), Timestamp(0), HOLD).unwrap();
        assert_eq!((signing(&first).len(), first.0.len()), (1, 2));
        let second = rotated(&first, Timestamp(1_000), HOLD).unwrap();
        let name = |kept: &KeptSigningKeys| signing(kept).first().unwrap().name.clone();
        assert_ne!(name(&first), name(&second));
        assert!(
            first.0.iter().any(|key| key.name == name(&second)),
            "it was the next one"
        );
        let published =
            |kept: &KeptSigningKeys, name: &str| kept.0.iter().any(|key| key.name == name);
        assert!(published(&second, &name(&first)));
        let late = Timestamp(1_000) + HOLD;
        assert!(!published(
            &rotated(&second, late, HOLD).unwrap(),
            &name(&first)
        ));
        let retired = second.0.iter().filter(|key| key.retired_at.is_some());
        assert!(
            retired.clone().count() == 1 && retired.clone().all(|key| key.sealed_private.is_none())
        );
    }
}
