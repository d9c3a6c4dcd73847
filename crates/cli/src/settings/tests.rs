//! The mapping: defaults agree on both sides, and every section arrives.

use std::time::Duration;

use overdraft_config::Config;
use overdraft_core::route::{Canary, Policy, Sticky};
use overdraft_gateway::{GatewaySettings, KvEvents, Pool, TokenizerPlace, Tokenizing};

use super::{gateway, workers};

/// A configuration from YAML, read as the binary reads it.
fn config(text: &str) -> Config {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, text).expect("it is writable");
    let loader = overdraft_config::Loader::new(path);
    let loader = loader.with_variables(overdraft_config::Variables::default());
    loader.load().unwrap_or_else(|errors| panic!("{errors}")).config
}

#[test]
fn the_defaults_of_the_file_are_those_of_the_gateway() {
    let (ours, theirs) =
        (gateway(&Config::default(), Vec::new()), GatewaySettings::new(Vec::new()));
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

#[test]
fn every_section_that_is_followed_arrives() {
    let config = config(
        "workers: [{url: 'http://a:1'}, {url: 'http://b:2', name: b, pool: draft}]\n\
         model_default: m\n\
         limits: {requests: 9, streams: 8}\n\
         timeouts: {connect: 1ms, first_byte: 2ms, idle: 3ms, total: 4ms}\n\
         probe: {interval: 5ms, timeout: 6ms}\n\
         retry: {attempts_extra: 1, share: 30%, floor: 7}\n",
    );
    let settings = gateway(&config, workers(&config));
    let names: Vec<_> = settings.workers.iter().map(|it| (it.name.as_str(), it.pool)).collect();
    assert_eq!(names, [("a:1", Pool::Target), ("b", Pool::Draft)]);
    assert_eq!(settings.model_default.as_deref(), Some("m"));
    assert_eq!((settings.limits.requests, settings.limits.streams), (9, 8));
    let timeouts = &settings.timeouts;
    let spans = [timeouts.connect, timeouts.first_byte, timeouts.idle, timeouts.total];
    assert_eq!(spans, [1, 2, 3, 4].map(Duration::from_millis));
    let spans = [settings.probe.interval, settings.probe.timeout];
    assert_eq!(spans, [5, 6].map(Duration::from_millis));
    let retry = settings.retry;
    assert_eq!((retry.extra_attempts_max, retry.share_permille, retry.floor), (1, 300, 7));
}

#[test]
fn breakers_and_the_store_arrive_and_passwords_are_not_shown() {
    let config = config(
        "workers: [{url: 'http://a:1'}]\n\
         breaker: {failures: 100, failure_share: 60%, volume_min: 9, open_first: 1s, open_max: 2s, \
                   jitter: 1%, ejected_max: 10%, panic: 20%}\n\
         store: {url: 'redis+sentinel://me:s3cret@a:1,b:2/main/3', namespace: prod, timeout: 50ms, \
                 connect_timeout: 2s, board_interval: 25ms, share_interval: 100ms, ca_file: ca.pem, \
                 certificate_file: c.pem, key_file: k.pem}\n",
    );
    let settings = gateway(&config, Vec::new());
    let breaker = settings.breaker;
    assert_eq!((breaker.failures_in_a_row, breaker.failures_permille), (100, 600));
    assert_eq!((breaker.volume_min, breaker.jitter_permille), (9, 10));
    assert_eq!((breaker.open_first.get(), breaker.open_max.get()), (1_000_000, 2_000_000));
    assert_eq!((breaker.ejected_permille, breaker.panic_permille), (100, 200));
    let store = settings.store;
    assert_eq!(store.place.to_string(), "redis+sentinel://a:1,b:2/main/3");
    assert_eq!(store.namespace.to_string(), "prod");
    let spans = [store.timeout, store.board_interval, store.share_interval];
    assert_eq!(spans, [50, 25, 100].map(Duration::from_millis));
    assert!(store.tls.ca.is_some() && store.tls.certificate.is_some() && store.tls.key.is_some());
    let shown = format!("{:?} {}", config, config.effective_yaml());
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn routing_arrives_with_what_models_say_differently() {
    let config = config(
        "workers: [{url: 'http://a:1', model: m, kv_events: off}]\n\
         admin: {token: secret}\n\
         scrape: {interval: 1s, idle_interval: 3s, timeout: 4s, bytes_max: 1MiB}\n\
         routing: {policy: fit-score, sticky: {header: X-Session-Id, load_factor: 1.5}, \
                   tokenize: never, slow_start: 7s, prefix: {keys_max: 99}}\n\
         models:\n  m:\n    aliases: [gpt-4o]\n    policy: least-load\n    \
         canary: {policy: cost, share: 10%}\n    tokenizer: off\n\
         discovery:\n  - file: {path: more}\n  - dns: {name: w.local, port: 9, pool: draft}\n\
         termination: {cloud: aws, workers: [a]}\n",
    );
    let settings = gateway(&config, workers(&config));
    assert_eq!(settings.admin.token.as_deref(), Some("secret"));
    assert_eq!(settings.workers[0].model.as_deref(), Some("m"));
    assert_eq!(settings.workers[0].kv_events, KvEvents::Off);
    assert_eq!(settings.scrape.page_bytes, 1024 * 1024);
    let routing = &settings.routing;
    assert_eq!(routing.route.policy, Policy::FitScore);
    assert_eq!(routing.route.sticky, Some(Sticky { load_permille: 1_500 }));
    assert_eq!(routing.tokenizing, Tokenizing::Never);
    assert_eq!(routing.prefix.keys_max, 99);
    let own = &routing.models["m"];
    let route = own.route.expect("it differs");
    assert_eq!((route.policy, route.sticky), (Policy::LeastLoad, routing.route.sticky));
    assert_eq!(route.canary, Some(Canary { policy: Policy::Cost, share_permille: 100 }));
    assert_eq!((&own.aliases[0][..], &own.tokenizer), ("gpt-4o", &TokenizerPlace::Off));
    assert_eq!(settings.discovery.len(), 2);
    assert_eq!(settings.termination.expect("it is set").workers, ["a"]);
}
