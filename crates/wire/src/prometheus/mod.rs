//! Prometheus text parser: reads the samples of a metrics page (text format, `OpenMetrics`).
//!
//! It reads the text format 0.0.4 and `OpenMetrics`, line by line and without copying: a [`Line`]
//! is split into its name and the rest, and labels and value are parsed only on demand. That makes
//! scraping a hundred workers cheap, because most lines are histogram buckets. [`engine`] maps the
//! names that engines use to one report.
//!
//! **Invariant:** a page is either read to its end or refused: a page that is truncated, not text,
//! not metrics or too large gives an error and never a part of the numbers.

pub mod engine;
pub mod memory;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use memchr::{memchr, memchr3};

/// Largest page taken: vLLM's with every histogram is under 100 KB per engine rank.
pub const PAGE_BYTES_MAX: usize = 8 << 20;

/// Longest line taken: vLLM puts its whole cache configuration into the labels of one.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Most labels of one sample.
pub const LABELS_MAX: usize = 256;

/// Why a page of metrics was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Not even a try was made to read it.
    #[error("metrics of {bytes} bytes are too large; expected at most {PAGE_BYTES_MAX}")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// There is nothing.
    #[error("metrics are empty; expected lines like `name 1`")]
    Empty,
    /// A page for people.
    #[error("metrics begin with `<`, which looks like HTML; expected lines like `name 1`")]
    Html,
    /// Bytes that are no text.
    #[error("metrics are not UTF-8 from byte {at} on")]
    NotText {
        /// The first byte that is none.
        at: usize,
    },
    /// The last line has no end, so its value may lack digits.
    #[error("metrics end within line {line}; expected a line feed at the end")]
    CutOff {
        /// The line, from 1.
        line: usize,
    },
    /// A line longer than any engine's.
    #[error("line {line} of the metrics is longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong {
        /// The line, from 1.
        line: usize,
    },
    /// A line that is no sample.
    #[error("line {line} of the metrics is not a sample: {fault}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It does not begin with a name.
    #[error("expected a name of letters, digits, `_` and `:`")]
    Name,
    /// Its labels are not `{name="value",...}`.
    #[error("expected labels as in `{{name=\"value\"}}`")]
    Labels,
    /// More labels than anyone needs.
    #[error("more than {LABELS_MAX} labels")]
    LabelsTooMany,
    /// No number where the value belongs.
    #[error("expected a number")]
    Value,
    /// Something after the value that is no timestamp.
    #[error("expected nothing or a timestamp after the value")]
    Timestamp,
}

/// The lines of a page that carry samples, in order; comments and blank lines are skipped.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    number: usize,
}

/// A line with a sample, of which only the name has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    number: usize,
    name: &'a str,
    rest: &'a str,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The metric's name, with whatever suffix it has.
    pub name: &'a str,
    /// Its labels.
    pub labels: Labels<'a>,
    /// Its value, which may be infinite or not a number.
    pub value: f64,
}

/// The labels of a sample, checked and still as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labels<'a> {
    raw: &'a str,
}

/// Opens a page of metrics.
///
/// # Errors
/// Says so if the page as a whole cannot be metrics. Lines are checked as they are read.
pub fn lines(page: &[u8]) -> Result<Lines<'_>, PageError> {
    if page.len() > PAGE_BYTES_MAX {
        return Err(PageError::TooLarge { bytes: page.len() });
    }
    match page.trim_ascii_start().first() {
        None => return Err(PageError::Empty),
        Some(b'<') => return Err(PageError::Html),
        Some(_) => {}
    }
    let text =
        str::from_utf8(page).map_err(|error| PageError::NotText { at: error.valid_up_to() })?;
    if !text.ends_with('\n') {
        return Err(PageError::CutOff { line: text.lines().count() });
    }
    Ok(Lines { text, number: 0 })
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, PageError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let end = memchr(b'\n', self.text.as_bytes())?;
            let (line, rest) = (&self.text[..end], &self.text[end + 1..]);
            self.text = rest;
            self.number += 1;
            if line.len() > LINE_BYTES_MAX {
                return Some(Err(PageError::LineTooLong { line: self.number }));
            }
            let line = line.trim_matches([' ', '\t', '\r']);
            if !line.is_empty() && !line.starts_with('#') {
                return Some(Line::split(line, self.number));
            }
        }
    }
}

impl<'a> Line<'a> {
    /// The metric's name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    fn split(line: &'a str, number: usize) -> Result<Self, PageError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
        let bytes = line.as_bytes();
        let end = bytes.iter().position(|&byte| !is_name(byte)).unwrap_or(bytes.len());
        let follows = matches!(bytes.get(end), None | Some(b' ' | b'\t' | b'{'));
        if end == 0 || bytes[0].is_ascii_digit() || !follows {
            return Err(PageError::Line { line: number, fault: Fault::Name });
        }
        Ok(Self { number, name: &line[..end], rest: line[end..].trim_start_matches([' ', '\t']) })
    }

    /// Reads the labels and the value.
    ///
    /// # Errors
    /// Names the line and what is wrong with it.
    pub fn read(&self) -> Result<Sample<'a>, PageError> {
        self.parse().map_err(|fault| PageError::Line { line: self.number, fault })
    }

    fn parse(&self) -> Result<Sample<'a>, Fault> {
        let (labels, rest) = match self.rest.strip_prefix('{') {
            Some(rest) => Labels::split(rest)?,
            None => (Labels::default(), self.rest),
        };
        // OpenMetrics may append an exemplar behind a `#`.
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let mut words = rest.split_ascii_whitespace();
        let value = words.next().and_then(number).ok_or(Fault::Value)?;
        match (words.next().map(number), words.next()) {
            (None | Some(Some(_)), None) => Ok(Sample { name: self.name, labels, value }),
            _ => Err(Fault::Timestamp),
        }
    }
}

impl<'a> Labels<'a> {
    /// The labels in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        let mut rest = self.raw;
        core::iter::from_fn(move || {
            let (name, value, after) = label(rest).ok().flatten()?;
            rest = after;
            Some((name, unescape(value)))
        })
    }

    /// The value of a label; of one that is written twice, the first.
    pub fn value(&self, name: &str) -> Option<Cow<'a, str>> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Checks the labels behind `{` and finds what comes after `}`.
    fn split(raw: &'a str) -> Result<(Self, &'a str), Fault> {
        let mut rest = raw;
        for _ in 0..=LABELS_MAX {
            if let Some((_, _, after)) = label(rest)? {
                rest = after;
                continue;
            }
            let end = rest.trim_start_matches([' ', '\t']);
            let after = end.strip_prefix('}').ok_or(Fault::Labels)?;
            return Ok((Self { raw: &raw[..raw.len() - rest.len()] }, after));
        }
        Err(Fault::LabelsTooMany)
    }
}

/// Takes a label off the front: its name, its value still escaped, and what follows; `None` where
/// the labels end.
fn label(text: &str) -> Result<Option<(&str, &str, &str)>, Fault> {
    let text = text.trim_start_matches([' ', '\t']);
    if text.is_empty() || text.starts_with('}') {
        return Ok(None);
    }
    let (name, rest) = text.split_once('=').ok_or(Fault::Labels)?;
    let name = name.trim_matches([' ', '\t', '"']);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-:/".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(Fault::Labels);
    }
    let quoted = rest.trim_start_matches([' ', '\t']).strip_prefix('"').ok_or(Fault::Labels)?;
    let end = closing_quote(quoted).ok_or(Fault::Labels)?;
    let after = quoted[end + 1..].trim_start_matches([' ', '\t']);
    match after.strip_prefix(',') {
        Some(next) => Ok(Some((name, &quoted[..end], next))),
        None if after.is_empty() || after.starts_with('}') => {
            Ok(Some((name, &quoted[..end], after)))
        }
        None => Err(Fault::Labels),
    }
}

/// Where a quoted string ends.
fn closing_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        at += memchr3(b'"', b'\\', b'\n', bytes.get(at..)?)?;
        match bytes[at] {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => return None,
        }
    }
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, char == '\\') {
            (_, true) => match chars.next() {
                Some('n') => plain.push('\n'),
                Some(escaped) => plain.push(escaped),
                None => plain.push('\\'),
            },
            (char, false) => plain.push(char),
        }
    }
    Cow::Owned(plain)
}

/// A number as Go prints it: exponents, `+Inf`, `NaN`.
fn number(word: &str) -> Option<f64> {
    // What Rust reads beyond that, such as `infinity`, begins with a letter in neither case.
    let digits = word.trim_start_matches(['+', '-']);
    match digits {
        "Inf" | "inf" => {
            word.strip_prefix('-').map_or(Some(f64::INFINITY), |_| Some(-f64::INFINITY))
        }
        "NaN" | "nan" => Some(f64::NAN),
        _ if digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
            word.parse().ok()
        }
        _ => None,
    }
}
