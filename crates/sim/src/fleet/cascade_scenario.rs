//! Cascade of a scenario: the draft pool, the gate and the kinds of requests.

use overdraft_core::cascade::{Settings, Windows};
use overdraft_gpu_model::Profile;

/// A draft pool, and what its answers are worth.
#[derive(Clone, Debug, PartialEq)]
pub struct CascadeScenario {
    /// What each draft worker is.
    pub draft: Profile,
    /// How many there are; 1 or more.
    pub workers: u32,
    /// How the gate is meant.
    pub settings: Settings,
    /// How long the windows of a draft are that is shown while it speaks; nothing judges it when it is whole.
    pub windows: Option<Windows>,
    /// Kinds of requests.
    pub kinds: Vec<RequestKind>,
}

/// Requests that are alike to the draft model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestKind {
    /// How often they come, beside the others.
    pub weight: f64,
    /// The chance that the draft's answer is worse than the target's.
    pub worse: f64,
    /// The mean surprise of a token that the draft says, in nats.
    pub surprise: f64,
}
