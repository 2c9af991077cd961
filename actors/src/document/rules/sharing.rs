//! The rules of who may see a document: the bin, collaborators, permission sets, share links.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::{Access, Decided, DocumentRequest};
use crate::document::access::{
    Action, Collaborator, DocumentRole, PermissionChange, Permissions, Visibility,
};
use crate::document::context::{CommandContext, Outcome};
use crate::document::draft::{
    Changes, Deletion, Draft, EventExtras, FieldChange, PermissionChanges, link_used, nothing_shown,
};
use crate::document::messages::{
    AddShare, BinDocument, ChangeRole, CollaboratorGiven, DocumentError, EraseDocument,
    EraseFromBin, GrantRole, ListCollaborators, ListShares, OpenShare, OpenedShare, PurgeDocument,
    ReadPermissions, RemoveShare, RestoreDocument, RevokeRole, SetPermissions, UseShare,
    WithoutContent,
};
use crate::document::share_terms::{Opening, ShareTerms, ShareWanted};
use crate::document::state::{Live, Share, tag, to_json};
use crate::document::views::{NewShareView, ShareView};
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::commit::Condition;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ShareId, UserId};
use colloquy_model::key::same_hash;
use colloquy_model::time::Timestamp;

/// Links of one document, the expired ones included: all of them stand in its header.
const SHARES_MAX: usize = 1_000;

impl DocumentRequest for BinDocument {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::Delete)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let mut draft = Draft::new(live, &context);
        draft.live.facts.deleted_at = Some(draft.at);
        draft.shows_change(&context);
        let extras = EventExtras::deleted(Deletion::ToBin);
        draft.event(EventKind::DocumentDeleted, extras);
        Ok(draft.commit(context, nothing_shown(), Vec::new()))
    }
}

impl DocumentRequest for RestoreDocument {
    type Reply = WithoutContent;

    fn access(&self) -> Access {
        Access::Role(Action::Restore)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<WithoutContent> {
        let mut draft = Draft::new(live, &context);
        if live.facts.deleted_at.is_none() {
            let answer = live.answer(context.requester, Done::Ok);
            return Ok(draft.unchanged(context, answer).map(WithoutContent));
        }
        draft.live.facts.deleted_at = None;
        draft.shows_change(&context);
        draft.event(EventKind::DocumentRestored, EventExtras::default());
        let answer = draft.live.answer(context.requester, Done::Ok);
        let outcome = draft.commit(context, answer, Vec::new());
        Ok(outcome.map(WithoutContent))
    }
}

impl DocumentRequest for EraseDocument {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::Erase)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        Ok(live.erase(context))
    }
}

impl DocumentRequest for EraseFromBin {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Binned(Action::Erase)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        Ok(live.erase(context))
    }
}

impl DocumentRequest for PurgeDocument {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Server
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let binned_at = live.facts.deleted_at;
        // What was taken out and put in again meanwhile stays.
        if binned_at.is_some_and(|at| at < self.binned_before) {
            return Ok(live.erase(context));
        }
        Err(DocumentError::NotFound)
    }
}

impl DocumentRequest for ListCollaborators {
    type Reply = Vec<Collaborator>;

    fn access(&self) -> Access {
        Access::Role(Action::ListCollaborators)
    }

    fn decide(self, live: &Live, _: CommandContext) -> Decided<Vec<Collaborator>> {
        let collaborators = live.facts.permissions.collaborators.iter();
        Ok(Outcome::reply(collaborators.rev().copied().collect()))
    }
}

impl DocumentRequest for GrantRole {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::AddCollaborator)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let user = self.user;
        let new = Collaborator {
            user_id: user,
            role: self.role,
            added_at: context.now.max(live.facts.last_at),
        };
        let next = live
            .facts
            .permissions
            .with(new, |user| context.is_user(user))?;
        let shown = |permissions: &Permissions| {
            let held = permissions.collaborator(user);
            let etag = held.map(|held| tag(&to_json(held)));
            let body = to_json(&CollaboratorMade {
                collaborator: held,
                email: self.email.as_deref(),
            });
            Answer::created(user.to_string(), etag, body)
        };
        Ok(live.permit(next, context, shown))
    }
}

impl DocumentRequest for ChangeRole {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::ChangeCollaborator)
    }

    fn etag(&self, live: &Live, _: DocumentRole) -> Option<String> {
        live.collaborator_etag(self.user)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        if !context.is_user(self.user) {
            // One who is no more stands in no list either.
            return Err(DocumentError::NotFound);
        }
        let next = live.facts.permissions.with_role(self.user, self.role)?;
        Ok(live.permit(next, context, |permissions| {
            collaborator_shown(permissions.collaborator(self.user))
        }))
    }
}

impl DocumentRequest for RevokeRole {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::RemoveCollaborator)
    }

    fn etag(&self, live: &Live, _: DocumentRole) -> Option<String> {
        live.collaborator_etag(self.user)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let next = live.facts.permissions.without(self.user)?;
        Ok(live.permit(next, context, |_| nothing_shown()))
    }
}

impl DocumentRequest for ReadPermissions {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::ReadPermissions)
    }

    fn decide(self, live: &Live, _: CommandContext) -> Decided<Answer> {
        Ok(Outcome::reply(permissions_shown(&live.facts.permissions)))
    }
}

impl DocumentRequest for SetPermissions {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::SetPermissions)
    }

    fn etag(&self, live: &Live, _: DocumentRole) -> Option<String> {
        permissions_shown(&live.facts.permissions).etag
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let given = |list: Vec<CollaboratorGiven>| {
            list.into_iter()
                .map(|one| (one.user_id, one.role))
                .collect::<Vec<_>>()
        };
        let change = PermissionChange {
            visibility: self.visibility,
            default_role: self.default_role,
            collaborators: self.collaborators.map(given),
            link_sharing: self.link_sharing,
            transfer_owner_to: self.transfer_owner_to,
        };
        let now = context.now.max(live.facts.last_at);
        let next = live
            .facts
            .permissions
            .changed(&change, now, |user| context.is_user(user))?;
        Ok(live.permit(next, context, permissions_shown))
    }
}

impl DocumentRequest for ListShares {
    type Reply = Vec<ShareView>;

    fn access(&self) -> Access {
        Access::Role(Action::ListShares)
    }

    fn decide(self, live: &Live, _: CommandContext) -> Decided<Vec<ShareView>> {
        let shares = live.shares.iter();
        Ok(Outcome::reply(shares.rev().map(Share::view).collect()))
    }
}

impl DocumentRequest for AddShare {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::CreateShare)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        if !live.facts.permissions.link_sharing {
            return Err(DocumentError::Conflict {
                field: "link_sharing",
                reason: "links are switched off for this document",
            });
        }
        if live.shares.len() >= SHARES_MAX {
            return Err(DocumentError::Conflict {
                field: "",
                reason: "has 1000 share links: take some back first",
            });
        }
        let mut draft = Draft::new(live, &context);
        let wanted = ShareWanted {
            role: self.share.role,
            expires_at: self.share.expires_at,
            max_uses: self.share.max_uses,
        };
        let terms = ShareTerms::new(self.token, wanted, self.password, context.now)
            .map_err(|bad| DocumentError::Invalid(Invalid::new(bad.field, bad.reason)))?;
        let share = Share {
            id: (context.ids.share)(draft.at),
            terms,
        };
        let view = share.view();
        // Where it opens is known outside only, and shown once.
        let etag = Some(tag(&to_json(&view)));
        let body = to_json(&NewShareView {
            share: view.clone(),
            url: None,
        });
        let answer = Answer::created(share.id.to_string(), etag, body);
        Arc::make_mut(&mut draft.live.shares).push(share);
        draft.links_change();
        draft.event(EventKind::DocumentShared, EventExtras::share(view));
        Ok(draft.commit(context, answer, Vec::new()))
    }
}

impl DocumentRequest for RemoveShare {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::DeleteShare)
    }

    fn etag(&self, live: &Live, _: DocumentRole) -> Option<String> {
        let share = live.share(self.share)?;
        Some(tag(&to_json(&share.view())))
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let mut draft = Draft::new(live, &context);
        let place = live
            .shares
            .iter()
            .position(|share| share.id == self.share)
            .ok_or(DocumentError::NotFound)?;
        let share = Arc::make_mut(&mut draft.live.shares).remove(place);
        draft.links_change();
        let extras = EventExtras {
            removed: Some(true),
            ..EventExtras::share(share.view())
        };
        draft.event(EventKind::DocumentShared, extras);
        Ok(draft.commit(context, nothing_shown(), Vec::new()))
    }
}

impl DocumentRequest for OpenShare {
    type Reply = OpenedShare;

    fn access(&self) -> Access {
        Access::ShareLink
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<OpenedShare> {
        let mut shares = live.shares.iter();
        let share = shares.find(|share| same_hash(&share.terms.token, &self.token));
        let Share { id, terms } = live.still_open(share, context.now)?;
        Ok(Outcome::reply(OpenedShare {
            share: *id,
            role: terms.role,
            password: terms.password.clone(),
            expires_at: terms.expires_at,
            has_max_uses: terms.max_uses.is_some(),
        }))
    }
}

impl DocumentRequest for UseShare {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::ShareLink
    }

    /// Counts one use, without an event. Whoever comes behind the last one finds nothing.
    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let share = live.open_link(self.share, context.now)?;
        let view = ShareView {
            uses: share.terms.uses.saturating_add(1),
            ..share.view()
        };
        let answer = Answer::ok(None, to_json(&view));
        Ok(link_used(live, share, context, answer))
    }
}

/// A collaborator who was just let in, with what is known of the user.
#[derive(Serialize)]
struct CollaboratorMade<'a> {
    #[serde(flatten)]
    collaborator: Option<&'a Collaborator>,
    email: Option<&'a str>,
}

impl Live {
    /// Erases the document for good, with its last event.
    fn erase(&self, context: CommandContext) -> Outcome<Answer> {
        let mut draft = Draft::new(self, &context);
        draft.shows_change(&context);
        let extras = EventExtras::deleted(Deletion::Permanent);
        draft.event(EventKind::DocumentDeleted, extras);
        draft.erase(context, nothing_shown())
    }

    /// Puts a permission set with its one event, or answers that nothing changes.
    fn permit(
        &self,
        next: Permissions,
        context: CommandContext,
        shown: impl FnOnce(&Permissions) -> Answer,
    ) -> Outcome<Answer> {
        let mut draft = Draft::new(self, &context);
        let before = &self.facts.permissions;
        let answer = shown(&next);
        if next == *before {
            return draft.unchanged(context, answer);
        }
        let collaborators = before.collaborators.iter().map(|one| one.user_id);
        let named: HashSet<UserId> = collaborators.chain(before.owner).collect();
        let let_in = next
            .collaborators
            .iter()
            .map(|one| one.user_id)
            .filter(|user| !named.contains(user));
        // A collaborator may be deleted at any time: as a new owner even one who was named must be
        // there at the commit.
        let owner = next.owner.filter(|owner| before.owner != Some(*owner));
        let conditions = owner
            .into_iter()
            .chain(let_in)
            .map(Condition::UserExists)
            .collect();
        draft.live.facts.permissions = next.clone();
        if next.owner != before.owner {
            draft.shows_change(&context);
        }
        draft.readers_change();
        let extras = EventExtras {
            changes: Some(Changes::Permissions(differences(before, &next))),
            collaborators: Some(&next.collaborators),
            ..EventExtras::default()
        };
        draft.event(EventKind::DocumentPermissionsUpdated, extras);
        draft.commit(context, answer, conditions)
    }

    /// The entity tag of a collaborator, if this user is one.
    fn collaborator_etag(&self, user: UserId) -> Option<String> {
        let collaborator = self.facts.permissions.collaborator(user)?;
        Some(tag(&to_json(collaborator)))
    }

    fn share(&self, id: ShareId) -> Option<&Share> {
        self.shares.iter().find(|share| share.id == id)
    }

    /// The share link through which something is done, if it opens now.
    pub(in crate::document) fn open_link(
        &self,
        id: ShareId,
        now: Timestamp,
    ) -> Result<&Share, DocumentError> {
        self.still_open(self.share(id), now)
    }

    fn still_open<'l>(
        &self,
        share: Option<&'l Share>,
        now: Timestamp,
    ) -> Result<&'l Share, DocumentError> {
        let opens = |share: &&Share| share.terms.opening(now) != Opening::Gone;
        share
            .filter(|_| self.facts.permissions.link_sharing)
            .filter(opens)
            .ok_or(DocumentError::NotFound)
    }

    /// A share link of this identifier, to be changed.
    pub(in crate::document) fn share_mut(&mut self, id: ShareId) -> Option<&mut Share> {
        Arc::make_mut(&mut self.shares)
            .iter_mut()
            .find(|share| share.id == id)
    }
}

fn collaborator_shown(held: Option<&Collaborator>) -> Answer {
    let body = held.map_or_else(|| to_json(&Value::Null), to_json);
    Answer::ok(Some(tag(&body)), body)
}

/// The permission set as the interface shows it.
#[derive(Serialize)]
struct PermissionsShown<'a> {
    visibility: Visibility,
    default_role: DocumentRole,
    owner_id: Option<UserId>,
    collaborators: &'a [Collaborator],
    link_sharing: bool,
}

fn permissions_shown(permissions: &Permissions) -> Answer {
    let Permissions {
        owner,
        visibility,
        default_role,
        collaborators,
        link_sharing,
    } = permissions;
    let body = to_json(&PermissionsShown {
        visibility: *visibility,
        default_role: *default_role,
        owner_id: *owner,
        collaborators,
        link_sharing: *link_sharing,
    });
    Answer::ok(Some(tag(&body)), body)
}

fn differences<'p>(before: &'p Permissions, after: &'p Permissions) -> PermissionChanges<'p> {
    PermissionChanges {
        collaborators: FieldChange::between(&*before.collaborators, &*after.collaborators),
        default_role: FieldChange::between(before.default_role, after.default_role),
        link_sharing: FieldChange::between(before.link_sharing, after.link_sharing),
        owner_id: FieldChange::between(before.owner, after.owner),
        visibility: FieldChange::between(before.visibility, after.visibility),
    }
}
