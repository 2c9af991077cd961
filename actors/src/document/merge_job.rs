//! A merge computed off the arbiters: from the versions as they were when it was asked for, to a
//! version ready to be stored, the answer to a dry run, or a refusal.

use std::sync::Arc;

use bytes::Bytes;
use colloquy_merge::{
    Conflict, Labels, MergeOptions, MergeStrategy, MergeStyle, Merged, ResolveError, StepBudget,
    Texts, merge, resolve,
};
use serde::Serialize;

use super::frames::Frame;
use super::merge_base;
use super::precompute::{EncodedVersion, Following, OldHead, Parent, encode_version};
use super::refusal::{DocumentError, Failure};
use super::version_graph::{self, Base, Plan};
use super::views::MergeConflict;
use crate::store::StoredVersion;
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Tenant;
use colloquy_model::id::VersionId;
use colloquy_model::json::bytes;
use colloquy_runtime::AskError;
use colloquy_runtime::offload::{self, ComputePermit};

/// The refusal where the merged text would be longer than `[bounds] document_bytes_max`.
const TOO_LARGE: DocumentError = DocumentError::Conflict {
    field: "source",
    reason: "merged, the versions are longer than a document may be",
};

/// The refusal where telling of the conflicts would take more than `[bounds] diff_bytes_max`.
const TOO_MANY_CONFLICTS: DocumentError = DocumentError::Conflict {
    field: "source",
    reason: "leaves more conflicts than can be told: choose a strategy, or merge smaller steps",
};

/// The state for which a merge is computed: its result holds for no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MergeBasis {
    pub(super) source: u64,
    pub(super) target: u64,
    /// The head, where comments stand on its lines that are to follow a new one.
    pub(super) anchored_at: Option<u64>,
}

/// A merge to be computed off the arbiter, with all that it needs beside the contents.
#[derive(Debug)]
pub struct MergeJob {
    pub(super) basis: MergeBasis,
    /// The comments that follow a new head, as they were.
    pub(super) following: Option<Following>,
    /// The versions as they were.
    pub(super) versions: Arc<Vec<StoredVersion>>,
    /// What the markers call the target and the source.
    pub(super) target_name: String,
    pub(super) source_name: String,
    pub(super) source_id: VersionId,
    pub(super) target_id: VersionId,
    /// Whether only its text is wanted.
    pub(super) dry_run: bool,
    pub(super) style: MergeStyle,
    pub(super) strategy: MergeStrategy,
    pub(super) resolutions: Option<Vec<(usize, Arc<str>)>>,
}

/// The result of a [`MergeJob`], and for which state it holds.
#[derive(Debug)]
pub struct ComputedMerge {
    pub(super) basis: MergeBasis,
    pub(super) outcome: MergeOutcome,
}

/// What a computed merge comes to.
#[derive(Debug)]
pub(super) enum MergeOutcome {
    /// A content, ready to be stored.
    Encoded(EncodedVersion),
    /// The answer to a dry run, in JSON.
    DryRun(Bytes),
    /// Why there is no merged text.
    Refused(DocumentError),
}

/// A version's content and the frame that holds it.
pub(super) type Held = (Arc<str>, Frame);

/// The answer to a merge that writes nothing.
#[derive(Serialize)]
struct DryRunView<'a> {
    merged: &'a str,
    conflicts: [(); 0],
}

impl MergeJob {
    /// Plans the text that the merge starts from.
    pub(super) async fn planned(&self, tenant: Tenant) -> Result<Plan, Failure> {
        let MergeBasis { source, target, .. } = self.basis;
        let versions = Arc::clone(&self.versions);
        let bytes = size_of_val(versions.as_slice());
        let planning = move || {
            let place = |number: u64| usize::try_from(number.checked_sub(1)?).ok();
            let parents = |number: u64| {
                place(number)
                    .and_then(|place| versions.get(place))
                    .map(|one| &*one.parents)
            };
            version_graph::plan(target, source, |number| parents(number).unwrap_or_default())
        };
        Ok(offload::run_linear(tenant, bytes, planning).await?)
    }

    /// The versions that are compared with each other, each once.
    pub(super) fn compared(&self, plan: &Plan) -> Vec<u64> {
        let mut numbers = vec![self.basis.target, self.basis.source];
        if let Base::Version(base) = plan.base {
            numbers.push(base);
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Computes the merge under this permit; `read` gives a version's content.
    pub(super) async fn compute<R>(
        self,
        plan: &Plan,
        permit: &ComputePermit,
        read: R,
    ) -> Result<ComputedMerge, Failure>
    where
        R: AsyncFn(u64) -> Result<Held, Failure>,
    {
        let ours = read(self.basis.target).await?;
        let theirs = read(self.basis.source).await?.0;
        let base = merge_base::compute(plan, permit.clone(), async |number| {
            Ok(read(number).await?.0)
        })
        .await?;
        let merged = permit.run_cancellable(move |abandoned| {
            let budget = StepBudget::cancelled_by(Bounds::get().comparison_steps_max, abandoned);
            let texts = Texts {
                base: &base,
                ours: &ours.0,
                theirs: &theirs,
            };
            self.merge(texts, &ours.1, &budget)
        });
        let merged = merged.await;
        merged.ok_or(AskError::Crashed)?.ok_or(AskError::Crashed)
    }

    fn merge(self, texts: Texts<'_>, frame: &Frame, budget: &StepBudget) -> Option<ComputedMerge> {
        let (ours, basis) = (texts.ours, self.basis);
        let outcome = match self.text(texts, budget) {
            Err(refusal) => MergeOutcome::Refused(refusal),
            Ok(text) if text.len() > Bounds::get().document_bytes_max => {
                MergeOutcome::Refused(TOO_LARGE)
            }
            Ok(text) if self.dry_run => MergeOutcome::DryRun(bytes(&DryRunView {
                merged: &text,
                conflicts: [],
            })),
            Ok(text) => {
                let parent = Parent {
                    number: basis.target,
                    content: ours,
                    frame,
                };
                let old_head = self.following.as_ref().map(|comments| OldHead {
                    content: ours,
                    comments,
                });
                MergeOutcome::Encoded(encode_version(&text, Some(parent), old_head, budget)?)
            }
        };
        Some(ComputedMerge { basis, outcome })
    }

    /// Merges the texts, with resolutions where they were given.
    fn text(&self, texts: Texts<'_>, budget: &StepBudget) -> Result<String, DocumentError> {
        let labels = Labels {
            ours: &self.target_name,
            base: "base",
            theirs: &self.source_name,
        };
        let conflict_bytes_max = Bounds::get().diff_bytes_max;
        let options = MergeOptions {
            style: self.style,
            strategy: self.strategy,
            labels,
            depth: 0,
            conflict_bytes_max,
        };
        let Some(given) = &self.resolutions else {
            let Merged { text, conflicts } =
                merge(texts, &options, budget).map_err(|_| TOO_MANY_CONFLICTS)?;
            return if conflicts.is_empty() {
                Ok(text)
            } else {
                Err(self.conflicted(text, conflicts))
            };
        };
        let given: Vec<(usize, &str)> = given
            .iter()
            .map(|(index, text)| (*index, &**text))
            .collect();
        let unresolved = |error: ResolveError| Invalid::new("resolutions", error.to_string());
        resolve(texts, &options, budget, &given)
            .map_err(|error| DocumentError::Invalid(unresolved(error)))
    }

    fn conflicted(&self, merged: String, conflicts: Vec<Conflict>) -> DocumentError {
        DocumentError::Merge(Box::new(MergeConflict {
            conflicts,
            merged,
            source: self.source_id,
            target: self.target_id,
            style: self.style,
        }))
    }
}

impl MergeOutcome {
    /// The answer to a dry run, which needs no commit.
    pub(super) fn dry_run(self) -> Result<Answer, Failure> {
        match self {
            MergeOutcome::DryRun(body) => Ok(Answer::ok(None, body)),
            MergeOutcome::Refused(refusal) => Err(AskError::Refused(refusal)),
            MergeOutcome::Encoded(_) => Err(AskError::impossible("to a dry run")),
        }
    }
}
