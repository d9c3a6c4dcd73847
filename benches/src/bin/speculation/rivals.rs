//! Which rules are measured against each other?

use anyhow::Result;
use overdraft_core::speculate::DepthTable;
use overdraft_engine::{Engine, Policy};
use overdraft_telemetry::Clock;

use crate::pair::{DEPTH, Drafters, Pair};

/// A rule with an engine of its own: what it has learnt is its own, too.
pub(crate) struct Rival {
    pub(crate) name: String,
    pub(crate) policy: Policy,
    pub(crate) engine: Engine,
}

impl Rival {
    /// Whether its depth never changes.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.policy, Policy::Fixed(_) | Policy::Off)
    }
}

/// All of them: no guesses, the fixed depths, and the rules that choose.
pub(crate) fn all(pair: Pair, depths: &[usize], clock: Clock) -> Result<Vec<Rival>> {
    let mut policies = vec![Policy::Off];
    policies.extend(depths.iter().map(|depth| Policy::Fixed((*depth).min(DEPTH))));
    policies.extend([
        Policy::Threshold,
        Policy::BatchTable(DepthTable::default()),
        Policy::Goodput,
    ]);
    policies.into_iter().map(|policy| one(pair, policy, Drafters::Both, clock)).collect()
}

/// One of them.
pub(crate) fn one(pair: Pair, policy: Policy, drafters: Drafters, clock: Clock) -> Result<Rival> {
    let engine = pair.start(&policy, drafters, clock)?;
    let name = match &policy {
        Policy::Fixed(depth) => format!("fixed:{depth}"),
        other => other.name().to_owned(),
    };
    Ok(Rival { name, policy, engine })
}
