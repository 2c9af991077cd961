//! Words as they are searched by: what two spellings of the same word have in common. Knows texts
//! only.
//!
//! The index gets words, not texts: folded here (case, width, ligatures, the accents of Latin,
//! Greek and Cyrillic), each with its tenant before it. So one account's words are other words than
//! any other's: a search costs what its own account holds, and how rare a word is elsewhere moves
//! nothing. In writing that sets no spaces (Chinese, Japanese, Korean, Thai …) each character is a
//! word, and what stands together is searched as a phrase: any part of a text is found.

use unicode_normalization::char::{canonical_combining_class, is_combining_mark};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use colloquy_model::caller::Tenant;

/// Characters of a word that count. What is longer is no word; without a bound one of 8 MiB would
/// be one.
const WORD_CHARS_MAX: usize = 64;
/// Words of a query that count; those behind them are let be.
const QUERY_WORDS_MAX: usize = 256;
/// Stands between tenant and word. Not a hexadecimal digit, so no tenant is another's beginning.
const BEHIND_TENANT: char = 'z';

/// A text as the index takes it: its words, folded, each with its tenant, a space between them.
pub(super) fn indexed(tenant: Tenant, text: &str) -> String {
    joined(text, &prefix_of(tenant))
}

/// The words of a text, folded, a space between them.
pub(super) fn folded(text: &str) -> String {
    joined(text, "")
}

/// Folded words as the index takes them, each with its tenant.
pub(super) fn of_tenant(tenant: Tenant, folded: &str) -> String {
    let prefix = prefix_of(tenant);
    let mut words = String::with_capacity(folded.len() * 2);
    for word in folded.split_terminator(' ') {
        add_word(&mut words, &prefix, word);
    }
    words
}

fn joined(text: &str, prefix: &str) -> String {
    let mut words = String::with_capacity(text.len() * 2);
    each(text, &mut |word| add_word(&mut words, prefix, word));
    words
}

/// Calls `found` with each word of a text, folded.
pub(super) fn each(text: &str, found: &mut impl FnMut(&str)) {
    for chunk in text.split_whitespace() {
        each_word(chunk, found);
    }
}

/// Whether a text has the same words if it is taken apart before this character, whatever stands around
/// it: no word goes on with it, and no character is put together with it. Of some characters it is not told
/// though they are in no word.
pub(super) fn begins_anew(c: char) -> bool {
    if c.is_whitespace() {
        return true;
    }
    let Some(first) = std::iter::once(c).nfkd().next() else {
        return false;
    };
    let stands_alone = canonical_combining_class(first) == 0
        && is_nfc_quick(std::iter::once(first)) == IsNormalized::Yes;
    stands_alone
        && !is_accent(first)
        && (is_word_of_its_own(first) || !(is_part_of_word(first) || is_invisible(first)))
}

fn add_word(words: &mut String, prefix: &str, word: &str) {
    if !words.is_empty() {
        words.push(' ');
    }
    words.push_str(prefix);
    words.push_str(word);
}

/// Words that are to stand one behind the other; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phrase {
    /// Folded, without their tenant.
    pub(super) words: Vec<String>,
    /// Whether the last one may go on.
    pub(super) goes_on: bool,
}

impl Phrase {
    /// In FTS5's language, in a tenant's words. Nothing but letters, digits and marks is in there, all of it
    /// quoted: no input is a syntax error.
    pub(super) fn query(&self, tenant: Tenant) -> String {
        let words = of_tenant(tenant, &self.words.join(" "));
        let going_on = if self.goes_on { " *" } else { "" };
        format!("\"{words}\"{going_on}")
    }
}

/// What asks FTS5 for all of these phrases in one text of a tenant.
pub(super) fn query(tenant: Tenant, phrases: &[Phrase]) -> String {
    let phrases: Vec<String> = phrases.iter().map(|phrase| phrase.query(tenant)).collect();
    phrases.join(" AND ")
}

/// What an asker typed, by what must be there, each once: what stands in quotation marks or without a space
/// between (`e-mail`) is one phrase, the last word may go on. Nothing where there is no word in it.
pub(super) fn phrases(typed: &str) -> Vec<Phrase> {
    let mut phrases: Vec<Phrase> = Vec::new();
    let mut room = QUERY_WORDS_MAX;
    let mut add = |part: &str| {
        let mut words = Vec::new();
        each(part, &mut |word| {
            if room > 0 {
                room -= 1;
                words.push(word.to_owned());
            }
        });
        if !words.is_empty() {
            phrases.push(Phrase {
                words,
                goes_on: false,
            });
        }
    };
    let mut goes_on = false;
    let mut parts = typed.split('"').enumerate().peekable();
    while let Some((number, part)) = parts.next() {
        let quoted = number % 2 == 1;
        if quoted {
            add(part);
        } else {
            part.split_whitespace().for_each(&mut add);
        }
        // A mark that was opened and not closed is still being typed.
        goes_on = parts.peek().is_none() && !part.trim().is_empty();
    }
    if let Some(last) = phrases.last_mut() {
        last.goes_on = goes_on;
    }
    let mut once: Vec<Phrase> = Vec::with_capacity(phrases.len());
    for phrase in phrases {
        if !once.contains(&phrase) {
            once.push(phrase);
        }
    }
    once
}

fn prefix_of(tenant: Tenant) -> String {
    format!("{:x}{BEHIND_TENANT}", tenant.number())
}

/// Calls `found` with each word of a text without spaces.
fn each_word(chunk: &str, found: &mut impl FnMut(&str)) {
    let mut word = Word {
        text: String::new(),
        chars: 0,
    };
    if chunk.is_ascii() {
        for byte in chunk.bytes() {
            if byte.is_ascii_alphanumeric() {
                word.push(char::from(byte.to_ascii_lowercase()));
            } else {
                word.end(found);
            }
        }
    } else {
        // Taken apart, accents are characters of their own; what is left is put together again, or
        // a Korean syllable would be three words.
        let bare = chunk.nfkd().filter(|c| !is_accent(*c)).nfc();
        for c in bare.flat_map(char::to_lowercase).filter(|c| !is_accent(*c)) {
            if is_word_of_its_own(c) {
                word.end(found);
                word.push(c);
                word.end(found);
            } else if is_part_of_word(c) {
                word.push(c);
            } else if !is_invisible(c) {
                word.end(found);
            }
        }
    }
    word.end(found);
}

/// A word as it is being read.
struct Word {
    text: String,
    chars: usize,
}

impl Word {
    fn push(&mut self, c: char) {
        if self.chars < WORD_CHARS_MAX {
            self.text.push(c);
            self.chars += 1;
        }
    }

    fn end(&mut self, found: &mut impl FnMut(&str)) {
        if !self.text.is_empty() {
            found(&self.text);
            self.text.clear();
            self.chars = 0;
        }
    }
}

/// What stands in words of several characters; what stands in a word of its own is told before.
fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c)
}

/// The accents that readers leave out; in other scripts a mark may be a vowel.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Joiners, soft hyphens and marks of direction: a word with one is the word without.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
    )
}

/// Letters of scripts that set no spaces between words, or few.
fn is_word_of_its_own(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17d3}' // Thai, Lao, Burmese, Khmer
        | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' // Hiragana, Katakana
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' // Han
        | '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7a3}' // Hangul
    ) && is_part_of_word(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TENANT: Tenant = Tenant::OPERATORS;

    fn asked(typed: &str) -> Option<String> {
        let phrases = phrases(typed);
        (!phrases.is_empty()).then(|| query(TENANT, &phrases))
    }

    /// The words of a text without their tenant.
    fn words(text: &str) -> String {
        let indexed = indexed(TENANT, text);
        let bare = |word: &str| word.strip_prefix("0z").unwrap_or("no tenant").to_owned();
        indexed
            .split_whitespace()
            .map(bare)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn spellings_of_a_word_are_the_same_word() {
        let table = [
            ("Crème BRÛLÉE", "creme brulee"),
            ("cre\u{300}me", "creme"),
            ("ﬁne Ｗｉｄｅ", "fine wide"),
            ("Ёлка Άθήνα", "елка αθηνα"),
            ("İstanbul", "istanbul"),
            ("co\u{ad}operate", "cooperate"),
            ("snake_case e-mail a.b@c", "snake case e mail a b c"),
            ("हिन्दी", "हिन्दी"),
            ("iPhone手机", "iphone 手 机"),
            ("東京タワー", "東 京 タ ワ ー"),
            ("학교에서", "학 교 에 서"),
            ("ｶﾞ", "ガ"),
            ("", ""),
            ("--- !!! 🎉", ""),
        ];
        for (text, wanted) in table {
            assert_eq!(words(text), wanted, "{text}");
        }
        assert_eq!(words(&"x".repeat(1_000)).len(), WORD_CHARS_MAX);
    }

    #[test]
    fn a_query_asks_for_all_words_for_phrases_and_for_how_the_last_one_begins() {
        let table = [
            ("one two", r#""0zone" AND "0ztwo" *"#),
            (r#""one two" three"#, r#""0zone 0ztwo" AND "0zthree" *"#),
            (r#"three "one two""#, r#""0zthree" AND "0zone 0ztwo""#),
            (r#"three "one tw"#, r#""0zthree" AND "0zone 0ztw" *"#),
            ("e-mail", r#""0ze 0zmail" *"#),
            (
                "NEAR(a b) OR c* -d title:e",
                r#""0znear 0za" AND "0zb" AND "0zor" AND "0zc" AND "0zd" AND "0ztitle 0ze" *"#,
            ),
        ];
        for (typed, wanted) in table {
            assert_eq!(asked(typed).as_deref(), Some(wanted), "{typed}");
        }
        for nothing in ["", " ", "\"", "\"\"", "*", "()\"-", "🎉"] {
            assert_eq!(asked(nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn a_query_is_quoted_words_and_nothing_else(typed in "[\\PC\"*() ]{0,80}") {
            if let Some(query) = asked(&typed) {
                let parts: Vec<&str> = query.trim_end_matches(" *").split(" AND ").collect();
                for part in parts {
                    let within = part.strip_prefix('"').and_then(|part| part.strip_suffix('"'));
                    prop_assert!(within.is_some_and(|phrase| {
                        phrase.chars().all(|c| c.is_alphanumeric() || is_combining_mark(c) || c == ' ')
                    }), "{part}");
                }
            }
        }

        /// Wherever a text may be taken apart, of whatever scripts it is.
        #[test]
        fn a_text_that_is_taken_apart_has_the_same_words(
            chars in proptest::collection::vec(prop_oneof![
                any::<char>(), proptest::char::range(' ', '~'), proptest::char::range('\u{300}', '\u{400}'),
                proptest::char::range('\u{e00}', '\u{e5f}'), proptest::char::range('\u{1100}', '\u{11ff}'),
                proptest::char::range('\u{3040}', '\u{30ff}'), proptest::char::range('\u{ac00}', '\u{ac7f}'),
                proptest::char::range('\u{fb50}', '\u{ffef}'),
            ], 0..40),
        ) {
            let text: String = chars.iter().collect();
            let mut apart: Vec<String> = vec![String::new()];
            for c in chars {
                if begins_anew(c) {
                    apart.push(String::new());
                }
                apart.last_mut().into_iter().for_each(|part| part.push(c));
            }
            let parts: Vec<String> = apart.iter().map(|part| words(part)).filter(|words| !words.is_empty()).collect();
            prop_assert_eq!(parts.join(" "), words(&text));
        }

        #[test]
        fn folding_twice_is_folding_once(text in "\\PC{0,40}") {
            let once = words(&text);
            prop_assert_eq!(words(&once), once);
        }
    }
}
