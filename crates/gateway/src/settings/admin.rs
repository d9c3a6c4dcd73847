//! Settings of the operators' side: who may use `/admin`, and what their listener takes.

use std::path::PathBuf;
use std::time::Duration;

use overdraft_http::Limits;

/// Connections to the listener for operators: probes, scrapers, dashboards and their streams.
const CONNECTIONS_MAX: usize = 128;

/// How long requests of operators may go on once the last client is gone.
const DRAIN: Duration = Duration::from_secs(1);

/// Who may use `/admin` and have decisions explained.
#[derive(Clone, Default)]
pub struct AdminSettings {
    /// Whoever presents this as a bearer token. Without one, whoever comes over the loopback
    /// interface.
    pub token: Option<String>,
    /// Names by which operators reach their listener, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The file to which each call that changes something is written, if any.
    pub audit_log: Option<PathBuf>,
}

impl AdminSettings {
    /// Bounds of the listener for operators.
    pub(crate) fn limits() -> Limits {
        Limits { connections: CONNECTIONS_MAX, drain: DRAIN, ..Limits::default() }
    }
}

impl std::fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        let mut shown = f.debug_struct("AdminSettings");
        shown.field("token", &token).field("hosts", &self.hosts);
        shown.field("audit_log", &self.audit_log).finish()
    }
}
