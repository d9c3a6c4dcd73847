//! Admission settings: maps the section `admission` to the core's admission control.

use overdraft_config::{self as config, Config};
use overdraft_core::admit::{AdmitSettings, ByPriority, Mode, QueueSettings};
use overdraft_gateway::AdmissionSettings;
use overdraft_units::Micros;

/// Missed scrapes after which a worker's reported load is stale.
const STALE_SCRAPES: u32 = 25;

/// When a worker takes one more request.
pub(super) fn route(config: &Config) -> AdmitSettings {
    let configured = &config.admission;
    let threshold = configured.kv_threshold;
    AdmitSettings {
        mode: mode(configured.mode),
        kv_threshold_permille: ByPriority {
            flex: threshold.flex.permille(),
            default: threshold.default.permille(),
            priority: threshold.priority.permille(),
        },
        watermark_permille: configured.watermark.permille(),
        fair_reserve_permille: configured.fair_reserve.permille(),
        prefill_backlog: Micros::from(configured.prefill_backlog.duration()),
        requests_max: configured.requests_max,
        stale_after: Micros::from(stale_after(&config.scrape)),
        ..AdmitSettings::default()
    }
}

/// A worker without work is asked less often, and is not therefore unknown.
fn stale_after(scrape: &config::Scrape) -> std::time::Duration {
    let busy = scrape.interval.duration() * STALE_SCRAPES;
    busy.max(scrape.idle_interval.duration() * 2)
}

/// How requests wait.
pub(super) fn waiting(configured: &config::Admission) -> AdmissionSettings {
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let (queue, wait) = (configured.queue, configured.first_token);
    AdmissionSettings {
        queue: QueueSettings {
            requests: count(queue.requests),
            tokens: queue.tokens,
            per_tenant: count(queue.per_tenant),
            held: count(queue.held),
        },
        first_token: ByPriority {
            flex: wait.flex.duration(),
            default: wait.default.duration(),
            priority: wait.priority.duration(),
        },
        hold: configured.hold.duration(),
        keep_alive: configured.keep_alive.duration(),
    }
}

const fn mode(configured: config::AdmissionMode) -> Mode {
    match configured {
        config::AdmissionMode::Peak => Mode::Peak,
        config::AdmissionMode::Threshold => Mode::Threshold,
        config::AdmissionMode::Reserve => Mode::Reserve,
        config::AdmissionMode::Static(requests) => Mode::Static(requests),
        config::AdmissionMode::Off => Mode::Off,
    }
}
