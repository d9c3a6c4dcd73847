//! Maintenance settings: maps scaling, fragmentation and warm-up to the gateway's.

use std::collections::BTreeMap;

use overdraft_config as config;
use overdraft_core::memory_drift::FragmentSettings;
use overdraft_core::restart::Backoff;
use overdraft_core::scale::{Cooldown, Targets};
use overdraft_gateway::{
    Maintenance, MemorySource, RestartHook, RoutingSettings, ScaleSettings, WarmUp, WarmUpSettings,
    WebAddress, WebhookSettings,
};
use overdraft_units::Micros;
use overdraft_wire::prometheus::memory::MemoryNames;

/// The section `scaling`.
pub(super) fn scaling(configured: &config::Scaling) -> ScaleSettings {
    ScaleSettings {
        targets: Targets {
            kv_permille: configured.kv_target.permille(),
            waiting: configured.queue_target,
            running: configured.running_target,
        },
        cooldown: Cooldown {
            up: Micros::from(configured.cooldown_up.duration()),
            down: Micros::from(configured.cooldown_down.duration()),
        },
    }
}

/// The section `fragmentation`.
pub(super) fn repair(configured: &config::Fragmentation) -> FragmentSettings {
    FragmentSettings {
        threshold_permille: configured.threshold.permille(),
        lasting: Micros::from(configured.lasting.duration()),
        settle: Micros::from(configured.settle.duration()),
        drain: Micros::from(configured.drain.duration()),
        ready: Micros::from(configured.ready.duration()),
        backoff: Backoff {
            first: Micros::from(configured.backoff.duration()),
            max: Micros::from(configured.backoff_max.duration()),
        },
        kv_memory_permille: configured.kv_memory_share.permille(),
    }
}

/// The section `warm_up`.
pub(super) fn warm_up(configured: &config::WarmUp) -> WarmUpSettings {
    WarmUpSettings {
        prompt: configured.prompt.clone(),
        tokens: configured.tokens,
        timeout: configured.timeout.duration(),
    }
}

/// What one worker is given beyond requests.
///
/// `place` makes an address of a text, or what one will follow from.
pub(super) fn of_worker<P>(
    memory: Option<&config::Memory>,
    restart: Option<&config::Restart>,
    warm_up: bool,
    place: fn(&str) -> P,
) -> Maintenance<P> {
    Maintenance {
        memory: memory.map(|configured| self::memory(configured, place)),
        restart: restart.map(|configured| self::restart(configured, place)),
        warm_up: if warm_up { WarmUp::Always } else { WarmUp::AfterRepair },
    }
}

fn memory<P>(configured: &config::Memory, place: fn(&str) -> P) -> MemorySource<P> {
    MemorySource {
        place: place(&configured.url),
        names: MemoryNames {
            used: configured.used.clone(),
            free: configured.free.clone(),
            total: configured.total.clone(),
        },
        labels: configured.labels.clone().into_iter().collect(),
        interval: configured.interval.duration(),
    }
}

fn restart<P>(configured: &config::Restart, place: fn(&str) -> P) -> RestartHook<P> {
    let told = |hook: &config::Hook, place| RestartHook::Webhook(webhook(hook, place));
    match configured {
        config::Restart::Supervise(hook) => {
            told(hook, place(&format!("{}/restart", hook.url.trim_end_matches('/'))))
        }
        config::Restart::Webhook(hook) => told(hook, place(&hook.url)),
        config::Restart::Command(command) => {
            RestartHook::Command { argv: command.argv.clone(), timeout: command.timeout.duration() }
        }
    }
}

/// Who is told when requests for a model are held.
pub(super) fn wakes(models: &BTreeMap<String, config::Model>, settings: &mut RoutingSettings) {
    for (name, own) in &mut settings.models {
        let hook = models.get(name).and_then(|model| model.wake.as_ref());
        own.wake = hook.map(|hook| webhook(hook, place(&hook.url)));
    }
}

/// The service that is told at `place`.
fn webhook<P>(hook: &config::Hook, place: P) -> WebhookSettings<P> {
    let token = hook.token.as_ref().map(super::workers::token);
    WebhookSettings { place, token, timeout: hook.timeout.duration() }
}

/// An address that is known now.
pub(super) fn place(url: &str) -> WebAddress {
    WebAddress::parse(url).expect("the configuration was checked to hold addresses")
}
