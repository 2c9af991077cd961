//! Who is signed in: the session that the browser's cookie names, and what it may see.

use std::sync::Arc;

use actix_web::http::header::COOKIE;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use colloquy_actors::accounts::{ChangeSession, KnownSession, Principal};
use colloquy_actors::passwords::BROWSER_KNOWS;
use colloquy_actors::sign_in::{Person, SignedIn};
use colloquy_model::access_token::Bearer;
use colloquy_model::caller::{Actor, Mode, Tenant};
use colloquy_model::id::DocumentId;
use colloquy_model::key::{SecretHash, same_hash, secret_hash};
use colloquy_model::time::Timestamp;
use colloquy_model::user::{Role, SignInBounds};

use super::Visit;
use super::forms::Form;
use super::reply::Reply;
use crate::http::{
    BodyReader, BudgetOwner, FileContent, Found, InProcess, Problem, Request, address_allowed,
    is_encrypted,
};

/// The cookie that holds a session's token.
const SESSION: &str = "colloquy_session";
/// The cookie that carries one sentence to the next page.
const NOTICE: &str = "colloquy_notice";
/// The cookie by which a browser is known in which somebody has signed in before.
const BROWSER: &str = "colloquy_browser";
/// What a cookie's name begins with that browsers take over HTTPS only, and from this very host:
/// no sibling domain, and nobody on a way that is not encrypted, can plant one.
const OF_THIS_HOST: &str = "__Host-";
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
    let Some(text) = cookie(visit, SESSION) else {
        return Ok(None);
    };
    crate::http::check_is_current(&visit.app)?;
    let (system, token, now) = (&visit.app.system, secret_hash(&text), Timestamp::now());
    let Some(known) = system.identity.session(&token, now) else {
        return Ok(None);
    };
    // At an account's domain there are its people, and nobody else.
    if visit
        .site
        .account_wide()
        .is_some_and(|own| own != known.tenant)
    {
        return Ok(None);
    }
    let Some(person) = system.identity.person(known.tenant, known.user) else {
        return Ok(None);
    };
    if !system.sign_ins.token_holds(&known.terms) {
        return Ok(None);
    }
    let principal = system.identity.bearer(&Bearer::Secret(token), now);
    let role = (!known.is_operator()).then_some(person.role);
    let api = InProcess {
        app: Arc::clone(&visit.app),
        request: visit.request.clone(),
        request_id: Arc::clone(&visit.request_id),
        address: visit.address,
        principal: principal.clone(),
        role,
        is_operator: known.is_operator(),
        credential: known.credential(),
        large_answers: Arc::default(),
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

    /// What the person may at most do.
    pub(super) fn bounds(&self) -> &SignInBounds {
        &self.known.terms.bounds
    }

    /// Refuses an address from which the account may not be used. Operators are nobody's of the
    /// account.
    ///
    /// # Errors
    /// 403.
    pub(super) fn check_address(&self, visit: &Visit) -> Result<(), Problem> {
        let of_account = self.principal.as_ref().filter(|_| !self.is_operator());
        match of_account.is_none_or(|principal| address_allowed(principal, visit.address)) {
            true => Ok(()),
            false => Err(Problem::forbidden(
                "the account may not be used from this address",
            )),
        }
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
            credential: self.known.credential(),
            user: (!self.is_operator()).then_some(self.known.user),
            address: Some(visit.address),
            request_id: Arc::clone(&visit.request_id),
        }
    }

    /// Who pays for the memory that the session's forms and pages hold, and in whose turn they are read and
    /// written.
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

    /// Reads the JSON that an operation of the interface shows, where that is no longer than so much; none where it
    /// is.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(super) async fn get_short(
        &self,
        target: &str,
        bytes_max: usize,
    ) -> Result<Option<serde_json::Value>, Problem> {
        self.api.get_short(target, bytes_max).await
    }

    /// Asks an operation of the interface.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(super) async fn ask(&self, request: Request<'_>) -> Result<Found, Problem> {
        self.api.ask(request).await
    }

    /// Gives an operation of the interface the body of the page's own request.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(super) async fn upload(
        &self,
        request: Request<'_>,
        body: &mut BodyReader<'_>,
    ) -> Result<Found, Problem> {
        self.api.upload(request, body).await
    }

    /// Reads a file that an operation of the interface gives.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub(super) async fn file(&self, target: &str) -> Result<Box<FileContent>, Problem> {
        self.api.file(target).await
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
    /// The person is no admin of an account, or may not do everything that one may.
    pub(super) fn of_account(&self) -> Result<(InProcess, &Principal), Problem> {
        let principal = self.check_admin()?;
        if !self.bounds().are_none() {
            return Err(Problem::forbidden(
                "you were invited with a key that is not allowed this",
            ));
        }
        let api = InProcess {
            is_operator: true,
            ..self.api.clone()
        };
        Ok((api, principal))
    }

    /// Refuses whoever is no admin of the account.
    ///
    /// # Errors
    /// 403.
    pub(super) fn check_admin(&self) -> Result<&Principal, Problem> {
        let principal = self.principal.as_ref().filter(|_| self.is_admin());
        principal.ok_or_else(|| Problem::forbidden("this is for admins of the account"))
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

/// The name under which a cookie is kept on the browser's way here, and the paths that it is for.
/// Over an encrypted way another name is not believed.
fn kept_as(visit: &Visit, name: &str) -> (String, &'static str) {
    match is_encrypted(&visit.app, &visit.request) {
        // Browsers refuse the prefix without `Secure`, and with any other path.
        true => (format!("{OF_THIS_HOST}{name}"), "/; Secure"),
        false => (name.to_owned(), "/console"),
    }
}

fn cookie(visit: &Visit, name: &str) -> Option<String> {
    let (name, _) = kept_as(visit, name);
    let mut lines = visit.request.headers().get_all(COOKIE);
    lines.find_map(|line| {
        let pairs = line.to_str().ok()?.split(';');
        let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        Some(value.to_owned())
    })
}

fn set(visit: &Visit, reply: Reply, name: &str, value: &str, seconds: u64) -> Reply {
    let (name, path) = kept_as(visit, name);
    let line = format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={seconds}");
    reply.with("set-cookie", &line)
}

/// Has the browser keep the session, and that somebody has signed in there.
pub(super) fn begin(visit: &Visit, reply: Reply, signed_in: &SignedIn) -> Reply {
    let seconds = visit.app.session_seconds;
    let reply = set(visit, reply, SESSION, &signed_in.token, seconds);
    match &signed_in.browser {
        Some(text) => set(visit, reply, BROWSER, text, BROWSER_KNOWS.as_secs()),
        None => reply,
    }
}

/// What the browser has kept from signing in before; it says nothing of who sits there now.
pub(super) fn browser(visit: &Visit) -> Option<String> {
    cookie(visit, BROWSER)
}

/// Has the browser forget its session.
pub(super) fn forget(visit: &Visit, reply: Reply) -> Reply {
    set(visit, reply, SESSION, "", 0)
}

/// Says something on the next page.
pub(super) fn say(visit: &Visit, reply: Reply, words: &str) -> Reply {
    let encoded: String = url::form_urlencoded::byte_serialize(words.as_bytes()).collect();
    set(visit, reply, NOTICE, &encoded, 60)
}

/// What the page before had to say.
pub(super) fn said(visit: &Visit) -> Option<String> {
    let text = cookie(visit, NOTICE).filter(|text| !text.is_empty())?;
    let decoded = format!("m={text}");
    let mut pairs = url::form_urlencoded::parse(decoded.as_bytes());
    pairs.next().map(|(_, words)| words.into_owned())
}

/// Has the browser forget what was said.
pub(super) fn was_said(visit: &Visit, reply: Reply) -> Reply {
    set(visit, reply, NOTICE, "", 0)
}
