//! Requests signed by RFC 9421, part by part, so that each part can be wrong by itself.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::{digest, hmac};
use serde_json::{Value, json};

use super::client::{Call, Client};
use super::unique;

/// What a signature must cover.
pub(crate) const COVERED: [&str; 3] = ["@method", "@target-uri", "authorization"];

/// A key that requires signatures, as its holder knows it.
#[derive(Clone)]
pub(crate) struct Signer {
    pub(crate) client: Client,
    pub(crate) key_id: String,
    pub(crate) secret: String,
    /// Where the server says that it is.
    pub(crate) public_url: String,
}

/// One request, and what its signature says; each part can be made another before it is sent.
#[derive(Clone)]
pub(crate) struct Signature {
    signer: Signer,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Option<String>,
    /// As which method and URL it is signed.
    pub(crate) signed_method: String,
    pub(crate) signed_url: String,
    pub(crate) digest: Option<String>,
    pub(crate) covered: Vec<String>,
    pub(crate) created: Option<i64>,
    pub(crate) nonce: Option<String>,
    pub(crate) key_id: String,
    pub(crate) secret: String,
    /// Further parameters, as they are written.
    pub(crate) more: String,
    /// What stands before and behind it in both headers.
    pub(crate) others: [String; 2],
}

/// Now in Unix seconds.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

/// A body's `Content-Digest`.
pub(crate) fn digest_of(body: &str) -> String {
    let digest = digest::digest(&digest::SHA256, body.as_bytes());
    format!("sha-256=:{}:", BASE64_STANDARD.encode(digest))
}

impl Signer {
    /// A request with all that it needs.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&str>) -> Signature {
        let mut covered: Vec<String> = COVERED.map(str::to_owned).into();
        covered.extend(body.map(|_| "content-digest".to_owned()));
        Signature {
            signer: self.clone(),
            method: method.to_owned(),
            path: path.to_owned(),
            body: body.map(str::to_owned),
            signed_method: method.to_owned(),
            signed_url: format!("{}{path}", self.public_url),
            digest: body.map(digest_of),
            covered,
            created: Some(now()),
            nonce: Some(unique("nonce")),
            key_id: self.key_id.clone(),
            secret: self.secret.clone(),
            more: String::new(),
            others: [String::new(), String::new()],
        }
    }

    pub(crate) fn get(&self, path: &str) -> Signature {
        self.request("GET", path, None)
    }

    /// The headers that PyPI's `http-message-signatures` gives a request.
    pub(crate) fn by_the_library(&self, method: &str, path: &str, body: Option<&str>) -> Value {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sign.py");
        let mut command = Command::new(target.join("python/bin/python"));
        command.args(["-B", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let asked = json!({
            "method": method, "url": format!("{}{path}", self.public_url), "body": body,
            "headers": {"authorization": self.client.credential()},
            "key_id": self.key_id, "secret": self.secret, "nonce": unique("nonce"),
        });
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(asked.to_string().as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "tests/sign.py: {}", output.status);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Signature {
    /// `Signature-Input` and `Signature`.
    pub(crate) fn headers(&self) -> [(&'static str, String); 2] {
        let names: Vec<String> = self.covered.iter().map(|name| quoted(name)).collect();
        let mut input = format!("({})", names.join(" "));
        if let Some(created) = self.created {
            input.push_str(&format!(";created={created}"));
        }
        input.push_str(&format!(";keyid=\"{}\"", self.key_id));
        if let Some(nonce) = &self.nonce {
            input.push_str(&format!(";nonce=\"{nonce}\""));
        }
        input.push_str(&self.more);
        let lines = self.covered.iter().map(|name| {
            let value = match name.split(';').next().unwrap() {
                "@method" => self.signed_method.clone(),
                "@target-uri" => self.signed_url.clone(),
                "authorization" => self.signer.client.credential().unwrap().to_owned(),
                "content-digest" => self.digest.clone().unwrap_or_default(),
                "@path" => self.path.split('?').next().unwrap().to_owned(),
                _ => String::new(),
            };
            format!("{}: {value}\n", quoted(name))
        });
        let base = format!(
            "{}\"@signature-params\": {input}",
            lines.collect::<String>()
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let signed = BASE64_STANDARD.encode(hmac::sign(&key, base.as_bytes()));
        let [other_input, other] = &self.others;
        [
            ("signature-input", format!("sig={input}{other_input}")),
            ("signature", format!("sig=:{signed}:{other}")),
        ]
    }

    /// The call with its signature.
    pub(crate) fn call(&self) -> Call {
        let mut call = self.unsigned();
        for (name, value) in self.headers() {
            call = call.with(name, &value);
        }
        call
    }

    /// The same without its signature.
    pub(crate) fn unsigned(&self) -> Call {
        let mut call = self.signer.client.call(&self.method, &self.path);
        if let Some(body) = &self.body {
            call = call
                .bytes(body.as_bytes())
                .with("content-type", "application/json");
        }
        if let Some(digest) = &self.digest {
            call = call.with("content-digest", digest);
        }
        call
    }
}

/// A component's name as it stands in the list, its parameters behind it.
fn quoted(name: &str) -> String {
    match name.split_once(';') {
        Some((name, parameters)) => format!("\"{name}\";{parameters}"),
        None => format!("\"{name}\""),
    }
}
