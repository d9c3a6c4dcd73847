//! Whole answers: whether a document is one, and whether a long one was read to its last brace.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::chunk::{AnswerChunk, Finish, UsageTold};
use super::dialect::DialectUsage;
use crate::dialect::{Dialect, message_of};

/// Why a document is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentFault {
    /// It is no JSON object: half of one, nothing, or something else.
    Cut(String),
    /// The worker says that it failed, in these words.
    Failed(String),
    /// It was to have choices, or what a dialect has for them, and has none.
    Empty,
    /// The worker gave a choice up.
    Aborted,
}

/// A document that a worker answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Token counts.
    pub usage: Option<UsageTold>,
}

impl Document {
    /// Reads an answer with status 200; `generates` says whether it was to have choices.
    ///
    /// # Errors
    /// [`DocumentFault`] where it is none.
    pub fn read(answer: &[u8], generates: bool) -> Result<Self, DocumentFault> {
        let chunk =
            AnswerChunk::parse(answer).map_err(|why| DocumentFault::Cut(why.to_string()))?;
        if let Some(message) = chunk.error {
            return Err(DocumentFault::Failed(message));
        }
        let choices = chunk.choices.unwrap_or_default();
        if generates && choices.is_empty() {
            return Err(DocumentFault::Empty);
        }
        if choices.iter().any(|choice| choice.finish == Finish::Aborted) {
            return Err(DocumentFault::Aborted);
        }
        Ok(Self { usage: chunk.usage })
    }

    /// Reads an answer with status 200 of a worker that speaks a dialect itself.
    ///
    /// # Errors
    /// [`DocumentFault`] where it is none. A response that says itself that it failed is one.
    pub fn read_dialect(answer: &[u8], dialect: Dialect) -> Result<Self, DocumentFault> {
        // What the model said is scanned and not read: it may hold numbers and escapes that no value can.
        #[derive(Deserialize)]
        struct Told<'a> {
            #[serde(borrow)]
            r#type: Option<&'a RawValue>,
            #[serde(borrow)]
            object: Option<&'a RawValue>,
            #[serde(borrow)]
            content: Option<&'a RawValue>,
            #[serde(borrow)]
            output: Option<&'a RawValue>,
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
        }
        let document: Told<'_> =
            serde_json::from_slice(answer).map_err(|why| DocumentFault::Cut(why.to_string()))?;
        let (kind, answered, said) = match dialect {
            Dialect::Messages => (document.r#type, "\"message\"", document.content),
            Dialect::Responses => (document.object, "\"response\"", document.output),
        };
        let is_answer = kind.is_some_and(|kind| kind.get() == answered);
        if !is_answer && let Some(message) = message_of(answer) {
            return Err(DocumentFault::Failed(message));
        }
        if !said.is_some_and(|said| said.get().starts_with('[')) {
            return Err(DocumentFault::Empty);
        }
        let usage: Option<Value> =
            document.usage.and_then(|usage| serde_json::from_str(usage.get()).ok());
        let usage = usage.and_then(|usage| DialectUsage::of(dialect, &usage));
        Ok(Self { usage: usage.and_then(DialectUsage::told) })
    }
}

/// Whether JSON that comes in pieces has come to its last brace; for answers too long to hold back.
///
/// ```
/// use overdraft_wire::answer::Completeness;
///
/// let mut seen = Completeness::default();
/// seen.handle(br#"{"text":"}"#);
/// assert!(!seen.is_complete());
/// seen.handle(br#""}"#);
/// assert!(seen.is_complete());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Completeness {
    depth: u64,
    begun: bool,
    text: Text,
}

/// Where a piece of JSON stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Text {
    /// Between texts.
    #[default]
    Outside,
    /// Within one.
    Inside,
    /// Behind a backslash in one.
    Escaped,
}

impl Completeness {
    /// Takes in the next piece.
    pub fn handle(&mut self, piece: &[u8]) {
        for &byte in piece {
            match (self.text, byte) {
                // Escaped => Inside
                (Text::Escaped, _) => self.text = Text::Inside,
                // Inside => Escaped | Outside
                (Text::Inside, b'\\') => self.text = Text::Escaped,
                (Text::Inside, b'"') => self.text = Text::Outside,
                // Outside => Inside
                (Text::Outside, b'"') => self.text = Text::Inside,
                (Text::Outside, b'{' | b'[') => {
                    self.depth += 1;
                    self.begun = true;
                }
                (Text::Outside, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
                (Text::Inside | Text::Outside, _) => {}
            }
        }
    }

    /// Whether every brace that was opened has been closed.
    pub const fn is_complete(&self) -> bool {
        self.begun && self.depth == 0 && matches!(self.text, Text::Outside)
    }
}
