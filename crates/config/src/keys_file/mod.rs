//! Keys file: the list of keys that `keys_file` names, apart from the configuration.
//!
//! It has the form of `keys`, in YAML or JSON, and holds hashes alone, so that it may be edited by a
//! command, mounted from a Secret and read by more people than the configuration. `${NAME}` means
//! nothing in it.
//!
//! Invariant: no key stands in it in clear, and no fault of it quotes what may be one.

mod edit;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::check;
use crate::error::{ConfigError, ConfigErrors, Wrong};
use crate::load::text_of;
use crate::node::{Entry, Node, Value};
use crate::place::{Origin, Source};
use crate::tree::Key;
use crate::{read, secrets, yaml};

/// Maximum bytes of a keys file; ten thousand keys of usual length take a third of it.
pub const KEYS_FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum values of a keys file; a key has two dozen at most, but for its models.
const NODES_MAX: usize = 512 * 1024;

/// Keys and the file that they stand in.
#[derive(Clone, Debug)]
pub struct KeysFile {
    path: PathBuf,
    text: String,
    keys: Vec<Key>,
}

/// What the file's list is taken for, so that faults have the words that those of `keys` have.
#[derive(Deserialize)]
struct Listed {
    keys: Vec<Key>,
}

impl KeysFile {
    /// A file at `path` that is still to be written.
    pub fn empty(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), text: String::new(), keys: Vec::new() }
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Every fault that could be found, with its place.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self, ConfigErrors> {
        Self::read_beside(path.into(), &[])
    }

    /// Reads the file at `path`, none of whose keys may be one of `others`.
    pub(crate) fn read_beside(path: PathBuf, others: &[Key]) -> Result<Self, ConfigErrors> {
        let text = text(&path)?;
        Self::parse(path, text, others)
    }

    fn parse(path: PathBuf, text: String, others: &[Key]) -> Result<Self, ConfigErrors> {
        let source = Source::of_keys(&path, text);
        let mut list = yaml::parse_within(&source, NODES_MAX)?;
        if list.value == Value::Null {
            list.value = Value::List(Vec::new());
        }
        let (origin, is_list) = (list.origin.clone(), matches!(list.value, Value::List(_)));
        let entry = Entry { key: "keys".to_owned(), key_origin: Origin::Whole, node: list };
        let root = Node { value: Value::Table(vec![entry]), origin: Origin::Whole };
        let source = source.hiding(secrets::stretches(&root));
        if !is_list {
            let expected = "expected a list, each with `key_sha256` and `tenant`";
            let wrong = Wrong::new("the file holds no list of keys", expected);
            return Err(ConfigError::new(&source, &origin, wrong).into());
        }
        let Listed { keys } = read::read(&root, &source)?;
        let faults = check::check_keys_file(&keys, others, &root, &source);
        if !faults.is_empty() {
            return Err(ConfigErrors::new(faults));
        }
        Ok(Self { path, text: source.text, keys })
    }

    /// The keys, in the order of the file.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// What stands in the file, or is to be written into it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The file with one more key at its end; all else stays, comments as well.
    ///
    /// # Errors
    /// Where the key may not stand there, or the file has a form that only a person can edit.
    pub fn with(&self, key: &Key) -> Result<Self, ConfigErrors> {
        let edited = edit::with(&self.text, key);
        let keys: Vec<Key> = self.keys.iter().chain([key]).cloned().collect();
        self.edited(edited, &keys)
    }

    /// The file without the key at `index`; all else stays, comments as well.
    ///
    /// # Errors
    /// Where the file has a form that only a person can edit.
    pub fn without(&self, index: usize) -> Result<Self, ConfigErrors> {
        let edited = edit::without(&self.text, index);
        let mut keys = self.keys.clone();
        keys.remove(index);
        self.edited(edited, &keys)
    }

    /// Believes an edited text only where it reads as it is meant.
    fn edited(&self, text: Option<String>, meant: &[Key]) -> Result<Self, ConfigErrors> {
        if let Some(text) = text {
            let read = Self::parse(self.path.clone(), text, &[])?;
            if read.keys == meant {
                return Ok(read);
            }
        }
        let wrong = Wrong::new(
            "the file has a form that cannot be edited line by line",
            "expected a list whose keys begin with `- ` on lines of their own, or JSON; edit it by hand",
        );
        Err(ConfigError::of_file(&self.path, wrong).into())
    }
}

/// The bytes of a keys file as text.
pub(crate) fn text(path: &Path) -> Result<String, ConfigErrors> {
    let missing = "expected a list of keys; `overdraft keys new --file FILE` begins one, and an empty \
                   file lets nobody in";
    text_of(path, KEYS_FILE_BYTES_MAX, missing)
}
