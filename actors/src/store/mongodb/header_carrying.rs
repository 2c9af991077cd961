//! Carries over what commits do to headers, records and counters: before their answers leave, and
//! once more for a node that is gone.

use std::collections::HashMap;

use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;

use super::carry_over::{self, CustomerName};
use super::connection::answered;
use super::counters::CounterMoves;
use super::documents;
use super::header::{DocumentHeaderDocument, HeaderDocument};
use super::log::LogDocument;
use super::schema::{Collections, DOCUMENTS};
use super::statements::Statements;
use colloquy_model::entity::Kind;

/// Carries over the headers of these documents, with the counters that they move.
pub(super) async fn carry_over_headers<'d>(
    collections: &Collections,
    documents: impl Iterator<Item = &'d LogDocument> + Clone,
    counters: CounterMoves<'_>,
) -> Result<(), Error> {
    let customers = customers(collections, carry_over::customers_of(documents.clone())).await?;
    let statements = carry_over::headers(documents, &customers, counters);
    if statements.is_empty() {
        return Ok(());
    }
    statements.run(&collections.database).await
}

/// Carries over what conditions are judged by of a document that another node has inserted, which
/// does it, too: without the counters, each of which is moved in the order of its node's own.
pub(super) async fn carry_over_conditioned(
    collections: &Collections,
    document: &LogDocument,
) -> Result<(), Error> {
    let of_new = carry_over::customers_of(std::iter::once(document));
    let customers = customers(collections, of_new).await?;
    let statements = carry_over::header_of(document, &customers);
    if statements.is_empty() {
        return Ok(());
    }
    statements.run(&collections.database).await?;
    erase_again(collections, std::iter::once(document)).await
}

/// Has the texts of documents erased that were carried over late, behind the erasing of a document
/// that is gone for good.
pub(super) async fn erase_again<'d>(
    collections: &Collections,
    documents: impl Iterator<Item = &'d LogDocument>,
) -> Result<(), Error> {
    let has_texts =
        |header: &DocumentHeaderDocument| header.version.is_some() || !header.comments.is_empty();
    let with_texts = documents.filter(|document| {
        matches!(&document.header, Some(HeaderDocument::Document(header)) if has_texts(header))
    });
    let numbers: Vec<i64> = with_texts.map(|document| document.entity).collect();
    if numbers.is_empty() {
        return Ok(());
    }
    let gone = async {
        let headers = collections.database.collection::<Document>(DOCUMENTS);
        let gone = headers.find(doc! {"_id": {"$in": numbers}, "gone": true});
        let mut cursor = gone.projection(doc! {"_id": 1}).await?;
        let mut statements = Statements::default();
        while cursor.advance().await? {
            if let Ok(number) = cursor.deserialize_current()?.get_i64("_id") {
                documents::erase(number, &mut statements);
            }
        }
        Ok::<_, Error>(statements)
    };
    let statements = answered(gone).await?;
    if statements.is_empty() {
        return Ok(());
    }
    statements.run(&collections.database).await
}

/// The names of these customers, and the revisions that gave them.
async fn customers(
    collections: &Collections,
    numbers: Vec<i64>,
) -> Result<HashMap<i64, CustomerName>, Error> {
    let mut found = HashMap::new();
    if numbers.is_empty() {
        return Ok(found);
    }
    let filter = doc! {"_id": {"$in": numbers}, "kind": Kind::Customer as i32};
    let fields = doc! {"name": 1, "seq": 1};
    let mut cursor = collections.records.find(filter).projection(fields).await?;
    while cursor.advance().await? {
        let record = cursor.deserialize_current()?;
        let number = record.get("_id").and_then(Bson::as_i64).unwrap_or(0);
        let name = record.get_str("name").unwrap_or_default().to_owned();
        let revision = record.get_i64("seq").unwrap_or(0);
        found.insert(number, CustomerName { name, revision });
    }
    Ok(found)
}
