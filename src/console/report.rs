//! A report: the days of which figures are wanted, with what else is asked, the figures, and the
//! same as a file.

use maud::{Markup, html};
use serde_json::Value;

use super::Visit;
use super::assets;
use super::charts;
use super::figures::part;
use super::forms::{Form, Shown};
use super::layout::{self, Page};
use super::parts::{Field, heading, problem, target};
use super::period;
use super::reply::Reply;
use super::session::Session;
use crate::http::Problem;

/// What a report is about, and where it is found.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) title: &'static str,
    /// What it is about, in a sentence.
    pub(super) about: &'static str,
    pub(super) here: &'static str,
    /// Where it is a file.
    pub(super) csv: &'static str,
    /// The fields of its form, which the address names.
    pub(super) fields: &'static [&'static str],
}

/// What came of a report that was asked for.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The form, with the days that are shown, or with what is wrong.
    pub(super) shown: Shown,
    /// What the interface answered; none where it refused.
    pub(super) answer: Option<Value>,
}

impl Report {
    /// What the form holds for this address, by field.
    pub(super) fn asked(&self, visit: &Visit) -> Vec<(String, String)> {
        let fields = self.fields.iter();
        let fields = fields.map(|name| ((*name).to_owned(), visit.query(name)));
        fields.collect()
    }

    /// Puts what was answered into the form: a refusal that names a field stands beside it.
    ///
    /// # Errors
    /// What was answered is wrong with no field.
    pub(super) fn found(
        &self,
        visit: &Visit,
        answered: Result<Value, Problem>,
    ) -> Result<Outcome, Problem> {
        let mut form = Form::of(&self.asked(visit));
        match answered {
            Ok(answer) => {
                for (name, day) in period::days(part(&answer, "meta")) {
                    form.set(&name, &day);
                }
                let shown = Shown {
                    form,
                    problem: None,
                };
                let answer = Some(answer);
                Ok(Outcome { shown, answer })
            }
            Err(problem) if problem.is_refusal() && !problem.field.is_empty() => Ok(Outcome {
                shown: Shown::again(&form, problem),
                answer: None,
            }),
            Err(problem) => Err(problem),
        }
    }

    /// The page: `choices` are the fields of the form beside the days; without figures it was
    /// refused. `has_file` says whether the file could be had.
    pub(super) fn page(
        &self,
        (visit, session): (&Visit, &Session),
        (shown, has_file): (&Shown, bool),
        choices: Markup,
        figures: Option<Markup>,
    ) -> Reply {
        let is_refused = figures.is_none();
        let asked = self.asked(visit);
        let asked = asked
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let file = target(self.csv, &asked.collect::<Vec<_>>());
        let day = |name, label| {
            let hint = "";
            Field { name, label, hint }.line(shown, "date", false)
        };
        let content = html! {
            link rel="stylesheet" href=(assets::path("uPlot.min.css"));
            (heading(
                self.title,
                self.about,
                html! { @if has_file { a.button href=(file) { "Export as CSV" } } },
            ))
            (problem(shown, self.fields))
            form.row.asking method="get" action=(self.here) {
                (day("from", "From"))
                (day("to", "To"))
                (choices)
                button.button.primary { "Show" }
            }
            @if let Some(figures) = figures { (figures) }
        };
        let page = Page::new(self.title, content).with_scripts(charts::SCRIPTS);
        let reply = layout::page(visit, Some(session), page);
        if is_refused { reply.refused() } else { reply }
    }
}

/// A field of a report's form with several values.
pub(super) fn choice(
    (name, label): (&'static str, &'static str),
    shown: &Shown,
    values: &[(&str, &str)],
) -> Markup {
    let hint = "";
    Field { name, label, hint }.choice(shown, values)
}
