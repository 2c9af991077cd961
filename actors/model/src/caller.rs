//! Who asks, for which account and in which mode. What the edge has found out travels with each
//! command.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::entity_number::EntityNumber;
use crate::id::{ClientId, KeyId, UserId};

/// Live or test: two worlds of one account that never see each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Real customers.
    Live,
    /// Play data.
    Test,
}

/// Whose data something is: an account's in one mode, an account's in both, or the operators'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(i64);

impl Tenant {
    /// Belongs to no account: accounts themselves.
    pub const OPERATORS: Tenant = Tenant(0);

    /// What belongs to the account in one mode. `account` is the small number that the store gave
    /// it.
    #[must_use]
    pub fn of(account: u32, mode: Mode) -> Self {
        Tenant(i64::from(account) * 4 + if mode == Mode::Live { 1 } else { 2 })
    }

    /// What belongs to the account in both modes: users and keys.
    #[must_use]
    pub fn account(account: u32) -> Self {
        Tenant(i64::from(account) * 4)
    }

    /// The account-wide tenant that this one lies in.
    #[must_use]
    pub fn account_wide(self) -> Self {
        Tenant(self.0 & !3)
    }

    /// The mode; none for what belongs to an account in both, or to no account.
    #[must_use]
    pub fn mode(self) -> Option<Mode> {
        match self.0 & 3 {
            1 => Some(Mode::Live),
            2 => Some(Mode::Test),
            _ => None,
        }
    }

    /// The small number of the account that it belongs to; 0: to none.
    #[must_use]
    pub fn account_number(self) -> u32 {
        u32::try_from(self.0 / 4).unwrap_or(0)
    }

    /// The number by which the store writes it: four for each account.
    #[must_use]
    pub fn number(self) -> i64 {
        self.0
    }

    /// Reads back what [`Tenant::number`] gave.
    #[must_use]
    pub fn from_number(number: i64) -> Self {
        Tenant(number)
    }
}

/// What something was done with, by which who did it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialId {
    /// A key of the interface.
    Key(KeyId),
    /// A token of an OAuth client.
    Client(ClientId),
    /// An operator: signed in to the console, or whoever has the operator token.
    Operator(UserId),
    /// A session in the console of the user for whom it was done.
    Session,
    /// Nothing: a visitor of a share link, or somebody of whom nothing is known yet.
    Visitor,
    /// Nothing: the server itself did it.
    Server,
}

/// A credential as a store writes it: it tells one from every other one; what more is needed to
/// show it stands in its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialCode(pub i64);

impl CredentialId {
    /// The bits of a stored credential that are a number; what it is the number of stands above
    /// them.
    pub const NUMBER_MASK: i64 = (1 << 60) - 1;

    const KEY: i64 = 0;
    const CLIENT: i64 = 1;
    const OPERATOR: i64 = 2;
    const VISITOR: i64 = 3;

    /// The number by which a store writes it: that of its identifier, with what it is in the bits
    /// above. None for a session, which the user beside it tells, and for the server.
    #[must_use]
    pub fn code(self) -> Option<i64> {
        let (kind, EntityNumber(number)) = match self {
            CredentialId::Key(id) => (Self::KEY, id.number()),
            CredentialId::Client(id) => (Self::CLIENT, id.number()),
            CredentialId::Operator(id) => (Self::OPERATOR, id.number()),
            CredentialId::Visitor => (Self::VISITOR, EntityNumber(0)),
            CredentialId::Session | CredentialId::Server => return None,
        };
        Some(kind << 60 | (i64::try_from(number).unwrap_or(0) & Self::NUMBER_MASK))
    }

    /// Reads back what [`CredentialId::code`] gave; `tail` is the rest of its identifier, and
    /// `user` the one beside it. None where the code stands for nothing.
    #[must_use]
    pub fn from_code(code: Option<i64>, tail: u64, user: Option<UserId>) -> Option<Self> {
        let Some(code) = code else {
            return Some(match user {
                Some(_) => CredentialId::Session,
                None => CredentialId::Server,
            });
        };
        let number = EntityNumber(u64::try_from(code & Self::NUMBER_MASK).unwrap_or(0));
        match code >> 60 {
            Self::KEY => Some(CredentialId::Key(KeyId::from_parts(number, tail))),
            Self::CLIENT => Some(CredentialId::Client(ClientId::from_parts(number, tail))),
            Self::OPERATOR => Some(CredentialId::Operator(UserId::from_parts(number, tail))),
            Self::VISITOR => Some(CredentialId::Visitor),
            _ => None,
        }
    }

    /// The same where the rest of the identifier may not be known any more. Whoever has the
    /// operator token is a user of no record until the first session.
    #[must_use]
    pub fn known(code: Option<i64>, tail: Option<u64>) -> Option<Self> {
        let Some(code) = code else {
            return Some(CredentialId::Server);
        };
        let is_made = code & Self::NUMBER_MASK >= 1 << 12;
        let tail = if is_made { tail? } else { tail.unwrap_or(0) };
        Self::from_code(Some(code), tail, None)
    }

    /// As the activity of a document names it where no user did it: a key or a client.
    #[must_use]
    pub fn shown_in_activity(self) -> Option<String> {
        match self {
            CredentialId::Key(id) => Some(id.to_string()),
            CredentialId::Client(id) => Some(id.to_string()),
            CredentialId::Operator(_)
            | CredentialId::Session
            | CredentialId::Visitor
            | CredentialId::Server => None,
        }
    }
}

/// Who did it: stands in the row of every change.
#[derive(Debug, Clone)]
pub struct Actor {
    /// What it was done with.
    pub credential: CredentialId,
    /// The user in whose name it was done, if any.
    pub user: Option<UserId>,
    /// Where the request came from.
    pub address: Option<IpAddr>,
    /// The request's identifier, as its answer shows it.
    pub request_id: Arc<str>,
}

impl Actor {
    /// The server itself, by a chore of this name.
    #[must_use]
    pub fn server(chore: &'static str) -> Self {
        Actor {
            credential: CredentialId::Server,
            user: None,
            address: None,
            request_id: Arc::from(chore),
        }
    }
}

/// The sender of a command: whose data is meant, and who acts on it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What it may see and change.
    pub tenant: Tenant,
    /// The user or key that acts, as events and activities name it.
    pub actor: Actor,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn a_credential_reads_back_as_itself() {
        let at = Timestamp(1_773_570_600_000);
        let (key, client, user) = (KeyId::new(at), ClientId::new(at), UserId::new(at));
        for (credential, tail) in [
            (CredentialId::Key(key), key.tail()),
            (CredentialId::Client(client), client.tail()),
            (CredentialId::Operator(user), user.tail()),
            (CredentialId::Visitor, 0),
            (CredentialId::Server, 0),
        ] {
            let read = CredentialId::from_code(credential.code(), tail, None);
            assert_eq!(read, Some(credential));
        }
        let session = CredentialId::from_code(CredentialId::Session.code(), 0, Some(user));
        assert_eq!(session, Some(CredentialId::Session));
        assert_eq!(CredentialId::from_code(Some(7 << 60), 0, None), None);
    }
}
