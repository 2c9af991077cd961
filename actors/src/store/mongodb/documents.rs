//! Documents as they are carried over: the header that lists show, who may read it, its links, and
//! its versions and comments.

use mongodb::bson::{Bson, Document, doc};

use super::codec::int;
use super::header::{CommentDocument, DocumentHeaderDocument, ReaderDocument, VersionDocument};
use super::log::LogDocument;
use super::schema::{COMMENTS, DOCUMENTS, ERASURES, VERSIONS};
use super::statements::Statements;
use super::statements::behind;

/// The `_id` of what belongs to a document and has a number there. As texts, those of a document
/// are in the order of their numbers.
pub(super) fn part_id(document: i64, number: i64) -> String {
    format!("{document:016x}.{number:016x}")
}

/// Puts what a commit leaves of a document.
pub(super) fn put(
    document: &LogDocument,
    header: &DocumentHeaderDocument,
    statements: &mut Statements,
) {
    let DocumentHeaderDocument {
        updated_at,
        title,
        content_type,
        owner,
        deleted_at,
        body,
        readers,
        links,
        share_links,
        version,
        comments,
        anchors,
        ..
    } = header;
    let sequence = document.last_sequence();
    let mut set = doc! {
        "tail": document.tail, "tenant": document.tenant, "seq": int(sequence.0),
        "updated_at": updated_at, "title": title, "sorted_title": title.to_ascii_lowercase(),
        "content_type": content_type, "owner": owner, "deleted": deleted_at.is_some(),
        "deleted_at": deleted_at, "body": body, "gone": false,
    };
    if let Some(readers) = readers {
        let keys = readers.iter().flat_map(role_keys).map(Bson::from);
        set.insert("readers", keys.collect::<Vec<Bson>>());
    }
    if let Some(links) = links {
        // How often they were used stays: who puts them may not know of all uses at other nodes.
        set.insert("links", links.iter().map(Bson::from).collect::<Vec<Bson>>());
    }
    if let Some(share_links) = share_links {
        set.insert("share_links", share_links);
    }
    if let Some(anchors) = anchors {
        set.insert("anchors", anchors);
    }
    let behind = behind(sequence);
    statements.put(DOCUMENTS, document.entity, behind, doc! {"$set": set});
    if let Some(version) = version {
        put_version(document, version, statements);
    }
    for comment in comments {
        put_comment(document, comment, statements);
    }
}

/// Says of a document that this user, or everybody for 0, has at least the role of this code. So a
/// filter by role is one of plain values, which an index has.
pub(super) fn role_key(user: i64, role: i64) -> String {
    format!("{user:x}.{role}")
}

/// What a reader has: their role and those below it.
fn role_keys(reader: &ReaderDocument) -> impl Iterator<Item = String> {
    let ReaderDocument { user, role } = *reader;
    (0..=role).map(move |role| role_key(user, role))
}

/// A version is written once; its content is a frame against that of its base.
fn put_version(document: &LogDocument, version: &VersionDocument, statements: &mut Statements) {
    let VersionDocument {
        number,
        id_number,
        id_tail,
        label,
        branch,
        parents,
        message,
        author,
        author_tail,
        at,
        base,
        frame,
    } = version.clone();
    let set = doc! {
        "document": document.entity, "number": number, "id_number": id_number, "id_tail": id_tail,
        "label": label, "branch": branch, "parents": parents, "message": message,
        "author": author, "author_tail": author_tail, "at": at, "base": base, "frame": frame,
    };
    let id = part_id(document.entity, number);
    statements.put(VERSIONS, id, Document::new(), doc! {"$setOnInsert": set});
}

/// A comment that goes leaves its number, so that nothing late brings it back.
fn put_comment(document: &LogDocument, comment: &CommentDocument, statements: &mut Statements) {
    let CommentDocument { number, body } = comment;
    let sequence = document.last_sequence();
    let set = doc! {
        "document": document.entity, "number": number, "body": body, "seq": int(sequence.0),
    };
    let id = part_id(document.entity, *number);
    statements.put(COMMENTS, id, behind(sequence), doc! {"$set": set});
}

/// Counts uses of a link. A count never goes down.
pub(super) fn link_used(
    document: &LogDocument,
    share: i64,
    uses: i64,
    statements: &mut Statements,
) {
    let filter = doc! {"_id": document.entity, "gone": false};
    let change = doc! {"$max": {format!("link_uses.{share}"): uses}};
    statements.update(DOCUMENTS, filter, change);
}

/// What is left of a document that is gone for good: that it is. Its texts are erased behind.
pub(super) fn gone(document: &LogDocument, statements: &mut Statements) {
    let sequence = document.last_sequence();
    let set = doc! {
        "tail": document.tail, "tenant": document.tenant, "seq": int(sequence.0), "gone": true,
    };
    let unset = doc! {
        "title": "", "sorted_title": "", "owner": "", "deleted": "", "deleted_at": "", "body": "",
        "readers": "", "links": "", "share_links": "", "link_uses": "", "anchors": "",
    };
    let change = doc! {"$set": set, "$unset": unset};
    statements.put(DOCUMENTS, document.entity, behind(sequence), change);
    erase(document.entity, statements);
}

/// Has the texts of what is gone erased: of a document, a conversation or a record.
pub(super) fn erase(document: i64, statements: &mut Statements) {
    let erasure = doc! {"$setOnInsert": {"erased_to": 0_i64}};
    statements.put(ERASURES, document, Document::new(), erasure);
}
