//! Threshold rules for the depth of drafts: the write-up's, and the one that judges guesses that were tried.
//!
//! Depth 2 to 8, at first 4; every ten seconds a share of accepted guesses decides: above 0.75 one
//! deeper, below 0.6 one shallower, below 0.4 off. What the share is of tells the two apart
//! ([`Measure`]). As written the off-branch is never reached, for what is below 0.4 is below 0.6, and
//! once off nothing is learnt that could turn it on again. So off is asked first, and while off probes
//! go on and alone decide (`docs/design/speculation.md#r6`).

use alloc::collections::VecDeque;

use overdraft_units::{Instant, Micros};

use overdraft_units::Ratio;

/// Between two decisions.
const PERIOD: Micros = Micros::new(10_000_000);
/// Answers remembered, and drafts.
const SAMPLES: usize = 100;
/// Drafts needed for a decision that goes by those, and answers to come back after being off.
const SAMPLES_MIN: usize = 8;
const DEPTH_FIRST: usize = 4;
const DEPTH_LEAST: usize = 2;
const DEPTH_MOST: usize = 8;
const DEEPER_ABOVE: Ratio = Ratio::percent(75);
const SHALLOWER_BELOW: Ratio = Ratio::percent(60);
const OFF_BELOW: Ratio = Ratio::percent(40);

/// What the share is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// The write-up's: of each of the last hundred answers accepted over drafted tokens, and the mean
    /// of these with weights from 0.5 for the oldest to 1.0. A deep draft condemns itself: what stands
    /// behind its first wrong guess counts as rejected.
    PerAnswer,
    /// Right tokens over tokens put to the test in the last hundred drafts, the newest counting most.
    PerToken,
}

/// The state of both rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Threshold {
    depth: usize,
    decided: Option<Instant>,
    /// The accepted share of each of the last answers, the newest last.
    answers: VecDeque<Ratio>,
    /// Tried and right tokens of the last drafts, the newest last.
    drafts: VecDeque<(u64, u64)>,
}

impl Threshold {
    pub(super) fn new() -> Self {
        let (answers, drafts) = (VecDeque::new(), VecDeque::new());
        Self { depth: DEPTH_FIRST, decided: None, answers, drafts }
    }

    /// Takes note of a draft.
    pub(super) fn observe(&mut self, drafted: usize, right: usize) {
        if 0 < drafted {
            let tried = drafted.min(right + 1);
            remember(&mut self.drafts, (tried as u64, right as u64));
        }
    }

    /// Takes note of an answer for which so many tokens were drafted, and so many of them accepted.
    pub(super) fn observe_answer(&mut self, drafted: u64, accepted: u64) {
        if 0 < drafted {
            remember(&mut self.answers, Ratio::of(accepted, drafted));
        }
    }

    /// The depth in force at `now`.
    pub(super) fn depth(&mut self, measure: Measure, now: Instant) -> usize {
        let decided = *self.decided.get_or_insert(now);
        if PERIOD <= now.since(decided)
            && let Some(share) = self.share(measure)
        {
            self.decided = Some(now);
            self.depth = self.next(share);
            if self.depth == 0 {
                // What turned it off must not keep it off: probes alone decide, and there are few.
                self.answers.clear();
                self.drafts.clear();
            }
        }
        self.depth
    }

    /// The depth that it has chosen so far.
    pub(super) const fn chosen(&self) -> usize {
        self.depth
    }

    fn next(&self, share: Ratio) -> usize {
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

    /// What decides; none while too little is known.
    pub(super) fn share(&self, measure: Measure) -> Option<Ratio> {
        match measure {
            Measure::PerAnswer => self.of_answers(),
            Measure::PerToken => self.of_tokens(),
        }
    }

    /// The mean of the answers' shares.
    fn of_answers(&self) -> Option<Ratio> {
        // Half for the oldest and a whole for the newest, both times the same.
        let first = (self.answers.len() as u64).saturating_sub(1).max(1);
        let (mut weights, mut sum) = (0, 0);
        for (weight, share) in (first..).zip(&self.answers) {
            weights += weight;
            sum += weight * u64::from(share.get());
        }
        let least = if self.depth == 0 { SAMPLES_MIN } else { 1 };
        (least <= self.answers.len())
            .then(|| Ratio::of(sum, weights * u64::from(Ratio::WHOLE.get())))
    }

    fn of_tokens(&self) -> Option<Ratio> {
        let (mut tried, mut right) = (0, 0);
        for (weight, draft) in (1..).zip(&self.drafts) {
            tried += weight * draft.0;
            right += weight * draft.1;
        }
        (SAMPLES_MIN <= self.drafts.len()).then(|| Ratio::of(right, tried))
    }
}

fn remember<T>(samples: &mut VecDeque<T>, sample: T) {
    if samples.len() == SAMPLES {
        samples.pop_front();
    }
    samples.push_back(sample);
}
