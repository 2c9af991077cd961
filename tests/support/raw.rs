//! Bytes over a bare socket, for what no HTTP client would send.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What came back until the server closed or was silent for too long.
pub(crate) struct RawAnswer {
    /// 0 when nothing came.
    pub(crate) status: u16,
    pub(crate) text: String,
    /// Whether the server closed the connection.
    pub(crate) closed: bool,
}

impl RawAnswer {
    /// What follows the head.
    pub(crate) fn body(&self) -> &str {
        self.text
            .split_once("\r\n\r\n")
            .map_or("", |(_, body)| body)
    }
}

/// A connection that writes what it is told.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) async fn connect(address: &str) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Writes; the server may have closed already, which the reading shows.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }

    /// Tells the server that nothing more comes.
    pub(crate) async fn finish_writing(&mut self) {
        drop(self.0.shutdown().await);
    }

    /// Reads an answer's head; gives its status.
    pub(crate) async fn read_head(&mut self) -> u16 {
        let (mut head, mut byte) = (Vec::new(), [0_u8; 1]);
        while !head.ends_with(b"\r\n\r\n") {
            assert_eq!(
                self.0.read(&mut byte).await.unwrap(),
                1,
                "cut off behind {head:?}"
            );
            head.extend(byte);
        }
        let text = String::from_utf8_lossy(&head);
        text.split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap()
    }

    /// Reads until the server closes, at most this long.
    pub(crate) async fn read_to_end(&mut self, longest: Duration) -> RawAnswer {
        let mut bytes = Vec::new();
        let end = tokio::time::timeout(longest, async {
            let mut part = [0_u8; 4096];
            loop {
                match self.0.read(&mut part).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => bytes.extend_from_slice(&part[..count]),
                }
            }
        });
        let closed = end.await.is_ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0);
        RawAnswer {
            status,
            text,
            closed,
        }
    }
}

/// Sends these bytes and reads until the server closes.
pub(crate) async fn exchange(address: &str, bytes: &[u8]) -> RawAnswer {
    let mut raw = Raw::connect(address).await;
    raw.write(bytes).await;
    raw.read_to_end(Duration::from_secs(10)).await
}
