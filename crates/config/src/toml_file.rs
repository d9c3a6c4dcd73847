//! TOML parser: reads a document into nodes, with bounds on size and depth.
//!
//! The TOML crate bounds how deep values are nested but not how many there are, nor how deep a
//! dotted key reaches; this file bounds both, with the same limits as for YAML.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::error::{ConfigError, ConfigErrors, Wrong};
use crate::node::{Entry, Node, Value};
use crate::place::{Lines, Origin, Source};
use crate::yaml::{DEPTH_MAX, NODES_MAX};

/// Reads a whole document; every syntax error is told, not only the first.
pub(crate) fn parse(source: &Source) -> Result<Node, ConfigErrors> {
    let lines = Lines::new(&source.text);
    if let Some(line) = too_deep(&source.text) {
        let width = source.text.lines().nth(line - 1).unwrap_or_default().chars().count();
        let origin = Origin::Spot(crate::place::Spot { line, column: 1, width });
        return Err(ConfigError::new(source, &origin, Wrong::too_large()).into());
    }
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    if !errors.is_empty() {
        return Err(ConfigErrors::new(told(source, &lines, &errors)));
    }
    let mut reading = Reading { lines: &lines, left: NODES_MAX };
    let value = reading.table(table.get_ref(), DEPTH_MAX);
    value
        .map(|value| Node { value, origin: Origin::Whole })
        .map_err(|TooLarge(origin)| ConfigError::new(source, &origin, Wrong::too_large()).into())
}

/// Parts of one dotted key; no key of ours has a tenth of them.
const KEY_PARTS_MAX: usize = 256;

/// The first line with a key of more parts. A key of many thousands would become a tree as deep, and
/// trees are walked by recursion. Text that merely looks like such a key is refused as well.
fn too_deep(text: &str) -> Option<usize> {
    let mut lines = text.lines().enumerate();
    lines.find(|(_, line)| KEY_PARTS_MAX < parts(line)).map(|(index, _)| index + 1)
}

/// The most words in a row, each behind a dot; what stands in quotes is one word.
fn parts(line: &str) -> usize {
    // Where text over several lines begins or ends, quotes cannot be told apart: every dot counts.
    if ["\"\"\"", "'''"].iter().any(|mark| line.contains(mark)) {
        return line.matches('.').count();
    }
    let (mut most, mut parts, mut after_dot) = (0, 0, false);
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some('"'), '\\') => _ = letters.next(),
            (Some(open), letter) => quote = Some(open).filter(|open| *open != letter),
            (None, '"' | '\'') => (quote, after_dot) = (Some(letter), false),
            (None, '#') => break,
            (None, '.') if after_dot => {}
            (None, '.') => (parts, after_dot) = (parts + 1, true),
            (None, ',' | '=' | '[' | ']' | '{' | '}') => (parts, after_dot) = (0, false),
            (None, letter) if letter.is_whitespace() => {}
            (None, _) => after_dot = false,
        }
        most = most.max(parts);
    }
    most
}

fn told(source: &Source, lines: &Lines<'_>, errors: &[toml::de::Error]) -> Vec<ConfigError> {
    let told = |error: &toml::de::Error| {
        let spot = error.span().map(|span| lines.spot(span.start, span.end));
        let origin = spot.map_or(Origin::Whole, Origin::Spot);
        ConfigError::new(source, &origin, wrong(source, error))
    };
    // Sorting out more than are shown would be in vain.
    let mut faults: Vec<ConfigError> = errors.iter().take(ERRORS_MAX).map(told).collect();
    faults.sort_by_key(|fault| (fault.line(), fault.column()));
    // What follows on the same line is mostly the first one again.
    faults.dedup_by_key(|fault| fault.line());
    faults
}

/// Syntax errors that are looked at.
const ERRORS_MAX: usize = 256;

fn wrong(source: &Source, error: &toml::de::Error) -> Wrong {
    let span = error.span().unwrap_or_default();
    match source.text.get(span) {
        Some(key) if error.message() == "duplicate key" => Wrong::twice(key),
        _ => Wrong::new(
            format!("not TOML: {}", error.message()),
            "expected `key = value` lines; text goes in quotes",
        ),
    }
}

/// The value that was one too many, or too deep.
struct TooLarge(Origin);

struct Reading<'a> {
    lines: &'a Lines<'a>,
    /// How many more values may come.
    left: usize,
}

impl Reading<'_> {
    fn at(&self, span: &std::ops::Range<usize>) -> Origin {
        Origin::Spot(self.lines.spot(span.start, span.end))
    }

    fn node(&mut self, read: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, TooLarge> {
        let origin = self.at(&read.span());
        match (self.left.checked_sub(1), depth.checked_sub(1)) {
            (Some(left), Some(depth)) => {
                self.left = left;
                let value = self.value(read.get_ref(), depth)?;
                Ok(Node { value, origin })
            }
            _ => Err(TooLarge(origin)),
        }
    }

    fn value(&mut self, read: &DeValue<'_>, depth: usize) -> Result<Value, TooLarge> {
        Ok(match read {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => whole(number),
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Value::Real(number),
                Err(_) => Value::Text(number.to_string()),
            },
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(moment) => Value::Text(moment.to_string()),
            DeValue::Array(items) => {
                let nodes = items.iter().map(|item| self.node(item, depth));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => self.table(table, depth)?,
        })
    }

    fn table(&mut self, table: &DeTable<'_>, depth: usize) -> Result<Value, TooLarge> {
        let mut entries: Vec<(usize, Entry)> = Vec::new();
        for (key, value) in table {
            let entry = Entry {
                key: key.get_ref().to_string(),
                key_origin: self.at(&key.span()),
                node: self.node(value, depth)?,
            };
            entries.push((key.span().start, entry));
        }
        // The parser sorts by name; people read in the order they wrote.
        entries.sort_by_key(|(begin, _)| *begin);
        Ok(Value::Table(entries.into_iter().map(|(_, entry)| entry).collect()))
    }
}

fn whole(number: &DeInteger<'_>) -> Value {
    let read = i128::from_str_radix(number.as_str(), number.radix());
    read.map_or_else(|_| Value::Text(number.to_string()), Value::Whole)
}
