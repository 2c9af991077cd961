//! Actors, as operators see and steer them, whatever the kind.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use colloquy_actors::supervision::messages::{ChangeSupervision, SupervisionError};
use colloquy_actors::supervision::{ActorKindView, ActorStateView, InstanceView};
use colloquy_model::answer::Answer;
use colloquy_runtime::{Found, Instance, InstanceOrder, InstanceQuery, SupervisedKind};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::Problem;
use super::super::query::{LIMIT_DEFAULT, NoQuery};
use super::super::response;

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
    sort: Option<Sort>,
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

/// By what actors are sorted.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    Mailbox,
    Bytes,
    Restarts,
    LastUsed,
}

impl InstancesQuery {
    fn wanted(&self) -> Result<InstanceQuery, Problem> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=INSTANCES_MAX).contains(&limit) {
            let reason = format!("must be an integer from 1 to {INSTANCES_MAX}");
            return Err(Problem::invalid("limit", reason));
        }
        let state = self.state.map(|state| match state {
            LiveState::Loading => ActorStateView::Loading,
            LiveState::Ready => ActorStateView::Ready,
            LiveState::BackingOff => ActorStateView::BackingOff,
            LiveState::Quarantined => ActorStateView::Quarantined,
        });
        Ok(InstanceQuery {
            state: state.map(Into::into),
            order: match self.sort.unwrap_or(Sort::LastUsed) {
                Sort::Mailbox => InstanceOrder::Mailbox,
                Sort::Bytes => InstanceOrder::Bytes,
                Sort::Restarts => InstanceOrder::Restarts,
                Sort::LastUsed => InstanceOrder::LastUsed,
            },
            limit: limit as usize,
        })
    }
}

pub(super) async fn kinds(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let kinds = call.app.system.supervision.kinds().iter();
    let data = kinds.map(|kind| kind.overview().into()).collect();
    Ok(list(&ActorKinds { data }))
}

pub(super) async fn kind(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let kind = kind_of(&call)?;
    Ok(json(&ActorKindView::from(kind.overview())))
}

pub(super) async fn instances(call: ApiCall, query: InstancesQuery) -> Result<Output, Problem> {
    let kind = kind_of(&call)?;
    let found = kind.instances(query.wanted()?).into_iter();
    let data = found.map(InstanceView::of).collect();
    Ok(list(&ActorInstances { data }))
}

pub(super) async fn instance(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let kind = kind_of(&call)?;
    let found = kind.instance(call.segment(1)).await?;
    Ok(json(&InstanceView::of(found)))
}

pub(super) async fn restart(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    steer(call, |kind, id| kind.restart(id)).await
}

pub(super) async fn passivate(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    steer(call, |kind, id| kind.passivate(id)).await
}

pub(super) async fn release(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    steer(call, |kind, id| kind.release(id)).await
}

pub(super) async fn crash(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    steer(call, |kind, id| kind.crash(id)).await
}

/// Gives an actor a command, if the actor is in the state that the caller names; of several callers
/// that name the same state, one command is judged after the other is done.
async fn steer(
    call: ApiCall,
    command: for<'k> fn(&'k dyn SupervisedKind, &'k str) -> Found<'k>,
) -> Result<Output, Problem> {
    let kind = kind_of(&call)?;
    let id = call.segment(1);
    let found = match &call.if_match {
        None => command(&*kind, id).await?,
        Some(precondition) => {
            let supervision = &call.app.system.supervision;
            let _turn = supervision.turns().take(kind.kind(), id).await;
            let seen = shown(kind.instance(id).await?);
            if !precondition.holds(&response::tag_of(&seen)) {
                return Err(SupervisionError::Precondition.into());
            }
            command(&*kind, id).await?
        }
    };
    done(call, found).await
}

/// Refuses a drill where the settings do not allow any, before its body is read.
pub(super) fn check_drills(call: &ApiCall) -> LocalBoxFuture<'_, Result<(), Problem>> {
    let refused = || Problem::forbidden("drills are off: set [supervision] drills = true");
    let allowed = call.app.system.drills().then_some(());
    async move { allowed.ok_or_else(refused) }.boxed_local()
}

/// The answer to a command: the actor as it stands afterwards.
async fn done(call: ApiCall, instance: Instance) -> Result<Output, Problem> {
    let id = &instance.id;
    let request_id = &*call.caller.actor.request_id;
    tracing::info!(
        id,
        request_id,
        operation = call.request.path(),
        "an operator has steered an actor"
    );
    let shown = shown(instance);
    let answer = Answer::ok(Some(response::tag_of(&shown)), shown);
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    let supervision = &app.system.supervision;
    let kept = supervision.keep_answer::<Infallible>(caller, reservation, answer);
    Ok(kept.await?.into())
}

/// An actor as it is shown; its tag is made of this.
fn shown(instance: Instance) -> Bytes {
    Bytes::from(serde_json::to_vec(&InstanceView::of(instance)).unwrap_or_default())
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
