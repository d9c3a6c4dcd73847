//! Version of the configuration's form: which releases read a file.
//!
//! A key is renamed or dropped only with a new version, and the release that brings one still reads the version before it.

use serde::{Deserialize, Deserializer};

/// The newest form that this release reads.
pub(crate) const NEWEST: u32 = 1;

/// A version between the first and the newest, refused with a sentence that says which are read.
pub(crate) fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let version = u32::deserialize(deserializer)?;
    if (1..=NEWEST).contains(&version) {
        return Ok(version);
    }
    Err(serde::de::Error::custom(format!(
        "`{version}` is not a version that this release reads; expected {NEWEST}"
    )))
}
