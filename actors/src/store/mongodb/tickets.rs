//! Tickets that open a realtime connection. A document is there until its ticket is redeemed, or
//! until housekeeping finds that it has ended.

use mongodb::Collection;
use mongodb::bson::{Binary, Document, doc};
use mongodb::error::Result;
use serde::{Deserialize, Serialize};

use super::codec::{binary, damaged, failed, int, uint};
use super::connection::answered;
use super::find::one;
use super::schema::{Collections, TICKETS};
use crate::store::{ReadError, Ticket};
use colloquy_model::id::UserId;
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;

/// A ticket as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct TicketDocument {
    /// The hash of its text.
    #[serde(rename = "_id")]
    id: Binary,
    account: i64,
    /// What it was made with, in JSON.
    bearer: String,
    /// The user that this acts for, by number and tail.
    user: Option<(i64, i64)>,
    #[serde(default)]
    signed: bool,
    ends_at: i64,
}

impl TicketDocument {
    fn of(hash: &SecretHash, ticket: &Ticket) -> Self {
        TicketDocument {
            id: binary(hash),
            account: i64::from(ticket.account),
            bearer: colloquy_model::json::text(&ticket.bearer),
            user: ticket
                .user
                .map(|user| (int(user.number()), int(user.tail()))),
            signed: ticket.signed,
            ends_at: ticket.ends_at.0,
        }
    }

    fn ticket(self) -> std::result::Result<Ticket, ReadError> {
        let damage = |what| ReadError::from(damaged("a ticket", what));
        let bearer = serde_json::from_str(&self.bearer)
            .map_err(|_| damage("what it was made with can't be read"))?;
        let account =
            u32::try_from(self.account).map_err(|_| damage("its account has no such number"))?;
        Ok(Ticket {
            account,
            bearer,
            user: self
                .user
                .map(|(number, tail)| UserId::from_parts(uint(number), uint(tail))),
            signed: self.signed,
            ends_at: Timestamp(self.ends_at),
        })
    }
}

fn tickets(collections: &Collections) -> Collection<Document> {
    collections.database.collection(TICKETS)
}

/// Keeps a ticket, and of the account's others the newest: so many in all.
pub(super) async fn issue(
    collections: &Collections,
    hash: SecretHash,
    ticket: Ticket,
    per_account: usize,
) -> Result<()> {
    let document = TicketDocument::of(&hash, &ticket);
    let typed = collections.database.collection::<TicketDocument>(TICKETS);
    answered(typed.insert_one(&document).into_future()).await?;
    let tickets = tickets(collections);
    let void = async {
        let beyond = tickets
            .find(doc! {"account": document.account, "_id": {"$ne": document.id}})
            .projection(doc! {"_id": 1})
            .sort(doc! {"ends_at": -1, "_id": 1})
            .skip(per_account.saturating_sub(1) as u64);
        let mut beyond = beyond.await?;
        let mut ids = Vec::new();
        while beyond.advance().await? {
            ids.extend(beyond.deserialize_current()?.remove("_id"));
        }
        if !ids.is_empty() {
            tickets.delete_many(doc! {"_id": {"$in": ids}}).await?;
        }
        Ok(())
    };
    answered(void).await
}

/// The ticket with this hash.
pub(super) async fn find(
    collections: &Collections,
    hash: SecretHash,
) -> std::result::Result<Option<Ticket>, ReadError> {
    let found: Option<TicketDocument> =
        one(collections, TICKETS, doc! {"_id": binary(&hash)}).await?;
    found.map(TicketDocument::ticket).transpose()
}

/// Deletes the ticket; whoever deleted it has redeemed it.
pub(super) async fn redeem(
    collections: &Collections,
    hash: SecretHash,
) -> std::result::Result<bool, ReadError> {
    let tickets = tickets(collections);
    let delete = tickets.delete_one(doc! {"_id": binary(&hash)});
    let deleted = answered(delete.into_future()).await;
    deleted
        .map(|deleted| deleted.deleted_count == 1)
        .map_err(|error| failed(&error))
}

/// Deletes the tickets that have ended.
pub(super) async fn delete_ended(collections: &Collections) -> Result<()> {
    let ended = doc! {"ends_at": {"$lte": Timestamp::now().0}};
    let deleted = answered(tickets(collections).delete_many(ended).into_future()).await;
    deleted.map(|_| ())
}
