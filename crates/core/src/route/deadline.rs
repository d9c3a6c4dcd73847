//! Deadlines at the router: what a request is expected to take where it would go, and what its worker may take.

use overdraft_units::{Instant, Tokens};

use super::router::{Request, Router};
use super::routing_request::Asked;
use crate::deadline::{DeadlineSettings, Limit, Prediction, stall, standstill};
use crate::fleet::{Demand, Progress, WorkerId};

impl Router {
    /// What `request`, of which the last decision was, is expected to take at `worker`.
    pub fn predict(&self, request: Request<'_>, worker: WorkerId, now: Instant) -> Prediction {
        let Asked { ask, .. } = self.ask(request);
        let decided = self.decision().candidates.iter().find(|one| one.worker == worker);
        let demand = Demand {
            prompt: ask.prompt,
            cached: decided.map_or(Tokens::ZERO, |one| one.cached),
            completion: ask.completion,
            first_token: request.first_token,
            prospect: ask.prospect,
            ..Demand::default()
        };
        self.fleet().predict(worker, demand, now)
    }

    /// For how long a stream of `worker` may say nothing now.
    pub fn stall_limit(&self, worker: WorkerId, settings: DeadlineSettings, now: Instant) -> Limit {
        stall(settings, self.fleet().prompts_left(worker, now))
    }

    /// For how long `worker`, whose engine counts its work so, may count none before it is taken to be frozen.
    pub fn standstill_limit(
        &self,
        worker: WorkerId,
        settings: DeadlineSettings,
        counted: Progress,
        now: Instant,
    ) -> Limit {
        standstill(settings, self.fleet().step_at_most(worker, counted, now))
    }
}
