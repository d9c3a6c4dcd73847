//! Reference implementations in Python: a script is given JSON and answers with JSON.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A script beside the benches, and what it is to do.
pub(crate) struct Script<'a> {
    pub(crate) file: &'static str,
    /// The implementation, as the script names it.
    pub(crate) engine: &'static str,
    pub(crate) model: &'a Path,
}

/// What a script says.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer<T> {
    Missing { missing: String },
    Done(T),
}

impl Script<'_> {
    /// Runs the script; why there is no answer where Python or a package is missing.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        python: &Path,
        given: &Value,
    ) -> Result<Result<T, String>> {
        let Self { file, engine, model } = *self;
        let started = Command::new(python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
            .arg(engine)
            .arg(model)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => {
                return Ok(Err(format!("`{}` does not start: {error}", python.display())));
            }
        };
        let mut stdin = child.stdin.take().expect("it was piped");
        // A script reads all before it writes anything; one that ended early says why itself.
        let _ = stdin.write_all(given.to_string().as_bytes());
        drop(stdin);
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("`{file} {engine}` ended with {}", output.status);
        }
        let answer = serde_json::from_slice(&output.stdout);
        Ok(match answer.with_context(|| format!("`{file} {engine}` answered nonsense"))? {
            Answer::Missing { missing } => Err(missing),
            Answer::Done(done) => Ok(done),
        })
    }
}
