//! The fields of a log line as text without colours.
//!
//! They look exactly as `tracing_subscriber` has them. Its own formatter puts every name and every
//! `=` through a style, also where there are no colours, and every value through `Debug`. For
//! the twelve or more fields of an access line that takes twice as long as all else about it.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput as _};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

/// What `tracing_subscriber` calls the text of an event.
const MESSAGE: &str = "message";

/// Writes fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainFields;

impl<'writer> FormatFields<'writer> for PlainFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct Visitor<'a> {
    writer: Writer<'a>,
    is_first: bool,
    result: fmt::Result,
}

impl Visitor<'_> {
    /// Writes a field's name, and its value by `value`.
    fn field(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.result.is_err() {
            return;
        }
        let is_first = std::mem::take(&mut self.is_first);
        self.result =
            write_name(&mut self.writer, field, is_first).and_then(|()| value(&mut self.writer));
    }

    /// Leaves what is rare to the library.
    fn by_library(&mut self, record: impl FnOnce(&mut DefaultVisitor<'_>)) {
        if self.result.is_err() {
            return;
        }
        let mut visitor = DefaultVisitor::new(self.writer.by_ref(), self.is_first);
        record(&mut visitor);
        self.result = visitor.finish();
        self.is_first = false;
    }
}

impl Visit for Visitor<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field, |writer| write!(writer, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.field(field, |writer| writer.write_str(if value { "true" } else { "false" }));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            return self.by_library(|library| library.record_str(field, value));
        }
        self.field(field, |writer| {
            if !value.bytes().all(is_plain) {
                return write!(writer, "{value:?}");
            }
            writer.write_char('"')?;
            writer.write_str(value)?;
            writer.write_char('"')
        });
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.by_library(|library| library.record_error(field, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == MESSAGE {
            return self.by_library(|library| library.record_debug(field, value));
        }
        self.field(field, |writer| write!(writer, "{value:?}"));
    }
}

/// Writes what comes before a field's value.
fn write_name(writer: &mut Writer<'_>, field: &Field, is_first: bool) -> fmt::Result {
    if !is_first {
        writer.write_char(' ')?;
    }
    let name = field.name();
    writer.write_str(name.strip_prefix("r#").unwrap_or(name))?;
    writer.write_char('=')
}

/// Whether `Debug` shows a character as it is.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}
