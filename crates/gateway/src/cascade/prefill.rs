//! May the target read the prompt while the draft still speaks?
//!
//! Where the settings say so, a worker of the target is asked for one token of the client's own request beside the
//! draft, at the lowest priority. What that leaves in its cache is found by the target's answer, if there is one: the
//! index of prefixes knows who was asked. It is given up when the draft has been judged, whatever the verdict; what
//! was computed by then stays where it is.
//!
//! Invariant: nobody waits for it, and no more run for a cascade than [`PREFILLS_MAX`].

use std::sync::Arc;

use overdraft_core::admit::Priority;
use overdraft_core::cascade::Mode;
use overdraft_core::cost::Usage;
use overdraft_core::route::Tried;
use overdraft_telemetry::Delivery;
use overdraft_units::Tokens;
use overdraft_wire::Object;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinHandle;

use super::ask;
use super::call::Matter;
use super::driver::Driver;
use crate::relay::{Used, whole};
use crate::shared::Strictness;

/// Prefills of a cascade that run at once, at most; what is drawn beyond that is left out and counted.
pub(super) const PREFILLS_MAX: usize = 16;

/// How one that was begun came out, as its worker tells it.
type Told = Result<Option<Used>, ()>;

/// The target reading a prompt; dropped, it is given up.
#[derive(Debug)]
pub(super) struct Prefill {
    task: JoinHandle<()>,
    told: oneshot::Receiver<Told>,
    /// Tokens of the prompt as they were estimated.
    estimated: Tokens,
    _room: OwnedSemaphorePermit,
}

impl Prefill {
    /// Ends it. How it came out, as metrics call it, and what the worker did as far as it told: all of the prompt where
    /// it was stopped, for nobody says how far it came.
    fn end(mut self) -> (&'static str, Usage) {
        let (outcome, used) = match self.told.try_recv() {
            Ok(Ok(used)) => ("done", used),
            Ok(Err(())) => return ("failed", Usage::default()),
            Err(_) => ("stopped", None),
        };
        let unknown =
            Usage { prompt: self.estimated, cached: Tokens::ZERO, completion: Tokens::new(1) };
        let usage = used.map_or(unknown, |used| Usage {
            prompt: used.prompt,
            cached: used.cached.unwrap_or_default(),
            completion: used.completion,
        });
        (outcome, usage)
    }
}

impl Drop for Prefill {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Driver {
    /// Has the target read the prompt, where that is wanted and there is room.
    pub(super) fn begin_prefill(&mut self) {
        let settings = &self.course().settings;
        let long = settings.prefill_from.is_some_and(|least| least <= self.plan.traits.prompt);
        if !long || settings.mode != Mode::Gate {
            return;
        }
        self.prefill = self.ask_prefill();
        if self.prefill.is_none() {
            self.outset.shared.cascade.prefilled(&self.plan.course.name, "no_place");
        }
    }

    fn ask_prefill(&self) -> Option<Prefill> {
        let room = Arc::clone(&self.course().prefills).try_acquire_owned().ok()?;
        let object = Object::parse(&self.body).expect("it was parsed when it was looked into");
        let body = ask::prefill(&object);
        let mut print = self.print.clone();
        (print.limit, print.delivery) = (Some(1), Delivery::Whole);
        print.priority = Priority::Flex;
        let matter = Matter { print, path: self.path(), body };
        let lease = self.outset.place(&matter, &Tried::default(), Strictness::Judged).ok()?;
        let (sender, told) = oneshot::channel();
        let outset = self.outset.clone();
        let task = tokio::spawn(async move {
            let answer = outset.whole(lease, &matter).await;
            let used = answer.map_err(drop).and_then(|answer| whole::judge(&answer).map_err(drop));
            // Whoever asked may have given it up.
            let _gone = sender.send(used);
        });
        Some(Prefill { task, told, estimated: self.plan.traits.prompt, _room: room })
    }

    /// Ends it, whether or not it has come to its end, and puts it on the bill.
    pub(super) fn end_prefill(&mut self) {
        let Some(prefill) = self.prefill.take() else { return };
        let (outcome, usage) = prefill.end();
        self.outset.shared.cascade.prefilled(&self.plan.course.name, outcome);
        self.ledger.prefilled(usage);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A client that leaves takes it along.
        self.end_prefill();
    }
}
