//! The rules of a conversation's messages, pure like those of its state: sending, editing,
//! redacting. What a message does to the conversation around it stands in `state`.

use super::draft::{Draft, to_json};
use super::messages::{ConversationError, EditMessage, SendMessage};
use super::state::{Asked, Conversation, Decided, Found, Live};
use crate::store::StoredMessage;
use colloquy_model::answer::{Answer, Invalid, Precondition};
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::Header;
use colloquy_model::conversation::{MessageType, SenderId, SenderType, Status};
use colloquy_model::id::{MessageId, UserId};
use colloquy_model::metadata::Metadata;
use colloquy_model::text::is_https_url;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Decision;

impl Conversation {
    pub(super) fn send(&self, live: &Live, send: SendMessage, asked: Asked) -> Decided {
        let said = said(live, send, asked.caller.by.user)?;
        let reopens =
            said.sender_type == SenderType::Customer && live.state.status != Status::Active;
        if live.state.status == Status::Closed && !reopens {
            return Err(ConversationError::Closed);
        }
        let mut draft = Draft::new(self.id, live.clone(), &asked);
        let (id, body) = draft.message(said);
        let mut header = Header::Unchanged;
        if reopens {
            let mut after = draft.live.state.clone();
            after.status = Status::Active;
            draft.become_state(after, None);
            header = draft.header(live);
        }
        let etag = Some((live.sequence + 1).to_string());
        let answer = Answer::created(id.to_string(), etag, body);
        Ok(draft.commit(asked, header, Vec::new(), answer, true))
    }

    pub(super) fn edit(
        &self,
        live: &Live,
        (id, edit): (MessageId, EditMessage),
        asked: Asked,
        if_match: Option<&Precondition>,
        found: Found,
    ) -> Decided {
        let held = held(id, live.tenant, found)?;
        check(&held, if_match)?;
        if held.now.redacted {
            return Err(ConversationError::Redacted);
        }
        let mut after = held.now.clone();
        if let Some(content) = edit.content {
            acceptable(after.kind, &content)?;
            after.content = content.into_string();
        }
        if let Some(patch) = &edit.metadata {
            let refused = |reason| ConversationError::Invalid(Invalid::new("metadata", reason));
            after.metadata = after.metadata.patched(patch.as_ref()).map_err(refused)?;
        }
        if after.content == held.now.content && after.metadata == held.now.metadata {
            return Ok(Decision::Answer(answer(&held)));
        }
        let edits_max = Bounds::get().message_edits_max;
        if held.edits >= edits_max {
            return Err(ConversationError::TooManyEdits(edits_max));
        }
        let mut draft = Draft::new(self.id, live.clone(), &asked);
        after.edited_at = Some(Timestamp(draft.live.updated_at));
        let body = draft.edited(&after, held.sequence);
        let etag = Some((live.sequence + 1).to_string());
        let answer = Answer::ok(etag, body);
        Ok(draft.commit(asked, Header::Unchanged, Vec::new(), answer, true))
    }

    pub(super) fn redact(
        &self,
        live: &Live,
        id: MessageId,
        asked: Asked,
        if_match: Option<&Precondition>,
        found: Found,
    ) -> Decided {
        let mut held = held(id, live.tenant, found)?;
        check(&held, if_match)?;
        let answer = Answer::deleted();
        if held.now.redacted {
            return Ok(Decision::Answer(answer));
        }
        let mut draft = Draft::new(self.id, live.clone(), &asked);
        held.now.erase();
        draft.edited(&held.now, held.sequence);
        draft.redacts = Some(held.sequence);
        Ok(draft.commit(asked, Header::Unchanged, Vec::new(), answer, true))
    }
}

/// The message as it stands, if it is this very one and the caller's own.
fn held(id: MessageId, tenant: Tenant, found: Found) -> Result<StoredMessage, ConversationError> {
    let found = found.filter(|found| found.tenant == tenant && found.now.message_id == id);
    found.ok_or(ConversationError::MessageNotFound)
}

fn check(held: &StoredMessage, if_match: Option<&Precondition>) -> Result<(), ConversationError> {
    let etag = held.latest.to_string();
    if if_match.is_some_and(|wanted| !wanted.holds(&etag)) {
        Err(ConversationError::Precondition)
    } else {
        Ok(())
    }
}

fn answer(held: &StoredMessage) -> Answer {
    let etag = Some(held.latest.to_string());
    Answer::ok(etag, to_json(&held.now))
}

/// A message as it is read by itself: the answer to a GET.
///
/// # Errors
/// There is no such message for this caller.
pub(super) fn read_message(
    id: MessageId,
    tenant: Tenant,
    found: Found,
) -> Result<Answer, ConversationError> {
    held(id, tenant, found).map(|held| answer(&held))
}

/// What a message is to say.
pub(super) struct NewMessage {
    pub(super) content: String,
    pub(super) kind: MessageType,
    pub(super) sender_type: SenderType,
    pub(super) sender_id: Option<SenderId>,
    pub(super) metadata: Metadata,
}

fn said(
    live: &Live,
    send: SendMessage,
    acting: Option<UserId>,
) -> Result<NewMessage, ConversationError> {
    let kind = send.kind.unwrap_or(MessageType::Text);
    acceptable(kind, &send.content)?;
    let by_default = if acting.is_some() {
        SenderType::Agent
    } else {
        SenderType::Customer
    };
    let sender_type = send.sender_type.unwrap_or(by_default);
    let refused = |reason: &str| {
        Err(ConversationError::Invalid(Invalid::new(
            "sender_id",
            reason,
        )))
    };
    let sender_id = match (sender_type, send.sender_id) {
        (SenderType::Customer, None) => Some(SenderId::Customer(live.state.customer)),
        (SenderType::Agent, None) => acting.map(SenderId::User),
        (SenderType::System, None) => None,
        (SenderType::Customer, Some(SenderId::User(_))) => {
            return refused("must be a customer's ID for a customer");
        }
        (SenderType::Agent, Some(SenderId::Customer(_))) => {
            return refused("must be a user's ID for an agent");
        }
        (SenderType::System, Some(_)) => return refused("must be left out for the system"),
        (SenderType::Customer | SenderType::Agent, given @ Some(_)) => given,
    };
    Ok(NewMessage {
        content: send.content.into_string(),
        kind,
        sender_type,
        sender_id,
        metadata: send.metadata,
    })
}

fn acceptable(kind: MessageType, content: &str) -> Result<(), ConversationError> {
    let refused = |reason| ConversationError::Invalid(Invalid::new("content", reason));
    match kind {
        MessageType::Text => Ok(()),
        MessageType::Image | MessageType::File => is_https_url(content).map_err(refused),
    }
}
