//! The actors of other nodes: this node asks all others, and each answers for its own. A question
//! waits for every node that is there, and no longer than a few seconds.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use colloquy_model::id::NodeId;
use colloquy_model::json;
use colloquy_runtime::threads::BackgroundThread;
use colloquy_runtime::{OperatorError, SupervisedKind};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::commands::Steering;
use super::views::{ActorKindView, ActorStateView, InstanceView, InstancesWanted};
use crate::store::{Broadcast, Heard, Topic};

/// How long other nodes are waited for: longer than any needs that is not stopped or cut off.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// How often it is looked whether a node that is waited for is gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What other nodes are asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    /// The figures of every kind.
    Figures,
    /// Actors of a kind that are in memory.
    Instances(String, InstancesWanted),
    /// One actor, if it is in memory.
    Instance(ActorName),
    /// To do this to one actor, if it is in memory.
    Steer(ActorName, Steering),
}

/// An actor's kind and its id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ActorName {
    pub(super) kind: String,
    pub(super) id: String,
}

/// What a node answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The figures of each kind of actor at that node.
    Figures(Vec<ActorKindView>),
    /// The actors of a kind that it has in memory.
    Instances(Vec<InstanceView>),
    /// Its actor, as it stands now; none where it has none in memory.
    Instance(Option<Box<InstanceView>>),
    /// The actor has been busy all the time: nothing was done.
    Busy,
    /// It could not be done, or it is not known whether it was.
    Failed,
}

/// What nodes tell one another of their actors.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Ask {
        number: u64,
        question: Question,
    },
    Answer {
        to: NodeId,
        number: u64,
        reply: Reply,
    },
    /// Says that whoever says it answers questions, and wants to hear the same of this node.
    Hello {
        to: NodeId,
    },
    /// Answers `Hello`: this node answers questions.
    Here,
}

/// A question of another node.
struct Asked {
    from: NodeId,
    number: u64,
    question: Question,
}

/// What other nodes answered.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) given: Vec<Reply>,
    /// Whether a node that is there did not answer in time.
    pub(super) is_incomplete: bool,
}

/// The way to the actors of other nodes.
pub struct Peers {
    broadcast: Arc<dyn Broadcast>,
    last: AtomicU64,
    /// The nodes that answer questions: one that is just starting does not yet.
    answering: Mutex<HashSet<NodeId>>,
    waiting: Mutex<HashMap<u64, UnboundedSender<(NodeId, Reply)>>>,
}

/// A question whose replies are waited for; dropped, they are no more.
struct Waiting<'p> {
    peers: &'p Peers,
    number: u64,
    replies: UnboundedReceiver<(NodeId, Reply)>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.peers.waiting.lock().remove(&self.number);
    }
}

impl Peers {
    /// Answers for these kinds from now on, on a thread of its own.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(
        broadcast: Arc<dyn Broadcast>,
        kinds: Vec<Arc<dyn SupervisedKind>>,
    ) -> io::Result<(Arc<Self>, BackgroundThread)> {
        let peers = Arc::new(Peers {
            broadcast,
            last: AtomicU64::new(0),
            answering: Mutex::default(),
            waiting: Mutex::default(),
        });
        let (ask, asked) = unbounded_channel();
        let hearing = Arc::downgrade(&peers);
        let hear = move |from: NodeId, heard: Heard<'_>| {
            let Some(peers) = hearing.upgrade() else {
                return;
            };
            match heard {
                Heard::Said(text) => peers.hear(from, text, &ask),
                Heard::Lost => peers.say(&Message::Hello { to: from }),
                Heard::Gone => drop(peers.answering.lock().remove(&from)),
            }
        };
        peers.broadcast.listen(Topic::Actors, Box::new(hear));
        let asked = Arc::new(tokio::sync::Mutex::new(asked));
        let broadcast = Arc::clone(&peers.broadcast);
        let thread = BackgroundThread::start("peers", move || {
            let (asked, broadcast) = (Arc::clone(&asked), Arc::clone(&broadcast));
            let kinds = kinds.clone();
            async move {
                while let Some(one) = asked.lock().await.recv().await {
                    // Whoever waits for a busy actor holds up nobody.
                    drop(tokio::spawn(answer(
                        Arc::clone(&broadcast),
                        kinds.clone(),
                        one,
                    )));
                }
            }
        })?;
        Ok((peers, thread))
    }

    /// The identifier of this node.
    pub(super) fn node(&self) -> NodeId {
        self.broadcast.node()
    }

    fn say(&self, message: &Message) {
        self.broadcast.say(Topic::Actors, json::text(message));
    }

    /// The nodes that a question waits for.
    fn answering(&self) -> Vec<NodeId> {
        let answering = self.answering.lock();
        let mut others = self.broadcast.others();
        others.retain(|node| answering.contains(node));
        others
    }

    fn hear(&self, from: NodeId, text: &str, ask: &UnboundedSender<Asked>) {
        self.answering.lock().insert(from);
        match serde_json::from_str(text) {
            Ok(Message::Ask { number, question }) => {
                // An error means that this node ends.
                let _ = ask.send(Asked {
                    from,
                    number,
                    question,
                });
            }
            Ok(Message::Answer { to, number, reply }) => {
                let waiting = self.waiting.lock();
                if let Some(asking) = waiting.get(&number).filter(|_| to == self.node()) {
                    // Whoever asked may have left.
                    let _ = asking.send((from, reply));
                }
            }
            Ok(Message::Hello { to }) if to == self.node() => self.say(&Message::Here),
            Ok(Message::Hello { .. } | Message::Here) => {}
            Err(error) => tracing::warn!(%error, "what another node tells of actors can't be read"),
        }
    }

    /// Asks all other nodes, and waits for those that are there.
    pub(super) async fn ask(&self, question: Question) -> Replies {
        let mut replies = Replies::default();
        let mut missing = self.answering();
        if missing.is_empty() {
            return replies;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (asking, receiver) = unbounded_channel();
        self.waiting.lock().insert(number, asking);
        let mut waiting = Waiting {
            peers: self,
            number,
            replies: receiver,
        };
        self.say(&Message::Ask { number, question });
        let deadline = Instant::now() + ANSWER_MAX;
        while !missing.is_empty() && Instant::now() < deadline {
            match tokio::time::timeout(LOOK_EVERY, waiting.replies.recv()).await {
                Ok(Some((from, reply))) => {
                    missing.retain(|node| *node != from);
                    replies.given.push(reply);
                }
                Ok(None) => break,
                Err(_) => {
                    let answering = self.answering();
                    missing.retain(|node| answering.contains(node));
                }
            }
        }
        replies.is_incomplete = !missing.is_empty();
        replies
    }
}

/// Answers a question of another node.
async fn answer(broadcast: Arc<dyn Broadcast>, kinds: Vec<Arc<dyn SupervisedKind>>, asked: Asked) {
    let Asked {
        from,
        number,
        question,
    } = asked;
    let named = |name: &str| kinds.iter().find(|kind| kind.kind() == name);
    let node = broadcast.node();
    let reply = match question {
        Question::Figures => {
            let figures = kinds.iter().map(|kind| kind.overview().into());
            Reply::Figures(figures.collect())
        }
        Question::Instances(kind, wanted) => {
            let found = named(&kind).map(|kind| kind.instances(wanted.into()));
            let found = found.into_iter().flatten();
            Reply::Instances(found.map(|one| InstanceView::at(one, Some(node))).collect())
        }
        Question::Instance(ActorName { kind, id }) => match named(&kind) {
            Some(kind) => in_memory(&**kind, &id, node).await,
            None => Reply::Instance(None),
        },
        Question::Steer(ActorName { kind, id }, steering) => match named(&kind) {
            Some(kind) => steer(&**kind, &id, node, steering).await,
            None => Reply::Instance(None),
        },
    };
    let message = Message::Answer {
        to: from,
        number,
        reply,
    };
    broadcast.say(Topic::Actors, json::text(&message));
}

/// An actor of this node, if it is in memory.
async fn in_memory(kind: &dyn SupervisedKind, id: &str, node: NodeId) -> Reply {
    match kind.instance(id).await {
        Ok(found) => {
            let view = InstanceView::at(found, Some(node));
            Reply::Instance((view.state != ActorStateView::Passive).then(|| Box::new(view)))
        }
        Err(OperatorError::NotFound | OperatorError::Busy) => Reply::Instance(None),
        Err(OperatorError::Failed(_)) => Reply::Failed,
    }
}

async fn steer(kind: &dyn SupervisedKind, id: &str, node: NodeId, steering: Steering) -> Reply {
    let found = in_memory(kind, id, node).await;
    if !matches!(found, Reply::Instance(Some(_))) {
        return found;
    }
    match steering.command(kind, id).await {
        Ok(after) => Reply::Instance(Some(Box::new(InstanceView::at(after, Some(node))))),
        Err(OperatorError::NotFound) => Reply::Instance(None),
        Err(OperatorError::Busy) => Reply::Busy,
        Err(OperatorError::Failed(_)) => Reply::Failed,
    }
}
