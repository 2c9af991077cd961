//! A customer: somebody whom an account talks to.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::CustomerId;
use crate::metadata::{Metadata, MetadataPatch};
use crate::present::present;
use crate::text::{CustomerName, Email, ExternalId};
use crate::time::Timestamp;

/// Makes a customer.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCustomer {
    /// 1 to 200 characters.
    pub name: CustomerName,
    /// Need not be unique.
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
    /// Names it.
    pub customer_id: CustomerId,
    /// 1 to 200 characters.
    pub name: String,
    /// Need not be unique.
    pub email: Option<String>,
    /// The caller's own identifier.
    pub external_id: Option<String>,
    /// The caller's own data.
    pub metadata: Metadata,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}
