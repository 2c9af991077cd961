//! A WebSocket at `/v1/realtime` that speaks the contract's JSON frames.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Client;

/// The longest that an expected frame may take to come.
const COMES_WITHIN: Duration = Duration::from_secs(10);

/// How a socket ended: the close code, or 0 when the connection broke without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended(pub(crate) u16);

/// An open socket.
pub(crate) struct Socket(WebSocketStream<TcpStream>);

/// What a socket says.
pub(crate) struct Saying(SplitSink<WebSocketStream<TcpStream>, Message>);

impl Saying {
    /// Sends a frame of any kind; a broken connection is an error.
    pub(crate) async fn say_raw(&mut self, frame: Message) -> Result<(), Error> {
        self.0.send(frame).await
    }
}

/// What a socket hears.
pub(crate) struct Hearing(SplitStream<WebSocketStream<TcpStream>>);

impl Hearing {
    /// The next frame's text; `None` when the socket has ended.
    pub(crate) async fn hear_text(&mut self) -> Option<String> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(text.to_string()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

impl Socket {
    /// With the client's key in the header.
    pub(crate) async fn open(client: &Client) -> Self {
        Self::try_open(client, "/v1/realtime")
            .await
            .unwrap_or_else(|status| panic!("refused with {status}"))
    }

    /// At any path; a refusal gives its status, 0 when the connection broke.
    pub(crate) async fn try_open(client: &Client, path: &str) -> Result<Self, u16> {
        Self::try_open_with(client, path, &[]).await
    }

    /// The same with further headers.
    pub(crate) async fn try_open_with(
        client: &Client,
        path: &str,
        more: &[(&'static str, String)],
    ) -> Result<Self, u16> {
        let mut request = format!("ws://{}{path}", client.address())
            .into_client_request()
            .unwrap();
        let headers = request.headers_mut();
        headers.insert("sec-websocket-protocol", "colloquy.v1".parse().unwrap());
        if let Some(credential) = client.credential() {
            headers.insert("authorization", credential.parse().unwrap());
        }
        for (name, value) in more {
            headers.insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(client.address())
            .await
            .map_err(|_| 0_u16)?;
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, answer)) => {
                assert_eq!(answer.headers()["sec-websocket-protocol"], "colloquy.v1");
                Ok(Self(socket))
            }
            Err(Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(_) => Err(0),
        }
    }

    /// Sends a frame.
    pub(crate) async fn say(&mut self, frame: Value) {
        self.try_say(frame).await.unwrap();
    }

    /// Sends a frame; a broken connection is an error.
    pub(crate) async fn try_say(&mut self, frame: Value) -> Result<(), Error> {
        self.0.send(Message::text(frame.to_string())).await
    }

    /// Sends a frame of any kind.
    pub(crate) async fn say_raw(&mut self, frame: Message) {
        self.0.send(frame).await.unwrap();
    }

    /// Sends a frame of any kind; a broken connection is an error.
    pub(crate) async fn try_say_raw(&mut self, frame: Message) -> Result<(), Error> {
        self.0.send(frame).await
    }

    /// Its two directions apart, for who says more than it hears.
    pub(crate) fn split(self) -> (Saying, Hearing) {
        let (saying, hearing) = self.0.split();
        (Saying(saying), Hearing(hearing))
    }

    /// The next frame's text, or how the socket ended.
    pub(crate) async fn try_hear_text(&mut self) -> Result<String, Ended> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    return Err(Ended(frame.map_or(0, |frame| frame.code.into())));
                }
                Some(Ok(other)) => panic!("neither text nor control: {other:?}"),
                Some(Err(_)) | None => return Err(Ended(0)),
            }
        }
    }

    /// The next frame, or how the socket ended.
    pub(crate) async fn try_hear(&mut self) -> Result<Value, Ended> {
        let text = self.try_hear_text().await?;
        Ok(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// The next frame, which must come.
    pub(crate) async fn hear(&mut self) -> Value {
        let heard = tokio::time::timeout(COMES_WITHIN, self.try_hear())
            .await
            .expect("a frame comes in time");
        heard.unwrap_or_else(|ended| panic!("the socket was closed: {ended:?}"))
    }

    /// The next frame of this type, others let be.
    pub(crate) async fn hear_type(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.hear().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// The next frame, which must be an error with this code; gives it.
    pub(crate) async fn hear_error(&mut self, code: &str) -> Value {
        let frame = self.hear().await;
        assert_eq!(
            (&frame["type"], &frame["error"]["code"]),
            (&json!("error"), &json!(code)),
            "{frame}"
        );
        assert!(
            frame["error"]["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{frame}"
        );
        assert!(frame["error"]["details"]["field"].is_string(), "{frame}");
        frame
    }

    /// Subscribes to a conversation, or with null to the account; gives the answer.
    pub(crate) async fn subscribe(&mut self, conversation: Value, after: Option<Value>) -> Value {
        let mut frame = json!({"type": "subscribe"});
        if !conversation.is_null() {
            frame["conversation_id"] = conversation.clone();
        }
        if let Some(after) = after {
            frame["after"] = after;
        }
        self.say(frame).await;
        let answer = self.hear().await;
        assert_eq!(answer["type"], "subscribed", "{answer}");
        assert_eq!(answer["conversation_id"], conversation, "{answer}");
        answer
    }

    /// The next event, which must come.
    pub(crate) async fn event(&mut self) -> Value {
        let mut frame = self.hear_type("event").await;
        frame["event"].take()
    }

    /// Proves that nothing else is under way: what the server says before it answers a ping.
    pub(crate) async fn before_pong(&mut self) -> Vec<Value> {
        self.say(json!({"type": "ping"})).await;
        let mut heard = Vec::new();
        loop {
            let frame = self.hear().await;
            if frame["type"] == "pong" {
                return heard;
            }
            heard.push(frame);
        }
    }

    /// Reads until the socket ends, at most this long.
    pub(crate) async fn end(&mut self, within: Duration) -> Ended {
        let reading = async {
            loop {
                if let Err(ended) = self.try_hear_text().await {
                    return ended;
                }
            }
        };
        tokio::time::timeout(within, reading)
            .await
            .expect("the socket is closed in time")
    }
}
