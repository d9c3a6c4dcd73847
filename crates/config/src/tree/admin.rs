//! Admin section: the operators' listener, and who may use it.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// Who may use `/admin`, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// The bearer token that `/admin` asks for; without one it answers clients on this machine
    /// only. Best given as `${NAME}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// Where `/admin`, `/metrics` and probes are answered apart from clients, as in `0.0.0.0:9091`;
    /// clients then find neither `/admin` nor `/metrics`. Without it, all are where clients connect.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::address::address_if_any"
    )]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
    /// Names by which that listener may be asked, besides addresses and `localhost`; by another name
    /// it answers only probes, and requests with the token.
    pub hosts: Vec<String>,
    /// A file to whose end each call that changes something is written, as a line of JSON, beside the log. While it
    /// cannot be opened, such calls are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_log: Option<PathBuf>,
}
