//! What the routes of accounts, keys, users, customers and webhook endpoints have in common: each
//! call becomes one message to the record's actor, lists go to the store's readers.

use colloquy_actors::accounts::record::{DeleteRecord, ReadRecord, RecordRequest, RecordSpec};
use colloquy_actors::accounts::{Account, Client, Customer, Erasure, Filter, Key, Records, User};
use colloquy_actors::system::System;
use colloquy_actors::webhook::Webhook;
use colloquy_model::answer::Answer;
use colloquy_model::caller::Tenant;
use colloquy_model::id::{AccountKind, Id, KeyId};
use colloquy_model::page::Order;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::api_call::{ApiCall, CommandCall};
use super::super::body::{Json, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::{NoQuery, Part};

/// A kind of record that the interface has as a resource, with routes of its own.
pub(super) trait RecordResource: RecordSpec {
    /// The records of the kind, to be asked and listed.
    fn records(system: &System) -> &Records<Self>;

    /// The tenant whose records a call lists, and to whom a new one belongs.
    ///
    /// # Errors
    /// The path names no such tenant.
    fn tenant(call: &ApiCall) -> Result<Tenant, Problem> {
        Ok(call.caller.tenant)
    }

    /// The tenant in whose name a call reaches the record with this identifier.
    ///
    /// # Errors
    /// There is no such record.
    fn tenant_of(call: &ApiCall, _id: Id<Self::Named>) -> Result<Tenant, Problem> {
        Self::tenant(call)
    }
}

impl RecordResource for Account {
    fn records(system: &System) -> &Records<Self> {
        &system.accounts
    }
}

/// Each key belongs to an account, whose tenant the operators' requests carry.
impl RecordResource for Key {
    fn records(system: &System) -> &Records<Self> {
        &system.keys
    }

    fn tenant(call: &ApiCall) -> Result<Tenant, Problem> {
        let account = call.app.system.identity.account(call.id::<AccountKind>(0)?);
        account
            .map(|account| Tenant::account(account.number))
            .ok_or_else(Problem::not_found)
    }

    fn tenant_of(call: &ApiCall, id: KeyId) -> Result<Tenant, Problem> {
        let account = call.app.system.identity.account_of_key(id);
        account.map(Tenant::account).ok_or_else(Problem::not_found)
    }
}

/// Users belong to an account in both modes.
impl RecordResource for User {
    fn records(system: &System) -> &Records<Self> {
        &system.users
    }

    fn tenant(call: &ApiCall) -> Result<Tenant, Problem> {
        Ok(call.account_wide())
    }
}

impl RecordResource for Customer {
    fn records(system: &System) -> &Records<Self> {
        &system.customers
    }
}

impl RecordResource for Erasure {
    fn records(system: &System) -> &Records<Self> {
        &system.erasures.records
    }
}

impl RecordResource for Client {
    fn records(system: &System) -> &Records<Self> {
        &system.clients
    }
}

impl RecordResource for Webhook {
    fn records(system: &System) -> &Records<Self> {
        &system.webhooks
    }
}

/// What a plain list may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainQuery {
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub(super) offset: Option<u64>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    pub(super) order: Option<Order>,
}

impl PlainQuery {
    /// The part of the list that the query asks for.
    pub(super) fn part(&self) -> Part<'static> {
        Part {
            limit: self.limit,
            offset: self.offset,
            order: self.order,
            ..Part::default()
        }
    }
}

/// Makes a record of the body.
pub(super) async fn create<R, Q>(call: ApiCall, Json(new): Json<Q>) -> Result<Output, Problem>
where
    R: RecordResource,
    Q: RecordRequest<R, Reply = Answer>,
{
    make::<R, Q>(call, new).await
}

/// Makes a record of a request, under a new identifier.
pub(super) async fn make<R, Q>(call: ApiCall, request: Q) -> Result<Output, Problem>
where
    R: RecordResource,
    Q: RecordRequest<R, Reply = Answer>,
{
    let (tenant, id) = (R::tenant(&call)?, Id::new(call.now));
    send::<R, Q>(call, tenant, id, request).await
}

/// Lists a page of the records.
pub(super) async fn list<R: RecordResource>(
    call: ApiCall,
    query: PlainQuery,
) -> Result<Output, Problem> {
    list_filtered::<R>(call, query.part(), Filter::default()).await
}

/// Lists a page of the records that pass a filter.
pub(super) async fn list_filtered<R: RecordResource>(
    call: ApiCall,
    part: Part<'_>,
    filter: Filter,
) -> Result<Output, Problem> {
    let paging = part.paging::<R::Named>(Order::Desc)?;
    let tenant = R::tenant(&call)?;
    let records = R::records(&call.app.system);
    Ok(Output::Page(Listing {
        page: records.list(tenant, filter, paging).await?,
        paging,
        style: LinkStyle::Plain,
    }))
}

/// Shows the record in the path.
pub(super) async fn read<R: RecordResource>(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    ask::<R, _>(call, ReadRecord).await
}

/// Changes the record in the path as the body, which may be left out, says.
pub(super) async fn change<R, Q>(
    call: ApiCall,
    OptionalJson(change): OptionalJson<Q>,
) -> Result<Output, Problem>
where
    R: RecordResource,
    Q: RecordRequest<R, Reply = Answer>,
{
    ask::<R, Q>(call, change).await
}

/// Deletes the record in the path.
pub(super) async fn remove<R>(call: ApiCall) -> Result<Output, Problem>
where
    R: RecordResource,
    DeleteRecord: RecordRequest<R, Reply = Answer>,
{
    ask::<R, _>(call, DeleteRecord).await
}

/// Sends a request to the record in the path, and shows its answer.
pub(super) async fn ask<R, Q>(call: ApiCall, request: Q) -> Result<Output, Problem>
where
    R: RecordResource,
    Q: RecordRequest<R, Reply = Answer>,
{
    let id = call.id::<R::Named>(0)?;
    let tenant = R::tenant_of(&call, id)?;
    send::<R, Q>(call, tenant, id, request).await
}

async fn send<R, Q>(
    call: ApiCall,
    tenant: Tenant,
    id: Id<R::Named>,
    request: Q,
) -> Result<Output, Problem>
where
    R: RecordResource,
    Q: RecordRequest<R, Reply = Answer>,
{
    let CommandCall { app, mut meta } = call.into_command();
    meta.caller.tenant = tenant;
    let records = R::records(&app.system);
    Ok(records.ask(id, meta, request).await?.into())
}
