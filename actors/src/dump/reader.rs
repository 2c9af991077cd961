//! Reads a dump into a store, block by block: a block is written when all of it was read and its
//! check compared, so that no more than one is held and nothing that was altered gets in.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use super::{BlockSize, Check, End, FORMAT, Frame, Lines, Opening, VERSION};
use crate::store::{Import, ImportProgress, Item, TransferError};

/// Bytes that a line may have: a block holds no more than a line of these behind its own bound.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Why a dump is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The input ended before its first line.
    #[error("there is nothing to import: the input is empty")]
    Nothing,
    /// Another thing than a dump.
    #[error("the input is no dump of Colloquy's: {0}")]
    NoDump(String),
    /// A dump of another version of the format.
    #[error("the dump has format version {0}, this program reads {VERSION}")]
    Version(u32),
    /// The closing line, with counts and hash, is missing; the number is that of the last line.
    #[error("the dump is cut off behind line {0}; import the whole one, it goes on from there")]
    Cut(u64),
    /// It is not as it was exported.
    #[error(
        "the dump is not as it was exported: {what} at line {line}; nothing of that block is \
         written. Import it as it was, it goes on from there"
    )]
    Altered {
        /// The line at which that was noticed.
        line: u64,
        /// What is wrong at that line, in words for the operator.
        what: String,
    },
    /// The store holds something.
    #[error(
        "the store is not empty, and what it holds is not from this dump; import into an empty one"
    )]
    Occupied,
    /// Another dump was begun with.
    #[error(
        "the store has a part of another dump, up to its line {0}; go on with that one, or import \
         into an empty store"
    )]
    Another(u64),
    /// The input can't be read.
    #[error("the input can't be read: {0}")]
    Input(io::Error),
    /// The store can't be written.
    #[error(transparent)]
    Store(#[from] TransferError),
}

/// What came of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// All of the dump is in the store now; it has so many lines.
    Now(u64),
    /// An earlier import had brought all of it, so many lines: nothing was written.
    Before(u64),
}

/// Writes a dump into a store that is empty or has a part of it; `told` is told now and then how
/// many lines are done.
///
/// # Errors
/// The dump is not whole, or the store takes it not. What is in the store then is a part of the dump
/// that the same dump completes.
pub fn import(
    input: &mut dyn BufRead,
    store: &mut dyn Import,
    told: &mut dyn FnMut(u64),
) -> Result<Imported, ImportError> {
    let progress = store.progress()?;
    if progress == ImportProgress::Occupied {
        return Err(ImportError::Occupied);
    }
    let mut reader = DumpReader {
        input,
        store,
        told,
        progress,
        lines: Lines::default(),
        counts: BTreeMap::new(),
        block: Vec::new(),
        size: BlockSize::default(),
        has_met: false,
    };
    reader.open()?;
    loop {
        if let Some(imported) = reader.step()? {
            return Ok(imported);
        }
    }
}

struct DumpReader<'r> {
    input: &'r mut dyn BufRead,
    store: &'r mut dyn Import,
    told: &'r mut dyn FnMut(u64),
    /// How far the store was when this began.
    progress: ImportProgress,
    lines: Lines,
    counts: BTreeMap<String, u64>,
    /// The things since the last check that the store has not.
    block: Vec<Item>,
    /// How large the block is, with those that the store has.
    size: BlockSize,
    /// Whether the check was met at which an earlier import stopped.
    has_met: bool,
}

impl DumpReader<'_> {
    /// Reads the first line.
    fn open(&mut self) -> Result<(), ImportError> {
        let line = self.next()?.ok_or(ImportError::Nothing)?;
        let no_dump = |error: serde_json::Error| ImportError::NoDump(error.to_string());
        let frame: Frame = serde_json::from_slice(&line).map_err(no_dump)?;
        let Frame::Dump(Opening {
            format, version, ..
        }) = frame
        else {
            return Err(ImportError::NoDump("it does not begin as one".to_owned()));
        };
        if format != FORMAT {
            return Err(ImportError::NoDump(format!("its format is {format:?}")));
        }
        if version != VERSION {
            return Err(ImportError::Version(version));
        }
        self.lines.add(&line);
        Ok(())
    }

    /// Takes a line; gives what came of the import when it was the last.
    fn step(&mut self) -> Result<Option<Imported>, ImportError> {
        let line = self.next()?.ok_or(ImportError::Cut(self.lines.count))?;
        if !line.ends_with(b"\n") {
            return Err(ImportError::Cut(self.lines.count));
        }
        if let Some(frame) = frame(&line) {
            match frame.map_err(|error| self.altered(&error.to_string()))? {
                Frame::Check(check) => self.check(&check)?,
                Frame::End(end) => return self.end(&end, &line).map(Some),
                Frame::Dump(_) => return Err(self.altered("a dump begins")),
            }
        } else {
            let item: Item =
                serde_json::from_slice(&line).map_err(|error| self.altered(&error.to_string()))?;
            if self.size.is_full() {
                return Err(self.altered("a check is missing"));
            }
            self.size.add(line.len());
            self.count(&item);
            if !self.is_written() {
                self.block.push(item);
            }
        }
        self.lines.add(&line);
        Ok(None)
    }

    /// The next line with its end; none behind the last.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ImportError> {
        let mut line = Vec::new();
        let mut input = (&mut *self.input).take(LINE_BYTES_MAX);
        let read = input.read_until(b'\n', &mut line);
        match read.map_err(ImportError::Input)? {
            0 => Ok(None),
            _ => Ok(Some(line)),
        }
    }

    /// Something is wrong with the line behind those that were taken in.
    fn altered(&self, what: &str) -> ImportError {
        ImportError::Altered {
            line: self.lines.count + 1,
            what: what.to_owned(),
        }
    }

    fn count(&mut self, item: &Item) {
        match self.counts.get_mut(item.kind()) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(item.kind().to_owned(), 1)),
        }
    }

    /// Whether the store had these lines before this began.
    fn is_written(&self) -> bool {
        match self.progress {
            ImportProgress::Done(_) => true,
            ImportProgress::Begun(_) => !self.has_met,
            ImportProgress::Empty | ImportProgress::Occupied => false,
        }
    }

    /// A block ends here.
    fn check(&mut self, check: &Check) -> Result<(), ImportError> {
        if !self.lines.are(check) {
            return Err(self.altered("the hash of what stands before it is another one"));
        }
        let mark = self.lines.mark();
        if let ImportProgress::Begun(begun) = self.progress
            && !self.has_met
            && mark.lines >= begun.lines
        {
            if mark != begun {
                return Err(ImportError::Another(begun.lines));
            }
            self.has_met = true;
        }
        let block = std::mem::take(&mut self.block);
        if !block.is_empty() {
            self.store.write(block, mark)?;
        }
        self.size = BlockSize::default();
        (self.told)(mark.lines);
        Ok(())
    }

    fn end(&mut self, end: &End, line: &[u8]) -> Result<Imported, ImportError> {
        if !self.block.is_empty() || !self.lines.are(&end.check) {
            return Err(self.altered("the hash of what stands before it is another one"));
        }
        if self.counts != end.counts {
            return Err(self.altered("the counts are others"));
        }
        self.lines.add(line);
        if self.next()?.is_some() {
            return Err(self.altered("something follows the end"));
        }
        let mark = self.lines.mark();
        match self.progress {
            ImportProgress::Done(done) if done == mark => Ok(Imported::Before(mark.lines)),
            ImportProgress::Done(_) | ImportProgress::Occupied => Err(ImportError::Occupied),
            ImportProgress::Begun(begun) if !self.has_met => Err(ImportError::Another(begun.lines)),
            ImportProgress::Begun(_) | ImportProgress::Empty => {
                self.store.finish(mark)?;
                Ok(Imported::Now(mark.lines))
            }
        }
    }
}

/// A line that is no thing of the store; none where it is one.
fn frame(line: &[u8]) -> Option<serde_json::Result<Frame>> {
    let frames: [&[u8]; 3] = [br#"{"check":"#, br#"{"end":"#, br#"{"dump":"#];
    let is_frame = frames.iter().any(|frame| line.starts_with(frame));
    is_frame.then(|| serde_json::from_slice(line))
}
