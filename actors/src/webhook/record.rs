//! A webhook endpoint as its owner sees it: where deliveries go, which events, and the secrets that
//! sign them.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::webhook_filter::{EventKindName, EventKindNames, WebhookFilter, accepted};
use crate::accounts::Identity;
use crate::accounts::record::{CommandContext, Outcome, RecordError, RecordSpec, Secret, to_json};
use colloquy_model::answer::Invalid;
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Condition, Effect};
use colloquy_model::endpoint::{Endpoint, Wants};
use colloquy_model::entity::Kind;
use colloquy_model::id::{WebhookId, WebhookKind};
use colloquy_model::present::present;
use colloquy_model::text::{Description, Text, WebhookUrl};
use colloquy_model::time::Timestamp;

/// Makes an endpoint.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWebhook {
    /// Where deliveries go: `https`, and no special-purpose address.
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
    /// Where deliveries go: `https`, and no special-purpose address.
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

/// What an endpoint may be asked.
#[derive(Debug)]
pub enum WebhookRequest {
    /// Create the entity.
    Create(CreateWebhook),
    /// Show the entity as it is.
    Read,
    /// Change what is given of it.
    Change(ChangeWebhook),
    /// Give it a new secret.
    RotateSecret(RotateSecret),
    /// Disable it because of how its receiver answers; one that is disabled already is left as it
    /// is.
    Disable(DisabledReason),
    /// Answer with this, and keep it: what a test of it came to.
    Tested(Bytes),
    /// Delete it.
    Delete,
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
    secret: String,
    until: Option<i64>,
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
    /// As deliveries see it.
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
                documents: filter.documents(),
            },
            enabled: view.enabled,
            secrets: self
                .secrets
                .iter()
                .map(|held| (held.secret.clone(), held.until))
                .collect(),
        }
    }

    fn create(new: CreateWebhook, setting: &CommandContext<Self>) -> Outcome<Self> {
        let made = Timestamp(setting.id.created_ms());
        let view = WebhookView {
            webhook_id: setting.id,
            url: new.url.into_string(),
            events: new.events.unwrap_or_default(),
            filter: new.filter.filter(|filter| !filter.is_empty()),
            description: new.description.map(Text::into_string),
            enabled: new.enabled.unwrap_or(true),
            disabled_reason: None,
            created_at: made,
            updated_at: made,
            secret: None,
        };
        let mut webhook = Webhook {
            view,
            secrets: Vec::new(),
        };
        let secret = webhook.new_secret();
        let room = Condition::FewerThan(Kind::Webhook, Bounds::get().webhook_endpoints_max);
        Outcome::PutSecret(webhook, vec![room], secret)
    }

    fn change(&self, change: ChangeWebhook, now: i64) -> Outcome<Self> {
        let mut webhook = self.clone();
        let view = &mut webhook.view;
        if let Some(url) = change.url {
            view.url = url.into_string();
        }
        if let Some(events) = change.events {
            view.events = events;
        }
        if let Some(filter) = change.filter {
            view.filter = filter.filter(|filter| !filter.is_empty());
        }
        if let Some(description) = change.description {
            view.description = description.map(Text::into_string);
        }
        if let Some(enabled) = change.enabled {
            view.enabled = enabled;
            view.disabled_reason = view.disabled_reason.filter(|_| !enabled);
        }
        if webhook == *self {
            return Outcome::Show;
        }
        webhook.touched(now);
        Outcome::Put(webhook, Vec::new())
    }

    /// The old secret signs too for the overlap; every earlier one ends now.
    fn rotate(&self, rotate: &RotateSecret, now: i64) -> Result<Outcome<Self>, RecordError> {
        let overlap = rotate.overlap_seconds.unwrap_or(OVERLAP_SECONDS);
        if overlap > OVERLAP_SECONDS_MAX {
            return Err(RecordError::Invalid(Invalid::new(
                "overlap_seconds",
                "must be 0 to 31536000",
            )));
        }
        let mut webhook = self.clone();
        webhook.secrets.truncate(if overlap == 0 { 0 } else { 1 });
        for old in &mut webhook.secrets {
            old.until = Some(now.saturating_add(i64::from(overlap) * 1000));
        }
        let secret = webhook.new_secret();
        webhook.touched(now);
        Ok(Outcome::PutSecret(webhook, Vec::new(), secret))
    }

    fn disable(&self, reason: DisabledReason, now: i64) -> Outcome<Self> {
        if !self.view.enabled {
            return Outcome::Show;
        }
        let mut webhook = self.clone();
        webhook.view.enabled = false;
        webhook.view.disabled_reason = Some(reason);
        webhook.touched(now);
        Outcome::Put(webhook, Vec::new())
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

    fn touched(&mut self, now: i64) {
        self.view.updated_at = Timestamp(now.max(self.view.updated_at.0));
    }
}

impl RecordSpec for Webhook {
    const KIND: Kind = Kind::Webhook;
    const NAME: &'static str = "webhook";
    type Named = WebhookKind;
    type Request = WebhookRequest;

    fn judge(
        current: Option<&Self>,
        request: WebhookRequest,
        setting: &CommandContext<Self>,
    ) -> Result<Outcome<Self>, RecordError> {
        match (current, request) {
            (None, WebhookRequest::Create(new)) => Ok(Webhook::create(new, setting)),
            (Some(_), WebhookRequest::Read) => Ok(Outcome::Show),
            (Some(held), WebhookRequest::Change(change)) => Ok(held.change(change, setting.now)),
            (Some(held), WebhookRequest::RotateSecret(rotate)) => held.rotate(&rotate, setting.now),
            (Some(held), WebhookRequest::Disable(reason)) => Ok(held.disable(reason, setting.now)),
            (Some(_), WebhookRequest::Tested(attempt)) => Ok(Outcome::ShowBody(attempt)),
            (Some(_), WebhookRequest::Delete) => Ok(Outcome::Delete(
                Vec::new(),
                vec![Effect::EndpointGone(setting.id)],
                None,
            )),
            (None | Some(_), _) => Err(RecordError::NotFound),
        }
    }

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

    fn effects(&self, _: Option<&Self>, setting: &CommandContext<Self>) -> Vec<Effect> {
        vec![Effect::Endpoint(Arc::new(
            self.endpoint(setting.id, setting.tenant),
        ))]
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
