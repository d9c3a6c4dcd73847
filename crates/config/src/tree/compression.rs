//! Compression section: which answers are compressed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Compression of answers. Requests may always be compressed by gzip or zstd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compression {
    /// Whether non-streamed JSON answers of a kilobyte or more are compressed by gzip or zstd, for clients that send
    /// `accept-encoding`. It costs processor time; streams are never compressed.
    pub answers: bool,
}
