//! A macro for enums whose variants have a code in the store and a word in the interface.

/// Defines an enum whose variants each have the code under which the store writes them and the word
/// under which the interface shows them.
///
/// The crate that uses it needs `serde` and `utoipa`.
// A word is a token, not a literal: wrapped as a fragment, the derived schema would not see it.
#[macro_export]
macro_rules! coded_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal $word:tt),* $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
        )]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// All of them, in the order of their codes.
            pub const ALL: &[$name] = &[$($name::$variant),*];
            /// The number by which the store writes it; it never changes.
            #[must_use]
            pub fn code(self) -> i64 {
                match self { $($name::$variant => $code),* }
            }
            /// Reads back what `code` gave.
            #[must_use]
            pub fn from_code(code: i64) -> Option<Self> {
                match code { $($code => Some($name::$variant),)* _ => None }
            }
            /// As the interface writes it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }
    };
}
