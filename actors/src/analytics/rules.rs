//! The rules: what an event does to the figures. Pure: no clock, no store.

use serde::Deserialize;

use crate::store::Made;
use colloquy_model::caller::{CredentialCode, Tenant};
use colloquy_model::conversation::{Channel, Priority, SenderType, Status};
use colloquy_model::damage::Unreadable;
use colloquy_model::event::Event;
use colloquy_model::event_kind::EventKind;
use colloquy_model::figures::{Figures, Group, Milestones};
use colloquy_model::id::{ConversationId, UserId};
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// What an event comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// What is counted for which group, in the intervals of the event's instant.
    pub(super) figures: Vec<(Group, Figures)>,
    /// The conversation's milestones from here on, where the event changes them.
    pub(super) milestones: Option<Milestones>,
    /// Who has the conversation from here on; none where nobody has, or where the event does not
    /// say it.
    pub(super) assignee: Option<UserId>,
    /// What was made, for the credential and on the day of the event.
    pub(super) made: Made,
    /// How many messages are no more.
    pub(super) erased_messages: u64,
}

/// What the data of a conversation's event say, as far as it counts.
#[derive(Deserialize)]
struct ConversationData {
    conversation_id: ConversationId,
    status: Status,
    assignee_id: Option<UserId>,
    #[serde(default)]
    changes: Changes,
}

/// What the conversation was before, of what has changed.
#[derive(Default, Deserialize)]
struct Changes {
    status: Option<Change<Status>>,
    channel: Option<Change<Channel>>,
    priority: Option<Change<Priority>>,
    assignee_id: Option<Change<Option<UserId>>>,
}

#[derive(Deserialize)]
struct Change<T> {
    from: T,
}

/// What the data of a message's event say, as far as it counts.
#[derive(Deserialize)]
struct MessageData {
    conversation_id: ConversationId,
    sender_type: SenderType,
}

/// What the data of a conversation that is gone say, as far as it counts.
#[derive(Deserialize)]
struct ErasedData {
    message_count: u64,
}

/// What an event says, as far as it counts; without its texts, so that it can wait.
#[derive(Debug, Clone)]
pub(super) struct Occurrence {
    pub(super) position: Position,
    pub(super) tenant: Tenant,
    pub(super) at: Timestamp,
    pub(super) credential: Option<CredentialCode>,
    /// How many bytes it added to the texts of the account.
    pub(super) text_bytes: i64,
    pub(super) happened: Happened,
}

/// What happened.
#[derive(Debug, Clone)]
pub(super) enum Happened {
    /// A conversation was created.
    Created {
        group: Group,
        assignee: Option<UserId>,
    },
    /// A conversation was changed or closed.
    Changed {
        conversation: ConversationId,
        before: Group,
        after: Group,
        was_open: bool,
        is_open: bool,
        assignee: Option<UserId>,
    },
    /// A message was sent.
    Message {
        conversation: ConversationId,
        group: Group,
        sender: SenderType,
    },
    /// A document was made.
    Document,
    /// A conversation was taken away with so many messages; what was counted of it stays.
    Erased(u64),
    /// Texts became more or fewer, and nothing else that is counted.
    Texts,
}

/// Reads an event; none where nothing is counted of its kind.
///
/// # Errors
/// The event can't be read, which was told.
pub(super) fn occurrence(event: &Event) -> Result<Option<Occurrence>, Unreadable> {
    let happened = if event.kind == EventKind::ConversationCreated {
        let data: ConversationData = data_of(event)?;
        Happened::Created {
            group: group_of(event)?,
            assignee: data.assignee_id,
        }
    } else if CHANGES.contains(&event.kind) {
        changed(event)?
    } else if event.kind == EventKind::MessageCreated {
        let data: MessageData = data_of(event)?;
        Happened::Message {
            conversation: data.conversation_id,
            group: group_of(event)?,
            sender: data.sender_type,
        }
    } else if event.kind == EventKind::ConversationErased {
        Happened::Erased(data_of::<ErasedData>(event)?.message_count)
    } else if event.kind == EventKind::DocumentCreated {
        Happened::Document
    } else if event.text_bytes != 0 {
        Happened::Texts
    } else {
        return Ok(None);
    };
    Ok(Some(Occurrence {
        position: event.position,
        tenant: event.tenant,
        at: event.at,
        credential: event.credential,
        text_bytes: event.text_bytes,
        happened,
    }))
}

/// The kinds whose data say what a conversation was before.
const CHANGES: [EventKind; 2] = [
    EventKind::ConversationUpdated,
    EventKind::ConversationClosed,
];

fn changed(event: &Event) -> Result<Happened, Unreadable> {
    let data: ConversationData = data_of(event)?;
    let Changes {
        status,
        channel,
        priority,
        assignee_id,
    } = data.changes;
    let after = group_of(event)?;
    let before = Group {
        channel: channel.map_or(after.channel, |change| change.from),
        priority: priority.map_or(after.priority, |change| change.from),
        assignee: assignee_id.map_or(after.assignee, |change| {
            change.from.map(|user| user.number())
        }),
    };
    let status_before = status.map_or(data.status, |change| change.from);
    Ok(Happened::Changed {
        conversation: data.conversation_id,
        before,
        after,
        was_open: status_before != Status::Closed,
        is_open: data.status != Status::Closed,
        assignee: data.assignee_id,
    })
}

impl Occurrence {
    /// The conversation whose milestones have to be known before this is counted.
    pub(super) fn needs_milestones(&self) -> Option<ConversationId> {
        match self.happened {
            Happened::Message {
                conversation,
                sender: SenderType::Agent,
                ..
            } => Some(conversation),
            Happened::Changed {
                conversation,
                was_open,
                is_open,
                ..
            } if was_open != is_open => Some(conversation),
            Happened::Changed { .. }
            | Happened::Message { .. }
            | Happened::Created { .. }
            | Happened::Document
            | Happened::Erased(_)
            | Happened::Texts => None,
        }
    }

    /// What it comes to. `milestones` is what the events before it have made of its conversation;
    /// none: nothing but its creation.
    pub(super) fn counted(&self, milestones: Option<Milestones>) -> Counted {
        let mut counted = self.counted_event(milestones);
        counted.made.text_bytes = self.text_bytes;
        counted
    }

    fn counted_event(&self, milestones: Option<Milestones>) -> Counted {
        match &self.happened {
            Happened::Created { group, assignee } => Counted {
                figures: vec![(
                    *group,
                    Figures {
                        created: 1,
                        opened: 1,
                        ..Figures::default()
                    },
                )],
                assignee: *assignee,
                ..Counted::default()
            },
            Happened::Changed { .. } => self.counted_change(milestones),
            Happened::Message {
                conversation,
                group,
                sender,
            } => self.counted_message(*conversation, *group, *sender, milestones),
            Happened::Document => Counted {
                made: Made {
                    documents: 1,
                    ..Made::default()
                },
                ..Counted::default()
            },
            Happened::Erased(messages) => Counted {
                erased_messages: *messages,
                ..Counted::default()
            },
            Happened::Texts => Counted::default(),
        }
    }

    fn counted_change(&self, milestones: Option<Milestones>) -> Counted {
        let Happened::Changed {
            conversation,
            before,
            after,
            was_open,
            is_open,
            assignee,
        } = self.happened
        else {
            return Counted::default();
        };
        let milestones = milestones.unwrap_or_else(|| Milestones::new(conversation.created_at()));
        let (closes, reopens) = (was_open && !is_open, !was_open && is_open);
        let left = Figures {
            opened: -i64::from(was_open),
            ..Figures::default()
        };
        let mut joined = Figures {
            closed: u64::from(closes),
            reopened: u64::from(reopens),
            opened: i64::from(is_open),
            ..Figures::default()
        };
        if closes {
            let open_for = self.at.since(milestones.opened_at);
            joined.resolution.add(whole_ms(open_for));
        }
        // What stays open in its group moves nothing.
        let figures = if before == after && was_open == is_open {
            Vec::new()
        } else {
            vec![(before, left), (after, joined)]
        };
        Counted {
            figures,
            milestones: reopens.then_some(Milestones {
                opened_at: self.at,
                ..milestones
            }),
            assignee,
            ..Counted::default()
        }
    }

    fn counted_message(
        &self,
        conversation: ConversationId,
        group: Group,
        sender: SenderType,
        milestones: Option<Milestones>,
    ) -> Counted {
        let created_at = conversation.created_at();
        let milestones = milestones.unwrap_or_else(|| Milestones::new(created_at));
        let answers = sender == SenderType::Agent && !milestones.is_answered;
        let mut figures = Figures::default();
        figures.messages.add(sender);
        if answers {
            let waited = self.at.since(created_at);
            figures.first_response.add(whole_ms(waited));
        }
        Counted {
            figures: vec![(group, figures)],
            milestones: answers.then_some(Milestones {
                is_answered: true,
                ..milestones
            }),
            assignee: None,
            made: Made {
                messages: 1,
                ..Made::default()
            },
            erased_messages: 0,
        }
    }
}

/// The group of the event's conversation as of its commit.
fn group_of(event: &Event) -> Result<Group, Unreadable> {
    let group = event.channel.zip(event.priority);
    let (channel, priority) = group.ok_or_else(|| unreadable(event, "it has no channel"))?;
    Ok(Group {
        channel,
        priority,
        assignee: event.assignee,
    })
}

fn data_of<'e, T: Deserialize<'e>>(event: &'e Event) -> Result<T, Unreadable> {
    serde_json::from_slice(&event.payload).map_err(|error| unreadable(event, error))
}

fn unreadable(event: &Event, error: impl std::fmt::Display) -> Unreadable {
    Unreadable::found(format_args!("event at position {}", event.position), error)
}

fn whole_ms(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use colloquy_model::event::{EventRow, SeenNow};
    use colloquy_model::figures::Messages;
    use colloquy_model::sequence::Sequence;
    use colloquy_model::stream::FeedNumber;
    use serde_json::{Value, json};

    const CREATED_AT: Timestamp = Timestamp(1_790_000_000_000);

    /// A conversation whose events are made one after the other, with the figures that they come to.
    struct History {
        id: ConversationId,
        group: Group,
        milestones: Option<Milestones>,
    }

    impl History {
        fn new() -> Self {
            History {
                id: ConversationId::new(CREATED_AT),
                group: Group {
                    channel: Channel::Chat,
                    priority: Priority::Normal,
                    assignee: None,
                },
                milestones: None,
            }
        }

        fn happens(&mut self, after_ms: i64, kind: EventKind, data: Value) -> Counted {
            let mut payload = data;
            if let Some(fields) = payload.as_object_mut() {
                fields.insert("conversation_id".to_owned(), json!(self.id));
            }
            let row = EventRow {
                position: Position(1),
                tenant: Tenant::OPERATORS,
                number: FeedNumber::default(),
                entity: self.id.number(),
                sequence: Sequence::default(),
                kind,
                at: Timestamp(CREATED_AT.0 + after_ms),
                credential: None,
                text_bytes: 0,
            };
            let seen = SeenNow {
                channel: Some(self.group.channel),
                priority: Some(self.group.priority),
                assignee: self.group.assignee,
            };
            let event = Event::new(row, seen, Bytes::from(payload.to_string()));
            let read = occurrence(&event).unwrap_or_default();
            let counted = read
                .map(|read| read.counted(self.milestones))
                .unwrap_or_default();
            self.milestones = counted.milestones.or(self.milestones);
            counted
        }

        fn says(&mut self, after_ms: i64, sender: &str) -> Figures {
            let data = json!({"sender_type": sender, "content": "words"});
            total(&self.happens(after_ms, EventKind::MessageCreated, data))
        }

        fn becomes(&mut self, after_ms: i64, from: &str, to: &str) -> Figures {
            let kind = if to == "closed" {
                EventKind::ConversationClosed
            } else {
                EventKind::ConversationUpdated
            };
            let changes = json!({"status": {"from": from, "to": to}});
            let data = json!({"status": to, "assignee_id": null, "changes": changes});
            total(&self.happens(after_ms, kind, data))
        }
    }

    fn total(counted: &Counted) -> Figures {
        let mut total = Figures::default();
        counted
            .figures
            .iter()
            .for_each(|(_, figures)| total.merge(figures));
        total
    }

    #[test]
    fn a_first_response_is_the_first_message_of_an_agent_and_no_other() {
        let mut history = History::new();
        let creation = json!({"status": "active", "assignee_id": null});
        let created = total(&history.happens(0, EventKind::ConversationCreated, creation));
        assert_eq!((created.created, created.opened), (1, 1));
        for (after_ms, sender, responses) in [
            (10, "customer", None),
            (20, "system", None),
            (30, "agent", Some(30)),
            (40, "agent", None),
        ] {
            let figures = history.says(after_ms, sender);
            assert_eq!(figures.first_response.mean_ms(), responses, "{sender}");
            let Messages {
                customer,
                agent,
                system,
            } = figures.messages;
            assert_eq!(customer + agent + system, 1);
        }
        // Neither closing nor reopening begins it anew.
        history.becomes(50, "active", "closed");
        history.becomes(60, "closed", "active");
        assert!(history.says(70, "agent").first_response.is_empty());
    }

    #[test]
    fn a_resolution_is_from_the_creation_or_the_latest_reopening_to_the_closing() {
        let mut history = History::new();
        assert_eq!(history.becomes(5, "active", "pending"), Figures::default());
        let closed = history.becomes(100, "pending", "closed");
        assert_eq!((closed.closed, closed.opened), (1, -1));
        assert_eq!(closed.resolution.mean_ms(), Some(100));
        let reopened = history.becomes(250, "closed", "active");
        assert_eq!((reopened.reopened, reopened.opened), (1, 1));
        assert!(reopened.resolution.is_empty());
        assert_eq!(
            history
                .becomes(251, "active", "closed")
                .resolution
                .mean_ms(),
            Some(1)
        );
    }

    #[test]
    fn an_open_conversation_that_changes_its_group_leaves_the_one_and_joins_the_other() {
        let mut history = History::new();
        let before = history.group;
        let user = UserId::new(CREATED_AT);
        history.group = Group {
            channel: Channel::Email,
            priority: Priority::High,
            assignee: Some(user.number()),
        };
        let change = |from: Value, to: Value| json!({"from": from, "to": to});
        let mut changes = json!({
            "channel": change(json!("chat"), json!("email")),
            "priority": change(json!("normal"), json!("high")),
            "assignee_id": change(Value::Null, json!(user)),
        });
        let data = json!({"status": "active", "assignee_id": user, "changes": changes.clone()});
        let counted = history.happens(1, EventKind::ConversationUpdated, data);
        assert_eq!(counted.assignee, Some(user));
        let opened: Vec<_> = counted
            .figures
            .iter()
            .map(|(group, figures)| (*group, figures.opened))
            .collect();
        assert_eq!(opened, [(before, -1), (history.group, 1)]);
        // One that closes meanwhile leaves its old group, and is closed in the new one.
        if let Some(changes) = changes.as_object_mut() {
            changes.insert(
                "status".to_owned(),
                change(json!("active"), json!("closed")),
            );
        }
        let data = json!({"status": "closed", "assignee_id": user, "changes": changes});
        let counted = history.happens(2, EventKind::ConversationClosed, data);
        let opened: Vec<_> = counted
            .figures
            .iter()
            .map(|(group, figures)| (*group, figures.opened, figures.closed))
            .collect();
        assert_eq!(opened, [(before, -1, 0), (history.group, 0, 1)]);
    }

    #[test]
    fn what_changes_nothing_that_counts_comes_to_nothing() {
        let mut history = History::new();
        let data = json!({"status": "active", "assignee_id": null, "changes": {"metadata": {"from": {}, "to": {"a": 1}}}});
        let counted = history.happens(1, EventKind::ConversationUpdated, data);
        assert_eq!(counted, Counted::default());
        let edited = history.happens(
            2,
            EventKind::MessageUpdated,
            json!({"sender_type": "agent"}),
        );
        assert_eq!(edited, Counted::default());
    }
}
