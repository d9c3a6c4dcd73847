//! The mapping: defaults agree on both sides, and every section arrives.

use overdraft_units::Ratio;
use overdraft_wire::dialect::Dialect;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use http::HeaderName;
use overdraft_config::{Config, Timeouts};
use overdraft_core::admit::{self, Priority};
use overdraft_core::cascade::Mode;
use overdraft_core::deadline::{FIRST_TOKEN_LEAST, Patience, STALL_LEAST, TOTAL_LEAST};
use overdraft_core::response_cache::Reuse;
use overdraft_core::route::{Canary, Policy, Sticky};
use overdraft_gateway::{
    CacheMode, CascadeSettings, GatewaySettings, GenAi, HeaderPattern, HeaderSettings,
    JwtAlgorithm, KeyDigest, KeySetPlace, KvEvents, Pool, RestartHook, SaltPolicy, ScrapeFailure,
    Source, Template, TokenizerPlace, Tokenizing, WarmUp,
};
use overdraft_tls::{Identity, Trust};

use super::{gateway, workers};

/// A configuration from YAML, read as the binary reads it.
fn config(text: &str) -> Config {
    read(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The same, or what is wrong with it.
fn read(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, text).expect("it is writable");
    let loader = overdraft_config::Loader::new(path);
    let loader = loader.with_variables(overdraft_config::Variables::default());
    loader.load().map(|loaded| loaded.config).map_err(|errors| errors.to_string())
}

#[test]
fn the_defaults_of_the_file_are_those_of_the_gateway() {
    let (ours, theirs) =
        (gateway(&Config::default(), Vec::new()), GatewaySettings::new(Vec::new()));
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

/// The configuration judges what is set by them and does not depend on the core, which waits by them.
#[test]
fn the_least_limits_of_time_are_those_of_the_core() {
    let limits = [
        (Timeouts::FIRST_BYTE_LEAST, FIRST_TOKEN_LEAST),
        (Timeouts::IDLE_LEAST, STALL_LEAST),
        (Timeouts::TOTAL_LEAST, TOTAL_LEAST),
    ];
    for (configured, waited) in limits {
        assert_eq!(configured.duration(), Duration::from(waited));
    }
}

#[test]
fn every_section_that_is_followed_arrives() {
    let config = config(
        "workers: [{url: 'http://a:1'}, {url: 'http://b:2', name: b, pool: draft}]\n\
         model_default: m\n\
         limits: {connections: 17, requests: 9, streams: 8}\n\
         shutdown: {lame_duck: 11s, drain: 12s}\n\
         http2: {max_concurrent_streams: 13}\n\
         compression: {answers: true}\n\
         admin: {listen: '0.0.0.0:9091', hosts: [gateway-admin], audit_log: /a/b.jsonl}\n\
         cors: {origins: ['https://app.example.com'], max_age: 1h}\n\
         headers: {to_workers: [x-team-*], to_clients: [etag]}\n\
         timeouts: {connect: 1ms, first_byte: 2ms, idle: 3ms, total: 4ms}\n\
         probe: {interval: 5ms, timeout: 6ms}\n\
         retry: {attempts_extra: 1, share: 30%, floor: 7}\n",
    );
    let settings = gateway(&config, workers(&config));
    let names: Vec<_> = settings.workers.iter().map(|it| (it.name.as_str(), it.pool)).collect();
    assert_eq!(names, [("a:1", Pool::Target), ("b", Pool::Draft)]);
    assert_eq!(settings.model_default.as_deref(), Some("m"));
    assert_eq!((settings.limits.requests, settings.limits.streams), (9, 8));
    assert_eq!(settings.timeouts.connect, Duration::from_millis(1));
    let deadlines = settings.routing.route.deadlines;
    let limits = [deadlines.first_token, deadlines.stall, deadlines.total];
    assert_eq!(limits, [2, 3, 4].map(Duration::from_millis).map(Patience::from));
    let spans = [settings.probe.interval, settings.probe.timeout];
    assert_eq!(spans, [5, 6].map(Duration::from_millis));
    let retry = settings.retry;
    let listen = &settings.listen;
    assert_eq!((listen.connections, listen.lame_duck), (17, Duration::from_secs(11)));
    assert_eq!(listen.drain, Duration::from_secs(12));
    assert_eq!(listen.http2.map(|it| it.streams), Some(13));
    assert!(settings.compression.answers);
    assert_eq!(settings.admin.hosts, ["gateway-admin"]);
    assert_eq!(settings.admin.audit_log.as_deref(), Some(Path::new("/a/b.jsonl")));
    let named = |name| vec![HeaderPattern::parse(name).expect("a name")];
    let headers = HeaderSettings { to_workers: named("x-team-*"), to_clients: Some(named("etag")) };
    assert_eq!(settings.headers.as_deref(), Some(&headers));
    assert_eq!(settings.cors.origins, ["https://app.example.com"]);
    assert_eq!(settings.cors.max_age, Duration::from_hours(1));
    assert_eq!((retry.extra_attempts_max, retry.share_permille, retry.floor), (1, 300, 7));
}

/// The configuration refuses by name what the gateway lets through by no pattern.
#[test]
fn headers_that_never_pass_are_the_same_on_both_sides() {
    let is_refused = |key: &str, name: &str| {
        let text = format!("workers: [{{url: 'http://a:1'}}]\nheaders: {{{key}: ['{name}']}}\n");
        read(&text).is_err()
    };
    let any = HeaderPattern::parse("*").expect("a pattern");
    let all = HeaderSettings { to_workers: vec![any.clone()], to_clients: Some(vec![any]) };
    for name in [
        "accept",
        "accept-encoding",
        "accept-language",
        "access-control-allow-credentials",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "api-key",
        "authorization",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "date",
        "etag",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "server",
        "set-cookie",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
        "x-api-key",
        "x-data-parallel-rank",
        "x-forwarded-for",
        "x-overdraft-priority",
        "x-request-id",
        "x-team",
    ] {
        let header = HeaderName::try_from(name).expect("a name");
        assert_eq!(is_refused("to_workers", name), !all.go_to_workers(&header), "{name}");
        assert_eq!(is_refused("to_clients", name), !all.go_to_clients(&header), "{name}");
    }
    assert!(is_refused("to_workers", "X-Overdraft-*") && !is_refused("to_workers", "x-*"));
}

#[test]
fn cascades_arrive() {
    let config = config(
        "workers: [{url: 'http://a:1'}]\n\
         keys: [{key: abc, tenant: acme, cascade: false}]\n\
         cascades:\n\
         \x20 chat:\n\
         \x20   {draft: small, target: big, mode: verify, loss: 2%, threshold: 60%, slowdown: any, \
                 window: {first: 8, next: 16}, shadow: {share: 10%, floor: 2%, at_once: 3}, \
                 prices: {draft: {prompt: 0.05, completion: $0.1}, \
                          target: {prompt: 1, cached: 0.25, completion: 2}}, \
                 tenants_out: [acme]}\n\
         \x20 big: {draft: small}\n",
    );
    let settings = gateway(&config, Vec::new());
    let chat = &settings.cascades["chat"];
    assert_eq!((chat.draft.as_str(), chat.target.as_str()), ("small", "big"));
    assert_eq!((chat.mode, chat.threshold), (Mode::Verify, Some(Ratio::percent(60))));
    assert_eq!((chat.first_window, chat.next_window, chat.at_once), (8, 16, 3));
    assert_eq!(chat.slowdown, None);
    assert_eq!((chat.loss, chat.shadow.start), (Ratio::percent(2), Ratio::percent(10)));
    let [draft, target] = chat.prices.expect("they were named");
    assert_eq!((draft.prompt.get(), draft.cached.get()), (50_000, 50_000));
    assert_eq!((target.cached.get(), target.completion.get()), (250_000, 2_000_000));
    assert!(chat.tenants_out.contains("acme"));
    assert!(!settings.keys[0].cascade);
    // What is not said is as the gateway has it.
    assert_eq!(settings.cascades["big"], CascadeSettings::new("small", "big"));
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
fn tracing_and_prices_arrive_and_the_collector_s_key_is_not_shown() {
    let config = config(
        "workers: [{url: 'http://a:1'}]\n\
         tracing: {endpoint: 'http://c:4318', headers: {x-key: s3cret}, sample: 1%, parents: ignore, \
                   gen_ai: latest, service: llm, attributes: {tier: edge}, timeout: 3s}\n\
         prices: {models: {m: {prompt: 0.5, completion: 2}}, pools: {target: 4.1}, workers: {a: 2}}\n",
    );
    let settings = gateway(&config, Vec::new());
    let tracing = settings.tracing.expect("it has an endpoint");
    assert_eq!((tracing.sample_permille, tracing.gen_ai), (10, GenAi::Latest));
    assert_eq!(tracing.parents, overdraft_otlp::Parents::Ignored);
    let exporter = &tracing.exporter;
    assert_eq!(exporter.endpoint.to_string(), "http://c:4318/v1/traces");
    assert_eq!((exporter.headers.len(), exporter.timeout), (1, Duration::from_secs(3)));
    let said: Vec<_> = exporter.resource.iter().map(|one| one.key.as_ref()).collect();
    assert_eq!(said, ["service.name", "service.version", "tier"]);
    let prices = &settings.prices;
    let model = prices.models["m"];
    assert_eq!(
        (model.prompt.get(), model.cached.get(), model.completion.get()),
        (500_000, 500_000, 2_000_000)
    );
    assert_eq!((prices.pools[&Pool::Target], prices.workers["a"]), (4_100_000, 2_000_000));
    let shown = format!("{config:?} {} {exporter:?}", config.effective_yaml());
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn routing_arrives_with_what_models_say_differently() {
    let config = config(
        "workers: [{url: 'http://a:1', model: m, kv_events: off}]\n\
         admin: {token: secret}\n\
         scrape: {interval: 1s, idle_interval: 3s, timeout: 4s, bytes_max: 1MiB, failure: unhealthy}\n\
         routing: {policy: fit-score, sticky: {header: X-Session-Id, load_factor: 1.5}, \
                   tokenize: never, slow_start: 7s, prefix: {keys_max: 99}}\n\
         models:\n  m:\n    aliases: [gpt-4o]\n    policy: least-load\n    \
         canary: {policy: cost, share: 10%}\n    tokenizer: off\n    dialects: {responses: pass}\n\
         discovery:\n  - file: {path: more}\n  - dns: {name: w.local, port: 9, pool: draft, each: {warm_up: true, cache_salt: off, \
         restart: {supervise: {url: 'http://{host}:7'}}}}\n\
         termination: {cloud: aws, workers: [a]}\n",
    );
    let settings = gateway(&config, workers(&config));
    assert_eq!(settings.admin.token.as_deref(), Some("secret"));
    assert_eq!(settings.workers[0].model.as_deref(), Some("m"));
    assert_eq!(settings.workers[0].kv_events, KvEvents::Off);
    assert_eq!(settings.scrape.page_bytes, 1024 * 1024);
    assert_eq!(settings.scrape.failure, ScrapeFailure::Unhealthy);
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
    assert_eq!(own.passed, [Dialect::Responses]);
    let [_, Source::Dns(dns)] = settings.discovery.as_slice() else { panic!("{settings:?}") };
    assert_eq!(
        (dns.each.traits.cache_salt, dns.each.maintenance.warm_up),
        (SaltPolicy::Untold, WarmUp::Always)
    );
    let Some(RestartHook::Webhook(hook)) = &dns.each.maintenance.restart else { panic!("{dns:?}") };
    assert_eq!(hook.place, Template::new("http://{host}:7/restart"));
    assert_eq!(settings.termination.expect("it is set").workers, ["a"]);
}

#[test]
fn certificates_and_keys_of_workers_arrive() {
    let config = config(
        "tls: {certificate_file: own.pem, key_file: own.key, client_ca_file: clients.pem}
workers:
  - url: https://a:1
    api_key: secret
    api_key_header: X-Api-Key
    tls: {ca_file: ca.pem, certificate_file: c.pem, key_file: c.key, server_name: w.example}
  - {url: 'https://b:1', tls: {insecure_skip_verify: true}}
discovery:
  - dns: {name: w.local, port: 9, scheme: https}
  - dns: {name: v.local, port: 9, each: {tls: {}}}
  - dns: {name: u.local, port: 9}
",
    );
    let settings = gateway(&config, workers(&config));
    let own = settings.tls.expect("it is set");
    assert_eq!(own.client_authorities, Some("clients.pem".into()));
    let [first, second] = settings.workers.as_slice() else { panic!("there are two") };
    let (name, key) = first.traits.key_header().expect("it has a key");
    assert_eq!((name.as_str(), key.as_bytes()), ("x-api-key", &b"secret"[..]));
    let identity = Identity { certificate: "c.pem".into(), key: "c.key".into() };
    assert_eq!(first.traits.tls.trust, Trust::Authorities("ca.pem".into()));
    assert_eq!(first.traits.tls.identity, Some(identity));
    assert_eq!(first.traits.tls.server_name.as_deref(), Some("w.example"));
    assert_eq!(second.traits.tls.trust, Trust::Anyone);
    let encrypted = settings.discovery.iter().map(|source| match source {
        Source::Dns(dns) => dns.each.is_encrypted,
        _ => panic!("{source:?}"),
    });
    assert_eq!(encrypted.collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn keys_and_admission_arrive_and_no_key_is_shown() {
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let config = config(&format!(
        "workers: [{{url: 'http://a:1', priority_scheduling: true}}]\n\
         keys:\n\
         - {{tenant: acme, key: abc, name: web, priority: flex, priority_max: default, \
            models: [m], requests_per_minute: 7, tokens_per_minute: 8}}\n\
         - {{tenant: bolt, key_sha256: {}}}\n\
         scrape: {{interval: 1s, idle_interval: 60s}}\n\
         models: {{m: {{policy: least-load}}}}\n\
         admission: {{mode: 'static:5', watermark: 3%, fair_reserve: 4%, prefill_backlog: 2s, requests_max: 6, \
            kv_threshold: {{flex: 10%, default: 20%, priority: 30%}}, \
            queue: {{requests: 40, tokens: 50, per_tenant: 30}}, \
            first_token: {{flex: 1s, default: 2s, priority: 3s}}}}\n",
        digest.replace("ba", "bb").to_uppercase(),
    ));
    let settings = gateway(&config, workers(&config));
    assert!(settings.workers[0].traits.priority_scheduling);
    let [acme, bolt] = &settings.keys[..] else { panic!("there are two keys") };
    assert_eq!(Some(acme.digest), KeyDigest::from_hex(digest));
    assert_eq!(Some(bolt.digest), KeyDigest::from_hex(&digest.replace("ba", "bb")));
    assert_eq!((acme.tenant.as_str(), acme.name.as_deref()), ("acme", Some("web")));
    assert_eq!((acme.priority, acme.priority_max), (Priority::Flex, Priority::Default));
    assert_eq!((bolt.priority, bolt.priority_max), (Priority::Default, Priority::Priority));
    assert_eq!(acme.models, Some(BTreeSet::from(["m".to_owned()])));
    let budget = (acme.budget.requests_per_minute, acme.budget.tokens_per_minute);
    assert_eq!(budget, (NonZeroU32::new(7), NonZeroU32::new(8)));
    assert!(!format!("{settings:?}").contains("abc"));
    let admission = settings.routing.route.admission;
    assert_eq!(settings.routing.models["m"].route.expect("it differs").admission, admission);
    assert_eq!((admission.mode, admission.requests_max), (admit::Mode::Static(5), Some(6)));
    assert_eq!((admission.watermark_permille, admission.prefill_backlog.get()), (30, 2_000_000));
    assert_eq!(admission.fair_reserve_permille, 40);
    assert_eq!(admission.stale_after.get(), 120_000_000);
    let thresholds = Priority::ALL.map(|priority| admission.kv_threshold_permille.of(priority));
    assert_eq!(thresholds, [100, 200, 300]);
    let queue = settings.admission.queue;
    assert_eq!((queue.requests, queue.tokens, queue.per_tenant), (40, 50, 30));
    let waits = Priority::ALL.map(|priority| settings.admission.first_token.of(priority));
    assert_eq!(waits, [1, 2, 3].map(Duration::from_secs));
}

#[test]
fn whose_tokens_are_believed_arrives() {
    let config = config(
        "workers: [{url: 'http://a:1'}]\n\
         jwt: {issuer: 'https://id.example', audience: llm, jwks_url: 'https://id.example/keys', ca_file: ca.pem,\n\
               jwks_refresh: 2m, jwks_max_age: 3h, algorithms: [ES256], tenant_claim: org, models_claim: models,\n\
               leeway: 5s, defaults: {priority: flex, requests_per_minute: 7, models: [m]}}\n",
    );
    let jwt = gateway(&config, Vec::new()).jwt.expect("it is named");
    assert_eq!((jwt.issuer.as_str(), jwt.audience.as_str()), ("https://id.example", "llm"));
    let KeySetPlace::Web(place) = &jwt.keys.place else { panic!("{:?}", jwt.keys.place) };
    assert_eq!(place.to_string(), "https://id.example/keys");
    assert_eq!(jwt.keys.tls.trust, Trust::Authorities("ca.pem".into()));
    assert_eq!(jwt.keys.refresh, Duration::from_mins(2));
    assert_eq!(jwt.keys.age_max, Duration::from_hours(3));
    assert_eq!((jwt.algorithms, jwt.leeway), (vec![JwtAlgorithm::Es256], Duration::from_secs(5)));
    assert_eq!((jwt.tenant_claim.as_str(), jwt.models_claim.as_deref()), ("org", Some("models")));
    assert_eq!(
        (jwt.defaults.priority, jwt.defaults.priority_max),
        (Priority::Flex, Priority::Priority)
    );
    assert_eq!(jwt.defaults.budget.requests_per_minute, NonZeroU32::new(7));
    assert_eq!(jwt.defaults.models, Some(BTreeSet::from(["m".to_owned()])));
}

#[test]
fn scaling_and_maintenance_arrive() {
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
    assert_eq!(
        (one.maintenance.warm_up, other.maintenance.warm_up),
        (WarmUp::Always, WarmUp::AfterRepair)
    );
    let memory = one.maintenance.memory.as_ref().expect("it is set");
    assert_eq!(memory.place.to_string(), "http://a:9400/metrics");
    assert_eq!(memory.labels, [("gpu".to_owned(), "0".to_owned())]);
    let Some(RestartHook::Webhook(hook)) = &one.maintenance.restart else { panic!("it is told") };
    assert_eq!(hook.place.to_string(), "http://a:7/restart");
    assert!(!format!("{:?}", one.maintenance).contains("\"t\""), "a token is never shown");
    let Some(RestartHook::Command { argv, .. }) = &other.maintenance.restart else {
        panic!("it runs")
    };
    assert_eq!(argv[0], "systemctl");
    let names = &other.maintenance.memory.as_ref().expect("it is set").names;
    assert_eq!((names.used.as_deref(), names.total.as_deref()), (Some("u"), Some("t")));
}

#[test]
fn the_cache_and_what_keeps_tenants_apart_arrive_and_secrets_are_not_shown() {
    let config = config(
        "workers: [{url: 'http://a:1', cache_salt: off}]\n\
         models: {m: {cache: all, revision: r2}}\n\
         keys: [{key: k-0123456789, tenant: acme, cache: off}]\n\
         cache: {mode: on, reuse: all, memory: 8MiB, entry_max: 64KiB, ttl: 5m, shared: false,\n\
                 coalesce: false, known_fields: [x_new], encryption_key: s3cret-0123456789}\n\
         isolation: {salt_secret: s4cret-0123456789, strip: [vllm_xargs]}\n",
    );
    let settings = gateway(&config, workers(&config));
    let cache = &settings.cache;
    assert_eq!((cache.mode, cache.reuse), (CacheMode::On, Reuse::All));
    assert_eq!((cache.memory_bytes, cache.entry_bytes), (8 << 20, 64 << 10));
    assert_eq!(cache.life, Duration::from_mins(5));
    assert!(!cache.shared && !cache.coalesce && cache.known_fields.contains("x_new"));
    assert_eq!(settings.isolation.strip, ["vllm_xargs"]);
    assert_eq!(settings.workers[0].traits.cache_salt, SaltPolicy::Untold);
    assert_eq!(settings.keys[0].reuse, Some(Reuse::Off));
    let model = &settings.routing.models["m"];
    assert_eq!((model.cache, model.revision.as_deref()), (Some(Reuse::All), Some("r2")));
    let shown = format!("{settings:?}");
    assert!(cache.encryption_key.is_some() && settings.isolation.salt_secret.is_some());
    assert!(!shown.contains("s3cret") && !shown.contains("s4cret"), "{shown}");
}
