//! Who may do what with a document: roles, what each action asks for, and the permission set with
//! the rules of its changes. Pure; who is a user of the account is told to it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use colloquy_model::id::{ShareId, UserId};
use colloquy_model::time::Timestamp;

/// What somebody may do with a document; each may what those before it may.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DocumentRole {
    /// Reads.
    Viewer,
    /// Comments.
    Commenter,
    /// Writes, makes versions, merges.
    Editor,
    /// Shares, sets permissions, deletes.
    Owner,
}

/// Who may see a document without being named in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Only its owner and its collaborators.
    #[default]
    Private,
    /// Every user of the account.
    Account,
}

/// Who asks, as far as a document's roles go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requester {
    /// A key without a user, or a user who administers the account: owner of every document.
    Account(Option<UserId>),
    /// A user of the account, with the role that the document gives.
    User(UserId),
    /// Whoever holds a share link that is in force, with the role that the link gives.
    Link(DocumentRole, ShareId),
}

impl Requester {
    /// The user, where there is one: who wrote it.
    #[must_use]
    pub fn user(self) -> Option<UserId> {
        match self {
            Requester::Account(user) => user,
            Requester::User(user) => Some(user),
            Requester::Link(..) => None,
        }
    }

    /// The share link, where it is done through one.
    #[must_use]
    pub fn share(self) -> Option<ShareId> {
        match self {
            Requester::Account(_) | Requester::User(_) => None,
            Requester::Link(_, share) => Some(share),
        }
    }
}

macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident $role:ident),* $(,)?) => {
        /// What can be done with one document, by route. Making and listing documents asks for no
        /// role.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action { $($(#[$doc])* $action),* }

        impl Action {
            /// All actions, in the order of the routes.
            pub const ALL: &'static [Action] = &[$(Action::$action),*];

            /// The lowest role that may do it.
            #[must_use]
            pub fn minimum_role(self) -> DocumentRole {
                match self { $(Action::$action => DocumentRole::$role),* }
            }
        }
    };
}

actions! {
    /// `GET …/{id}`, with `version` too, and `GET /s/{token}`.
    Read Viewer,
    /// `PUT …/{id}` and `PUT /s/{token}`.
    Update Editor,
    /// `DELETE …/{id}`.
    Delete Owner,
    /// `DELETE …/{id}?permanent=true`.
    Erase Owner,
    /// `POST …/restore`: takes back what an owner did.
    Restore Owner,
    /// `GET …/versions`.
    ListVersions Viewer,
    /// `GET …/versions/{version}`.
    ReadVersion Viewer,
    /// `POST …/versions`.
    AddVersion Editor,
    /// `POST …/versions/{version}/restore`.
    RestoreVersion Editor,
    /// `POST …/merge`, with `dry_run` too.
    Merge Editor,
    /// `GET …/diff`.
    Diff Viewer,
    /// `GET …/collaborators`.
    ListCollaborators Viewer,
    /// `POST …/collaborators`.
    AddCollaborator Owner,
    /// `PUT …/collaborators/{user_id}`.
    ChangeCollaborator Owner,
    /// `DELETE …/collaborators/{user_id}`.
    RemoveCollaborator Owner,
    /// `GET …/permissions`.
    ReadPermissions Owner,
    /// `PUT …/permissions`.
    SetPermissions Owner,
    /// `POST …/share`.
    CreateShare Owner,
    /// `GET …/share`.
    ListShares Owner,
    /// `DELETE …/share/{share_id}`.
    DeleteShare Owner,
    /// `GET …/comments`.
    ListComments Viewer,
    /// `POST …/comments` and `POST /s/{token}/comments`.
    AddComment Commenter,
    /// `PATCH …/comments/{comment_id}`, as far as `resolved` goes; of one's own all of it.
    ChangeComment Commenter,
    /// `PATCH …/comments/{comment_id}`, where it changes the words of somebody else.
    ChangeOthersComment Owner,
    /// `DELETE …/comments/{comment_id}` of one's own.
    DeleteComment Commenter,
    /// `DELETE …/comments/{comment_id}` of somebody else's.
    DeleteOthersComment Owner,
    /// `GET …/activity`.
    ListActivity Viewer,
}

/// Why a requester may not do something with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The document is not there for them.
    #[error("no such document")]
    NotFound,
    /// They may read it, but not do this.
    #[error("the role does not allow this")]
    Forbidden(DocumentRole),
}

/// What this asker may do with a document of these permissions; none: not even read it.
#[must_use]
pub fn role_of(requester: Requester, permissions: &Permissions) -> Option<DocumentRole> {
    match requester {
        Requester::Account(_) => Some(DocumentRole::Owner),
        Requester::Link(role, _) => permissions
            .link_sharing
            .then_some(role.min(DocumentRole::Editor)),
        Requester::User(user) if permissions.owner == Some(user) => Some(DocumentRole::Owner),
        Requester::User(user) => {
            let own = permissions
                .collaborators
                .iter()
                .find(|one| one.user_id == user)
                .map(|one| one.role);
            let shared =
                (permissions.visibility == Visibility::Account).then_some(permissions.default_role);
            // Whoever is named must not lose by it what everybody has.
            own.max(shared)
        }
    }
}

/// Checks that the requester may do the action, and gives the requester's role.
///
/// # Errors
/// [`Denied`]: 404 before 403, so that who may not read learns nothing.
pub fn allow(
    action: Action,
    requester: Requester,
    permissions: &Permissions,
) -> Result<DocumentRole, Denied> {
    let role = role_of(requester, permissions).ok_or(Denied::NotFound)?;
    if role >= action.minimum_role() {
        Ok(role)
    } else {
        Err(Denied::Forbidden(role))
    }
}

/// Whether whoever asks wrote this comment; what was written without a user is nobody's own.
#[must_use]
pub fn is_own_comment(requester: Requester, author: Option<UserId>) -> bool {
    author.is_some() && requester.user() == author
}

/// Collaborators of one document. All of them stand in its header.
pub const COLLABORATORS_MAX: usize = 1_000;

/// A user who has a role in one document, other than its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collaborator {
    /// The user.
    pub user_id: UserId,
    /// What the user may do; never owner.
    pub role: DocumentRole,
    /// When the user became a collaborator.
    pub added_at: Timestamp,
}

/// Who may do what with one document. The owner is no collaborator, nobody is a collaborator twice,
/// and no collaborator and no default is an owner: the functions below keep it so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// Whose it is; none: the account's own. Once a user's, always a user's.
    pub owner: Option<UserId>,
    /// Who may see it without being named in it.
    pub visibility: Visibility,
    /// What everybody of the account may do, where it is theirs to see.
    pub default_role: DocumentRole,
    /// The collaborators, in the order in which they were added.
    pub collaborators: Vec<Collaborator>,
    /// Whether share links open it.
    pub link_sharing: bool,
}

/// A change of a permission set: what is none stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `Permissions`")]
pub struct PermissionChange {
    pub visibility: Option<Visibility>,
    pub default_role: Option<DocumentRole>,
    /// The whole list, replaced at once.
    pub collaborators: Option<Vec<(UserId, DocumentRole)>>,
    pub link_sharing: Option<bool>,
    /// Who is the owner from now on. The one before stays as an editor.
    pub transfer_owner_to: Option<UserId>,
}

/// Why a change of a permission set is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PermissionError {
    /// The user is there already: as a collaborator, or as the owner.
    #[error("user_id: is a collaborator already; change the role instead")]
    AddedTwice,
    /// The path names no collaborator.
    #[error("no such collaborator")]
    NotACollaborator,
    /// The owner can't be taken away or made less than that.
    #[error("the owner stays; transfer the document to another user first")]
    OwnerStays,
    /// A parameter of the change is not acceptable.
    #[error("{field}: {reason}")]
    Invalid {
        /// The parameter's name.
        field: &'static str,
        /// What it must be.
        reason: &'static str,
    },
}

const NO_USER: &str = "must be a valid user ID";
const BY_TRANSFER: &str =
    "must be viewer, commenter or editor; an owner is made with transfer_owner_to";

fn invalid(field: &'static str, reason: &'static str) -> PermissionError {
    PermissionError::Invalid { field, reason }
}

impl Permissions {
    /// Those of a new document: its maker's alone, or the account's own.
    #[must_use]
    pub fn of_new(owner: Option<UserId>) -> Self {
        Permissions {
            owner,
            visibility: Visibility::Private,
            default_role: DocumentRole::Viewer,
            collaborators: Vec::new(),
            link_sharing: true,
        }
    }

    /// The collaborator who is this user, if there is one.
    #[must_use]
    pub fn collaborator(&self, user: UserId) -> Option<&Collaborator> {
        self.collaborators.iter().find(|one| one.user_id == user)
    }

    /// The permission set with one more collaborator. `is_user` tells who is a user of the account.
    ///
    /// # Errors
    /// A user that is there already, or is none; a role that is not to be given.
    pub fn with(
        &self,
        new: Collaborator,
        is_user: impl Fn(UserId) -> bool,
    ) -> Result<Self, PermissionError> {
        let user = new.user_id;
        if !is_user(user) {
            return Err(invalid("user_id", NO_USER));
        }
        if new.role == DocumentRole::Owner {
            return Err(invalid("role", BY_TRANSFER));
        }
        if self.owner == Some(user) || self.collaborator(user).is_some() {
            return Err(PermissionError::AddedTwice);
        }
        if self.collaborators.len() >= COLLABORATORS_MAX {
            return Err(invalid(
                "user_id",
                "must not be one of more than 1000 collaborators",
            ));
        }
        let mut next = self.clone();
        next.collaborators.push(new);
        Ok(next)
    }

    /// The permission set with this collaborator in another role.
    ///
    /// # Errors
    /// No such collaborator; the owner; a role that is not to be given.
    pub fn with_role(&self, user: UserId, role: DocumentRole) -> Result<Self, PermissionError> {
        if self.owner == Some(user) {
            // To be told to be what one is changes nothing.
            return if role == DocumentRole::Owner {
                Ok(self.clone())
            } else {
                Err(PermissionError::OwnerStays)
            };
        }
        let mut next = self.clone();
        let held = next
            .collaborators
            .iter_mut()
            .find(|one| one.user_id == user);
        let held = held.ok_or(PermissionError::NotACollaborator)?;
        if role == DocumentRole::Owner {
            return Err(invalid("role", BY_TRANSFER));
        }
        held.role = role;
        Ok(next)
    }

    /// The permission set without this collaborator.
    ///
    /// # Errors
    /// No such collaborator; the owner.
    pub fn without(&self, user: UserId) -> Result<Self, PermissionError> {
        if self.owner == Some(user) {
            return Err(PermissionError::OwnerStays);
        }
        if self.collaborator(user).is_none() {
            return Err(PermissionError::NotACollaborator);
        }
        Ok(self.forgetting(user))
    }

    /// The permission set without a user who was deleted. An owner can't be: who owns documents is
    /// not deleted.
    #[must_use]
    pub fn forgetting(&self, user: UserId) -> Self {
        let mut next = self.clone();
        next.collaborators.retain(|one| one.user_id != user);
        next
    }

    /// Changed whole or not at all. Where the owner changes and the list is given too, the list
    /// says what becomes of the one before; a user who stays in the list keeps the instant of
    /// having been let in, and everyone else gets `now`.
    ///
    /// # Errors
    /// A parameter that can't be taken, by name.
    pub fn changed(
        &self,
        change: &PermissionChange,
        now: Timestamp,
        is_user: impl Fn(UserId) -> bool,
    ) -> Result<Self, PermissionError> {
        let mut next = self.clone();
        next.visibility = change.visibility.unwrap_or(next.visibility);
        next.link_sharing = change.link_sharing.unwrap_or(next.link_sharing);
        if let Some(role) = change.default_role {
            if role == DocumentRole::Owner {
                return Err(invalid("default_role", BY_TRANSFER));
            }
            next.default_role = role;
        }
        if let Some(user) = change.transfer_owner_to {
            if !is_user(user) {
                return Err(invalid("transfer_owner_to", NO_USER));
            }
            next.transfer(user, now);
        }
        if let Some(given) = &change.collaborators {
            next.collaborators = self.replaced(given, next.owner, now, is_user)?;
        }
        Ok(next)
    }

    fn transfer(&mut self, to: UserId, now: Timestamp) {
        if self.owner == Some(to) {
            return;
        }
        self.collaborators.retain(|one| one.user_id != to);
        if let Some(before) = self.owner.replace(to) {
            let editor = Collaborator {
                user_id: before,
                role: DocumentRole::Editor,
                added_at: now,
            };
            self.collaborators.push(editor);
        }
    }

    fn replaced(
        &self,
        given: &[(UserId, DocumentRole)],
        owner: Option<UserId>,
        now: Timestamp,
        is_user: impl Fn(UserId) -> bool,
    ) -> Result<Vec<Collaborator>, PermissionError> {
        let refused = |reason| Err(invalid("collaborators", reason));
        if given.len() > COLLABORATORS_MAX {
            return refused("must hold at most 1000 collaborators");
        }
        let mut list: Vec<Collaborator> = Vec::with_capacity(given.len());
        let mut seen = std::collections::HashSet::new();
        for &(user_id, role) in given {
            if !seen.insert(user_id) {
                return refused("must not name a user twice");
            }
            if !is_user(user_id) {
                return refused("must name valid user IDs");
            }
            if owner == Some(user_id) {
                return refused("must not name the owner");
            }
            if role == DocumentRole::Owner {
                return refused(
                    "must be viewers, commenters and editors; an owner is made with transfer_owner_to",
                );
            }
            let added_at = self.collaborator(user_id).map_or(now, |held| held.added_at);
            list.push(Collaborator {
                user_id,
                role,
                added_at,
            });
        }
        Ok(list)
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
