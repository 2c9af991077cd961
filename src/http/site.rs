//! At which host name a request came in: the server's own, or a domain that an account has proven. There
//! the server is that account's alone: others' credentials and links, and operators, are not known.

use std::net::IpAddr;
use std::sync::Arc;

use actix_web::HttpRequest;
use colloquy_actors::accounts::Principal;
use colloquy_model::caller::Tenant;

use super::app_state::AppState;
use super::forwarded;
use super::operation::AuthRequirement;
use super::problem::Problem;

/// A proven domain, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Domain {
    host: Arc<str>,
    account: u32,
}

/// The host name at which a request came in, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Site {
    /// None at the server's own host, and at any other that is no account's domain.
    domain: Option<Domain>,
}

impl Site {
    /// Where a request came in. Where no account has a domain, nothing is looked at.
    pub(crate) fn of(app: &AppState, request: &HttpRequest) -> Self {
        let hosts = &app.system.identity.hosts;
        if hosts.are_none() {
            return Site::default();
        }
        let asked = forwarded::host(&app.proxies, request);
        Site::named(app, asked.as_deref())
    }

    /// Where a request came in that asked this host.
    pub(super) fn named(app: &AppState, asked: Option<&str>) -> Self {
        let Some(asked) = asked else {
            return Site::default();
        };
        let host = name_of(asked);
        // Whatever an account has proven, operators find their own side where they look for it.
        if host == app.public_url.host() || host.parse::<IpAddr>().is_ok() {
            return Site::default();
        }
        let hosts = &app.system.identity.hosts;
        let domain = hosts.account_at(&host).map(|account| Domain {
            host: host.into(),
            account,
        });
        Site { domain }
    }

    /// The domain, where it is one.
    pub(crate) fn domain(&self) -> Option<&str> {
        self.domain.as_ref().map(|domain| &*domain.host)
    }

    /// The number of the account whose domain it is.
    pub(super) fn account(&self) -> Option<u32> {
        self.domain.as_ref().map(|domain| domain.account)
    }

    /// The tenant, in both modes, of the account whose domain it is.
    pub(crate) fn account_wide(&self) -> Option<Tenant> {
        self.account().map(Tenant::account)
    }

    /// Whether what is this tenant's account's is found here.
    pub(crate) fn serves(&self, tenant: Tenant) -> bool {
        let number = tenant.account_number();
        self.account().is_none_or(|account| account == number)
    }

    /// Refuses what is only found at the server's own host.
    ///
    /// # Errors
    /// 404.
    pub(super) fn check_operation(&self, auth: AuthRequirement) -> Result<(), Problem> {
        match auth {
            AuthRequirement::Operator | AuthRequirement::Metrics if self.domain.is_some() => {
                Err(Problem::no_such("no such path at this host"))
            }
            AuthRequirement::Operator
            | AuthRequirement::Metrics
            | AuthRequirement::Public
            | AuthRequirement::OAuthClient
            | AuthRequirement::ShareLink
            | AuthRequirement::Key(_)
            | AuthRequirement::KeyOrTicket(_) => Ok(()),
        }
    }

    /// Refuses the credential of another account than the one whose domain it is.
    ///
    /// # Errors
    /// 404.
    pub(super) fn check_credential(&self, principal: &Principal) -> Result<(), Problem> {
        match self.serves(principal.tenant()) {
            true => Ok(()),
            false => Err(Problem::no_such(
                "the host is another account's: call the server's own, or a domain of yours",
            )),
        }
    }

    /// The address of the server under the host that was asked: who issues tokens there, and what
    /// signatures cover.
    pub(crate) fn address(&self, app: &AppState) -> String {
        match &self.domain {
            Some(domain) => app.public_url.at(&domain.host),
            None => app.public_url.as_str().to_owned(),
        }
    }

    /// What links of a tenant's account begin with: the domain at which they are asked for, else the
    /// account's first one, else the server's own address.
    pub(super) fn links_of(&self, app: &AppState, tenant: Tenant) -> String {
        if self.domain.is_some() {
            return self.address(app);
        }
        let hosts = &app.system.identity.hosts;
        match hosts.first_of(tenant.account_number()) {
            Some(domain) => app.public_url.at(&domain),
            None => app.public_url.as_str().to_owned(),
        }
    }
}

/// The name in what stands in `Host`: without port, in small letters.
fn name_of(host: &str) -> String {
    let name = match host.rfind(']') {
        Some(bracket) => host.get(..=bracket).unwrap_or(host),
        None => host.split(':').next().unwrap_or(host),
    };
    // The dot at the end of a name that is complete makes it no other name.
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_host_has_no_port_and_no_case() {
        for (host, name) in [
            ("chat.shop.example", "chat.shop.example"),
            ("Chat.Shop.Example:8443", "chat.shop.example"),
            ("chat.shop.example.", "chat.shop.example"),
            ("chat.shop.example.:80", "chat.shop.example"),
            ("[::1]:80", "[::1]"),
        ] {
            assert_eq!(name_of(host), name);
        }
    }
}
