//! Requests about deliveries on their way between nodes: whoever is asked writes one down, the node
//! that leads takes it, once, and writes its answer beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mongodb::Collection;
use mongodb::bson::{Binary, doc};
use mongodb::error::{Error, Result};
use serde::{Deserialize, Serialize};

use super::codec::{binary, failed};
use super::connection::{ANSWER_MAX, answered};
use super::following;
use super::nodes::Membership;
use super::schema::{Collections, RELAYED};
use crate::store::{ReadError, RelayedRequest};

/// How often the node that leads looks for requests.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often whoever has asked looks for the answer.
const ANSWER_EVERY: Duration = Duration::from_millis(20);
/// How long an answer lies there: whoever asked has read it by then, or has left.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// How far a request has come.
#[derive(Debug, Clone, Copy)]
enum State {
    Asked = 0,
    /// The node that leads has begun with it: nobody else does.
    Taken = 1,
    Answered = 2,
}

/// A request, with its answer when there is one.
#[derive(Debug, Serialize, Deserialize)]
struct RelayedDocument {
    #[serde(rename = "_id")]
    id: String,
    state: i32,
    body: Binary,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    answer: Option<Binary>,
}

fn collection(collections: &Collections) -> Collection<RelayedDocument> {
    collections.database.collection(RELAYED)
}

/// Hands a request over, and waits for its answer.
pub(super) async fn relay(
    collections: Collections,
    body: Vec<u8>,
) -> std::result::Result<Vec<u8>, ReadError> {
    let (high, low) = (colloquy_model::random::u64(), colloquy_model::random::u64());
    let id = format!("{high:016x}{low:016x}");
    let document = RelayedDocument {
        id: id.clone(),
        state: State::Asked as i32,
        body: binary(&body),
        answer: None,
    };
    let requests = collection(&collections);
    let written = answered(requests.insert_one(document).into_future()).await;
    written.map_err(|error| failed(&error))?;
    let answer = answer_to(&requests, &id).await;
    // Whoever answers lets it go, too.
    tokio::spawn(async move {
        let _ = answered(requests.delete_one(doc! {"_id": id}).into_future()).await;
    });
    answer
        .map_err(|error| failed(&error))?
        .ok_or(ReadError::Away)
}

/// The answer to a request; none where it does not come in time.
async fn answer_to(requests: &Collection<RelayedDocument>, id: &str) -> Result<Option<Vec<u8>>> {
    let begun = Instant::now();
    while begun.elapsed() < ANSWER_MAX {
        let found = requests.find_one(doc! {"_id": id, "state": State::Answered as i32});
        let found = answered(found.into_future()).await?;
        if let Some(answer) = found.and_then(|found| found.answer) {
            return Ok(Some(answer.bytes));
        }
        tokio::time::sleep(ANSWER_EVERY).await;
    }
    Ok(None)
}

/// Waits for requests while this node leads; each is given once.
pub(super) async fn relayed(membership: Arc<Membership>) -> Vec<RelayedRequest> {
    loop {
        if membership.leads() && membership.has_peers() {
            match take(&membership).await {
                Ok(taken) if taken.is_empty() => {}
                Ok(taken) => return taken,
                Err(error) => tracing::warn!(%error, "requests of other nodes wait for MongoDB"),
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn take(membership: &Membership) -> std::result::Result<Vec<RelayedRequest>, ReadError> {
    let requests = collection(&membership.collections);
    let found = async {
        let mut cursor = requests.find(doc! {"state": State::Asked as i32}).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(cursor.deserialize_current()?);
        }
        Ok::<Vec<RelayedDocument>, Error>(found)
    };
    let found = answered(found).await.map_err(|error| failed(&error))?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    // Before one is taken: nobody else takes it then.
    following::catch_up(&membership.collections, membership).await?;
    let mut taken = Vec::new();
    for RelayedDocument { id, body, .. } in found {
        let take = requests.update_one(
            doc! {"_id": &id, "state": State::Asked as i32},
            doc! {"$set": {"state": State::Taken as i32}},
        );
        let took = answered(take.into_future()).await;
        if took.map_err(|error| failed(&error))?.modified_count == 1 {
            taken.push(RelayedRequest {
                id,
                body: body.bytes,
            });
        }
    }
    Ok(taken)
}

/// Writes an answer down, and lets it go when nobody reads it any more.
pub(super) async fn answer(collections: Collections, id: String, answer: Vec<u8>) {
    let requests = collection(&collections);
    let set = doc! {"$set": {"state": State::Answered as i32, "answer": binary(&answer)}};
    let written = requests.update_one(doc! {"_id": &id}, set);
    if let Err(error) = answered(written.into_future()).await {
        tracing::warn!(%error, "a request of another node stays without an answer");
    }
    tokio::spawn(async move {
        tokio::time::sleep(KEPT_FOR).await;
        let _ = answered(requests.delete_one(doc! {"_id": id}).into_future()).await;
    });
}

/// Lets requests go that whoever led before has taken: whoever asked has given up, or does so.
pub(super) async fn forget_taken(collections: &Collections) -> Result<()> {
    let taken = doc! {"state": {"$in": [State::Taken as i32, State::Answered as i32]}};
    let requests = collection(collections);
    let forgotten = requests.delete_many(taken);
    answered(forgotten.into_future()).await.map(|_| ())
}
