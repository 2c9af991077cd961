//! How much accounts use: what is counted of requests, by day and by the credential that made them.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::caller::CredentialId;
use crate::entity_number::EntityNumber;
use crate::id::{ClientId, KeyId};
use crate::time::Timestamp;

/// What is counted of one credential on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageCounts {
    /// Requests that were let in, whatever they were answered.
    pub requests: u64,
    /// Requests that the rate limit refused.
    pub rate_limited: u64,
    /// Requests that the account's quota refused.
    pub quota_exceeded: u64,
    /// Requests that were answered that they are not allowed.
    pub forbidden: u64,
    /// Attempts to deliver to webhook endpoints.
    pub deliveries: u64,
    /// Bytes of the bodies of requests.
    pub bytes_in: u64,
    /// Bytes of the bodies of answers.
    pub bytes_out: u64,
}

impl AddAssign for UsageCounts {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.rate_limited += more.rate_limited;
        self.quota_exceeded += more.quota_exceeded;
        self.forbidden += more.forbidden;
        self.deliveries += more.deliveries;
        self.bytes_in += more.bytes_in;
        self.bytes_out += more.bytes_out;
    }
}

/// The credential that something is counted for, as a store writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CountedCredential {
    /// Its code, as [`CredentialId::code`] gives it; 0: no credential of the account.
    pub code: i64,
    /// The rest of its identifier.
    pub tail: u64,
}

impl CountedCredential {
    /// What no credential of the account did: the server itself, the console, an operator.
    pub const NONE: CountedCredential = CountedCredential { code: 0, tail: 0 };

    /// The key that it is; none where it is something else.
    #[must_use]
    pub fn key(self) -> Option<KeyId> {
        let credential = CredentialId::from_code(Some(self.code), self.tail, None)?;
        match credential {
            CredentialId::Key(id) => (self != CountedCredential::NONE).then_some(id),
            CredentialId::Client(_)
            | CredentialId::Operator(_)
            | CredentialId::Session
            | CredentialId::Visitor
            | CredentialId::Server => None,
        }
    }

    /// The bits by which limits know it: those of a key's identifier, also where it is a client's.
    #[must_use]
    pub fn limit_bits(self) -> u128 {
        let number = u64::try_from(self.code & CredentialId::NUMBER_MASK).unwrap_or(0);
        KeyId::from_parts(EntityNumber(number), self.tail).bits()
    }

    /// Its identifier as the interface shows it; none for [`CountedCredential::NONE`].
    #[must_use]
    pub fn shown(self) -> Option<String> {
        CredentialId::from_code(Some(self.code), self.tail, None)
            .filter(|_| self != CountedCredential::NONE)
            .and_then(CredentialId::shown_in_activity)
    }
}

impl From<KeyId> for CountedCredential {
    fn from(id: KeyId) -> Self {
        CountedCredential {
            code: CredentialId::Key(id).code().unwrap_or_default(),
            tail: id.tail(),
        }
    }
}

impl From<ClientId> for CountedCredential {
    fn from(id: ClientId) -> Self {
        CountedCredential {
            code: CredentialId::Client(id).code().unwrap_or_default(),
            tail: id.tail(),
        }
    }
}

impl From<CredentialId> for CountedCredential {
    fn from(credential: CredentialId) -> Self {
        match credential {
            CredentialId::Key(id) => id.into(),
            CredentialId::Client(id) => id.into(),
            CredentialId::Operator(_)
            | CredentialId::Session
            | CredentialId::Visitor
            | CredentialId::Server => CountedCredential::NONE,
        }
    }
}

/// What an account used on one day, by one credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayUsage {
    /// When the day begins, in UTC.
    pub day: Timestamp,
    /// By which credential.
    pub credential: CountedCredential,
    /// What was counted.
    pub counts: UsageCounts,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::UserId;

    #[test]
    fn a_credential_of_the_account_is_known_by_its_identifier_and_no_other_one() {
        let at = Timestamp(1_773_570_600_000);
        let (key, client, user) = (KeyId::new(at), ClientId::new(at), UserId::new(at));
        for (credential, shown) in [
            (CredentialId::Key(key), Some(key.to_string())),
            (CredentialId::Client(client), Some(client.to_string())),
            (CredentialId::Operator(user), None),
            (CredentialId::Session, None),
            (CredentialId::Visitor, None),
            (CredentialId::Server, None),
        ] {
            assert_eq!(CountedCredential::from(credential).shown(), shown);
        }
        assert_eq!(CountedCredential::from(key).limit_bits(), key.bits());
    }
}
