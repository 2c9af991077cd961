//! What the forms of a shared page send: a comment, a text to be looked at or saved. Each is done by
//! the request that a program makes for the same; only the answer is a page.

use colloquy_actors::document::Link;
use colloquy_actors::document::access::DocumentRole;
use colloquy_actors::document::messages::{
    AddComment, CommandMeta, ContentType, ReadDocument, UpdateDocument, VersionName,
};
use colloquy_merge::StepBudget;
use colloquy_merge::diff::{DiffOptions, FileNames, unified};
use colloquy_model::answer::{Answer, Precondition};
use colloquy_model::id::VersionId;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::text::{CommentBody, DocumentContent};
use colloquy_runtime::offload;
use serde::Deserialize;
use utoipa::ToSchema;

use super::edit_page::{self, Editing, Told, VERSIONS_MAX, VersionShown};
use super::links::{self, for_people, opened};
use super::page::{Done, Shown, Visitor};
use crate::http::api_call::ApiCall;
use crate::http::body::Form;
use crate::http::idempotency::RequestIdentity;
use crate::http::output::{CachePolicy, Output, Text};
use crate::http::problem::{Kind, More, Problem};
use crate::http::{accept, conditions};
use crate::line_ends;

/// How often a text is saved anew where the document changed, but not its text.
const TRIES_MAX: usize = 3;
/// Lines around a change.
const CONTEXT_LINES: usize = 3;
/// Bytes of a comparison that a page shows.
const PATCH_BYTES_MAX: usize = 1 << 20;
/// Steps in which the fewest changes are looked for.
const STEPS_MAX: u64 = 1 << 24;

/// What a page's form sends to comment.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = CommentForm)]
#[serde(deny_unknown_fields)]
pub(super) struct Remark {
    /// The link's password, where it has one.
    password: Option<String>,
    /// Names the page: the same comment from the same page is added once.
    nonce: String,
    /// The version that the page showed.
    version: VersionId,
    /// The first line, from 1.
    start_line: u64,
    /// The last line.
    end_line: u64,
    /// The comment's text.
    body: String,
}

/// What is to be done with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = EditFormAct)]
#[serde(rename_all = "lowercase")]
enum Act {
    /// It is shown as it will look.
    Preview,
    /// It is shown what it would change.
    Compare,
    /// It becomes the document's.
    Save,
}

/// What a page's form sends to edit.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EditForm)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// The link's password, where it has one.
    password: Option<String>,
    /// The version on which the text was made: it is saved only if that is still the head.
    base: VersionId,
    /// The text; a line break is one character, however the form has it.
    content: String,
    /// What is to be done with it.
    act: Act,
}

pub(super) async fn comment(call: ApiCall, Form(remark): Form<Remark>) -> Result<Output, Problem> {
    let (visitor, words) = (visitor(&call, remark.password.clone()), remark.body.clone());
    match add(&call, remark).await {
        Ok(_) => links::shown_after(call, visitor, Done::Commented).await,
        Err(problem) if is_about_the_link(&problem) => Err(for_people(
            &call,
            visitor.password.as_deref(),
            None,
            problem,
        )),
        Err(problem) => {
            let page = edit_page::comment_refused(&visitor, &words, &problem);
            Err(with_page(&call, problem, page))
        }
    }
}

async fn add(call: &ApiCall, remark: Remark) -> Result<Answer, Problem> {
    let link = opened(call, remark.password.as_deref()).await?;
    let words = line_ends::in_a_field(&remark.body);
    let body =
        CommentBody::new(words.as_str()).map_err(|reason| Problem::invalid("body", reason))?;
    let nonce = conditions::sound_key(&remark.nonce)
        .ok_or_else(|| Problem::invalid("nonce", "must be the one that the page has"))?;
    let Remark {
        start_line,
        end_line,
        version,
        ..
    } = &remark;
    let said = format!("{version} {start_line} {end_line} {words}");
    let request = RequestIdentity::of_call(call).fingerprint(said.as_bytes());
    // Another comment from the same page is another request.
    let key = format!("{nonce} {}", crate::http::response::tag_of(said.as_bytes()));
    let add = AddComment {
        version: Some(VersionName::Id(*version)),
        start_line: *start_line,
        end_line: Some(*end_line),
        body,
    };
    links::commented(call, link, add, Some((key, request))).await
}

pub(super) async fn edit(call: ApiCall, Form(edit): Form<Edit>) -> Result<Output, Problem> {
    let Edit {
        password,
        base,
        content,
        act,
    } = edit;
    let visitor = visitor(&call, password);
    let mut editing = Editing {
        visitor: visitor.clone(),
        title: "the shared document".to_owned(),
        base: base.to_string(),
        text: line_ends::in_a_field(&content),
        is_markdown: true,
    };
    let done = match opened(&call, visitor.password.as_deref()).await {
        Ok(link) => match act {
            Act::Preview => shown(&call, &link, &mut editing)
                .await
                .map(|_| Next::Page(Told::Preview)),
            Act::Compare => compared(&call, &link, &mut editing).await.map(Next::Page),
            Act::Save => saved(&call, &link, base, &mut editing).await,
        },
        Err(problem) => Err(problem),
    };
    match done {
        Ok(Next::Saved) => links::shown_after(call, visitor, Done::Saved).await,
        Ok(Next::Page(told)) => Ok(page(written(&call, editing, told).await?)),
        Ok(Next::MovedOn(versions)) => {
            let reason = "the document is not in the state that was named";
            let problem = Problem::new(Kind::PreconditionFailed, reason);
            let page = written(&call, editing, Told::MovedOn(versions)).await?;
            Err(with_page(&call, problem, page))
        }
        Err(problem) if problem.kind == Kind::Unauthorized => Err(for_people(
            &call,
            visitor.password.as_deref(),
            None,
            problem,
        )),
        Err(problem) => {
            let page = written(&call, editing, Told::Refused(problem.clone())).await?;
            Err(with_page(&call, problem, page))
        }
    }
}

/// How it goes on with a text.
enum Next {
    Saved,
    Page(Told),
    MovedOn(Vec<VersionShown>),
}

/// The document as it is now, for whoever may change it.
async fn shown(
    call: &ApiCall,
    link: &Link,
    editing: &mut Editing,
) -> Result<(Shown, Answer), Problem> {
    let documents = &call.app.system.documents;
    let answer = documents
        .read(link.document, link.meta(&call.caller.actor), None)
        .await?;
    let body = answer.body.clone();
    let shown: Shown = offload::run_linear(link.tenant, body.len(), move || {
        serde_json::from_slice(&body).ok()
    })
    .await
    .ok()
    .flatten()
    .ok_or_else(Problem::crashed)?;
    if shown.role < DocumentRole::Editor {
        return Err(Problem::forbidden(
            "the role in this document does not allow this",
        ));
    }
    editing.title.clone_from(&shown.title);
    editing.is_markdown = shown.content_type == ContentType::Markdown;
    Ok((shown, answer))
}

/// What the text would change. It shows the document's text, so that it is a use like any reading.
async fn compared(call: &ApiCall, link: &Link, editing: &mut Editing) -> Result<Told, Problem> {
    let (shown, _) = shown(call, link, editing).await?;
    editing.base.clone_from(&shown.version);
    let documents = &call.app.system.documents;
    documents.use_link(link, &call.caller.actor).await?;
    let text = editing.text.clone();
    let bytes = text.len() + shown.content.len();
    let patch = offload::run_linear(link.tenant, bytes, move || {
        let options = DiffOptions {
            context_lines: CONTEXT_LINES,
            bytes_max: PATCH_BYTES_MAX,
            budget: StepBudget::new(STEPS_MAX),
        };
        let names = FileNames {
            old: "a/document",
            new: "b/document",
        };
        unified(
            &line_ends::in_a_field(&shown.content),
            &text,
            &names,
            &options,
        )
        .ok()
    });
    let patch = patch.await.map_err(|_| Problem::crashed())?;
    Ok(Told::Compared(patch))
}

/// Saves the text on the version that it was made from, if that is still the head.
async fn saved(
    call: &ApiCall,
    link: &Link,
    base: VersionId,
    editing: &mut Editing,
) -> Result<Next, Problem> {
    let documents = &call.app.system.documents;
    for _ in 0..TRIES_MAX {
        let (now, answer) = shown(call, link, editing).await?;
        let text = kept(link, &now.content, &editing.text).await?;
        if now.version != base.to_string() && now.content != text {
            return moved_on(call, link, base, now, editing).await;
        }
        let content =
            DocumentContent::new(text).map_err(|reason| Problem::invalid("content", reason))?;
        let meta = CommandMeta {
            if_match: answer.etag.map(|etag| Precondition::OneOf(vec![etag])),
            ..link.meta(&call.caller.actor)
        };
        let update = UpdateDocument {
            content: Some(content),
            ..UpdateDocument::default()
        };
        match documents
            .update(link.document, meta, update)
            .await
            .map_err(Problem::from)
        {
            Ok(_) => return Ok(Next::Saved),
            // It may have been its title alone that changed.
            Err(problem) if problem.kind == Kind::PreconditionFailed => {}
            Err(problem) => return Err(problem),
        }
    }
    Err(Problem::new(
        Kind::Conflict,
        "the document is being changed by others all the time",
    ))
}

/// The versions that came since the one that the text was made from.
async fn moved_on(
    call: &ApiCall,
    link: &Link,
    base: VersionId,
    now: Shown,
    editing: &mut Editing,
) -> Result<Next, Problem> {
    let documents = &call.app.system.documents;
    let meta = || link.meta(&call.caller.actor);
    let read = ReadDocument {
        versions: vec![VersionName::Id(base)],
        ..ReadDocument::default()
    };
    let snapshot = documents.ask(link.document, meta(), read).await?;
    let found = snapshot.versions.first().copied().flatten();
    let from =
        found.ok_or_else(|| Problem::invalid("base", "must be a version of this document"))?;
    let newest = Paging {
        limit: VERSIONS_MAX,
        start: Start::Offset(0),
        order: Order::Desc,
    };
    let page = documents
        .versions(link.document, meta(), Some(VersionName::Main), newest)
        .await?;
    let mut versions: Vec<VersionShown> =
        serde_json::from_slice(&page.data.array()).map_err(|_| Problem::crashed())?;
    versions.retain(|version| version.number > from.number);
    editing.base = now.version;
    Ok(Next::MovedOn(versions))
}

/// What was written, with the line ends that the document has.
async fn kept(link: &Link, document: &str, written: &str) -> Result<String, Problem> {
    let (document, written) = (document.to_owned(), written.to_owned());
    let bytes = document.len() + written.len();
    offload::run_linear(link.tenant, bytes, move || {
        line_ends::kept(&document, &written)
    })
    .await
    .map_err(|_| Problem::crashed())
}

fn visitor(call: &ApiCall, password: Option<String>) -> Visitor {
    Visitor {
        token: call.segment(0).to_owned(),
        password,
    }
}

/// Whether nothing can be done about it on a page: the link does not open.
fn is_about_the_link(problem: &Problem) -> bool {
    matches!(problem.kind, Kind::Unauthorized | Kind::NotFound)
}

async fn written(call: &ApiCall, editing: Editing, told: Told) -> Result<bytes::Bytes, Problem> {
    let bytes = editing.text.len();
    offload::run_linear(call.caller.tenant, bytes, move || {
        edit_page::editing(&editing, &told)
    })
    .await
    .map_err(|_| Problem::crashed())
}

fn page(body: bytes::Bytes) -> Output {
    Output::Text(Text {
        body,
        media_type: super::HTML,
        cache: CachePolicy::NoStore,
        room: None,
    })
}

fn with_page(call: &ApiCall, problem: Problem, page: bytes::Bytes) -> Problem {
    if accept::prefers_json(call.request.headers()) {
        return problem;
    }
    Problem {
        more: Some(Box::new(More::Page(page))),
        ..problem
    }
}
