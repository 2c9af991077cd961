//! Schemas in words: what a value may be, and a table of an object's fields.

use serde_json::Value;

use super::html::{Html, list, text};

const SCHEMAS: &str = "#/components/schemas/";

/// A link to a schema's own entry.
pub(super) fn link(html: &mut Html, reference: &str) {
    let name = reference.trim_start_matches(SCHEMAS);
    html.raw("<a href=\"#schema-")
        .escaped(name)
        .raw("\">")
        .escaped(name)
        .raw("</a>");
}

/// The schema that a reference leads to, or the schema itself.
pub(super) fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.pointer("/$ref").and_then(Value::as_str);
    reference
        .and_then(|name| document.pointer(name.trim_start_matches('#')))
        .unwrap_or(schema)
}

/// An object's fields as a table; of anything else a line of words.
pub(super) fn table(html: &mut Html, document: &Value, schema: &Value) {
    let schema = resolved(document, schema);
    let Some(fields) = schema
        .pointer("/properties")
        .and_then(Value::as_object)
        .filter(|fields| !fields.is_empty())
    else {
        html.raw("<p>").prose(&words(schema)).raw("</p>");
        return;
    };
    let required: Vec<&str> = list(schema, "/required")
        .filter_map(Value::as_str)
        .collect();
    html.raw("<div class=\"wide\"><table><tr><th>Field</th><th>Value</th><th>Meaning</th></tr>");
    for (name, field) in fields {
        html.raw("<tr><td>").element("code", name);
        if required.contains(&name.as_str()) {
            html.raw(" <i>required</i>");
        }
        html.raw("</td><td>");
        value(html, field);
        let description = text(field, "/description");
        html.raw("</td><td>").prose(description).raw("</td></tr>");
    }
    html.raw("</table></div>");
}

fn value(html: &mut Html, schema: &Value) {
    if let Some(reference) = schema.pointer("/$ref").and_then(Value::as_str) {
        return link(html, reference);
    }
    let choices: Vec<&Value> = ["/oneOf", "/anyOf", "/allOf"]
        .into_iter()
        .flat_map(|key| list(schema, key))
        .collect();
    if choices.is_empty() {
        html.prose(&words(schema));
        if let Some(items) = schema.pointer("/items") {
            html.raw(" of ");
            value(html, items);
        }
        return;
    }
    for (index, choice) in choices.into_iter().enumerate() {
        if index > 0 {
            html.raw(" or ");
        }
        value(html, choice);
    }
}

/// Says in words what a value of this schema may be.
pub(super) fn words(schema: &Value) -> String {
    let allowed: Vec<String> = list(schema, "/enum")
        .map(|word| format!("`{}`", plain(word)))
        .collect();
    if !allowed.is_empty() {
        return allowed.join(", ");
    }
    let kinds = match schema.pointer("/type") {
        Some(Value::Array(kinds)) => kinds
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        Some(kind) => plain(kind),
        None => text(schema, "/$ref").trim_start_matches(SCHEMAS).to_owned(),
    };
    let mut words = kinds;
    for (key, before) in [
        ("format", ""),
        ("minimum", "at least "),
        ("maximum", "at most "),
        ("minLength", "characters: at least "),
        ("maxLength", "at most "),
    ] {
        if let Some(bound) = schema.get(key) {
            words.push_str(&format!(", {before}{}", plain(bound)));
        }
    }
    words
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
