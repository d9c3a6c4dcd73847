//! The module tree of a crate: which file a path leads to, through re-exports and globs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Imports;
use super::mentions::{self, Mention, Mentions, Names};
use crate::tidy::shape;

/// A path that goes through more re-exports than this is going in circles.
const REEXPORTS_MAX: usize = 16;

/// Every module of a crate, tests aside, with the file in which it stands.
pub(super) struct Modules(BTreeMap<Names, Module>);

struct Module {
    file: PathBuf,
    mentions: Mentions,
}

/// Where a path ends.
struct Target<'tree> {
    file: &'tree Path,
    /// Whether the path names a module and nothing in it.
    is_module: bool,
}

impl Modules {
    /// Reads the files of a crate, whose paths are relative to its `src`.
    pub(super) fn read(texts: &[(PathBuf, String)]) -> Result<Self, String> {
        let mut modules = BTreeMap::new();
        for (file, text) in texts.iter().filter(|(file, _)| !shape::is_test(file)) {
            let read = mentions::read(&module_of(file), text)
                .map_err(|fault| format!("{}: {fault}", file.display()))?;
            modules.extend(
                read.into_iter()
                    .map(|(name, mentions)| (name, Module { file: file.clone(), mentions })),
            );
        }
        let tests: Vec<Names> = modules
            .iter()
            .flat_map(|(name, module)| {
                let named = move |test: &String| [&name[..], std::slice::from_ref(test)].concat();
                module.mentions.test_modules.iter().map(named)
            })
            .collect();
        modules.retain(|name, _| !tests.iter().any(|test| name.starts_with(test)));
        Ok(Self(modules))
    }

    /// The graph of files.
    pub(super) fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (name, module) in &self.0 {
            let of_file = imports.entry(module.file.clone()).or_default();
            for mention in &module.mentions.paths {
                let Some(target) = self.imported(name, mention) else { continue };
                if target.file != module.file {
                    of_file.entry(target.file.to_owned()).or_insert(mention.written.clone());
                }
            }
        }
        imports
    }

    /// Where a mention leads, unless that is another crate or only the name of a module: what is
    /// taken from a module is mentioned as well, and then leads to where that is defined.
    fn imported(&self, here: &Names, mention: &Mention) -> Option<Target<'_>> {
        let first = mention.written.split("::").next().unwrap_or_default();
        let is_ours = ["crate", "self", "super"].contains(&first) || self.knows(here, first);
        let target = self.resolve(&mention.names, 0).filter(|_| is_ours)?;
        (!target.is_module).then_some(target)
    }

    /// Whether a bare name is a module or a binding of the module `here`.
    fn knows(&self, here: &Names, first: &str) -> bool {
        let child = [&here[..], &[first.to_owned()]].concat();
        self.0.contains_key(&child)
            || self.0.get(here).is_some_and(|module| module.mentions.bound.contains_key(first))
    }

    fn resolve(&self, path: &[String], reexports: usize) -> Option<Target<'_>> {
        let (module, rest) = (0..=path.len())
            .rev()
            .find_map(|length| Some((self.0.get(&path[..length])?, &path[length..])))?;
        let found = Target { file: &module.file, is_module: rest.is_empty() };
        let [first, others @ ..] = rest else { return Some(found) };
        if reexports == REEXPORTS_MAX || module.mentions.defined.contains(first) {
            return Some(found);
        }
        if let Some(bound) = module.mentions.bound.get(first) {
            let path = [bound, others].concat();
            return self.resolve(&path, reexports + 1).or(Some(found));
        }
        let through_glob = module.mentions.globs.iter().find_map(|glob| {
            let target = self.resolve(&[glob, rest].concat(), reexports + 1)?;
            let is_there = self.0.get(glob).is_some_and(|module| {
                module.mentions.defined.contains(first) || module.mentions.bound.contains_key(first)
            });
            is_there.then_some(target)
        });
        through_glob.or(Some(found))
    }
}

/// The module that a file is.
pub(super) fn module_of(file: &Path) -> Names {
    let mut names: Names =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        names.pop();
    }
    names
}
