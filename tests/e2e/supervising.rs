//! `overdraft supervise` with real children: started, restarted, given up, ended.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::harness::{Server, binary, until};
use crate::redis::free_port;

/// A supervisor that is asked to end, so that its child ends with it.
pub(crate) struct Supervised {
    server: Server,
    ended: Option<ExitStatus>,
}

impl Supervised {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self { server: Server::supervise(arguments), ended: None }
    }

    /// Asks it to end and waits until it has.
    fn end(&mut self) -> ExitStatus {
        self.end_by("TERM")
    }

    fn end_by(&mut self, signal: &str) -> ExitStatus {
        if let Some(status) = self.ended {
            return status;
        }
        self.server.signal(signal);
        *self.ended.insert(self.server.ended())
    }

    /// The number of the process that runs.
    fn pid(&self) -> Option<u32> {
        let answer = self.ask("GET", "/healthz", "");
        let (_, rest) = answer.body.split_once("\"pid\":").filter(|_| answer.status == 200)?;
        rest.trim_end_matches('}').parse().ok()
    }

    fn restarts(&self, cause: &str) -> Option<u32> {
        let page = self.ask("GET", "/metrics", "").body;
        let name = format!("overdraft_supervise_restarts_total{{cause=\"{cause}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok())
    }
}

impl Deref for Supervised {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.end();
    }
}

/// An address that nobody listens at, now and later.
pub(crate) fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn kill(signal: &str, pid: u32) {
    let sent = Command::new("kill").args(["-s", signal, &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_child_that_dies_or_is_told_to_is_started_again_and_ends_with_its_supervisor() {
    let mut supervised = Supervised::start(&["--", "sleep", "1000"]);
    until("it runs", || supervised.pid().is_some());
    let first = supervised.pid().expect("it runs");
    let answer = supervised.ask("POST", "/restart", "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(!lives(first), "the old process has ended before the answer comes");
    let second = supervised.pid().expect("it runs");
    assert!(second != first && lives(second));
    kill("KILL", second);
    until("it was started again", || supervised.pid().is_some_and(|pid| pid != second));
    until("that is counted", || supervised.restarts("death") == Some(1));
    assert_eq!(supervised.restarts("order"), Some(1));
    let third = supervised.pid().expect("it runs");
    assert!(supervised.end().success());
    assert!(!lives(third), "the child ended with its supervisor");
}

#[test]
fn a_child_ends_with_its_supervisor_whose_terminal_hangs_up() {
    // Under `nohup` hang-ups are ignored, here as there.
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let hangup = if ignored.is_some_and(|mask| mask & 1 == 1) { "INT" } else { "HUP" };
    for signal in [hangup, "QUIT"] {
        let mut supervised = Supervised::start(&["--", "sleep", "1000"]);
        until("it runs", || supervised.pid().is_some());
        let child = supervised.pid().expect("it runs");
        assert!(supervised.end_by(signal).success(), "{signal}");
        assert!(!lives(child), "{signal}: the child goes on without its supervisor");
    }
}

#[test]
fn the_child_gets_what_a11_asks_for_and_what_the_operator_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("environment");
    let script = format!("env > {0}.new; mv {0}.new {0}; exec sleep 1000", file.display());
    let said = ["--env", "NCCL_DEBUG=INFO", "--env", "NCCL_CUMEM_ENABLE=", "--"];
    let _supervised = Supervised::start(&[&said[..], &["sh", "-c", &script]].concat());
    until("it has written", || file.exists());
    let text = std::fs::read_to_string(&file).expect("it is there");
    let has = |line: &str| text.lines().any(|one| one == line);
    assert!(has("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), "{text}");
    assert!(has("TORCH_NCCL_AVOID_RECORD_STREAMS=1") && has("NCCL_DEBUG=INFO"), "{text}");
    assert!(has("NCCL_TIMEOUT=1800") && has("NCCL_IB_DISABLE=0") && has("OMP_NUM_THREADS=8"));
    assert!(!text.contains("NCCL_CUMEM_ENABLE"), "{text}");
}

#[test]
fn vllm_gets_its_number_of_sequences_and_its_flags_are_talked_about() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (program, file) = (folder.path().join("vllm"), folder.path().join("arguments"));
    // As one that is installed looks; what it is given is all that counts here.
    let script = format!("echo \"$@\" > {0}.new; mv {0}.new {0}; exec sleep 1000", file.display());
    std::fs::write(&program, script).expect("it is writable");
    let program = program.display().to_string();
    let flags = ["serve", "M", "--max-num-batched-tokens", "16384"];
    let supervised = Supervised::start(&[&["--", "sh", &program][..], &flags].concat());
    until("it has written", || file.exists());
    let text = std::fs::read_to_string(&file).expect("it is there");
    assert_eq!(text.trim(), "serve M --max-num-batched-tokens 16384 --max-num-seqs 256");
    until("its flags are talked about", || supervised.log().contains("go back to 8192"));
}

#[test]
fn a_child_that_does_not_listen_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("pid");
    let script = format!(
        "trap '' TERM; sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; while :; do sleep 1; done",
        file.display()
    );
    let mut supervised = Supervised::start(&["--grace", "1", "--", "sh", "-c", &script]);
    until("it has started another", || file.exists());
    let text = std::fs::read_to_string(&file).expect("it is there");
    let grandchild: u32 = text.trim().parse().expect("a number");
    let child = supervised.pid().expect("it runs");
    assert!(supervised.end().success());
    assert!(!lives(child), "the child was killed");
    // Whoever adopts the other one has yet to bury it.
    let is_dead = || {
        let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
        state.map_or(true, |state| state.contains(") Z "))
    };
    until("what it started has ended", is_dead);
}

#[test]
fn a_child_that_dies_too_often_is_given_up() {
    let arguments = ["--deaths-max", "2", "--", "sh", "-c", "exit 7"];
    let mut server = Server::supervise(&arguments);
    assert_eq!(server.ended().code(), Some(1));
    until("its last word is read", || server.log().contains("died 2 times in a row"));
    assert!(server.log().contains("exit status: 7"), "{}", server.log());
}

#[test]
fn a_stranger_restarts_nothing() {
    let supervised = Supervised::start(&["--token", "secret", "--", "sleep", "1000"]);
    until("it runs", || supervised.pid().is_some());
    let before = supervised.pid();
    let answer = supervised.ask("POST", "/restart", "");
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert_eq!(supervised.ask("GET", "/restart", "").status, 405);
    assert_eq!(supervised.pid(), before);
}

#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let out = Command::new(binary()).arg("supervise").args(arguments).output();
    let out = out.expect("the binary starts");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

#[test]
fn what_cannot_be_supervised_is_refused() {
    let here = ["--listen", "127.0.0.1:0"];
    refused(&[&here[..], &["--", "/no/such/engine"]].concat(), &["/no/such/engine", "--"]);
    refused(&["--listen", "0.0.0.0:0", "--", "sleep", "1"], &["0.0.0.0:0", "--token"]);
    refused(&[&here[..], &["--env", "A B=c", "--", "sleep", "1"]].concat(), &["A B", "NAME=VALUE"]);
    refused(&["--backoff", "9", "--backoff-max", "3", "--", "sleep", "1"], &["9", "3"]);
    refused(&here, &["COMMAND"]);
}
