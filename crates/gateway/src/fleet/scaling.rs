//! Autoscaling: how many workers each pool wants, as told to autoscalers and to metrics.
//!
//! The core computes the wanted number (`overdraft_core::scale`); this file sums up the workers of
//! a pool, and applies the cooldown to the numbers for metrics. KEDA's side is the crate `scaler`.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use overdraft_core::route::model_number;
use overdraft_core::scale::Load;
use overdraft_scaler::ScaleSettings;
use overdraft_telemetry::metrics::PoolGauges;
use overdraft_units::Instant;

use super::Fleet;
use super::state::POOLS;
use crate::settings::{Pool, Source, drafts};

const POOL_NAMES: &[&str] = &[Pool::Target.name(), Pool::Draft.name()];

/// What each pool carries and wants now.
pub(crate) fn pools(fleet: &Fleet) -> Vec<PoolGauges> {
    let ScaleSettings { targets, cooldown } = fleet.settings().scaling;
    let now = fleet.dispatcher.clock.now();
    let loads = POOLS.map(|pool| load(fleet, pool, None));
    let mut holds = fleet.holds.0.lock().unwrap_or_else(PoisonError::into_inner);
    let told = POOLS.iter().zip(loads).zip(holds.iter_mut()).map(|((pool, load), hold)| {
        let desired = load.desired(targets).workers();
        PoolGauges {
            pool: pool.name(),
            load,
            wants: load.wants(targets),
            workers: hold.observe(desired, cooldown, now),
        }
    });
    told.collect()
}

/// What a pool carries, or those of it that serve `model` or are there for it; what waits for a model in this gateway,
/// or in others that share its store, counts for each pool that has it. A draft that a cascade misses counts as one that
/// waits.
fn load(fleet: &Fleet, pool: Pool, model: Option<&str>) -> Load {
    let now = fleet.dispatcher.clock.now();
    let asked = model.map(model_number);
    let is_asked = |model: u64| asked.is_none_or(|asked| asked == model);
    let mut load = Load::default();
    let (mut ours, mut others) = (BTreeSet::new(), BTreeSet::new());
    let router = fleet.dispatcher.view();
    for (id, worker) in router.fleet().workers() {
        let member = fleet.dispatcher.member(id);
        let served = worker.models().iter().map(String::as_str);
        let models = served.chain(member.settings.model.as_deref()).map(model_number);
        let models: BTreeSet<u64> = models.filter(|model| is_asked(*model)).collect();
        if member.settings.pool != pool {
            others.extend(models);
            continue;
        }
        if model.is_none() || !models.is_empty() {
            load.add(worker, now);
        }
        ours.extend(models);
    }
    let waiting = fleet.dispatcher.waiting_everywhere(&router);
    drop(router);
    // Who waits for a model that no worker has yet is what one is to be started for.
    let is_missed = |model: u64| !others.contains(&model) && is_home(fleet, pool, model);
    for (model, count) in waiting.into_iter().filter(|(model, _)| is_asked(*model)) {
        if ours.contains(&model) || is_missed(model) {
            load.add_queued(count);
        }
    }
    load
}

/// Whether workers of a model that no worker has are to come in this pool: as discovery says, or else where they were
/// before, or else where a cascade's draft is. What is held for any other model waits for the targets.
fn is_home(fleet: &Fleet, pool: Pool, model: u64) -> bool {
    let settings = fleet.settings();
    let is_it = |named: &str| model_number(named) == model;
    let named = settings.discovery.iter().filter(|source| source.model().is_some_and(is_it));
    let mut homes: BTreeSet<Pool> = named.filter_map(Source::pool).collect();
    if homes.is_empty() {
        homes = fleet.models.seen_in(model);
    }
    if !homes.is_empty() {
        return homes.contains(&pool);
    }
    let is_draft = drafts(&settings.cascades).any(|draft| is_it(&draft));
    pool == if is_draft { Pool::Draft } else { Pool::Target }
}

/// The fleet as KEDA's scaler sees it.
#[derive(Debug)]
pub(crate) struct ScaleSource(pub(crate) Arc<Fleet>);

impl overdraft_scaler::Source for ScaleSource {
    fn pools(&self) -> &'static [&'static str] {
        POOL_NAMES
    }

    fn load(&self, pool: &str, model: Option<&str>) -> Load {
        let routes = self.0.dispatcher.routes();
        let model = model.map(|model| routes.model_behind(model).unwrap_or(model));
        let pool = POOLS.into_iter().find(|known| known.name() == pool);
        pool.map_or_else(Load::default, |pool| load(&self.0, pool, model))
    }

    fn settings(&self) -> ScaleSettings {
        self.0.settings().scaling
    }

    fn now(&self) -> Instant {
        self.0.dispatcher.clock.now()
    }
}
