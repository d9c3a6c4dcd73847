//! Hedging: a second attempt at another worker when a first token is late, and when not to send one.
//!
//! [`Hedging`] watches every request whose first token will be seen. It learns how late that usually is, knows whose
//! first tokens are late now, and keeps the budget. The rules, numbered, are in `docs/design/hedging.md`; the router
//! chooses the worker ([`Router::hedge`](crate::route::Router::hedge)).
//!
//! Invariant: while hedging is off, nothing is kept and nothing is watched.

mod percentile;
mod settings;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;

use overdraft_units::{Instant, Micros, Tokens};

use self::percentile::{Class, Percentiles, class};
pub use self::settings::{HedgeSettings, Mode};
use crate::fleet::WorkerId;

/// No first token is late before this, whatever is usual.
const LATE_MIN: Micros = Micros::new(10_000);

/// How long a worker whose last first token was late is taken to be slow.
const SLOW_FOR: Micros = Micros::new(10_000_000);

/// Tokens that the budget saves up at most.
const SAVED_MAX: u64 = 1 << 18;

/// Times that a request is looked at again, each after twice the time of the one before.
const LOOKS_MAX: u32 = 8;

/// A request whose first token is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    worker: WorkerId,
    class: Class,
    number: u64,
    sent: Instant,
    /// When its first token is late; `None` while nobody knows what is usual.
    due: Option<Instant>,
}

impl Watch {
    /// When its first token is late, as far as that is known.
    pub const fn due(self) -> Option<Instant> {
        self.due
    }

    /// Where it was sent.
    pub const fn worker(self) -> WorkerId {
        self.worker
    }

    /// When to look again after it was denied for the `looks`th time, from 1; `None` where it has been often enough.
    pub fn next_look(self, looks: u32) -> Option<Instant> {
        let usual = self.due?.since(self.sent).get();
        let after = usual.saturating_mul(1 << looks.min(LOOKS_MAX)) / 4;
        (looks <= LOOKS_MAX).then(|| self.sent + Micros::new(usual.saturating_add(after)))
    }
}

/// Why no second attempt is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It is off, or nobody knows what is usual.
    Off,
    /// Second attempts have cost as much as they may.
    Budget,
    /// Too many workers are late together: they share a cause, and more work makes it worse.
    Shared,
    /// No worker that is fast has room for it.
    NoRoom,
}

impl Denial {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Budget => "budget",
            Self::Shared => "shared",
            Self::NoRoom => "no_room",
        }
    }
}

/// What hedging knows of the fleet.
#[derive(Debug, Default)]
pub struct Hedging {
    settings: HedgeSettings,
    usual: Percentiles,
    /// Thousandths of tokens that second attempts may still compute.
    saved_milli: u64,
    /// Whose first tokens are awaited: since when, and when they are late. As many as there are requests under way, which
    /// `limits.requests` bounds.
    awaited: BTreeMap<(WorkerId, u64), (Instant, Option<Instant>)>,
    /// Workers whose last first token was late, and when it came; forgotten after [`SLOW_FOR`].
    late: BTreeMap<WorkerId, Instant>,
    numbered: u64,
}

impl Hedging {
    /// Other limits from now on.
    pub fn set(&mut self, settings: HedgeSettings) {
        self.settings = settings;
        if settings.mode == Mode::Off {
            *self = Self { settings, ..Self::default() };
        }
    }

    /// A request was sent whose first token will be seen.
    pub fn sent(
        &mut self,
        worker: WorkerId,
        model: u64,
        prefill: Tokens,
        now: Instant,
    ) -> Option<Watch> {
        if self.settings.mode == Mode::Off {
            return None;
        }
        let class = class(model, prefill);
        let due = self.usual.usual(class).map(|usual| now + usual.max(LATE_MIN));
        self.numbered += 1;
        let number = self.numbered;
        self.awaited.insert((worker, number), (now, due));
        Some(Watch { worker, class, number, sent: now, due })
    }

    /// Its first token has come.
    pub fn first_token(&mut self, watch: Watch, now: Instant) {
        if self.forget(watch) {
            self.learn(watch, now);
        }
    }

    /// It ended before its first token. One that was left for a faster one has taken at least so long.
    pub fn ended(&mut self, watch: Watch, now: Instant) {
        if self.forget(watch) && watch.due.is_some_and(|due| due <= now) {
            self.learn(watch, now);
        }
    }

    fn forget(&mut self, watch: Watch) -> bool {
        self.awaited.remove(&(watch.worker, watch.number)).is_some()
    }

    fn learn(&mut self, watch: Watch, now: Instant) {
        self.usual.note(watch.class, now.since(watch.sent));
        match watch.due {
            Some(due) if due <= now => {
                self.late.retain(|_, at| now.since(*at) < SLOW_FOR);
                self.late.insert(watch.worker, now);
            }
            _ => {
                self.late.remove(&watch.worker);
            }
        }
    }

    /// So many tokens were served: a share of them is saved for second attempts.
    pub fn served(&mut self, tokens: u64) {
        if self.settings.mode == Mode::On {
            let share = tokens.saturating_mul(self.settings.budget_permille.into());
            self.saved_milli = self.saved_milli.saturating_add(share).min(SAVED_MAX * 1_000);
        }
    }

    /// Whether a second attempt that computes so many tokens is within the budget.
    pub const fn affords(&self, prefill: Tokens) -> bool {
        prefill.get() as u64 * 1_000 <= self.saved_milli
    }

    /// A second attempt was sent that computes so many tokens.
    pub fn spent(&mut self, prefill: Tokens) {
        let cost = u64::from(prefill.get()) * 1_000;
        self.saved_milli = self.saved_milli.saturating_sub(cost);
    }

    /// Whether so many of these workers are late that they share a cause: more than one, and more than a third.
    pub fn is_shared(&self, workers: &[WorkerId], now: Instant) -> bool {
        let late = workers.iter().filter(|worker| self.is_slow(**worker, now, Patience::Whole));
        let late = late.count();
        1 < late && workers.len() < 3 * late
    }

    /// Whether a worker may be late, as far as is known by now.
    pub fn is_suspect(&self, worker: WorkerId, now: Instant) -> bool {
        self.is_slow(worker, now, Patience::Half)
    }

    /// Whether a worker's last first token was late, or a quarter of those that are awaited from it are.
    fn is_slow(&self, worker: WorkerId, now: Instant, patience: Patience) -> bool {
        if self.late.get(&worker).is_some_and(|at| now.since(*at) < SLOW_FOR) {
            return true;
        }
        let (mut awaited, mut late) = (0_usize, 0_usize);
        for (sent, due) in self.awaited.range((worker, 0)..=(worker, u64::MAX)).map(|(_, one)| *one)
        {
            let Some(due) = due else { continue };
            awaited += 1;
            let usual = due.since(sent).get();
            let patience = match patience {
                Patience::Whole => usual,
                Patience::Half => usual / 2,
            };
            late += usize::from(patience <= now.since(sent).get());
        }
        0 < late && awaited <= 4 * late
    }
}

/// How much of the usual time a first token may take before its worker is held to be slow.
#[derive(Clone, Copy, Debug)]
enum Patience {
    Whole,
    Half,
}
