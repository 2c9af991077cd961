//! Whether a form was sent from a page of this server: other sites' pages can send forms here, too,
//! with the cookies and in the name of whoever reads them. Knows no page and no session.

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderName, ORIGIN};
use url::Url;

use super::app_state::AppState;
use super::forwarded;
use super::problem::Problem;

/// Where a request comes from, as browsers say it (W3C, Fetch Metadata).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a form that another site's page has sent. A program says nothing of where it is.
///
/// # Errors
/// `forbidden`: the browser says that another site's page has sent it.
pub(crate) fn check_same_site(app: &AppState, request: &HttpRequest) -> Result<(), Problem> {
    let is_ours = match (text(request, &FETCH_SITE), text(request, &ORIGIN)) {
        // What browsers of today say over HTTPS; no page can say it in their place.
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => is_own_origin(app, request, origin),
        (None, None) => true,
    };
    if is_ours {
        return Ok(());
    }
    Err(Problem::forbidden(
        "the form comes from another site: open the page here, and send it from there",
    ))
}

/// A header's text, empty where it is none; none where there is no such header.
fn text<'r>(request: &'r HttpRequest, name: &HeaderName) -> Option<&'r str> {
    let value = request.headers().get(name)?;
    Some(value.to_str().unwrap_or_default())
}

/// Whether pages of this origin are this server's: that of the public address, or that of the host
/// that was asked, with the scheme that a believed proxy or the public address names, or that the
/// server speaks.
fn is_own_origin(app: &AppState, request: &HttpRequest, origin: &str) -> bool {
    let public = Url::parse(app.public_url.as_str()).map(|url| url.origin().ascii_serialization());
    let public = public.unwrap_or_default();
    let (public_scheme, public_host) = public.split_once("://").unwrap_or_default();
    let asked = forwarded::host(&app.proxies, request);
    let asked = asked.as_deref().unwrap_or(public_host);
    let is_public = asked.eq_ignore_ascii_case(public_host);
    let forwarded = forwarded::scheme(&app.proxies, request);
    let by_itself = if app.tls.is_some() { "https" } else { "http" };
    let scheme = forwarded.unwrap_or(if is_public { public_scheme } else { by_itself });
    let own = format!("{scheme}://{asked}");
    // A proxy may ask by a name of its own, or speak of its own last step only.
    let public_holds = !is_public || public_scheme == "https";
    origin.eq_ignore_ascii_case(&own) || (public_holds && origin.eq_ignore_ascii_case(&public))
}
