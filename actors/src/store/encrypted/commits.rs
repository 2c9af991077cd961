//! What people write in a commit, encrypted before the store sees it.

use bytes::Bytes;

use crate::sealing::texts::{self, TextError};
use colloquy_model::commit::{Commit, Header, RecordName};
use colloquy_model::document::{DocumentHeader, NewVersion};
use colloquy_model::entity::Kind;

/// The commit as it is stored: all that people wrote in it is encrypted under the account's keys.
/// Rows keep their payloads beside, for whoever is told of the commit.
///
/// # Errors
/// The account has no keys.
pub(super) fn encrypted(mut commit: Commit) -> Result<Commit, TextError> {
    if !matches!(
        commit.subject.kind,
        Kind::Customer | Kind::Conversation | Kind::Document | Kind::Attachment
    ) {
        return Ok(commit);
    }
    let account = Account(commit.tenant.account_number());
    let payloads = commit.rows.iter().map(|row| account.json(&row.payload));
    commit.encrypted = payloads.collect::<Result<_, _>>()?;
    if let Some(body) = commit.answer.as_mut().and_then(|kept| kept.body.as_mut()) {
        *body = account.json(body)?;
    }
    match &mut commit.header {
        Header::Conversation { after, .. } => {
            // What most have says nothing.
            if &*after.metadata != "{}" {
                after.metadata = texts::encrypt(account.0, after.metadata.as_bytes())?.into();
            }
        }
        Header::Record {
            name, body, names, ..
        } => {
            account.text(name)?;
            account.text(body)?;
            for name in names {
                *name = account.name(name)?;
            }
        }
        Header::Document(header) => account.document(header)?,
        Header::Unchanged
        | Header::ConversationGone { .. }
        | Header::RecordGone
        | Header::RecordErased
        | Header::DocumentGone { .. }
        | Header::LinkUsed { .. } => {}
    }
    Ok(commit)
}

/// The account whose keys encrypt.
#[derive(Clone, Copy)]
pub(super) struct Account(pub(super) u32);

impl Account {
    fn json(self, json: &[u8]) -> Result<Bytes, TextError> {
        texts::encrypt(self.0, json).map(Bytes::from)
    }

    fn text(self, text: &mut String) -> Result<(), TextError> {
        *text = texts::encrypt(self.0, text.as_bytes())?;
        Ok(())
    }

    /// A name under which a record is found: only its hash is stored.
    pub(super) fn name(self, name: &RecordName) -> Result<RecordName, TextError> {
        let RecordName { field, value } = name;
        Ok(RecordName {
            field: *field,
            value: texts::hashed(self.0, field.field(), value)?,
        })
    }

    /// The name of a branch, by which versions are found; the main one has none.
    pub(super) fn branch(self, branch: &mut String) -> Result<(), TextError> {
        if !branch.is_empty() {
            *branch = texts::encrypt_to_be_found(self.0, branch)?;
        }
        Ok(())
    }

    fn document(self, header: &mut DocumentHeader) -> Result<(), TextError> {
        self.text(&mut header.listed.title)?;
        self.text(&mut header.body)?;
        if let Some(links) = &mut header.links {
            self.text(&mut links.body)?;
        }
        if let Some(NewVersion {
            label,
            branch,
            message,
            frame,
            ..
        }) = &mut header.version
        {
            for said in [label, message].into_iter().flatten() {
                self.text(said)?;
            }
            self.branch(branch)?;
            *frame = texts::encrypt_bytes(self.0, frame)?.into();
        }
        let bodies = header
            .comments
            .iter_mut()
            .filter_map(|comment| comment.body.as_mut());
        bodies.into_iter().try_for_each(|body| self.text(body))
    }
}
