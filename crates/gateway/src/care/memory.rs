//! How much memory does a worker use?
//!
//! One task per worker that has a memory source reads the exporter's page and hands the share to
//! the core. A page that cannot be used is told once and teaches nothing.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use overdraft_core::fleet::WorkerId;
use overdraft_core::fragment::Reading;
use overdraft_wire::prometheus::memory::{MemoryError, memory_permille};
use tokio::time::sleep;

use super::errand::{Errand, ErrandError};
use super::settings::MemorySource;
use crate::shared::Shared;

/// Why a look taught nothing.
#[derive(Debug, thiserror::Error)]
enum MemoryFault {
    #[error(transparent)]
    Errand(#[from] ErrandError),
    #[error("the exporter's answer is {0}; expected 200")]
    Status(StatusCode),
    #[error(transparent)]
    Page(#[from] MemoryError),
}

/// Reads one worker's memory until it is dropped; at once done where there is nowhere to read it.
pub(crate) async fn watch(shared: Arc<Shared>, worker: WorkerId) {
    let member = shared.roster.member(worker);
    let Some(source) = member.settings.care.memory.clone() else { return };
    drop(member);
    let mut known = true;
    loop {
        let looked = look(&shared, &source).await;
        let name = shared.upstream(worker);
        match looked {
            Ok(memory_permille) => {
                note(&shared, worker, memory_permille);
                if !known {
                    tracing::info!(worker = name.name(), "its memory is known again");
                }
                known = true;
            }
            Err(fault) => {
                if known {
                    tracing::warn!(worker = name.name(), page = %source.place, %fault,
                        "its memory is not known");
                }
                known = false;
            }
        }
        sleep(source.interval).await;
    }
}

async fn look(shared: &Shared, source: &MemorySource) -> Result<u16, MemoryFault> {
    let scrape = shared.settings().scrape;
    let errand = Errand {
        place: &source.place,
        method: Method::GET,
        token: None,
        body: Bytes::new(),
        timeout: scrape.timeout,
        answer_bytes: scrape.page_bytes,
    };
    let (status, page) = errand.run().await?;
    if status != StatusCode::OK {
        return Err(MemoryFault::Status(status));
    }
    Ok(memory_permille(&page, &source.names, &source.labels)?)
}

fn note(shared: &Shared, id: WorkerId, memory_permille: u16) {
    let settings = shared.settings().repair;
    let at = shared.clock.now();
    let router = shared.router();
    let worker = router.fleet().worker(id);
    let kv_permille = worker.scraped().and_then(|scraped| scraped.kv_use_permille).unwrap_or(0);
    let reading = Reading { at, memory_permille, kv_permille };
    shared.repairs.watch().read((id, worker), reading, &settings);
}
