//! Attachments: files that are uploaded piece by piece, shown, and read whole or in part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use actix_web::http::Method;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, IF_RANGE, RANGE};
use bytes::Bytes;
use colloquy_actors::accounts::AttachmentFile;
use colloquy_actors::attachments::{
    Announced, AttachmentWriter, ContentError, DeclaredFile, FoundAttachment, Served,
    UploadFailure, WriteError,
};
use colloquy_model::answer::Answer;
use colloquy_model::id::{AttachmentId, AttachmentKind};
use colloquy_model::json;
use colloquy_runtime::AskError;
use futures_util::{StreamExt, stream};
use multer::{Constraints, Multipart, SizeLimit};

use super::super::api_call::{ApiCall, CommandCall};
use super::super::body::{File, Upload};
use super::super::budget::{BytesPermit, Slack};
use super::super::conditions;
use super::super::declared_file;
use super::super::idempotency::{self, RequestIdentity};
use super::super::output::{FileContent, Output};
use super::super::problem::{Kind, More, Outcome, Problem};
use super::super::query::NoQuery;
use super::super::ranges;

/// Bytes of one upload that may be in memory: parts on their way into object storage.
const IN_MEMORY: usize = 24 << 20;
/// Bytes of a form beside its one file.
const FORM_MAX: u64 = 65_536;

/// What a body is.
enum Sent {
    /// A form, with this between its parts.
    Form(String),
    /// The file itself.
    File(DeclaredFile),
}

/// A body that was not read to its end, as whoever takes a form apart carries it on.
#[derive(Debug, thiserror::Error)]
#[error("the body was not read to its end")]
struct Interrupted(Problem);

impl From<UploadFailure> for Problem {
    fn from(failure: UploadFailure) -> Self {
        match failure {
            UploadFailure::Store(error) => AskError::<std::convert::Infallible>::from(error).into(),
            UploadFailure::Write(error) => error.into(),
        }
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::TooLarge(_) => Problem::new(Kind::PayloadTooLarge, error.to_string()),
            WriteError::Storage(_) => away().because("an attachment can't be written", &error),
            WriteError::Sealing(_) => {
                Problem::crashed().because("an attachment can't be encrypted", &error)
            }
        }
    }
}

impl From<ContentError> for Problem {
    fn from(error: ContentError) -> Self {
        match &error {
            ContentError::Storage(_) if error.is_missing() => {
                Problem::unreadable().because("an attachment has no bytes", &error)
            }
            ContentError::Storage(_) => away().because("an attachment can't be read", &error),
            ContentError::Damaged(_) => {
                Problem::unreadable().because("an attachment can't be read", &error)
            }
        }
    }
}

fn away() -> Problem {
    Problem::unavailable("where files are kept does not answer", Outcome::None, 10)
}

pub(super) async fn upload(mut call: ApiCall, _: File) -> Result<Output, Problem> {
    let upload = call.upload.take().ok_or_else(Problem::crashed)?;
    let most = call.app.attachment_bytes_max;
    let declared = content_length(&call);
    let around = form_type(&call).map_or(0, |_| FORM_MAX);
    if declared.is_some_and(|length| length > most.saturating_add(around)) {
        return Err(WriteError::TooLarge(most).into());
    }
    let sent = sent(&call)?;
    let _room = room(&call, declared)?;
    let announced = call.app.system.attachments.announce(&call.caller).await?;
    let (announced, file) = match sent {
        Sent::Form(boundary) => received_form(upload, &boundary, (announced, most)).await?,
        Sent::File(declared) => received(upload, declared, (announced, most)).await?,
    };
    if call.idempotency_key.is_some() {
        let said = [
            file.filename.as_deref().unwrap_or_default(),
            &file.content_type,
            &file.sha256,
        ];
        let request = RequestIdentity::of_call(&call).fingerprint(said.join("\n").as_bytes());
        call.fingerprint = Some(request);
        if let Some(replay) = idempotency::reserve(&mut call).await? {
            return Ok(replay);
        }
    }
    let CommandCall { meta, .. } = call.into_command();
    Ok(announced.complete(meta, file).await?.into())
}

/// Memory for the parts of it that wait to be written.
fn room(call: &ApiCall, declared: Option<u64>) -> Result<Option<BytesPermit>, Problem> {
    let Some(owner) = call.owner else {
        return Ok(None);
    };
    let bytes = declared.and_then(|length| usize::try_from(length).ok());
    let bytes = bytes.unwrap_or(IN_MEMORY).min(IN_MEMORY);
    let budget = &call.app.document_body.in_flight;
    let refused = || Problem::unavailable("too many uploads at once", Outcome::None, 1);
    let permit = budget.take(owner, bytes, Slack::None);
    permit.map(Some).ok_or_else(refused)
}

fn content_length(call: &ApiCall) -> Option<u64> {
    header(call, &CONTENT_LENGTH)?.parse().ok()
}

fn header<'c>(call: &'c ApiCall, name: &HeaderName) -> Option<&'c str> {
    call.request.headers().get(name)?.to_str().ok()
}

/// The media type of a form, with its parameters; none where the body is the file itself.
fn form_type(call: &ApiCall) -> Option<&str> {
    let declared = header(call, &CONTENT_TYPE)?;
    let media = declared.split(';').next().unwrap_or_default().trim();
    let is_form = media.eq_ignore_ascii_case("multipart/form-data");
    is_form.then_some(declared)
}

/// What the headers of a request say of its body.
fn sent(call: &ApiCall) -> Result<Sent, Problem> {
    let Some(form) = form_type(call) else {
        return declared_file::of_request(call.request.headers()).map(Sent::File);
    };
    let boundary = multer::parse_boundary(form);
    boundary
        .map(Sent::Form)
        .map_err(|_| Problem::invalid("Content-Type", "must name the boundary of its parts"))
}

/// A body, or the part of a form, in which nothing stands.
fn empty() -> Problem {
    Problem::invalid("file", "must be a file that is not empty")
}

/// Writes a body that is the file.
async fn received(
    mut upload: Upload,
    declared: DeclaredFile,
    (announced, most): (Announced, u64),
) -> Result<(Announced, AttachmentFile), Problem> {
    let Some(first) = upload.next().await else {
        return Err(empty());
    };
    let first = first?;
    let mut writer = announced.write(most, declared).await?;
    let written = async {
        writer.write(first).await?;
        while let Some(piece) = upload.next().await {
            writer.write(piece?).await?;
        }
        Ok(())
    };
    let written = written.await;
    finished(written, writer, announced).await
}

/// Writes the one file of a form.
async fn received_form(
    upload: Upload,
    boundary: &str,
    (announced, most): (Announced, u64),
) -> Result<(Announced, AttachmentFile), Problem> {
    let around = Arc::new(Around::default());
    let pieces = stream::unfold(
        (upload, Arc::clone(&around)),
        |(mut upload, around)| async move {
            let next = upload.next().await?;
            // Whoever takes the form apart has looked through what came before.
            let next = match around.is_spent() {
                true => Err(too_much_around()),
                false => next,
            };
            around.count(next.as_ref().map_or(0, Bytes::len));
            Some((next.map_err(Interrupted), (upload, around)))
        },
    );
    // The writer knows the bound of the file itself.
    let sizes = SizeLimit::new().whole_stream(most.saturating_add(FORM_MAX));
    let constraints = Constraints::new().size_limit(sizes);
    let mut form = Multipart::with_constraints(pieces.boxed(), boundary, constraints);
    let refused = |error| of_form(error, most);
    let field = form.next_field().await.map_err(refused)?;
    let one_part = || Problem::invalid("file", "must be the one part of the form");
    let mut field = field.ok_or_else(one_part)?;
    if field.name() != Some("file") {
        return Err(one_part());
    }
    around.enter_file();
    let declared = declared_file::of_part(&field)?;
    let first = field.chunk().await.map_err(refused)?;
    let first = first.filter(|first| !first.is_empty());
    let first = first.ok_or_else(empty)?;
    let mut writer = announced.write(most, declared).await?;
    let written = async {
        writer.write(first).await?;
        while let Some(piece) = field.chunk().await.map_err(refused)? {
            writer.write(piece).await?;
        }
        around.leave_file();
        drop(field);
        match form.next_field().await.map_err(refused)? {
            Some(_) => Err(one_part()),
            None => Ok(()),
        }
    };
    let written = written.await;
    finished(written, writer, announced).await
}

/// Ends a file of which all pieces have come, or lets it go.
async fn finished(
    written: Result<(), Problem>,
    writer: AttachmentWriter,
    announced: Announced,
) -> Result<(Announced, AttachmentFile), Problem> {
    if let Err(problem) = written {
        writer.abort().await;
        return Err(problem);
    }
    // A client that leaves has this dropped. Where files are kept may have all of one by then, and put
    // it in its place after it was asked to delete it: whatever was begun is awaited first.
    let ending = async move {
        let ended = writer.finish().await;
        (announced, ended)
    };
    let ended = actix_web::rt::spawn(ending).await;
    let (announced, file) = ended.map_err(|_| Problem::crashed())?;
    Ok((announced, file?))
}

/// How much of a form was read before its file, or behind it. Whoever takes a form apart holds that, and
/// looks through all of it with each piece that comes.
#[derive(Debug, Default)]
struct Around {
    bytes: AtomicU64,
    is_inside: AtomicBool,
}

impl Around {
    fn enter_file(&self) {
        self.is_inside.store(true, Ordering::Relaxed);
    }

    fn leave_file(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.is_inside.store(false, Ordering::Relaxed);
    }

    fn count(&self, bytes: usize) {
        if !self.is_inside.load(Ordering::Relaxed) {
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Whether no more of it may be read.
    fn is_spent(&self) -> bool {
        !self.is_inside.load(Ordering::Relaxed) && self.bytes.load(Ordering::Relaxed) >= FORM_MAX
    }
}

fn too_much_around() -> Problem {
    let reason = format!("must stand within {FORM_MAX} bytes of the form");
    Problem::invalid("file", reason)
}

/// Why a form is refused.
fn of_form(error: multer::Error, most: u64) -> Problem {
    let wrong = || Problem::invalid("", "must be a form as RFC 7578 has it");
    if matches!(error, multer::Error::StreamSizeExceeded { .. }) {
        return WriteError::TooLarge(most).into();
    }
    let multer::Error::StreamReadFailed(error) = error else {
        return wrong();
    };
    match error.downcast::<Interrupted>() {
        Ok(interrupted) => interrupted.0,
        Err(_) => wrong(),
    }
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let found = found(&call).await?;
    let view = found.view();
    Ok(Answer::ok(Some(tag(&found)), json::bytes(view)).into())
}

pub(super) async fn content(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let found = found(&call).await?;
    let attachments = &call.app.system.attachments;
    let (view, etag) = (found.view(), tag(&found));
    // Whoever has it already is given no bytes: where they are kept is not asked.
    let has_already = conditions::has_already(call.request.headers(), &etag);
    // A page shows what comes from here alone, and an address is one for GET.
    let is_redirected = call.app.redirects_to_objects && call.method == Method::GET;
    if is_redirected && !has_already && !call.is_for_page() {
        let address = attachments
            .address(&found)
            .await
            .map_err(ContentError::from)?;
        if let Some(address) = address {
            return Ok(Output::SeeOther(address));
        }
    }
    let length = view.bytes;
    let part = match header(&call, &RANGE) {
        Some(range) if call.method == Method::GET && wants_part(&call, &etag) => {
            ranges::part(range, length).map_err(|_| Problem {
                more: Some(Box::new(More::Length(length))),
                ..Problem::new(Kind::RangeNotSatisfiable, "begins behind the content's end")
            })?
        }
        Some(_) | None => None,
    };
    let range = part.clone().unwrap_or(0..length);
    let Served {
        content_type,
        disposition,
    } = Served::of(&view.content_type, view.filename.as_deref());
    let content = match has_already {
        true => stream::empty().boxed(),
        false => match attachments.read(&found, range).await {
            Err(error) if error.is_missing() => {
                return Err(without_bytes(&call, &found, error).await);
            }
            read => read?,
        },
    };
    Ok(Output::File(Box::new(FileContent {
        content,
        length,
        part,
        etag,
        content_type,
        disposition,
    })))
}

/// What is answered where an attachment was found and its bytes are not there.
async fn without_bytes(call: &ApiCall, found: &FoundAttachment, error: ContentError) -> Problem {
    match call.app.system.attachments.is_going(found).await {
        Ok(true) => Problem::not_found(),
        Ok(false) => error.into(),
        Err(error) => error.into(),
    }
}

async fn found(call: &ApiCall) -> Result<FoundAttachment, Problem> {
    let id: AttachmentId = call.id::<AttachmentKind>(0)?;
    let found = call.app.system.attachments.find(&call.meta(), id).await;
    found.map_err(|error| match Problem::from(error) {
        problem if problem.kind == Kind::NotFound => Problem::not_found(),
        problem => problem,
    })
}

/// The entity tag of a file, whose content never changes.
fn tag(found: &FoundAttachment) -> String {
    let hash = &found.view().sha256;
    hash.get(..32).unwrap_or_default().to_owned()
}

/// Whether a part is wanted of what is there: only so long as it is what the client has of it, and not
/// where the client has the whole (RFC 9110, 13.2.2).
fn wants_part(call: &ApiCall, etag: &str) -> bool {
    let has_already = conditions::has_already(call.request.headers(), etag);
    let is_current =
        header(call, &IF_RANGE).is_none_or(|wanted| wanted.trim() == format!("\"{etag}\""));
    !has_already && is_current
}
