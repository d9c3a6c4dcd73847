//! Circuit breaker and store settings: maps the sections `breaker` and `store`.

use overdraft_config as config;
use overdraft_core::breaker::BreakerSettings;
use overdraft_store::{Namespace, Place, StoreSettings, TlsFiles};
use overdraft_units::Micros;

pub(super) fn breaker(configured: config::Breaker) -> BreakerSettings {
    BreakerSettings {
        failures_in_a_row: configured.failures.max(1),
        failures_permille: configured.failure_share.permille(),
        volume_min: configured.volume_min.max(1),
        open_first: micros(configured.open_first),
        open_max: micros(configured.open_max),
        jitter_permille: configured.jitter.permille(),
        ejected_permille: configured.ejected_max.permille(),
        panic_permille: configured.panic.permille(),
        dice: 0,
    }
}

fn micros(span: config::TimeSpan) -> Micros {
    Micros::from(span.duration())
}

/// The store; opening it refuses an invalid address.
pub(crate) fn store(configured: &config::Store) -> StoreSettings {
    StoreSettings {
        place: Place::parse(configured.url.reveal()).unwrap_or_else(Place::Wrong),
        namespace: Namespace::parse(&configured.namespace).unwrap_or_default(),
        timeout: configured.timeout.duration(),
        connect_timeout: configured.connect_timeout.duration(),
        tls: TlsFiles {
            ca: configured.ca_file.clone(),
            certificate: configured.certificate_file.clone(),
            key: configured.key_file.clone(),
        },
        board_interval: configured.board_interval.duration(),
        share_interval: configured.share_interval.duration(),
    }
}
