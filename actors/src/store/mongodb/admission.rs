//! Which documents of a round may be inserted: those whose conditions outside their entities hold,
//! judged when nothing that other nodes write at the same time can change that.

use mongodb::error::Error;

use super::conditions;
use super::intents::{Admitted, Announced};
use super::work::Insert;
use super::writer::Writer;
use colloquy_model::commit::ConstraintViolation;
use colloquy_model::position::Position;
use colloquy_runtime::CommitFailure;

impl Writer {
    /// Those that have a chance; the others are told. None where the server does not answer. What
    /// names a record is refused here, before it takes a position, if that can be.
    pub(super) async fn judged(&mut self, inserts: Vec<Insert>) -> Option<Vec<Insert>> {
        let mut left = Vec::with_capacity(inserts.len());
        let mut waiting = inserts.into_iter();
        while let Some(insert) = waiting.next() {
            match conditions::refused_early(&self.collections, &insert).await {
                Ok(None) => left.push(insert),
                Ok(Some(failure)) => self.tell(insert, failure).await,
                Err(error) => {
                    left.push(insert);
                    left.extend(waiting);
                    self.fail(left, &error);
                    return None;
                }
            }
        }
        Some(left)
    }

    /// Those that may be inserted at the positions at which they stand; the others are told, and
    /// their positions taken.
    pub(super) async fn admitted(&mut self, inserts: Vec<Insert>) -> Admitted {
        let announced = Announced::of(&inserts);
        if announced.is_empty() {
            return Admitted { inserts, announced };
        }
        let violations = match self.violations(&announced, &inserts).await {
            Ok(violations) => violations,
            Err(error) => {
                self.take_positions(positions_of(&inserts));
                self.fail(inserts, &error);
                return Admitted {
                    inserts: Vec::new(),
                    announced,
                };
            }
        };
        let mut admitted = Vec::with_capacity(inserts.len());
        for (insert, violation) in inserts.into_iter().zip(violations) {
            if let Some(violation) = violation {
                self.take_positions(insert.document.all_positions().collect());
                self.tell(insert, CommitFailure::Violated(violation)).await;
            } else {
                admitted.push(insert);
            }
        }
        Admitted {
            inserts: admitted,
            announced,
        }
    }

    /// What each of them violates.
    async fn violations(
        &self,
        announced: &Announced,
        inserts: &[Insert],
    ) -> Result<Vec<Option<ConstraintViolation>>, Error> {
        announced.settle(&self.collections).await?;
        let mut violations = Vec::with_capacity(inserts.len());
        for insert in inserts {
            violations.push(if announced.names(&insert.document) {
                conditions::violated(&self.collections, insert).await?
            } else {
                None
            });
        }
        Ok(violations)
    }

    /// Tells what becomes of a document that is not inserted. A request that another node has
    /// answered gets that answer, whatever stands in its way since. What was violated says nothing of
    /// what its actor submits next.
    async fn tell(&mut self, insert: Insert, failure: CommitFailure<ConstraintViolation>) {
        if !matches!(failure, CommitFailure::Violated(_)) {
            return self.refuse(insert, failure);
        }
        match self.answer_of(&insert.document).await {
            Ok(Some(position)) => return self.answered_elsewhere(insert, position),
            Ok(None) => {}
            Err(error) => return self.fail(vec![insert], &error),
        }
        for pending in insert.commits {
            self.finished(1);
            (pending.settle)(Err(failure));
        }
    }
}

fn positions_of(inserts: &[Insert]) -> Vec<Position> {
    let positions = inserts.iter().map(|insert| insert.document.all_positions());
    positions.flatten().collect()
}
