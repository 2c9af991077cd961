//! What a start prints on stdout: where it listens, and at the first one the secrets, once.
#![expect(
    clippy::print_stdout,
    reason = "what is meant for the one who starts the server goes to stdout; the log goes to stderr"
)]

use std::net::SocketAddr;

use colloquy_actors::system::FirstStart;

/// Prints it.
pub(crate) fn announce(address: &SocketAddr, first: Option<&FirstStart>, metrics_public: bool) {
    if let Some(first) = first {
        println!("First start: one account was made. These secrets are shown only now:\n");
        println!("  test key:       {}", first.test_key);
        println!("  production key: {}", first.production_key);
        println!("  read-only key:  {}", first.read_key);
        println!("  operator token: {}\n", first.operator_token);
        println!("Start a first conversation with the test customer:\n");
        println!(
            "  curl -s http://{}/v1/conversations -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' \
             -d '{{\"customer_id\":\"{}\",\"initial_message\":\"Hello\"}}'\n",
            reachable(*address),
            first.test_key,
            first.customer_id
        );
    }
    println!("Colloquy {} listening on http://{address}", env!("CARGO_PKG_VERSION"));
    if !address.ip().is_loopback() {
        tracing::warn!(%address, metrics_public, "not bound to loopback: traffic belongs on HTTPS, put a TLS proxy in front");
    }
}

/// Prints what a check found.
pub(crate) fn report(wrong: &[String]) {
    if wrong.is_empty() {
        println!("The store is sound.");
    }
    for line in wrong {
        println!("{line}");
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
