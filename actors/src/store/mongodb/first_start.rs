//! A first start on a database: which of the nodes that start together makes the first account, and
//! the operators' token anew where whoever made it died before anybody had seen it.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use mongodb::options::ReturnDocument;

use super::codec::malformed;
use super::connection::answered;
use super::nodes::Membership;
use super::{account_numbers, open};
use crate::store::ToMake;
use colloquy_model::node::{Node, NodeState};

/// The `_id` of the document that names the node that makes the first account, and says whether its
/// secrets were shown.
const FIRST: &str = "first_account";
/// How often a node looks whether another one has done so, or is gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What this node makes, where the highest number of an account is this one.
pub(super) async fn to_make(
    membership: &Membership,
    highest: u32,
    makes_token: bool,
) -> Result<ToMake> {
    let collections = &membership.collections;
    let is_mine = loop {
        match claim(membership, highest).await? {
            Claim::Mine => break true,
            Claim::Over => break false,
            Claim::OfAnother => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    let operator = match (makes_token, is_mine) {
        (false, _) => None,
        // The one that stands there nobody has seen: it is this start's, or that of one which ended.
        (true, true) => Some(open::new_operator(collections).await?),
        // Another node may have made it anew since this one opened the store.
        (true, false) => Some(open::operator(collections, None).await?),
    };
    let account = match is_mine {
        true => Some(account_numbers::next(collections, highest).await?),
        false => None,
    };
    Ok(ToMake { account, operator })
}

/// Whose the first start is.
enum Claim {
    /// This node's: nobody has begun one, or whoever did is gone, and nobody has seen its secrets.
    Mine,
    /// That of another node, which lives and has not shown them yet.
    OfAnother,
    /// Nobody's any more.
    Over,
}

async fn claim(membership: &Membership, highest: u32) -> Result<Claim> {
    let meta = &membership.collections.meta;
    let me = membership.id.to_string();
    // Accounts without this document are of a version that did not write it, or of a dump.
    let first = doc! {"$setOnInsert": {"node": &me, "shown": highest > 0}};
    let ask = meta
        .find_one_and_update(doc! {"_id": FIRST}, first)
        .upsert(true)
        .return_document(ReturnDocument::After);
    let found: Option<Document> = answered(ask.into_future()).await?;
    let found = found.ok_or_else(|| malformed("who makes the first account was not written"))?;
    let maker = found.get_str("node").map_err(malformed)?;
    // Versions that did not note it have shown them, if they have made an account.
    if found.get_bool("shown").unwrap_or(highest > 0) {
        return Ok(Claim::Over);
    }
    if maker == me {
        return Ok(Claim::Mine);
    }
    let lives = |node: &Node| node.id.to_string() == maker && node.state != NodeState::Gone;
    if membership.list().await?.iter().any(lives) {
        return Ok(Claim::OfAnother);
    }
    let follow = meta.update_one(
        doc! {"_id": FIRST, "node": maker},
        doc! {"$set": {"node": &me, "shown": false}},
    );
    match answered(follow.into_future()).await?.modified_count {
        0 => Ok(Claim::OfAnother),
        _ => Ok(Claim::Mine),
    }
}

/// Notes that the secrets were shown that this node has made.
pub(super) async fn secrets_shown(membership: &Membership) -> Result<()> {
    let mine = doc! {"_id": FIRST, "node": membership.id.to_string()};
    let shown = doc! {"$set": {"shown": true}};
    let note = membership.collections.meta.update_one(mine, shown);
    match answered(note.into_future()).await?.matched_count {
        // Taken for gone, it has made a token that is no longer the one that holds.
        0 => Err(malformed("another node has taken the first start over")),
        _ => Ok(()),
    }
}
