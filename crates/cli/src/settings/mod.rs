//! Settings: maps a configuration to the gateway's settings, one function per section.
//!
//! A new configuration key is one line here. Invariant: every key has an effect; a setting that is
//! silently ignored is worse than one that is refused.

mod admission;
mod cache;
mod cascade;
mod jwt;
mod keys;
mod maintenance;
mod prices;
mod routing;
mod sources;
mod store;
#[cfg(test)]
mod tests;
pub(crate) mod tls;
mod tracing;
mod workers;

pub(crate) use self::cascade::cascade;
pub(crate) use self::prices::of_tokens;
pub(crate) use self::store::store;
pub(crate) use self::workers::{worker, workers};

use std::sync::Arc;

use overdraft_config::{self as config, Config};
use overdraft_core::hedge::{self, HedgeSettings};
use overdraft_core::resume::{self, ResumeSettings};
use overdraft_core::route::RetrySettings;
use overdraft_gateway::{
    AdminSettings, CompressionSettings, CorsSettings, DashboardSettings, GatewaySettings,
    HeaderPattern, HeaderSettings, Limits, Pool, ProbeSettings, RequestBounds, ScrapeFailure,
    ScrapeSettings, Timeouts, WorkerSettings,
};
use overdraft_http::Http2Limits;
use overdraft_units::Micros;

/// The settings of a gateway before `workers`.
pub(crate) fn gateway(config: &Config, workers: Vec<WorkerSettings>) -> GatewaySettings {
    let mut settings = GatewaySettings::new(workers);
    settings.discovery = config.discovery.iter().map(sources::source).collect();
    settings.model_default.clone_from(&config.model_default);
    limits(config.limits, &mut settings.limits);
    listen(config, &mut settings.listen);
    settings.tls = config.tls.as_ref().map(tls::listener);
    timeouts(&config.timeouts, &mut settings.timeouts);
    probe(&config.probe, &mut settings.probe);
    scrape(&config.scrape, &mut settings.scrape);
    settings.retry = retry(config.retry);
    settings.resume = resume(config.resume);
    settings.hedging = hedging(config.hedging);
    settings.breaker = store::breaker(config.breaker);
    settings.store = store(&config.store);
    settings.cache = cache::cache(&config.cache);
    settings.responses = cache::responses(&config.responses);
    settings.isolation = cache::isolation(&config.isolation);
    settings.routing = routing::routing(&config.routing, &config.timeouts, &config.models);
    maintenance::wakes(&config.models, &mut settings.routing);
    settings.cascade_state.clone_from(&config.cascade_state);
    settings.cascades = cascade::cascades(&config.cascades);
    settings.canaries = cascade::canaries(&config.canaries);
    settings.routing.route.admission = admission::route(config);
    for own in settings.routing.models.values_mut() {
        if let Some(route) = &mut own.route {
            route.admission = settings.routing.route.admission;
        }
    }
    settings.admission = admission::waiting(&config.admission);
    settings.keys = config.all_keys().filter_map(keys::key).collect();
    settings.door = keys::door(config);
    settings.jwt = config.jwt.as_ref().and_then(jwt::jwt);
    settings.termination = sources::termination(&config.termination);
    settings.admin = admin(&config.admin);
    settings.dashboard = dashboard(&config.dashboard);
    settings.compression = compression(config.compression);
    settings.cors = cors(&config.cors);
    settings.headers = headers(&config.headers);
    settings.prices = prices::prices(&config.prices);
    settings.tracing = tracing::tracing(&config.tracing);
    settings.scaling = maintenance::scaling(&config.scaling);
    settings.repair = maintenance::repair(&config.fragmentation);
    settings.warm_up = maintenance::warm_up(&config.warm_up);
    settings
}

fn admin(configured: &config::Admin) -> AdminSettings {
    let token = configured.token.as_ref().map(|token| token.reveal().to_owned());
    let (hosts, audit_log) = (configured.hosts.clone(), configured.audit_log.clone());
    AdminSettings { token, hosts, audit_log }
}

fn dashboard(configured: &config::Dashboard) -> DashboardSettings {
    DashboardSettings {
        is_on: configured.enabled,
        requests: usize::try_from(configured.requests).unwrap_or(usize::MAX),
    }
}

const fn compression(configured: config::Compression) -> CompressionSettings {
    CompressionSettings { answers: configured.answers }
}

fn cors(configured: &config::Cors) -> CorsSettings {
    CorsSettings { origins: configured.origins.clone(), max_age: configured.max_age.duration() }
}

/// The patterns have been checked.
fn headers(configured: &config::Headers) -> Option<Arc<HeaderSettings>> {
    if *configured == config::Headers::default() {
        return None;
    }
    let read = |names: &[String]| -> Vec<HeaderPattern> {
        names.iter().filter_map(|name| HeaderPattern::parse(name)).collect()
    };
    let is_any = configured.to_clients.iter().any(|name| name == "*");
    let to_clients = (!is_any).then(|| read(&configured.to_clients));
    Some(Arc::new(HeaderSettings { to_workers: read(&configured.to_workers), to_clients }))
}

fn scrape(configured: &config::Scrape, scrape: &mut ScrapeSettings) {
    scrape.interval = configured.interval.duration();
    scrape.idle_interval = configured.idle_interval.duration();
    scrape.timeout = configured.timeout.duration();
    scrape.page_bytes = usize::try_from(configured.bytes_max.bytes()).unwrap_or(usize::MAX);
    scrape.failure = match configured.failure {
        config::ScrapeFailure::Keep => ScrapeFailure::Keep,
        config::ScrapeFailure::Unhealthy => ScrapeFailure::Unhealthy,
    };
}

fn resume(configured: config::Resume) -> ResumeSettings {
    let mode = match configured.mode {
        config::ResumeMode::Auto => resume::Mode::Auto,
        config::ResumeMode::Off => resume::Mode::Off,
    };
    let config::Resume { attempts, tokens, drain_after, patience, .. } = configured;
    let micros = |span: config::TimeSpan| Micros::from(span.duration());
    let (drain_after, patience) = (micros(drain_after), micros(patience));
    ResumeSettings { mode, attempts_max: attempts, tokens_max: tokens, drain_after, patience }
}

fn hedging(configured: config::Hedging) -> HedgeSettings {
    let mode = match configured.mode {
        config::HedgingMode::On => hedge::Mode::On,
        config::HedgingMode::Off => hedge::Mode::Off,
    };
    HedgeSettings { mode, budget_permille: configured.budget.permille() }
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
    limits.event_bytes = usize::try_from(configured.event_bytes.bytes()).unwrap_or(usize::MAX);
    limits.of_request = RequestBounds {
        prompt_tokens: configured.prompt_tokens,
        max_tokens: configured.max_tokens,
        max_tokens_default: configured.max_tokens_default,
    };
}

fn listen(config: &Config, listen: &mut overdraft_http::Limits) {
    let bytes = |size: config::ByteSize| usize::try_from(size.bytes()).unwrap_or(usize::MAX);
    let limits = &config.limits;
    listen.connections = usize::try_from(limits.connections_max()).unwrap_or(usize::MAX);
    listen.body_bytes = bytes(limits.body_bytes);
    listen.bodies_bytes = bytes(limits.bodies_bytes);
    listen.body = config.timeouts.body.duration();
    listen.idle = config.timeouts.client_idle.duration();
    listen.write_stall = config.timeouts.client_stall.duration();
    listen.lame_duck = config.shutdown.lame_duck.duration();
    listen.drain = config.shutdown.drain.duration();
    listen.http2 = http2(config.http2);
}

fn http2(configured: config::Http2) -> Option<Http2Limits> {
    configured.enabled.then_some(Http2Limits { streams: configured.max_concurrent_streams })
}

const fn timeouts(configured: &config::Timeouts, timeouts: &mut Timeouts) {
    timeouts.connect = configured.connect.duration();
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
