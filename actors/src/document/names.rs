//! How callers name a document's contents: content types, versions and branches.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use colloquy_model::coded_enum;
use colloquy_model::id::VersionId;
use colloquy_model::text::Mark;

coded_enum! {
    /// What a document's content is written in.
    ContentType {
        /// Markdown.
        Markdown = 0 "text/markdown",
        /// Plain text.
        Plain = 1 "text/plain",
        /// HTML.
        Html = 2 "text/html",
        /// JSON; not checked to be any.
        Json = 3 "application/json",
    }
}

/// The name of the main branch, which the head stands on.
pub const MAIN: &str = "main";
/// The name of the newest version of the main branch.
pub const HEAD: &str = "head";

/// A version or branch as a caller names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionName {
    /// `head`.
    Head,
    /// `main`: the same version, named as a branch.
    Main,
    /// An identifier.
    Id(VersionId),
    /// A number.
    Number(u64),
    /// A label or a branch.
    Mark(Mark),
}

impl FromStr for VersionName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            HEAD => return Ok(VersionName::Head),
            MAIN => return Ok(VersionName::Main),
            _ => {}
        }
        if text.starts_with("ver_") {
            return text
                .parse()
                .map(VersionName::Id)
                .map_err(|_| "must be a valid version ID");
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            // One version has one path, which may be kept for ever.
            let canonical = Some(text).filter(|text| !text.starts_with('0'));
            return canonical
                .unwrap_or_default()
                .parse()
                .map(VersionName::Number)
                .map_err(|_| "must be the number of a version");
        }
        Mark::new(text)
            .map(VersionName::Mark)
            .map_err(|_| "must be a version's ID, number or label, or a branch")
    }
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionName::Head => f.write_str(HEAD),
            VersionName::Main => f.write_str(MAIN),
            VersionName::Id(id) => id.fmt(f),
            VersionName::Number(number) => number.fmt(f),
            VersionName::Mark(mark) => f.write_str(mark),
        }
    }
}

impl<'de> Deserialize<'de> for VersionName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
impl Serialize for VersionName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl utoipa::PartialSchema for VersionName {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some(
                "A version's ID, number or label, a branch, `head` or `main`.",
            ))
            .min_length(Some(1))
            .max_length(Some(100))
            .into()
    }
}
impl ToSchema for VersionName {}

/// A branch as a request's body names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchName {
    /// The main branch.
    Main,
    /// A side branch.
    Side(Mark),
}

impl<'de> Deserialize<'de> for BranchName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        if text == MAIN {
            return Ok(BranchName::Main);
        }
        Mark::new(text.as_ref())
            .map(BranchName::Side)
            .map_err(serde::de::Error::custom)
    }
}
impl utoipa::PartialSchema for BranchName {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        Mark::schema()
    }
}
impl ToSchema for BranchName {}

/// A version that a name was found to mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionFound {
    /// The version's number in its document.
    pub number: u64,
    /// The version's identifier.
    pub id: VersionId,
    /// The number of its first parent.
    pub parent: Option<u64>,
}
