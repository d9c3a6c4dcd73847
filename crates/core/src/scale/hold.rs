//! Autoscaling cooldown: hysteresis that keeps the wanted number of workers from flapping.
//!
//! The number rises at once, for as long as one step of the load takes to arrive, but then not
//! again within a cooldown, so that the new workers can take their share first. It falls to the
//! maximum wanted while it was too high, once it has been too high without a break for its own,
//! longer cooldown (D8: 60 s and 300 s).

use overdraft_units::{Instant, Micros};

/// How long a rise may continue once begun: requests that come together are not counted together.
const RISE_LASTS: Micros = Micros::new(5_000_000);

/// How long a change waits for the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldown {
    /// Minimum time from one rise to the next.
    pub up: Micros,
    /// How long fewer must have been wanted before the number falls.
    pub down: Micros,
}

impl Default for Cooldown {
    fn default() -> Self {
        Self { up: Micros::new(60_000_000), down: Micros::new(300_000_000) }
    }
}

/// A number of workers that changes no faster than workers can follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    held: Option<u64>,
    rose: Option<Instant>,
    /// Since when less is wanted, and the most that was wanted since.
    less: Option<(Instant, u64)>,
}

impl Hold {
    /// Takes the number wanted now and returns the number to request.
    pub fn observe(&mut self, wanted: u64, cooldown: Cooldown, now: Instant) -> u64 {
        let Some(held) = self.held else {
            // The first sight is not a rise: nobody has been asked for anything yet.
            self.held = Some(wanted);
            return wanted;
        };
        let next = if held <= wanted {
            self.less = None;
            self.rise(held, wanted, cooldown, now)
        } else {
            self.fall(held, wanted, cooldown, now)
        };
        self.held = Some(next);
        next
    }

    fn rise(&mut self, held: u64, wanted: u64, cooldown: Cooldown, now: Instant) -> u64 {
        let since = self.rose.map(|rose| now.since(rose));
        let still_rising = since.is_some_and(|since| since < RISE_LASTS);
        let cooling = since.is_some_and(|since| since < cooldown.up) && !still_rising;
        if held == wanted || cooling {
            return held;
        }
        if !still_rising {
            self.rose = Some(now);
        }
        wanted
    }

    fn fall(&mut self, held: u64, wanted: u64, cooldown: Cooldown, now: Instant) -> u64 {
        let (since, most) = self.less.map_or((now, wanted), |(at, most)| (at, most.max(wanted)));
        if now.since(since) < cooldown.down {
            self.less = Some((since, most));
            return held;
        }
        self.less = None;
        most
    }
}
