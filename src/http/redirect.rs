//! What the listener for plain HTTP answers: that the same is found over HTTPS, and nothing else; only
//! who asks by ACME whether a name is ours is answered here.

use std::rc::Rc;

use actix_http::body::BoxBody;
use actix_http::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use actix_http::{HttpMessage, Request, Response, StatusCode};

use super::app_state::AppState;
use super::budget::BudgetOwner;
use super::connection_data::ConnectionData;
use super::site::Site;

/// Where an authority asks (RFC 8555, 8.3); its token follows.
const CHALLENGES: &str = "/.well-known/acme-challenge/";
/// What no token is longer than.
const TOKEN_CHARS_MAX: usize = 200;

/// Leads to the same path at the public address, or at the account's domain that was asked, whatever
/// the request's method.
pub(super) async fn answer(app: &AppState, request: &Request) -> Response<BoxBody> {
    let connection: Option<&Rc<ConnectionData>> = request.conn_data();
    if let Some(connection) = connection {
        // A proxy's clients wait among one another: nothing here takes long.
        let peer = || BudgetOwner::at(connection.peer().ip());
        drop(connection.begin(peer).await);
    }
    if let Some(answer) = challenge(app, request).await {
        let mut response = Response::build(StatusCode::OK);
        response.insert_header((
            CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ));
        return response.body(answer).map_into_boxed_body();
    }
    let target = request.uri().path_and_query().map(|target| target.as_str());
    // `OPTIONS *` and `CONNECT` have no path.
    let target = target.filter(|target| target.starts_with('/'));
    // No proxy that is believed is asked here: these speak TLS themselves, or lead on by themselves.
    let header = request.headers().get(HOST);
    let header = header.and_then(|host| host.to_str().ok());
    // A target with a host of its own counts before the header (RFC 9112, 3.2.2).
    let authority = request.uri().authority();
    let host = authority.map(|authority| authority.as_str()).or(header);
    let base = Site::named(app, host).address(app);
    let place = HeaderValue::from_str(&format!("{base}{}", target.unwrap_or("/")));
    let mut response = Response::build(StatusCode::PERMANENT_REDIRECT);
    if let Ok(place) = place {
        response.insert_header((LOCATION, place));
    }
    response.finish().map_into_boxed_body()
}

/// What an authority is answered that looks whether a name is ours; none where nobody has told it to.
async fn challenge(app: &AppState, request: &Request) -> Option<String> {
    let acme = app.tls.as_ref()?.acme.as_ref()?;
    let token = request.path().strip_prefix(CHALLENGES)?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if token.len() > TOKEN_CHARS_MAX || !token.bytes().all(is_token) {
        return None;
    }
    acme.challenge_over_http(token).await
}
