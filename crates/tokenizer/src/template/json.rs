//! `tojson` filter: prints as Python's `json.dumps(ensure_ascii=False)`, as in training.
//!
//! The engine's own filter escapes `<` and `>` for HTML, so tool descriptions would become other
//! tokens.

use std::io;

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Indentation at most: a template's mistake, not a layout, lies beyond.
const INDENT_MAX: usize = 16;

/// The `tojson` filter.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
pub(super) fn tojson(
    value: &Value,
    indent: Option<usize>,
    options: Kwargs,
) -> Result<Value, Error> {
    let named: Option<usize> = options.get("indent")?;
    // Accepted and without effect: they are what is done anyway.
    let _: Option<bool> = options.get("ensure_ascii")?;
    let _: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let text = match indent.or(named) {
        None => print(value, Spaced),
        Some(width) => {
            let indent = " ".repeat(width.min(INDENT_MAX));
            print(value, PrettyFormatter::with_indent(indent.as_bytes()))
        }
    };
    text.map(Value::from)
}

fn print(value: &Value, formatter: impl Formatter) -> Result<String, Error> {
    let mut out = Vec::new();
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::InvalidOperation, format!("a value cannot be JSON: {error}"))
    };
    let mut serializer = Serializer::with_formatter(&mut out, formatter);
    value.serialize(&mut serializer).map_err(|error| failed(&error))?;
    String::from_utf8(out).map_err(|error| failed(&error))
}

/// One line, with a space behind commas and colons.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
