//! Settings of compression: whether answers are made shorter for clients that ask for it.

/// What is compressed. Requests are taken compressed in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressionSettings {
    /// Whether whole JSON answers are, which costs processor time.
    pub answers: bool,
}
