//! The filter `tojson` as `transformers` sets it up: Python's `json.dumps(ensure_ascii=False)`, which
//! models were trained on.
//!
//! The engine's own filter escapes `<` and `>` for HTML, so tool descriptions would become other
//! tokens. **Invariant:** guard characters stay as they are, also where others are escaped.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::guard::NONCHARACTERS;
use super::python::{self, DEPTH_MAX};

/// Indentation at most: a template's mistake, not a layout, lies beyond.
const INDENT_MAX: usize = 16;

/// The `tojson` filter.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
pub(super) fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    options: Kwargs,
) -> Result<Value, Error> {
    let indent: Option<Value> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let named: Option<bool> = options.get("ensure_ascii")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let indent = indent.filter(|indent| !indent.is_none()).map(|indent| indentation(&indent));
    let default = [if indent.is_some() { "," } else { ", " }, ": "].map(str::to_owned);
    let [item, key] = match separators {
        None => default,
        Some(pair) => <[String; 2]>::try_from(pair)
            .map_err(|_| refused("`separators` are not two; expected one of items, one of keys"))?,
    };
    let escaping =
        if ensure_ascii.or(named).unwrap_or(false) { Escape::Ascii } else { Escape::Least };
    let keys = if sort_keys.unwrap_or(false) { Keys::Sorted } else { Keys::AsTheyAre };
    let mut printer = Printer { out: String::new(), indent, item, key, escaping, keys };
    printer.value(value, 0)?;
    Ok(Value::from(printer.out))
}

/// Python takes a number of spaces or the text itself.
fn indentation(indent: &Value) -> String {
    match indent.as_str() {
        Some(text) => text.chars().take(INDENT_MAX).collect(),
        None => " ".repeat(indent.as_usize().unwrap_or(0).min(INDENT_MAX)),
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    /// Quotes, backslashes and control characters.
    Least,
    /// Whatever is not printable ASCII, too.
    Ascii,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    AsTheyAre,
    Sorted,
}

/// Prints one value.
struct Printer {
    out: String,
    /// Per level; `None` is one line.
    indent: Option<String>,
    /// Between items.
    item: String,
    /// Between a key and its value.
    key: String,
    escaping: Escape,
    keys: Keys,
}

impl Printer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(python::too_deep());
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)?),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.object(value, depth)?,
            other => return Err(refused(format!("{other} cannot be JSON; expected a value"))),
        }
        Ok(())
    }

    fn list(&mut self, list: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut empty = true;
        for item in list.try_iter()? {
            self.before_item(empty, depth);
            empty = false;
            self.value(&item, depth + 1)?;
        }
        self.close(']', empty, depth);
        Ok(())
    }

    fn object(&mut self, object: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = object.try_iter()?.collect();
        if self.keys == Keys::Sorted {
            keys.sort();
        }
        self.out.push('{');
        for (place, key) in keys.iter().enumerate() {
            self.before_item(place == 0, depth);
            match key.kind() {
                ValueKind::String => self.text(key.as_str().unwrap_or_default()),
                ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                    self.out.push('"');
                    self.value(key, depth)?;
                    self.out.push('"');
                }
                other => return Err(refused(format!("{other} cannot be a key of JSON"))),
            }
            self.out.push_str(&self.key);
            self.value(&object.get_item(key)?, depth + 1)?;
        }
        self.close('}', keys.is_empty(), depth);
        Ok(())
    }

    fn before_item(&mut self, first: bool, depth: usize) {
        if !first {
            self.out.push_str(&self.item);
        }
        self.line(depth + 1);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    /// A new line, if values are laid out.
    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                '\0'..='\u{1f}' => self.escape(character),
                ' '..='~' => self.out.push(character),
                _ if self.escaping == Escape::Ascii && !NONCHARACTERS.contains(&character) => {
                    self.escape(character);
                }
                _ => self.out.push(character),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, character: char) {
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(self.out, "\\u{unit:04x}").expect("a string takes what is written");
        }
    }
}

fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    let number = f64::try_from(value.clone())?;
    Ok(match number {
        _ if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => python::float(number),
    })
}
