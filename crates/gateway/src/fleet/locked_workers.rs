//! Locked workers: workers that ask for a key which only clients have.
//!
//! A gateway without keys of its own stands before workers that check keys themselves. Such a worker lists its
//! models to nobody without a key, so the first client that brings one introduces it: the models are asked
//! for with that key. From then on each client's own key is shown to the worker. No key is kept.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use overdraft_core::fleet::WorkerId;
use tokio::time::timeout;

use super::Fleet;
use super::probe::{self, MODELS, Memory};
use crate::upstream::fetch::fetch_as;

/// Workers that one request asks at most.
const ASKED_MAX: usize = 4;

/// Asks locked workers for their models with a client's key; whether any of them can be asked now.
pub(crate) async fn introduce(fleet: &Arc<Fleet>, head: &HeaderMap) -> bool {
    let Some(key) = head.get(AUTHORIZATION).filter(|_| fleet.settings().is_open()) else {
        return false;
    };
    let mut is_introduced = false;
    for worker in locked(fleet).take(ASKED_MAX) {
        is_introduced |= introduce_to(fleet, worker, key).await;
    }
    is_introduced
}

/// Whether a worker asks for a key that the gateway does not have.
pub(crate) fn has_any(fleet: &Fleet) -> bool {
    locked(fleet).next().is_some()
}

fn locked(fleet: &Fleet) -> impl Iterator<Item = WorkerId> {
    let workers: Vec<WorkerId> =
        fleet.dispatcher.view().fleet().workers().map(|(worker, _)| worker).collect();
    workers.into_iter().filter(|worker| {
        let member = fleet.dispatcher.member(*worker);
        member.upstream.key.is_none() && member.is_locked()
    })
}

async fn introduce_to(fleet: &Arc<Fleet>, worker: WorkerId, key: &HeaderValue) -> bool {
    let member = fleet.dispatcher.member(worker);
    let settings = fleet.settings().probe;
    let asking = fetch_as(&member.upstream, MODELS, settings.answer_bytes, Some(key));
    let Ok(Ok((StatusCode::OK, models))) = timeout(settings.timeout, asking).await else {
        return false;
    };
    member.lists(models);
    probe::look(fleet, worker, &mut Memory::default()).await;
    true
}
