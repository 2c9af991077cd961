//! Files that messages bring, uploaded and read as tests of several rooms need them.

use super::{Answer, Client};

/// Uploads a file of this name; what it is, its sender does not say.
pub(crate) async fn upload(c: &Client, name: &str, content: impl AsRef<[u8]>) -> Answer {
    let disposition = format!("attachment; filename=\"{name}\"");
    c.call("POST", "/v1/attachments")
        .with("content-disposition", &disposition)
        .bytes(content.as_ref())
        .await
}

/// The identifier of one that was uploaded.
pub(crate) async fn uploaded(c: &Client, content: impl AsRef<[u8]>) -> String {
    upload(c, "a.txt", content)
        .await
        .expect(201)
        .id("attachment_id")
}

/// Where its bytes are read.
pub(crate) fn content_of(attachment: &str) -> String {
    format!("/v1/attachments/{attachment}/content")
}
