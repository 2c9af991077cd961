//! What all pages have around them: the way to the other pages, who is signed in, and what was just
//! done.

use maud::{DOCTYPE, Markup, html};

use super::Visit;
use super::assets;
use super::reply::Reply;
use super::session::{self, Session};

/// A page without what is around it.
pub(super) struct Page {
    title: String,
    content: Markup,
    wide: bool,
    scripts: &'static [&'static str],
}

impl Page {
    pub(super) fn new(title: impl Into<String>, content: Markup) -> Self {
        Page {
            title: title.into(),
            content,
            wide: false,
            scripts: &[],
        }
    }

    /// It takes the whole window: no margins, nothing scrolls but its own parts.
    pub(super) fn wide(self) -> Self {
        Page { wide: true, ..self }
    }

    /// It runs these scripts of ours, beside what every page runs.
    pub(super) fn with_scripts(self, scripts: &'static [&'static str]) -> Self {
        Page { scripts, ..self }
    }
}

/// Who is shown the way to a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Users,
    Admins,
    Operators,
}

/// A page in the menu: where, what it is called, who sees it, its icon, the key behind `g`.
struct Entry {
    path: &'static str,
    name: &'static str,
    seen_by: For,
    icon: &'static str,
    key: char,
}

const fn entry(
    path: &'static str,
    name: &'static str,
    seen_by: For,
    icon: &'static str,
    key: char,
) -> Entry {
    Entry {
        path,
        name,
        seen_by,
        icon,
        key,
    }
}

/// The menu. Icons are paths in a box of 24 by 24, drawn with a line.
const MENU: &[Entry] = &[
    entry(
        "/console/inbox",
        "Inbox",
        For::Users,
        "M3 13h5l2 3h4l2-3h5M5 5h14l2 8v6H3v-6z",
        'i',
    ),
    entry(
        "/console/customers",
        "Customers",
        For::Users,
        "M16 20v-2a4 4 0 0 0-4-4H7a4 4 0 0 0-4 4v2M9.5 10a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M21 20v-2a4 4 0 0 0-3-3.8M16 3.2a3.5 3.5 0 0 1 0 6.7",
        'c',
    ),
    entry(
        "/console/documents",
        "Documents",
        For::Users,
        "M14 3H6v18h12V7zM14 3v4h4M9 13h6M9 17h6",
        'd',
    ),
    entry(
        "/console/analytics",
        "Analytics",
        For::Users,
        "M4 20V4M4 20h16M8 16v-4M12 16V8M16 16v-6",
        'y',
    ),
    entry(
        "/console/webhooks",
        "Webhooks",
        For::Admins,
        "M13 3 5 14h6l-1 7 8-11h-6z",
        'w',
    ),
    entry(
        "/console/settings/api-keys",
        "API Keys",
        For::Admins,
        "M14 10a5 5 0 1 1-4.9-5.9A5 5 0 0 1 14 10zM12.5 12.5 21 21M17 17l2-2",
        'k',
    ),
    entry(
        "/console/settings/applications",
        "Applications",
        For::Admins,
        "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM16.5 13v7M13 16.5h7",
        'l',
    ),
    entry(
        "/console/settings/users",
        "Users",
        For::Admins,
        "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4 21a8 8 0 0 1 16 0",
        'u',
    ),
    entry(
        "/console/settings/account",
        "Account",
        For::Admins,
        "M4 21V5l8-3 8 3v16zM9 9h1M14 9h1M9 13h1M14 13h1M10 21v-4h4v4",
        's',
    ),
    entry(
        "/console/usage",
        "Usage",
        For::Admins,
        "M12 4a9 9 0 0 0-9 9 9 9 0 0 0 2 6h14a9 9 0 0 0 2-6 9 9 0 0 0-9-9zM12 14l4-5",
        'q',
    ),
    entry(
        "/console/audit",
        "Audit",
        For::Admins,
        "M6 3h12v18H6zM9 8h6M9 12h6M9 16h3",
        'h',
    ),
    entry(
        "/console/overview",
        "Overview",
        For::Operators,
        "M3 12h4l3-8 4 16 3-8h4",
        'o',
    ),
    entry(
        "/console/actors",
        "Actors",
        For::Operators,
        "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12 4 7.5",
        'a',
    ),
    entry(
        "/console/accounts",
        "Accounts",
        For::Operators,
        "M3 7h18v13H3zM8 7V4h8v3M3 13h18",
        'n',
    ),
    entry(
        "/console/limits",
        "Limits",
        For::Operators,
        "M12 4a9 9 0 0 0-9 9 9 9 0 0 0 2 6h14a9 9 0 0 0 2-6 9 9 0 0 0-9-9zM12 14l4-5",
        'm',
    ),
    entry(
        "/console/store",
        "Store",
        For::Operators,
        "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zM4 6v12c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3",
        't',
    ),
    entry(
        "/console/backups",
        "Backups",
        For::Operators,
        "M4 4h16v5H4zM6 9v11h12V9M12 12v5M9.5 14.5 12 17l2.5-2.5",
        'b',
    ),
    entry(
        "/console/nodes",
        "Nodes",
        For::Operators,
        "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
        'e',
    ),
    entry(
        "/console/all-audit",
        "Audit of all",
        For::Operators,
        "M4 5h10v16H4zM14 3h6v14h-6M7 10h4M7 14h4",
        'r',
    ),
    entry(
        "/console/operators",
        "Operators",
        For::Operators,
        "M12 3 5 6v5c0 4.5 3 8.3 7 10 4-1.7 7-5.5 7-10V6zM9 12l2 2 4-4",
        'p',
    ),
];

impl Entry {
    fn is_seen(&self, session: &Session) -> bool {
        match self.seen_by {
            For::Users => session.principal.is_some(),
            For::Admins => session.is_admin(),
            For::Operators => session.is_operator(),
        }
    }
}

/// An icon, for eyes only.
pub(super) fn icon(path: &str) -> Markup {
    html! { svg.icon viewBox="0 0 24 24" aria-hidden="true" { path d=(path) {} } }
}

/// A page with all that is around it.
pub(super) fn page(visit: &Visit, session: Option<&Session>, page: Page) -> Reply {
    let said = session::said(visit);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                @if let Some(session) = session { meta name="csrf" content=(session.csrf); }
                meta name="htmx-config" content=(HTMX);
                title { (page.title) " · Colloquy" }
                link rel="icon" type="image/svg+xml" href=(assets::icon());
                link rel="stylesheet" href=(assets::path("console.css"));
                @for script in SCRIPTS.iter().chain(page.scripts) {
                    script src=(assets::path(script)) defer {}
                }
            }
            body.wide[page.wide].plain[session.is_none()] {
                a.skip href="#content" { "Skip to the content" }
                @if let Some(session) = session { (around(visit, session)) }
                main #content tabindex="-1" {
                    div #notices role="status" aria-live="polite" {
                        @if let Some(words) = &said { div.notice.done { (words) } }
                    }
                    (page.content)
                }
                @if let Some(session) = session { (shortcuts(session)) }
            }
        }
    };
    let reply = Reply::part(markup);
    match said {
        Some(_) => session::was_said(visit, reply),
        None => reply,
    }
}

/// What every page runs.
const SCRIPTS: &[&str] = &["htmx.min.js", "console.js"];
/// Nothing of htmx needs what the policy of these pages forbids.
const HTMX: &str = r#"{"allowEval":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyCacheSize":0}"#;

fn around(visit: &Visit, session: &Session) -> Markup {
    let path = visit.path();
    let path = match path {
        "/console" => "/console/overview",
        path => path,
    };
    let is_here = |entry: &Entry| path.starts_with(entry.path);
    let account = session
        .principal
        .as_ref()
        .map(|principal| principal.account.view.name.as_str());
    html! {
        header.side {
            div.brand {
                a href="/console" { (logo()) span { "Colloquy" } }
                button.menu type="button" aria-expanded="false" aria-controls="menu" data-menu { "Menu" }
            }
            nav #menu aria-label="Pages" {
                @if let Some(account) = account {
                    div.where { span.faint { "Account" } strong { (account) } }
                }
                @for (group, heading) in [(For::Users, None), (For::Admins, Some("Settings")), (For::Operators, Some("Operations"))] {
                    @let entries: Vec<_> = MENU.iter().filter(|entry| entry.seen_by == group && entry.is_seen(session)).collect();
                    @if !entries.is_empty() {
                        @if let Some(heading) = heading { h2 { (heading) } }
                        ul {
                            @for entry in entries {
                                li { a href=(entry.path) aria-current=[is_here(entry).then_some("page")] data-key=(entry.key) {
                                    (icon(entry.icon)) span { (entry.name) }
                                } }
                            }
                        }
                    }
                }
                (who(session))
            }
        }
        @if session.is_test() && session.principal.is_some() {
            div.test-data role="note" { "You see test data. Nothing here reaches real customers." }
        }
    }
}

/// Who is signed in, and the ways out.
fn who(session: &Session) -> Markup {
    html! {
        div.who {
            @if session.principal.is_some() && !session.bounds().test_only {
                form method="post" action="/console/session/mode" {
                    (csrf(session))
                    input type="hidden" name="mode" value=(if session.is_test() { "live" } else { "test" });
                    button.switch role="switch" aria-checked=(session.is_test().to_string()) { span.knob {} "Test data" }
                }
            }
            @if session.is_operator() && session.principal.is_some() {
                form method="post" action="/console/session/leave" {
                    (csrf(session))
                    button.link { "Leave this account" }
                }
            }
            div.person {
                a href="/console/session" { (session.name) }
                form method="post" action="/console/session/end" {
                    (csrf(session))
                    button.link { "Sign out" }
                }
            }
        }
    }
}

fn shortcuts(session: &Session) -> Markup {
    html! {
        dialog #shortcuts aria-labelledby="shortcuts-heading" {
            h2 #shortcuts-heading { "Keyboard shortcuts" }
            dl.keys {
                div { dt { kbd { "?" } } dd { "This list" } }
                div { dt { kbd { "/" } } dd { "Search on this page" } }
                div { dt { kbd { "j" } " " kbd { "k" } } dd { "Next and previous in a list" } }
                div { dt { kbd { "Enter" } } dd { "Open what is chosen" } }
                div { dt { kbd { "r" } } dd { "Write an answer (inbox)" } }
                div { dt { kbd { "Ctrl" } " " kbd { "Enter" } } dd { "Send" } }
                div { dt { kbd { "Esc" } } dd { "Close, or leave a field" } }
                @for entry in MENU.iter().filter(|entry| entry.is_seen(session)) {
                    div { dt { kbd { "g" } " " kbd { (entry.key) } } dd { (entry.name) } }
                }
            }
            form method="dialog" { button.button { "Close" } }
        }
        dialog #confirm aria-labelledby="confirm-heading" {
            h2 #confirm-heading { "Are you sure?" }
            p data-words {}
            div.actions {
                button.button type="button" data-no { "Cancel" }
                button.button.danger type="button" data-yes { "Go on" }
            }
        }
    }
}

/// The mark of the house.
pub(super) fn logo() -> Markup {
    html! {
        svg.logo viewBox="0 0 24 24" aria-hidden="true" {
            path.one d="M3 5h12v9H8l-4 4v-4H3z" {}
            path.two d="M17 9h4v9h-1v3l-3-3h-7v-2h7z" {}
        }
    }
}

/// The field that every form of a session carries.
pub(super) fn csrf(session: &Session) -> Markup {
    html! { input type="hidden" name="csrf" value=(session.csrf); }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_leads_to_one_page() {
        let mut keys: Vec<char> = MENU.iter().map(|entry| entry.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), MENU.len());
    }
}
