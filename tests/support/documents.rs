//! Short words for documents: what most of their tests begin with.

use serde_json::{Value, json};

use super::answer::Answer;
use super::client::Client;

/// All documents.
pub(crate) const DOCUMENTS: &str = "/api/v1/documents";

/// The identifier in a document's path.
pub(crate) fn id_of(at: &str) -> &str {
    at.rsplit('/').next().unwrap()
}

impl Client {
    /// Makes a document; gives its path.
    pub(crate) async fn document(&self, content: &str) -> String {
        let made = self
            .post(DOCUMENTS, json!({"title": "Guide", "content": content}))
            .await
            .expect(201);
        made.header("location").to_owned()
    }

    /// The head's content.
    pub(crate) async fn text(&self, at: &str) -> String {
        self.get(at).await.expect(200).body["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The head's identifier.
    pub(crate) async fn head(&self, at: &str) -> String {
        self.get(at).await.expect(200).id("version")
    }

    /// Puts a new text on the head; gives the head's identifier.
    pub(crate) async fn write(&self, at: &str, content: &str) -> String {
        self.put(at, json!({"content": content}))
            .await
            .expect(200)
            .id("version")
    }

    /// Adds a version as the body says.
    pub(crate) async fn version(&self, at: &str, body: Value) -> Answer {
        self.post(&format!("{at}/versions"), body).await.expect(201)
    }

    /// Goes on with a side line, or begins it at the head; gives the version's identifier.
    pub(crate) async fn branch(&self, at: &str, branch: &str, content: &str) -> String {
        self.version(at, json!({"branch": branch, "content": content}))
            .await
            .id("id")
    }

    /// Makes a share link; gives its identifier and its path.
    pub(crate) async fn share(&self, at: &str, body: Value) -> (String, String) {
        let made = self.post(&format!("{at}/share"), body).await.expect(201);
        let url = made.id("url");
        let path = url[url.find("/s/").unwrap_or_else(|| panic!("no link: {made}"))..].to_owned();
        (made.id("share_id"), path)
    }
}
