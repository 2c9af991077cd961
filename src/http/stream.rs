//! A connection as bytes, encrypted or not. Knows no HTTP but the name of the version that was agreed
//! upon.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::rt::net::TcpStream;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::tls::HTTP_2;

/// What is read and written.
#[derive(Debug)]
pub(super) enum Stream {
    /// Bytes as they are on the wire.
    Plain(TcpStream),
    /// Bytes inside of TLS, whose handshake is done.
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Whether HTTP/2 was agreed upon in the handshake.
    pub(super) fn is_http_2(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Encrypted(stream) => stream.get_ref().1.alpn_protocol() == Some(HTTP_2),
        }
    }

    /// The certificates that the client has shown, its own first; none where it has shown none.
    pub(super) fn client_certificates(&self) -> Vec<CertificateDer<'static>> {
        match self {
            Stream::Plain(_) => Vec::new(),
            Stream::Encrypted(stream) => {
                let shown = stream.get_ref().1.peer_certificates();
                shown.unwrap_or_default().to_vec()
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
