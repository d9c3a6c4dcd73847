//! Worker list parser: reads plain lines or a JSON array of workers for file discovery.
//!
//! Two notations: plain lines, `URL [name=…] [pool=draft] [model=…]` with `#` before a comment, and
//! a JSON array of objects with the same keys, which begins with `[`. Only `[]` is accepted as an
//! empty list: a program that died while writing leaves an empty file.

use std::collections::BTreeSet;
use std::path::Path;

use overdraft_core::fleet::WORKERS_MAX;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::located;
use crate::discovery::found::FoundWorker;
use crate::settings::{GatewayError, Pool};

/// What is wrong with a list, and in which line of it, counted from 1.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct Fault {
    line: usize,
    what: What,
}

#[derive(Debug, thiserror::Error)]
enum What {
    #[error("not UTF-8; expected a list of workers")]
    NotText,
    #[error(
        "not JSON: {0}; expected an array of objects, as in `[{{\"url\": \"http://10.0.0.1:8000\"}}]`"
    )]
    Json(serde_json::Error),
    #[error("`{0}` is not a setting of a worker; expected `name=…`, `pool=…` or `model=…`")]
    Setting(String),
    #[error("`{0}` is given twice; expected it once")]
    Twice(&'static str),
    #[error("`{0}` is not a pool; expected `target` or `draft`")]
    Pool(String),
    #[error("{0}")]
    Worker(GatewayError),
    #[error("a second worker is called `{0}`; give each a name of its own")]
    Duplicate(String),
    #[error("more than {WORKERS_MAX} workers, which is what fits one gateway")]
    TooMany,
    #[error("no worker is named; where none are meant, write `[]`")]
    Nobody,
}

impl Fault {
    /// With the name of the file it is in.
    pub(super) fn in_file(&self, path: &Path) -> String {
        located(path, self.line, &self.what)
    }
}

/// The workers that a list names, all of them or none.
pub(super) fn parse(content: &[u8]) -> Result<Vec<FoundWorker>, Fault> {
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(error) => {
            let before = content.get(..error.valid_up_to()).unwrap_or_default();
            return Err(Fault { line: lines(before) + 1, what: What::NotText });
        }
    };
    let mut list = List::default();
    if text.trim_start().starts_with('[') {
        json(text, &mut list)?;
    } else {
        plain(text, &mut list)?;
    }
    Ok(list.workers)
}

/// The workers so far.
#[derive(Debug, Default)]
struct List {
    workers: Vec<FoundWorker>,
    names: BTreeSet<String>,
}

impl List {
    fn push(&mut self, worker: FoundWorker) -> Result<(), What> {
        worker.check().map_err(What::Worker)?;
        if self.workers.len() == WORKERS_MAX {
            return Err(What::TooMany);
        }
        if !self.names.insert(worker.name.clone()) {
            return Err(What::Duplicate(worker.name));
        }
        self.workers.push(worker);
        Ok(())
    }
}

fn plain(text: &str, list: &mut List) -> Result<(), Fault> {
    for (index, line) in text.lines().enumerate() {
        let fault = |what| Fault { line: index + 1, what };
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        let Some(url) = words.next() else { continue };
        let mut entry = Entry { url: url.to_owned(), name: None, pool: None, model: None };
        for word in words {
            entry.set(word).map_err(fault)?;
        }
        list.push(entry.found().map_err(fault)?).map_err(fault)?;
    }
    if list.workers.is_empty() {
        return Err(Fault { line: text.lines().count().max(1), what: What::Nobody });
    }
    Ok(())
}

fn json(text: &str, list: &mut List) -> Result<(), Fault> {
    let items: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|error| Fault { line: error.line(), what: What::Json(error) })?;
    for item in items {
        let item = item.get();
        // A raw item is a piece of the text, so the text before it has the lines before it.
        let offset = item.as_ptr().addr() - text.as_ptr().addr();
        let before = lines(text.as_bytes().get(..offset).unwrap_or_default());
        let entry: Entry = serde_json::from_str(item)
            .map_err(|error| Fault { line: before + error.line(), what: What::Json(error) })?;
        let fault = |what| Fault { line: before + 1, what };
        list.push(entry.found().map_err(fault)?).map_err(fault)?;
    }
    Ok(())
}

fn lines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// A worker as it is written down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    url: String,
    name: Option<String>,
    pool: Option<String>,
    model: Option<String>,
}

impl Entry {
    fn set(&mut self, word: &str) -> Result<(), What> {
        let (slot, key, value) = match word.split_once('=') {
            Some(("name", value)) => (&mut self.name, "name", value),
            Some(("pool", value)) => (&mut self.pool, "pool", value),
            Some(("model", value)) => (&mut self.model, "model", value),
            Some(_) | None => return Err(What::Setting(word.to_owned())),
        };
        if value.is_empty() {
            return Err(What::Setting(word.to_owned()));
        }
        if slot.replace(value.to_owned()).is_some() {
            return Err(What::Twice(key));
        }
        Ok(())
    }

    fn found(self) -> Result<FoundWorker, What> {
        let mut found = FoundWorker::new(&self.url);
        found.pool = match self.pool.as_deref() {
            None | Some("target") => Pool::Target,
            Some("draft") => Pool::Draft,
            Some(other) => return Err(What::Pool(other.to_owned())),
        };
        if let Some(name) = self.name {
            found.name = name;
        }
        found.model = self.model;
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
