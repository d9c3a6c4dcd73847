//! Workers killed in the middle of an answer: the client gets the answer of an undisturbed run.
#![expect(
    clippy::disallowed_methods,
    reason = "how many kills and draws is for whoever runs the tests to say"
)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::harness::{Server, root, until};

/// Kills in the gate; `OVERDRAFT_KILLS` says how many otherwise.
const KILLS: usize = 4;

/// Tokens of an answer: long enough that a kill comes before its end.
const TOKENS: usize = 160;

fn arguments() -> Vec<String> {
    let model = root().join("models/overdraft-target.q8_0.gguf");
    let path = model.to_str().expect("a path in UTF-8").to_owned();
    ["--model", &path, "--served-model-name", "target"].map(str::to_owned).to_vec()
}

fn worker(at: Option<SocketAddr>) -> Server {
    let arguments = arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    at.map_or_else(|| Server::worker(&arguments), |at| Server::worker_at(at, &arguments))
}

fn question(number: usize, is_streamed: bool) -> Value {
    let said = format!("Tell me about the number {number}.");
    let mut body = json!({
        "model": "target", "stream": is_streamed, "temperature": 0, "min_tokens": TOKENS,
        "max_tokens": TOKENS, "messages": [{"role": "user", "content": said}],
    });
    if is_streamed {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

/// What a client has of a stream.
#[derive(Debug, Default)]
struct Seen {
    head: String,
    text: String,
    finish: Vec<String>,
    usage: Vec<Value>,
    ids: std::collections::BTreeSet<String>,
    roles: usize,
    is_done: bool,
    resumed: usize,
    errors: Vec<Value>,
}

impl Seen {
    /// Reads what has come; the gateway frames whole events.
    fn of(raw: &str) -> Self {
        let mut seen = Self::default();
        let (head, body) = raw.split_once("\r\n\r\n").unwrap_or((raw, ""));
        head.clone_into(&mut seen.head);
        seen.resumed = body.matches(": x-overdraft-resumed: ").count();
        for data in body.lines().filter_map(|line| line.strip_prefix("data: ")) {
            seen.is_done |= data == "[DONE]";
            let Ok(chunk) = serde_json::from_str::<Value>(data) else { continue };
            seen.ids.insert(chunk["id"].to_string());
            seen.usage.extend(Some(chunk["usage"].clone()).filter(|usage| !usage.is_null()));
            seen.errors.extend(Some(chunk["error"].clone()).filter(|error| !error.is_null()));
            let choice = &chunk["choices"][0];
            seen.roles += usize::from(choice["delta"]["role"].is_string());
            seen.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            seen.finish.extend(choice["finish_reason"].as_str().map(str::to_owned));
        }
        seen
    }

    /// Who answers, by its place among `workers`.
    fn worker(&self, workers: &[Server]) -> usize {
        let named = self.head.lines().find_map(|line| line.strip_prefix("x-overdraft-worker: "));
        let named = named.expect("an answer names its worker");
        let is_named = |worker: &Server| worker.address.to_string() == named;
        workers.iter().position(is_named).expect("a worker of ours")
    }
}

// Faults: 23
#[test]
fn an_answer_whose_worker_is_killed_is_the_undisturbed_one() {
    let kills = std::env::var("OVERDRAFT_KILLS").ok().and_then(|said| said.parse().ok());
    let kills: usize = kills.unwrap_or(KILLS);
    let mut workers = vec![worker(None), worker(None)];
    let urls: Vec<String> =
        workers.iter().map(|worker| format!("http://{}", worker.address)).collect();
    let gateway = Server::serve(&["--worker", &urls[0], "--worker", &urls[1]]);
    let both_up = || gateway.metric("overdraft_worker_up") > 1.5;
    until("both workers are up", both_up);
    let mut resumed = 0;
    for number in 0..kills {
        let whole = gateway.chat(&question(number, false));
        let expected = &whole["choices"][0]["message"]["content"];
        let mut stream =
            gateway.open("POST", "/v1/chat/completions", &question(number, true).to_string());
        let mut bytes = Vec::new();
        let mut piece = [0; 4_096];
        // After another number of tokens each time.
        while Seen::of(&String::from_utf8_lossy(&bytes)).text.len() <= 7 * number % 97 {
            let read = stream.read(&mut piece).expect("the answer goes on");
            assert!(0 < read, "{}", gateway.log());
            bytes.extend_from_slice(&piece[..read]);
        }
        let victim = Seen::of(&String::from_utf8_lossy(&bytes)).worker(&workers);
        let address = workers[victim].address;
        drop(workers.remove(victim));
        stream.read_to_end(&mut bytes).expect("the answer ends");
        let seen = Seen::of(&String::from_utf8_lossy(&bytes));
        assert!(seen.errors.is_empty(), "{number}: {seen:?}\n{}", gateway.log());
        assert_eq!(Some(seen.text.as_str()), expected.as_str(), "{number}: {seen:?}");
        assert_eq!(seen.finish, ["length"], "{number}: {seen:?}");
        assert!(seen.is_done && seen.roles == 1 && seen.ids.len() == 1, "{number}: {seen:?}");
        let usage = &seen.usage[0];
        assert_eq!(seen.usage.len(), 1, "{number}: {seen:?}");
        for count in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(usage[count], whole["usage"][count], "{number}: {count}");
        }
        resumed += seen.resumed;
        workers.insert(victim, worker(Some(address)));
        until("both workers are up", both_up);
    }
    assert!(0 < resumed, "every answer was over before its worker was killed");
}

#[test]
fn an_answer_goes_on_at_its_own_worker_once_that_is_restarted() {
    let only = worker(None);
    let address = only.address;
    let gateway = Server::serve(&["--worker", &format!("http://{address}")]);
    let is_up = || gateway.metric("overdraft_worker_up") > 0.5;
    until("the worker is up", is_up);
    let whole = gateway.chat(&question(1, false));
    let mut stream = gateway.open("POST", "/v1/chat/completions", &question(1, true).to_string());
    let mut bytes = vec![0; 4_096];
    let read = stream.read(&mut bytes).expect("the answer begins");
    bytes.truncate(read);
    drop(only);
    let _restarted = worker(Some(address));
    stream.read_to_end(&mut bytes).expect("the answer ends");
    let seen = Seen::of(&String::from_utf8_lossy(&bytes));
    assert!(seen.errors.is_empty() && seen.is_done, "{seen:?}\n{}", gateway.log());
    let expected = whole["choices"][0]["message"]["content"].as_str();
    assert_eq!(Some(seen.text.as_str()), expected, "{seen:?}");
}

/// Sampled answers in the gate; `OVERDRAFT_DRAWS` says how many otherwise.
const DRAWS: usize = 200;

/// Tokens of a sampled answer, of which the first one or two come before the cut.
const DRAWN: usize = 4;

/// Rarer tokens are counted together: the chi-square approximation wants five in each cell.
const LEAST_OF_A_CELL: u64 = 10;

/// Before a worker: cuts the stream of each chat after its first or second token, by turns.
fn cutting(worker: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    // Ends with the test's process.
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
            let Ok(server) = TcpStream::connect(worker) else { continue };
            let is_chat = Arc::new(AtomicBool::new(false));
            let (from, to) = (client.try_clone(), server.try_clone());
            let (from, to) = (from.expect("a handle"), to.expect("a handle"));
            let noted = Arc::clone(&is_chat);
            std::thread::spawn(move || ask_on(from, to, &noted));
            std::thread::spawn(move || answer_until(server, client, &is_chat, 1 + number % 2));
        }
    });
    address
}

fn ask_on(mut from: TcpStream, mut to: TcpStream, is_chat: &AtomicBool) {
    let mut piece = [0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        let said = String::from_utf8_lossy(&piece[..read]);
        let is_streamed_chat =
            said.contains("POST /v1/chat/completions") && said.contains("\"stream\":true");
        is_chat.fetch_or(is_streamed_chat, Ordering::SeqCst);
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Hands an answer on; of a streamed chat only the role and so many tokens.
fn answer_until(mut from: TcpStream, mut to: TcpStream, is_chat: &AtomicBool, tokens: usize) {
    let (mut piece, mut seen) = ([0; 16_384], Vec::new());
    while let Ok(read @ 1..) = from.read(&mut piece) {
        let told = seen.len();
        seen.extend_from_slice(&piece[..read]);
        let events =
            String::from_utf8_lossy(&seen).match_indices("\n\n").map(|(at, _)| at + 2).nth(tokens);
        let cut = events.filter(|_| is_chat.load(Ordering::SeqCst));
        let _ = to.write_all(&seen[told..cut.unwrap_or(seen.len()).max(told)]);
        if cut.is_some() {
            break;
        }
    }
    let (_, _) = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}

fn sampled(is_streamed: bool) -> Value {
    json!({
        "model": "target", "stream": is_streamed, "temperature": 2.0, "ignore_eos": true,
        "max_tokens": DRAWN, "return_token_ids": true,
        "messages": [{"role": "user", "content": "Name a word."}],
    })
}

fn ids_of(choice: &Value) -> Vec<u64> {
    let ids = choice["token_ids"].as_array().map(Vec::as_slice).unwrap_or_default();
    ids.iter().filter_map(Value::as_u64).collect()
}

/// The ids of an answer that was cut and went on.
fn resumed_ids(gateway: &Server) -> Vec<u64> {
    let body = sampled(true).to_string();
    let mut stream = gateway.open("POST", "/v1/chat/completions", &body);
    let mut raw = String::new();
    stream.read_to_string(&mut raw).expect("the answer ends");
    assert!(raw.contains("; way=ids;") && raw.contains("[DONE]"), "{raw}\n{}", gateway.log());
    let events = raw.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    events.flat_map(|event| ids_of(&event["choices"][0])).collect()
}

/// How often each answer begins with each of these; what is rare is one.
type Cells = BTreeMap<Vec<u64>, [u64; 2]>;

/// The chi-square statistic of two samples, and its degrees of freedom.
fn chi_square(cells: &Cells) -> (f64, f64) {
    let mut kept: Vec<[u64; 2]> = Vec::new();
    let mut rest = [0; 2];
    for counted in cells.values() {
        if counted[0] + counted[1] < LEAST_OF_A_CELL {
            rest = [rest[0] + counted[0], rest[1] + counted[1]];
        } else {
            kept.push(*counted);
        }
    }
    kept.extend(Some(rest).filter(|rest| LEAST_OF_A_CELL <= rest[0] + rest[1]));
    let real = |count: u64| f64::from(u32::try_from(count).expect("few draws"));
    let sums = [0, 1].map(|sample: usize| real(kept.iter().map(|cell| cell[sample]).sum()));
    let terms = kept.iter().flat_map(|cell| {
        [0, 1].map(|sample: usize| {
            let expected = real(cell[0] + cell[1]) * sums[sample] / (sums[0] + sums[1]);
            (real(cell[sample]) - expected).powi(2) / expected
        })
    });
    (terms.sum(), real(kept.len() as u64) - 1.0)
}

/// The statistic that one test in 30,000 exceeds by chance (Wilson and Hilferty, 1931).
fn bound(freedom: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part + 4.0 * part.sqrt()).powi(3)
}

/// Drawn answers that go on by ids are distributed as undisturbed ones: at each place, and in pairs over the seam.
#[test]
fn a_sampled_answer_that_is_cut_is_drawn_as_an_undisturbed_one() {
    let draws = std::env::var("OVERDRAFT_DRAWS").ok().and_then(|said| said.parse().ok());
    let draws: usize = draws.unwrap_or(DRAWS);
    let workers = [worker(None), worker(None)];
    let urls = [0, 1].map(|one: usize| format!("http://{}", cutting(workers[one].address)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("overdraft.yaml");
    let text = format!(
        "workers: [{{url: '{}'}}, {{url: '{}'}}]\nbreaker: {{failures: 1000000, failure_share: 0%}}\n",
        urls[0], urls[1]
    );
    std::fs::write(&file, text).expect("it is writable");
    let gateway = Server::serve(&["--config", file.to_str().expect("a path in UTF-8")]);
    until("both workers are up", || gateway.metric("overdraft_worker_up") > 1.5);
    let known = || gateway.ask("GET", "/metrics", "").body.matches("result=\"ok\"").count() >= 2;
    until("it knows what they are", known);
    let (mut places, mut pairs) = (vec![Cells::new(); DRAWN], vec![Cells::new(); DRAWN - 1]);
    for _ in 0..draws {
        let whole = workers[0].chat(&sampled(false));
        for (sample, ids) in
            [ids_of(&whole["choices"][0]), resumed_ids(&gateway)].iter().enumerate()
        {
            assert_eq!(ids.len(), DRAWN, "{ids:?}");
            for (cells, id) in places.iter_mut().zip(ids) {
                cells.entry(vec![*id]).or_default()[sample] += 1;
            }
            for (cells, pair) in pairs.iter_mut().zip(ids.windows(2)) {
                cells.entry(pair.to_vec()).or_default()[sample] += 1;
            }
        }
    }
    for cells in places.iter().chain(&pairs) {
        let (statistic, freedom) = chi_square(cells);
        println!("chi-square {statistic:.1} of {freedom} degrees, bound {:.1}", bound(freedom));
        assert!(0.5 < freedom, "nearly always the same: {cells:?}");
        assert!(statistic < bound(freedom), "{statistic} {freedom} {cells:?}");
    }
}
