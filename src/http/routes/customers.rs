//! The list of customers, which can be filtered; the rest of their routes is in `records`.

use colloquy_actors::accounts::{Customer, Filter};
use colloquy_model::page::Order;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::api_call::ApiCall;
use super::super::output::Output;
use super::super::problem::Problem;
use super::super::query::Part;
use super::records::list_filtered;

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
