//! What a simulated fleet decides besides where requests go, and what of it cannot be.

use serde_json::Value;

use crate::load::{refuses, said};

/// The runs of a simulation in JSON.
#[track_caller]
fn runs(arguments: &[&str]) -> Vec<Value> {
    let text = said(&[&["simulate", "--output", "json"][..], arguments].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["simulated"], true, "{report}");
    report["runs"].as_array().expect("runs").clone()
}

/// The only one of them.
#[track_caller]
fn run((workload, prompts): (&str, &str), arguments: &[&str]) -> Value {
    let fleet = ["--policy", "cost", "--workers", "2", "--num-prompts", prompts];
    let runs = runs(&[&["--workload", workload][..], &fleet, arguments].concat());
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].clone()
}

#[track_caller]
fn figure(run: &Value, name: &str) -> f64 {
    run[name].as_f64().unwrap_or_else(|| panic!("`{name}` is no number in {run}"))
}

/// A simulation that is refused as its user's mistake.
#[track_caller]
fn mistaken(arguments: &[&str], says: &[&str]) {
    refuses(2, &[&["simulate"][..], arguments].concat(), says);
}

const WAVES: (&str, &str) =
    ("bursts:question=400,output=300,spread=0.5,rate=12,swing=3,period=20", "200");

#[test]
fn what_crashes_unguarded_waits_where_all_that_is_declared_must_fit() {
    let fleet = ["--kv-tokens", "12000", "--crash-on-oom"];
    let of = |more: &[&str]| run(WAVES, &[&fleet[..], more].concat());
    let (open, guarded) =
        (of(&["--admission", "off"]), of(&["--admission", "reserve", "--max-tokens", "2048"]));
    assert!(0.0 < figure(&open, "crashes") && 0.0 < figure(&open, "failed"), "{open}");
    assert_eq!((&guarded["crashes"], &guarded["failed"]), (&0.into(), &0.into()), "{guarded}");
    // What clients declare is what must fit: the less they do, the fewer wait.
    let modest = of(&["--admission", "reserve", "--max-tokens", "600"]);
    let waits = |run: &Value| figure(run, "mean_ttft_ms") + 1e6 * figure(run, "refused");
    assert!(waits(&modest) < waits(&guarded), "{modest} {guarded}");
    let two = of(&["--admission", "static:2"]);
    assert!(figure(&two, "max_concurrent_requests") > 4.0, "the others wait at the gateway");
    assert_eq!(two["crashes"], 0, "{two}");
}

#[test]
fn what_matters_least_is_refused_first_and_reports_say_so_by_priority_and_tenant() {
    let mix = ["--priorities", "flex:1,default:1,priority:1", "--tenants", "8,1"];
    let fleet = ["--kv-tokens", "12000", "--admission", "reserve", "--max-tokens", "2048"];
    let load = ("unique:question=400,output=300,spread=0.3,rate=40", "600");
    let told = run(load, &[&fleet[..], &mix].concat());
    let rows = |side: &str| told[side].as_array().expect("a table").clone();
    let refused = |row: &Value| figure(row, "refused") / figure(row, "num_prompts");
    let priorities = rows("by_priority");
    let [flex, _, priority] = &priorities[..] else { panic!("{told}") };
    assert_eq!((&flex["name"], &priority["name"]), (&"flex".into(), &"priority".into()));
    assert!(refused(priority) < refused(flex), "{told}");
    let tenants = rows("by_tenant");
    assert_eq!(tenants.len(), 2, "{told}");
    assert!(figure(&tenants[1], "num_prompts") < figure(&tenants[0], "num_prompts"));
    let asked: f64 = tenants.iter().map(|row| figure(row, "num_prompts")).sum();
    assert!((asked - 600.0).abs() < 0.5, "{told}");
    let plain = run(load, &fleet);
    assert!(plain["by_priority"].is_null() && plain["by_tenant"].is_null(), "{plain}");
}

#[test]
fn who_had_no_token_when_its_worker_died_is_asked_of_another() {
    let load = ["--workload", "unique:question=1000,output=400,spread=0.5,rate=30"];
    let fleet = ["--policy", "least-load", "--workers", "3", "--num-prompts", "120"];
    let dies = ["--kv-tokens", "12000", "--crash-on-oom", "--admission", "off"];
    let of = |more: &[&str]| runs(&[&load[..], &fleet, &dies, more].concat())[0].clone();
    let (again, never) = (of(&[]), of(&["--retries", "0"]));
    assert!(0.0 < figure(&again, "crashes") && 0.0 < figure(&again, "retries"), "{again}");
    assert_eq!(never["retries"], 0, "{never}");
    assert!(figure(&again, "failed") < figure(&never, "failed"), "{again} {never}");
}

#[test]
fn what_was_asked_before_is_answered_again_where_answers_are_kept() {
    let workload = ("unique:question=300,output=40,rate=5,repeat=0.5", "200");
    let (plain, kept) = (run(workload, &[]), run(workload, &["--cache-memory", "64MiB"]));
    assert_eq!(plain["answers_reused"], 0, "{plain}");
    let reused = figure(&kept, "answers_reused");
    assert!((60.0..140.0).contains(&reused), "{kept}");
    assert_eq!(plain["total_output_tokens"], kept["total_output_tokens"]);
    let never = run(("unique:question=300,output=40,rate=5", "100"), &["--cache-memory", "64MiB"]);
    assert_eq!(never["answers_reused"], 0, "nobody repeats anything: {never}");
}

#[test]
fn guesses_are_right_as_often_as_was_said_and_passes_take_their_time() {
    let workload = ("unique:question=100,output=100,spread=0,rate=2", "30");
    let guessing = ["--speculation-policy", "fixed:3"];
    let of = |more: &[&str]| run(workload, &[&guessing[..], more].concat());
    let never = of(&["--acceptance", "0"]);
    assert!(0.0 < figure(&never, "draft_tokens"), "{never}");
    assert_eq!(never["accepted_tokens"], 0, "{never}");
    // The first guess always, the second never; what stands behind a wrong one is not put to the test.
    let first = of(&["--acceptance", "1,0,1"]);
    let share = figure(&first, "accepted_tokens") / figure(&first, "draft_tokens");
    assert!((0.45..0.55).contains(&share), "one of two: {first}");
    let (two, ten) = (of(&["--draft-pass-ms", "2"]), of(&["--draft-pass-ms", "10"]));
    assert!(2.0 * figure(&two, "median_tpot_ms") < figure(&ten, "median_tpot_ms"), "{two} {ten}");
    // Two kinds of text: half of the guesses are of the one that is never right.
    let mixed = of(&["--acceptance", "0", "--acceptance", "1"]);
    let share = figure(&mixed, "accepted_tokens") / figure(&mixed, "draft_tokens");
    assert!((0.05..0.7).contains(&share), "{mixed}");
    assert_eq!(run(workload, &["--speculation-policy", "off"])["draft_tokens"], 0);
}

#[test]
fn drafts_are_given_where_they_are_as_good_and_not_where_they_are_worse() {
    let workload = ("unique:question=200,output=60,rate=10", "600");
    let cascade = ["--cascade", "gate", "--draft", "h100-tp1/llama-3-8b-fp8"];
    let more = ["--draft-workers", "2", "--loss", "2%", "--slowdown", "any"];
    let of = |kinds: &[&str]| run(workload, &[&cascade[..], &more, kinds].concat());
    let good = of(&["--request-kind", "1:0.001:0.05"]);
    assert!(100.0 < figure(&good, "drafts_served"), "{good}");
    assert_eq!(good["completed"], 600, "{good}");
    let bad = of(&["--request-kind", "1:0.9:1.5"]);
    assert!(figure(&bad, "drafts_served") < 0.02 * 600.0, "{bad}");
    assert_eq!(bad["completed"], 600, "{bad}");
    assert_eq!(run(workload, &["--cascade", "off"])["drafts_asked"], 0);
}

#[test]
fn decisions_are_added_one_after_the_other_and_all_of_them_repeat() {
    let all = [
        "--workload",
        "tenants:groups=8,prefix=1000,repeat=0.3,rate=10",
        "--policy",
        "round-robin,cost",
        "--workers",
        "2",
        "--num-prompts",
        "150",
        "--admission",
        "peak",
        "--cache-memory",
        "16MiB",
        "--speculation-policy",
        "goodput",
        "--acceptance",
        "0.8,0.7",
        "--cascade",
        "shadow",
        "--decompose",
    ];
    let runs = runs(&all);
    let labels: Vec<&str> = runs.iter().filter_map(|run| run["label"].as_str()).collect();
    let expected =
        ["round-robin", "+ cost", "+ admission", "+ cache", "+ speculation", "+ cascade"];
    assert_eq!(labels, expected);
    let of = |name: &str| runs.iter().map(|run| figure(run, name)).collect::<Vec<f64>>();
    let (reused, drafted) = (of("answers_reused"), of("draft_tokens"));
    assert!(reused[..3].iter().all(|&count| count < 1.0) && 0.0 < reused[3], "{reused:?}");
    assert!(drafted[..4].iter().all(|&count| count < 1.0) && 0.0 < drafted[4], "{drafted:?}");
    let told = [&["simulate"][..], &all, &["--digest"]].concat();
    let text = said(&told);
    assert_eq!(text.matches("digest ").count(), 6, "{text}");
    assert_eq!(text, said(&told), "the same seed, the same histories");
}

#[test]
fn flags_that_would_change_nothing_are_refused() {
    for flag in [
        ["--loss", "50%"],
        ["--slowdown", "any"],
        ["--draft", "h100-tp1/llama-3-8b-fp8"],
        ["--draft-workers", "0"],
        ["--draft-windows", "24:48"],
        ["--request-kind", "1:0.1:0.5"],
    ] {
        mistaken(&flag, &["--cascade <MODE>", flag[0]]);
    }
    for flag in [["--num-speculative-tokens", "4"], ["--acceptance", "0.9"]] {
        mistaken(&flag, &["--speculation-policy <POLICY>", "--config <FILE>", flag[0]]);
    }
    mistaken(&["--draft-pass-ms", "2"], &["--speculation-policy <POLICY>", "--draft-pass-ms"]);
    let expected = "expected a number from 0 to 3";
    mistaken(&["--stall", "9:3:1"], &["`--stall`: the fleet has no worker `9`", expected]);
    mistaken(
        &["--refusing", "0:faulty:1-2", "--refusing", "7:gone"],
        &["`--refusing`: the fleet has no worker `7`", expected, "hint: `--workers`"],
    );
    let pools = ["--pool", "1xh100/llama-3-8b-bf16", "--pool", "2xl4/llama-3-8b-int4"];
    let stalls = [&pools[..], &["--stall", "3:3:1"]].concat();
    mistaken(&stalls, &["the fleet has no worker `3`; expected a number from 0 to 2"]);
}

#[test]
fn flags_of_what_may_be_there_are_taken() {
    let load = ("unique:question=100,output=10,rate=5", "20");
    // The worker of the cheaper pool has the number behind those of the fleet.
    let drafts = run(load, &["--cascade", "gate", "--refusing", "2:gone", "--stall", "1:3:1"]);
    assert_eq!(drafts["completed"], 20, "{drafts}");
    assert_eq!(run(load, &["--cascade", "off", "--loss", "5%"])["completed"], 20);
    // A file may say that workers guess.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("guesses.yaml");
    std::fs::write(&file, "speculation: {policy: 'fixed:3'}\n").expect("it is writable");
    let file = file.to_str().expect("a path in UTF-8");
    let guesses = ["--workload", load.0, "--num-prompts", load.1, "--config", file];
    let told = runs(&[&guesses[..], &["--acceptance", "0"]].concat());
    assert!(0.0 < figure(&told[0], "draft_tokens"), "{told:?}");
    assert_eq!(told[0]["accepted_tokens"], 0, "{told:?}");
}

#[test]
fn decisions_that_there_are_not_are_refused_with_what_there_is() {
    mistaken(
        &["--admission", "paek"],
        &["`--admission paek` is no mode (did you mean `peak`?)", "`static:N` with N from 1"],
    );
    mistaken(&["--admission", "static:0"], &["`--admission static:0` is no mode"]);
    mistaken(&["--retries", "99"], &["'99' for '--retries", "99 is not in 0..="]);
    mistaken(&["--max-tokens", "0"], &["'0' for '--max-tokens", "0 is not in 1.."]);
    mistaken(&["--cache-memory", "lots"], &["`lots` is not a size", "as in `512KiB`"]);
    mistaken(
        &["--speculation-policy", "fixed:99"],
        &["`fixed:99` is not a speculation policy; expected `off`, `fixed:N` with N up to"],
    );
    let guessing = ["--speculation-policy", "fixed:2"];
    let guessing = |more: &[&'static str]| [&guessing[..], more].concat();
    mistaken(
        &guessing(&["--acceptance", "0.8,1.2"]),
        &["`--acceptance 0.8,1.2`: `1.2` is no chance; expected numbers from 0 to 1"],
    );
    mistaken(
        &guessing(&["--draft-pass-ms=-1"]),
        &["`--draft-pass-ms -1`: expected milliseconds, not below zero"],
    );
    mistaken(
        &guessing(&["--num-speculative-tokens", "0"]),
        &["`--num-speculative-tokens 0`: expected 1 to"],
    );
    mistaken(
        &["--cascade", "gaet"],
        &["`--cascade gaet` cannot be simulated (did you mean `gate`?)", "`shadow` or `off`"],
    );
    let cascade = |more: &[&'static str]| [&["--cascade", "gate"][..], more].concat();
    mistaken(&cascade(&["--draft-windows", "24"]), &["expected FIRST:NEXT", "`24:48`"]);
    mistaken(&cascade(&["--draft-workers", "0"]), &["`--draft-workers 0`: expected 1 or more"]);
    mistaken(&cascade(&["--draft", "h100/lama-9b"]), &["`--draft`: ", "`--list` shows all"]);
    mistaken(&["--loss", "200%"], &["`200%` is not a share; expected `0%` to `100%`"]);
    mistaken(
        &["--request-kind", "0.7:2:0.1"],
        &["`0.7:2:0.1` is no kind of request; expected WEIGHT:WORSE:SURPRISE"],
    );
    mistaken(
        &["--workload", "chat:repeat=1.5"],
        &["`1.5` cannot be the `repeat`", "expected a number from 0 to 1"],
    );
}

#[test]
fn worlds_that_cannot_be_are_refused() {
    mistaken(&["--priorities", "flex"], &["expected NAME:WEIGHT, as in `flex:3`"]);
    mistaken(&["--priorities", "batch:1"], &["`batch` is no priority; expected `flex`"]);
    mistaken(&["--tenants", "1,0"], &["expected a weight above zero, as in `3`"]);
    mistaken(&["--pool", "0xh100/llama-3-8b-bf16"], &["expected COUNTxPROFILE"]);
    mistaken(&["--max-model-len", "1"], &["a context of `1` tokens", "expected 2 or more"]);
    mistaken(&["--kv-tokens", "3"], &["a cache of `3` tokens holds no page; expected 16"]);
    mistaken(&["--num-prompts", "0"], &["'0' for '--num-prompts", "0 is not in 1.."]);
    mistaken(&["--users", "0"], &["'0' for '--users", "0 is not in 1.."]);
    mistaken(&["--network-ms=-2"], &["`--network-ms -2`: expected milliseconds, not below zero"]);
    mistaken(&["--speed", "inf"], &["`--speed inf`: expected a number above zero"]);
    // What the clock cannot hold is refused, not added up.
    for (flag, value, most) in [
        ("--network-ms", "1e18", "milliseconds, not below zero, 1000000000000 at most"),
        ("--ingest-us-per-token", "1e16", "microseconds, not below zero, 1000000000000 at most"),
        ("--waiting-seconds", "1e13", "seconds, not below zero, 1000000000 at most"),
        ("--request-rate", "1e-18", "a number of 0.000001 or more"),
        ("--speed", "1e-15", "a number of 0.000001 or more"),
    ] {
        mistaken(&[flag, value], &["`", flag, most]);
    }
    let last = u64::MAX.to_string();
    mistaken(&["--seed", &last], &["leaves no room for so many; expected up to"]);
}
