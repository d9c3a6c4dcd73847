//! Prefill: warms the target's prefix cache with the prompt while the draft still runs.
//!
//! Where the settings enable it, a worker of the target gets the client's request for one token
//! beside the draft, at the lowest priority. A later answer of the target then hits that worker's
//! prefix cache, because the prefix index routes it there. The prefill is cancelled when the draft
//! has been judged, whatever the verdict; the blocks computed by then stay cached.
//!
//! Invariant: nobody waits for it, and no more run for a cascade than [`PREFILLS_MAX`](super::state::PREFILLS_MAX).

use std::sync::Arc;

use overdraft_core::admit::Priority;
use overdraft_core::cascade::Event;
use overdraft_core::cost::Usage;
use overdraft_core::estimate::Pace;
use overdraft_core::fleet::WorkerId;
use overdraft_core::route::Strictness;
use overdraft_core::route::Tried;
use overdraft_telemetry::Delivery;
use overdraft_units::{Instant, Micros, Tokens};
use overdraft_wire::Object;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinSet;

use super::call::Call;
use super::driver::Driver;
use super::rewrite;
use crate::dispatch::Used;
use crate::pipeline::relay::whole;

/// How one that was begun came out, as its worker tells it.
type Told = Result<Option<Used>, ()>;

/// The target reading a prompt; dropped, it is given up.
#[derive(Debug)]
pub(super) struct Prefill {
    /// The question; ends when this is dropped.
    _task: JoinSet<()>,
    told: oneshot::Receiver<Told>,
    /// Tokens of the prompt as they were estimated.
    estimated: Tokens,
    /// Who was asked, and when.
    worker: WorkerId,
    begun: Instant,
    _room: OwnedSemaphorePermit,
}

impl Prefill {
    /// Ends it. How it came out, as metrics call it, and what the worker did: as it told, or at most what it can have
    /// done by then at its `pace`, where that was measured.
    fn end(mut self, pace: Option<Pace>, now: Instant) -> (&'static str, Usage) {
        let all =
            Usage { prompt: self.estimated, cached: Tokens::ZERO, completion: Tokens::new(1) };
        match self.told.try_recv() {
            Ok(Ok(used)) => {
                let told = used.map_or(all, |used| Usage {
                    prompt: used.prompt,
                    cached: used.cached.unwrap_or_default(),
                    completion: used.completion,
                });
                ("done", told)
            }
            Ok(Err(())) => ("failed", Usage::default()),
            Err(_) => ("stopped", stopped(all, pace, now.since(self.begun))),
        }
    }
}

/// What was done at most of a prefill that was stopped after that time: it said nothing, and read what its pace allows.
fn stopped(all: Usage, pace: Option<Pace>, after: Micros) -> Usage {
    let reach = pace.map_or(all.prompt, |pace| {
        Tokens::new(u32::try_from(pace.tokens_in(after)).unwrap_or(u32::MAX))
    });
    Usage { prompt: all.prompt.min(reach), completion: Tokens::ZERO, ..all }
}

impl Driver {
    /// Has the target read the prompt, where there is room.
    pub(super) fn begin_prefill(&mut self) {
        self.prefill = self.ask_prefill();
        if self.prefill.is_none() {
            self.calls.layer.metrics.prefilled(&self.plan.state.name, "no_place");
        }
    }

    fn ask_prefill(&self) -> Option<Prefill> {
        let room = Arc::clone(&self.state().prefills).try_acquire_owned().ok()?;
        let object = Object::parse(&self.body).expect("it was parsed when it was looked into");
        let body = rewrite::prefill(&object);
        let mut info = self.info.clone();
        (info.limit, info.delivery) = (Some(1), Delivery::Whole);
        info.priority = Priority::Flex;
        let call = Call { info, path: self.path(), body };
        let lease = self.calls.place(&call, &Tried::default(), Strictness::Judged).ok()?;
        let (worker, begun) = (lease.worker(), self.calls.layer.pipeline.dispatcher.clock.now());
        let (sender, told) = oneshot::channel();
        let calls = self.calls.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let answer = calls.whole(lease, &call).await;
            let used =
                answer.map_err(drop).and_then(|answer| whole::read(&answer, true).map_err(drop));
            // Whoever asked may have given it up.
            let _gone = sender.send(used);
        });
        let estimated = self.plan.terms.traits.prompt;
        Some(Prefill { _task: task, told, estimated, worker, begun, _room: room })
    }

    /// Ends it, whether or not it has come to its end, and puts it on the bill.
    pub(super) fn end_prefill(&mut self) {
        let Some(prefill) = self.prefill.take() else { return };
        let layer = &self.calls.layer;
        let rate = *layer.pipeline.dispatcher.view().fleet().worker(prefill.worker).prefill_rate();
        let pace = rate.tokens_per_second().map(|_| rate.pace());
        let (outcome, usage) = prefill.end(pace, layer.pipeline.dispatcher.clock.now());
        self.calls.layer.metrics.prefilled(&self.plan.state.name, outcome);
        self.account.prefilled(usage);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A client that leaves takes it along.
        let _none = self.protocol.report(Event::Left);
        self.end_prefill();
        self.note_told();
    }
}

#[cfg(test)]
mod tests {
    use overdraft_core::estimate::PrefillRate;

    use super::*;

    #[test]
    fn what_was_stopped_is_billed_as_far_as_it_can_have_come() {
        let all =
            Usage { prompt: Tokens::new(5_000), cached: Tokens::ZERO, completion: Tokens::new(1) };
        let mut rate = PrefillRate::new();
        rate.note(10_000, Micros::new(1_000_000));
        let read = |pace, milliseconds: u64| {
            let usage = stopped(all, pace, Micros::new(milliseconds * 1_000));
            assert_eq!((usage.cached, usage.completion), (Tokens::ZERO, Tokens::ZERO));
            usage.prompt.get()
        };
        let pace = Some(rate.pace());
        assert_eq!(read(pace, 0), 0);
        assert_eq!(read(pace, 100), 1_000);
        assert_eq!(read(pace, 900), 5_000);
        // Nobody knows how fast it is.
        assert_eq!(read(None, 0), 5_000);
    }
}
