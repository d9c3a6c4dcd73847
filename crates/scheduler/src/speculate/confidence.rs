//! Draft confidence: calibrates the draft model's probabilities into acceptance rates.
//!
//! The probability of a draft model's likeliest token separates drafted tokens that are nearly
//! always accepted from those that are mostly rejected, in the same text. The relation differs by
//! model and text, so it is learnt: a few bins of probability each have their own acceptance rate.
//! Where the bins do not differ, confidence is ignored, and a draft is as deep as it was granted
//! (`docs/design/speculation.md#r11`).

use super::acceptance::DEPTH_MAX;
use overdraft_units::Ratio;

/// Bins of confidence.
const STEPS: usize = 8;
/// Upper bound of each bin: finer near one, because most drafted tokens are likely.
const ENDS: [f32; STEPS - 1] = [0.3, 0.5, 0.7, 0.85, 0.93, 0.97, 0.99];
/// Time constant of the fading, in drafted tokens.
const MEMORY: f64 = 577.0;
/// Minimum drafted tokens before confidence is used, and the weight of all text in each class.
const SEEN_LEAST: f64 = 64.0;
/// Minimum drafted tokens before confidence is ruled out as useless.
const SEEN_WELL: f64 = 256.0;
/// Share of drafted tokens in one bin above which confidence does not discriminate.
const ALIKE: f64 = 0.98;
/// So many guesses the mean counts for in each step.
const PRIOR: f64 = 4.0;
/// Factor by which a threshold lies below the confidence that must pass it.
const SLIGHTLY_LESS: f64 = 0.9999;

/// How likely the draft model held its likeliest token, in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confidence(u8);

/// How often guesses of each confidence were right, on one kind of text. Old ones fade.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Calibration {
    seen: [f64; STEPS],
    right: [f64; STEPS],
}

/// What follows from a confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reliance {
    /// Guesses that it is told from.
    seen: f64,
    /// The part of guesses that have it.
    part: [f64; STEPS],
    /// How often those are right beside all guesses.
    worth: [f64; STEPS],
}

/// How far a draft is pursued, which its guesses decide one by one. Whether a guess is verified depends on what its
/// token was drawn from and on the guesses before it, never on the token itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pursuit {
    /// Guesses at most.
    most: usize,
    /// Whether confidences are to be learnt from.
    asks: bool,
    course: Option<Course>,
}

/// By what a pursuit goes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Course {
    /// The chance of each place, given that all before it are right.
    chances: [f64; DEPTH_MAX],
    worth: [f64; STEPS],
    /// The least chance, of a guess and all before it, that is worth a row of the target.
    keep: f64,
    /// The least chance of the next that is worth a pass of the draft model and a row.
    go_on: f64,
    /// That all guesses so far are right.
    so_far: f64,
}

/// What becomes of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is verified, and the next is made.
    GoOn,
    /// It is verified, as the last.
    Stop,
    /// It is not worth a row, and none is made after it.
    Drop,
}

/// What guesses must bring, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar {
    /// A row of the target.
    pub(super) row: f64,
    /// A pass of the draft model for one sequence.
    pub(super) pass: f64,
}

impl Confidence {
    /// Of this probability.
    pub fn of(probability: f32) -> Self {
        let step = ENDS.iter().take_while(|end| **end <= probability).count();
        Self(u8::try_from(step).expect("a few steps"))
    }

    fn step(self) -> usize {
        usize::from(self.0)
    }
}

impl Calibration {
    pub(super) fn observe(&mut self, confidence: Confidence, right: bool) {
        for count in self.seen.iter_mut().chain(&mut self.right) {
            *count -= *count / MEMORY;
        }
        self.seen[confidence.step()] += 1.0;
        self.right[confidence.step()] += f64::from(u8::from(right));
    }

    /// What follows from each confidence; of one kind of text with those of `all` behind it.
    pub(super) fn reliance(&self, all: Option<&Self>) -> Reliance {
        let mut counts = *self;
        if let Some(all) = all.filter(|all| SEEN_LEAST <= all.seen()) {
            let weight = SEEN_LEAST / all.seen();
            for step in 0..STEPS {
                counts.seen[step] += weight * all.seen[step];
                counts.right[step] += weight * all.right[step];
            }
        }
        let (seen, right) = (counts.seen(), counts.right.iter().sum::<f64>());
        let mut reliance = Reliance::default();
        if seen < SEEN_LEAST || right <= 0.0 {
            return reliance;
        }
        let mean = right / seen;
        reliance.seen = seen;
        for step in 0..STEPS {
            let (seen_here, right_here) = (counts.seen[step], counts.right[step]);
            reliance.part[step] = seen_here / seen;
            reliance.worth[step] = (right_here + PRIOR * mean) / (seen_here + PRIOR) / mean;
        }
        reliance
    }

    /// Guesses, as far as they still count.
    fn seen(&self) -> f64 {
        self.seen.iter().sum()
    }
}

impl Default for Reliance {
    /// All guesses are alike.
    fn default() -> Self {
        let mut part = [0.0; STEPS];
        part[STEPS - 1] = 1.0;
        Self { seen: 0.0, part, worth: [1.0; STEPS] }
    }
}

impl Reliance {
    /// Whether it was seen often enough that all guesses have the same: then nothing does.
    pub(super) fn says_nothing(&self) -> bool {
        SEEN_WELL <= self.seen && self.part.iter().any(|part| ALIKE <= *part)
    }
}

impl Pursuit {
    /// So many guesses, whatever they are.
    pub(super) const fn fixed(depth: usize) -> Self {
        Self { most: depth, asks: false, course: None }
    }

    /// The same, whose confidences are learnt from.
    pub(super) const fn asking(depth: usize) -> Self {
        Self { asks: true, ..Self::fixed(depth) }
    }

    /// As deep as guesses are worth it, at most `most`. Where all are as sure as ever that is `depth`: the price of a
    /// pass counts only as far as it does not say otherwise.
    pub(super) fn by_confidence(
        depth: usize,
        most: usize,
        survival: &[Ratio; DEPTH_MAX],
        reliance: &Reliance,
        bar: Bar,
    ) -> Self {
        if depth == 0 {
            return Self::fixed(0);
        }
        let mut before = 1.0;
        let chances = survival.map(|all| {
            let chance = if before > 0.0 { all.factor() / before } else { 0.0 };
            before = all.factor();
            chance
        });
        let last = survival[depth - 1].factor();
        let next = survival.get(depth).map_or(0.0, |next| next.factor());
        // Rounding must not end a draft before its depth, nor let it go on behind.
        let last = last * SLIGHTLY_LESS;
        let above = f64::midpoint(next, last).min(next / SLIGHTLY_LESS).min(last);
        let go_on = (bar.row + bar.pass).clamp(above, last);
        let keep = bar.row.min(go_on);
        let worth = reliance.worth;
        let course = Course { chances, worth, keep, go_on, so_far: 1.0 };
        Self { most: most.max(depth), asks: true, course: Some(course) }
    }

    /// Whether the confidence of the draft model is read.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// Guesses at most.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The same with no more than so many.
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        Self { most: self.most.min(most), ..self }
    }

    /// What becomes of the guess at this place of the draft, the first being zero. One that `was_drawn` is never left
    /// out: nobody could tell whether it would have been right, and it would be learnt that all are.
    pub fn follow(
        &mut self,
        place: usize,
        confidence: Option<Confidence>,
        was_drawn: bool,
    ) -> Fate {
        let is_last = self.most <= place + 1;
        let Some(course) = &mut self.course else {
            return if is_last { Fate::Stop } else { Fate::GoOn };
        };
        let chance = |place: usize| course.chances.get(place).copied().unwrap_or(0.0);
        let worth = confidence.map_or(1.0, |confidence| course.worth[confidence.step()]);
        let so_far = course.so_far * (chance(place) * worth).min(1.0);
        let next = so_far * chance(place + 1);
        if !was_drawn && so_far < course.keep {
            return Fate::Drop;
        }
        course.so_far = so_far;
        if is_last || next < course.go_on { Fate::Stop } else { Fate::GoOn }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;

    use super::*;

    /// Half of the guesses are sure and always right, half are doubtful and right one time in five.
    fn calibrated() -> Reliance {
        let mut calibration = Calibration::default();
        for n in 0..400 {
            calibration.observe(Confidence::of(0.999), true);
            calibration.observe(Confidence::of(0.4), n % 5 == 0);
        }
        calibration.reliance(None)
    }

    fn survival(hundredths: u32) -> [Ratio; DEPTH_MAX] {
        let mut all = Ratio::WHOLE;
        core::array::from_fn(|_| {
            all = all.times(Ratio::percent(hundredths));
            all
        })
    }

    /// A row is worth half a token, a pass a tenth.
    const BAR: Bar = Bar { row: 0.5, pass: 0.1 };

    /// Guesses made of a draft with these confidences, and what became of the last.
    #[track_caller]
    fn check(pursuit: Pursuit, confidences: &[f32], expected: (usize, Fate)) {
        let mut pursuit = pursuit;
        let mut last = (0, Fate::GoOn);
        for (place, confidence) in confidences.iter().enumerate() {
            last = (place + 1, pursuit.follow(place, Some(Confidence::of(*confidence)), false));
            if last.1 != Fate::GoOn {
                break;
            }
        }
        assert_eq!(last, expected, "{confidences:?}");
    }

    #[test]
    fn a_doubtful_guess_is_left_out_and_ends_the_draft() {
        let pursuit = Pursuit::by_confidence(2, 8, &survival(60), &calibrated(), BAR);
        check(pursuit, &[0.4, 0.999], (1, Fate::Drop));
        check(pursuit, &[0.999, 0.999, 0.4], (3, Fate::Drop));
        // Sure ones go on behind the depth that was granted, to the end.
        check(pursuit, &[0.999; 8], (8, Fate::Stop));
        check(pursuit.at_most(3), &[0.999; 8], (3, Fate::Stop));
        check(Pursuit::fixed(2), &[0.4, 0.4, 0.4], (2, Fate::Stop));
    }

    #[test]
    fn a_guess_that_was_drawn_is_never_left_out() {
        let pursuit = Pursuit::by_confidence(2, 8, &survival(60), &calibrated(), BAR);
        let doubtful = Some(Confidence::of(0.4));
        assert_eq!(pursuit.clone().follow(0, doubtful, false), Fate::Drop);
        assert_eq!(pursuit.clone().follow(0, doubtful, true), Fate::Stop);
    }

    #[test]
    fn too_few_guesses_say_nothing() {
        let mut calibration = Calibration::default();
        for n in 0..60 {
            let (confidence, right) = if n % 2 == 0 { (0.999, true) } else { (0.1, false) };
            calibration.observe(Confidence::of(confidence), right);
        }
        assert_eq!(calibration.reliance(None), Reliance::default());
        // With those of all text behind them they do.
        let mut all = calibration;
        for _ in 0..200 {
            all.observe(Confidence::of(0.999), true);
            all.observe(Confidence::of(0.1), false);
        }
        assert_ne!(calibration.reliance(Some(&all)), Reliance::default());
        assert_ne!(Calibration::default().reliance(Some(&all)), Reliance::default());
    }

    proptest! {
        #[test]
        fn where_all_guesses_are_alike_a_draft_is_as_deep_as_was_granted(
            chances in proptest::collection::vec(1_u32..=65_536, DEPTH_MAX),
            depth in 1_usize..=DEPTH_MAX,
            row in 0.0..2.0_f64,
            pass in 0.0..2.0_f64,
        ) {
            let mut all = Ratio::WHOLE;
            let survival: [Ratio; DEPTH_MAX] = core::array::from_fn(|place| {
                all = all.times(Ratio::of(u64::from(chances[place]), 65_536));
                all
            });
            // What is nearly as likely as the one before it, or not at all, may as well be made.
            let clearly_less = SLIGHTLY_LESS * SLIGHTLY_LESS;
            let apart =
                survival.windows(2).all(|two| two[1].factor() < two[0].factor() * clearly_less);
            prop_assume!(apart && 1_000 < survival[DEPTH_MAX - 1].get());
            let bar = Bar { row, pass };
            let mut pursuit = Pursuit::by_confidence(depth, DEPTH_MAX, &survival, &Reliance::default(), bar);
            let confidence = Some(Confidence::of(0.2));
            let made = (0..DEPTH_MAX).take_while(|place| {
                pursuit.follow(*place, confidence, false) == Fate::GoOn
            });
            prop_assert_eq!(made.count() + 1, depth);
        }
    }
}
