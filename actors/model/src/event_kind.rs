//! The kinds of events, with their published names.

/// What happened: the kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the published event names say it")]
pub enum EventKind {
    ConversationCreated = 1,
    ConversationUpdated = 2,
    ConversationClosed = 3,
    MessageCreated = 4,
    MessageUpdated = 5,
    DocumentCreated = 6,
    DocumentUpdated = 7,
    DocumentDeleted = 8,
    DocumentRestored = 9,
    DocumentVersionCreated = 10,
    DocumentMerged = 11,
    DocumentShared = 12,
    DocumentPermissionsUpdated = 13,
    DocumentCommented = 14,
    RecordCreated = 20,
    RecordUpdated = 21,
    RecordDeleted = 22,
}

impl EventKind {
    /// Those that are published as events.
    pub const EVENTS: &[EventKind] = &[
        EventKind::ConversationCreated,
        EventKind::ConversationUpdated,
        EventKind::ConversationClosed,
        EventKind::MessageCreated,
        EventKind::MessageUpdated,
        EventKind::DocumentCreated,
        EventKind::DocumentUpdated,
        EventKind::DocumentDeleted,
        EventKind::DocumentRestored,
        EventKind::DocumentVersionCreated,
        EventKind::DocumentMerged,
        EventKind::DocumentShared,
        EventKind::DocumentPermissionsUpdated,
        EventKind::DocumentCommented,
    ];

    /// Its published name; empty for what is no public event.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            EventKind::ConversationCreated => "conversation.created",
            EventKind::ConversationUpdated => "conversation.updated",
            EventKind::ConversationClosed => "conversation.closed",
            EventKind::MessageCreated => "message.created",
            EventKind::MessageUpdated => "message.updated",
            EventKind::DocumentCreated => "document.created",
            EventKind::DocumentUpdated => "document.updated",
            EventKind::DocumentDeleted => "document.deleted",
            EventKind::DocumentRestored => "document.restored",
            EventKind::DocumentVersionCreated => "document.version_created",
            EventKind::DocumentMerged => "document.merged",
            EventKind::DocumentShared => "document.shared",
            EventKind::DocumentPermissionsUpdated => "document.permissions_updated",
            EventKind::DocumentCommented => "document.commented",
            EventKind::RecordCreated | EventKind::RecordUpdated | EventKind::RecordDeleted => "",
        }
    }

    /// Whether it happens to documents.
    #[must_use]
    pub fn is_of_document(self) -> bool {
        (EventKind::DocumentCreated as i64..=EventKind::DocumentCommented as i64)
            .contains(&(self as i64))
    }

    /// The kind of event that the interface calls by this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        EventKind::EVENTS
            .iter()
            .copied()
            .find(|kind| kind.word() == word)
    }

    /// The event that the store wrote so.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        EventKind::EVENTS
            .iter()
            .copied()
            .find(|kind| *kind as i64 == code)
    }
}
