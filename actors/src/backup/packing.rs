//! A store's file as a backup keeps it: compressed by zstd (RFC 8878), then sealed under a master key
//! where that is wanted.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::sealing::{GivenKeys, MasterKey, SealedFileError, SealedReader, SealedWriter};
use crate::store::to_hex;
use colloquy_objects::{Disk, SyncedWriter};
use colloquy_runtime::cores::ShortRests;

/// A level that keeps up with a disk.
const LEVEL: i32 = 3;
/// Bytes that are copied at once.
const AT_ONCE: usize = 1 << 18;

/// What was packed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) bytes: u64,
    /// In hex.
    pub(super) sha256: String,
}

/// Packs a file into another one.
///
/// # Errors
/// One can't be read, or the other not written.
pub(super) fn pack(from: &Path, to: &Path, master: Option<&MasterKey>) -> io::Result<Packed> {
    let mut from = File::open(from)?;
    let out = Hashed {
        to: BufWriter::with_capacity(AT_ONCE, SyncedWriter::new(private(to)?, Disk::Shared)),
        digest: Sha256::new(),
        bytes: 0,
    };
    let mut out = match master {
        None => compressed(&mut from, out)?,
        Some(master) => compressed(&mut from, SealedWriter::begin(master, out)?)?.finish()?,
    };
    out.flush()?;
    Ok(Packed {
        bytes: out.bytes,
        sha256: to_hex(&out.digest.finalize()),
    })
}

/// Beside requests, for which it rests as it reads.
fn compressed<W: Write>(from: &mut File, to: W) -> io::Result<W> {
    let mut encoder = zstd::Encoder::new(to, LEVEL)?;
    let mut from = Resting {
        from,
        rests: ShortRests::begin(),
    };
    io::copy(&mut from, &mut encoder)?;
    encoder.finish()
}

/// Rests before it reads on, where that is due.
struct Resting<R> {
    from: R,
    rests: ShortRests,
}

impl<R: Read> Read for Resting<R> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        self.rests.rest_if_due();
        self.from.read(piece)
    }
}

/// Unpacks a file into another one, which is synced to the disk.
///
/// # Errors
/// It is not the one that was packed, or the other can't be written.
pub(super) fn unpack(
    from: &Path,
    to: &Path,
    sealed: Option<&GivenKeys>,
    disk: Disk,
) -> Result<(), SealedFileError> {
    let from = BufReader::with_capacity(AT_ONCE, File::open(from)?);
    let mut to = SyncedWriter::new(private(to)?, disk);
    match sealed {
        None => decompressed(from, &mut to)?,
        Some(keys) => decompressed(
            BufReader::with_capacity(AT_ONCE, SealedReader::begin(keys, from)?),
            &mut to,
        )?,
    }
    Ok(to.finish()?)
}

fn decompressed<R: io::BufRead>(from: R, to: &mut SyncedWriter) -> io::Result<()> {
    io::copy(&mut zstd::Decoder::with_buffer(from)?, to)?;
    Ok(())
}

/// A new file for nobody else.
pub(super) fn private(path: &Path) -> io::Result<File> {
    colloquy_runtime::private_file::ensure(path)?;
    File::options().write(true).truncate(true).open(path)
}

/// The SHA-256 of a file, in hex.
///
/// # Errors
/// It can't be read.
pub(super) fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut digest) = (File::open(path)?, Sha256::new());
    let mut piece = vec![0; AT_ONCE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(to_hex(&digest.finalize())),
            read => digest.update(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// Tells what passed through it.
struct Hashed<W> {
    to: W,
    digest: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        self.bytes += u64::try_from(written).unwrap_or(0);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
