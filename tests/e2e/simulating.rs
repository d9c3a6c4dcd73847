//! `overdraft simulate` and its figures: seeds, stages, refusals, requests as lines.

use serde_json::Value;

use crate::load::{refuses, said};

#[track_caller]
fn report(arguments: &[&str]) -> Value {
    let text = said(&[&["simulate", "--output", "json"][..], arguments].concat());
    serde_json::from_str(&text).expect("JSON")
}

const SMALL: [&str; 4] = ["--workload", "unique:question=300,output=60,rate=30", "--workers", "2"];

#[test]
fn seeds_give_intervals_and_policies_that_do_not_differ_are_named() {
    let seeds =
        ["--num-prompts", "150", "--policy", "round-robin,random,least-load", "--seeds", "4"];
    let told = report(&[&SMALL[..], &seeds].concat());
    assert_eq!(told["runs"].as_array().map(Vec::len), Some(12), "{told}");
    let pairs = told["comparisons"].as_array().expect("all pairs");
    assert_eq!(pairs.len(), 3, "{told}");
    assert_eq!((&pairs[0]["seeds"], &pairs[0]["labels"][1]), (&4.into(), &"random".into()));
    let figure = &told["estimates"]["random"]["mean_ttft_ms"];
    assert!(figure["ci95"].as_f64() > Some(0.0), "{figure}");
    let text = said(&[&["simulate"][..], &SMALL, &seeds].concat());
    // A load of which no worker has too much is answered alike under both.
    assert!(text.contains("cannot be told apart with 4 seeds by: "), "{text}");
    let one = ["--num-prompts", "50", "--policy", "round-robin,random"];
    let text = said(&[&["simulate"][..], &SMALL, &one].concat());
    assert!(text.contains("warning: one seed: nothing tells"), "{text}");
}

#[test]
fn a_ladder_has_figures_by_stage_and_its_warm_up_has_none() {
    let ladder =
        ["--rates", "5,15:20s", "--warm-up", "10:10", "--stage-gap", "5", "--policy", "cost"];
    let told = report(&[&SMALL[..], &ladder].concat());
    let settings = &told["settings"];
    assert_eq!(settings["between stages"], "nothing for 5 s", "{settings}");
    let run = &told["runs"][0];
    let stages = run["by_stage"].as_array().expect("stages");
    let names: Vec<&str> = stages.iter().filter_map(|stage| stage["name"].as_str()).collect();
    assert_eq!(names, ["5/s", "15/s"]);
    let asked = |row: &Value| row["num_prompts"].as_u64().expect("a count");
    assert_eq!(asked(&stages[0]) + asked(&stages[1]), asked(run), "the warm-up is not counted");
    assert!((55..150).contains(&asked(&stages[0])) && (230..380).contains(&asked(&stages[1])));
    assert!(stages[0]["mean_itl_ms"].as_f64() > Some(0.0), "{stages:?}");
    let wrong = |arguments: &[&str], says: &[&str]| {
        refuses(2, &[&["simulate"][..], arguments].concat(), says);
    };
    wrong(&["--rates", "3,x:5"], &["`--rates`: `x:5` is no stage", "`3,10,15:60s`"]);
    wrong(&["--warm-up", "3:5"], &["`--warm-up 3:5`: expected seconds", "`--rates`"]);
    wrong(&["--burstiness", "2"], &["`--burstiness 2`: no rate is given"]);
    wrong(&["--request-rate", "inf", "--burstiness", "2"], &["no rate is given"]);
    wrong(&["--rates", "3,10:5", "--stage-gap", "1e14"], &["`--stage-gap", "1000000000 at most"]);
    wrong(&["--users", "3", "--speed", "2"], &["`--speed 2`: no times of this load", "hint: "]);
    for (shape, said) in [("0", "0"), ("-1", "-1"), ("inf", "inf"), ("nan", "NaN")] {
        let says = format!("`--burstiness {said}`: expected a number above zero");
        wrong(&["--rates", "3:5", &format!("--burstiness={shape}")], &[says.as_str()]);
    }
}

#[test]
fn refusals_stand_beside_the_figures_with_their_reasons() {
    let full = [
        "--workload",
        "unique:question=1000,output=300,rate=60",
        "--workers",
        "1",
        "--kv-tokens",
        "8000",
        "--num-prompts",
        "200",
        "--policy",
        "cost",
        "--waiting-requests",
        "8",
    ];
    let told = report(&full);
    let run = &told["runs"][0];
    let refused = run["refused"].as_u64().expect("a count");
    assert_eq!(told["settings"]["waiting-requests"], "8", "{}", told["settings"]);
    let reasons = run["unanswered_by_reason"].as_object().expect("reasons");
    assert!(0 < refused && reasons.contains_key("queue_full"), "{run}");
    let sum: u64 = reasons.values().filter_map(Value::as_u64).sum();
    assert_eq!(sum, refused + run["failed"].as_u64().expect("a count"), "{run}");
    let text = said(&[&["simulate"][..], &full].concat());
    assert!(
        text.contains("of all offered were refused") && text.contains("queue was full"),
        "{text}"
    );
    let workers = run["by_worker"].as_array().expect("workers");
    assert_eq!((workers.len(), &workers[0]["name"]), (1, &"0".into()), "{run}");
    assert!(workers[0]["busy_seconds"].as_f64() > Some(0.0), "{run}");
    assert!(run["series"]["queued"].as_array().is_some_and(|points| !points.is_empty()), "{run}");
}

#[test]
fn a_load_of_nothing_is_a_mistake() {
    let wrong = |arguments: &[&str], says: &[&str]| {
        refuses(2, &[&["simulate"][..], arguments].concat(), says);
    };
    wrong(&["--duration", "0"], &["`--duration 0`: expected a number above zero"]);
    wrong(&["--duration", "0.000001"], &["nothing was asked", "`chat:", "hint: "]);
    wrong(&["--warm-up", "1000000"], &["nothing was asked", "`--warm-up`"]);
}

#[test]
fn requests_are_written_as_lines_of_values() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("requests.csv");
    let path = file.to_str().expect("a plain name");
    let more =
        ["--num-prompts", "40", "--policy", "cost,random", "--seeds", "2", "--requests-csv", path];
    said(&[&["simulate"][..], &SMALL, &more].concat());
    let text = std::fs::read_to_string(&file).expect("it was written");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 2 * 40, "{}", lines[0]);
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns), "{text}");
    assert!(lines[1].starts_with("cost,0,") && lines[160].starts_with("random,1,"), "{text}");
    let nowhere = [&["simulate"][..], &SMALL, &["--requests-csv", "no/such/folder.csv"]].concat();
    refuses(2, &nowhere, &["its folder does not exist"]);
    let place = folder.path().to_str().expect("a plain name");
    let folder = [&["simulate"][..], &SMALL, &["--json", place]].concat();
    refuses(2, &folder, &["is a folder; expected a file"]);
}

/// When the last request of a file of requests was due, in seconds.
fn last_due(file: &str) -> f64 {
    let text = std::fs::read_to_string(file).expect("it was written");
    let due = |line: &str| line.split(',').nth(2)?.parse::<f64>().ok();
    text.lines().skip(1).filter_map(due).fold(0.0, f64::max)
}

#[test]
fn a_closed_loop_ends_by_the_clock_whatever_its_workload_says_of_times() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (trace, lines) = (folder.path().join("trace.csv"), folder.path().join("requests.csv"));
    let row = "100,500\n".repeat(100);
    std::fs::write(&trace, format!("prompt_tokens,output_tokens\n{row}")).expect("writable");
    let untimed = format!("csv:{}", trace.display());
    let lines = lines.to_str().expect("a plain name");
    let slow = "unique:question=100,output=500,spread=0";
    let fast = ["simulate", "--workload", &untimed, "--users", "2", "--speed", "2"];
    refuses(2, &fast, &["`--speed 2`: no times of this load would run faster"]);
    let loads: [&[&str]; 2] =
        [&["--workload", &untimed], &["--workload", slow, "--request-rate", "20"]];
    for load in loads {
        let ends =
            ["--users", "2", "--duration", "20", "--policy", "cost", "--requests-csv", lines];
        said(&[&["simulate"][..], load, &ends].concat());
        let last = last_due(lines);
        assert!((15.0..20.0).contains(&last), "{load:?}: {last}");
    }
}

#[test]
fn a_load_of_long_sessions_ends_by_the_clock() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (trace, lines) = (folder.path().join("agent.json"), folder.path().join("requests.csv"));
    let request =
        |number: u32| format!("{{\"in\":70,\"out\":20,\"hash_ids\":[{number}],\"think_time\":3}}");
    let requests: Vec<String> = (0..200).map(request).collect();
    let text = format!("{{\"block_size\":64,\"requests\":[{}]}}", requests.join(","));
    std::fs::write(&trace, text).expect("writable");
    let workload = format!("claude:{}", trace.display());
    let lines = lines.to_str().expect("a plain name");
    for pace in [["--users", "1"], ["--request-rate", "500"]] {
        let ends = ["--duration", "20", "--policy", "cost", "--requests-csv", lines];
        said(&[&["simulate", "--workload", &workload][..], &pace, &ends].concat());
        let last = last_due(lines);
        assert!((15.0..20.0).contains(&last), "{pace:?}: {last}");
    }
}

#[test]
fn engines_are_set_by_the_names_that_vllm_has() {
    let of = |more: &[&str]| {
        let fleet = ["--workers", "1", "--policy", "cost", "--num-prompts", "120", "--users", "60"];
        let load = ["--workload", "unique:question=2000,output=200,spread=0"];
        report(&[&load[..], &fleet, more].concat())["runs"][0].clone()
    };
    let figure = |run: &Value, name: &str| run[name].as_f64().expect("a number");
    let plain = of(&[]);
    let few = of(&["--max-num-seqs", "4"]);
    assert!(2.0 * figure(&plain, "mean_ttft_ms") < figure(&few, "mean_ttft_ms"), "{few}");
    // Prompts in four pieces each delay fewer answers at once.
    let small = of(&["--max-num-batched-tokens", "512"]);
    assert_ne!(plain["mean_tpot_ms"], small["mean_tpot_ms"], "{small}");
    // 0.25 of 85.5 GB leaves little beside 16 GB of weights: all sixty do not fit.
    let tight = ["--gpu-memory-utilization", "0.25", "--admission", "off"];
    let tight = of(&tight);
    let halved =
        of(&["--gpu-memory-utilization", "0.25", "--admission", "off", "--kv-cache-dtype", "fp8"]);
    assert!(figure(&halved, "mean_ttft_ms") < figure(&tight, "mean_ttft_ms"), "{halved} {tight}");
    assert_eq!(of(&["--block-size", "32"])["completed"], 120);
    // Of the host's part of a step nothing is left, and more of the memory is taken.
    let newer = of(&["--engine", "vllm-0.32"]);
    assert!(figure(&newer, "mean_tpot_ms") < figure(&plain, "mean_tpot_ms"), "{newer}");
    let wrong = |arguments: &[&str], says: &[&str]| {
        refuses(2, &[&["simulate"][..], arguments].concat(), says);
    };
    wrong(&["--gpu-memory-utilization", "1.5"], &["expected a share above zero"]);
    wrong(&["--gpu-memory-utilization", "0.1"], &["is impossible", "its weights take"]);
    wrong(&["--engine", "vllm-9"], &["`vllm-9` is no known engine", "`vllm-0.32`"]);
    wrong(&["--kv-cache-dtype", "int3"], &["expected auto, bfloat16"]);
    wrong(&["--block-size", "0"], &["`--block-size 0` holds nothing"]);
}

#[test]
fn every_fleet_has_a_column_of_its_own_and_no_policy_is_run_twice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, policy: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it is writable");
        std::fs::write(&file, format!("routing: {{policy: {policy}}}\n")).expect("it is writable");
        file.to_str().expect("a path in UTF-8").to_owned()
    };
    let labels = |more: &[&str]| -> Vec<String> {
        let told = report(&[&SMALL[..], &["--num-prompts", "20"], more].concat());
        let runs = told["runs"].as_array().expect("runs");
        runs.iter().filter_map(|run| run["label"].as_str()).map(str::to_owned).collect()
    };
    let (one, other) = (file("a/gateway.yaml", "cost"), file("b/gateway.yaml", "round-robin"));
    assert_eq!(labels(&["-c", &one, "-c", &other]), [one.as_str(), other.as_str()]);
    let cost = file("cost.yaml", "cost");
    assert_eq!(labels(&["--policy", "cost", "-c", &cost]), ["cost", cost.as_str()]);
    let twice = ["--policy", "cost,round-robin,cost", "--seeds", "2"];
    assert_eq!(labels(&twice), ["cost", "cost", "round-robin", "round-robin"]);
    refuses(2, &["simulate", "-c", &one, "-c", &one], &["is given twice", "hint: "]);
}

#[test]
fn a_trace_at_its_own_times_has_nothing_that_a_seed_changes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("trace.csv");
    let line = |number: u32| format!("{}.{},300,20\n", number / 10, number % 10);
    let lines: String = (0..30).map(line).collect();
    std::fs::write(&file, format!("at,prompt_tokens,output_tokens\n{lines}")).expect("writable");
    let workload = format!("csv:{}", file.display());
    let fleet = ["simulate", "--workload", &workload, "--policy", "cost", "--seeds", "3"];
    let told = said(&fleet);
    assert!(told.contains("the seed changes nothing of cost") && !told.contains('±'), "{told}");
    let drawn = said(&[&fleet[..], &["--request-rate", "10"]].concat());
    assert!(drawn.contains('±') && !drawn.contains("the seed changes nothing"), "{drawn}");
}

#[test]
fn a_fleet_that_answers_nobody_tells_no_times_and_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("report.json");
    let path = file.to_str().expect("a path in UTF-8");
    let load = ["simulate", "--workload", "unique:question=2000,spread=0", "--num-prompts", "20"];
    let fleet = ["--policy", "cost", "--max-model-len", "500", "--json", path];
    refuses(1, &[&load[..], &fleet].concat(), &["no request was answered", "hint: "]);
    let text = std::fs::read_to_string(&file).expect("the report comes all the same");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    let run = &told["runs"][0];
    assert_eq!((&run["refused"], &run["mean_ttft_ms"]), (&20.into(), &Value::Null), "{run}");
    let price = &told["estimates"]["cost"]["cost_per_million"]["mean"];
    assert!(price.is_null(), "nothing was made for it: {price}");
}

#[test]
fn a_price_of_the_command_line_stands_for_one_of_a_file_that_is_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("own.toml");
    let text = "[[hardware]]\nname = \"MyGPU\"\ntitle = \"mine\"\nmemory_bytes = 85e9\noverhead_bytes = 2e9\n\
                price_per_hour = 0\nprice_low = 0\nprice_source = \"bought\"\n\
                [[profile]]\nhardware = \"MyGPU\"\ntensor_parallel = 2\nmodel = \"llama-3-70b\"\nweights = \"fp8\"\n\
                like = \"h100-tp2/llama-3-70b-fp8\"\nconfidence = \"D\"\nsource = \"a guess\"\n";
    std::fs::write(&file, text).expect("it is writable");
    let path = file.to_str().expect("a path in UTF-8");
    let own = ["--profiles", path, "--profile", "MyGPU-tp2/llama-3-70b-fp8", "--policy", "cost"];
    let own = [&SMALL[..], &own, &["--num-prompts", "20"]].concat();
    let run = report(&own)["runs"][0].clone();
    assert_eq!(run["cost_dollars"], 0.0, "{run}");
    let priced = report(&[&own[..], &["--price-per-hour", "5"]].concat())["runs"][0].clone();
    let seconds = priced["duration"].as_f64().expect("seconds");
    let dollars = priced["cost_dollars"].as_f64().expect("dollars");
    assert!((dollars - 2.0 * 5.0 * seconds / 3_600.0).abs() < 1e-9, "{priced}");
}
