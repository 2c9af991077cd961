//! Tokens that are signed by the server's own key, and otherwise no good: each part of them counts where
//! their signature says nothing against them (RFC 8725).

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::signature::Ed25519KeyPair;
use serde_json::{Value, json};

use super::attacks::{part, read, refuses, with};
use super::{Authority, Registered, text, tokens};
use crate::support::console::Person;
use crate::support::{Account, Server, Setup, stored};

const MASTER_KEY: &str = "COLLOQUY__ENCRYPTION__MASTER_KEY";
/// 32 bytes in base64.
const GIVEN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Who has the store and its master key, and so the key that signs.
struct Forger(Ed25519KeyPair);

impl Forger {
    fn of(server: &Server) -> Self {
        let file = server.work().join("data/colloquy.db");
        let sql = "SELECT body FROM records WHERE name = 'signing keys'";
        let body = stored::query(&file, sql, &[]).remove(0).remove(0);
        let keys: Vec<Value> = serde_json::from_str(body.as_str().unwrap()).unwrap();
        let signs = keys.iter().find(|key| key["signs_from"].is_number());
        let sql = "SELECT name, wrapped FROM store_key";
        let row = stored::query(&file, sql, &[]).remove(0);
        let (name, wrapped) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let master = BASE64_STANDARD.decode(GIVEN).unwrap();
        let wraps = "wrapped store key";
        let associated = format!("{wraps} {name}");
        let store_key = opened(&master, wraps.as_bytes(), associated.as_bytes(), wrapped);
        let sealed = text(signs.unwrap(), "sealed_private");
        let purpose = b"private key of access tokens";
        let der = opened(&store_key, b"sealed secrets", purpose, &sealed);
        let der = BASE64_STANDARD.decode(der).unwrap();
        Forger(Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).unwrap())
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.0.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// What was encrypted under a key that is derived from this one.
fn opened(key: &[u8], derived_for: &[u8], associated: &[u8], text: &str) -> Vec<u8> {
    let mut derived = [0; 32];
    let extracted = Salt::new(HKDF_SHA256, b"colloquy").extract(key);
    let info = [derived_for];
    let expanded = extracted.expand(&info, HKDF_SHA256).unwrap();
    expanded.fill(&mut derived).unwrap();
    let (_, text) = text.rsplit_once(':').unwrap();
    let whole = BASE64_STANDARD.decode(text).unwrap();
    let (nonce, rest) = whole.split_at(NONCE_LEN);
    let nonce = Nonce::try_assume_unique_for_key(nonce).unwrap();
    let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &derived).unwrap());
    let mut rest = rest.to_vec();
    let opened = cipher.open_in_place(nonce, Aad::from(associated), &mut rest);
    opened.unwrap().to_vec()
}

async fn robbed() -> (Server, Account, Authority, Forger) {
    let server = Setup::default().env(MASTER_KEY, GIVEN).start();
    let account = server.account().await;
    let (authority, forger) = (Authority::of(&server), Forger::of(&server));
    (server, account, authority, forger)
}

/// What no header of this server's says.
fn other_headers(x: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("typ", json!("JWT")),
        ("typ", json!(null)),
        ("kid", json!("unknown")),
        ("kid", json!("../../etc/passwd")),
        ("kid", json!(null)),
        ("jku", json!("https://evil.example/jwks")),
        ("x5u", json!("https://evil.example/x")),
        ("jwk", json!({"kty": "OKP", "crv": "Ed25519", "x": x})),
        ("x5c", json!(["AAAA"])),
        ("crit", json!(["exp"])),
    ]
}

#[tokio::test]
async fn each_part_of_a_well_signed_token_counts() {
    let (server, account, authority, forger) = robbed().await;
    let c = account.live();
    let client = Registered::machine(&c).await;
    let stranger = server.account().await;
    let foreign = Registered::machine(&stranger.live()).await;
    let (header, claims) = read(&authority.credentials(&client).await);
    let sound = c.with_key(&forger.token(&header, &claims));
    sound.get("/v1/conversations").await.expect(200);
    let (_, _, jwks) = authority.leads("/.well-known/jwks.json").await;
    let jwks: Value = serde_json::from_str(&jwks).unwrap();
    for (name, value) in other_headers(&text(&jwks["keys"][0], "x")) {
        let what = format!("{name}: {value}");
        let token = forger.token(&with(&header, name, value), &claims);
        refuses(&c, &token, &what).await;
    }
    let issued = claims["iat"].as_i64().unwrap();
    for (name, value) in [
        ("iss", json!("https://other.example")),
        ("iss", json!(null)),
        ("aud", json!("https://other.example")),
        ("aud", json!(null)),
        ("exp", json!(issued - 1)),
        ("exp", json!(null)),
        ("sub", json!(null)),
        ("sub", json!(foreign.id)),
        ("scope", json!("everything")),
        ("mode", json!("test")),
        ("account_id", json!(stranger.account_id)),
        ("client_id", json!(foreign.id)),
        // As long as a header may be, and longer than a token.
        ("pad", json!("a".repeat(6_400))),
    ] {
        let what = format!("{name}: {value}");
        let token = forger.token(&header, &with(&claims, name, value));
        refuses(&c, &token, &what).await;
    }
}

#[tokio::test]
async fn a_well_signed_token_is_of_the_client_and_the_user_of_its_consent() {
    let (_server, account, authority, forger) = robbed().await;
    let c = account.live();
    let (person, colleague) = (
        Person::user(&account, "agent").await,
        Person::user(&account, "admin").await,
    );
    let (client, other) = (Registered::web(&c).await, Registered::web(&c).await);
    let given = tokens(&authority, &person, &client).await;
    let (header, claims) = read(&text(&given, "access_token"));
    let sound = c.with_key(&forger.token(&header, &claims));
    sound.get("/v1/conversations").await.expect(200);
    for (name, value) in [("sub", &colleague.user), ("client_id", &other.id)] {
        let token = forger.token(&header, &with(&claims, name, json!(value)));
        refuses(&c, &token, name).await;
    }
}
