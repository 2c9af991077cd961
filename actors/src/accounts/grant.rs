//! A grant: what a user has allowed a client, from the code that is given once to the refresh tokens
//! that follow. One actor owns each, so that of two uses of a code or of a token one is the second.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Identity;
use super::record::{
    CommandContext, DeleteRecord, Deletion, NewRecord, Outcome, RecordError, RecordReply,
    RecordRequest, RecordSpec, Secret, to_json,
};
use colloquy_model::answer::Answer;
use colloquy_model::caller::Tenant;
use colloquy_model::client::KnownGrant;
use colloquy_model::commit::{Condition, Effect};
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ClientId, GrantId, GrantKind, UserId};
use colloquy_model::key::{Permission, SecretHash, same_hash};
use colloquy_model::time::{Timestamp, unix_ms};

/// Makes a grant, with the code that is given for it.
#[derive(Debug)]
pub struct OpenGrant {
    /// Who may act.
    pub client: ClientId,
    /// Who allows it.
    pub user: UserId,
    /// What is allowed.
    pub scopes: Vec<Permission>,
    /// Where the code was sent.
    pub redirect_uri: String,
    /// The code challenge (RFC 7636, S256).
    pub challenge: String,
    /// The hash of the code.
    pub code: SecretHash,
    /// Until when the code holds.
    pub code_until: Timestamp,
    /// When all of it ends.
    pub ends_at: Timestamp,
}

/// The hashes of a refresh token: what all of one grant have in common, and what is this one's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshHashes {
    /// Of what all refresh tokens of the grant have in common.
    pub family: SecretHash,
    /// Of what is this one's own.
    pub own: SecretHash,
}

/// Takes the code for tokens. Whatever is wrong, the code is used up.
#[derive(Debug)]
pub struct RedeemCode {
    /// Who brings it.
    pub client: ClientId,
    /// The hash of the code.
    pub code: SecretHash,
    /// Where it was sent, as the client says.
    pub redirect_uri: Option<String>,
    /// What the challenge was made of.
    pub verifier: String,
    /// The first refresh token.
    pub first: RefreshHashes,
}

/// Takes a refresh token for the next one. One that was used before ends the grant.
#[derive(Debug)]
pub struct Refresh {
    /// Who brings it.
    pub client: ClientId,
    /// The one that is brought.
    pub brought: RefreshHashes,
    /// What the next one has of its own.
    pub next: SecretHash,
}

/// Looks whether a refresh token is the one that may be used, and uses none up.
#[derive(Debug)]
pub struct IsCurrent(pub RefreshHashes);

/// Ends a grant, and every token that it gave.
#[derive(Debug)]
pub struct RevokeGrant;

/// What came of a code or of a refresh token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// Tokens may be given.
    Granted,
    /// It is no good, and neither is the grant from now on.
    Refused,
}

impl RecordReply for Taken {
    fn of(answer: Answer) -> Self {
        serde_json::from_slice(&answer.body).unwrap_or(Taken::Refused)
    }
}

/// How far a grant has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// Its code has not been used.
    Given,
    /// It has given tokens.
    Open,
    /// Nothing of it holds any more.
    Ended,
}

/// A grant as its record is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    id: GrantId,
    client: ClientId,
    user: UserId,
    scopes: Vec<Permission>,
    redirect_uri: String,
    challenge: String,
    code: SecretHash,
    #[serde(with = "unix_ms")]
    code_until: Timestamp,
    #[serde(with = "unix_ms")]
    ends_at: Timestamp,
    stage: Stage,
    refresh: Option<RefreshHashes>,
}

/// A grant as its rows show it.
#[derive(Serialize)]
struct GrantShown<'a> {
    grant_id: GrantId,
    client_id: ClientId,
    user_id: UserId,
    scopes: &'a [Permission],
    stage: Stage,
    created_at: Timestamp,
    ends_at: Timestamp,
}

impl Grant {
    /// The grant as the view of who may come in holds it.
    pub(super) fn known(&self, tenant: Tenant) -> KnownGrant {
        KnownGrant {
            id: self.id,
            client: self.client,
            user: self.user,
            tenant,
            scopes: self.scopes.clone(),
            is_open: self.stage == Stage::Open,
            given_at: self.id.created_at(),
            ends_at: match self.stage {
                Stage::Given => self.code_until,
                Stage::Open | Stage::Ended => self.ends_at,
            },
        }
    }

    fn at(&self, stage: Stage) -> Self {
        Grant {
            stage,
            ..self.clone()
        }
    }
}

/// The record from now on, and what came of what was brought.
fn taken(state: Grant, taken: Taken) -> Outcome<Grant> {
    let body = to_json(&taken);
    Outcome::PutShowingOnce {
        state,
        shown: body.clone(),
        kept: body,
    }
}

/// The challenge that is made of this (RFC 7636, 4.2).
fn challenge_of(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

impl RecordRequest<Grant> for OpenGrant {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::ConsentGiven)
    }

    fn decide(self, _: &Grant, _: &CommandContext<Grant>) -> Result<Outcome<Grant>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(
        self,
        context: &CommandContext<Grant>,
    ) -> Result<NewRecord<Grant>, RecordError> {
        let user = self.user;
        let state = Grant {
            id: context.id,
            client: self.client,
            user,
            scopes: self.scopes,
            redirect_uri: self.redirect_uri,
            challenge: self.challenge,
            code: self.code,
            code_until: self.code_until,
            ends_at: self.ends_at,
            stage: Stage::Given,
            refresh: None,
        };
        Ok(NewRecord {
            state,
            conditions: vec![Condition::UserExists(user)],
            secret: None,
            chore: None,
        })
    }
}

impl RecordRequest<Grant> for RedeemCode {
    type Reply = Taken;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::TokenIssued)
    }

    fn decide(
        self,
        held: &Grant,
        context: &CommandContext<Grant>,
    ) -> Result<Outcome<Grant>, RecordError> {
        // Whoever does not know the code changes nothing.
        if !same_hash(&held.code, &self.code) || held.stage == Stage::Ended {
            return Err(RecordError::NotFound);
        }
        let fits = held.stage == Stage::Given
            && held.code_until > context.now
            && held.client == self.client
            && self.redirect_uri.as_deref() == Some(&held.redirect_uri)
            && challenge_of(&self.verifier) == held.challenge;
        if !fits {
            return Ok(taken(held.at(Stage::Ended), Taken::Refused));
        }
        let mut open = held.at(Stage::Open);
        open.refresh = Some(self.first);
        Ok(taken(open, Taken::Granted))
    }
}

impl RecordRequest<Grant> for Refresh {
    type Reply = Taken;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::TokenIssued)
    }

    fn decide(
        self,
        held: &Grant,
        context: &CommandContext<Grant>,
    ) -> Result<Outcome<Grant>, RecordError> {
        let current = held.refresh.filter(|_| held.stage == Stage::Open);
        let current = current.ok_or(RecordError::NotFound)?;
        // Whoever never had a token of this grant changes nothing.
        if !same_hash(&current.family, &self.brought.family) || held.client != self.client {
            return Err(RecordError::NotFound);
        }
        if !same_hash(&current.own, &self.brought.own) || held.ends_at <= context.now {
            return Ok(taken(held.at(Stage::Ended), Taken::Refused));
        }
        let mut next = held.clone();
        next.refresh = Some(RefreshHashes {
            own: self.next,
            ..current
        });
        Ok(taken(next, Taken::Granted))
    }
}

impl RecordRequest<Grant> for IsCurrent {
    type Reply = Taken;

    fn decide(
        self,
        held: &Grant,
        _: &CommandContext<Grant>,
    ) -> Result<Outcome<Grant>, RecordError> {
        let current = held.refresh.filter(|_| held.stage == Stage::Open);
        let current = current.ok_or(RecordError::NotFound)?;
        let is_it =
            same_hash(&current.family, &self.0.family) & same_hash(&current.own, &self.0.own);
        let answer = if is_it {
            Taken::Granted
        } else {
            Taken::Refused
        };
        Ok(Outcome::ShowBody(to_json(&answer)))
    }
}

impl RecordRequest<Grant> for RevokeGrant {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::ConsentWithdrawn)
    }

    fn decide(
        self,
        held: &Grant,
        _: &CommandContext<Grant>,
    ) -> Result<Outcome<Grant>, RecordError> {
        Ok(match held.stage {
            Stage::Ended => Outcome::NoContent,
            Stage::Given | Stage::Open => Outcome::PutWithoutContent(held.at(Stage::Ended)),
        })
    }
}

/// What has ended is deleted by the server itself.
impl RecordRequest<Grant> for DeleteRecord {
    type Reply = ();

    fn decide(
        self,
        _: &Grant,
        context: &CommandContext<Grant>,
    ) -> Result<Outcome<Grant>, RecordError> {
        Ok(Outcome::Delete(Deletion {
            effects: vec![Effect::GrantGone(context.id)],
            ..Deletion::default()
        }))
    }
}

impl RecordSpec for Grant {
    const KIND: Kind = Kind::Grant;
    const NAME: &'static str = "grant";
    type Named = GrantKind;

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        to_json(&GrantShown {
            grant_id: self.id,
            client_id: self.client,
            user_id: self.user,
            scopes: &self.scopes,
            stage: self.stage,
            created_at: self.id.created_at(),
            ends_at: self.ends_at,
        })
    }

    fn label(&self) -> &str {
        ""
    }

    fn effects(&self, _: Option<&Self>, context: &CommandContext<Self>) -> Vec<Effect> {
        vec![Effect::Grant(Box::new(self.known(context.tenant)))]
    }
}
