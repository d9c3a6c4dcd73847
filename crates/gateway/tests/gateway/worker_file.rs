//! A watched file of workers.

use std::path::PathBuf;

use overdraft_gateway::{FileSettings, Source};

use crate::harness::SOON;

/// A file that discovery looks at, gone with its owner.
pub(crate) struct WorkerFile {
    folder: tempfile::TempDir,
}

impl WorkerFile {
    pub(crate) fn new(text: &str) -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap() };
        file.write(text);
        file
    }

    /// Writes it anew, so that nothing reads a part of it.
    pub(crate) fn write(&self, text: &str) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, self.path()).unwrap();
    }

    /// The file as a source that is looked at often.
    pub(crate) fn source(&self) -> Source {
        let mut settings = FileSettings::new(self.path());
        settings.interval = SOON;
        Source::File(settings)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("workers")
    }
}
