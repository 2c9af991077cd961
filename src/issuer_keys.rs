//! Fetches the public keys of issuers whose access tokens are accepted.

use std::sync::Arc;
use std::time::Duration;

use colloquy_actors::oauth::FetchText;
use colloquy_actors::store::Later;
use reqwest::{Client, redirect};

use crate::courier::{CourierError, tls};

/// How long an issuer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest key set.
const BYTES_MAX: usize = 1 << 20;

/// Fetches over HTTP. Operators name the addresses, so they may be of this machine too.
pub(crate) struct IssuerKeys {
    client: Client,
}

impl IssuerKeys {
    /// # Errors
    /// No client can be made.
    pub(crate) fn new() -> Result<Arc<Self>, CourierError> {
        let client = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            // Asked once a minute at most: by then the other side has closed what would be kept.
            .pool_max_idle_per_host(0)
            .timeout(TIMEOUT)
            .build()?;
        Ok(Arc::new(IssuerKeys { client }))
    }
}

impl FetchText for IssuerKeys {
    fn fetch(&self, url: &str) -> Later<Result<String, String>> {
        let request = self
            .client
            .get(url)
            .header("accept", "application/json")
            .send();
        Box::pin(async move {
            let words = |error: reqwest::Error| error.without_url().to_string();
            let mut answer = request
                .await
                .map_err(words)?
                .error_for_status()
                .map_err(words)?;
            let mut body = Vec::new();
            while let Some(piece) = answer.chunk().await.map_err(words)? {
                body.extend_from_slice(&piece);
                if body.len() > BYTES_MAX {
                    return Err(format!("it is longer than {BYTES_MAX} bytes"));
                }
            }
            String::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())
        })
    }
}
