//! Settings → Account: the account as its admins see it, its plan and its limits.

use colloquy_model::network;
use maud::html;
use serde_json::{Value, json};

use super::forms::{Form, Shown};
use super::layout::{self, Page, csrf};
use super::parts::{Field, grouped, heading, number, problem, text, time};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Problem, Request, Verb};

const HERE: &str = "/console/settings/account";
const FIELDS: &[&str] = &[
    "name",
    "allowed_ips",
    "auto_close_after_minutes",
    "retention_days",
];

/// The page of the account.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    match (asked.path.get(2..).unwrap_or_default(), asked.form) {
        ([], None) => page(visit, session, &Shown::default()).await,
        ([], Some(form)) => change(visit, session, &form).await,
        _ => Err(no_such_page()),
    }
}

async fn page(visit: &Visit, session: &Session, shown: &Shown) -> Result<Reply, Problem> {
    let (api, principal) = session.of_account()?;
    let path = format!("/admin/v1/accounts/{}", principal.account.view.account_id);
    let found = api.get(&path).await?;
    let account = &found.body;
    let filled = match shown.problem {
        Some(_) => shown.clone(),
        None => Shown {
            form: Form::of(&fields(account)),
            problem: None,
        },
    };
    let content = html! {
        (heading("Account", "", html! {}))
        div.columns {
            section.card {
                h2 { "Settings" }
                (problem(shown, FIELDS))
                form method="post" action=(HERE) {
                    (csrf(session))
                    input type="hidden" name="etag" value=(found.etag.as_deref().unwrap_or_default());
                    (Field { name: "name", label: "Name", hint: "" }.line(&filled, "text", true))
                    (Field { name: "allowed_ips", label: "Addresses from which the account may be used", hint: "By keys, and by people here. One a line, such as 203.0.113.7 or 2001:db8::/32. Empty: all." }.lines(&filled, 2))
                    (Field { name: "auto_close_after_minutes", label: "Close silent conversations after (minutes)", hint: "10 to 525600. Empty: never." }.line(&filled, "number", false))
                    (Field { name: "retention_days", label: "Erase closed conversations after (days)", hint: "1 to 3650, for good, with messages and files. Empty: never." }.line(&filled, "number", false))
                    div.actions { button.button.primary { "Save" } }
                }
            }
            section.card {
                h2 { "Plan and limits" }
                dl.facts {
                    div { dt { "Plan" } dd { (text(account, "plan")) } }
                    div { dt { "Requests a minute" } dd { (grouped(number(account, "rate_per_minute"))) " for each key" } }
                    div { dt { "At most in any minute" } dd { (grouped(number(account, "burst_per_minute"))) } }
                    div { dt { "Customer since" } dd { (time(account, "created_at")) } }
                    div { dt { "ID" } dd { code { (text(account, "account_id")) } } }
                }
                p.faint { "Operators change the plan." }
            }
        }
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new("Account", content),
    ))
}

fn fields(account: &Value) -> Vec<(String, String)> {
    let addresses = account.get("allowed_ips").and_then(Value::as_array);
    let addresses: Vec<&str> = addresses
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let number = |name: &str| {
        let number = account.get(name).and_then(Value::as_u64);
        let text = number.map(|number| number.to_string());
        (name.to_owned(), text.unwrap_or_default())
    };
    vec![
        ("name".to_owned(), text(account, "name").to_owned()),
        ("allowed_ips".to_owned(), addresses.join("\n")),
        number("auto_close_after_minutes"),
        number("retention_days"),
    ]
}

/// Whether a person of the account could not come here any more. Networks that are none are for the
/// interface to refuse.
fn shuts_out(visit: &Visit, session: &Session, networks: &[&str]) -> bool {
    let includes = |text: &&str| {
        let network = network::parse(text);
        network.is_none_or(|network| network::includes(&network, visit.address))
    };
    !session.is_operator() && !networks.is_empty() && !networks.iter().any(includes)
}

async fn change(visit: &Visit, session: &Session, form: &Form) -> Result<Reply, Problem> {
    let (api, principal) = session.of_account()?;
    let path = format!("/admin/v1/accounts/{}", principal.account.view.account_id);
    let addresses: Vec<&str> = form.text("allowed_ips").split_whitespace().collect();
    // What is no number goes on as it was typed: the interface says what is wrong with it.
    let number = |name: &str| {
        let typed = form.filled(name);
        typed.map(|text| text.parse::<u64>().map_or(json!(text), Value::from))
    };
    let body = json!({
        "name": form.text("name").trim(),
        "allowed_ips": addresses,
        "auto_close_after_minutes": number("auto_close_after_minutes"),
        "retention_days": number("retention_days"),
    });
    let request = Request {
        if_match: form.filled("etag"),
        ..Request::new(Verb::Patch, &path, &body)
    };
    let saved = match shuts_out(visit, session, &addresses) {
        true => Err(Problem::invalid(
            "allowed_ips",
            "does not include the address from which you come: it would shut you out",
        )),
        false => api.ask(request).await,
    };
    match saved {
        Ok(_) => Ok(session::say(
            visit,
            Reply::see_other(HERE),
            "The account is saved.",
        )),
        Err(problem) if problem.is_refusal() => {
            let page = page(visit, session, &Shown::again(form, problem)).await?;
            Ok(page.refused())
        }
        Err(problem) => Err(problem),
    }
}
