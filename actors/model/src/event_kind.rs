//! The kinds of events, with their published names.

/// What happened: the kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the published event names say it")]
pub enum Happened {
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

impl Happened {
    /// Those that are published as events.
    pub const EVENTS: &[Happened] = &[
        Happened::ConversationCreated,
        Happened::ConversationUpdated,
        Happened::ConversationClosed,
        Happened::MessageCreated,
        Happened::MessageUpdated,
        Happened::DocumentCreated,
        Happened::DocumentUpdated,
        Happened::DocumentDeleted,
        Happened::DocumentRestored,
        Happened::DocumentVersionCreated,
        Happened::DocumentMerged,
        Happened::DocumentShared,
        Happened::DocumentPermissionsUpdated,
        Happened::DocumentCommented,
    ];

    /// Its published name; empty for what is no public event.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Happened::ConversationCreated => "conversation.created",
            Happened::ConversationUpdated => "conversation.updated",
            Happened::ConversationClosed => "conversation.closed",
            Happened::MessageCreated => "message.created",
            Happened::MessageUpdated => "message.updated",
            Happened::DocumentCreated => "document.created",
            Happened::DocumentUpdated => "document.updated",
            Happened::DocumentDeleted => "document.deleted",
            Happened::DocumentRestored => "document.restored",
            Happened::DocumentVersionCreated => "document.version_created",
            Happened::DocumentMerged => "document.merged",
            Happened::DocumentShared => "document.shared",
            Happened::DocumentPermissionsUpdated => "document.permissions_updated",
            Happened::DocumentCommented => "document.commented",
            Happened::RecordCreated | Happened::RecordUpdated | Happened::RecordDeleted => "",
        }
    }

    /// Whether it happens to documents.
    #[must_use]
    pub fn is_of_document(self) -> bool {
        (Happened::DocumentCreated as i64..=Happened::DocumentCommented as i64)
            .contains(&(self as i64))
    }

    /// The event of this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Happened::EVENTS
            .iter()
            .copied()
            .find(|happened| happened.word() == word)
    }

    /// The event that the store wrote so.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Happened::EVENTS
            .iter()
            .copied()
            .find(|happened| *happened as i64 == code)
    }
}
