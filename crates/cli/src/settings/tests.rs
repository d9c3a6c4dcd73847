//! The mapping: defaults agree on both sides, and every section arrives.

use std::time::Duration;

use overdraft_config::Config;
use overdraft_core::route::{Canary, Policy, Sticky};
use overdraft_gateway::{
    GatewaySettings, KvEvents, Pool, RestartHook, TokenizerPlace, Tokenizing, WarmUp,
};

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

#[test]
fn scaling_and_care_arrive() {
    let config = config(
        "workers:\n  - url: http://a:1\n    warm_up: true\n    memory: {url: 'http://a:9400/metrics', \
         labels: {gpu: '0'}, interval: 5s}\n    restart: {supervise: {url: 'http://a:7', token: t}}\n\
         \x20 - url: http://b:2\n    memory: {url: 'http://b:9/m', used: u, total: t}\n    \
         restart: {command: {argv: [systemctl, restart, engine], timeout: 9s}}\n\
         scaling: {listen: '127.0.0.1:9090', kv_target: 60%, queue_target: 50, running_target: 64, \
         cooldown_up: 1s, cooldown_down: 2s}\n\
         fragmentation: {threshold: 20%, lasting: 3s, settle: 4s, drain: 5s, ready: 6s, backoff: 7s, \
         backoff_max: 8s, kv_memory_share: 30%}\n\
         warm_up: {prompt: hi, tokens: 2, timeout: 9s}\n",
    );
    let settings = gateway(&config, workers(&config));
    let scaling = settings.scaling;
    let targets = (scaling.targets.kv_permille, scaling.targets.waiting, scaling.targets.running);
    assert_eq!(targets, (600, 50, 64));
    assert_eq!((scaling.cooldown.up.get(), scaling.cooldown.down.get()), (1_000_000, 2_000_000));
    let repair = settings.repair;
    assert_eq!((repair.threshold_permille, repair.kv_memory_permille), (200, 300));
    let spans = [repair.lasting, repair.settle, repair.drain, repair.ready];
    assert_eq!(spans.map(|span| span.get() / 1_000_000), [3, 4, 5, 6]);
    let (first, max) = (repair.backoff.first.get(), repair.backoff.max.get());
    assert_eq!((first, max), (7_000_000, 8_000_000));
    let warm_up = &settings.warm_up;
    assert_eq!((&warm_up.prompt[..], warm_up.tokens), ("hi", 2));
    let [one, other] = &settings.workers[..] else { panic!("two workers") };
    assert_eq!((one.care.warm_up, other.care.warm_up), (WarmUp::Always, WarmUp::AfterRepair));
    let memory = one.care.memory.as_ref().expect("it is set");
    assert_eq!(memory.place.to_string(), "http://a:9400/metrics");
    assert_eq!(memory.labels, [("gpu".to_owned(), "0".to_owned())]);
    let Some(RestartHook::Webhook(hook)) = &one.care.restart else { panic!("it is told") };
    assert_eq!(hook.place.to_string(), "http://a:7/restart");
    assert!(!format!("{:?}", one.care).contains("\"t\""), "a token is never shown");
    let Some(RestartHook::Command { argv, .. }) = &other.care.restart else { panic!("it runs") };
    assert_eq!(argv[0], "systemctl");
    let names = &other.care.memory.as_ref().expect("it is set").names;
    assert_eq!((names.used.as_deref(), names.total.as_deref()), (Some("u"), Some("t")));
}
