//! Value made of files, made anew when one of them has changed.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use crate::error::TlsError;

/// When each file was written last, and how long it is, where that can be told.
type Stamps = Vec<(Option<SystemTime>, u64)>;

/// What was made of files last, and their stamps then.
#[derive(Debug)]
pub(crate) struct Renewed<T> {
    files: Vec<PathBuf>,
    current: RwLock<(Stamps, Arc<T>)>,
}

impl<T> Renewed<T> {
    pub(crate) fn new(
        files: Vec<PathBuf>,
        make: impl FnOnce() -> Result<T, TlsError>,
    ) -> Result<Self, TlsError> {
        // Stamped first: what is written meanwhile is then seen the next time.
        let stamps = stamps(&files);
        let made = Arc::new(make()?);
        Ok(Self { files, current: RwLock::new((stamps, made)) })
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Makes it anew if a file has changed; whether any had. Where that fails, what was in force stays so, and the
    /// same files are not tried again.
    pub(crate) fn refresh(
        &self,
        make: impl FnOnce() -> Result<T, TlsError>,
    ) -> Result<bool, TlsError> {
        let stamps = stamps(&self.files);
        if self.current.read().unwrap_or_else(PoisonError::into_inner).0 == stamps {
            return Ok(false);
        }
        let made = make();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.0 = stamps;
        current.1 = Arc::new(made?);
        Ok(true)
    }
}

fn stamps(files: &[PathBuf]) -> Stamps {
    let stamp = |file: &PathBuf| {
        // Through links: a mounted secret is replaced by pointing a link elsewhere.
        let metadata = std::fs::metadata(file).ok();
        let written = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        (written, metadata.map_or(0, |metadata| metadata.len()))
    };
    files.iter().map(stamp).collect()
}
