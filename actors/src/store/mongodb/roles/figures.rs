//! Figures: counted by the node that leads, read by all.

use std::sync::Arc;

use super::super::{MongoStore, figure_generations, figures};
use crate::store::{
    FigureQuery, FigureSlice, FigureStore, FigureTable, Generation, Generations, Later, Made,
    MadeCell, MadeQuery, ReadError,
};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::figures::Milestones;

impl FigureStore for MongoStore {
    fn begin_counting(&self) -> Later<Result<Generations, ReadError>> {
        let collections = self.collections.clone();
        let membership = Arc::clone(&self.membership);
        self.read(async move {
            membership.lead().await;
            figure_generations::begin(&collections).await
        })
    }

    fn generations(&self) -> Later<Result<Generations, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { figure_generations::generations(&collections).await })
    }

    fn count(&self, slice: Box<FigureSlice>) -> Later<Result<bool, ReadError>> {
        let collections = self.collections.clone();
        let membership = Arc::clone(&self.membership);
        self.read(async move {
            if !membership.leads() {
                return Ok(false);
            }
            figure_generations::count(&collections, &slice).await
        })
    }

    fn milestones(
        &self,
        generation: Generation,
        conversations: Vec<EntityNumber>,
    ) -> Later<Result<Vec<(EntityNumber, Milestones)>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { figures::milestones(&collections, generation, conversations).await })
    }

    fn figures(&self, query: FigureQuery) -> Later<Result<FigureTable, ReadError>> {
        let collections = self.collections.clone();
        self.read(self.in_turn(query.tenant, async move {
            figures::figures(&collections, query).await
        }))
    }

    fn made(&self, query: MadeQuery) -> Later<Result<Vec<(MadeCell, Made)>, ReadError>> {
        let collections = self.collections.clone();
        self.read(self.in_turn(query.tenant, async move {
            figures::made(&collections, query).await
        }))
    }

    fn begin_rebuild(&self) -> Later<Result<bool, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { figure_generations::begin_rebuild(&collections).await })
    }

    fn end_rebuild(&self) -> Later<Result<bool, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { figure_generations::end_rebuild(&collections).await })
    }
}
