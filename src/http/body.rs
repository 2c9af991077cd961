//! Request bodies: how much is read, for how long, as which media type, and where it is parsed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue,
};
use bytes::{Bytes, BytesMut};
use colloquy_model::idempotency::Fingerprint;
use colloquy_runtime::offload::{self, ComputeError};
use futures_util::{FutureExt, StreamExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::api_call::ApiCall;
use super::app_state::AppState;
use super::budget::{Budget, BudgetOwner, BytesPermit, Slack};
use super::idempotency::RequestIdentity;
use super::operation::{Verb, register};
use super::problem::{Kind, Outcome, Problem};
use super::{json, query};

/// As it is named in an error.
const CONTENT_ENCODING_SHOWN: &str = "Content-Encoding";

/// The media types that a body may come as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// A JSON text, declared as `application/json`.
    Json,
    /// A form as a page in a browser sends it.
    Form,
    /// A file, by itself or as the one part of a form: it is read as it is written, never whole.
    File,
}

/// A body as the interface's own document shows it.
pub(crate) struct BodySchema {
    /// The name under which its schema stands.
    pub(crate) name: String,
    /// Whether a request without it is refused.
    pub(crate) is_required: bool,
}

impl BodySchema {
    /// Describes a body that must be there.
    fn required(name: String) -> Self {
        BodySchema {
            name,
            is_required: true,
        }
    }
}

/// What an operation takes as its body.
pub(crate) trait Body: Sized + Send + 'static {
    /// Whether its handler reserves the idempotency key itself: for each of many operations, or
    /// because only the handler knows whose key it is.
    const HANDLES_IDEMPOTENCY: bool = false;
    /// How a body of this type has to be encoded.
    const ENCODING: Encoding = Encoding::Json;
    /// Reads it from the request's bytes.
    fn parse(bytes: &[u8]) -> Result<Self, Problem>;
    /// How the interface's own document shows it; none where the operation takes no body.
    fn document(schemas: &mut Vec<(String, Value)>) -> Option<BodySchema>;
}

impl Body for () {
    fn parse(_: &[u8]) -> Result<Self, Problem> {
        Ok(())
    }
    fn document(_: &mut Vec<(String, Value)>) -> Option<BodySchema> {
        None
    }
}

/// A JSON body that must be there.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + ToSchema + Send + 'static> Body for Json<T> {
    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        if bytes.is_empty() {
            return Err(Problem::invalid("", "must be a JSON object"));
        }
        json::parse(bytes).map(Json)
    }
    fn document(schemas: &mut Vec<(String, Value)>) -> Option<BodySchema> {
        Some(BodySchema::required(register::<T>(schemas)))
    }
}

/// A JSON body whose every field is optional, so that it may be missing.
#[derive(Debug)]
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned + ToSchema + Default + Send + 'static> Body for OptionalJson<T> {
    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        if bytes.is_empty() {
            Ok(OptionalJson(T::default()))
        } else {
            json::parse(bytes).map(OptionalJson)
        }
    }
    fn document(schemas: &mut Vec<(String, Value)>) -> Option<BodySchema> {
        Some(BodySchema {
            name: register::<T>(schemas),
            is_required: false,
        })
    }
}

/// A JSON body of whoever holds a share link: its idempotency key is known beside the link's
/// document only.
#[derive(Debug)]
pub(crate) struct ShareLinkJson<T>(pub(crate) T);

impl<T: DeserializeOwned + ToSchema + Send + 'static> Body for ShareLinkJson<T> {
    const HANDLES_IDEMPOTENCY: bool = true;
    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        Json::parse(bytes).map(|Json(body)| ShareLinkJson(body))
    }
    fn document(schemas: &mut Vec<(String, Value)>) -> Option<BodySchema> {
        Json::<T>::document(schemas)
    }
}

/// A body that a page's form sends.
#[derive(Debug)]
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned + ToSchema + Send + 'static> Body for Form<T> {
    const ENCODING: Encoding = Encoding::Form;
    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Problem::invalid("", "must be percent-encoded UTF-8"))?;
        query::parse(text).map(Form)
    }
    fn document(schemas: &mut Vec<(String, Value)>) -> Option<BodySchema> {
        Some(BodySchema::required(register::<T>(schemas)))
    }
}

/// A file, which the handler reads from [`ApiCall::upload`] as it comes.
#[derive(Debug)]
pub(crate) struct File;

/// A file in the one part of a form.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "what the interface's own document shows of it")]
pub(crate) struct FileForm {
    /// The file.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

impl Body for File {
    /// What the request is, is known when the last byte has come.
    const HANDLES_IDEMPOTENCY: bool = true;
    const ENCODING: Encoding = Encoding::File;
    fn parse(_: &[u8]) -> Result<Self, Problem> {
        Ok(File)
    }
    fn document(schemas: &mut Vec<(String, Value)>) -> Option<BodySchema> {
        Some(BodySchema::required(register::<FileForm>(schemas)))
    }
}

/// A body that its handler reads piece by piece.
#[derive(Debug)]
pub(crate) struct Upload {
    pieces: mpsc::Receiver<Result<Bytes, Problem>>,
}

impl Upload {
    /// The body, and what puts its pieces in.
    pub(crate) fn new() -> (Self, mpsc::Sender<Result<Bytes, Problem>>) {
        // The next piece is read while this one is written.
        let (sender, pieces) = mpsc::channel(1);
        (Upload { pieces }, sender)
    }

    /// The next piece; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Problem>> {
        self.pieces.recv().await
    }
}

/// No field at all; an empty object will do.
#[derive(Debug, Default, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Empty {}

/// The bounds of a body, from the settings.
#[derive(Debug)]
pub(crate) struct BodyLimits {
    pub(crate) bytes_max: usize,
    /// What a larger one is refused as.
    pub(crate) refusal: Kind,
    pub(crate) offload_bytes: usize,
    pub(crate) timeout: Duration,
    pub(crate) in_flight: Arc<Budget>,
}

/// The media type of what a form on a page sends.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// Bytes of a body that are read before it is known whether it is wanted.
const AHEAD_MAX: usize = 65_536;

/// Reads the form that a page of the console sends: as large as a document where its sender is
/// signed in.
///
/// # Errors
/// It is too large, too slow, cut off, or no form.
pub(crate) async fn read_form(
    app: &AppState,
    headers: &HeaderMap,
    owner: BudgetOwner,
    pieces: &mut BodyReader<'_>,
) -> Result<RawBody, Problem> {
    let limits = match owner {
        BudgetOwner::Account(_) | BudgetOwner::Operator => &app.document_body,
        BudgetOwner::Address(_) => &app.form_body,
    };
    let raw_body = limits.read(headers, owner, pieces).await?;
    if !raw_body.is_empty() {
        check_media_type(headers, Verb::Post, Encoding::Form)?;
    }
    Ok(raw_body)
}

/// Reads a body piece by piece, and knows whether it has come to its end.
pub(crate) struct BodyReader<'p> {
    payload: &'p mut Payload,
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    ended: bool,
}

impl<'p> BodyReader<'p> {
    pub(crate) fn of(payload: &'p mut Payload) -> Self {
        BodyReader {
            payload,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            ended: false,
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if let Some(piece) = self.ahead.pop_front() {
            return Ok(Some(piece));
        }
        while !self.ended {
            let piece = self.payload.next().await.transpose();
            match piece.map_err(|_| cut_off())? {
                // HTTP/2 may end a body with one.
                Some(piece) if piece.is_empty() => {}
                Some(piece) => return Ok(Some(piece)),
                None => self.ended = true,
            }
        }
        Ok(None)
    }

    /// Puts back what was read of it.
    pub(crate) fn push_front(&mut self, read: &RawBody) {
        if !read.is_empty() {
            self.ahead.push_front(read.bytes.clone());
        }
    }

    /// Hands its pieces on, each of which must come within this time; gives how many bytes they had.
    pub(crate) async fn hand_on(
        &mut self,
        to: mpsc::Sender<Result<Bytes, Problem>>,
        within: Duration,
        bytes: &mut usize,
    ) {
        let late = || Problem::new(Kind::RequestTimeout, "the body must keep coming");
        loop {
            let next = tokio::time::timeout(within, self.next()).await;
            let piece = match next.unwrap_or_else(|_| Err(late())) {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => return,
                Err(problem) => Err(problem),
            };
            *bytes += piece.as_ref().map_or(0, Bytes::len);
            let is_over = piece.is_err();
            // Its reader wants no more of it, or was told why there is none.
            if to.send(piece).await.is_err() || is_over {
                return;
            }
        }
    }

    /// Whether it has come to its end, as far as can be told without waiting.
    pub(crate) fn has_ended(&mut self) -> bool {
        // One that goes on or is at fault has not.
        let _ = self.fault().now_or_never();
        self.ended
    }

    /// Reads ahead and ends only where the body is at fault. The server takes a body that is
    /// encoded wrongly for a client that is gone, and sends only what is ready in that moment:
    /// whoever waits for something else meanwhile would be late.
    pub(crate) async fn fault(&mut self) -> Problem {
        while !self.ended && self.ahead_bytes < AHEAD_MAX {
            match self.payload.next().await {
                Some(Ok(piece)) => {
                    self.ahead_bytes += piece.len();
                    self.ahead.push_back(piece);
                }
                Some(Err(_)) => return cut_off(),
                None => self.ended = true,
            }
        }
        std::future::pending().await
    }
}

fn cut_off() -> Problem {
    Problem::invalid("", "the body was cut off or is encoded wrongly")
}

/// A whole body, not parsed yet.
#[derive(Debug, Default)]
pub(crate) struct RawBody {
    bytes: Bytes,
    large: bool,
    permit: Option<BytesPermit>,
}

impl RawBody {
    /// A body that was made in this process.
    pub(crate) fn of(bytes: Bytes) -> Self {
        RawBody {
            bytes,
            ..RawBody::default()
        }
    }

    /// The bytes as they came.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same once more, for a request that is decided anew; its bytes are shared.
    pub(crate) fn again(&self) -> Self {
        RawBody {
            bytes: self.bytes.clone(),
            large: self.large,
            permit: None,
        }
    }
}

/// A body's value, with what is held for it.
pub(crate) struct ParsedBody<B> {
    pub(crate) body: B,
    /// What the request is, where it has an idempotency key.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Held until the request is answered: until then what it says is in memory in one form or
    /// another.
    pub(crate) permit: Option<BytesPermit>,
}

/// What a body may take of the memory for large bodies, and who pays for it.
#[derive(Clone, Copy)]
struct Share {
    owner: BudgetOwner,
    bytes_max: usize,
}

impl BodyLimits {
    /// Reads a whole body, or says which bound it breaks.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        owner: BudgetOwner,
        pieces: &mut BodyReader<'_>,
    ) -> Result<RawBody, Problem> {
        let declared = match headers.get(CONTENT_LENGTH) {
            Some(length) => length
                .to_str()
                .ok()
                .and_then(|text| text.parse::<usize>().ok()),
            None => None,
        };
        if declared.is_some_and(|length| length > self.bytes_max) {
            return Err(self.too_large());
        }
        let late = || Problem::new(Kind::RequestTimeout, "the whole body must come in time");
        tokio::time::timeout(self.timeout, self.gather(declared, owner, pieces))
            .await
            .map_err(|_| late())?
    }

    async fn gather(
        &self,
        declared: Option<usize>,
        owner: BudgetOwner,
        pieces: &mut BodyReader<'_>,
    ) -> Result<RawBody, Problem> {
        let mut raw_body = RawBody::default();
        // Without a declared length it may become as large as allowed.
        let share = Share {
            owner,
            bytes_max: declared.unwrap_or(self.bytes_max),
        };
        self.hold(&mut raw_body, declared.unwrap_or(0), share)?;
        let mut gathered = BytesMut::new();
        while let Some(chunk) = pieces.next().await? {
            let so_far = raw_body.bytes.len() + gathered.len() + chunk.len();
            if so_far > self.bytes_max {
                return Err(self.too_large());
            }
            self.hold(&mut raw_body, so_far, share)?;
            // The usual body comes in one piece and is not copied.
            if raw_body.bytes.is_empty() && gathered.is_empty() {
                raw_body.bytes = chunk;
                continue;
            }
            if gathered.is_empty() {
                gathered.reserve(declared.unwrap_or(so_far * 2).min(self.bytes_max));
                gathered.extend_from_slice(&std::mem::take(&mut raw_body.bytes));
            }
            gathered.extend_from_slice(&chunk);
        }
        if !gathered.is_empty() {
            raw_body.bytes = gathered.freeze();
        }
        Ok(raw_body)
    }

    /// Takes memory for the whole body as soon as what has come is large.
    fn hold(&self, raw_body: &mut RawBody, bytes: usize, share: Share) -> Result<(), Problem> {
        if bytes > self.offload_bytes && !raw_body.large {
            raw_body.large = true;
            let permit = self
                .in_flight
                .take(share.owner, share.bytes_max, Slack::None);
            let refused =
                || Problem::unavailable("too many large bodies at once", Outcome::None, 1);
            raw_body.permit = Some(permit.ok_or_else(refused)?);
        }
        Ok(())
    }

    fn too_large(&self) -> Problem {
        Problem::new(
            self.refusal,
            format!("the body must be at most {} bytes", self.bytes_max),
        )
    }
}

impl RawBody {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Parses it; with an idempotency key it is hashed as well. A large one is parsed off this
    /// thread when the account's turn comes, so that many at once do not take the cores from
    /// everybody else.
    pub(crate) async fn parse<B: Body>(self, call: &ApiCall) -> Result<ParsedBody<B>, Problem> {
        let identity = call
            .idempotency_key
            .is_some()
            .then(|| RequestIdentity::of_call(call));
        if !self.large {
            return self.read_and_hash(identity.as_ref());
        }
        let bytes = self.bytes.len();
        let parsed = offload::run_linear(call.caller.tenant, bytes, move || {
            self.read_and_hash(identity.as_ref())
        });
        parsed.await.unwrap_or_else(|error| match error {
            ComputeError::Overloaded => Err(Problem::unavailable(
                "too many large bodies at once",
                Outcome::None,
                1,
            )),
            ComputeError::Panicked => Err(Problem::crashed()),
        })
    }

    /// The permit goes along: whoever hangs up meanwhile does not end it.
    fn read_and_hash<B: Body>(
        self,
        identity: Option<&RequestIdentity>,
    ) -> Result<ParsedBody<B>, Problem> {
        let body = B::parse(&self.bytes)?;
        let fingerprint = identity.map(|identity| identity.fingerprint(&self.bytes));
        Ok(ParsedBody {
            body,
            fingerprint,
            permit: self.permit,
        })
    }
}

/// Whether a body is declared as what the operation reads.
pub(crate) fn check_media_type(
    headers: &HeaderMap,
    verb: Verb,
    encoding: Encoding,
) -> Result<(), Problem> {
    let plain =
        |coding: &str| coding.trim().is_empty() || coding.trim().eq_ignore_ascii_case("identity");
    let plain = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.split(',').all(plain));
    if !headers.get_all(CONTENT_ENCODING).all(plain) {
        let problem = Problem::new(
            Kind::UnsupportedMediaType,
            "the body must not be compressed",
        );
        return Err(Problem {
            field: CONTENT_ENCODING_SHOWN.into(),
            ..problem
        });
    }
    let mut all = headers.get_all(CONTENT_TYPE);
    let Some(declared) = all.next() else {
        return Ok(());
    };
    if all.next().is_some() {
        return Err(Problem::new(
            Kind::UnsupportedMediaType,
            "the body must be declared once",
        ));
    }
    let expected = match encoding {
        Encoding::Form => FORM,
        Encoding::Json => "application/json",
        // It may be anything.
        Encoding::File => return Ok(()),
    };
    let wrong = || {
        let reason = format!("the body must be declared as {expected}, in UTF-8");
        Problem::new(Kind::UnsupportedMediaType, reason)
    };
    let declared = declared.to_str().map_err(|_| wrong())?;
    let mut parts = declared.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let known = media.eq_ignore_ascii_case(expected)
        || (verb == Verb::Patch && media.eq_ignore_ascii_case("application/merge-patch+json"));
    let utf8 = parts.all(|part| match part.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        Some(_) | None => true,
    });
    if known && utf8 { Ok(()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_body_is_json_in_utf_8_or_undeclared() {
        let check = |text: &str, verb| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(text).unwrap());
            check_media_type(&headers, verb, Encoding::Json).is_ok()
        };
        assert!(check_media_type(&HeaderMap::new(), Verb::Post, Encoding::Json).is_ok());
        assert!(
            check("application/json", Verb::Post)
                && check("Application/JSON; charset=UTF-8", Verb::Post)
        );
        assert!(check("application/merge-patch+json", Verb::Patch));
        for wrong in [
            "application/merge-patch+json",
            "text/plain",
            "application/json; charset=latin1",
            "",
        ] {
            assert!(!check(wrong, Verb::Post), "{wrong}");
        }
        let mut headers = HeaderMap::new();
        for _ in 0..2 {
            assert!(check_media_type(&headers, Verb::Post, Encoding::Json).is_ok());
            headers.append(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        assert!(
            check_media_type(&headers, Verb::Post, Encoding::Json).is_err(),
            "declared twice"
        );
    }

    #[test]
    fn a_body_must_not_be_compressed() {
        for (coding, right) in [
            ("identity", true),
            ("Identity", true),
            ("gzip", false),
            ("identity, br", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
            assert_eq!(
                check_media_type(&headers, Verb::Post, Encoding::Json).is_ok(),
                right,
                "{coding}"
            );
        }
    }
}
