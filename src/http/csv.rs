//! Lists as CSV (RFC 4180), for those who open them in a spreadsheet: a head line, whose columns are
//! the JSON's names joined by dots, and a line for each item.

use bytes::Bytes;

use super::accept;
use super::api_call::ApiCall;
use super::output::{CachePolicy, Text};
use super::problem::Problem;

/// The media type of such a list.
pub(super) const CSV: &str = "text/csv; charset=utf-8";

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListFormat {
    Json,
    Csv,
}

/// An item of a list that can be shown as a line.
pub(super) trait Line {
    /// The names of its fields.
    const COLUMNS: &'static [&'static str];

    /// Its fields, in the order of their names; empty where there is nothing.
    fn fields(&self) -> Vec<String>;
}

/// Whether a caller would rather have CSV than JSON.
pub(super) fn is_preferred(call: &ApiCall) -> bool {
    match call.list_format {
        Some(format) => format == ListFormat::Csv,
        None => accept::prefers_csv(call.request.headers()),
    }
}

/// The list as a text.
pub(super) fn list<L: Line>(items: &[L]) -> Result<Text, Problem> {
    let written = || {
        let mut writer = csv::WriterBuilder::new()
            .terminator(csv::Terminator::CRLF)
            .from_writer(Vec::new());
        writer.write_record(L::COLUMNS)?;
        for item in items {
            writer.write_record(item.fields())?;
        }
        writer
            .into_inner()
            .map_err(|error| error.into_error().into())
    };
    let body: Result<Vec<u8>, csv::Error> = written();
    let body =
        body.map_err(|error| Problem::crashed().because("a list can't be written as CSV", &error))?;
    Ok(Text {
        body: Bytes::from(body),
        media_type: CSV,
        cache: CachePolicy::PrivateList,
        room: None,
    })
}
