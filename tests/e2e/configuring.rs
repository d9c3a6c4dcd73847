//! Configuration files and the real binary: checked, shown, served, changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::Value;

use crate::harness::{Server, binary, root, until};

/// How a command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    said: String,
}

fn overdraft(arguments: &[&str]) -> Ended {
    let out = Command::new(binary()).args(arguments).output().expect("the binary starts");
    Ended {
        code: out.status.code(),
        out: String::from_utf8_lossy(&out.stdout).into_owned(),
        said: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// A file in a folder of its own, which goes with the value.
struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("overdraft.yaml");
        std::fs::write(&path, text).expect("it is writable");
        Self { _folder: folder, path }
    }

    fn name(&self) -> &str {
        self.path.to_str().expect("a path in UTF-8")
    }
}

fn echo() -> Server {
    Server::worker(&["--backend", "echo"])
}

#[test]
fn the_example_is_good() {
    let example = root().join("examples/overdraft.yaml");
    let example = example.to_str().expect("a path in UTF-8");
    let ended = overdraft(&["check", "--offline", "--show", "--config", example]);
    assert_eq!((ended.code, ended.said.as_str()), (Some(0), ""), "{}", ended.out);
    for part in
        ["is good", "llama-3-8b (chat, gpt-4o-mini)", "3 target, 1 draft", "slow_start: 10s"]
    {
        assert!(ended.out.contains(part), "`{part}` is not in: {}", ended.out);
    }
}

#[test]
fn a_bad_file_is_refused_with_its_place_by_every_command() {
    let file = File::new("workers: [{url: 'http://a:1'}]\nscrape: {intervall: 1s}\n");
    let place = format!("{}:2:10: unknown key `intervall` in `scrape`", file.name());
    for arguments in [&["check"][..], &["config", "show"], &["serve", "--listen", "127.0.0.1:0"]] {
        let ended = overdraft(&[arguments, &["--config", file.name()]].concat());
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.said);
        for part in [place.as_str(), "did you mean `interval`?", "^^^^^^^^^"] {
            assert!(ended.said.contains(part), "`{part}` is not in: {}", ended.said);
        }
    }
    let ended = overdraft(&["check", "--output", "json", "--config", file.name()]);
    assert_eq!((ended.code, ended.said.as_str()), (Some(2), ""));
    let view: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(view["problems"][0]["line"], 2, "{view}");
    assert_eq!(view["problems"][0]["column"], 10, "{view}");
}

#[test]
fn a_file_without_workers_is_shown_as_it_is_checked() {
    let file = File::new("routing: {policy: round-robin}\n");
    let checked = overdraft(&["check", "--offline", "--config", file.name()]);
    assert_eq!(checked.code, Some(0), "{}", checked.said);
    let shown = overdraft(&["config", "show", "--config", file.name()]);
    assert_eq!(shown.code, Some(0), "{}", shown.said);
    assert!(shown.out.contains("policy: round-robin"), "{}", shown.out);
    let invalid = File::new("routing: {policy: costt}\n");
    for command in [&["check", "--offline"][..], &["config", "show"]] {
        let ended = overdraft(&[command, &["--config", invalid.name()]].concat());
        assert_eq!(ended.code, Some(2), "{command:?}: {}", ended.said);
    }
}

#[test]
fn variables_count_without_a_file_too() {
    let worker = echo();
    let url = format!("http://{}", worker.address);
    let keys = [("OVERDRAFT__KEYS", "[{tenant: a, key: abcdefghijklmnop}]")];
    let gateway = Server::serve_in(&keys, &["--worker", &url]);
    let body = r#"{"model":"echo","messages":[{"role":"user","content":"hello"}]}"#;
    let answer = gateway.ask("POST", "/v1/chat/completions", body);
    assert_eq!(answer.status, 401, "a gateway with keys is open: {}", answer.body);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let within = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(binary());
        let out = command.args(arguments).env(name, "127.0.0.1:9").current_dir(folder.path());
        let out = out.output().expect("the binary starts");
        let text = [out.stdout, out.stderr].concat();
        (out.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, text) = within("OVERDRAFT__LISTEN", &["config", "show"]);
    assert!(code == Some(0) && text.contains("listen: 127.0.0.1:9"), "{text}");
    let (_, text) = within("OVERDRAFT__LISTEN", &["doctor", "--offline"]);
    assert!(text.contains("127.0.0.1:9") && text.contains("none at overdraft.yaml"), "{text}");
    for command in ["serve", "config show"] {
        let words: Vec<&str> = command.split(' ').collect();
        let (code, text) = within("OVERDRAFT__LISTENN", &words);
        let slip = "OVERDRAFT__LISTENN: unknown key `listenn`";
        assert!(code == Some(2) && text.contains(slip), "{command}: {text}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let missing = Path::new("no-such-file.yaml");
    let ended = overdraft(&["check", "--config", missing.to_str().expect("ASCII")]);
    assert_eq!(ended.code, Some(2), "{}", ended.said);
    assert!(ended.said.contains("no-such-file.yaml: there is no such file"), "{}", ended.said);
}

#[test]
fn workers_are_asked_what_they_serve_and_what_they_tell() {
    let worker = echo();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let closed = gone.local_addr().expect("it has an address");
    drop(gone);
    let file = File::new(&format!(
        "workers:\n  - {{url: 'http://{0}', name: right, model: echo}}\n  \
         - {{url: 'http://localhost:{1}', name: wrong, model: other}}\n  \
         - {{url: 'http://{closed}', name: gone}}\n\
         models: {{echo: {{tokenizer: off}}}}\n",
        worker.address,
        worker.address.port(),
    ));
    let ended = overdraft(&["check", "--config", file.name()]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.said);
    let line = |name: &str| -> String {
        let found = ended.out.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
        found.unwrap_or_else(|| panic!("no line about {name}: {}", ended.out)).to_owned()
    };
    let right = line("right");
    assert!(!right.starts_with("fail"), "{right}");
    for part in ["serves echo", "metrics of vLLM", "prefix cache", "tokenizer off"] {
        assert!(right.contains(part), "`{part}` is not in: {right}");
    }
    assert!(line("wrong").starts_with("fail") && line("wrong").contains("not `other`"));
    assert!(line("gone").starts_with("fail") && line("gone").contains("no connection"));
    assert!(ended.out.contains("hint: is it running"), "{}", ended.out);
    let ended = overdraft(&["check", "--output", "json", "--config", file.name()]);
    let view: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((ended.code, &view["ok"]), (Some(1), &Value::Bool(false)), "{view}");
    assert_eq!(view["workers"][2]["verdict"], "fail", "{view}");
}

#[test]
fn a_gateway_whose_workers_were_never_up_says_where_it_listens_and_why_it_waits() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", gone.local_addr().expect("it has an address"));
    drop(gone);
    let gateway = Server::waiting(&["--worker", &url]);
    until("it says why", || {
        gateway.log().contains("no connection; start it, or correct its `url`")
    });
    let log = gateway.log();
    assert!(log.contains(&url) && log.contains("onnection refused"), "{log}");
    assert_eq!(gateway.ask("GET", "/healthz", "").status, 503, "{log}");
    assert_eq!(gateway.log().matches("worker is not up yet").count(), 1, "{}", gateway.log());
}

#[test]
fn a_check_finds_what_a_file_names_and_is_not_there() {
    let worker = echo();
    let own = format!(
        "workers: [{{url: 'http://{}'}}]\nmodels: {{echo: {{tokenizer: off}}}}\n",
        worker.address
    );
    let found = |arguments: &[&str], text: &str, code: i32, part: &str| {
        let file = File::new(text);
        let ended = overdraft(&[&["check"][..], arguments, &["--config", file.name()]].concat());
        assert_eq!(ended.code, Some(code), "{text}: {}{}", ended.out, ended.said);
        assert!(ended.out.contains(part), "`{part}` is not in: {}", ended.out);
    };
    let missing = format!("{own}discovery: [{{file: {{path: /nowhere/workers}}}}]\n");
    found(&[], &missing, 1, "`/nowhere/workers` cannot be read");
    let slip = format!("{own}model_default: nope\n");
    found(&[], &slip, 0, "`model_default` names `nope`, which no worker serves");
    let keys = format!("{own}jwt: {{issuer: a, audience: b, jwks_file: /nowhere/keys.json}}\n");
    found(&[], &keys, 1, "the keys of the issuer cannot be had");
    found(&["--offline"], &keys, 1, "the keys of the issuer cannot be had");
    let encrypted = "workers: [{url: 'https://127.0.0.1:1', tls: {ca_file: /nowhere/ca.pem}}]\n";
    found(&["--offline"], encrypted, 1, "/nowhere/ca.pem");
}

#[test]
fn a_gateway_serves_what_its_file_says_and_flags_count_more() {
    let worker = echo();
    let file = File::new(&format!(
        "listen: 127.0.0.1:1\nmodel_default: echo\n\
         workers: [{{url: 'http://{}', name: from-the-file}}]\n",
        worker.address
    ));
    // Port 1 of the file would be refused; the flag's is taken.
    let gateway = Server::serve(&["--config", file.name()]);
    let body = r#"{"messages":[{"role":"user","content":"hello"}],"max_tokens":3}"#;
    until("the worker is up", || gateway.ask("GET", "/healthz", "").status == 200);
    let answer = gateway.ask("POST", "/v1/chat/completions", body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.head.contains("from-the-file"), "{}", answer.head);
}

// Faults: 78
#[test]
fn a_bad_change_is_told_and_a_good_one_is_in_force_at_once() {
    let worker = echo();
    let good = format!("workers: [{{url: 'http://{}'}}]\n", worker.address);
    let file = File::new(&good);
    let gateway = Server::serve(&["--config", file.name()]);
    until("the worker is up", || gateway.ask("GET", "/healthz", "").status == 200);
    std::fs::write(&file.path, "workers: [{ulr: 'http://a:1'}]\n").expect("it is writable");
    gateway.signal("HUP");
    until("it is told", || gateway.log().contains("unknown key `ulr`"));
    assert!(gateway.log().contains("the last good one stays"), "{}", gateway.log());
    assert_eq!(gateway.ask("GET", "/healthz", "").status, 200);
    let body = r#"{"model":"echo","messages":[{"role":"user","content":"hello"}]}"#;
    let decides = || gateway.ask("POST", "/admin/explain", body).body;
    assert!(decides().contains("\"policy\":\"cost\""), "{}", decides());
    let other = format!("{good}routing: {{policy: round-robin}}\n");
    std::fs::write(&file.path, other).expect("it is writable");
    until("it is told", || gateway.log().contains("configuration changed and in force"));
    until("it decides", || decides().contains("\"policy\":\"round-robin\""));
}

#[test]
fn a_change_that_the_gateway_cannot_serve_by_is_refused_and_taken_when_it_can() {
    let worker = echo();
    let good = format!("workers: [{{url: 'http://{}'}}]\n", worker.address);
    let file = File::new(&good);
    let gateway = Server::serve(&["--config", file.name()]);
    until("the worker is up", || gateway.ask("GET", "/healthz", "").status == 200);
    let beside = |name: &str| file.path.with_file_name(name);
    let other = format!(
        "{good}discovery: [{{file: {{path: '{}', each: {{tls: {{ca_file: '{}'}}}}}}}}]\n",
        beside("workers").display(),
        beside("ca.pem").display(),
    );
    std::fs::write(&file.path, other).expect("it is writable");
    let refusals = || gateway.log().matches("configuration refused").count();
    until("it is refused", || refusals() == 1);
    let log = gateway.log();
    assert!(log.contains("ca.pem") && !log.contains("in force"), "{log}");
    std::fs::write(beside("ca.pem"), authority()).expect("it is writable");
    gateway.signal("HUP");
    until("it is told", || gateway.log().contains("configuration changed and in force"));
    assert_eq!(refusals(), 1, "{}", gateway.log());
}

/// A certificate of an authority, in PEM.
fn authority() -> String {
    let mut authority = CertificateParams::new(Vec::new()).expect("it names nobody");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key can be made");
    authority.self_signed(&key).expect("it signs itself").pem()
}
