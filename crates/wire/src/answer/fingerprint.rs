//! Fingerprint: `system_fingerprint`, which some engines tell once, with a stream's last event.
//!
//! vLLM gives it to the event with the finish reason or, where token counts are asked for, to the event
//! that tells them. Who asks for counts on its own and keeps them back puts the fingerprint where it
//! would have been.

use memchr::{memchr2, memmem};
use serde::Deserialize;
use serde_json::value::RawValue;

const NAME: &str = "\"system_fingerprint\"";

/// Whether an event has a member of this name; a quote within a text is escaped.
pub fn names_fingerprint(event: &[u8]) -> bool {
    memmem::find(event, NAME.as_bytes()).is_some()
}

/// `event` with the fingerprint of another event's data as its last member; `None` where that tells
/// none, or `event` is not a single line of JSON.
pub fn with_fingerprint(event: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let told: Told<'_> = serde_json::from_slice(data).ok()?;
    let fingerprint = told.system_fingerprint?.get();
    let line = event.trim_ascii_end();
    let object = line.strip_prefix(b"data:")?.strip_suffix(b"}")?;
    if memchr2(b'\n', b'\r', object).is_some() {
        return None;
    }
    let (head, tail) = event.split_at(line.len() - 1);
    Some([head, b",", NAME.as_bytes(), b":", fingerprint.as_bytes(), tail].concat())
}

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    system_fingerprint: Option<&'a RawValue>,
}
