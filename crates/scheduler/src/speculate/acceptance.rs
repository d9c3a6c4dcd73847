//! Acceptance rate: the chance that the next drafted token is accepted, by draft position.
//!
//! Each position of a draft has its own rate, conditional on the acceptance of all positions before
//! it: the third token is only tested when the first two are accepted. So a position's rate does
//! not depend on the depth of the drafts that it was learnt from (`docs/design/speculation.md#r2`).
//!
//! Old trials fade with a half-life of 400 trials (EWMA). Where the last few dozen disagree with
//! the older ones, the text has changed, and only the recent ones count from then on. With few
//! trials a prior applies: the wider group's rate, and the rate of the position before.

use overdraft_units::Ratio;

/// Maximum tokens of one draft.
pub const DEPTH_MAX: usize = 8;

/// Time constant of the fading, in trials: a half-life of 400.
const MEMORY: u64 = 577;
/// Time constant of the recent average that detects a change, in trials.
const RECENT_MEMORY: u64 = 24;
/// Minimum trials before the recent average counts.
const RECENT_TRIALS: u64 = 12;
/// Difference that counts as a change: more than three standard deviations.
const CHANGED: Ratio = Ratio::percent(28);
/// What one trial counts when it is new.
const TRIAL: u64 = Ratio::WHOLE.get() as u64;
/// So many trials the guess at a first chance counts for, before any text was seen.
const POOL_PRIOR_TRIALS: u64 = 16;
/// So many trials the group's chance counts for. A sequence sees some hundred tokens in its life: with
/// less, a run of bad luck would stop it from being tried again.
const GROUP_PRIOR_TRIALS: u64 = 64;
/// The chance of a first guess before anything is known.
const PRIOR: Ratio = Ratio::percent(70);

/// Trials of one position, with a long memory and a short one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Trials {
    long: Memory,
    recent: Memory,
}

/// Trials that fade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    seen: u64,
    right: u64,
}

/// What was seen of one drafter on one kind of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    positions: [Trials; DEPTH_MAX],
}

/// The chance of each position, given that all before it are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chances([Ratio; DEPTH_MAX]);

impl Memory {
    fn observe(&mut self, right: bool, memory: u64) {
        self.seen += TRIAL - self.seen / memory;
        self.right -= self.right / memory;
        if right {
            self.right += TRIAL;
        }
        self.right = self.right.min(self.seen);
    }

    fn share(self) -> Ratio {
        Ratio::of(self.right, self.seen)
    }
}

impl Trials {
    fn observe(&mut self, right: bool) {
        self.long.observe(right, MEMORY);
        self.recent.observe(right, RECENT_MEMORY);
        let (long, recent) = (self.long.share(), self.recent.share());
        let apart = long.get().abs_diff(recent.get());
        if RECENT_TRIALS * TRIAL <= self.recent.seen && CHANGED.get() < apart {
            self.long = self.recent;
        }
    }

    fn chance(self, prior: Ratio, trials: u64) -> Ratio {
        let right = self.long.right + trials * u64::from(prior.get());
        Ratio::of(right, self.long.seen + trials * TRIAL)
    }
}

impl Acceptance {
    /// Takes note of a draft of `drafted` tokens of which the first `right` were right.
    pub fn observe(&mut self, drafted: usize, right: usize) {
        let tried = drafted.min(right.saturating_add(1));
        for (place, trials) in self.positions.iter_mut().enumerate().take(tried) {
            trials.observe(place < right);
        }
    }

    /// Trials of the first position, as far as they still count.
    pub fn trials(&self) -> u64 {
        self.positions.first().map_or(0, |first| first.long.seen / TRIAL)
    }

    /// The chances of all text, to stand behind those of its kinds.
    pub fn pooled(&self) -> Chances {
        let mut before = PRIOR;
        Chances(self.positions.map(|trials| {
            before = trials.chance(before, POOL_PRIOR_TRIALS);
            before
        }))
    }

    /// The chances of one kind of text: its own trials, and where they are few, the group's and its
    /// own of the position before.
    pub fn within(&self, group: &Chances) -> Chances {
        let mut before: Option<Ratio> = None;
        let mut chances = group.0;
        for (chance, trials) in chances.iter_mut().zip(self.positions) {
            let prior = before.map_or(*chance, |before| before.between(*chance));
            *chance = trials.chance(prior, GROUP_PRIOR_TRIALS);
            before = Some(*chance);
        }
        Chances(chances)
    }

    /// The share of tried tokens that were right, over all positions; none before any was tried.
    pub fn mean(&self) -> Ratio {
        let sum = |of: fn(&Trials) -> u64| self.positions.iter().map(of).sum::<u64>();
        Ratio::of(sum(|trials| trials.long.right), sum(|trials| trials.long.seen))
    }
}

impl Chances {
    /// The same chance everywhere.
    pub const fn even(chance: Ratio) -> Self {
        Self([chance; DEPTH_MAX])
    }

    /// The chance of each position to be reached and right.
    pub fn survival(&self) -> [Ratio; DEPTH_MAX] {
        let mut all = Ratio::WHOLE;
        self.0.map(|chance| {
            all = all.times(chance);
            all
        })
    }
}
