//! Imports between the files of a crate: no cycle crosses a folder, and none is large.
//!
//! Every `use` and every path is followed through re-exports to the file where the thing is
//! defined. What a file re-exports without naming it itself is not an import of that file.

mod cycles;
mod layers;
mod mentions;
mod modules;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(super) use mentions::{attributes, is_test};
use modules::Modules;

/// The files that each file imports, with one path that does so.
type Imports = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

/// Reports the forbidden imports of every crate.
pub(super) fn check(root: &Path, files: &[PathBuf], faults: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join("crates")).context("`crates` is not readable")?.flatten() {
        let source = entry.path().join("src");
        let mut texts = Vec::new();
        for file in files.iter().filter(|file| file.starts_with(&source)) {
            let name = file.strip_prefix(&source).unwrap_or(file);
            texts.push((name.to_owned(), fs::read_to_string(file)?));
        }
        faults.extend(self::faults(&entry.file_name().to_string_lossy(), &texts));
    }
    Ok(())
}

/// Forbidden imports of one crate, whose files are named relative to its `src`.
pub(super) fn faults(name: &str, texts: &[(PathBuf, String)]) -> Vec<String> {
    let modules = match Modules::read(texts) {
        Ok(modules) => modules,
        Err(fault) => return vec![format!("crates/{name}: {fault}")],
    };
    let imports = modules.imports();
    let mut faults = cycles::faults(name, &imports);
    if name == "gateway" {
        faults.extend(layers::faults(&imports));
    }
    faults
}
