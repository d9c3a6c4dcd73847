//! A fleet that loses a worker under load, and clients that leave at any moment.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Server, until};

/// Clients that ask at the same time.
const CLIENTS: usize = 6;
/// Answers that prove that somebody is, or is not, sent requests.
const ENOUGH: usize = 300;
/// How long a dead worker may be sent requests.
const PASSED_OVER_WITHIN: Duration = Duration::from_secs(2);
/// Requests of which half are cancelled.
const CANCELLED_OF: usize = 2_000;
/// Clients that cancel at the same time.
const CANCELLERS: usize = 16;
/// Bytes of an answer that a client that leaves has read at most; most answers are shorter.
const READ_MAX: usize = 4_096;

/// What a client saw of a streamed answer.
#[derive(Debug)]
struct Streamed {
    worker: String,
    ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Whole,
    Cut,
}

/// Tells the clients to end, however the test does.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn echo() -> Server {
    Server::worker(&["--backend", "echo"])
}

fn before(workers: &[Server]) -> Server {
    let urls: Vec<String> =
        workers.iter().map(|worker| format!("http://{}", worker.address)).collect();
    let arguments: Vec<&str> = urls.iter().flat_map(|url| ["--worker", url]).collect();
    let gateway = Server::serve(&arguments);
    until("all workers are up", || up(&gateway).len() == workers.len());
    gateway
}

fn listed(gateway: &Server) -> Vec<Value> {
    let list = gateway.ask("GET", "/admin/workers", "").body;
    let list: Value = serde_json::from_str(&list).expect("JSON");
    list["workers"].as_array().expect("a list of workers").clone()
}

/// The names of those that are sent requests.
fn up(gateway: &Server) -> Vec<String> {
    let up = listed(gateway).into_iter().filter(|one| one["health"] == "up");
    up.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
}

fn question(said: &str) -> String {
    json!({"model": "echo", "stream": true, "max_tokens": 200,
           "messages": [{"role": "user", "content": said}]})
    .to_string()
}

/// Asks and reads to the end. Whatever goes wrong before the first byte is the test's failure.
fn stream(gateway: &Server, said: &str) -> Streamed {
    let mut connection = gateway.open("POST", "/v1/chat/completions", &question(said));
    let mut bytes = Vec::new();
    // A cut ends in a reset; what came before it counts.
    let _ = connection.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer began");
    assert!(head.starts_with("HTTP/1.1 200 "), "an error before the first byte: {text}");
    assert!(body.contains("\"content\""), "nothing was streamed: {text}");
    let worker = head.lines().find_map(|line| line.strip_prefix("x-overdraft-worker: "));
    let ending = if body.contains("data: [DONE]") { Ending::Whole } else { Ending::Cut };
    Streamed { worker: worker.expect("the answer says who gave it").to_owned(), ending }
}

/// A number that `of` and `seed` decide.
fn draw(seed: usize, of: usize) -> usize {
    let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995;
    mixed ^= mixed >> 29;
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 32)) % of
}

#[test]
fn a_killed_worker_costs_nobody_an_answer_and_comes_back() {
    let mut workers = vec![echo(), echo(), echo()];
    let gateway = before(&workers);
    let (victim, address) = (workers[1].address.to_string(), workers[1].address);
    let (seen, over) = (Mutex::new(Vec::<(usize, Streamed)>::new()), AtomicBool::new(false));
    let answered = || seen.lock().expect("no client panics").len();
    let by_victim = |from: usize| {
        let seen = seen.lock().expect("no client panics");
        seen[from..].iter().filter(|(_, one)| one.worker == victim).count()
    };
    let clients_since = |from: usize| {
        let seen = seen.lock().expect("no client panics");
        seen[from..].iter().map(|(client, _)| client).collect::<BTreeSet<_>>().len()
    };
    std::thread::scope(|scope| {
        let ask_on = |client: usize| {
            for turn in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                let said = format!("{client} {turn} {}", "word ".repeat(30));
                let answer = stream(&gateway, &said);
                seen.lock().expect("no client panics").push((client, answer));
            }
        };
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || ask_on(client))).collect();
        let _over = Over(&over);
        // A client that fails ends the wait, and then the test.
        let until = |what: &str, holds: &dyn Fn() -> bool| {
            until(what, || {
                holds() || clients.iter().any(std::thread::ScopedJoinHandle::is_finished)
            })
        };
        until("the victim is at work", &|| by_victim(0) >= ENOUGH / 10);
        workers[1].signal("KILL");
        let down = until("the victim is passed over", &|| !up(&gateway).contains(&victim));
        assert!(down <= PASSED_OVER_WITHIN, "passed over after {down:?}");
        // Those that were under way when it died are done once each client has got an answer.
        let since = answered();
        until("those under way are done", &|| clients_since(since) == CLIENTS);
        let (failed, after) = (gateway.metric("overdraft_upstream_errors_total"), answered());
        until("others answer", &|| after + ENOUGH <= answered());
        assert_eq!(by_victim(after), 0, "the dead answer");
        let failed_since = gateway.metric("overdraft_upstream_errors_total") - failed;
        assert!(failed_since.abs() < 0.5, "{failed_since} requests were sent to the dead");
        workers[1] = Server::worker_at(address, &["--backend", "echo"]);
        let restarted = answered();
        until("it has traffic again", &|| by_victim(restarted) >= ENOUGH / 10);
    });
    let seen = seen.into_inner().expect("no client panics");
    let answers = seen.iter().map(|(_, one)| one);
    let cut: Vec<_> = answers.filter(|one| one.ending == Ending::Cut).collect();
    assert!(cut.iter().all(|one| one.worker == victim), "the living were cut: {cut:?}");
    assert!(cut.len() <= CLIENTS, "{cut:?}");
}

/// Leaves at a point that `seed` draws: halfway through the request, or after some of the answer.
fn leave(gateway: &Server, seed: usize) {
    let said = format!("{seed} {}", "word ".repeat(20));
    let point = draw(seed, 4);
    if point == 0 {
        // The length says more than is sent.
        let question = question(&said);
        let half = question.len() / 2;
        drop(gateway.open_partly("POST", "/v1/chat/completions", &question, half));
        return;
    }
    let connection = gateway.open("POST", "/v1/chat/completions", &question(&said));
    let read = if point == 1 { 0 } else { draw(seed + 1, READ_MAX) };
    let mut read_part = connection.take(u64::try_from(read).expect("it is small"));
    std::io::copy(&mut read_part, &mut std::io::sink()).expect("the answer comes");
}

/// Every other client reads to the end, and has to get there.
fn stay_or_leave(gateway: &Server, number: usize) {
    if draw(number, 2) == 0 {
        return leave(gateway, number);
    }
    let said = format!("{number} {}", "word ".repeat(20));
    assert_eq!(stream(gateway, &said).ending, Ending::Whole);
}

#[test]
fn nothing_is_left_on_the_books_when_half_of_all_clients_leave() {
    let workers = [echo(), echo()];
    let gateway = before(&workers);
    std::thread::scope(|scope| {
        for client in 0..CANCELLERS {
            let gateway = &gateway;
            scope.spawn(move || {
                for number in (client..CANCELLED_OF).step_by(CANCELLERS) {
                    stay_or_leave(gateway, number);
                }
            });
        }
    });
    let idle = |one: &Value| {
        ["requests", "tokens_inflight", "tokens_queued"].iter().all(|count| one[count] == 0)
    };
    until("the ledger is empty", || listed(&gateway).iter().all(idle));
    for worker in &workers {
        until("the worker is idle", || {
            let busy = ["vllm:num_requests_running", "vllm:num_requests_waiting"];
            busy.iter().all(|name| worker.metric(name) == 0.0)
        });
        assert!(worker.metric("vllm:kv_cache_usage_perc") == 0.0, "blocks are held for nobody");
    }
}
