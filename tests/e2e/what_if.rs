//! What if: a gateway's own access log, replayed under another policy, fleet or price.

use serde_json::{Value, json};

use crate::harness::{Server, until};
use crate::load::{refuses, said};

/// What a gateway before two workers with prefixes to share writes into its log.
fn recorded() -> (tempfile::TempDir, String) {
    let profile = ["--simulate", "h100/llama-3-8b-fp8", "--speed", "50", "--workers", "2"];
    let workers = Server::worker(&profile);
    until("both listen", || workers.log().matches("serves on http://").count() == 2);
    let log = workers.log();
    let urls: Vec<&str> =
        log.split("serves on ").skip(1).filter_map(|l| l.lines().next()).collect();
    let gateway = Server::serve(&[
        "--worker",
        urls[0],
        "--worker",
        urls[1],
        "--policy",
        "round-robin",
        "--log-format",
        "json",
        "--log-prefixes",
    ]);
    let up = || gateway.ask("GET", "/v1/models", "").body.contains("llama-3-8b");
    until("the workers are up", up);
    let url = format!("http://{}", gateway.address);
    let load = "tenants:groups=4,prefix=3000,question=100,output=20,rate=20";
    let sent = ["bench", &url, "--workload", load, "--num-prompts", "60", "--ignore-eos"];
    said(&sent);
    until("all lines are written", || gateway.log().matches("\"tokens_out\"").count() >= 60);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gateway.log");
    std::fs::write(&file, gateway.log()).expect("it is writable");
    (folder, file.to_str().expect("a path in UTF-8").to_owned())
}

#[test]
fn a_gateways_own_log_is_replayed_under_another_policy_fleet_and_price() {
    let (_folder, file) = recorded();
    let fleet = ["simulate", "--access-log", &file, "--profile", "h100/llama-3-8b-fp8"];
    let fleet = [&fleet[..], &["--workers", "4", "--price-per-hour", "9"]].concat();
    let text = said(&[&fleet[..], &["--output", "json", "--policy", "cost,round-robin"]].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let cached = |label: &str| {
        let runs = report["runs"].as_array().expect("runs");
        let run = runs.iter().find(|run| run["label"] == label).expect("it was run");
        assert!(run["completed"].as_u64() >= Some(60), "{run}");
        run["total_cached_tokens"].as_f64().expect("a count")
    };
    // Four tenants and four workers: round robin computes each prefix on each of them.
    assert!(cached("round-robin") < cached("cost"), "{text}");
    let costs = &report["what_if"];
    let saved = |label: &str| {
        let work = &costs[label]["work_dollars"];
        let of = |name: &str| work[name].as_f64().expect("dollars");
        let rest = of("whole") - of("saved_by_routing") - of("saved_by_cache");
        assert!((rest - of("saved_by_cascade") - of("remaining")).abs() < 1e-9, "{work}");
        of("saved_by_routing")
    };
    assert!(0.0 < saved("recorded") && saved("round-robin") < saved("cost"), "{costs}");
    assert_eq!(costs["recorded"]["fleet"]["workers"], 2);
    assert_eq!(costs["cost"]["fleet"]["workers"], 4);
    let price = costs["cost"]["fleet"]["dollars_per_hour"].as_f64().expect("dollars");
    assert!((price - 9.0).abs() < 1e-9, "{costs}");
    let table = said(&[&fleet[..], &["--digest"]].concat());
    for part in ["SIMULATED", "recorded", "routing: prefixes found in caches", "what remains"] {
        assert!(table.contains(part), "`{part}` is not in: {table}");
    }
    assert_eq!(table.matches("digest ").count(), 3, "{table}");
    // When tokens came the log does not tell.
    assert!(report["runs"][0]["max_output_tokens_per_s"].is_null(), "{text}");
    // The same log is a workload like any other.
    let workload = format!("access:{file}");
    let again = said(&["simulate", "--workload", &workload, "--policy", "cost"]);
    assert!(again.contains("Successful requests"), "{again}");
    let other = [&fleet[..], &["--model", "llama-3-80b"]].concat();
    refuses(2, &other, &["no request for `llama-3-80b` (did you mean `llama-3-8b`?)"]);
}

#[test]
fn a_log_that_cannot_be_replayed_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gateway.log");
    let path = file.to_str().expect("a path in UTF-8");
    refuses(2, &["simulate", "--access-log", path], &["cannot be read", "--log-format json"]);
    std::fs::write(&file, "2025-11-22 INFO access: request=r\n").expect("it is writable");
    refuses(2, &["simulate", "--access-log", path], &["has no requests", "--log-format json"]);
    std::fs::write(&file, "{\"target\":\"access\",\n").expect("it is writable");
    refuses(2, &["simulate", "--access-log", path], &["line 1", "is no line of the log"]);
}

#[test]
fn what_the_response_cache_spared_is_told_apart_and_can_be_asked_after_all() {
    let worker = Server::worker(&["--simulate", "h100/llama-3-8b-fp8", "--speed", "100"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("overdraft.yaml");
    let text = format!("workers: [{{url: 'http://{}'}}]\ncache: {{mode: 'on'}}\n", worker.address);
    std::fs::write(&config, text).expect("it is writable");
    let config = config.to_str().expect("a path in UTF-8");
    let gateway = Server::serve(&["--config", config, "--log-format", "json", "--log-prefixes"]);
    until("the worker is up", || gateway.ask("GET", "/healthz", "").status == 200);
    let messages = json!([{"role": "user", "content": "Say it again. [answer:30]"}]);
    for _ in 0..3 {
        gateway.chat(&json!({"model": "llama-3-8b", "temperature": 0, "messages": messages}));
    }
    let lines = || gateway.log().matches("\"path\":\"/v1/chat/completions\"").count();
    until("all lines are written", || lines() == 3);
    let file = folder.path().join("gateway.log");
    std::fs::write(&file, gateway.log()).expect("it is writable");
    let file = file.to_str().expect("a path in UTF-8");
    let replay = ["simulate", "--access-log", file, "--policy", "cost", "--output", "json"];
    let told = |more: &[&str]| {
        let text = said(&[&replay[..], more].concat());
        let report: Value = serde_json::from_str(&text).expect("JSON");
        report["what_if"].clone()
    };
    let saved = |costs: &Value, label: &str| {
        costs[label]["work_dollars"]["saved_by_cache"].as_f64().expect("dollars")
    };
    let kept = told(&[]);
    assert!(0.0 < saved(&kept, "recorded"), "{kept}");
    assert!((saved(&kept, "recorded") - saved(&kept, "cost")).abs() < 1e-12, "{kept}");
    let asked = told(&["--without", "cache"]);
    assert!(saved(&asked, "cost").abs() < 1e-12, "{asked}");
    assert!(0.0 < saved(&asked, "recorded"), "{asked}");
}

/// A log of two models: a worker's answers, one that was given again, and two of a cascade.
fn mixed() -> (tempfile::TempDir, String) {
    let rows = [
        ("m", r#""worker":"a","ttft_us":50000,"tokens_cached":200"#),
        ("m", r#""worker":"b","ttft_us":60000,"tokens_cached":0"#),
        ("m", r#""cache":"hit""#),
        ("m", r#""served_by":"draft","cost_microusd":1,"cost_target_only_microusd":4"#),
        ("m", r#""served_by":"draft","cost_microusd":2,"cost_target_only_microusd":4"#),
        ("other", r#""worker":"a","ttft_us":50000"#),
    ];
    let line = |(second, (model, more)): (usize, &(&str, &str))| {
        format!(
            "{{\"timestamp\":\"2025-11-22T10:00:{:02}Z\",\"path\":\"/v1/chat/completions\",\
             \"status\":200,\"model\":\"{model}\",\"tokens_prompt\":1000,\"tokens_out\":50,\
             \"total_us\":800000,\"target\":\"access\",{more}}}\n",
            10 + second
        )
    };
    let text: String = rows.iter().enumerate().map(line).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gateway.log");
    std::fs::write(&file, text).expect("it is writable");
    let file = file.to_str().expect("a path in UTF-8").to_owned();
    (folder, file)
}

#[test]
fn one_model_of_several_is_replayed_and_asked_for_what_others_answered_then() {
    let (_folder, file) = mixed();
    let replay = ["simulate", "--access-log", &file, "--policy", "cost", "--output", "json"];
    let report = |more: &[&str]| -> Value {
        let text = said(&[&replay[..], &["--model", "m"], more].concat());
        serde_json::from_str(&text).expect("JSON")
    };
    let saved = |report: &Value, label: &str, by: &str| {
        let work = &report["what_if"][label]["work_dollars"];
        work[format!("saved_by_{by}")].as_f64().expect("dollars")
    };
    let nothing = |dollars: f64| dollars.abs() < 1e-12;
    let kept = report(&[]);
    for run in kept["runs"].as_array().expect("runs") {
        assert_eq!(run["completed"], 5, "the other model's request is left out: {run}");
    }
    for by in ["cache", "cascade"] {
        let (then, now) = (saved(&kept, "recorded", by), saved(&kept, "cost", by));
        assert!(0.0 < then && nothing(then - now), "it ends as it did: {kept}");
    }
    let asked = report(&["--without", "cascade"]);
    assert!(nothing(saved(&asked, "cost", "cascade")), "{asked}");
    assert!(0.0 < saved(&asked, "cost", "cache"), "the response cache is left alone: {asked}");
    assert!(0.0 < saved(&asked, "recorded", "cascade"), "then is then: {asked}");
    let asked = report(&["--without", "cache,cascade"]);
    let sums = ["cache", "cascade"].map(|by| saved(&asked, "cost", by));
    assert!(sums.into_iter().all(nothing), "{asked}");
    assert_eq!(asked["runs"][1]["completed"], 5, "the fleet answers all: {asked}");
}

#[test]
fn a_part_of_a_log_stands_beside_the_same_part() {
    let (_folder, file) = mixed();
    let replay = ["simulate", "--access-log", &file, "--model", "m", "--policy", "cost"];
    // One request a second, of which the first two were a worker's.
    let parts: [(&[&str], u64); 5] = [
        (&["--num-prompts", "2"], 2),
        (&["--warm-up", "2"], 3),
        (&["--from", "1", "--duration", "3"], 3),
        (&["--from", "1", "--warm-up", "1"], 3),
        (&["--speed", "2", "--warm-up", "1"], 3),
    ];
    for (more, requests) in parts {
        let text = said(&[&replay[..], &["--output", "json"], more].concat());
        let report: Value = serde_json::from_str(&text).expect("JSON");
        for run in report["runs"].as_array().expect("runs") {
            assert_eq!(run["completed"], requests, "{more:?}: {run}");
        }
        let of = |label: &str| {
            let work = &report["what_if"][label]["work_dollars"];
            work["whole"].as_f64().expect("dollars")
        };
        let (then, now) = (of("recorded"), of("cost"));
        assert!(0.0 < then && (then - now).abs() < 1e-12, "{more:?}: {then} and {now}");
        let workers = &report["what_if"]["recorded"]["fleet"]["workers"];
        assert_eq!(workers, 2, "{more:?}: both were there");
    }
    let text = said(&[&replay[..6], &["cost,round-robin", "--seeds", "2"]].concat());
    assert!(text.contains("means over seeds (recorded: 1, cost: 2, round-robin: 2)"), "{text}");
}

#[test]
fn the_fleet_that_was_recorded_may_have_been_another() {
    let (_folder, file) = mixed();
    let replay = ["simulate", "--access-log", &file, "--model", "m", "--policy", "cost"];
    let costs = |more: &[&str]| {
        let text = said(&[&replay[..], &["--output", "json"], more].concat());
        let report: Value = serde_json::from_str(&text).expect("JSON");
        report["what_if"].clone()
    };
    let of = |costs: &Value, label: &str, name: &str| {
        costs[label]["fleet"][name].as_f64().expect("a number")
    };
    let plain = costs(&["--workers", "1"]);
    assert_eq!(plain["recorded"]["fleet"]["workers"], 2, "those that the log names: {plain}");
    let other = ["--recorded-workers", "3", "--recorded-price", "10"];
    let told = costs(&[&other[..], &["--workers", "1"]].concat());
    assert_eq!(told["recorded"]["fleet"]["workers"], 3, "{told}");
    assert!((of(&told, "recorded", "dollars_per_hour") - 10.0).abs() < 1e-9, "{told}");
    let (paid, hours) = (of(&told, "recorded", "dollars"), of(&told, "recorded", "hours"));
    assert!((paid - 3.0 * 10.0 * hours).abs() < 1e-9, "{told}");
    assert_eq!(told["cost"]["fleet"], plain["cost"]["fleet"], "what is simulated is as before");
    let small = costs(&["--workers", "1", "--recorded-profile", "l4-tp1/llama-3-8b-int4"]);
    let (before, now) =
        (of(&small, "recorded", "dollars_per_hour"), of(&small, "cost", "dollars_per_hour"));
    assert!(before < now, "an L4 costs less than an H100: {small}");
}

#[test]
fn a_log_is_replayed_on_a_fleet_of_several_pools_at_a_price_for_each() {
    let (_folder, file) = mixed();
    let replay = ["simulate", "--access-log", &file, "--model", "m", "--policy", "round-robin"];
    let pools = ["--pool", "1xh100/llama-3-8b-bf16", "--pool", "2xl4/llama-3-8b-int4@0.7"];
    let fleet = [&replay[..], &pools, &["--without", "cache,cascade"]].concat();
    let text = said(&[&fleet[..], &["--output", "json"]].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let run = &report["runs"][1];
    let rows = run["by_pool"].as_array().expect("pools");
    let told = |row: &Value, name: &str| row[name].as_f64().expect("a number");
    assert_eq!((rows.len(), &rows[1]["workers"]), (2, &2.into()), "{run}");
    assert!((told(&rows[1], "dollars_per_hour") - 0.7).abs() < 1e-9, "{run}");
    let answered: f64 = rows.iter().map(|row| told(row, "completed")).sum();
    assert!((answered - told(run, "completed")).abs() < 0.5, "each was answered by a pool: {run}");
    assert!(rows.iter().all(|row| 0.0 < told(row, "completed")), "in turn: {run}");
    let dollars: f64 = rows.iter().map(|row| told(row, "cost_dollars")).sum();
    assert!((dollars - told(run, "cost_dollars")).abs() < 1e-9, "{run}");
    let costs = &report["what_if"]["round-robin"]["fleet"];
    assert_eq!((&costs["workers"], &costs["pools"][1]["workers"]), (&3.into(), &2.into()));
    assert!(costs["dollars"].as_f64() > Some(0.0), "{costs}");
    let before = report["what_if"]["recorded"]["fleet"]["pools"].as_array().expect("pools");
    assert_eq!(before.len(), 1, "what was recorded was of one kind: {report}");
    let table = said(&fleet);
    for part in ["By pool", "h100-tp1/llama-3-8b-bf16", "l4-tp1/llama-3-8b-int4"] {
        assert!(table.contains(part), "`{part}` is not in: {table}");
    }
}

#[test]
fn a_replay_that_cannot_be_is_refused() {
    let (_folder, file) = mixed();
    let replay = |more: &[&str], says: &[&str]| {
        refuses(2, &[&["simulate", "--access-log", &file][..], more].concat(), says);
    };
    replay(
        &[],
        &["requests for several models: `m`, `other`", "choose one of them with `--model`"],
    );
    let model = |more: &[&'static str]| [&["--model", "m"][..], more].concat();
    replay(&model(&["--without", "caches"]), &["'caches' for '--without", "cache, cascade"]);
    replay(&model(&["--recorded-workers", "0"]), &["'0' for '--recorded-workers", "not in 1.."]);
    replay(&model(&["--recorded-price", "0"]), &["expected dollars above zero, as in `2.5`"]);
    replay(&model(&["--recorded-profile", "h100-tp1/llama-3-9b-bf16"]), &["not a known profile"]);
    replay(&model(&["--admission", "peak"]), &["`--access-log` replays no admission of its own"]);
    replay(&model(&["--decompose"]), &["cannot be used with '--decompose'"]);
    replay(&model(&["--rates", "5:10"]), &["`--rates 5:10`: `--access-log`", "hint: `--speed 2`"]);
    replay(&model(&["--from", "100"]), &["nothing was asked", "`--from`"]);
    replay(&model(&["--warm-up", "100"]), &["nothing was asked", "`--warm-up`"]);
    replay(&model(&["--users", "5"]), &["--users", "cannot be used with"]);
    replay(&model(&["--pool", "h100"]), &["COUNTxPROFILE@DOLLARS, as in `2xl4-tp1/"]);
    replay(&model(&["--pool", "2xh100/llama-3-9b"]), &["not a known profile"]);
    replay(&model(&["--pool", "1xh100/llama-3-8b-bf16", "--workers", "3"]), &["cannot be used"]);
    let mixed = ["--pool", "1xh100/llama-3-8b-bf16", "--pool", "1xh100-tp2/llama-3-70b-fp8"];
    replay(&model(&mixed), &["a pool of `llama-3-70b` beside one of `llama-3-8b`"]);
    refuses(2, &["simulate", "--recorded-price", "3"], &["--access-log <FILE>"]);
    refuses(2, &["simulate", "--model", "m"], &["--access-log <FILE>"]);
}
