//! Server-Sent Events as a client reads them. What holds for every event is checked here.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::client::Call;

/// The longest that an expected event may take to come.
const COMES_WITHIN: Duration = Duration::from_secs(10);

/// One event as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamEvent {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) data: String,
}

impl StreamEvent {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

#[derive(Debug)]
pub(crate) enum Item {
    Event(StreamEvent),
    Comment,
    /// Where the stream begins: an `id` without an event.
    Place(String),
}

/// An open stream.
pub(crate) struct EventStream {
    response: reqwest::Response,
    bytes: Vec<u8>,
    items: VecDeque<Item>,
}

impl EventStream {
    /// Opens it; anything but 200 fails the test.
    pub(crate) async fn open(call: Call) -> Self {
        let stream = Self::try_open(call).await.unwrap();
        assert_eq!(stream.response.status(), 200);
        stream
    }

    /// Opens it; a connection that breaks is an error.
    pub(crate) async fn try_open(call: Call) -> Result<Self, reqwest::Error> {
        let response = call.with("accept", "text/event-stream").open().await?;
        if response.status() == 200 {
            let kind = response.headers()["content-type"].to_str().unwrap();
            assert!(kind.starts_with("text/event-stream"), "{kind}");
        }
        Ok(Self {
            response,
            bytes: Vec::new(),
            items: VecDeque::new(),
        })
    }

    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    }

    /// What comes next; `None` when the stream has ended or broken. What was cut in its middle is
    /// not shown.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Some(item);
            }
            let part = self.response.chunk().await.ok().flatten()?;
            self.bytes.extend_from_slice(&part);
            while let Some(at) = memchr::memmem::find(&self.bytes, b"\n\n") {
                let block: Vec<u8> = self.bytes.drain(..at + 2).collect();
                self.items
                    .extend(parsed(std::str::from_utf8(&block).unwrap()));
            }
        }
    }

    /// What resumes it as long as no event has come: the first thing of a stream.
    pub(crate) async fn begins_at(&mut self) -> String {
        match self.next().await {
            Some(Item::Place(place)) => place,
            other => panic!("no place, but {other:?}"),
        }
    }

    /// The next event, comments let be; `None` when the stream has ended or broken.
    pub(crate) async fn next_event(&mut self) -> Option<StreamEvent> {
        loop {
            if let Item::Event(event) = self.next().await? {
                return Some(event);
            }
        }
    }

    /// The next event, which must come.
    pub(crate) async fn event(&mut self) -> StreamEvent {
        let next = tokio::time::timeout(COMES_WITHIN, self.next_event()).await;
        next.expect("an event comes in time")
            .expect("the stream goes on")
    }

    /// Waits for the stream's end; gives what still came.
    pub(crate) async fn rest(&mut self, within: Duration) -> Vec<StreamEvent> {
        let mut rest = Vec::new();
        let reading = async {
            while let Some(event) = self.next_event().await {
                rest.push(event);
            }
        };
        tokio::time::timeout(within, reading)
            .await
            .expect("the stream ends in time");
        rest
    }
}

/// One block of lines, as the standard reads it.
fn parsed(block: &str) -> Option<Item> {
    let (mut id, mut event, mut data, mut comment) = (None, None, None, false);
    for line in block.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        let twice = match name {
            "id" => id.replace(value).is_some(),
            "event" => event.replace(value).is_some(),
            "data" => data.replace(value).is_some(),
            "" => {
                comment = true;
                false
            }
            "retry" => false,
            _ => panic!("an unknown field in {block:?}"),
        };
        assert!(!twice, "{name} stands twice in {block:?}");
    }
    if let (Some(id), Some(event), Some(data)) = (&id, &event, &data) {
        return Some(Item::Event(StreamEvent {
            id: id.clone(),
            event: event.clone(),
            data: data.clone(),
        }));
    }
    assert!(
        event.is_none() && data.is_none(),
        "an event lacks a field: {block:?}"
    );
    if let Some(id) = id {
        return Some(Item::Place(id));
    }
    comment.then_some(Item::Comment)
}
