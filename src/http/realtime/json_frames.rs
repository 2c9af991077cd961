//! What the frames of a WebSocket say: those that come are read strictly, by name; those that go
//! are put together from what is there already.

use std::time::Duration;

use bytes::Bytes;
use colloquy_actors::feed::Cursor;
use colloquy_actors::realtime::{Presence, Signal};
use colloquy_model::event::Event;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::{ConversationId, UserId};
use colloquy_model::stream::StreamOffset;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::problem::Problem;
use super::super::{conditions, json};

/// What a subscription follows: one conversation, or all of an account and mode.
pub(super) type SubscriptionTarget = EventSource<ConversationId>;

/// A frame from a client, as it was read.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    /// Follow this, from behind a cursor or from now on.
    Subscribe(SubscriptionTarget, Option<StreamOffset>),
    /// Ends the subscription to this target.
    Unsubscribe(SubscriptionTarget),
    /// Send a message, given as it came.
    Send {
        reference: String,
        conversation: ConversationId,
        message: Bytes,
    },
    /// Tell that somebody writes.
    Typing(ConversationId),
    /// Tell how far somebody is there.
    Presence(ConversationId, Option<UserId>, Presence),
    /// Asks whether the server is there; it answers with a pong.
    Ping,
    /// Says that the client is there; nothing follows from it.
    Pong,
}

/// A frame that can't be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// Its `ref`, where that could be read.
    pub(super) reference: Option<String>,
    pub(super) problem: Problem,
}

/// What of a frame is looked at first, whatever else it holds.
#[derive(Deserialize)]
struct Glance<'a> {
    #[serde(rename = "type")]
    kind: Option<Value>,
    #[serde(rename = "ref")]
    reference: Option<Value>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscribe {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    conversation_id: Option<ConversationId>,
    after: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsubscribe {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    conversation_id: Option<ConversationId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    #[serde(rename = "ref")]
    reference: String,
    conversation_id: ConversationId,
    #[serde(rename = "message")]
    _message: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Typing {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    conversation_id: ConversationId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Present {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    conversation_id: ConversationId,
    user_id: Option<UserId>,
    state: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alone {
    #[serde(rename = "type")]
    _type: IgnoredAny,
}

/// Reads a frame from its text; what can't be read names the frame's reference where it has one.
pub(super) fn read(text: &Bytes) -> Result<Frame, Unreadable> {
    // What is no object has nothing that is worth reading on for.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(Unreadable {
            reference: None,
            problem: no_object(),
        });
    }
    let glance = serde_json::from_slice::<Glance<'_>>(text).ok();
    let reference = glance
        .as_ref()
        .and_then(|glance| Some(glance.reference.as_ref()?.as_str()?.to_owned()));
    frame(text, glance).map_err(|problem| Unreadable { reference, problem })
}

fn frame(text: &Bytes, glance: Option<Glance<'_>>) -> Result<Frame, Problem> {
    // What can't be glanced at has a fault that any strict reader names.
    let Some(glance) = glance else {
        return json::parse::<Value>(text)
            .and_then(|_| json::parse::<Send>(text))
            .and_then(|_| Err(no_object()));
    };
    Ok(match glance.kind.as_ref().and_then(Value::as_str) {
        Some("subscribe") => {
            let Subscribe {
                conversation_id,
                after,
                ..
            } = json::parse(text)?;
            let target = SubscriptionTarget::from(conversation_id);
            let after = after.map(|after| cursor(target, &after)).transpose()?;
            Frame::Subscribe(target, after)
        }
        Some("unsubscribe") => {
            Frame::Unsubscribe(json::parse::<Unsubscribe>(text)?.conversation_id.into())
        }
        Some("send") => send(text, glance)?,
        Some("typing") => Frame::Typing(json::parse::<Typing>(text)?.conversation_id),
        Some("presence") => presence(text)?,
        Some("ping") => json::parse::<Alone>(text).map(|_| Frame::Ping)?,
        Some("pong") => json::parse::<Alone>(text).map(|_| Frame::Pong)?,
        None if glance.kind.is_none() => return Err(Problem::invalid("type", "is required")),
        Some(_) | None => return Err(Problem::invalid("type", KINDS)),
    })
}

fn send(text: &Bytes, glance: Glance<'_>) -> Result<Frame, Problem> {
    let Send {
        reference,
        conversation_id,
        ..
    } = json::parse(text)?;
    if conditions::sound_key(&reference).is_none() {
        return Err(Problem::invalid(
            "ref",
            "must be 1 to 255 printable characters",
        ));
    }
    let message = glance
        .message
        .map(|message| text.slice_ref(message.get().as_bytes()));
    let message = message.unwrap_or(Bytes::from_static(b"null"));
    Ok(Frame::Send {
        reference,
        conversation: conversation_id,
        message,
    })
}

fn presence(text: &Bytes) -> Result<Frame, Problem> {
    let Present {
        conversation_id,
        user_id,
        state,
        ..
    } = json::parse(text)?;
    let state = Presence::ALL
        .into_iter()
        .find(|known| known.word() == state);
    let wrong = || Problem::invalid("state", "must be one of \"online\", \"away\", \"offline\"");
    Ok(Frame::Presence(
        conversation_id,
        user_id,
        state.ok_or_else(wrong)?,
    ))
}

const KINDS: &str = "must be one of \"subscribe\", \"unsubscribe\", \"send\", \"typing\", \"presence\", \"ping\", \"pong\"";

fn no_object() -> Problem {
    Problem::invalid("", "must be a JSON object")
}

/// What is said to a frame that comes too soon: an error with its `ref`, where it has one; nothing
/// to typing.
pub(super) fn refuse(to: &mut impl Frames, text: &[u8], wait: Duration) {
    let glance = serde_json::from_slice::<Glance<'_>>(text).ok();
    let word = |value: Option<Value>| value.and_then(|value| Some(value.as_str()?.to_owned()));
    let (kind, reference) = glance.map_or((None, None), |glance| {
        (word(glance.kind), word(glance.reference))
    });
    if kind.as_deref() != Some("typing") {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let problem = Problem::rate_limited("the socket sends more frames than it may", seconds);
        error(to, reference.as_deref(), &problem);
    }
}

/// Where a subscription begins: a conversation's `seq`, or an account's cursor.
fn cursor(target: SubscriptionTarget, after: &Value) -> Result<StreamOffset, Problem> {
    match target {
        SubscriptionTarget::Entity(_) => after
            .as_u64()
            .map(StreamOffset)
            .ok_or_else(|| Problem::invalid("after", "must be an integer, 0 or more")),
        SubscriptionTarget::Account => {
            let cursor = after.as_str().and_then(|text| text.parse::<Cursor>().ok());
            // The beginning is the same in both.
            let cursor = cursor
                .or_else(|| (after.as_u64() == Some(0)).then_some(Cursor(StreamOffset::BEGINNING)));
            cursor
                .map(|cursor| cursor.0)
                .ok_or_else(|| Problem::invalid("after", "must be a cursor of the account, or 0"))
        }
    }
}

/// What takes the frames that go to a client.
pub(super) trait Frames {
    /// Takes a frame, made of these parts.
    fn put(&mut self, parts: &[&[u8]]);
}

/// `subscribed` or `unsubscribed`, with where the subscription begins.
pub(super) fn subscription(
    to: &mut impl Frames,
    word: &str,
    target: SubscriptionTarget,
    after: Option<StreamOffset>,
) {
    let (conversation_id, after) = match target {
        SubscriptionTarget::Entity(id) => (
            format!(",\"conversation_id\":\"{id}\""),
            after.map(|seq| format!(",\"after\":{seq}")),
        ),
        SubscriptionTarget::Account => (
            String::new(),
            after.map(|offset| format!(",\"after\":\"{}\"", Cursor(offset))),
        ),
    };
    let after = after.unwrap_or_default();
    let text = format!("{{\"type\":\"{word}\"{conversation_id}{after}}}");
    to.put(&[text.as_bytes()]);
}

pub(super) fn event(to: &mut impl Frames, event: &Event, cursor: Option<Cursor>) {
    let cursor = cursor.map_or(String::new(), |cursor| format!("\"cursor\":\"{cursor}\","));
    to.put(&[
        b"{\"type\":\"event\",",
        cursor.as_bytes(),
        b"\"event\":",
        &event.body(),
        b"}",
    ]);
}

pub(super) fn ack(to: &mut impl Frames, reference: &str, message: &[u8]) {
    to.put(&[
        b"{\"type\":\"ack\",\"ref\":",
        &quoted(reference),
        b",\"message\":",
        message,
        b"}",
    ]);
}

pub(super) fn error(to: &mut impl Frames, reference: Option<&str>, problem: &Problem) {
    let body = problem.json();
    // Its own object, less the brace that opens it.
    let rest = body.get(1..).unwrap_or_default();
    match reference {
        Some(reference) => to.put(&[
            b"{\"type\":\"error\",\"ref\":",
            &quoted(reference),
            b",",
            rest,
        ]),
        None => to.put(&[b"{\"type\":\"error\",", rest]),
    }
}

pub(super) fn pong(to: &mut impl Frames) {
    to.put(&[b"{\"type\":\"pong\"}"]);
}

pub(super) fn sign(to: &mut impl Frames, sign: Signal) {
    let user = |user: Option<UserId>| user.map_or("null".to_owned(), |user| format!("\"{user}\""));
    let text = match sign {
        Signal::Typing(conversation, who) => {
            format!(
                "{{\"type\":\"typing\",\"conversation_id\":\"{conversation}\",\"user_id\":{}}}",
                user(who)
            )
        }
        Signal::Presence(conversation, who, presence) => format!(
            "{{\"type\":\"presence\",\"conversation_id\":\"{conversation}\",\"user_id\":\"{who}\",\"state\":\"{}\"}}",
            presence.word()
        ),
    };
    to.put(&[text.as_bytes()]);
}

fn quoted(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use colloquy_model::time::Timestamp;

    fn parse(text: &str) -> Result<Frame, Unreadable> {
        read(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn frames_are_read_by_name() {
        let id = ConversationId::new(Timestamp(1));
        for (text, expected) in [
            (
                r#"{"type":"subscribe"}"#.to_owned(),
                Frame::Subscribe(SubscriptionTarget::Account, None),
            ),
            (
                format!(r#"{{"type":"subscribe","conversation_id":"{id}","after":7}}"#),
                Frame::Subscribe(SubscriptionTarget::Entity(id), Some(StreamOffset(7))),
            ),
            (
                format!(
                    r#"{{"type":"subscribe","after":"{}"}}"#,
                    Cursor(StreamOffset(9))
                ),
                Frame::Subscribe(SubscriptionTarget::Account, Some(StreamOffset(9))),
            ),
            (
                r#"{"type":"subscribe","conversation_id":null,"after":"0"}"#.to_owned(),
                Frame::Subscribe(SubscriptionTarget::Account, Some(StreamOffset(0))),
            ),
            (
                format!(r#"{{"type":"unsubscribe","conversation_id":"{id}"}}"#),
                Frame::Unsubscribe(SubscriptionTarget::Entity(id)),
            ),
            (
                format!(r#"{{"type":"typing","conversation_id":"{id}"}}"#),
                Frame::Typing(id),
            ),
            (
                format!(r#"{{"type":"presence","conversation_id":"{id}","state":"away"}}"#),
                Frame::Presence(id, None, Presence::Away),
            ),
            (r#" {"type":"ping"} "#.to_owned(), Frame::Ping),
        ] {
            assert_eq!(parse(&text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_message_is_given_on_as_it_came() {
        let id = ConversationId::new(Timestamp(1));
        let text = format!(
            r#"{{"type":"send","ref":"r","conversation_id":"{id}","message": {{"content" :"x"}} }}"#
        );
        let Frame::Send {
            message, reference, ..
        } = parse(&text).unwrap()
        else {
            unreachable!()
        };
        assert_eq!(
            (&*message, reference.as_str()),
            (br#"{"content" :"x"}"#.as_slice(), "r")
        );
    }

    #[test]
    fn what_can_not_be_read_is_named() {
        for (text, field, reference) in [
            ("x".to_owned(), "", None),
            ("[]".to_owned(), "", None),
            ("{}".to_owned(), "type", None),
            (r#"{"type":7,"ref":"a"}"#.to_owned(), "type", Some("a")),
            (
                r#"{"type":"shout","ref":"a"}"#.to_owned(),
                "type",
                Some("a"),
            ),
        ] {
            is_unreadable(&text, field, reference);
        }
    }

    fn is_unreadable(text: &str, field: &str, reference: Option<&str>) {
        let unreadable = parse(text).unwrap_err();
        assert_eq!(
            (&*unreadable.problem.field, unreadable.reference.as_deref()),
            (field, reference),
            "{text}"
        );
    }

    #[test]
    fn a_field_that_can_not_be_read_is_named() {
        let id = ConversationId::new(Timestamp(1));
        for (text, field, reference) in [
            (r#"{"type":"ping","x":1}"#.to_owned(), "x", None),
            (r#"{"type":"ping","type":"ping"}"#.to_owned(), "type", None),
            (
                r#"{"type":"subscribe","after":3}"#.to_owned(),
                "after",
                None,
            ),
            (
                format!(r#"{{"type":"subscribe","conversation_id":"{id}","after":"3"}}"#),
                "after",
                None,
            ),
            (
                r#"{"type":"subscribe","conversation_id":"conv_1"}"#.to_owned(),
                "conversation_id",
                None,
            ),
            (r#"{"type":"typing"}"#.to_owned(), "conversation_id", None),
            (
                format!(r#"{{"type":"presence","conversation_id":"{id}","state":"x"}}"#),
                "state",
                None,
            ),
            (
                format!(r#"{{"type":"send","conversation_id":"{id}","message":{{}}}}"#),
                "ref",
                None,
            ),
            (
                format!(r#"{{"type":"send","ref":"","conversation_id":"{id}","message":{{}}}}"#),
                "ref",
                Some(""),
            ),
            (
                format!(r#"{{"type":"send","ref":"r","conversation_id":"{id}"}}"#),
                "message",
                Some("r"),
            ),
            (
                r#"{"type":"send","ref":"r","ref":"s","message":{}}"#.to_owned(),
                "ref",
                None,
            ),
        ] {
            is_unreadable(&text, field, reference);
        }
    }

    #[test]
    fn frames_that_go_are_json() {
        struct All(Vec<Value>);
        impl Frames for All {
            fn put(&mut self, parts: &[&[u8]]) {
                self.0
                    .push(serde_json::from_slice(&parts.concat()).unwrap());
            }
        }
        let mut all = All(Vec::new());
        let (id, user) = (ConversationId::new(Timestamp(1)), UserId::new(Timestamp(1)));
        subscription(
            &mut all,
            "subscribed",
            SubscriptionTarget::Entity(id),
            Some(StreamOffset(3)),
        );
        subscription(
            &mut all,
            "subscribed",
            SubscriptionTarget::Account,
            Some(StreamOffset(3)),
        );
        subscription(&mut all, "unsubscribed", SubscriptionTarget::Account, None);
        ack(&mut all, "a\"b", b"{}");
        error(&mut all, Some("r"), &Problem::not_found());
        error(&mut all, None, &Problem::rate_limited("slow down", 7));
        sign(&mut all, Signal::Typing(id, None));
        sign(&mut all, Signal::Presence(id, user, Presence::Away));
        pong(&mut all);
        let kinds: Vec<&str> = all
            .0
            .iter()
            .filter_map(|frame| frame.get("type")?.as_str())
            .collect();
        let expected = [
            "subscribed",
            "subscribed",
            "unsubscribed",
            "ack",
            "error",
            "error",
            "typing",
            "presence",
            "pong",
        ];
        assert_eq!(kinds, expected);
        assert_eq!(
            all.0
                .get(5)
                .and_then(|frame| frame.pointer("/error/details/retry_after_seconds")),
            Some(&7.into())
        );
    }
}
