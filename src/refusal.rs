//! What the commands print of a server that refuses or can't be reached.

use reqwest::Response;

/// The server's own words for a refusal, with the field that they are about.
pub(crate) async fn refusal(response: Response) -> String {
    let body = response.bytes().await.unwrap_or_default();
    let error: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let word = |pointer| {
        error
            .pointer(pointer)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
    };
    let [message, field, reason] = [
        "/error/message",
        "/error/details/field",
        "/error/details/reason",
    ]
    .map(word);
    match (message, field, reason) {
        ("", _, _) => "it says nothing more".to_owned(),
        (message, "", "") => message.to_owned(),
        (message, "", reason) => format!("{message} ({reason})"),
        (message, field, "") => format!("{message} ({field})"),
        (message, field, reason) => format!("{message} ({field}: {reason})"),
    }
}

/// The innermost cause of an error, which says most of it.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut innermost: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
