//! Is each worker there, and what does it serve?
//!
//! One task per worker asks `/health` and `/v1/models` in turn and reports to the core what it saw;
//! what follows from that is the core's business. The prober also sweeps the idle connections.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Method, StatusCode, Uri};
use http_body_util::Full;
use overdraft_core::fleet::{Health, Probe, WorkerId};
use tokio::time::{sleep, timeout};

use crate::catalogue::Listing;
use crate::headers;
use crate::shared::Shared;
use crate::upstream::{AnswerBody, Outgoing, Upstream, UpstreamError};

/// While a worker has never been ready, it is asked this often: it may just be starting, and
/// somebody waits for it.
const INTERVAL_UNPROVEN: Duration = Duration::from_millis(50);

const HEALTH: &str = "/health";
const MODELS: &str = "/v1/models";

/// What one look at a worker showed.
enum Seen {
    Ready(Bytes),
    Unready,
    Silent,
    Unreachable,
}

/// Watches one worker until it is dropped.
pub(crate) async fn watch(shared: Arc<Shared>, worker: WorkerId) {
    let mut listed = Bytes::new();
    loop {
        look(&shared, worker, &mut listed).await;
        shared.upstream(worker).sweep();
        let unproven = shared.fleet().worker(worker).health() == Health::Unproven;
        let interval = shared.settings.probe.interval;
        sleep(if unproven { interval.min(INTERVAL_UNPROVEN) } else { interval }).await;
    }
}

/// Probes once. `listed` is the list of models that was taken in last; an equal one is not read
/// again.
async fn look(shared: &Shared, worker: WorkerId, listed: &mut Bytes) {
    let upstream = shared.upstream(worker);
    let probing = probe(upstream, shared.settings.probe.answer_bytes);
    let seen = timeout(shared.settings.probe.timeout, probing).await.unwrap_or(Seen::Silent);
    match seen {
        Seen::Ready(list) => match Listing::parse(&list) {
            Some(listing) => {
                let names = listing.names();
                if *listed != list {
                    shared.catalogue.note(worker, Some(listing));
                    *listed = list;
                }
                // Last, so that a model whose worker is up is in the list.
                shared.probed(worker, Probe::Ready(&names));
            }
            None => shared.probed(worker, Probe::Unready),
        },
        Seen::Unready => shared.probed(worker, Probe::Unready),
        Seen::Silent => shared.probed(worker, Probe::Silent),
        Seen::Unreachable => shared.probed(worker, Probe::Unreachable),
    }
    let up = shared.fleet().worker(worker).health().is_up();
    if !up && !listed.is_empty() {
        shared.catalogue.note(worker, None);
        *listed = Bytes::new();
    }
}

async fn probe(upstream: &Arc<Upstream>, answer_bytes: usize) -> Seen {
    match fetch(upstream, HEALTH, answer_bytes).await {
        // A server without `/health` is judged by its models alone.
        Ok((StatusCode::OK | StatusCode::NOT_FOUND, _)) => {}
        Ok(_) => return Seen::Unready,
        Err(unseen) => return unseen,
    }
    match fetch(upstream, MODELS, answer_bytes).await {
        Ok((StatusCode::OK, Some(list))) => Seen::Ready(list),
        Ok(_) => Seen::Unready,
        Err(unseen) => unseen,
    }
}

/// A GET; no body when it is longer than `answer_bytes` or breaks off.
async fn fetch(
    upstream: &Arc<Upstream>,
    path: &'static str,
    answer_bytes: usize,
) -> Result<(StatusCode, Option<Bytes>), Seen> {
    let make = || question(upstream, path);
    match upstream.exchange(make).await {
        Ok((response, connection)) => {
            let (head, incoming) = response.into_parts();
            let mut body = AnswerBody::new(incoming, connection, Arc::clone(upstream));
            Ok((head.status, collect(&mut body, answer_bytes).await))
        }
        Err(UpstreamError::Connect(_) | UpstreamError::ConnectTimedOut(_)) => {
            Err(Seen::Unreachable)
        }
        Err(UpstreamError::Broken(_)) => Err(Seen::Silent),
    }
}

async fn collect(body: &mut AnswerBody, bytes_max: usize) -> Option<Bytes> {
    let mut collected = BytesMut::new();
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        let data = data.ok()?;
        if bytes_max - collected.len() < data.len() {
            return None;
        }
        collected.extend_from_slice(&data);
    }
    Some(collected.freeze())
}

fn question(upstream: &Upstream, path: &'static str) -> Outgoing {
    let mut request = Outgoing::new(Full::new(Bytes::new()));
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::from_static(path);
    let headers = request.headers_mut();
    headers.insert(HOST, upstream.host.clone());
    headers.insert(USER_AGENT, headers::AGENT);
    headers.insert(ACCEPT, headers::JSON);
    request
}
