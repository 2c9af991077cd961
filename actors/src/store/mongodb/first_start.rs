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
use crate::store::{Operator, ToMake};
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
    let mut has_waited = false;
    let is_again = loop {
        match claim(membership, highest).await? {
            Claim::First => break false,
            Claim::Again => break true,
            Claim::Over => {
                let is_stale = has_waited && makes_token;
                let operator = match is_stale {
                    true => Some(open::operator(collections, None).await?),
                    false => None,
                };
                return Ok(ToMake {
                    account: None,
                    operator,
                });
            }
            Claim::OfAnother => {
                has_waited = true;
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    };
    if !is_again && highest > 0 {
        return Ok(ToMake::default());
    }
    let operator: Option<Operator> = match is_again && makes_token {
        true => Some(open::new_operator(collections).await?),
        false => None,
    };
    let account = account_numbers::next(collections, highest).await?;
    Ok(ToMake {
        account: Some(account),
        operator,
    })
}

/// Whose the first start is.
enum Claim {
    /// This node's: nobody has begun one.
    First,
    /// This node's: whoever began it is gone, and nobody has seen its secrets.
    Again,
    /// That of another node, which lives and has not shown them yet.
    OfAnother,
    /// Nobody's any more.
    Over,
}

async fn claim(membership: &Membership, highest: u32) -> Result<Claim> {
    let meta = &membership.collections.meta;
    let me = membership.id.to_string();
    let first = doc! {"$setOnInsert": {"node": &me, "shown": false}};
    let ask = meta
        .find_one_and_update(doc! {"_id": FIRST}, first)
        .upsert(true)
        .return_document(ReturnDocument::After);
    let found: Option<Document> = answered(ask.into_future()).await?;
    let found = found.ok_or_else(|| malformed("who makes the first account was not written"))?;
    let maker = found.get_str("node").map_err(malformed)?;
    if maker == me {
        return Ok(Claim::First);
    }
    // Versions that did not note it have shown them, if they have made an account.
    if found.get_bool("shown").unwrap_or(highest > 0) {
        return Ok(Claim::Over);
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
        _ => Ok(Claim::Again),
    }
}

/// Notes that the secrets were shown, where this node has made them.
pub(super) async fn secrets_shown(membership: &Membership) -> Result<()> {
    let mine = doc! {"_id": FIRST, "node": membership.id.to_string()};
    let shown = doc! {"$set": {"shown": true}};
    let note = membership.collections.meta.update_one(mine, shown);
    answered(note.into_future()).await.map(drop)
}
