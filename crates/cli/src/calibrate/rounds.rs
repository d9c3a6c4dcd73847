//! Rounds of a calibration: each step is measured once in each, and the median of all counts.
//!
//! A worker's speed can change while it is measured: its clock falls when it gets warm, or others use the machine.
//! Steps that are repeated one right after another do not show that, and a profile is then as wrong as the speed
//! has changed. In rounds every step is measured over the whole time, and rounds tell their pace.

use std::fmt;

use overdraft_gpu_model::Observed;

use super::steps::Step;

/// How far apart the paces of rounds may be before it is said, as a share.
const APART_MAX: f64 = 0.05;

/// What has been measured so far.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    steps: Vec<Step>,
    /// What each step took, by round.
    taken: Vec<Vec<Observed>>,
}

impl Rounds {
    /// Nothing has been measured yet.
    pub(super) fn over(steps: Vec<Step>) -> Self {
        let taken = vec![Vec::new(); steps.len()];
        Self { steps, taken }
    }

    /// The steps of each round.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The number of a measurement, which decides its texts. Prompts have new ones in each round, so that none is in
    /// the cache. Batches have the same ones: where those are still in the cache they cost nothing, and where they are
    /// not most steps of the batch have all of it all the same.
    pub(super) fn number(&self, round: u32, place: usize) -> u64 {
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        match self.steps[place] {
            Step::Prefill { .. } | Step::Beside { .. } => {
                u64::from(round) * wide(self.steps.len()) + wide(place)
            }
            Step::Decode { .. } => wide(place),
        }
    }

    /// Takes in what the step at `place` took in this round, if that could be told.
    pub(super) fn take(&mut self, place: usize, taken: Option<Observed>) {
        self.taken[place].extend(taken);
    }

    /// The median of each step that was measured.
    pub(super) fn medians(&self) -> Vec<(Step, Observed)> {
        let pairs = self.steps.iter().zip(&self.taken);
        pairs.filter_map(|(step, taken)| Some((*step, median(taken)?))).collect()
    }

    /// How long each round took, as a share of the medians: the median over all steps that were measured in every
    /// round.
    pub(super) fn paces(&self) -> Paces {
        let rounds = self.taken.iter().map(Vec::len).max().unwrap_or(0);
        let whole = || self.taken.iter().filter(|taken| taken.len() == rounds);
        let pace = |round: usize| {
            let mut shares: Vec<f64> = whole()
                .filter_map(|taken| Some(taken[round].seconds / median(taken)?.seconds))
                .collect();
            shares.sort_by(f64::total_cmp);
            shares.get(shares.len() / 2).copied()
        };
        Paces((0..rounds).filter_map(pace).collect())
    }
}

/// The one in the middle by its time; none of none.
fn median(taken: &[Observed]) -> Option<Observed> {
    let mut sorted = taken.to_vec();
    sorted.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let middle = sorted.len() / 2;
    sorted.into_iter().nth(middle)
}

/// How long each round took, as a share of the medians.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Paces(Vec<f64>);

impl Paces {
    /// How much longer the slowest round took than the fastest, as a share.
    pub(super) fn apart(&self) -> f64 {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.0.iter().copied().fold(0.0, f64::max);
        if least.is_finite() && 0.0 < least { most / least - 1.0 } else { 0.0 }
    }

    /// What follows from rounds that are far apart.
    pub(super) fn warning(&self) -> Option<String> {
        let apart = self.apart();
        (APART_MAX < apart).then(|| {
            format!(
                "the worker's speed changed by {:.0} % while it was measured, and simulations are off by as much; \
                 does anything else use the machine, or does its clock change?",
                apart * 100.0
            )
        })
    }
}

impl fmt::Display for Paces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<String> = self.0.iter().map(|pace| format!("{pace:.2}")).collect();
        write!(f, "rounds took {} of the medians", told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use overdraft_gpu_model::{Batch, Chunk};
    use overdraft_units::Tokens;

    use super::*;

    fn taken(seconds: f64) -> Observed {
        let chunk = Chunk { before: Tokens::ZERO, length: Tokens::new(8), samples: true };
        let batch: Batch = std::iter::once(chunk).collect();
        Observed { steps: vec![batch], seconds, with_request: false }
    }

    fn rounds(by_step: &[&[f64]]) -> Rounds {
        let steps = vec![Step::Prefill { tokens: 8, rested: false }; by_step.len()];
        let mut rounds = Rounds::over(steps);
        for (place, seconds) in by_step.iter().enumerate() {
            for one in *seconds {
                rounds.take(place, Some(taken(*one)));
            }
        }
        rounds
    }

    #[test]
    fn a_worker_that_gets_slower_is_told_by_its_rounds() {
        let slower = rounds(&[&[1.0, 1.1, 1.2], &[2.0, 2.2, 2.4], &[0.5, 0.55, 0.6]]);
        let medians: Vec<f64> = slower.medians().iter().map(|(_, one)| one.seconds).collect();
        assert_eq!(medians, [1.1, 2.2, 0.55]);
        let paces = slower.paces();
        assert!((paces.apart() - 0.2).abs() < 1e-9, "{paces}");
        assert_eq!(paces.to_string(), "rounds took 0.91, 1.00, 1.09 of the medians");
        assert!(paces.warning().unwrap().contains("changed by 20 %"));
    }

    #[test]
    fn one_disturbed_step_is_no_change_of_speed() {
        let steady = rounds(&[&[1.0, 1.0, 1.0], &[2.0, 9.0, 2.0], &[0.5, 0.5, 0.5]]);
        assert!((steady.medians()[1].1.seconds - 2.0).abs() < 1e-9);
        assert!(steady.paces().apart() < 1e-9);
        assert_eq!(steady.paces().warning(), None);
    }

    #[test]
    fn steps_that_could_not_be_told_count_for_nothing() {
        let mut some = rounds(&[&[1.0, 1.1], &[]]);
        some.take(1, None);
        assert_eq!(some.medians().len(), 1);
        assert!((some.paces().apart() - 0.1).abs() < 1e-9);
        assert_eq!(rounds(&[]).paces().warning(), None);
    }

    #[test]
    fn prompts_are_new_in_each_round_and_batches_are_not() {
        let steps = vec![
            Step::Prefill { tokens: 8, rested: false },
            Step::Decode { sequences: 2, context: 64 },
        ];
        let rounds = Rounds::over(steps);
        assert_eq!([rounds.number(0, 0), rounds.number(1, 0)], [0, 2]);
        assert_eq!([rounds.number(0, 1), rounds.number(1, 1)], [1, 1]);
    }
}
