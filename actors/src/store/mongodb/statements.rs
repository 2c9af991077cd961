//! Many small updates of several collections in one command for each.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use serde::{Deserialize, Serialize};

use super::codec::{DUPLICATE_KEY, Met, int, met};
use super::connection::answered;
use super::schema::{CHORES, CONVERSATIONS, DOCUMENTS, RECORDS};
use colloquy_model::sequence::Sequence;

/// Statements of one command: a server would take more, but each command is waited for by itself,
/// also where it has no index.
const STATEMENTS_MAX: usize = 64;

/// The collections whose documents say up to which sequence an entity is carried over.
const HEADERS: [&str; 3] = [CONVERSATIONS, DOCUMENTS, RECORDS];

/// Updates and deletions by collection. Those of one collection are made in their order, but one
/// that meets a newer document leaves it as it is and does not hold the others up. Headers come
/// last: whoever finds one carried over up to a sequence takes it that all else is.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Statements {
    updates: BTreeMap<Cow<'static, str>, Vec<Document>>,
    deletes: BTreeMap<Cow<'static, str>, Vec<Document>>,
}

impl Statements {
    /// Sets these fields of the document with this `_id`, unless it is carried over further than
    /// this: `behind` is what must hold of it.
    pub(super) fn put(
        &mut self,
        collection: &'static str,
        id: impl Into<Bson>,
        behind: Document,
        change: Document,
    ) {
        let mut filter = doc! {"_id": id.into()};
        filter.extend(behind);
        // FerretDB holds a connection for each statement that stops at its first document, until
        // the command ends, and waits for ever where it has none left.
        let statement = doc! {"q": filter, "u": change, "upsert": true, "multi": true};
        self.updates
            .entry(collection.into())
            .or_default()
            .push(statement);
    }

    /// Changes the documents that are there and match.
    pub(super) fn update(&mut self, collection: &'static str, filter: Document, change: Document) {
        let statement = doc! {"q": filter, "u": change, "multi": true};
        self.updates
            .entry(collection.into())
            .or_default()
            .push(statement);
    }

    /// Deletes the documents that match.
    pub(super) fn delete(&mut self, collection: &'static str, filter: Document) {
        let statement = doc! {"q": filter, "limit": 0};
        self.deletes
            .entry(collection.into())
            .or_default()
            .push(statement);
    }

    /// Adds others behind these.
    pub(super) fn extend(&mut self, others: Statements) {
        for (collection, updates) in others.updates {
            self.updates.entry(collection).or_default().extend(updates);
        }
        for (collection, deletes) in others.deletes {
            self.deletes.entry(collection).or_default().extend(deletes);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.updates.is_empty() && self.deletes.is_empty()
    }

    /// Makes them all. Deletions come first. A statement that was made before changes nothing.
    ///
    /// # Errors
    /// The server did not answer in time, or refused one for another reason than a newer document.
    pub(super) async fn run(&self, database: &Database) -> Result<(), Error> {
        for (command, statements) in self.commands() {
            command.make(database, statements).await?;
        }
        Ok(())
    }

    fn commands(&self) -> impl Iterator<Item = (Command<'_>, &[Document])> {
        let deletes = self.deletes.iter().flat_map(|(collection, statements)| {
            let command = Command {
                name: "delete",
                statements: "deletes",
                collection,
            };
            statements
                .chunks(STATEMENTS_MAX)
                .map(move |some| (command, some))
        });
        let is_header =
            |(collection, _): &(&Cow<'static, str>, _)| HEADERS.contains(&collection.as_ref());
        let (headers, mut others): (Vec<_>, Vec<_>) = self.updates.iter().partition(is_header);
        // Whoever does a chore looks at what its commit has brought.
        others.sort_by_key(|(collection, _)| *collection == CHORES);
        let updates = others.into_iter().chain(headers);
        let updates = updates.flat_map(|(collection, statements)| {
            let command = Command {
                name: "update",
                statements: "updates",
                collection,
            };
            statements
                .chunks(STATEMENTS_MAX)
                .map(move |some| (command, some))
        });
        deletes.chain(updates)
    }
}

/// A command that makes statements of one collection.
#[derive(Debug, Clone, Copy)]
struct Command<'c> {
    name: &'static str,
    /// The field that holds them.
    statements: &'static str,
    collection: &'c str,
}

impl Command<'_> {
    /// Makes statements. Where one of them meets a newer document, those behind it may not have
    /// been made, whatever was asked (FerretDB stops there). Most often many of them do: they were made
    /// before, by a process that was not told so in time. So what changes a document that is there does
    /// no more than that, which a newer one lets be, and only the others insert.
    async fn make(self, database: &Database, statements: &[Document]) -> Result<(), Error> {
        if self.try_all(database, statements).await? == Made::All {
            return Ok(());
        }
        let Some(ids) = inserted(statements) else {
            return self.make_each(database, statements).await;
        };
        let there = self.there(database, ids).await?;
        let is_there =
            |statement: &&Document| id_of(statement).is_some_and(|id| there.contains(id));
        let (known, missing): (Vec<_>, Vec<_>) = statements.iter().partition(is_there);
        let changing = known.into_iter().map(|statement| {
            let mut changing = statement.clone();
            changing.remove("upsert");
            changing
        });
        let changing: Vec<Document> = changing.collect();
        self.make_each(database, &changing).await?;
        let missing: Vec<Document> = missing.into_iter().cloned().collect();
        self.make_each(database, &missing).await
    }

    /// The `_id`s of those of these documents that are there.
    async fn there(self, database: &Database, ids: Vec<Bson>) -> Result<Vec<Bson>, Error> {
        let collection = database.collection::<Document>(self.collection);
        let found = async {
            let find = collection.find(doc! {"_id": {"$in": ids}});
            let mut cursor = find.projection(doc! {"_id": 1}).await?;
            let mut there = Vec::new();
            while cursor.advance().await? {
                there.extend(cursor.deserialize_current()?.remove("_id"));
            }
            Ok(there)
        };
        answered(found).await
    }

    /// Makes statements, where one of them meets a newer document each half once more, so that in the
    /// end that one alone is left out.
    async fn make_each(self, database: &Database, statements: &[Document]) -> Result<(), Error> {
        let mut left = vec![statements];
        while let Some(some) = left.pop() {
            let made = match some.is_empty() {
                true => Made::All,
                false => self.try_all(database, some).await?,
            };
            if made == Made::NotAll && some.len() > 1 {
                let (first, second) = some.split_at(some.len() / 2);
                left.extend([second, first]);
            }
        }
        Ok(())
    }

    async fn try_all(self, database: &Database, statements: &[Document]) -> Result<Made, Error> {
        let command = doc! {
            self.name: self.collection, self.statements: statements, "ordered": false,
            // A command that is made by hand takes nothing of this from the connection.
            "writeConcern": {"w": "majority", "j": true},
        };
        checked(&answered(database.run_command(command).into_future()).await?)
    }
}

/// The `_id` of the one document that a statement changes.
fn id_of(statement: &Document) -> Option<&Bson> {
    statement.get_document("q").ok()?.get("_id")
}

/// The `_id`s of the documents that these statements insert where they are not there; none where one of
/// them does something else, so that their order counts.
fn inserted(statements: &[Document]) -> Option<Vec<Bson>> {
    let id = |statement: &Document| {
        let inserts = statement.get_bool("upsert").unwrap_or(false);
        id_of(statement).filter(|_| inserts).cloned()
    };
    statements.iter().map(id).collect()
}

/// What a command that writes says of its statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    All,
    /// One met a newer document: a duplicate key.
    NotAll,
}

fn checked(reply: &Document) -> Result<Made, Error> {
    let Ok(errors) = reply.get_array("writeErrors") else {
        return Ok(Made::All);
    };
    for error in errors {
        let error = Error::custom(error.clone());
        if !is_duplicate(&error) {
            return Err(error);
        }
    }
    Ok(Made::NotAll)
}

fn is_duplicate(error: &Error) -> bool {
    if met(error) == Met::Duplicate {
        return true;
    }
    let custom = error.get_custom::<Bson>().and_then(Bson::as_document);
    custom.is_some_and(|document| document.get_i32("code").ok() == Some(DUPLICATE_KEY))
}

/// That a document of a collection is carried over less far than this.
pub(super) fn behind(sequence: Sequence) -> Document {
    doc! {"seq": {"$lt": int(sequence.0)}}
}

#[cfg(test)]
mod tests {
    use super::super::schema::{COMMENTS, ERASURES, NAMES, VERSIONS};
    use super::*;

    /// A document was loaded between its header and its version, and gave the next version the
    /// same number.
    #[test]
    fn headers_are_written_behind_all_that_they_vouch_for() {
        let mut statements = Statements::default();
        for collection in [DOCUMENTS, RECORDS, CONVERSATIONS, COMMENTS, VERSIONS, NAMES] {
            statements.put(collection, 1, Document::new(), doc! {"$set": {"seq": 1}});
            statements.delete(NAMES, doc! {"record": 1});
        }
        let written: Vec<&str> = statements
            .commands()
            .map(|(command, _)| command.collection)
            .collect();
        let (others, headers) = written.split_at(written.len() - HEADERS.len());
        assert!(headers.iter().all(|last| HEADERS.contains(last)));
        assert!(others.iter().all(|first| !HEADERS.contains(first)));
        assert_eq!(others, [NAMES, COMMENTS, NAMES, VERSIONS]);
    }

    /// A conversation's erasure was taken for done before its texts were noted as being erased.
    #[test]
    fn chores_are_written_behind_what_they_look_for() {
        let mut statements = Statements::default();
        for collection in [CHORES, CONVERSATIONS, ERASURES, COMMENTS] {
            statements.put(collection, 1, Document::new(), Document::new());
        }
        let written: Vec<&str> = statements
            .commands()
            .map(|(command, _)| command.collection)
            .collect();
        assert_eq!(written, [COMMENTS, ERASURES, CHORES, CONVERSATIONS]);
    }
}
