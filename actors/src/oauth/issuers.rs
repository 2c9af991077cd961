//! Access tokens of other issuers, as far as the settings trust them (RFC 8725): each with its own keys,
//! audience and algorithms.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use colloquy_model::access_token::AccessToken;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AccountId, ClientId, UserId};
use colloquy_model::key::{Permission, SecretHash, secret_hash};
use colloquy_model::scope;
use colloquy_model::time::Timestamp;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::remembered::Remembered;
use super::tokens::TOKEN_BYTES_MAX;
use crate::accounts::Identity;
use crate::store::Later;

/// How far the clocks of two servers may be apart.
const LEEWAY: Duration = Duration::from_secs(60);
/// Keys are asked for again, for a name that nobody knows, at most this often.
const FETCH_EVERY: Duration = Duration::from_secs(60);

/// How many bytes a coordinate of a point has, by the curve (RFC 7518, section 6.2.1.2).
const COORDINATES: [(EllipticCurve, usize); 3] = [
    (EllipticCurve::P256, 32),
    (EllipticCurve::P384, 48),
    (EllipticCurve::P521, 66),
];

/// Whom the settings trust, and how far.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// The issuer, `iss`, to the letter.
    pub issuer: String,
    /// For whom its tokens must be, `aud`.
    pub audience: String,
    /// Where its public keys are.
    pub keys: KeysFrom,
    /// The algorithms that it may sign with.
    pub algorithms: Vec<String>,
    /// The claim that names the account.
    pub account_claim: String,
    /// The claim that holds the e-mail address of the account's user; empty: the account itself acts.
    pub user_claim: String,
    /// The claim that says `live` or `test`; empty: live.
    pub mode_claim: String,
    /// The most that its tokens may allow.
    pub scopes: Vec<Permission>,
}

/// Where an issuer's public keys are.
#[derive(Debug, Clone)]
pub enum KeysFrom {
    /// At this address, as a JWK set.
    Url(String),
    /// In this file, as a JWK set.
    File(PathBuf),
}

/// Fetches the text at an address.
pub trait FetchText: Send + Sync + 'static {
    /// The text; what went wrong, in words for the log.
    fn fetch(&self, url: &str) -> Later<Result<String, String>>;
}

/// Why the settings of an issuer can't be used.
#[derive(Debug, thiserror::Error)]
#[error("[[issuers]] {issuer}: {reason}")]
pub struct BadIssuer {
    issuer: String,
    reason: String,
}

/// One public key, and the only algorithm for which it may be used, where it says so.
struct PublicKey {
    algorithm: Option<Algorithm>,
    verifies: DecodingKey,
}

/// An issuer's keys as they were fetched last.
#[derive(Default)]
struct Fetched {
    keys: HashMap<String, Arc<PublicKey>>,
    /// When they were asked for again; the first time does not count.
    again_at: Option<Timestamp>,
    /// Whether they were asked for at all.
    is_tried: bool,
}

struct Issuer {
    settings: IssuerSettings,
    algorithms: Vec<Algorithm>,
    fetched: Mutex<Fetched>,
}

/// All issuers that the settings trust.
pub(super) struct Issuers {
    by_name: HashMap<String, Issuer>,
    source: Arc<dyn FetchText>,
    remembered: Remembered,
}

#[derive(Deserialize)]
struct IssuedBy {
    iss: String,
}

impl Issuers {
    /// # Errors
    /// An algorithm is not known, or an issuer is named twice.
    pub(super) fn new(
        all: Vec<IssuerSettings>,
        source: Arc<dyn FetchText>,
    ) -> Result<Self, BadIssuer> {
        let mut by_name = HashMap::new();
        for settings in all {
            let bad = |reason: String| BadIssuer {
                issuer: settings.issuer.clone(),
                reason,
            };
            let known = |name: &String| {
                let algorithm = name.parse().ok().filter(|one| !is_shared_secret(*one));
                algorithm.ok_or_else(|| bad(format!("the algorithm {name} is not known")))
            };
            let algorithms: Result<Vec<Algorithm>, _> =
                settings.algorithms.iter().map(known).collect();
            let (name, issuer) = (
                settings.issuer.clone(),
                Issuer {
                    algorithms: algorithms?,
                    fetched: Mutex::default(),
                    settings: settings.clone(),
                },
            );
            if by_name.insert(name, issuer).is_some() {
                return Err(bad("it is named twice".to_owned()));
            }
        }
        Ok(Issuers {
            by_name,
            source,
            remembered: Remembered::default(),
        })
    }

    /// What a token says, if an issuer that is trusted signed it for this server.
    pub(super) async fn verified(
        &self,
        text: &str,
        identity: &Identity,
        now: Timestamp,
    ) -> Option<Arc<AccessToken>> {
        if self.by_name.is_empty() || text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let hash = secret_hash(text);
        if let Some(token) = self.remembered.get(&hash) {
            return (token.ends_at > now).then_some(token);
        }
        let IssuedBy { iss } = insecure_decode_claims(text).ok()?;
        let issuer = self.by_name.get(&iss)?;
        let header = decode_header(text).ok()?;
        let key = issuer.key(&header, &*self.source, now).await?;
        let token = Arc::new(issuer.read(text, &header, &key, identity)?);
        self.remembered.put(hash, &token, now);
        (token.ends_at > now).then_some(token)
    }
}

/// Whether whoever can verify can also sign: what an issuer publishes must not be taken for that.
fn is_shared_secret(algorithm: Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512
    )
}

impl Issuer {
    /// The key that a header names, if the algorithm is one that this issuer may use.
    async fn key(
        &self,
        header: &Header,
        source: &dyn FetchText,
        now: Timestamp,
    ) -> Option<Arc<PublicKey>> {
        let points_elsewhere = header.jku.is_some()
            || header.x5u.is_some()
            || header.jwk.is_some()
            || header.x5c.is_some()
            || header.crit.is_some();
        if points_elsewhere || !self.algorithms.contains(&header.alg) {
            return None;
        }
        let name = header.kid.as_deref()?;
        let mut fetched = self.fetched.lock().await;
        if let Some(key) = fetched.keys.get(name) {
            return key.fits(header.alg).then(|| Arc::clone(key));
        }
        let is_early = fetched.again_at.is_some_and(|at| at + FETCH_EVERY > now);
        if is_early {
            return None;
        }
        // The first time does not count; from then on an issuer that is away is asked as seldom.
        if fetched.is_tried {
            fetched.again_at = Some(now);
        }
        fetched.is_tried = true;
        match self.fetch(source).await {
            Ok(keys) => fetched.keys = keys,
            Err(reason) => {
                let issuer = &*self.settings.issuer;
                tracing::warn!(issuer, reason, "an issuer's keys can't be read");
            }
        }
        let key = fetched.keys.get(name)?;
        key.fits(header.alg).then(|| Arc::clone(key))
    }

    async fn fetch(
        &self,
        source: &dyn FetchText,
    ) -> Result<HashMap<String, Arc<PublicKey>>, String> {
        let text = match &self.settings.keys {
            KeysFrom::Url(url) => source.fetch(url).await?,
            KeysFrom::File(path) => {
                std::fs::read_to_string(path).map_err(|error| error.to_string())?
            }
        };
        let set: JwkSet = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let signs =
            |usage: &Option<PublicKeyUse>| matches!(usage, None | Some(PublicKeyUse::Signature));
        let keys = set
            .keys
            .iter()
            .filter(|key| signs(&key.common.public_key_use));
        let keys = keys.filter_map(|key| {
            let key = with_whole_coordinates(key);
            let algorithm = match key.common.key_algorithm {
                None => None,
                Some(named) => Some(algorithm_of(named)?),
            };
            let public = PublicKey {
                algorithm,
                verifies: DecodingKey::from_jwk(&key).ok()?,
            };
            Some((key.common.key_id?, Arc::new(public)))
        });
        Ok(keys.collect())
    }

    /// What a token says that is signed with this key.
    fn read(
        &self,
        text: &str,
        header: &Header,
        key: &PublicKey,
        identity: &Identity,
    ) -> Option<AccessToken> {
        let settings = &self.settings;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&[&settings.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let claims: Map<String, Value> = decode(text, &key.verifies, &validation).ok()?.claims;
        let word = |name: &str| claims.get(name).and_then(Value::as_str);
        let seconds = |name: &str| {
            let at = claims.get(name).and_then(Value::as_f64);
            #[expect(clippy::cast_possible_truncation, reason = "checked by the range")]
            at.filter(|at| (0.0..1e12).contains(at))
                .map(|at| Timestamp((at * 1_000.0) as i64))
        };
        let account: AccountId = word(&settings.account_claim)?.parse().ok()?;
        let mode = match settings.mode_claim.as_str() {
            "" => Mode::Live,
            claim => match word(claim)? {
                "live" => Mode::Live,
                "test" => Mode::Test,
                _ => return None,
            },
        };
        let user = match settings.user_claim.as_str() {
            "" => None,
            claim => Some(user_named(identity, account, word(claim)?)?),
        };
        let client = word("client_id")
            .or(word("azp"))
            .or(word("sub"))
            .unwrap_or_default();
        let ends_at = seconds("exp")? + LEEWAY;
        Some(AccessToken {
            id: word("jti").unwrap_or_default().to_owned(),
            client: stand_in(&secret_hash(&format!("{}\n{client}", settings.issuer))),
            grant: None,
            issuer: Some(settings.issuer.clone()),
            domain: None,
            user,
            account,
            mode,
            scopes: scope::shared(&asked_scopes(&claims), &settings.scopes),
            issued_at: seconds("iat").unwrap_or(Timestamp::EPOCH),
            ends_at,
            hash: secret_hash(text),
        })
    }
}

impl PublicKey {
    fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|own| own == algorithm)
    }
}

/// The key with the coordinates of its point as long as its curve says. Some
/// issuers leave out the zeros that one begins with, Authlib before 2.0 among them.
fn with_whole_coordinates(key: &Jwk) -> Jwk {
    let mut key = key.clone();
    if let AlgorithmParameters::EllipticCurve(point) = &mut key.algorithm
        && let Some((_, bytes)) = COORDINATES.iter().find(|(of, _)| *of == point.curve)
    {
        for coordinate in [&mut point.x, &mut point.y] {
            if let Ok(mut short) = BASE64_URL_SAFE_NO_PAD.decode(&*coordinate)
                && let Some(missing) = bytes.checked_sub(short.len())
            {
                short.splice(0..0, std::iter::repeat_n(0, missing));
                *coordinate = BASE64_URL_SAFE_NO_PAD.encode(short);
            }
        }
    }
    key
}

fn algorithm_of(named: KeyAlgorithm) -> Option<Algorithm> {
    named.to_string().parse().ok()
}

/// The scopes that are known here, of `scope` (RFC 9068) or of `scp`, which some issuers write.
fn asked_scopes(claims: &Map<String, Value>) -> Vec<Permission> {
    let words: Vec<&str> = match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(text)) => text.split(' ').collect(),
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    };
    words
        .into_iter()
        .filter_map(scope::parse)
        .flatten()
        .collect()
}

/// The user of the account who has this e-mail address.
fn user_named(identity: &Identity, account: AccountId, email: &str) -> Option<UserId> {
    let number = identity.account(account)?.number;
    let people = identity.people_named(email);
    let own = people
        .into_iter()
        .find(|(tenant, _)| *tenant == Tenant::account(number));
    own.map(|(_, user)| user)
}

/// What stands for a client that is registered elsewhere, in limits and in what is written down: made
/// of who issued the token and to whom, the same each time.
fn stand_in(hash: &SecretHash) -> ClientId {
    let (number, tail) = hash.split_at(8);
    let bits = |bytes: &[u8]| {
        bytes
            .iter()
            .take(8)
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    ClientId::from_parts(EntityNumber(bits(number) >> 4), bits(tail))
}
