//! `overdraft tail`: every request of a running gateway.

use serde_json::json;

use crate::harness::{Server, until};
use crate::load::said;

/// More than a gateway lists at once.
const REQUESTS: usize = 1_500;

#[test]
fn a_gateway_and_its_log_tell_the_same_of_a_request() {
    let worker = Server::worker(&["--backend", "echo"]);
    let url = format!("http://{}", worker.address);
    let gateway = Server::serve(&["--worker", &url, "--log-format", "json"]);
    until("the worker is up", || gateway.ask("GET", "/healthz", "").status == 200);
    gateway.chat(&json!({"model": "echo", "messages": [{"role": "user", "content": "x"}]}));
    until("its line is written", || gateway.log().contains("\"attempts\":1"));
    let live = format!("http://{}", gateway.address);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("access.jsonl");
    std::fs::write(&file, gateway.log()).expect("it is writable");
    let file = file.to_str().expect("a path in UTF-8");
    let filter = ["--where", "attempts = 1 and not refused and not resumed_by"];
    let printed =
        |source: &[&str]| said(&[&["tail"][..], source, &filter].concat()).lines().count();
    assert_eq!((printed(&[&live, "--once"]), printed(&["--log", file])), (1, 1));
}

#[test]
fn tail_prints_all_that_the_gateway_still_knows() {
    let worker = Server::worker(&["--backend", "echo"]);
    let gateway = Server::serve(&["--worker", &format!("http://{}", worker.address)]);
    until("the worker is up", || gateway.ask("GET", "/healthz", "").status == 200);
    let url = format!("http://{}", gateway.address);
    let before = said(&["tail", &url, "--once"]).lines().count();
    // No worker has to compute anything.
    let body = json!({"model": "no-such", "messages": [{"role": "user", "content": "x"}]});
    let body = body.to_string();
    for _ in 0..REQUESTS {
        assert_eq!(gateway.ask("POST", "/v1/chat/completions", &body).status, 404);
    }
    let printed = || said(&["tail", &url, "--once", "--where", "status = 404"]).lines().count();
    assert_eq!(before, 0);
    until("all of them are printed", || printed() == REQUESTS);
}
