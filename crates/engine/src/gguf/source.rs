//! GGUF source: positional reads from a model file or from memory.
//!
//! Each read names its offset, so that several threads may read tensors of one file at once.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::OpenError;

/// A model file before it is opened.
#[derive(Clone, Debug)]
pub enum GgufSource {
    /// A file.
    Path(PathBuf),
    /// The bytes of a file, for instance embedded in the program.
    Bytes(Cow<'static, [u8]>),
}

impl From<&Path> for GgufSource {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_path_buf())
    }
}

impl From<PathBuf> for GgufSource {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&'static [u8]> for GgufSource {
    fn from(bytes: &'static [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for GgufSource {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}

/// An open source of known length.
#[derive(Debug)]
pub(super) enum Opened {
    File { file: File, path: PathBuf, length: u64 },
    Bytes(Cow<'static, [u8]>),
}

impl Opened {
    pub(super) fn open(source: GgufSource) -> Result<Self, OpenError> {
        match source {
            GgufSource::Bytes(bytes) => Ok(Self::Bytes(bytes)),
            GgufSource::Path(path) => {
                let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
                let unreadable = |reason: String| OpenError::Unreadable {
                    path: path.display().to_string(),
                    reason,
                };
                let (metadata, file) = opened.map_err(|error| unreadable(error.to_string()))?;
                if !metadata.is_file() {
                    return Err(unreadable("it is not a regular file".to_owned()));
                }
                Ok(Self::File { file, length: metadata.len(), path })
            }
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File { length, .. } => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Reads `needed` bytes from `offset` on; `what` names them in the refusal.
    pub(super) fn bytes(
        &self,
        offset: u64,
        needed: u64,
        what: &str,
    ) -> Result<Cow<'_, [u8]>, OpenError> {
        let length = self.len();
        let fits = offset.checked_add(needed).is_some_and(|end| end <= length);
        let size = usize::try_from(needed);
        let (true, Ok(size)) = (fits, size) else {
            return Err(OpenError::Truncated { what: format!("`{what}`"), offset, needed, length });
        };
        match self {
            Self::Bytes(bytes) => {
                let start = usize::try_from(offset).expect("offset lies within a slice");
                Ok(Cow::Borrowed(&bytes[start..start + size]))
            }
            Self::File { file, .. } => {
                let mut buffer = Vec::new();
                buffer.try_reserve_exact(size).map_err(|_| OpenError::OutOfMemory {
                    what: "a tensor of the model",
                    bytes: needed,
                })?;
                buffer.resize(size, 0);
                file.read_exact_at(&mut buffer, offset).map_err(|error| self.unreadable(&error))?;
                Ok(Cow::Owned(buffer))
            }
        }
    }

    pub(super) fn unreadable(&self, error: &io::Error) -> OpenError {
        let path = match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Bytes(_) => "<memory>".to_owned(),
        };
        OpenError::Unreadable { path, reason: error.to_string() }
    }

    /// A reader from the start on.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { source: self, position: 0 }
    }
}

/// Reads an open source from front to back.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    source: &'a Opened,
    position: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match self.source {
            Opened::File { file, .. } => file.read_at(buffer, self.position)?,
            Opened::Bytes(bytes) => {
                let start = usize::try_from(self.position).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - start);
                buffer[..count].copy_from_slice(&bytes[start..start + count]);
                count
            }
        };
        self.position += count as u64;
        Ok(count)
    }
}
