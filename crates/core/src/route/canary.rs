//! Canary assignment: which arm of a comparison a request belongs to.

use super::policy::Policy;
use crate::hash_mix::mix;

/// A policy on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    /// The policy that decides for its share.
    pub policy: Policy,
    /// Its share of the requests, in thousandths.
    pub share_permille: u16,
}

/// An arm of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arm {
    /// The control arm.
    #[default]
    Baseline,
    /// The canary arm.
    Canary,
}

impl Arm {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Canary => "canary",
        }
    }
}

impl Arm {
    /// The arm of a request for a model with a canary model: the same for a whole session, and
    /// independent of the arm of a canary policy.
    pub fn of_model(share_permille: u16, session: Option<u64>, dice: u64) -> Self {
        drawn(share_permille, mix(session.unwrap_or(dice), DRAW_MODEL))
    }
}

/// Stream id that separates this draw from others of the same number.
const DRAW: u64 = 0x6361_6e61_7279_0001;
/// The same for the draw of a model.
const DRAW_MODEL: u64 = 0x6361_6e61_7279_0002;

fn drawn(share_permille: u16, number: u64) -> Arm {
    if number % 1_000 < u64::from(share_permille) { Arm::Canary } else { Arm::Baseline }
}

impl Canary {
    /// The side of a request; the same for all of a session, or a conversation would change sides
    /// and leave its prefix behind.
    pub fn arm(self, session: Option<u64>, dice: u64) -> Arm {
        drawn(self.share_permille, mix(session.unwrap_or(dice), DRAW))
    }
}
