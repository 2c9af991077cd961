//! Ports of this machine that nobody has.

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use super::until_now;

const SOON: Duration = Duration::from_secs(30);

/// One for TCP.
pub(crate) fn free_port() -> u16 {
    let one = TcpListener::bind("127.0.0.1:0").unwrap();
    one.local_addr().unwrap().port()
}

/// The same for UDP as well.
pub(crate) fn free_port_of_both() -> u16 {
    until_now("a port is free for TCP and UDP", SOON, || {
        let port = free_port();
        UdpSocket::bind(("127.0.0.1", port)).ok().map(|_| port)
    })
}
