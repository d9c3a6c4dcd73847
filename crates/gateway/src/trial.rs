//! Is another model, or another cascade, better than the one that clients ask for?
//!
//! A share of the requests for a name is answered as if it had asked for another name. Both sides are watched alike, and
//! the core says what differs: latency, cost, and how many answers are worse than a target's, as far as a cascade's
//! comparisons tell.
//!
//! Invariant: all requests of a session are on one side.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use overdraft_core::cascade::{Comparison, Findings, Label, Propensity};
use overdraft_core::cost::{Money, Prices, Usage};
use overdraft_core::route::Arm;
use overdraft_telemetry::AccessRecord;
use overdraft_telemetry::metrics::CanaryMetrics;
use overdraft_units::{Micros, Tokens};

/// What is tried on a share of the requests for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanarySettings {
    /// The model or cascade that is tried.
    pub model: String,
    /// Its share of the requests, in thousandths.
    pub share_permille: u16,
    /// What tokens cost where no cascade tells: of what has been in force, then of what is tried.
    pub prices: Option<[Prices; 2]>,
}

/// What is on trial, by the names that clients ask for.
#[derive(Debug)]
pub(crate) struct Trials {
    all: ArcSwap<BTreeMap<String, Arc<Trial>>>,
    metrics: CanaryMetrics,
}

/// One comparison.
#[derive(Debug)]
struct Trial {
    name: String,
    settings: CanarySettings,
    seen: Mutex<Comparison>,
}

/// The side of one request.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    trial: Arc<Trial>,
    arm: Arm,
}

impl Trials {
    pub(crate) fn new(settings: &BTreeMap<String, CanarySettings>, metrics: CanaryMetrics) -> Self {
        let trials = Self { all: ArcSwap::default(), metrics };
        trials.adopt(settings);
        trials
    }

    /// Puts other settings in force; a trial that stays as it was goes on.
    pub(crate) fn adopt(&self, settings: &BTreeMap<String, CanarySettings>) {
        let before = self.all.load_full();
        let trial = |(name, settings): (&String, &CanarySettings)| {
            let known = before.get(name).filter(|known| known.settings == *settings);
            let new = || {
                let (name, settings) = (name.clone(), settings.clone());
                Arc::new(Trial { name, settings, seen: Mutex::default() })
            };
            (name.clone(), known.map_or_else(new, Arc::clone))
        };
        self.all.store(Arc::new(settings.iter().map(trial).collect()));
    }

    /// The side of a request for `named`, if that is on trial.
    pub(crate) fn side(
        &self,
        named: &str,
        session: impl FnOnce() -> Option<u64>,
        dice: u64,
    ) -> Option<Side> {
        let all = self.all.load();
        let trial = Arc::clone(all.get(named)?);
        let arm = Arm::of_model(trial.settings.share_permille, session(), dice);
        Some(Side { trial, arm })
    }

    /// A request on that side has ended, after so long where it was answered; whether a cascade keeps books of it.
    pub(crate) fn ended(
        &self,
        (side, has_books): (&Side, bool),
        record: &AccessRecord,
        total: Option<Micros>,
    ) {
        let Side { trial, arm } = side;
        self.metrics.ended(&trial.name, arm.name(), total.is_some());
        let Some(total) = total else { return };
        side.note(|seen| seen.took(*arm, total));
        if !has_books
            && let Some((prompt, completion)) = record.prompt.zip(record.completion)
            && let Some([baseline, canary]) = trial.settings.prices
        {
            let prices = if *arm == Arm::Canary { canary } else { baseline };
            let cached = record.cached.unwrap_or(Tokens::ZERO);
            side.cost(prices.of(Usage { prompt, cached, completion }));
        }
    }

    /// Sets the gauges anew.
    pub(crate) fn set_gauges(&self) {
        let all = self.all.load();
        let told: Vec<(String, Findings)> =
            all.iter().map(|(name, trial)| (name.clone(), trial.findings())).collect();
        self.metrics.set(&told);
    }
}

impl Trial {
    fn findings(&self) -> Findings {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).findings()
    }
}

impl Side {
    /// What the request is answered as if it had asked for.
    pub(crate) fn asks_for(&self) -> &str {
        match self.arm {
            Arm::Baseline => &self.trial.name,
            Arm::Canary => &self.trial.settings.model,
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
        note(&mut self.trial.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
