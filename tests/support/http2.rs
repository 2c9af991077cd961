//! A connection of HTTP/2 whose requests begin when the test says so.

use std::sync::Arc;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Connects to this machine, with the client's own settings; the task is what carries the connection.
pub(crate) async fn connect(
    address: &str,
    mut tls: ClientConfig,
    settings: &Builder,
) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream);
    let (sender, connection) = settings.handshake(stream.await.unwrap()).await.unwrap();
    (sender, tokio::spawn(connection))
}
