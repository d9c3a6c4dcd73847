//! The pitfalls of the write-ups that `overdraft check` finds, each planted alone: it is found, with its remedy, and nothing else is.
//!
//! Engines are [`Mock`]s that answer as vLLM does, but for one fault; Redis, the supervisor and TLS are real.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Server, binary, root};
use crate::mock_engine::{Mock, OTHER_TOKENS, PAGE, silent_publisher, tls_of_another_name};
use crate::redis::Redis;
use crate::supervising::Supervised;

/// What was found that is not `ok`: its subject and its sentence.
type Found = Vec<(String, String)>;

/// A folder for one set-up.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("it is writable");
        path
    }

    /// Checks a configuration; every finding that is not good.
    fn check(&self, yaml: &str) -> Found {
        let path = self.write("overdraft.yaml", yaml);
        let command = ["check", "--output", "json", "--measure", "--config"];
        let out = Command::new(binary()).args(command).arg(&path).output().expect("it starts");
        let said = String::from_utf8_lossy(&out.stderr);
        let view: Value = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|error| panic!("{error}: {said} of {yaml}"));
        assert_eq!(view["problems"], Value::Array(Vec::new()), "{yaml}");
        let reports = view["workers"].as_array().expect("a list").iter();
        let findings = reports.flat_map(|report| report["findings"].as_array().expect("a list"));
        let bad: Vec<&Value> = findings.filter(|one| one["verdict"] != "ok").collect();
        assert!(bad.iter().all(|one| one["hint"].is_string()), "each has a remedy: {bad:?}");
        let failed = bad.iter().any(|one| one["verdict"] == "fail");
        assert_eq!(out.status.code(), Some(i32::from(failed)), "{view:#}");
        let text = |one: &Value, key: &str| one[key].as_str().expect("a text").to_owned();
        bad.iter().map(|one| (text(one, "subject"), text(one, "message"))).collect()
    }
}

/// One worker without events.
fn worker(mock: &Mock, more: &str) -> String {
    format!("{{url: 'http://{}', model: {}, kv_events: off{more}}}", mock.address, mock.model)
}

/// A file with these workers, and `more`.
fn file(workers: &[String], more: &str) -> String {
    let known = if workers.len() == 1 { "" } else { ", small: {tokenizer: off}" };
    format!(
        "workers: [{}]\nmodels: {{large: {{tokenizer: off}}{known}}}\n{more}\n",
        workers.join(", ")
    )
}

/// A pitfall that is planted is found, and no other is.
#[track_caller]
fn finds(found: &Found, subject: &str, part: &str) {
    let is_it = |(one, message): &(String, String)| one == subject && message.contains(part);
    assert!(!found.is_empty() && found.iter().all(is_it), "`{subject}`, `{part}`: {found:?}");
}

fn cascade(draft: &Mock, target: &Mock) -> String {
    let prices =
        "prices: {draft: {prompt: 0.1, completion: 0.1}, target: {prompt: 1, completion: 1}}";
    let more = format!("cascades: {{economy: {{draft: small, target: large, {prices}}}}}");
    file(&[worker(draft, ", pool: draft"), worker(target, "")], &more)
}

#[test]
fn a_good_set_up_has_no_finding() {
    let redis = Redis::start(&["--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru"]);
    let salt = "isolation: {salt_secret: 0123456789abcdef0123456789abcdef}";
    let store = format!("store: {{url: '{}'}}\n{salt}", redis.url());
    let mock = Mock::start("large", |_| {});
    let found = Bench::new().check(&file(&[worker(&mock, "")], &store));
    assert_eq!(found, Vec::new(), "a vLLM as it should be");
    let model = root().join("models/overdraft-target.q8_0.gguf");
    let model = model.to_str().expect("a path in UTF-8");
    let ours = Server::worker(&["--model", model, "--kv-events-endpoint", "tcp://127.0.0.1:0"]);
    let own = format!("workers: [{{url: 'http://{}'}}]\n{store}\n", ours.address);
    assert_eq!(Bench::new().check(&own), Vec::new(), "our own worker, whose events arrive");
    let (small, large) = (Mock::start("small", |_| {}), Mock::slow("large", 300));
    assert_eq!(Bench::new().check(&cascade(&small, &large)), Vec::new(), "a draft that pays");
}

#[test]
fn pitfall_1_draft_and_target_make_different_tokens() {
    let small = Mock::start("small", |engine| engine.tokens = OTHER_TOKENS);
    let found = Bench::new().check(&cascade(&small, &Mock::slow("large", 300)));
    finds(&found, "tokenizers", "`small` before `large`");
}

#[test]
fn pitfall_1_is_found_where_workers_ask_for_keys() {
    let small = Mock::start("small", |engine| {
        engine.tokens = OTHER_TOKENS;
        engine.key = Some("right");
    });
    let text = cascade(&small, &Mock::slow("large", 300));
    let keyed = text.replacen("pool: draft", "pool: draft, api_key: right", 1);
    finds(&Bench::new().check(&keyed), "tokenizers", "`small` before `large`");
}

#[test]
fn pitfall_2_a_timeout_cuts_the_longest_answer() {
    let slow = Mock::slow("large", 500);
    let more = "timeouts: {first_byte: 9s, idle: 9s, total: 10s}\nlimits: {max_tokens: 4096}";
    let found = Bench::new().check(&file(&[worker(&slow, "")], more));
    finds(&found, "timeouts", "`timeouts.total` cuts it after 10 s");
}

#[test]
fn pitfall_3_the_prefix_cache_is_off() {
    let page = PAGE.replace("enable_prefix_caching=\"True\"", "enable_prefix_caching=\"False\"");
    let mock = Mock::start("large", |engine| engine.metrics = Some(page));
    finds(&Bench::new().check(&file(&[worker(&mock, "")], "")), "prefix cache", "no prefix cache");
}

#[test]
fn pitfall_4_there_are_no_metrics() {
    let mock = Mock::start("large", |engine| engine.metrics = None);
    finds(&Bench::new().check(&file(&[worker(&mock, "")], "")), "metrics", "answers 404");
}

#[test]
fn pitfall_5_metrics_are_renamed() {
    let page = PAGE.replace("vllm:num_requests_running", "vllm:requests_running_now");
    let mock = Mock::start("large", |engine| engine.metrics = Some(page));
    let found = Bench::new().check(&file(&[worker(&mock, "")], ""));
    finds(&found, "metrics", "lack a usable `vllm:num_requests_running`");
}

/// A worker whose engine a real supervisor runs with these flags and variables.
fn supervised(variables: &[&str], flags: &str) -> Found {
    let bench = Bench::new();
    // The supervisor judges the command by its name; what it does is to wait.
    let program = bench.write("vllm", "#!/bin/sh\nexec sleep 1000\n");
    let made = Command::new("chmod").arg("+x").arg(&program).status().expect("chmod runs");
    assert!(made.success());
    let program = program.to_str().expect("a path in UTF-8");
    let mut arguments = variables.to_vec();
    arguments.extend(["--", program, "serve", "M"]);
    arguments.extend(flags.split_whitespace());
    let supervisor = Supervised::start(&arguments);
    let mock = Mock::start("large", |_| {});
    let more = format!(", restart: {{supervise: {{url: 'http://{}'}}}}", supervisor.address);
    bench.check(&file(&[worker(&mock, &more)], ""))
}

#[test]
fn pitfall_6_chunked_prefill_is_off() {
    assert_eq!(supervised(&[], "--max-num-batched-tokens 8192"), Vec::new(), "a good engine");
    let found = supervised(&[], "--no-enable-chunked-prefill");
    finds(&found, "engine flags", "without chunked prefill");
}

#[test]
fn pitfall_7_steps_have_too_many_tokens_or_too_few() {
    let found = supervised(&[], "--max-num-batched-tokens 32768");
    finds(&found, "engine flags", "go back to 8192");
    finds(&supervised(&[], "--max-num-batched-tokens=256"), "engine flags", "many steps");
}

#[test]
fn pitfall_8_the_engine_runs_with_a_costly_environment() {
    let none = ["--env", "PYTORCH_CUDA_ALLOC_CONF=", "--env", "PYTORCH_ALLOC_CONF="];
    finds(&supervised(&none, ""), "engine environment", "memory fragments");
    let found = supervised(&["--env", "OMP_NUM_THREADS="], "");
    finds(&found, "engine environment", "`OMP_NUM_THREADS` is not set");
    let found = supervised(&["--env", "NCCL_IB_DISABLE=1"], "");
    finds(&found, "engine environment", "InfiniBand");
}

#[test]
fn pitfall_9_draft_and_target_are_exchanged() {
    let found = Bench::new().check(&cascade(&Mock::slow("small", 600), &Mock::slow("large", 100)));
    finds(&found, "draft", "the draft generates");
    assert!(!found[0].1.contains("saves time only"), "{found:?}");
}

#[test]
fn pitfall_10_the_draft_does_not_pay() {
    let found =
        Bench::new().check(&cascade(&Mock::slow("small", 1_700), &Mock::slow("large", 1_900)));
    finds(&found, "draft", "it saves time only where more than");
}

#[test]
fn pitfall_11_a_clock_is_wrong() {
    let mock = Mock::start("large", |engine| engine.clock_ahead = Duration::from_hours(1));
    let found = Bench::new().check(&file(&[worker(&mock, "")], ""));
    finds(&found, "clock", "differs from this machine's by 3");
}

/// A good worker, and what is wrong with this store.
fn stored(store: &str) -> Found {
    let mock = Mock::start("large", |_| {});
    Bench::new().check(&file(&[worker(&mock, "")], store))
}

const SALT: &str = "isolation: {salt_secret: 0123456789abcdef0123456789abcdef}";

#[test]
fn pitfall_12_redis_evicts_budgets_or_refuses_writes() {
    let redis = Redis::start(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    let found = stored(&format!("store: {{url: '{}'}}\n{SALT}", redis.url()));
    finds(&found, "store", "`maxmemory-policy allkeys-lru` may drop budgets");
}

#[test]
fn pitfall_13_redis_cannot_save() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = folder.path().to_str().expect("a path in UTF-8");
    // It goes on without an order to save, and refuses writes only once a schedule of saves is set.
    let redis = Redis::start(&["--dir", name, "--stop-writes-on-bgsave-error", "no"]);
    drop(folder);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], redis.port));
    let said = |command: &str| crate::mock_engine::line(address, command);
    assert!(said("BGSAVE").contains("saving started"));
    crate::harness::until("it fails", || {
        said("INFO persistence").contains("last_bgsave_status:err")
    });
    let found = stored(&format!("store: {{url: '{}'}}\n{SALT}", redis.url()));
    finds(&found, "store", "last save to disk failed");
}

#[test]
fn pitfall_14_gateways_share_a_store_and_no_salt() {
    let redis = Redis::start(&[]);
    finds(
        &stored(&format!("store: {{url: '{}'}}", redis.url())),
        "salts",
        "cache salts of its own",
    );
}

#[test]
fn pitfall_15_kv_events_do_not_arrive() {
    let mock = Mock::start("large", |_| {});
    let publisher = silent_publisher();
    let worker = worker(&mock, "").replace(
        "kv_events: off",
        &format!("kv_events: {{endpoint: 'tcp://{publisher}', topic: kv-events}}"),
    );
    let found = Bench::new().check(&file(&[worker], ""));
    finds(&found, "event arrival", "sends no events under topic `kv-events`");
}

#[test]
fn pitfall_16_a_key_is_refused() {
    let mock = Mock::start("large", |engine| engine.key = Some("right"));
    let found = Bench::new().check(&file(&[worker(&mock, ", api_key: wrong-key")], ""));
    finds(&found, "models", "asks for a key: 401");
    let with_key = worker(&mock, ", api_key: right");
    assert_eq!(Bench::new().check(&file(&[with_key], "")), Vec::new(), "the right key");
}

#[test]
fn pitfall_17_a_certificate_has_another_name() {
    let bench = Bench::new();
    let (address, authority) = tls_of_another_name();
    let authority = bench.write("ca.pem", &authority);
    let found = stored(&format!(
        "store: {{url: 'rediss://localhost:{}', ca_file: '{}'}}\n{SALT}",
        address.port(),
        authority.display()
    ));
    finds(&found, "store", "certificate is not accepted for the name");
}
