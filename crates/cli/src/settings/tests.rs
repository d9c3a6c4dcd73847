//! The mapping: defaults agree on both sides, and nothing that is set is silently dropped.

use std::time::Duration;

use overdraft_config::{Config, Discovery, Policy, TimeSpan, WatchedFile};
use overdraft_gateway::{GatewaySettings, Pool};

use super::{gateway, without_effect, workers};

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
    assert_eq!(without_effect(&config), [""; 0]);
}

#[test]
fn what_is_not_followed_is_named() {
    let mut config = config("workers: [{url: 'http://a:1', model: m, kv_events: off}]\n");
    config.routing.policy = Policy::RoundRobin;
    config.scrape.interval = TimeSpan::from_secs(1);
    config.discovery.push(Discovery::File(WatchedFile { path: "more".into() }));
    let named = ["discovery", "routing", "scrape", "workers[].model", "workers[].kv_events"];
    assert_eq!(without_effect(&config), named);
}
