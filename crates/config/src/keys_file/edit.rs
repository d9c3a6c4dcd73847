//! Edits of a keys file that leave every other line alone.
//!
//! Lines are told apart by their indentation. That is not all of YAML, so the caller reads what comes
//! out and believes it only where it says what was meant.

use std::ops::Range;

use serde_json::Value;

use crate::tree::Key;

/// What a new file begins with.
const HEADER: &str = "\
# The keys of `keys_file`, by their SHA-256. `overdraft keys new`, `list` and `revoke` edit them;
# the gateway takes each change within two seconds. Comments stay.
";

/// The words that YAML takes for something else than text, in one of its versions.
const NO_TEXT: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// The text with one more key at its end; `None` where it has no place for it.
pub(super) fn with(text: &str, key: &Key) -> Option<String> {
    let fields = fields(key);
    if is_json(text) {
        let mut list: Vec<Value> = serde_json::from_str(text).ok()?;
        list.push(fields.into_iter().collect());
        return Some(format!("{:#}\n", Value::Array(list)));
    }
    let begun = if text.trim().is_empty() { HEADER } else { text };
    let gap = if begun.ends_with('\n') { "" } else { "\n" };
    let indent = " ".repeat(indent_of(begun).unwrap_or(0));
    let mut edited = format!("{begun}{gap}");
    for (index, (name, value)) in fields.iter().enumerate() {
        let dash = if index == 0 { "- " } else { "  " };
        let value = scalar(value);
        edited.extend([&indent, dash, name, ": ", &value, "\n"]);
    }
    Some(edited)
}

/// The text without the key at `index`; `None` where its lines cannot be told.
pub(super) fn without(text: &str, index: usize) -> Option<String> {
    if is_json(text) {
        let mut list: Vec<Value> = serde_json::from_str(text).ok()?;
        if list.len() <= index {
            return None;
        }
        list.remove(index);
        return Some(format!("{:#}\n", Value::Array(list)));
    }
    let gone = lines_of(text, index)?;
    let kept = text.split_inclusive('\n').enumerate();
    Some(kept.filter(|(at, _)| !gone.contains(at)).map(|(_, line)| line).collect())
}

/// What of a key is not as it is without being said.
fn fields(key: &Key) -> Vec<(String, Value)> {
    let value = |key: &Key| serde_json::to_value(key).unwrap_or_default();
    let (own, plain) = (value(key), value(&Key::hashed(String::new(), String::new())));
    let fields = own.as_object().into_iter().flatten();
    let mut fields: Vec<(String, Value)> = fields
        .filter(|(name, value)| plain.get(name.as_str()) != Some(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // Whose it is comes first, whatever order the map has.
    let first = |name: &str| ["tenant", "name", "key_sha256"].iter().position(|own| *own == name);
    fields.sort_by_key(|(name, _)| first(name).unwrap_or(usize::MAX));
    fields
}

/// A value as YAML has it: JSON is YAML, and plain words go without quotes.
fn scalar(value: &Value) -> String {
    let is_word = |text: &str| {
        let begins = text.starts_with(|letter: char| letter.is_ascii_alphabetic());
        let goes_on = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        begins && text.chars().all(goes_on) && !NO_TEXT.contains(&text.to_lowercase().as_str())
    };
    match value.as_str() {
        Some(text) if is_word(text) => text.to_owned(),
        _ => value.to_string(),
    }
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn begins_item(line: &str, at: usize) -> bool {
    let rest = line.trim_end();
    indent(line) == at && (rest[at..].starts_with("- ") || &rest[at..] == "-")
}

/// The indentation of the list: that of its first item.
fn indent_of(text: &str) -> Option<usize> {
    text.lines().find(|line| begins_item(line, indent(line))).map(indent)
}

/// The lines of the item at `index`: from its dash to the last that is indented deeper.
fn lines_of(text: &str, index: usize) -> Option<Range<usize>> {
    let at = indent_of(text)?;
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &usize| begins_item(lines[*line], at);
    let begin = (0..lines.len()).filter(begins).nth(index)?;
    let next = (begin + 1..lines.len()).find(begins).unwrap_or(lines.len());
    let is_inside = |line: &usize| !lines[*line].trim().is_empty() && at < indent(lines[*line]);
    let end = (begin + 1..next).rev().find(is_inside).map_or(begin + 1, |last| last + 1);
    Some(begin..end)
}
