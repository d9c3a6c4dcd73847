//! How many workers does each pool want, as told to autoscalers and to metrics?
//!
//! What is wanted is the core's to say (`overdraft_core::scale`); here the workers of a pool are
//! gathered, and the numbers for metrics held steady. KEDA's side is the crate `scaler`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use overdraft_core::route::model_number;
use overdraft_core::scale::{Hold, Load};
use overdraft_scaler::{ScaleSettings, Source};
use overdraft_telemetry::metrics::PoolGauges;
use overdraft_units::Instant;

use crate::admission::Lobby;
use crate::settings::Pool;
use crate::shared::Shared;

const POOLS: [Pool; 2] = [Pool::Target, Pool::Draft];

const POOL_NAMES: &[&str] = &[Pool::Target.name(), Pool::Draft.name()];

/// What metrics ask for, held steady.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<[Hold; POOLS.len()]>);

/// What each pool carries and wants now.
pub(crate) fn pools(shared: &Shared) -> Vec<PoolGauges> {
    let ScaleSettings { targets, cooldown } = shared.settings().scaling;
    let now = shared.clock.now();
    let loads = POOLS.map(|pool| load(shared, pool, None));
    let mut holds = shared.holds.0.lock().unwrap_or_else(PoisonError::into_inner);
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
fn load(shared: &Shared, pool: Pool, model: Option<&str>) -> Load {
    let now = shared.clock.now();
    let mut load = Load::default();
    let mut models = BTreeSet::new();
    let is_asked = |name: &str| model.is_none_or(|model| model == name);
    let router = shared.router();
    for (id, worker) in router.fleet().workers() {
        let member = shared.roster.member(id);
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
    let queued = Lobby::waiting_for(router.queue(), &models);
    drop(router);
    load.add_queued(u64::try_from(queued).unwrap_or(u64::MAX));
    load
}

/// The fleet as KEDA's scaler sees it.
#[derive(Debug)]
pub(crate) struct Fleet(pub(crate) Arc<Shared>);

impl Source for Fleet {
    fn pools(&self) -> &'static [&'static str] {
        POOL_NAMES
    }

    fn load(&self, pool: &str, model: Option<&str>) -> Load {
        let routes = self.0.routes();
        let model = model.map(|model| routes.model_behind(model).unwrap_or(model));
        let pool = POOLS.into_iter().find(|known| known.name() == pool);
        pool.map_or_else(Load::default, |pool| load(&self.0, pool, model))
    }

    fn settings(&self) -> ScaleSettings {
        self.0.settings().scaling
    }

    fn now(&self) -> Instant {
        self.0.clock.now()
    }
}
