//! An account's domains on its page for operators: what has to stand in DNS for each, whether it was found,
//! and whose pages may call.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::Visit;
use super::attention::ends_in;
use super::figures::part;
use super::forms::{Form, Shown};
use super::layout::csrf;
use super::parts::{Field, badge, text, time};
use super::reply::Reply;
use super::session::{self, Session};
use crate::http::{Problem, Request, Verb};
use crate::tls::days_until;

/// Whose pages may call the account.
const ORIGINS: &[(&str, &str)] = &[
    (CONFIGURED, "Those that config.toml names"),
    (OWN, "Those named below"),
];
const CONFIGURED: &str = "configured";
const OWN: &str = "own";

/// The fields of an account's form that are about this.
pub(super) fn fields(shown: &Shown) -> Markup {
    let domains = "Host names of its own, one a line, such as chat.example.com. Each is proven by a TXT record, which stands here once it is saved.";
    let origins = "One a line, such as https://app.example.com, or * for all. None: no page of another origin.";
    html! {
        (Field { name: "domains", label: "Domains", hint: domains }.lines(shown, 2))
        (Field { name: "origins", label: "Pages of other origins that may call", hint: "" }.choice(shown, ORIGINS))
        (Field { name: "cors_origins", label: "Its own origins", hint: origins }.lines(shown, 2))
    }
}

/// What these fields ask for: the domains, and the origins, which are null where config.toml says which.
pub(super) fn wanted(form: &Form) -> (Value, Value) {
    let lines = |name: &str| -> Value {
        let lines = form.text(name).split([',', '\n', ' ']).map(str::trim);
        lines.filter(|line| !line.is_empty()).collect()
    };
    let origins = match form.text("origins") == OWN {
        true => lines("cors_origins"),
        false => Value::Null,
    };
    (lines("domains"), origins)
}

/// An account's domains and origins as these fields hold them.
pub(super) fn held(account: &Value) -> [(String, String); 3] {
    let hosts: Vec<&str> = domains(account)
        .map(|domain| text(domain, "host"))
        .collect();
    let origins = part(account, "cors_origins").as_array();
    let which = if origins.is_some() { OWN } else { CONFIGURED };
    let origins: Vec<&str> = origins
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    [
        ("domains".to_owned(), hosts.join("\n")),
        ("origins".to_owned(), which.to_owned()),
        ("cors_origins".to_owned(), origins.join("\n")),
    ]
}

fn domains(account: &Value) -> impl Iterator<Item = &Value> {
    part(account, "domains").as_array().into_iter().flatten()
}

/// The account's domains, with what has to be published for those that are to be proven.
pub(super) fn card(visit: &Visit, session: &Session, here: &str, account: &Value) -> Markup {
    html! {
        @if domains(account).next().is_some() {
            h2.apart #domains { "Its domains" }
            @for (number, domain) in domains(account).enumerate() {
                section.card data-domain=(text(domain, "host")) {
                    h3 {
                        (text(domain, "host")) " "
                        @if text(domain, "proven_at").is_empty() { (badge("pending", "warn")) } @else { (badge("proven", "good")) }
                    }
                    @if text(domain, "proven_at").is_empty() {
                        p { "Publish this record. It is looked up by itself, again and again; once it is found, the domain is the account\u{2019}s and the record may go." }
                        (copied(&format!("txt-name-{number}"), "Name of the TXT record", text(domain, "txt_name")))
                        (copied(&format!("txt-value-{number}"), "Its value", text(domain, "txt_value")))
                        form.inline method="post" action={ (here) "/verify" } {
                            (csrf(session))
                            input type="hidden" name="host" value=(text(domain, "host"));
                            button.button { "Verify now" }
                        }
                    } @else {
                        p.faint { "Proven " (time(domain, "proven_at")) ". It stays so until it is taken from the list below." }
                        (certificate(visit, text(domain, "host")).unwrap_or_default())
                    }
                }
            }
        }
    }
}

/// How the certificate of a proven domain is doing, where this server has certificates issued.
fn certificate(visit: &Visit, host: &str) -> Option<Markup> {
    let acme = visit.app.tls.as_ref()?.acme.as_ref()?;
    let status = acme.status().into_iter().find(|one| one.name == host)?;
    Some(html! {
        p {
            @match status.ends_unix_seconds.map(days_until) {
                Some(days) => { "Its TLS certificate " (ends_in(days)) "." }
                None => { "There is no TLS certificate for it yet." }
            }
            @if let Some(problem) = &status.problem { " " span.faint { "None was issued: " (problem) } }
        }
    })
}

/// A text to copy, beside others on the page.
fn copied(id: &str, label: &str, value: &str) -> Markup {
    html! {
        div.copied {
            label for=(id) { (label) }
            div {
                input id=(id) readonly value=(value) spellcheck="false" autocomplete="off";
                button.button type="button" data-copy={ "#" (id) } { "Copy" }
            }
        }
    }
}

/// Looks a domain's record up at once, and says what was found.
pub(super) async fn verify(
    visit: &Visit,
    session: &Session,
    (id, form): (&str, &Form),
) -> Result<Reply, Problem> {
    let host: String = url::form_urlencoded::byte_serialize(form.text("host").as_bytes()).collect();
    let path = format!("/admin/v1/accounts/{id}/domains/{host}/verify");
    let body = json!({});
    let words = match session.ask(Request::new(Verb::Post, &path, &body)).await {
        Ok(_) => "The record is there: the domain is proven.".to_owned(),
        Err(problem) if problem.is_refusal() => {
            format!("The domain is not proven yet: {}.", problem.reason)
        }
        Err(problem) => return Err(problem),
    };
    let reply = Reply::see_other(&format!("/console/accounts/{id}"));
    Ok(session::say(visit, reply, &words))
}
