//! Trying an endpoint out: a sample event, sent at once, outside order and log.

use tokio::time::Instant;

use super::attempt::attempt_of;
use super::courier::{Courier, OutboundRequest};
use super::record::{KeepTestResult, Webhook};
use super::restore::restore_endpoint;
use super::sample_event::sample;
use super::signature::{Signing, headers};
use super::webhook_filter::EventKindName;
use crate::accounts::Records;
use crate::accounts::record::{ReadRecord, RecordError, to_json};
use crate::store::Stored;
use colloquy_model::answer::Answer;
use colloquy_model::attempt::Attempt;
use colloquy_model::command::CommandMeta;
use colloquy_model::damage::Unreadable;
use colloquy_model::endpoint::Endpoint;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::WebhookId;
use colloquy_model::time::Timestamp;
use colloquy_runtime::AskError;

type Tried<T> = Result<T, AskError<RecordError>>;

impl Records<Webhook> {
    /// Sends a sample of an event, also to an endpoint that is disabled, and tells what came of
    /// it. Under a key that answer is kept, so that a repeat sends nothing. The caller sees to it
    /// that this runs to its end.
    ///
    /// # Errors
    /// There is no such endpoint, or it could not be asked.
    pub async fn try_out(
        &self,
        id: WebhookId,
        meta: CommandMeta,
        event: EventKindName,
        courier: &dyn Courier,
    ) -> Tried<Answer> {
        // Nothing is sent for somebody whose endpoint it is not.
        let reader = CommandMeta::new(meta.caller.clone());
        self.ask(id, reader, ReadRecord).await?;
        let endpoint = self.endpoint(id).await?;
        let attempt = to_json(&attempt(&endpoint, event.0, courier).await);
        if meta.reservation.is_none() {
            return Ok(Answer::ok(None, attempt));
        }
        match self.ask(id, meta, KeepTestResult { attempt }).await {
            // It was sent; only the answer is not kept.
            Err(AskError::Unavailable { .. }) => Err(AskError::Unknown),
            kept => kept,
        }
    }

    async fn endpoint(&self, id: WebhookId) -> Tried<Endpoint> {
        let subject = Subject {
            kind: Kind::Webhook,
            number: id.number(),
            tail: id.tail(),
        };
        match self.store.load(subject).await? {
            Some(Stored::Record(record)) => {
                let endpoint = restore_endpoint(record.body.as_bytes(), id, record.tenant);
                endpoint.map_err(|error| Unreadable::found(id, error).into())
            }
            Some(Stored::Conversation(_) | Stored::Document(_)) | None => {
                Err(AskError::Refused(RecordError::NotFound))
            }
        }
    }
}

async fn attempt(endpoint: &Endpoint, event: EventKind, courier: &dyn Courier) -> Attempt {
    let sent_at = Timestamp::now();
    let event = sample(event, endpoint.tenant, sent_at);
    let body = event.body();
    let signing = Signing {
        secrets: &endpoint.secrets,
        event: event.id(),
        body: &body,
        now: sent_at,
        attempt: 1,
    };
    let account = endpoint.tenant.account_number();
    let request = OutboundRequest {
        account,
        url: endpoint.url.clone(),
        headers: headers(signing),
        body: body.clone(),
    };
    let started = Instant::now();
    let came = courier.post(request).await;
    attempt_of(sent_at, started.elapsed(), came)
}
