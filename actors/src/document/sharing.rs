//! The rules of who may see a document: the bin, collaborators, permission sets, share links.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::access::{Collaborator, DocumentRole, PermissionChange, Permissions};
use super::draft::{Beside, Draft, change, link_used, nothing_shown};
use super::messages::{CreateShare, DocumentError, Opened, Reply, SetPermissions};
use super::shares::{Opening, ShareTerms, ShareWanted, same_hash};
use super::state::{Asked, Decided, Document, Live, Share, tag, to_json};
use super::views::{NewShareView, ShareView};
use crate::runtime::Decision;
use crate::store::Condition;
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::event_kind::Happened;
use colloquy_model::id::{ShareId, UserId};
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;

/// Links of one document, the expired ones included: all of them stand in its header.
const SHARES_MAX: usize = 1_000;

impl Document {
    pub(super) fn bin(&self, live: &Live, asked: Asked) -> Decision<Self> {
        let mut draft = Draft::new(self, live, &asked, false);
        draft.live.facts.deleted_at = Some(draft.at);
        draft.shows_change(&asked);
        draft.event(
            Happened::DocumentDeleted,
            Beside {
                permanent: Some(false),
                ..Beside::default()
            },
        );
        draft.decide(asked, nothing_shown(), Vec::new())
    }

    pub(super) fn restore(&self, live: &Live, asked: Asked) -> Decided {
        let mut draft = Draft::new(self, live, &asked, false);
        if live.facts.deleted_at.is_none() {
            let answer = self.shown(live, asked.who, Done::Ok);
            return Ok(draft.unchanged(asked, answer));
        }
        draft.live.facts.deleted_at = None;
        draft.shows_change(&asked);
        draft.event(Happened::DocumentRestored, Beside::default());
        let answer = self.shown(&draft.live, asked.who, Done::Ok);
        Ok(draft.decide(asked, answer, Vec::new()))
    }

    pub(super) fn erase(&self, live: &Live, asked: Asked) -> Decision<Self> {
        let mut draft = Draft::new(self, live, &asked, false);
        draft.shows_change(&asked);
        draft.event(
            Happened::DocumentDeleted,
            Beside {
                permanent: Some(true),
                ..Beside::default()
            },
        );
        draft.gone(asked, nothing_shown())
    }

    /// Erases what has been in the bin for too long; what was taken out meanwhile stays.
    pub(super) fn expire(&self, live: &Live, before: i64, asked: Asked) -> Decided {
        if live.facts.deleted_at.is_some_and(|at| at < before) {
            return Ok(self.erase(live, asked));
        }
        Err(DocumentError::NotFound)
    }

    pub(super) fn add_collaborator(
        &self,
        live: &Live,
        (user, role, email): (UserId, DocumentRole, Option<String>),
        asked: Asked,
    ) -> Decided {
        let new = Collaborator {
            user_id: user,
            role,
            added_at: Timestamp(asked.now.max(live.facts.last_at)),
        };
        let next = live
            .facts
            .permissions
            .with(new, |user| asked.is_user(user))?;
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
        Ok(self.permit(live, next, asked, shown))
    }

    pub(super) fn change_collaborator(
        &self,
        live: &Live,
        user: UserId,
        role: DocumentRole,
        asked: Asked,
    ) -> Decided {
        if !asked.is_user(user) {
            // One who is no more stands in no list either.
            return Err(DocumentError::NotFound);
        }
        let next = live.facts.permissions.with_role(user, role)?;
        Ok(self.permit(live, next, asked, |permissions| {
            collaborator_shown(permissions.collaborator(user))
        }))
    }

    pub(super) fn remove_collaborator(&self, live: &Live, user: UserId, asked: Asked) -> Decided {
        let next = live.facts.permissions.without(user)?;
        Ok(self.permit(live, next, asked, |_| nothing_shown()))
    }

    pub(super) fn set_permissions(
        &self,
        live: &Live,
        set: SetPermissions,
        asked: Asked,
    ) -> Decided {
        let given = |list: Vec<super::messages::CollaboratorGiven>| {
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
        let now = Timestamp(asked.now.max(live.facts.last_at));
        let next = live
            .facts
            .permissions
            .changed(&change, now, |user| asked.is_user(user))?;
        Ok(self.permit(live, next, asked, permissions_shown))
    }

    /// Puts a permission set with its one event, or answers that nothing changes.
    fn permit(
        &self,
        live: &Live,
        next: Permissions,
        asked: Asked,
        shown: impl FnOnce(&Permissions) -> Answer,
    ) -> Decision<Self> {
        let mut draft = Draft::new(self, live, &asked, false);
        let before = &live.facts.permissions;
        let answer = shown(&next);
        if next == *before {
            return draft.unchanged(asked, answer);
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
            draft.shows_change(&asked);
        }
        draft.readers_change();
        let beside = Beside {
            changes: Some(changes),
            collaborators: Some(collaborators),
            ..Beside::default()
        };
        draft.event(Happened::DocumentPermissionsUpdated, beside);
        draft.decide(asked, answer, conditions)
    }

    pub(super) fn create_share(
        &self,
        live: &Live,
        new: CreateShare,
        (token, password): (SecretHash, Option<String>),
        asked: Asked,
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
        let mut draft = Draft::new(self, live, &asked, false);
        let wanted = ShareWanted {
            role: new.role,
            expires_at: new.expires_at,
            max_uses: new.max_uses,
        };
        let terms = ShareTerms::new(token, wanted, password, Timestamp(asked.now))
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
            Beside {
                share: Some(view),
                ..Beside::default()
            },
        );
        Ok(draft.decide(asked, answer, Vec::new()))
    }

    pub(super) fn remove_share(&self, live: &Live, id: ShareId, asked: Asked) -> Decided {
        let mut draft = Draft::new(self, live, &asked, false);
        let place = live
            .facts
            .shares
            .iter()
            .position(|share| share.id == id)
            .ok_or(DocumentError::NotFound)?;
        let share = draft.live.facts.shares.remove(place);
        draft.links_change();
        let beside = Beside {
            share: Some(share.view()),
            removed: Some(true),
            ..Beside::default()
        };
        draft.event(Happened::DocumentShared, beside);
        Ok(draft.decide(asked, nothing_shown(), Vec::new()))
    }

    /// Counts one use, without an event. Whoever comes behind the last one finds nothing.
    pub(super) fn use_share(&self, live: &Live, id: ShareId, asked: Asked) -> Decided {
        let share = live.open_link(id, asked.now)?;
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
        Ok(link_used(self, live, share, asked, answer))
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
    pub(super) fn open_share(&self, token: &SecretHash, now: i64) -> Decided {
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
    pub(super) fn open_link(&self, id: ShareId, now: i64) -> Result<&Share, DocumentError> {
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
    pub(super) fn share_mut(&mut self, id: ShareId) -> Option<&mut Share> {
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
    visibility: super::access::Visibility,
    default_role: DocumentRole,
    owner_id: Option<UserId>,
    collaborators: &'a [Collaborator],
    link_sharing: bool,
}

pub(super) fn permissions_shown(permissions: &Permissions) -> Answer {
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
