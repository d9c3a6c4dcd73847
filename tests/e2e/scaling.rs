//! What the fleet wants, asked as KEDA asks; and a worker whose memory fragments, restarted under
//! traffic.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;

use crate::client::{python_with, run};
use crate::harness::{Server, root, until};
use crate::supervising::{Supervised, free};

#[test]
fn a_stock_grpc_client_sees_a_step_of_the_load() {
    let model = root().join("models/overdraft-target.q8_0.gguf");
    let path = model.to_str().expect("a path in UTF-8");
    let named = ["--model", path, "--served-model-name", "target", "--max-num-seqs", "2"];
    let worker = Server::worker(&named);
    let url = format!("http://{}", worker.address);
    let gateway = Server::serve(&["--worker", &url, "--scaler-listen", "127.0.0.1:0"]);
    let log = gateway.log();
    let scaler = log.lines().find_map(|line| line.split_once("listens on grpc://"));
    let (_, scaler) = scaler.expect("the scaler says where it listens");
    // A number asked for before would be held for its cooldown, as what is not known is.
    let known = "overdraft_pool_workers{pool=\"target\",state=\"known\"} 1";
    until("its load is known", || gateway.ask("GET", "/metrics", "").body.contains(known));
    let generated = tempfile::tempdir().expect("a temporary folder");
    let said = run(Command::new(python_with("requirements-grpc.txt", "grpc-client"))
        .arg(root().join("tests/e2e/keda_client.py"))
        .args([scaler, &gateway.address.to_string()])
        .arg(root().join("crates/scaler/proto"))
        .arg(generated.path())
        .arg("target"));
    println!("a step of the load was seen after: {}", said.trim());
    // The same numbers as metrics.
    assert!(gateway.metric("overdraft_pool_desired_workers") >= 1.0);
    let page = gateway.ask("GET", "/metrics", "").body;
    for name in ["kv_use", "waiting", "running", "desired_load", "workers"] {
        assert!(
            page.contains(&format!("overdraft_pool_{name}{{pool=\"target\"")),
            "{name}\n{page}"
        );
    }
}

/// An exporter whose figure the test sets.
struct Exporter {
    address: SocketAddr,
    used: Arc<AtomicU32>,
}

impl Exporter {
    fn start(used: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let used = Arc::new(AtomicU32::new(used));
        let told = Arc::clone(&used);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                answer(&mut stream, told.load(Ordering::Relaxed));
            }
        });
        Self { address, used }
    }
}

fn answer(stream: &mut TcpStream, used: u32) {
    let mut head = [0; 1024];
    let _ = stream.read(&mut head);
    let page = format!(
        "DCGM_FI_DEV_FB_USED{{gpu=\"0\"}} {used}\nDCGM_FI_DEV_FB_FREE{{gpu=\"0\"}} {}\n\
         DCGM_FI_DEV_FB_USED{{gpu=\"1\"}} 999\nDCGM_FI_DEV_FB_FREE{{gpu=\"1\"}} 1\n",
        1_000 - used
    );
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{page}",
        page.len()
    );
    let _ = stream.write_all(answer.as_bytes());
}

#[test]
fn a_worker_whose_memory_fragments_is_restarted_and_nobody_notices() {
    let exporter = Exporter::start(500);
    let place = free();
    let listen = place.to_string();
    let binary = crate::harness::binary();
    let binary = binary.to_str().expect("a path in UTF-8");
    let supervised = Supervised::start(&[
        "--token",
        "secret",
        "--",
        binary,
        "worker",
        "--backend",
        "echo",
        "--listen",
        &listen,
    ]);
    let other = Server::worker(&["--backend", "echo"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("overdraft.yaml");
    let text = format!(
        "workers:\n\
         - url: http://{place}\n  name: frail\n  warm_up: true\n\
         \x20 memory: {{url: 'http://{}/metrics', labels: {{gpu: '0'}}, interval: 50ms}}\n\
         \x20 restart: {{supervise: {{url: 'http://{}', token: secret}}}}\n\
         - url: http://{}\n  name: other\n\
         fragmentation: {{threshold: 10%, lasting: 300ms, settle: 300ms, backoff: 1h}}\n",
        exporter.address, supervised.address, other.address,
    );
    std::fs::write(&file, text).expect("it is writable");
    let gateway = Server::serve(&["--config", file.to_str().expect("a path in UTF-8")]);
    until("both workers are up", || gateway.metric("overdraft_worker_up") > 1.5);
    assert!(gateway.metric("overdraft_warm_ups_total") > 0.5, "it was warmed up first");
    until("it has settled", || {
        gateway.ask("GET", "/metrics", "").body.contains("overdraft_worker_memory_drift{")
    });
    let over = AtomicBool::new(false);
    let answered = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let body = json!({"model": "echo", "prompt": "a b c", "max_tokens": 3});
                let answer = gateway.ask("POST", "/v1/completions", &body.to_string());
                assert_eq!(answer.status, 200, "{}", answer.body);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let until = |what: &str, holds: &dyn Fn() -> bool| {
            until(what, || asking.is_finished() || holds());
        };
        exporter.used.store(700, Ordering::Relaxed);
        let restarted = "overdraft_worker_repairs_total{outcome=\"restarted\"} 1";
        until("it was restarted", &|| gateway.ask("GET", "/metrics", "").body.contains(restarted));
        until("it serves again", &|| gateway.metric("overdraft_worker_up") > 1.5);
        let before = answered.load(Ordering::Relaxed);
        until("others are answered", &|| before + 20 < answered.load(Ordering::Relaxed));
        over.store(true, Ordering::Relaxed);
    });
    let ordered = "overdraft_supervise_restarts_total{cause=\"order\"} 1";
    assert!(supervised.ask("GET", "/metrics", "").body.contains(ordered));
    // That it is up may have been told of the process before.
    until("it was warmed up again", || gateway.metric("overdraft_warm_ups_total") > 1.5);
}
