//! Accounts: the list, a new one, one with its limits and keys, and the way to its own side.

use colloquy_actors::accounts::ChangeSession;
use colloquy_model::id::AccountId;
use maud::{Markup, html};
use serde_json::{Number, Value, json};

use super::figures::part;
use super::forms::{Form, Shown, object};
use super::layout::{self, Page, csrf};
use super::parts::{
    Field, PER_PAGE, badge, empty, grouped, heading, offset, pages, problem, target, text, time,
};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit, domains};
use crate::console::no_such_page;
use crate::http::{Found, Kind, Problem, Request, Verb};

const HERE: &str = "/console/accounts";
const FIELDS: &[&str] = &[
    "name",
    "plan",
    "rate_per_minute",
    "burst_per_minute",
    "allowed_ips",
    "auto_close_after_minutes",
    "domains",
    "cors_origins",
    "retention_days",
];
const PLANS: &[(&str, &str)] = &[
    ("basic", "Basic: the rate that config.toml gives it"),
    ("pro", "Pro: the rate that config.toml gives it"),
    ("enterprise", "Enterprise: a rate of its own"),
];
/// Pages of an account that its opening may lead to; the first is the usual one.
const SIDES: &[&str] = &["/console/inbox", "/console/settings/api-keys"];

/// The pages of accounts.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_operator()?;
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) => list(visit, session).await,
        (["new"], None) => {
            let nothing = Shown::default();
            Ok(new_page(visit, session, &nothing))
        }
        ([], Some(form)) => create(visit, session, &form).await,
        ([id], None) => one(visit, session, id, &Shown::default()).await,
        ([id], Some(form)) => change(visit, session, id, &form).await,
        ([id, "verify"], Some(form)) => domains::verify(visit, session, (id, &form)).await,
        ([id, "open"], Some(form)) => open(visit, session, id, &form).await,
        _ => Err(no_such_page()),
    }
}

async fn list(visit: &Visit, session: &Session) -> Result<Reply, Problem> {
    let offset = offset(visit).to_string();
    let limit = PER_PAGE.to_string();
    let asked = target(
        "/admin/v1/accounts",
        &[("limit", &limit), ("offset", &offset)],
    );
    let found = session.get(&asked).await?;
    let new = html! { a.button.primary href={ (HERE) "/new" } { "Create an account" } };
    let content = html! {
        (heading("Accounts", "The customers of the platform. Each owns all of its data, and sees no other's.", new))
        @if found.items().is_empty() {
            (empty("No accounts yet", "Create one, and give it keys.", html! {}))
        } @else {
            div.table tabindex="0" { table {
                caption.hidden { "Accounts" }
                thead { tr { th { "Name" } th { "Plan" } th.number { "Requests a minute" } th { "Addresses" } th { "Made" } } }
                tbody data-list {
                    @for account in found.items() {
                        tr {
                            td {
                                a href={ (HERE) "/" (text(account, "account_id")) } data-item { (text(account, "name")) }
                                @if is_forgotten(account) { " " (badge("forgotten", "quiet")) }
                            }
                            td { (text(account, "plan")) }
                            td.number { (amount(account, "rate_per_minute")) }
                            td { (addresses(account)) }
                            td { (time(account, "created_at")) }
                        }
                    }
                }
            } }
            (pages(visit, &found))
        }
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new("Accounts", content),
    ))
}

fn is_forgotten(account: &Value) -> bool {
    !text(account, "forgotten_at").is_empty()
}

/// A number of an account as it is shown; `—` where there is none.
fn amount(account: &Value, name: &str) -> String {
    let number = part(account, name).as_u64();
    number.map_or_else(|| "—".to_owned(), grouped)
}

fn addresses(account: &Value) -> &'static str {
    match networks(account).is_empty() {
        true => "all",
        false => "only some",
    }
}

fn networks(account: &Value) -> Vec<&str> {
    let all = part(account, "allowed_ips").as_array();
    all.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn new_page(visit: &Visit, session: &Session, shown: &Shown) -> Reply {
    let content = html! {
        (heading("Create an account", "It begins empty and without keys.", html! {}))
        (problem(shown, FIELDS))
        form.card method="post" action=(HERE) {
            (csrf(session))
            (fields(shown))
            div.actions {
                a.button href=(HERE) { "Cancel" }
                button.button.primary { "Create the account" }
            }
        }
    };
    layout::page(
        visit,
        Some(session),
        Page::new("Create an account", content),
    )
}

fn fields(shown: &Shown) -> Markup {
    let minutes = "10 to 525600 minutes without a message, a reopening or a waking. Empty: never.";
    html! {
        (Field { name: "name", label: "Name", hint: "For people; it need not be unique." }.line(shown, "text", true))
        (Field { name: "plan", label: "Plan", hint: "" }.choice(shown, PLANS))
        div.row {
            (Field { name: "rate_per_minute", label: "Requests a minute", hint: "Enterprise only, and needed there." }.line(shown, "text", false))
            (Field { name: "burst_per_minute", label: "At most in any minute", hint: "Enterprise only. Empty: 1.5 times as many." }.line(shown, "text", false))
        }
        (Field { name: "allowed_ips", label: "Addresses from which it may be used", hint: "By keys, and by people in the console. One a line, such as 203.0.113.7 or 2001:db8::/32. Empty: all." }.lines(shown, 2))
        (Field { name: "auto_close_after_minutes", label: "Close conversations by themselves after", hint: minutes }.line(shown, "text", false))
        (domains::fields(shown))
        (Field { name: "retention_days", label: "Erase closed conversations after", hint: "1 to 3650 days; then they go for good, with messages and files. Empty: never." }.line(shown, "text", false))
    }
}

/// What was filled in as a number; whatever is none is refused by the operation, which names the
/// field.
fn numeric(form: &Form, name: &str) -> Option<Value> {
    let text = form.filled(name)?;
    let number = text.parse::<Number>();
    Some(number.map_or_else(|_| json!(text), Value::Number))
}

/// What a form asks for, in the interface's words.
fn wanted(form: &Form, is_new: bool) -> Value {
    let is_enterprise = form.text("plan") == "enterprise";
    // Rates belong to one plan: what is left in the fields of another is not meant.
    let rate = |name| numeric(form, name).filter(|_| is_enterprise);
    let addresses = form.text("allowed_ips").split([',', '\n', ' ']);
    let addresses = addresses.map(str::trim).filter(|line| !line.is_empty());
    // An empty field takes a setting back.
    let setting = |name| numeric(form, name).or((!is_new).then_some(Value::Null));
    let (domains, origins) = domains::wanted(form);
    object([
        ("name", Some(json!(form.text("name").trim()))),
        ("plan", Some(json!(form.text("plan")))),
        ("rate_per_minute", rate("rate_per_minute")),
        ("burst_per_minute", rate("burst_per_minute")),
        ("allowed_ips", Some(addresses.collect())),
        (
            "auto_close_after_minutes",
            setting("auto_close_after_minutes"),
        ),
        ("retention_days", setting("retention_days")),
        ("domains", Some(domains)),
        ("cors_origins", Some(origins)),
    ])
}

async fn create(visit: &Visit, session: &Session, form: &Form) -> Result<Reply, Problem> {
    let body = wanted(form, true);
    let request = Request::new(Verb::Post, "/admin/v1/accounts", &body);
    match session.ask(request).await {
        Ok(made) => {
            let to = format!("{HERE}/{}", text(&made.body, "account_id"));
            Ok(session::say(
                visit,
                Reply::see_other(&to),
                "The account is created. Open its side to give it keys.",
            ))
        }
        Err(problem) if problem.is_refusal() => {
            let page = new_page(visit, session, &Shown::again(form, problem));
            Ok(page.refused())
        }
        Err(problem) => Err(problem),
    }
}

async fn one(visit: &Visit, session: &Session, id: &str, shown: &Shown) -> Result<Reply, Problem> {
    let path = format!("/admin/v1/accounts/{id}");
    let found = session.get(&path).await?;
    let keys = session.get(&format!("{path}/keys?limit=100")).await?;
    let account = &found.body;
    let is_again = shown
        .problem
        .as_ref()
        .is_some_and(|problem| problem.kind != Kind::PreconditionFailed);
    let filled = Shown {
        form: match is_again {
            true => shown.form.clone(),
            false => Form::of(&held(account)),
        },
        problem: shown.problem.clone(),
    };
    let here = format!("{HERE}/{id}");
    let content = html! {
        @if is_forgotten(account) {
            (heading(text(account, "name"), "This account was forgotten: nothing of it can be read, and nobody comes in.", html! {}))
        } @else {
            (heading(text(account, "name"), "An account, as operators see it.", opening(session, &here, (0, "Open this account's side"))))
        }
        section.card {
            dl.facts {
                div { dt { "Plan" } dd { (text(account, "plan")) } }
                div { dt { "Requests a minute" } dd { (amount(account, "rate_per_minute")) ", at most " (amount(account, "burst_per_minute")) " in any minute" } }
                div { dt { "Made" } dd { (time(account, "created_at")) } }
                div { dt { "Changed" } dd { (time(account, "updated_at")) } }
                @if is_forgotten(account) { div { dt { "Forgotten" } dd { (time(account, "forgotten_at")) } } }
                div { dt { "Name at the interface" } dd { code { (id) } } }
            }
        }
        (domains::card(visit, session, &here, account))
        (keys_card(&keys))
        @if !is_forgotten(account) {
            div.actions { (opening(session, &here, (1, "Make and change keys on its own side"))) }
            h2.apart { "Change it" }
            (problem(&filled, FIELDS))
            form.card method="post" action=(here) {
                (csrf(session))
                input type="hidden" name="etag" value=(found.etag.as_deref().unwrap_or_default());
                (fields(&filled))
                div.actions { button.button.primary { "Save" } }
            }
        }
    };
    let page = Page::new(text(account, "name"), content);
    Ok(layout::page(visit, Some(session), page))
}

/// The button that opens the account's own side, at one of its pages.
fn opening(session: &Session, here: &str, (side, label): (usize, &str)) -> Markup {
    let to = SIDES.get(side).copied().unwrap_or_default();
    html! {
        form.inline method="post" action={ (here) "/open" } {
            (csrf(session))
            input type="hidden" name="to" value=(to);
            button.button.primary[side == 0] { (label) }
        }
    }
}

fn keys_card(keys: &Found) -> Markup {
    let surplus = keys.total().saturating_sub(100);
    html! {
        h2.apart { "Its keys" }
        @if keys.items().is_empty() { p.faint { "It has none: nothing can call the interface for it." } }
        @else {
            div.table tabindex="0" { table {
                caption.hidden { "Keys of the account" }
                thead { tr { th { "Name" } th { "Key" } th { "Type" } th { "Last used" } th { "State" } } }
                tbody data-list {
                    @for key in keys.items() {
                        tr {
                            td { (text(key, "name")) }
                            td { code { (text(key, "prefix")) "…" (text(key, "last4")) } }
                            td { (text(key, "type")) }
                            td { (time(key, "last_used_at")) }
                            td { @if text(key, "revoked_at").is_empty() { (badge("active", "good")) } @else { (badge("revoked", "quiet")) } }
                        }
                    }
                }
            } }
            @if surplus > 0 { p.faint { "And " (grouped(surplus)) " older ones." } }
        }
    }
}

/// An account as the fields of its form.
fn held(account: &Value) -> Vec<(String, String)> {
    let own = |name: &str, value: String| (name.to_owned(), value);
    let is_enterprise = text(account, "plan") == "enterprise";
    let number = |name: &str| {
        let number = part(account, name).as_u64();
        number.map(|number| number.to_string()).unwrap_or_default()
    };
    let rate = |name: &str| match is_enterprise {
        true => number(name),
        // The plan's own, which can't be changed here.
        false => String::new(),
    };
    let mut held = vec![
        own("name", text(account, "name").to_owned()),
        own("plan", text(account, "plan").to_owned()),
        own("rate_per_minute", rate("rate_per_minute")),
        own("burst_per_minute", rate("burst_per_minute")),
        own("allowed_ips", networks(account).join("\n")),
        own(
            "auto_close_after_minutes",
            number("auto_close_after_minutes"),
        ),
        own("retention_days", number("retention_days")),
    ];
    held.extend(domains::held(account));
    held
}

async fn change(visit: &Visit, session: &Session, id: &str, form: &Form) -> Result<Reply, Problem> {
    let path = format!("/admin/v1/accounts/{id}");
    let body = wanted(form, false);
    let request = Request {
        if_match: form.filled("etag"),
        ..Request::new(Verb::Patch, &path, &body)
    };
    match session.ask(request).await {
        Ok(_) => {
            let reply = Reply::see_other(&format!("{HERE}/{id}"));
            let words = "The account is saved. It holds for its very next request.";
            Ok(session::say(visit, reply, words))
        }
        Err(problem) if problem.is_refusal() => {
            let page = one(visit, session, id, &Shown::again(form, problem)).await?;
            Ok(page.refused())
        }
        Err(problem) => Err(problem),
    }
}

/// Shows the account's own side to the operator, from now on and until the operator leaves it.
async fn open(visit: &Visit, session: &Session, id: &str, form: &Form) -> Result<Reply, Problem> {
    let found = session.get(&format!("/admin/v1/accounts/{id}")).await?;
    let account: AccountId = text(&found.body, "account_id")
        .parse()
        .map_err(|_| Problem::not_found())?;
    let change = ChangeSession {
        token: session.token(),
        mode: None,
        account: Some(Some(account)),
    };
    session.change(visit, change).await?;
    tracing::info!(
        operator = session.name,
        operator_id = %session.person().user,
        %account,
        request_id = &*visit.request_id,
        "an operator has opened an account's side"
    );
    let mut sides = SIDES.iter().copied();
    let usual = sides.next().unwrap_or("/console");
    let to = sides.find(|side| *side == form.text("to")).unwrap_or(usual);
    let words = format!("You are on the side of {}.", text(&found.body, "name"));
    Ok(session::say(visit, Reply::see_other(to), &words))
}
