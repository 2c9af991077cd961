//! What a start prints on stdout: where it listens, and at the first one the secrets, once.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use colloquy_actors::store::Finding;
use colloquy_actors::system::{FirstKeys, FirstStart};

use crate::config::{Config, INDEX_ENDING, MESSAGE_INDEX_ENDING};

/// Prints the secrets of a first start, and nothing where there are none.
///
/// # Errors
/// They could not be written to the end: nobody has them.
pub(crate) fn hand_over(url: &str, first: &FirstStart) -> io::Result<()> {
    let token = first
        .operator_token
        .as_ref()
        .map(|token| format!("  operator token: {token}\n"));
    let text = match (&first.keys, token) {
        (None, None) => return Ok(()),
        (None, Some(token)) => {
            format!("First start. This secret is shown only now:\n\n{token}\n")
        }
        (Some(keys), token) => with_keys(url, keys, &token.unwrap_or_default()),
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn with_keys(url: &str, keys: &FirstKeys, token: &str) -> String {
    format!(
        "First start: one account was made. These secrets are shown only now:\n
  test key:       {test}
  production key: {}
  read-only key:  {}
{token}
Make a first customer:\n
  curl -s {url}/v1/customers -H 'Authorization: Bearer {test}' -H 'Content-Type: application/json' \
         -d '{{\"name\":\"Ada Lovelace\"}}'\n\n",
        keys.production,
        keys.read,
        test = keys.test,
    )
}

/// Takes back what a first start made, so that the next one is a first start again.
pub(crate) fn take_back(store: &Path) -> io::Result<()> {
    let files = ["", INDEX_ENDING, MESSAGE_INDEX_ENDING]
        .into_iter()
        .flat_map(|file| ["", "-wal", "-shm", ".lock"].map(|ending| (file, ending)));
    for (file, ending) in files.chain([(".key", ""), (".first-start", "")]) {
        let mut path = OsString::from(store);
        path.push(file);
        path.push(ending);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Tells the operator on standard output where the server listens.
pub(crate) fn announce(address: &SocketAddr, config: &Config) {
    say(&format!(
        "Colloquy {} listening on {}\n",
        env!("CARGO_PKG_VERSION"),
        url(*address, config)
    ));
    if !address.ip().is_loopback() && !config.tls.is_on() {
        let metrics_public = config.metrics.public;
        tracing::warn!(%address, metrics_public, "not bound to loopback: traffic belongs on HTTPS, set [tls] or put a TLS proxy in front");
    }
}

/// Prints what a check found.
pub(crate) fn report(wrong: &[Finding]) {
    if wrong.is_empty() {
        say("The store is sound.\n");
    }
    for finding in wrong {
        say(&format!("{}: {}\n", finding.check, finding.found));
    }
}

/// Prints what the server does not depend on.
pub(crate) fn say(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        tracing::warn!(%error, "stdout can't be written");
    }
}

/// What stands before the paths of whoever listens at this address.
pub(crate) fn url(address: SocketAddr, config: &Config) -> String {
    let scheme = match config.tls.is_on() {
        true => "https",
        false => "http",
    };
    format!("{scheme}://{address}")
}

/// What clients write before a path, as the settings have it; where they have nothing, what stands
/// before the paths of whoever listens at this address.
pub(crate) fn public_url(address: SocketAddr, config: &Config) -> String {
    match config.server.public_url.as_str() {
        "" => url(address, config),
        public_url => public_url.to_owned(),
    }
}

/// What a client on this machine writes before a path. Where the server shows a certificate, the name in
/// it is the public one.
pub(crate) fn asked_at(address: SocketAddr, config: &Config) -> String {
    let public_url = &config.server.public_url;
    match config.tls.is_on() && !public_url.is_empty() {
        true => public_url.clone(),
        false => url(reachable(address), config),
    }
}

/// An address that a client on this machine can use.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback = if address.is_ipv4() {
        [127, 0, 0, 1].into()
    } else {
        std::net::Ipv6Addr::LOCALHOST.into()
    };
    SocketAddr::new(loopback, address.port())
}
