//! What are the shipped models asked?
//!
//! Held-out questions of every family of the model card, written by `models/questions.py`: no model was
//! trained on any of them.

use serde::Deserialize;

/// Every question with its answers.
static QUESTIONS: &str = include_str!("bin/cascade/questions.json");

/// A question as a prompt, and what counts as its answer.
#[derive(Clone, Debug, Deserialize)]
pub struct Question {
    /// What it is about, as the model card calls it.
    pub family: String,
    /// The chat so far, up to where the answer begins.
    pub prompt: String,
    /// The right answers, to the letter.
    pub answers: Vec<String>,
}

/// All of them, family by family.
///
/// # Errors
/// When the file is not what it should be.
pub fn questions() -> serde_json::Result<Vec<Question>> {
    serde_json::from_str(QUESTIONS)
}
