//! How the authority is reached: by the program's own HTTP client, which trusts the machine's root
//! certificates, or those of a private authority alone. Notes when the authority wants to be left
//! alone (`Retry-After`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use reqwest::{Client, redirect};
use rustls::{ClientConfig, RootCertStore};

use super::super::files::{certificates, provider};
use super::{bad, now, text};
use crate::config::{self, ConfigError};
use crate::courier;

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer: a chain of certificates is far shorter.
const BYTES_MAX: usize = 1 << 20;
/// However long the authority wants to be left alone, it is asked again after a day.
const ALONE_SECONDS_MAX: i64 = 86_400;

/// The roots that vouch for the authority's own server; none where it is those of the machine.
///
/// # Errors
/// The file can't be used.
pub(super) fn roots(settings: &config::Acme) -> Result<Option<RootCertStore>, ConfigError> {
    let file = &settings.directory_ca;
    if file.is_empty() {
        return Ok(None);
    }
    let wrong = |right| bad("directory_ca", file, right);
    let mut roots = RootCertStore::empty();
    for root in certificates(&text("acme.directory_ca", file)?).map_err(wrong)? {
        let added = roots.add(root);
        added.map_err(|error| wrong(format!("must be authorities' certificates: {error}")))?;
    }
    Ok(Some(roots))
}

/// The way to the authority. All of its clones note together when it wants to be left alone.
#[derive(Debug, Clone)]
pub(super) struct Http {
    client: Client,
    alone_until: Arc<AtomicI64>,
}

impl Http {
    /// # Errors
    /// The first setting that can't be used.
    pub(super) fn new(settings: &config::Acme) -> Result<Self, ConfigError> {
        let wrong = |error: String| bad("directory", &settings.directory, error);
        let tls = match roots(settings)? {
            None => courier::tls(),
            Some(roots) => ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .map(|builder| builder.with_root_certificates(roots).with_no_client_auth()),
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls.map_err(|error| wrong(error.to_string()))?)
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .https_only(true)
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Http {
            client,
            alone_until: Arc::default(),
        })
    }

    /// Until when the authority wants to be left alone, in seconds since 1970.
    pub(super) fn alone_until(&self) -> i64 {
        self.alone_until.load(Ordering::Relaxed)
    }

    async fn ask(self, request: http::Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let (parts, body) = request.into_parts();
        let mut body = BytesResponse::from(http::Response::new(body)).body;
        let body = body.into_bytes().await.map_err(Error::Other)?;
        let request = http::Request::from_parts(parts, body);
        let asked = reqwest::Request::try_from(request).map_err(why)?;
        let mut answer = self.client.execute(asked).await.map_err(why)?;
        let status = answer.status();
        let headers = answer.headers().clone();
        if status.is_client_error() || status.is_server_error() {
            self.note(retry_after(&headers));
            // A proxy's page says nothing to the client, which would tell of its syntax.
            if !is_json(&headers) {
                return Err(Error::Other(format!("it answers {status}").into()));
            }
        }
        let mut body = BytesMut::new();
        while let Some(piece) = answer.chunk().await.map_err(why)? {
            body.extend_from_slice(&piece);
            if body.len() > BYTES_MAX {
                return Err(Error::Str("an answer of reasonable length"));
            }
        }
        let mut response = http::Response::new(());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(BytesResponse {
            parts: response.into_parts().0,
            body: Box::new(body.freeze()),
        })
    }

    fn note(&self, alone_seconds: Option<i64>) {
        if let Some(seconds) = alone_seconds {
            let until = now() + seconds.clamp(0, ALONE_SECONDS_MAX);
            self.alone_until.fetch_max(until, Ordering::Relaxed);
        }
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().ask(request))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE);
    media.is_some_and(|media| media.to_str().is_ok_and(|media| media.contains("json")))
}

/// Seconds, or until a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<i64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let at = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(i64::try_from(at.as_secs()).ok()? - now())
}

/// What stood in the way, down to its cause: the outermost error says only that there was one.
fn why(error: reqwest::Error) -> Error {
    let mut innermost: &(dyn std::error::Error + 'static) = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    Error::Other(format!("it does not answer: {innermost}").into())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use http::HeaderValue;

    use super::*;

    #[test]
    fn it_is_left_alone_as_long_as_it_says_in_either_form() {
        let told = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
            retry_after(&headers)
        };
        assert_eq!(told("120"), Some(120));
        let in_a_minute = std::time::SystemTime::now() + Duration::from_secs(60);
        let seconds = told(&httpdate::fmt_http_date(in_a_minute)).unwrap();
        assert!((58..=60).contains(&seconds), "{seconds}");
        assert_eq!(told("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
