//! Backups of the store: made by operators' request, listed, shown.

use std::convert::Infallible;

use colloquy_actors::audit::{AuditedAct, Target};
use colloquy_actors::backup::{BackupError, BackupView};
use colloquy_model::answer::Answer;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::BackupId;
use colloquy_model::json;
use serde::Serialize;
use serde_json::Map;
use utoipa::ToSchema;

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::{Kind, Outcome, Problem};
use super::super::query::NoQuery;

/// The backups that are kept.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BackupList {
    /// The latest first.
    data: Vec<BackupView>,
}

impl From<BackupError> for Problem {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::NoLocation | BackupError::Unsupported | BackupError::Running(_) => {
                Problem::new(Kind::Conflict, error.to_string())
            }
            BackupError::Store(error) => error.into(),
            BackupError::Storage(_) => {
                tracing::warn!(%error, "backups can't be told of");
                Problem::unavailable("where backups are kept does not answer", Outcome::None, 10)
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
    let kept = (reservation, Answer::accepted(json::bytes(&backup)));
    let recorded = app.system.audit.done::<Infallible>(caller, act, kept);
    Ok(recorded.await?.into())
}

pub(super) async fn list(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let data = call.app.system.backups.list().await?;
    Ok(shown(&BackupList { data }))
}

pub(super) async fn get(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let backup: BackupId = call.id(0)?;
    let found = call.app.system.backups.get(backup).await?;
    let found = found.ok_or_else(|| Problem::new(Kind::NotFound, "no such backup"))?;
    Ok(shown(&found))
}

fn shown(view: &impl Serialize) -> Output {
    Output::Text(Text {
        body: json::bytes(view),
        media_type: "application/json",
        cache: CachePolicy::NoStore,
        room: None,
    })
}
