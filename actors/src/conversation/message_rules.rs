//! The rules of a conversation's messages, pure like those of the conversation itself: sending,
//! editing, redacting.

use super::context::{CheckContext, CommandContext, OfferedAttachment};
use super::draft::{Draft, NewMessage};
use super::messages::{ConversationError, RedactMessage, ReviseMessage, SendMessage};
use super::rules::{ConversationRequest, Decided, invalid};
use super::state::Live;
use crate::store::StoredMessage;
use colloquy_model::answer::Answer;
use colloquy_model::attachment::{AttachmentView, is_shown};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::Condition;
use colloquy_model::conversation::{MessageType, SenderId, SenderType, Status};
use colloquy_model::id::{AttachmentId, CustomerId, MessageId, UserId};
use colloquy_model::json::bytes;
use colloquy_model::text::is_https_url;
use colloquy_runtime::Decision;

/// Why an attachment can't be taken.
pub(super) const NO_ATTACHMENT: &str = "must be a valid attachment ID";

impl ConversationRequest for SendMessage {
    type Reply = Answer;

    fn check(&self, context: &CheckContext<'_>) -> Result<(), ConversationError> {
        let kind = self.kind.unwrap_or(MessageType::Text);
        match (kind, &self.content, self.attachment_id) {
            (MessageType::Text, _, Some(_)) => {
                return Err(invalid("attachment_id", "must be left out of a text"));
            }
            (_, Some(_), Some(_)) => {
                return Err(invalid("content", "must be left out beside attachment_id"));
            }
            (_, None, None) => return Err(invalid("content", "is required")),
            (_, Some(_), None) | (MessageType::Image | MessageType::File, None, Some(_)) => {}
        }
        match self.sender_id {
            Some(SenderId::User(user)) if !context.is_user(user) => {
                Err(invalid("sender_id", "must be a valid user ID"))
            }
            Some(SenderId::User(_) | SenderId::Customer(_)) | None => Ok(()),
        }
    }

    fn sending_customer(&self) -> Option<CustomerId> {
        match self.sender_id {
            Some(SenderId::Customer(customer)) => Some(customer),
            Some(SenderId::User(_)) | None => None,
        }
    }

    fn attachment(&self) -> Option<AttachmentId> {
        self.attachment_id
    }

    /// A customer's message makes the conversation active.
    fn decide(self, live: &Live, mut context: CommandContext) -> Decided<Answer> {
        let offered = context.attachment.take();
        let taking = offered.as_ref().map(|offered| {
            Condition::AttachmentUnchanged(offered.view.attachment_id, offered.sequence)
        });
        let new = new_message(live, self, (context.caller.actor.user, offered))?;
        let reopens =
            new.sender_type == SenderType::Customer && live.state.status != Status::Active;
        if live.state.status == Status::Closed && !reopens {
            return Err(ConversationError::Closed);
        }
        let mut draft = Draft::new(live.clone(), &context);
        let added = draft.message(new);
        if reopens {
            let mut after = draft.live.state.clone();
            after.status = Status::Active;
            draft.become_state(after, None);
        }
        let etag = Some(live.sequence.next().to_string());
        let answer = Answer::created(added.id.to_string(), etag, added.body);
        Ok(draft.commit(context, taking.into_iter().collect(), answer))
    }
}

impl ConversationRequest for ReviseMessage {
    type Reply = Answer;

    fn message(&self) -> Option<MessageId> {
        Some(self.message)
    }

    fn decide(self, live: &Live, mut context: CommandContext) -> Decided<Answer> {
        let held = asked_about(self.message, live, &mut context)?;
        if held.now.redacted {
            return Err(ConversationError::Redacted);
        }
        let mut after = held.now.clone();
        if let Some(content) = self.edit.content {
            if after.attachment.is_some() {
                return Err(invalid("content", "is where the attachment is read"));
            }
            acceptable(after.kind, &content)?;
            after.content = content.into_string();
        }
        if let Some(patch) = &self.edit.metadata {
            let patched = after.metadata.patched(patch.as_ref());
            after.metadata = patched.map_err(|reason| invalid("metadata", &reason))?;
        }
        if after.content == held.now.content && after.metadata == held.now.metadata {
            return Ok(Decision::Answer(answer(&held)));
        }
        let edits_max = context.bounds.message_edits_max;
        if held.edits >= edits_max {
            return Err(ConversationError::TooManyEdits(edits_max));
        }
        let mut draft = Draft::new(live.clone(), &context);
        after.edited_at = Some(draft.live.updated_at);
        let body = draft.edited(&held, &after);
        let etag = Some(live.sequence.next().to_string());
        Ok(draft.commit(context, Vec::new(), Answer::ok(etag, body)))
    }
}

impl ConversationRequest for RedactMessage {
    type Reply = Answer;

    fn message(&self) -> Option<MessageId> {
        Some(self.message)
    }

    fn decide(self, live: &Live, mut context: CommandContext) -> Decided<Answer> {
        let held = asked_about(self.message, live, &mut context)?;
        if held.now.redacted {
            return Ok(Decision::Answer(Answer::deleted()));
        }
        let mut draft = Draft::new(live.clone(), &context);
        let mut left = held.now.clone();
        left.erase();
        draft.redacted(&held, &left);
        Ok(draft.commit(context, Vec::new(), Answer::deleted()))
    }
}

/// The message that a request is about, in the state in which the caller wants it.
fn asked_about(
    id: MessageId,
    live: &Live,
    context: &mut CommandContext,
) -> Result<StoredMessage, ConversationError> {
    let held = own_message(id, live.tenant, context.message.take())?;
    context.check_etag(|| held.latest.to_string())?;
    Ok(held)
}

/// The message that was found, if it is this very one and the tenant's own.
fn own_message(
    id: MessageId,
    tenant: Tenant,
    found: Option<StoredMessage>,
) -> Result<StoredMessage, ConversationError> {
    let own = found.filter(|found| found.tenant == tenant && found.now.message_id == id);
    own.ok_or(ConversationError::MessageNotFound)
}

fn answer(held: &StoredMessage) -> Answer {
    let etag = Some(held.latest.to_string());
    Answer::ok(etag, bytes(&held.now))
}

/// The answer to a GET of a message by itself.
///
/// # Errors
/// There is no such message for this caller.
pub(super) fn read_message(
    id: MessageId,
    tenant: Tenant,
    found: Option<StoredMessage>,
) -> Result<Answer, ConversationError> {
    own_message(id, tenant, found).map(|held| answer(&held))
}

/// The message that a caller wants to send, with what follows where it says nothing.
fn new_message(
    live: &Live,
    send: SendMessage,
    (acting, offered): (Option<UserId>, Option<OfferedAttachment>),
) -> Result<NewMessage, ConversationError> {
    let kind = send.kind.unwrap_or(MessageType::Text);
    let content = match (send.content, &offered) {
        (Some(content), _) => {
            acceptable(kind, &content)?;
            content.into_string()
        }
        (None, Some(offered)) => {
            check_kind(kind, &offered.view)?;
            offered.url.clone()
        }
        (None, None) => return Err(invalid("content", "is required")),
    };
    let by_default = if acting.is_some() {
        SenderType::Agent
    } else {
        SenderType::Customer
    };
    let sender_type = send.sender_type.unwrap_or(by_default);
    let refused = |reason: &str| Err(invalid("sender_id", reason));
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
        content,
        kind,
        sender_type,
        sender_id,
        metadata: send.metadata,
        attachment: offered,
    })
}

/// What is called an image is one that is shown as such, whatever its sender has declared.
fn check_kind(kind: MessageType, attachment: &AttachmentView) -> Result<(), ConversationError> {
    match kind {
        MessageType::Image if !is_shown(&attachment.content_type) => Err(invalid(
            "attachment_id",
            "must be a PNG, JPEG, GIF or WebP image: any other file goes with a message of type file",
        )),
        MessageType::Image | MessageType::File | MessageType::Text => Ok(()),
    }
}

fn acceptable(kind: MessageType, content: &str) -> Result<(), ConversationError> {
    match kind {
        MessageType::Text => Ok(()),
        MessageType::Image | MessageType::File => {
            is_https_url(content).map_err(|reason| invalid("content", &reason))
        }
    }
}
