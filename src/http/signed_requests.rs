//! What a key that requires signatures asks of a request before it is let in: a good signature, and a
//! nonce that nobody has used. The body is compared with its digest when it has been read.

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use colloquy_actors::accounts::Principal;
use colloquy_model::time::Timestamp;

use super::admission::Arrival;
use super::api_call::Credential;
use super::app_state::AppState;
use super::problem::{Kind, Problem};
use super::request_signature::{
    AGE_SECONDS_MAX, Expected, SignatureError, SignedParts, check_digest, verify,
};
use super::site::Site;

/// Whether this principal's requests are signed.
pub(super) fn are_required(principal: &Principal) -> bool {
    principal.session.is_none() && principal.key.view.require_signature
}

/// Whether the requests of this credential are signed.
pub(super) fn are_required_of(credential: &Credential) -> bool {
    match credential {
        Credential::Key(principal) => are_required(principal),
        Credential::None | Credential::Ticket(..) | Credential::Operator => false,
    }
}

/// Lets a request in that its key requires to be signed: once.
///
/// # Errors
/// 401: something of its signature is not as it must be. 503: the store can't be asked.
pub(super) async fn check(
    app: &AppState,
    principal: &Principal,
    request: &HttpRequest,
    now: Timestamp,
) -> Result<(), Problem> {
    let key_id = principal.key.view.key_id.to_string();
    let holding = principal.key.signing.iter();
    let secrets: Vec<&str> = holding
        .filter(|one| one.until.is_none_or(|until| until > now))
        .map(|one| one.secret.as_str())
        .collect();
    let address = Site::of(app, request).address(app);
    let signed = SignedParts {
        method: request.method(),
        public_url: &address,
        uri: request.uri(),
        headers: request.headers(),
        has_body: has_body(request.headers()),
    };
    let expected = Expected {
        key_id: &key_id,
        secrets: &secrets,
        now,
    };
    let good = verify(&signed, &expected)?;
    // One that is good this long from `created` on may not be forgotten before.
    let ends_at = Timestamp((good.created + 2 * AGE_SECONDS_MAX).saturating_mul(1_000));
    let key = principal.key.view.key_id;
    match app.system.nonces().spend(key, &good.nonce, ends_at).await? {
        true => Ok(()),
        false => Err(SignatureError::NonceSpent.into()),
    }
}

/// Compares the body of a signed request with what was signed of it.
///
/// # Errors
/// 401: it is another body.
pub(super) fn check_body(
    app: &AppState,
    (credential, arrival): (&Credential, Arrival),
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(), Problem> {
    let Credential::Key(principal) = credential else {
        return Ok(());
    };
    if !are_required(principal) || !has_body(headers) {
        return Ok(());
    }
    check_digest(headers, body).map_err(|error| {
        app.system.addresses.take(arrival.address, arrival.at);
        error.into()
    })
}

/// Whether anything comes behind the head.
fn has_body(headers: &HeaderMap) -> bool {
    let is_empty = |length: &[u8]| length == b"0";
    headers.contains_key(TRANSFER_ENCODING)
        || headers
            .get(CONTENT_LENGTH)
            .is_some_and(|length| !is_empty(length.as_bytes()))
}

impl From<SignatureError> for Problem {
    fn from(error: SignatureError) -> Self {
        Problem::new(Kind::Unauthorized, error.to_string())
    }
}
