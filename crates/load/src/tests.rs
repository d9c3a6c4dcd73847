//! Load generator against an endpoint whose timing is known: figures match it, whichever side was
//! late.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use overdraft_sim::report::{Cause, Fate, Objectives, Recorder, Run, Sample, Summary};
use overdraft_sim::workload::{Arrivals, Pacing, Source, Wording};
use overdraft_units::{Instant, Micros};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::*;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_mins(1);

/// An endpoint that answers every request alike, and ends with its owner.
struct Endpoint {
    address: SocketAddr,
    bodies: Arc<std::sync::Mutex<Vec<Value>>>,
    _tasks: JoinSet<()>,
}

/// What it does before and between four pieces of text.
#[derive(Clone, Copy)]
struct Manner {
    before: Duration,
    between: Duration,
    status: &'static str,
    /// Requests that it answers at once; others wait for one of those.
    at_once: usize,
    /// What it says of the end of an answer.
    finish: &'static str,
}

const PROMPT: Manner = Manner {
    before: Duration::from_millis(30),
    between: Duration::from_millis(10),
    status: "200 OK",
    at_once: 1_000,
    finish: "stop",
};

impl Endpoint {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let bodies = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = Arc::clone(&bodies);
        let room = Arc::new(tokio::sync::Semaphore::new(manner.at_once));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(serve(stream, manner, Arc::clone(&kept), Arc::clone(&room)));
            }
        });
        Self { address, bodies, _tasks: tasks }
    }

    fn target(&self) -> Target {
        Target::parse(&format!("http://{}", self.address), &Trust::System).unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    manner: Manner,
    bodies: Arc<std::sync::Mutex<Vec<Value>>>,
    room: Arc<tokio::sync::Semaphore>,
) {
    loop {
        let Some(body) = request(&mut stream).await else { return };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let text = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
        let is_streamed = body["stream"] == true;
        bodies.lock().unwrap().push(body);
        if !is_streamed {
            // Three tokens a word and seven for the template.
            let tokens = 3 * text.split(' ').count() + 7;
            let told =
                format!("{{\"usage\":{{\"prompt_tokens\":{tokens},\"completion_tokens\":1}}}}");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{told}", told.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            continue;
        }
        if manner.status != "200 OK" {
            let told = "{\"error\":{\"message\":\"no room\"}}";
            let length = told.len();
            let head =
                format!("HTTP/1.1 {}\r\ncontent-length: {length}\r\n\r\n{told}", manner.status);
            stream.write_all(head.as_bytes()).await.unwrap();
            continue;
        }
        let _room = room.acquire().await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        sleep(manner.before).await;
        for number in 0..4 {
            if 0 < number {
                sleep(manner.between).await;
            }
            event(&mut stream, "{\"choices\":[{\"delta\":{\"content\":\"word \"}}]}").await;
        }
        let finish = manner.finish;
        let last = format!("{{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{finish}\"}}]}}");
        event(&mut stream, &last).await;
        let usage = "{\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":4,\
                     \"prompt_tokens_details\":{\"cached_tokens\":16}}}";
        event(&mut stream, usage).await;
        event(&mut stream, "[DONE]").await;
        stream.write_all(b"0\r\n\r\n").await.unwrap();
    }
}

async fn event(stream: &mut TcpStream, data: &str) {
    let text = format!("data: {data}\n\n");
    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
    stream.write_all(chunk.as_bytes()).await.unwrap();
}

/// The body of the next request on a connection.
async fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        if head.len() + 4 + length <= bytes.len() {
            return Some(bytes[head.len() + 4..].to_vec());
        }
    }
}

fn plan(target: Target, pace: Loop) -> Plan {
    let wording = Wording::default();
    let (model, extra) = ("model".to_owned(), Map::new());
    let asking = Asking { interface: Interface::Chat, model, wording, extra };
    Plan {
        target,
        asking,
        pace,
        concurrency_max: None,
        session_header: None,
        patience: PATIENCE,
        warm_up: Micros::ZERO,
        until: None,
    }
}

/// A closed loop without times, whose users wait a little after a refusal.
fn users(users: usize) -> Loop {
    Loop::Closed { users, is_timed: false, refused_wait: Micros::new(1_000) }
}

/// When a request was due, in microseconds from the start.
fn due(sample: &Sample) -> u64 {
    sample.intended.since(Instant::ORIGIN).get()
}

async fn send(plan: Plan, workload: &str, pacing: Pacing) -> (Recorder, Arc<Progress>) {
    let sessions = Source::parse(workload).unwrap().open(1).unwrap().sessions;
    let progress = Arc::new(Progress::default());
    let running = run(plan, pacing.apply(sessions, 1), Arc::clone(&progress));
    (timeout(PATIENCE, running).await.expect("the run ends").unwrap(), progress)
}

fn summary(recorder: &Recorder) -> Summary {
    let run = Run::new(String::new(), 1, recorder.clone());
    run.summary(&Objectives::default())
}

fn so_many(requests: u64) -> Pacing {
    Pacing { requests_max: Some(requests), ..Pacing::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_those_of_the_endpoint() {
    let endpoint = Endpoint::start(PROMPT).await;
    let plan = plan(endpoint.target(), Loop::Open);
    let (recorder, progress) = send(plan, "unique:rate=100,question=20", so_many(40)).await;
    let told = summary(&recorder);
    assert_eq!((told.completed, progress.ended(), progress.flying()), (40, 40, 0));
    assert_eq!((progress.first_tokens(), progress.take_gaps().len()), (40, 0));
    assert_eq!((told.input_tokens, told.output_tokens), (40 * 50, 40 * 4));
    assert_eq!(told.cached_tokens, Some(40 * 16));
    // No upper bounds: the machine may be busy.
    assert!(told.ttft.median >= 30.0, "{:?}", told.ttft);
    // Three gaps: what is late at the first piece is missing in them, and the sum is the whole.
    assert!((told.ttft.mean + 3.0 * told.tpot.mean - told.e2el.mean).abs() < 1e-6, "{told:?}");
    assert!(told.e2el.median >= 60.0, "{:?}", told.e2el);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_behind_others_is_counted_from_when_it_was_due() {
    // One at a time, each 60 ms, 100 a second: the last ones are due long before they are served.
    let endpoint = Endpoint::start(PROMPT).await;
    let mut plan = plan(endpoint.target(), Loop::Open);
    plan.concurrency_max = Some(1);
    let (recorder, _) = send(plan, "unique:rate=100,question=20", so_many(20)).await;
    let told = summary(&recorder);
    assert_eq!(told.peak_concurrency, 1);
    // Twenty of them take 1.2 s and came within a fraction of it.
    assert!(told.lag.p99 >= 500.0, "{:?}", told.lag);
    assert!(told.ttft.p99 >= told.lag.p99, "{:?}", told.ttft);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_a_closed_loop_wait_for_their_answers() {
    let endpoint = Endpoint::start(PROMPT).await;
    let plan = plan(endpoint.target(), users(3));
    let (recorder, _) = send(plan, "unique:rate=1000000,question=20", so_many(30)).await;
    let told = summary(&recorder);
    assert_eq!((told.completed, told.peak_concurrency), (30, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_stop_at_their_time_and_a_warm_up_is_sent_and_not_counted() {
    let endpoint = Endpoint::start(PROMPT).await;
    let mut plan = plan(endpoint.target(), users(2));
    (plan.until, plan.warm_up) = (Some(Micros::new(600_000)), Micros::new(300_000));
    let (recorder, progress) = send(plan, "unique:rate=1000000,question=20", so_many(10_000)).await;
    let counted = recorder.samples();
    assert!(counted.iter().all(|sample| (300_000..600_000).contains(&due(sample))));
    let sent = usize::try_from(progress.ended()).unwrap();
    assert!(!counted.is_empty() && counted.len() < sent && sent < 10_000, "{sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_a_timed_loop_begin_no_earlier_than_the_workload_says() {
    let endpoint = Endpoint::start(PROMPT).await;
    let pace = Loop::Closed { users: 8, is_timed: true, refused_wait: Micros::ZERO };
    let plan = plan(endpoint.target(), pace);
    let (recorder, _) = send(plan, "unique:rate=20,question=20", so_many(20)).await;
    let workload = Source::parse("unique:rate=20,question=20").unwrap().open(1).unwrap();
    let mut meant: Vec<_> =
        so_many(20).apply(workload.sessions, 1).map(|one| one.unwrap().at).collect();
    let mut due: Vec<_> = recorder.samples().iter().map(|sample| sample.intended).collect();
    meant.sort_unstable();
    due.sort_unstable();
    assert_eq!(due, meant, "eight users keep up with twenty a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_a_timed_loop_begin_nothing_after_the_end() {
    let endpoint = Endpoint::start(PROMPT).await;
    // All are due within a tenth of a second or at once, or hours apart; each answer takes 60 ms.
    for (rate, at_once) in [("1000", false), ("1000", true), ("0.0001", false)] {
        let pace = Loop::Closed { users: 1, is_timed: true, refused_wait: Micros::ZERO };
        let mut plan = plan(endpoint.target(), pace);
        plan.until = Some(Micros::new(600_000));
        let arrivals = if at_once { Arrivals::AtOnce } else { Arrivals::Own { speed: 1.0 } };
        let pacing = Pacing { arrivals, ..so_many(100) };
        let workload = format!("unique:rate={rate},question=20");
        let (recorder, progress) = send(plan, &workload, pacing).await;
        assert!(recorder.samples().iter().all(|sample| due(sample) < 600_000), "{workload}");
        assert!(progress.ended() < 100, "{workload}");
    }
}

/// A recorded session of an agent: forty requests with these seconds before them.
fn agent(think: impl Fn(u32) -> u32) -> tempfile::NamedTempFile {
    let request = |number: u32| {
        let think = think(number);
        format!("{{\"in\":70,\"out\":4,\"hash_ids\":[{number}],\"think_time\":{think}}}")
    };
    let requests: Vec<String> = (0..40).map(request).collect();
    let text = format!("{{\"block_size\":64,\"requests\":[{}]}}", requests.join(","));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_began_in_time_ask_nothing_after_the_end() {
    let endpoint = Endpoint::start(PROMPT).await;
    // The first ten requests follow each other, the others come hours apart.
    let trace = agent(|number| if number < 10 { 0 } else { 7_200 });
    let recorded = format!("claude:{}", trace.path().display());
    let generated = "chat:turns=100,spread=0,think=0,common=8,question=5,rate=1000000";
    for pace in [Loop::Open, users(1)] {
        // Each answer takes 60 ms: the tenth recorded request is due in time, the eleventh hours after the end.
        for (workload, until) in [(recorded.as_str(), 30_000_000), (generated, 600_000)] {
            let mut plan = plan(endpoint.target(), pace);
            plan.until = Some(Micros::new(until));
            let (recorder, _) = send(plan, workload, so_many(100)).await;
            let told = summary(&recorder);
            assert!((1..40).contains(&told.completed), "{pace:?} {workload}: {told:?}");
            assert_eq!(told.unasked, 0, "{pace:?} {workload}");
            assert!(recorder.samples().iter().all(|sample| due(sample) < until), "{workload}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_first_turn_is_due_after_the_end_asks_nothing() {
    let endpoint = Endpoint::start(PROMPT).await;
    let trace = agent(|_| 2);
    let recorded = format!("claude:{}", trace.path().display());
    for pace in [Loop::Open, users(1)] {
        let mut plan = plan(endpoint.target(), pace);
        plan.until = Some(Micros::new(1_000_000));
        let (recorder, progress) = send(plan, &recorded, so_many(100)).await;
        assert_eq!((progress.ended(), recorder.samples().len()), (0, 0), "{pace:?}");
        assert_eq!(summary(&recorder).unasked, 0, "{pace:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_says_what_was_really_answered() {
    let endpoint = Endpoint::start(PROMPT).await;
    let plan = plan(endpoint.target(), Loop::Open);
    let workload = "chat:turns=2,spread=0,think=0,common=8,question=5,rate=50";
    let (recorder, _) = send(plan, workload, so_many(2)).await;
    assert_eq!(summary(&recorder).completed, 2);
    let bodies = endpoint.bodies.lock().unwrap();
    let [first, second] = bodies.as_slice() else { panic!("two turns: {bodies:?}") };
    let (first, second) = (&first["messages"], &second["messages"]);
    assert_eq!(first[0], second[0], "the system prompt is the same");
    assert_eq!(first[1], second[1], "the first question is said again");
    assert_eq!(second[2]["role"], "assistant");
    assert_eq!(second[2]["content"], "word word word word ");
    assert_eq!(second[3]["role"], "user");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_goes_on_behind_what_was_asked_and_answered_to_the_letter() {
    let endpoint = Endpoint::start(PROMPT).await;
    let mut plan = plan(endpoint.target(), Loop::Open);
    plan.asking.interface = Interface::Completions;
    let workload = "chat:turns=2,spread=0,think=0,common=8,question=5,rate=50";
    let (recorder, _) = send(plan, workload, so_many(2)).await;
    assert_eq!(summary(&recorder).completed, 2);
    let bodies = endpoint.bodies.lock().unwrap();
    let [first, second] = bodies.as_slice() else { panic!("two turns: {bodies:?}") };
    let (first, second) = (first["prompt"].as_str().unwrap(), second["prompt"].as_str().unwrap());
    let behind = second.strip_prefix(first).unwrap_or_else(|| panic!("{first}\n{second}"));
    let question =
        behind.strip_prefix("word word word word ").unwrap_or_else(|| panic!("{behind}"));
    assert_eq!(question.split_whitespace().count(), 5, "{behind}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_counted_apart_and_told() {
    let endpoint = Endpoint::start(Manner { status: "503 Service Unavailable", ..PROMPT }).await;
    let plan = plan(endpoint.target(), Loop::Open);
    let (recorder, progress) = send(plan, "unique:rate=200", so_many(5)).await;
    assert!(recorder.samples().iter().all(|sample| sample.fate == Fate::Refused));
    let wrong = progress.wrong();
    assert_eq!(wrong, [("503 Service Unavailable: no room".to_owned(), 5)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_without_an_answer_says_why() {
    let causes = async |plan: Plan| {
        let (recorder, _) = send(plan, "unique:rate=200", so_many(3)).await;
        assert_eq!(recorder.samples().len(), 3);
        recorder.samples().iter().map(Sample::cause).collect::<Vec<_>>()
    };
    for (status, cause) in [
        ("503 Service Unavailable", Cause::TurnedAway),
        ("429 Too Many Requests", Cause::TurnedAway),
        ("404 Not Found", Cause::ErrorAnswer),
    ] {
        let endpoint = Endpoint::start(Manner { status, ..PROMPT }).await;
        let told = causes(plan(endpoint.target(), Loop::Open)).await;
        assert_eq!(told, [Some(cause); 3], "{status}");
    }
    // vLLM ends what it gives up as if it were an answer.
    let endpoint = Endpoint::start(Manner { finish: "abort", ..PROMPT }).await;
    let told = causes(plan(endpoint.target(), Loop::Open)).await;
    assert_eq!(told, [Some(Cause::ErrorAnswer); 3]);
    let endpoint = Endpoint::start(Manner { before: PATIENCE, ..PROMPT }).await;
    let mut hasty = plan(endpoint.target(), Loop::Open);
    hasty.patience = Duration::from_millis(50);
    assert_eq!(causes(hasty).await, [Some(Cause::TimedOut); 3]);
    let nowhere = Target::parse("http://127.0.0.1:1", &Trust::System).unwrap();
    assert_eq!(causes(plan(nowhere, Loop::Open)).await, [Some(Cause::WorkerLost); 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_made_as_long_as_the_endpoint_counts_them() {
    let endpoint = Endpoint::start(PROMPT).await;
    let target = endpoint.target();
    let asking = plan(target.clone(), Loop::Open).asking;
    let wording = timeout(PATIENCE, calibrate(&target, &asking, PATIENCE)).await.unwrap().unwrap();
    assert!((wording.tokens_per_word - 3.0).abs() < 1e-9, "{wording:?}");
    let nowhere = Target::parse("http://127.0.0.1:1", &Trust::System).unwrap();
    let error =
        timeout(PATIENCE, calibrate(&nowhere, &asking, PATIENCE)).await.unwrap().unwrap_err();
    assert!(
        error.to_string().starts_with("the endpoint does not answer: no connection"),
        "{error}"
    );
}

#[tokio::test]
async fn an_endpoint_that_accepts_and_says_nothing_is_given_up() {
    // Its backlog takes the connections.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let target = Target::parse(&url, &Trust::System).unwrap();
    let asking = plan(target.clone(), Loop::Open).asking;
    let short = Duration::from_millis(50);
    let model = timeout(PATIENCE, first_model(&target, short)).await.expect("it gives up");
    let wording = timeout(PATIENCE, calibrate(&target, &asking, short)).await.expect("it gives up");
    for error in [model.unwrap_err(), wording.unwrap_err()] {
        let says = "the endpoint does not answer: no whole answer within 50ms";
        assert_eq!(error.to_string(), says);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_in_the_trace_ends_the_run() {
    let endpoint = Endpoint::start(PROMPT).await;
    let plan = plan(endpoint.target(), Loop::Open);
    let sessions = Source::parse("csv:/nowhere.csv").unwrap().open(1).err().unwrap();
    let sessions: overdraft_sim::workload::Sessions = Box::new(std::iter::once(Err(sessions)));
    let ended = timeout(PATIENCE, run(plan, sessions, Arc::default())).await.unwrap();
    assert!(ended.unwrap_err().to_string().contains("/nowhere.csv"));
}

#[test]
fn an_endpoint_is_read_with_and_without_its_path() {
    let parse = |url: &str| Target::parse(url, &Trust::System);
    let path = |url: &str| parse(url).unwrap().path("/chat/completions");
    assert_eq!(path("http://a:1"), "/v1/chat/completions");
    assert_eq!(path("http://a:1/v1/"), "/v1/chat/completions");
    assert_eq!(path("http://a:1/api/v3"), "/api/v3/chat/completions");
    assert_eq!(path("http://a:1/v1/chat/completions"), "/v1/chat/completions");
    for (url, says) in [("ftp://a", "scheme"), ("a:1", "scheme"), ("http://u@a", "user name")] {
        let error = parse(url).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("expected `http://host:port`"), "{error}");
    }
}

/// An endpoint behind TLS, with a certificate of an authority in a file.
async fn encrypted(manner: Manner) -> (Endpoint, u16, JoinSet<()>, tempfile::NamedTempFile) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&key).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key)
        .unwrap();
    let endpoint = Endpoint::start(manner).await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (acceptor, inside) = (TlsAcceptor::from(Arc::new(config)), endpoint.address);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            open.spawn(async move {
                // Whoever does not trust us hangs up.
                let Ok(mut outer) = acceptor.accept(stream).await else { return };
                let mut inner = TcpStream::connect(inside).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    (endpoint, port, tasks, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_behind_tls_is_asked_where_somebody_vouches_for_it() {
    let (_endpoint, port, _tasks, file) = encrypted(PROMPT).await;
    let url = format!("https://localhost:{port}");
    let (.., other) = encrypted(PROMPT).await;
    let trust = Trust::Authorities(other.path().to_owned());
    let stranger = plan(Target::parse(&url, &trust).unwrap(), Loop::Open);
    let (recorder, progress) = send(stranger, "unique:rate=200", so_many(2)).await;
    assert_eq!(summary(&recorder).completed, 0);
    assert!(progress.wrong()[0].0.contains("invalid peer certificate"), "{:?}", progress.wrong());
    for trust in [Trust::Authorities(file.path().to_owned()), Trust::Anyone] {
        let plan = plan(Target::parse(&url, &trust).unwrap(), Loop::Open);
        let (recorder, progress) = send(plan, "unique:rate=200", so_many(4)).await;
        assert_eq!(summary(&recorder).completed, 4, "{trust:?}: {:?}", progress.wrong());
    }
}

#[test]
fn certificates_that_are_none_are_told_with_their_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let parse = |path: &std::path::Path| {
        let trust = Trust::Authorities(path.to_owned());
        Target::parse("https://a", &trust).unwrap_err().to_string()
    };
    let empty = parse(file.path());
    assert!(empty.contains("has no certificate; expected certificates in PEM"), "{empty}");
    let missing = parse(std::path::Path::new("/nowhere.pem"));
    assert!(missing.starts_with("`/nowhere.pem` cannot be read"), "{missing}");
}

/// Not too many failures are told apart.
#[test]
fn kinds_of_failures_are_bounded() {
    let progress = Progress::default();
    for number in 0..100 {
        progress.note(&format!("failure {number}"));
    }
    let wrong = progress.wrong();
    assert_eq!(wrong.len(), KINDS_MAX);
    assert_eq!(wrong.iter().map(|(_, count)| count).sum::<u64>(), 100);
}
