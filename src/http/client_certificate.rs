//! Whether an operator has shown a client certificate, where the settings want one. Everybody else
//! needs none.

use actix_web::HttpRequest;

use super::app_state::AppState;
use super::connection_data::ConnectionData;
use super::problem::Problem;

/// Refuses an operator's request that came without a certificate for which somebody vouches now.
///
/// # Errors
/// `forbidden`: it says what is missing.
pub(crate) fn check(app: &AppState, request: &HttpRequest) -> Result<(), Problem> {
    let Some(tls) = &app.tls else { return Ok(()) };
    if !tls.wants_operators_certificate() {
        return Ok(());
    }
    let connection = ConnectionData::of(request);
    let shown = connection.as_ref().map(|one| one.client_certificates());
    match tls.vouches_for(shown.unwrap_or_default()) {
        true => Ok(()),
        false => Err(Problem::forbidden(
            "operators must show a client certificate for which [tls] admin_client_ca vouches and that admin_client_crl does not take back",
        )),
    }
}
