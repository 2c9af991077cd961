//! The nodes that serve one store, as operators see and drain them.

use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use colloquy_actors::audit::{AuditedAct, Target};
use colloquy_model::answer::Answer;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::NodeId;
use colloquy_model::node::{Node, NodeState};
use colloquy_model::time::Timestamp;
use serde::Serialize;
use serde_json::Map;
use utoipa::ToSchema;

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::{Kind, Problem};
use super::super::query::NoQuery;

/// The nodes of the store that were heard of in the last hour.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NodeList {
    /// By the time of their start.
    data: Vec<NodeView>,
}

/// A process that serves the store.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NodeView {
    /// Its identifier, made anew at each start.
    #[schema(value_type = String)]
    node: NodeId,
    /// The address that it is bound to, with its port.
    address: String,
    /// The region that it runs in, `[server] region`; empty where that names none.
    region: String,
    /// The version of the program.
    version: String,
    /// When the process was started, by its own clock.
    started_at: Timestamp,
    /// `draining`: it still serves, but its readiness says that it is to be taken out. `gone`: it
    /// has ended, or was not heard of for longer than its lease.
    #[schema(value_type = String)]
    state: NodeWord,
    /// When it counts as gone unless it is heard of again; `null` on the embedded store.
    lease_until: Option<Timestamp>,
    /// How many actors of each kind it has in memory.
    live: BTreeMap<String, u64>,
}

/// What a node is doing.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum NodeWord {
    Live,
    Draining,
    Gone,
}

impl From<Node> for NodeView {
    fn from(node: Node) -> Self {
        NodeView {
            node: node.id,
            address: node.address,
            region: node.region,
            version: node.version,
            started_at: node.started_at,
            state: match node.state {
                NodeState::Live => NodeWord::Live,
                NodeState::Draining => NodeWord::Draining,
                NodeState::Gone => NodeWord::Gone,
            },
            lease_until: node.lease_until,
            live: node.live,
        }
    }
}

pub(super) async fn list(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let found = call.app.system.nodes.list().await?;
    let data = found.into_iter().map(NodeView::from).collect();
    let body = serde_json::to_vec(&NodeList { data }).unwrap_or_default();
    Ok(Output::Text(Text {
        body: body.into(),
        media_type: "application/json",
        cache: CachePolicy::NoStore,
        room: None,
    }))
}

pub(super) async fn drain(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let node: NodeId = call.id(0)?;
    let nodes = &call.app.system.nodes;
    if !nodes.drain(node).await? {
        return Err(Problem::new(Kind::NotFound, "no such node"));
    }
    tracing::info!(
        %node,
        request_id = &*call.caller.actor.request_id,
        "an operator has asked a node to drain"
    );
    let found = nodes.list().await?;
    let drained = found.into_iter().find(|found| found.id == node);
    let view = drained
        .map(NodeView::from)
        .ok_or_else(|| Problem::new(Kind::NotFound, "the node has gone meanwhile"))?;
    let body = Bytes::from(serde_json::to_vec(&view).unwrap_or_default());
    let act = AuditedAct {
        event: EventKind::NodeDrained,
        target: Some(Target {
            kind: "node".to_owned(),
            id: node.to_string(),
        }),
        details: Map::new(),
    };
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    let kept = (reservation, Answer::accepted(body));
    let recorded = app.system.audit.done::<Infallible>(caller, act, kept);
    Ok(recorded.await?.into())
}
