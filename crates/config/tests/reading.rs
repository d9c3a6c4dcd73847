//! What a good file means: notations, variables, overrides, quantities, the views and the schema.

use std::path::{Path, PathBuf};

use overdraft_config::{
    Cloud, Config, Discovery, Factor, GenAi, KvEvents, Loaded, Loader, Policy, Pool, Port,
    StickyKey, TimeSpan, Tokenizer, Variables, WorkerSource,
};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Loads `text`, with workers from elsewhere, in an environment of `variables` alone.
#[track_caller]
fn load(name: &str, text: &str, variables: &[(&str, &str)]) -> Loaded {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("it is writable");
    let variables: Variables = variables.iter().copied().collect();
    let loader = Loader::new(path).with_variables(variables);
    let loaded = loader.with_workers(WorkerSource::Elsewhere).load();
    loaded.unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_example_is_good_and_means_what_it_says() {
    let loaded = Loader::new(example("overdraft.yaml")).with_variables(Variables::default()).load();
    let config = loaded.unwrap_or_else(|errors| panic!("{errors}")).config;
    let names: Vec<&str> = config.workers.iter().map(overdraft_config::Worker::name).collect();
    assert_eq!(names, ["gpu-a", "gpu-b", "spot-c", "small-d"]);
    assert_eq!(config.workers[2].url, "http://10.0.0.7:8000");
    assert_eq!(config.workers[2].kv_events, KvEvents::Off);
    assert_eq!(config.workers[3].pool, Pool::Draft);
    let KvEvents::At(events) = &config.workers[0].kv_events else { panic!("it has an endpoint") };
    assert_eq!(events.replay_endpoint.as_deref(), Some("tcp://10.0.0.5:5558"));
    let model = &config.models["llama-3-8b"];
    assert_eq!(model.aliases, ["chat", "gpt-4o-mini"]);
    assert_eq!(model.tokenizer, Tokenizer::Worker);
    let canary = model.canary.expect("it has one");
    assert_eq!((canary.policy, canary.share.permille()), (Policy::LeastLoad, 50));
    let sticky = model.sticky.as_ref().expect("it has one");
    assert_eq!(sticky.header, StickyKey::Header("x-session-id".to_owned()));
    assert_eq!(sticky.load_factor, Factor::from_permille(1_250));
    assert_eq!((config.termination.cloud, config.termination.workers.len()), (Cloud::Aws, 1));
}

#[test]
fn both_notations_say_the_same() {
    let yaml = "listen: 0.0.0.0:80\nworkers:\n  - {url: 'http://a:1', pool: draft}\n\
                scrape: {interval: 1s, bytes_max: 1024}\nretry: {share: 0.1}\n\
                models: {m: {tokenizer: /models/m, policy: two-choices}}\n";
    let toml = "listen = \"0.0.0.0:80\"\n[[workers]]\nurl = \"http://a:1\"\npool = \"draft\"\n\
                [scrape]\ninterval = \"1s\"\nbytes_max = \"1KiB\"\n[retry]\nshare = \"10%\"\n\
                [models.m]\ntokenizer = \"/models/m\"\npolicy = \"two-choices\"\n";
    let (yaml, toml) = (load("a.yaml", yaml, &[]), load("a.toml", toml, &[]));
    assert_eq!(yaml.config, toml.config);
    assert_eq!(yaml.config.models["m"].tokenizer, Tokenizer::Path("/models/m".into()));
    assert_eq!(yaml.config.retry.share.permille(), 100);
}

#[test]
fn an_empty_file_is_the_defaults_where_workers_come_from_elsewhere() {
    assert_eq!(load("empty.yaml", "", &[]).config, Config::default());
    assert_eq!(load("empty.toml", "# nothing\n", &[]).config, Config::default());
}

#[test]
fn a_key_without_a_value_is_as_good_as_none() {
    let text = "admin:\nmodel_default: null\nscrape:\n  interval:\n";
    assert_eq!(load("null.yaml", text, &[]).config, Config::default());
}

#[test]
fn discovery_of_every_kind() {
    let text = "discovery:\n  - dns: {name: _http._tcp.workers, port: 8000, resolver: 10.0.0.1:53}\n  \
                - file: {path: workers.txt}\n  \
                - kubernetes: {namespace: llm, service: vllm, port: http, pool: draft}\n";
    let discovery = load("found.yaml", text, &[]).config.discovery;
    let [Discovery::Dns(dns), Discovery::File(file), Discovery::Kubernetes(service)] =
        discovery.as_slice()
    else {
        panic!("{discovery:?}")
    };
    assert_eq!(dns.resolver, Some(([10, 0, 0, 1], 53).into()));
    assert_eq!(file.path, Path::new("workers.txt"));
    assert_eq!((&service.port, service.pool), (&Port::Name("http".to_owned()), Pool::Draft));
}

#[test]
fn variables_fill_strings_and_become_numbers_where_numbers_are_asked_for() {
    let text = "model_default: ${MODEL:-none}-${SIZE}\nlimits: {requests: \"${COUNT}\"}\n\
                admin: {token: \"$${plain} ${EMPTY:-full}\"}\n";
    let variables = [("MODEL", "llama"), ("SIZE", "8b"), ("COUNT", "2048"), ("EMPTY", "")];
    let config = load("v.yaml", text, &variables).config;
    assert_eq!(config.model_default.as_deref(), Some("llama-8b"));
    assert_eq!(config.limits.requests, 2_048);
    let token = config.admin.token.expect("it was given");
    assert_eq!(token.reveal(), "${plain} full");
}

#[test]
fn overrides_reach_every_depth_and_keep_the_letters_of_keys() {
    let text = "workers:\n  - url: http://a:1\nmodels: {Llama-3: {aliases: [chat]}}\n";
    let variables = [
        ("OVERDRAFT__LISTEN", "0.0.0.0:9000"),
        ("OVERDRAFT__LIMITS__STREAMS", "7"),
        ("OVERDRAFT__WORKERS__0__NAME", "a"),
        ("OVERDRAFT__MODELS__LLAMA-3__POLICY", "round-robin"),
        ("OVERDRAFT__DISCOVERY", "[{file: {path: more.txt}}]"),
        ("OVERDRAFT_SOMETHING_ELSE", "not ours"),
    ];
    let config = load("o.yaml", text, &variables).config;
    assert_eq!(config.listen.port(), 9_000);
    assert_eq!(config.limits.streams, 7);
    assert_eq!(config.workers[0].name(), "a");
    assert_eq!(config.models["Llama-3"].policy, Some(Policy::RoundRobin));
    assert_eq!(config.models["Llama-3"].aliases, ["chat"]);
    assert_eq!(config.discovery.len(), 1);
}

#[test]
fn overrides_count_without_a_file_too() {
    let read = |variables: &[(&str, &str)]| {
        let variables: Variables = variables.iter().copied().collect();
        let loader = Loader::of_environment().with_variables(variables);
        loader.with_workers(WorkerSource::FileOrEmbedded).load()
    };
    let keys = ("OVERDRAFT__KEYS", "[{tenant: a, key: abcdefghijklmnop}]");
    let said = [keys, ("OVERDRAFT__LISTEN", "0.0.0.0:9000"), ("LLM_ENDPOINT", "http://a:1")];
    let config = read(&said).unwrap_or_else(|errors| panic!("{errors}")).config;
    assert!(config.needs_key(), "the gateway would be open");
    assert_eq!((config.listen.port(), config.workers[0].url.as_str()), (9_000, "http://a:1"));
    let nothing = read(&[]).unwrap_or_else(|errors| panic!("{errors}")).config;
    assert_eq!(nothing, Config::default());
    let refusal = |pair| read(&[pair]).expect_err("it cannot be used").to_string();
    let slip = refusal(("OVERDRAFT__LISTENN", "1"));
    assert!(slip.starts_with("OVERDRAFT__LISTENN: unknown key `listenn`"), "{slip}");
    let both = refusal(("OVERDRAFT__LIMITS__REQUESTS", "1"));
    assert!(both.contains("cannot fit into `1` requests"), "{both}");
    let wrong = refusal(("LLM_ENDPOINT", "ftp://a"));
    assert!(wrong.starts_with("the environment: `LLM_ENDPOINT`"), "{wrong}");
}

#[test]
fn off_is_a_word_and_not_a_boolean() {
    let text = "workers: [{url: 'http://a:1', kv_events: off}]\nmodels: {m: {tokenizer: off}}\n\
                termination: {cloud: off}\n";
    let config = load("off.yaml", text, &[]).config;
    assert_eq!(config.workers[0].kv_events, KvEvents::Off);
    assert_eq!(config.models["m"].tokenizer, Tokenizer::Off);
    assert_eq!(config.termination.cloud, Cloud::Off);
}

#[test]
fn anchors_save_typing() {
    let text = "workers:\n  - &a {url: 'http://a:1', pool: draft, model: m}\n  \
                - {<<: *a, url: 'http://b:1'}\n";
    let workers = load("anchors.yaml", text, &[]).config.workers;
    assert_eq!((workers[1].url.as_str(), workers[1].pool), ("http://b:1", Pool::Draft));
}

#[test]
fn the_effective_view_reads_back_as_itself_and_hides_the_token() {
    let text = std::fs::read_to_string(example("overdraft.yaml")).expect("it is there");
    let text = format!("{text}\nadmin: {{token: hunter2}}\n");
    let config = load("full.yaml", &text, &[]).config;
    let view = config.effective_yaml();
    assert!(!view.contains("hunter2") && !format!("{config:?}").contains("hunter2"), "{view}");
    assert!(view.contains("(redacted)") && view.contains("first_byte: auto"), "{view}");
    let mut again = load("again.yaml", &view, &[]).config;
    again.admin = config.admin.clone();
    assert_eq!(again, config);
}

#[test]
fn the_schema_accepts_the_example_and_every_view_and_refuses_slips() {
    let schema = Config::schema();
    let schema = jsonschema::validator_for(&schema).expect("the schema is one");
    let text = std::fs::read_to_string(example("overdraft.yaml")).expect("it is there");
    let written: serde_json::Value = {
        let options = serde_saphyr::options! { strict_booleans: true };
        serde_saphyr::from_str_with_options(&text, options).expect("it is YAML")
    };
    let wrong: Vec<String> = schema.iter_errors(&written).map(|it| it.to_string()).collect();
    assert_eq!(wrong, [""; 0]);
    let view = Config::default().effective_json();
    let wrong: Vec<String> = schema.iter_errors(&view).map(|it| it.to_string()).collect();
    assert_eq!(wrong, [""; 0]);
    for slip in [
        r#"{"workers": [{"name": "a"}]}"#,
        r#"{"scrape": {"interval": 500}}"#,
        r#"{"scrape": {"interval": "2 fortnights"}}"#,
        r#"{"routing": {"policy": "coast"}}"#,
        r#"{"worker": []}"#,
        r#"{"retry": {"share": 20}}"#,
        r#"{"discovery": [{"dsn": {}}]}"#,
    ] {
        let value: serde_json::Value = serde_json::from_str(slip).expect("it is JSON");
        assert!(!schema.is_valid(&value), "accepted: {slip}");
    }
}

#[test]
fn changes_are_named_and_those_that_need_a_restart_too() {
    let old = Config::default();
    let mut new = old.clone();
    assert_eq!((old.changes(&new), old.restart_needed(&new)), (vec![], vec![]));
    new.listen.set_port(1);
    new.probe.interval = TimeSpan::from_secs(9);
    assert_eq!(old.changes(&new), ["listen", "probe"]);
    assert_eq!(old.restart_needed(&new), ["listen"]);
    new.admin.listen = Some(new.listen);
    new.limits.connections = Some(9_000);
    new.shutdown.lame_duck = TimeSpan::from_secs(9);
    let restart = ["listen", "admin.listen", "limits.connections", "shutdown"];
    assert_eq!(old.restart_needed(&new), restart);
    let with = |token: &str| load("t.yaml", &format!("admin: {{token: {token}}}"), &[]).config;
    assert_eq!(with("a").changes(&with("b")), ["admin"]);
    let with = |key: &str| {
        let workers = format!("workers: [{{url: 'http://10.0.0.5:8000', api_key: {key}}}]");
        load("t.yaml", &workers, &[]).config
    };
    assert_eq!(with("a").changes(&with("b")), ["workers"], "a secret is shown to nobody");
    assert!(with("a").changes(&with("a")).is_empty());
    let with = |key: &str| {
        let place = format!("https://a/keys?key={key}");
        let jwt = format!("jwt: {{issuer: a, audience: b, jwks_url: '{place}'}}\n");
        load("t.yaml", &format!("{jwt}termination: {{endpoint: '{place}'}}\n"), &[]).config
    };
    assert_eq!(with("a").changes(&with("b")), ["jwt", "termination"], "nor is a query");
    let with = |more: &str| load("t.yaml", &format!("version: 1\n{more}"), &[]).config;
    let fixed = with(
        "tls: {certificate_file: a.pem, key_file: a.key}
tracing: {sample: 50%}
responses: {ttl: 9s}
http2: {enabled: false}
",
    );
    assert_eq!(with("").restart_needed(&fixed), ["tls", "http2", "tracing", "responses"]);
}

#[test]
fn every_key_that_is_read_once_is_named_when_it_changes() {
    let with = |text: &str| load("t.yaml", &format!("version: 1\n{text}\n"), &[]).config;
    let old = with("");
    for (text, key) in [
        ("limits: {connections: 9000}", "limits.connections"),
        ("limits: {requests: 20000}", "limits.connections"),
        ("limits: {body_bytes: 1MiB}", "limits.body_bytes"),
        ("limits: {bodies_bytes: 1GiB}", "limits.bodies_bytes"),
        ("shutdown: {lame_duck: 9s}", "shutdown"),
        ("shutdown: {drain: 9s}", "shutdown"),
        ("timeouts: {connect: 9s}", "timeouts.connect"),
        ("timeouts: {idle: 99s}", "timeouts.idle"),
        ("timeouts: {body: 9s}", "timeouts.body"),
        ("timeouts: {client_idle: 9s}", "timeouts.client_idle"),
        ("timeouts: {client_stall: 9s}", "timeouts.client_stall"),
        ("http2: {enabled: false}", "http2"),
        ("http2: {max_concurrent_streams: 9}", "http2"),
        ("store: {url: 'redis://redis:6379'}", "store"),
        ("store: {namespace: other}", "store"),
        ("cache: {encryption_key: a-key-that-is-long-enough-for-it}", "cache.encryption_key"),
        ("isolation: {salt_secret: a-word-that-is-long-enough-for-it}", "isolation.salt_secret"),
    ] {
        assert_eq!(old.restart_needed(&with(text)), [key], "{text}");
    }
    for text in [
        "limits: {connections: 8192}",
        "limits: {requests: 5000, connections: 8192}",
        "limits: {streams: 9}",
        "timeouts: {total: 9m}",
        "store: {board_interval: 9ms, share_interval: 90ms}",
        "cache: {mode: on}",
        "isolation: {strip: []}",
    ] {
        assert_eq!(old.restart_needed(&with(text)), [""; 0], "{text}");
    }
}

#[test]
fn the_write_ups_variables_stand_in_where_the_file_says_nothing() {
    let variables = |pairs: &[(&str, &str)]| -> Variables { pairs.iter().copied().collect() };
    let redis = [("REDIS_ADDR", "redis:6379"), ("REDIS_PASS", "a/b@c")];
    let mut config = Config::default();
    let mut all = vec![("LLM_ENDPOINT", "http://10.0.0.5:8000/v1")];
    all.extend(redis);
    config.stand_in(&variables(&all)).unwrap();
    assert_eq!(config.workers[0].url, "http://10.0.0.5:8000");
    assert_eq!(config.store.url.reveal(), "redis://:a%2Fb%40c@redis:6379");
    // What is said counts more, and nothing said is nothing.
    let said = config.clone();
    let others = [("LLM_ENDPOINT", "http://other:1"), ("REDIS_ADDR", "other:1")];
    config.stand_in(&variables(&others)).unwrap();
    assert_eq!(config, said);
    let mut empty = Config::default();
    empty.stand_in(&variables(&[("LLM_ENDPOINT", ""), ("REDIS_PASS", "alone")])).unwrap();
    assert_eq!(empty, Config::default());
    let wrong = Config::default().stand_in(&variables(&[("LLM_ENDPOINT", "ftp://x")]));
    assert!(wrong.unwrap_err().contains("`LLM_ENDPOINT`"));
}

#[test]
fn open_telemetry_s_variables_stand_in_for_what_is_not_said() {
    let all = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b,x-other=c"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_SERVICE_NAME", "llm"),
        ("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=gw-1,tier=edge"),
        ("OTEL_SEMCONV_STABILITY_OPT_IN", "http,gen_ai_latest_experimental"),
    ];
    let tracing = load("a.yaml", "listen: 127.0.0.1:1\n", &all).config.tracing;
    assert_eq!(tracing.endpoint.as_deref(), Some("http://collector:4318/v1/traces"));
    assert_eq!(tracing.headers["x-key"].reveal(), "a b");
    assert_eq!((tracing.timeout, tracing.sample.permille()), (TimeSpan::from_millis(2_500), 250));
    assert_eq!((tracing.service.as_str(), tracing.gen_ai), ("llm", GenAi::Latest));
    assert_eq!(tracing.attributes["k8s.pod.name"], "gw-1");
    let said =
        "tracing: {endpoint: 'http://mine:1', sample: 1%, service: me, attributes: {tier: core}}\n";
    let tracing = load("a.yaml", said, &all).config.tracing;
    assert_eq!(tracing.endpoint.as_deref(), Some("http://mine:1"));
    assert_eq!((tracing.sample.permille(), tracing.service.as_str()), (10, "me"));
    assert_eq!(tracing.attributes["tier"], "core");
    let disabled = [all[0], ("OTEL_SDK_DISABLED", "true")];
    assert_eq!(load("a.yaml", "", &disabled).config.tracing.endpoint, None);
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_TRACES_SAMPLER_ARG", "much"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "alone"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
    ] {
        let mut wrong: Vec<_> = all
            .iter()
            .copied()
            .filter(|(one, _)| !name.ends_with("TIMEOUT") || !one.ends_with("TIMEOUT"))
            .collect();
        wrong.retain(|(one, _)| *one != name);
        wrong.push((name, value));
        let error = Config::default().stand_in(&wrong.into_iter().collect()).unwrap_err();
        assert!(error.contains(name), "{name}: {error}");
    }
}
