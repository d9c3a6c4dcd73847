//! A trace of our own making: rows with times, lengths and prefixes, as a CSV file.
//!
//! It lies in the temporary folder under a name that says what made it, so that a printed command finds it.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::world::tables;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    /// Seconds from the start.
    pub(crate) at: f64,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    /// Which prefix it begins with, and how long that is.
    pub(crate) prefix: Option<Shared>,
}

/// A prefix that rows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) name: u32,
    pub(crate) tokens: u32,
}

/// All of them, by time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    /// Of the file; equal names are equal rows.
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    pub(crate) fn path(&self) -> PathBuf {
        tables().join(format!("{}.csv", self.name))
    }

    /// Makes the file, whole or not at all, and says where.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        let path = self.path();
        let mut text = String::from("at,prompt_tokens,output_tokens,prefix,prefix_tokens\n");
        for Row { at, prompt, output, prefix } in &self.rows {
            let _written = write!(text, "{at:.6},{prompt},{output},");
            let _written = match prefix {
                Some(Shared { name, tokens }) => writeln!(text, "{name},{tokens}"),
                None => writeln!(text, ","),
            };
        }
        if fs::read_to_string(&path).is_ok_and(|before| before == text) {
            return Ok(path);
        }
        fs::create_dir_all(tables())?;
        let thread = format!("{:?}", std::thread::current().id());
        let aside = path.with_extension(format!("{}-{thread}", std::process::id()));
        fs::write(&aside, text).with_context(|| aside.display().to_string())?;
        fs::rename(&aside, &path)?;
        Ok(path)
    }
}
