//! What must hold of prices and of what follows from them.

use alloc::string::ToString;

use overdraft_units::{Micros, Ratio, Tokens};

use super::{
    Bill, Money, Pools, Price, Prices, Shape, Speed, Usage, Verification, break_even, feasibility,
};

fn prices(prompt: u64, completion: u64) -> Prices {
    Prices { prompt: Price::new(prompt), cached: Price::FREE, completion: Price::new(completion) }
}

/// A 70B model on two GPUs at $4 an hour beside an 8B model on a rented A10G, of a request of 1,000 and 250 tokens.
fn pools() -> Pools {
    Pools {
        draft: prices(127_000, 530_000),
        target: prices(157_000, 900_000),
        draft_speed: Speed { prompt: 3_000, completion: 22 },
        target_speed: Speed { prompt: 10_000, completion: 38 },
    }
}

#[track_caller]
fn check(cached_draft: u32, cached_target: u32, how: Verification, percent: u64) {
    let shape = Shape {
        prompt: Tokens::new(1_000),
        cached_draft: Tokens::new(cached_draft),
        cached_target: Tokens::new(cached_target),
        completion: Tokens::new(250),
    };
    let found = break_even(&shape, &pools(), how).money.unwrap();
    assert_eq!((found.millionths() + 5_000) / 10_000, percent, "{how:?}");
    assert_eq!(found.share().is_none(), 100 < percent);
}

#[test]
fn break_even_is_that_of_published_prices() {
    check(0, 0, Verification::None, 68);
    check(1_000, 1_000, Verification::None, 59);
    check(0, 0, Verification::Whole, 133);
    check(1_000, 1_000, Verification::Whole, 146);
}

#[test]
fn at_the_break_even_both_cost_the_same() {
    let (prompt, completion) = (Tokens::new(700), Tokens::new(300));
    let none = Tokens::ZERO;
    let shape = Shape { prompt, cached_draft: none, cached_target: none, completion };
    let pools = Pools { target: prices(1_000_000, 4_000_000), ..pools() };
    let share = break_even(&shape, &pools, Verification::None).money.unwrap().share().unwrap();
    let usage = Usage { prompt, cached: none, completion };
    let (draft, target) = (pools.draft.of(usage), pools.target.of(usage));
    let fallback = u128::from(target.get()) * u128::from(share.complement().get()) / 1_000_000;
    let both = u128::from(draft.get()) + fallback;
    assert!(both.abs_diff(u128::from(target.get())) * 100_000 < both);
    // With a pool that nobody measured nothing is said about time.
    let unknown = Pools { draft_speed: Speed::default(), ..pools };
    assert_eq!(break_even(&shape, &unknown, Verification::None).time, None);
    let time = break_even(&shape, &pools, Verification::None).time.unwrap();
    let drafted = pools.draft_speed.time(prompt, completion).unwrap().get();
    let answered = pools.target_speed.time(prompt, completion).unwrap().get();
    assert_eq!(time.millionths(), drafted * 1_000_000 / answered);
}

#[test]
fn no_threshold_accepts_more_than_is_feasible() {
    let found = feasibility(Ratio::percent(30), Ratio::percent(1));
    assert_eq!(found.abstain_least, Ratio::of(29, 99));
    assert_eq!(found.accept_most, Ratio::of(29, 99).complement());
    let free = feasibility(Ratio::permille(5), Ratio::percent(1));
    assert_eq!(free.accept_most, Ratio::WHOLE);
    assert_eq!(feasibility(Ratio::WHOLE, Ratio::percent(1)).accept_most, Ratio::NONE);
    assert_eq!(feasibility(Ratio::WHOLE, Ratio::WHOLE).accept_most, Ratio::WHOLE);
}

#[test]
fn a_machine_by_the_hour_has_prices_by_the_token() {
    // $4 an hour and 1,234.5 tokens a second are 90 cents for a million.
    let price = Price::of_machine(4_000_000, 1_234);
    assert_eq!(price.get() / 1_000, 900);
    assert_eq!(Price::of_machine(4_000_000, 0), Price::new(u64::MAX));
    let speed = Speed { prompt: 7_000, completion: 1_234 };
    let prices = Prices::of_machine(4_000_000, speed);
    assert_eq!((prices.completion, prices.cached), (price, Price::FREE));
    assert_eq!(speed.time(Tokens::new(7_000), Tokens::ZERO), Some(Micros::new(1_000_000)));
}

#[test]
fn a_bill_says_what_was_paid_and_what_was_not() {
    let usage = Usage {
        prompt: Tokens::new(1_000),
        cached: Tokens::new(400),
        completion: Tokens::new(250),
    };
    let cached = Price::new(10_000);
    let cost = Prices { cached, ..prices(100_000, 1_000_000) }.of(usage);
    // 600 at ten cents, 400 at one, 250 at a dollar, for a million each.
    assert_eq!(cost, Money::picodollars(60_000_000 + 4_000_000 + 250_000_000));
    assert_eq!(cost.to_string(), "$0.000314");
    assert_eq!(Money::picodollars(12_345_678_000_000).to_string(), "$12.345678");
    let mut sum = Bill::default();
    let (one, five) = (Money::picodollars(1), Money::picodollars(5));
    sum += Bill { draft: one, target_only: five, ..Bill::default() };
    assert_eq!(sum.saved(), Money::picodollars(4));
    sum += Bill { draft: five, target: five, target_only: one, ..Bill::default() };
    assert_eq!(sum.saved(), Money::ZERO);
}
