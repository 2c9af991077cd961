//! Writes a dump, line by line: no more than one thing of the store is held.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::{BlockSize, Check, End, FORMAT, Frame, Lines, Opening, Source, VERSION};
use crate::store::{Export, Item, TransferError};
use colloquy_model::random;
use colloquy_model::time::Timestamp;

/// Writes everything that a store holds; `told` is told now and then how many lines are written.
/// Gives how many there were.
///
/// # Errors
/// The store can't be read, or `out` takes no more: what was written is no whole dump.
pub fn export(
    store: &mut dyn Export,
    source: Source,
    out: &mut dyn Write,
    told: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    let mut writer = DumpWriter {
        out,
        told,
        lines: Lines::default(),
        counts: BTreeMap::new(),
        size: BlockSize::default(),
    };
    writer.open(source).map_err(TransferError::Output)?;
    store.export(&mut |item| writer.item(&item))?;
    writer.close().map_err(TransferError::Output)
}

struct DumpWriter<'w> {
    out: &'w mut dyn Write,
    told: &'w mut dyn FnMut(u64),
    lines: Lines,
    counts: BTreeMap<String, u64>,
    size: BlockSize,
}

impl DumpWriter<'_> {
    fn open(&mut self, source: Source) -> io::Result<()> {
        let mut nonce = [0; 16];
        random::fill(&mut nonce);
        self.line(&Frame::Dump(Opening {
            format: FORMAT.to_owned(),
            version: VERSION,
            source,
            exported_at: Timestamp::now().to_string(),
            nonce: nonce.iter().map(|byte| format!("{byte:02x}")).collect(),
        }))
        .map(|_| ())
    }

    fn item(&mut self, item: &Item) -> io::Result<()> {
        let bytes = self.line(item)?;
        match self.counts.get_mut(item.kind()) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(item.kind().to_owned(), 1)),
        }
        self.size.add(bytes);
        if self.size.is_full() {
            self.check()?;
        }
        Ok(())
    }

    /// Ends a block.
    fn check(&mut self) -> io::Result<()> {
        let check: Check = self.lines.check();
        self.line(&Frame::Check(check))?;
        self.size = BlockSize::default();
        (self.told)(self.lines.count);
        Ok(())
    }

    fn close(mut self) -> io::Result<u64> {
        self.check()?;
        let end = End {
            counts: std::mem::take(&mut self.counts),
            check: self.lines.check(),
        };
        self.line(&Frame::End(end))?;
        self.out.flush()?;
        Ok(self.lines.count)
    }

    /// Writes a line; gives its length.
    fn line(&mut self, line: &impl Serialize) -> io::Result<usize> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.lines.add(&text);
        self.out.write_all(&text)?;
        Ok(text.len())
    }
}
