//! A customer: somebody whom an account talks to.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use super::record::{
    CommandContext, DeleteRecord, Deletion, NewRecord, Outcome, RecordError, RecordRequest,
    RecordSpec, Secret, to_json,
};
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::commit::{Condition, Effect, NameField, RecordName};
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
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

/// A customer as it is stored.
pub type Customer = CustomerView;

impl RecordRequest<Customer> for CreateCustomer {
    type Reply = Answer;

    fn decide(
        self,
        _: &Customer,
        _: &CommandContext<Customer>,
    ) -> Result<Outcome<Customer>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(
        self,
        context: &CommandContext<Customer>,
    ) -> Result<NewRecord<Customer>, RecordError> {
        let made = context.id.created_at();
        Ok(NewRecord::new(CustomerView {
            customer_id: context.id,
            name: self.name.into_string(),
            email: self.email.map(Text::into_string),
            external_id: self.external_id.map(Text::into_string),
            metadata: self.metadata,
            created_at: made,
            updated_at: made,
        }))
    }
}

impl RecordRequest<Customer> for ChangeCustomer {
    type Reply = Answer;

    fn decide(
        self,
        held: &Customer,
        context: &CommandContext<Customer>,
    ) -> Result<Outcome<Customer>, RecordError> {
        let mut customer = held.clone();
        customer.name = self.name.map_or(customer.name, Text::into_string);
        customer.email = self
            .email
            .map_or(customer.email, |email| email.map(Text::into_string));
        customer.external_id = self
            .external_id
            .map_or(customer.external_id, |id| id.map(Text::into_string));
        if let Some(patch) = self.metadata {
            let refused = |reason| RecordError::Invalid(Invalid::new("metadata", reason));
            customer.metadata = customer.metadata.patched(patch.as_ref()).map_err(refused)?;
        }
        if customer == *held {
            return Ok(Outcome::Show);
        }
        customer.updated_at = context.now.max(held.updated_at);
        Ok(Outcome::Put(customer, Vec::new()))
    }
}

/// Takes a customer away for good, whatever conversations are left: they go next.
#[derive(Debug)]
pub struct EraseCustomer;

impl RecordRequest<Customer> for EraseCustomer {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::CustomerErased)
    }

    fn decide(
        self,
        _: &Customer,
        _: &CommandContext<Customer>,
    ) -> Result<Outcome<Customer>, RecordError> {
        Ok(Outcome::Erase)
    }
}

/// A customer is deleted who has no conversation.
impl RecordRequest<Customer> for DeleteRecord {
    type Reply = Answer;

    fn decide(
        self,
        _: &Customer,
        context: &CommandContext<Customer>,
    ) -> Result<Outcome<Customer>, RecordError> {
        Ok(Outcome::Delete(Deletion {
            conditions: vec![Condition::NoConversations(context.id)],
            ..Deletion::default()
        }))
    }
}

impl RecordSpec for Customer {
    const KIND: Kind = Kind::Customer;
    const NAME: &'static str = "customer";
    type Named = CustomerKind;

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        to_json(self)
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn names(&self) -> Vec<RecordName> {
        let email = self.email.iter().map(|email| RecordName {
            field: NameField::CustomerEmail,
            value: email.to_lowercase(),
        });
        let external = self.external_id.iter().map(|id| RecordName {
            field: NameField::CustomerExternalId,
            value: id.clone(),
        });
        email.chain(external).collect()
    }

    fn effects(&self, before: Option<&Self>, _: &CommandContext<Self>) -> Vec<Effect> {
        let renamed = before.is_some_and(|before| before.name != self.name);
        let effect = || Effect::CustomerRenamed(self.customer_id, self.name.as_str().into());
        renamed.then(effect).into_iter().collect()
    }
}
