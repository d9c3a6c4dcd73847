//! What a scraper sees, compared with what vLLM shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use overdraft_units::{Blocks, Micros, Tokens};

use super::{
    CacheFacts, CascadeMetrics, Exposition, GatewayMetrics, LabelCap, MetricNames, OTHER,
    RequestFacts, RequestOutcome, SpeculationFacts, WorkerIdentity, WorkerMetrics, WorkerState,
};
use crate::access::EndCode;

/// What vLLM exposes; see the file's own head.
const VLLM: &str = include_str!("../../tests/fixtures/vllm-metrics.txt");

/// vLLM families that this engine has nothing to say about.
const NOT_OURS: [&str; 11] = [
    "vllm:spec_decode", // registered only where speculation is configured, as in vLLM
    "vllm:engine_sleep_state", // the engine does not sleep
    "vllm:external_prefix_cache", // no cache outside the process
    "vllm:mm_cache",    // text only
    "vllm:prompt_tokens_cached_by_source", // one tier
    "vllm:lora_requests_info", // no adapters
    "vllm:model_forward_time_milliseconds", // per request in 0.6; steps serve many requests here
    "vllm:model_execute_time_milliseconds",
    "vllm:avg_prompt_throughput_toks_per_s", // a rate() of the counters
    "vllm:avg_generation_throughput_toks_per_s",
    "vllm:kv_block", // behind a flag in vLLM
];

#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    lines: Vec<String>,
    samples: usize,
}

/// Reads the classic text format as strictly as its specification is written.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            let family = Family { kind: kind.to_owned(), ..Family::default() };
            assert!(families.insert(name.to_owned(), family).is_none(), "twice: {name}");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        assert!(!line.starts_with('#'), "{line}");
        let (series, value) = line.rsplit_once(' ').unwrap();
        let _: f64 = value.parse().unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix))
            .find(|base| families.get(*base).is_some_and(|family| family.kind == "histogram"))
            .unwrap_or(name);
        let family = families.get_mut(base).unwrap_or_else(|| panic!("no type for {line}"));
        family.samples += 1;
        for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once("=\"").unwrap();
            if key == "le" {
                family.lines.push(value.trim_end_matches('"').to_owned());
            } else {
                family.labels.insert(key.to_owned());
            }
        }
    }
    families
}

fn vllm(catalogue: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    for line in VLLM.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] != catalogue || NOT_OURS.iter().any(|prefix| words[1].starts_with(prefix)) {
            continue;
        }
        let lines =
            words.get(4).map_or(Vec::new(), |lines| lines.split(',').map(str::to_owned).collect());
        let labels = words[3].split(',').map(str::to_owned).collect();
        let family = Family { kind: words[2].to_owned(), labels, lines, samples: 0 };
        families.insert(words[1].to_owned(), family);
    }
    families
}

fn identity() -> WorkerIdentity {
    let cache = CacheFacts { block_size: 16, blocks: Blocks::new(1024) };
    WorkerIdentity { model: "tar\"get".to_owned(), context: Tokens::new(8192), cache }
}

fn worker(names: MetricNames) -> WorkerMetrics {
    WorkerMetrics::new(&identity(), names)
}

#[track_caller]
fn check_against(names: MetricNames, catalogue: &str) {
    let shown = parse(&worker(names).encode(Exposition::Text));
    let wanted = vllm(catalogue);
    assert!(wanted.len() > 20, "the fixture is read");
    for (name, family) in &wanted {
        let found = shown.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(found.kind, family.kind, "{name}");
        if !family.labels.contains("*") {
            assert_eq!(found.labels, family.labels, "{name}");
        }
        assert!(found.samples > 0, "{name} has no sample");
        if catalogue == "current" {
            assert_eq!(found.lines, family.lines, "{name}");
        }
    }
    for name in shown.keys() {
        assert!(wanted.contains_key(name), "{name} is not one of vLLM's");
    }
}

#[test]
fn current_names_types_labels_and_bucket_lines_are_vllms() {
    check_against(MetricNames::Current, "current");
}

#[test]
fn old_names_types_and_labels_are_those_of_0_6() {
    check_against(MetricNames::V06, "v0.6");
}

#[test]
fn both_shows_every_name_once_with_the_current_labels() {
    let shown = parse(&worker(MetricNames::Both).encode(Exposition::Text));
    for catalogue in ["current", "v0.6"] {
        for name in vllm(catalogue).keys() {
            let family = shown.get(name).unwrap_or_else(|| panic!("{name} is missing"));
            assert!(family.labels.contains("model_name"), "{name}");
        }
    }
    assert!(shown["vllm:gpu_cache_usage_perc"].labels.contains("engine"));
}

#[test]
fn a_worker_that_guesses_shows_what_0_6_showed_of_it() {
    let facts = SpeculationFacts {
        drafts: 10,
        draft_tokens: 40,
        accepted_tokens: 30,
        dropped_tokens: 7,
        acceptance_rate: 0.75,
        ..SpeculationFacts::default()
    };
    for (names, labels) in [
        (MetricNames::V06, "{model_name=\"tar\\\"get\"}"),
        (MetricNames::Both, "{model_name=\"tar\\\"get\",engine=\"0\"}"),
    ] {
        let metrics = worker(names).speculating(&identity(), names);
        metrics.update_speculation(&facts);
        let text = metrics.encode(Exposition::Text);
        for line in [
            format!("vllm:spec_decode_draft_acceptance_rate{labels} 0.75"),
            format!("vllm:spec_decode_efficiency{labels} 0.8"),
            format!("vllm:spec_decode_num_emitted_tokens_total{labels} 40"),
        ] {
            assert!(text.contains(&line), "no {line}: {text}");
        }
    }
    let current = worker(MetricNames::Current).speculating(&identity(), MetricNames::Current);
    current.update_speculation(&facts);
    let text = current.encode(Exposition::Text);
    assert!(!text.contains("spec_decode_efficiency"));
    assert!(text.contains("overdraft_speculation_dropped_tokens_total{"), "{text}");
}

#[test]
fn both_formats_show_the_same_samples() {
    let metrics = worker(MetricNames::Both);
    let samples = |exposition| {
        let text = metrics.encode(exposition);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(samples(Exposition::Text), samples(Exposition::OpenMetrics));
    assert!(metrics.encode(Exposition::OpenMetrics).ends_with("# EOF\n"));
}

#[test]
fn what_happened_is_counted() {
    let metrics = worker(MetricNames::Both);
    metrics.update(&WorkerState {
        running: 3,
        waiting: 2,
        cache_usage: 0.25,
        prefix_queried: 1000,
        prefix_hit: 400,
        preemptions: 1,
        prompt_tokens: 1000,
        generation_tokens: 64,
    });
    metrics.first_token(Micros::new(30_000));
    metrics.next_token(Micros::new(12_000));
    metrics.step_ran(Tokens::new(17));
    metrics.request_begun(2);
    metrics.rejected();
    metrics.request_ended(&RequestFacts {
        reason: "stop",
        prompt: Tokens::new(100),
        cached: Tokens::new(40),
        completion: Tokens::new(5),
        output_max: Tokens::new(16),
        total: Micros::new(500_000),
        queued: Micros::new(100_000),
        prefill: Micros::new(200_000),
        decode: Micros::new(200_000),
        preemptions: 0,
    });
    let text = metrics.encode(Exposition::Text);
    let all = "model_name=\"tar\\\"get\",engine=\"0\"";
    for line in [
        format!("vllm:num_requests_running{{{all}}} 3"),
        format!("vllm:num_requests_waiting{{{all}}} 2"),
        format!("vllm:kv_cache_usage_perc{{{all}}} 0.25"),
        format!("vllm:gpu_cache_usage_perc{{{all}}} 0.25"),
        format!("vllm:gpu_prefix_cache_hit_rate{{{all}}} 0.4"),
        format!("vllm:prefix_cache_hits_total{{{all}}} 400"),
        format!("vllm:tokens_total{{{all}}} 1064"),
        format!("vllm:prompt_tokens_by_source_total{{{all},source=\"local_compute\"}} 600"),
        format!("vllm:request_success_total{{{all},finished_reason=\"stop\"}} 1"),
        format!("vllm:request_success_total{{{all},finished_reason=\"abort\"}} 0"),
        format!("vllm:time_to_first_token_seconds_sum{{{all}}} 0.03"),
        format!("vllm:request_time_per_output_token_seconds_sum{{{all}}} 0.05"),
        format!("vllm:request_inference_time_seconds_sum{{{all}}} 0.4"),
        format!("vllm:request_prefill_kv_computed_tokens_sum{{{all}}} 60.0"),
        format!("vllm:iteration_tokens_total_count{{{all}}} 1"),
        format!("vllm:inter_token_latency_seconds_bucket{{{all},le=\"0.025\"}} 1"),
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_label_from_clients_is_capped() {
    let cap = LabelCap::new(2);
    assert_eq!(cap.admit("a"), "a");
    assert_eq!(cap.admit("b"), "b");
    assert_eq!(cap.admit("c"), OTHER);
    assert_eq!(cap.admit("a"), "a");
    assert_eq!(LabelCap::new(2).admit(&"x".repeat(1000)), OTHER);
}

#[test]
fn tenants_beyond_the_cap_share_a_series_of_a_cascade() {
    let mut metrics = GatewayMetrics::new();
    let tenants = Arc::new(LabelCap::of_tenants());
    let cascades = CascadeMetrics::new(metrics.registry_mut(), &tenants);
    for number in 0..1_100 {
        cascades.charged("c", &format!("t{number}"), "target", 2, 3);
    }
    let text = metrics.encode(Exposition::Text);
    let shown = parse(&text);
    for name in ["overdraft_cascade_cost_microusd_total", "overdraft_cascade_saving_microusd"] {
        assert_eq!(shown[name].samples, 1_001, "{name}");
    }
    let other = "overdraft_cascade_cost_microusd_total{cascade=\"c\",tenant=\"other\",served_by=\"target\"} 200\n";
    assert!(text.contains(other), "{text}");
}

#[test]
fn models_that_nobody_serves_take_no_label_from_one_that_is_served() {
    let metrics = GatewayMetrics::new();
    let ended = |model: &str, tokens: Option<Tokens>| {
        metrics.request_begun();
        metrics.request_ended(&RequestOutcome {
            route: "/v1/chat/completions",
            model,
            pools: [None, None],
            status: if tokens.is_some() { 200 } else { 404 },
            end: EndCode::WHOLE,
            total: Micros::new(1_000),
            first_token: None,
            prompt: tokens,
            completion: tokens,
        });
    };
    for number in 0..70 {
        let model = format!("bogus{number}");
        ended(&model, None);
        assert_eq!(metrics.known_model_label(&model), OTHER);
    }
    ended("real", Some(Tokens::new(7)));
    let text = metrics.encode(Exposition::Text);
    assert!(text.contains("overdraft_tokens_total{model=\"real\",kind=\"prompt\"} 7\n"), "{text}");
    assert!(!text.contains("bogus") && !text.contains("model=\"other\""), "{text}");
    assert_eq!(metrics.known_model_label("real"), "real");
}

#[test]
fn the_gateway_counts_under_its_own_names() {
    let metrics = GatewayMetrics::new();
    for model in 0..100 {
        metrics.request_begun();
        metrics.request_ended(&RequestOutcome {
            route: "/v1/chat/completions",
            model: &format!("model-{model}"),
            pools: [Some(("target", Micros::new(500_000))), None],
            status: 200,
            end: EndCode::WHOLE,
            total: Micros::new(1_000_000),
            first_token: Some(Micros::new(50_000)),
            prompt: Some(Tokens::new(10)),
            completion: Some(Tokens::new(5)),
        });
    }
    metrics.upstream_failed("unreachable");
    metrics.worker_inflight("127.0.0.1:8001", 4);
    metrics.worker_up("127.0.0.1:8001", true);
    metrics.retried();
    let text = metrics.encode(Exposition::Text);
    let shown = parse(&text);
    for (name, kind) in [
        ("overdraft_requests_total", "counter"),
        ("overdraft_request_duration_seconds", "histogram"),
        ("router_request_duration_seconds", "histogram"),
        ("overdraft_time_to_first_token_seconds", "histogram"),
        ("overdraft_inflight_requests", "gauge"),
        ("overdraft_upstream_errors_total", "counter"),
        ("overdraft_worker_inflight", "gauge"),
        ("overdraft_tokens_total", "counter"),
        ("overdraft_build_info", "gauge"),
    ] {
        assert_eq!(shown[name].kind, kind, "{name}");
        assert!(shown[name].samples > 0, "{name}");
    }
    assert_eq!(shown["overdraft_tokens_total"].samples, 65 * 2, "64 models and the others");
    assert!(
        text.contains("\noverdraft_tokens_total{model=\"other\",kind=\"prompt\"} 360\n"),
        "{text}"
    );
}

#[test]
fn a_catalogue_names_what_no_scrape_has_yet() {
    let metrics = GatewayMetrics::new();
    let (scrape, catalogue) =
        (metrics.encode(Exposition::Text), metrics.catalogue(Exposition::Text));
    let declared = "# TYPE overdraft_requests_total counter\n";
    assert!(!scrape.contains(declared) && catalogue.contains(declared), "{catalogue}");
    let build = "# TYPE overdraft_build_info gauge\n";
    assert_eq!(catalogue.matches(build).count(), 1, "what has a series is there once");
}
