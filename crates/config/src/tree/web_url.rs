//! Web addresses as views show them: without query, for a webhook's or a collector's is often its key.

use serde::Serializer;

use crate::quoting::without_credentials;

/// An address, perhaps none.
pub(crate) trait WebUrl {
    /// As it was configured.
    fn address(&self) -> Option<&str>;
}

impl WebUrl for String {
    fn address(&self) -> Option<&str> {
        Some(self)
    }
}

impl WebUrl for Option<String> {
    fn address(&self) -> Option<&str> {
        self.as_deref()
    }
}

/// Writes an address as it may be shown.
pub(crate) fn shown<U: WebUrl, S: Serializer>(url: &U, serializer: S) -> Result<S::Ok, S::Error> {
    match url.address() {
        Some(address) => serializer.serialize_str(&without_credentials(address)),
        None => serializer.serialize_none(),
    }
}
