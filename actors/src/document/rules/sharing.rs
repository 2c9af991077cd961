//! The rules of who may see a document: the bin, collaborators, permission sets, share links.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::document::access::{Collaborator, DocumentRole, PermissionChange, Permissions};
use crate::document::draft::{Draft, EventExtras, change, link_used, nothing_shown};
use crate::document::messages::{CreateShare, DocumentError, Opened, Reply, SetPermissions};
use crate::document::share_terms::{Opening, ShareTerms, ShareWanted, same_hash};
use crate::document::state::{CommandContext, Decided, Document, Live, Share, tag, to_json};
use crate::document::views::{NewShareView, ShareView};
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::commit::Condition;
use colloquy_model::event_kind::Happened;
use colloquy_model::id::{ShareId, UserId};
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Decision;

/// Links of one document, the expired ones included: all of them stand in its header.
const SHARES_MAX: usize = 1_000;

impl Document {
    pub(in crate::document) fn bin(&self, live: &Live, context: CommandContext) -> Decision<Self> {
        let mut draft = Draft::new(self, live, &context, false);
        draft.live.facts.deleted_at = Some(draft.at);
        draft.shows_change(&context);
        draft.event(
            Happened::DocumentDeleted,
            EventExtras {
                permanent: Some(false),
                ..EventExtras::default()
            },
        );
        draft.decide(context, nothing_shown(), Vec::new())
    }

    pub(in crate::document) fn restore(&self, live: &Live, context: CommandContext) -> Decided {
        let mut draft = Draft::new(self, live, &context, false);
        if live.facts.deleted_at.is_none() {
            let answer = self.shown(live, context.requester, Done::Ok);
            return Ok(draft.unchanged(context, answer));
        }
        draft.live.facts.deleted_at = None;
        draft.shows_change(&context);
        draft.event(Happened::DocumentRestored, EventExtras::default());
        let answer = self.shown(&draft.live, context.requester, Done::Ok);
        Ok(draft.decide(context, answer, Vec::new()))
    }

    pub(in crate::document) fn erase(
        &self,
        live: &Live,
        context: CommandContext,
    ) -> Decision<Self> {
        let mut draft = Draft::new(self, live, &context, false);
        draft.shows_change(&context);
        draft.event(
            Happened::DocumentDeleted,
            EventExtras {
                permanent: Some(true),
                ..EventExtras::default()
            },
        );
        draft.gone(context, nothing_shown())
    }

    /// Erases what has been in the bin for too long; what was taken out meanwhile stays.
    pub(in crate::document) fn expire(
        &self,
        live: &Live,
        before: i64,
        context: CommandContext,
    ) -> Decided {
        if live.facts.deleted_at.is_some_and(|at| at < before) {
            return Ok(self.erase(live, context));
        }
        Err(DocumentError::NotFound)
    }

    pub(in crate::document) fn add_collaborator(
        &self,
        live: &Live,
        (user, role, email): (UserId, DocumentRole, Option<String>),
        context: CommandContext,
    ) -> Decided {
        let new = Collaborator {
            user_id: user,
            role,
            added_at: Timestamp(context.now.max(live.facts.last_at)),
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
                email: email.as_deref(),
            });
            Answer {
                done: Done::Created,
                id: Some(user.to_string()),
                etag,
                body,
                replayed: false,
            }
        };
        Ok(self.permit(live, next, context, shown))
    }

    pub(in crate::document) fn change_collaborator(
        &self,
        live: &Live,
        user: UserId,
        role: DocumentRole,
        context: CommandContext,
    ) -> Decided {
        if !context.is_user(user) {
            // One who is no more stands in no list either.
            return Err(DocumentError::NotFound);
        }
        let next = live.facts.permissions.with_role(user, role)?;
        Ok(self.permit(live, next, context, |permissions| {
            collaborator_shown(permissions.collaborator(user))
        }))
    }

    pub(in crate::document) fn remove_collaborator(
        &self,
        live: &Live,
        user: UserId,
        context: CommandContext,
    ) -> Decided {
        let next = live.facts.permissions.without(user)?;
        Ok(self.permit(live, next, context, |_| nothing_shown()))
    }

    pub(in crate::document) fn set_permissions(
        &self,
        live: &Live,
        set: SetPermissions,
        context: CommandContext,
    ) -> Decided {
        let given = |list: Vec<crate::document::messages::CollaboratorGiven>| {
            list.into_iter()
                .map(|one| (one.user_id, one.role))
                .collect::<Vec<_>>()
        };
        let change = PermissionChange {
            visibility: set.visibility,
            default_role: set.default_role,
            collaborators: set.collaborators.map(given),
            link_sharing: set.link_sharing,
            transfer_owner_to: set.transfer_owner_to,
        };
        let now = Timestamp(context.now.max(live.facts.last_at));
        let next = live
            .facts
            .permissions
            .changed(&change, now, |user| context.is_user(user))?;
        Ok(self.permit(live, next, context, permissions_shown))
    }

    /// Puts a permission set with its one event, or answers that nothing changes.
    fn permit(
        &self,
        live: &Live,
        next: Permissions,
        context: CommandContext,
        shown: impl FnOnce(&Permissions) -> Answer,
    ) -> Decision<Self> {
        let mut draft = Draft::new(self, live, &context, false);
        let before = &live.facts.permissions;
        let answer = shown(&next);
        if next == *before {
            return draft.unchanged(context, answer);
        }
        let named =
            |user: &UserId| before.owner == Some(*user) || before.collaborator(*user).is_some();
        let let_in = next
            .collaborators
            .iter()
            .map(|one| one.user_id)
            .filter(|user| !named(user));
        // A collaborator may be deleted at any time: as a new owner even one who was named must be
        // there at the commit.
        let owner = next.owner.filter(|owner| before.owner != Some(*owner));
        let conditions = owner
            .into_iter()
            .chain(let_in)
            .map(Condition::UserExists)
            .collect();
        let changes = differences(before, &next);
        let collaborators = next.collaborators.iter().map(|one| json!(one)).collect();
        let owner_changes = next.owner != before.owner;
        draft.live.facts.permissions = next;
        if owner_changes {
            draft.shows_change(&context);
        }
        draft.readers_change();
        let extras = EventExtras {
            changes: Some(changes),
            collaborators: Some(collaborators),
            ..EventExtras::default()
        };
        draft.event(Happened::DocumentPermissionsUpdated, extras);
        draft.decide(context, answer, conditions)
    }

    pub(in crate::document) fn create_share(
        &self,
        live: &Live,
        new: CreateShare,
        (token, password): (SecretHash, Option<String>),
        context: CommandContext,
    ) -> Decided {
        if !live.facts.permissions.link_sharing {
            return Err(DocumentError::Conflict {
                field: "link_sharing",
                reason: "links are switched off for this document",
            });
        }
        if live.facts.shares.len() >= SHARES_MAX {
            return Err(DocumentError::Conflict {
                field: "",
                reason: "has 1000 share links: take some back first",
            });
        }
        let mut draft = Draft::new(self, live, &context, false);
        let wanted = ShareWanted {
            role: new.role,
            expires_at: new.expires_at,
            max_uses: new.max_uses,
        };
        let terms = ShareTerms::new(token, wanted, password, Timestamp(context.now))
            .map_err(|bad| DocumentError::Invalid(Invalid::new(bad.field, bad.reason)))?;
        let share = Share {
            id: ShareId::new(draft.at),
            terms,
        };
        let view = share.view();
        // Where it opens is known outside only, and shown once.
        let etag = Some(tag(&to_json(&view)));
        let body = to_json(&NewShareView {
            share: view.clone(),
            url: None,
        });
        let answer = Answer {
            done: Done::Created,
            id: Some(share.id.to_string()),
            etag,
            body,
            replayed: false,
        };
        draft.live.facts.shares.push(share);
        draft.links_change();
        draft.event(
            Happened::DocumentShared,
            EventExtras {
                share: Some(view),
                ..EventExtras::default()
            },
        );
        Ok(draft.decide(context, answer, Vec::new()))
    }

    pub(in crate::document) fn remove_share(
        &self,
        live: &Live,
        id: ShareId,
        context: CommandContext,
    ) -> Decided {
        let mut draft = Draft::new(self, live, &context, false);
        let place = live
            .facts
            .shares
            .iter()
            .position(|share| share.id == id)
            .ok_or(DocumentError::NotFound)?;
        let share = draft.live.facts.shares.remove(place);
        draft.links_change();
        let extras = EventExtras {
            share: Some(share.view()),
            removed: Some(true),
            ..EventExtras::default()
        };
        draft.event(Happened::DocumentShared, extras);
        Ok(draft.decide(context, nothing_shown(), Vec::new()))
    }

    /// Counts one use, without an event. Whoever comes behind the last one finds nothing.
    pub(in crate::document) fn use_share(
        &self,
        live: &Live,
        id: ShareId,
        context: CommandContext,
    ) -> Decided {
        let share = live.open_link(id, context.now)?;
        let view = ShareView {
            uses: share.terms.uses.saturating_add(1),
            ..share.view()
        };
        let answer = Answer {
            done: Done::Ok,
            id: None,
            etag: None,
            body: to_json(&view),
            replayed: false,
        };
        Ok(link_used(self, live, share, context, answer))
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
    /// What the share link with this token's hash opens now.
    pub(in crate::document) fn open_share(&self, token: &SecretHash, now: i64) -> Decided {
        let share = self
            .facts
            .shares
            .iter()
            .find(|share| same_hash(&share.terms.token, token));
        let Share { id, terms } = self.still_open(share, now)?;
        let opened = Opened {
            share: *id,
            role: terms.role,
            password: terms.password.clone(),
        };
        Ok(Decision::Answer(Reply::Opened(Box::new(opened))))
    }

    /// The share link through which something is done, if it opens now.
    pub(in crate::document) fn open_link(
        &self,
        id: ShareId,
        now: i64,
    ) -> Result<&Share, DocumentError> {
        self.still_open(self.facts.shares.iter().find(|share| share.id == id), now)
    }

    fn still_open<'l>(
        &self,
        share: Option<&'l Share>,
        now: i64,
    ) -> Result<&'l Share, DocumentError> {
        let opens = |share: &&Share| share.terms.opening(Timestamp(now)) != Opening::Gone;
        share
            .filter(|_| self.facts.permissions.link_sharing)
            .filter(opens)
            .ok_or(DocumentError::NotFound)
    }

    /// One of its share links.
    pub(in crate::document) fn share_mut(&mut self, id: ShareId) -> Option<&mut Share> {
        self.facts.shares.iter_mut().find(|share| share.id == id)
    }
}

fn collaborator_shown(held: Option<&Collaborator>) -> Answer {
    let body = held.map_or_else(|| to_json(&Value::Null), to_json);
    Answer {
        done: Done::Ok,
        id: None,
        etag: Some(tag(&body)),
        body,
        replayed: false,
    }
}

/// The permission set as the interface shows it.
#[derive(Serialize)]
struct PermissionsShown<'a> {
    visibility: crate::document::access::Visibility,
    default_role: DocumentRole,
    owner_id: Option<UserId>,
    collaborators: &'a [Collaborator],
    link_sharing: bool,
}

pub(in crate::document) fn permissions_shown(permissions: &Permissions) -> Answer {
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
    Answer {
        done: Done::Ok,
        id: None,
        etag: Some(tag(&body)),
        body,
        replayed: false,
    }
}

fn differences(before: &Permissions, after: &Permissions) -> Map<String, Value> {
    let mut changes = Map::new();
    let mut differ = |field: &str, from: Value, to: Value| {
        if from != to {
            changes.extend(change(field, from, to));
        }
    };
    differ("owner_id", json!(before.owner), json!(after.owner));
    differ(
        "visibility",
        json!(before.visibility),
        json!(after.visibility),
    );
    differ(
        "default_role",
        json!(before.default_role),
        json!(after.default_role),
    );
    differ(
        "link_sharing",
        json!(before.link_sharing),
        json!(after.link_sharing),
    );
    differ(
        "collaborators",
        json!(before.collaborators),
        json!(after.collaborators),
    );
    changes
}
