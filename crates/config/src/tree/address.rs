//! Socket addresses of a configuration, and the sentence for what is none.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer};

/// An IP address and a port, refused with a sentence that says so.
pub(crate) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        serde::de::Error::custom(format!(
            "`{text}` is not an address; expected an IP address and a port, as in `127.0.0.1:8080` \
             or `[::]:8080`"
        ))
    })
}

/// The same where it may be left out.
pub(crate) fn address_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    address(deserializer).map(Some)
}
