//! What is shown of settings, by `config show` and in what is said of mistakes: nothing that lets
//! somebody in.

use std::path::Path;

use toml::{Table, Value};

use crate::tls::is_pem;

/// The settings that are secrets, or hold one. Each can be given as a file that holds it.
const SECRETS: [&str; 9] = [
    "admin.token",
    "encryption.master_key",
    "encryption.previous_master_key",
    "shared_caches.purge_header",
    CONNECTION_STRING,
    "tls.acme.external_account_key",
    "tls.admin_client_key",
    "tls.key",
    "traces.authorization",
];
/// The settings that are a key itself, or the name of its file, which is no secret.
const KEYS_OR_FILES: [&str; 2] = ["tls.admin_client_key", "tls.key"];
/// The setting of which only who signs in with it is a secret.
const CONNECTION_STRING: &str = "store.uri";
/// What is a secret among the parameters of a connection string.
const SECRET_PARAMETERS: [&str; 2] = ["authmechanismproperties", "tlscertificatekeyfilepassword"];
/// What stands in the names of settings that are secrets, also where they are mistyped.
const SECRET_WORDS: [&str; 7] = [
    "auth",
    "credential",
    "key",
    "password",
    "secret",
    "token",
    "uri",
];
/// The longest text in a folder that is not there which counts as the name of a file.
const NAME_MAX: usize = 64;
/// Stands in the place of a secret.
const NOT_SHOWN: &str = "(not shown)";

/// Whether a setting is a secret, or holds one.
pub(super) fn is_secret(key: &str) -> bool {
    SECRETS.contains(&key)
}

/// What is shown of a setting's value: of a secret that it is there, of a URL all but who signs in
/// with it and the values of its parameters.
pub(super) fn shown(key: &str, value: &Value) -> String {
    let holds_a_secret = SECRETS.iter().any(|secret| is_inside(secret, key));
    match value.as_str() {
        Some("") => value.to_string(),
        Some(text) if KEYS_OR_FILES.contains(&key) && is_path(text) => value.to_string(),
        Some(text) if key == CONNECTION_STRING && text.contains("://") => {
            let is_hidden =
                |name: &str| SECRET_PARAMETERS.contains(&name.to_ascii_lowercase().as_str());
            Value::from(without_secrets(text, is_hidden)).to_string()
        }
        _ if is_secret(key) || holds_a_secret => not_shown(),
        _ => without_credentials(value).to_string(),
    }
}

/// What is shown of the value of a key that is no setting; one is nearest to it, if it is like any.
/// It may be a secret under a mistyped name, or in another section.
pub(super) fn shown_of_unknown(key: &str, nearest: Option<&str>, value: &Value) -> String {
    let name = key.rsplit('.').next().unwrap_or(key).to_ascii_lowercase();
    let is_named_like_one = SECRET_WORDS.iter().any(|word| name.contains(word));
    let is_harmless = nearest.is_some_and(|nearest| {
        let section = nearest
            .rsplit_once('.')
            .map_or(nearest, |(section, _)| section);
        !SECRETS.iter().any(|secret| is_inside(secret, section))
    });
    match is_harmless && !is_named_like_one {
        true => without_credentials(value).to_string(),
        false => not_shown(),
    }
}

fn not_shown() -> String {
    Value::from(NOT_SHOWN).to_string()
}

/// Whether a setting stands in a section, or in one of that section's own.
fn is_inside(setting: &str, section: &str) -> bool {
    let rest = setting.strip_prefix(section);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a text can be taken for the name of a file: otherwise it may be what was meant to stand in one.
pub(crate) fn is_path(text: &str) -> bool {
    let path = Path::new(text);
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    // Base64 has no dot; what else has one is longer, or has more than that.
    let is_named_like_one =
        text.contains('.') && text.len() <= NAME_MAX && !text.contains(['@', ' ', ':', '=']);
    !is_pem(text)
        && !text.contains(char::is_control)
        && (path.is_absolute()
            || path.exists()
            || folder.is_some_and(Path::exists)
            || is_named_like_one)
}

/// What is shown of the name of a file that holds a secret, unless it is the secret itself.
pub(super) fn shown_name(file: &Value) -> String {
    match file.as_str() {
        Some(text) if !is_path(text) => not_shown(),
        Some(_) | None => file.to_string(),
    }
}

/// The same value; of URLs in it, what `without_secrets` leaves.
fn without_credentials(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(without_secrets(text, |_| true)),
        Value::Array(items) => Value::Array(items.iter().map(without_credentials).collect()),
        Value::Table(table) => {
            let inner = table.iter().map(|(key, value)| {
                let shown = without_credentials(value);
                (key.clone(), shown)
            });
            Value::Table(inner.collect::<Table>())
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            value.clone()
        }
    }
}

/// A URL without who signs in with it, and without the values of these of its parameters; any other
/// text as it is.
fn without_secrets(text: &str, is_hidden: impl Fn(&str) -> bool) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    // The last @, since passwords that should have been escaped may hold any character.
    let (user, place) = match rest.rsplit_once('@') {
        Some((_, place)) => (format!("{NOT_SHOWN}@"), place),
        None => (String::new(), rest),
    };
    let Some((before, query)) = place.split_once('?') else {
        return format!("{scheme}://{user}{place}");
    };
    let parameters: Vec<String> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if is_hidden(name) => format!("{name}={NOT_SHOWN}"),
            Some(_) => parameter.to_owned(),
            None if parameter.is_empty() || !is_hidden(parameter) => parameter.to_owned(),
            // A token by itself has no name.
            None => NOT_SHOWN.to_owned(),
        })
        .collect();
    format!("{scheme}://{user}{before}?{}", parameters.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_url_nobody_who_signs_in_and_no_value_is_shown() {
        for (url, left) in [
            ("https://a.example/x", "https://a.example/x"),
            ("https://u:p@a.example/x", "https://(not shown)@a.example/x"),
            (
                "https://u:p/q?r@a.example/",
                "https://(not shown)@a.example/",
            ),
            (
                "https://a.example/x?token=s&b",
                "https://a.example/x?token=(not shown)&(not shown)",
            ),
            ("info,a=debug", "info,a=debug"),
        ] {
            let urls = Value::from(vec![url]);
            let expected = Value::from(vec![left]);
            assert_eq!(shown("x.urls", &urls), expected.to_string());
        }
    }

    #[test]
    fn a_connection_string_keeps_what_is_no_secret_of_it() {
        let uri = "mongodb://u:p@a,b/?tls=true&authMechanismProperties=AWS_SESSION_TOKEN:s";
        let left = "mongodb://(not shown)@a,b/?tls=true&authMechanismProperties=(not shown)";
        let shown_uri = shown(CONNECTION_STRING, &Value::from(uri));
        assert_eq!(shown_uri, Value::from(left).to_string());
    }
}
