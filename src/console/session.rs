//! Who is signed in: the session that the browser's cookie names, and what it may see.

use std::sync::Arc;

use actix_web::http::header::COOKIE;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use colloquy_actors::accounts::{ChangeSession, KnownSession, Principal};
use colloquy_actors::sign_in::Person;
use colloquy_model::caller::{Actor, Mode, Tenant};
use colloquy_model::id::DocumentId;
use colloquy_model::key::{SecretHash, same_hash, secret_hash};
use colloquy_model::time::Timestamp;
use colloquy_model::user::Role;

use super::Visit;
use super::forms::Form;
use super::reply::Reply;
use crate::http::{BudgetOwner, Found, InProcess, Problem, Request};

/// The cookie that holds a session's token.
const COOKIE_NAME: &str = "colloquy_session";
/// The cookie that carries one sentence to the next page.
const NOTICE_NAME: &str = "colloquy_notice";
/// The header in which scripts of ours send the CSRF token.
const CSRF_HEADER: &str = "x-csrf-token";
/// Why a form is refused that this session has not been given.
const FOREIGN_FORM: &str = "the form does not belong to this session";

/// A session, and what it may see.
pub(super) struct Session {
    token: SecretHash,
    known: Arc<KnownSession>,
    /// The account whose side is shown, if one is.
    pub(super) principal: Option<Principal>,
    /// The name of the person.
    pub(super) name: String,
    /// The role of the account's user; none for an operator.
    pub(super) role: Option<Role>,
    /// What every POST of this session must carry.
    pub(super) csrf: String,
    api: InProcess,
}

/// The session that a request comes with, if it is one that holds.
///
/// # Errors
/// This node can't say.
pub(super) fn find(visit: &Visit) -> Result<Option<Session>, Problem> {
    let Some(text) = cookie(visit, COOKIE_NAME) else {
        return Ok(None);
    };
    crate::http::check_is_current(&visit.app)?;
    let (system, token, now) = (&visit.app.system, secret_hash(&text), Timestamp::now());
    let Some(known) = system.identity.session(&token, now) else {
        return Ok(None);
    };
    let Some(person) = system.identity.person(known.tenant, known.user) else {
        return Ok(None);
    };
    if !system.sign_ins.token_holds(&known.terms) {
        return Ok(None);
    }
    let principal = system.identity.bearer(&token, now);
    let role = (!known.is_operator()).then_some(person.role);
    let api = InProcess {
        app: Arc::clone(&visit.app),
        request: visit.request.clone(),
        request_id: Arc::clone(&visit.request_id),
        address: visit.address,
        principal: principal.clone(),
        role,
        is_operator: known.is_operator(),
    };
    let csrf = format!("{}.{}", csrf_token(&text), side(principal.as_ref()));
    Ok(Some(Session {
        token,
        principal,
        name: person.name.clone(),
        role,
        csrf,
        known,
        api,
    }))
}

impl Session {
    /// Whether the person is an operator.
    pub(super) fn is_operator(&self) -> bool {
        self.known.is_operator()
    }

    /// Refuses whoever is no operator.
    ///
    /// # Errors
    /// 403.
    pub(super) fn check_operator(&self) -> Result<(), Problem> {
        match self.is_operator() {
            true => Ok(()),
            false => Err(Problem::forbidden("this page is for operators")),
        }
    }

    /// Whether the person may do what only admins of the account may.
    pub(super) fn is_admin(&self) -> bool {
        self.principal.is_some() && self.role != Some(Role::Agent)
    }

    /// Whether test data is shown.
    pub(super) fn is_test(&self) -> bool {
        self.known.terms.mode == Mode::Test
    }

    /// The page that the person begins at.
    pub(super) fn home(&self) -> &'static str {
        if self.principal.is_some() {
            "/console/inbox"
        } else {
            "/console/overview"
        }
    }

    /// Whose side of the console is open: an account's in a mode, else that of who signed in.
    pub(super) fn tenant(&self) -> Tenant {
        let own = self.known.tenant;
        self.principal.as_ref().map_or(own, Principal::tenant)
    }

    /// Whose session it is.
    pub(super) fn person(&self) -> Person {
        Person {
            tenant: self.known.tenant,
            user: self.known.user,
        }
    }

    /// The session's own name, by the hash of its token.
    pub(super) fn token(&self) -> SecretHash {
        self.token
    }

    /// Who does what the person does here.
    pub(super) fn actor(&self, visit: &Visit) -> Actor {
        Actor {
            key: None,
            user: (!self.is_operator()).then_some(self.known.user),
            address: Some(visit.address),
            request_id: Arc::clone(&visit.request_id),
        }
    }

    /// Who pays for the memory that the session's forms hold.
    pub(super) fn owner(&self) -> BudgetOwner {
        self.api.owner()
    }

    /// Reads what an operation of the interface shows.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(super) async fn get(&self, target: &str) -> Result<Found, Problem> {
        self.api.get(target).await
    }

    /// Asks an operation of the interface.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(super) async fn ask(&self, request: Request<'_>) -> Result<Found, Problem> {
        self.api.ask(request).await
    }

    /// Erases a document that is in the bin.
    ///
    /// # Errors
    /// It is not there, or not this person's to erase.
    pub(super) async fn erase_from_bin(&self, id: DocumentId) -> Result<(), Problem> {
        self.api.erase_from_bin(id).await
    }

    /// What an admin of the account may ask of operators' operations about the account's own keys.
    ///
    /// # Errors
    /// The person is no admin of an account.
    pub(super) fn of_account(&self) -> Result<(InProcess, &Principal), Problem> {
        let principal = self.principal.as_ref().filter(|_| self.is_admin());
        let principal =
            principal.ok_or_else(|| Problem::forbidden("this is for admins of the account"))?;
        let api = InProcess {
            is_operator: true,
            ..self.api.clone()
        };
        Ok((api, principal))
    }

    /// Refuses a POST that does not carry the session's own token.
    ///
    /// # Errors
    /// 403.
    pub(super) fn check_csrf(
        &self,
        visit: &Visit,
        form: &Form,
        path: &[&str],
    ) -> Result<(), Problem> {
        let header = visit.request.headers().get(CSRF_HEADER);
        let given = header
            .and_then(|value| value.to_str().ok())
            .unwrap_or_else(|| form.text("csrf"));
        let parts = given.split_once('.').zip(self.csrf.split_once('.'));
        let Some(((given, side), (own, own_side))) = parts else {
            return Err(Problem::forbidden(FOREIGN_FORM));
        };
        if !same_hash(&secret_hash(given), &secret_hash(own)) {
            return Err(Problem::forbidden(FOREIGN_FORM));
        }
        // What is no account's, such as signing out and changing sides, works from every tab.
        if side != own_side && super::is_of_account(path) {
            return Err(Problem::forbidden(
                "the page was made for another account, or for the other kind of data: another tab has changed that",
            ));
        }
        Ok(())
    }

    /// Changes what the session shows.
    ///
    /// # Errors
    /// It could not be changed.
    pub(super) async fn change(&self, visit: &Visit, change: ChangeSession) -> Result<(), Problem> {
        let sign_ins = &visit.app.system.sign_ins;
        Ok(sign_ins
            .ask(self.person(), self.actor(visit), change)
            .await?)
    }
}

/// The account and the mode that forms are made for, in a word of their own.
fn side(principal: Option<&Principal>) -> String {
    principal.map_or_else(String::new, |principal| {
        principal.tenant().number().to_string()
    })
}

/// What every POST of the session with this token must carry: nobody can tell it who does not know
/// the token.
fn csrf_token(session: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(secret_hash(&format!("csrf {session}")))
}

fn cookie(visit: &Visit, name: &str) -> Option<String> {
    let mut lines = visit.request.headers().get_all(COOKIE);
    lines.find_map(|line| {
        let pairs = line.to_str().ok()?.split(';');
        let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        Some(value.to_owned())
    })
}

/// Whether the browser's way here is encrypted, as far as the settings or a proxy that is believed
/// say.
fn is_secure(visit: &Visit) -> bool {
    visit.app.public_url.starts_with("https://")
}

fn set(visit: &Visit, reply: Reply, name: &str, value: &str, seconds: u64) -> Reply {
    let secure = if is_secure(visit) { "; Secure" } else { "" };
    let line =
        format!("{name}={value}; Path=/console; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    reply.with("set-cookie", &line)
}

/// Has the browser keep the session with this token.
pub(super) fn begin(visit: &Visit, reply: Reply, token: &str) -> Reply {
    let seconds = visit.app.session_seconds;
    set(visit, reply, COOKIE_NAME, token, seconds)
}

/// Has the browser forget its session.
pub(super) fn forget(visit: &Visit, reply: Reply) -> Reply {
    set(visit, reply, COOKIE_NAME, "", 0)
}

/// Says something on the next page.
pub(super) fn say(visit: &Visit, reply: Reply, words: &str) -> Reply {
    let encoded: String = url::form_urlencoded::byte_serialize(words.as_bytes()).collect();
    set(visit, reply, NOTICE_NAME, &encoded, 60)
}

/// What the page before had to say.
pub(super) fn said(visit: &Visit) -> Option<String> {
    let text = cookie(visit, NOTICE_NAME).filter(|text| !text.is_empty())?;
    let decoded = format!("m={text}");
    let mut pairs = url::form_urlencoded::parse(decoded.as_bytes());
    pairs.next().map(|(_, words)| words.into_owned())
}

/// Has the browser forget what was said.
pub(super) fn was_said(visit: &Visit, reply: Reply) -> Reply {
    set(visit, reply, NOTICE_NAME, "", 0)
}
