//! The rules of documents: what each request requires and changes.
//!
//! A rule is the `impl` of [`DocumentRequest`] for its request, or of [`ComputedRequest`] where
//! something must be computed first: `versions` (documents, versions and merges), `sharing` (the
//! bin, collaborators, permissions, share links), `comments`. All of them are pure: they judge the
//! state that they are given, with the time, the new identifiers, the bounds and the view of users
//! that stand in [`CommandContext`], and change nothing; what they decide is an [`Outcome`].

mod comments;
mod sharing;
mod versions;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use super::access::{Action, DocumentRole, allow};
use super::context::{CommandContext, DecisionContext, Outcome};
use super::messages::{CommandMeta, DocumentError};
use super::precompute::{Precompute, Task};
use super::state::{Document, Live};
use crate::accounts::Identity;
use colloquy_model::caller::Tenant;

/// A request that a document takes: what must hold, the type of its reply, and its rule.
pub trait DocumentRequest: Send + 'static {
    /// The reply to a request that was done.
    type Reply: Send + 'static;

    /// What must hold before the rule is asked.
    fn access(&self) -> Access;

    /// The entity tag with which `If-Match` is compared: that of the part of the document that the
    /// request is about. None where there is no such part, which is the rule's to refuse.
    fn etag(&self, live: &Live, role: DocumentRole) -> Option<String> {
        Some(live.etag(role))
    }

    /// Decides on the request.
    ///
    /// # Errors
    /// Why the request is refused.
    fn decide(self, live: &Live, context: CommandContext) -> Decided<Self::Reply>;
}

/// A request for which something must be computed off the arbiters before its rule can decide.
pub trait ComputedRequest: Send + 'static {
    /// The reply to a request that was done.
    type Reply: Send + 'static;
    /// What must be computed.
    type Task: Task;

    /// What must hold before anything is computed, and again before the rule is asked.
    fn access(&self) -> Access;

    /// What must be computed. None where nothing must be, or where the rule will refuse.
    fn task(&self, live: &Live) -> Option<Self::Task>;

    /// Decides on the request. `computed` is the result of what [`Self::task`] asked for, computed
    /// over the same state.
    ///
    /// # Errors
    /// Why the request is refused.
    fn decide(
        self,
        live: &Live,
        context: CommandContext,
        computed: Option<<Self::Task as Task>::Result>,
    ) -> Decided<Self::Reply>;
}

/// What must hold before a rule is asked.
#[derive(Debug)]
pub enum Access {
    /// The document does not exist yet.
    Creation,
    /// The requester's role allows the action, and the document is not in the bin, unless the
    /// action is to restore it.
    Role(Action),
    /// The requester's role allows the action, and the document is in the bin.
    Binned(Action),
    /// The document is not in the bin; the rule itself checks the share link.
    ShareLink,
    /// The document is in the bin; only the server itself asks.
    Server,
}

/// What a rule decides, or why it refuses.
pub(super) type Decided<R> = Result<Outcome<R>, DocumentError>;

/// Decides on a request.
///
/// # Errors
/// Why the request is refused.
pub(super) fn decide<R: DocumentRequest>(
    document: &Document,
    request: R,
    asked: Asked,
    context: DecisionContext,
) -> Decided<R::Reply> {
    let access = request.access();
    let live = target(document, asked.meta.caller.tenant, &access)?;
    check(&live, &asked.meta, &access, |role| {
        request.etag(&live, role)
    })?;
    request.decide(&live, asked.command_context(context))
}

/// What must be computed before a request can be decided. What is refused needs no work: the
/// decision refuses it again.
pub(super) fn precompute<R: ComputedRequest>(
    document: &Document,
    request: &R,
    meta: &CommandMeta,
) -> Option<Precompute<R::Task>> {
    let access = request.access();
    let live = target(document, meta.caller.tenant, &access).ok()?;
    check(&live, meta, &access, |role| Some(live.etag(role))).ok()?;
    Some(Precompute {
        document: Document::subject(live.id),
        tenant: live.tenant,
        task: request.task(&live)?,
    })
}

/// Decides on a request. `computed` is the result of what [`precompute`] asked for.
///
/// # Errors
/// Why the request is refused.
pub(super) fn decide_computed<R: ComputedRequest>(
    document: &Document,
    request: R,
    asked: Asked,
    context: DecisionContext,
    computed: Option<<R::Task as Task>::Result>,
) -> Decided<R::Reply> {
    let access = request.access();
    let live = target(document, asked.meta.caller.tenant, &access)?;
    check(&live, &asked.meta, &access, |role| Some(live.etag(role)))?;
    request.decide(&live, asked.command_context(context), computed)
}

/// Who asks, with the view of users.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) meta: CommandMeta,
    pub(super) users: Arc<Identity>,
}

impl Asked {
    fn command_context(self, context: DecisionContext) -> CommandContext {
        let CommandMeta {
            caller,
            requester,
            reservation,
            ..
        } = self.meta;
        let DecisionContext { now, ids, bounds } = context;
        CommandContext {
            caller,
            requester,
            reservation,
            users: self.users,
            now,
            ids,
            bounds,
        }
    }
}

/// The state that a request is about: the document of the caller's tenant, or a blank one where it
/// is to be created.
///
/// # Errors
/// There is no such document for the caller.
fn target<'d>(
    document: &'d Document,
    tenant: Tenant,
    access: &Access,
) -> Result<Cow<'d, Live>, DocumentError> {
    match (&document.live, access) {
        (Some(live), _) if live.tenant == tenant => Ok(Cow::Borrowed(live)),
        (None, Access::Creation) => Ok(Cow::Owned(Live::blank(document.id, tenant))),
        (Some(_) | None, _) => Err(DocumentError::NotFound),
    }
}

/// Checks what holds for every request: role, bin and precondition, in this order.
fn check(
    live: &Live,
    meta: &CommandMeta,
    access: &Access,
    etag: impl FnOnce(DocumentRole) -> Option<String>,
) -> Result<(), DocumentError> {
    let found = |is_found: bool| is_found.then_some(()).ok_or(DocumentError::NotFound);
    let in_bin = live.facts.deleted_at.is_some();
    let (action, is_seen) = match access {
        Access::Creation => return found(live.is_blank()),
        Access::ShareLink => return found(!in_bin),
        Access::Server => return found(in_bin),
        Access::Binned(action) => (*action, in_bin),
        // What is not in the bin is restored already; everything else does not see what is.
        Access::Role(action) => (*action, !in_bin || *action == Action::Restore),
    };
    let role = allow(action, meta.requester, &live.facts.permissions)?;
    found(is_seen)?;
    let Some(wanted) = &meta.if_match else {
        return Ok(());
    };
    if etag(role).is_none_or(|tag| wanted.holds(&tag)) {
        Ok(())
    } else {
        Err(DocumentError::Precondition)
    }
}
