//! Arbitrary documents for the tests: texts, and edits that come close to each other.

#![expect(clippy::indexing_slicing, reason = "tests")]

use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::Index;

/// Lines of which whole documents are made: the fewer, the more ambiguous is every diff.
const TWO: &[&str] = &["a", ""];
const TINY: &[&str] = &["a", "b", "c", "", "}", "-"];
const PROSE: &[&str] = &[
    "The customer called again.",
    "",
    "Grüße aus Köln",
    "返品の件について",
    "- one",
    "- two",
    "",
    "## Überschrift",
    "***",
    "Please refund order 17.",
    "naïve café",
    "…",
    "The end.",
    "Всё хорошо",
    "🙂 thanks",
    "a;b;c",
    "1;2;3",
];
const CODE: &[&str] = &[
    "fn main() {",
    "}",
    "",
    "    let a = 1;",
    "    let b = 2;",
    "    if a > b {",
    "    }",
    "\treturn a;",
    "    // --",
    "{",
    "        call(a, b);",
    "    } else {",
    "// a comment",
    "\t\tcall(b, a);",
    "  ",
];
/// Lines that differ in how far they are indented, or in nothing: where they can slide is chosen by
/// that. A form feed is no indentation to git.
const INDENTED: &[&str] = &[
    "", "a", "", "\ta", "  ", "\t\ta", "    a", "\u{c}", "", "\t    a",
];

/// One change of a text, at a place counted from an anchor that others share.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    side: usize,
    anchor: usize,
    offset: usize,
    kind: u8,
    length: usize,
    words: Vec<Index>,
}

/// How a document's lines end.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Lf,
    Crlf,
    Mixed(u64),
}

impl Ends {
    fn of(self, line: usize) -> &'static str {
        match self {
            Ends::Lf => "\n",
            Ends::Crlf => "\r\n",
            Ends::Mixed(bits) if bits >> (line % 64) & 1 == 1 => "\r\n",
            Ends::Mixed(_) => "\n",
        }
    }
}

fn ends() -> impl Strategy<Value = Ends> {
    prop_oneof![16 => Just(Ends::Lf), 2 => Just(Ends::Crlf), 2 => any::<u64>().prop_map(Ends::Mixed)]
}

fn edit(sides: usize) -> impl Strategy<Value = Edit> {
    let words = prop::collection::vec(any::<Index>(), 1..4);
    // One more side than there are: an edit that all make.
    (
        1..=sides + 1,
        0..3_usize,
        0..7_usize,
        0..6_u8,
        1..5_usize,
        words,
    )
        .prop_map(|(side, anchor, offset, kind, length, words)| Edit {
            side,
            anchor,
            offset,
            kind,
            length,
            words,
        })
}

/// How a side ends: whether its last line does, how its lines end, and whether it is empty.
type Last = (bool, Ends, bool);

/// Everything that a base and its sides are made of.
#[derive(Debug, Clone)]
struct Draft {
    base: Vec<String>,
    vocabulary: &'static [&'static str],
    edits: Vec<Edit>,
    /// The lines around which the edits gather.
    anchors: [Index; 3],
    /// How lines of the base end, and those of the sides with `same_end`.
    all_end: Ends,
    same_end: bool,
    /// The base's end first, then that of each side.
    last: Vec<Last>,
}

impl Draft {
    /// The base, and then each side.
    fn texts(&self) -> Vec<String> {
        (0..self.last.len()).map(|side| self.text(side)).collect()
    }

    fn text(&self, side: usize) -> String {
        let (newline, own_end, empty) = self.last[side];
        if empty {
            return String::new();
        }
        let word = |index: &Index| word(self.vocabulary, index);
        let mut lines = self.base.clone();
        let made_by_all = |edit: &&Edit| edit.side >= self.last.len();
        self.edits
            .iter()
            .filter(|edit| side > 0 && (edit.side == side || made_by_all(edit)))
            .for_each(|edit| change(&mut lines, edit, &self.anchors, &word));
        let ends = if side == 0 || self.same_end {
            self.all_end
        } else {
            own_end
        };
        write(&lines, ends, newline)
    }
}

fn word(vocabulary: &[&str], index: &Index) -> String {
    vocabulary[index.index(vocabulary.len())].to_owned()
}

/// Makes most lines unique, as in real prose.
fn number(lines: &mut [String]) {
    for (number, text) in lines.iter_mut().enumerate() {
        if number % 3 != 0 {
            *text += &number.to_string();
        }
    }
}

/// A base and as many sides as asked, each with edits of its own and some that all make.
pub(crate) fn documents(sides: usize, lines: Range<usize>) -> impl Strategy<Value = Vec<String>> {
    let vocabulary = prop_oneof![
        Just(TWO),
        Just(TINY),
        Just(PROSE),
        Just(CODE),
        Just(INDENTED)
    ];
    let base = (
        vocabulary,
        prop::collection::vec(any::<Index>(), lines),
        prop::bool::weighted(0.25),
    );
    let last = (
        prop::bool::weighted(0.9),
        ends(),
        prop::bool::weighted(0.03),
    );
    (
        base,
        prop::collection::vec(edit(sides), 0..9),
        any::<[Index; 3]>(),
        (ends(), prop::bool::weighted(0.5)),
        prop::collection::vec(last, sides + 1),
    )
        .prop_map(
            |((vocabulary, base, numbered), edits, anchors, (all_end, same_end), last)| {
                let mut base: Vec<String> =
                    base.iter().map(|index| word(vocabulary, index)).collect();
                if numbered {
                    number(&mut base);
                }
                let draft = Draft {
                    base,
                    vocabulary,
                    edits,
                    anchors,
                    all_end,
                    same_end,
                    last,
                };
                draft.texts()
            },
        )
}

fn write(lines: &[String], ends: Ends, newline: bool) -> String {
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        text += line;
        if newline || number + 1 < lines.len() {
            text += ends.of(number);
        }
    }
    text
}

fn change(
    lines: &mut Vec<String>,
    edit: &Edit,
    anchors: &[Index; 3],
    word: &impl Fn(&Index) -> String,
) {
    let at = (anchors[edit.anchor].index(lines.len() + 1) + edit.offset)
        .saturating_sub(3)
        .min(lines.len());
    let end = (at + edit.length).min(lines.len());
    let fresh: Vec<String> = edit.words.iter().map(word).collect();
    match edit.kind {
        0 => drop(lines.splice(at..at, fresh)),
        1 => drop(lines.drain(at..end)),
        2 => drop(lines.splice(at..end, fresh)),
        3 => {
            let moved: Vec<String> = lines.drain(at..end).collect();
            let to = edit.words[0].index(lines.len() + 1);
            lines.splice(to..to, moved);
        }
        4 => {
            let copied = lines[at..end].to_vec();
            lines.splice(at..at, copied);
        }
        _ => {
            if let Some(line) = lines.get_mut(at) {
                *line += " more";
            }
        }
    }
}
