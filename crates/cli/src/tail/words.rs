//! Words of an expression, each with its place.

use std::ops::Range;

/// Bytes of an expression at most.
const EXPRESSION_BYTES_MAX: usize = 4_096;

/// Signs that compare, the longer first.
const SIGNS: [&str; 9] = ["!=", ">=", "<=", "==", "=", ">", "<", "~", "!"];

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A name, or a value without quotes.
    Plain(String),
    /// A value in quotes.
    Quoted(String),
    Sign(&'static str),
    Open,
    Close,
}

/// Why an expression cannot be used, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpressionFault {
    pub(super) at: Range<usize>,
    pub(super) message: String,
}

impl ExpressionFault {
    pub(super) fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// What is wrong, and below it the expression with a mark under the place.
    pub(super) fn shown(&self, expression: &str) -> String {
        let before = expression.get(..self.at.start).unwrap_or(expression);
        let marked = expression.get(self.at.clone()).unwrap_or_default();
        let width = |text: &str| text.chars().count();
        let one_line = expression.replace(['\n', '\r', '\t'], " ");
        format!(
            "{}\n  {one_line}\n  {:indent$}{}",
            self.message,
            "",
            "^".repeat(width(marked).max(1)),
            indent = width(before)
        )
    }
}

/// The words of `text` with their places.
///
/// # Errors
/// A quote that is not closed, or a text that is too long.
pub(super) fn words(text: &str) -> Result<Vec<(Range<usize>, Word)>, ExpressionFault> {
    if EXPRESSION_BYTES_MAX < text.len() {
        let message = format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes");
        return Err(ExpressionFault::new(0..0, message));
    }
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (word, length) = next(&text[at..], at)?;
        words.push((at..at + length, word));
        at += length;
    }
    Ok(words)
}

fn next(rest: &str, at: usize) -> Result<(Word, usize), ExpressionFault> {
    let first = rest.chars().next().unwrap_or_default();
    match first {
        '(' => return Ok((Word::Open, 1)),
        ')' => return Ok((Word::Close, 1)),
        '"' | '\'' => {
            let Some(end) = rest[1..].find(first) else {
                let message = format!("the quote {first} is not closed");
                return Err(ExpressionFault::new(at..at + rest.len(), message));
            };
            return Ok((Word::Quoted(rest[1..=end].to_owned()), end + 2));
        }
        _ => {}
    }
    if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        return Ok((Word::Sign(sign), sign.len()));
    }
    let is_end = |c: char| c.is_whitespace() || "()=<>!~\"'".contains(c);
    let length = rest.find(is_end).unwrap_or(rest.len());
    Ok((Word::Plain(rest[..length].to_owned()), length))
}
