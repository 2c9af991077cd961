//! What the console answers with.

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use bytes::Bytes;
use maud::Markup;

use crate::http::{FileContent, Kind};

/// How a request for a page ends; `http/response.rs` has the statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What was asked for is shown.
    Shown,
    /// The browser goes on at another page.
    GoesOn,
    /// The page has another address, for good.
    Moved,
    /// The form is shown again, with what is wrong with it; nothing has changed.
    FormRefused,
    /// Nothing is shown: the headers say it all.
    Empty,
    /// Refused for this.
    Refused(Kind),
}

/// A page, a part of one, a redirection or a file.
pub(crate) struct Reply {
    pub(crate) ending: Ending,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    /// Where else than to this server its forms may lead, as a policy of content names it.
    pub(crate) leads_to: Option<String>,
    /// A file in place of all this, as an operation of the interface gives it.
    pub(crate) file: Option<Box<FileContent>>,
}

impl Reply {
    /// A page, or a part of one. What it shows is nobody else's: no cache keeps it.
    pub(super) fn html(ending: Ending, markup: Markup) -> Self {
        Reply {
            ending,
            headers: vec![
                (
                    CONTENT_TYPE,
                    HeaderValue::from_static("text/html; charset=utf-8"),
                ),
                (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ],
            body: markup.into_string().into(),
            leads_to: None,
            file: None,
        }
    }

    /// A part of a page.
    pub(super) fn part(markup: Markup) -> Self {
        Reply::html(Ending::Shown, markup)
    }

    /// JSON for a script of ours.
    pub(super) fn json(value: &serde_json::Value) -> Self {
        Reply {
            ending: Ending::Shown,
            headers: vec![
                (CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ],
            body: value.to_string().into(),
            leads_to: None,
            file: None,
        }
    }

    /// A text to keep as a file; no browser shows it as a page of ours.
    pub(super) fn file(text: String, name: &str) -> Self {
        Reply::kept("text/plain; charset=utf-8", text, name)
    }

    /// A table to keep as a file, for a spreadsheet.
    pub(super) fn csv(text: String, name: &str) -> Self {
        Reply::kept("text/csv; charset=utf-8", text, name)
    }

    fn kept(media_type: &'static str, text: String, name: &str) -> Self {
        Reply {
            ending: Ending::Shown,
            headers: vec![
                (CONTENT_TYPE, HeaderValue::from_static(media_type)),
                (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ],
            body: text.into(),
            leads_to: None,
            file: None,
        }
        .with(
            "content-disposition",
            &format!("attachment; filename=\"{name}\""),
        )
    }

    /// What somebody has attached to a message.
    pub(super) fn attachment(file: Box<FileContent>) -> Self {
        Reply {
            file: Some(file),
            ..Reply::part(Markup::default())
        }
    }

    /// The page once more, with what is wrong with the form on it.
    pub(super) fn refused(self) -> Self {
        self.ending(Ending::FormRefused)
    }

    /// Goes on at another page, with GET.
    pub(super) fn see_other(to: &str) -> Self {
        Reply::elsewhere(Ending::GoesOn, to)
    }

    /// The same page at the address that it has.
    pub(super) fn moved(to: &str) -> Self {
        Reply::elsewhere(Ending::Moved, to)
    }

    fn elsewhere(ending: Ending, to: &str) -> Self {
        Reply {
            ending,
            headers: vec![(CACHE_CONTROL, HeaderValue::from_static("no-store"))],
            body: Bytes::new(),
            leads_to: None,
            file: None,
        }
        .with(LOCATION.as_str(), to)
    }

    /// The same page, whose forms may also lead there.
    pub(super) fn leading_to(self, place: String) -> Self {
        Reply {
            leads_to: Some(place),
            ..self
        }
    }

    /// The same page, with how its request ends.
    pub(super) fn ending(self, ending: Ending) -> Self {
        Reply { ending, ..self }
    }

    /// Adds a header; one that can't be written is left out.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            self.headers.push((name, value));
        }
        self
    }
}
