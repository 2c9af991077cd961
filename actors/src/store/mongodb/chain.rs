//! The chain over the records of the log, read for whoever verifies it: what stands in the log is
//! compared with what was linked. Nothing is changed here.

use mongodb::bson::{Document, deserialize_from_document, doc};
use mongodb::error::{Error, Result};
use tokio::runtime::{Builder, Runtime};

use super::codec::{damaged, malformed};
use super::connection::{self, answered};
use super::emptied_rows::Explanations;
use super::linking::{self, Behind, SliceDocument};
use super::nodes;
use super::open::OpenError;
use super::positions;
use super::schema::{AUDIT_LINKS, Collections, LOG, RECORDS};
use super::sealed_documents::{LoggedRecord, SealedDocument};
use super::store_key;
use crate::sealing::GivenKeys;
use crate::store::audit_chain::{
    Link, UNEXPLAINED, head_key, is_altered, know_account, link, sign_head, to_hex,
};
use crate::store::{Broken, ChainHead, ChainPage, ChainRecord};
use colloquy_model::entity::Kind;
use colloquy_model::position::Position;

/// Slices that are read at once.
const SLICES_AT_ONCE: i64 = 64;

/// Records of the chain behind this position, at most so many, and its end as of that moment.
pub(super) async fn page(collections: &Collections, position: i64, most: u32) -> Result<ChainPage> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let slices = slices_behind(collections, position, most).await?;
    let mut read = Read {
        position,
        data: Vec::new(),
        broken: None,
    };
    let mut explanations = Explanations::of(collections);
    for slice in &slices {
        let logged = Logged::of(collections, slice).await?;
        read.take(slice, &logged);
        for record in logged.documents.iter().flat_map(SealedDocument::records) {
            if !explanations.explain(&record).await.map_err(malformed)? {
                read.found(record.position, UNEXPLAINED);
            }
        }
    }
    let is_cut = read.data.len() > most;
    read.data.truncate(most);
    let last = read.data.last().map(ChainRecord::position);
    let end = slices.last().map_or(position, |slice| slice.last);
    let is_last = !is_cut && slices_behind(collections, end, 1).await?.is_empty();
    let mut page = ChainPage {
        broken: read
            .broken
            .filter(|broken| !is_cut || last >= Some(broken.position)),
        data: read.data,
        is_last,
        ..ChainPage::default()
    };
    if is_last {
        add_end(collections, &mut page).await?;
    }
    Ok(page)
}

/// The next slices that have records behind this position, of about so many records.
async fn slices_behind(
    collections: &Collections,
    position: i64,
    most: usize,
) -> Result<Vec<SliceDocument>> {
    let slices = collections
        .database
        .collection::<SliceDocument>(AUDIT_LINKS);
    let found = async {
        let behind = slices.find(doc! {"last": {"$gt": position}});
        let mut cursor = behind.sort(doc! {"last": 1}).limit(SLICES_AT_ONCE).await?;
        let (mut found, mut records) = (Vec::new(), 0);
        while records < most && cursor.advance().await? {
            let slice = cursor.deserialize_current()?;
            records += slice.entries().count();
            found.push(slice);
        }
        Ok(found)
    };
    answered(found).await
}

/// The end of the chain, and what else is to be known behind the last record.
async fn add_end(collections: &Collections, page: &mut ChainPage) -> Result<()> {
    let chained = linking::chained(collections).await?;
    page.head = effective_head(collections).await?;
    page.signed = page.head.as_ref().and_then(ChainHead::is_signed);
    let head = page.head.as_ref().map_or(0, |head| head.position);
    let standing = positions::standing(collections).await?;
    let mut from = Position(head);
    loop {
        let behind = Behind::read(collections, from, Position(i64::MAX)).await?;
        let Some(last) = behind.documents.last().map(SealedDocument::last_position) else {
            break;
        };
        let records = behind.documents.iter().map(|one| one.records().count());
        page.unlinked += u64::try_from(records.sum::<usize>()).unwrap_or(u64::MAX);
        from = Position(last);
    }
    // Whatever is carried over has something at its position, if only a document that says nothing.
    if let Some(chained) = chained
        && standing.carried.0 > from.0.max(chained)
    {
        page.beyond = Some(format!("the store knows of position {}", standing.carried));
    }
    Ok(())
}

/// The head, or that of the slice that was made just before a crash.
async fn effective_head(collections: &Collections) -> Result<Option<ChainHead>> {
    let Some(head) = linking::head(collections).await? else {
        return Ok(None);
    };
    let last = linking::last_slice(collections).await?;
    let behind = last
        .filter(|last| last.number > head.number)
        .and_then(|last| last.end());
    Ok(Some(match (behind, head_key()) {
        (Some(end), Some(key)) => ChainHead {
            position: end.position,
            link: to_hex(&end.link),
            signature: to_hex(&sign_head(&key, end.position, &end.link)),
        },
        _ => ChainHead {
            position: head.position,
            link: to_hex(&head.link.bytes),
            signature: to_hex(&head.signature.bytes),
        },
    }))
}

/// What stands in the log where a slice tells of it.
struct Logged {
    documents: Vec<SealedDocument>,
    /// Where a document stands that can't be read.
    unreadable: Option<i64>,
}

impl Logged {
    async fn of(collections: &Collections, slice: &SliceDocument) -> Result<Self> {
        let log = collections.database.collection::<Document>(LOG);
        let found = async {
            let within = doc! {"position": {"$gte": slice.first, "$lte": slice.last}};
            let fields = doc! {"header": 0, "answer": 0};
            let found = log.find(within).projection(fields);
            let mut cursor = found.sort(doc! {"position": 1}).await?;
            let mut logged = Logged {
                documents: Vec::new(),
                unreadable: None,
            };
            while cursor.advance().await? {
                let document = cursor.deserialize_current()?;
                let position = document.get_i64("position").map_err(Error::custom)?;
                match deserialize_from_document(document) {
                    Ok(document) => logged.documents.push(document),
                    Err(error) => {
                        damaged("a document of the log, for the audit trail's chain", error);
                        logged.unreadable.get_or_insert(position);
                    }
                }
            }
            Ok(logged)
        };
        answered(found).await
    }
}

/// What was read for a page.
struct Read {
    /// Behind which position.
    position: i64,
    data: Vec<ChainRecord>,
    broken: Option<Broken>,
}

impl Read {
    fn found(&mut self, position: i64, what: &str) {
        let broken = Broken::at(position, what);
        let is_first = |first: &Broken| first.position > position;
        if position > self.position && self.broken.as_ref().is_none_or(is_first) {
            self.broken = Some(broken);
        }
    }

    /// Takes in what a slice tells, and what stands in the log.
    fn take(&mut self, slice: &SliceDocument, logged: &Logged) {
        let mut before = Link::try_from(slice.before.bytes.as_slice()).unwrap_or_default();
        let mut records = logged
            .documents
            .iter()
            .flat_map(SealedDocument::records)
            .peekable();
        if let Some(position) = logged.unreadable {
            self.found(position, "the record can't be read");
        }
        for (position, digest) in slice.entries() {
            while let Some(record) = records.next_if(|record| record.position < position) {
                self.found(record.position, "the record was put in later");
            }
            before = link(&before, &digest);
            match records.next_if(|record| record.position == position) {
                None => self.found(position, "the record is missing"),
                Some(record) => self.take_record(&record, &digest, &before),
            }
        }
        for record in records {
            self.found(record.position, "the record was put in later");
        }
        let is_whole = slice.link.bytes == before && slice.entries().count() > 0;
        let key = head_key();
        let end = slice.end();
        let is_signed = key
            .zip(end)
            .is_none_or(|(key, end)| end.is_signed(&key, &slice.signature.bytes));
        if !is_whole || !is_signed {
            self.found(
                slice.last,
                "the links up to here are not those that were signed",
            );
        }
    }

    fn take_record(&mut self, record: &LoggedRecord<'_>, digest: &[u8; 32], link: &Link) {
        let sealed = record.sealed();
        if sealed.digest() != *digest {
            self.found(record.position, "the record was altered");
        }
        if let Some(row) = record.row
            && let Some(salt) = &row.salt
            && is_altered(&salt.bytes, row.payload.as_bytes(), &row.hash.bytes)
        {
            self.found(record.position, "what the record says was altered");
        }
        if record.position > self.position {
            self.data.push(sealed.record(Some(link)));
        }
    }
}

/// Takes the keys of accounts' texts out of their records.
async fn know_accounts(collections: &Collections) -> Result<()> {
    let records = collections.database.collection::<Document>(RECORDS);
    let accounts = records.find(doc! {"kind": Kind::Account as i32, "gone": false});
    let mut cursor = accounts.sort(doc! {"_id": 1}).await?;
    while cursor.advance().await? {
        let account = cursor.deserialize_current()?;
        if let Ok(body) = account.get_str("body") {
            know_account(body);
        }
    }
    Ok(())
}

/// The chain of a database that no server uses. Nothing is changed in it.
#[derive(Debug)]
pub struct MongoChain {
    runtime: Runtime,
    collections: Collections,
}

impl MongoChain {
    /// Opens a database. The end of the chain is verified if a master key is given, or kept in it.
    ///
    /// # Errors
    /// A server uses it, it is under another master key, or it does not answer.
    pub fn open(uri: &str, name: &str, given: &GivenKeys) -> std::result::Result<Self, OpenError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let collections = runtime.block_on(async {
            let collections = Collections::of(connection::database(uri, name).await?);
            if nodes::used::is_used(&collections).await? {
                return Err(OpenError::InUse(name.to_owned()));
            }
            store_key::open_to_read(&collections, given).await?;
            know_accounts(&collections).await?;
            Ok(collections)
        })?;
        Ok(MongoChain {
            runtime,
            collections,
        })
    }

    /// Records behind this position, at most so many.
    ///
    /// # Errors
    /// The database does not answer.
    pub fn page(&self, position: i64, most: u32) -> std::result::Result<ChainPage, OpenError> {
        let page = page(&self.collections, position, most);
        Ok(self.runtime.block_on(page)?)
    }
}
