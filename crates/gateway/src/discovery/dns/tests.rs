//! A name whose server answers, changes its mind, fails and forgets.

mod server;

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::server::{Reply, Server};
use super::records;
use super::records::{Answer, Records};
use super::{config, look, tuned};
use crate::discovery::report::{Found, Reporter};
use crate::discovery::tests::Watching;
use crate::settings::Source;
use crate::settings::{DnsPatience, DnsSettings};

const NAME: &str = "workers.test.";
const GRACE: Duration = Duration::from_secs(30);
const EVER: Duration = Duration::from_hours(1);

fn name(name: &str) -> Name {
    Name::from_str(name).unwrap()
}

fn four(last: u8) -> RData {
    RData::A(A::new(10, 0, 0, last))
}

fn six(last: u16) -> RData {
    RData::AAAA(AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last))
}

fn target(priority: u16, port: u16, host: &str) -> RData {
    RData::SRV(SRV::new(priority, 0, port, name(host)))
}

fn settings(asked: &str, server: &Server) -> DnsSettings {
    let mut settings = DnsSettings::new(asked, 8000);
    settings.server = Some(server.address);
    settings
}

/// One name, looked up when a test says so.
struct Looker {
    settings: DnsSettings,
    /// Domains in which a name without a dot is looked for.
    search: Vec<Name>,
    kinds: Vec<Records>,
    reporter: Reporter,
    memberships: mpsc::Receiver<Found>,
}

impl Looker {
    fn new(settings: DnsSettings) -> Self {
        let (sink, memberships) = mpsc::channel(8);
        let (reporter, _standing) = Reporter::new(0, &Source::Dns(settings.clone()), sink);
        let kinds = settings.kinds().iter().copied().map(Records::new).collect();
        Self { settings, search: Vec::new(), kinds, reporter, memberships }
    }

    /// Asks once: for how long the answer holds, and the workers' names if they are news.
    async fn look(&mut self) -> (Option<Duration>, Option<Vec<String>>) {
        let mut config = config(self.settings.server.unwrap());
        self.search.iter().cloned().for_each(|domain| config.add_search(domain));
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let resolver = tuned(builder, self.settings.patience).build().unwrap();
        let pause = look(&self.settings, &resolver, &mut self.kinds, &mut self.reporter).await;
        let told = self.memberships.try_recv().ok();
        let names = |told: Found| told.workers.into_iter().map(|worker| worker.name).collect();
        (pause, told.map(names))
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn an_answer_holds_for_its_time_to_live_within_bounds() {
    let server = Server::start().await;
    let mut looker = Looker::new(settings(NAME, &server));
    for (ttl, expected) in [(7, 7), (0, 1), (3_600, 60)] {
        server.says(RecordType::A, Reply::Records(ttl, vec![four(1)]));
        assert_eq!(looker.look().await.0, Some(seconds(expected)), "{ttl}");
    }
    // The shortest of all that an answer rests on.
    server.says(RecordType::AAAA, Reply::Records(20, vec![six(1)]));
    server.says(RecordType::A, Reply::Records(30, vec![four(1)]));
    assert_eq!(looker.look().await.0, Some(seconds(20)));
}

#[tokio::test]
async fn a_chain_of_names_holds_as_long_as_its_shortest_link() {
    let server = Server::start().await;
    let mut looker = Looker::new(settings(NAME, &server));
    server.says(RecordType::A, Reply::Chain(5, name("real.test."), 50, vec![four(9)]));
    assert_eq!(looker.look().await, (Some(seconds(5)), Some(vec!["10.0.0.9:8000".to_owned()])));
}

#[tokio::test]
async fn addresses_of_both_kinds_are_workers() {
    let server = Server::start().await;
    server.says(RecordType::A, Reply::Records(9, vec![four(2), four(1)]));
    server.says(RecordType::AAAA, Reply::Records(9, vec![six(1)]));
    let mut watching = Watching::start(Source::Dns(settings(NAME, &server)));
    let told = watching.next().await;
    let expected = [
        "10.0.0.1:8000 http://10.0.0.1:8000",
        "10.0.0.2:8000 http://10.0.0.2:8000",
        "[2001:db8::1]:8000 http://[2001:db8::1]:8000",
    ];
    assert_eq!(told, expected);
    assert_eq!(watching.error(), None);
    watching.end().await;
}

#[tokio::test]
async fn services_are_workers_by_the_best_priority() {
    let server = Server::start().await;
    let best = target(10, 8001, "vllm-0.test.");
    let other = target(10, 8002, "vllm-1.test.");
    let spare = target(20, 8003, "spare.test.");
    server.says(RecordType::SRV, Reply::Records(9, vec![spare, best, other]));
    let mut looker = Looker::new(settings("_http._tcp.workers.test.", &server));
    let expected = vec!["vllm-0.test:8001".to_owned(), "vllm-1.test:8002".to_owned()];
    assert_eq!(looker.look().await, (Some(seconds(9)), Some(expected)));
    assert_eq!(looker.memberships.try_recv().ok().map(|_| ()), None);
    // "Not offered here" is an absence like another.
    server.says(RecordType::SRV, Reply::Records(9, vec![target(0, 0, ".")]));
    assert_eq!(looker.look().await, (None, None));
}

// Faults: 81
#[tokio::test]
async fn a_changed_address_is_told_and_a_failure_is_not() {
    let server = Server::start().await;
    let mut settings = settings(NAME, &server);
    let moment = Duration::from_millis(2);
    settings.patience = DnsPatience {
        ttl_min: moment,
        retry_min: moment,
        retry_max: moment,
        absent: EVER,
        ..settings.patience
    };
    server.says(RecordType::A, Reply::Records(0, vec![four(1)]));
    let mut watching = Watching::start(Source::Dns(settings));
    assert_eq!(watching.next().await, ["10.0.0.1:8000 http://10.0.0.1:8000"]);

    server.says(RecordType::A, Reply::Records(0, vec![four(2)]));
    assert_eq!(watching.next().await, ["10.0.0.2:8000 http://10.0.0.2:8000"]);

    server.says(RecordType::A, Reply::Refusal(ResponseCode::ServFail));
    let error = watching.trouble("A records").await;
    assert!(error.starts_with("`workers.test.`: A records: "), "{error}");
    server.says(RecordType::A, Reply::Refusal(ResponseCode::NXDomain));
    watching.trouble("the name has no A records").await;
    server.asked(3).await;
    watching.is_silent();

    server.says(RecordType::A, Reply::Records(0, vec![four(2), four(3)]));
    let told = watching.next().await;
    assert_eq!(told, ["10.0.0.2:8000 http://10.0.0.2:8000", "10.0.0.3:8000 http://10.0.0.3:8000"]);
    watching.fine().await;
    watching.end().await;
}

#[tokio::test]
async fn a_server_that_fails_for_one_kind_costs_no_worker_of_the_other() {
    let server = Server::start().await;
    let mut looker = Looker::new(settings(NAME, &server));
    server.says(RecordType::A, Reply::Records(9, vec![four(1)]));
    server.says(RecordType::AAAA, Reply::Refusal(ResponseCode::ServFail));
    assert_eq!(looker.look().await, (Some(seconds(9)), Some(vec!["10.0.0.1:8000".to_owned()])));
    server.says(RecordType::AAAA, Reply::Records(9, vec![six(1)]));
    let both = vec!["10.0.0.1:8000".to_owned(), "[2001:db8::1]:8000".to_owned()];
    assert_eq!(looker.look().await, (Some(seconds(9)), Some(both)));
    // What it knew of a kind that fails now stays, and is asked for again soon.
    server.says(RecordType::AAAA, Reply::Refusal(ResponseCode::ServFail));
    assert_eq!(looker.look().await, (None, None));
}

// Faults: 81
#[tokio::test]
async fn a_name_that_is_gone_loses_its_workers_after_a_while() {
    let server = Server::start().await;
    let mut looker = Looker::new(settings(NAME, &server));
    looker.settings.patience.absent = EVER;
    server.says(RecordType::A, Reply::Records(9, vec![four(1)]));
    looker.look().await;
    server.says(RecordType::A, Reply::Refusal(ResponseCode::NXDomain));
    assert_eq!(looker.look().await, (None, None));
    assert_eq!(looker.look().await, (None, None));
    looker.settings.patience.absent = Duration::ZERO;
    assert_eq!(looker.look().await, (None, Some(Vec::new())));
}

#[tokio::test]
async fn what_a_search_found_is_not_searched_for_again() {
    let server = Server::start().await;
    server.knows_only(name("vllm.svc.test."));
    let mut looker = Looker::new(settings("vllm", &server));
    looker.settings.patience.absent = Duration::ZERO;
    looker.search.push(name("svc.test."));
    server.says(RecordType::A, Reply::Records(9, vec![four(1)]));
    assert_eq!(looker.look().await, (Some(seconds(9)), Some(vec!["10.0.0.1:8000".to_owned()])));
    // A search would go on to `vllm.` and learn that there is no such name.
    server.says(RecordType::A, Reply::Refusal(ResponseCode::ServFail));
    assert_eq!(looker.look().await, (None, None));
    // When the name is gone for good, the search begins anew.
    server.knows_only(name("vllm."));
    assert_eq!(looker.look().await, (None, Some(Vec::new())));
    server.says(RecordType::A, Reply::Records(9, vec![four(2)]));
    assert_eq!(looker.look().await, (Some(seconds(9)), Some(vec!["10.0.0.2:8000".to_owned()])));
}

#[tokio::test]
async fn a_server_that_is_not_there_leaves_nothing_known() {
    // Bound, so that nobody else is there, and silent.
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut settings = DnsSettings::new(NAME, 8000);
    settings.server = Some(silent.local_addr().unwrap());
    settings.patience.answer = Duration::from_millis(20);
    let mut watching = Watching::start(Source::Dns(settings));
    watching.trouble("A records").await;
    watching.is_silent();
    watching.end().await;
}

/// What one kind of record goes through.
struct Kind {
    records: Records,
    start: Instant,
}

impl Kind {
    fn new() -> Self {
        Self { records: Records::new(RecordType::A), start: Instant::now() }
    }

    /// What is known after an answer `at` so many seconds.
    fn after(&mut self, at: u64, answer: Answer) -> Option<BTreeSet<records::Place>> {
        let now = self.start + Duration::from_secs(at);
        self.records.take(answer, now, GRACE);
        records::places(std::slice::from_ref(&self.records))
    }
}

fn found(host: &str) -> Answer {
    let places = BTreeSet::from([(host.to_owned(), 8000)]);
    Answer::FoundWorker { name: name(NAME), places, ttl: GRACE }
}

fn failed() -> Answer {
    Answer::Failed("no answer".to_owned())
}

#[test]
fn the_grace_is_counted_from_the_first_absence() {
    let mut kind = Kind::new();
    let known = kind.after(0, found("a"));
    assert_eq!(kind.after(100, Answer::Absent), known);
    assert_eq!(kind.records.expiry(GRACE), Some(kind.start + Duration::from_secs(130)));
    // A failure in between says neither that it is there nor that it is not.
    assert_eq!(kind.after(110, failed()), known);
    assert_eq!(kind.after(129, Answer::Absent), known);
    assert_eq!(kind.records.resolved(), Some(&name(NAME)));
    assert_eq!(kind.after(130, Answer::Absent), Some(BTreeSet::new()));
    assert_eq!(kind.records.resolved(), None);
    assert_eq!(kind.records.expiry(GRACE), None);
}

#[test]
fn an_answer_ends_an_absence() {
    let mut kind = Kind::new();
    let known = kind.after(0, found("a"));
    kind.after(1, Answer::Absent);
    kind.after(2, found("a"));
    assert_eq!(kind.after(40, Answer::Absent), known);
}

#[test]
fn no_failure_is_long_enough_to_forget() {
    let mut kind = Kind::new();
    let known = kind.after(0, found("a"));
    assert_eq!(kind.after(1_000_000, failed()), known);
    assert!(known.is_some());
}

#[test]
fn nothing_is_known_before_the_first_answer_and_a_lasting_absence_is_one() {
    let mut kind = Kind::new();
    assert_eq!(kind.after(0, failed()), None);
    assert_eq!(kind.after(1, Answer::Absent), None);
    assert_eq!(kind.after(31, Answer::Absent), Some(BTreeSet::new()));
}
