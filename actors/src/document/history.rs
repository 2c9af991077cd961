//! The way in to a document's history: versions, and what differs between them.

use super::content_reader::{self, ContentQuery, unpack};
use super::lists::{Ends, in_a_list, page};
use super::messages::{
    CommandMeta, DocumentError, DocumentSnapshot, MAIN, ReadDocument, VersionName,
};
use super::refusal::{Failure, invalid};
use super::service::Documents;
use super::state::{Document, to_json};
use super::views::VersionView;
use crate::store::{FramedVersion, StoredVersion, VersionQuery};
use bytes::Bytes;
use colloquy_merge::StepBudget;
use colloquy_merge::diff::{self, TooLong};
use colloquy_model::answer::Answer;
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Tenant;
use colloquy_model::id::{DocumentId, VersionId};
use colloquy_model::page::{Page, Paging};
use colloquy_model::time::Timestamp;
use colloquy_runtime::offload::Effort;
use colloquy_runtime::{AskError, LoadError};
use serde::Serialize;

/// Which versions are compared, and how the difference is shown.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Default: the first parent of the head.
    pub from: Option<VersionName>,
    /// Default: the head.
    pub to: Option<VersionName>,
    /// Unchanged lines shown above and below each change.
    pub context: usize,
    /// The format of the difference.
    pub format: DiffFormat,
}

/// The format in which a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the parameter's own words")]
pub enum DiffFormat {
    Unified,
    Json,
    Html,
    Stat,
}

impl Comparison {
    /// The numbers of the versions to compare, the older one first, if there is one.
    ///
    /// # Errors
    /// A name means no version of the document.
    fn numbers(&self, seen: &DocumentSnapshot) -> Result<Vec<u64>, Failure> {
        let mut versions = seen.versions.iter().copied();
        let mut named = |field, name: &Option<VersionName>| match name {
            Some(_) => versions
                .next()
                .flatten()
                .map(Some)
                .ok_or_else(|| invalid(field, "must be a version of this document")),
            None => Ok(None),
        };
        let from = named("from", &self.from)?.map(|version| version.number);
        let to = named("to", &self.to)?.unwrap_or(seen.head).number;
        Ok(from.or(seen.head.parent).into_iter().chain([to]).collect())
    }
}

impl Documents {
    /// Reads one version with its content.
    ///
    /// # Errors
    /// It is not there for this caller, or why it could not be asked.
    pub async fn version(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        name: VersionName,
    ) -> Result<Answer, Failure> {
        self.version_since(id, meta, (name, None)).await
    }

    /// The same, where an instant is given only of one that was the head then or later.
    pub(super) async fn version_since(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        (name, head_since): (VersionName, Option<Timestamp>),
    ) -> Result<Answer, Failure> {
        let tenant = meta.caller.tenant;
        let read = ReadDocument {
            versions: vec![name],
            head_since,
        };
        let seen = self.ask(id, meta, read).await?;
        let found = seen
            .versions
            .first()
            .copied()
            .flatten()
            .ok_or(AskError::Refused(DocumentError::NotFound))?;
        let wanted = ContentQuery {
            document: Document::subject(id),
            tenant,
            effort: Effort::Linear,
            extra_bytes: 0,
        };
        let (mut read, permit) = content_reader::read(&self.store, wanted, &[found.number]).await?;
        let FramedVersion {
            version: stored,
            frames,
        } = read
            .pop()
            .ok_or_else(|| AskError::impossible("to a version that was asked for"))?;
        let parents = self.parents(tenant, id, &stored).await?;
        let written = permit.run(move || {
            let (content, _) = unpack(&frames, wanted.document, found.number)?;
            Some(to_json(&VersionWithContent {
                version: version_view(id, &stored, parents),
                content: &content,
            }))
        });
        let body = written
            .await
            .ok_or(AskError::Crashed)?
            .ok_or(AskError::Unreadable)?;
        Ok(Answer::ok(Some(found.id.to_string()), body))
    }

    async fn parents(
        &self,
        tenant: Tenant,
        id: DocumentId,
        version: &StoredVersion,
    ) -> Result<Vec<VersionId>, Failure> {
        let found = self
            .store
            .version_ids(tenant, Document::subject(id), version.parents.clone())
            .await;
        Ok(found.map_err(LoadError::from)?)
    }

    /// Compares two versions; version 1 is compared with the empty text.
    ///
    /// # Errors
    /// The document is not there for this caller, a version is not one of its, or why it could not
    /// be asked.
    pub async fn diff(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        asked: Comparison,
    ) -> Result<Bytes, Failure> {
        let versions = asked.from.iter().chain(asked.to.iter()).cloned().collect();
        let tenant = meta.caller.tenant;
        let read = ReadDocument {
            versions,
            ..ReadDocument::default()
        };
        let seen = self.ask(id, meta, read).await?;
        let numbers = asked.numbers(&seen)?;
        let wanted = ContentQuery {
            document: Document::subject(id),
            tenant,
            effort: Effort::Comparison,
            extra_bytes: 0,
        };
        let (found, permit) = content_reader::read(&self.store, wanted, &numbers).await?;
        let compared = permit.run_cancellable(move |abandoned| {
            let content = |(FramedVersion { frames, .. }, number): (&FramedVersion, u64)| {
                unpack(frames, wanted.document, number).map(|(content, _)| content)
            };
            let contents = found.iter().zip(numbers).map(content);
            let mut contents = contents.collect::<Option<Vec<String>>>()?;
            drop(found);
            let new = contents.pop()?;
            let old = contents.pop().unwrap_or_default();
            let budget = StepBudget::cancelled_by(Bounds::get().comparison_steps_max, abandoned);
            Some(compare(&old, &new, &asked, budget))
        });
        let compared = compared
            .await
            .ok_or(AskError::Crashed)?
            .ok_or(AskError::Unreadable)?;
        compared.map_err(|TooLong| {
            let bytes_max = Bounds::get().diff_bytes_max;
            invalid(
                "format",
                &format!(
                    "must be stat: shown like this, the difference is longer than {bytes_max} bytes"
                ),
            )
        })
    }

    /// A page of a document's versions, newest first.
    ///
    /// # Errors
    /// The document is not there for this caller, the store is unavailable, or the list took too long.
    pub async fn versions(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        branch: Option<VersionName>,
        paging: Paging,
    ) -> Result<Page, Failure> {
        let tenant = meta.caller.tenant;
        self.ask(id, meta, ReadDocument::default()).await?;
        let branch = match branch {
            None => None,
            Some(VersionName::Head | VersionName::Main) => Some(String::new()),
            Some(VersionName::Mark(mark)) => Some(mark.to_string()),
            Some(VersionName::Id(_) | VersionName::Number(_)) => {
                return Err(invalid("branch", "must be a branch"));
            }
        };
        let is_side_line = branch.as_ref().is_some_and(|branch| !branch.is_empty());
        let query = VersionQuery {
            tenant,
            document: Document::subject(id),
            branch,
            paging,
        };
        let found = self.store.versions(query).await.map_err(in_a_list)?;
        if is_side_line && found.total == 0 {
            return Err(invalid("branch", "must be a branch of this document"));
        }
        let numbers = found
            .items
            .iter()
            .flat_map(|version| version.parents.iter().copied())
            .collect();
        let parents = self
            .store
            .version_ids(tenant, Document::subject(id), numbers)
            .await
            .map_err(LoadError::from)?;
        let mut parents = parents.into_iter();
        let mut shown = Vec::with_capacity(found.items.len());
        for version in &found.items {
            let its = parents.by_ref().take(version.parents.len()).collect();
            shown.push(to_json(&version_view(id, version, its)));
        }
        let ids = |version: &StoredVersion| version.id.to_string();
        Ok(page(&shown, Ends::of(&found.items, ids), &found))
    }
}

fn compare(old: &str, new: &str, asked: &Comparison, budget: StepBudget) -> Result<Bytes, TooLong> {
    let names = diff::FileNames {
        old: "a/document",
        new: "b/document",
    };
    let options = diff::DiffOptions {
        context_lines: asked.context,
        bytes_max: Bounds::get().diff_bytes_max,
        budget,
    };
    match asked.format {
        DiffFormat::Unified => diff::unified(old, new, &names, &options).map(Bytes::from),
        DiffFormat::Json => diff::json(old, new, &options).map(Bytes::from),
        DiffFormat::Html => diff::html(old, new, &names, &options).map(Bytes::from),
        DiffFormat::Stat => Ok(to_json(&diff::stat(old, new, &options.budget))),
    }
}

fn version_view(
    id: DocumentId,
    version: &StoredVersion,
    parents: Vec<VersionId>,
) -> VersionView<'_> {
    VersionView {
        id: version.id,
        document_id: id,
        number: version.number,
        label: version.label.as_deref(),
        branch: if version.branch.is_empty() {
            MAIN
        } else {
            &version.branch
        },
        parents,
        message: version.message.as_deref(),
        author: version.author,
        created_at: version.at,
    }
}

/// A version as the interface shows a single one: with its content.
#[derive(Serialize)]
struct VersionWithContent<'a> {
    #[serde(flatten)]
    version: VersionView<'a>,
    content: &'a str,
}
