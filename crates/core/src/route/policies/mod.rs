//! Table of routing policies: the function that chooses for each.
//!
//! A new policy is a file here and a line in the table.

mod prefix_affinity;
mod round_robin;
mod two_choices;

use super::candidate::Decision;
use super::decision_scene::Scene;
use super::peers::{cache_aware, dynamo, llm_d, random};
use super::policy::Policy;
use super::{cost, fit_score, least_load};
use crate::fleet::WorkerId;

impl Policy {
    pub(super) fn choose(self, scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
        match self {
            Self::Cost => cost::choose(scene, decision),
            Self::FitScore => fit_score::choose(scene, decision),
            Self::PrefixAffinity => prefix_affinity::choose(scene, decision),
            Self::LeastLoad => least_load::choose(scene, decision),
            Self::TwoChoices => two_choices::choose(scene, decision),
            Self::RoundRobin => round_robin::choose(scene, decision),
            Self::Random => random::choose(scene, decision),
            Self::CacheAware => cache_aware::choose(scene, decision),
            Self::Dynamo => dynamo::choose(scene, decision),
            Self::LlmD => llm_d::choose(scene, decision),
        }
    }
}
