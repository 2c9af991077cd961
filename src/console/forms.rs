//! What a form on a page sent, and a form that is shown again with what is wrong.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Visit;
use super::session::Session;
use crate::http::{BodyReader, BudgetOwner, Kind, Problem, RawBody};

/// Fields of a form; that of a merge has some for each conflict.
const FIELDS_MAX: usize = 20_000;

/// The fields of a form, as they were filled in.
#[derive(Debug, Default, Clone)]
pub(super) struct Form {
    fields: Vec<(String, String)>,
    /// The body is counted for as long as they are there.
    _counted: Option<Arc<RawBody>>,
}

/// Reads the form that a POST brings. Whoever is not signed in sends little.
///
/// # Errors
/// It is too large, too slow, or no form.
pub(super) async fn read(
    visit: &Visit,
    session: Option<&Session>,
    body: &mut BodyReader<'_>,
) -> Result<Form, Problem> {
    let headers = visit.request.headers();
    let owner = session.map_or(BudgetOwner::at(visit.address), Session::owner);
    let raw = crate::http::read_form(&visit.app, headers, owner, body).await?;
    let text = std::str::from_utf8(raw.bytes())
        .map_err(|_| Problem::new(Kind::InvalidRequest, "the form is not UTF-8"))?;
    let fields: Vec<_> = url::form_urlencoded::parse(text.as_bytes())
        // Browsers send every line's end as CR LF (HTML, 4.10.21.4): nobody has typed the CR.
        .map(|(name, value)| (name.into_owned(), value.replace("\r\n", "\n")))
        .take(FIELDS_MAX + 1)
        .collect();
    if fields.len() > FIELDS_MAX {
        let reason = format!("the form must have at most {FIELDS_MAX} fields");
        return Err(Problem::invalid("", reason));
    }
    Ok(Form {
        fields,
        _counted: Some(Arc::new(raw)),
    })
}

impl Form {
    /// A form with these fields filled in.
    pub(super) fn of(fields: &[(String, String)]) -> Self {
        Form {
            fields: fields.to_vec(),
            _counted: None,
        }
    }

    /// A field as it was filled in; empty where it is missing.
    pub(super) fn text(&self, name: &str) -> &str {
        let mut fields = self.fields.iter();
        fields
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    /// Fills a field in anew.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.fields.retain(|(key, _)| key != name);
        self.fields.push((name.to_owned(), value.to_owned()));
    }

    /// A field without the blanks around it; none where nothing was filled in.
    pub(super) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }

    /// A text for others to read; blanks say nothing to them.
    ///
    /// # Errors
    /// `invalid_request`, naming the field: it is blank.
    pub(super) fn words(&self, name: &'static str) -> Result<&str, Problem> {
        let text = self.text(name);
        match text.trim().is_empty() {
            true => Err(Problem::invalid(name, "says nothing: write a word or more")),
            false => Ok(text),
        }
    }

    /// What somebody has written: what has several words, and single ones in fields for texts; but
    /// nothing that is nobody's to read.
    pub(super) fn written(&self) -> Vec<String> {
        const NOT_WRITTEN: &[&str] = &[
            "csrf",
            "etag",
            "key",
            "token",
            "old_password",
            "password",
            "repeated",
        ];
        const TEXTS: &[&str] = &["body", "content", "description", "message", "title"];
        let is_written = |(name, text): &&(String, String)| {
            let name = name.as_str();
            // `was_…` holds what a field held before, `text-…` what is to stand in a conflict's place.
            let is_hidden = NOT_WRITTEN.contains(&name) || name.starts_with("was_");
            let is_text = TEXTS.contains(&name) || name.starts_with("text-");
            let has_words = is_text || text.contains(char::is_whitespace);
            has_words && !is_hidden && !text.trim().is_empty()
        };
        let written = self.fields.iter().filter(is_written);
        written.map(|(_, text)| text.clone()).collect()
    }

    /// All values of a field that may be ticked more than once.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter(|(key, _)| key == name);
        fields.map(|(_, value)| value.as_str()).collect()
    }

    /// Whether a box is ticked.
    pub(super) fn is_ticked(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }
}

/// Whether what a problem names is this field, or a part of its value, such as `allowed_ips[0]`.
pub(super) fn is_within(named: &str, field: &str) -> bool {
    let rest = named.strip_prefix(field);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
}

/// A form as it is shown: what was filled in, and what was refused.
#[derive(Debug, Default, Clone)]
pub(super) struct Shown {
    pub(super) form: Form,
    pub(super) problem: Option<Problem>,
}

impl Shown {
    /// The form once more, with why it was refused.
    pub(super) fn again(form: &Form, problem: Problem) -> Self {
        Shown {
            form: form.clone(),
            problem: Some(problem),
        }
    }

    /// The form as it was refused, or filled in with these strings of an answer.
    pub(super) fn or_strings(&self, answer: &Value, names: &[&str]) -> Self {
        if self.problem.is_some() {
            return self.clone();
        }
        let held = |name: &&str| {
            let value = answer.get(*name).and_then(Value::as_str);
            ((*name).to_owned(), value.unwrap_or_default().to_owned())
        };
        Shown {
            form: Form::of(&names.iter().map(held).collect::<Vec<_>>()),
            problem: None,
        }
    }

    /// What is wrong with this field.
    pub(super) fn wrong(&self, field: &str) -> Option<&str> {
        let problem = self.problem.as_ref()?;
        is_within(&problem.field, field).then_some(&*problem.reason)
    }
}

/// A JSON object of the fields that have a value.
pub(super) fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter();
    let given = given.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}
