//! Texts that a caller may send, each with its bounds: what parses is within them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};

use crate::bounds::Bounds;

/// What one kind of text must be.
pub trait Form: 'static {
    /// Its name in the published schema.
    const NAME: &'static str;
    /// What the bound on the length counts.
    const UNIT: Unit;
    /// The least and the most of that unit.
    fn bounds() -> (usize, usize);
    /// The published format, where it has one.
    const FORMAT: Option<&'static str> = None;
    /// What else must hold; otherwise the reason why not.
    ///
    /// # Errors
    /// The reason, as the caller reads it.
    fn check(_text: &str) -> Result<(), &'static str> {
        Ok(())
    }
}

/// What the bound of a text counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Unicode scalar values.
    Characters,
    /// Bytes of UTF-8.
    Bytes,
}

/// A text of one form. A clone is the same text: a document's may have 8 MiB.
pub struct Text<F>(Arc<str>, PhantomData<fn() -> F>);

impl<F: Form> Text<F> {
    /// Takes a text that keeps its form's bounds.
    ///
    /// # Errors
    /// The reason, as the caller reads it.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, Cow<'static, str>> {
        let text = text.into();
        let (least, most) = F::bounds();
        let (length, unit) = match F::UNIT {
            Unit::Characters => (text.chars().count(), "characters"),
            Unit::Bytes => (text.len(), "bytes"),
        };
        if length < least || length > most {
            return Err(format!("must be {least} to {most} {unit}").into());
        }
        if text.contains('\0') {
            return Err("must not contain U+0000".into());
        }
        F::check(&text)?;
        Ok(Text(text, PhantomData))
    }

    /// Takes the text out, without the promise that it is within bounds.
    #[must_use]
    pub fn into_string(self) -> String {
        String::from(&*self.0)
    }

    /// The text, shared: a copy costs no memory of its own.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl<F> Deref for Text<F> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
impl<F> Clone for Text<F> {
    fn clone(&self) -> Self {
        Text(Arc::clone(&self.0), PhantomData)
    }
}
impl<F> PartialEq for Text<F> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<F> Eq for Text<F> {}
impl<F> fmt::Debug for Text<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
impl<F> Serialize for Text<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
impl<'de, F: Form> Deserialize<'de> for Text<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Text::new(text.as_ref()).map_err(de::Error::custom)
    }
}
impl<F: Form> utoipa::PartialSchema for Text<F> {
    fn schema() -> utoipa::openapi::RefOr<Schema> {
        let (least, most) = F::bounds();
        let mut schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(least));
        // JSON Schema counts characters: a bound in bytes is stated, not enforced by it.
        schema = match F::UNIT {
            Unit::Characters => schema.max_length(Some(most)),
            Unit::Bytes => schema.description(Some(format!("At most {most} bytes of UTF-8."))),
        };
        schema
            .format(F::FORMAT.map(|format| SchemaFormat::Custom(format.into())))
            .into()
    }
}
impl<F: Form> utoipa::ToSchema for Text<F> {
    fn name() -> Cow<'static, str> {
        F::NAME.into()
    }
}

macro_rules! forms {
    ($($form:ident $alias:ident $doc:literal { $unit:ident $bounds:expr, $format:expr, $check:expr })*) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub enum $form {}
        impl Form for $form {
            const NAME: &'static str = stringify!($alias);
            const UNIT: Unit = Unit::$unit;
            const FORMAT: Option<&'static str> = $format;
            fn bounds() -> (usize, usize) {
                $bounds
            }
            fn check(text: &str) -> Result<(), &'static str> {
                let check: fn(&str) -> Result<(), &'static str> = $check;
                check(text)
            }
        }
        #[doc = $doc]
        pub type $alias = Text<$form>;
    )*};
}

forms! {
    ContentForm Content "What a message says." { Bytes (1, Bounds::get().content_bytes_max), None, |_| Ok(()) }
    CustomerNameForm CustomerName "A customer's name." {
        Characters (1, Bounds::get().customer_name_chars_max), None, |_| Ok(())
    }
    NameForm Name "A name or title." { Characters (1, Bounds::get().name_chars_max), None, |_| Ok(()) }
    ReasonForm Reason "Why something was done, in the caller's words." { Characters (1, 500), None, |_| Ok(()) }
    ExternalIdForm ExternalId "The caller's own identifier." { Characters (1, 255), None, |_| Ok(()) }
    DescriptionForm Description "What something is for." { Characters (0, 500), None, |_| Ok(()) }
    WebhookUrlForm WebhookUrl "Where deliveries go." {
        Characters (1, Bounds::get().url_chars_max), Some("uri"), |_| Ok(())
    }
    EmailForm Email "An e-mail address." { Characters (3, 320), None, is_email }
    DocumentContentForm DocumentContent "What a document says." { Bytes (0, Bounds::get().document_bytes_max), None, |_| Ok(()) }
    MarkForm Mark "A label or a branch." { Characters (1, 100), None, is_mark }
    CommentBodyForm CommentBody "What a comment says." { Bytes (1, Bounds::get().content_bytes_max), None, |_| Ok(()) }
    PasswordForm Password "What opens a share link." { Characters (1, 128), None, |_| Ok(()) }
}

fn is_email(text: &str) -> Result<(), &'static str> {
    let parts = text.rsplit_once('@');
    let sound =
        |part: &str| !part.is_empty() && !part.chars().any(|c| c.is_whitespace() || c.is_control());
    match parts {
        Some((local, domain)) if sound(local) && sound(domain) && !domain.contains('@') => Ok(()),
        Some(_) | None => Err("must be an e-mail address"),
    }
}

fn is_mark(text: &str) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if !text.bytes().all(plain) {
        return Err("must be of letters, digits, '.', '_' and '-'");
    }
    if matches!(text, "." | "..") {
        return Err("must not be '.' or '..', which mean folders in a path");
    }
    if text.bytes().all(|b| b.is_ascii_digit())
        || matches!(text, "head" | "main")
        || text.starts_with("ver_")
    {
        return Err("must not be only digits, `head`, `main`, or begin with `ver_`");
    }
    Ok(())
}

/// Checks that a text is a URL that an image or file message may point to.
///
/// # Errors
/// The reason, as the caller reads it.
pub fn is_https_url(text: &str) -> Result<(), String> {
    let most = Bounds::get().url_chars_max;
    let rest = text
        .split_at_checked(8)
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("https://"))
        .map(|(_, rest)| rest);
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let host = authority
        .and_then(|authority| authority.rsplit('@').next())
        .filter(|host| !host.starts_with(':'));
    let sound = host.is_some_and(|host| !host.is_empty())
        && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    if sound && text.chars().count() <= most {
        Ok(())
    } else {
        Err(format!(
            "must be an https: URL of at most {most} characters"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_https_url_has_a_host_and_its_scheme_has_no_case() {
        for good in [
            "https://a/b",
            "HTTPS://a",
            "https://user@a:80?x",
            "https://[::1]/",
        ] {
            assert!(is_https_url(good).is_ok(), "{good}");
        }
        for bad in [
            "http://a",
            "https://",
            "https:///b",
            "https://user@:80",
            "https://a b",
            "javascript:alert(1)",
            "é",
        ] {
            assert!(is_https_url(bad).is_err(), "{bad}");
        }
    }
}
