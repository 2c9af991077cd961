//! Ports of this machine that nobody has.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::until_now;

const SOON: Duration = Duration::from_secs(30);

/// One for TCP.
pub(crate) fn free_port() -> u16 {
    let one = TcpListener::bind("127.0.0.1:0").unwrap();
    one.local_addr().unwrap().port()
}

/// One for a server that is not there yet: nobody else is given it meanwhile, and whoever connects to it
/// is refused. A server can listen there all the same.
pub(crate) struct ReservedPort(Socket);

impl ReservedPort {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        socket.bind(&any.into()).unwrap();
        ReservedPort(socket)
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        let address = self.0.local_addr().unwrap().as_socket().unwrap();
        address.to_string()
    }
}

/// The same for UDP as well.
pub(crate) fn free_port_of_both() -> u16 {
    until_now("a port is free for TCP and UDP", SOON, || {
        let port = free_port();
        UdpSocket::bind(("127.0.0.1", port)).ok().map(|_| port)
    })
}
