//! Autoscaling: how many workers each pool wants, as told to autoscalers and to metrics.
//!
//! The core computes the wanted number (`overdraft_core::scale`); this file sums up the workers of
//! a pool, and applies the cooldown to the numbers for metrics. KEDA's side is the crate `scaler`.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use overdraft_core::route::model_number;
use overdraft_core::scale::Load;
use overdraft_scaler::{ScaleSettings, Source};
use overdraft_telemetry::metrics::PoolGauges;
use overdraft_units::Instant;

use super::Fleet;
use super::state::POOLS;
use crate::dispatch::WaitQueue;
use crate::settings::Pool;

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

/// What a pool carries, or those of it that serve `model` or are there for it; what waits in the
/// gateway for a model counts for each pool that has it.
fn load(fleet: &Fleet, pool: Pool, model: Option<&str>) -> Load {
    let now = fleet.dispatcher.clock.now();
    let mut load = Load::default();
    let mut models = BTreeSet::new();
    let is_asked = |name: &str| model.is_none_or(|model| model == name);
    let router = fleet.dispatcher.view();
    for (id, worker) in router.fleet().workers() {
        let member = fleet.dispatcher.member(id);
        if member.settings.pool != pool {
            continue;
        }
        let served = worker.models().iter().map(String::as_str);
        let mut asked =
            served.chain(member.settings.model.as_deref()).filter(|name| is_asked(name)).peekable();
        if model.is_none() || asked.peek().is_some() {
            load.add(worker, now);
        }
        models.extend(asked.map(model_number));
    }
    if pool == Pool::Target {
        // Who waits for a model that no worker has yet is what it is to be started for.
        let routes = fleet.dispatcher.routes();
        let configured = routes.settings.models.keys().map(String::as_str).chain(model);
        let unserved =
            configured.filter(|name| is_asked(name) && router.fleet().serving(name).is_none());
        models.extend(unserved.map(model_number));
    }
    let queued = WaitQueue::waiting_for(router.queue(), &models);
    drop(router);
    load.add_queued(u64::try_from(queued).unwrap_or(u64::MAX));
    load
}

/// The fleet as KEDA's scaler sees it.
#[derive(Debug)]
pub(crate) struct ScaleSource(pub(crate) Arc<Fleet>);

impl Source for ScaleSource {
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
