//! Hedge at the router: where a second attempt at a request goes whose first token is late.
//!
//! The first attempt goes on. The second is placed as a retry is, so that it counts against the budget of retries,
//! and only where the predicted peak leaves room, whatever the model's admission says.

use overdraft_units::{Instant, Tokens};

use super::candidate::Ejections;
use super::placed_request::Placed;
use super::router::{Request, Router};
use super::routing_request::model_number;
use super::settings::RouteSettings;
use super::{ATTEMPTS_MAX, Attempted, Choice, Tried};
use crate::admit::{AdmitSettings, Mode};
use crate::fleet::{Demand, FirstToken, Turn, WorkerId};
use crate::hedge::{Denial, HedgeSettings, Watch};

impl Router {
    /// Other limits of hedging from now on.
    pub fn set_hedging(&mut self, settings: HedgeSettings) {
        self.hedging.set(settings);
    }

    /// Watches a request that was sent, where its first token will be seen.
    pub(super) fn watch(
        &mut self,
        request: Request<'_>,
        worker: WorkerId,
        demand: Demand,
        now: Instant,
    ) -> Option<Watch> {
        let is_seen = request.first_token == FirstToken::Seen;
        let model = model_number(request.model);
        is_seen.then(|| self.hedging.sent(worker, model, demand.prefill(), now)).flatten()
    }

    /// Places a second attempt at a request whose first token is late.
    ///
    /// # Errors
    /// Why not now.
    pub fn hedge(
        &mut self,
        request: Request<'_>,
        settings: &RouteSettings,
        first: Watch,
        now: Instant,
    ) -> Result<Placed, Denial> {
        first.due().filter(|due| *due <= now).ok_or(Denial::Off)?;
        let serving = self.fleet.serving(request.model).unwrap_or_default();
        if self.hedging.is_shared(serving, now) {
            return Err(Denial::Shared);
        }
        // Who waits came first.
        if 0 < self.queue.waiting_for(model_number(request.model)) {
            return Err(Denial::NoRoom);
        }
        let settings = predicted(settings);
        let mut tried = Tried::default();
        tried.add(first.worker());
        for _ in 1..ATTEMPTS_MAX {
            let decision = self.choose(request, &settings, &tried, now);
            let Choice::Send(worker) = decision.choice else { return Err(Denial::NoRoom) };
            let is_waived = decision.ejections == Ejections::Waived;
            let cached = decision.chosen().map_or(Tokens::ZERO, |chosen| chosen.cached);
            if is_waived {
                return Err(Denial::Shared);
            }
            if self.hedging.is_suspect(worker, now) {
                tried.add(worker);
                continue;
            }
            let (prompt, _) = self.expected(request);
            let prefill = prompt.checked_sub(cached).unwrap_or_default();
            if !self.hedging.affords(prefill) {
                return Err(Denial::Budget);
            }
            let attempted = Attempted { tried: &tried, turn: Turn::Again };
            let placed = self.place(request, &settings, attempted, now);
            let placed = placed.map_err(|_| Denial::NoRoom)?;
            self.hedging.spent(prefill);
            return Ok(placed);
        }
        Err(Denial::NoRoom)
    }
}

/// The same where spare room must be predicted.
fn predicted(settings: &RouteSettings) -> RouteSettings {
    let mode = match settings.admission.mode {
        Mode::Off => Mode::Peak,
        mode => mode,
    };
    RouteSettings { admission: AdmitSettings { mode, ..settings.admission }, ..*settings }
}
