//! Backups of the store: made by operators' request, listed, shown.

use std::convert::Infallible;

use colloquy_actors::audit::{AuditedAct, Target};
use colloquy_actors::backup::BackupError;
use colloquy_model::answer::Answer;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{BackupId, BackupKind};
use colloquy_model::json;
use colloquy_model::page::Order;
use serde_json::Map;

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::output::{CachePolicy, LinkStyle, Listing, Output, Text};
use super::super::problem::{Kind, Outcome, Problem};
use super::super::query::NoQuery;
use super::super::response;
use super::records::PlainQuery;

impl From<BackupError> for Problem {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::NoLocation | BackupError::Unsupported | BackupError::Running(_) => {
                Problem::new(Kind::Conflict, error.to_string())
            }
            BackupError::Store(error) => error.into(),
            BackupError::Storage(_) => {
                Problem::unavailable("where backups are kept does not answer", Outcome::None, 10)
                    .because("backups can't be told of", &error)
            }
        }
    }
}

pub(super) async fn create(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let backup = call.app.system.backups.begin().await?;
    tracing::info!(
        backup = %backup.backup_id,
        request_id = &*call.caller.actor.request_id,
        "an operator has a backup made"
    );
    let act = AuditedAct {
        event: EventKind::BackupBegun,
        target: Some(Target {
            kind: "backup".to_owned(),
            id: backup.backup_id.to_string(),
        }),
        details: Map::new(),
    };
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    let shown = json::bytes(&backup);
    let answer = Answer {
        etag: Some(response::tag_of(&shown)),
        ..Answer::accepted(shown)
    };
    let kept = (reservation, answer);
    let recorded = app.system.audit.done::<Infallible>(caller, act, kept);
    Ok(recorded.await?.into())
}

pub(super) async fn list(call: ApiCall, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<BackupKind>(Order::Desc)?;
    let page = call.app.system.backups.list(paging).await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn get(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let backup: BackupId = call.id(0)?;
    let found = call.app.system.backups.get(backup).await?;
    let found = found.ok_or_else(|| Problem::new(Kind::NotFound, "no such backup"))?;
    Ok(Output::Text(Text {
        body: json::bytes(&found),
        media_type: "application/json",
        cache: CachePolicy::Private,
        room: None,
    }))
}
