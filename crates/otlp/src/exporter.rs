//! Exporter: takes spans from the queue, sends them in batches, tries again what may be taken later.
//!
//! While a batch is tried again the queue fills behind it and then drops, so a collector that is gone costs the
//! memory of one queue and one batch. When the process ends, what is left is sent once.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, sleep, sleep_until};

use crate::collector::{Collector, Posted};
use crate::encode::encode;
use crate::endpoint::Endpoint;
use crate::queue::SpanSource;
use crate::span::{Attribute, Span};

/// Spans of a batch that is not waited for any longer.
const BATCH_SPANS_MAX: usize = 512;

/// How long the first span of a batch waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// How often the queue is looked into while a batch waits. Waking for each request would cost each request a wake-up;
/// the queue holds what comes in between, up to eight thousand sampled requests a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often a batch is sent at most.
const TRIES_MAX: u32 = 5;

/// Between the first two tries; twice as long each time.
const BACKOFF_MIN: Duration = Duration::from_millis(500);

/// What a collector may ask for at most.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A header that collectors of others want, such as a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

/// Why a header cannot be sent. The value is never shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no header that can be sent; expected a name and a value of visible ASCII")]
pub struct HeaderError {
    name: String,
}

impl Header {
    /// Checks name and value.
    ///
    /// # Errors
    /// [`HeaderError`] where no request can carry it.
    pub fn new(name: &str, value: &str) -> Result<Self, HeaderError> {
        let fault = || HeaderError { name: name.to_owned() };
        let named = HeaderName::try_from(name).map_err(|_| fault())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| fault())?;
        value.set_sensitive(true);
        Ok(Self { name: named, value })
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

/// Where spans go, and what the collector is told of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct ExporterSettings {
    /// Where to.
    pub endpoint: Endpoint,
    /// Sent with every batch.
    pub headers: Vec<Header>,
    /// How long a batch may take.
    pub timeout: Duration,
    /// What is said of this process: `service.name` and others.
    pub resource: Vec<Attribute>,
}

/// Sends spans.
#[derive(Debug)]
pub struct Exporter {
    source: SpanSource,
    collector: Collector,
    resource: Vec<Attribute>,
    /// What has been taken from the queue and not been sent.
    batch: Vec<Span>,
    /// Whether the last batch was lost; told once until one is not.
    is_failing: bool,
}

impl Exporter {
    /// An exporter that has sent nothing.
    pub fn new(settings: ExporterSettings, source: SpanSource) -> Self {
        let mut headers = HeaderMap::new();
        for Header { name, value } in settings.headers {
            headers.insert(name, value);
        }
        let collector = Collector::new(settings.endpoint, &headers, settings.timeout);
        let (resource, batch) = (settings.resource, Vec::new());
        Self { source, collector, resource, batch, is_failing: false }
    }

    /// Sends until `end` resolves, then what is left, once.
    pub async fn run(mut self, end: impl Future<Output = ()> + Send) {
        let mut end = pin!(end);
        loop {
            let gathered = tokio::select! {
                biased;
                () = &mut end => break,
                gathered = self.gather() => gathered,
            };
            if gathered.is_none() {
                return;
            }
            let batch = std::mem::take(&mut self.batch);
            if self.send(batch, Some(end.as_mut())).await {
                break;
            }
        }
        self.source.receiver.close();
        loop {
            let mut rest = std::mem::take(&mut self.batch);
            while rest.len() < BATCH_SPANS_MAX
                && let Ok(spans) = self.source.receiver.try_recv()
            {
                rest.extend(spans);
            }
            if rest.is_empty() {
                return;
            }
            self.send(rest, None::<Pin<&mut std::future::Ready<()>>>).await;
        }
    }

    /// Fills the batch: waits for spans, and a little longer for more; nothing when nobody can leave any. Dropped
    /// while it waits, it loses none.
    async fn gather(&mut self) -> Option<()> {
        let receiver = &mut self.source.receiver;
        self.batch.extend(receiver.recv().await?);
        let until = Instant::now() + BATCH_WAIT;
        loop {
            while self.batch.len() < BATCH_SPANS_MAX
                && let Ok(spans) = receiver.try_recv()
            {
                self.batch.extend(spans);
            }
            let now = Instant::now();
            if BATCH_SPANS_MAX <= self.batch.len() || until <= now || receiver.is_closed() {
                return Some(());
            }
            sleep_until(until.min(now + LOOK_EVERY)).await;
        }
    }

    /// Sends a batch, again where it may be taken later and `end` has not come; whether that has come.
    async fn send<E: Future<Output = ()>>(
        &mut self,
        batch: Vec<Span>,
        mut end: Option<Pin<&mut E>>,
    ) -> bool {
        let count = batch.len();
        let body = encode(&self.resource, batch);
        let mut backoff = BACKOFF_MIN;
        for attempt in 1..=TRIES_MAX {
            let (why, after) = match self.collector.post(Bytes::clone(&body)).await {
                Posted::Taken { rejected, words } => {
                    self.taken(count, rejected, &words);
                    return false;
                }
                Posted::Refused { why } => {
                    self.lost("refused", count, &why);
                    return false;
                }
                Posted::Later { why, after } => (why, after),
            };
            let Some(end) = end.as_mut().filter(|_| attempt < TRIES_MAX) else {
                self.lost("unsent", count, &why);
                return false;
            };
            tokio::select! {
                () = end.as_mut() => {
                    self.lost("unsent", count, &why);
                    return true;
                }
                () = sleep(after.unwrap_or(backoff).min(BACKOFF_MAX)) => {}
            }
            backoff *= 2;
        }
        false
    }

    fn taken(&mut self, count: usize, rejected: u64, words: &str) {
        let rejected = usize::try_from(rejected).unwrap_or(usize::MAX).min(count);
        self.source.metrics.exported(count - rejected);
        if 0 < rejected {
            self.lost("refused", rejected, words);
        } else if std::mem::take(&mut self.is_failing) {
            tracing::info!("the trace collector takes spans again");
        }
    }

    fn lost(&mut self, reason: &'static str, count: usize, why: &str) {
        self.source.metrics.dropped(reason, count);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                spans = count,
                why,
                "spans are lost: the trace collector does not take them"
            );
        }
    }
}
