//! Accuracy by the share of questions that never reaches the target (S1).
//!
//! Three quarters of the questions teach the scorer, about as many as a route remembers, the last is judged; over many
//! divisions, of which the mean is told. A
//! rule sorts the questions it was not taught by; the surest share is the draft's, the rest the target's.

use crate::Dice;
use overdraft_claims::{Aim, Claim, as_float};
use overdraft_core::cascade::{Cascade, Choice, Mode, Moment, Scorer, Settings};
use overdraft_units::Ratio;
use serde::Serialize;

use super::answers::{Asked, WINDOW};

/// Divisions of the questions.
const DIVISIONS: u64 = 40;
/// Shares that are looked at, in hundredths.
const SHARES: usize = 101;
/// Shares of the table.
const SHOWN: [usize; 9] = [0, 10, 20, 30, 40, 50, 60, 80, 100];
/// Thresholds of the table, in thousandths.
const THRESHOLDS: [u32; 12] = [0, 300, 500, 600, 700, 800, 850, 900, 950, 980, 990, 1_000];
/// The loss at which rules are compared, in points.
const LOSS_POINTS: f64 = 1.0;
/// Requests of the route as it would run before its served share is counted: it learns.
const LEARNING: usize = 300;

/// One threshold on the gate's score.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AtThreshold {
    threshold_permille: u32,
    share_percent: f64,
    accuracy_percent: f64,
}

/// The curves, in percent by share.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Curve {
    questions: usize,
    /// The target alone.
    pub(crate) target: f64,
    /// The draft alone.
    pub(crate) draft: f64,
    /// Questions where both say the same.
    same: f64,
    /// The gate's score.
    pub(crate) gate: Vec<f64>,
    /// The mean log probability.
    pub(crate) mean_logprob: Vec<f64>,
    /// Who knew the answers beforehand.
    pub(crate) oracle: Vec<f64>,
    thresholds: Vec<AtThreshold>,
    /// The whole cascade at a loss of one in a hundred, learning as it goes: what it served in percent, and what it
    /// lost in points of all.
    online: (f64, f64),
}

/// Sums over divisions.
struct Sums {
    gate: Vec<f64>,
    mean_logprob: Vec<f64>,
    oracle: Vec<f64>,
    thresholds: Vec<(f64, f64)>,
    judged: f64,
}

/// Both models' answers, made into curves.
pub(crate) fn measure(asked: &[Asked]) -> Curve {
    let zeros = || vec![0.0; SHARES];
    let mut sums = Sums {
        gate: zeros(),
        mean_logprob: zeros(),
        oracle: zeros(),
        thresholds: vec![(0.0, 0.0); THRESHOLDS.len()],
        judged: 0.0,
    };
    let mut online = (0.0, 0.0);
    for seed in 0..DIVISIONS {
        let order = shuffled(asked, seed);
        divide(&order, &mut sums);
        let (served, lost) = run_online(&order, seed);
        online.0 += served / as_count(DIVISIONS);
        online.1 += lost / as_count(DIVISIONS);
    }
    let percent = |of: fn(&Asked) -> bool| {
        100.0 * as_float(asked.iter().filter(|one| of(one)).count()) / as_float(asked.len())
    };
    let divisions = as_count(DIVISIONS);
    let mean = |sum: Vec<f64>| sum.into_iter().map(|one| one / divisions).collect();
    let thresholds = THRESHOLDS.into_iter().zip(&sums.thresholds);
    Curve {
        questions: asked.len(),
        target: percent(|one| one.target_right),
        draft: percent(|one| one.draft_right),
        same: percent(|one| one.same),
        gate: mean(sums.gate),
        mean_logprob: mean(sums.mean_logprob),
        oracle: mean(sums.oracle),
        thresholds: thresholds
            .map(|(threshold_permille, (accepted, right))| AtThreshold {
                threshold_permille,
                share_percent: 100.0 * accepted / sums.judged,
                accuracy_percent: 100.0 * right / sums.judged,
            })
            .collect(),
        online,
    }
}

fn as_count(count: u64) -> f64 {
    as_float(usize::try_from(count).unwrap_or(usize::MAX))
}

fn shuffled(asked: &[Asked], seed: u64) -> Vec<&Asked> {
    let mut dice = Dice::new(seed);
    let mut order: Vec<&Asked> = asked.iter().collect();
    for place in (1..order.len()).rev() {
        order.swap(place, dice.below(place + 1));
    }
    order
}

/// Teaches with the first part and adds what the rest says.
fn divide(order: &[&Asked], sums: &mut Sums) {
    let (taught, judged) = order.split_at(order.len() / 4 * 3);
    let mut scorer = Scorer::new();
    for one in taught {
        let class = one.evidence.traits().class();
        scorer.learn(&one.evidence.features(), class, one.label());
    }
    let score =
        |one: &Asked| scorer.score(&one.evidence.features(), one.evidence.traits().class()).get();
    add(&mut sums.gate, judged, |one| i64::from(score(one)));
    add(&mut sums.mean_logprob, judged, |one| i64::from(one.evidence.mean().get()));
    add(&mut sums.oracle, judged, |one| {
        i64::from(one.draft_right) * 2 - i64::from(one.target_right)
    });
    sums.judged += as_float(judged.len());
    for (threshold, (accepted, right)) in THRESHOLDS.into_iter().zip(&mut sums.thresholds) {
        let least = Ratio::permille(threshold).get();
        for one in judged {
            let passes = least <= score(one);
            *accepted += f64::from(u8::from(passes));
            let is_right = if passes { one.draft_right } else { one.target_right };
            *right += f64::from(u8::from(is_right));
        }
    }
}

/// Adds the accuracy at every share when the highest are the draft's.
fn add(sum: &mut [f64], judged: &[&Asked], by: impl Fn(&Asked) -> i64) {
    let mut sorted: Vec<(i64, &Asked)> = judged.iter().map(|one| (by(one), *one)).collect();
    sorted.sort_by_key(|one| std::cmp::Reverse(one.0));
    for (percent, sum) in sum.iter_mut().enumerate() {
        let drafts = sorted.len() * percent / 100;
        let right = sorted.iter().enumerate().filter(|(place, (_, one))| {
            if *place < drafts { one.draft_right } else { one.target_right }
        });
        *sum += 100.0 * as_float(right.count()) / as_float(sorted.len().max(1));
    }
}

/// The whole cascade over all questions in that order: served after it learnt, and lost, in percent.
fn run_online(order: &[&Asked], seed: u64) -> (f64, f64) {
    let settings = Settings { mode: Mode::Gate, first: WINDOW, ..Settings::default() };
    let mut cascade = Cascade::new(settings);
    let mut dice = Dice::new(seed ^ 0x5eed);
    let (mut served, mut lost) = (0, 0);
    for (place, one) in order.iter().enumerate() {
        let asked = cascade.ask(one.evidence.traits(), dice.any());
        let judgement = cascade.judge(Moment::Whole, &one.evidence, asked, dice.any());
        if LEARNING <= place && judgement.serve == Choice::Draft {
            served += 1;
            lost += usize::from(one.is_worse());
        }
        if judgement.checked {
            cascade.learn(&judgement, &one.evidence, one.label());
        }
    }
    let counted = as_float(order.len().saturating_sub(LEARNING).max(1));
    (100.0 * as_float(served) / counted, 100.0 * as_float(lost) / counted)
}

impl Curve {
    /// Mixing at random.
    pub(crate) fn random(&self, percent: f64) -> f64 {
        self.target + (self.draft - self.target) * percent / 100.0
    }

    /// The largest share within the loss, and all smaller ones too.
    fn share_within_loss(curve: &[f64]) -> f64 {
        // A division has its own target: what a share of nothing comes to.
        let target = curve.first().copied().unwrap_or(f64::NAN);
        let within = curve.iter().take_while(|accuracy| target - LOSS_POINTS <= **accuracy);
        as_float(within.count()) - 1.0
    }

    /// By how much the gate is above mixing at random where it is least, both kinds present.
    fn least_above_random(&self) -> f64 {
        let (first, last) = (self.gate[0], self.gate[SHARES - 1]);
        let inner = self.gate.iter().enumerate().skip(5).take(SHARES - 10);
        let above = inner.map(|(percent, accuracy)| {
            accuracy - (first + (last - first) * as_float(percent) / 100.0)
        });
        above.fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn print(&self) {
        println!(
            "measured: {} held-out questions, answered by the demo models; {DIVISIONS} divisions, three quarters to learn from",
            self.questions
        );
        println!(
            "target alone {:.1} %, draft alone {:.1} %, same answer {:.1} %\n",
            self.target, self.draft, self.same
        );
        println!("accuracy in % where that share never touches the target");
        println!("{:>7}{:>9}{:>14}{:>9}{:>9}", "share", "gate", "mean logprob", "random", "oracle");
        for percent in SHOWN {
            println!(
                "{percent:>5} %{:>9.1}{:>14.1}{:>9.1}{:>9.1}",
                self.gate[percent],
                self.mean_logprob[percent],
                self.random(as_float(percent)),
                self.oracle[percent]
            );
        }
        println!("\n{:>9}{:>9}{:>10}", "threshold", "share %", "accuracy");
        for at in &self.thresholds {
            println!(
                "{:>9.3}{:>9.1}{:>10.1}",
                f64::from(at.threshold_permille) / 1_000.0,
                at.share_percent,
                at.accuracy_percent
            );
        }
        println!(
            "\nas a route that learns as it goes, allowed to lose 1 %: after {LEARNING} questions it serves {:.1} % and loses {:.2} %",
            self.online.0, self.online.1
        );
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let claim = |figure: &str, measured: f64, aim| Claim {
            demonstration: "S1",
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        let gate = Self::share_within_loss(&self.gate);
        let logprob = Self::share_within_loss(&self.mean_logprob);
        vec![
            claim("share_without_target_at_1_point_percent", gate, Aim::AtLeast(40.0)),
            claim("least_above_random_points", self.least_above_random(), Aim::AtLeast(0.0)),
            claim("share_beside_mean_logprob_points", gate - logprob, Aim::AtLeast(0.0)),
        ]
    }
}
