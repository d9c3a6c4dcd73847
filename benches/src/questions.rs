//! Held-out questions for the shipped models.
//!
//! They cover every family of the model card and are written by `models/questions.py`; no model was
//! trained on any of them.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Every question with its answers.
static QUESTIONS: &str = include_str!("cascade/questions.json");

/// A question as a prompt, and what counts as its answer.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Question {
    /// What it is about, as the model card calls it.
    pub(crate) family: String,
    /// The chat so far, up to where the answer begins.
    pub(crate) prompt: String,
    /// The right answers, to the letter.
    pub(crate) answers: Vec<String>,
}

/// All of them, family by family.
///
/// # Errors
/// When the file is not what it should be.
pub(crate) fn questions() -> serde_json::Result<Vec<Question>> {
    serde_json::from_str(QUESTIONS)
}

/// More of them: `count` of each family, or all there are, drawn anew by `models/questions.py`.
///
/// # Errors
/// When `python3` cannot be started, or what it writes is not what it should be.
pub(crate) fn more_questions(count: usize) -> Result<Vec<Question>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/questions.py");
    let output = Command::new("python3")
        .arg("-B")
        .arg(&script)
        .args(["--count", &count.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("`python3`, which draws the questions, cannot be started")?;
    ensure!(output.status.success(), "`{}` ended with {}", script.display(), output.status);
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`{}` did not write questions", script.display()))
}
