//! Attachments as a backup keeps them: in tar files (POSIX.1-2001) of about a gibibyte, each compressed
//! and sealed as the store's file is. They are copied behind the store, by the records that its copy
//! holds: each of these was committed when its bytes were there.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use futures_util::TryStreamExt;

use super::packing;
use colloquy_objects::{Disk, ObjectError, Pieces, SyncedFile};

/// How much of attachments one tar file holds, unless a single one is longer.
pub(super) const TAR_BYTES: u64 = 1 << 30;
/// What a tar file consists of.
const BLOCK: usize = 512;

/// Why an attachment is not in a tar file.
#[derive(Debug, thiserror::Error)]
pub(super) enum TarError {
    #[error("attachments can't be read: {0}")]
    Storage(#[from] ObjectError),
    #[error(transparent)]
    File(#[from] io::Error),
}

/// A tar file that is being written.
pub(super) struct TarFile {
    file: SyncedFile,
    /// How many bytes were written to it so far.
    pub(super) bytes: u64,
    pub(super) attachments: u64,
}

impl TarFile {
    /// Makes an empty one that only its owner may read.
    ///
    /// # Errors
    /// The file can't be made.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(TarFile {
            file: SyncedFile::new(packing::private(path)?, Disk::Shared),
            bytes: 0,
            attachments: 0,
        })
    }

    /// Adds an attachment of this length.
    ///
    /// # Errors
    /// It can't be read to its end, or the file not be written.
    pub(super) async fn add(
        &mut self,
        name: &str,
        (length, mut content): (u64, Pieces),
    ) -> Result<(), TarError> {
        let mut header = tar::Header::new_ustar();
        header.set_path(name)?;
        header.set_size(length);
        header.set_mode(0o600);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        self.write(header.as_bytes()).await?;
        let mut written = 0;
        while let Some(piece) = content.try_next().await? {
            self.write(&piece).await?;
            written += piece.len() as u64;
        }
        if written != length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let whole = length.next_multiple_of(BLOCK as u64) - length;
        let padding = usize::try_from(whole).unwrap_or_default();
        self.write([0; BLOCK].get(..padding).unwrap_or_default())
            .await?;
        self.attachments += 1;
        Ok(())
    }

    /// Writes the two empty blocks that end a tar file, and syncs it to the disk.
    ///
    /// # Errors
    /// The file can't be written, or it is not known what the disk has.
    pub(super) async fn finish(mut self) -> io::Result<()> {
        self.write(&[0; 2 * BLOCK]).await?;
        self.file.finish().await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write(bytes).await?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Reads a tar file to its end; gives how many attachments are in it.
///
/// # Errors
/// It is none, or one of them is not whole.
pub(super) fn count(tar: &Path) -> io::Result<u64> {
    each(tar, |_, content| io::copy(content, &mut io::sink()))
}

/// Puts the attachments of a tar file below a folder, for nobody else; gives how many there are.
///
/// # Errors
/// It is none, or some of them can't be written.
pub(super) fn extract(tar: &Path, folder: &Path) -> io::Result<u64> {
    each(tar, |name, content| {
        let path = folder.join(name);
        if let Some(above) = path.parent() {
            colloquy_runtime::private_file::ensure_folder(above)?;
        }
        io::copy(content, &mut packing::private(&path)?)
    })
}

/// Has everything below a folder on the disk.
///
/// # Errors
/// It is not known whether it is.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

/// Removes a folder with everything in it; one that is not there is gone already.
///
/// # Errors
/// A part of the folder can't be removed, and is left.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Hands on each attachment of a tar file with its name; `take` says how many bytes it has read of it.
fn each(
    tar: &Path,
    mut take: impl FnMut(PathBuf, &mut dyn Read) -> io::Result<u64>,
) -> io::Result<u64> {
    let mut archive = tar::Archive::new(io::BufReader::new(File::open(tar)?));
    let mut attachments = 0;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let is_below = name
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !is_below || entry.header().entry_type() != tar::EntryType::Regular {
            let what = format!("it holds {}, which is no attachment", name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let length = entry.size();
        if take(name, &mut entry)? != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        attachments += 1;
    }
    Ok(attachments)
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test fails by panicking"
    )]
    use bytes::Bytes;
    use futures_util::StreamExt;
    use futures_util::stream;

    use super::*;

    fn content(bytes: usize) -> (u64, Pieces) {
        let pieces = [
            Bytes::from(vec![7; bytes / 2]),
            Bytes::from(vec![8; bytes - bytes / 2]),
        ];
        (bytes as u64, stream::iter(pieces.map(Ok)).boxed())
    }

    #[tokio::test]
    async fn what_was_added_is_extracted_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (tar, out) = (folder.path().join("tar"), folder.path().join("out"));
        let lengths = [1, 511, 512, 513, 3 << 20];
        let mut file = TarFile::create(&tar).unwrap();
        for length in lengths {
            let name = format!("attachments/1/live/att_{length}");
            file.add(&name, content(length)).await.unwrap();
        }
        assert_eq!(file.attachments, 5);
        file.finish().await.unwrap();
        assert_eq!(count(&tar).unwrap(), 5);
        assert_eq!(extract(&tar, &out).unwrap(), 5);
        sync(&out).unwrap();
        for length in lengths {
            let path = out.join(format!("attachments/1/live/att_{length}"));
            let read = fs::read(path).unwrap();
            let halves = [vec![7; length / 2], vec![8; length - length / 2]];
            assert_eq!(read, halves.concat());
        }
        remove(&out).unwrap();
        remove(&out).unwrap();
        assert!(!out.exists());
    }

    #[tokio::test]
    async fn what_is_cut_or_leads_elsewhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tar = folder.path().join("tar");
        let mut file = TarFile::create(&tar).unwrap();
        let (_, short) = content(10);
        let cut = file.add("attachments/1/live/att_1", (11, short)).await;
        assert!(matches!(cut, Err(TarError::File(_))));
        let mut file = TarFile::create(&tar).unwrap();
        file.add("attachments/1/live/att_1", content(2_000))
            .await
            .unwrap();
        file.finish().await.unwrap();
        let whole = fs::read(&tar).unwrap();
        fs::write(&tar, whole.get(..1_500).unwrap()).unwrap();
        assert!(count(&tar).is_err());
        let mut header = tar::Header::new_gnu();
        let name = b"../elsewhere";
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_size(0);
        header.set_cksum();
        fs::write(&tar, [&header.as_bytes()[..], &[0; 1_024]].concat()).unwrap();
        assert!(extract(&tar, folder.path()).is_err());
    }
}
