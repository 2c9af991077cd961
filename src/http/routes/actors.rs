//! Actors, as operators see and steer them, whatever the kind.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use colloquy_actors::audit::{AuditedAct, Target};
use colloquy_actors::supervision::messages::{ChangeSupervision, SupervisionError};
use colloquy_actors::supervision::{
    ActorKindView, ActorStateView, InstanceSort, InstanceView, InstancesWanted, Steering,
};
use colloquy_model::answer::Answer;
use colloquy_model::event_kind::EventKind;
use colloquy_runtime::SupervisedKind;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::Problem;
use super::super::query::{LIMIT_DEFAULT, NoQuery};
use super::super::{idempotency, response};

/// How many instances are shown at once at most.
const INSTANCES_MAX: u32 = 1_000;

/// All kinds of actors.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ActorKinds {
    /// One for each kind.
    data: Vec<ActorKindView>,
}

/// Actors of one kind that are in memory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ActorInstances {
    /// In the order that was asked for.
    data: Vec<InstanceView>,
}

/// Which actors of a kind are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct InstancesQuery {
    /// Only those in this state.
    #[param(inline)]
    state: Option<LiveState>,
    /// By what they are sorted, the largest or latest first. Default: `last_used`.
    #[param(inline)]
    sort: Option<InstanceSort>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// The state of an actor that is in memory.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LiveState {
    Loading,
    Ready,
    BackingOff,
    Quarantined,
}

impl InstancesQuery {
    fn wanted(&self) -> Result<InstancesWanted, Problem> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=INSTANCES_MAX).contains(&limit) {
            let reason = format!("must be an integer from 1 to {INSTANCES_MAX}");
            return Err(Problem::invalid("limit", reason));
        }
        Ok(InstancesWanted {
            state: self.state.map(|state| match state {
                LiveState::Loading => ActorStateView::Loading,
                LiveState::Ready => ActorStateView::Ready,
                LiveState::BackingOff => ActorStateView::BackingOff,
                LiveState::Quarantined => ActorStateView::Quarantined,
            }),
            sort: self.sort.unwrap_or(InstanceSort::LastUsed),
            limit,
        })
    }
}

pub(super) async fn kinds(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let data = call.app.system.supervision.figures().await;
    Ok(list(&ActorKinds { data }))
}

pub(super) async fn kind(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let kind = kind_of(&call)?;
    let figures = call.app.system.supervision.figures_of(&*kind).await;
    Ok(json(&figures))
}

pub(super) async fn instances(call: ApiCall, query: InstancesQuery) -> Result<Output, Problem> {
    let (kind, wanted) = (kind_of(&call)?, query.wanted()?);
    let supervision = &call.app.system.supervision;
    let data = supervision.instances(&*kind, wanted).await;
    Ok(list(&ActorInstances { data }))
}

pub(super) async fn instance(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let kind = kind_of(&call)?;
    let supervision = &call.app.system.supervision;
    let found = supervision.instance(&*kind, call.segment(1)).await?;
    Ok(json(&found))
}

pub(super) async fn restart(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    steer(call, Steering::Restart).await
}

pub(super) async fn passivate(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    steer(call, Steering::Passivate).await
}

pub(super) async fn release(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    steer(call, Steering::Release).await
}

pub(super) async fn crash(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    steer(call, Steering::Crash).await
}

/// Gives an actor a command, if the actor is in the state that the caller names; of several callers
/// that name the same state, one command is judged after the other is done.
async fn steer(mut call: ApiCall, steering: Steering) -> Result<Output, Problem> {
    let kind = kind_of(&call)?;
    idempotency::check_still_reserved(&mut call).await?;
    let (id, supervision) = (call.segment(1), &call.app.system.supervision);
    let found = match &call.if_match {
        None => supervision.steer(&*kind, id, steering).await?,
        Some(precondition) => {
            let _turn = supervision.turns().take(kind.kind(), id).await;
            let seen = shown(&supervision.instance(&*kind, id).await?);
            if !precondition.holds(&response::tag_of(&seen)) {
                return Err(SupervisionError::Precondition.into());
            }
            supervision.steer(&*kind, id, steering).await?
        }
    };
    done(call, found, steering).await
}

/// Refuses a drill where the settings do not allow any, before its body is read.
pub(super) fn check_drills(call: &ApiCall) -> LocalBoxFuture<'_, Result<(), Problem>> {
    let refused = || Problem::forbidden("drills are off: set [supervision] drills = true");
    let allowed = call.app.system.drills().then_some(());
    async move { allowed.ok_or_else(refused) }.boxed_local()
}

/// The answer to a command: the actor as it stands afterwards.
async fn done(
    call: ApiCall,
    instance: InstanceView,
    steering: Steering,
) -> Result<Output, Problem> {
    let (kind, id) = (call.segment(0), call.segment(1));
    let request_id = &*call.caller.actor.request_id;
    tracing::info!(
        id,
        request_id,
        operation = call.uri.path(),
        "an operator has steered an actor"
    );
    let shown = shown(&instance);
    let answer = Answer::ok(Some(response::tag_of(&shown)), shown);
    let act = AuditedAct {
        event: match steering {
            Steering::Restart => EventKind::ActorRestarted,
            Steering::Passivate => EventKind::ActorPassivated,
            Steering::Release => EventKind::ActorReleased,
            Steering::Crash => EventKind::ActorCrashed,
        },
        target: Some(Target {
            kind: "actor".to_owned(),
            id: id.to_owned(),
        }),
        details: [("kind".to_owned(), kind.into())].into_iter().collect(),
    };
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    let audit = &app.system.audit;
    let recorded = audit.done::<Infallible>(caller, act, (reservation, answer));
    Ok(recorded.await?.into())
}

/// An actor as it is shown; its tag is made of this.
fn shown(instance: &InstanceView) -> Bytes {
    Bytes::from(serde_json::to_vec(instance).unwrap_or_default())
}

pub(super) async fn settings(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(call.app.system.supervision.settings().into())
}

pub(super) async fn change_settings(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeSupervision>,
) -> Result<Output, Problem> {
    let ApiCall {
        app,
        caller,
        if_match,
        ..
    } = call;
    let supervision = &app.system.supervision;
    Ok(supervision.change(caller, if_match, change).await?.into())
}

pub(super) async fn health(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(json(&call.app.system.store_health()))
}

/// The kind that the path names.
fn kind_of(call: &ApiCall) -> Result<Arc<dyn SupervisedKind>, Problem> {
    let (named, mut kinds) = (call.segment(0), call.app.system.supervision.kinds().iter());
    kinds
        .find(|kind| kind.kind() == named)
        .cloned()
        .ok_or_else(|| Problem::no_such("no such kind of actor"))
}

/// A list as it is shown, with a weak tag.
fn list<T: Serialize>(value: &T) -> Output {
    json_text(value, CachePolicy::PrivateList)
}

fn json<T: Serialize>(value: &T) -> Output {
    json_text(value, CachePolicy::Private)
}

fn json_text<T: Serialize>(value: &T, cache: CachePolicy) -> Output {
    Output::Text(Text {
        body: Bytes::from(serde_json::to_vec(value).unwrap_or_default()),
        media_type: "application/json",
        cache,
        room: None,
    })
}
