//! What the listener for plain HTTP answers: that the same is found over HTTPS, and nothing else.

use std::rc::Rc;

use actix_http::body::BoxBody;
use actix_http::header::{HOST, HeaderValue, LOCATION};
use actix_http::{HttpMessage, Request, Response, StatusCode};

use super::app_state::AppState;
use super::connection_data::ConnectionData;
use super::site::Site;

/// Leads to the same path at the public address, or at the account's domain that was asked, whatever
/// the request's method.
pub(super) fn answer(app: &AppState, request: &Request) -> Response<BoxBody> {
    let connection: Option<&Rc<ConnectionData>> = request.conn_data();
    connection.into_iter().for_each(|one| one.turns.begin());
    let target = request.uri().path_and_query().map(|target| target.as_str());
    // `OPTIONS *` and `CONNECT` have no path.
    let target = target.filter(|target| target.starts_with('/'));
    // No proxy that is believed is asked here: these speak TLS themselves, or lead on by themselves.
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let base = Site::named(app, host).address(app);
    let place = HeaderValue::from_str(&format!("{base}{}", target.unwrap_or("/")));
    let mut response = Response::build(StatusCode::PERMANENT_REDIRECT);
    if let Ok(place) = place {
        response.insert_header((LOCATION, place));
    }
    response.finish().map_into_boxed_body()
}
