//! Admin section: the operators' listener, and who may use it.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// Access to `/admin`, and its address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Bearer token for `/admin`; without a token it answers clients on this machine only. Best given as `${NAME}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// Separate address for `/admin`, `/metrics` and probes, as in `0.0.0.0:9091`; the address for clients then has
    /// neither `/admin` nor `/metrics`. Without this key, all are at the address for clients.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::address::address_if_any"
    )]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
    /// Host names that the separate address accepts, besides IP addresses and `localhost`. For another host name it
    /// answers only probes, and requests with the token.
    pub hosts: Vec<String>,
    /// File to which each call that changes something is appended as a line of JSON, beside the log. While the file
    /// cannot be opened, such calls are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_log: Option<PathBuf>,
}
