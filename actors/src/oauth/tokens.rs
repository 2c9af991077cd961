//! Access tokens: JWTs (RFC 9068) that this server signs and verifies.

use std::sync::Arc;

use colloquy_model::access_token::AccessToken;
use colloquy_model::caller::Mode;
use colloquy_model::id::{AccountId, ClientId, GrantId, UserId};
use colloquy_model::key::{SecretHash, secret_hash};
use colloquy_model::public_url::PublicUrl;
use colloquy_model::scope;
use colloquy_model::time::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};

use super::remembered::Remembered;
use super::signing_keys::SigningKeysView;

/// The type of access tokens, `typ` (RFC 9068, 2.1).
const TYPE: &str = "at+jwt";
/// The longest token that is looked at.
pub(super) const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The claims of an access token.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: String,
    client_id: ClientId,
    scope: String,
    account_id: AccountId,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    grant_id: Option<GrantId>,
    jti: String,
    iat: i64,
    exp: i64,
}

/// Signs and verifies this server's own tokens.
pub(super) struct Tokens {
    keys: Arc<SigningKeysView>,
    /// Who issues them, and for whom they are: this server.
    issuer: PublicUrl,
    remembered: Remembered,
}

impl Tokens {
    pub(super) fn new(keys: Arc<SigningKeysView>, issuer: PublicUrl) -> Self {
        Tokens {
            keys,
            issuer,
            remembered: Remembered::default(),
        }
    }

    /// Signs a token; none where there is no key that signs. Its hash is not needed for that.
    pub(super) fn signed(&self, token: &AccessToken) -> Option<String> {
        let (name, key) = self.keys.signs()?;
        signed(&self.claims(token), name, &key)
    }

    fn claims(&self, token: &AccessToken) -> Claims {
        let subject = |user: UserId| user.to_string();
        let issuer = match &token.domain {
            Some(domain) => self.issuer.at(domain),
            None => self.issuer.as_str().to_owned(),
        };
        Claims {
            iss: issuer.clone(),
            aud: issuer,
            sub: token.user.map_or_else(|| token.client.to_string(), subject),
            client_id: token.client,
            scope: scope::text(&token.scopes),
            account_id: token.account,
            mode: token.mode,
            grant_id: token.grant,
            jti: token.id.clone(),
            iat: token.issued_at.0 / 1_000,
            exp: token.ends_at.0 / 1_000,
        }
    }

    /// What a token says, if this server signed it and it has not ended at `now`.
    pub(super) fn verified(&self, text: &str, now: Timestamp) -> Option<Arc<AccessToken>> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let hash = secret_hash(text);
        let token = match self.remembered.get(&hash) {
            Some(token) => token,
            None => {
                let token = Arc::new(self.read(text, hash)?);
                self.remembered.put(hash, &token, now);
                token
            }
        };
        (token.ends_at > now).then_some(token)
    }

    fn read(&self, text: &str, hash: SecretHash) -> Option<AccessToken> {
        let header = decode_header(text).ok()?;
        // What points elsewhere for a key, or must be understood, is nothing that this server signs.
        let is_ours = header.typ.as_deref() == Some(TYPE)
            && header.jku.is_none()
            && header.x5u.is_none()
            && header.jwk.is_none()
            && header.x5c.is_none()
            && header.crit.is_none();
        if !is_ours {
            return None;
        }
        let key = self.keys.named(header.kid.as_deref()?)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        // Both are compared below: a token says by its issuer at which domain it was issued.
        validation.validate_aud = false;
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // Its end is looked at each time, by the same clock as everything else.
        validation.validate_exp = false;
        let claims: Claims = decode(text, &key.verifies, &validation).ok()?.claims;
        if claims.aud != claims.iss {
            return None;
        }
        let domain = match claims.iss == self.issuer.as_str() {
            true => None,
            // Whose domain it is, is looked at each time.
            false => Some(self.issuer.host_of(&claims.iss)?.to_owned()),
        };
        let user = match claims.sub == claims.client_id.to_string() {
            true => None,
            false => Some(claims.sub.parse().ok()?),
        };
        Some(AccessToken {
            id: claims.jti,
            client: claims.client_id,
            grant: claims.grant_id,
            issuer: None,
            domain,
            user,
            account: claims.account_id,
            mode: claims.mode,
            scopes: scope::parse(&claims.scope)?,
            issued_at: instant(claims.iat)?,
            ends_at: instant(claims.exp)?,
            hash,
        })
    }
}

fn instant(seconds: i64) -> Option<Timestamp> {
    seconds.checked_mul(1_000).map(Timestamp)
}

fn signed(claims: &Claims, key_name: String, key: &EncodingKey) -> Option<String> {
    let header = Header {
        typ: Some(TYPE.to_owned()),
        kid: Some(key_name),
        ..Header::new(Algorithm::EdDSA)
    };
    encode(&header, claims, key).ok()
}
