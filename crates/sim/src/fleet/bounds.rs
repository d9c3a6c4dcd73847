//! Bounds of a simulated fleet, and the names of what it serves.

use overdraft_core::fleet;
use overdraft_units::{BlockSize, Micros};

/// Workers of a simulated fleet at most.
pub const WORKERS_MAX: u32 = {
    assert!(fleet::WORKERS_MAX <= 1_024, "a fleet's places fit");
    1_024
};

/// Gateways of a simulated fleet at most.
pub const GATEWAYS_MAX: u32 = 64;

/// How often gateways tell each other what they have in flight, as their own default.
pub(super) const SHARE_EVERY: Micros = Micros::new(150_000);

/// What all workers serve.
pub(super) const MODEL: &str = "simulated";

/// What the draft pool serves.
pub(super) const DRAFT_MODEL: &str = "simulated-draft";

/// Tokens that a vocabulary has; only their being equal counts.
pub(super) const VOCABULARY: u32 = 128_000;

/// Tokens per page where nobody says, as vLLM's.
pub(super) const PAGE: BlockSize = BlockSize::new(16).expect("sixteen is not zero");
