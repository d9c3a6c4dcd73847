//! Rendered prompt of a chat: its text, and where a client's text spells control tokens.

/// A rendered prompt, and where in it a client's text spells control tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    text: String,
    /// Ascending offsets.
    inert: Vec<usize>,
}

impl Rendered {
    /// From the text and the ascending offsets where no control token may begin.
    pub(crate) const fn new(text: String, inert: Vec<usize>) -> Self {
        Self { text, inert }
    }

    /// The prompt.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether no control token may begin at this offset.
    pub fn is_inert(&self, start: usize) -> bool {
        self.inert.binary_search(&start).is_ok()
    }
}
