//! File service discovery: polls a file of workers and rereads it when it changes.
//!
//! Each poll opens the file through its symbolic links, so that a `ConfigMap`, which swaps a link
//! to a directory, works like any other file. Kernel events (inotify) were rejected: they are
//! silent on network file systems and follow no links.
//!
//! **Invariant.** A file that is replaced is read at once. A file that is written in place is read
//! when it has stopped changing, so that a partial write is never taken for the whole.

mod list;

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::report::Reporter;
use crate::settings::FileSettings;

/// Maximum bytes of a file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Why a file says nothing.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("`{}` cannot be read: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("`{}` is not a file; expected a list of workers", .path.display())]
    NotAFile { path: PathBuf },
    #[error("`{}` is longer than {FILE_BYTES_MAX} bytes; a list of workers is shorter", .path.display())]
    TooLong { path: PathBuf },
}

/// Looks at the file for ever.
pub(super) async fn follow(settings: FileSettings, mut reporter: Reporter) {
    let mut watched = Watched::new(settings.path);
    loop {
        // A file on a network may take its time, and nobody else should wait for it.
        let (looked, outcome) = spawn_blocking(move || {
            let outcome = watched.look();
            (watched, outcome)
        })
        .await
        .expect("looking at a file does not panic");
        watched = looked;
        match outcome {
            Ok(Look::Unchanged) => {}
            Ok(Look::Content(content)) => match list::parse(&content) {
                Ok(workers) => reporter.found(workers).await,
                Err(fault) => reporter.failed(&fault.in_file(&watched.path)),
            },
            Err(error) => reporter.failed(&error),
        }
        sleep(settings.interval).await;
    }
}

/// What one look at the file showed.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Unchanged,
    Content(Vec<u8>),
}

/// What is remembered of the file between two looks.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    settled: Settled,
}

/// Whether the file has been read since its stamp was last seen to change. It is read once more
/// after that: clocks of file systems tick slowly, and two writes may share a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    No,
    Yes,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

impl Stamp {
    fn new(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        }
    }

    /// Whether it is the same file, whatever has become of its content.
    fn is_of(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl Watched {
    const fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    /// Looks once. After an error the next look reads, whatever the stamp.
    fn look(&mut self) -> Result<Look, FileError> {
        let seen = self.seen.take();
        // The open file is asked, not the path: what is read is what was stamped.
        let file = File::open(&self.path).map_err(|error| self.unreadable(error))?;
        let metadata = file.metadata().map_err(|error| self.unreadable(error))?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile { path: self.path.clone() });
        }
        let stamp = Stamp::new(&metadata);
        let (settled, reads) = match seen {
            Some(seen) if seen.stamp == stamp => (Settled::Yes, seen.settled == Settled::No),
            Some(seen) if seen.stamp.is_of(&stamp) => (Settled::No, false),
            Some(_) | None => (Settled::No, true),
        };
        let look = if reads { Look::Content(self.read(file)?) } else { Look::Unchanged };
        self.seen = Some(Seen { stamp, settled });
        Ok(look)
    }

    fn read(&self, file: File) -> Result<Vec<u8>, FileError> {
        let mut content = Vec::new();
        // One byte more than allowed, to tell a file that is too long from one that just fits.
        let taken = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content);
        let bytes = taken.map_err(|error| self.unreadable(error))?;
        if usize::try_from(FILE_BYTES_MAX).is_ok_and(|bytes_max| bytes_max < bytes) {
            return Err(FileError::TooLong { path: self.path.clone() });
        }
        Ok(content)
    }

    fn unreadable(&self, error: io::Error) -> FileError {
        FileError::Read { path: self.path.clone(), error }
    }
}

/// A fault in a file, where it is: `file:line: what`.
fn located(path: &Path, line: usize, what: &dyn std::fmt::Display) -> String {
    format!("{}:{line}: {what}", path.display())
}

#[cfg(test)]
mod tests;
