//! Images of messages, small as the inbox shows them: made of the attachment each time that a browser
//! has none, so that nothing is kept which a redaction would have to find.

use std::io::Cursor;

use actix_web::http::header::RANGE;
use bytes::Bytes;
use colloquy_runtime::offload;
use futures_util::{StreamExt, TryStreamExt, stream};
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use super::super::Visit;
use super::super::reply::Reply;
use super::super::session::Session;
use crate::http::{FileContent, Outcome, Problem, has_already};

/// Pixels of its longer side. Pages give it half as many, for screens with two in one.
const SIDE: u32 = 480;
/// A file of so many bytes is small enough as it is, and may move.
const SMALL: u64 = 65_536;
/// A larger file is shown as it is …
const BYTES_MAX: u64 = 32 << 20;
/// … as is one of more pixels, which take up to nine bytes each while they are unpacked.
const PIXELS_MAX: u64 = 20_000_000;
/// The quality at which a thumbnail is written as JPEG, of 100.
const JPEG_QUALITY: u8 = 80;

/// Answers with the thumbnail of an attachment that is an image, or with the image itself where that is small
/// already or no thumbnail can be made of it.
///
/// # Errors
/// It is none that this person may see, or no image; or a part of a thumbnail is asked for.
pub(super) async fn show(visit: &Visit, session: &Session, id: &str) -> Result<Reply, Problem> {
    if visit.request.headers().contains_key(RANGE) {
        return Err(Problem::invalid("Range", "a thumbnail is read whole"));
    }
    let path = format!("/v1/attachments/{id}/content");
    let file = session.file(&path).await?;
    if ImageFormat::from_mime_type(file.content_type).is_none() {
        return Err(Problem::not_found());
    }
    let etag = format!("{}-thumbnail", file.etag);
    if has_already(visit.request.headers(), &etag) {
        return Ok(Reply::attachment(Box::new(of_bytes(
            *file,
            Bytes::new(),
            etag,
        ))));
    }
    if file.length <= SMALL || file.length > BYTES_MAX {
        return Ok(Reply::attachment(file));
    }
    // What it is read from is not held open while others have their turn.
    drop(file);
    let busy = || Problem::unavailable("other images have their turn", Outcome::None, 1);
    let turn = offload::picture_permit(session.tenant()).await;
    let turn = turn.ok_or_else(busy)?;
    let mut file = session.file(&path).await?;
    let content = std::mem::replace(&mut file.content, stream::empty().boxed());
    // Neither the reading in small pieces nor their copies are for a thread that answers others.
    let made = turn.run_async(move |_| async move {
        let pieces = content.try_collect::<Vec<Bytes>>().await?;
        Ok::<_, Problem>(thumbnail(&pieces.concat()).ok())
    });
    let Some(Thumbnail {
        content,
        content_type,
    }) = made.await.transpose()?.flatten()
    else {
        // Damaged, or beyond the bounds: the browser shows what it can.
        return Ok(Reply::attachment(session.file(&path).await?));
    };
    Ok(Reply::attachment(Box::new(FileContent {
        content_type,
        ..of_bytes(*file, content, etag)
    })))
}

/// The same file with another content.
fn of_bytes(file: FileContent, content: Bytes, etag: String) -> FileContent {
    FileContent {
        length: content.len() as u64,
        content: stream::once(async { Ok(content) }).boxed(),
        etag,
        ..file
    }
}

struct Thumbnail {
    content: Bytes,
    content_type: &'static str,
}

/// Makes the thumbnail of an image: upright as the camera was held, and without the other Exif data, such as
/// where it was taken.
fn thumbnail(original: &[u8]) -> Result<Thumbnail, ImageError> {
    let mut reader = ImageReader::new(Cursor::new(original)).with_guessed_format()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(8 * PIXELS_MAX);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        let exceeded = image::error::LimitErrorKind::DimensionError;
        return Err(ImageError::Limits(image::error::LimitError::from_kind(
            exceeded,
        )));
    }
    let orientation = decoder.orientation()?;
    let whole = DynamicImage::from_decoder(decoder)?;
    let side = SIDE.min(width.max(height));
    let mut small = whole.thumbnail(side, side);
    small.apply_orientation(orientation);
    let mut content = Vec::new();
    let content_type = if small.color().has_alpha() {
        let small = DynamicImage::from(small.into_rgba8());
        small.write_to(&mut Cursor::new(&mut content), ImageFormat::Png)?;
        ImageFormat::Png.to_mime_type()
    } else {
        let encoder = JpegEncoder::new_with_quality(&mut content, JPEG_QUALITY);
        DynamicImage::from(small.into_rgb8()).write_with_encoder(encoder)?;
        ImageFormat::Jpeg.to_mime_type()
    };
    Ok(Thumbnail {
        content: content.into(),
        content_type,
    })
}
