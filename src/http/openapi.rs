//! The OpenAPI 3.1 document, made from the table that also routes: what an operation can answer
//! follows from what it is.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use colloquy_model::key::Permission;

use super::body::{Encoding, FORM};
use super::openapi_bounds;
use super::openapi_responses::{is_limited, refusals_by_status, responses, tagged};
use super::openapi_schemas::{headers, page_schema, reference, shared_schemas};
use super::operation::{AuthRequirement, Operation, Success, Verb};
use crate::config::{Config, Limits};

/// What the operations say, gathered for the document.
#[derive(Default)]
struct Gathered<'o> {
    paths: BTreeMap<&'o str, Map<String, Value>>,
    schemas: BTreeMap<String, Value>,
    responses: BTreeMap<String, Value>,
    parameters: BTreeMap<String, Value>,
    tags: Vec<Value>,
}

impl<'o> Gathered<'o> {
    fn add(&mut self, operation: &'o Operation, limits: &Limits) {
        self.paths.entry(operation.path).or_default().insert(
            operation.verb.word().to_lowercase(),
            entry(operation, limits),
        );
        self.schemas.extend(operation.schemas.iter().cloned());
        for parameter in path_parameters(operation.path)
            .into_iter()
            .chain(header_parameters(operation))
        {
            let name = parameter
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            self.parameters.insert(name, parameter);
        }
        self.responses.extend(
            refusals_by_status(operation)
                .into_iter()
                .map(|refusal| (refusal.name(), refusal.response())),
        );
        if let Success::Page(item) = &operation.success {
            self.schemas
                .insert(format!("{item}Page"), page_schema(item));
        }
        let tag = json!({"name": operation.tag});
        if !self.tags.contains(&tag) {
            self.tags.push(tag);
        }
    }
}

/// Writes the document; the bounds that it states are those of the settings.
pub(super) fn document(operations: &[Operation], config: &Config, public_url: &str) -> Value {
    let mut gathered = Gathered {
        schemas: shared_schemas(),
        ..Gathered::default()
    };
    for operation in operations {
        gathered.add(operation, &config.limits);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Colloquy",
            "version": "1.0.0",
            "description": format!(
                "The server behind an AI-assisted customer-service platform. Every error has the same shape; every answer \
                 names its request in `X-Request-Id`; every POST may be repeated under an `Idempotency-Key`. {}",
                openapi_bounds::in_words(config)
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": public_url}],
        "tags": gathered.tags,
        "paths": gathered.paths,
        "components": {
            "schemas": gathered.schemas,
            "responses": gathered.responses,
            "parameters": gathered.parameters,
            "headers": headers(),
            "securitySchemes": {
                "apiKey": {"type": "http", "scheme": "bearer",
                    "description": "An API key: `sk_test_…`, `sk_prod_…` or `sk_read_…`. Of the scopes that stand with it at an \
                        operation, each in an entry of its own, the key needs one. A key that is narrowed to no scopes has all but \
                        `conversations:assigned`, which lets it read and write the conversations that are assigned to its user."},
                "ticket": {"type": "apiKey", "in": "query", "name": "ticket",
                    "description": "A ticket that was made with an API key, used once."},
                "oauthClient": {"type": "http", "scheme": "basic", "description": "An OAuth client's `client_id` and `client_secret`, which may stand in the form instead."},
                "operatorToken": {"type": "http", "scheme": "bearer", "description": "An operator's token: `op_…`."},
            },
        },
    })
}

fn entry(operation: &Operation, limits: &Limits) -> Value {
    let shared = |parameter: &Value| {
        let name = parameter
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        json!({"$ref": format!("#/components/parameters/{name}")})
    };
    let mut parameters: Vec<Value> = path_parameters(operation.path).iter().map(shared).collect();
    parameters.extend(operation.parameters.iter().cloned().map(plain_parameter));
    parameters.extend(header_parameters(operation).iter().map(shared));
    let mut entry = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": description(operation),
        "parameters": parameters,
        "security": security(operation.auth),
        "responses": responses(operation),
    });
    if let (Some(body), Some(entry)) = (&operation.body, entry.as_object_mut()) {
        let content = json!({"schema": reference(&body.name)});
        let first = match operation.encoding {
            Encoding::Form => FORM,
            Encoding::Json => "application/json",
            Encoding::File => "multipart/form-data",
        };
        let mut media = Map::from_iter([(first.to_owned(), content.clone())]);
        if operation.encoding == Encoding::File {
            let bytes = json!({"schema": {"type": "string", "format": "binary"}});
            media.insert("application/octet-stream".to_owned(), bytes);
        }
        if operation.verb == Verb::Patch {
            media.insert("application/merge-patch+json".to_owned(), content);
        }
        let words = openapi_bounds::of_body(operation, limits);
        entry.insert(
            "requestBody".to_owned(),
            json!({"description": words, "required": body.is_required, "content": media}),
        );
    }
    entry
}

fn description(operation: &Operation) -> String {
    let needs = match operation.auth {
        AuthRequirement::Public
        | AuthRequirement::ShareLink
        | AuthRequirement::OAuthClient
        | AuthRequirement::Key(&[])
        | AuthRequirement::KeyOrTicket(&[]) => {
            return operation.description.to_owned();
        }
        AuthRequirement::Operator => {
            "the operator token; a client certificate too, where the settings name who vouches for operators".to_owned()
        }
        AuthRequirement::Metrics => {
            "the operator token, unless the server's settings open it".to_owned()
        }
        AuthRequirement::Key(permissions) | AuthRequirement::KeyOrTicket(permissions) => {
            let words = permissions
                .iter()
                .filter_map(|one| serde_json::to_value(one).ok());
            let words: Vec<String> = words
                .filter_map(|word| Some(format!("`{}`", word.as_str()?)))
                .collect();
            format!("the scope {}", words.join(" or "))
        }
    };
    format!("{} Needs {needs}.", operation.description)
}

/// What lets somebody in: each entry is enough by itself, and names the scope that it takes.
fn security(auth: AuthRequirement) -> Value {
    let by_key = |permissions: &[Permission]| match permissions {
        [] => vec![json!({"apiKey": []})],
        some => some.iter().map(|one| json!({"apiKey": [one]})).collect(),
    };
    match auth {
        AuthRequirement::Public | AuthRequirement::ShareLink => json!([]),
        AuthRequirement::OAuthClient => json!([{"oauthClient": []}, {}]),
        AuthRequirement::Key(permissions) => json!(by_key(permissions)),
        AuthRequirement::KeyOrTicket(permissions) => {
            let mut all = by_key(permissions);
            all.push(json!({"ticket": []}));
            json!(all)
        }
        AuthRequirement::Operator | AuthRequirement::Metrics => json!([{"operatorToken": []}]),
    }
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let prefix = |name: &str| match name {
        "conversation_id" => "conv",
        "message_id" => "msg",
        "customer_id" => "cus",
        "user_id" | "operator_id" => "usr",
        "account_id" => "acc",
        "webhook_id" => "whk",
        "delivery_id" => "dlv",
        "document_id" => "doc",
        "version_id" => "ver",
        "share_id" => "shr",
        "comment_id" => "cmt",
        "client_id" => "cli",
        "attachment_id" => "att",
        "erasure_id" => "era",
        "backup_id" => "bak",
        "node" => "node",
        _ => "key",
    };
    names
        .map(|name| {
            let pattern = match name {
                "version" => "^[A-Za-z0-9._-]{1,100}$".to_owned(),
                "host" => "^[a-z0-9-]{1,63}(\\.[a-z0-9-]{1,63})+$".to_owned(),
                "token" => "^[A-Za-z0-9]{49}$".to_owned(),
                "actor_kind" => "^[a-z_]{1,40}$".to_owned(),
                "actor_id" => "^[a-z0-9_]{1,50}$".to_owned(),
                _ => format!("^{}_[0-9a-f]{{12}}7[0-9a-f]{{3}}[89ab][0-9a-f]{{15}}$", prefix(name)),
            };
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "pattern": pattern}})
        })
        .collect()
}

/// A parameter is there or not, but never null.
fn plain_parameter(mut parameter: Value) -> Value {
    if let Some(schema) = parameter.get_mut("schema") {
        without_null(schema);
    }
    parameter
}

fn without_null(schema: &mut Value) {
    let null = json!({"type": "null"});
    if let Some(Value::Array(choices)) = schema.get_mut("oneOf") {
        choices.retain(|choice| *choice != null);
        if let [only] = choices.as_slice() {
            *schema = only.clone();
        }
    }
    if let Some(kind) = schema.get_mut("type") {
        let only = kind
            .as_array()
            .and_then(|kinds| kinds.iter().find(|one| *one != "null").cloned());
        if let Some(only) = only {
            *kind = only;
        }
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
}

fn header(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": "header", "required": false, "description": description, "schema": schema})
}

/// The headers of an operation that takes a file, or gives one.
fn file_parameters(operation: &Operation) -> Vec<Value> {
    let text = || json!({"type": "string"});
    let mut all = Vec::new();
    if operation.encoding == Encoding::File {
        let words = "The file's name, where the body is the file (RFC 6266).";
        all.push(header("Content-Disposition", words, text()));
    }
    if matches!(operation.success, Success::File) {
        let range = "The one part that is wanted, such as `bytes=0-1023`; of several at once the whole is answered.";
        let condition = "Only if the content still has this tag; otherwise the whole is answered.";
        all.push(header("Range", range, text()));
        all.push(header("If-Range", condition, text()));
    }
    all
}

fn header_parameters(operation: &Operation) -> Vec<Value> {
    let text = json!({"type": "string"});
    let mut all = vec![header(
        "X-Request-Id",
        "Your name for this request; the answer shows it.",
        json!({"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"}),
    )];
    if is_limited(operation) {
        let id = json!({"type": "string", "pattern": "^usr_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$"});
        all.push(header(
            "X-Acting-User",
            "The user for whom the key acts.",
            id,
        ));
    }
    if operation.auth == AuthRequirement::ShareLink && operation.encoding == Encoding::Json {
        all.push(header(
            "X-Share-Password",
            "The link's password, where it has one.",
            text.clone(),
        ));
    }
    if operation.repeatable {
        let key = json!({"type": "string", "pattern": "^[A-Za-z0-9._-]{1,255}$"});
        all.push(header(
            "Idempotency-Key",
            "The same key and request: done once, answered the same.",
            key,
        ));
    }
    all.extend(file_parameters(operation));
    if operation.conditional {
        all.push(header(
            "If-Match",
            "Only if the resource still has one of these tags.",
            text.clone(),
        ));
    }
    if operation.streams {
        let words = "Where a stream goes on: behind this event; it wins over `after`.";
        all.push(header("Last-Event-ID", words, text.clone()));
    }
    if tagged(operation) && operation.verb == Verb::Get {
        all.push(header(
            "If-None-Match",
            "Only if the resource has none of these tags: otherwise 304.",
            text,
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test fails by panicking"
    )]
    use std::collections::HashSet;

    use super::super::query::OFFSET_MAX;
    use super::super::routes;
    use super::*;

    fn documented(operations: &[Operation]) -> Value {
        document(operations, &Config::of_defaults(), "http://localhost")
    }

    fn references<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                into.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|inner| references(inner, into));
            }
            Value::Array(items) => items.iter().for_each(|inner| references(inner, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = documented(&routes::operations());
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 100);
        for name in found {
            assert!(
                document.pointer(name.trim_start_matches('#')).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_schemas_name_means_one_schema() {
        let operations = routes::operations();
        let mut known: BTreeMap<&str, &Value> = BTreeMap::new();
        for (name, schema) in operations.iter().flat_map(|operation| &operation.schemas) {
            assert_eq!(
                *known.entry(name).or_insert(schema),
                schema,
                "{name} means two"
            );
        }
    }

    #[test]
    fn choices_stand_in_it_as_they_are_written() {
        let document = documented(&routes::operations());
        let words = |schema: &str| document["components"]["schemas"][schema]["enum"].clone();
        assert_eq!(
            words("ContentType"),
            json!([
                "text/markdown",
                "text/plain",
                "text/html",
                "application/json"
            ])
        );
        assert_eq!(
            words("MergeStrategy"),
            json!(["fail", "ours", "theirs", "union"])
        );
        assert_eq!(
            words("DocumentRole"),
            json!(["viewer", "commenter", "editor", "owner"])
        );
    }

    #[test]
    fn every_operation_says_all_that_it_can_answer() {
        let operations = routes::operations();
        let document = documented(&operations);
        let mut ids = HashSet::new();
        for operation in &operations {
            let entry = &document["paths"][operation.path][operation.verb.word().to_lowercase()];
            assert!(ids.insert(operation.id), "{} twice", operation.id);
            let responses = entry["responses"].as_object().unwrap();
            assert!(
                responses
                    .keys()
                    .any(|status| status.starts_with('2') || status == "101"),
                "{}",
                operation.id
            );
            for status in ["400", "431", "500", "503"] {
                let shared = responses[status]["$ref"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches('#');
                let schema =
                    &document.pointer(shared).unwrap()["content"]["application/json"]["schema"];
                let is_of_oauth_clients = schema.get("anyOf").is_some();
                let error = if is_of_oauth_clients {
                    &schema["anyOf"][0]
                } else {
                    schema
                };
                assert_eq!(
                    error["$ref"], "#/components/schemas/Error",
                    "{} {status}",
                    operation.id
                );
                assert_eq!(
                    is_of_oauth_clients,
                    operation.auth == AuthRequirement::OAuthClient,
                    "{} {status}",
                    operation.id
                );
            }
            assert_eq!(
                responses.contains_key("401"),
                operation.auth != AuthRequirement::Public,
                "{}",
                operation.id
            );
            assert!(
                !operation.summary.is_empty() && !operation.tag.is_empty(),
                "{}",
                operation.id
            );
        }
    }

    #[test]
    fn what_is_answered_alike_stands_in_it_once() {
        let operations = routes::operations();
        let text = documented(&operations).to_string();
        assert!(
            text.len() < 3_100 * operations.len(),
            "{} bytes",
            text.len()
        );
    }

    #[test]
    fn sending_a_message_has_the_statuses_of_the_contract() {
        let document = documented(&routes::operations());
        let entry = &document["paths"]["/v1/conversations/{conversation_id}/messages"]["post"];
        let statuses: Vec<&String> = entry["responses"].as_object().unwrap().keys().collect();
        let expected = [
            "201", "400", "401", "403", "404", "408", "409", "412", "413", "415", "422", "429",
            "431", "500", "503",
        ];
        assert_eq!(statuses, expected);
    }

    #[test]
    fn parameters_have_their_bounds_and_are_never_null() {
        let document = documented(&routes::operations());
        let list = &document["paths"]["/v1/conversations"]["get"]["parameters"];
        let of = |name: &str| {
            list.as_array()
                .unwrap()
                .iter()
                .find(|one| one["name"] == name)
                .unwrap()["schema"]
                .clone()
        };
        assert_eq!(
            (&of("limit")["minimum"], &of("limit")["maximum"]),
            (&json!(1), &json!(100))
        );
        assert_eq!(of("offset")["maximum"], json!(OFFSET_MAX));
        assert_eq!(of("status")["enum"], json!(["active", "pending", "closed"]));
        assert!(
            of("customer_id")["pattern"]
                .as_str()
                .unwrap()
                .starts_with("^cus_")
        );
        assert!(!list.to_string().contains("null"), "{list}");
    }
}
