//! Writing: the text with a preview beside it. What was written on an older state than there is now
//! is never put in its place unasked, and never lost.

use colloquy_model::id::VersionId;
use colloquy_runtime::offload;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::list::{KIND, TITLE};
use super::text::rendered;
use super::{
    CONTENT_TYPES, Docs, Document, branch_ways, branches, filled, segment, version_name, words_line,
};
use crate::console::forms::{Form, Shown, object};
use crate::console::layout::csrf;
use crate::console::parts::{Field, grouped, now, problem, target, text, time};
use crate::console::reply::Reply;
use crate::http::{Kind, Problem, Request, Verb};
use crate::line_ends;

/// Bytes of a text that a page's field takes at most: beyond, typing in it is no pleasure.
const EDITED_MAX: usize = 1_048_576;
const FIELDS: &[&str] = &["title", "content_type", "message", "label", "new_branch"];
const MESSAGE: Field<'_> = Field {
    name: "message",
    label: "What you changed",
    hint: "For the history. May be left empty.",
};
const LABEL: Field<'_> = Field {
    name: "label",
    label: "Label of this version",
    hint: "Such as v1.2: letters, digits, dots and dashes.",
};
const NEW_BRANCH: Field<'_> = Field {
    name: "new_branch",
    label: "Keep it apart, on a new branch named",
    hint: "Others go on with the main line meanwhile; you merge when it is ready.",
};

/// What is written, and onto what.
struct Draft<'f> {
    form: &'f Form,
    content: String,
    /// Whether it says anything else than the version that it was made from.
    is_changed: bool,
}

impl Draft<'_> {
    /// Refuses what would be left out without a word.
    fn check_is_taken_whole(&self) -> Result<(), Problem> {
        let form = self.form;
        let differs = |name: &str, was: &str| form.text(name) != form.text(was);
        let on_branch = form.filled("new_branch").is_some() || form.text("go_on") == "apart";
        if on_branch && differs("title", "was_title") {
            let reason = "belongs to the document, not to a branch: save it on its own";
            return Err(Problem::invalid("title", reason));
        }
        if on_branch && differs("content_type", "was_content_type") {
            let reason = "belongs to the document, not to a branch: save it on its own";
            return Err(Problem::invalid("content_type", reason));
        }
        if !self.is_changed && form.filled("message").is_some() && form.filled("label").is_none() {
            let reason = "goes with a change of the text, and there is none";
            return Err(Problem::invalid("message", reason));
        }
        Ok(())
    }
}

impl Docs<'_> {
    pub(super) async fn edit(&self, document: &Document) -> Result<Reply, Problem> {
        let branch = self.visit.query("branch");
        let branch = match branch.as_str() {
            "" | "main" | "head" => "",
            name => segment("branch", name).map_err(|_| Problem::not_found())?,
        };
        let tip = match branch {
            "" => document.found.body.clone(),
            name => self.version(document, name).await?,
        };
        let id = if branch.is_empty() { "version" } else { "id" };
        let shown = filled(&[
            ("title", document.title()),
            ("was_title", document.title()),
            ("content_type", document.text("content_type")),
            ("was_content_type", document.text("content_type")),
            ("content", text(&tip, "content")),
            ("branch", branch),
            ("base", text(&tip, id)),
            ("tip", text(&tip, id)),
            ("etag", document.etag()),
        ]);
        if text(&tip, "content").len() > EDITED_MAX {
            let raw = format!("{}/raw", document.here);
            let words = html! { div.notice.warn {
                "It is too long to be edited in a page (over " (grouped(1_024)) " KB). Download "
                a href=(raw) { "the file" } ", and save it over the interface."
            } };
            return Ok(self.tab(document, "/edit", words));
        }
        self.form(document, &shown, html! {}, "Save").await
    }

    /// The form with the text; above it what there is to know before it is saved.
    async fn form(
        &self,
        document: &Document,
        shown: &Shown,
        above: Markup,
        save: &str,
    ) -> Result<Reply, Problem> {
        let form = &shown.form;
        if !document.allows("editor") {
            return Ok(self.tab(document, "/edit", only_readable(shown)));
        }
        let known = self.known_versions(document).await?;
        let preview = rendered(form.text("content"), form.text("content_type"), "").await?;
        let action = format!("{}/edit", document.here);
        let branch = form.text("branch");
        let on_main = branch.is_empty();
        let content = html! {
            (above)
            (problem(shown, FIELDS))
            (lines_of_work(&action, &branches(&known), branch))
            form.writing #writing method="post" action=(action) {
                (csrf(self.session))
                @for name in ["branch", "base", "tip", "etag", "was_title", "was_content_type"] {
                    input type="hidden" name=(name) value=(form.text(name));
                }
                @if on_main {
                    div.row.above {
                        (words_line(&TITLE, shown, true))
                        (KIND.choice(shown, CONTENT_TYPES))
                    }
                } @else {
                    input type="hidden" name="content_type" value=(form.text("content_type"));
                }
                (both(document, form.text("content"), preview))
                div.row.above {
                    (words_line(&MESSAGE, shown, false))
                    (LABEL.line(shown, "text", false))
                    @if on_main { (NEW_BRANCH.line(shown, "text", false)) }
                }
                (ways_on(document, save))
            }
        };
        Ok(self.tab(document, "/edit", content))
    }

    pub(super) async fn save(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        if form.text("go_on") == "preview" {
            let shown = Shown {
                form: form.clone(),
                problem: None,
            };
            return self.form(document, &shown, html! {}, "Save").await;
        }
        match self.saved(document, form).await {
            Ok(reply) => Ok(reply),
            Err(refused) if was_overtaken(&refused) => self.overtaken(document, form).await,
            Err(refused) if refused.is_refusal() => {
                let refused = match &*refused.field {
                    "branch" => refused.at("new_branch"),
                    _ => refused,
                };
                let shown = Shown::again(form, refused);
                let page = self.form(document, &shown, html! {}, "Save").await?;
                Ok(page.refused())
            }
            Err(refused) => Err(refused),
        }
    }

    async fn saved(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        let base = form.text("base");
        if form.text("etag").is_empty() {
            return Err(Problem::invalid(
                "etag",
                "is missing: load the page again, your text is still in its field",
            ));
        }
        let draft = self.draft(document, form, base).await?;
        draft.check_is_taken_whole()?;
        let here = &document.here;
        if form.text("go_on") == "apart" {
            let stamp: String = now().chars().filter(char::is_ascii_digit).collect();
            let branch = format!("edit-{stamp}");
            let body = draft.version(Some(&branch), base);
            self.post(&format!("{}/versions", document.at), &body)
                .await?;
            let to = target(&format!("{here}/merge"), &[("source", &branch)]);
            return Ok(self.done(&to, "Your text is kept on a branch. Now merge it."));
        }
        if let Some(branch) = form.filled("new_branch") {
            let body = draft.version(Some(branch), base);
            self.post(&format!("{}/versions", document.at), &body)
                .await?;
            let to = target(here, &[("version", branch)]);
            return Ok(self.done(&to, "Your text is kept on its own branch."));
        }
        if let Some(branch) = form.filled("branch") {
            let body = draft.version(Some(branch), form.text("tip"));
            self.post(&format!("{}/versions", document.at), &body)
                .await?;
            return Ok(self.done(&target(here, &[("version", branch)]), "Saved."));
        }
        self.save_on_main(document, &draft).await?;
        Ok(self.done(here, "Saved."))
    }

    /// Saves what was changed, each part only onto a state that this person has seen.
    async fn save_on_main(&self, document: &Document, draft: &Draft<'_>) -> Result<(), Problem> {
        let form = draft.form;
        let changed = |name: &str, was: &str| {
            let value = form.text(name);
            (value != form.text(was)).then(|| json!(value.trim()))
        };
        let title = changed("title", "was_title");
        let content_type = changed("content_type", "was_content_type");
        let has_label = form.filled("label").is_some();
        if !has_label && (form.filled("message").is_none() || !draft.is_changed) {
            let content = draft.is_changed.then(|| json!(draft.content));
            let body = object([
                ("title", title),
                ("content_type", content_type),
                ("content", content),
            ]);
            // Also where nothing is changed: a state that has passed is told of.
            return self.put(document, &body, Some(form.text("etag"))).await;
        }
        let path = format!("{}/versions", document.at);
        let body = draft.version(None, "");
        let request = Request {
            if_match: Some(form.text("etag")),
            ..Request::new(Verb::Post, &path, &body)
        };
        self.session.ask(request).await?;
        if title.is_none() && content_type.is_none() {
            return Ok(());
        }
        let now = self.session.get(&document.at).await?;
        let is_as_seen = |name: &str, was: &str| text(&now.body, name) == form.text(was);
        if !is_as_seen("title", "was_title") || !is_as_seen("content_type", "was_content_type") {
            let reason = "the title has changed meanwhile";
            return Err(Problem::new(Kind::PreconditionFailed, reason));
        }
        let body = object([("title", title), ("content_type", content_type)]);
        self.put(document, &body, now.etag.as_deref()).await
    }

    async fn put(
        &self,
        document: &Document,
        body: &Value,
        etag: Option<&str>,
    ) -> Result<(), Problem> {
        let request = Request {
            if_match: etag,
            ..Request::new(Verb::Put, &document.at, body)
        };
        self.session.ask(request).await.map(drop)
    }

    /// The version that the page was made from: no other name of it, which may stand for another one
    /// by now.
    async fn base(&self, document: &Document, name: &str) -> Result<Value, Problem> {
        let unknown = || {
            let reason = "must be the version that the page was made from: copy your text, then load the page again";
            Problem::invalid("base", reason)
        };
        let id: VersionId = name.parse().map_err(|_| unknown())?;
        match self.version(document, &id.to_string()).await {
            Err(problem) if problem.kind == Kind::NotFound => Err(unknown()),
            found => found,
        }
    }

    async fn draft<'f>(
        &self,
        document: &Document,
        form: &'f Form,
        base: &str,
    ) -> Result<Draft<'f>, Problem> {
        let base = self.base(document, base).await?;
        let (was, written) = (
            text(&base, "content").to_owned(),
            form.text("content").to_owned(),
        );
        let bytes = was.len() + written.len();
        let compared = offload::run_linear(self.session.tenant(), bytes, move || {
            let content = line_ends::kept(&was, &written);
            (content != was, content)
        });
        let (is_changed, content) = compared.await.map_err(|_| Problem::crashed())?;
        Ok(Draft {
            form,
            content,
            is_changed,
        })
    }

    /// The form once more, with the text as it was written and what has happened meanwhile.
    async fn overtaken(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        let document = &Document {
            at: document.at.clone(),
            here: document.here.clone(),
            found: self.session.get(&document.at).await?,
        };
        let branch = form.text("branch");
        let tip = match branch {
            "" => document.head().to_owned(),
            name => {
                let tip = self.version(document, segment("branch", name)?).await?;
                text(&tip, "id").to_owned()
            }
        };
        let path = format!("{}/versions", document.at);
        let branch_read = if branch.is_empty() { "main" } else { branch };
        let base = form.text("base");
        let parameters = [("before", base), ("branch", branch_read), ("limit", "25")];
        let between = self.session.get(&target(&path, &parameters)).await?;
        let above = self.happened(document, between.items(), (base, &tip));
        let mut again = form.clone();
        again.set("etag", document.etag());
        again.set("tip", &tip);
        again.set("was_title", document.title());
        again.set("was_content_type", document.text("content_type"));
        // A title that this person has left alone is not put back over another's.
        for (name, was) in [("title", "was_title"), ("content_type", "was_content_type")] {
            if form.text(name) == form.text(was) {
                again.set(name, document.text(name));
            }
        }
        let shown = Shown {
            form: again,
            problem: None,
        };
        let page = self
            .form(document, &shown, above, "Save mine on top")
            .await?;
        Ok(page.refused())
    }

    /// What others have saved since this version.
    fn happened(
        &self,
        document: &Document,
        between: &[Value],
        (base, tip): (&str, &str),
    ) -> Markup {
        let compare = target(
            &format!("{}/compare", document.here),
            &[("from", base), ("to", tip)],
        );
        html! {
            section.notice.warn role="alert" {
                h2 { "Somebody else has saved meanwhile" }
                p { "Nothing is lost: your text stands below, and is not saved yet." }
                @if between.is_empty() {
                    p { "The text is still the one that you began with; the title is now " q dir="auto" { (document.title()) } ", written in " (super::kind(document.text("content_type"))) "." }
                } @else {
                    ul.plain {
                        @for version in between {
                            li {
                                a href={ (document.here) "?version=" (text(version, "id")) } { (version_name(version)) }
                                " by " span dir="auto" { (self.name(text(version, "author"))) } ", " (time(version, "created_at"))
                                @if !text(version, "message").is_empty() { ": " q dir="auto" { (text(version, "message")) } }
                            }
                        }
                    }
                    p { a href=(compare) target="_blank" { "See what they changed (in a new tab)" } }
                }
                p { "Keep yours on a branch and merge both, or save it on top: then theirs stays in the history only." }
            }
        }
    }
}

impl Draft<'_> {
    /// The version that it makes; after this one, where one is named.
    fn version(&self, branch: Option<&str>, parent: &str) -> Value {
        object([
            ("content", Some(json!(self.content))),
            ("message", self.form.filled("message").map(Value::from)),
            ("label", self.form.filled("label").map(Value::from)),
            ("branch", branch.map(Value::from)),
            ("parent", (!parent.is_empty()).then(|| json!(parent))),
        ])
    }
}

/// Whether it was refused because the state that it was made for has passed.
fn was_overtaken(problem: &Problem) -> bool {
    problem.kind == Kind::PreconditionFailed
        || (problem.kind == Kind::Conflict && problem.field == "parent")
}

/// What is shown to who may only read; whoever has lost the right while writing takes the words along.
fn only_readable(shown: &Shown) -> Markup {
    html! {
        div.notice.warn { "You may read this document, but not edit it. Its owner can let you." }
        @if shown.problem.is_some() {
            div.field {
                label for="field-content" { "What you have written, to copy" }
                textarea #field-content.source rows="16" dir="auto" readonly { "\n" (shown.form.text("content")) }
            }
        }
    }
}

/// The buttons below a text.
fn ways_on(document: &Document, save: &str) -> Markup {
    html! {
        div.actions {
            button.button.primary { (save) }
            @if save != "Save" {
                button.button name="go_on" value="apart" { "Keep mine on a branch, then merge" }
            }
            button.button name="go_on" value="preview" { "Preview" }
            a.button href=(document.here) { "Cancel" }
        }
    }
}

/// The text and what it will look like.
fn both(document: &Document, content: &str, preview: Markup) -> Markup {
    let path = format!("{}/preview", document.here);
    html! {
        div.both {
            div.field {
                label for="field-content" { "Content" }
                textarea #field-content.source name="content" rows="22" dir="auto" spellcheck="true"
                    hx-post=(path) hx-trigger="input changed delay:500ms" hx-target="#preview" hx-sync="this:replace" { "\n" (content) }
            }
            section.field aria-labelledby="preview-heading" {
                h2 #preview-heading { "Preview" }
                div #preview.card { (preview) }
            }
        }
    }
}

/// The branches that can be written on.
fn lines_of_work(action: &str, branches: &[&str], branch: &str) -> Markup {
    let here = if branch.is_empty() { "main" } else { branch };
    let way = |branch: &&str| {
        let to = target(action, &[("branch", branch)]);
        html! { a.button.small href=(to) aria-current=[(*branch == here).then_some("true")] { (branch) } }
    };
    let ways: Vec<Markup> = branches.iter().map(way).collect();
    html! {
        @if branches.len() > 1 {
            nav.branches aria-label="Branches to write on" {
                span.faint { "Writing on" }
                (branch_ways(&ways))
            }
        }
    }
}
