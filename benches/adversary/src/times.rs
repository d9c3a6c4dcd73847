//! Arrival times of a drawn load.

use std::fmt::Write as _;

use overdraft_sim::Draws;
use overdraft_sim::workload::Arrivals;

use crate::capacity::{Shape, workers};
use crate::draw::{between, one, rounded};
use crate::figures::{float, whole32};
use crate::load::Kind;
use crate::world::{Asked, World};

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At the load's own times, faster or slower.
    Own,
    /// At random.
    Poisson,
    /// At random, in clusters.
    Bursty,
    /// In waves.
    Waves,
    /// All at once.
    AtOnce,
    /// So many users, each waiting for the answer before.
    Users,
}

/// How requests come, and how many of what the fleet can answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    pub(crate) way: Way,
    /// Share of what the fleet can answer.
    share: f64,
    /// How many times the mean comes at the peaks, and seconds from peak to peak.
    swing: f64,
    period: f64,
    /// Share of requests that come at once among others.
    crowd: f64,
}

impl Way {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Own => "own times",
            Self::Poisson => "steady",
            Self::Bursty => "clusters",
            Self::Waves => "waves",
            Self::AtOnce => "all at once",
            Self::Users => "closed loop",
        }
    }

    /// A way that the kind can come in.
    fn drawn(dice: &mut Draws, kind: Kind) -> Self {
        let common =
            [Self::Poisson, Self::Poisson, Self::Bursty, Self::AtOnce, Self::Users, Self::Users];
        match kind {
            // What is special about rows is when they come.
            Kind::LongAmongShort => one(dice, &[Self::Own, Self::Own, Self::Own, Self::Users]),
            Kind::Crowd => Self::Own,
            // Files that do not say when.
            Kind::Claude | Kind::Summaries => {
                one(dice, &[Self::Poisson, Self::Bursty, Self::Users])
            }
            _ if kind.is_trace() => {
                let own = [Self::Own; 4];
                one(dice, &[&own[..], &common[..]].concat())
            }
            _ => {
                let waves = [Self::Waves; 3];
                one(dice, &[&waves[..], &common[..]].concat())
            }
        }
    }
}

impl Times {
    /// A way that the kind can come in, with so much of what the fleet can answer.
    pub(crate) fn drawn(dice: &mut Draws, kind: Kind, share: f64) -> Self {
        let way = Way::drawn(dice, kind);
        let swing = one(dice, &[2.0, 3.0, 4.0, 6.0, 8.0]);
        let period = one(dice, &[10.0, 20.0, 40.0, 60.0]);
        let crowd = if kind == Kind::Crowd { 1.0 / one(dice, &[2.0, 3.0, 4.0, 6.0]) } else { 0.0 };
        Self { way, share, swing, period, crowd }
    }

    /// Seconds of work that wait at most, about, of so many requests before a fleet that can answer so many a
    /// second.
    pub(crate) fn backlog(&self, requests: u64, capacity: f64) -> f64 {
        let work = float(requests) / capacity;
        let steady = work * (1.0 - self.crowd);
        let over = steady * (1.0 - 1.0 / self.share).max(0.0);
        match self.way {
            Way::Users => 0.0,
            Way::AtOnce => work,
            Way::Waves => over + self.period * (self.share - 1.0 / self.swing).max(0.0),
            Way::Own | Way::Poisson | Way::Bursty => over + work * self.crowd,
        }
    }

    /// Smaller waves and crowds, where more would wait than so many seconds of work.
    pub(crate) fn shorten(&mut self, requests: u64, capacity: f64, most: f64) {
        let half = most / 2.0;
        if self.way == Way::Waves {
            let peak = (self.share - 1.0 / self.swing).max(1e-3);
            self.period = self.period.min(rounded(half / peak));
        }
        self.crowd = self.crowd.min(half * capacity / float(requests.max(1)));
    }

    /// Lets the load come at so many requests a second.
    pub(crate) fn set(&self, dice: &mut Draws, world: &mut World, rate: f64, seen: Shape) {
        let at_random = |burstiness| Arrivals::Rate { per_second: rate, burstiness };
        match self.way {
            Way::Own => self.set_own(dice, world, rate, seen),
            Way::Poisson => world.arrivals = at_random(1.0),
            Way::Bursty => world.arrivals = at_random(one(dice, &[0.1, 0.3, 0.5])),
            Way::Waves => {
                if let Asked::Named(text) = &mut world.asked {
                    let Self { swing, period, .. } = self;
                    let _written = write!(text, ",rate={rate},swing={swing},period={period}");
                }
            }
            Way::AtOnce => world.arrivals = Arrivals::AtOnce,
            Way::Users => {
                let each = between(dice, 0.5, 24.0);
                let users = whole32(each * float(workers(world))).max(1);
                world.users = Some(users.min(whole32(float(world.requests) / 4.0)).max(1));
            }
        }
    }

    fn set_own(&self, dice: &mut Draws, world: &mut World, rate: f64, seen: Shape) {
        match &mut world.asked {
            Asked::Rows(rows) => {
                rows.rate = rate;
                if 0.0 < self.crowd {
                    rows.crowd = u64::from(whole32(float(rows.count) * self.crowd));
                    let lasts = float(rows.count - rows.crowd) / rate;
                    rows.when = rounded(lasts * one(dice, &[0.1, 0.3, 0.5, 0.7]));
                }
            }
            Asked::Named(_) => {
                let own = float(seen.count) / seen.span.max(1e-3);
                world.arrivals = Arrivals::Own { speed: rounded(rate / own).max(1e-6) };
            }
        }
    }
}
