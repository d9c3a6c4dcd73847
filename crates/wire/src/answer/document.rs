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

/// Bytes at the end of a long document in which its token counts are looked for.
const TAIL_BYTES: usize = 16 * 1024;

/// A document that is too long to hold back: whether it has come to its last brace, and what it tells at its end.
///
/// ```
/// use overdraft_wire::answer::LongDocument;
///
/// let mut seen = LongDocument::new(None);
/// seen.handle(br#"{"data":[0.5,0.25],"usage":{"prompt_tokens":7,"#);
/// assert!(!seen.is_complete());
/// seen.handle(br#""total_tokens":7}}"#);
/// assert!(seen.is_complete());
/// assert_eq!(seen.usage().map(|usage| usage.prompt), Some(7));
/// ```
#[derive(Clone, Debug)]
pub struct LongDocument {
    dialect: Option<Dialect>,
    completeness: Completeness,
    tail: Vec<u8>,
}

impl LongDocument {
    /// Nothing has come of it yet; `dialect` where its worker speaks one.
    pub fn new(dialect: Option<Dialect>) -> Self {
        Self { dialect, completeness: Completeness::default(), tail: Vec::new() }
    }

    /// Takes in the next piece.
    pub fn handle(&mut self, piece: &[u8]) {
        self.completeness.handle(piece);
        let kept = TAIL_BYTES.saturating_sub(piece.len()).min(self.tail.len());
        self.tail.drain(..self.tail.len() - kept);
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(TAIL_BYTES)..]);
    }

    /// Whether every brace that was opened has been closed.
    pub const fn is_complete(&self) -> bool {
        self.completeness.is_complete()
    }

    /// Token counts, where the last 16 KiB tell some. Quotes within texts are escaped, so this is a key wherever it is.
    pub fn usage(&self) -> Option<UsageTold> {
        const KEY: &[u8] = br#""usage""#;
        let at = memchr::memmem::rfind(&self.tail, KEY)?;
        let value = self.tail[at + KEY.len()..].trim_ascii_start().strip_prefix(b":")?;
        let usage =
            serde_json::Deserializer::from_slice(value).into_iter::<Value>().next()?.ok()?;
        match self.dialect {
            Some(dialect) => DialectUsage::of(dialect, &usage)?.told(),
            None => AnswerChunk::parse(format!(r#"{{"usage":{usage}}}"#).as_bytes()).ok()?.usage,
        }
    }
}

/// Whether JSON that comes in pieces has come to its last brace.
#[derive(Clone, Copy, Debug, Default)]
struct Completeness {
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
    fn handle(&mut self, piece: &[u8]) {
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
    const fn is_complete(&self) -> bool {
        self.begun && self.depth == 0 && matches!(self.text, Text::Outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(answer: &str, dialect: Option<Dialect>, piece: usize) -> LongDocument {
        let mut document = LongDocument::new(dialect);
        answer.as_bytes().chunks(piece).for_each(|piece| document.handle(piece));
        document
    }

    #[test]
    fn a_long_document_tells_its_counts_at_its_end_however_it_is_cut() {
        let data = "0.125,".repeat(20_000);
        let answer = format!(
            r#"{{"data":[{data}1],"usage": {{"prompt_tokens":9,"completion_tokens":4}},"kv":null}}"#
        );
        for piece in [1, 7, 4_096, 1 << 20] {
            let document = long(&answer, None, piece);
            assert!(document.is_complete());
            let usage = UsageTold { prompt: 9, cached: None, completion: 4 };
            assert_eq!(document.usage(), Some(usage), "pieces of {piece}");
        }
        assert!(!long(&answer[..answer.len() - 1], None, 4_096).is_complete());
    }

    #[test]
    fn what_a_model_says_of_usage_is_no_count() {
        let said = r#"{"choices":[{"text":"\"usage\":{\"prompt_tokens\":9}"}]}"#;
        assert_eq!(long(said, None, 5).usage(), None);
        let cut = r#"{"choices":[],"usage":{"prompt_tokens":9,"#;
        assert_eq!(long(cut, None, 5).usage(), None);
    }

    #[test]
    fn a_long_message_tells_its_counts_in_its_dialect() {
        let said =
            r#"{"type":"message","content":[],"usage":{"input_tokens":5,"output_tokens":3}}"#;
        let usage = long(said, Some(Dialect::Messages), 16).usage().map(|usage| usage.completion);
        assert_eq!(usage, Some(3));
    }
}
