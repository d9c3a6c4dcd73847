//! Keys file on disk: read and replaced by one command at a time.
//!
//! A change is written beside the file and renamed over it, so a gateway and a crash see the old one or the
//! new one. The folder is locked meanwhile: of two commands at once none loses what the other wrote.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use overdraft_config::KeysFile;

use crate::fault::Fault;

/// Who may read a new file: its owner.
const MODE_NEW: u32 = 0o600;

/// A keys file that no other command changes for as long as this lives.
#[derive(Debug)]
pub(super) struct HeldFile {
    path: PathBuf,
    /// Its lock goes with it.
    _folder: File,
}

impl HeldFile {
    /// Waits for the file at `path`, which need not be there yet.
    pub(super) fn hold(path: &Path) -> Result<Self, Fault> {
        // What a link leads to is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new("."));
        let opened = File::open(folder).map_err(|error| {
            let message = format!("the folder `{}` cannot be opened: {error}", folder.display());
            Fault::input(message).hint("make it first, or name another file with `--file`")
        })?;
        match opened.lock() {
            Ok(()) => {}
            // Some file systems have no locks: there one command at a time is up to people.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(broken("locked", folder, &error)),
        }
        Ok(Self { path, _folder: opened })
    }

    /// What stands in it.
    pub(super) fn read(&self) -> Result<KeysFile, Fault> {
        Ok(KeysFile::read(&self.path)?)
    }

    /// What stands in it; nothing where it is not there.
    pub(super) fn read_or_begin(&self) -> Result<KeysFile, Fault> {
        if !self.path.exists() {
            return Ok(KeysFile::empty(&self.path));
        }
        self.read()
    }

    /// Replaces it; who owns it and who may read it stays.
    pub(super) fn write(&self, file: &KeysFile) -> Result<(), Fault> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let beside = self.path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        let written = self.write_beside(&beside, file.text());
        let replaced = written.and_then(|()| {
            fs::rename(&beside, &self.path).map_err(|error| broken("replaced", &self.path, &error))
        });
        if replaced.is_err() {
            // It may not even have been made.
            let _gone = fs::remove_file(&beside);
        }
        replaced
    }

    fn write_beside(&self, beside: &Path, text: &str) -> Result<(), Fault> {
        let fault = |error: &std::io::Error| broken("written", beside, error);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(MODE_NEW);
        let mut file = options.open(beside).map_err(|error| fault(&error))?;
        match fs::metadata(&self.path) {
            Ok(old) => like(&file, &old)
                .map_err(|error| broken("replaced under its owner and mode", &self.path, &error))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(broken("read", &self.path, &error)),
        }
        let saved = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        saved.map_err(|error| fault(&error))
    }
}

/// Gives a file the owner and the mode of another, so that the gateway can still read it.
fn like(file: &File, other: &fs::Metadata) -> std::io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (other.uid(), other.gid()) {
        fchown(file, Some(other.uid()), Some(other.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(other.mode() & 0o7777))
}

fn broken(done: &str, path: &Path, error: &std::io::Error) -> Fault {
    Fault::running(format!("`{}` cannot be {done}: {error}", path.display()))
}
