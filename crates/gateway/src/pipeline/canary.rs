//! Canaries: whether another model, or another cascade, is better than the one that clients ask for.
//!
//! A share of the requests for a name is answered as if it had asked for another name. Both arms
//! are measured alike, and the core compares latency, cost, and the share of answers that are worse
//! than a target's, as far as a cascade's shadow comparisons tell.
//!
//! Invariant: all requests of a session are in one arm.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use overdraft_core::cascade::{Comparison, Findings, Label, Propensity};
use overdraft_core::cost::{Money, Prices, Usage};
use overdraft_core::route::Arm;
use overdraft_telemetry::metrics::CanaryMetrics;
use overdraft_units::{Micros, Tokens};

use super::facts::RequestFacts;
use crate::settings::{CanarySettings, GatewaySettings};

/// What is on canary, by the names that clients ask for.
#[derive(Debug)]
pub(crate) struct Canaries {
    all: ArcSwap<BTreeMap<String, Arc<Canary>>>,
    metrics: CanaryMetrics,
}

/// One comparison.
#[derive(Debug)]
struct Canary {
    name: String,
    settings: CanarySettings,
    seen: Mutex<Comparison>,
}

/// The side of one request.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    canary: Arc<Canary>,
    arm: Arm,
}

impl Canaries {
    pub(crate) fn new(settings: &BTreeMap<String, CanarySettings>, metrics: CanaryMetrics) -> Self {
        let canaries = Self { all: ArcSwap::default(), metrics };
        canaries.adopt(settings);
        canaries
    }

    /// Puts other settings in force; a canary that stays as it was goes on.
    pub(crate) fn adopt(&self, settings: &BTreeMap<String, CanarySettings>) {
        let before = self.all.load_full();
        let canary = |(name, settings): (&String, &CanarySettings)| {
            let known = before.get(name).filter(|known| known.settings == *settings);
            let new = || {
                let (name, settings) = (name.clone(), settings.clone());
                Arc::new(Canary { name, settings, seen: Mutex::default() })
            };
            (name.clone(), known.map_or_else(new, Arc::clone))
        };
        self.all.store(Arc::new(settings.iter().map(canary).collect()));
    }

    /// The side of a request for `named`, if that is on canary.
    pub(crate) fn side(
        &self,
        named: &str,
        session: impl FnOnce() -> Option<u64>,
        dice: u64,
    ) -> Option<Side> {
        let all = self.all.load();
        let canary = Arc::clone(all.get(named)?);
        let arm = Arm::of_model(canary.settings.share_permille, session(), dice);
        Some(Side { canary, arm })
    }

    /// A request on that side has ended, after so long where it was answered. `settings` are nothing where a cascade
    /// keeps books of what it costs.
    pub(crate) fn ended(
        &self,
        side: &Side,
        facts: &RequestFacts,
        total: Option<Micros>,
        settings: Option<&GatewaySettings>,
    ) {
        let Side { canary, arm } = side;
        self.metrics.ended(&canary.name, arm.name(), total.is_some());
        let Some(total) = total else { return };
        side.note(|seen| seen.took(*arm, total));
        if let Some(settings) = settings
            && let Some((prompt, completion)) = facts.prompt.zip(facts.completion)
            && let Some(prices) = canary.prices(*arm, facts, settings)
        {
            let cached = facts.cached.unwrap_or(Tokens::ZERO);
            side.cost(prices.of(Usage { prompt, cached, completion }));
        }
    }

    /// Sets the gauges anew.
    pub(crate) fn set_gauges(&self) {
        let all = self.all.load();
        let told: Vec<(String, Findings)> =
            all.iter().map(|(name, canary)| (name.clone(), canary.findings())).collect();
        self.metrics.set(&told);
    }
}

impl Canary {
    /// What tokens of an answer on that side cost: where another model stood in, as that model's do, if they are known.
    fn prices(&self, arm: Arm, facts: &RequestFacts, settings: &GatewaySettings) -> Option<Prices> {
        let [baseline, canary] = self.settings.prices?;
        match &facts.stand_in {
            Some(model) => settings.prices.of_model(model, &settings.cascades),
            None => Some(if arm == Arm::Canary { canary } else { baseline }),
        }
    }

    fn findings(&self) -> Findings {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).findings()
    }
}

impl Side {
    /// What the request is answered as if it had asked for.
    pub(crate) fn asks_for(&self) -> &str {
        match self.arm {
            Arm::Baseline => &self.canary.name,
            Arm::Canary => &self.canary.settings.model,
        }
    }

    /// What the answer cost.
    pub(crate) fn cost(&self, cost: Money) {
        self.note(|seen| seen.cost(self.arm, cost));
    }

    /// What the answer was worth beside the target's, and how likely that was to be looked at; nothing where it is the
    /// target's own, or was not drawn.
    pub(crate) fn judged(&self, looked: Option<(Label, Propensity)>) {
        self.note(|seen| seen.judged(self.arm, looked));
    }

    fn note(&self, note: impl FnOnce(&mut Comparison)) {
        note(&mut self.canary.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
