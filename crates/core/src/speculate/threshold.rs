//! The rule of the write-up, with its two defects mended.
//!
//! Depth 2 to 8, at first 4; every ten seconds the share of right tokens over the last hundred
//! drafts, newer ones counting more, decides: above 0.75 one deeper, below 0.6 one shallower, below
//! 0.4 off. As written the off-branch is never reached, for what is below 0.4 is below 0.6, and once
//! off nothing is learnt that could turn it on again. So off is asked first, and while off probes go
//! on; and a share is of the tokens that were put to the test, or deep drafts would condemn
//! themselves (`docs/design/speculation.md#r6`).

use alloc::collections::VecDeque;

use overdraft_units::{Instant, Micros};

use super::share::Share;

/// Between two decisions.
const PERIOD: Micros = Micros::new(10_000_000);
/// Drafts remembered.
const DRAFTS: usize = 100;
/// Drafts needed for a decision.
const DRAFTS_MIN: usize = 8;
const DEPTH_FIRST: usize = 4;
const DEPTH_LEAST: usize = 2;
const DEPTH_MOST: usize = 8;
const DEEPER_ABOVE: Share = Share::percent(75);
const SHALLOWER_BELOW: Share = Share::percent(60);
const OFF_BELOW: Share = Share::percent(40);

/// The rule's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Threshold {
    depth: usize,
    decided: Option<Instant>,
    /// Tried and right tokens of the last drafts, the newest last.
    drafts: VecDeque<(u64, u64)>,
}

impl Threshold {
    pub(super) fn new() -> Self {
        Self { depth: DEPTH_FIRST, decided: None, drafts: VecDeque::new() }
    }

    /// Takes note of a draft.
    pub(super) fn observe(&mut self, drafted: usize, right: usize) {
        if drafted == 0 {
            return;
        }
        if self.drafts.len() == DRAFTS {
            self.drafts.pop_front();
        }
        let tried = drafted.min(right + 1);
        self.drafts.push_back((tried as u64, right as u64));
    }

    /// The depth in force at `now`.
    pub(super) fn depth(&mut self, now: Instant) -> usize {
        let decided = *self.decided.get_or_insert(now);
        if PERIOD <= now.since(decided) && DRAFTS_MIN <= self.drafts.len() {
            self.decided = Some(now);
            self.depth = self.next(self.share());
        }
        self.depth
    }

    fn next(&self, share: Share) -> usize {
        if share < OFF_BELOW {
            0
        } else if self.depth == 0 {
            if share < SHALLOWER_BELOW { 0 } else { DEPTH_LEAST }
        } else if share < SHALLOWER_BELOW {
            (self.depth - 1).max(DEPTH_LEAST)
        } else if DEEPER_ABOVE < share {
            (self.depth + 1).min(DEPTH_MOST)
        } else {
            self.depth
        }
    }

    /// The share of right tokens, the newest draft counting most.
    fn share(&self) -> Share {
        let (mut tried, mut right) = (0, 0);
        for (weight, draft) in (1..).zip(&self.drafts) {
            tried += weight * draft.0;
            right += weight * draft.1;
        }
        Share::of(right, tried)
    }
}
