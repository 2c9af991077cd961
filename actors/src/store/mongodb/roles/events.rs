//! What happened.

use std::sync::Arc;

use super::super::{MongoStore, events, following, loads};
use crate::store::{EventLog, EventPage, EventQuery, FeedRow, Later, ReadError};
use colloquy_model::event::Event;
use colloquy_model::event_source::EventSource;
use colloquy_model::position::Position;

/// Events are read from the log itself, so nothing that is carried over is waited for.
impl EventLog for MongoStore {
    fn events(&self, query: EventQuery) -> Later<Result<Option<EventPage>, ReadError>> {
        let (collections, membership) = (self.collections.clone(), Arc::clone(&self.membership));
        if let EventSource::Entity(subject) = query.source {
            return self.read(self.in_turn(query.tenant, async move {
                // An entity's sequences have no gaps: what is there is there for good, and its
                // actor may have shown it while a position of another entity was missing before
                // it. Lists must not show less of it behind this.
                let all = Position(i64::MAX);
                let page = events::page(&collections, query, all).await?;
                loads::wait_for_header(&collections, subject.kind, subject.number).await?;
                Ok(page)
            }));
        }
        self.read(self.in_turn(query.tenant, async move {
            let decided = following::decided(&collections, &membership).await?;
            events::page(&collections, query, decided).await
        }))
    }

    fn happened_behind(
        &self,
        position: Position,
        limit: u32,
    ) -> Later<Result<Vec<FeedRow>, ReadError>> {
        let (collections, membership) = (self.collections.clone(), Arc::clone(&self.membership));
        self.read(async move {
            // Whoever asks was told how far it is followed: on the thread that tells it, so that
            // this is no less.
            let decided = membership.followed();
            events::behind(&collections, position, limit, decided).await
        })
    }

    fn event_at(&self, position: Position) -> Later<Result<Option<Arc<Event>>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { events::at(&collections, position).await })
    }

    fn request_at(&self, position: Position) -> Later<Result<Option<String>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { events::request_at(&collections, position).await })
    }

    fn catch_up(&self) -> Later<Result<(), ReadError>> {
        let (collections, membership) = (self.collections.clone(), Arc::clone(&self.membership));
        self.read(async move { following::catch_up(&collections, &membership).await })
    }
}
