//! Accounts, as operators see them; what they have in common with other records is in `records`.

use colloquy_actors::accounts::{
    Account, AlterAccount, ChangeAccount, CreateAccount, HostName, OpenAccount, ProveDomain,
    TxtAnswer,
};
use colloquy_model::id::{AccountId, AccountKind};

use super::super::api_call::ApiCall;
use super::super::body::{Empty, Json, OptionalJson};
use super::super::output::Output;
use super::super::problem::{Kind, Problem};
use super::records::{ask, make};

pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateAccount>,
) -> Result<Output, Problem> {
    check_own_host(&call, &new.domains)?;
    if let Some(place) = taken(&call, None, &new.domains) {
        let problem = Problem::new(Kind::Conflict, "is already taken");
        return Err(problem.at(format!("domains[{place}]")));
    }
    let number = call.app.system.next_account_number().await?;
    make::<Account, _>(call, OpenAccount { new, number }).await
}

pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeAccount>,
) -> Result<Output, Problem> {
    let id = call.id::<AccountKind>(0)?;
    let domains = change.domains.as_deref().unwrap_or_default();
    check_own_host(&call, domains)?;
    let taken = taken(&call, Some(id), domains);
    ask::<Account, _>(call, AlterAccount { change, taken }).await
}

/// Looks up the TXT record of one of the account's domains at once.
pub(super) async fn verify_domain(
    call: ApiCall,
    _: OptionalJson<Empty>,
) -> Result<Output, Problem> {
    let (id, host) = (call.id::<AccountKind>(0)?, call.segment(1).to_lowercase());
    let system = &call.app.system;
    let account = system.identity.account(id).ok_or_else(Problem::not_found)?;
    let mut domains = account.view.domains.iter();
    let domain = domains.find(|domain| domain.host == host);
    let domain = domain.ok_or_else(Problem::not_found)?;
    let found = match domain.is_proven() {
        // It stays so, whatever is found.
        true => TxtAnswer::Silence,
        false => system.domain_proofs.look_up(&domain.txt_name).await,
    };
    ask::<Account, _>(call, ProveDomain { host, found }).await
}

/// Refuses the server's own host: nobody could reach the operators' side any more.
fn check_own_host(call: &ApiCall, domains: &[HostName]) -> Result<(), Problem> {
    let own = call.app.public_url.host();
    let place = domains.iter().position(|host| host.as_str() == own);
    match place {
        None => Ok(()),
        Some(place) => Err(Problem::invalid(
            format!("domains[{place}]"),
            "must not be the server's own host",
        )),
    }
}

/// The place of a domain that another account has proven.
fn taken(call: &ApiCall, own: Option<AccountId>, domains: &[HostName]) -> Option<usize> {
    let identity = &call.app.system.identity;
    let own = own.and_then(|id| identity.account(id));
    let own = own.map(|account| account.number);
    domains.iter().position(|host| {
        let owner = identity.hosts.account_at(host.as_str());
        owner.is_some() && owner != own
    })
}
