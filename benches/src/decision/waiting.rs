//! Cost of an event while 1,000 requests wait before 64 full workers.
//!
//! An *arrival* finds no room and joins the queue. An *end* frees room at one worker and is booked back. A *first
//! token* tells more of what a worker needs. Each has to be bounded, however many wait, and each includes the
//! requests that are called after it and placed anew, until nobody is called any more: those that an event calls
//! are its own, as they are in the gateway.

use std::collections::BTreeMap;

use overdraft_claims::{as_float, percentile};
use overdraft_core::admit::{AdmitSettings, Priority, Tenant, Ticket, Wait, WaitTime};
use overdraft_core::fleet::{Ending, Turn};
use overdraft_core::prefix::PrefixKey;
use overdraft_core::route::{Attempted, Choice, Outcome, Placed, Request, RouteSettings, Tried};
use overdraft_units::Micros;
use serde::Serialize;

use super::scene::{Feed, PROMPTS, Scene, microseconds, request};

/// Requests that wait.
const WAITING: usize = 1_000;
/// Ends, and arrivals in their place, of one round.
const EVENTS: usize = 1_000;
/// Requests that are placed at most before the fleet is full.
const PLACED_MAX: usize = 16_384;
/// Tenants that ask.
const TENANTS: u64 = 16;
/// Nobody gives up while it is measured.
const PATIENCE: Micros = Micros::new(3_600_000_000);

/// Microseconds of an event, each the best of the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Events {
    pub(crate) waiting: usize,
    pub(crate) arrival_p50: f64,
    pub(crate) arrival_p99: f64,
    pub(crate) first_token_p50: f64,
    pub(crate) first_token_p99: f64,
    pub(crate) end_p50: f64,
    pub(crate) end_p99: f64,
    /// Of one request that is called: it is placed, or waits on.
    pub(crate) call_p50: f64,
    pub(crate) call_p99: f64,
    /// Requests that were called for each end, on average, and at most.
    pub(crate) called: f64,
    pub(crate) called_most: usize,
}

/// Microseconds of every event of one round.
#[derive(Default)]
struct Taken {
    arrivals: Vec<f64>,
    first_tokens: Vec<f64>,
    ends: Vec<f64>,
    calls: Vec<f64>,
    /// Requests that each end called.
    called: Vec<usize>,
}

/// A full fleet and those who wait for it: by ticket, the number of the prompt.
struct Full {
    scene: Scene,
    waiting: BTreeMap<Ticket, usize>,
    next: usize,
}

/// Times all events, the best of `rounds`.
pub(crate) fn measure(rounds: usize) -> Events {
    let mut full = Full { scene: Scene::new(Feed::Reports), waiting: BTreeMap::new(), next: 0 };
    let mut taken = Taken::default();
    for _ in 0..PLACED_MAX {
        if WAITING <= full.waiting.len() {
            break;
        }
        full.arrive(&mut taken);
    }
    let mut best = [f64::INFINITY; 8];
    let (mut called, mut called_most) = (0, 0);
    for _ in 0..rounds {
        let mut taken = Taken::default();
        for number in 0..EVENTS {
            full.end(number, &mut taken);
            while full.waiting.len() < WAITING {
                full.arrive(&mut taken);
            }
        }
        let Taken { arrivals, first_tokens, ends, calls, .. } = &taken;
        let figures = [arrivals, first_tokens, ends, calls].into_iter();
        let figures = figures.flat_map(|times| [(times, 50), (times, 99)]);
        for (best, (times, percent)) in best.iter_mut().zip(figures) {
            *best = best.min(percentile(times.clone(), percent));
        }
        called += taken.called.iter().sum::<usize>();
        called_most = taken.called.into_iter().fold(called_most, usize::max);
    }
    let [arrival_p50, arrival_p99, first_token_p50, first_token_p99, ..] = best;
    let [.., end_p50, end_p99, call_p50, call_p99] = best;
    Events {
        waiting: full.waiting.len(),
        arrival_p50,
        arrival_p99,
        first_token_p50,
        first_token_p99,
        end_p50,
        end_p99,
        call_p50,
        call_p99,
        called: as_float(called) / as_float(rounds * EVENTS),
        called_most,
    }
}

/// The defaults, as they run live.
fn settings() -> RouteSettings {
    RouteSettings { admission: AdmitSettings::default(), ..RouteSettings::default() }
}

/// Requests of all priorities and of several tenants.
fn asked(held: &[Vec<PrefixKey>], number: usize) -> Request<'_> {
    let keys = &held[number * 797 % PROMPTS];
    let priority = Priority::ALL[number % Priority::ALL.len()];
    let tenant = Tenant(u64::try_from(number).unwrap_or(0) * 7 % TENANTS);
    Request { priority, tenant, ..request(keys, number) }
}

/// A request that was started, and the number of its prompt.
type Started = (Placed, usize);

impl Full {
    /// One more comes, and waits if nobody has room for it.
    fn arrive(&mut self, taken: &mut Taken) {
        let (now, number) = (self.scene.now(), self.next);
        self.next += 1;
        let Scene { router, held, .. } = &mut self.scene;
        let asked = asked(held, number);
        let (mut placed, mut waits) = (None, None);
        let took = microseconds(|| {
            let turn = Attempted { tried: &Tried::default(), turn: Turn::First };
            match router.place(asked, &settings(), turn, now) {
                Ok(one) => placed = Some(one),
                Err(Choice::Saturated { at, awaits, .. }) => {
                    let wait = Wait { at, awaits, time: WaitTime::exactly(PATIENCE) };
                    waits = router.wait(asked, wait, now).ok();
                }
                Err(_) => {}
            }
        });
        self.waiting.extend(waits.map(|ticket| (ticket, number)));
        let mut started = Vec::from_iter(placed.map(|placed| (placed, number)));
        let (called, _) = self.call(&mut started, taken);
        taken.arrivals.push(took + called);
        self.begin(started, taken);
    }

    /// One ends, and those are started that find room by that.
    fn end(&mut self, number: usize, taken: &mut Taken) {
        let now = self.scene.now();
        let Scene { router, running, .. } = &mut self.scene;
        let ended = running.swap_remove(number * 31 % running.len());
        let took = microseconds(|| {
            router.end(ended, Outcome::of(Ending::Answered), now);
        });
        let mut started = Vec::new();
        let (called, calls) = self.call(&mut started, taken);
        taken.ends.push(took + called);
        taken.called.push(calls);
        self.begin(started, taken);
    }

    /// Calls and places until nobody is called any more: microseconds, and how many were called.
    fn call(&mut self, started: &mut Vec<Started>, taken: &mut Taken) -> (f64, usize) {
        let now = self.scene.now();
        let Self { scene: Scene { router, held, .. }, waiting, .. } = self;
        let (mut all, mut calls) = (0.0, 0);
        loop {
            let mut called = None;
            let took = microseconds(|| {
                called = router.call(now);
                let Some(ticket) = called else { return };
                let Some(&number) = waiting.get(&ticket) else {
                    router.leave_queue(ticket);
                    return;
                };
                if let Ok(placed) =
                    router.place_called(ticket, asked(held, number), &settings(), now)
                {
                    waiting.remove(&ticket);
                    started.push((placed, number));
                }
            });
            all += took;
            if called.is_none() {
                return (all, calls);
            }
            calls += 1;
            taken.calls.push(took);
        }
    }

    /// Those that were started are on their way, and their first tokens come.
    fn begin(&mut self, mut started: Vec<Started>, taken: &mut Taken) {
        while let Some((mut placed, number)) = started.pop() {
            let now = self.scene.now();
            let Scene { router, held, .. } = &mut self.scene;
            router.remember(&mut placed, asked(held, number).prompt, now);
            let took = microseconds(|| {
                router.first_token(&mut placed, now);
            });
            self.scene.running.push(placed);
            let (called, _) = self.call(&mut started, taken);
            taken.first_tokens.push(took + called);
        }
    }
}
