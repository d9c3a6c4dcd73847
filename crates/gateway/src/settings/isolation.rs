//! Settings of tenant isolation: the secret of cache salts, and the fields that are stripped.

use overdraft_store::Secret;

/// Fields that end here unless the configuration says otherwise.
pub const STRIPPED: [&str; 4] =
    ["kv_transfer_params", "prompt_logprobs", "request_id", "vllm_xargs"];

/// How tenants are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolationSettings {
    /// What salts are made with, the same for all gateways before the same workers; drawn at the start
    /// where it is not given.
    pub salt_secret: Option<Secret>,
    /// Fields of requests that no worker is told, beside `priority`.
    pub strip: Vec<String>,
}

impl Default for IsolationSettings {
    fn default() -> Self {
        Self { salt_secret: None, strip: STRIPPED.map(str::to_owned).to_vec() }
    }
}

/// Whether a worker is told salts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaltPolicy {
    /// It is; one that does not know the field passes over it, as most do.
    #[default]
    Told,
    /// It is not, for it refuses fields it does not know. Its cache is then everybody's.
    Untold,
}
