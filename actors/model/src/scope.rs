//! Permissions as OAuth writes them: words with blanks between (RFC 6749, 3.3).

use serde::de::value::{Error, StrDeserializer};
use serde::de::{Deserialize, IntoDeserializer};

use crate::key::Permission;

/// Reads a scope; none where a word is no permission. Words that are repeated count once.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<Permission>> {
    let mut scopes = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let word: StrDeserializer<'_, Error> = word.into_deserializer();
        let scope = Permission::deserialize(word).ok()?;
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    Some(scopes)
}

/// Writes a scope.
#[must_use]
pub fn text(scopes: &[Permission]) -> String {
    let words: Vec<String> = scopes.iter().map(|scope| word(*scope)).collect();
    words.join(" ")
}

/// One permission as its published name.
#[must_use]
pub fn word(scope: Permission) -> String {
    // As JSON has it, without the quotation marks.
    crate::json::text(&scope).trim_matches('"').to_owned()
}

/// Those of the first that are among the second.
#[must_use]
pub fn shared(some: &[Permission], others: &[Permission]) -> Vec<Permission> {
    let is_among = |scope: &&Permission| others.contains(scope);
    some.iter().filter(is_among).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_reads_back_as_it_was_written() {
        let scopes = [Permission::ConversationsRead, Permission::UsersManage];
        assert_eq!(text(&scopes), "conversations:read users:manage");
        assert_eq!(parse(&text(&scopes)), Some(scopes.to_vec()));
        assert_eq!(
            parse("users:manage  users:manage"),
            Some(vec![Permission::UsersManage])
        );
        assert_eq!(parse("users:manage openid"), None);
        assert_eq!(parse(""), Some(Vec::new()));
    }
}
