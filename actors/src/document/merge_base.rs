//! Makes the text that a merge starts from, where its sides went apart from several versions at
//! once. Reads contents as they are needed, merges off the arbiters, and stops where its caller
//! leaves.

use std::sync::Arc;

use colloquy_merge::{Labels, MergeOptions, MergeStrategy, MergeStyle, StepBudget, Texts, merge};

use super::refusal::Failure;
use super::version_graph::{Base, BaseMerge, Plan};
use colloquy_model::bounds::Bounds;
use colloquy_runtime::AskError;
use colloquy_runtime::offload::ComputePermit;

/// How git calls the sides of such a merge; what a conflict's `base` shows.
const LABELS: Labels<'static> = Labels {
    ours: "Temporary merge branch 1",
    base: "base",
    theirs: "Temporary merge branch 2",
};
/// How many times as large as a document a text may be that only merges see; a larger one is taken
/// as empty.
const DOCUMENTS_MAX: usize = 2;

/// A text of the plan, for as long as something needs it.
struct BaseText {
    text: Arc<str>,
    uses: usize,
}

/// The texts that were made so far, in the plan's order.
struct BaseMerger<R> {
    made: Vec<BaseText>,
    permit: ComputePermit,
    read: R,
}

/// Computes the text that a plan ends in, under this permit; `read` gives the content of a version.
///
/// # Errors
/// A content can't be read, or the computation crashed.
pub(super) async fn compute<R>(
    plan: &Plan,
    permit: ComputePermit,
    read: R,
) -> Result<Arc<str>, Failure>
where
    R: AsyncFn(u64) -> Result<Arc<str>, Failure>,
{
    let uses = |place: usize| {
        let of = |base: Base| usize::from(base == Base::Merged(place));
        let inside: usize = plan
            .merges
            .iter()
            .map(|merge| of(merge.base) + of(merge.ours))
            .sum();
        inside + of(plan.base)
    };
    let mut merger = BaseMerger {
        made: Vec::with_capacity(plan.merges.len()),
        permit,
        read,
    };
    for (place, planned) in plan.merges.iter().enumerate() {
        let text = merger.merged(*planned).await?;
        merger.made.push(BaseText {
            text,
            uses: uses(place),
        });
    }
    merger.text(plan.base).await
}

impl<R: AsyncFn(u64) -> Result<Arc<str>, Failure>> BaseMerger<R> {
    async fn merged(&mut self, planned: BaseMerge) -> Result<Arc<str>, Failure> {
        let base = self.text(planned.base).await?;
        let ours = self.text(planned.ours).await?;
        let theirs = self.text(Base::Version(planned.theirs)).await?;
        let work = move |abandoned| {
            let bytes_max = Bounds::get()
                .document_bytes_max
                .saturating_mul(DOCUMENTS_MAX);
            // In one style, whatever the outer merge's: how conflicts are shown does not decide
            // which there are.
            let options = MergeOptions {
                style: MergeStyle::Merge,
                strategy: MergeStrategy::Fail,
                labels: LABELS,
                depth: planned.depth,
                conflict_bytes_max: bytes_max,
            };
            let budget = StepBudget::cancelled_by(Bounds::get().comparison_steps_max, abandoned);
            let texts = Texts {
                base: &base,
                ours: &ours,
                theirs: &theirs,
            };
            let merged = merge(texts, &options, &budget).ok();
            merged
                .map(|merged| merged.text)
                .filter(|text| text.len() <= bytes_max)
                .map_or_else(Arc::default, Arc::from)
        };
        self.permit
            .run_cancellable(work)
            .await
            .ok_or(AskError::Crashed)
    }

    async fn text(&mut self, base: Base) -> Result<Arc<str>, Failure> {
        let place = match base {
            Base::Empty => return Ok(Arc::default()),
            Base::Version(number) => return (self.read)(number).await,
            Base::Merged(place) => place,
        };
        let made = self
            .made
            .get_mut(place)
            .ok_or_else(|| AskError::impossible("a base that was not made"))?;
        made.uses = made.uses.saturating_sub(1);
        Ok(if made.uses == 0 {
            std::mem::take(&mut made.text)
        } else {
            Arc::clone(&made.text)
        })
    }
}

#[cfg(test)]
#[path = "merge_base_tests.rs"]
mod tests;
