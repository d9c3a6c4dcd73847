//! Python's spelling of values, for what templates print: `str` and `repr`.
//!
//! The engine prints floats in full where Python turns to exponents, and characters that cannot be seen as they
//! are. **Invariant:** guard characters stay as they are.

use std::fmt::{self, Write};

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::guard::NONCHARACTERS;

/// Values inside each other at most: deeper ones are a template's own making.
pub(super) const DEPTH_MAX: usize = 200;
/// Exponents from which on Python writes a float with one.
const EXPONENT_LARGE: i32 = 16;
/// The least exponent without one.
const EXPONENT_SMALL: i32 = -4;

/// What `{{ value }}` writes.
pub(super) fn write_text(out: &mut impl Write, value: &Value) -> Result<(), Error> {
    write_nested(out, value, 0)
}

/// The filter `string`.
pub(super) fn string(value: &Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::String {
        return Ok(value.clone());
    }
    let mut text = String::new();
    write_text(&mut text, value)?;
    Ok(Value::from(text))
}

/// The test `iterable`: what Python's `iter` takes. The engine goes over `none`, Python does not.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// A float by Python's `repr`: the shortest digits that read as it, `1e-07` and `1e+16` with exponents.
pub(super) fn float(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').expect("`e` stands before the exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if (EXPONENT_SMALL..EXPONENT_LARGE).contains(&exponent) {
        return format!("{number:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn write_nested(out: &mut impl Write, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            let number = f64::try_from(value.clone())?;
            out.write_str(&float(number)).map_err(unwritten)
        }
        ValueKind::String if depth > 0 => {
            write_quoted(out, value.as_str().unwrap_or_default()).map_err(unwritten)
        }
        ValueKind::Seq => {
            let items: Vec<Value> = value.try_iter()?.collect();
            let (open, close) = match (value.is_tuple(), items.len()) {
                (true, 1) => ("(", ",)"),
                (true, _) => ("(", ")"),
                (false, _) => ("[", "]"),
            };
            out.write_str(open).map_err(unwritten)?;
            for (place, item) in items.iter().enumerate() {
                out.write_str(if place > 0 { ", " } else { "" }).map_err(unwritten)?;
                write_nested(out, item, depth + 1)?;
            }
            out.write_str(close).map_err(unwritten)
        }
        ValueKind::Map => {
            out.write_char('{').map_err(unwritten)?;
            for (place, key) in value.try_iter()?.enumerate() {
                out.write_str(if place > 0 { ", " } else { "" }).map_err(unwritten)?;
                write_nested(out, &key, depth + 1)?;
                out.write_str(": ").map_err(unwritten)?;
                write_nested(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.write_char('}').map_err(unwritten)
        }
        _ => write!(out, "{value}").map_err(unwritten),
    }
}

/// A text by Python's `repr`.
fn write_quoted(out: &mut impl Write, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for character in text.chars() {
        match character {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\\' => out.write_str("\\\\")?,
            _ if character == quote => write!(out, "\\{quote}")?,
            _ if is_printable(character) => out.write_char(character)?,
            '\0'..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(character))?,
            '\u{100}'..='\u{ffff}' => write!(out, "\\u{:04x}", u32::from(character))?,
            _ => write!(out, "\\U{:08x}", u32::from(character))?,
        }
    }
    out.write_char(quote)
}

/// Python and Rust leave the same categories of characters as they are, but Rust escapes what extends
/// another character at the beginning of a text.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    let shown = NONCHARACTERS.contains(&character);
    shown || format!("a{character}").escape_debug().nth(1) == Some(character)
}

/// The error of a value whose parts lie too deep.
pub(super) fn too_deep() -> Error {
    let message = format!("a value is nested deeper than {DEPTH_MAX}");
    Error::new(ErrorKind::InvalidOperation, message)
}

fn unwritten(_: fmt::Error) -> Error {
    Error::from(ErrorKind::WriteFailure)
}
