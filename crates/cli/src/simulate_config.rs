//! A configuration file as one more fleet of `overdraft simulate`.
//!
//! What the file says of routing, admission, waiting, retries, hedging, scrapes, KV events, answers that are
//! given again and guessing counts as it would live; the fleet itself and the load are the command line's.

use std::path::Path;

use overdraft_config::{Config, KvEvents, Loader, WorkerSource};
use overdraft_core::admit::ByPriority;
use overdraft_gateway::CacheMode;
use overdraft_gpu_model::Catalogue;
use overdraft_scheduler::speculate::Policy as Depth;
use overdraft_sim::fleet::{AnswerCache, CacheKnowledge, LOOK_UP_DEFAULT, Pool, Scenario};
use overdraft_units::Micros;

use crate::fault::Fault;
use crate::settings;
use crate::simulate::{self, Arguments};
use crate::workload_options::Load;

/// The fleet that the file at `path` makes, and what to call it.
///
/// # Errors
/// A file that cannot be used, or decisions that cannot be simulated.
pub(crate) fn fleet(
    arguments: &Arguments,
    path: &Path,
    load: &Load,
    pools: &[Pool],
    profiles: &Catalogue,
) -> Result<(String, Scenario), Fault> {
    let loaded = Loader::new(path).with_workers(WorkerSource::Elsewhere).load()?;
    let settings = settings::gateway(&loaded.config, Vec::new());
    let route = settings.routing.route;
    let mut scenario = simulate::scenario(arguments, load, pools, route.policy)?;
    arguments.decisions.add_cascade(&mut scenario, profiles)?;
    scenario.routing = route;
    scenario.queue = settings.admission.queue;
    let patience = settings.admission.first_token;
    scenario.patience = ByPriority {
        flex: patience.flex.into(),
        default: patience.default.into(),
        priority: patience.priority.into(),
    };
    scenario.hedging = settings.hedging;
    if loaded.config.workers.iter().any(|one| matches!(one.kv_events, KvEvents::At(_))) {
        scenario.knowledge = CacheKnowledge::Reported;
    }
    scenario.retry = settings.retry;
    scenario.scrape_every = Micros::from(settings.scrape.interval).max(Micros::new(1_000));
    scenario.cache = (settings.cache.mode == CacheMode::On).then(|| AnswerCache {
        bytes: settings.cache.memory_bytes,
        kept: Micros::from(settings.cache.life),
        takes: LOOK_UP_DEFAULT,
    });
    scenario.speculation = match depth(&loaded.config)? {
        Some(Depth::Off) => None,
        said => arguments.decisions.guessing(said)?,
    };
    let label = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok((label, scenario))
}

/// The rule for the depth of drafts that the file names.
fn depth(config: &Config) -> Result<Option<Depth>, Fault> {
    let said = config.speculation.policy.as_deref();
    let parsed = said.map(str::parse::<Depth>).transpose();
    parsed.map_err(|error| Fault::input(format!("`speculation.policy`: {error}")))
}
