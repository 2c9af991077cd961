//! Files of any size, encrypted as they are written and opened as they are read, under a master key.
//!
//! A file begins with [`MARK`], the name of the master key (16 hex digits) and the file's own key,
//! encrypted under one that is derived from the master key. Its content follows in chunks of 1 MiB,
//! each encrypted under the file's key and bound to its place and to whether it is the last one, so
//! that none can be changed, moved, left out or cut off (the STREAM construction: Hoang, Reyhanitabar,
//! Rogaway, Vizár, "Online Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance", 2015).

use std::io::{self, Read, Write};

use super::cipher::Cipher;
use super::derivation::KEY_BYTES;
use super::master_key::{GivenKeys, MasterKey};

/// What a file begins with.
const MARK: &[u8] = b"colloquy sealed file 1\n";
/// What the key is derived for that encrypts the file's own.
const SEALS: &str = "sealed files";
/// The digits of a master key's name.
const NAME_BYTES: usize = 16;
/// What an encrypted text is longer than the text: nonce and tag.
const OVERHEAD: usize = 12 + 16;
/// Bytes of content in each chunk but the last.
const CHUNK: usize = 1 << 20;

/// Encrypts what is written to it; only [`SealedWriter::finish`] makes a whole file of it.
pub struct SealedWriter<W> {
    cipher: Cipher,
    to: W,
    waiting: Vec<u8>,
    chunks: u64,
}

impl<W: Write> SealedWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// It can't be written.
    pub fn begin(master: &MasterKey, mut to: W) -> io::Result<Self> {
        let key = MasterKey::generate().bytes();
        let wrapped = Cipher::new(&master.derived(SEALS)).encrypt(MARK, &key);
        let wrapped = wrapped.ok_or_else(damaged)?;
        for part in [MARK, master.name().as_bytes(), &wrapped] {
            to.write_all(part)?;
        }
        Ok(SealedWriter {
            cipher: Cipher::new(&key),
            to,
            waiting: Vec::with_capacity(CHUNK),
            chunks: 0,
        })
    }

    /// Writes what is left, and ends the file.
    ///
    /// # Errors
    /// It can't be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.chunk(true)?;
        Ok(self.to)
    }

    fn chunk(&mut self, is_last: bool) -> io::Result<()> {
        let sealed = self
            .cipher
            .encrypt(&place(self.chunks, is_last), &self.waiting);
        self.to.write_all(&sealed.ok_or_else(damaged)?)?;
        self.waiting.clear();
        self.chunks += 1;
        Ok(())
    }
}

impl<W: Write> Write for SealedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.waiting.len() == CHUNK {
            self.chunk(false)?;
        }
        let taken = bytes.len().min(CHUNK - self.waiting.len());
        self.waiting.extend(bytes.iter().take(taken));
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Why a sealed file can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum SealedFileError {
    /// It was sealed under a master key that is not at hand.
    #[error(
        "it is sealed under the master key named {sealed}, and at hand is {given}: give that key by [encryption] \
         master_key_file or COLLOQUY__ENCRYPTION__MASTER_KEY"
    )]
    OtherKey {
        /// The name of the key.
        sealed: String,
        /// The names of those at hand.
        given: String,
    },
    /// It can't be read, or is no sealed file.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// Opens what was sealed; what comes out is what was written, or an error.
pub struct SealedReader<R> {
    cipher: Cipher,
    from: R,
    /// Sealed bytes that were read and belong to the next chunk.
    ahead: Vec<u8>,
    opened: io::Cursor<Vec<u8>>,
    chunks: u64,
    is_over: bool,
}

impl<R: Read> SealedReader<R> {
    /// Begins to open a file with one of these master keys.
    ///
    /// # Errors
    /// None of them is the right one, or it is no sealed file.
    pub fn begin(keys: &GivenKeys, mut from: R) -> Result<Self, SealedFileError> {
        let mut mark = [0; MARK.len()];
        let mut name = [0; NAME_BYTES];
        let mut wrapped = [0; KEY_BYTES + OVERHEAD];
        for part in [&mut mark[..], &mut name, &mut wrapped] {
            from.read_exact(part)?;
        }
        if mark != MARK {
            return Err(damaged().into());
        }
        let mut all = keys.present.iter().chain(&keys.previous);
        let master = all.find(|key| key.name().as_bytes() == name);
        let Some(master) = master else {
            let name = String::from_utf8_lossy(&name).into_owned();
            return Err(other_key(keys, name));
        };
        let key = Cipher::new(&master.derived(SEALS)).decrypt(MARK, &wrapped);
        let key: [u8; KEY_BYTES] = key
            .and_then(|key| key.try_into().ok())
            .ok_or_else(damaged)?;
        Ok(SealedReader {
            cipher: Cipher::new(&key),
            from,
            ahead: Vec::new(),
            opened: io::Cursor::default(),
            chunks: 0,
            is_over: false,
        })
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        // One byte more than a chunk says whether it is the last one.
        let most = CHUNK + OVERHEAD;
        let missing = (most + 1).saturating_sub(self.ahead.len());
        let missing = u64::try_from(missing).unwrap_or(0);
        self.from
            .by_ref()
            .take(missing)
            .read_to_end(&mut self.ahead)?;
        self.is_over = self.ahead.len() <= most;
        let rest = self.ahead.split_off(most.min(self.ahead.len()));
        let sealed = std::mem::replace(&mut self.ahead, rest);
        let place = place(self.chunks, self.is_over);
        let opened = self.cipher.decrypt(&place, &sealed).ok_or_else(damaged)?;
        self.opened = io::Cursor::new(opened);
        self.chunks += 1;
        Ok(())
    }
}

impl<R: Read> Read for SealedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.opened.read(into)?;
            if read > 0 || self.is_over || into.is_empty() {
                return Ok(read);
            }
            self.next_chunk()?;
        }
    }
}

/// What a chunk is bound to.
fn place(chunk: u64, is_last: bool) -> [u8; 9] {
    let mut place = [0; 9];
    place[..8].copy_from_slice(&chunk.to_be_bytes());
    place[8] = u8::from(is_last);
    place
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "it is not what was sealed: it is damaged, or not whole",
    )
}

fn other_key(keys: &GivenKeys, sealed: String) -> SealedFileError {
    let given = keys.present.iter().chain(&keys.previous);
    let given: Vec<String> = given.map(MasterKey::name).collect();
    SealedFileError::OtherKey {
        sealed,
        given: match given.as_slice() {
            [] => "none".to_owned(),
            names => names.join(", "),
        },
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn keys(byte: u8) -> GivenKeys {
        GivenKeys {
            present: MasterKey::from_bytes(&[byte; KEY_BYTES]),
            previous: None,
        }
    }

    fn sealed(content: &[u8]) -> Vec<u8> {
        let master = keys(1).present.unwrap();
        let mut writer = SealedWriter::begin(&master, Vec::new()).unwrap();
        writer.write_all(content).unwrap();
        writer.finish().unwrap()
    }

    fn opened(file: &[u8], keys: &GivenKeys) -> Result<Vec<u8>, SealedFileError> {
        let mut content = Vec::new();
        SealedReader::begin(keys, file)?.read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn what_was_sealed_comes_out_as_it_was_whatever_its_size() {
        for bytes in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 7] {
            let content: Vec<u8> = (0..bytes).map(|at| (at % 253) as u8).collect();
            let file = sealed(&content);
            assert!(opened(&file, &keys(1)).unwrap() == content, "{bytes}");
        }
        let other = opened(&sealed(b"text"), &keys(2));
        assert!(matches!(other, Err(SealedFileError::OtherKey { .. })));
    }

    #[test]
    fn a_file_that_is_changed_cut_off_or_put_together_anew_is_refused() {
        let file = sealed(&vec![7; 2 * CHUNK + 5]);
        let (start, size) = (
            file.len() - (2 * CHUNK + 5 + 3 * OVERHEAD),
            CHUNK + OVERHEAD,
        );
        for at in [3, 30, start - 1, start, start + size, file.len() - 1] {
            let mut changed = file.clone();
            *changed.get_mut(at).unwrap() ^= 1;
            assert!(opened(&changed, &keys(1)).is_err(), "{at}");
        }
        for end in [start, start + size, start + 2 * size, file.len() - 1] {
            assert!(opened(file.get(..end).unwrap(), &keys(1)).is_err(), "{end}");
        }
        let (first, second) = (start..start + size, start + size..start + 2 * size);
        let mut swapped = file.get(..start).unwrap().to_vec();
        for part in [second, first, start + 2 * size..file.len()] {
            swapped.extend(file.get(part).unwrap());
        }
        assert!(opened(&swapped, &keys(1)).is_err());
    }
}
