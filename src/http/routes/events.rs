//! Events: what happened, as a list or as it happens; of one conversation, or of an account and
//! mode.

use std::fmt;
use std::sync::Arc;

use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use colloquy_actors::accounts::Principal;
use colloquy_actors::feed::{Cursor, EventList, EventListing, Falling, Followed};
use colloquy_model::conversation::Channel;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::{ConversationKind, EventId, UserId};
use colloquy_model::page::{Order, Page, Paging, Start};
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::api_call::ApiCall;
use super::super::authentication::VisibleEvents;
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::{LIMIT_DEFAULT, LIMIT_MAX};
use super::super::realtime::{
    AccessWatch, ConnectionAuth, CursorKind, EventStream, Narrowing, StreamOpening, Transport,
    Visibility,
};
use super::super::{accept, authentication};
use super::READING;

/// With which a stream goes on (HTML, 9.2.4).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// As it is named in an error.
const LAST_EVENT_ID_SHOWN: &str = "Last-Event-ID";

/// Kinds of events, as a comma list.
#[derive(Debug, Default)]
pub(super) struct Kinds(Vec<EventKind>);

impl<'de> Deserialize<'de> for Kinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Kinds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of kinds of events")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Kinds, E> {
                let kinds = text
                    .split(',')
                    .map(|word| EventKind::from_word(word.trim()))
                    .collect::<Option<_>>();
                kinds.map(Kinds).ok_or_else(|| {
                    E::custom("must be a kind of event, such as message.created, or a list of them")
                })
            }
        }
        deserializer.deserialize_str(Words)
    }
}

/// What a list of events may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only these kinds: one, or a list with commas.
    #[param(value_type = Option<String>, pattern = "^[a-z_]+\\.[a-z_]+(,[a-z_]+\\.[a-z_]+)*$")]
    event: Option<Kinds>,
    /// Only those in a conversation of this channel, as of the event.
    #[param(inline)]
    channel: Option<Channel>,
    /// Only those in a conversation of this assignee, as of the event.
    #[param(inline)]
    assignee_id: Option<UserId>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// A cursor: what follows it. In a conversation the event's `seq`, otherwise as this list gave
    /// it; 0: the beginning.
    after: Option<String>,
}

/// An event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventShown {
    /// Names it.
    id: EventId,
    /// What happened, such as `message.created`.
    event: String,
    /// When.
    created_at: Timestamp,
    /// `1.0`.
    api_version: String,
    /// 1, 2, 3 … in its conversation.
    #[schema(minimum = 1)]
    seq: u64,
    /// The conversation or the message as it was then; with `changes` on updates.
    #[schema(value_type = Object)]
    data: serde_json::Value,
}

pub(super) async fn of_account(call: ApiCall, query: ListQuery) -> Result<Output, Problem> {
    let narrowing = Narrowing::of_account(call.access.reads);
    answer(call, narrowing, EventSource::Account, query).await
}

pub(super) async fn of_conversation(call: ApiCall, query: ListQuery) -> Result<Output, Problem> {
    let cursor_kind = CursorKind::Conversation;
    // What is asked wrongly is told before what is not there.
    let id = call.id::<ConversationKind>(0);
    place(cursor_kind, &call, &query)?;
    limit(&query)?;
    let (id, meta) = (id?, call.meta());
    let app = Arc::clone(&call.app);
    let conversations = &app.system.conversations;
    let readable_to = conversations.check_readable(id, &meta).await?;
    let narrowing = Narrowing::of_conversation(call.access.reads, readable_to);
    let output = answer(call, narrowing, EventSource::conversation(id), query).await?;
    // What was read is shown only if it was the caller's to read up to then.
    conversations.check_readable(id, &meta).await?;
    Ok(output)
}

/// Answers with a page of events, or with a stream of them where one is asked for.
async fn answer(
    call: ApiCall,
    mut narrowing: Narrowing,
    source: EventSource,
    query: ListQuery,
) -> Result<Output, Problem> {
    let cursor_kind = match source {
        EventSource::Account => CursorKind::Account,
        EventSource::Entity(_) => CursorKind::Conversation,
    };
    let (after, limit) = (place(cursor_kind, &call, &query)?, limit(&query)?);
    let principal = call.principal().ok_or_else(Problem::crashed)?;
    let kinds = kinds(
        &call,
        principal,
        cursor_kind,
        query.event.unwrap_or_default(),
    )?;
    let shows = match cursor_kind {
        CursorKind::Account => Visibility::Account(VisibleEvents::of(&kinds)),
        CursorKind::Conversation => Visibility::Conversations,
    };
    let mut filter = EventFilter {
        kinds,
        channel: query.channel,
        assignee: query.assignee_id,
    };
    if let Narrowing::Assigned(own) = narrowing {
        // The store leaves out what is another's.
        let asked = *filter.assignee.get_or_insert(own);
        if asked != own {
            narrowing = Narrowing::Nothing;
        }
    }
    let events = &call.app.system.events;
    if streams(&call) {
        let wanted = Wanted {
            source,
            cursor_kind,
            filter,
            shows,
            narrowing,
            after,
        };
        return stream(&call, wanted).await;
    }
    let wanted = EventList {
        tenant: call.caller.tenant,
        source,
        filter,
        after: after.unwrap_or(StreamOffset::BEGINNING),
        limit,
    };
    let mut listing = events.list(wanted).await?;
    if narrowing == Narrowing::Nothing {
        listing.clear();
    }
    Ok(page(listing, limit))
}

/// A page of events; there is always a next one.
fn page(listing: EventListing, limit: u32) -> Output {
    let EventListing { data, total, next } = listing;
    Output::Page(Listing {
        page: Page {
            data: data.into(),
            count: 0,
            total,
            first: None,
            last: Some(next),
            before: false,
            after: true,
        },
        paging: Paging {
            limit,
            start: Start::Offset(0),
            order: Order::Asc,
        },
        style: LinkStyle::Cursor,
    })
}

/// The kinds of events that are asked for, or all that the caller may see; empty: all.
fn kinds(
    call: &ApiCall,
    principal: &Principal,
    cursor_kind: CursorKind,
    Kinds(asked): Kinds,
) -> Result<Vec<EventKind>, Problem> {
    let visible = match cursor_kind {
        CursorKind::Account => {
            authentication::visible_events(&call.app, principal, &call.caller).kinds()
        }
        CursorKind::Conversation => Vec::new(),
    };
    if asked.is_empty() {
        return Ok(visible);
    }
    let mut hidden = asked.iter().filter(|kind| !visible.contains(kind));
    if !visible.is_empty()
        && let Some(hidden) = hidden.next()
    {
        let reason = match hidden.is_alert() {
            true => "events of the account are for keys with analytics:read and conversations:read",
            false => "events of documents are for keys that may read all of them",
        };
        return Err(Problem::forbidden(reason).at("event"));
    }
    Ok(asked)
}

/// What a stream is to show, and where it begins.
struct Wanted {
    source: EventSource,
    cursor_kind: CursorKind,
    filter: EventFilter,
    shows: Visibility,
    narrowing: Narrowing,
    after: Option<StreamOffset>,
}

/// A stream, where its key and its account have room for one more.
async fn stream(call: &ApiCall, wanted: Wanted) -> Result<Output, Problem> {
    let Wanted {
        source,
        cursor_kind,
        filter,
        shows,
        narrowing,
        after,
    } = wanted;
    let principal = call.principal().ok_or_else(Problem::crashed)?;
    let open = call
        .app
        .live_connections
        .open(Transport::EventStream, principal)?;
    let access = AccessWatch::new(
        call.app.clone(),
        ConnectionAuth::new(principal, &call.caller, READING),
        shows,
    );
    let events = &call.app.system.events;
    let after = match after {
        Some(after) => after,
        None => events.end(call.caller.tenant, source).await?,
    };
    let followed = Followed {
        tenant: call.caller.tenant,
        source,
        filter,
        after,
        falling: Falling::Behind,
    };
    let reader = events.follow(followed).await.map_err(|failure| {
        let problem = Problem::from(failure);
        // Whatever says where a stream begins is what is at fault.
        if resumes(call) && problem.field == "after" {
            problem.at(LAST_EVENT_ID_SHOWN)
        } else {
            problem
        }
    })?;
    let connection = call.connection();
    let heartbeat = call.app.realtime_limits.heartbeat;
    let beginning = StreamOpening {
        access,
        open,
        reader,
        narrowing,
        cursor_kind,
        connection,
        heartbeat,
    };
    Ok(Output::Events(Box::new(EventStream::new(beginning))))
}

/// Whether a stream is asked for; a HEAD has none.
fn streams(call: &ApiCall) -> bool {
    call.method == Method::GET && accept::prefers_stream(call.request.headers())
}

/// Whether a stream goes on from its last event.
fn resumes(call: &ApiCall) -> bool {
    call.request
        .headers()
        .get(LAST_EVENT_ID)
        .is_some_and(|value| !value.is_empty())
}

fn limit(query: &ListQuery) -> Result<u32, Problem> {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    let wrong = || Problem::invalid("limit", format!("must be an integer from 1 to {LIMIT_MAX}"));
    (1..=LIMIT_MAX)
        .contains(&limit)
        .then_some(limit)
        .ok_or_else(wrong)
}

/// Behind which place; a stream goes on from its last event, whatever the query says.
fn place(
    cursor_kind: CursorKind,
    call: &ApiCall,
    query: &ListQuery,
) -> Result<Option<StreamOffset>, Problem> {
    let last = call
        .request
        .headers()
        .get(LAST_EVENT_ID)
        .filter(|_| streams(call));
    let last = last
        .map(|value| value.to_str().unwrap_or("?"))
        .filter(|text| !text.is_empty());
    let (name, text) = match (last, query.after.as_deref()) {
        (Some(last), _) => (LAST_EVENT_ID_SHOWN, last),
        (None, Some(after)) => ("after", after),
        (None, None) => return Ok(None),
    };
    let place = match cursor_kind {
        CursorKind::Account => text
            .parse::<Cursor>()
            .map(|cursor| cursor.0)
            .map_err(|wrong| wrong.to_string()),
        CursorKind::Conversation => {
            let number = text
                .parse()
                .ok()
                .filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
            number
                .filter(|number| i64::try_from(*number).is_ok())
                .map(StreamOffset)
                .ok_or_else(|| "must be an event's seq, or 0".to_owned())
        }
    };
    place
        .map(Some)
        .map_err(|reason| Problem::invalid(name, reason))
}
