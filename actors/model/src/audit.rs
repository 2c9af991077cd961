//! What the audit trail tells of what was done: the action, by a name, and whether it was refused.

use std::borrow::Cow;

use crate::entity::Kind;
use crate::event_kind::EventKind;

/// What was done, as a number of seven bits: a kind of event, or what happened to a kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuditAction(u8);

/// The first number of what happens to records; each kind has three.
const RECORDS: u8 = 64;
/// What may happen to a record that has no event of its own.
const OF_RECORDS: [(EventKind, &str); 3] = [
    (EventKind::RecordCreated, "created"),
    (EventKind::RecordUpdated, "updated"),
    (EventKind::RecordDeleted, "deleted"),
];

impl AuditAction {
    /// What this event did to an entity of this kind.
    #[must_use]
    pub fn of(entity: Kind, event: EventKind) -> Self {
        let place = OF_RECORDS.iter().position(|(kind, _)| *kind == event);
        match place.and_then(|place| u8::try_from(place).ok()) {
            Some(place) => AuditAction(RECORDS + (entity as u8).saturating_mul(3) + place),
            None => AuditAction(event as u8),
        }
    }

    /// Every action that the trail can tell of.
    pub fn all() -> impl Iterator<Item = AuditAction> {
        (1..128)
            .map(AuditAction)
            .filter(|action| action.parts().is_some())
    }

    /// The number by which a store writes it, less than 128.
    #[must_use]
    pub fn code(self) -> u8 {
        self.0
    }

    /// The event, and the kind of record that it happened to where it is no event of its own.
    #[must_use]
    pub fn parts(self) -> Option<(EventKind, Option<Kind>)> {
        let Some(of_record) = self.0.checked_sub(RECORDS) else {
            return Some((EventKind::of_row(self.0.into())?, None));
        };
        // What happens to these has names of its own.
        let kind = Kind::from_code(i64::from(of_record / 3)).filter(|kind| !kind.is_public())?;
        let (event, _) = OF_RECORDS.get(usize::from(of_record % 3))?;
        Some((*event, Some(kind)))
    }

    /// As the interface writes it, such as `key.created`.
    #[must_use]
    pub fn word(self) -> Cow<'static, str> {
        match self.parts() {
            Some((event, None)) => event.word().into(),
            Some((event, Some(kind))) => {
                let done = OF_RECORDS.iter().find(|(known, _)| *known == event);
                format!("{}.{}", kind.word(), done.map_or("", |(_, word)| word)).into()
            }
            None => Cow::default(),
        }
    }

    /// The action that the interface writes so.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        AuditAction::all().find(|action| !word.is_empty() && action.word() == word)
    }

    /// Whether it tells of a refusal.
    #[must_use]
    pub fn outcome(self) -> AuditOutcome {
        match self.parts() {
            Some((event, _)) if event.is_refusal() => AuditOutcome::Refused,
            Some(_) | None => AuditOutcome::Done,
        }
    }
}

crate::coded_enum! {
    /// What became of something that somebody wanted to do.
    AuditOutcome {
        /// The action was carried out.
        Done = 0 "done",
        /// The action was refused, and changed nothing.
        Refused = 1 "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_reads_back_by_its_name_and_no_two_have_one() {
        let key_created = AuditAction::of(Kind::Key, EventKind::RecordCreated);
        let message = AuditAction::of(Kind::Conversation, EventKind::MessageCreated);
        assert_eq!(key_created.word(), "key.created");
        assert_eq!(message.word(), "message.created");
        let named = AuditAction::all().filter(|one| !one.word().is_empty());
        let mut found = 0;
        for action in named {
            assert_eq!(AuditAction::from_word(&action.word()), Some(action));
            found += 1;
        }
        assert!(found > 60, "{found}");
        assert_eq!(AuditAction::from_word("key.eaten"), None);
    }

    #[test]
    fn what_is_refused_is_told_by_its_action() {
        let refused = AuditAction::of(Kind::Audit, EventKind::AuthenticationRefused);
        assert_eq!(refused.outcome(), AuditOutcome::Refused);
        let opened = AuditAction::of(Kind::User, EventKind::SessionOpened);
        assert_eq!(opened.outcome(), AuditOutcome::Done);
    }
}
