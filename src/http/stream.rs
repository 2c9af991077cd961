//! A connection as bytes, encrypted or not. Knows no HTTP but the name of the version that was agreed
//! upon.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix_web::rt::net::TcpStream;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::connections::Admitted;
use super::slices::{Requests, Slices};
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

impl Transport {
    /// Whether something has come, be it that the connection has ended.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            // What came along with the handshake is decrypted already: the socket knows nothing of it.
            Transport::Encrypted(stream) if !stream.get_ref().1.wants_read() => Poll::Ready(()),
            Transport::Plain(_) | Transport::Encrypted(_) => {
                self.socket().poll_read_ready(context).map(|_| ())
            }
        }
    }

    /// Whether there is room for something, be it that the connection has ended.
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.socket().poll_write_ready(context).map(|_| ())
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Encrypted(stream) => stream.get_ref().0,
        }
    }
}

impl Stream {
    /// A connection whose bytes are as they are on the wire.
    pub(super) fn plain(stream: TcpStream, admitted: &Admitted) -> Self {
        Self::over(Transport::Plain(stream), admitted)
    }

    /// A connection inside of TLS.
    pub(super) fn encrypted(stream: TlsStream<TcpStream>, admitted: &Admitted) -> Self {
        Self::over(Transport::Encrypted(Box::new(stream)), admitted)
    }

    fn over(transport: Transport, admitted: &Admitted) -> Self {
        Stream {
            transport,
            slices: Slices::of(Rc::clone(&admitted.owner), admitted.is_shared),
        }
    }

    /// Whether HTTP/2 was agreed upon in the handshake.
    pub(super) fn is_http_2(&self) -> bool {
        match &self.transport {
            Transport::Plain(_) => false,
            Transport::Encrypted(stream) => stream.get_ref().1.alpn_protocol() == Some(HTTP_2),
        }
    }

    /// The requests that come over it.
    pub(super) fn requests(&self) -> Rc<Requests> {
        self.slices.requests()
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
        let transport = &this.transport;
        ready!(
            this.slices
                .poll_read(context, |context| transport.poll_readable(context))
        );
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
        let transport = &this.transport;
        let most = ready!(this.slices.poll_write(bytes.len(), context, |context| {
            transport.poll_writable(context)
        }));
        let slice = bytes.get(..most).unwrap_or(bytes);
        let written = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, slice),
            Transport::Encrypted(stream) => Pin::new(stream).poll_write(context, slice),
        };
        let count = match &written {
            Poll::Ready(Ok(count)) => Some(*count),
            Poll::Ready(Err(_)) | Poll::Pending => None,
        };
        this.slices.note_written(count, bytes.len());
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
