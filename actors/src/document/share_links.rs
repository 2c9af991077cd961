//! The way in through share links: made with a key, opened without one. Passwords are hashed off
//! the arbiters, few at once.

use std::sync::Arc;
use std::time::Duration;

use super::access::{DocumentRole, Requester};
use super::messages::{
    AddShare, CommandMeta, CreateShare, DocumentError, ListShares, OpenShare, OpenedShare,
    UseShare, VersionName,
};
use super::refusal::Failure;
use super::service::Documents;
use super::share_terms::{new_token, token_hash};

use crate::passwords::{
    HashClaim, HashPermit, NoHashPermit, TooManyTries, hash_password, password_fits,
};
use crate::store::OwnedDocument;
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Actor, Caller, CredentialId, Tenant};
use colloquy_model::id::{DocumentId, ShareId, VersionId};
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, Cause, LoadError, offload};

/// A share link that is open to whoever asks.
#[derive(Debug, Clone)]
pub struct Link {
    /// The document that it opens.
    pub document: DocumentId,
    /// The link itself.
    pub share: ShareId,
    /// The document's tenant.
    pub tenant: Tenant,
    /// The link's holder, as far as roles in the document go.
    pub requester: Requester,
    /// From this instant on it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// Whether it shows the same to whoever has its address, however often: there is no password, its
    /// uses are not bounded, and its holder can only read.
    pub is_public: bool,
}

/// Why a link does not open.
#[derive(Debug)]
pub enum LinkError {
    /// There is no such link, or not any more.
    Gone,
    /// It wants a password, and none was given.
    NoPassword,
    /// The password is not the right one.
    WrongPassword,
    /// Too many wrong ones were given.
    TooManyTries(TooManyTries),
    /// Whether the link opens could not be found out.
    Unknown(Failure),
}

impl From<Failure> for LinkError {
    fn from(failure: Failure) -> Self {
        match failure {
            AskError::Refused(DocumentError::NotFound) => LinkError::Gone,
            AskError::Refused(_)
            | AskError::Unavailable { .. }
            | AskError::Unreadable
            | AskError::Crashed
            | AskError::TimedOut
            | AskError::Unknown => LinkError::Unknown(failure),
        }
    }
}

impl Link {
    /// What goes with a request of the link's holder: a caller of the document's account and mode,
    /// with neither key nor user.
    #[must_use]
    pub fn meta(&self, actor: &Actor) -> CommandMeta {
        let caller = Caller {
            tenant: self.tenant,
            actor: Actor {
                credential: CredentialId::Visitor,
                user: None,
                ..actor.clone()
            },
        };
        CommandMeta::new(caller, self.requester)
    }
}

impl Documents {
    /// Makes a share link; gives its token, which is known nowhere else.
    ///
    /// # Errors
    /// The refusal, or why it could not be asked.
    pub async fn create_share(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        new: CreateShare,
    ) -> Result<(Answer, String), Failure> {
        let password = match new.password.clone() {
            Some(password) => {
                // Hashing costs: who may not make a link is told before.
                let before = CommandMeta::new(meta.caller.clone(), meta.requester);
                self.ask(id, before, ListShares).await?;
                let place = self.hash_permit(meta.caller.tenant, id.bits()).await?;
                let hashed =
                    offload::run_on_batch_cores(place, move || hash_password(&password)).await;
                Some(
                    hashed
                        .ok_or(AskError::Crashed)?
                        .map_err(|_| AskError::Crashed)?,
                )
            }
            None => None,
        };
        let (token, hash) = new_token();
        let request = AddShare {
            share: new,
            token: hash,
            password,
        };
        Ok((self.ask(id, meta, request).await?, token))
    }

    /// Whose the link with this token is, one that does not open any more included.
    ///
    /// # Errors
    /// There is none, or it can't be told now.
    pub async fn link_owner(&self, token: &str) -> Result<Tenant, LinkError> {
        let hash = token_hash(token).ok_or(LinkError::Gone)?;
        let found = self
            .store
            .link(hash)
            .await
            .map_err(|error| LinkError::Unknown(LoadError::from(error).into()))?;
        found.map(|found| found.tenant).ok_or(LinkError::Gone)
    }

    /// Opens a share link with what was given as its password.
    ///
    /// # Errors
    /// It stays shut.
    pub async fn open_link(
        &self,
        token: &str,
        password: Option<&str>,
        actor: &Actor,
    ) -> Result<Link, LinkError> {
        let hash = token_hash(token).ok_or(LinkError::Gone)?;
        let found = self
            .store
            .link(hash)
            .await
            .map_err(|error| LinkError::Unknown(LoadError::from(error).into()))?;
        let OwnedDocument { subject, tenant } = found.ok_or(LinkError::Gone)?;
        let document = DocumentId::from_parts(subject.number, subject.tail);
        let caller = Caller {
            tenant,
            actor: Actor {
                credential: CredentialId::Visitor,
                user: None,
                ..actor.clone()
            },
        };
        let meta = CommandMeta::new(caller, Requester::Account(None));
        let OpenedShare {
            share,
            role,
            password: wanted,
            expires_at,
            has_max_uses,
        } = self.ask(document, meta, OpenShare { token: hash }).await?;
        let is_public = wanted.is_none() && !has_max_uses && role == DocumentRole::Viewer;
        if let Some(wanted) = wanted {
            self.check_password(tenant, share, wanted, password).await?;
        }
        Ok(Link {
            document,
            share,
            tenant,
            requester: Requester::Link(role, share),
            expires_at,
            is_public,
        })
    }

    /// Reads a version by a link: the head, or one that was the head since the link was made. What
    /// was written before, and on other branches, was not shared.
    ///
    /// # Errors
    /// It is not there for the link's holder, or why it could not be asked.
    pub async fn version_by_link(
        &self,
        link: &Link,
        meta: CommandMeta,
        version: VersionId,
    ) -> Result<Answer, Failure> {
        let shared = (VersionName::Id(version), Some(link.share.created_at()));
        self.version_since(link.document, meta, shared).await
    }

    async fn check_password(
        &self,
        tenant: Tenant,
        share: ShareId,
        wanted: String,
        given: Option<&str>,
    ) -> Result<(), LinkError> {
        let given = given
            .filter(|given| !given.is_empty())
            .ok_or(LinkError::NoPassword)?
            .to_owned();
        self.tries
            .look(share, Timestamp::now())
            .map_err(LinkError::TooManyTries)?;
        let place = self.hash_permit(tenant, share.bits()).await?;
        // Again: of one link one is hashed at a time, and those before it may have been wrong.
        self.tries
            .look(share, Timestamp::now())
            .map_err(LinkError::TooManyTries)?;
        let tries = Arc::clone(&self.tries);
        let checked = offload::run_on_batch_cores(place, move || {
            let fits = password_fits(&given, &wanted);
            if !fits {
                // Here, before the place is given back, and whether the caller still waits or not.
                tries.was_wrong(share, Timestamp::now());
            }
            fits
        });
        let fits = checked.await.ok_or(LinkError::Unknown(AskError::Crashed))?;
        if fits {
            Ok(())
        } else {
            Err(LinkError::WrongPassword)
        }
    }

    async fn hash_permit(&self, tenant: Tenant, link: u128) -> Result<HashPermit, Failure> {
        let place = self
            .hashes
            .place(HashClaim {
                account: tenant.account_wide(),
                link,
            })
            .await;
        place.map_err(|none| {
            let cause = match none {
                NoHashPermit::Full => Cause::MailboxFull,
                NoHashPermit::TooLate => Cause::TimedOut,
            };
            AskError::Unavailable {
                cause,
                retry_after: Duration::from_secs(1),
            }
        })
    }

    /// Counts one use of an open link.
    ///
    /// # Errors
    /// It has been used up or taken back meanwhile, or why it could not be asked.
    pub async fn use_link(&self, link: &Link, actor: &Actor) -> Result<(), LinkError> {
        let share = link.share;
        self.ask(link.document, link.meta(actor), UseShare { share })
            .await?;
        Ok(())
    }
}
