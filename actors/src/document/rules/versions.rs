//! The rules of contents and versions: creating, reading, updating, branching, restoring, merging.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Access, ComputedRequest, Decided, DocumentRequest};
use crate::document::access::{Action, DocumentRole, Permissions, role_of};
use crate::document::context::{CommandContext, Outcome};
use crate::document::draft::{Changes, Draft, EventExtras, VersionMeta, change, link_used};
use crate::document::merge_job::{MergeBasis, MergeJob, MergeOutcome};
use crate::document::messages::{
    AddVersion, ApplyMerge, BranchName, ContentType, CreateDocument, DocumentError,
    DocumentSnapshot, HEAD, Merge, MergeReply, PrepareMerge, ReadDocument, RestoreOlderVersion,
    UpdateDocument, VersionName, WithoutContent,
};
use crate::document::precompute::{EncodeVersion, EncodedVersion, VersionText};
use crate::document::state::{Facts, Live, to_json};
use crate::document::version_graph;
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::commit::Condition;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::VersionId;
use colloquy_model::text::{DocumentContent, Text};

/// The place of a new version in the graph.
struct Place {
    parent: u64,
    /// Empty: the main branch.
    branch: String,
}

/// The two versions that a merge is about, by number and as the caller names them.
struct Sides {
    source: u64,
    target: u64,
    source_name: String,
    target_name: String,
}

fn invalid(field: &'static str, reason: impl Into<String>) -> DocumentError {
    DocumentError::Invalid(Invalid::new(field, reason))
}

fn taken(field: &'static str) -> DocumentError {
    DocumentError::Conflict {
        field,
        reason: "is taken by another version or branch",
    }
}

/// The encoded content. Without one the document has changed since the rule asked for it.
fn encoded(computed: Option<EncodedVersion>) -> Result<EncodedVersion, DocumentError> {
    computed.ok_or(DocumentError::Precondition)
}

impl ComputedRequest for CreateDocument {
    type Reply = WithoutContent;
    type Task = EncodeVersion;

    fn access(&self) -> Access {
        Access::Creation
    }

    fn task(&self, _: &Live) -> Option<EncodeVersion> {
        let content = self.content.as_ref();
        let content = content.map_or_else(|| Arc::from(""), DocumentContent::shared);
        Some(EncodeVersion {
            text: VersionText::Given(content),
            parent: None,
            following: None,
        })
    }

    fn decide(
        self,
        live: &Live,
        context: CommandContext,
        computed: Option<EncodedVersion>,
    ) -> Decided<WithoutContent> {
        let encoded = encoded(computed)?;
        let user = context.requester.user();
        let mut draft = Draft::new(live, &context);
        draft.at = live.id.created_at();
        let facts = &mut draft.live.facts;
        facts.title = self.title.into_string();
        facts.content_type = self.content_type.unwrap_or(ContentType::Markdown);
        facts.metadata = self.metadata;
        facts.created_by = user;
        facts.updated_by = user;
        facts.permissions = Permissions::of_new(user);
        draft.version(encoded, VersionMeta::default(), &context);
        draft.event(EventKind::DocumentCreated, EventExtras::default());
        let answer = draft.live.answer(context.requester, Done::Created);
        let conditions = user.map(Condition::UserExists).into_iter().collect();
        Ok(draft
            .commit(context, answer, conditions)
            .map(WithoutContent))
    }
}

impl DocumentRequest for ReadDocument {
    type Reply = Box<DocumentSnapshot>;

    fn access(&self) -> Access {
        Access::Role(Action::Read)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Box<DocumentSnapshot>> {
        let requester = context.requester;
        let role = role_of(requester, &live.facts.permissions).unwrap_or(DocumentRole::Viewer);
        let names = self.versions.iter();
        Ok(Outcome::reply(Box::new(DocumentSnapshot {
            document: to_json(&live.view_for(requester, Some(role))),
            etag: live.etag(role),
            role,
            head: live.found(live.facts.head),
            versions: names
                .map(|name| {
                    let number = live.version(name).filter(|number| {
                        let since = self.head_since;
                        since.is_none_or(|since| live.was_head_since(*number, since))
                    });
                    number.map(|number| live.found(number))
                })
                .collect(),
        })))
    }
}

impl ComputedRequest for UpdateDocument {
    type Reply = WithoutContent;
    type Task = EncodeVersion;

    fn access(&self) -> Access {
        Access::Role(Action::Update)
    }

    fn task(&self, live: &Live) -> Option<EncodeVersion> {
        let content = self.content.as_ref()?.shared();
        Some(live.new_head(VersionText::Given(content)))
    }

    fn decide(
        self,
        live: &Live,
        context: CommandContext,
        computed: Option<EncodedVersion>,
    ) -> Decided<WithoutContent> {
        if self.metadata.is_some() && context.requester.share().is_some() {
            return Err(invalid(
                "metadata",
                "is neither shown nor changed through a link",
            ));
        }
        // A change through a link is a use of it: whoever comes behind the last one finds nothing.
        let link = match context.requester.share() {
            Some(share) => Some(live.open_link(share, context.now)?),
            None => None,
        };
        let mut draft = Draft::new(live, &context);
        let changes = draft.live.facts.updated(&self);
        let new = match self.content {
            Some(_) => Some(encoded(computed)?).filter(|encoded| !encoded.same),
            None => None,
        };
        if changes.is_empty() && new.is_none() {
            let answer = live.answer(context.requester, Done::Ok);
            let outcome = match link {
                Some(link) => link_used(live, link, context, answer),
                None => draft.unchanged(context, answer),
            };
            return Ok(outcome.map(WithoutContent));
        }
        draft.use_link();
        draft.shows_change(&context);
        if !changes.is_empty() {
            let extras = EventExtras {
                changes: Some(Changes::Fields(changes)),
                ..EventExtras::default()
            };
            draft.event(EventKind::DocumentUpdated, extras);
        }
        if let Some(encoded) = new {
            let meta = VersionMeta::after(live.facts.head);
            let version = draft.version(encoded, meta, &context);
            draft.version_event(EventKind::DocumentVersionCreated, &version);
        }
        let answer = draft.live.answer(context.requester, Done::Ok);
        let outcome = draft.commit(context, answer, Vec::new());
        Ok(outcome.map(WithoutContent))
    }
}

impl ComputedRequest for AddVersion {
    type Reply = Answer;
    type Task = EncodeVersion;

    fn access(&self) -> Access {
        Access::Role(Action::AddVersion)
    }

    fn task(&self, live: &Live) -> Option<EncodeVersion> {
        let Place { parent, branch } = live.place(self).ok()?;
        let text = VersionText::Given(self.content.shared());
        Some(if branch.is_empty() {
            live.new_head(text)
        } else {
            EncodeVersion {
                text,
                parent: Some(parent),
                following: None,
            }
        })
    }

    fn decide(
        self,
        live: &Live,
        context: CommandContext,
        computed: Option<EncodedVersion>,
    ) -> Decided<Answer> {
        let Place { parent, branch } = live.place(&self)?;
        let label = self.label.map(Text::into_string);
        if let Some(label) = &label {
            live.free("label", label)?;
            if *label == branch {
                return Err(taken("label"));
            }
        }
        let meta = VersionMeta {
            parents: vec![parent],
            branch,
            label,
            message: self.message.map(Text::into_string),
        };
        let made = EventKind::DocumentVersionCreated;
        Ok(live.with_version(encoded(computed)?, meta, context, made))
    }
}

impl ComputedRequest for RestoreOlderVersion {
    type Reply = Answer;
    type Task = EncodeVersion;

    fn access(&self) -> Access {
        Access::Role(Action::RestoreVersion)
    }

    fn task(&self, live: &Live) -> Option<EncodeVersion> {
        let version = live.version(&self.version)?;
        Some(live.new_head(VersionText::CopyOf(version)))
    }

    fn decide(
        self,
        live: &Live,
        context: CommandContext,
        computed: Option<EncodedVersion>,
    ) -> Decided<Answer> {
        live.version(&self.version).ok_or(DocumentError::NotFound)?;
        let meta = VersionMeta {
            message: self.body.message.map(Text::into_string),
            ..VersionMeta::after(live.facts.head)
        };
        let made = EventKind::DocumentVersionCreated;
        Ok(live.with_version(encoded(computed)?, meta, context, made))
    }
}

impl DocumentRequest for PrepareMerge {
    type Reply = Option<Box<MergeJob>>;

    fn access(&self) -> Access {
        Access::Role(Action::Merge)
    }

    fn decide(self, live: &Live, _: CommandContext) -> Decided<Option<Box<MergeJob>>> {
        let sides = live.sides(&self.merge)?;
        let job = (!live.contains(sides.target, sides.source))
            .then(|| Box::new(live.merge_job(&self.merge, sides)));
        Ok(Outcome::reply(job))
    }
}

impl DocumentRequest for ApplyMerge {
    type Reply = MergeReply;

    fn access(&self) -> Access {
        Access::Role(Action::Merge)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<MergeReply> {
        let sides = live.sides(&self.merge)?;
        if live.contains(sides.target, sides.source) {
            let body = to_json(&UpToDate {
                up_to_date: true,
                version: live.found(sides.target).id,
            });
            let outcome = Draft::new(live, &context).unchanged(context, shown(body));
            return Ok(outcome.map(MergeReply::Done));
        }
        let basis = live.basis(&sides);
        let outcome = match self.computed {
            Some(computed) if computed.basis == basis => computed.outcome,
            Some(_) | None => return Ok(Outcome::reply(MergeReply::Stale(context.reservation))),
        };
        let outcome = match outcome {
            MergeOutcome::Encoded(encoded) => {
                let branch = live.node(sides.target).map(|node| node.branch.to_string());
                let message = self.merge.message.clone();
                let meta = VersionMeta {
                    parents: vec![sides.target, sides.source],
                    branch: branch.unwrap_or_default(),
                    label: None,
                    message: message.map(Text::into_string),
                };
                live.with_version(encoded, meta, context, EventKind::DocumentMerged)
            }
            MergeOutcome::Refused(refusal) => return Err(refusal),
            MergeOutcome::DryRun(body) => {
                Draft::new(live, &context).unchanged(context, shown(body))
            }
        };
        Ok(outcome.map(MergeReply::Done))
    }
}

/// The answer that shows something without an identifier or a tag of its own.
fn shown(body: Bytes) -> Answer {
    Answer::ok(None, body)
}

/// The answer to a merge that has nothing to bring in.
#[derive(Debug, Serialize)]
struct UpToDate {
    up_to_date: bool,
    version: VersionId,
}

impl Facts {
    /// Takes what is given; tells what changes.
    fn updated(&mut self, update: &UpdateDocument) -> Map<String, Value> {
        let mut changes = Map::new();
        if let Some(title) = update.title.as_ref().filter(|title| ***title != self.title) {
            changes.extend(change("title", json!(self.title), json!(**title)));
            (**title).clone_into(&mut self.title);
        }
        if let Some(content_type) = update
            .content_type
            .filter(|given| *given != self.content_type)
        {
            changes.extend(change(
                "content_type",
                json!(self.content_type),
                json!(content_type),
            ));
            self.content_type = content_type;
        }
        if let Some(metadata) = &update.metadata {
            let metadata = metadata.clone().unwrap_or_default();
            if metadata != self.metadata {
                changes.extend(change("metadata", json!(self.metadata), json!(metadata)));
                self.metadata = metadata;
            }
        }
        changes
    }
}

impl Live {
    /// Commits a new version with its event, and answers with it.
    fn with_version(
        &self,
        encoded: EncodedVersion,
        meta: VersionMeta,
        context: CommandContext,
        kind: EventKind,
    ) -> Outcome<Answer> {
        let mut draft = Draft::new(self, &context);
        let version = draft.version(encoded, meta, &context);
        draft.version_event(kind, &version);
        let id = version.id.to_string();
        let answer = Answer::created(
            id.clone(),
            Some(id),
            to_json(&draft.live.version_view(&version)),
        );
        draft.commit(context, answer, Vec::new())
    }

    /// A new head to encode, which comments on the head of now are to follow.
    fn new_head(&self, text: VersionText) -> EncodeVersion {
        EncodeVersion {
            text,
            parent: Some(self.facts.head),
            following: self.following(),
        }
    }

    /// Where a new version goes.
    fn place(&self, add: &AddVersion) -> Result<Place, DocumentError> {
        let head = self.facts.head;
        let named = match &add.parent {
            Some(name) => Some(
                self.version(name)
                    .ok_or_else(|| invalid("parent", "must be a version of this document"))?,
            ),
            None => None,
        };
        let stale = |field| DocumentError::Conflict {
            field,
            reason: "is not the newest version of that branch",
        };
        match &add.branch {
            Some(BranchName::Main) if named.is_none_or(|parent| parent == head) => Ok(Place {
                parent: head,
                branch: String::new(),
            }),
            Some(BranchName::Main) => Err(stale("parent")),
            Some(BranchName::Side(branch)) => {
                let branch = branch.to_string();
                match (self.tip(&branch), named) {
                    (Some(tip), parent) if parent.is_none_or(|parent| parent == tip) => Ok(Place {
                        parent: tip,
                        branch,
                    }),
                    (Some(_), _) => Err(stale("parent")),
                    (None, parent) => {
                        self.free("branch", &branch)?;
                        Ok(Place {
                            parent: parent.unwrap_or(head),
                            branch,
                        })
                    }
                }
            }
            None => {
                let parent = named.unwrap_or(head);
                let branch = match self.node(parent) {
                    Some(node) if self.is_tip(parent) => node.branch.to_string(),
                    Some(_) | None => self.new_line(add.label.as_deref()),
                };
                Ok(Place { parent, branch })
            }
        }
    }

    /// The name of a side branch that nobody named: its first version's.
    fn new_line(&self, label: Option<&str>) -> String {
        let first = format!("v{}", self.versions.len() + 1);
        // Looked through once: somebody may have taken thousands of these names before.
        let names = self
            .versions
            .iter()
            .flat_map(|node| node.label.as_deref().into_iter().chain([&*node.branch]));
        let taken: HashSet<&str> = names
            .chain(label)
            .filter(|name| name.starts_with(&first))
            .collect();
        let mut name = first.clone();
        let mut permit = 2;
        while taken.contains(&*name) {
            name = format!("{first}-{permit}");
            permit += 1;
        }
        name
    }

    /// Labels and branches are names in one space: one that is taken would mean two things.
    fn free(&self, field: &'static str, name: &str) -> Result<(), DocumentError> {
        if self.labelled(name).is_some() || self.tip(name).is_some() {
            return Err(taken(field));
        }
        Ok(())
    }

    fn sides(&self, merge: &Merge) -> Result<Sides, DocumentError> {
        let target = merge.target.clone().unwrap_or(VersionName::Head);
        if merge.resolutions.is_some() {
            for (field, name) in [("source", &merge.source), ("target", &target)] {
                if !matches!(name, VersionName::Id(_)) {
                    return Err(invalid(
                        field,
                        "must be a version's ID where resolutions are given",
                    ));
                }
            }
        }
        let unknown =
            |field| move || invalid(field, "must be a version or branch of this document");
        // A branch is meant where one has the name: merges go from branch to branch.
        let side = |name: &VersionName| match name {
            VersionName::Mark(mark) => self.tip(mark).or_else(|| self.labelled(mark)),
            VersionName::Head | VersionName::Main | VersionName::Id(_) | VersionName::Number(_) => {
                self.version(name)
            }
        };
        let sides = Sides {
            source: side(&merge.source).ok_or_else(unknown("source"))?,
            target: side(&target).ok_or_else(unknown("target"))?,
            source_name: merge.source.to_string(),
            target_name: merge
                .target
                .as_ref()
                .map_or_else(|| HEAD.to_owned(), VersionName::to_string),
        };
        if self.is_tip(sides.target) {
            Ok(sides)
        } else {
            Err(DocumentError::Precondition)
        }
    }

    fn parents(&self, number: u64) -> &[u64] {
        self.node(number).map_or(&[], |node| &node.parents)
    }

    fn contains(&self, target: u64, source: u64) -> bool {
        version_graph::contains(target, source, |number| self.parents(number))
    }

    /// What a merge of these sides has to be computed for.
    fn basis(&self, sides: &Sides) -> MergeBasis {
        let Sides { source, target, .. } = *sides;
        let anchored_at = self
            .following()
            .map(|following| following.head)
            .filter(|head| *head == target);
        MergeBasis {
            source,
            target,
            anchored_at,
        }
    }

    fn merge_job(&self, merge: &Merge, sides: Sides) -> MergeJob {
        let resolutions = merge.resolutions.as_ref().map(|given| {
            let index = |index: u64| usize::try_from(index).unwrap_or(usize::MAX);
            given
                .iter()
                .map(|one| (index(one.index), one.content.shared()))
                .collect()
        });
        MergeJob {
            basis: self.basis(&sides),
            following: self
                .following()
                .filter(|following| following.head == sides.target),
            versions: Arc::clone(&self.versions),
            source_id: self.found(sides.source).id,
            target_id: self.found(sides.target).id,
            target_name: sides.target_name,
            source_name: sides.source_name,
            dry_run: merge.dry_run,
            style: merge.style.unwrap_or_default(),
            strategy: merge.strategy.unwrap_or_default(),
            resolutions,
        }
    }
}
