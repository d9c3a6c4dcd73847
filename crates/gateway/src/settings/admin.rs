//! Settings of the admin endpoints.

/// Who may use `/admin` and have decisions explained.
#[derive(Clone, Default)]
pub struct AdminSettings {
    /// Whoever presents this as a bearer token. Without one, whoever comes over the loopback
    /// interface.
    pub token: Option<String>,
}

impl std::fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("AdminSettings").field("token", &token).finish()
    }
}
