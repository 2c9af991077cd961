//! Dumps that are whole, cut, altered and interrupted, over a store that remembers what it is given.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::io;

use super::{ImportError, Imported, Source, export, import};
use crate::store::{
    CommentItem, Export, Import, ImportMark, ImportProgress, Item, Text, TransferError,
};

/// Holds so many comments.
struct Comments(i64);

impl Export for Comments {
    fn export(
        &mut self,
        take: &mut dyn FnMut(Item) -> io::Result<()>,
    ) -> Result<(), TransferError> {
        for number in 0..self.0 {
            let item = CommentItem {
                document: 1,
                number,
                body: Text(br#"{"body":"a line"}"#.to_vec()),
            };
            take(Item::Comment(item)).map_err(TransferError::Output)?;
        }
        Ok(())
    }
}

/// Remembers which comments it was given, and fails at its end.
struct Heap {
    numbers: Vec<i64>,
    progress: ImportProgress,
    room: usize,
}

impl Default for Heap {
    fn default() -> Self {
        Heap {
            numbers: Vec::new(),
            progress: ImportProgress::Empty,
            room: usize::MAX,
        }
    }
}

impl Import for Heap {
    fn progress(&mut self) -> Result<ImportProgress, TransferError> {
        Ok(self.progress)
    }

    fn write(&mut self, items: Vec<Item>, mark: ImportMark) -> Result<(), TransferError> {
        if self.numbers.len() + items.len() > self.room {
            return Err(TransferError::Missing("room".to_owned()));
        }
        for item in items {
            if let Item::Comment(comment) = item {
                self.numbers.push(comment.number);
            }
        }
        self.progress = ImportProgress::Begun(mark);
        Ok(())
    }

    fn finish(&mut self, mark: ImportMark) -> Result<(), TransferError> {
        self.progress = ImportProgress::Done(mark);
        Ok(())
    }
}

fn dump_of(comments: i64) -> Vec<u8> {
    let source = Source {
        store: "sqlite".to_owned(),
        colloquy: "1".to_owned(),
    };
    let mut out = Vec::new();
    let written = export(&mut Comments(comments), source, &mut out, &mut |_| {});
    assert!(written.is_ok(), "{written:?}");
    out
}

fn imported(dump: &[u8], heap: &mut Heap) -> Result<Imported, ImportError> {
    import(&mut &*dump, heap, &mut |_| {})
}

fn expected(comments: i64) -> Vec<i64> {
    (0..comments).collect()
}

#[test]
fn a_dump_is_imported_once_and_is_known_again() {
    let dump = dump_of(2_000);
    let mut heap = Heap::default();
    assert!(matches!(imported(&dump, &mut heap), Ok(Imported::Now(_))));
    assert_eq!(heap.numbers, expected(2_000));
    assert!(matches!(
        imported(&dump, &mut heap),
        Ok(Imported::Before(_))
    ));
    assert_eq!(heap.numbers, expected(2_000));
    let other = imported(&dump_of(2_000), &mut heap);
    assert!(matches!(other, Err(ImportError::Occupied)), "{other:?}");
}

#[test]
fn an_import_goes_on_where_it_stopped_and_only_with_the_same_dump() {
    let dump = dump_of(2_000);
    let mut heap = Heap {
        room: 1_100,
        ..Heap::default()
    };
    assert!(matches!(
        imported(&dump, &mut heap),
        Err(ImportError::Store(_))
    ));
    assert_eq!(heap.numbers, expected(1_024));
    heap.room = usize::MAX;
    for other in [dump_of(2_000), dump_of(10)] {
        let other = imported(&other, &mut heap);
        assert!(matches!(other, Err(ImportError::Another(_))), "{other:?}");
        assert_eq!(heap.numbers, expected(1_024));
    }
    assert!(matches!(imported(&dump, &mut heap), Ok(Imported::Now(_))));
    assert_eq!(heap.numbers, expected(2_000));
}

#[test]
fn wherever_a_dump_is_cut_it_is_refused_and_the_whole_one_completes_it() {
    let dump = dump_of(1_200);
    for length in (1..dump.len()).step_by(1_711).chain([dump.len() - 1]) {
        let mut heap = Heap::default();
        let cut = imported(&dump[..length], &mut heap);
        assert!(cut.is_err(), "{length}: {cut:?}");
        assert!(!matches!(heap.progress, ImportProgress::Done(_)));
        assert!(matches!(imported(&dump, &mut heap), Ok(Imported::Now(_))));
        assert_eq!(heap.numbers, expected(1_200), "{length}");
    }
}

#[test]
fn nothing_of_an_altered_block_gets_in_and_the_right_dump_completes_it() {
    let dump = dump_of(1_200);
    for place in (0..dump.len()).step_by(997).chain([dump.len() - 2]) {
        let mut altered = dump.clone();
        altered[place] ^= 1;
        let mut heap = Heap::default();
        let refused = imported(&altered, &mut heap);
        assert!(refused.is_err(), "{place}: {refused:?}");
        let right = expected(1_200);
        assert!(right.starts_with(&heap.numbers), "{place}");
        let goes_on = imported(&dump, &mut heap);
        assert!(
            matches!(goes_on, Ok(Imported::Now(_))),
            "{place}: {goes_on:?}"
        );
        assert_eq!(heap.numbers, right, "{place}");
    }
}

#[test]
fn lines_that_are_left_out_doubled_or_added_are_noticed() {
    let dump = dump_of(600);
    let lines: Vec<&[u8]> = dump.split_inclusive(|byte| *byte == b'\n').collect();
    let mut missing = lines.clone();
    missing.remove(5);
    let mut doubled = lines.clone();
    doubled.insert(5, lines[5]);
    let mut swapped = lines.clone();
    swapped.swap(5, 6);
    let mut unchecked = lines.clone();
    unchecked.retain(|line| !line.starts_with(b"{\"check\""));
    let mut longer = lines.clone();
    longer.push(b"\n");
    for altered in [missing, doubled, swapped, unchecked, longer] {
        let mut heap = Heap::default();
        let refused = imported(&altered.concat(), &mut heap);
        assert!(
            matches!(refused, Err(ImportError::Altered { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn what_is_no_dump_is_refused() {
    let mut heap = Heap::default();
    assert!(matches!(
        imported(b"", &mut heap),
        Err(ImportError::Nothing)
    ));
    for foreign in ["hello\n", "{}\n", "{\"comment\":{}}\n", "\u{0}"] {
        let refused = imported(foreign.as_bytes(), &mut heap);
        assert!(
            matches!(refused, Err(ImportError::NoDump(_))),
            "{refused:?}"
        );
    }
    let newer = String::from_utf8_lossy(&dump_of(1)).replacen("\"version\":1", "\"version\":2", 1);
    let refused = imported(newer.as_bytes(), &mut heap);
    assert!(
        matches!(refused, Err(ImportError::Version(2))),
        "{refused:?}"
    );
    assert_eq!(heap.progress, ImportProgress::Empty);
}
