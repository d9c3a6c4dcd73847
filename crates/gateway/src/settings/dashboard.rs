//! Settings of the dashboard.

/// Requests that may be kept at most: at about a kilobyte each, 64 MiB.
pub(crate) const REQUESTS_KEPT_MAX: usize = 65_536;

/// Requests that are kept where nothing is said.
const REQUESTS_KEPT: usize = 4_096;

/// The dashboard, and what is kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DashboardSettings {
    /// Whether the page is served, and seconds are sampled for its graphs.
    pub is_on: bool,
    /// Requests that are kept with their decisions, 65,536 at most; 0 keeps none.
    pub requests: usize,
}

impl Default for DashboardSettings {
    fn default() -> Self {
        Self { is_on: true, requests: REQUESTS_KEPT }
    }
}
