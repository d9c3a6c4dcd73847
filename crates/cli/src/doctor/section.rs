//! Section of the report: lines for people, and the same as JSON.

use std::fmt::Write as _;

use serde_json::Value;

use crate::plain_text::plain;

/// Columns of a line's name.
const NAME_WIDTH: usize = 14;

/// One part of the report.
#[derive(Clone, Debug)]
pub(super) struct Section {
    /// Its heading, and its key in JSON.
    pub(super) name: &'static str,
    lines: Vec<Line>,
    /// The same for programs.
    pub(super) view: Value,
}

/// One fact.
#[derive(Clone, Debug)]
struct Line {
    name: String,
    value: String,
}

impl Section {
    /// Nothing yet.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, lines: Vec::new(), view: Value::Object(serde_json::Map::new()) }
    }

    /// A fact for people.
    pub(super) fn line(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.lines.push(Line { name: name.into(), value: value.into() });
    }

    /// A fact for programs.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.view[key] = value.into();
    }

    /// A fact for both.
    pub(super) fn fact(&mut self, key: &str, value: &str) {
        self.line(key.replace('_', " "), value);
        self.set(key, value);
    }

    /// The heading and its lines.
    pub(super) fn text(&self) -> String {
        let mut text = format!("\n{}\n", self.name);
        for Line { name, value } in &self.lines {
            let (name, value) = (plain(name), plain(value));
            writeln!(text, "  {name:<NAME_WIDTH$} {value}").expect("a string takes all of it");
        }
        text
    }
}

/// Bytes in the unit that people read.
pub(super) fn bytes(bytes: u64) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    let tenths = bytes.saturating_mul(10) >> 30;
    match bytes {
        0..MEBIBYTE => format!("{bytes} bytes"),
        _ if tenths < 10 => format!("{} MiB", bytes >> 20),
        _ => format!("{}.{} GiB", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_the_same_facts_for_people_and_programs() {
        let mut section = Section::new("machine");
        section.fact("open_files", "1024\u{1b}[2J");
        section.set("processors", 2);
        assert_eq!(section.text(), "\nmachine\n  open files     1024\\u{1b}[2J\n");
        assert_eq!(section.view["open_files"], "1024\u{1b}[2J");
        assert_eq!(section.view["processors"], 2);
    }

    #[test]
    fn bytes_are_told_in_the_unit_that_fits() {
        let told = [4_096, 512 << 20, 1 << 30, 8_321_499_136].map(bytes);
        assert_eq!(told, ["4096 bytes", "512 MiB", "1.0 GiB", "7.7 GiB"]);
    }
}
