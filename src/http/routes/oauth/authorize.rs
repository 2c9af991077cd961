//! Where a client sends a user's browser: it leads on to the page on which the user consents.

use super::super::super::api_call::ApiCall;
use super::super::super::authorization::{self, AuthorizationQuery, Unasked};
use super::super::super::output::Output;
use super::super::super::problem::Problem;

/// The page on which the user consents.
const CONSENT: &str = "/console/authorize";

pub(super) async fn authorize(call: ApiCall, query: AuthorizationQuery) -> Result<Output, Problem> {
    match authorization::check(&call.app, &call.site, query) {
        Ok(_) => {
            let mut written = url::form_urlencoded::Serializer::new(String::new());
            written.extend_pairs(url::form_urlencoded::parse(call.query().as_bytes()));
            // Dots would end up in the sign-in's way back, which takes none that lead upwards.
            let query = written.finish().replace('.', "%2E");
            Ok(Output::SeeOther(format!("{CONSENT}?{query}")))
        }
        Err(Unasked::LedBack(place)) => Ok(Output::SeeOther(place)),
        Err(Unasked::Told(problem)) => Err(problem),
    }
}
