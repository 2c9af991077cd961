//! Many operations on conversations in one request. Each is what a single call would be, and is
//! answered in its place: what is wrong in one leaves the others alone.

use colloquy_actors::conversation::messages::{
    ChangeConversation, CloseConversation, ConversationView, CreateConversation, SendMessage,
};
use colloquy_actors::limiter::RateLimitStatus;
use colloquy_model::command::CommandMeta;
use colloquy_model::conversation::MessageView;
use colloquy_model::id::ConversationId;
use colloquy_model::idempotency::Reservation;
use colloquy_model::present::present;
use colloquy_model::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::Ref;
use utoipa::openapi::schema::{AnyOfBuilder, Schema};

use super::super::api_call::{ApiCall, Credential};
use super::super::body::{Body, BodySchema, Json, OptionalJson};
use super::super::idempotency::{self, PartState, Parts};
use super::super::output::{BulkOutcome, Output};
use super::super::problem::Problem;
use super::super::{admission, json, overtaken};

/// Operations in one request.
const OPERATIONS: std::ops::RangeInclusive<usize> = 1..=100;

/// Many operations at once.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkRequest {
    /// Carried out one after the other.
    #[schema(value_type = Vec<BulkOperation>, min_items = 1, max_items = 100)]
    operations: Vec<Box<RawValue>>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum BulkOp {
    /// Start a conversation.
    Create,
    /// Change one.
    Update,
    /// Close one.
    Close,
    /// Send a message.
    Message,
}

/// One of many operations.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkOperation {
    /// What is to be done.
    op: BulkOp,
    /// With which conversation; left out for `create`.
    #[serde(default)]
    #[schema(value_type = Option<ConversationId>)]
    conversation_id: Option<String>,
    /// The body of the single call.
    #[serde(default, deserialize_with = "present")]
    #[schema(schema_with = bodies)]
    body: Option<Box<RawValue>>,
}

/// What became of the operations, in their order.
#[derive(ToSchema)]
#[schema(as = BulkAnswer)]
#[expect(
    dead_code,
    reason = "the shape of what `response.rs` writes, for the document"
)]
pub(super) struct BulkAnswer {
    /// An answer for each operation.
    data: Vec<BulkResult>,
}

/// What became of one operation.
#[derive(ToSchema)]
#[expect(
    dead_code,
    reason = "the shape of what `response.rs` writes, for the document"
)]
pub(super) struct BulkResult {
    /// The status of the single call.
    #[schema(minimum = 200, maximum = 599)]
    status: u16,
    /// The body of the single call's answer.
    #[schema(schema_with = answers)]
    body: Value,
}

fn bodies() -> Schema {
    any_of(&[
        CreateConversation::name(),
        ChangeConversation::name(),
        CloseConversation::name(),
        SendMessage::name(),
    ])
}

fn answers() -> Schema {
    any_of(&[
        ConversationView::name(),
        MessageView::name(),
        "Error".into(),
    ])
}

fn any_of(names: &[std::borrow::Cow<'static, str>]) -> Schema {
    let schemas = names.iter().fold(AnyOfBuilder::new(), |any, name| {
        any.item(Ref::from_schema_name(&**name))
    });
    Schema::AnyOf(schemas.build())
}

/// The operations as they came, and as they were understood, or why not.
pub(super) struct Operations {
    came: Vec<Box<RawValue>>,
    wanted: Vec<Result<Wanted, Problem>>,
}

/// What one operation asks, and of which conversation.
#[derive(Clone)]
enum Wanted {
    Create(CreateConversation),
    Update(ConversationId, Box<ChangeConversation>),
    Close(ConversationId, CloseConversation),
    Message(ConversationId, SendMessage),
}

impl Body for Operations {
    const HANDLES_IDEMPOTENCY: bool = true;

    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let Json(request) = Json::<BulkRequest>::parse(bytes)?;
        if !OPERATIONS.contains(&request.operations.len()) {
            return Err(Problem::invalid(
                "operations",
                "must be 1 to 100 operations",
            ));
        }
        let wanted = request
            .operations
            .iter()
            .map(|operation| wanted(operation.get()))
            .collect();
        Ok(Operations {
            came: request.operations,
            wanted,
        })
    }

    fn document(schemas: &mut Vec<(String, Value)>) -> Option<BodySchema> {
        Json::<BulkRequest>::document(schemas)
    }
}

fn wanted(operation: &str) -> Result<Wanted, Problem> {
    let BulkOperation {
        op,
        conversation_id,
        body,
    } = json::parse(operation.as_bytes())?;
    let body = body.as_deref().map_or("", RawValue::get);
    // An ID that can be the ID of none is like a path that is malformed; the body is judged first.
    let named = || {
        let id = conversation_id
            .as_deref()
            .ok_or_else(|| Problem::invalid("conversation_id", "is required"))?;
        Ok::<_, Problem>(id.parse().map_err(|_| Problem::not_found()))
    };
    Ok(match op {
        BulkOp::Create if conversation_id.is_some() => {
            return Err(Problem::invalid(
                "conversation_id",
                "must be left out for create",
            ));
        }
        BulkOp::Create => Wanted::Create(read::<Json<_>>(body)?.0),
        BulkOp::Update => {
            let (id, change) = (named()?, read::<OptionalJson<_>>(body)?.0);
            Wanted::Update(id?, Box::new(change))
        }
        BulkOp::Close => {
            let (id, close) = (named()?, read::<OptionalJson<_>>(body)?.0);
            Wanted::Close(id?, close)
        }
        BulkOp::Message => {
            let (id, message) = (named()?, read::<Json<_>>(body)?.0);
            Wanted::Message(id?, message)
        }
    })
}

/// Reads a body as the single call does; what is wrong with all of it is wrong with `body` here.
fn read<B: Body>(body: &str) -> Result<B, Problem> {
    B::parse(body.as_bytes()).map_err(|problem| {
        if problem.field.is_empty() {
            problem.at("body")
        } else {
            problem
        }
    })
}

pub(super) async fn run(
    call: ApiCall,
    Operations { came, wanted }: Operations,
) -> Result<Output, Problem> {
    let (mut parts, places) = Parts::reserve(&call, &came).await?;
    let mut outcomes = Vec::with_capacity(wanted.len());
    let mut last_rate_limit = None;
    for (index, (operation, place)) in wanted.into_iter().zip(places).enumerate() {
        // The rate limit that the answer shows is that of its first operation.
        let admitted = if index == 0 {
            Ok(())
        } else {
            admit(&call, &mut last_rate_limit).await
        };
        let place = match admitted {
            Err(problem) => Err(problem),
            Ok(()) => parts.next(index, place).await,
        };
        let outcome = match place {
            Err(problem) => Err(problem),
            Ok(place) => {
                let mut place = Some(place);
                let attempt = async || {
                    let place = match place.take() {
                        Some(first) => first,
                        None => parts.reserve_anew(index).await?,
                    };
                    match place {
                        PartState::Answered(answer) => Ok(answer),
                        PartState::Pending(reservation) => {
                            let done = carry_out(&call, operation.clone(), reservation).await;
                            told(&call, parts.key(index), done).await
                        }
                    }
                };
                overtaken::decided_anew(&call.app, attempt).await
            }
        };
        if outcome.as_ref().is_err_and(Problem::is_refusal) {
            parts.refused(index);
        }
        outcomes.push(outcome);
    }
    Ok(Output::Bulk(outcomes, last_rate_limit))
}

/// Counts a request of the caller's key, if its limits let it pass.
async fn admit(call: &ApiCall, last: &mut Option<RateLimitStatus>) -> Result<(), Problem> {
    let Credential::Key(principal) = &call.credential else {
        return Ok(());
    };
    if principal.session.is_some() {
        return Ok(());
    }
    // Where the limiter does not answer, what it said last is still the best that is known.
    let mut status = None;
    let spent = admission::spend(&call.app, principal, Timestamp::now(), &mut status).await;
    *last = status.or(last.take());
    spent
}

/// An outcome as it is told under its key.
async fn told(call: &ApiCall, key: Option<String>, outcome: BulkOutcome) -> BulkOutcome {
    let (Err(problem), Some(key)) = (&outcome, key) else {
        return outcome;
    };
    let (app, tenant) = (&call.app, call.caller.tenant);
    Err(idempotency::told_under(app, tenant, Some(&key), problem.clone()).await)
}

async fn carry_out(
    call: &ApiCall,
    wanted: Result<Wanted, Problem>,
    reservation: Option<Reservation>,
) -> BulkOutcome {
    let conversations = &call.app.system.conversations;
    let meta = CommandMeta {
        reservation,
        ..call.meta()
    };
    Ok(match wanted? {
        Wanted::Create(new) => conversations.create(meta, new).await?,
        Wanted::Update(id, change) => conversations.ask(id, meta, *change).await?,
        Wanted::Close(id, close) => conversations.ask(id, meta, close).await?,
        Wanted::Message(id, message) => conversations.ask(id, meta, message).await?,
    })
}
