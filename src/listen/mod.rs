//! `colloquy listen`: brings a server's events to a receiver on this machine, signed as deliveries
//! are, so that one can be written and tried before it has an address of its own. Knows the server
//! by its interface only.

mod sse;

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use colloquy_actors::webhook::signature::{self, Signing};
use colloquy_actors::webhook::target::{self, PrivateTargets, TargetError};
use colloquy_actors::webhook::{Courier, OutboundRequest, attempt_of};
use colloquy_model::attempt::Attempt;
use colloquy_model::endpoint::SigningSecret;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::EventId;
use colloquy_model::time::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response, redirect};
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use self::sse::{Message, Parser};
use crate::courier::{CourierError, HttpCourier, NO_ACCOUNT, tls};
use crate::refusal::{innermost, refusal};

/// How long the receiver has for each event, and the server for accepting a connection.
const PATIENCE: Duration = Duration::from_secs(15);
/// A stream that says nothing for so long is dead: the server writes a comment every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// What is listened to, and where it goes.
#[derive(Clone)]
pub struct Listen {
    /// The base URL of the server whose events are forwarded.
    pub server: String,
    /// An API key of the account and mode.
    pub key: String,
    /// The URL to which events are forwarded.
    pub forward_to: String,
    /// Only these kinds, with commas between; none: all.
    pub events: Option<String>,
}

/// Why `colloquy listen` ended.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The receiver's URL is none.
    #[error("--forward-to {url:?}: {why}, such as http://127.0.0.1:3000/hooks")]
    Forward {
        /// The URL as it was given.
        url: String,
        /// What is wrong with the URL.
        why: TargetError,
    },
    /// What was given as the server's URL is none.
    #[error("--server must be a URL, such as http://127.0.0.1:8080")]
    Server,
    /// There is no such kind of event.
    #[error(
        "--events: {0:?} is no kind of event; such as message.created, a list with commas, or *"
    )]
    Kind(String),
    /// Nobody answered at the very first.
    #[error("can't reach {server}: {why}")]
    Unreachable {
        /// The base URL of the server.
        server: String,
        /// What the system says to that.
        why: String,
    },
    /// The server refuses the request.
    #[error("the server refuses ({status}): {why}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// The reason that it gave, in its own words.
        why: String,
    },
    /// It answers, but not with events.
    #[error("{0} does not answer with a stream of events: is it a Colloquy server?")]
    NoStream(String),
    /// The HTTP client can't be made.
    #[error(transparent)]
    Courier(#[from] CourierError),
    /// Nobody reads what is printed.
    #[error("stdout can't be written: {0}")]
    Stdout(#[from] io::Error),
}

/// Why a connection brings nothing more.
enum Cut {
    /// The stream can't be had now; it may be tried again later.
    Lost(String),
    /// The place to go on from is too old.
    Expired,
    /// Nothing would change if it were tried again.
    Over(ListenError),
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Cut::Over(error.into())
    }
}

/// Brings events until it is told to stop.
///
/// # Errors
/// What kept it from starting or made it end.
pub fn listen(options: Listen) -> Result<(), ListenError> {
    let forward = |why| ListenError::Forward {
        url: options.forward_to.clone(),
        why,
    };
    target::check(&options.forward_to, PrivateTargets::Allowed).map_err(forward)?;
    let events = events_url(&options)?;
    let courier = HttpCourier::start(PATIENCE, PrivateTargets::Allowed)?;
    let client = Client::builder()
        .tls_backend_preconfigured(tls().map_err(CourierError::from)?)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .connect_timeout(PATIENCE)
        .read_timeout(SILENCE_MAX)
        .build()
        .map_err(CourierError::from)?;
    let secret = signature::new_secret();
    say(&format!("Signing secret: {secret}"))?;
    let listener = Listener {
        options,
        events,
        client,
        courier,
        secrets: [SigningSecret {
            text: secret,
            ends_at: None,
        }],
        place: None,
        connected: false,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Err(runtime.block_on(listener.run()))
}

fn events_url(options: &Listen) -> Result<Url, ListenError> {
    let base = Url::parse(&options.server)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"));
    let mut url = base.ok_or(ListenError::Server)?;
    let path = format!("{}/v1/events", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_query(None);
    if let Some(events) = options.events.as_deref().filter(|events| *events != "*") {
        if let Some(unknown) = events
            .split(',')
            .find(|kind| EventKind::from_word(kind.trim()).is_none())
        {
            return Err(ListenError::Kind(unknown.to_owned()));
        }
        url.query_pairs_mut().append_pair("event", events);
    }
    Ok(url)
}

struct Listener {
    options: Listen,
    events: Url,
    client: Client,
    courier: HttpCourier,
    secrets: [SigningSecret; 1],
    /// Behind which event to go on.
    place: Option<String>,
    /// Whether there ever was a stream.
    connected: bool,
}

impl Listener {
    async fn run(mut self) -> ListenError {
        let mut wait = BACK_OFF_FIRST;
        loop {
            let why = match self.connect().await {
                Ok(response) => {
                    wait = BACK_OFF_FIRST;
                    self.stream(response).await
                }
                Err(cut) => cut,
            };
            let said = match why {
                Cut::Over(error) => return error,
                Cut::Expired => {
                    self.place = None;
                    say(
                        "The events since the cut are not stored any more: going on with what comes next.",
                    )
                }
                Cut::Lost(why) => say(&format!(
                    "Cut off ({why}); trying again in {} s",
                    wait.as_secs()
                )),
            };
            if let Err(error) = said {
                return error.into();
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(BACK_OFF_MAX);
        }
    }

    async fn connect(&mut self) -> Result<Response, Cut> {
        let mut request = self
            .client
            .get(self.events.clone())
            .bearer_auth(&self.options.key);
        request = request.header(ACCEPT, "text/event-stream");
        if let Some(place) = &self.place {
            request = request.header("Last-Event-ID", place);
        }
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        let stream = kind.starts_with("text/event-stream");
        match status {
            200 if stream => {
                let Listen {
                    server, forward_to, ..
                } = &self.options;
                say(&format!("Ready: events of {server} go to {forward_to}"))?;
                self.connected = true;
                Ok(response)
            }
            410 if self.place.is_some() => Err(Cut::Expired),
            429 | 500.. if self.connected => {
                Err(Cut::Lost(format!("the server answered {status}")))
            }
            400.. => Err(Cut::Over(ListenError::Refused {
                status,
                why: refusal(response).await,
            })),
            _ => Err(Cut::Over(ListenError::NoStream(
                self.options.server.clone(),
            ))),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Cut {
        let why = innermost(error);
        let server = self.options.server.clone();
        if self.connected {
            Cut::Lost(why)
        } else {
            Cut::Over(ListenError::Unreachable { server, why })
        }
    }

    async fn stream(&mut self, mut response: Response) -> Cut {
        let mut parser = Parser::default();
        loop {
            let messages = match response.chunk().await {
                Ok(Some(bytes)) => parser.push(&bytes),
                Ok(None) => return Cut::Lost("the server ended the stream".to_owned()),
                Err(error) => return Cut::Lost(innermost(&error)),
            };
            let messages = match messages {
                Ok(messages) => messages,
                Err(error) => return Cut::Lost(error.to_string()),
            };
            for message in messages {
                if let Err(error) = self.forward(&message).await {
                    return error.into();
                }
                if !message.id.is_empty() {
                    self.place = Some(message.id);
                }
            }
        }
    }

    /// Posts one event and prints what came of it.
    async fn forward(&self, message: &Message) -> io::Result<()> {
        #[derive(Deserialize)]
        struct Head {
            id: EventId,
            event: String,
        }
        if message.data.is_empty() {
            return Ok(());
        }
        let Ok(Head { id, event }) = serde_json::from_str(&message.data) else {
            return say("(what came is no event; not sent)");
        };
        let (body, sent_at) = (Bytes::from(message.data.clone()), Timestamp::now());
        let signing = Signing {
            secrets: &self.secrets,
            event: id,
            body: &body,
            now: sent_at,
            attempt: 1,
        };
        let headers = signature::headers(signing);
        let request = OutboundRequest {
            account: NO_ACCOUNT,
            url: self.options.forward_to.clone(),
            headers,
            body,
        };
        let started = Instant::now();
        let came = self.courier.post(request).await;
        let Attempt {
            status,
            duration_ms,
            error,
            ..
        } = attempt_of(sent_at, started.elapsed(), came);
        let outcome = status
            .map(|status| status.to_string())
            .or(error)
            .unwrap_or_default();
        say(&format!(
            "{sent_at}  {event}  {id}  ->  {outcome}  ({duration_ms} ms)"
        ))
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn url(server: &str, events: Option<&str>) -> Option<String> {
        let options = Listen {
            server: server.to_owned(),
            key: String::new(),
            forward_to: String::new(),
            events: events.map(str::to_owned),
        };
        events_url(&options).ok().map(String::from)
    }

    #[test]
    fn the_list_of_events_is_found_beneath_any_server_url() {
        assert_eq!(
            url("http://127.0.0.1:8080", None).unwrap(),
            "http://127.0.0.1:8080/v1/events"
        );
        let filtered = url(
            "https://example.com/chat/",
            Some("message.created,message.updated"),
        )
        .unwrap();
        assert_eq!(
            filtered,
            "https://example.com/chat/v1/events?event=message.created%2Cmessage.updated"
        );
        assert_eq!(
            (url("example.com", None), url("ftp://example.com", None)),
            (None, None)
        );
    }
}
