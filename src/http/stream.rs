//! A connection as bytes, encrypted or not. Knows no HTTP but the name of the version that was agreed
//! upon.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::rt::net::TcpStream;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::slices::Slices;
use crate::tls::HTTP_2;

/// What is read and written, in slices where it is long.
#[derive(Debug)]
pub(super) struct Stream {
    transport: Transport,
    slices: Slices,
}

/// Whether it is encrypted.
#[derive(Debug)]
enum Transport {
    /// Bytes as they are on the wire.
    Plain(TcpStream),
    /// Bytes inside of TLS, whose handshake is done.
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// A connection whose bytes are as they are on the wire.
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self::over(Transport::Plain(stream))
    }

    /// A connection inside of TLS.
    pub(super) fn encrypted(stream: TlsStream<TcpStream>) -> Self {
        Self::over(Transport::Encrypted(Box::new(stream)))
    }

    fn over(transport: Transport) -> Self {
        Stream {
            transport,
            slices: Slices::default(),
        }
    }

    /// Whether HTTP/2 was agreed upon in the handshake.
    pub(super) fn is_http_2(&self) -> bool {
        match &self.transport {
            Transport::Plain(_) => false,
            Transport::Encrypted(stream) => stream.get_ref().1.alpn_protocol() == Some(HTTP_2),
        }
    }

    /// The certificates that the client has shown, its own first; none where it has shown none.
    pub(super) fn client_certificates(&self) -> Vec<CertificateDer<'static>> {
        match &self.transport {
            Transport::Plain(_) => Vec::new(),
            Transport::Encrypted(stream) => {
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
        let this = self.get_mut();
        ready!(this.slices.poll_read(context));
        let before = buffer.filled().len();
        let read = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        let bytes = read.is_ready().then(|| buffer.filled().len() - before);
        this.slices.note_read(bytes);
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let most = ready!(this.slices.poll_write(bytes.len(), context));
        let slice = bytes.get(..most).unwrap_or(bytes);
        let written = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, slice),
            Transport::Encrypted(stream) => Pin::new(stream).poll_write(context, slice),
        };
        if let Poll::Ready(Ok(written)) = written {
            this.slices.note_written(written, bytes.len());
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
