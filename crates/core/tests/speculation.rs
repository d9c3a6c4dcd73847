//! The controller in virtual time, against a load that changes: does it bring more than any depth
//! that stays the same?
//!
//! The chances and costs of the world are hidden from it, but for a noisy profile of the costs.

use overdraft_core::speculate::{
    Acceptance, Controller, CostCurve, DepthTable, Drafter, Load, Nanos, Policy, Prospect,
    StepCosts, Trial,
};
use overdraft_units::{Instant, Micros};

/// Sequences, the chance of a guess in hundredths, and how long: load rises and falls while the
/// text turns from easy to hard and back, as in the scenario of the reference.
const PHASES: [(u32, u64, u64); 8] = [
    (6, 90, 6_000),
    (40, 90, 6_000),
    (110, 55, 6_000),
    (180, 92, 6_000),
    (64, 55, 6_000),
    (12, 75, 6_000),
    (2, 92, 6_000),
    (180, 55, 6_000),
];

const DEPTH: usize = 8;
/// Tokens a sequence yields before another takes its place.
const LENGTH: u64 = 200;

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }
}

/// What a step of so many rows takes: memory first, then arithmetic.
fn verify(rows: u32) -> Nanos {
    let rows = Nanos::from(rows);
    20_000_000 + 40_000 * rows + 90_000 * rows.saturating_sub(200)
}

fn draft(rows: u32) -> Nanos {
    1_500_000 + 8_000 * Nanos::from(rows)
}

/// Measured costs, each off by up to three hundredths.
fn profile(dice: &mut Dice) -> StepCosts {
    let mut curve = |cost: fn(u32) -> Nanos| {
        let rows = [1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 512, 1024];
        let mut noisy = |rows: u32| cost(rows) / 100 * (97 + dice.below(7));
        CostCurve::new(rows.iter().map(|rows| (*rows, noisy(*rows))).collect())
    };
    StepCosts { verify: curve(verify), draft: curve(draft) }
}

/// Tokens a second in each phase.
fn run(policy: Policy, seed: u64) -> Vec<u64> {
    let mut dice = Dice(seed);
    let mut controller = Controller::new(policy, DEPTH, profile(&mut dice));
    let mut now: Nanos = 0;
    let mut rates = Vec::new();
    for (sequences, chance, millis) in PHASES {
        let (began, mut tokens) = (now, 0);
        let mut records = vec![[Acceptance::default(); 2]; sequences as usize];
        while now < began + millis * 1_000_000 {
            let clock = Instant::ORIGIN + Micros::new(now / 1_000);
            let prospects: Vec<_> = records
                .iter()
                .map(|seen| Prospect { class: 0, seen, lookup: 0, model: DEPTH, backlog: 1 })
                .collect();
            let load = Load::decoding(sequences, 2_000);
            let grants = controller.decide(clock, &load, &prospects).grants;
            let mut passes = [0_u32; DEPTH];
            let mut rows = sequences;
            for (grant, record) in grants.iter().zip(&mut records) {
                let right = (0..grant.depth).take_while(|_| dice.below(100) < chance).count();
                rows += u32::try_from(grant.depth).expect("small");
                passes[..grant.depth].iter_mut().for_each(|pass| *pass += 1);
                tokens += 1 + right as u64;
                let drafter = Drafter::Model;
                record[drafter.place()].observe(grant.depth, right);
                controller.learn(Trial { class: 0, drafter, drafted: grant.depth, right });
                controller.note_used(grant.depth, right);
                if dice.below(LENGTH) == 0 {
                    *record = [Acceptance::default(); 2];
                }
            }
            let took = verify(rows);
            controller.measure(rows, took);
            now += took;
            for rows in passes.into_iter().filter(|rows| 0 < *rows) {
                controller.measure_draft(rows, draft(rows));
                now += draft(rows);
            }
        }
        rates.push(tokens * 1_000_000_000 / (now - began));
    }
    rates
}

fn total(rates: &[u64]) -> u64 {
    rates.iter().sum()
}

#[test]
fn goodput_brings_more_than_any_depth_that_stays_and_little_less_in_any_phase() {
    for seed in 1..=3 {
        let goodput = run(Policy::Goodput, seed);
        let fixed: Vec<_> = (0..=DEPTH).map(|depth| run(Policy::Fixed(depth), seed)).collect();
        let best = fixed.iter().map(|rates| total(rates)).max().expect("nine depths");
        let ratio = total(&goodput) * 1_000 / best;
        assert!(1_030 <= ratio, "{ratio} thousandths of the best fixed depth");
        for (phase, rate) in goodput.iter().enumerate() {
            let best = fixed.iter().map(|rates| rates[phase]).max().expect("nine depths");
            // It has to find the depth that the best fixed one was told.
            assert!(best * 95 <= rate * 100, "phase {phase}: {rate} of {best}");
        }
        let rules = [Policy::BatchTable(DepthTable::default()), Policy::Threshold];
        for rule in rules {
            let name = rule.name();
            let rates = run(rule, seed);
            assert!(total(&rates) <= total(&goodput), "{name} brings more");
        }
    }
}

#[test]
fn equal_inputs_give_equal_decisions() {
    assert_eq!(run(Policy::Goodput, 7), run(Policy::Goodput, 7));
}
