//! Styles, scripts and pictures of the console, as they stand in the binary.

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use bytes::Bytes;

use super::Visit;
use super::reply::{Ending, Reply};
use crate::http::Kind;

struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! assets {
    ($($name:literal $media_type:ident $file:literal)*) => {
        const ASSETS: &[Asset] = &[$(Asset {
            name: $name,
            media_type: $media_type,
            content: include_bytes!(concat!("assets/", $file)),
        }),*];
    };
}

const SVG: &str = "image/svg+xml";

assets! {
    "console.css" STYLE "console.css"
    "charts.js" SCRIPT "charts.js"
    "console.js" SCRIPT "console.js"
    "inbox.js" SCRIPT "inbox.js"
    "overview.js" SCRIPT "overview.js"
    "icon.svg" SVG "icon.svg"
    "htmx.min.js" SCRIPT "vendor/htmx.min.js"
    "uPlot.iife.min.js" SCRIPT "vendor/uPlot.iife.min.js"
    "uPlot.min.css" STYLE "vendor/uPlot.min.css"
}

/// A digest over all of them: with a new version of any, every address is another one.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    for asset in ASSETS {
        hasher.write(asset.content);
    }
    format!("{:016x}", hasher.finish())
});

/// The address under which browsers may keep this one for ever.
pub(super) fn path(name: &str) -> String {
    format!("/console/assets/{name}?v={}", *VERSION)
}

/// The address of the icon, which pages of others may have, too.
pub(crate) fn icon() -> String {
    path("icon.svg")
}

/// Answers with the one of this name.
pub(super) fn serve(visit: &Visit, name: &str) -> Reply {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return Reply {
            ending: Ending::Refused(Kind::NotFound),
            headers: Vec::new(),
            body: Bytes::new(),
            leads_to: None,
            file: None,
        };
    };
    let kept = match visit.query("v") == *VERSION {
        true => "public, max-age=31536000, immutable",
        false => "public, no-cache",
    };
    Reply {
        ending: Ending::Shown,
        headers: vec![
            (CONTENT_TYPE, HeaderValue::from_static(asset.media_type)),
            (CACHE_CONTROL, HeaderValue::from_static(kept)),
        ],
        body: Bytes::from_static(asset.content),
        leads_to: None,
        file: None,
    }
}
