//! The numbers that stand for accounts, each given once by one document that counts for all nodes,
//! and who of nodes that start together makes the first account.

use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use mongodb::options::ReturnDocument;

use super::codec::malformed;
use super::connection::answered;
use super::nodes::Membership;
use super::schema::Collections;
use colloquy_model::account::AccountNumber;
use colloquy_model::node::{Node, NodeState};

/// The `_id` of the document that counts.
const COUNT: &str = "account_numbers";
/// The `_id` of the document that names the node that makes the first account.
const FIRST: &str = "first_account";

/// The next number above this one.
pub(super) async fn next(collections: &Collections, above: u32) -> Result<AccountNumber> {
    let count = doc! {"_id": COUNT};
    let known = doc! {"$max": {"last": i64::from(above)}};
    let note = collections.meta.update_one(count.clone(), known);
    answered(note.upsert(true).into_future()).await?;
    let take = collections
        .meta
        .find_one_and_update(count, doc! {"$inc": {"last": 1_i64}})
        .return_document(ReturnDocument::After);
    let taken = answered(take.into_future()).await?;
    taken
        .and_then(|taken| taken.get_i64("last").ok())
        .and_then(|number| u32::try_from(number).ok())
        .map(AccountNumber)
        .ok_or_else(|| malformed("the database does not say which numbers accounts have"))
}

/// The number of the first account, where this node makes it: it was the first that asked, or the
/// one that was is gone and has not made it.
pub(super) async fn first(membership: &Membership) -> Result<Option<AccountNumber>> {
    let collections = &membership.collections;
    let me = membership.id.to_string();
    let ask = collections
        .meta
        .find_one_and_update(doc! {"_id": FIRST}, doc! {"$setOnInsert": {"node": &me}})
        .upsert(true)
        .return_document(ReturnDocument::After);
    let found: Option<Document> = answered(ask.into_future()).await?;
    let found = found.ok_or_else(|| malformed("who makes the first account was not written"))?;
    let maker = found.get_str("node").map_err(malformed)?;
    if maker != me {
        let lives = |node: &Node| node.id.to_string() == maker && node.state != NodeState::Gone;
        if membership.list().await?.iter().any(lives) {
            return Ok(None);
        }
        let follow = collections.meta.update_one(
            doc! {"_id": FIRST, "node": maker},
            doc! {"$set": {"node": &me}},
        );
        if answered(follow.into_future()).await?.modified_count == 0 {
            return Ok(None);
        }
    }
    next(collections, 0).await.map(Some)
}
