//! A merge on its way: computed from the versions as they were when it was asked for, while the
//! document goes on, and taken only if what it was computed for still holds; otherwise it is
//! computed again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::timeout;

use super::content_reader::{self, ContentQuery, unpack};
use super::merge_job::{ComputedMerge, MergeJob};
use super::messages::{ApplyMerge, CommandMeta, DocumentError, Merge, MergeReply, PrepareMerge};
use super::refusal::{Failure, unavailable};
use super::service::Documents;
use super::state::Document;
use colloquy_model::answer::Answer;
use colloquy_model::caller::Tenant;
use colloquy_model::id::DocumentId;
use colloquy_runtime::offload::Effort;
use colloquy_runtime::{AskError, Cause, LoadError};

/// How often a merge is computed again because the document has moved on.
const RETRIES_MAX: usize = 3;
/// What was tried in less time than this is not counted, for as long as an asker waits: a document
/// that many change at once would overtake even the smallest merge three times.
const QUICK: Duration = Duration::from_millis(200);

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
