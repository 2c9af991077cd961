//! Enums whose variants have a code in the store and a word in the interface.

// A word is a token, not a literal: wrapped as a fragment, the derived schema would not see it.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal $word:tt),* $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
        )]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// All of them, in the order of their codes.
            pub const ALL: &[$name] = &[$($name::$variant),*];
            /// As the store writes it.
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

pub(crate) use words;
