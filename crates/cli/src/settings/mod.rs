//! What does a configuration mean for the gateway?
//!
//! One function per section, so that a key that the gateway learns to follow is one line here. What
//! it does not follow yet is listed in [`WITHOUT_EFFECT`] and told at start: a setting that is
//! silently ignored is worse than one that is refused.

#[cfg(test)]
mod tests;

use overdraft_config::{self as config, Config, KvEvents};
use overdraft_core::route::RetrySettings;
use overdraft_gateway::{GatewaySettings, Limits, Pool, ProbeSettings, Timeouts, WorkerSettings};

/// Sections at the top that are read and checked, and that the gateway does not follow yet.
const WITHOUT_EFFECT: &[&str] =
    &["admin", "discovery", "models", "routing", "scrape", "termination"];

/// The settings of a gateway before `workers`.
pub(crate) fn gateway(config: &Config, workers: Vec<WorkerSettings>) -> GatewaySettings {
    let mut settings = GatewaySettings::new(workers);
    settings.model_default.clone_from(&config.model_default);
    limits(config.limits, &mut settings.limits);
    timeouts(&config.timeouts, &mut settings.timeouts);
    probe(&config.probe, &mut settings.probe);
    settings.retry = retry(config.retry);
    settings
}

/// The workers with a fixed address.
pub(crate) fn workers(config: &Config) -> Vec<WorkerSettings> {
    config.workers.iter().map(worker).collect()
}

/// What is configured and not followed yet, by its key.
pub(crate) fn without_effect(config: &Config) -> Vec<String> {
    let mut keys = config.changes(&Config::default());
    keys.retain(|key| WITHOUT_EFFECT.contains(&key.as_str()));
    let named = |key: &str, is_set: &dyn Fn(&config::Worker) -> bool| {
        config.workers.iter().any(is_set).then(|| format!("workers[].{key}"))
    };
    keys.extend(named("model", &|worker| worker.model.is_some()));
    keys.extend(named("kv_events", &|worker| worker.kv_events != KvEvents::Auto));
    keys
}

fn worker(configured: &config::Worker) -> WorkerSettings {
    let mut worker = WorkerSettings::new(configured.url.clone());
    configured.name().clone_into(&mut worker.name);
    worker.pool = pool(configured.pool);
    worker
}

const fn pool(configured: config::Pool) -> Pool {
    match configured {
        config::Pool::Target => Pool::Target,
        config::Pool::Draft => Pool::Draft,
    }
}

fn limits(configured: config::Limits, limits: &mut Limits) {
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    limits.requests = count(configured.requests);
    limits.streams = count(configured.streams);
}

const fn timeouts(configured: &config::Timeouts, timeouts: &mut Timeouts) {
    timeouts.connect = configured.connect.duration();
    timeouts.first_byte = configured.first_byte.duration();
    timeouts.idle = configured.idle.duration();
    timeouts.total = configured.total.duration();
}

const fn probe(configured: &config::Probe, probe: &mut ProbeSettings) {
    probe.interval = configured.interval.duration();
    probe.timeout = configured.timeout.duration();
}

const fn retry(configured: config::Retry) -> RetrySettings {
    RetrySettings {
        extra_attempts_max: configured.attempts_extra,
        share_permille: configured.share.permille(),
        floor: configured.floor,
    }
}
