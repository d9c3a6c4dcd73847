//! How is TOML read into nodes?

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::error::{ConfigError, Wrong};
use crate::node::{Entry, Node, Value};
use crate::place::{Origin, Source, spot};

/// Reads a whole document; every syntax error is told, not only the first.
pub(crate) fn parse(source: &Source) -> Result<Node, Vec<ConfigError>> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        let node = Node { value: value_of_table(source, table.get_ref()), origin: Origin::Whole };
        return Ok(node);
    }
    let told = |error: &toml::de::Error| {
        let origin = error.span().map_or(Origin::Whole, |span| at(source, &span));
        ConfigError::new(source, &origin, wrong(source, error))
    };
    let mut faults: Vec<ConfigError> = errors.iter().map(told).collect();
    faults.sort_by_key(|fault| (fault.line(), fault.column()));
    // What follows on the same line is mostly the first one again.
    faults.dedup_by_key(|fault| fault.line());
    Err(faults)
}

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

fn at(source: &Source, span: &std::ops::Range<usize>) -> Origin {
    Origin::Spot(spot(&source.text, span.start, span.end))
}

fn node(source: &Source, read: &Spanned<DeValue<'_>>) -> Node {
    let value = match read.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => whole(number),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::Text(number.to_string()), Value::Real)
        }
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(moment) => Value::Text(moment.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(|item| node(source, item)).collect()),
        DeValue::Table(table) => value_of_table(source, table),
    };
    Node { value, origin: at(source, &read.span()) }
}

fn whole(number: &DeInteger<'_>) -> Value {
    let read = i128::from_str_radix(number.as_str(), number.radix());
    read.map_or_else(|_| Value::Text(number.to_string()), Value::Whole)
}

fn value_of_table(source: &Source, table: &DeTable<'_>) -> Value {
    let mut entries: Vec<(usize, Entry)> = Vec::new();
    for (key, value) in table {
        let entry = Entry {
            key: key.get_ref().to_string(),
            key_origin: at(source, &key.span()),
            node: node(source, value),
        };
        entries.push((key.span().start, entry));
    }
    // The parser sorts by name; people read in the order they wrote.
    entries.sort_by_key(|(begin, _)| *begin);
    Value::Table(entries.into_iter().map(|(_, entry)| entry).collect())
}
