//! JSON prelude: fields prepended to the client's JSON body, without copying it.
//!
//! A patch copies a request, and a request may be 400 KB long. Members that it does not have can
//! come first: then the request itself is sent without a copy. **Invariant:** every byte after the
//! opening brace is sent unchanged.

use bytes::Bytes;
use serde::Serialize;

/// Members that an object is to begin with. It must not have them already: who reads it would
/// see them twice.
#[derive(Clone, Debug, Default)]
pub struct Prelude {
    /// Their text, with a comma behind each.
    text: String,
}

impl Prelude {
    /// None.
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// One more: `name` with the value `value`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &impl Serialize) -> Self {
        self.text.push_str(&serde_json::to_string(name).expect("a string serialises"));
        self.text.push(':');
        let value = serde_json::to_string(value).expect("values that are told have string keys");
        self.text.push_str(&value);
        self.text.push(',');
        self
    }

    /// The text of the object `source` in two pieces: its beginning with these members, and its rest,
    /// which is not copied. `None` where `source` does not begin as an object does.
    pub fn before(&self, source: &Bytes) -> Option<[Bytes; 2]> {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let brace = source.iter().position(|byte| !is_space(byte))?;
        let rest = source.slice(brace + 1..);
        let is_bare = match (source[brace], rest.iter().find(|byte| !is_space(byte))?) {
            (b'{', b'}') => true,
            (b'{', _) => false,
            _ => return None,
        };
        // An object without members of its own has nothing to be kept apart from.
        let told = self.text.strip_suffix(',').filter(|_| is_bare).unwrap_or(&self.text);
        Some([format!("{{{told}").into(), rest])
    }
}
