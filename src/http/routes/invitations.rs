//! Invitations: with one a person sets a password, and signs in to the console from then on.

use bytes::Bytes;
use colloquy_actors::accounts::InviteUser;
use colloquy_actors::sign_in::INVITATION_HOLDS;
use colloquy_model::key::secret_hash;
use colloquy_model::secret;
use colloquy_model::time::Timestamp;
use colloquy_model::user::SignInBounds;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::api_call::{ApiCall, Credential};
use super::super::body::{Empty, OptionalJson};
use super::super::output::Output;
use super::super::problem::Problem;
use super::records;

/// What an invitation's token begins with.
const TOKEN_PREFIX: &str = "inv_";

/// An invitation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Invitation)]
pub(super) struct InvitationShown<'a> {
    /// Where the person sets a password; shown once.
    url: Option<&'a str>,
    /// Until when.
    expires_at: Timestamp,
}

/// Invites the user, or the operator, in the path.
pub(super) async fn invite(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let token = secret::generate(TOKEN_PREFIX);
    let base = call.links_base();
    let url = format!("{base}/console/invitations/{token}");
    let expires_at = call.now + INVITATION_HOLDS;
    let body = |url| -> Bytes {
        let invitation = InvitationShown { url, expires_at };
        serde_json::to_vec(&invitation).unwrap_or_default().into()
    };
    let bounds = match &call.credential {
        Credential::Key(principal) | Credential::Ticket(principal, _) => principal.bounds(),
        Credential::None | Credential::Operator => SignInBounds::default(),
    };
    let invitation = InviteUser {
        token: secret_hash(&token),
        until: expires_at,
        bounds,
        shown: body(Some(&url)),
        kept: body(None),
    };
    records::ask(call, invitation).await
}
