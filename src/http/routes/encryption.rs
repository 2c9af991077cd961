//! Under which master key the store is, and how operators put another one in its place.

use std::convert::Infallible;

use colloquy_actors::audit::{AuditedAct, Target};
use colloquy_actors::key_rotation::RotationError;
use colloquy_model::answer::Answer;
use colloquy_model::event_kind::EventKind;
use colloquy_model::json;
use serde::Serialize;
use serde_json::Map;

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::{Kind, Outcome, Problem};
use super::super::query::NoQuery;

pub(super) async fn show(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(shown(&call.app.system.key_rotation().view().await?))
}

pub(super) async fn rotate(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let rotated = call.app.system.key_rotation().rotate().await;
    let rotated = rotated.map_err(|error| match error {
        // The write may have been made; once more does no harm.
        RotationError::Store(_) => {
            Problem::unavailable("the store does not answer", Outcome::Unknown, 1)
        }
        RotationError::Contended => Problem::unavailable(
            "other nodes rotate the master key at the same time",
            Outcome::None,
            1,
        ),
        RotationError::MasterKey(error) => Problem::new(Kind::Conflict, error.to_string()),
    })?;
    if !rotated.is_change() {
        return Ok(shown(&rotated));
    }
    tracing::info!(
        was = rotated.was,
        master_key = rotated.master_key,
        request_id = &*call.caller.actor.request_id,
        "an operator has put another master key in the place of the one before"
    );
    let mut details = Map::new();
    details.insert("was".to_owned(), rotated.was.as_str().into());
    let act = AuditedAct {
        event: EventKind::MasterKeyRotated,
        target: Some(Target {
            kind: "master_key".to_owned(),
            id: rotated.master_key.clone(),
        }),
        details,
    };
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    let kept = (reservation, Answer::ok(None, json::bytes(&rotated)));
    let recorded = app.system.audit.done::<Infallible>(caller, act, kept);
    Ok(recorded.await?.into())
}

fn shown(view: &impl Serialize) -> Output {
    Output::Text(Text {
        body: json::bytes(view),
        media_type: "application/json",
        cache: CachePolicy::NoStore,
        room: None,
    })
}
