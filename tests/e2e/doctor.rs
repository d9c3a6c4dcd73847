//! `overdraft doctor`: a report of everything, with exit code 0 also where nothing runs, and without secrets.
#![expect(clippy::disallowed_methods, reason = "a test of a bound in time needs a clock")]

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::addresses::answering;
use crate::harness::{Server, binary};

/// What an operator shows, and no report may.
const TOKEN: &str = "a-token-of-this-test";

/// Longer than any report may take.
const BOUND: Duration = Duration::from_secs(30);

/// Runs the doctor on a file; its report.
fn report(folder: &tempfile::TempDir, yaml: &str, arguments: &[&str]) -> String {
    let path = folder.path().join("overdraft.yaml");
    std::fs::write(path, yaml).expect("it is writable");
    let begun = Instant::now();
    let mut command = Command::new(binary());
    let out = command.arg("doctor").args(arguments).current_dir(folder.path()).output();
    let out = out.expect("the binary starts");
    assert!(begun.elapsed() < BOUND, "it took {:?}", begun.elapsed());
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), said.as_ref()), (Some(0), ""), "{yaml}");
    let text = String::from_utf8(out.stdout).expect("a report in UTF-8");
    assert!(!text.contains(TOKEN) && !text.contains("hush"), "a secret: {text}");
    text
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn a_running_gateway_is_reported_with_its_fleet() {
    let worker = Server::worker(&["--backend", "echo"]);
    let folder = folder();
    let yaml = |listen: &str| {
        format!(
            "listen: {listen}\nadmin: {{token: {TOKEN}}}\nmodels: {{echo: {{tokenizer: off}}}}\n\
             workers: [{{name: w1, url: 'http://{}', kv_events: off, api_key: hush}}]\n",
            worker.address
        )
    };
    let path = folder.path().join("served.yaml");
    std::fs::write(&path, yaml("127.0.0.1:0")).expect("it is writable");
    let gateway = Server::serve(&["--config", path.to_str().expect("a path in UTF-8")]);
    let version = env!("CARGO_PKG_VERSION");
    let text = report(&folder, &yaml(&gateway.address.to_string()), &[]);
    has(&text, &["processors", "memory", "cgroup", "open files", "kernel", "features"]);
    has(&text, &[&format!("{}, overdraft {version} answers", gateway.address)]);
    has(&text, &["ready          {\"status\":\"ready\"}", "w1             up, breaker closed"]);
    has(&text, &[&format!("serves echo; overdraft {version}; metrics of vLLM")]);
    let json = report(&folder, &yaml(&gateway.address.to_string()), &["--json"]);
    let view: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(view["build"]["version"], version);
    assert_eq!(view["gateway"]["fleet"]["workers"][0]["worker"], "w1", "{view:#}");
    assert_eq!(view["configuration"]["effective"]["admin"]["token"], "(redacted)", "{view:#}");
    assert_eq!(view["checks"][0]["verdict"], "ok", "{view:#}");
    // By its address alone, without the token.
    let url = format!("http://{}", gateway.address);
    let text = report(&folder, "workers: [{url: 'http://127.0.0.1:1'}]\n", &["--url", &url]);
    has(
        &text,
        &["now            it answers `403 Forbidden`: ", "hint           give the gateway's"],
    );
}

#[test]
fn what_is_no_gateway_or_refuses_is_a_line_with_what_to_do() {
    let folder = folder();
    let of = |url: &str| report(&folder, "workers: [{url: 'http://127.0.0.1:1'}]\n", &[url]);
    let down = of("http://127.0.0.1:1");
    has(&down, &["running        no: no connection: ", "expected a gateway"]);
    has(&down, &["hint           is it running there? `overdraft serve` starts a gateway"]);
    let page = of(&answering("200 OK", "<h1>It works!</h1>"));
    has(&page, &["version        it answers `/version` with something else than a gateway does"]);
    has(&page, &["hint           is that a gateway, of this version?"]);
    let proxy = of(&answering("401 Unauthorized", "<h1>Log in</h1>"));
    has(&proxy, &["now            it answers `401 Unauthorized`\n", "a proxy before it"]);
    let vllm = of(&answering("200 OK", "{\"version\":\"0.19.0\"}"));
    has(&vllm, &["version        0.19.0, of something else than overdraft; expected a gateway"]);
}

#[test]
fn nothing_has_to_run() {
    // It listens and never answers; its backlog takes the questions.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = silent.local_addr().expect("it listens");
    let yaml = format!(
        "listen: {silent}\nstore: {{url: 'redis://me:hush@{silent}'}}\nworkers:\n\
         - {{name: gone, url: 'http://127.0.0.1:1'}}\n- {{name: silent, url: 'http://{silent}'}}\n"
    );
    let folder = folder();
    let text = report(&folder, &yaml, &[]);
    has(&text, &["fail  gone", "no connection", "fail  silent", "fail  store"]);
    has(&text, &["something listens; as HTTP: no answer within 2s"]);
    let text = report(&folder, "listen: 127.0.0.1:0\nworkers: []\nworkers: []\n", &["--offline"]);
    has(&text, &["problem", "workers"]);
    // Nothing is known of its listeners, and those of the defaults are none of it.
    let text = report(&folder, "listen: 0.0.0.0:9000\nscrape: {intervall: 1s}\n", &[]);
    has(&text, &["unknown key `intervall`", "running        not known: the configuration"]);
    assert!(!text.contains("listeners") && !text.contains("127.0.0.1:8080"), "{text}");
    std::fs::remove_file(folder.path().join("overdraft.yaml")).expect("it was written");
    let mut bare = Command::new(binary());
    let out = bare.args(["doctor", "--offline"]).current_dir(folder.path()).output();
    let out = out.expect("the binary starts");
    has(&String::from_utf8_lossy(&out.stdout), &["none at overdraft.yaml", "the defaults"]);
    assert_eq!(out.status.code(), Some(0));
}
