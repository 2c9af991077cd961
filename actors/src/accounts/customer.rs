//! A customer: somebody whom an account talks to.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use super::record::{CommandContext, Outcome, RecordError, RecordSpec, Secret, to_json};
use colloquy_model::answer::Invalid;
use colloquy_model::commit::{Condition, Effect, NameField};
use colloquy_model::entity::Kind;
use colloquy_model::id::{CustomerId, CustomerKind};
use colloquy_model::metadata::{Metadata, MetadataPatch};
use colloquy_model::present::present;
use colloquy_model::text::{CustomerName, Email, ExternalId, Text};
use colloquy_model::time::Timestamp;

/// Makes a customer.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCustomer {
    /// 1 to 200 characters.
    pub name: CustomerName,
    /// The name for people; it need not be unique.
    #[serde(default)]
    pub email: Option<Email>,
    /// The caller's own identifier; unique in the account and mode.
    #[serde(default)]
    pub external_id: Option<ExternalId>,
    /// The caller's own data.
    #[serde(default)]
    pub metadata: Metadata,
}

/// Changes a customer.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeCustomer {
    /// 1 to 200 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<CustomerName>,
    /// Null takes it away.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Email>)]
    pub email: Option<Option<Email>>,
    /// Null takes it away.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<ExternalId>)]
    pub external_id: Option<Option<ExternalId>>,
    /// A JSON merge patch (RFC 7396); null empties it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<MetadataPatch>)]
    pub metadata: Option<Option<MetadataPatch>>,
}

/// A customer as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, ToSchema)]
#[schema(as = Customer)]
pub struct CustomerView {
    /// The identifier of the customer.
    pub customer_id: CustomerId,
    /// 1 to 200 characters.
    pub name: String,
    /// The name for people; it need not be unique.
    pub email: Option<String>,
    /// The caller's own identifier.
    pub external_id: Option<String>,
    /// The caller's own data.
    #[serde(deserialize_with = "Metadata::accepted")]
    pub metadata: Metadata,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// What a customer may be asked.
#[derive(Debug)]
pub enum CustomerRequest {
    /// Create the entity.
    Create(CreateCustomer),
    /// Show the entity as it is.
    Read,
    /// Change what is given of it.
    Change(ChangeCustomer),
    /// Delete it; one that has conversations is not deleted.
    Delete,
}

/// A customer as it is stored.
pub type Customer = CustomerView;

impl RecordSpec for Customer {
    const KIND: Kind = Kind::Customer;
    const NAME: &'static str = "customer";
    type Named = CustomerKind;
    type Request = CustomerRequest;

    fn judge(
        current: Option<&Self>,
        request: CustomerRequest,
        setting: &CommandContext<Self>,
    ) -> Result<Outcome<Self>, RecordError> {
        match (current, request) {
            (None, CustomerRequest::Create(new)) => {
                let made = Timestamp(setting.id.created_ms());
                let customer = CustomerView {
                    customer_id: setting.id,
                    name: new.name.into_string(),
                    email: new.email.map(Text::into_string),
                    external_id: new.external_id.map(Text::into_string),
                    metadata: new.metadata,
                    created_at: made,
                    updated_at: made,
                };
                Ok(Outcome::Put(customer, Vec::new()))
            }
            (Some(_), CustomerRequest::Read) => Ok(Outcome::Show),
            (Some(held), CustomerRequest::Change(change)) => held.changed(change, setting),
            (Some(_), CustomerRequest::Delete) => Ok(Outcome::Delete(
                vec![Condition::NoConversations(setting.id)],
                Vec::new(),
                None,
            )),
            (None | Some(_), _) => Err(RecordError::NotFound),
        }
    }

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        to_json(self)
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn names(&self) -> Vec<(NameField, String)> {
        let email = self
            .email
            .iter()
            .map(|email| (NameField::CustomerEmail, email.to_lowercase()));
        let external = self
            .external_id
            .iter()
            .map(|id| (NameField::CustomerExternalId, id.clone()));
        email.chain(external).collect()
    }

    fn effects(&self, before: Option<&Self>, _: &CommandContext<Self>) -> Vec<Effect> {
        let renamed = before.is_some_and(|before| before.name != self.name);
        let effect = || Effect::CustomerRenamed(self.customer_id, self.name.as_str().into());
        renamed.then(effect).into_iter().collect()
    }
}

impl CustomerView {
    fn changed(
        &self,
        change: ChangeCustomer,
        setting: &CommandContext<Self>,
    ) -> Result<Outcome<Self>, RecordError> {
        let mut customer = self.clone();
        customer.name = change.name.map_or(customer.name, Text::into_string);
        customer.email = change
            .email
            .map_or(customer.email, |email| email.map(Text::into_string));
        customer.external_id = change
            .external_id
            .map_or(customer.external_id, |id| id.map(Text::into_string));
        if let Some(patch) = change.metadata {
            let refused = |reason| RecordError::Invalid(Invalid::new("metadata", reason));
            customer.metadata = customer.metadata.patched(patch.as_ref()).map_err(refused)?;
        }
        if customer == *self {
            return Ok(Outcome::Show);
        }
        customer.updated_at = Timestamp(setting.now.max(self.updated_at.0));
        Ok(Outcome::Put(customer, Vec::new()))
    }
}
