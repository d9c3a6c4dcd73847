//! Probes: the health of the fleet, and the readiness of this gateway apart from it.
//!
//! `/healthz` is about the fleet: 503 while no worker is up. `/readyz` is about this process: a load
//! balancer that went by `/healthz` would take all gateways out together, and clients would get
//! refused connections instead of a place in the queue. **Invariant:** once ready, a gateway stays
//! ready until its end is signalled, whatever becomes of its workers and its store.

use std::sync::atomic::Ordering;

use http::{Response, StatusCode};
use overdraft_http::{Body, reply};
use overdraft_units::Micros;
use overdraft_wire::ApiError;

use super::Gateway;
use crate::cascade;

/// How long a gateway that has begun waits for its first worker before it calls itself ready: a
/// replica that knows no worker yet would refuse what its elder could have served.
const FIRST_WORKER_WAIT: Micros = Micros::new(10_000_000);

/// Told to every probe once the end was signalled.
const LEAVING: &str = "the gateway is shutting down";

impl Gateway {
    /// The end was signalled: from now on probes say so.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Whether requests should be sent here rather than to another gateway.
    pub(super) fn readiness(&self) -> Response<Body> {
        if self.is_leaving.load(Ordering::Relaxed) {
            return reply::error(&ApiError::overloaded(LEAVING));
        }
        if !self.was_ready.load(Ordering::Relaxed) {
            let waited = self.dispatcher.clock.now().since(self.begun);
            if !becomes_ready(self.workers_up().0, waited) {
                let why = "the gateway has begun and no worker has been found up yet";
                return reply::error(&ApiError::overloaded(why));
            }
            self.was_ready.store(true, Ordering::Relaxed);
        }
        reply::json(StatusCode::OK, &br#"{"status":"ready"}"#[..])
    }

    /// Whether the fleet can answer, and how what it relies on is.
    pub(super) fn health(&self) -> Response<Body> {
        if self.is_leaving.load(Ordering::Relaxed) {
            return reply::error(&ApiError::overloaded(LEAVING));
        }
        let (up, all) = self.workers_up();
        if up == 0 {
            let why = format!("none of {all} workers is up");
            return reply::error(&ApiError::overloaded(why));
        }
        let store = match self.settings.settings().store.place {
            overdraft_store::Place::Memory | overdraft_store::Place::Wrong(_) => "memory",
            overdraft_store::Place::Redis(_) if self.store.is_degraded() => "degraded",
            overdraft_store::Place::Redis(_) => "ok",
        };
        let mut text =
            format!(r#"{{"status":"ok","workers_up":{up},"workers":{all},"store":"{store}""#);
        let off = cascade::switched_off(&self.cascade);
        if !off.is_empty() {
            let off: serde_json::Map<String, serde_json::Value> =
                off.into_iter().map(|(name, why)| (name, why.into())).collect();
            text.push_str(r#","cascades_off":"#);
            text.push_str(&serde_json::Value::Object(off).to_string());
        }
        text.push('}');
        reply::json(StatusCode::OK, text)
    }

    /// Workers that are up, and all there are.
    fn workers_up(&self) -> (usize, usize) {
        let router = self.dispatcher.view();
        let fleet = router.fleet();
        let up = fleet.workers().filter(|(_, worker)| worker.health().is_up()).count();
        (up, fleet.workers().count())
    }
}

/// Whether a gateway that has not been ready yet is.
fn becomes_ready(workers_up: usize, waited: Micros) -> bool {
    0 < workers_up || FIRST_WORKER_WAIT <= waited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_before_an_empty_fleet_is_ready_after_a_while() {
        let short = Micros::new(FIRST_WORKER_WAIT.get() - 1);
        assert!(!becomes_ready(0, short));
        assert!(becomes_ready(1, Micros::ZERO));
        assert!(becomes_ready(0, FIRST_WORKER_WAIT), "a pool of none is woken by who waits here");
    }
}
