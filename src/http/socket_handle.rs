//! A connection below HTTP. Its own side is to be shut when a WebSocket has said goodbye: clients
//! wait for that, and the server itself would first listen on for as long as the rest of a refused
//! body is read. So is that of a client that takes its answer too slowly. And whether its client
//! has hung up, which the server itself finds out only when it answers.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use actix_web::rt::net::TcpStream;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, SockaddrStorage, getpeername, recv, shutdown};

/// Between two looks whether a client has hung up. What is answered sooner is answered even to
/// those who send nothing more and wait, as they may: the two look the same.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The descriptor of a TCP connection. It is not owned: whoever holds this lives in what owns it, or knows
/// the peer that it had.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketHandle(RawFd);

impl SocketHandle {
    /// The descriptor of this connection.
    pub(super) fn of(stream: &TcpStream) -> Self {
        SocketHandle(stream.as_raw_fd())
    }

    /// Who is at its other end, while it is open.
    pub(super) fn peer(self) -> Option<SockaddrStorage> {
        getpeername(self.0).ok()
    }

    /// Returns when the client has closed its side of the connection.
    pub(super) async fn hung_up(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.is_closed() {
                return;
            }
        }
    }

    /// Whether the client has closed its side of the connection.
    pub(super) fn is_closed(self) -> bool {
        let looked = recv(
            self.0,
            &mut [0],
            MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT,
        );
        !matches!(looked, Ok(1..) | Err(Errno::EAGAIN | Errno::EINTR))
    }

    /// Shuts the sending side of the socket: the other side reads its end.
    pub(super) fn shut(self) {
        // An error means that the client was faster.
        let _ = shutdown(self.0, Shutdown::Write);
    }

    /// Sends nothing any more and takes nothing more: the server finds the connection at its end.
    pub(super) fn end(self) {
        let _ = shutdown(self.0, Shutdown::Both);
    }
}
