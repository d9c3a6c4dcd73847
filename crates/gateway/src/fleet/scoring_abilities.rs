//! Scoring abilities: how each worker can be asked what it makes of a draft.
//!
//! A worker's metrics say which engine it runs, and vLLM's `/version`, read in the background, says
//! which release.

use std::time::Duration;

use overdraft_core::cascade::{Mode, Server};
use overdraft_core::fleet::WorkerId;
use overdraft_units::{Instant, Micros};
use overdraft_wire::prometheus::engine::Dialect;
use overdraft_wire::scoring::read_version;
use tokio::time::timeout;

use super::Fleet;
use crate::upstream::fetch::fetch;

/// How often it is looked which version a worker runs.
const LOOK_EVERY: Micros = Micros::new(60_000_000);

/// How long it may take to tell.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes that are read of it.
const LOOK_BYTES: usize = 4 * 1024;

const VERSION: &str = "/version";

/// Takes note of what a worker runs, where drafts are verified; `asked` is when that was done last.
pub(crate) async fn identify(
    fleet: &Fleet,
    worker: WorkerId,
    dialect: Dialect,
    asked: &mut Option<Instant>,
) {
    let now = fleet.dispatcher.clock.now();
    let verifies = fleet.settings().cascades.values().any(|cascade| cascade.mode == Mode::Verify);
    if !verifies || asked.is_some_and(|then| now.since(then) < LOOK_EVERY) {
        return;
    }
    *asked = Some(now);
    let member = fleet.dispatcher.member(worker);
    let server = match dialect {
        Dialect::Sglang => Server::Sglang,
        Dialect::LlamaServer => Server::Unknown,
        Dialect::Vllm => {
            let looked = timeout(LOOK_PATIENCE, fetch(&member.upstream, VERSION, LOOK_BYTES)).await;
            // Who does not answer is what it was.
            let Ok(Ok((_, page))) = looked else { return };
            read_version(&page).map_or(Server::Unknown, |(major, minor)| Server::Vllm(major, minor))
        }
    };
    member.abilities().runs(server);
}
