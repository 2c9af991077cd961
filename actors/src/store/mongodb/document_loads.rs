//! Documents as their actors begin with them.

use std::collections::BTreeMap;

use mongodb::bson::{Binary, doc};
use serde::Deserialize;

use super::codec::{int, uint};
use super::find::{all, named, one};
use super::schema::{COMMENTS, Collections, DOCUMENTS};
use super::versions;
use crate::store::{LinkUses, ReadError, StoredComment, StoredDocument};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// A document's header as the collection has it, without what only lists filter by.
#[derive(Debug, Deserialize)]
struct HeaderRow {
    tenant: i64,
    seq: i64,
    updated_at: i64,
    body: String,
    share_links: Option<String>,
    #[serde(flatten)]
    link_uses: LinkUsesRow,
    anchors: Option<Binary>,
}

/// How often a document's links were used, by their numbers.
#[derive(Debug, Default, Deserialize)]
struct LinkUsesRow {
    #[serde(default)]
    link_uses: BTreeMap<String, i64>,
}

impl LinkUsesRow {
    fn uses(self) -> Vec<LinkUses> {
        let uses = self.link_uses.into_iter().filter_map(|(share, uses)| {
            Some(LinkUses {
                share: EntityNumber(share.parse().ok()?),
                uses: uint(uses),
            })
        });
        uses.collect()
    }
}

/// A comment as the collection has it; one that is gone has no body.
#[derive(Debug, Deserialize)]
struct CommentRow {
    number: i64,
    body: Option<String>,
}

/// What a document's actor starts from.
pub(super) async fn load(
    collections: &Collections,
    subject: Subject,
) -> Result<Option<StoredDocument>, ReadError> {
    let mut filter = named(subject);
    filter.insert("gone", false);
    let Some(header) = one::<HeaderRow>(collections, DOCUMENTS, filter).await? else {
        return Ok(None);
    };
    let parts = doc! {"document": int(subject.number)};
    let (versions, comments) = tokio::join!(
        versions::all(collections, subject),
        all::<CommentRow>(collections, COMMENTS, parts, doc! {"_id": 1})
    );
    let comments = comments?.into_iter().filter_map(|row| {
        Some(StoredComment {
            number: uint(row.number),
            body: row.body?,
        })
    });
    Ok(Some(StoredDocument {
        tenant: Tenant::from_number(header.tenant),
        sequence: Sequence(uint(header.seq)),
        updated_at: Timestamp(header.updated_at),
        body: header.body,
        links: header.share_links,
        versions: versions?,
        comments: comments.collect(),
        link_uses: header.link_uses.uses(),
        anchors: header.anchors.map(|anchors| anchors.bytes),
    }))
}

/// How often the share links of a document were used.
pub(super) async fn link_uses(
    collections: &Collections,
    document: Subject,
) -> Result<Vec<LinkUses>, ReadError> {
    let found = one::<LinkUsesRow>(collections, DOCUMENTS, named(document)).await?;
    Ok(found.unwrap_or_default().uses())
}
