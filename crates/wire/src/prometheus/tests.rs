//! What the reader of metrics promises, one sentence per test.

use super::engine::{Dialect, ReportError, WorkerReport, report};
use super::*;

const VLLM_NEW: &str = include_str!("fixtures/vllm_0_33.txt");
const VLLM_OLD: &str = include_str!("fixtures/vllm_0_6.txt");
const SGLANG: &str = include_str!("fixtures/sglang_0_5.txt");
const LLAMA: &str = include_str!("fixtures/llama_server.txt");

fn read(page: &str) -> Result<Vec<Sample<'_>>, PageError> {
    lines(page.as_bytes())?.map(|line| line?.read()).collect()
}

#[track_caller]
fn refuses(page: &str, message: &str) {
    assert_eq!(read(page).unwrap_err().to_string(), message);
}

/// Samples as `name{label=value,..} value`.
#[track_caller]
fn check(page: &str, expected: &[&str]) {
    let shown: Vec<String> = read(page)
        .unwrap()
        .iter()
        .map(|sample| {
            let labels: Vec<String> =
                sample.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{}{{{}}} {}", sample.name, labels.join(","), sample.value)
        })
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn samples_are_read_in_every_spelling() {
    check("a 1\n", &["a{} 1"]);
    check("a:b_c9 1.5e3\r\n\n# HELP x y\n  z\t-2 \n", &["a:b_c9{} 1500", "z{} -2"]);
    check("a{} 1\na{ } 2\na {x=\"1\"} 3\n", &["a{} 1", "a{} 2", "a{x=1} 3"]);
    check("a{x=\"1\",y=\"2\",} 3 1700000000000\n", &["a{x=1,y=2} 3"]);
    check("a{x = \"} # \\\" \\\\ \\n\" , y=\"\"} 3\n", &["a{x=} # \" \\ \n,y=} 3"]);
    check("a +Inf\nb -Inf\nc NaN\n", &["a{} inf", "b{} -inf", "c{} NaN"]);
    check("a_bucket{le=\"1.0\"} 8 # {trace_id=\"x\"} 0.67 1.5\n# EOF\n", &["a_bucket{le=1.0} 8"]);
}

// Faults: 48
#[test]
fn pages_that_are_no_metrics_are_refused_as_a_whole() {
    refuses("", "metrics are empty; expected lines like `name 1`");
    refuses(" \n\n", "metrics are empty; expected lines like `name 1`");
    refuses(
        "\n<!DOCTYPE html>\n<title>502</title>\n",
        "metrics begin with `<`, which looks like HTML; expected lines like `name 1`",
    );
    let error = lines(b"a 1\nb \xff 2\n").unwrap_err();
    assert_eq!(error.to_string(), "metrics are not UTF-8 from byte 6 on");
    let large = vec![b'a'; PAGE_BYTES_MAX + 1];
    assert!(matches!(lines(&large), Err(PageError::TooLarge { .. })));
}

#[test]
fn a_page_that_was_cut_is_refused_whatever_it_still_says() {
    refuses("a 1\nb 12", "metrics end within line 2; expected a line feed at the end");
    for end in 1..VLLM_NEW.len() - 1 {
        let cut = &VLLM_NEW[..end];
        assert_eq!(lines(cut.as_bytes()).is_ok(), cut.ends_with('\n'), "{end}");
    }
}

#[test]
fn a_bad_line_is_named_with_what_was_expected() {
    let line = "line 1 of the metrics is not a sample: ";
    let name = "expected a name of letters, digits, `_` and `:`";
    let labels = "expected labels as in `{name=\"value\"}`";
    refuses("9a 1\n", &format!("{line}{name}"));
    refuses("{\"error\":1}\n", &format!("{line}{name}"));
    refuses("a\n", &format!("{line}expected a number"));
    refuses("a one\n", &format!("{line}expected a number"));
    refuses("a infinity\n", &format!("{line}expected a number"));
    refuses("a{x=1} 1\n", &format!("{line}{labels}"));
    refuses("a{x=\"1} 1\n", &format!("{line}{labels}"));
    refuses("a{x=\"1\" y=\"2\"} 1\n", &format!("{line}{labels}"));
    refuses("a{x=\"1\" 1\n", &format!("{line}{labels}"));
    refuses("a 1 2 3\n", &format!("{line}expected nothing or a timestamp after the value"));
    let many = format!("a{{{}}} 1\n", "x=\"1\",".repeat(LABELS_MAX + 1));
    refuses(&many, &format!("{line}more than 256 labels"));
    let long = format!("a{{x=\"{}\"}} 1\n", "y".repeat(LINE_BYTES_MAX));
    refuses(&long, "line 1 of the metrics is longer than 65536 bytes");
}

/// What the fixtures say alike, each in its dialect.
fn common(dialect: Dialect) -> WorkerReport {
    WorkerReport {
        dialect,
        model: Some("acme/large".to_owned()),
        running: 12,
        waiting: 3,
        kv_use_permille: Some(625),
        kv_capacity: Some(Tokens::new(160_000)),
        block_size: BlockSize::new(16),
        prefix_queries: Some(9_000),
        prefix_hits: Some(4_500),
        preemptions: Some(7),
        kv_fetch_rate: None,
        prompt_tokens: Some(9_000),
        generation_tokens: Some(2_500_000),
        steps: None,
        drafts: None,
        draft_tokens: None,
        accepted_tokens: None,
        accepted_by_position: Vec::new(),
        draft_depth: None,
        draft_policy: None,
        draft_reason: None,
    }
}

use overdraft_units::{BlockSize, Tokens};

#[test]
fn our_own_worker_tells_how_fast_it_fetches() {
    let page = "vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_waiting{engine=\"0\"} 0\n\
        overdraft_kv_fetch_tokens_per_second{engine=\"0\"} 41000\n";
    assert_eq!(report(page.as_bytes()).unwrap().kv_fetch_rate, Some(41_000));
}

#[test]
fn steps_are_told_where_an_engine_counts_them() {
    let vllm = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n\
        vllm:iteration_tokens_total_count{engine=\"0\"} 41\nvllm:iteration_tokens_total_count{engine=\"1\"} 1\n";
    assert_eq!(report(vllm.as_bytes()).unwrap().steps, Some(42));
    let llama =
        "llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\nllamacpp:n_decode_total 9\n";
    assert_eq!(report(llama.as_bytes()).unwrap().steps, Some(9));
}

#[test]
fn every_engine_gives_the_same_report() {
    let speculating = WorkerReport {
        drafts: Some(100),
        draft_tokens: Some(300),
        accepted_tokens: Some(150),
        accepted_by_position: vec![80, 50, 20],
        ..common(Dialect::Vllm)
    };
    assert_eq!(report(VLLM_NEW.as_bytes()), Ok(speculating));
    // 0.6 gave a rate of hits instead of counts.
    let old = WorkerReport { prefix_queries: None, prefix_hits: None, ..common(Dialect::Vllm) };
    assert_eq!(report(VLLM_OLD.as_bytes()), Ok(old));
    let sglang = WorkerReport { block_size: None, ..common(Dialect::Sglang) };
    assert_eq!(report(SGLANG.as_bytes()), Ok(sglang));
    let llama = WorkerReport {
        model: None,
        kv_use_permille: None,
        kv_capacity: None,
        block_size: None,
        prefix_queries: None,
        prefix_hits: None,
        preemptions: None,
        ..common(Dialect::LlamaServer)
    };
    assert_eq!(report(LLAMA.as_bytes()), Ok(llama));
}

// Faults: 47
#[test]
fn the_newer_of_two_names_counts_in_either_order() {
    let base = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n";
    for page in [
        format!("{base}vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.5\n"),
        format!("{base}vllm:kv_cache_usage_perc 0.5\nvllm:gpu_cache_usage_perc 0.9\n"),
    ] {
        assert_eq!(report(page.as_bytes()).unwrap().kv_use_permille, Some(500));
    }
}

#[test]
fn the_write_ups_spelling_of_the_cache_in_use_is_read_too() {
    let base = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n";
    let page = format!("{base}vllm:gpu_kv_cache_usage_perc 0.851\n");
    assert_eq!(report(page.as_bytes()).unwrap().kv_use_permille, Some(851));
}

#[test]
fn who_was_started_without_a_prefix_cache_looks_nothing_up_whatever_it_counts() {
    for (says, queries) in [("True", Some(0)), ("False", None)] {
        let page = format!(
            "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n\
             vllm:cache_config_info{{block_size=\"16\",enable_prefix_caching=\"{says}\"}} 1\n\
             vllm:prefix_cache_queries_total 0\n"
        );
        assert_eq!(report(page.as_bytes()).unwrap().prefix_queries, queries, "{says}");
    }
}

#[test]
fn ranks_add_up_and_duplicates_do_not() {
    let page = "\
vllm:num_requests_running{engine=\"0\"} 3
vllm:num_requests_running{engine=\"1\"} 4
vllm:num_requests_running{engine=\"1\"} 5
vllm:num_requests_waiting{engine=\"0\"} 1
vllm:num_requests_waiting{engine=\"1\"} 1
vllm:kv_cache_usage_perc{engine=\"0\"} 0.2
vllm:kv_cache_usage_perc{engine=\"1\"} 0.8
vllm:cache_config_info{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"10\"} 1
vllm:cache_config_info{engine=\"1\",block_size=\"16\",num_gpu_blocks=\"10\"} 1
";
    let report = report(page.as_bytes()).unwrap();
    assert_eq!((report.running, report.waiting, report.kv_use_permille), (8, 2, Some(500)));
    assert_eq!(report.kv_capacity, Some(Tokens::new(320)));
}

#[test]
fn what_is_missing_is_named() {
    let fails = |page: &str| report(page.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        fails("vllm:num_requests_waiting 1\nvllm:requests_running_now 1\n"),
        "the metrics lack a usable `vllm:num_requests_running`; is this release newer than ours?"
    );
    assert_eq!(
        fails("sglang:num_running_reqs 1\nsglang:num_queue_reqs NaN\n"),
        "the metrics lack a usable `sglang:num_queue_reqs`; is this release newer than ours?"
    );
    assert_eq!(
        fails("go_goroutines 12\n"),
        "the metrics name no known engine; expected names that begin with `vllm:`, `sglang:` or \
         `llamacpp:`"
    );
    assert!(matches!(report(b"vllm:num_requests_running x\n"), Err(ReportError::Page(_))));
}

// Faults: 47
#[test]
fn odd_values_of_what_one_can_do_without_are_left_out() {
    let page = "\
vllm:num_requests_running 1e0
vllm:num_requests_waiting 0
vllm:kv_cache_usage_perc NaN
vllm:num_preemptions_total +Inf
vllm:num_preemptions_created 1.7e9
vllm:prompt_tokens_total -1
vllm:cache_config_info{block_size=\"0\",num_gpu_blocks=\"None\"} 1
";
    let report = report(page.as_bytes()).unwrap();
    assert_eq!(report.running, 1);
    assert_eq!(
        (report.kv_use_permille, report.preemptions, report.prompt_tokens),
        (None, None, None)
    );
    assert_eq!((report.kv_capacity, report.block_size), (None, None));
}
