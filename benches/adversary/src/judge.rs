//! Verdict of a comparison: when one side clearly wins (`docs/design/simulation.md#r19`).
//!
//! The defaults *lose* a draw where one figure is clearly worse: tokens a second under 0.9; the mean or the p95 of
//! first tokens over 1.25 times and 50 ms; the p99 of time per token over 1.25; half a point more without an
//! answer. They *win* it where one is clearly better by the same measure and none is clearly worse: better in one
//! and worse in another is a loss. First tokens are those of all requests, the unanswered ones included.
//!
//! The p99 of time per token is no measure where more than one of a hundred got no answer: it would be one of those.
//!
//! An answer whose first token comes after the maximum wait of the queue counts as an answer for
//! the baseline. The report also counts losses that are due only to the defaults refusing a request
//! that the baseline answered later than that.

use serde::Serialize;

use crate::figures::Figures;

/// Minimum ratio of tokens a second.
const TOKENS: f64 = 0.9;
/// Ratio and difference in milliseconds from which first tokens are clearly later.
const LATER: f64 = 1.25;
const LATER_MS: f64 = 50.0;
/// How many times the p99 of the time for a token is clearly more.
const FALTERING: f64 = 1.25;
/// The share without an answer beyond which the p99 of the others is no measure.
const UNANSWERED_P99: f64 = 0.01;
/// How much greater a share without an answer is clearly more.
const UNANSWERED: f64 = 0.005;

/// How a comparison ends for the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Verdict {
    Win,
    Tie,
    Loss,
}

/// A figure that is clearly worse for one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Reason {
    Tokens,
    FirstTokens,
    BetweenTokens,
    Unanswered,
}

impl Reason {
    pub(crate) const ALL: [Self; 4] =
        [Self::Tokens, Self::FirstTokens, Self::BetweenTokens, Self::Unanswered];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "fewer tokens",
            Self::FirstTokens => "first tokens later",
            Self::BetweenTokens => "between tokens longer",
            Self::Unanswered => "more unanswered",
        }
    }
}

/// What was judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// What the defaults are clearly worse in.
    pub(crate) worse: Vec<Reason>,
    /// What they are clearly better in.
    pub(crate) better: Vec<Reason>,
    /// How far beyond the limits the worst of it is: 1 is at a limit.
    pub(crate) severity: f64,
    /// Whether it is a loss only because what they refused was answered later than their patience.
    pub(crate) late_only: bool,
}

impl Judgement {
    /// The defaults beside a baseline.
    pub(crate) fn of(base: &Figures, ours: &Figures) -> Self {
        let worse = beyond(base, ours);
        let better = beyond(ours, base);
        let names = |found: &[(Reason, f64)]| found.iter().map(|(reason, _)| *reason).collect();
        let verdict = match (worse.is_empty(), better.is_empty()) {
            (false, _) => Verdict::Loss,
            (true, false) => Verdict::Win,
            (true, true) => Verdict::Tie,
        };
        let only_unanswered = worse.iter().all(|(reason, _)| *reason == Reason::Unanswered);
        let is_late = ours.unserved - base.unserved <= UNANSWERED;
        Self {
            verdict,
            severity: worse.iter().map(|(_, excess)| *excess).fold(0.0, f64::max),
            late_only: verdict == Verdict::Loss && only_unanswered && is_late,
            worse: names(&worse),
            better: names(&better),
        }
    }
}

/// In what `other` is clearly worse than `one`, and how far beyond the limit.
fn beyond(one: &Figures, other: &Figures) -> Vec<(Reason, f64)> {
    let mut found = Vec::new();
    let mut add = |is: bool, reason, excess: f64| {
        if is {
            found.push((reason, excess));
        }
    };
    add(
        other.tokens < TOKENS * one.tokens,
        Reason::Tokens,
        (one.tokens / other.tokens.max(1e-9)).ln() / (1.0 / TOKENS).ln(),
    );
    let later = |one: f64, other: f64| LATER * one < other && one + LATER_MS < other;
    let times = |one: f64, other: f64| (other / one.max(1e-3)).ln() / LATER.ln();
    add(
        later(one.wait, other.wait) || later(one.wait_p95, other.wait_p95),
        Reason::FirstTokens,
        times(one.wait, other.wait).max(times(one.wait_p95, other.wait_p95)),
    );
    // One side's survivors are no measure for the other: who answered few of many told those fast.
    let is_measure = one.unanswered <= UNANSWERED_P99;
    add(
        is_measure && FALTERING * one.tpot_p99 < other.tpot_p99,
        Reason::BetweenTokens,
        (other.tpot_p99 / one.tpot_p99.max(1e-3)).ln() / FALTERING.ln(),
    );
    let more = other.unanswered - one.unanswered;
    add(UNANSWERED < more, Reason::Unanswered, 1.0 + (more / UNANSWERED).ln());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Figures = Figures {
        asked: 1_000,
        unanswered: 0.0,
        unserved: 0.0,
        refused: 0,
        tokens: 1_000.0,
        found: 0.5,
        preempted: 0,
        crashes: 0,
        ttft: 200.0,
        ttft_p95: 400.0,
        ttft_p99: 500.0,
        wait: 200.0,
        wait_p95: 400.0,
        tpot_p99: 20.0,
        gap_p99: 20.0,
        end: 1_000.0,
        seconds: 60.0,
        missed: overdraft_sim::report::Missed {
            never_seen: 0,
            evicted: 0,
            crashed: 0,
            displaced_on_the_way: 0,
            holder_full: 0,
            sent_elsewhere: 0,
        },
    };

    #[track_caller]
    fn judged(ours: Figures, verdict: Verdict, worse: &[Reason]) {
        let judgement = Judgement::of(&BASE, &ours);
        assert_eq!((judgement.verdict, &*judgement.worse), (verdict, worse));
    }

    #[test]
    fn a_figure_that_is_clearly_worse_loses() {
        judged(BASE, Verdict::Tie, &[]);
        judged(Figures { tokens: 901.0, ..BASE }, Verdict::Tie, &[]);
        judged(Figures { tokens: 899.0, ..BASE }, Verdict::Loss, &[Reason::Tokens]);
        judged(Figures { wait: 249.0, ..BASE }, Verdict::Tie, &[]);
        judged(Figures { wait: 251.0, ..BASE }, Verdict::Loss, &[Reason::FirstTokens]);
        judged(Figures { wait_p95: 501.0, ..BASE }, Verdict::Loss, &[Reason::FirstTokens]);
        judged(Figures { tpot_p99: 25.1, ..BASE }, Verdict::Loss, &[Reason::BetweenTokens]);
        judged(Figures { unanswered: 0.006, ..BASE }, Verdict::Loss, &[Reason::Unanswered]);
    }

    #[test]
    fn who_answers_nobody_does_not_tell_fast() {
        // There is no time per token of no answer.
        let nobody =
            Figures { unanswered: 1.0, unserved: 1.0, tokens: 0.0, tpot_p99: f64::NAN, ..BASE };
        assert_eq!(Judgement::of(&nobody, &BASE).verdict, Verdict::Win);
        assert_eq!(Judgement::of(&nobody, &nobody).verdict, Verdict::Tie);
    }

    #[test]
    fn better_in_one_and_worse_in_another_is_a_loss() {
        judged(Figures { wait: 100.0, ..BASE }, Verdict::Win, &[]);
        let both = Figures { wait: 100.0, tokens: 800.0, ..BASE };
        judged(both, Verdict::Loss, &[Reason::Tokens]);
    }

    #[test]
    fn what_the_baseline_answered_too_late_is_told_apart() {
        let late = Figures { unserved: 0.2, ..BASE };
        let ours = Figures { unanswered: 0.1, unserved: 0.1, ..BASE };
        let judgement = Judgement::of(&late, &ours);
        assert!(judgement.verdict == Verdict::Loss && judgement.late_only);
        assert!(!Judgement::of(&BASE, &ours).late_only);
    }
}
