//! What accounts used: a document for each day, credential and node. `last` is the slice of the node
//! up to which it counts, so that one that is written again is added once.

use std::collections::BTreeMap;

use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{int, uint};
use super::find::Find;
use super::schema::{Collections, USAGE};
use super::statements::Statements;
use crate::store::{AccountUsage, NodeRequests, ReadError, UsageItem, UsageQuery, UsageSlice};
use colloquy_model::time::Timestamp;
use colloquy_model::usage::{CountedCredential, DayUsage, UsageCounts};

/// What a node counted of a credential on a day.
#[derive(Debug, Deserialize)]
pub(super) struct UsageDocument {
    account: i64,
    day: i64,
    credential: i64,
    tail: i64,
    requests: i64,
    rate_limited: i64,
    quota_exceeded: i64,
    forbidden: i64,
    deliveries: i64,
    bytes_in: i64,
    bytes_out: i64,
}

impl UsageDocument {
    fn credential(&self) -> CountedCredential {
        CountedCredential {
            code: self.credential,
            tail: uint(self.tail),
        }
    }

    fn counts(&self) -> UsageCounts {
        UsageCounts {
            requests: uint(self.requests),
            rate_limited: uint(self.rate_limited),
            quota_exceeded: uint(self.quota_exceeded),
            forbidden: uint(self.forbidden),
            deliveries: uint(self.deliveries),
            bytes_in: uint(self.bytes_in),
            bytes_out: uint(self.bytes_out),
        }
    }

    /// Whether both are of one account, day and credential.
    pub(super) fn is_beside(&self, other: &UsageDocument) -> bool {
        (self.account, self.day) == (other.account, other.day)
            && self.credential() == other.credential()
    }

    /// Adds what another node counted of the same.
    pub(super) fn add(&mut self, other: &UsageDocument) {
        self.requests += other.requests;
        self.rate_limited += other.rate_limited;
        self.quota_exceeded += other.quota_exceeded;
        self.forbidden += other.forbidden;
        self.deliveries += other.deliveries;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }

    /// As it moves to another store.
    pub(super) fn item(self) -> UsageItem {
        UsageItem {
            account: self.account,
            day: self.day,
            credential: self.credential,
            tail: self.tail,
            requests: self.requests,
            rate_limited: self.rate_limited,
            quota_exceeded: self.quota_exceeded,
            forbidden: self.forbidden,
            deliveries: self.deliveries,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
        }
    }
}

/// Requests of one document.
#[derive(Debug, Deserialize)]
struct RequestsDocument {
    account: i64,
    node: i64,
    requests: i64,
}

/// The statements that add a slice of the node of this number, unless it was added before.
pub(super) fn adding(slice: &UsageSlice, node: i64) -> Statements {
    let mut statements = Statements::default();
    for AccountUsage { account, used } in &slice.rows {
        let DayUsage {
            day,
            credential,
            counts,
        } = used;
        let account = i64::from(*account);
        let id = format!(
            "{account}.{}.{}.{}.{node}",
            day.0, credential.code, credential.tail
        );
        let change = doc! {
            "$inc": {
                "requests": int(counts.requests), "rate_limited": int(counts.rate_limited),
                "quota_exceeded": int(counts.quota_exceeded), "forbidden": int(counts.forbidden),
                "deliveries": int(counts.deliveries), "bytes_in": int(counts.bytes_in),
                "bytes_out": int(counts.bytes_out),
            },
            "$set": {
                "last": int(slice.number), "node": node, "account": account, "day": day.0,
                "credential": credential.code, "tail": int(credential.tail),
            },
        };
        let behind = doc! {"last": {"$lt": int(slice.number)}};
        statements.put(USAGE, id, behind, change);
    }
    statements
}

/// The document of what another store held: no node of this database counted it.
pub(super) fn imported(item: &UsageItem) -> Document {
    doc! {
        "_id": format!("{}.{}.{}.{}.0", item.account, item.day, item.credential, item.tail),
        "last": 0_i64, "node": 0_i64, "account": item.account, "day": item.day,
        "credential": item.credential, "tail": item.tail, "requests": item.requests,
        "rate_limited": item.rate_limited, "quota_exceeded": item.quota_exceeded,
        "forbidden": item.forbidden, "deliveries": item.deliveries, "bytes_in": item.bytes_in,
        "bytes_out": item.bytes_out,
    }
}

/// A read in the order of the index that serves it.
fn by_day(filter: Document, fields: Document) -> Find {
    Find {
        sort: doc! {"day": 1},
        ..Find::all(USAGE, filter, fields)
    }
}

/// What an account used on these days, at all nodes.
pub(super) async fn days(
    collections: &Collections,
    query: UsageQuery,
) -> Result<Vec<DayUsage>, ReadError> {
    let UsageQuery { account, from, to } = query;
    let filter = doc! {"account": i64::from(account), "day": {"$gte": from.0, "$lt": to.0}};
    let found: Vec<UsageDocument> = by_day(filter, Document::new()).read(collections).await?;
    let mut days: BTreeMap<(Timestamp, CountedCredential), UsageCounts> = BTreeMap::new();
    for document in found {
        let key = (Timestamp(document.day), document.credential());
        *days.entry(key).or_default() += document.counts();
    }
    let used = |((day, credential), counts)| DayUsage {
        day,
        credential,
        counts,
    };
    Ok(days.into_iter().map(used).collect())
}

/// How many requests of each account each node has let in on this day and later.
pub(super) async fn requests_since(
    collections: &Collections,
    day: Timestamp,
) -> Result<Vec<NodeRequests>, ReadError> {
    let fields = doc! {"account": 1, "node": 1, "requests": 1};
    let find = by_day(doc! {"day": {"$gte": day.0}}, fields);
    let found: Vec<RequestsDocument> = find.read(collections).await?;
    let mut requests: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for document in found {
        *requests
            .entry((document.account, document.node))
            .or_default() += document.requests;
    }
    let of_node = |((account, node), requests)| NodeRequests {
        account: u32::try_from(account).unwrap_or(0),
        node: uint(node),
        requests: uint(requests),
    };
    Ok(requests.into_iter().map(of_node).collect())
}
