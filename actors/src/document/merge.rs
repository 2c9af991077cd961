//! A merge on its way: computed from the versions as they were when it was asked for, while the
//! document goes on, and taken only if what it was computed for still holds; otherwise it is
//! computed again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use colloquy_merge::{
    Conflict, Labels, MergeOptions, MergeStrategy, MergeStyle, Merged, ResolveError, StepBudget,
    Texts, merge, resolve,
};
use serde::Serialize;
use tokio::time::timeout;

use super::content_reader::{self, ContentQuery, unpack};
use super::frames::Frame;
use super::merge_base;
use super::messages::{ApplyMerge, CommandMeta, DocumentError, Merge, MergeReply, PrepareMerge};
use super::precompute::{EncodedVersion, Following, OldHead, Parent, encode_version};
use super::service::{Documents, Failure, unavailable};
use super::state::{Document, to_json};
use super::version_graph::{self, Base, Plan};
use super::views::MergeConflict;
use crate::store::StoredVersion;
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Tenant;
use colloquy_model::id::{DocumentId, VersionId};
use colloquy_runtime::offload::{self, ComputePermit, Effort};
use colloquy_runtime::{AskError, Cause, LoadError};

/// How often a merge is computed again because the document has moved on.
const RETRIES_MAX: usize = 3;
/// What was tried in less time than this is not counted, for as long as an asker waits: a document
/// that many change at once would overtake even the smallest merge three times.
const QUICK: Duration = Duration::from_millis(200);

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
type Held = (Arc<str>, Frame);

/// The answer to a merge that writes nothing.
#[derive(Serialize)]
struct DryRunView<'a> {
    merged: &'a str,
    conflicts: [(); 0],
}

impl Documents {
    /// Merges. Where the document moves on meanwhile it is computed again, from where the document
    /// is then; an identifier as the target names one version, and is refused when that is no tip
    /// any more.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked. Nothing was done where computing it failed or
    /// took too long.
    pub async fn merge(
        &self,
        id: DocumentId,
        mut meta: CommandMeta,
        merge: Merge,
    ) -> Result<Answer, Failure> {
        let merge = Arc::new(merge);
        let (asked, mut attempts) = (Instant::now(), 0);
        while attempts <= RETRIES_MAX {
            let began = Instant::now();
            let prepare = PrepareMerge {
                merge: Arc::clone(&merge),
            };
            let job = self.ask(id, meta.without_reservation(), prepare).await?;
            let computed = match job {
                Some(job) => Some(self.computed(id, meta.caller.tenant, *job).await?),
                None => None,
            };
            let computed = match computed {
                // Nothing is written, so the document need not be asked again; but what a key was
                // answered is kept.
                Some(computed) if merge.dry_run && meta.reservation.is_none() => {
                    return computed.outcome.dry_run();
                }
                other => other.map(Box::new),
            };
            let apply = ApplyMerge {
                merge: Arc::clone(&merge),
                computed,
            };
            let this = CommandMeta {
                reservation: meta.reservation.take(),
                ..meta.without_reservation()
            };
            match self.ask(id, this, apply).await? {
                MergeReply::Done(answer) => return Ok(answer),
                MergeReply::Stale(reservation) => {
                    meta.reservation = reservation;
                    let is_counted = began.elapsed() > QUICK
                        || asked.elapsed() > self.directory.policy().ask_timeout;
                    attempts += usize::from(is_counted);
                }
            }
        }
        Err(unavailable(Cause::Conflict))
    }

    async fn computed(
        &self,
        id: DocumentId,
        tenant: Tenant,
        job: MergeJob,
    ) -> Result<ComputedMerge, Failure> {
        let in_time = timeout(
            self.directory.policy().ask_timeout,
            self.compute(id, tenant, job),
        )
        .await;
        in_time.unwrap_or(Err(unavailable(Cause::TimedOut)))
    }

    async fn compute(
        &self,
        id: DocumentId,
        tenant: Tenant,
        job: MergeJob,
    ) -> Result<ComputedMerge, Failure> {
        let plan = job.planned(tenant).await?;
        let wanted = ContentQuery {
            document: Document::subject(id),
            tenant,
            effort: Effort::Comparison,
            extra_bytes: 0,
        };
        let numbers = job.compared(&plan);
        let (found, permit) = content_reader::read(&self.store, wanted, &numbers).await?;
        let held: Vec<(u64, Vec<Bytes>)> = numbers
            .into_iter()
            .zip(found.into_iter().map(|one| one.frames))
            .collect();
        let store = Arc::clone(&self.store);
        // A plan may have hundreds of merges, of texts of a few bytes.
        let computing = permit.run_async(move |permit| async move {
            let read = async |number: u64| {
                let frames = match held.iter().find(|(known, _)| *known == number) {
                    Some((_, frames)) => frames.clone(),
                    None => {
                        let found = store
                            .version(tenant, wanted.document, number)
                            .await
                            .map_err(LoadError::from)?;
                        found
                            .ok_or(AskError::Refused(DocumentError::NotFound))?
                            .frames
                    }
                };
                let unpacked = permit.run(move || {
                    unpack(&frames, wanted.document, number)
                        .map(|(content, frame)| (Arc::from(content), frame))
                });
                unpacked
                    .await
                    .ok_or(AskError::Crashed)?
                    .ok_or(AskError::Unreadable)
            };
            job.compute(&plan, &permit, read).await
        });
        computing.await.ok_or(AskError::Crashed)?
    }
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
    fn compared(&self, plan: &Plan) -> Vec<u64> {
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
            Ok(text) if self.dry_run => MergeOutcome::DryRun(to_json(&DryRunView {
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
