//! Filter expression over requests: `ttft > 2s and (worker = w3 or not cache)`.
//!
//! `or` binds less than `and`, `and` less than `not`. A field alone asks whether a request has it. A field that a
//! request does not have equals nothing and is neither more nor less than anything.

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use overdraft_sim::workload::similar;

use super::record::{Held, Kind, Record, fields};
use super::words::{ExpressionFault, Word, words};

/// Expressions within expressions at most.
const DEPTH_MAX: usize = 32;

/// A filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Has(&'static str),
    Compare(&'static str, Comparison, Held),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Is,
    IsNot,
    Above,
    Least,
    Below,
    Most,
    /// Text within text.
    Contains,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// Says what is wrong with it, and where.
    pub(super) fn parse(text: &str) -> Result<Self, ExpressionFault> {
        let mut reader = Reader { words: words(text)?.into_iter().peekable(), end: text.len() };
        let read = reader.any(0)?;
        match reader.words.next() {
            None => Ok(read),
            Some((at, _)) => Err(ExpressionFault::new(at, "expected `and`, `or` or the end here")),
        }
    }

    /// Whether a request is one of those.
    pub(super) fn takes(&self, record: &Record) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.takes(record)),
            Self::Any(parts) => parts.iter().any(|part| part.takes(record)),
            Self::Not(part) => !part.takes(record),
            Self::Has(field) => !matches!(record.field(field), None | Some(Held::Flag(false))),
            Self::Compare(field, comparison, value) => {
                compare(record.field(field), *comparison, value)
            }
        }
    }
}

fn compare(held: Option<&Held>, comparison: Comparison, value: &Held) -> bool {
    let Some(held) = held else { return comparison == Comparison::IsNot };
    match (held, value) {
        (Held::Text(held), Held::Text(value)) => match comparison {
            Comparison::Is => held == value,
            Comparison::IsNot => held != value,
            Comparison::Contains => held.contains(value.as_str()),
            _ => false,
        },
        (Held::Number(held), Held::Number(value)) => match comparison {
            Comparison::Is => held.total_cmp(value).is_eq(),
            Comparison::IsNot => held.total_cmp(value).is_ne(),
            Comparison::Above => held > value,
            Comparison::Least => held >= value,
            Comparison::Below => held < value,
            Comparison::Most => held <= value,
            Comparison::Contains => false,
        },
        (Held::Flag(held), Held::Flag(value)) => (held == value) == (comparison == Comparison::Is),
        _ => false,
    }
}

struct Reader {
    words: Peekable<IntoIter<(Range<usize>, Word)>>,
    /// Where the text ends.
    end: usize,
}

impl Reader {
    fn any(&mut self, depth: usize) -> Result<Expression, ExpressionFault> {
        let mut parts = vec![self.all(depth)?];
        while self.takes_word("or") {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Expression, ExpressionFault> {
        let mut parts = vec![self.one(depth)?];
        while self.takes_word("and") {
            parts.push(self.one(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) })
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.words
            .next_if(
                |(_, next)| matches!(next, Word::Plain(text) if text.eq_ignore_ascii_case(word)),
            )
            .is_some()
    }

    fn one(&mut self, depth: usize) -> Result<Expression, ExpressionFault> {
        let (at, word) = self.words.next().ok_or_else(|| {
            ExpressionFault::new(self.end..self.end, "expected a field here, as in `ttft > 2s`")
        })?;
        if DEPTH_MAX < depth {
            return Err(ExpressionFault::new(at, "expressions are too deep within each other"));
        }
        match word {
            Word::Open => {
                let inside = self.any(depth + 1)?;
                match self.words.next() {
                    Some((_, Word::Close)) => Ok(inside),
                    Some((at, _)) => Err(ExpressionFault::new(at, "expected `)` here")),
                    None => Err(ExpressionFault::new(at, "this `(` is not closed")),
                }
            }
            Word::Sign("!") => Ok(Expression::Not(Box::new(self.one(depth + 1)?))),
            Word::Plain(text) if text.eq_ignore_ascii_case("not") => {
                Ok(Expression::Not(Box::new(self.one(depth + 1)?)))
            }
            Word::Plain(name) => self.about(at, &name),
            Word::Quoted(_) | Word::Sign(_) | Word::Close => {
                Err(ExpressionFault::new(at, "expected a field here, as in `ttft > 2s`"))
            }
        }
    }

    /// What is said of a field.
    fn about(&mut self, at: Range<usize>, name: &str) -> Result<Expression, ExpressionFault> {
        let Some((field, kind)) = fields().find(|(field, _)| *field == name) else {
            let near = similar(name, fields().map(|(field, _)| field));
            let known: Vec<&str> = fields().map(|(field, _)| field).collect();
            let message =
                format!("`{name}` is no field{near}; expected one of {}", known.join(", "));
            return Err(ExpressionFault::new(at, message));
        };
        let sign = self.words.next_if(|(_, word)| matches!(word, Word::Sign(sign) if *sign != "!"));
        let Some((sign_at, Word::Sign(sign))) = sign else { return Ok(Expression::Has(field)) };
        let comparison = comparison(sign, kind).map_err(|message| {
            ExpressionFault::new(sign_at.clone(), format!("`{name}` {message}"))
        })?;
        let Some((value_at, word)) = self.words.next() else {
            let message = format!("expected {} here", expected(kind));
            return Err(ExpressionFault::new(self.end..self.end, message));
        };
        let (Word::Plain(text) | Word::Quoted(text)) = word else {
            return Err(ExpressionFault::new(
                value_at,
                format!("expected {} here", expected(kind)),
            ));
        };
        let value = value(kind, &text).ok_or_else(|| {
            let message =
                format!("`{text}` is not what `{name}` holds; expected {}", expected(kind));
            ExpressionFault::new(value_at, message)
        })?;
        Ok(Expression::Compare(field, comparison, value))
    }
}

fn comparison(sign: &str, kind: Kind) -> Result<Comparison, &'static str> {
    let comparison = match sign {
        "=" | "==" => Comparison::Is,
        "!=" => Comparison::IsNot,
        ">" => Comparison::Above,
        ">=" => Comparison::Least,
        "<" => Comparison::Below,
        "<=" => Comparison::Most,
        _ => Comparison::Contains,
    };
    let is_order = matches!(
        comparison,
        Comparison::Above | Comparison::Least | Comparison::Below | Comparison::Most
    );
    match (kind, comparison) {
        (Kind::Text, _) if is_order => Err("is text; expected `=`, `!=` or `~`"),
        (Kind::Flag, _) if is_order => Err("is `true` or `false`; expected `=` or `!=`"),
        (Kind::Text, _) => Ok(comparison),
        (_, Comparison::Contains) => Err("is no text; expected `=`, `!=`, `>`, `>=`, `<` or `<=`"),
        _ => Ok(comparison),
    }
}

const fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "a text, as in `w3` or `\"two words\"`",
        Kind::Time => "a time with its unit, as in `200ms`, `2s` or `1m`",
        Kind::Count => "a number, as in `512` or `4k`",
        Kind::Money => "dollars, as in `0.02`",
        Kind::Flag => "`true` or `false`",
    }
}

fn value(kind: Kind, text: &str) -> Option<Held> {
    match kind {
        Kind::Text => Some(Held::Text(text.to_owned())),
        Kind::Time => {
            scaled(text, &[("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)])
        }
        Kind::Count => number(text).or_else(|| scaled(text, &[("k", 1e3), ("M", 1e6)])),
        Kind::Money => number(text.strip_prefix('$').unwrap_or(text)),
        Kind::Flag => text.parse().ok().map(Held::Flag),
    }
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<Held> {
    let digits = text.find(|c: char| c.is_alphabetic())?;
    let (amount, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    match number(amount.trim())? {
        Held::Number(amount) => Some(Held::Number(amount * factor)),
        Held::Text(_) | Held::Flag(_) => None,
    }
}

fn number(text: &str) -> Option<Held> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && text.starts_with(|c: char| c.is_ascii_digit()))
        .then_some(Held::Number(number))
}
