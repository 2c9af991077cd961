//! What of the interface will go away: the headers that say so, and where the documents do.

use std::collections::HashMap;
use std::sync::Arc;

use actix_web::HttpResponseBuilder;
use actix_web::http::header::{HeaderName, HeaderValue, LINK};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::operation::Operation;
use crate::config::{Config, ConfigError, Deprecation};

/// From when on it is deprecated (RFC 9745).
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// From when on it may be gone (RFC 8594).
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// What is deprecated of one operation.
struct Deprecated {
    /// The parameter or field of the body; none: the operation.
    field: Option<String>,
    headers: [(HeaderName, HeaderValue); 3],
    said: Deprecation,
}

/// What is deprecated, by the operation's number in the table of routes.
pub(crate) struct Deprecations(Vec<Vec<Arc<Deprecated>>>);

/// What of a request is deprecated.
#[derive(Clone, Default)]
pub(crate) struct DeprecatedUse(Vec<Arc<Deprecated>>);

impl DeprecatedUse {
    /// Says what the request used.
    pub(crate) fn tell(&self, response: &mut HttpResponseBuilder) {
        for header in self.0.iter().flat_map(|one| &one.headers) {
            response.append_header(header.clone());
        }
    }
}

impl Deprecations {
    /// Those that the settings name.
    ///
    /// # Errors
    /// There is no such route, or it has no such field.
    pub(crate) fn new(operations: &[Operation], config: &Config) -> Result<Self, ConfigError> {
        let mut all: Vec<Vec<Arc<Deprecated>>> = operations.iter().map(|_| Vec::new()).collect();
        for (index, said) in config.deprecations.iter().enumerate() {
            let route = |operation: &Operation| {
                format!("{} {}", operation.verb.word(), operation.path) == said.route
            };
            let mut rows = operations.iter().zip(&mut all);
            let Some((operation, of_it)) = rows.find(|(one, _)| route(one)) else {
                let right = "must be a route of /openapi.json, such as \"POST /v1/customers\"";
                return Err(bad(index, ("route", &said.route), right.to_owned()));
            };
            let fields = fields(operation);
            if !said.field.is_empty() && !fields.contains(&said.field) {
                let right = match fields.is_empty() {
                    true => "must be left out: the route has no fields".to_owned(),
                    false => format!("must be one of {}", fields.join(", ")),
                };
                return Err(bad(index, ("field", &said.field), right));
            }
            of_it.push(Arc::new(Deprecated {
                field: Some(said.field.clone()).filter(|field| !field.is_empty()),
                headers: headers(said),
                said: said.clone(),
            }));
        }
        Ok(Deprecations(all))
    }

    /// What a request to this operation uses before its body is known.
    pub(crate) fn used(&self, number: usize, query: &str) -> DeprecatedUse {
        let names = |field: &str| {
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs.any(|(name, _)| name == field)
        };
        let all = self.of(number).iter();
        let used = all.filter(|one| one.field.as_deref().is_none_or(names));
        DeprecatedUse(used.cloned().collect())
    }

    /// Adds what its body uses; what is no object uses nothing.
    pub(crate) fn add_used(&self, number: usize, body: &[u8], used: &mut DeprecatedUse) {
        let all = self.of(number);
        if all.iter().all(|one| one.field.is_none()) {
            return;
        }
        let given: HashMap<String, IgnoredAny> = serde_json::from_slice(body).unwrap_or_default();
        for one in all {
            let is_given = one
                .field
                .as_ref()
                .is_some_and(|one| given.contains_key(one));
            if is_given && !used.0.iter().any(|known| Arc::ptr_eq(known, one)) {
                used.0.push(Arc::clone(one));
            }
        }
    }

    /// Marks it in the OpenAPI document.
    pub(crate) fn mark(&self, operations: &[Operation], document: &mut Value) {
        for (operation, all) in operations.iter().zip(&self.0) {
            for one in all {
                one.mark(operation, document);
            }
        }
    }

    /// Every entry of the settings, in the order of the table of routes: what the changelog tells.
    pub(crate) fn announced(&self) -> impl Iterator<Item = &Deprecation> {
        self.0.iter().flatten().map(|one| &one.said)
    }

    fn of(&self, number: usize) -> &[Arc<Deprecated>] {
        self.0.get(number).map_or(&[], Vec::as_slice)
    }
}

impl Deprecated {
    fn mark(&self, operation: &Operation, document: &mut Value) {
        let method = operation.verb.word().to_lowercase();
        let path = operation.path.replace('~', "~0").replace('/', "~1");
        let at = format!("/paths/{path}/{method}");
        let words = self.said.words();
        let Some(field) = &self.field else {
            if let Some(entry) = document.pointer_mut(&at).and_then(Value::as_object_mut) {
                entry.insert("deprecated".to_owned(), json!(true));
                say(entry, &words);
            }
            return;
        };
        let parameters = document.pointer_mut(&format!("{at}/parameters"));
        let parameters = parameters.and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            if parameter.get("name").and_then(Value::as_str) == Some(field)
                && let Some(parameter) = parameter.as_object_mut()
            {
                parameter.insert("deprecated".to_owned(), json!(true));
                say(parameter, &words);
            }
        }
        if let Some(body) = &operation.body {
            let at = format!("/components/schemas/{}/properties/{field}", body.name);
            if let Some(property) = document.pointer_mut(&at).and_then(Value::as_object_mut) {
                property.insert("deprecated".to_owned(), json!(true));
                say(property, &words);
            }
        }
    }
}

/// Adds a sentence to a description.
fn say(of: &mut serde_json::Map<String, Value>, words: &str) {
    let before = of.get("description").and_then(Value::as_str);
    let said = format!("{} {words}", before.unwrap_or_default());
    of.insert("description".to_owned(), json!(said.trim_start()));
}

fn bad(index: usize, (key, value): (&str, &str), right: String) -> ConfigError {
    ConfigError::Bad {
        origin: "[[deprecations]]".to_owned(),
        key: format!("deprecations[{index}].{key}"),
        value: format!("{value:?}"),
        right,
    }
}

/// What a request to an operation can name: parameters of its query and fields of its body.
fn fields(operation: &Operation) -> Vec<String> {
    let parameters = operation.parameters.iter();
    let parameters = parameters.filter_map(|one| one.get("name")?.as_str());
    let body = operation.body.as_ref();
    let schema = body.and_then(|body| {
        let mut schemas = operation.schemas.iter();
        schemas.find(|(name, _)| *name == body.name)
    });
    let properties = schema.and_then(|(_, schema)| schema.get("properties")?.as_object());
    let properties = properties.into_iter().flat_map(serde_json::Map::keys);
    let all = parameters.map(str::to_owned).chain(properties.cloned());
    all.collect()
}

fn headers(said: &Deprecation) -> [(HeaderName, HeaderValue); 3] {
    let value = |text: String| HeaderValue::from_str(&text);
    let since = format!("@{}", said.since_seconds());
    let sunset = httpdate::fmt_http_date(said.sunset_at());
    let link = format!("<{}>; rel=\"deprecation\"", said.link);
    [(DEPRECATION, since), (SUNSET, sunset), (LINK, link)].map(|(name, text)| {
        // Dates have no other form, and what an address may hold was checked.
        let value = value(text).unwrap_or(HeaderValue::from_static(""));
        (name, value)
    })
}
