//! What went wrong, as the caller sees it. The only file that pairs errors with statuses: every
//! match is exhaustive, so that a new failure does not compile until it has a status.

use std::borrow::Cow;
use std::convert::Infallible;

use actix_web::http::StatusCode;
use bytes::Bytes;
use colloquy_actors::accounts::record::RecordError;
use colloquy_actors::conversation::messages::ConversationError;
use colloquy_actors::document::LinkError;
use colloquy_actors::document::messages::DocumentError;
use colloquy_actors::document::views::MergeConflict;
use colloquy_actors::store::{ListFailure, ReadError};
use colloquy_actors::supervision::messages::SupervisionError;
use colloquy_actors::webhook::DeliveryError;
use colloquy_actors::webhook::target::TargetError;
use colloquy_model::answer::Invalid;
use colloquy_runtime::{AskError, Cause, OperatorError};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// How many characters of what a caller sent an error may show.
const ECHO_MAX: usize = 100;

/// Why there is no room for an answer.
pub(crate) const TOO_MANY_ANSWERS: &str = "too many large answers wait for their readers";

/// An error's status, code and first words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    InvalidRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    Conflict,
    InvalidTransition,
    ConversationClosed,
    IdempotencyInProgress,
    MergeConflict,
    CursorExpired,
    PreconditionFailed,
    PayloadTooLarge,
    RangeNotSatisfiable,
    UnsupportedMediaType,
    IdempotencyKeyReused,
    RateLimited,
    QuotaExceeded,
    HeadersTooLarge,
    ServerError,
    Unavailable,
}

impl Kind {
    /// Every kind of problem that a caller may be told of.
    pub(crate) const ALL: [Kind; 22] = [
        Kind::InvalidRequest,
        Kind::Unauthorized,
        Kind::Forbidden,
        Kind::NotFound,
        Kind::MethodNotAllowed,
        Kind::RequestTimeout,
        Kind::Conflict,
        Kind::InvalidTransition,
        Kind::ConversationClosed,
        Kind::IdempotencyInProgress,
        Kind::MergeConflict,
        Kind::CursorExpired,
        Kind::PreconditionFailed,
        Kind::PayloadTooLarge,
        Kind::RangeNotSatisfiable,
        Kind::UnsupportedMediaType,
        Kind::IdempotencyKeyReused,
        Kind::RateLimited,
        Kind::QuotaExceeded,
        Kind::HeadersTooLarge,
        Kind::ServerError,
        Kind::Unavailable,
    ];

    /// The status that it is answered with.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Kind::InvalidRequest => StatusCode::BAD_REQUEST,
            Kind::Unauthorized => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Kind::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Kind::Conflict
            | Kind::InvalidTransition
            | Kind::ConversationClosed
            | Kind::IdempotencyInProgress
            | Kind::MergeConflict => StatusCode::CONFLICT,
            Kind::CursorExpired => StatusCode::GONE,
            Kind::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Kind::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            Kind::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Kind::RateLimited | Kind::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Kind::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Kind::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The machine-readable name.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Kind::InvalidRequest => "invalid_request",
            Kind::Unauthorized => "unauthorized",
            Kind::Forbidden => "forbidden",
            Kind::NotFound => "not_found",
            Kind::MethodNotAllowed => "method_not_allowed",
            Kind::RequestTimeout => "request_timeout",
            Kind::Conflict => "conflict",
            Kind::InvalidTransition => "invalid_transition",
            Kind::ConversationClosed => "conversation_closed",
            Kind::IdempotencyInProgress => "idempotency_in_progress",
            Kind::MergeConflict => "merge_conflict",
            Kind::CursorExpired => "cursor_expired",
            Kind::PreconditionFailed => "precondition_failed",
            Kind::PayloadTooLarge => "payload_too_large",
            Kind::RangeNotSatisfiable => "range_not_satisfiable",
            Kind::UnsupportedMediaType => "unsupported_media_type",
            Kind::IdempotencyKeyReused => "idempotency_key_reused",
            Kind::RateLimited => "rate_limited",
            Kind::QuotaExceeded => "quota_exceeded",
            Kind::HeadersTooLarge => "headers_too_large",
            Kind::ServerError => "server_error",
            Kind::Unavailable => "unavailable",
        }
    }

    /// What happened, then what to do about it.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Kind::InvalidRequest => "The request is not valid: check request parameters",
            Kind::Unauthorized => "The credential is missing or not valid: verify the API key",
            Kind::Forbidden => "The credential does not allow this: check permissions",
            Kind::NotFound => "Nothing is here: verify the resource exists",
            Kind::MethodNotAllowed => {
                "The resource does not take this method: use one of those in Allow"
            }
            Kind::RequestTimeout => "The body did not come in time: send it faster",
            Kind::Conflict => "The resource's state does not allow this: read it, then decide anew",
            Kind::InvalidTransition => {
                "The status does not lead there: read the conversation, then decide anew"
            }
            Kind::ConversationClosed => "The conversation is closed: reopen it first",
            Kind::IdempotencyInProgress => {
                "The first request with this Idempotency-Key still runs: wait, then repeat it"
            }
            Kind::MergeConflict => {
                "Both sides changed the same lines: send resolutions, or choose another strategy"
            }
            Kind::CursorExpired => {
                "The events behind the cursor are not stored any more: begin anew with after=0"
            }
            Kind::PreconditionFailed => "The resource has changed: read it, then decide anew",
            Kind::PayloadTooLarge => "The body is too large: send a smaller one",
            Kind::RangeNotSatisfiable => {
                "The content has no such part: ask for one within the length that Content-Range tells"
            }
            Kind::UnsupportedMediaType => {
                "The body's media type is not known: send application/json"
            }
            Kind::IdempotencyKeyReused => {
                "The Idempotency-Key belongs to another request: use a new one"
            }
            Kind::RateLimited => "Too many requests: slow down; use backoff",
            Kind::QuotaExceeded => {
                "The account's requests of this month are used up: wait until the next month begins, or have the quota raised"
            }
            Kind::HeadersTooLarge => "The header block is too large: send fewer or shorter headers",
            Kind::ServerError => "Something went wrong on our side: contact support",
            Kind::Unavailable => "The service can't answer right now: retry after the time given",
        }
    }
}

/// Whether anything was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing was: it is safe to retry.
    None,
    /// Nobody knows: an `Idempotency-Key` makes a retry safe.
    Unknown,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::None => "none",
            Outcome::Unknown => "unknown",
        }
    }
}

/// A refusal or a failure on its way to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) field: Cow<'static, str>,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) retry_after_seconds: Option<u64>,
    /// The methods that would have been right.
    pub(crate) allow: Option<&'static str>,
    /// What only few problems have, kept apart so that the others stay small.
    pub(crate) more: Option<Box<More>>,
}

/// What a problem tells beside what all of them do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum More {
    /// What a merge left undecided.
    Conflict(Box<MergeConflict>),
    /// Nothing was done, because another node had committed before: decided anew, it may be.
    Overtaken,
    /// The problem as a page, for people who ask for one.
    Page(Bytes),
    /// The problem in the words of OAuth 2.0 (RFC 6749, 5.2): its code there.
    OAuth(&'static str),
    /// How long the content is of which another part was asked for.
    Length(u64),
    /// What was found, for the log alone.
    Found(Finding),
    /// The body, in the form that the caller prefers, where writing it would have held others up.
    Written(Bytes),
}

/// Why a request could not be answered, as the log tells it: beside who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What can't be done.
    pub(crate) what: &'static str,
    /// Why.
    pub(crate) error: String,
    /// Whether it is a fault of ours, and not of what we rely on.
    pub(crate) is_fault: bool,
}

impl Problem {
    /// The same, of which the log is to tell why.
    pub(crate) fn because(self, what: &'static str, error: &dyn std::fmt::Display) -> Self {
        let finding = Finding {
            what,
            error: error.to_string(),
            is_fault: self.kind == Kind::ServerError,
        };
        Problem {
            more: Some(Box::new(More::Found(finding))),
            ..self
        }
    }

    /// A problem with no parameter at fault.
    pub(crate) fn new(kind: Kind, reason: impl Into<Cow<'static, str>>) -> Self {
        let (field, reason) = (Cow::Borrowed(""), reason.into());
        Problem {
            kind,
            field,
            reason,
            outcome: None,
            retry_after_seconds: None,
            allow: None,
            more: None,
        }
    }

    /// A parameter that is not acceptable.
    pub(crate) fn invalid(
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Problem {
            field: shortened(field.into()),
            ..Problem::new(Kind::InvalidRequest, shortened(reason.into()))
        }
    }

    /// Nothing is there, or nothing that this caller may know of.
    pub(crate) fn not_found() -> Self {
        Problem::new(Kind::NotFound, "no such resource")
    }

    /// Nothing of this sort is there.
    pub(crate) fn no_such(reason: &'static str) -> Self {
        Problem::new(Kind::NotFound, reason)
    }

    /// 403: the credential is good, and not enough for this.
    pub(crate) fn forbidden(reason: &'static str) -> Self {
        Problem::new(Kind::Forbidden, reason)
    }

    /// Beyond a limit; after so long the next one passes.
    pub(crate) fn rate_limited(reason: &'static str, retry_after_seconds: u64) -> Self {
        let retry_after_seconds = Some(retry_after_seconds.max(1));
        Problem {
            retry_after_seconds,
            ..Problem::new(Kind::RateLimited, reason)
        }
    }

    /// The account's quota of this month is spent; the next month begins after so long.
    pub(crate) fn quota_exceeded(retry_after_seconds: u64) -> Self {
        let retry_after_seconds = Some(retry_after_seconds.max(1));
        let reason = "the account's monthly quota is spent";
        Problem {
            retry_after_seconds,
            ..Problem::new(Kind::QuotaExceeded, reason)
        }
    }

    /// 503: it can't be done now, and may be tried again after so many seconds.
    pub(crate) fn unavailable(
        reason: impl Into<Cow<'static, str>>,
        outcome: Outcome,
        retry_after_seconds: u64,
    ) -> Self {
        let retry_after_seconds = Some(retry_after_seconds.max(1));
        Problem {
            outcome: Some(outcome),
            retry_after_seconds,
            ..Problem::new(Kind::Unavailable, reason)
        }
    }

    /// 409: the first request with the same key has no answer yet.
    pub(crate) fn key_in_use() -> Self {
        Problem::new(Kind::IdempotencyInProgress, "the first request still runs")
    }

    /// 503: nothing was done, because another node had committed before.
    pub(crate) fn overtaken() -> Self {
        Problem {
            more: Some(Box::new(More::Overtaken)),
            ..Problem::unavailable(why(Cause::Conflict), Outcome::None, 1)
        }
    }

    /// Whether the request was refused for what it asks.
    pub(crate) fn is_refusal(&self) -> bool {
        self.kind.status().is_client_error()
    }

    /// Whether nothing was done because another node had committed before.
    pub(crate) fn is_overtaken(&self) -> bool {
        matches!(self.more.as_deref(), Some(More::Overtaken))
    }

    /// 500: a fault of ours, whose detail is in the log alone.
    pub(crate) fn crashed() -> Self {
        Problem {
            outcome: Some(Outcome::Unknown),
            ..Problem::new(Kind::ServerError, "an internal failure")
        }
    }

    /// 500: the same, before the operation was begun, so that nothing was done.
    pub(crate) fn crashed_before_start() -> Self {
        Problem {
            outcome: Some(Outcome::None),
            ..Problem::crashed()
        }
    }

    /// What is stored can't be read: a fault of ours, and nothing was done.
    pub(crate) fn unreadable() -> Self {
        let problem = Problem::new(
            Kind::ServerError,
            "what is stored of the resource can't be read",
        );
        Problem {
            outcome: Some(Outcome::None),
            ..problem
        }
    }

    /// Names this parameter as the one at fault.
    pub(crate) fn at(self, field: impl Into<Cow<'static, str>>) -> Self {
        Problem {
            field: field.into(),
            ..self
        }
    }

    /// 400 with a code of RFC 6749 (5.2).
    pub(crate) fn oauth(code: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Problem {
            more: Some(Box::new(More::OAuth(code))),
            ..Problem::new(Kind::InvalidRequest, reason)
        }
    }

    /// The same problem in the words of OAuth 2.0; one that has them keeps them.
    pub(crate) fn into_oauth(self) -> Self {
        if matches!(self.more.as_deref(), Some(More::OAuth(_))) {
            return self;
        }
        let code = match self.kind {
            Kind::Unauthorized => "invalid_client",
            Kind::RateLimited | Kind::QuotaExceeded | Kind::Unavailable => {
                "temporarily_unavailable"
            }
            Kind::ServerError => "server_error",
            Kind::InvalidRequest
            | Kind::Forbidden
            | Kind::NotFound
            | Kind::MethodNotAllowed
            | Kind::RequestTimeout
            | Kind::Conflict
            | Kind::InvalidTransition
            | Kind::ConversationClosed
            | Kind::IdempotencyInProgress
            | Kind::MergeConflict
            | Kind::CursorExpired
            | Kind::PreconditionFailed
            | Kind::PayloadTooLarge
            | Kind::RangeNotSatisfiable
            | Kind::UnsupportedMediaType
            | Kind::IdempotencyKeyReused
            | Kind::HeadersTooLarge => "invalid_request",
        };
        Problem {
            more: Some(Box::new(More::OAuth(code))),
            ..self
        }
    }

    /// The body as RFC 6749 has it (5.2). A reason is in characters that it allows.
    pub(crate) fn oauth_json(&self, code: &str) -> Bytes {
        #[derive(serde::Serialize)]
        struct Body<'a> {
            error: &'a str,
            error_description: &'a str,
        }
        let reason = format!("{} {}", self.field, self.reason);
        let allowed = |one: &char| matches!(one, ' '..='~') && !matches!(one, '"' | '\\');
        let reason: String = reason.trim().chars().filter(allowed).collect();
        colloquy_model::json::bytes(&Body {
            error: code,
            error_description: &reason,
        })
    }

    /// The body: as RFC 9457 has it, for the path where it came up, or in the house's own form.
    pub(crate) fn body(&self, instance: Option<&str>) -> Bytes {
        instance
            .map_or_else(|| self.json(), |instance| self.problem_json(instance))
            .into()
    }

    /// The body in the house's own form.
    pub(crate) fn json(&self) -> Vec<u8> {
        #[derive(serde::Serialize)]
        struct Inner<'a> {
            code: &'a str,
            message: &'a str,
            details: Details<'a>,
        }
        #[derive(serde::Serialize)]
        struct Body<'a> {
            error: Inner<'a>,
        }
        let inner = Inner {
            code: self.kind.code(),
            message: self.kind.message(),
            details: Details(self),
        };
        serde_json::to_vec(&Body { error: inner }).unwrap_or_default()
    }

    /// The body as RFC 9457 has it.
    fn problem_json(&self, instance: &str) -> Vec<u8> {
        #[derive(serde::Serialize)]
        struct Body<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            title: &'a str,
            status: u16,
            detail: &'a str,
            instance: &'a str,
            code: &'a str,
            details: Details<'a>,
        }
        let status = self.kind.status();
        let body = Body {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: self.kind.message(),
            instance,
            code: self.kind.code(),
            details: Details(self),
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

struct Details<'a>(&'a Problem);

impl Serialize for Details<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("field", &self.0.field)?;
        map.serialize_entry("reason", &self.0.reason)?;
        if let Some(outcome) = self.0.outcome {
            map.serialize_entry("outcome", outcome.word())?;
        }
        if let Some(More::Conflict(conflict)) = self.0.more.as_deref() {
            map.serialize_entry("conflicts", &conflict.conflicts)?;
            map.serialize_entry("merged", &conflict.merged)?;
            map.serialize_entry("source", &conflict.source)?;
            map.serialize_entry("target", &conflict.target)?;
            map.serialize_entry("style", &conflict.style)?;
        }
        // Where there are no headers, in a frame, it stands here alone.
        let is_limited = matches!(self.0.kind, Kind::RateLimited | Kind::QuotaExceeded);
        if let (true, Some(seconds)) = (is_limited, self.0.retry_after_seconds) {
            map.serialize_entry("retry_after_seconds", &seconds)?;
        }
        map.end()
    }
}

fn shortened(text: Cow<'static, str>) -> Cow<'static, str> {
    match text.char_indices().nth(ECHO_MAX) {
        Some((end, _)) if text.len() > ECHO_MAX => {
            Cow::Owned(text.get(..end).unwrap_or_default().to_owned())
        }
        Some(_) | None => text,
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Problem::invalid(invalid.field, invalid.reason)
    }
}

impl From<TargetError> for Problem {
    fn from(error: TargetError) -> Self {
        Problem::invalid("url", error.to_string())
    }
}

impl From<ConversationError> for Problem {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Unreadable => Problem::unreadable(),
            ConversationError::NotFound => Problem::new(Kind::NotFound, "no such conversation"),
            ConversationError::Forbidden => Problem::new(Kind::Forbidden, error.to_string()),
            ConversationError::ForbiddenField(field) => {
                Problem::new(Kind::Forbidden, error.to_string()).at(field)
            }
            ConversationError::MessageNotFound => Problem::new(Kind::NotFound, "no such message"),
            ConversationError::Precondition => {
                Problem::new(Kind::PreconditionFailed, "If-Match names another state")
            }
            ConversationError::InvalidTransition { .. } => {
                Problem::new(Kind::InvalidTransition, error.to_string()).at("status")
            }
            ConversationError::Closed => Problem::new(
                Kind::ConversationClosed,
                "only a customer may write in a closed conversation",
            ),
            ConversationError::NotPending => {
                Problem::new(Kind::InvalidTransition, error.to_string()).at("snoozed_until")
            }
            ConversationError::AttachmentTaken => {
                Problem::new(Kind::Conflict, error.to_string()).at("attachment_id")
            }
            ConversationError::Redacted | ConversationError::TooManyEdits(_) => {
                Problem::new(Kind::Conflict, error.to_string())
            }
            ConversationError::Invalid(invalid) => invalid.into(),
        }
    }
}

impl From<DocumentError> for Problem {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::NotFound => Problem::not_found(),
            DocumentError::Forbidden => {
                Problem::forbidden("the role in this document does not allow this")
            }
            DocumentError::Precondition => Problem::new(
                Kind::PreconditionFailed,
                "the document is not in the state that was named",
            ),
            DocumentError::Conflict { field, reason } => {
                Problem::new(Kind::Conflict, reason).at(field)
            }
            DocumentError::Merge(conflict) => Problem {
                more: Some(Box::new(More::Conflict(conflict))),
                ..Problem::new(Kind::MergeConflict, "the merge leaves conflicts").at("source")
            },
            DocumentError::Invalid(invalid) => invalid.into(),
        }
    }
}

impl From<LinkError> for Problem {
    fn from(shut: LinkError) -> Self {
        match shut {
            LinkError::Gone => Problem::not_found(),
            LinkError::NoPassword => Problem::new(
                Kind::Unauthorized,
                "the link wants its password in X-Share-Password",
            ),
            LinkError::WrongPassword => {
                Problem::new(Kind::Unauthorized, "the password is not the link's")
            }
            LinkError::TooManyTries(tries) => Problem::rate_limited(
                "too many wrong passwords for this link",
                tries.retry_after_seconds,
            ),
            LinkError::Unknown(failure) => failure.into(),
        }
    }
}

impl From<DeliveryError> for Problem {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::NotFound => Problem::not_found(),
            DeliveryError::Disabled => Problem::new(
                Kind::Conflict,
                "the endpoint is disabled: enable it before anything is sent",
            ),
            DeliveryError::TooManyReplays(most) => Problem::new(
                Kind::Conflict,
                format!(
                    "{most} replays of the endpoint are under way, the most that may be: wait until the deliveries of one have \
                     ended, or disable the endpoint, which gives them up"
                ),
            ),
            DeliveryError::Invalid(invalid) => invalid.into(),
            DeliveryError::Overtaken => Problem::overtaken(),
            DeliveryError::KeyInUse => Problem::key_in_use(),
            DeliveryError::Unknown => {
                Problem::unavailable("no answer in time", Outcome::Unknown, 1)
            }
            DeliveryError::Away => {
                Problem::unavailable("the store does not answer", Outcome::None, 1)
            }
            DeliveryError::Busy => {
                Problem::unavailable("the request's turn did not come in time", Outcome::None, 1)
            }
            DeliveryError::Unreadable => Problem::unreadable(),
        }
    }
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::NotFound => Problem::not_found(),
            RecordError::Precondition => {
                Problem::new(Kind::PreconditionFailed, "If-Match names another state")
            }
            RecordError::Taken { field } => {
                Problem::new(Kind::Conflict, "is already taken").at(field)
            }
            RecordError::InUse { reason } => Problem::new(Kind::Conflict, reason),
            RecordError::Full { most } => Problem::new(
                Kind::Conflict,
                format!("there are {most} of them already, the most that there may be"),
            ),
            RecordError::Invalid(invalid) => invalid.into(),
        }
    }
}

impl From<OperatorError> for Problem {
    fn from(error: OperatorError) -> Self {
        match error {
            OperatorError::NotFound => Problem::new(Kind::NotFound, "no such actor of this kind"),
            OperatorError::Busy => {
                Problem::new(Kind::Conflict, "the actor has been busy all the time")
            }
            OperatorError::Failed(failure) => failure.into(),
        }
    }
}

impl From<SupervisionError> for Problem {
    fn from(error: SupervisionError) -> Self {
        match error {
            SupervisionError::Precondition => {
                Problem::new(Kind::PreconditionFailed, "If-Match names another state")
            }
            SupervisionError::OutOfBounds { field, reason } => Problem::invalid(field, reason),
        }
    }
}

impl From<Infallible> for Problem {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        ListFailure::from(error).into()
    }
}

impl From<ListFailure> for Problem {
    fn from(failure: ListFailure) -> Self {
        match failure {
            ListFailure::NotFound => Problem::not_found(),
            ListFailure::Invalid(invalid) => invalid.into(),
            ListFailure::Expired => Problem::new(
                Kind::CursorExpired,
                "what follows the cursor was trimmed by retention",
            )
            .at("after"),
            ListFailure::TooSlow => {
                Problem::unavailable("the list took too long", Outcome::None, 1)
            }
            ListFailure::Busy => {
                Problem::unavailable("too much is asked for at once", Outcome::None, 1)
            }
            ListFailure::Away => {
                Problem::unavailable("the store does not answer", Outcome::None, 1)
            }
            ListFailure::Unreadable => Problem::unreadable(),
        }
    }
}

impl<R: Into<Problem>> From<AskError<R>> for Problem {
    fn from(error: AskError<R>) -> Self {
        match error {
            AskError::Refused(refusal) => refusal.into(),
            AskError::Unavailable { cause, retry_after } => Problem {
                more: (cause == Cause::Conflict).then(|| Box::new(More::Overtaken)),
                ..Problem::unavailable(why(cause), Outcome::None, whole_seconds(retry_after))
            },
            AskError::Unreadable => Problem::unreadable(),
            AskError::Crashed => Problem::crashed(),
            AskError::TimedOut => Problem::unavailable("no answer in time", Outcome::Unknown, 1),
            AskError::Unknown => {
                Problem::unavailable("the outcome is not known", Outcome::Unknown, 1)
            }
        }
    }
}

/// How many seconds have passed when this time has.
pub(super) fn whole_seconds(time: std::time::Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::MailboxFull => "too many requests for this resource at once",
        Cause::BackingOff => "the resource is being restarted",
        Cause::Quarantined => "the resource failed too often and rests",
        Cause::Draining => "the server is stopping",
        Cause::StoreUnavailable => "the store does not answer",
        Cause::TimedOut => "the request's turn did not come in time",
        Cause::Conflict => "the resource was changed elsewhere at the same time",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_body_has_exactly_the_stated_shape() {
        let problem = Problem::invalid("customer_id", "must be a valid customer ID");
        let text = String::from_utf8(problem.json()).unwrap_or_default();
        assert_eq!(
            text,
            r#"{"error":{"code":"invalid_request","message":"The request is not valid: check request parameters","details":{"field":"customer_id","reason":"must be a valid customer ID"}}}"#
        );
    }

    #[test]
    fn the_messages_of_the_given_statuses_end_with_the_given_resolutions() {
        for (kind, resolution) in [
            (Kind::InvalidRequest, "check request parameters"),
            (Kind::Unauthorized, "verify the API key"),
            (Kind::Forbidden, "check permissions"),
            (Kind::NotFound, "verify the resource exists"),
            (Kind::RateLimited, "slow down; use backoff"),
            (Kind::ServerError, "contact support"),
        ] {
            assert!(kind.message().ends_with(resolution), "{kind:?}");
        }
    }

    #[test]
    fn what_is_shown_of_the_input_is_short() {
        assert_eq!(
            Problem::invalid("é".repeat(5_000), "")
                .field
                .chars()
                .count(),
            ECHO_MAX
        );
    }
}
