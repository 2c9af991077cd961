//! A request and an answer for each operation, as they could be: made from the schemas, with values
//! that such a field usually has.

use serde_json::{Map, Value, json};

use super::html::{list, text};
use super::schema::resolved;

/// Schemas within each other at most: some hold themselves.
const DEPTH_MAX: usize = 8;
/// What identifiers of examples are made of.
const ID: &str = "0190163d8694739b85d52d5e4a4d6d5f";
const TOKEN: &str = "4vKq0tR8bZyWm1XfUo7PsLd9NcHe2JgTa5iQk3BxVrMwYhEzF";

/// The operation as a line for a shell.
pub(super) fn request(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let mut line = String::from("curl -s");
    if !["get", "post"].contains(&method) {
        line.push_str(&format!(" -X {}", method.to_uppercase()));
    }
    let address = format!("{}{}", text(document, "/servers/0/url"), filled(path));
    match required_query(document, operation) {
        Some(query) => line.push_str(&format!(" '{address}?{query}'")),
        None => line.push_str(&format!(" {address}")),
    }
    let security = operation.pointer("/security/0").and_then(Value::as_object);
    if let Some(security) = security {
        let token = if security.contains_key("operatorToken") {
            "$OPERATOR_TOKEN"
        } else {
            "$API_KEY"
        };
        line.push_str(&format!(" \\\n  -H \"Authorization: Bearer {token}\""));
    }
    let content = operation.pointer("/requestBody/content");
    let body = |media: &str| content?.get(media)?.get("schema");
    if let Some(schema) = body("application/json") {
        let example = in_body(document, text(operation, "/tags/0"), schema);
        line.push_str(&format!(
            " \\\n  -H 'Content-Type: application/json' \\\n  -d '{}'",
            example.to_string().replace('\'', "'\\''")
        ));
    }
    if let Some(schema) = body("application/x-www-form-urlencoded") {
        for (name, value) in in_body(document, text(operation, "/tags/0"), schema)
            .as_object()
            .into_iter()
            .flatten()
        {
            line.push_str(&format!(
                " \\\n  --data-urlencode '{name}={}'",
                plain(value)
            ));
        }
    }
    line
}

/// A path with a value in each of its places.
fn filled(path: &str) -> String {
    let segment = |segment: &str| match segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'))
    {
        Some(name) => in_path(name),
        None => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn in_path(name: &str) -> String {
    match name {
        "version" => "3".to_owned(),
        "token" => TOKEN.to_owned(),
        "actor_kind" => "conversation".to_owned(),
        "actor_id" => id_for("conv"),
        "host" => "chat.shop.example".to_owned(),
        _ => prefix_of(name).map_or_else(|| name.to_owned(), id_for),
    }
}

/// The prefix of the identifiers that a field or parameter of this name holds.
fn prefix_of(name: &str) -> Option<&'static str> {
    let prefixes = [
        ("conversation_id", "conv"),
        ("message_id", "msg"),
        ("customer_id", "cus"),
        ("user_id", "usr"),
        ("account_id", "acc"),
        ("webhook_id", "whk"),
        ("delivery_id", "dlv"),
        ("event_id", "evt"),
        ("document_id", "doc"),
        ("share_id", "shr"),
        ("comment_id", "cmt"),
        ("key_id", "key"),
        ("attachment_id", "att"),
        ("erasure_id", "era"),
        ("backup_id", "bak"),
        ("client_id", "cli"),
        ("operator_id", "usr"),
        ("version_id", "ver"),
        ("sender_id", "cus"),
        ("version", "ver"),
        ("base", "ver"),
        ("from", "ver"),
        ("to", "ver"),
    ];
    prefixes
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, prefix)| *prefix)
}

/// Identifiers of one kind are alike in all examples, so that one leads to the other.
fn id_for(prefix: &str) -> String {
    let sum: u32 = prefix.bytes().map(u32::from).sum();
    format!(
        "{prefix}_{}{:03x}",
        ID.get(..29).unwrap_or_default(),
        sum % 4_096
    )
}

fn required_query(document: &Value, operation: &Value) -> Option<String> {
    let required = list(operation, "/parameters")
        .map(|parameter| resolved(document, parameter))
        .filter(|one| {
            text(one, "/in") == "query" && one.get("required") == Some(&Value::Bool(true))
        });
    let tag = text(operation, "/tags/0");
    let pairs: Vec<String> = required
        .map(|one| {
            let name = text(one, "/name");
            let schema = one.get("schema").unwrap_or(&Value::Null);
            let asked = Example {
                document,
                tag,
                fields: Fields::Required,
            };
            format!(
                "{name}={}",
                plain(&asked.value(name, schema, 0)).replace(' ', "+")
            )
        })
        .collect();
    (!pairs.is_empty()).then(|| pairs.join("&"))
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn in_body(document: &Value, tag: &str, schema: &Value) -> Value {
    let example = Example {
        document,
        tag,
        fields: Fields::Required,
    }
    .value("", schema, 0);
    if example != json!({}) {
        return example;
    }
    // Nothing has to be there, but something is to be done: its first fields say what it is about.
    let whole = Example {
        document,
        tag,
        fields: Fields::All,
    }
    .value("", schema, 0);
    let first = whole
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null());
    Value::Object(
        first
            .take(2)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

/// The answer to the operation where all goes well, as it comes over the wire.
pub(super) fn answer(document: &Value, operation: &Value) -> String {
    let responses = operation.pointer("/responses").and_then(Value::as_object);
    let mut successes = responses.into_iter().flatten();
    // What makes something may also find that there is nothing to make: the last one made it.
    let success = successes.rfind(|(status, _)| status.starts_with('2') || *status == "101");
    let Some((status, response)) = success else {
        return String::new();
    };
    let response = resolved(document, response);
    let words = match status.as_str() {
        "101" => "Switching Protocols",
        "201" => "Created",
        "202" => "Accepted",
        "204" => "No Content",
        "206" => "Partial Content",
        _ => "OK",
    };
    let tag = text(operation, "/tags/0");
    let content = response.pointer("/content").and_then(Value::as_object);
    let json = content.and_then(|content| content.get_key_value("application/json"));
    let first = json.or_else(|| content?.iter().next());
    let Some((media, content)) = first else {
        return format!("HTTP/1.1 {status} {words}");
    };
    let body = match content.get("schema") {
        Some(schema) if media == "application/json" => {
            let whole = Example {
                document,
                tag,
                fields: Fields::All,
            }
            .value("", schema, 0);
            serde_json::to_string_pretty(&whole).unwrap_or_default()
        }
        Some(_) | None => of_text(media, text(operation, "/operationId")).to_owned(),
    };
    format!("HTTP/1.1 {status} {words}\nContent-Type: {media}\n\n{body}")
}

/// How a text of this type begins, or all of it.
fn of_text(media: &str, operation: &str) -> &'static str {
    match (media.split(';').next().unwrap_or_default(), operation) {
        ("text/html", _) => "<!doctype html>\u{2026}",
        ("text/css", _) => ":root { color-scheme: light dark; }\u{2026}",
        ("text/javascript", _) => "'use strict';\u{2026}",
        ("text/x-diff", _) => {
            "--- a/document\n+++ b/document\n@@ -1,3 +1,3 @@\n # Refunds\n \n-Within 14 days.\n+Within 30 days."
        }
        ("text/event-stream", _) => "id: 41\nevent: message.created\ndata: {\u{2026}}",
        (_, "getAttachmentContent") => "\u{2026} the bytes of receipt.png \u{2026}",
        (_, "getHealth") => "alive",
        (_, "getReadiness") => "ready",
        (_, "getMetrics") => {
            "# HELP colloquy_http_requests Requests by operation and status.\n# TYPE colloquy_http_requests counter\n\u{2026}"
        }
        _ => "\u{2026}",
    }
}

/// Which fields of objects an example has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    /// Those without which a request is refused.
    Required,
    /// All of them, as every answer has them.
    All,
}

/// What an example is made from.
struct Example<'d> {
    document: &'d Value,
    /// The part of the interface that it is for.
    tag: &'d str,
    fields: Fields,
}

impl Example<'_> {
    /// A value that the schema allows, for a field of this name.
    fn value(&self, name: &str, schema: &Value, depth: usize) -> Value {
        if depth > DEPTH_MAX {
            return Value::Null;
        }
        let is_reference = schema.get("$ref").is_some();
        let schema = resolved(self.document, schema);
        if is_reference && schema.get("$ref").is_some() {
            return self.value(name, schema, depth + 1);
        }
        if let Some(choice) = self.chosen(name, schema) {
            return choice.map_or(Value::Null, |choice| self.value(name, choice, depth + 1));
        }
        if let Some(first) = list(schema, "/enum").find(|word| !word.is_null()) {
            return first.clone();
        }
        let parts: Vec<&Value> = list(schema, "/allOf").collect();
        if !parts.is_empty() {
            let mut whole = Map::new();
            for part in parts {
                if let Value::Object(fields) = self.value(name, part, depth + 1) {
                    whole.extend(fields);
                }
            }
            return Value::Object(whole);
        }
        match kind_of(schema) {
            "integer" | "number" => number(name, schema),
            "boolean" => json!(is_usually_so(name)),
            "array" => {
                let item = schema.get("items").unwrap_or(&Value::Null);
                json!([self.value(singular(name), item, depth + 1)])
            }
            "object" => self.object(name, schema, depth),
            "null" => Value::Null,
            _ if name == "version" && !self.tag.starts_with("Documents") => json!("v1.0.0"),
            _ if name == "content" && self.tag.starts_with("Documents") => {
                json!("# Refunds\n\nWithin 30 days.\n")
            }
            _ if name == "name" && ["Accounts", "Keys"].contains(&self.tag) => json!("Acme shop"),
            _ => json!(string(
                name,
                text(schema, "/pattern"),
                text(schema, "/format")
            )),
        }
    }

    /// What is taken of several choices; none of it where the field usually is null.
    fn chosen<'s>(&self, name: &str, schema: &'s Value) -> Option<Option<&'s Value>> {
        let choices: Vec<&Value> = ["/oneOf", "/anyOf"]
            .into_iter()
            .flat_map(|key| list(schema, key))
            .collect();
        let is_null = |choice: &&Value| text(choice, "/type") == "null";
        let may_be_null =
            choices.iter().any(is_null) || list(schema, "/type").any(|kind| kind == "null");
        if may_be_null && self.fields == Fields::All && is_usually_null(name) {
            return Some(None);
        }
        choices
            .into_iter()
            .find(|choice| !is_null(choice))
            .map(Some)
    }

    fn object(&self, name: &str, schema: &Value, depth: usize) -> Value {
        let Some(fields) = schema.pointer("/properties").and_then(Value::as_object) else {
            return free_object(name);
        };
        let required: Vec<&str> = list(schema, "/required")
            .filter_map(Value::as_str)
            .collect();
        let wanted = |name: &str| self.fields == Fields::All || required.contains(&name);
        let known = fields
            .iter()
            .filter(|(name, _)| wanted(name))
            .map(|(name, field)| (name.clone(), self.value(name, field, depth + 1)));
        Value::Object(known.collect())
    }
}

/// What stands in an object whose fields the schema leaves open.
fn free_object(name: &str) -> Value {
    match name {
        "metadata" => json!({"order": "4711"}),
        "data" => json!({"conversation_id": id_for("conv"), "message_id": id_for("msg")}),
        "details" => json!({"changes": {"title": "Refund policy"}}),
        "live" => json!({"conversation": 3}),
        "passivations" => json!({"idle": 12}),
        "refused" => json!({"mailbox_full": 1}),
        "restarts" => json!({"panic": 1}),
        _ => json!({}),
    }
}

fn kind_of(schema: &Value) -> &str {
    let first = list(schema, "/type")
        .filter_map(Value::as_str)
        .find(|kind| *kind != "null");
    first.unwrap_or_else(|| text(schema, "/type"))
}

fn singular(name: &str) -> &str {
    name.strip_suffix('s').unwrap_or(name)
}

fn is_usually_null(name: &str) -> bool {
    [
        "closed_at",
        "snoozed_until",
        "edited_at",
        "revoked_at",
        "expires_at",
        "disabled_reason",
        "next_attempt_at",
        "last_error",
        "quarantined_until",
        "backoff_until",
        "filter",
        "label",
        "external_id",
        "error",
        "proven_at",
        "retention_days",
        "finished_at",
    ]
    .contains(&name)
}

fn is_usually_so(name: &str) -> bool {
    [
        "enabled",
        "confidential",
        "alive",
        "ready",
        "shared",
        "up_to_date",
        "link_sharing",
    ]
    .contains(&name)
}

fn number(name: &str, schema: &Value) -> Value {
    let usual = match name {
        "limit" => 20,
        "offset" | "uses" | "crashes" | "restarts" | "failures" | "queue" | "lag" | "index" => 0,
        "seq" | "version_number" | "number" | "message_count" => 3,
        "status" => 200,
        "rate_per_minute" => 500,
        "burst_per_minute" => 750,
        "monthly_quota" => 1_000_000,
        "end_line" => 4,
        "max_uses" => 10,
        _ => 1,
    };
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64);
    let low = bound("minimum").unwrap_or(i64::MIN);
    let high = bound("maximum").unwrap_or(i64::MAX);
    json!(usual.max(low).min(high))
}

/// A usual value of what tokens, signatures and the audit trail say.
fn issued(name: &str) -> Option<&'static str> {
    Some(match name {
        "type" => "user",
        "beyond" | "what" => "the record at 4711 was altered",
        "request_id" => "req_5f2d9a1c7be04d3f8a6c1e0b9d7f4a2c",
        "hash" | "link" | "signature" | "digest" => {
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        }
        "request" => "req_5f2d9a1c7be04d3f8a6c1e0b9d7f4a2c",
        "alg" => "EdDSA",
        "crv" => "Ed25519",
        "kty" => "OKP",
        "use" => "sig",
        "kid" => "v0dPq1bXn4Rt",
        "x" => "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        "access_token" => "eyJ0eXAiOiJhdCtqd3QiLCJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ1c3JfIn0.c2ln",
        "token" => "eyJ0eXAiOiJhdCtqd3QiLCJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ1c3JfIn0.c2ln",
        "token_type" => "Bearer",
        "refresh_token" => "ort_018f2f6e5c6a7c3e8d2b1a0f9e8d7c6b4vKq0tR8bZyWm1XfUo7PsLd9NcHe",
        "scope" => "conversations:read conversations:write",
        "scopes_supported" => "conversations:read",
        "client_secret" => "cls_4vKq0tR8bZyWm1XfUo7PsLd9NcHe2JgTa5iQk3BxVrMwY",
        "redirect_uri" => "https://app.example/callback",
        "jti" => "5f2d9a1c7be04d3f8a6c1e0b9d7f4a2c",
        "authorization_endpoint"
        | "token_endpoint"
        | "revocation_endpoint"
        | "introspection_endpoint" => "https://colloquy.example/oauth/token",
        "master_key" | "wrapped_under" => "9f86d081884c7d65",
        "previous_master_key" | "was" => "2c26b46b68ffc68f",
        "jwks_uri" => "https://colloquy.example/.well-known/jwks.json",
        "service_documentation" => "https://colloquy.example/docs",
        "token_endpoint_auth_methods_supported"
        | "revocation_endpoint_auth_methods_supported"
        | "introspection_endpoint_auth_methods_supported" => "client_secret_basic",
        "iss" | "aud" | "issuer" => "https://colloquy.example",
        "response_type" | "response_types_supported" => "code",
        "response_modes_supported" => "query",
        "grant_type" | "grant_types_supported" => "authorization_code",
        "code_challenge_methods_supported" => "S256",
        "signing_secret" => "ss_4vKq0tR8bZyWm1XfUo7PsLd9NcHe2JgTa5iQk3BxVrMwY",
        _ => return None,
    })
}

fn string(name: &str, pattern: &str, format: &str) -> String {
    if let Some((prefix, _)) = pattern.trim_start_matches('^').split_once("_[") {
        // Of several kinds the first will do.
        let prefix = prefix.trim_start_matches('(');
        return id_for(prefix.split(['|', ')']).next().unwrap_or_default());
    }
    match (name, format) {
        ("updated_at" | "last_message_at" | "last_used_at", _) => "2026-03-15T10:42:00.000Z",
        (_, "date-time") => "2026-03-15T10:30:00.000Z",
        ("host" | "domain", _) => "chat.shop.example",
        ("txt_name", _) => "_colloquy.chat.shop.example",
        ("txt_value", _) => "colloquy-verification=4vKq0tR8bZyWm1XfUo7PsLd9NcHe2JgTa5iQk3BxVrMwY",
        ("cors_origin", _) => "https://app.shop.example",
        ("email", _) | (_, "email") => "ada@example.com",
        ("url", _) => "https://example.com/hooks/colloquy",
        ("name", _) => "Ada Lovelace",
        ("title", _) => "Refund policy",
        ("content", _) => "Where is my order 4711?",
        ("filename", _) => "receipt.png",
        ("content_type", _) => "image/png",
        ("sha256", _) => "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ("body", _) => "Does this hold for gift cards, too?",
        ("message" | "reason", _) => "As agreed on the phone",
        ("description", _) => "Tells our shop about messages",
        ("id", _) => return id_for("conv"),
        ("node", _) => "node-1",
        ("address", _) => "10.0.0.5:8080",
        ("region", _) => "eu-central-1",
        ("state", _) => "live",
        ("group", _) => "chat",
        ("day" | "from" | "to", _) => "2026-03-15",
        ("actor", _) => return id_for("usr"),
        ("answer", _) => "ok",
        ("api_version", _) => "1.0",
        ("released", _) => "2024-03-15",
        ("status", _) => "Stable",
        ("change", _) => "Webhook support",
        ("ticket", _) => "tkt_4vKq0tR8bZyWm1XfUo7PsLd9NcHe2JgTa5iQk3BxVrMw",
        ("cause", _) => "panic",
        ("merged", _) => "# Refunds\n\nWithin 30 days.\n",
        ("event" | "action" | "kind", _) => "message.created",
        ("prefix", _) => "sk_test_",
        ("last4", _) => "x7Qd",
        ("key", _) => "sk_test_4vKq0tR8bZyWm1XfUo7PsLd9NcHe2JgTa5iQk3BxVrMwY",
        ("secret", _) => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ("label", _) => "v1.2",
        ("branch" | "source", _) => "draft",
        ("target", _) => "main",
        ("external_id", _) => "crm-4711",
        ("allowed_ip", _) => "203.0.113.0/24",
        ("password", _) => "open sesame",
        ("nonce", _) => "9f1c2ab47d03e856",
        ("q", _) => "refund",
        ("client_id", _) => return id_for("cli"),
        ("sub", _) => return id_for("usr"),
        _ => {
            let other = || prefix_of(name).map_or_else(|| "example".to_owned(), id_for);
            return issued(name).map_or_else(other, str::to_owned);
        }
    }
    .to_owned()
}
