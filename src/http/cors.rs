//! Which pages of other origins may call: off unless config.toml, or the account that is asked, says
//! otherwise.

use std::sync::Arc;

use actix_web::HttpResponseBuilder;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use colloquy_actors::accounts::Hosts;
use colloquy_model::caller::{CredentialId, Tenant};
use colloquy_model::origin::ANY;

use super::dispatch::RequestContext;

/// Which of a browser's requests across origins is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CorsRequest {
    /// OPTIONS, which asks what may be sent.
    Preflight,
    /// The request itself, which the browser makes after it was allowed to.
    Actual,
}

/// Whose pages may read an answer.
pub(super) enum AllowedOrigins<'h> {
    /// Those of config.toml.
    Configured,
    /// Those of the account that is asked.
    Account(Arc<[String]>),
    /// Those of config.toml, and those of all accounts: nobody knows yet whose account it is, and what
    /// is answered is nobody's.
    AnyAccount(&'h Hosts),
}

impl<'h> AllowedOrigins<'h> {
    /// Whose pages may read the answer to a request: the account is known by its credential, else by
    /// the domain that was asked. A preflight has no credential.
    pub(super) fn of(context: &'h RequestContext) -> Self {
        let hosts = &context.app.system.identity.hosts;
        if !hosts.have_origins() {
            return AllowedOrigins::Configured;
        }
        let known = context.known.as_ref();
        let of_caller = known
            .map(|caller| caller.tenant)
            .filter(|tenant| *tenant != Tenant::OPERATORS)
            .map(Tenant::account_number);
        let is_operator = known
            .is_some_and(|caller| matches!(caller.actor.credential, CredentialId::Operator(_)));
        match of_caller.or(context.site.account()) {
            Some(account) => hosts
                .origins_of(account)
                .map_or(AllowedOrigins::Configured, AllowedOrigins::Account),
            None if is_operator || is_for_operators(context.request.uri().path()) => {
                AllowedOrigins::Configured
            }
            None => AllowedOrigins::AnyAccount(hosts),
        }
    }
}

/// Whether no account has a say in who may call there.
fn is_for_operators(path: &str) -> bool {
    path.starts_with("/admin/") || path == "/metrics"
}

/// The settings, ready to be sent.
pub(crate) struct Cors {
    origins: Vec<HeaderValue>,
    all: bool,
    methods: HeaderValue,
    headers: HeaderValue,
    exposed: HeaderValue,
    max_age: HeaderValue,
}

impl Cors {
    pub(super) fn new(settings: &crate::config::Cors) -> Self {
        let joined = |list: &[String]| {
            HeaderValue::from_str(&list.join(", ")).unwrap_or(HeaderValue::from_static(""))
        };
        Cors {
            origins: settings
                .allowed_origins
                .iter()
                .filter_map(|origin| HeaderValue::from_str(origin).ok())
                .collect(),
            all: settings.allowed_origins.iter().any(|origin| origin == ANY),
            methods: joined(&settings.allowed_methods),
            headers: joined(&settings.allowed_headers),
            exposed: joined(&settings.exposed_headers),
            max_age: HeaderValue::from(settings.max_age_seconds),
        }
    }

    /// Adds what the caller's page must see.
    pub(super) fn add(
        &self,
        request: &HeaderMap,
        response: &mut HttpResponseBuilder,
        (kind, allowed): (CorsRequest, &AllowedOrigins<'_>),
    ) {
        let allows_all = match allowed {
            AllowedOrigins::Configured if self.origins.is_empty() => return,
            AllowedOrigins::Configured | AllowedOrigins::AnyAccount(_) => self.all,
            AllowedOrigins::Account(origins) => origins.iter().any(|origin| origin == ANY),
        };
        if !allows_all {
            response.append_header((VARY, HeaderValue::from_static("Origin")));
        }
        let Some(origin) = request
            .get(ORIGIN)
            .filter(|origin| allows_all || self.allows(allowed, origin))
        else {
            return;
        };
        let shown = if allows_all {
            HeaderValue::from_static(ANY)
        } else {
            origin.clone()
        };
        response.insert_header((ACCESS_CONTROL_ALLOW_ORIGIN, shown));
        match kind {
            CorsRequest::Preflight => {
                response.insert_header((ACCESS_CONTROL_ALLOW_METHODS, self.methods.clone()));
                response.insert_header((ACCESS_CONTROL_ALLOW_HEADERS, self.headers.clone()));
                response.insert_header((ACCESS_CONTROL_MAX_AGE, self.max_age.clone()));
            }
            CorsRequest::Actual => {
                response.insert_header((ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed.clone()));
            }
        }
    }

    fn allows(&self, allowed: &AllowedOrigins<'_>, origin: &HeaderValue) -> bool {
        let text = origin.to_str().unwrap_or_default();
        match allowed {
            AllowedOrigins::Configured => self.origins.contains(origin),
            AllowedOrigins::Account(origins) => origins.iter().any(|one| one == text),
            AllowedOrigins::AnyAccount(hosts) => {
                self.origins.contains(origin) || hosts.any_allows(text)
            }
        }
    }
}
