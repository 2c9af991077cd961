//! `/docs`: the OpenAPI document as a page for people, whole without its one script, and without
//! anything from elsewhere.

mod example;
mod html;
mod schema;

use serde_json::Value;

use super::response::lasting_address;
use html::{Html, list, text};

/// The style sheet of the documentation's page.
pub(super) const STYLE: &str = include_str!("style.css");
/// The script of the documentation's page: its search.
pub(super) const SCRIPT: &str = include_str!("docs.js");

/// Writes the documentation's page from the OpenAPI document.
pub(super) fn page(document: &Value) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    html.raw("<title>Colloquy: the interface</title><link rel=\"stylesheet\" href=\"");
    html.raw(&lasting_address("/docs/style.css", STYLE));
    html.raw("\"><script src=\"");
    html.raw(&lasting_address("/docs/docs.js", SCRIPT));
    html.raw("\" defer></script></head><body>");
    contents(&mut html, document);
    html.raw("<main>");
    introduction(&mut html, document);
    for tag in tags(document) {
        html.raw("<section>").element("h2", tag);
        for entry in operations(document).filter(|entry| is_in(entry.operation, tag)) {
            operation(&mut html, document, &entry);
        }
        html.raw("</section>");
    }
    schemas(&mut html, document);
    html.raw("</main></body></html>");
    html.finish()
}

fn tags(document: &Value) -> impl Iterator<Item = &str> {
    list(document, "/tags").map(|tag| text(tag, "/name"))
}

fn is_in(operation: &Value, tag: &str) -> bool {
    text(operation, "/tags/0") == tag
}

/// An operation of the document, and where it stands there.
struct Entry<'d> {
    path: &'d str,
    method: &'d str,
    operation: &'d Value,
}

fn operations(document: &Value) -> impl Iterator<Item = Entry<'_>> {
    let paths = document
        .pointer("/paths")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| Entry {
            path,
            method,
            operation,
        })
    })
}

fn contents(html: &mut Html, document: &Value) {
    html.raw("<nav aria-label=\"Contents\">");
    // Its script shows it: without one it could do nothing.
    html.raw("<form id=\"search\" role=\"search\" hidden><label for=\"words\">Search the operations <kbd>/</kbd></label>");
    html.raw("<input id=\"words\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\"><output for=\"words\" role=\"status\"></output></form>");
    html.raw("<details open><summary>Contents</summary>");
    for tag in tags(document) {
        html.element("h2", tag).raw("<ul>");
        for Entry { operation, .. } in
            operations(document).filter(|entry| is_in(entry.operation, tag))
        {
            html.raw("<li><a href=\"#")
                .escaped(text(operation, "/operationId"))
                .raw("\">");
            html.escaped(text(operation, "/summary")).raw("</a></li>");
        }
        html.raw("</ul>");
    }
    html.raw("<h2><a href=\"#schemas\">Schemas</a></h2></details></nav>");
}

fn introduction(html: &mut Html, document: &Value) {
    html.raw("<header><h1>Colloquy</h1><p>Version ")
        .escaped(text(document, "/info/version"))
        .raw("</p>");
    html.raw("<p>")
        .prose(text(document, "/info/description"))
        .raw("</p>");
    html.raw("<p>Base address: ")
        .element("code", text(document, "/servers/0/url"));
    html.raw(
        ". The same for machines: <a href=\"/openapi.json\">openapi.json</a> (OpenAPI 3.1).</p>",
    );
    html.raw("<p>Calls under <code>/v1</code> carry <code>Authorization: Bearer</code> and an API key, calls under ");
    html.raw("<code>/admin/v1</code> the operator token. Errors look like this:</p><pre>");
    html.escaped("{\n  \"error\": {\n    \"code\": \"invalid_request\",\n    \"message\": \"The request is not valid: check request parameters\",\n    \"details\": { \"field\": \"customer_id\", \"reason\": \"must be a valid customer ID\" }\n  }\n}");
    html.raw("</pre></header>");
}

fn operation(html: &mut Html, document: &Value, entry: &Entry<'_>) {
    let Entry {
        path,
        method,
        operation,
    } = *entry;
    html.raw("<article id=\"")
        .escaped(text(operation, "/operationId"))
        .raw("\">");
    html.element("h3", text(operation, "/summary"));
    html.raw("<p class=\"route\"><b class=\"")
        .escaped(method)
        .raw("\">")
        .escaped(&method.to_uppercase())
        .raw("</b> ");
    html.raw("<code>");
    for segment in path.split('/').skip(1) {
        // It may break here, and nowhere else.
        html.raw("/<wbr>").escaped(segment);
    }
    html.raw("</code></p><p>")
        .prose(text(operation, "/description"))
        .raw("</p>");
    parameters(html, document, operation);
    if let Some(body) = operation.pointer("/requestBody/content/application~1json/schema") {
        let required = operation.pointer("/requestBody/required") == Some(&Value::Bool(true));
        html.element(
            "h4",
            if required {
                "Body"
            } else {
                "Body (may be missing)"
            },
        );
        schema::table(html, document, body);
    }
    answers(html, document, operation);
    html.element("h4", "Example request")
        .raw("<pre>")
        .escaped(&example::request(document, path, method, operation))
        .raw("</pre>");
    html.element("h4", "Example answer")
        .raw("<pre>")
        .escaped(&example::answer(document, operation))
        .raw("</pre></article>");
}

fn parameters(html: &mut Html, document: &Value, operation: &Value) {
    if list(operation, "/parameters").next().is_none() {
        return;
    }
    html.element("h4", "Parameters")
        .raw("<div class=\"wide\"><table><tr><th>Name</th><th>In</th><th>Value</th><th>Meaning</th></tr>");
    for parameter in list(operation, "/parameters") {
        let shared = parameter.get("$ref").and_then(Value::as_str);
        let parameter = shared
            .and_then(|name| document.pointer(name.trim_start_matches('#')))
            .unwrap_or(parameter);
        html.raw("<tr><td>")
            .element("code", text(parameter, "/name"))
            .raw("</td><td>");
        html.escaped(text(parameter, "/in")).raw("</td><td>");
        html.prose(&schema::words(
            parameter.pointer("/schema").unwrap_or(&Value::Null),
        ))
        .raw("</td><td>");
        html.prose(text(parameter, "/description"))
            .raw("</td></tr>");
    }
    html.raw("</table></div>");
}

fn answers(html: &mut Html, document: &Value, operation: &Value) {
    html.element("h4", "Answers")
        .raw("<div class=\"wide\"><table><tr><th>Status</th><th>Body</th><th>Meaning</th></tr>");
    for (status, answer) in operation
        .pointer("/responses")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let shared = answer.get("$ref").and_then(Value::as_str);
        let answer = shared
            .and_then(|name| document.pointer(name.trim_start_matches('#')))
            .unwrap_or(answer);
        let content = answer
            .pointer("/content")
            .and_then(Value::as_object)
            .and_then(|content| content.iter().next());
        html.raw("<tr><td>")
            .element("code", status)
            .raw("</td><td>");
        if let Some((media_type, content)) = content {
            match content.pointer("/schema/$ref").and_then(Value::as_str) {
                Some(name) => schema::link(html, name),
                None => drop(html.escaped(media_type)),
            }
        }
        html.raw("</td><td>")
            .prose(text(answer, "/description"))
            .raw("</td></tr>");
    }
    html.raw("</table></div>");
}

fn schemas(html: &mut Html, document: &Value) {
    html.raw("<section id=\"schemas\">")
        .element("h2", "Schemas");
    for (name, schema) in document
        .pointer("/components/schemas")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        html.raw("<article id=\"schema-")
            .escaped(name)
            .raw("\">")
            .element("h3", name);
        html.raw("<p>")
            .prose(text(schema, "/description"))
            .raw("</p>");
        schema::table(html, document, schema);
        html.raw("</article>");
    }
    html.raw("</section>");
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "a test fails by panicking")]
    use super::super::{openapi, routes};
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_page_shows_every_operation_and_runs_nothing() {
        let operations = routes::operations();
        let page = page(&openapi::document(
            &operations,
            &Config::of_defaults(),
            "http://127.0.0.1:8080",
        ));
        for operation in &operations {
            assert!(
                page.contains(&format!("id=\"{}\"", operation.id)),
                "{}",
                operation.id
            );
        }
        let scripts: Vec<&str> = page.split("<script").skip(1).collect();
        assert!(matches!(scripts.as_slice(), [one] if one.starts_with(" src=\"/docs/docs.js?v=")));
        for never in ["style=", "src=\"http", "href=\"http", " onclick"] {
            assert!(!page.contains(never), "{never}");
        }
        assert!(
            page.contains("-d '{&quot;customer_id&quot;:&quot;cus_"),
            "a body that can be sent"
        );
    }

    /// Fails unless the value is one that the schema allows, as far as its fields, kinds and bounds
    /// go.
    fn assert_fits(document: &Value, schema: &Value, value: &Value, place: &str) {
        let schema = schema::resolved(document, schema);
        if schema.get("$ref").is_some() {
            return assert_fits(document, schema, value, place);
        }
        let choices = || {
            ["/oneOf", "/anyOf"]
                .into_iter()
                .flat_map(|key| list(schema, key))
        };
        if choices().next().is_some() {
            let fits = |one: &Value| is_of_its_kind(schema::resolved(document, one), value);
            assert!(choices().any(fits), "{place}: {value}");
            return;
        }
        for part in list(schema, "/allOf") {
            assert_fits(document, part, value, place);
        }
        assert!(
            is_of_its_kind(schema, value),
            "{place}: {value} of {schema}"
        );
        let words: Vec<&Value> = list(schema, "/enum").collect();
        assert!(
            words.is_empty() || words.contains(&value),
            "{place}: {value}"
        );
        for name in list(schema, "/required").filter_map(Value::as_str) {
            assert!(value.get(name).is_some(), "{place} lacks {name}");
        }
        let fields = schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields.into_iter().flatten() {
            if let Some(value) = value.get(name) {
                assert_fits(document, field, value, &format!("{place}.{name}"));
            }
        }
        for item in list(value, "") {
            assert_fits(
                document,
                schema.get("items").unwrap_or(&Value::Null),
                item,
                place,
            );
        }
        assert_within_bounds(schema, value, place);
    }

    fn assert_within_bounds(schema: &Value, value: &Value, place: &str) {
        if let (Some(number), Some(least)) = (
            value.as_i64(),
            schema.get("minimum").and_then(Value::as_i64),
        ) {
            assert!(number >= least, "{place}: {value}");
        }
        let prefix = text(schema, "/pattern")
            .strip_prefix('^')
            .and_then(|rest| rest.split_once("_["));
        if let (Some((prefix, _)), Some(id)) = (
            prefix.filter(|(prefix, _)| !prefix.contains('(')),
            value.as_str(),
        ) {
            assert!(
                id.starts_with(&format!("{prefix}_")) && id.len() == prefix.len() + 33,
                "{place}: {id}"
            );
        }
    }

    fn is_of_its_kind(schema: &Value, value: &Value) -> bool {
        let is = |kind: &str| match kind {
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => false,
        };
        match schema.get("type") {
            Some(Value::String(kind)) => is(kind),
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).any(is),
            _ => true,
        }
    }

    #[test]
    fn every_operation_has_an_example_that_fits_its_schemas() {
        let all = routes::operations();
        let document = openapi::document(&all, &Config::of_defaults(), "http://127.0.0.1:8080");
        for Entry {
            path,
            method,
            operation,
        } in operations(&document)
        {
            let request = example::request(&document, path, method, operation);
            let address = request.lines().next().unwrap_or_default();
            assert!(!address.contains(['{', '}']), "{address}");
            let body = "/requestBody/content/application~1json/schema";
            if let Some(schema) = operation.pointer(body) {
                let (_, sent) = request
                    .split_once("-d '")
                    .unwrap_or_else(|| panic!("{request}"));
                let sent: Value = serde_json::from_str(sent.trim_end_matches('\''))
                    .unwrap_or_else(|error| panic!("{request}: {error}"));
                assert_fits(&document, schema, &sent, &format!("{method} {path}"));
            }
            let answer = example::answer(&document, operation);
            assert!(answer.starts_with("HTTP/1.1 "), "{method} {path}: {answer}");
            assert!(
                !answer.ends_with("\n\n\u{2026}"),
                "{method} {path} says nothing"
            );
            for said in [&request, &answer] {
                assert!(!said.contains("\"example\""), "no usual value: {said}");
            }
            let (head, shown) = answer.split_once("\n\n").unwrap_or((&answer, ""));
            if head.ends_with("application/json") {
                let status = head.split(' ').nth(1).unwrap_or_default();
                let schema = format!("/responses/{status}/content/application~1json/schema");
                let shown: Value =
                    serde_json::from_str(shown).unwrap_or_else(|error| panic!("{answer}: {error}"));
                let schema = operation.pointer(&schema).unwrap_or(&Value::Null);
                assert_fits(
                    &document,
                    schema,
                    &shown,
                    &format!("{status} of {method} {path}"),
                );
            }
        }
    }
}
