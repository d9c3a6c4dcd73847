//! Member removal: takes members out of an event's JSON and leaves every other byte.
//!
//! A quote within a text is escaped, so `"name"` behind a brace or a comma and before a colon is a
//! member wherever it stands; no tree is built.

use std::borrow::Cow;

use memchr::memmem;

/// The event without the members of these names, at any depth.
pub fn without<'a>(event: &'a [u8], names: &[&str]) -> Cow<'a, [u8]> {
    let mut out = Cow::Borrowed(event);
    for name in names {
        let quoted = format!("\"{name}\"");
        while let Some((from, to)) = find(&out, quoted.as_bytes()) {
            out.to_mut().drain(from..to);
        }
    }
    out
}

/// Where a member stands, with the comma that it has to its left or, if it is the first, to its right.
fn find(event: &[u8], quoted: &[u8]) -> Option<(usize, usize)> {
    memmem::find_iter(event, quoted).find_map(|at| {
        let before = event[..at].trim_ascii_end();
        let colon = at + quoted.len() + spaces(&event[at + quoted.len()..]);
        if !matches!(before.last(), Some(b'{' | b',')) || event.get(colon) != Some(&b':') {
            return None;
        }
        let value = colon + 1 + spaces(&event[colon + 1..]);
        let end = value + length(&event[value..])?;
        if before.ends_with(b",") {
            return Some((before.len() - 1, end));
        }
        let next = end + spaces(&event[end..]);
        Some((at, if event.get(next) == Some(&b',') { next + 1 } else { end }))
    })
}

fn spaces(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}

/// Bytes of the value that `text` begins with.
fn length(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_u32, 0);
    loop {
        match *text.get(at)? {
            b'"' => at += string(&text[at..])?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' | b',' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

/// Bytes of the string that `text` begins with.
fn string(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}
