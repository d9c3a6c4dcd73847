//! Two workers on real sockets that share their blocks, and peers that do not do what they should.
//!
//! The echo keeps tokens in its pages and reads them back: an answer that is right after a fetch was
//! read from what came.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use overdraft_engine::EchoSettings;
use overdraft_units::{Blocks, TokenId, Tokens};
use overdraft_wire::kv_blocks::{BlocksAsk, KvModel};
use overdraft_worker::KvShareSettings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::{Running, user};

const SECRET: &str = "fleet-token-fleet-token";

fn shared() -> KvShareSettings {
    KvShareSettings::new(SECRET).unwrap()
}

/// A prompt takes long to compute: two milliseconds a token.
fn slow() -> EchoSettings {
    EchoSettings {
        blocks: Blocks::new(128),
        context: Tokens::new(1024),
        token_delay: Duration::from_millis(2),
        ..EchoSettings::default()
    }
}

async fn offering() -> Running {
    Running::sharing(slow(), shared().offering()).await
}

async fn fetching_from(peer: SocketAddr) -> Running {
    let peer = format!("http://{peer}");
    let settings = shared().fetching_from([peer.as_str()]).unwrap();
    Running::sharing(slow(), settings).await
}

/// About 300 tokens, of which the answer repeats some.
fn prompt() -> Value {
    saying(7)
}

/// A prompt of 38 tokens so many times, and some around them.
fn saying(times: usize) -> Value {
    let text = "what was said before, at some length. ".repeat(times);
    json!({ "model": "echo", "messages": user(&text), "max_tokens": 12, "temperature": 0 })
}

/// Text and cached tokens of an answer.
async fn ask(worker: &Running, body: &Value) -> (String, u64) {
    let answer = worker.chat(body).await.json();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    (text, answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0))
}

/// The count of the first series of this name with this label; zero where there is none.
async fn series(worker: &Running, name: &str, label: &str) -> u64 {
    let text = worker.get("/metrics").await.body;
    let mut lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
    let line = lines.next().and_then(|line| line.rsplit_once(' '));
    line.map_or(0, |(_, value)| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_of_a_peer_stand_in_for_computing_and_answers_are_the_same() {
    let holder = offering().await;
    let computed = ask(&holder, &prompt()).await;
    let worker = fetching_from(holder.address).await;
    let before = worker.stats().batch.positions_computed;
    let (text, cached) = ask(&worker, &prompt()).await;
    assert_eq!(text, computed.0);
    assert!(cached > 256, "{cached} tokens were cached");
    let positions = worker.stats().batch.positions_computed - before;
    assert!(positions < 64, "{positions} positions were computed");

    let blocks = series(&worker, "overdraft_kv_blocks_fetched_total", "").await;
    assert_eq!(blocks * 16, series(&worker, "vllm:external_prefix_cache_hits_total", "").await);
    assert_eq!(blocks, series(&holder, "overdraft_kv_blocks_offered_total", "").await);
    let saved = worker.get("/metrics").await.body;
    let saved =
        saved.lines().find(|line| line.starts_with("overdraft_kv_fetch_saved_seconds_total"));
    assert!(saved.is_some_and(|line| !line.ends_with(" 0.0")), "{saved:?}");
    assert_eq!(series(&worker, "overdraft_kv_fetch_duration_seconds_count", "").await, 1);

    // The second time they are here.
    let again = ask(&worker, &prompt()).await;
    assert_eq!(again, (computed.0, cached));
    assert_eq!(series(&worker, "overdraft_kv_blocks_fetched_total", "").await, blocks);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_gets_only_its_own() {
    let holder = offering().await;
    let mut asked = prompt();
    asked["cache_salt"] = json!("one tenant");
    let computed = ask(&holder, &asked).await;
    let worker = fetching_from(holder.address).await;
    let mut others = prompt();
    others["cache_salt"] = json!("another tenant");
    assert_eq!(ask(&worker, &others).await, (computed.0.clone(), 0));
    let (text, cached) = ask(&worker, &asked).await;
    assert!(text == computed.0 && cached > 256, "{cached}");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_requests_at_once_fetch_once() {
    let holder = offering().await;
    ask(&holder, &prompt()).await;
    let worker = fetching_from(holder.address).await;
    let body = prompt();
    let answers = tokio::join!(ask(&worker, &body), ask(&worker, &body), ask(&worker, &body));
    assert!(answers.0 == answers.1 && answers.1 == answers.2 && answers.0.1 > 256, "{answers:?}");
    assert_eq!(series(&worker, "overdraft_kv_fetch_duration_seconds_count", "").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_peers_the_one_that_has_the_prefix_is_asked() {
    let (empty, holder) = (offering().await, offering().await);
    ask(&holder, &prompt()).await;
    let peers = [format!("http://{}", empty.address), format!("http://{}", holder.address)];
    let settings = shared().fetching_from(peers.iter().map(String::as_str)).unwrap();
    let worker = Running::sharing(slow(), settings).await;
    assert!(ask(&worker, &prompt()).await.1 > 256);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_names_the_holder_only_where_it_is_trusted() {
    let holder = offering().await;
    ask(&holder, &prompt()).await;
    let source = format!("x-overdraft-kv-source: http://{}\r\n", holder.address);
    for (settings, cached) in [(shared().trusting_the_gateway(), true), (shared(), false)] {
        let worker = Running::sharing(slow(), settings).await;
        let answer = worker.chat_with(&source, &prompt()).await.json();
        let found = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
        assert_eq!(found > 256, cached, "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_know_the_token_or_the_model_gets_nothing() {
    let holder = offering().await;
    ask(&holder, &prompt()).await;
    let stranger = holder.post("/kv/blocks", &json!({})).await;
    assert_eq!((stranger.status, stranger.fault().2.as_str()), (401, "invalid_api_key"));
    let silent = fetching_from(holder.address).await;
    let refused = silent.post("/kv/blocks", &json!({})).await;
    assert!(refused.status == 404 && refused.body.contains("--kv-share listen"), "{refused:?}");

    let other_pages =
        EchoSettings { block_size: overdraft_units::BlockSize::new(8).unwrap(), ..slow() };
    let peer = format!("http://{}", holder.address);
    let settings = shared().fetching_from([peer.as_str()]).unwrap();
    let other = Running::sharing(other_pages, settings).await;
    assert_eq!(ask(&other, &prompt()).await.1, 0);
    assert_eq!(series(&other, "overdraft_kv_blocks_rejected_total", "reason=\"model\"").await, 1);

    let wrong = KvShareSettings::new("another-token-altogether").unwrap();
    let wrong = Running::sharing(slow(), wrong.fetching_from([peer.as_str()]).unwrap()).await;
    assert_eq!(ask(&wrong, &prompt()).await.1, 0);
    let counted = series(&wrong, "overdraft_kv_blocks_rejected_total", "\"unauthorized\"").await;
    assert_eq!(counted, 1);
}

/// What stands between two workers, or for one.
enum Mischief {
    /// Flips a bit of the byte at this place of the answer's body.
    Flip(usize),
    /// Hangs up after so many bytes of the answer's body.
    Cut(usize),
    /// Says this and nothing else.
    Say(&'static [u8]),
    /// Takes the question and never answers.
    Hang,
    /// Passes on what the holder says once it has a permit for it.
    Hold(Arc<Semaphore>),
    /// Says that it has all that is asked for, and serves others whenever that is fetched.
    Busy,
}

/// A peer that does mischief to what `holder` says, once for each connection.
async fn peer(holder: SocketAddr, mischief: Mischief) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut client, _)) = listener.accept().await {
            let mut question = vec![0; 1 << 16];
            let count = client.read(&mut question).await.unwrap_or(0);
            let mut answer = match &mischief {
                Mischief::Say(bytes) => bytes.to_vec(),
                Mischief::Busy => turn_away(&mut client, question[..count].to_vec()).await,
                Mischief::Hang => {
                    held.push(client);
                    continue;
                }
                Mischief::Hold(gate) => {
                    gate.acquire().await.unwrap().forget();
                    relay(holder, &mut client, question[..count].to_vec()).await
                }
                Mischief::Flip(_) | Mischief::Cut(_) => {
                    relay(holder, &mut client, question[..count].to_vec()).await
                }
            };
            let text = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0) + 4;
            // The body is chunked: its first line says how long the chunk is.
            let line = answer[text.min(answer.len())..].iter().position(|byte| *byte == b'\n');
            let body = text + line.unwrap_or(0) + 1;
            match &mischief {
                Mischief::Flip(at) => answer[body + at] ^= 1,
                Mischief::Cut(after) => answer.truncate(body + after),
                Mischief::Say(_) | Mischief::Hang | Mischief::Hold(_) | Mischief::Busy => {}
            }
            let _sent = client.write_all(&answer).await;
        }
    });
    (address, task)
}

/// What serves others says.
const BUSY: &[u8] = b"HTTP/1.1 503 busy\r\ncontent-length: 0\r\n\r\n";

/// What has more blocks than are asked for says.
const HAS_ALL: &[u8] = b"HTTP/1.1 200 OK\r\nx-overdraft-kv-blocks: 99\r\ncontent-length: 0\r\n\r\n";

/// What a busy peer answers.
async fn turn_away(client: &mut tokio::net::TcpStream, question: Vec<u8>) -> Vec<u8> {
    let question = whole(client, question).await.unwrap_or_default();
    let asks_how_many = String::from_utf8_lossy(&question).contains("\"count\":0,");
    if asks_how_many { HAS_ALL.to_vec() } else { BUSY.to_vec() }
}

/// A question with what follows of it; `None` where it ends early.
async fn whole(client: &mut tokio::net::TcpStream, mut question: Vec<u8>) -> Option<Vec<u8>> {
    let is_whole = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        let length = text.split("content-length: ").nth(1)?.split('\r').next()?;
        let length: usize = length.parse().ok()?;
        let (_, body) = text.split_once("\r\n\r\n")?;
        (body.len() >= length).then_some(())
    };
    while is_whole(&question).is_none() {
        let mut more = vec![0; 1 << 16];
        let count = client.read(&mut more).await.unwrap_or(0);
        if count == 0 {
            return None;
        }
        question.extend_from_slice(&more[..count]);
    }
    Some(question)
}

/// Passes a question on, with what follows of it, and reads the whole answer.
async fn relay(
    holder: SocketAddr,
    client: &mut tokio::net::TcpStream,
    question: Vec<u8>,
) -> Vec<u8> {
    let question = whole(client, question).await.expect("the question is whole");
    let mut upstream = tokio::net::TcpStream::connect(holder).await.unwrap();
    upstream.write_all(&question).await.unwrap();
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer).await.unwrap();
    answer
}

/// The answer is that of computing, the reason is counted, and so many blocks came at least.
async fn check(mischief: Mischief, reason: &str, blocks: std::ops::RangeInclusive<u32>) {
    let holder = offering().await;
    let computed = ask(&holder, &prompt()).await;
    let (address, task) = peer(holder.address, mischief).await;
    let worker = fetching_from(address).await;
    let (text, cached) = ask(&worker, &prompt()).await;
    assert_eq!(text, computed.0, "{reason}");
    let found = u32::try_from(cached / 16).unwrap();
    assert!(blocks.contains(&found), "{reason}: {found} blocks");
    let label = format!("reason=\"{reason}\"");
    let counted = series(&worker, "overdraft_kv_blocks_rejected_total", &label).await;
    assert_eq!(counted, 1, "{reason}");
    // It is left alone for a while.
    let mut other = prompt();
    other["messages"] = user(&"something else, of some length. ".repeat(8));
    ask(&worker, &other).await;
    let barred = series(&worker, "overdraft_kv_fetches_passed_over_total", "\"barred\"").await;
    assert_eq!(barred, 1, "{reason}");
    task.abort();
}

/// Bytes of a block of the echo in its envelope.
const BLOCK: usize = 76 + 64;

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_bit_is_seen_and_what_came_before_it_is_kept() {
    check(Mischief::Flip(3 * BLOCK + 100), "checksum", 3..=3).await;
    check(Mischief::Flip(5 * BLOCK + 20), "key", 5..=5).await;
    check(Mischief::Flip(0), "magic", 0..=0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_gone_on_from() {
    check(Mischief::Cut(2 * BLOCK + 7), "truncated", 2..=2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_and_claims_end_nothing_but_the_fetch() {
    check(Mischief::Say(b"\0\0 what is this \0"), "truncated", 0..=0).await;
    check(Mischief::Say(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n"), "refused", 0..=0).await;
    let claims = b"HTTP/1.1 200 OK\r\nx-overdraft-kv-blocks: 99\r\ncontent-length: 80\r\n\r\n\
        ODKV\x01\x00\x00\x00\xff\xff\xff\xff0123456789012345678901234567890101234567890123456789\
        0123456789010000";
    check(Mischief::Say(claims), "length", 0..=0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_says_nothing_costs_no_longer_than_computing() {
    check(Mischief::Hang, "timeout", 0..=0).await;
}

/// A peer that never answers.
async fn silent() -> (SocketAddr, JoinHandle<()>) {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    peer(nobody, Mischief::Hang).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_peer_hides_no_other_ones_blocks_and_is_left_alone() {
    let holder = offering().await;
    ask(&holder, &prompt()).await;
    let (silent, task) = silent().await;
    let peers = [format!("http://{silent}"), format!("http://{}", holder.address)];
    let settings = shared().fetching_from(peers.iter().map(String::as_str)).unwrap();
    let worker = Running::sharing(slow(), settings).await;
    // The holder has only part of this one, so the silent peer is waited for.
    let (_, cached) = ask(&worker, &saying(12)).await;
    assert!(cached > 256, "{cached} tokens were cached");
    let mut other = prompt();
    other["messages"] = user(&"something else, of some length. ".repeat(8));
    ask(&worker, &other).await;
    let counted = series(&worker, "overdraft_kv_blocks_rejected_total", "\"timeout\"").await;
    assert_eq!(counted, 1, "the second request does not ask it");
    task.abort();
}

/// Waits until prompts have missed more tokens than that: whoever missed them fetches or waits.
async fn until_missed(worker: &Running, tokens: u64) {
    while series(worker, "vllm:external_prefix_cache_queries_total", "").await <= tokens {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_prompt_waits_for_a_long_ones_fetch_no_longer_than_it_computes() {
    let (silent, task) = silent().await;
    let peer = format!("http://{silent}");
    let settings = shared().fetching_from([peer.as_str()]).unwrap();
    let slower = EchoSettings { token_delay: Duration::from_millis(5), ..slow() };
    let worker = Running::sharing(slower, settings).await;
    // They begin alike. The long one's fetch is given up after four seconds and more.
    let (long, short) = (saying(24), saying(3));
    let short = async {
        until_missed(&worker, 0).await;
        ask(&worker, &short).await
    };
    tokio::select! {
        answer = ask(&worker, &long) => panic!("the long prompt was answered first: {answer:?}"),
        (_, cached) = short => assert_eq!(cached, 0),
    }
    let given_up = series(&worker, "overdraft_kv_blocks_rejected_total", "\"timeout\"").await;
    assert_eq!(given_up, 0, "the long prompt's fetch goes on");
    task.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_that_begin_alike_are_both_fetched() {
    let mut prompts = [prompt(), prompt()];
    for (prompt, end) in prompts.iter_mut().zip(["one end of it. ", "another end. "]) {
        let text = format!("what was said before, at some length. {}", end.repeat(20));
        prompt["messages"] = user(&text);
    }
    let [one, other] = prompts;
    let holder = offering().await;
    ask(&holder, &one).await;
    ask(&holder, &other).await;
    let gate = Arc::new(Semaphore::new(0));
    let (address, task) = peer(holder.address, Mischief::Hold(Arc::clone(&gate))).await;
    let worker = fetching_from(address).await;
    // One alone misses less than 400 tokens: at more, both are here, and one waits for the other.
    let opening = async {
        until_missed(&worker, 400).await;
        gate.add_permits(2);
    };
    let ((_, one), (_, other), ()) =
        tokio::join!(ask(&worker, &one), ask(&worker, &other), opening);
    assert!(240 < one && 240 < other, "{one} and {other} tokens were cached");
    assert_eq!(series(&worker, "overdraft_kv_fetch_duration_seconds_count", "").await, 2);
    task.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_busy_is_asked_again_by_the_next_prompt() {
    let (address, task) = busy().await;
    let worker = fetching_from(address).await;
    for asked in 1..=2 {
        let mut body = prompt();
        body["messages"] = user(&format!("{asked} said something of some length. ").repeat(8));
        assert_eq!(ask(&worker, &body).await.1, 0);
        let counted = series(&worker, "overdraft_kv_blocks_rejected_total", "\"busy\"").await;
        assert_eq!(counted, asked);
    }
    task.abort();
}

/// A peer that serves others.
async fn busy() -> (SocketAddr, JoinHandle<()>) {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    peer(nobody, Mischief::Busy).await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_busy_peer_another_holder_is_asked() {
    let holder = offering().await;
    let computed = ask(&holder, &prompt()).await;
    let (busy, task) = busy().await;
    let peers = [format!("http://{busy}"), format!("http://{}", holder.address)];
    let settings = shared().fetching_from(peers.iter().map(String::as_str)).unwrap();
    let worker = Running::sharing(slow(), settings).await;
    // The gateway names the busy one, so that is asked first.
    let source = format!("x-overdraft-kv-source: http://{busy}\r\n");
    let answer = worker.chat_with(&source, &prompt()).await.json();
    let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
    assert!(cached > 256, "{cached} tokens were cached");
    assert_eq!(answer["choices"][0]["message"]["content"], computed.0);
    let counted = series(&worker, "overdraft_kv_blocks_rejected_total", "\"busy\"").await;
    assert_eq!(counted, 1);
    let blocks = series(&worker, "overdraft_kv_blocks_fetched_total", "").await;
    assert_eq!(blocks, cached / 16);
    task.abort();
}

/// Asks a worker that fetches from these, of which the gateway names the busy one, and then has it ask the
/// silent one alone: how many tokens were cached the first time.
async fn after_busy_and_silent(worker: &Running, body: &Value, busy: &str, silent: &str) -> u64 {
    let source = format!("x-overdraft-kv-source: {busy}\r\n");
    let answer = worker.chat_with(&source, body).await.json();
    let timeouts = series(worker, "overdraft_kv_blocks_rejected_total", "\"timeout\"").await;
    assert_eq!(timeouts, 1, "its silence is counted");
    let mut other = prompt();
    other["messages"] = user(&"something else, of some length. ".repeat(8));
    let source = format!("x-overdraft-kv-source: {silent}\r\n");
    worker.chat_with(&source, &other).await;
    let barred = series(worker, "overdraft_kv_fetches_passed_over_total", "\"barred\"").await;
    assert_eq!(barred, 0, "it is asked again");
    let timeouts = series(worker, "overdraft_kv_blocks_rejected_total", "\"timeout\"").await;
    assert_eq!(timeouts, 2);
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_silent_in_the_time_that_a_busy_peer_left_is_not_left_alone() {
    let holder = offering().await;
    ask(&holder, &prompt()).await;
    let ((busy, turning_away), (silent, hanging)) = (busy().await, silent().await);
    let [busy, silent, holder_url] =
        [busy, silent, holder.address].map(|address| format!("http://{address}"));
    // Alone it is asked for blocks at once.
    let settings = shared().fetching_from([busy.as_str(), silent.as_str()]).unwrap();
    let worker = Running::sharing(slow(), settings).await;
    assert_eq!(after_busy_and_silent(&worker, &prompt(), &busy, &silent).await, 0);
    // Beside a holder of part of the prompt both are looked up.
    let peers = [busy.as_str(), silent.as_str(), holder_url.as_str()];
    let settings = shared().fetching_from(peers).unwrap();
    let worker = Running::sharing(slow(), settings).await;
    let cached = after_busy_and_silent(&worker, &saying(12), &busy, &silent).await;
    assert!(cached > 256, "{cached} tokens were cached");
    turning_away.abort();
    hanging.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_three_busy_peers_are_asked_for_one_fetch() {
    let mut peers = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let (address, task) = busy().await;
        peers.push(format!("http://{address}"));
        tasks.push(task);
    }
    let settings = shared().fetching_from(peers.iter().map(String::as_str)).unwrap();
    let worker = Running::sharing(slow(), settings).await;
    assert_eq!(ask(&worker, &prompt()).await.1, 0);
    let counted = series(&worker, "overdraft_kv_blocks_rejected_total", "\"busy\"").await;
    assert_eq!(counted, 3);
    tasks.iter().for_each(JoinHandle::abort);
}

/// The status of an answer to who wants these blocks of a prefix that nobody has.
async fn status_for(holder: Arc<Running>, blocks: std::ops::Range<usize>) -> u16 {
    let model = KvModel::read(&b"echo"[..], "echo by 16").unwrap();
    let tokens = vec![TokenId(7); 16];
    let ask = BlocksAsk { model, root: model.root(None), tokens, blocks };
    let body: Value = serde_json::from_slice(&ask.to_json()).unwrap();
    let token = format!("authorization: Bearer {SECRET}\r\n");
    holder.post_with(&token, "/kv/blocks", &body).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_how_many_blocks_there_are_needs_no_place_among_those_who_fetch() {
    let slower = EchoSettings { token_delay: Duration::from_millis(3), ..slow() };
    let holder = Arc::new(Running::sharing(slower, shared().offering()).await);
    // Two steps of more than a second each; the engine tells of its blocks between them.
    let mut computed = JoinSet::new();
    let computing = Arc::clone(&holder);
    computed.spawn(async move { computing.chat(&saying(24)).await.status });
    holder.until(|stats| 0 < stats.batch.running).await;
    let mut fetching = JoinSet::new();
    for _ in 0..5 {
        fetching.spawn(status_for(Arc::clone(&holder), 0..1));
    }
    // Four have the places and wait for the step's end, the fifth is told at once.
    assert_eq!(fetching.join_next().await.unwrap().unwrap(), 503);
    assert_eq!(status_for(Arc::clone(&holder), 0..0).await, 200);
    assert!(fetching.join_all().await.into_iter().all(|status| status == 200));
    assert_eq!(computed.join_next().await.unwrap().unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_the_engine_took_after_the_time_was_over_are_counted() {
    let holder = offering().await;
    ask(&holder, &prompt()).await;
    // A step of 512 tokens takes half a second, the prompt's 272 tokens a quarter.
    let busy = EchoSettings {
        blocks: Blocks::new(512),
        context: Tokens::new(4096),
        token_delay: Duration::from_millis(1),
        ..slow()
    };
    let peer = format!("http://{}", holder.address);
    let settings = shared().fetching_from([peer.as_str()]).unwrap();
    let worker = Running::sharing(busy, settings).await;
    let mut long = prompt();
    long["messages"] = user(&"something else, of some length. ".repeat(100));
    // Its blocks come within the third of the long prompt's steps from there on.
    let fetched = async {
        worker.until(|stats| 0 < stats.batch.running).await;
        ask(&worker, &prompt()).await
    };
    let (_, (_, cached)) = tokio::join!(ask(&worker, &long), fetched);
    assert!(cached > 256, "{cached} tokens were cached");
    let late = series(&worker, "overdraft_kv_blocks_rejected_total", "\"timeout\"").await;
    assert_eq!(late, 1, "the time was over");
    let blocks = series(&worker, "overdraft_kv_blocks_fetched_total", "").await;
    assert_eq!(blocks, cached / 16);
}
