//! Simulated workers that fail on purpose, and many of them in one process.

use std::io::Read;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::harness::{Server, ask, until};

/// The fastest of the profiles that ship, a hundred times as fast.
fn worker(more: &[&str]) -> Server {
    let mut arguments = vec!["--simulate", "h100/llama-3-8b-fp8", "--speed", "100"];
    arguments.extend(more);
    Server::worker(&arguments)
}

fn body(is_streamed: bool) -> Value {
    let said = "Tell me more. [answer:12]";
    let messages = json!([{"role": "user", "content": said}]);
    json!({"model": "llama-3-8b", "stream": is_streamed, "messages": messages})
}

/// All that comes until the connection ends, however it does.
fn read(server: &Server, body: &Value) -> String {
    let mut stream = server.open("POST", "/v1/chat/completions", &body.to_string());
    let mut bytes = Vec::new();
    // A connection that is cut may end with an error.
    let _ended = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn errors_are_answered_as_often_as_asked() {
    let server = worker(&["--error-rate", "1", "--error-status", "503"]);
    for is_streamed in [true, false] {
        let answer = server.ask("POST", "/v1/chat/completions", &body(is_streamed).to_string());
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(answer.body.contains("injected") && answer.body.contains("overloaded"));
    }
    // Not at once: the worker warms up beside its first requests.
    until("probes are answered", || server.ask("GET", "/health", "").status == 200);
    let half = worker(&["--error-rate", "0.5", "--seed", "3"]);
    let statuses: Vec<u16> = (0..40)
        .map(|_| half.ask("POST", "/v1/chat/completions", &body(false).to_string()).status)
        .collect();
    assert!(statuses.contains(&200) && statuses.contains(&500), "{statuses:?}");
}

#[test]
fn a_cut_answer_ends_in_the_middle_and_never_cleanly() {
    let server = worker(&["--cut-rate", "1", "--fault-after", "3"]);
    let streamed = read(&server, &body(true));
    assert!(streamed.matches("\"content\"").count() >= 3, "{streamed}");
    assert!(!streamed.contains("[DONE]") && !streamed.ends_with("0\r\n\r\n"), "{streamed}");
    let whole = read(&server, &body(false));
    assert!(whole.starts_with("HTTP/1.1 200") && !whole.contains("choices"), "{whole}");
}

#[test]
fn a_stalled_answer_goes_on_after_its_time() {
    let server = worker(&["--stall-rate", "1", "--stall-seconds", "0.3", "--log-format", "json"]);
    let streamed = read(&server, &body(true));
    assert!(streamed.contains("[DONE]"), "{streamed}");
    let took = || {
        let log = server.log();
        let line = log.lines().find(|line| line.contains("\"path\":\"/v1/chat/completions\""))?;
        serde_json::from_str::<Value>(line).ok()?["total_us"].as_u64()
    };
    until("the access line is written", || took().is_some());
    assert!(took() >= Some(300_000), "{:?}", took());
}

#[test]
fn an_answer_that_stalls_for_good_ends_with_its_server() {
    let mut server = worker(&["--stall-rate", "1", "--shutdown-timeout", "0"]);
    let mut stream = server.open("POST", "/v1/chat/completions", &body(true).to_string());
    let mut seen = vec![0; 4_096];
    let first = stream.read(&mut seen).expect("the answer begins");
    assert!(0 < first);
    server.signal("TERM");
    assert!(server.ended().success(), "{}", server.log());
}

#[test]
fn many_workers_of_one_process_are_each_their_own() {
    let server = worker(&[
        "--workers",
        "3",
        "--metrics-names",
        "both",
        "--kv-events-endpoint",
        "tcp://127.0.0.1:0",
    ]);
    until("all listen", || server.log().matches("serves on http://").count() == 3);
    let addresses: Vec<SocketAddr> = server
        .log()
        .lines()
        .filter_map(|line| line.split_once("serves on http://")?.1.trim().parse().ok())
        .collect();
    assert_eq!(addresses[0], server.address);
    let mut sources = Vec::new();
    for (asked, address) in addresses.iter().enumerate() {
        until("it is warm", || ask(*address, "GET", "/health", "").status == 200);
        for _ in 0..asked {
            let body = body(false).to_string();
            assert_eq!(ask(*address, "POST", "/v1/chat/completions", &body).status, 200);
        }
        sources.push(ask(*address, "GET", "/kv_event_sources", "").body);
    }
    for (asked, address) in addresses.iter().enumerate() {
        let page = ask(*address, "GET", "/metrics", "").body;
        let told = page
            .lines()
            .filter(|line| line.starts_with("vllm:request_success_total"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum::<f64>();
        assert!((told - f64::from(u32::try_from(asked).unwrap())).abs() < 1e-9, "{page}");
        // Today's name and that of 0.6.
        for name in ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"] {
            assert!(page.contains(name), "`{name}` is not told by {address}");
        }
    }
    sources.sort_unstable();
    sources.dedup();
    assert_eq!(sources.len(), 3, "each publishes its own events: {sources:?}");
}
