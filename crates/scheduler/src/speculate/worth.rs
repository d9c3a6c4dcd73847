//! Average benefit of the draft model (EWMA), by which it is switched on and off in a batch.
//!
//! Steps differ: beside a prefill the cost table is less steep and drafts are cheap; in other steps
//! the same drafts gain nothing. With short answers every fourth step has a prefill. So the average
//! benefit over all steps switches the draft model on or off, and only the depth is decided per
//! step (`docs/design/speculation.md#r5`).

use super::costs::float;

/// Time constant of the average, in steps.
const BENEFIT_MEMORY: f64 = 32.0;
/// Maximum benefit of one step, in hundredths, so that the benefit under another load fades soon.
const BENEFIT_MOST: f64 = 20.0;
/// Minimum benefit, in hundredths, to switch on: its first prefill costs a few steps.
const BEGIN_HUNDREDTHS: f64 = 5.0;
/// Lower bound of that minimum, in hundredths, which falls the longer the benefit lasts.
const WANTED_HUNDREDTHS: f64 = 1.0;
/// Minimum steps before it may switch on.
const WANTED_STEPS: u64 = 8;
/// Minimum benefit, in hundredths, to stay on. It is lower than to switch on (hysteresis): the
/// prefill is paid, and the benefit is measured only while it drafts.
const KEEP_HUNDREDTHS: f64 = 0.3;
/// Maximum weight of one evaluation, in steps, where not every step has one.
const STANDS_FOR_MOST: u64 = 4;

/// What the draft model would have brought in steps of late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BenefitAverage {
    /// Hundredths of what comes without it.
    hundredths: f64,
    /// The last step that asked.
    asked_at: u64,
    /// Steps in a row by which it was wanted while it was off.
    wanted: u64,
}

impl BenefitAverage {
    /// In this step it brings so many hundredths, or would if it were not `off`.
    pub(super) fn observe(&mut self, step: u64, hundredths: f64, off: bool) {
        let before = core::mem::replace(&mut self.asked_at, step);
        let part = float(step.saturating_sub(before).min(STANDS_FOR_MOST)) / BENEFIT_MEMORY;
        self.hundredths += (hundredths.min(BENEFIT_MOST) - self.hundredths) * part;
        let is_wanted = off && WANTED_HUNDREDTHS <= self.hundredths;
        self.wanted = if is_wanted { self.wanted + 1 } else { 0 };
    }

    /// Whether it may be about to begin.
    pub(super) fn is_wanted(&self) -> bool {
        0 < self.wanted
    }

    /// Whether it brings enough to begin.
    pub(super) fn begins(&self) -> bool {
        let part = float(WANTED_STEPS) / float(self.wanted.max(1));
        let least = (BEGIN_HUNDREDTHS * part).max(WANTED_HUNDREDTHS);
        WANTED_STEPS <= self.wanted && least <= self.hundredths
    }

    /// Whether it brings too little to go on.
    pub(super) fn ends(&self) -> bool {
        self.hundredths < KEEP_HUNDREDTHS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps until it begins, where one step in so many brings these hundredths and the others nothing.
    fn begins_after(one_in: u64, hundredths: f64) -> Option<u64> {
        let mut benefit = BenefitAverage::default();
        (1..1_000_u64).find(|step| {
            let brings = if step % one_in == 0 { hundredths } else { 0.0 };
            benefit.observe(*step, brings, true);
            benefit.begins()
        })
    }

    #[test]
    fn what_pays_in_one_step_of_three_begins() {
        assert!(begins_after(1, 9.0).is_some_and(|steps| steps < 40));
        assert!(begins_after(3, 9.0).is_some_and(|steps| steps < 80));
        assert_eq!(begins_after(3, 2.0), None);
        assert_eq!(begins_after(20, 9.0), None);
    }

    #[test]
    fn what_brought_much_under_another_load_is_soon_forgotten() {
        let mut benefit = BenefitAverage::default();
        (1..=100).for_each(|step| benefit.observe(step, 80.0, false));
        assert!(!benefit.ends());
        // Asked one step in four.
        (26..=100).for_each(|asked| benefit.observe(4 * asked, 0.0, true));
        assert!(benefit.ends() && !benefit.is_wanted(), "{benefit:?}");
    }
}
