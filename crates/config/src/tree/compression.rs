//! Compression section: which answers are compressed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Compression of answers. Requests may come compressed by gzip or zstd in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compression {
    /// Whether whole JSON answers of a kilobyte and more are compressed by gzip or zstd for clients that send
    /// `accept-encoding`. It costs processor time; streams are never compressed.
    pub answers: bool,
}
