//! Starts a gateway before mock workers and stops it again.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use overdraft_gateway::{Drained, GatewaySettings, Listeners, WorkerSettings, run_reloading};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::client::{Client, Head};
use crate::mock::Mock;

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// So long that nothing in a test waits for it.
pub(crate) const NEVER: Duration = Duration::from_hours(1);

/// So short that a test can wait for it.
pub(crate) const SOON: Duration = Duration::from_millis(100);

/// The model that mocks serve unless they are told otherwise.
pub(crate) const MODEL: &str = "m";

pub(crate) const CHAT: &str = "/v1/chat/completions";

/// Waits, but not for ever.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("nothing takes this long but a hang")
}

/// A running gateway.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    /// Where operators connect, if not where clients do.
    admin: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    settings: watch::Sender<GatewaySettings>,
    running: JoinHandle<Drained>,
}

impl Gateway {
    /// Starts with probes that never repeat once a worker is up, and waits until all are.
    pub(crate) async fn start(mocks: &[&Mock]) -> Self {
        Self::start_with(mocks, |_| {}).await
    }

    pub(crate) async fn start_with(
        mocks: &[&Mock],
        adjust: impl FnOnce(&mut GatewaySettings),
    ) -> Self {
        let gateway = Self::start_unready(mocks, adjust).await;
        gateway.until_up(mocks.len()).await;
        gateway
    }

    /// Starts and does not wait for anything.
    pub(crate) async fn start_unready(
        mocks: &[&Mock],
        adjust: impl FnOnce(&mut GatewaySettings),
    ) -> Self {
        Self::start_at(mocks, None, adjust).await
    }

    /// Starts with a listener for operators, and waits until all workers are up.
    pub(crate) async fn start_with_admin(
        mocks: &[&Mock],
        adjust: impl FnOnce(&mut GatewaySettings),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gateway = Self::start_at(mocks, Some(listener), adjust).await;
        gateway.until_up(mocks.len()).await;
        gateway
    }

    async fn start_at(
        mocks: &[&Mock],
        admin: Option<TcpListener>,
        adjust: impl FnOnce(&mut GatewaySettings),
    ) -> Self {
        let workers = mocks.iter().enumerate().map(|(index, mock)| WorkerSettings {
            name: format!("worker-{index}"),
            ..WorkerSettings::new(mock.url())
        });
        let mut settings = GatewaySettings::new(workers.collect());
        settings.probe.interval = NEVER;
        adjust(&mut settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let place = admin.as_ref().map(|admin| admin.local_addr().unwrap());
        let listeners = Listeners { clients: listener, admin, scaler: None };
        let (stop, stopped) = oneshot::channel::<()>();
        let (settings, watched) = watch::channel(settings);
        let running = tokio::spawn(async move {
            let shutdown = async {
                if stopped.await.is_err() {
                    // The test has ended without stopping the gateway; its runtime ends with it.
                    std::future::pending::<()>().await;
                }
            };
            run_reloading(listeners, watched, shutdown).await.unwrap()
        });
        Self { address, admin: place, stop: Some(stop), settings, running }
    }

    /// Waits until so many workers are up.
    pub(crate) async fn until_up(&self, count: usize) {
        let wanted = format!("\"workers_up\":{count},");
        let mut client = self.client().await;
        let asked = async {
            while !client.get("/healthz").await.1.contains(&wanted) {
                tokio::task::yield_now().await;
            }
        };
        in_time(asked).await;
    }

    /// Waits until the gateway says that it cannot serve.
    pub(crate) async fn until_down(&self) -> (Head, String) {
        let mut client = self.client().await;
        let asked = async {
            loop {
                let (head, body) = client.get("/healthz").await;
                if head.status == 503 {
                    return (head, body);
                }
                tokio::task::yield_now().await;
            }
        };
        in_time(asked).await
    }

    /// The page of metrics.
    pub(crate) async fn metrics(&self) -> String {
        self.client().await.get("/metrics").await.1
    }

    /// Waits until this holds of the page of metrics; the page.
    pub(crate) async fn metrics_until(&self, holds: impl Fn(&str) -> bool) -> String {
        let mut client = self.client().await;
        let asked = async {
            loop {
                let (_, page) = client.get("/metrics").await;
                if holds(&page) {
                    return page;
                }
                tokio::task::yield_now().await;
            }
        };
        in_time(asked).await
    }

    /// Waits until the page of metrics has this line.
    pub(crate) async fn until_line(&self, line: &str) {
        self.metrics_until(|page| page.lines().any(|own| own == line)).await;
    }

    /// Waits until the page of metrics has these words, within a line or over several.
    pub(crate) async fn until_words(&self, words: &str) {
        self.metrics_until(|page| page.contains(words)).await;
    }

    /// Waits until so many workers have been scraped.
    pub(crate) async fn until_scraped(&self, workers: usize) {
        self.metrics_until(|page| workers <= page.matches("result=\"ok\"").count()).await;
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// A connection to where operators connect.
    pub(crate) async fn operator(&self) -> Client {
        Client::connect(self.admin.unwrap_or(self.address)).await
    }

    /// A new connection that has posted a chat request for [`MODEL`].
    pub(crate) async fn chat(&self, more: &str) -> Client {
        let mut client = self.client().await;
        client.post(CHAT, &chat(more)).await;
        client
    }

    /// A new connection that has posted a streamed chat request.
    pub(crate) async fn stream(&self) -> Client {
        self.chat(r#","stream":true"#).await
    }

    /// What it was started or changed with.
    pub(crate) fn settings(&self) -> GatewaySettings {
        self.settings.borrow().clone()
    }

    /// Puts other settings in force.
    pub(crate) fn change(&self, settings: GatewaySettings) {
        self.settings.send_replace(settings);
    }

    /// Signals the end.
    pub(crate) fn stop(&mut self) {
        self.stop.take().expect("it is stopped once").send(()).unwrap();
    }

    /// Waits for the end.
    pub(crate) async fn stopped(self) -> Drained {
        in_time(self.running).await.unwrap()
    }
}

/// A chat request for [`MODEL`] with further members.
pub(crate) fn chat(more: &str) -> String {
    format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"hi"}}]{more}}}"#)
}

/// An event that carries some text.
pub(crate) fn token(text: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\
         \"finish_reason\":null}}]}}\n\n"
    )
}

/// An event that finishes the only choice.
pub(crate) fn finish(reason: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{}},\
         \"finish_reason\":\"{reason}\"}}]}}\n\n"
    )
}

pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A whole answer.
pub(crate) const ANSWER: &str = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4},"x_unknown":{"kept": [1,  2]}}"#;
