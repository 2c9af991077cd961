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
    AccountQuotaWarning = 15,
    AccountRateLimited = 16,
    ConversationErased = 17,
    RecordCreated = 20,
    RecordUpdated = 21,
    RecordDeleted = 22,
    KeyRotated = 23,
    KeyRevoked = 24,
    WebhookSecretRotated = 25,
    WebhookDisabled = 26,
    UserInvited = 27,
    PasswordSet = 28,
    SessionOpened = 29,
    SessionClosed = 30,
    SessionChanged = 31,
    SupervisionChanged = 32,
    ConsentGiven = 33,
    ConsentWithdrawn = 34,
    AuthenticationRefused = 35,
    PermissionRefused = 36,
    SessionRefused = 37,
    ActorRestarted = 38,
    ActorPassivated = 39,
    ActorReleased = 40,
    ActorCrashed = 41,
    NodeDrained = 42,
    ClientSecretRotated = 43,
    TokenIssued = 44,
    SigningKeysRotated = 45,
    MasterKeyRotated = 46,
    AccountForgotten = 47,
    AnalyticsRebuilt = 48,
    BackupBegun = 49,
    AttachmentBegun = 50,
    AttachmentUploaded = 51,
    AttachmentTaken = 52,
    CustomerErased = 60,
    AttachmentErased = 61,
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
        EventKind::AccountQuotaWarning,
        EventKind::AccountRateLimited,
        EventKind::ConversationErased,
    ];

    /// Those that are no public events, and that the audit trail tells of by a name of their own.
    pub const ACTS: &[EventKind] = &[
        EventKind::KeyRotated,
        EventKind::KeyRevoked,
        EventKind::WebhookSecretRotated,
        EventKind::WebhookDisabled,
        EventKind::UserInvited,
        EventKind::PasswordSet,
        EventKind::SessionOpened,
        EventKind::SessionClosed,
        EventKind::SessionChanged,
        EventKind::SupervisionChanged,
        EventKind::ConsentGiven,
        EventKind::ConsentWithdrawn,
        EventKind::AuthenticationRefused,
        EventKind::PermissionRefused,
        EventKind::SessionRefused,
        EventKind::ActorRestarted,
        EventKind::ActorPassivated,
        EventKind::ActorReleased,
        EventKind::ActorCrashed,
        EventKind::NodeDrained,
        EventKind::ClientSecretRotated,
        EventKind::TokenIssued,
        EventKind::SigningKeysRotated,
        EventKind::MasterKeyRotated,
        EventKind::AccountForgotten,
        EventKind::AnalyticsRebuilt,
        EventKind::BackupBegun,
        EventKind::AttachmentBegun,
        EventKind::AttachmentUploaded,
        EventKind::AttachmentTaken,
        EventKind::CustomerErased,
        EventKind::AttachmentErased,
    ];

    /// Its published name, or the one that the audit trail has for it; empty for what is named by
    /// the kind of the record that it happened to.
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
            EventKind::AccountQuotaWarning => "account.quota_warning",
            EventKind::AccountRateLimited => "account.rate_limited",
            EventKind::ConversationErased => "conversation.erased",
            EventKind::KeyRotated => "key.rotated",
            EventKind::KeyRevoked => "key.revoked",
            EventKind::WebhookSecretRotated => "webhook.secret_rotated",
            EventKind::WebhookDisabled => "webhook.disabled",
            EventKind::UserInvited => "user.invited",
            EventKind::PasswordSet => "password.set",
            EventKind::SessionOpened => "session.opened",
            EventKind::SessionClosed => "session.closed",
            EventKind::SessionChanged => "session.changed",
            EventKind::SupervisionChanged => "supervision.changed",
            EventKind::ConsentGiven => "consent.given",
            EventKind::ConsentWithdrawn => "consent.withdrawn",
            EventKind::AuthenticationRefused => "auth.refused",
            EventKind::PermissionRefused => "permission.refused",
            EventKind::SessionRefused => "session.refused",
            EventKind::ActorRestarted => "actor.restarted",
            EventKind::ActorPassivated => "actor.passivated",
            EventKind::ActorReleased => "actor.released",
            EventKind::ActorCrashed => "actor.crashed",
            EventKind::NodeDrained => "node.drained",
            EventKind::ClientSecretRotated => "client.secret_rotated",
            EventKind::TokenIssued => "token.issued",
            EventKind::SigningKeysRotated => "signing_keys.rotated",
            EventKind::MasterKeyRotated => "master_key.rotated",
            EventKind::AccountForgotten => "account.forgotten",
            EventKind::AnalyticsRebuilt => "analytics.rebuilt",
            EventKind::BackupBegun => "backup.begun",
            EventKind::AttachmentBegun => "attachment.begun",
            EventKind::AttachmentUploaded => "attachment.uploaded",
            EventKind::AttachmentTaken => "attachment.taken",
            EventKind::CustomerErased => "customer.erased",
            EventKind::AttachmentErased => "attachment.erased",
            EventKind::RecordCreated | EventKind::RecordUpdated | EventKind::RecordDeleted => "",
        }
    }

    /// Whether the bytes of an attachment are there behind it.
    #[must_use]
    pub fn leaves_an_attachment(self) -> bool {
        matches!(
            self,
            EventKind::AttachmentUploaded | EventKind::AttachmentTaken
        )
    }

    /// Whether it ends an entity of which nothing may stay but identifiers and numbers: then its
    /// earlier rows may have lost their words.
    #[must_use]
    pub fn ends_with_its_words(self) -> bool {
        matches!(
            self,
            EventKind::ConversationErased
                | EventKind::DocumentDeleted
                | EventKind::CustomerErased
                | EventKind::AttachmentErased
        )
    }

    /// Whether it tells that something was refused.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        (EventKind::AuthenticationRefused as i64..=EventKind::SessionRefused as i64)
            .contains(&(self as i64))
    }

    /// What happened by the code that stands in a row, public event or not.
    #[must_use]
    pub fn of_row(code: i64) -> Option<Self> {
        const RECORDS: &[EventKind] = &[
            EventKind::RecordCreated,
            EventKind::RecordUpdated,
            EventKind::RecordDeleted,
        ];
        let all = [EventKind::EVENTS, RECORDS, EventKind::ACTS];
        let mut all = all.into_iter().flatten().copied();
        all.find(|kind| *kind as i64 == code)
    }

    /// Whether it happens to conversations.
    #[must_use]
    pub fn is_of_conversation(self) -> bool {
        self == EventKind::ConversationErased
            || (EventKind::ConversationCreated as i64..=EventKind::MessageUpdated as i64)
                .contains(&(self as i64))
    }

    /// Whether it tells an account that one of its limits is reached.
    #[must_use]
    pub fn is_alert(self) -> bool {
        matches!(
            self,
            EventKind::AccountQuotaWarning | EventKind::AccountRateLimited
        )
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
