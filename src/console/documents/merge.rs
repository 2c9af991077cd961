//! Bringing one line of versions into another: first what it would give, then each conflict for
//! itself, then the merge, of exactly the versions that were shown.

use colloquy_runtime::offload;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::history::{chooser, names};
use super::text::start_of;
use super::{Docs, Document, branches, segment, version_name};
use crate::console::forms::{Form, Shown, object};
use crate::console::layout::csrf;
use crate::console::parts::{Field, grouped, is, number, refusal, text};
use crate::console::reply::Reply;
use crate::http::{Kind, Problem, undecided};
use crate::line_ends;

/// Lines around a conflict that are shown.
const AROUND: usize = 3;
const MESSAGE: Field<'_> = Field {
    name: "message",
    label: "What is merged",
    hint: "For the history. May be left empty.",
};
const CHOICES: &[(&str, &str)] = &[
    ("ours", "Keep what is there"),
    ("theirs", "Take what comes in"),
    ("both", "Both, one after the other"),
    ("edited", "My own words:"),
];

/// What is merged into what, as it was found when it was shown.
struct Sides {
    source_name: String,
    target_name: String,
    source: Value,
    target: Value,
}

/// What a merge would give.
enum Outcome {
    UpToDate,
    Clean(String),
    Conflicts { merged: String, list: Vec<Value> },
}

impl Docs<'_> {
    pub(super) async fn merge_page(&self, document: &Document) -> Result<Reply, Problem> {
        let (source, target) = (self.visit.query("source"), self.visit.query("target"));
        self.merge_shown(document, (source.trim(), target.trim()), &Shown::default())
            .await
    }

    async fn merge_shown(
        &self,
        document: &Document,
        (source, target): (&str, &str),
        shown: &Shown,
    ) -> Result<Reply, Problem> {
        let known = self.known_versions(document).await?;
        let prepared = match source {
            "" => None,
            _ => match self.prepared(document, source, target).await {
                Err(problem) if !problem.is_refusal() => return Err(problem),
                prepared => Some(prepared),
            },
        };
        let content = html! {
            h2 { "Merge" }
            (choose(document, &known, source, target))
            @if let Some(problem) = &shown.problem { (refusal(problem)) }
            @match prepared {
                None => p.faint { "Choose what to bring in. Nothing is changed before you have seen the result." },
                Some(Err(problem)) => (refusal(&problem)),
                Some(Ok((sides, outcome))) => (self.outcome(document, &sides, &outcome, shown)),
            }
        };
        Ok(self.tab(document, "/history", content))
    }

    /// The two versions, and what their merge would give.
    async fn prepared(
        &self,
        document: &Document,
        source: &str,
        target: &str,
    ) -> Result<(Sides, Outcome), Problem> {
        let target = if target.is_empty() { "head" } else { target };
        let mut found = Vec::new();
        for (field, name) in [("source", source), ("target", target)] {
            let name = segment(field, name)?;
            let version = self.version(document, name).await;
            found.push(version.map_err(|problem| {
                if problem.kind == Kind::NotFound {
                    return Problem::invalid(field, "must be a version or branch of this document");
                }
                problem
            })?);
        }
        let mut found = found.into_iter();
        let (Some(source_version), Some(target_version)) = (found.next(), found.next()) else {
            return Err(Problem::crashed());
        };
        let sides = Sides {
            source_name: source.to_owned(),
            target_name: target.to_owned(),
            source: source_version,
            target: target_version,
        };
        let outcome = self.tried(document, &sides).await?;
        Ok((sides, outcome))
    }

    async fn tried(&self, document: &Document, sides: &Sides) -> Result<Outcome, Problem> {
        let body = json!({
            "source": text(&sides.source, "id"),
            "target": text(&sides.target, "id"),
            "dry_run": true,
        });
        let tried = self.post(&format!("{}/merge", document.at), &body).await;
        let own = |value: &Value| text(value, "merged").to_owned();
        match tried {
            Ok(found) if is(&found.body, "up_to_date") => Ok(Outcome::UpToDate),
            Ok(found) => Ok(Outcome::Clean(own(&found.body))),
            Err(problem) if problem.kind == Kind::MergeConflict => {
                let told = undecided(&problem).ok_or_else(Problem::crashed)?;
                let list = told.get("conflicts").and_then(Value::as_array);
                Ok(Outcome::Conflicts {
                    merged: own(&told),
                    list: list.cloned().unwrap_or_default(),
                })
            }
            Err(problem) => Err(problem),
        }
    }

    fn outcome(
        &self,
        document: &Document,
        sides: &Sides,
        outcome: &Outcome,
        shown: &Shown,
    ) -> Markup {
        let what = html! {
            strong { (version_name(&sides.source)) } " (" (self.name(text(&sides.source, "author"))) ", on " code { (text(&sides.source, "branch")) } ") into "
            strong { (version_name(&sides.target)) } " (on " code { (text(&sides.target, "branch")) } ")"
        };
        html! {
            @match outcome {
                Outcome::UpToDate => p.notice { "There is nothing to do: " (version_name(&sides.target)) " already contains " (version_name(&sides.source).to_lowercase()) "." },
                Outcome::Clean(merged) => {
                    p.notice.done { "It merges without conflicts: " (what) "." }
                    (self.merge_form(document, sides, shown, &html! {}))
                    h3 { "The text that it gives" }
                    pre.source dir="auto" tabindex="0" role="region" aria-label="The text that it gives" { (start_of(merged)) }
                },
                Outcome::Conflicts { merged, list } => {
                    p.notice.warn { "Both sides changed the same lines in " (places(list.len())) ": " (what) ". Decide each." }
                    (self.merge_form(document, sides, shown, &conflicts(merged, list, shown)))
                },
            }
        }
    }

    fn merge_form(
        &self,
        document: &Document,
        sides: &Sides,
        shown: &Shown,
        inner: &Markup,
    ) -> Markup {
        html! {
            form method="post" action={ (document.here) "/merge" } {
                (csrf(self.session))
                input type="hidden" name="source_name" value=(sides.source_name);
                input type="hidden" name="target_name" value=(sides.target_name);
                input type="hidden" name="source" value=(text(&sides.source, "id"));
                input type="hidden" name="target" value=(text(&sides.target, "id"));
                (inner)
                (super::words_line(&MESSAGE, shown, false))
                div.actions.spaced {
                    button.button.primary { "Merge" }
                    a.button href={ (document.here) "/history" } { "Cancel" }
                }
            }
        }
    }

    pub(super) async fn merge(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        match self.merged(document, form).await {
            Ok(version) => {
                let words = match version {
                    0 => "There was nothing to merge.".to_owned(),
                    number => format!("Merged: version {number}."),
                };
                Ok(self.done(&format!("{}/history", document.here), &words))
            }
            Err(problem) if problem.is_refusal() => {
                let mut problem = problem;
                if problem.kind == Kind::PreconditionFailed {
                    problem.reason = "somebody has saved meanwhile: here is the merge with what there is now, look at each choice again".into();
                }
                let shown = Shown::again(form, problem);
                let names = (form.text("source_name"), form.text("target_name"));
                let page = self.merge_shown(document, names, &shown).await?;
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    /// What is to stand in the place of each conflict.
    async fn resolutions(&self, list: Vec<Value>, form: &Form) -> Result<Value, Problem> {
        let length = |conflict: &Value| {
            let own = form.text(&format!("text-{}", number(conflict, "index")));
            text(conflict, "ours").len() + text(conflict, "theirs").len() + own.len()
        };
        let (bytes, form) = (list.iter().map(length).sum(), form.clone());
        let chosen = offload::run_linear(self.session.tenant(), bytes, move || {
            resolutions(&list, &form)
        });
        let chosen = chosen.await.map_err(|_| Problem::crashed())?;
        chosen.map(Value::Array)
    }

    /// Merges what was shown, as it was decided; gives the number of the new version.
    async fn merged(&self, document: &Document, form: &Form) -> Result<u64, Problem> {
        let sides = Sides {
            source_name: String::new(),
            target_name: String::new(),
            source: json!({"id": form.text("source")}),
            target: json!({"id": form.text("target")}),
        };
        let resolutions = match self.tried(document, &sides).await? {
            Outcome::Conflicts { list, .. } => Some(self.resolutions(list, form).await?),
            Outcome::UpToDate | Outcome::Clean(_) => None,
        };
        let body = object([
            ("source", Some(json!(form.text("source")))),
            ("target", Some(json!(form.text("target")))),
            ("message", form.filled("message").map(Value::from)),
            ("resolutions", resolutions),
        ]);
        let made = self.post(&format!("{}/merge", document.at), &body).await?;
        Ok(number(&made.body, "number"))
    }
}

fn places(count: usize) -> String {
    match count {
        1 => "one place".to_owned(),
        _ => format!(
            "{} places",
            grouped(u64::try_from(count).unwrap_or(u64::MAX))
        ),
    }
}

fn resolutions(list: &[Value], form: &Form) -> Result<Vec<Value>, Problem> {
    let mut chosen = Vec::new();
    for conflict in list {
        let index = number(conflict, "index");
        let (ours, theirs) = (text(conflict, "ours"), text(conflict, "theirs"));
        let content = match form.text(&format!("choice-{index}")) {
            "ours" => ours.to_owned(),
            "theirs" => theirs.to_owned(),
            "both" => both(ours, theirs),
            "edited" => edited(form.text(&format!("text-{index}")), ours, theirs),
            _ => {
                let reason = format!("conflict {} is not decided yet", index + 1);
                return Err(Problem::new(Kind::InvalidRequest, reason));
            }
        };
        chosen.push(json!({"index": index, "content": content}));
    }
    Ok(chosen)
}

fn both(ours: &str, theirs: &str) -> String {
    let has_end = ours.is_empty() || ours.ends_with(['\n', '\r']);
    let end = if has_end {
        ""
    } else {
        line_ends::first([ours, theirs])
    };
    format!("{ours}{end}{theirs}")
}

/// Words of one's own, with the line ends that the sides have: the field held both.
fn edited(words: &str, ours: &str, theirs: &str) -> String {
    let ends = [ours, theirs]
        .iter()
        .any(|side| side.ends_with(['\n', '\r']));
    let mut words = words.to_owned();
    if ends && !words.is_empty() && !words.ends_with('\n') {
        words.push('\n');
    }
    line_ends::kept(&both(ours, theirs), &words)
}

fn conflicts(merged: &str, list: &[Value], shown: &Shown) -> Markup {
    let lines: Vec<&str> = merged.lines().collect();
    html! {
        @for conflict in list { (decision(conflict, &lines, list.len(), shown)) }
    }
}

/// A conflict: what both sides say, what stood there before, and what is to stand there.
fn decision(conflict: &Value, lines: &[&str], count: usize, shown: &Shown) -> Markup {
    let index = number(conflict, "index");
    let side = |name: &str| text(conflict, name).to_owned();
    let (ours, theirs) = (side("ours"), side("theirs"));
    let (choice, own) = (format!("choice-{index}"), format!("text-{index}"));
    let chosen = shown.form.text(&choice);
    let words = match chosen {
        "edited" => shown.form.text(&own).to_owned(),
        _ => both(&ours, &theirs),
    };
    let starts = usize::try_from(number(conflict, "start_line")).unwrap_or(usize::MAX);
    let first = starts.saturating_sub(1);
    // Three lines of markers stand around and between the sides.
    let end = first + ours.lines().count() + theirs.lines().count() + 3;
    let before = lines.get(first.saturating_sub(AROUND)..first);
    let after = lines.get(end..(end + AROUND).min(lines.len()));
    let around = |lines: Option<&[&str]>| {
        let lines = lines.unwrap_or_default().join("\n");
        html! { @if !lines.is_empty() { pre.around dir="auto" { (lines) } } }
    };
    html! {
        fieldset.card.conflict {
            legend { "Conflict " (index + 1) " of " (count) }
            (around(before))
            div.columns {
                div { h3 { "What is there" } (says(&ours, "mine")) }
                div { h3 { "What comes in" } (says(&theirs, "theirs")) }
            }
            details { summary { "What stood there before both" } (says(&side("base"), "")) }
            (around(after))
            @for (value, words) in CHOICES {
                label.choice { input id={ (choice) "-" (value) } type="radio" name=(choice) value=(value) required checked[*value == chosen]; (words) }
            }
            textarea.source name=(own) rows=(words.lines().count().clamp(2, 12) + 1) dir="auto" aria-label={ "My own words for conflict " (index + 1) }
                data-chooses={ "#" (choice) "-edited" } { "\n" (words) }
        }
    }
}

fn says(words: &str, class: &str) -> Markup {
    html! {
        @if words.is_empty() { p.faint { "Nothing: the lines are taken away." } }
        @else { pre class={ "source " (class) } dir="auto" { (words) } }
    }
}

/// What is to be merged into what.
fn choose(document: &Document, known: &[Value], source: &str, target: &str) -> Markup {
    let all = branches(known);
    let named = all.contains(&target) || matches!(target, "" | "head");
    html! {
        form.filters method="get" action={ (document.here) "/merge" } {
            (chooser("source", "Bring in", source))
            (names(known))
            label { "into"
                select name="target" {
                    @for branch in &all { option value=(branch) selected[*branch == target] { @if *branch == "main" { "main (the newest)" } @else { (branch) } } }
                    @if !named { option value=(target) selected { (target) } }
                }
            }
            button.button { "Show what it gives" }
        }
    }
}
