//! `/docs`: the OpenAPI document as a page for people, without scripts and without anything from
//! elsewhere.

pub(super) mod html;
mod schema;

use serde_json::Value;

use html::{Html, list, text};

/// The style sheet of the documentation's page.
pub(super) const STYLE: &str = include_str!("style.css");

/// Writes the documentation's page from the OpenAPI document.
pub(super) fn page(document: &Value) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    html.raw("<title>Colloquy: the interface</title><link rel=\"stylesheet\" href=\"/docs/style.css\"></head><body>");
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
    html.raw("<nav><details open><summary>Contents</summary>");
    for tag in tags(document) {
        html.element("h3", tag).raw("<ul>");
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
    html.raw("<h3><a href=\"#schemas\">Schemas</a></h3></details></nav>");
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
    html.element("code", path)
        .raw("</p><p>")
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
    html.element("h4", "Example")
        .raw("<pre>")
        .escaped(&curl(document, path, method, operation))
        .raw("</pre></article>");
}

fn parameters(html: &mut Html, document: &Value, operation: &Value) {
    if list(operation, "/parameters").next().is_none() {
        return;
    }
    html.element("h4", "Parameters")
        .raw("<table><tr><th>Name</th><th>In</th><th>Value</th><th></th></tr>");
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
    html.raw("</table>");
}

fn answers(html: &mut Html, document: &Value, operation: &Value) {
    html.element("h4", "Answers")
        .raw("<table><tr><th>Status</th><th>Body</th><th></th></tr>");
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
    html.raw("</table>");
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

fn curl(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let mut line = String::from("curl -s");
    if !["get", "post"].contains(&method) {
        line.push_str(&format!(" -X {}", method.to_uppercase()));
    }
    line.push_str(&format!(" {}{path}", text(document, "/servers/0/url")));
    let security = operation.pointer("/security/0").and_then(Value::as_object);
    if let Some(security) = security {
        let token = if security.contains_key("operatorToken") {
            "$OPERATOR_TOKEN"
        } else {
            "$API_KEY"
        };
        line.push_str(&format!(" \\\n  -H \"Authorization: Bearer {token}\""));
    }
    if let Some(body) = operation.pointer("/requestBody/content/application~1json/schema") {
        let example = serde_json::to_string(&schema::example(document, body)).unwrap_or_default();
        line.push_str(&format!(
            " \\\n  -H 'Content-Type: application/json' \\\n  -d '{example}'"
        ));
    }
    line
}

#[cfg(test)]
mod tests {
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
        for never in ["<script", "style=", "https://"] {
            assert!(!page.contains(never), "{never}");
        }
        assert!(
            page.contains("-d '{&quot;customer_id&quot;:&quot;cus_"),
            "a body that can be sent"
        );
    }
}
