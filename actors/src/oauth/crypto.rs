//! The signatures of JSON Web Tokens, by ring: what `jsonwebtoken` asks a provider of its own for.
//! Signs with Ed25519 alone. Verifies what issuers use today; no HMAC, so that no public key can be
//! taken for a shared secret (RFC 8725, 2.1).

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Signer, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{self as keys, Ed25519KeyPair, RsaPublicKeyComponents, UnparsedPublicKey};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has `jsonwebtoken` use this provider; called again, nothing changes.
pub(super) fn install() {
    // Refused where it is installed already.
    let _ = PROVIDER.install_default();
}

struct EdSigner(Ed25519KeyPair);

impl Signer<Vec<u8>> for EdSigner {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }
}

impl JwtSigner for EdSigner {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    if *algorithm != Algorithm::EdDSA || key.family() != AlgorithmFamily::Ed {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.as_bytes());
    let pair = pair.map_err(|_| ErrorKind::InvalidEddsaKey)?;
    Ok(Box::new(EdSigner(pair)))
}

/// How a public key of one family verifies.
enum Verifying {
    Bytes(&'static dyn keys::VerificationAlgorithm),
    Rsa(&'static keys::RsaParameters),
}

struct KeyVerifier {
    algorithm: Algorithm,
    verifying: Verifying,
    key: DecodingKeyKind,
}

impl Verifier<Vec<u8>> for KeyVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.verifying, &self.key) {
            (Verifying::Bytes(how), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*how, key).verify(message, signature)
            }
            (Verifying::Rsa(how), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(how, message, signature)
            }
            (Verifying::Bytes(_), DecodingKeyKind::RsaModulusExponent { .. })
            | (Verifying::Rsa(_), DecodingKeyKind::SecretOrDer(_)) => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for KeyVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let verifying = match algorithm {
        Algorithm::EdDSA => Verifying::Bytes(&keys::ED25519),
        Algorithm::ES256 => Verifying::Bytes(&keys::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Verifying::Bytes(&keys::ECDSA_P384_SHA384_FIXED),
        Algorithm::RS256 => Verifying::Rsa(&keys::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Verifying::Rsa(&keys::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Verifying::Rsa(&keys::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Verifying::Rsa(&keys::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Verifying::Rsa(&keys::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Verifying::Rsa(&keys::RSA_PSS_2048_8192_SHA512),
        // Others may be added.
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 | _ => {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
    };
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(KeyVerifier {
        algorithm: *algorithm,
        verifying,
        key: key.kind().clone(),
    }))
}
