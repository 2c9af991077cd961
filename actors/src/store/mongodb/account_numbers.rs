//! The numbers that stand for accounts, each given once by one document that counts for all nodes.

use mongodb::bson::doc;
use mongodb::error::Result;
use mongodb::options::ReturnDocument;

use super::codec::malformed;
use super::connection::answered;
use super::schema::Collections;
use colloquy_model::account::AccountNumber;

/// The `_id` of the document that counts.
const COUNT: &str = "account_numbers";

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
