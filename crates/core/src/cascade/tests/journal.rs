//! Several gateways learn as one: each label once, in whatever order it is heard.

use alloc::vec::Vec;
use overdraft_units::Ratio;

use proptest::prelude::*;

use super::super::{
    Cascade, Evidence, Hearing, JOURNAL_MAX, Journal, Label, Mode, Moment, Note, Settings, Standing,
};
use super::{Dice, draft};

/// A gateway, and what it has told.
#[derive(Clone, Debug)]
struct Gateway {
    cascade: Cascade,
    journal: Journal,
    dice: Dice,
}

impl Gateway {
    fn new(number: u64) -> Self {
        let settings =
            Settings { mode: Mode::Gate, loss: Ratio::percent(2), ..Settings::default() };
        let cascade = Cascade::new(settings);
        Self { cascade, journal: Journal::new(number), dice: Dice::new(number) }
    }

    /// Learns a label of its own.
    fn learn(&mut self, useless: bool) -> Standing {
        loop {
            let surprise = 1 << self.dice.below(10);
            let evidence: Evidence = draft(surprise, 20, &mut self.dice);
            let asked = self.cascade.ask(evidence.traits(), self.dice.any());
            let drawn = self.dice.any();
            let judgement = self.cascade.judge(Moment::Whole, &evidence, asked, drawn);
            if judgement.checked {
                let worse = useless || self.dice.below(1_024) < surprise;
                let label = if worse { Label::Worse } else { Label::AsGood };
                let note = Note::label(&judgement, &evidence, label);
                return self.cascade.tell(note, &mut self.journal);
            }
        }
    }

    fn learnt(number: u64, labels: usize) -> Self {
        let mut gateway = Self::new(number);
        for _ in 0..labels {
            gateway.learn(false);
        }
        gateway
    }

    fn hear(&mut self, other: &Self) -> Hearing {
        self.cascade.hear(&other.journal)
    }

    fn labels(&self) -> u64 {
        self.cascade.report().labels
    }
}

#[test]
fn who_hears_everything_knows_what_who_learnt_it_knows() {
    let one = Gateway::learnt(1, 200);
    let mut other = Gateway::new(2);
    assert_eq!(other.hear(&one), Hearing { learnt: 200, missed: 0 });
    assert_eq!(other.cascade.to_parts(), one.cascade.to_parts());
    assert_eq!(other.hear(&one), Hearing::default(), "nothing is learnt twice");
    assert_eq!(other.cascade.to_parts(), one.cascade.to_parts());
}

#[test]
fn what_a_journal_no_longer_has_is_missed_and_counted() {
    let mut one = Gateway::learnt(1, JOURNAL_MAX + 40);
    let mut other = Gateway::new(2);
    let learnt = u64::try_from(JOURNAL_MAX).unwrap();
    assert_eq!(other.hear(&one), Hearing { learnt, missed: 40 });
    one.learn(false);
    assert_eq!(other.hear(&one), Hearing { learnt: 1, missed: 0 });
}

#[test]
fn two_gateways_find_a_useless_draft_with_as_many_labels_as_one() {
    let mut alone = Gateway::new(1);
    let needed = (1_u32..=500).find(|_| alone.learn(true) != Standing::On).unwrap();
    let (mut one, mut other) = (Gateway::new(2), Gateway::new(3));
    let mut labels = 0;
    let off = |gateway: &Gateway| gateway.cascade.standing() != Standing::On;
    while !off(&one) {
        one.learn(true);
        other.hear(&one);
        other.learn(true);
        one.hear(&other);
        labels += 2;
    }
    assert!(off(&other), "both know it");
    assert!(labels <= needed + 2, "{labels} labels, and {needed} alone");
}

#[test]
fn a_journal_is_read_as_it_was_written_and_nothing_else_passes_for_one() {
    let mut one = Gateway::learnt(7, 300);
    let accepted = Note::part(Ratio::percent(40));
    one.cascade.tell(accepted, &mut one.journal);
    let parts = one.journal.to_parts();
    assert_eq!(Journal::from_parts(&parts).as_ref(), Ok(&one.journal));
    assert!(parts.len() < 5_000, "{} numbers", parts.len());
    for short in [0, 1, 3, parts.len() - 1] {
        assert!(Journal::from_parts(&parts[..short]).is_err());
    }
    let mut long = parts.clone();
    long.push(0);
    assert!(Journal::from_parts(&long).is_err());
    let mut later = parts;
    later[0] += 1;
    assert!(Journal::from_parts(&later).is_err());
}

/// Three gateways that have heard some of each other, and all their journals.
fn three(seed: u64, turns: usize) -> ([Gateway; 3], Vec<Journal>) {
    let mut dice = Dice::new(seed);
    let first = 1 + seed * 3;
    let mut all = [0, 1, 2].map(|place| Gateway::new(first + place));
    for _ in 0..turns {
        let [who, whom] = [0, 0].map(|_| usize::try_from(dice.below(3)).unwrap());
        if dice.below(4) == 0 {
            let other = all[whom].clone();
            all[who].hear(&other);
        } else {
            all[who].learn(false);
        }
    }
    let journals = all.iter().map(|one| one.journal.clone()).collect();
    (all, journals)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_join_takes_either_first_and_what_is_in_it_already_changes_nothing(
        seed in 0_u64..1_000, turns in 1_usize..400,
    ) {
        let ([one, other, third], journals) = three(seed, turns);
        let [one, other, third] = [one, other, third].map(|gateway| gateway.cascade);
        let join = |one: &Cascade, other: &Cascade| one.clone().joined(other.clone(), &journals);
        let both = join(&one, &other);
        prop_assert_eq!(both.to_parts(), join(&other, &one).to_parts());
        prop_assert_eq!(join(&both, &other).to_parts(), both.to_parts());
        prop_assert_eq!(join(&both, &both).to_parts(), both.to_parts());
        let (left, right) = (join(&both, &third), join(&one, &join(&other, &third)));
        // Labels and losses are sums; which of two equal ways led to a model, its last digits show.
        prop_assert_eq!(left.report().labels, right.report().labels);
        prop_assert_eq!(left.report().loss.interval(), right.report().loss.interval());
    }

    #[test]
    fn in_the_end_every_gateway_has_every_label_once(seed in 0_u64..1_000, turns in 1_usize..400) {
        let (mut all, journals) = three(seed, turns);
        let told: usize = journals.iter().map(|journal| journal.to_parts()[2]).sum::<i64>().try_into().unwrap();
        for gateway in &mut all {
            for _ in 0..2 {
                for journal in &journals {
                    gateway.cascade.hear(journal);
                }
            }
            prop_assert_eq!(gateway.labels(), u64::try_from(told).unwrap());
        }
        let losses = all.each_ref().map(|gateway| gateway.cascade.report().loss.interval());
        prop_assert_eq!(losses[0], losses[1]);
        prop_assert_eq!(losses[1], losses[2]);
    }
}
