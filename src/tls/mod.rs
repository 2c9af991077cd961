//! TLS of the server's own listener: the certificate and its key as files, certificates that an
//! authority issues, what is in force of them, and how the program's own commands know the server by
//! its certificate. Knows no route and no request.
//!
//! - `acme/` certificates by ACME: for each host name one, ordered and renewed by the server itself
//! - `files.rs` reads what the settings name, and finds whether it fits together
//! - `listener.rs` what is in force for connections that come, and how it is replaced
//! - `client.rs` TLS as a client of this server, by exactly the certificate that the settings name

mod acme;
mod client;
mod files;
mod listener;

pub(crate) use acme::DomainStatus;
pub(crate) use client::of_this_server;
pub(crate) use files::is_pem;
pub(crate) use listener::{ListenerTls, days_until, follow_domains, keep_fresh};

use crate::config::{Config, ConfigError, is_path};

/// What a connection may be asked for by name once it is encrypted: HTTP/2 first.
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Whether the files that `[tls]` names can be used, and go together.
///
/// # Errors
/// The first setting whose file can't be used.
pub(crate) fn check(config: &Config) -> Result<(), ConfigError> {
    let tls = &config.tls;
    if tls.is_on() {
        files::Identity::read(tls)?;
        client::check(tls)?;
    }
    match tls.acme.is_on() {
        true => acme::check(&tls.acme),
        false => Ok(()),
    }
}

/// That a setting of `[tls.acme]` can't be used.
fn bad_acme(key: &str, value: &str, right: String) -> ConfigError {
    bad(&format!("acme.{key}"), value, right)
}

/// That a setting of `[tls]` can't be used.
fn bad(key: &str, value: &str, right: String) -> ConfigError {
    // The text of a certificate or a key helps nobody to find it.
    let is_key = key.ends_with("key");
    let value = match is_pem(value) {
        true => "(PEM)".to_owned(),
        false if is_key && !is_path(value) => "(not shown)".to_owned(),
        false => format!("{value:?}"),
    };
    ConfigError::Bad {
        origin: "[tls]".to_owned(),
        key: format!("tls.{key}"),
        value,
        right,
    }
}
