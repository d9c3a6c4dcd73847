//! Is each worker there, and what does it serve?
//!
//! One task per worker asks `/health` and `/v1/models` in turn and reports to the core what it saw;
//! what follows from that is the core's business. The prober also sweeps the idle connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use overdraft_core::fleet::{Health, Probe, WorkerId};
use overdraft_units::Micros;
use tokio::time::{Instant, sleep, timeout};

use crate::care::Warmth;
use crate::catalogue::Listing;
use crate::fetch::{FetchError, fetch};
use crate::shared::Shared;
use crate::upstream::{Upstream, UpstreamError};

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
    let mut memory = Memory::default();
    loop {
        look(&shared, worker, &mut memory).await;
        shared.upstream(worker).sweep();
        let unproven = shared.router().fleet().worker(worker).health() == Health::Unproven;
        let interval = shared.settings().probe.interval;
        sleep(if unproven { interval.min(INTERVAL_UNPROVEN) } else { interval }).await;
    }
}

/// What is remembered between two looks.
#[derive(Default)]
struct Memory {
    /// The list of models that was taken in last; an equal one is not read again.
    listed: Bytes,
    warmth: Warmth,
}

/// Probes once.
async fn look(shared: &Shared, worker: WorkerId, memory: &mut Memory) {
    let Memory { listed, warmth } = memory;
    let member = shared.roster.member(worker);
    let settings = shared.settings().probe;
    let begun = Instant::now();
    let probing = probe(&member.upstream, settings.answer_bytes);
    let seen = timeout(settings.timeout, probing).await.unwrap_or(Seen::Silent);
    if matches!(seen, Seen::Ready(_)) {
        // Two questions were answered one after the other.
        let took = begun.elapsed() / 2;
        let took = Micros::new(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        shared.router().round_trip(worker, took);
    }
    let health = || shared.router().fleet().worker(worker).health();
    let is_up = || health().is_up();
    let before = health();
    let was_up = before.is_up();
    warmth.observe(before);
    match seen {
        Seen::Ready(list) => match Listing::parse(&list) {
            Some(listing) => {
                let names = listing.names();
                let wanted = member.settings.model.as_ref();
                if let Some(wanted) = wanted.filter(|wanted| !names.contains(wanted)) {
                    tell_wrong_model(shared, worker, wanted, &names);
                    shared.probed(worker, Probe::WrongModel);
                } else if !warmth.is_ready(shared, worker, &names).await {
                    shared.probed(worker, Probe::Unready);
                } else {
                    shared.tokenizers.wonder(worker, &names, || Arc::clone(&member.upstream));
                    if *listed != list {
                        shared.catalogue.note(worker, Some(listing));
                        *listed = list;
                    }
                    // Last, so that a model whose worker is up is in the list. Who was restarted
                    // meanwhile may be another process than the one that answered, and cold: the next
                    // look tells.
                    if is_up() || !was_up {
                        shared.probed(worker, Probe::Ready(&names));
                    }
                }
            }
            None => shared.probed(worker, Probe::Unready),
        },
        Seen::Unready => shared.probed(worker, Probe::Unready),
        Seen::Silent => shared.probed(worker, Probe::Silent),
        Seen::Unreachable => shared.probed(worker, Probe::Unreachable),
    }
    if !is_up() && !listed.is_empty() {
        shared.catalogue.note(worker, None);
        *listed = Bytes::new();
    }
}

/// Models that a complaint names at most.
const MODELS_NAMED_MAX: usize = 8;

/// Says once what is wrong with a worker that serves something else than it is configured for.
fn tell_wrong_model(shared: &Shared, worker: WorkerId, wanted: &str, names: &[String]) {
    let wrong = Health::is_wrong_model;
    if !wrong(shared.router().fleet().worker(worker).health()) {
        let served = names.iter().take(MODELS_NAMED_MAX).cloned().collect::<Vec<_>>().join("`, `");
        tracing::error!(
            worker = shared.upstream(worker).name(),
            "it serves `{served}` and is configured for `{wanted}`; it is sent nothing until it \
             serves that, or its `model` is changed"
        );
    }
}

async fn probe(upstream: &Arc<Upstream>, answer_bytes: usize) -> Seen {
    match fetch(upstream, HEALTH, answer_bytes).await {
        // A server without `/health` is judged by its models alone.
        Ok((StatusCode::OK | StatusCode::NOT_FOUND, _)) | Err(FetchError::TooLong(_)) => {}
        Ok(_) => return Seen::Unready,
        Err(error) => return unseen(&error),
    }
    match fetch(upstream, MODELS, answer_bytes).await {
        Ok((StatusCode::OK, list)) => Seen::Ready(list),
        Ok(_) | Err(FetchError::TooLong(_) | FetchError::BrokenOff) => Seen::Unready,
        Err(error) => unseen(&error),
    }
}

fn unseen(error: &FetchError) -> Seen {
    match error {
        FetchError::Upstream(UpstreamError::Connect(_) | UpstreamError::ConnectTimedOut(_)) => {
            Seen::Unreachable
        }
        _ => Seen::Silent,
    }
}
