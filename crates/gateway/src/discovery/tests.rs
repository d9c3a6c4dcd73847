//! What every source has in common, and how the tests of each watch it.
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

use std::time::Duration;

use overdraft_wire::prometheus::memory::MemoryNames;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Found, Reporter, Standing};
use crate::discovery::backoff::Backoff;
use crate::discovery::found::FoundWorker;
use crate::settings::DnsSettings;
use crate::settings::{Each, KubernetesSettings, ServicePort, Source, SourceError, Template};
use crate::settings::{KvEvents, Pool, WorkerSettings, WorkerTraits};
use crate::settings::{Maintenance, MemorySource, RestartHook, WarmUp};

/// Longer than anything here takes; a test that hangs ends with a name.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// A source that is being watched.
pub(super) struct Watching {
    memberships: mpsc::Receiver<Found>,
    standing: watch::Receiver<Standing>,
    task: JoinHandle<()>,
}

impl Watching {
    pub(super) fn start(source: Source) -> Self {
        let (sink, memberships) = mpsc::channel(8);
        let (reporter, standing) = Reporter::new(7, &source, sink);
        let task = tokio::spawn(super::watch(source, reporter));
        Self { memberships, standing, task }
    }

    /// The next set, as `name url`.
    pub(super) async fn next(&mut self) -> Vec<String> {
        let next = timeout(LONG, self.memberships.recv()).await.expect("a set in time");
        let membership = next.expect("the source is watched");
        assert_eq!(membership.source, 7);
        let told = membership.workers.iter();
        told.map(|worker| format!("{} {}", worker.name, worker.url)).collect()
    }

    /// Asserts that no further set has been told.
    #[track_caller]
    pub(super) fn is_silent(&mut self) {
        assert!(matches!(self.memberships.try_recv(), Err(mpsc::error::TryRecvError::Empty)));
    }

    /// Waits until the source's trouble is one that says `part`.
    pub(super) async fn trouble(&mut self, part: &str) -> String {
        let said =
            |standing: &Standing| standing.error.as_ref().is_some_and(|error| error.contains(part));
        let standing = timeout(LONG, self.standing.wait_for(said)).await;
        let standing = standing.unwrap_or_else(|_| panic!("no trouble says `{part}`"));
        standing.expect("the source is watched").error.clone().expect("it was waited for")
    }

    /// Waits until the source has no trouble.
    pub(super) async fn fine(&mut self) {
        let fine = |standing: &Standing| standing.error.is_none();
        let standing = timeout(LONG, self.standing.wait_for(fine)).await;
        standing.expect("the trouble ends in time").expect("the source is watched");
    }

    /// What is in the way now.
    pub(super) fn error(&self) -> Option<String> {
        self.standing.borrow().error.clone()
    }

    /// Stops listening; the watch must end.
    pub(super) async fn end(self) {
        drop(self.memberships);
        timeout(LONG, self.task).await.expect("the watch ends").expect("without a panic");
    }
}

#[tokio::test]
async fn a_static_source_tells_its_workers_once() {
    let mut named = WorkerSettings::new("http://10.0.0.2:8000");
    named.name = "beta".to_owned();
    let workers = vec![WorkerSettings::new("http://10.0.0.1:8000"), named];
    let mut watching = Watching::start(Source::Static(workers));
    let told = watching.next().await;
    assert_eq!(told, ["10.0.0.1:8000 http://10.0.0.1:8000", "beta http://10.0.0.2:8000"]);
    watching.is_silent();
    watching.end().await;
}

#[tokio::test]
async fn a_set_in_another_order_is_no_news() {
    let source = Source::Static(Vec::new());
    let (sink, mut memberships) = mpsc::channel(8);
    let (mut reporter, _standing) = Reporter::new(0, &source, sink);
    let (one, two) = (FoundWorker::at("10.0.0.1", 80), FoundWorker::at("10.0.0.2", 80));
    reporter.found(vec![one.clone(), two.clone()]).await;
    reporter.found(vec![two.clone(), one]).await;
    reporter.found(vec![two]).await;
    drop(reporter);
    assert_eq!(memberships.recv().await.unwrap().workers.len(), 2);
    assert_eq!(memberships.recv().await.unwrap().workers.len(), 1);
    assert!(memberships.recv().await.is_none());
}

#[tokio::test]
async fn a_set_that_a_gateway_would_refuse_changes_nothing() {
    let source = Source::Static(Vec::new());
    let (sink, mut memberships) = mpsc::channel(8);
    let (mut reporter, standing) = Reporter::new(0, &source, sink);
    reporter.found(vec![FoundWorker::at("10.0.0.1", 80)]).await;
    let many = (0..=1_024).map(|port| FoundWorker::at("10.0.0.1", 1_000 + port));
    reporter.found(many.collect()).await;
    let error = standing.borrow().error.clone().unwrap();
    assert!(error.contains("at most 1024"), "{error}");
    reporter.found(vec![FoundWorker::at("not a host", 80)]).await;
    let error = standing.borrow().error.clone().unwrap();
    assert!(error.contains("http://not a host:80"), "{error}");
    drop(reporter);
    assert_eq!(memberships.recv().await.unwrap().workers.len(), 1);
    assert!(memberships.recv().await.is_none());
}

/// A source whose workers are restarted by a program and have their memory read where they run.
fn each(memory: &str) -> Source {
    let mut settings = DnsSettings::new("workers.local", 8000);
    let place = Template::new(memory);
    settings.each = Each {
        is_encrypted: true,
        kv_events: KvEvents::At {
            endpoint: "tcp://{host}:5557".to_owned(),
            replay: None,
            topic: "kv@{name}".to_owned(),
        },
        traits: WorkerTraits { priority_scheduling: true, ..WorkerTraits::default() },
        maintenance: Maintenance {
            memory: Some(MemorySource {
                place,
                names: MemoryNames::default(),
                labels: vec![("pod".to_owned(), "{name}".to_owned())],
                interval: LONG,
            }),
            restart: Some(RestartHook::Command {
                argv: ["restart", "{host}", "{port}"].map(str::to_owned).to_vec(),
                timeout: LONG,
            }),
            warm_up: WarmUp::Always,
        },
    };
    Source::Dns(settings)
}

#[tokio::test]
async fn what_all_have_in_common_is_each_worker_s_own() {
    let (sink, mut memberships) = mpsc::channel(8);
    let (mut reporter, _standing) = Reporter::new(0, &each("http://{host}:9400/{name}"), sink);
    let named = FoundWorker { name: "pod-7".to_owned(), ..FoundWorker::at("::1", 80) };
    reporter.found(vec![named]).await;
    let workers = memberships.recv().await.expect("the source was heard").workers;
    let worker = &workers[0];
    let at = |endpoint: &str| KvEvents::At {
        endpoint: endpoint.to_owned(),
        replay: None,
        topic: "kv@pod-7".to_owned(),
    };
    assert_eq!(worker.url, "https://[::1]:80");
    assert_eq!(worker.kv_events, at("tcp://[::1]:5557"));
    assert!(worker.traits.priority_scheduling && !worker.traits.kv_share);
    let memory = worker.maintenance.memory.as_ref().expect("it can be read");
    assert_eq!(memory.place.to_string(), "http://[::1]:9400/pod-7");
    assert_eq!(memory.labels, [("pod".to_owned(), "pod-7".to_owned())]);
    let argv = ["restart", "[::1]", "80"].map(str::to_owned).to_vec();
    assert_eq!(worker.maintenance.restart, Some(RestartHook::Command { argv, timeout: LONG }));
    assert_eq!(worker.maintenance.warm_up, WarmUp::Always);
}

#[tokio::test]
async fn a_worker_whose_addresses_cannot_be_is_refused_with_its_set() {
    let (sink, mut memberships) = mpsc::channel(8);
    let (mut reporter, standing) = Reporter::new(0, &each("http://{name}/metrics"), sink);
    reporter
        .found(vec![FoundWorker {
            name: "two words".to_owned(),
            ..FoundWorker::at("10.0.0.1", 80)
        }])
        .await;
    let error = standing.borrow().error.clone().expect("it was refused");
    assert!(error.contains("`each` does not fit worker `two words`"), "{error}");
    drop(reporter);
    assert!(memberships.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn trouble_that_changes_its_name_is_as_old_as_it_was() {
    let source = Source::Static(Vec::new());
    let (sink, _memberships) = mpsc::channel(8);
    let (mut reporter, mut standing) = Reporter::new(0, &source, sink);
    tokio::time::advance(Duration::from_secs(1)).await;
    reporter.failed(&"this");
    let began = standing.borrow_and_update().since;
    tokio::time::advance(Duration::from_secs(1)).await;
    reporter.failed(&"this");
    assert!(!standing.has_changed().unwrap(), "the same trouble is no news");
    reporter.failed(&"that");
    assert_eq!(standing.borrow_and_update().error.as_deref(), Some("that"));
    assert_eq!(standing.borrow().since, began);
    reporter.found(Vec::new()).await;
    assert_eq!(standing.borrow().error, None);
    assert_eq!(standing.borrow().since, began + Duration::from_secs(1));
}

#[test]
fn pauses_double_up_to_a_bound_and_start_over() {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
    let pauses: Vec<u64> = (0..5).map(|_| backoff.failed().as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 5, 5]);
    backoff.answered();
    assert_eq!(backoff.failed(), Duration::from_secs(1));
}

#[test]
fn a_place_becomes_a_worker() {
    #[track_caller]
    fn check(host: &str, name: &str) {
        let mut found = FoundWorker::at(host, 8000);
        found.pool = Pool::Draft;
        found.check().unwrap();
        let worker = WorkerSettings::from(found);
        assert_eq!((worker.name.as_str(), worker.pool), (name, Pool::Draft));
        assert_eq!(worker.url, format!("http://{name}"));
    }
    check("10.0.0.1", "10.0.0.1:8000");
    check("vllm-0.vllm.svc", "vllm-0.vllm.svc:8000");
    check("2001:db8::1", "[2001:db8::1]:8000");
}

#[test]
fn what_can_never_work_is_refused() {
    let dns = |name: &str| Source::Dns(DnsSettings::new(name, 8000)).check();
    assert_eq!(dns("workers.example.com"), Ok(()));
    assert_eq!(dns("_http._tcp.workers.example.com."), Ok(()));
    for name in ["", ".", "a..b"] {
        assert_eq!(dns(name), Err(SourceError::DnsName { name: name.to_owned() }));
    }
    let port = || ServicePort::Name("http".to_owned());
    let service = |name: &str| Source::Kubernetes(KubernetesSettings::new(name, port())).check();
    for name in ["", "vllm,app", "a/b", "VLLM"] {
        assert_eq!(service(name), Err(SourceError::ServiceName { service: name.to_owned() }));
    }
    let mut settings = KubernetesSettings::new("vllm", port());
    settings.namespace = Some("../kube-system".to_owned());
    let refused = Source::Kubernetes(settings.clone()).check();
    assert_eq!(refused, Err(SourceError::Namespace { namespace: "../kube-system".to_owned() }));
    settings.namespace = None;
    settings.server = Some("127.0.0.1".to_owned());
    let refused = Source::Kubernetes(settings).check();
    assert_eq!(refused, Err(SourceError::ApiServer { url: "127.0.0.1".to_owned() }));
    let served = if cfg!(feature = "kubernetes") {
        Ok(())
    } else {
        Err(SourceError::NoKubernetes { service: "vllm".to_owned() })
    };
    assert_eq!(service("vllm"), served);
}
