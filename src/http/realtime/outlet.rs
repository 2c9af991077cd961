//! The server's own side of a connection, to be shut when a WebSocket has said goodbye: clients wait for that, and the
//! server itself would first listen on for as long as the rest of a refused body is read.

use std::any::Any;
use std::os::fd::{AsRawFd, RawFd};

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use nix::sys::socket::{Shutdown, shutdown};

/// A connection's descriptor. It is not owned: whoever holds this lives in what owns it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlet(RawFd);

impl Outlet {
    /// Notes it with the connection.
    pub(crate) fn note(connection: &dyn Any, with: &mut Extensions) {
        if let Some(stream) = connection.downcast_ref::<TcpStream>() {
            with.insert(Outlet(stream.as_raw_fd()));
        }
    }

    /// Sends nothing any more.
    pub(super) fn shut(self) {
        // An error means that the client was faster.
        let _ = shutdown(self.0, Shutdown::Write);
    }
}
