//! A webhook endpoint as its owner sees it: where deliveries go, which events, and the secrets that
//! sign them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::webhook_filter::{EventKindName, EventKindNames, WebhookFilter, accepted};
use crate::accounts::Identity;
use crate::accounts::record::{
    CommandContext, DeleteRecord, Deletion, NewRecord, Outcome, RecordError, RecordRequest,
    RecordSpec, Secret, to_json,
};
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Condition, Effect};
use colloquy_model::endpoint::{Endpoint, SigningSecret, Wants};
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{WebhookId, WebhookKind};
use colloquy_model::present::present;
use colloquy_model::text::{Description, Text, WebhookUrl};
use colloquy_model::time::{Timestamp, unix_ms};

/// Makes an endpoint.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWebhook {
    /// Where deliveries go: `https`, and no special-purpose address. A server whose settings allow
    /// private targets takes `http` and such addresses too.
    pub url: WebhookUrl,
    /// Which kinds of events; default `["*"]`: all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub events: Option<EventKindNames>,
    /// Which of these events; null: all.
    #[serde(default)]
    pub filter: Option<WebhookFilter>,
    /// A name for people to read; nothing depends on it.
    #[serde(default)]
    pub description: Option<Description>,
    /// Whether it gets events; default true.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
}

/// Changes an endpoint.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeWebhook {
    /// Where deliveries go: `https`, and no special-purpose address. A server whose settings allow
    /// private targets takes `http` and such addresses too.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub url: Option<WebhookUrl>,
    /// Which kinds of events; `["*"]`: all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub events: Option<EventKindNames>,
    /// Which of these events, in place of the filter before; null: all.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<WebhookFilter>)]
    pub filter: Option<Option<WebhookFilter>>,
    /// For people; null takes it away.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Description>)]
    pub description: Option<Option<Description>>,
    /// Whether it gets events. What waits for an endpoint that is disabled is given up.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
}

/// Gives an endpoint a new secret.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateSecret {
    /// How long the old secret signs too; default 86,400, 0: not at all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, maximum = 31_536_000)]
    pub overlap_seconds: Option<u32>,
}

/// Tries an endpoint out.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestWebhook {
    /// Of which kind the sample is; default `conversation.created`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub event: Option<EventKindName>,
}

/// Why the server disabled an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DisabledReason {
    /// It answered 410.
    Gone,
    /// For days it has only failed.
    Failing,
}

/// A webhook endpoint as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookView {
    /// The identifier of the webhook endpoint.
    pub webhook_id: WebhookId,
    /// Where deliveries go.
    pub url: String,
    /// Which kinds of events; `["*"]`: all.
    pub events: EventKindNames,
    /// Which of these events; null: all.
    #[serde(deserialize_with = "accepted")]
    pub filter: Option<WebhookFilter>,
    /// A name for people to read; nothing depends on it.
    pub description: Option<String>,
    /// Whether it gets events.
    pub enabled: bool,
    /// Why the server disabled it; null where it did not.
    pub disabled_reason: Option<DisabledReason>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// The secret that signs deliveries: shown once, where it was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub secret: Option<Option<String>>,
}

/// Disables an endpoint because of how its receiver answers; one that is disabled already is left as
/// it is. Asked by the server itself.
#[derive(Debug)]
pub struct DisableWebhook {
    /// What the receiver did to be disabled.
    pub reason: DisabledReason,
}

/// Keeps what a test of an endpoint came to, as the answer to the request for it.
#[derive(Debug)]
pub(super) struct KeepTestResult {
    /// The attempt, as the answer shows it.
    pub(super) attempt: Bytes,
}

/// An endpoint as it is stored. Its rows hold the view alone; both read back as this.
#[derive(Clone, Serialize, Deserialize, PartialEq)]
pub struct Webhook {
    #[serde(flatten)]
    view: WebhookView,
    /// Newest first; the first signs until it is replaced.
    #[serde(default)]
    secrets: Vec<StoredSecret>,
}

#[derive(Clone, Serialize, Deserialize, PartialEq)]
struct StoredSecret {
    #[serde(with = "crate::sealing::webhook_secret")]
    secret: String,
    #[serde(with = "unix_ms::option", default)]
    until: Option<Timestamp>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

const OVERLAP_SECONDS: u32 = 86_400;
const OVERLAP_SECONDS_MAX: u32 = 31_536_000;

impl Webhook {
    /// The endpoint as deliveries see it, with its secrets.
    pub(super) fn endpoint(&self, id: WebhookId, tenant: Tenant) -> Endpoint {
        let view = &self.view;
        let filter = view.filter.clone().unwrap_or_default();
        Endpoint {
            id,
            tenant,
            url: view.url.clone(),
            wants: Wants {
                kinds: view.events.kinds().to_vec(),
                channels: filter.channels(),
                priorities: filter.priorities(),
                documents: filter.documents().map(|id| id.number()).collect(),
            },
            enabled: view.enabled,
            secrets: self
                .secrets
                .iter()
                .map(|held| SigningSecret {
                    text: held.secret.clone(),
                    ends_at: held.until,
                })
                .collect(),
        }
    }

    fn new_secret(&mut self) -> String {
        let secret = super::signature::new_secret();
        self.secrets.insert(
            0,
            StoredSecret {
                secret: secret.clone(),
                until: None,
            },
        );
        secret
    }

    fn touched(&mut self, now: Timestamp) {
        self.view.updated_at = now.max(self.view.updated_at);
    }
}

/// What must hold of a filter that a request names: each of its documents exists.
fn documents_exist(filter: Option<&WebhookFilter>) -> Vec<Condition> {
    filter
        .into_iter()
        .flat_map(WebhookFilter::documents)
        .map(Condition::DocumentExists)
        .collect()
}

impl RecordRequest<Webhook> for CreateWebhook {
    type Reply = Answer;

    fn decide(
        self,
        _: &Webhook,
        _: &CommandContext<Webhook>,
    ) -> Result<Outcome<Webhook>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(
        self,
        context: &CommandContext<Webhook>,
    ) -> Result<NewRecord<Webhook>, RecordError> {
        let made = context.id.created_at();
        let view = WebhookView {
            webhook_id: context.id,
            url: self.url.into_string(),
            events: self.events.unwrap_or_default(),
            filter: self.filter.filter(|filter| !filter.is_empty()),
            description: self.description.map(Text::into_string),
            enabled: self.enabled.unwrap_or(true),
            disabled_reason: None,
            created_at: made,
            updated_at: made,
            secret: None,
        };
        let mut webhook = Webhook {
            view,
            secrets: Vec::new(),
        };
        let secret = Some(webhook.new_secret());
        let room = Condition::FewerThan(Kind::Webhook, Bounds::get().webhook_endpoints_max);
        let mut conditions = documents_exist(webhook.view.filter.as_ref());
        conditions.push(room);
        Ok(NewRecord {
            state: webhook,
            conditions,
            secret,
            chore: None,
        })
    }
}

impl RecordRequest<Webhook> for ChangeWebhook {
    type Reply = Answer;

    fn decide(
        self,
        held: &Webhook,
        context: &CommandContext<Webhook>,
    ) -> Result<Outcome<Webhook>, RecordError> {
        let mut webhook = held.clone();
        let view = &mut webhook.view;
        let conditions = documents_exist(self.filter.iter().flatten().next());
        if let Some(url) = self.url {
            view.url = url.into_string();
        }
        if let Some(events) = self.events {
            view.events = events;
        }
        if let Some(filter) = self.filter {
            view.filter = filter.filter(|filter| !filter.is_empty());
        }
        if let Some(description) = self.description {
            view.description = description.map(Text::into_string);
        }
        if let Some(enabled) = self.enabled {
            view.enabled = enabled;
            view.disabled_reason = view.disabled_reason.filter(|_| !enabled);
        }
        if webhook == *held {
            return Ok(Outcome::Show);
        }
        webhook.touched(context.now);
        Ok(Outcome::Put(webhook, conditions))
    }
}

impl RecordRequest<Webhook> for RotateSecret {
    type Reply = Answer;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::WebhookSecretRotated)
    }

    /// The old secret signs too for the overlap; every earlier one ends now.
    fn decide(
        self,
        held: &Webhook,
        context: &CommandContext<Webhook>,
    ) -> Result<Outcome<Webhook>, RecordError> {
        let overlap = self.overlap_seconds.unwrap_or(OVERLAP_SECONDS);
        if overlap > OVERLAP_SECONDS_MAX {
            return Err(RecordError::Invalid(Invalid::new(
                "overlap_seconds",
                "must be 0 to 31536000",
            )));
        }
        let mut webhook = held.clone();
        webhook.secrets.truncate(if overlap == 0 { 0 } else { 1 });
        for old in &mut webhook.secrets {
            old.until = Some(context.now + Duration::from_secs(overlap.into()));
        }
        let secret = webhook.new_secret();
        webhook.touched(context.now);
        Ok(Outcome::PutSecret(webhook, Vec::new(), secret))
    }
}

impl RecordRequest<Webhook> for DisableWebhook {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::WebhookDisabled)
    }

    fn decide(
        self,
        held: &Webhook,
        context: &CommandContext<Webhook>,
    ) -> Result<Outcome<Webhook>, RecordError> {
        if !held.view.enabled {
            return Ok(Outcome::Show);
        }
        let mut webhook = held.clone();
        webhook.view.enabled = false;
        webhook.view.disabled_reason = Some(self.reason);
        webhook.touched(context.now);
        Ok(Outcome::Put(webhook, Vec::new()))
    }
}

impl RecordRequest<Webhook> for KeepTestResult {
    type Reply = Answer;

    fn decide(
        self,
        _: &Webhook,
        _: &CommandContext<Webhook>,
    ) -> Result<Outcome<Webhook>, RecordError> {
        Ok(Outcome::ShowBody(self.attempt))
    }
}

/// What waits for an endpoint that is deleted is given up.
impl RecordRequest<Webhook> for DeleteRecord {
    type Reply = Answer;

    fn decide(
        self,
        _: &Webhook,
        context: &CommandContext<Webhook>,
    ) -> Result<Outcome<Webhook>, RecordError> {
        Ok(Outcome::Delete(Deletion {
            effects: vec![Effect::EndpointGone(context.id)],
            ..Deletion::default()
        }))
    }
}

impl RecordSpec for Webhook {
    const KIND: Kind = Kind::Webhook;
    const NAME: &'static str = "webhook";
    type Named = WebhookKind;

    fn show(&self, _: &Identity, secret: Secret<'_>) -> Bytes {
        let mut view = self.view.clone();
        view.secret = match secret {
            Secret::Hidden => None,
            Secret::Withheld => Some(None),
            Secret::Shown(secret) => Some(Some(secret.to_owned())),
        };
        to_json(&view)
    }

    fn label(&self) -> &str {
        &self.view.url
    }

    fn effects(&self, _: Option<&Self>, context: &CommandContext<Self>) -> Vec<Effect> {
        vec![Effect::Endpoint(Arc::new(
            self.endpoint(context.id, context.tenant),
        ))]
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
