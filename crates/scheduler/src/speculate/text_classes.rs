//! Text classes: acceptance rates by class of text, as priors for sequences.
//!
//! A sequence is judged by its own trials; their prior is the rate of its class, whose prior is the
//! rate of all text (`docs/design/speculation.md#r2`). The calibration of a draft model's
//! confidence is per class, too (`docs/design/speculation.md#r11`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::acceptance::{Acceptance, Chances, DEPTH_MAX};
use super::allocation::{Drafter, Outlook, Prospect};
use super::confidence::{Calibration, Confidence, Reliance};
use super::facts::Trial;
use overdraft_units::Ratio;

/// Maximum classes of text; further ones share the rate of all text.
pub const CLASSES_MAX: usize = 64;

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct TextClasses {
    all: TextClass,
    each: BTreeMap<u64, TextClass>,
}

/// What was seen of one kind of text.
#[derive(Clone, Copy, Debug, Default)]
struct TextClass {
    seen: [Acceptance; 2],
    sure: Calibration,
}

/// The limits of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Maximum tokens of a draft.
    pub(super) depth_max: usize,
    /// Whether the draft model may guess.
    pub(super) asks_model: bool,
}

impl TextClasses {
    /// The kind itself where there is room for it, and what is known of all.
    fn of(&mut self, class: u64) -> (&mut TextClass, Option<&mut TextClass>) {
        let room = self.each.len() < CLASSES_MAX || self.each.contains_key(&class);
        (&mut self.all, room.then(|| self.each.entry(class).or_default()))
    }

    /// Takes note of a draft that was put to the test.
    pub(super) fn observe(&mut self, trial: Trial) {
        let (place, Trial { drafted, right, .. }) = (trial.drafter.place(), trial);
        let (all, kind) = self.of(trial.class);
        for known in core::iter::once(all).chain(kind) {
            known.seen[place].observe(drafted, right);
        }
    }

    /// Takes note of whether a guess of the draft model was right.
    pub(super) fn calibrate(&mut self, class: u64, confidence: Confidence, right: bool) {
        let (all, kind) = self.of(class);
        for known in core::iter::once(all).chain(kind) {
            known.sure.observe(confidence, right);
        }
    }

    /// The share of tried tokens that were right, by drafter; none before any was tried.
    pub(super) fn mean(&self, drafter: Drafter) -> Ratio {
        self.all.seen[drafter.place()].mean()
    }

    /// How likely the draft model's first guess is right, whatever the text.
    pub(super) fn first_of_model(&self) -> Ratio {
        self.all.seen[Drafter::Model.place()].pooled().survival()[0]
    }

    /// What may come of guesses for each of these.
    pub(super) fn outlooks(&self, prospects: &[Prospect<'_>], terms: Terms) -> Vec<Outlook> {
        let pooled = self.all.pooled();
        let mut known: BTreeMap<u64, [Chances; 2]> = BTreeMap::new();
        let outlook = |prospect: &Prospect<'_>| {
            let model = if terms.asks_model { prospect.model } else { 0 };
            let most = [prospect.lookup, model].map(|tokens| tokens.min(terms.depth_max));
            if most == [0, 0] {
                return Outlook::none(prospect.backlog);
            }
            let of_kind = || {
                let kind = self.each.get(&prospect.class);
                kind.map_or(pooled, |kind| within(&pooled, &kind.seen))
            };
            let known = known.entry(prospect.class).or_insert_with(of_kind);
            let chances = within(known, prospect.seen);
            let survival = chances.map(|chances| chances.survival());
            Outlook { survival, most, unread: prospect.backlog }
        };
        prospects.iter().map(outlook).collect()
    }

    /// What a confidence is worth in this kind of text.
    pub(super) fn reliance(&self, class: u64) -> Reliance {
        let kind = self.each.get(&class);
        kind.map_or_else(|| self.all.sure.reliance(None), |kind| kind.reliance(&self.all))
    }
}

impl TextClass {
    fn pooled(&self) -> [Chances; 2] {
        self.seen.map(|seen| seen.pooled())
    }

    fn reliance(&self, all: &Self) -> Reliance {
        self.sure.reliance(Some(&all.sure))
    }
}

/// By drafter, with the wider group's chances behind these.
fn within(group: &[Chances; 2], seen: &[Acceptance; 2]) -> [Chances; 2] {
    Drafter::ALL.map(|drafter| seen[drafter.place()].within(&group[drafter.place()]))
}

impl Outlook {
    /// Nobody guesses.
    fn none(unread: u32) -> Self {
        Self { survival: [[Ratio::NONE; DEPTH_MAX]; 2], most: [0, 0], unread }
    }
}
