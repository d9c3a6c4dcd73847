//! Keys, priorities, budgets and the queue, from a configuration file to the official client.

use std::process::Command;

use crate::client::{python, run};
use crate::harness::{Server, root, until};

#[test]
fn the_official_client_is_told_its_limits() {
    let worker = Server::worker(&["--backend", "echo"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("overdraft.yaml");
    let text = format!(
        "workers: [{{url: 'http://{}'}}]\n\
         keys:\n\
         - {{tenant: acme, key: sk-acme-e2e-0123456789, requests_per_minute: 40}}\n\
         - {{tenant: batch, key: sk-batch-e2e-0123456789, priority: flex, priority_max: flex, \
            models: [none]}}\n\
         admission: {{mode: 'static:1', queue: {{requests: 8, per_tenant: 4}}}}\n",
        worker.address
    );
    std::fs::write(&file, text).expect("it is writable");
    let server = Server::serve(&["--config", file.to_str().expect("a path in UTF-8")]);
    until("the worker is up", || server.ask("GET", "/healthz", "").status == 200);
    run(Command::new(python())
        .arg(root().join("tests/e2e/openai_limits.py"))
        .args([&format!("http://{}", server.address), "echo"]));
    let log = server.log();
    assert!(!log.contains("sk-acme") && !log.contains("sk-batch"), "{log}");
    let rejected = server.metric("router_rejections_total");
    assert!(rejected >= 1.0, "{rejected}");
}
