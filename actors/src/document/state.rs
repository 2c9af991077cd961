//! The state of a document and what it shows. Pure: no actor, no clock, no store.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::access::{DocumentRole, Permissions, Requester, role_of};
use super::comments::{Anchor, Comment, Comments};
use super::names::{ContentType, MAIN, VersionFound, VersionName};
use super::precompute::Following;
use super::share_terms::ShareTerms;
use super::views::{DocumentView, ShareView, VersionShown, VersionView};
use crate::store::{StoredDocument, StoredVersion};
use colloquy_model::answer::{Answer, Done};
use colloquy_model::caller::Tenant;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{DocumentId, ShareId, UserId, VersionId};
use colloquy_model::metadata::Metadata;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::{Timestamp, unix_ms};

/// A document, or the place of one that is not there.
#[derive(Debug)]
pub struct Document {
    pub(super) id: DocumentId,
    pub(super) live: Option<Live>,
}

/// A document that exists.
#[derive(Debug, Clone)]
pub struct Live {
    pub(super) id: DocumentId,
    pub(super) tenant: Tenant,
    pub(super) sequence: Sequence,
    /// When what the document shows changed last.
    pub(super) updated_at: Timestamp,
    pub(super) facts: Facts,
    /// Its share links, oldest first. Shared with what a decision makes of it.
    pub(super) shares: Arc<Vec<Share>>,
    /// Whether they are still stored in the header, where earlier versions kept them: the next commit
    /// stores them apart.
    pub(super) shares_in_header: bool,
    /// Oldest first, so that a version's number is its place. Shared with what a decision makes of
    /// it.
    pub(super) versions: Arc<Vec<StoredVersion>>,
    pub(super) comments: Comments,
}

/// A document's header: all of it but its share links, versions and comments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) title: String,
    pub(super) content_type: ContentType,
    #[serde(deserialize_with = "Metadata::accepted")]
    pub(super) metadata: Metadata,
    pub(super) created_by: Option<UserId>,
    pub(super) updated_by: Option<UserId>,
    #[serde(with = "unix_ms::option", default)]
    pub(super) deleted_at: Option<Timestamp>,
    pub(super) permissions: Permissions,
    /// Its share links, in a header that an earlier version wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "shares")]
    pub(super) earlier_shares: Vec<Share>,
    pub(super) head: u64,
    /// The head's identifier: lists show it without reading versions.
    pub(super) head_id: VersionId,
    /// How many bytes the head's content has.
    #[serde(default)]
    pub(super) head_bytes: u64,
    /// Comments that were ever made: the next one's number.
    pub(super) comments_made: u64,
    /// The sequence at which what the document shows changed last; comments, links and side
    /// branches leave it alone.
    pub(super) shown: Sequence,
    /// When the last commit was: the next one is not before it.
    #[serde(with = "unix_ms")]
    pub(super) last_at: Timestamp,
}

/// A share link of the document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) id: ShareId,
    pub(super) terms: ShareTerms,
}

/// A change of the document, as a rule decided it.
#[derive(Debug)]
pub struct Changed(pub(super) Change);

/// How a document changes.
#[derive(Debug)]
pub(super) enum Change {
    /// It is as the first says, with one version behind the others where the second has one: they
    /// are not copied for it.
    Live(Box<Live>, Option<StoredVersion>),
    /// The document is deleted for good.
    Gone,
    /// One of its links was used once more: nothing is copied for it.
    Used(ShareId),
}

impl Document {
    /// The name under which the store keeps a document.
    #[must_use]
    pub fn subject(id: DocumentId) -> Subject {
        Subject {
            kind: Kind::Document,
            number: id.number(),
            tail: id.tail(),
        }
    }
}

impl Live {
    /// A document before it is created, with nothing in it.
    pub(super) fn blank(id: DocumentId, tenant: Tenant) -> Self {
        Live {
            id,
            tenant,
            sequence: Sequence::ZERO,
            updated_at: id.created_at(),
            facts: Facts {
                title: String::new(),
                content_type: ContentType::Markdown,
                metadata: Metadata::default(),
                created_by: None,
                updated_by: None,
                deleted_at: None,
                permissions: Permissions::of_new(None),
                earlier_shares: Vec::new(),
                head: 1,
                head_id: VersionId::from_parts(EntityNumber::ZERO, 0),
                head_bytes: 0,
                comments_made: 0,
                shown: Sequence::ZERO,
                last_at: Timestamp::EPOCH,
            },
            shares: Arc::default(),
            shares_in_header: false,
            versions: Arc::default(),
            comments: Comments::default(),
        }
    }

    /// Whether nothing was committed of it yet.
    pub(super) fn is_blank(&self) -> bool {
        self.sequence == Sequence::ZERO
    }

    /// With how many bytes of texts it is counted: those of its head, outside the bin.
    pub(super) fn text_bytes(&self) -> u64 {
        match self.facts.deleted_at {
            Some(_) => 0,
            None => self.facts.head_bytes,
        }
    }

    /// The document without its content, as somebody of this role sees it.
    pub(super) fn view(&self, role: Option<DocumentRole>) -> DocumentView<'_> {
        self.facts.view(self.id, role, self.updated_at)
    }

    /// The document as this caller sees it: a link's holder is told nothing of the account's own.
    pub(super) fn view_for(
        &self,
        requester: Requester,
        role: Option<DocumentRole>,
    ) -> DocumentView<'_> {
        static NOTHING: LazyLock<Metadata> = LazyLock::new(Metadata::default);
        let view = self.view(role);
        match requester {
            Requester::Account(_) | Requester::User(_) => view,
            // Each field by name: one that is added to documents is hidden until somebody decides.
            Requester::Link(..) => DocumentView {
                id: view.id,
                title: view.title,
                content: view.content,
                content_type: view.content_type,
                metadata: &NOTHING,
                owner_id: None,
                version: view.version,
                version_number: view.version_number,
                role: view.role,
                created_at: view.created_at,
                updated_at: view.updated_at,
                created_by: None,
                updated_by: None,
            },
        }
    }

    /// The whole document, but for its content, as the answer to whoever asks.
    pub(super) fn answer(&self, requester: Requester, done: Done) -> Answer {
        let role = role_of(requester, &self.facts.permissions);
        Answer {
            done,
            id: (done == Done::Created).then(|| self.id.to_string()),
            etag: Some(self.etag(role.unwrap_or(DocumentRole::Viewer))),
            body: to_json(&self.view_for(requester, role)),
            replayed: false,
        }
    }

    /// A version of the document as the interface shows it.
    pub(super) fn version_view<'a>(&self, version: &'a StoredVersion) -> VersionView<'a> {
        VersionView {
            id: version.id,
            document_id: self.id,
            number: version.number,
            label: version.label.as_deref(),
            branch: if version.branch.is_empty() {
                MAIN
            } else {
                &version.branch
            },
            parents: version
                .parents
                .iter()
                .map(|number| self.found(*number).id)
                .collect(),
            message: version.message.as_deref(),
            author: version.author,
            created_at: version.at,
        }
    }

    /// Restores a document from the store.
    ///
    /// # Errors
    /// A part of it can't be read, which is told.
    pub(super) fn restored(id: DocumentId, stored: StoredDocument) -> Result<Self, Unreadable> {
        let mut facts = Facts::stored(id, &stored.body)?;
        if !usize::try_from(facts.head)
            .is_ok_and(|head| (1..=stored.versions.len()).contains(&head))
        {
            return Err(Unreadable::found(
                format_args!("{id}: head"),
                "there is no such version",
            ));
        }
        let uses: HashMap<EntityNumber, u64> = stored
            .link_uses
            .iter()
            .map(|used| (used.share, used.uses))
            .collect();
        let earlier = std::mem::take(&mut facts.earlier_shares);
        let shares_in_header = stored.links.is_none() && !earlier.is_empty();
        let mut shares = match &stored.links {
            Some(links) => Share::stored(id, links)?,
            None => earlier,
        };
        for share in &mut shares {
            let counted = uses.get(&share.id.number()).copied();
            share.terms.uses = share.terms.uses.max(counted.unwrap_or(0));
        }
        Ok(Live {
            id,
            tenant: stored.tenant,
            sequence: stored.sequence,
            updated_at: stored.updated_at,
            comments: Comments::restored(
                id,
                &stored.comments,
                stored.anchors.as_deref(),
                facts.head_id,
            )?,
            facts,
            shares: Arc::new(shares),
            shares_in_header,
            versions: Arc::new(
                stored
                    .versions
                    .into_iter()
                    .map(StoredVersion::without_message)
                    .collect(),
            ),
        })
    }

    /// Changes with everything that the document shows, and is another one for each role, which it
    /// shows too.
    pub(super) fn etag(&self, role: DocumentRole) -> String {
        format!("{}-{}", self.facts.shown, role as u8)
    }

    /// The version of this number, if there is one.
    pub(super) fn node(&self, number: u64) -> Option<&StoredVersion> {
        self.versions
            .get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// A version by its number, with its identifier and first parent; an identifier of zeros where
    /// there is no such version, which can't be.
    pub(super) fn found(&self, number: u64) -> VersionFound {
        let node = self.node(number);
        VersionFound {
            number,
            id: node.map_or_else(
                || VersionId::from_parts(EntityNumber::ZERO, 0),
                |node| node.id,
            ),
            parent: node.and_then(|node| node.parents.first().copied()),
        }
    }

    /// The version that a name means: a label before a branch.
    pub(super) fn version(&self, name: &VersionName) -> Option<u64> {
        match name {
            VersionName::Head | VersionName::Main => Some(self.facts.head),
            VersionName::Id(id) => self
                .node(id.ordinal())
                .filter(|node| node.id == *id)
                .map(|node| node.number),
            VersionName::Number(number) => self.node(*number).map(|node| node.number),
            VersionName::Mark(mark) => self.labelled(mark).or_else(|| self.tip(mark)),
        }
    }

    pub(super) fn labelled(&self, label: &str) -> Option<u64> {
        self.versions
            .iter()
            .find(|node| node.label.as_deref() == Some(label))
            .map(|node| node.number)
    }

    /// The newest version of a side branch.
    pub(super) fn tip(&self, branch: &str) -> Option<u64> {
        self.versions
            .iter()
            .rev()
            .find(|node| &*node.branch == branch)
            .map(|node| node.number)
    }

    /// Whether a version was the head at an instant or later.
    pub(super) fn was_head_since(&self, number: u64, since: Timestamp) -> bool {
        let on_main = |node: &&StoredVersion| node.branch.is_empty();
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        let behind = self.versions.get(place..).unwrap_or_default();
        self.node(number).as_ref().is_some_and(on_main)
            && behind
                .iter()
                .find(on_main)
                .is_none_or(|next| next.id.created_at() > since)
    }

    /// Whether it is the newest version of its branch.
    pub(super) fn is_tip(&self, number: u64) -> bool {
        let Some(node) = self.node(number) else {
            return false;
        };
        if node.branch.is_empty() {
            number == self.facts.head
        } else {
            self.tip(&node.branch) == Some(number)
        }
    }

    /// The comments that follow a new head, if any stand on this one.
    pub(super) fn following(&self) -> Option<Following> {
        let anchors = self.comments.anchors();
        anchors.follow_the_head().then(|| Following {
            head: self.facts.head,
            anchors: Arc::clone(anchors),
        })
    }

    /// Bytes that it holds in memory beside itself.
    pub(super) fn bytes(&self) -> usize {
        let Facts {
            permissions, title, ..
        } = &self.facts;
        title.len()
            + 48 * permissions.collaborators.len()
            + 256 * self.shares.len()
            + (size_of::<StoredVersion>() + 64) * self.versions.len()
            + (size_of::<Comment>() + size_of::<Anchor>() + 64) * self.comments.len()
            + self.comments.bytes()
    }
}

impl Facts {
    /// Reads the facts from a stored header.
    ///
    /// # Errors
    /// The header can't be read, which is told.
    pub(super) fn stored(id: DocumentId, header: &str) -> Result<Self, Unreadable> {
        serde_json::from_str(header)
            .map_err(|error| Unreadable::found(format_args!("{id}: header"), error))
    }

    /// The document as lists show it.
    pub(super) fn view(
        &self,
        id: DocumentId,
        role: Option<DocumentRole>,
        updated_at: Timestamp,
    ) -> DocumentView<'_> {
        DocumentView {
            id,
            title: &self.title,
            content: None,
            content_type: self.content_type,
            metadata: &self.metadata,
            owner_id: self.permissions.owner,
            version: VersionShown::Id(self.head_id),
            version_number: self.head,
            role,
            created_at: id.created_at(),
            updated_at,
            created_by: self.created_by,
            updated_by: self.updated_by,
        }
    }
}

impl Share {
    /// Reads a document's share links from what is stored of them.
    ///
    /// # Errors
    /// They can't be read, which is told.
    fn stored(id: DocumentId, links: &str) -> Result<Vec<Self>, Unreadable> {
        serde_json::from_str(links)
            .map_err(|error| Unreadable::found(format_args!("{id}: share links"), error))
    }

    pub(super) fn view(&self) -> ShareView {
        ShareView {
            share_id: self.id,
            role: self.terms.role,
            expires_at: self.terms.expires_at,
            max_uses: self.terms.max_uses,
            uses: self.terms.uses,
            has_password: self.terms.password.is_some(),
            created_at: self.id.created_at(),
        }
    }
}

/// The entity tag of something small that has no revision of its own: another one for other bytes.
pub(super) fn tag(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    digest
        .iter()
        .take(8)
        .fold(String::with_capacity(16), |text, byte| {
            format!("{text}{byte:02x}")
        })
}

/// The JSON of a shape of ours: these have no maps with keys other than strings, so they can't
/// fail.
pub(super) fn to_json<T: Serialize>(shape: &T) -> Bytes {
    colloquy_model::json::bytes(shape)
}
