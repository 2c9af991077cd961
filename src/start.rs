//! What a start prints on stdout: where it listens, and at the first one the secrets, once.
#![expect(
    clippy::print_stdout,
    reason = "what is meant for the one who starts the server goes to stdout; the log goes to stderr"
)]

use std::net::SocketAddr;

use colloquy_actors::store::sqlite::Finding;
use colloquy_actors::system::FirstStart;

/// Prints it.
pub(crate) fn announce(address: &SocketAddr, first: Option<&FirstStart>, metrics_public: bool) {
    if let Some(first) = first {
        println!("First start: one account was made. These secrets are shown only now:\n");
        println!("  test key:       {}", first.test_key);
        println!("  production key: {}", first.production_key);
        println!("  read-only key:  {}", first.read_key);
        if let Some(token) = &first.operator_token {
            println!("  operator token: {token}");
        }
        println!("\nMake a first customer:\n");
        println!(
            "  curl -s http://{}/v1/customers -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' \
             -d '{{\"name\":\"Ada Lovelace\"}}'\n",
            reachable(*address),
            first.test_key,
        );
    }
    println!("Colloquy {} listening on http://{address}", env!("CARGO_PKG_VERSION"));
    if !address.ip().is_loopback() {
        tracing::warn!(%address, metrics_public, "not bound to loopback: traffic belongs on HTTPS, put a TLS proxy in front");
    }
}

/// Prints what a check found.
pub(crate) fn report(wrong: &[Finding]) {
    if wrong.is_empty() {
        println!("The store is sound.");
    }
    for finding in wrong {
        println!("{}: {}", finding.check, finding.found);
    }
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback = if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    SocketAddr::new(loopback, address.port())
}
