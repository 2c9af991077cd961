//! Which conversations a credential reads and writes, by its scopes and its user. Who is narrowed to
//! the conversations of a user needs one; what follows for each conversation, its rules decide.

use colloquy_actors::accounts::Principal;
use colloquy_model::conversation_access::{ConversationAccess, Reach};
use colloquy_model::id::UserId;
use colloquy_model::key::Permission;

use super::api_call::Credential;
use super::authentication::{Acting, Needs, granted};
use super::problem::Problem;

/// The access of who came with this credential, for this user.
pub(super) fn of_credential(credential: &Credential, user: Option<UserId>) -> ConversationAccess {
    match credential {
        Credential::Key(principal) | Credential::Ticket(principal, _) => {
            of_principal(principal, user)
        }
        Credential::None | Credential::Operator => ConversationAccess {
            reads: Reach::Nothing,
            writes: Reach::Nothing,
        },
    }
}

/// The access of this principal, who acts for this user.
pub(super) fn of_principal(principal: &Principal, user: Option<UserId>) -> ConversationAccess {
    let assigned = match user {
        Some(user) if granted(principal, Permission::ConversationsAssigned) => {
            Reach::AssignedTo(user)
        }
        Some(_) | None => Reach::Nothing,
    };
    let reach = |whole| match granted(principal, whole) {
        true => Reach::All,
        false => assigned,
    };
    ConversationAccess {
        reads: reach(Permission::ConversationsRead),
        writes: reach(Permission::ConversationsWrite),
    }
}

/// Refuses a credential that could do this in the conversations of its user only, and has none.
pub(super) fn check_user(
    principal: &Principal,
    acting: Acting,
    needs: Needs,
) -> Result<(), Problem> {
    let mut given = needs
        .permissions
        .iter()
        .filter(|one| granted(principal, **one));
    let needs_user = given
        .next()
        .is_some_and(|one| *one == Permission::ConversationsAssigned)
        && given.next().is_none();
    if needs_user && acting == Acting::Nobody {
        return Err(Problem::forbidden(
            "the key is narrowed to conversations that are assigned to its user, and acts for none: \
             send X-Acting-User, or set the key's user_id",
        ));
    }
    Ok(())
}
