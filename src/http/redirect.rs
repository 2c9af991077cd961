//! What the listener for plain HTTP answers: that the same is found over HTTPS, and nothing else.

use std::rc::Rc;

use actix_http::body::BoxBody;
use actix_http::header::{HeaderValue, LOCATION};
use actix_http::{Request, Response, StatusCode};

use super::connection_data::ConnectionData;

/// Leads to the same path at the public address, whatever the request's method and host.
pub(super) fn answer(public_url: &str, request: &Request) -> Response<BoxBody> {
    let connection: Option<&Rc<ConnectionData>> = request.conn_data();
    connection.into_iter().for_each(|one| one.turns.begin());
    let target = request.uri().path_and_query().map(|target| target.as_str());
    // `OPTIONS *` and `CONNECT` have no path.
    let target = target.filter(|target| target.starts_with('/'));
    let place = HeaderValue::from_str(&format!("{public_url}{}", target.unwrap_or("/")));
    let mut response = Response::build(StatusCode::PERMANENT_REDIRECT);
    if let Ok(place) = place {
        response.insert_header((LOCATION, place));
    }
    response.finish().map_into_boxed_body()
}
