//! The rules of contents and versions: making, changing, branching, restoring, merging.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::document::access::Permissions;
use crate::document::comments::Comments;
use crate::document::draft::{Draft, EventExtras, VersionMeta, change, link_used};
use crate::document::merge::{ComputedMerge, MergeBasis, MergeJob, MergeOutcome};
use crate::document::messages::{
    AddVersion, BranchName, ContentType, CreateDocument, DocumentError, HEAD, Merge, Reply,
    Request, RestoreVersion, UpdateDocument, VersionName,
};
use crate::document::precompute::{EncodedVersion, Precompute, PrecomputeResult, Task};
use crate::document::state::{CommandContext, Decided, Document, Facts, Live, to_json};
use crate::document::version_graph;
use crate::store::StoredVersion;
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::caller::Scope;
use colloquy_model::commit::Condition;
use colloquy_model::event_kind::Happened;
use colloquy_model::text::DocumentContent;
use colloquy_runtime::Decision;

/// Where a version goes.
struct Place {
    parent: u64,
    /// Empty: the head's line.
    branch: String,
}

/// A merge, as far as names go.
struct Sides {
    source: u64,
    target: u64,
    names: (String, String),
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

/// What was packed; anything else means that the command was not prepared as it is decided.
fn packed(found: Option<PrecomputeResult>) -> Result<EncodedVersion, DocumentError> {
    match found {
        Some(PrecomputeResult::Encoded(packed)) => Ok(packed),
        Some(PrecomputeResult::LineCount(_)) | None => Err(DocumentError::Precondition),
    }
}

impl Document {
    pub(in crate::document) fn job_of_creation(
        &self,
        scope: Scope,
        new: &CreateDocument,
    ) -> Precompute {
        let content = new
            .content
            .as_ref()
            .map_or_else(|| Arc::from(""), DocumentContent::shared);
        let task = Task::Pack {
            content,
            parent: None,
        };
        Precompute {
            document: Self::subject(self.id),
            scope,
            task,
            following: None,
        }
    }

    /// What a command on a document that is there must have computed; none where it is refused
    /// without, or needs nothing.
    pub(in crate::document) fn job(&self, live: &Live, request: &Request) -> Option<Precompute> {
        let head = live.facts.head;
        let (task, on_head) = match request {
            Request::Update(update) => {
                let content = update.content.as_ref()?.shared();
                (
                    Task::Pack {
                        content,
                        parent: Some(head),
                    },
                    true,
                )
            }
            Request::AddVersion(add) => {
                let place = live.place(add).ok()?;
                let on_head = place.branch.is_empty();
                (
                    Task::Pack {
                        content: add.content.shared(),
                        parent: Some(place.parent),
                    },
                    on_head,
                )
            }
            Request::RestoreVersion(name, _) => (
                Task::Copy {
                    version: live.version(name)?,
                    parent: head,
                },
                true,
            ),
            Request::AddComment(add) => {
                let version = add
                    .version
                    .as_ref()
                    .map_or(Some(head), |name| live.version(name))?;
                (Task::Count { version }, false)
            }
            Request::Create(_)
            | Request::Look(_)
            | Request::List(_)
            | Request::PrepareMerge(_)
            | Request::Merge(..)
            | Request::ListComments(_)
            | Request::Bin
            | Request::Restore
            | Request::Erase
            | Request::Expire(_)
            | Request::AddCollaborator(..)
            | Request::ChangeCollaborator(..)
            | Request::RemoveCollaborator(_)
            | Request::SetPermissions(_)
            | Request::CreateShare(..)
            | Request::RemoveShare(_)
            | Request::OpenShare(_)
            | Request::UseShare(_)
            | Request::ChangeComment(..)
            | Request::RemoveComment(_) => return None,
        };
        let following = if on_head { live.following() } else { None };
        Some(Precompute {
            document: Self::subject(self.id),
            scope: live.scope,
            task,
            following,
        })
    }

    pub(in crate::document) fn create(
        &self,
        context: CommandContext,
        new: CreateDocument,
        found: Option<PrecomputeResult>,
    ) -> Decided {
        let packed = packed(found)?;
        let user = context.requester.user();
        let facts = Facts {
            title: new.title.into_string(),
            content_type: new.content_type.unwrap_or(ContentType::Markdown),
            metadata: new.metadata,
            created_by: user,
            updated_by: user,
            deleted_at: None,
            permissions: Permissions::of_new(user),
            shares: Vec::new(),
            head: 1,
            head_id: colloquy_model::id::VersionId::from_parts(0, 0),
            comments_made: 0,
            shown: 0,
            last_at: 0,
        };
        let before = Live {
            scope: context.caller.scope,
            sequence: 0,
            updated_at: self.id.created_ms(),
            facts,
            versions: Arc::default(),
            comments: Comments::default(),
        };
        let mut draft = Draft::new(self, &before, &context, true);
        draft.at = self.id.created_ms();
        draft.version(
            packed,
            VersionMeta {
                parents: Vec::new(),
                branch: String::new(),
                label: None,
                message: None,
            },
            &context,
        );
        draft.event(Happened::DocumentCreated, EventExtras::default());
        let answer = self.shown(&draft.live, context.requester, Done::Created);
        let conditions = user.map(Condition::UserExists).into_iter().collect();
        Ok(draft.decide(context, answer, conditions))
    }

    pub(in crate::document) fn update(
        &self,
        live: &Live,
        update: UpdateDocument,
        context: CommandContext,
        found: Option<PrecomputeResult>,
    ) -> Decided {
        if update.metadata.is_some() && context.requester.share().is_some() {
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
        let mut draft = Draft::new(self, live, &context, false);
        let changes = draft.live.facts.updated(&update);
        let new = match update.content {
            Some(_) => Some(packed(found)?).filter(|packed| !packed.same),
            None => None,
        };
        if changes.is_empty() && new.is_none() {
            let answer = self.shown(live, context.requester, Done::Ok);
            return Ok(match link {
                Some(link) => link_used(self, live, link, context, answer),
                None => draft.unchanged(context, answer),
            });
        }
        draft.use_link();
        draft.shows_change(&context);
        if !changes.is_empty() {
            draft.event(
                Happened::DocumentUpdated,
                EventExtras {
                    changes: Some(changes),
                    ..EventExtras::default()
                },
            );
        }
        if let Some(packed) = new {
            let parents = vec![live.facts.head];
            let made = VersionMeta {
                parents,
                branch: String::new(),
                label: None,
                message: None,
            };
            self.add(
                &mut draft,
                packed,
                made,
                (&context, Happened::DocumentVersionCreated),
            );
        }
        let answer = self.shown(&draft.live, context.requester, Done::Ok);
        Ok(draft.decide(context, answer, Vec::new()))
    }

    /// Adds a version with its event.
    fn add(
        &self,
        draft: &mut Draft<'_>,
        packed: EncodedVersion,
        made: VersionMeta,
        (context, happened): (&CommandContext, Happened),
    ) -> StoredVersion {
        let version = draft.version(packed, made, context);
        let live = draft.live.clone();
        draft.event(
            happened,
            EventExtras {
                version: Some(self.version_view(&live, &version)),
                ..EventExtras::default()
            },
        );
        version
    }

    /// The answer that shows a new version.
    fn made(&self, live: &Live, version: &StoredVersion) -> Answer {
        let body = to_json(&self.version_view(live, version));
        let id = version.id.to_string();
        Answer {
            done: Done::Created,
            id: Some(id.clone()),
            etag: Some(id),
            body,
            replayed: false,
        }
    }

    pub(in crate::document) fn add_version(
        &self,
        live: &Live,
        add: AddVersion,
        context: CommandContext,
        found: Option<PrecomputeResult>,
    ) -> Decided {
        let Place { parent, branch } = live.place(&add)?;
        let label = add.label.map(colloquy_model::text::Text::into_string);
        if let Some(label) = &label {
            live.free("label", label)?;
            if *label == branch {
                return Err(taken("label"));
            }
        }
        let message = add.message.map(colloquy_model::text::Text::into_string);
        let packed = packed(found)?;
        let mut draft = Draft::new(self, live, &context, false);
        let made = VersionMeta {
            parents: vec![parent],
            branch,
            label,
            message,
        };
        let version = self.add(
            &mut draft,
            packed,
            made,
            (&context, Happened::DocumentVersionCreated),
        );
        let answer = self.made(&draft.live, &version);
        Ok(draft.decide(context, answer, Vec::new()))
    }

    pub(in crate::document) fn restore_version(
        &self,
        live: &Live,
        (name, body): (&VersionName, RestoreVersion),
        context: CommandContext,
        found: Option<PrecomputeResult>,
    ) -> Decided {
        live.version(name).ok_or(DocumentError::NotFound)?;
        let packed = packed(found)?;
        let mut draft = Draft::new(self, live, &context, false);
        let message = body.message.map(colloquy_model::text::Text::into_string);
        let made = VersionMeta {
            parents: vec![live.facts.head],
            branch: String::new(),
            label: None,
            message,
        };
        let version = self.add(
            &mut draft,
            packed,
            made,
            (&context, Happened::DocumentVersionCreated),
        );
        let answer = self.made(&draft.live, &version);
        Ok(draft.decide(context, answer, Vec::new()))
    }

    /// What must be computed for a merge; none where the target contains the source.
    pub(in crate::document) fn prepare_merge(live: &Live, merge: &Merge) -> Decided {
        let sides = live.sides(merge)?;
        let job = (!live.contains(sides.target, sides.source))
            .then(|| Box::new(live.merge_job(merge, sides)));
        Ok(Decision::Answer(Reply::Prepared(job)))
    }

    pub(in crate::document) fn merge(
        &self,
        live: &Live,
        merge: Merge,
        context: CommandContext,
        computed: Option<ComputedMerge>,
    ) -> Decided {
        let sides = live.sides(&merge)?;
        if live.contains(sides.target, sides.source) {
            let body = to_json(&UpToDate {
                up_to_date: true,
                version: live.found(sides.target).id,
            });
            let answer = Answer {
                done: Done::Ok,
                id: None,
                etag: None,
                body,
                replayed: false,
            };
            return Ok(Draft::new(self, live, &context, false).unchanged(context, answer));
        }
        let basis = live.basis(&sides);
        match computed
            .filter(|computed| computed.basis == basis)
            .map(|computed| computed.outcome)
        {
            None => Ok(Decision::Answer(Reply::Stale(context.reservation))),
            Some(MergeOutcome::Encoded(packed)) => {
                Ok(self.merged(live, packed, (merge, sides), context))
            }
            Some(MergeOutcome::Refused(refusal)) => Err(refusal),
            Some(MergeOutcome::DryRun(body)) => {
                let answer = Answer {
                    done: Done::Ok,
                    id: None,
                    etag: None,
                    body,
                    replayed: false,
                };
                Ok(Draft::new(self, live, &context, false).unchanged(context, answer))
            }
        }
    }

    fn merged(
        &self,
        live: &Live,
        packed: EncodedVersion,
        (merge, sides): (Merge, Sides),
        context: CommandContext,
    ) -> Decision<Document> {
        let mut draft = Draft::new(self, live, &context, false);
        let branch = live
            .node(sides.target)
            .map_or_else(String::new, |node| node.branch.to_string());
        let message = merge.message.map(colloquy_model::text::Text::into_string);
        let made = VersionMeta {
            parents: vec![sides.target, sides.source],
            branch,
            label: None,
            message,
        };
        let version = self.add(
            &mut draft,
            packed,
            made,
            (&context, Happened::DocumentMerged),
        );
        let answer = self.made(&draft.live, &version);
        draft.decide(context, answer, Vec::new())
    }
}

/// The answer to a merge that has nothing to bring in.
#[derive(Debug, Serialize)]
struct UpToDate {
    up_to_date: bool,
    version: colloquy_model::id::VersionId,
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

    /// The name of a side line that nobody named: its first version's.
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
        // A branch is meant where one has the name: merges go from line to line.
        let side = |name: &VersionName| match name {
            VersionName::Mark(mark) => self.tip(mark).or_else(|| self.labelled(mark)),
            VersionName::Head | VersionName::Main | VersionName::Id(_) | VersionName::Number(_) => {
                self.version(name)
            }
        };
        let sides = Sides {
            source: side(&merge.source).ok_or_else(unknown("source"))?,
            target: side(&target).ok_or_else(unknown("target"))?,
            names: (
                merge
                    .target
                    .as_ref()
                    .map_or_else(|| HEAD.to_owned(), VersionName::to_string),
                merge.source.to_string(),
            ),
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
            ids: (self.found(sides.source).id, self.found(sides.target).id),
            names: sides.names,
            dry_run: merge.dry_run,
            style: merge.style.unwrap_or_default(),
            strategy: merge.strategy.unwrap_or_default(),
            resolutions,
        }
    }
}
