//! What an export reads of the collections beside the log: documents as they stand there, and the
//! things of a dump that they become.

use std::collections::BTreeMap;

use mongodb::bson::Binary;
use serde::Deserialize;

use super::delivery_documents::DeliveryDocument;
use super::header::StateDocument;
use crate::store::{
    Base64, ConversationItem, CounterItem, DeliveryItem, DocumentItem, EndpointItem, FigureItem,
    LinkUseItem, MadeItem, MilestonesItem, NameItem, ReaderItem, RecordItem, ReplayItem,
    TakenAttachmentItem, Text, TransferError, VersionItem,
};
use colloquy_model::event_kind::EventKind;

/// A conversation as its collection has it.
#[derive(Deserialize)]
pub(super) struct ConversationRow {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
    tenant: i64,
    #[serde(flatten)]
    state: StateDocument,
    #[serde(default)]
    customer_name: String,
    #[serde(default)]
    customer_revision: i64,
    seq: i64,
    messages: i64,
    last_message_at: Option<i64>,
    updated_at: i64,
}

impl ConversationRow {
    pub(super) fn item(self) -> ConversationItem {
        let state = self.state;
        ConversationItem {
            number: self.number,
            tail: self.tail,
            tenant: self.tenant,
            customer: state.customer,
            customer_tail: state.customer_tail,
            customer_name: self.customer_name,
            customer_revision: self.customer_revision,
            status: state.status.into(),
            channel: state.channel.into(),
            priority: state.priority.into(),
            assignee: state.assignee,
            assignee_tail: state.assignee_tail,
            metadata: Text(state.metadata.into_bytes()),
            closed_at: state.closed_at,
            snoozed_until: state.snoozed_until,
            activated_at: state.activated_at,
            seq: self.seq,
            messages: self.messages,
            last_message_at: self.last_message_at,
            updated_at: self.updated_at,
        }
    }
}

/// A record as its collection has it.
#[derive(Deserialize)]
pub(super) struct RecordRow {
    #[serde(rename = "_id")]
    pub(super) number: i64,
    tail: i64,
    kind: i32,
    tenant: i64,
    seq: i64,
    name: String,
    body: String,
}

impl RecordRow {
    pub(super) fn item(self, names: Vec<NameItem>) -> RecordItem {
        RecordItem {
            number: self.number,
            tail: self.tail,
            kind: self.kind.into(),
            tenant: self.tenant,
            seq: self.seq,
            name: self.name,
            body: Text(self.body.into_bytes()),
            names,
        }
    }
}

/// A name that a record has.
#[derive(Deserialize)]
pub(super) struct NameRow {
    pub(super) field: i32,
    pub(super) value: String,
}

/// A name by which a conversation has taken an attachment.
#[derive(Deserialize)]
pub(super) struct TakenRow {
    tenant: i64,
    value: String,
    record: i64,
}

impl TakenRow {
    pub(super) fn item(self) -> TakenAttachmentItem {
        TakenAttachmentItem {
            tenant: self.tenant,
            attachment: self.value,
            conversation: self.record,
        }
    }
}

/// The identifier of a record that is gone.
#[derive(Deserialize)]
pub(super) struct GoneRow {
    #[serde(rename = "_id")]
    pub(super) number: i64,
    pub(super) tail: i64,
}

/// A document as its collection has it.
#[derive(Deserialize)]
pub(super) struct DocumentRow {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
    tenant: i64,
    seq: i64,
    updated_at: i64,
    title: String,
    content_type: i64,
    owner: Option<i64>,
    deleted_at: Option<i64>,
    body: String,
    #[serde(default)]
    readers: Vec<String>,
    #[serde(default)]
    links: Vec<Binary>,
    share_links: Option<String>,
    #[serde(default)]
    link_uses: BTreeMap<String, i64>,
    anchors: Option<Binary>,
}

impl DocumentRow {
    pub(super) fn item(self) -> DocumentItem {
        // Whoever has a role has those below it.
        let mut roles: BTreeMap<i64, i64> = BTreeMap::new();
        for reader in &self.readers {
            let (user, role) = reader.split_once('.').unwrap_or_default();
            if let (Ok(user), Ok(role)) = (i64::from_str_radix(user, 16), role.parse()) {
                let held = roles.entry(user).or_insert(role);
                *held = role.max(*held);
            }
        }
        let roles = roles.into_iter();
        let mut uses: Vec<LinkUseItem> = self
            .link_uses
            .into_iter()
            .filter_map(|(share, uses)| {
                let share = share.parse().ok()?;
                Some(LinkUseItem { share, uses })
            })
            .collect();
        uses.sort_unstable_by_key(|used| used.share);
        DocumentItem {
            number: self.number,
            tail: self.tail,
            tenant: self.tenant,
            seq: self.seq,
            updated_at: self.updated_at,
            title: self.title,
            content_type: self.content_type,
            owner: self.owner,
            deleted_at: self.deleted_at,
            body: Text(self.body.into_bytes()),
            readers: roles
                .map(|(user, role)| ReaderItem { user, role })
                .collect(),
            links: self
                .links
                .into_iter()
                .map(|link| Base64(link.bytes))
                .collect(),
            share_links: self.share_links.map(|links| Text(links.into_bytes())),
            link_uses: uses,
            anchors: self.anchors.map(|anchors| Base64(anchors.bytes)),
        }
    }
}

/// A version as its collection has it.
#[derive(Deserialize)]
pub(super) struct VersionRow {
    document: i64,
    number: i64,
    id_number: i64,
    id_tail: i64,
    label: Option<String>,
    branch: String,
    #[serde(default)]
    parents: Vec<i64>,
    message: Option<String>,
    author: Option<i64>,
    author_tail: Option<i64>,
    at: i64,
    base: Option<i64>,
    frame: Binary,
}

impl VersionRow {
    pub(super) fn item(self) -> VersionItem {
        VersionItem {
            document: self.document,
            number: self.number,
            id_number: self.id_number,
            id_tail: self.id_tail,
            label: self.label,
            branch: self.branch,
            parents: self.parents,
            message: self.message,
            author: self.author,
            author_tail: self.author_tail,
            at: self.at,
            base: self.base,
            frame: Base64(self.frame.bytes),
        }
    }
}

/// A comment as its collection has it; without a body where it is gone.
#[derive(Deserialize)]
pub(super) struct CommentRow {
    pub(super) document: i64,
    pub(super) number: i64,
    pub(super) body: Option<String>,
}

/// A customer's new name that some conversations do not show yet.
#[derive(Deserialize)]
pub(super) struct RenameRow {
    #[serde(rename = "_id")]
    pub(super) customer: i64,
    pub(super) name: String,
    pub(super) revision: i64,
}

/// When a key was used last.
#[derive(Deserialize)]
pub(super) struct KeyUseRow {
    #[serde(rename = "_id")]
    pub(super) key: i64,
    pub(super) at: i64,
}

/// An endpoint as its collection has it.
#[derive(Deserialize)]
pub(super) struct EndpointRow {
    #[serde(rename = "_id")]
    pub(super) number: i64,
    #[serde(default)]
    failing_since: Option<i64>,
    #[serde(default)]
    given_up: i64,
    #[serde(default)]
    unsettled: i32,
    #[serde(default)]
    pub(super) totals: BTreeMap<String, i64>,
}

impl EndpointRow {
    pub(super) fn item(self) -> EndpointItem {
        EndpointItem {
            number: self.number,
            failing_since: self.failing_since,
            given_up: self.given_up,
            unsettled: self.unsettled.into(),
        }
    }
}

/// A delivery with the log of its attempts, as JSON.
pub(super) fn delivery_item(delivery: &DeliveryDocument) -> Result<DeliveryItem, TransferError> {
    let unwritable = |error: serde_json::Error| TransferError::Store(Box::new(error));
    let attempts = delivery.attempts();
    let log = if attempts.is_empty() {
        None
    } else {
        Some(Text(serde_json::to_vec(&attempts).map_err(unwritable)?))
    };
    Ok(DeliveryItem {
        number: delivery.number,
        endpoint: delivery.endpoint,
        lane: delivery.lane,
        position: delivery.position,
        entity: delivery.entity,
        kind: delivery.kind.into(),
        event_at: delivery.event_at,
        at: delivery.at,
        state: delivery.state.into(),
        attempts: delivery.attempts,
        due: delivery.due,
        log,
    })
}

/// A replay as its collection has it.
#[derive(Deserialize)]
pub(super) struct ReplayRow {
    #[serde(rename = "_id")]
    lane: i64,
    endpoint: i64,
    tenant: i64,
    next: i64,
    last: i64,
    since: Option<i64>,
    until: Option<i64>,
    #[serde(default)]
    kinds: Vec<i32>,
}

impl ReplayRow {
    pub(super) fn item(self) -> ReplayItem {
        let kinds = self.kinds.iter();
        let words = kinds.filter_map(|kind| EventKind::from_code((*kind).into()));
        ReplayItem {
            lane: self.lane,
            endpoint: self.endpoint,
            tenant: self.tenant,
            next: self.next,
            last: self.last,
            since: self.since,
            until: self.until,
            kinds: words.map(|kind| kind.word().to_owned()).collect(),
        }
    }
}

/// A counter of one writer.
#[derive(Deserialize)]
pub(super) struct CounterRow {
    tenant: i64,
    field: i32,
    value: i64,
    status: i32,
    total: i64,
}

impl CounterRow {
    pub(super) fn item(self) -> CounterItem {
        CounterItem {
            tenant: self.tenant,
            field: self.field.into(),
            value: self.value,
            status: self.status.into(),
            total: self.total,
        }
    }
}

/// Where the events of an account and mode begin, and up to where their numbers are others.
#[derive(Deserialize)]
pub(super) struct FeedRow {
    #[serde(rename = "_id")]
    pub(super) tenant: i64,
    #[serde(default)]
    pub(super) floor: i64,
    #[serde(default)]
    pub(super) numbered_to: i64,
}

/// A cell of figures as its collection has it.
#[derive(Deserialize)]
pub(super) struct FigureRow {
    tenant: i64,
    length: i32,
    assigned: i64,
    start: i64,
    channel: i32,
    priority: i32,
    opened: i64,
    figures: String,
}

impl FigureRow {
    pub(super) fn item(self) -> FigureItem {
        FigureItem {
            tenant: self.tenant,
            length: self.length.into(),
            assigned: self.assigned,
            start: self.start,
            channel: self.channel.into(),
            priority: self.priority.into(),
            opened: self.opened,
            figures: Text(self.figures.into_bytes()),
        }
    }
}

/// A conversation's milestones as their collection has them.
#[derive(Deserialize)]
pub(super) struct MilestonesRow {
    conversation: i64,
    opened_at: i64,
    answered: bool,
}

impl MilestonesRow {
    pub(super) fn item(self) -> MilestonesItem {
        MilestonesItem {
            conversation: self.conversation,
            opened_at: self.opened_at,
            answered: self.answered,
        }
    }
}

/// What was made on a day as its collection has it.
#[derive(Deserialize)]
pub(super) struct MadeRow {
    tenant: i64,
    day: i64,
    credential: Option<i64>,
    messages: i64,
    documents: i64,
    #[serde(default)]
    text_bytes: i64,
}

impl MadeRow {
    pub(super) fn item(self) -> MadeItem {
        MadeItem {
            tenant: self.tenant,
            day: self.day,
            credential: self.credential,
            messages: self.messages,
            documents: self.documents,
            text_bytes: self.text_bytes,
        }
    }
}
