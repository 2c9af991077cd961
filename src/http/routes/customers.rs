//! The list of customers, which can be filtered, and how they are deleted or erased; the rest of their
//! routes is in `records`.

use colloquy_actors::accounts::{Customer, Filter};
use colloquy_model::id::CustomerKind;
use colloquy_model::key::Permission;
use colloquy_model::page::Order;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::api_call::{ApiCall, CommandCall};
use super::super::authentication::{Needs, check_also};
use super::super::operation::Verb;
use super::super::output::Output;
use super::super::problem::Problem;
use super::super::query::Part;
use super::records::{self, list_filtered};

/// What a list of customers may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those with this e-mail address.
    email: Option<String>,
    /// The one with this identifier of the caller's own.
    external_id: Option<String>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    order: Option<Order>,
}

pub(super) async fn list(call: ApiCall, query: ListQuery) -> Result<Output, Problem> {
    let part = Part {
        limit: query.limit,
        offset: query.offset,
        order: query.order,
        ..Part::default()
    };
    let filter = Filter {
        email: query.email,
        external_id: query.external_id,
    };
    list_filtered::<Customer>(call, part, filter).await
}

/// How a customer is deleted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteQuery {
    /// Whether all conversations go with the customer, for good, and with all that was said in them.
    /// Default: false.
    erase: Option<bool>,
}

/// What erases people.
const ERASES: Needs = Needs {
    permissions: &[Permission::UsersManage],
    verb: Verb::Delete,
};

pub(super) async fn remove(call: ApiCall, query: DeleteQuery) -> Result<Output, Problem> {
    if !query.erase.unwrap_or(false) {
        return records::remove::<Customer>(call).await;
    }
    check_also(&call, ERASES)?;
    let customer = call.id::<CustomerKind>(0)?;
    let CommandCall { app, meta } = call.into_command();
    Ok(app.system.erasures.erase(meta, customer).await?.into())
}
