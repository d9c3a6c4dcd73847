//! Speculation policies under comparison, each with an engine of its own.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use overdraft_engine::{Engine, Policy};
use overdraft_scheduler::speculate::DepthTable;
use overdraft_telemetry::Clock;
use overdraft_units::Micros;

use super::gate::Gate;
use super::pair::{DEPTH, Drafters, Pair};

/// Polling interval until an engine is ready, and the timeout.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const READY_MAX: Micros = Micros::new(60_000_000);

/// A rule with an engine of its own: what it has learnt is its own, too.
pub(crate) struct Rival {
    pub(crate) name: String,
    pub(crate) policy: Policy,
    /// Opened before the engine is stopped, which would wait for it.
    pub(crate) gate: Gate,
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
        Policy::ThresholdPerToken,
        Policy::BatchTable(DepthTable::default()),
        Policy::Goodput,
    ]);
    policies.into_iter().map(|policy| one(pair, policy, Drafters::Both, clock)).collect()
}

/// One of them, once it has measured what steps cost: two that measure at the same time measure each other.
#[expect(clippy::disallowed_methods, reason = "nothing else is done while it measures")]
pub(crate) fn one(pair: Pair, policy: Policy, drafters: Drafters, clock: Clock) -> Result<Rival> {
    let (gate, keeper) = Gate::new(clock);
    let engine = pair.start(&policy, drafters, Box::new(keeper), clock)?;
    let began = clock.now();
    while !engine.handle().stats().speculation.enabled {
        ensure!(clock.now().since(began) < READY_MAX, "`{policy}` is not ready within a minute");
        thread::sleep(LOOK_EVERY);
    }
    let name = match &policy {
        Policy::Fixed(depth) => format!("fixed:{depth}"),
        other => other.name().to_owned(),
    };
    Ok(Rival { name, policy, gate, engine })
}
