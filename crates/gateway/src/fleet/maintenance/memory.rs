//! Memory readings: how much memory each worker uses, by its exporter.
//!
//! One task per worker that has a memory source reads the exporter's page and hands the share to
//! the core. An unusable page is logged once and changes nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use overdraft_core::fleet::WorkerId;
use overdraft_core::memory_drift::Reading;
use overdraft_units::Micros;
use overdraft_wire::prometheus::memory::{MemoryError, memory_permille};
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::settings::MemorySource;
use crate::upstream::{HttpCall, HttpCallError};

/// Why a look taught nothing.
#[derive(Debug, thiserror::Error)]
enum MemoryFault {
    #[error(transparent)]
    HttpCall(#[from] HttpCallError),
    #[error("the exporter's answer is {0}; expected 200")]
    Status(StatusCode),
    #[error(transparent)]
    Page(#[from] MemoryError),
}

/// Reads one worker's memory, where its settings say that it can be read, until it is dropped.
pub(crate) async fn watch(fleet: Arc<Fleet>, worker: WorkerId) {
    let mut changes = fleet.dispatcher.member(worker).changes();
    loop {
        let source = fleet.dispatcher.member(worker).settings.maintenance.memory.clone();
        let is_elsewhere = || fleet.dispatcher.member(worker).settings.maintenance.memory != source;
        tokio::select! {
            never = read(&fleet, worker, source.as_ref()) => match never {},
            () = changes.until(is_elsewhere) => {}
        }
    }
}

/// Reads one worker's memory at `source`, if there is one.
async fn read(fleet: &Fleet, worker: WorkerId, source: Option<&MemorySource>) -> Infallible {
    let Some(source) = source else { return std::future::pending().await };
    let mut known = true;
    loop {
        let looked = look(fleet, source).await;
        let name = fleet.dispatcher.upstream(worker);
        match looked {
            Ok(memory_permille) => {
                note(fleet, worker, memory_permille, source.interval);
                if !known {
                    tracing::info!(worker = name.name(), "the worker's memory can be read again");
                }
                known = true;
            }
            Err(fault) => {
                if known {
                    tracing::warn!(worker = name.name(), page = %source.place, %fault,
                        "the worker's memory cannot be read");
                }
                known = false;
            }
        }
        sleep(source.interval).await;
    }
}

async fn look(fleet: &Fleet, source: &MemorySource) -> Result<u16, MemoryFault> {
    let scrape = fleet.settings().scrape;
    let call = HttpCall {
        place: &source.place,
        tls: None,
        method: Method::GET,
        token: None,
        body: Bytes::new(),
        timeout: scrape.timeout,
        answer_bytes: scrape.page_bytes,
    };
    let (status, page) = call.run().await?;
    if status != StatusCode::OK {
        return Err(MemoryFault::Status(status));
    }
    Ok(memory_permille(&page, &source.names, &source.labels)?)
}

fn note(fleet: &Fleet, id: WorkerId, memory_permille: u16, interval: Duration) {
    let settings = fleet.settings().repair;
    let at = fleet.dispatcher.clock.now();
    let router = fleet.dispatcher.view();
    let worker = router.fleet().worker(id);
    let kv_permille = worker.scraped().and_then(|scraped| scraped.kv_use_permille).unwrap_or(0);
    let every = Micros::from(interval);
    let reading = Reading { at, memory_permille, kv_permille, every };
    fleet.repairs.watch().read(id, worker, reading, &settings);
}
