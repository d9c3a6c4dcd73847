//! Watchers of a gateway: an open dashboard and a scraper, each a connection that reads and throws away.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Between two scrapes.
pub(crate) const SCRAPE_EVERY: Duration = Duration::from_secs(5);
/// The counter that tells how many spans the collector took.
const SPANS: &str = "overdraft_trace_spans_exported_total ";
/// What ends an event.
const EVENT_END: &[u8] = b"\n\n";

/// Watchers at work.
pub(crate) struct Watchers {
    events: Arc<AtomicU64>,
    scrapes: Arc<AtomicU64>,
    running: JoinSet<Result<()>>,
}

impl Watchers {
    /// Opens the dashboard's stream of the page `now`, and scrapes the metrics.
    pub(crate) fn start(gateway: SocketAddr) -> Self {
        let (events, scrapes) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let mut running = JoinSet::new();
        running.spawn(open_dashboard(gateway, Arc::clone(&events)));
        running.spawn(scrape_on(gateway, Arc::clone(&scrapes)));
        Self { events, scrapes, running }
    }

    /// Ends them; how many events and scrapes there were.
    pub(crate) async fn finish(mut self) -> Result<(u64, u64)> {
        // They end by themselves only when something failed.
        if let Some(ended) = self.running.try_join_next() {
            ended??;
        }
        self.running.shutdown().await;
        Ok((self.events.load(Ordering::Relaxed), self.scrapes.load(Ordering::Relaxed)))
    }
}

async fn open_dashboard(gateway: SocketAddr, events: Arc<AtomicU64>) -> Result<()> {
    let mut stream = TcpStream::connect(gateway).await?;
    let head = format!("GET /admin/events/now HTTP/1.1\r\nhost: {gateway}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut read = Vec::with_capacity(64 * 1024);
    let mut has_begun = false;
    loop {
        ensure!(0 < stream.read_buf(&mut read).await?, "the dashboard's stream broke off");
        if !has_begun {
            ensure!(read.starts_with(b"HTTP/1.1 200 "), "the dashboard's stream was refused");
            has_begun = true;
        }
        let ends = u64::try_from(memchr::memmem::find_iter(&read, EVENT_END).count())?;
        events.fetch_add(ends, Ordering::Relaxed);
        read.clear();
    }
}

async fn scrape_on(gateway: SocketAddr, scrapes: Arc<AtomicU64>) -> Result<()> {
    let mut ticks = tokio::time::interval(SCRAPE_EVERY);
    loop {
        ticks.tick().await;
        scrape(gateway).await?;
        scrapes.fetch_add(1, Ordering::Relaxed);
    }
}

async fn scrape(gateway: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(gateway).await?;
    let head = format!("GET /metrics HTTP/1.1\r\nhost: {gateway}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "the metrics were refused");
    Ok(answer)
}

/// Spans of a gateway that its collector took so far.
pub(crate) async fn spans_exported(gateway: SocketAddr) -> Result<u64> {
    let metrics = scrape(gateway).await?;
    let Some(count) = metrics.lines().find_map(|line| line.strip_prefix(SPANS)) else {
        bail!("the metrics do not tell of spans");
    };
    count.trim().parse().context("a counter is a number")
}
