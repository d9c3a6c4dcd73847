//! Cost of an event while 1,000 requests wait before 64 full workers.
//!
//! An *arrival* finds no room and joins the queue. An *end* frees room at one worker: it is booked back, and
//! requests are called and placed until nobody is called any more. Both have to be bounded, however many wait.

use std::collections::BTreeMap;

use overdraft_claims::{as_float, percentile};
use overdraft_core::admit::{AdmitSettings, Priority, Tenant, Ticket};
use overdraft_core::fleet::{Ending, Turn};
use overdraft_core::prefix::PrefixKey;
use overdraft_core::route::{Choice, Outcome, Request, RouteSettings, Tried};
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
    pub(crate) end_p50: f64,
    pub(crate) end_p99: f64,
    /// Requests that were called for each end, on average.
    pub(crate) called: f64,
}

/// A full fleet and those who wait for it: by ticket, the number of the prompt.
struct Full {
    scene: Scene,
    waiting: BTreeMap<Ticket, usize>,
    next: usize,
}

/// Times arrivals and ends, the best of `rounds`.
pub(crate) fn measure(rounds: usize) -> Events {
    let mut full = Full { scene: Scene::new(Feed::Reports), waiting: BTreeMap::new(), next: 0 };
    for _ in 0..PLACED_MAX {
        if WAITING <= full.waiting.len() {
            break;
        }
        full.arrive();
    }
    let mut best = [f64::INFINITY; 4];
    let mut called = 0;
    for _ in 0..rounds {
        let (mut arrivals, mut ends) = (Vec::new(), Vec::new());
        for number in 0..EVENTS {
            let (took, calls) = full.end(number);
            ends.push(took);
            called += calls;
            while full.waiting.len() < WAITING {
                arrivals.push(full.arrive());
            }
        }
        let figures = [(&arrivals, 50), (&arrivals, 99), (&ends, 50), (&ends, 99)];
        for (best, (times, percent)) in best.iter_mut().zip(figures) {
            *best = best.min(percentile(times.clone(), percent));
        }
    }
    let [arrival_p50, arrival_p99, end_p50, end_p99] = best;
    let called = as_float(called) / as_float(rounds * EVENTS);
    let waiting = full.waiting.len();
    Events { waiting, arrival_p50, arrival_p99, end_p50, end_p99, called }
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

impl Full {
    /// One more comes, and waits if nobody has room for it.
    fn arrive(&mut self) -> f64 {
        let (now, number) = (self.scene.now(), self.next);
        self.next += 1;
        let Scene { router, held, running, .. } = &mut self.scene;
        let asked = asked(held, number);
        let mut placed = None;
        let mut waits = None;
        let took = microseconds(|| {
            let turn = (&Tried::default(), Turn::First);
            match router.place(asked, &settings(), turn, now) {
                Ok(one) => placed = Some(one),
                Err(Choice::Saturated { at, .. }) => {
                    waits = router.wait(asked, at, now + PATIENCE, now).ok();
                }
                Err(_) => {}
            }
        });
        if let Some(mut placed) = placed {
            router.remember(&mut placed, asked.prompt, now);
            router.first_token(&mut placed, now);
            running.push(placed);
        }
        self.waiting.extend(waits.map(|ticket| (ticket, number)));
        took
    }

    /// One ends, and those are started that find room by that. How long it took, and how many were called.
    fn end(&mut self, number: usize) -> (f64, usize) {
        let now = self.scene.now();
        let Self { scene: Scene { router, held, running, .. }, waiting, .. } = self;
        let mut ended = Some(running.swap_remove(number * 31 % running.len()));
        let (mut started, mut calls) = (Vec::new(), 0);
        let took = microseconds(|| {
            if let Some(ended) = ended.take() {
                router.end(ended, Outcome::of(Ending::Answered), now);
            }
            while let Some(ticket) = router.call(now) {
                calls += 1;
                let Some(&number) = waiting.get(&ticket) else {
                    router.leave_queue(ticket);
                    continue;
                };
                if let Ok(placed) =
                    router.place_called(ticket, asked(held, number), &settings(), now)
                {
                    waiting.remove(&ticket);
                    started.push((placed, number));
                }
            }
        });
        for (mut placed, number) in started {
            router.remember(&mut placed, asked(held, number).prompt, now);
            router.first_token(&mut placed, now);
            running.push(placed);
        }
        (took, calls)
    }
}
