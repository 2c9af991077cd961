//! A request as its handler receives it: who calls, on which path, under which conditions.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::header::AUTHORIZATION;
use actix_web::http::{Method, Uri};
use colloquy_actors::accounts::Principal;
use colloquy_model::answer::Precondition;
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::conversation_access::ConversationAccess;
use colloquy_model::id::{Id, Prefix, UserId};
use colloquy_model::idempotency::{Fingerprint, Reservation};
use colloquy_model::time::Timestamp;

use super::app_state::AppState;
use super::body::Upload;
use super::budget::BudgetOwner;
use super::connection_data::ConnectionData;
use super::csv::ListFormat;
use super::idle::InUse;
use super::problem::Problem;
use super::router::PathParameters;
use super::site::Site;

/// The credential that a request came with, already verified.
#[derive(Debug, Clone)]
pub(crate) enum Credential {
    /// None; the operation needs none.
    None,
    /// An API key, with what its account and its permissions are.
    Key(Principal),
    /// A ticket for a WebSocket, made with this key and for this user.
    Ticket(Principal, Option<UserId>),
    /// The operators' token, which opens their part of the interface alone.
    Operator,
}

impl Credential {
    /// The user for whom it acts by itself.
    pub(crate) fn user(&self) -> Option<UserId> {
        match self {
            Credential::None | Credential::Operator => None,
            Credential::Key(principal) => principal.key.view.user_id,
            Credential::Ticket(_, user) => *user,
        }
    }
}

/// What a call is to the entity that its request goes to.
pub(crate) struct CommandCall {
    pub(crate) app: Arc<AppState>,
    /// Who asks, and under which conditions.
    pub(crate) meta: CommandMeta,
}

/// One request, checked as far as its handler needs not look any more.
pub(crate) struct ApiCall {
    pub(crate) app: Arc<AppState>,
    /// The request over HTTP that it came with: its headers, and its connection.
    pub(crate) request: HttpRequest,
    pub(crate) method: Method,
    /// Path and query of what is asked.
    pub(crate) uri: Uri,
    pub(crate) parameters: PathParameters,
    pub(crate) credential: Credential,
    /// At which host name it came in.
    pub(crate) site: Site,
    /// Who pays for the memory that its answer holds.
    pub(crate) owner: Option<BudgetOwner>,
    pub(crate) caller: Caller,
    /// Which conversations it may read and write.
    pub(crate) access: ConversationAccess,
    pub(crate) if_match: Option<Precondition>,
    pub(crate) idempotency_key: Option<String>,
    /// What the request is, where it has an idempotency key.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) reservation: Option<Reservation>,
    /// The body, where it is a file.
    pub(crate) upload: Option<Upload>,
    /// How a list is to be written; none: as its `Accept` says.
    pub(crate) list_format: Option<ListFormat>,
    /// Whether its answer shows a document.
    pub(crate) whole: bool,
    /// The wall clock when it came.
    pub(crate) now: Timestamp,
}

impl ApiCall {
    /// Whether it is asked in this process, for a page.
    pub(super) fn is_for_page(&self) -> bool {
        self.list_format.is_some()
    }

    /// The same once more, for a request that is decided anew.
    pub(crate) fn again(&self) -> Self {
        ApiCall {
            app: Arc::clone(&self.app),
            request: self.request.clone(),
            method: self.method.clone(),
            uri: self.uri.clone(),
            parameters: self.parameters.clone(),
            credential: self.credential.clone(),
            site: self.site.clone(),
            owner: self.owner,
            caller: self.caller.clone(),
            access: self.access,
            if_match: self.if_match.clone(),
            idempotency_key: self.idempotency_key.clone(),
            fingerprint: self.fingerprint,
            reservation: None,
            upload: None,
            list_format: self.list_format,
            whole: self.whole,
            now: self.now,
        }
    }

    /// The identifier at this place of the path, counted from 0. One that is malformed is of
    /// nothing that exists.
    pub(crate) fn id<K: Prefix>(&self, index: usize) -> Result<Id<K>, Problem> {
        self.parameters
            .segment(self.uri.path(), index)
            .and_then(|text| text.parse().ok())
            .ok_or_else(Problem::not_found)
    }

    /// What stands at this place of the path, counted from 0.
    pub(crate) fn segment(&self, index: usize) -> &str {
        self.parameters
            .segment(self.uri.path(), index)
            .unwrap_or_default()
    }

    /// The key's bearer, where a key or a ticket came.
    pub(crate) fn principal(&self) -> Option<&Principal> {
        match &self.credential {
            Credential::None | Credential::Operator => None,
            Credential::Key(principal) | Credential::Ticket(principal, _) => Some(principal),
        }
    }

    /// Whether a ticket stands in the place of its key.
    pub(crate) fn by_ticket(&self) -> bool {
        !self.request.headers().contains_key(AUTHORIZATION)
    }

    /// What links of its caller's account begin with.
    pub(crate) fn links_base(&self) -> String {
        self.site.links_of(&self.app, self.caller.tenant)
    }

    /// Its connection, in use for as long as somebody has this.
    pub(crate) fn connection(&self) -> Option<InUse> {
        ConnectionData::of(&self.request).map(|connection| connection.in_use())
    }

    /// The query of the request's URL, as it came.
    pub(crate) fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    /// Who asks, without a condition and without an idempotency key.
    pub(crate) fn meta(&self) -> CommandMeta {
        CommandMeta {
            access: self.access,
            ..CommandMeta::new(self.caller.clone())
        }
    }

    /// Takes apart a call whose request goes to an entity.
    pub(crate) fn into_command(self) -> CommandCall {
        CommandCall {
            app: self.app,
            meta: CommandMeta {
                caller: self.caller,
                access: self.access,
                if_match: self.if_match,
                reservation: self.reservation,
            },
        }
    }

    /// The account's own tenant, for what belongs to it in both modes.
    pub(crate) fn account_wide(&self) -> Tenant {
        self.caller.tenant.account_wide()
    }

    /// The sender as the records of an account's both modes take it.
    pub(crate) fn account_caller(&self) -> Caller {
        Caller {
            tenant: self.account_wide(),
            actor: self.caller.actor.clone(),
        }
    }
}
