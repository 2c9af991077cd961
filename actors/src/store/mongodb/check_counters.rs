//! Checks of counters: the totals that lists show are what there is. Both are read in the same order,
//! so that only one total of each is in memory.

use mongodb::Cursor;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;

use super::counters::Counted;
use super::findings::Findings;
use super::schema::{CONVERSATIONS, COUNTERS, Collections, DOCUMENTS, RECORDS};

/// What a total is of: tenant, value and status.
type Key = [i64; 3];

/// What a field of the counters counts.
#[derive(Debug, Clone, Copy)]
struct Counts {
    field: Counted,
    collection: &'static str,
    /// The field that has the value; none where all have the same.
    value: Option<&'static str>,
    /// The field that has the status; none where nothing has one.
    status: Option<&'static str>,
}

const COUNTS: [Counts; 7] = [
    of_conversations(Counted::All, None),
    of_conversations(Counted::Channel, Some("channel")),
    of_conversations(Counted::Priority, Some("priority")),
    of_conversations(Counted::Customer, Some("customer")),
    of_conversations(Counted::Assignee, Some("assignee")),
    Counts {
        field: Counted::Records,
        collection: RECORDS,
        value: Some("kind"),
        status: None,
    },
    Counts {
        field: Counted::Documents,
        collection: DOCUMENTS,
        value: Some("deleted"),
        status: None,
    },
];

/// A field that counts conversations by a value and by their status.
const fn of_conversations(field: Counted, value: Option<&'static str>) -> Counts {
    Counts {
        field,
        collection: CONVERSATIONS,
        value,
        status: Some("status"),
    }
}

/// Compares each counter with what it counts.
pub(super) async fn counters(
    collections: &Collections,
    findings: &mut Findings,
) -> Result<(), Error> {
    for counts in COUNTS {
        compare(collections, counts, findings).await?;
    }
    Ok(())
}

/// Compares the counters of one field.
async fn compare(
    collections: &Collections,
    counts: Counts,
    findings: &mut Findings,
) -> Result<(), Error> {
    let mut counted = Totals::counted(collections, counts).await?;
    let mut kept = Totals::kept(collections, counts.field).await?;
    let (mut next_counted, mut next_kept) = (counted.next().await?, kept.next().await?);
    loop {
        let key = match (next_counted, next_kept) {
            (None, None) => return Ok(()),
            (Some((key, _)), None) | (None, Some((key, _))) => key,
            (Some((one, _)), Some((other, _))) => one.min(other),
        };
        let (mut there, mut shown) = (0, 0);
        if let Some((_, total)) = next_counted.filter(|(of, _)| *of == key) {
            there = total;
            next_counted = counted.next().await?;
        }
        if let Some((_, total)) = next_kept.filter(|(of, _)| *of == key) {
            shown = total;
            next_kept = kept.next().await?;
        }
        if there != shown {
            let [tenant, value, status] = key;
            let field = counts.field;
            let found = format!(
                "tenant {tenant} field {field:?} value {value} status {status}: \
                 {shown} are counted, {there} are there"
            );
            findings.note("counters", found);
        }
    }
}

/// The fields of which a total is made.
#[derive(Debug, Clone, Copy)]
struct Fields {
    /// Those of the key; none where all documents have the same.
    key: [Option<&'static str>; 3],
    /// The field that says how many; none where each document is one.
    total: Option<&'static str>,
}

impl Fields {
    fn key_of(&self, document: &Document) -> Key {
        self.key
            .map(|field| field.map_or(0, |field| number(document, field)))
    }

    fn total_of(&self, document: &Document) -> i64 {
        self.total.map_or(1, |total| number(document, total))
    }
}

/// Reads totals in the order of their keys.
struct Totals {
    cursor: Cursor<Document>,
    fields: Fields,
    /// The first document of the next total, which was read to find the end of the last one.
    begun: Option<(Key, i64)>,
}

impl Totals {
    /// Counts the documents of a collection.
    async fn counted(collections: &Collections, counts: Counts) -> Result<Self, Error> {
        let fields = Fields {
            key: [Some("tenant"), counts.value, counts.status],
            total: None,
        };
        let filter = match counts.field {
            Counted::All | Counted::Channel | Counted::Priority | Counted::Customer => {
                doc! {"gone": {"$ne": true}}
            }
            Counted::Assignee => doc! {"assignee": {"$gte": 0_i64}},
            Counted::Records | Counted::Documents => doc! {"gone": false},
        };
        Self::read(collections, counts.collection, filter, fields).await
    }

    /// Adds up the counters of a field, of which each node has its own.
    async fn kept(collections: &Collections, field: Counted) -> Result<Self, Error> {
        let filter = doc! {"field": field as i32};
        let fields = Fields {
            key: [Some("tenant"), Some("value"), Some("status")],
            total: Some("total"),
        };
        Self::read(collections, COUNTERS, filter, fields).await
    }

    async fn read(
        collections: &Collections,
        collection: &str,
        filter: Document,
        fields: Fields,
    ) -> Result<Self, Error> {
        let mut order = Document::new();
        for field in fields.key.into_iter().flatten() {
            order.insert(field, 1);
        }
        let mut shown = order.clone();
        shown.extend(fields.total.map(|total| (total.to_owned(), Bson::from(1))));
        let found = collections.database.collection::<Document>(collection);
        let found = found.find(filter).projection(shown).sort(order);
        Ok(Totals {
            cursor: found.allow_disk_use(true).await?,
            fields,
            begun: None,
        })
    }

    /// The next total; none at the end.
    async fn next(&mut self) -> Result<Option<(Key, i64)>, Error> {
        let mut sum = self.begun.take();
        while self.cursor.advance().await? {
            let document = self.cursor.deserialize_current()?;
            let key = self.fields.key_of(&document);
            let count = self.fields.total_of(&document);
            match &mut sum {
                Some((of, total)) if *of == key => *total += count,
                Some(_) => {
                    self.begun = Some((key, count));
                    return Ok(sum);
                }
                None => sum = Some((key, count)),
            }
        }
        Ok(sum)
    }
}

/// A field as a number, where a field that is not there is 0.
fn number(document: &Document, field: &str) -> i64 {
    match document.get(field) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Boolean(is)) => i64::from(*is),
        Some(_) | None => 0,
    }
}
