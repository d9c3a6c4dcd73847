//! Filter `indent`, with jinja2's lines: a line end at the end of the text stays, as Command R+ counts on.

use minijinja::value::Kwargs;
use minijinja::{Error, Value};

/// Columns unless the template says how many.
const WIDTH: usize = 4;
/// Characters at most: a template comes from a model's file.
const WIDTH_MAX: usize = 64;

/// Indents all lines but the first, and but empty ones, unless it is told otherwise.
#[expect(clippy::needless_pass_by_value, reason = "a filter gets its arguments by value")]
pub(super) fn indent(
    text: &str,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<String, Error> {
    let width = width.map_or_else(|| named.get::<Option<Value>>("width"), |it| Ok(Some(it)))?;
    let first = first.map_or_else(|| named.get::<Option<bool>>("first"), |it| Ok(Some(it)))?;
    let blank = blank.map_or_else(|| named.get::<Option<bool>>("blank"), |it| Ok(Some(it)))?;
    named.assert_all_used()?;
    let indention = match width {
        None => " ".repeat(WIDTH),
        Some(width) => match width.as_str() {
            Some(text) => text.chars().take(WIDTH_MAX).collect(),
            None => " ".repeat(usize::try_from(width)?.min(WIDTH_MAX)),
        },
    };
    let mut out = String::with_capacity(text.len() + indention.len());
    for (at, line) in lines(text).enumerate() {
        if 0 < at {
            out.push('\n');
        }
        let is_indented = match at {
            0 => first == Some(true),
            _ => blank == Some(true) || !line.is_empty(),
        };
        if is_indented {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Lines as Python's `splitlines` cuts them; what follows the last line end counts, also where it is empty.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(is_line_end) else {
            rest = None;
            return Some(text);
        };
        let after = &text[end..];
        let length = if after.starts_with("\r\n") {
            2
        } else {
            after.chars().next().map_or(0, char::len_utf8)
        };
        rest = Some(&after[length..]);
        Some(&text[..end])
    })
}

const fn is_line_end(letter: char) -> bool {
    matches!(
        letter,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}
