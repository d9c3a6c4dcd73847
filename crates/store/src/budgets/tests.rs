//! What may be spent, when, and how an overrun is paid back.

use super::*;

const SECOND: Micros = Micros::new(1_000_000);

fn limits(requests: u32, tokens: u32) -> Limits {
    Limits {
        requests_per_minute: NonZeroU32::new(requests),
        tokens_per_minute: NonZeroU32::new(tokens),
    }
}

fn need(tokens: u32) -> Need {
    Need { requests: 1, tokens, extent: Extent::Limited }
}

#[test]
fn a_minutes_worth_may_go_at_once_and_flows_in_evenly() {
    let (budgets, mut now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(60, 0);
    for _ in 0..60 {
        assert_eq!(budgets.try_spend(1, limits, need(5), now), Ok(()));
    }
    assert_eq!(budgets.try_spend(1, limits, need(5), now), Err(RetryAfter::Requests(SECOND)));
    assert_eq!(budgets.try_spend(2, limits, need(5), now), Ok(()), "others have their own");
    now = now + SECOND;
    assert_eq!(budgets.try_spend(1, limits, need(5), now), Ok(()));
    assert!(budgets.try_spend(1, limits, need(5), now).is_err());
}

#[test]
fn tokens_that_were_not_needed_are_given_back() {
    let (budgets, now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(0, 100);
    assert_eq!(budgets.try_spend(1, limits, need(101), now), Err(RetryAfter::Never));
    assert_eq!(budgets.try_spend(1, limits, need(80), now), Ok(()));
    assert!(matches!(budgets.try_spend(1, limits, need(80), now), Err(RetryAfter::Tokens(_))));
    budgets.settle(1, limits, need(80), 20, now);
    assert_eq!(budgets.try_spend(1, limits, need(80), now), Ok(()));
    assert_eq!(budgets.standing(1, limits, now).tokens.unwrap().remaining, 0);
}

#[test]
fn what_others_spent_counts_and_what_is_spent_meanwhile_is_not_lost() {
    let (budgets, now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(100, 0);
    budgets.try_spend(1, limits, need(0), now).unwrap();
    let debit = budgets.debit(now);
    assert_eq!(debit.due.len(), 1);
    assert_eq!(debit.due[0].spent, 1_000);
    budgets.try_spend(1, limits, need(0), now).unwrap();
    budgets.note_gateways(2);
    // Another gateway has spent 89 of them.
    budgets.exchanged(&debit, &[90_000], now);
    assert_eq!(budgets.standing(1, limits, now).requests.unwrap().remaining, 9);
    assert_eq!(budgets.debit(now).due[0].spent, 1_000);
}

#[test]
fn what_was_not_answered_is_told_again_as_it_was_and_the_rest_after_it() {
    let (budgets, now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(100, 0);
    budgets.try_spend(1, limits, need(0), now).unwrap();
    let first = budgets.debit(now);
    for _ in 0..2 {
        budgets.try_spend(1, limits, need(0), now).unwrap();
        assert_eq!(budgets.debit(now), first, "it is the same, whatever was spent since");
    }
    budgets.exchanged(&first, &[1_000], now);
    assert_eq!(budgets.standing(1, limits, now).requests.unwrap().remaining, 97);
    let second = budgets.debit(now);
    assert_eq!((second.number, second.due[0].spent), (first.number + 1, 2_000));
    // A bucket that was forgotten meanwhile gets nothing back for what the one before had told.
    budgets.retain(&BTreeSet::new());
    budgets.try_spend(1, limits, need(0), now).unwrap();
    budgets.exchanged(&second, &[3_000], now);
    assert_eq!(budgets.debit(now).due[0].spent, 1_000);
}

/// Nine requests in ten of the limit for half an hour without Redis owe nobody anything when it is back.
#[test]
fn what_flowed_back_while_redis_was_away_is_not_told() {
    let (budgets, mut now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(600, 0);
    for _ in 0..30 * 540 {
        assert_eq!(budgets.try_spend(1, limits, need(0), now), Ok(()));
        now = now + Micros::new(111_111);
    }
    let debit = budgets.debit(now);
    assert_eq!(debit.due[0].spent, 0);
    budgets.exchanged(&debit, &[0], now);
    // Also where nothing was spent from the bucket since: what is missing is told, and no more.
    for _ in 0..600 {
        assert_eq!(budgets.try_spend(1, limits, need(0), now), Ok(()));
    }
    now = now + Micros::new(30_000_000);
    assert_eq!(budgets.debit(now).due[0].spent, 300_000);
}

/// Each gateway's part flows back to it, so that what all of them tell is what is missing over all.
#[test]
fn what_gateways_tell_after_redis_was_away_adds_up() {
    let limits = limits(600, 0);
    let told = [(); 2].map(|()| {
        let (budgets, now) = (Budgets::default(), Instant::ORIGIN);
        budgets.note_gateways(2);
        let spent = (0..600).filter(|_| budgets.try_spend(1, limits, need(0), now).is_ok()).count();
        assert_eq!(spent, 300);
        budgets.debit(now + Micros::new(30_000_000)).due[0].spent
    });
    assert_eq!(told, [150_000; 2]);
}

#[test]
fn what_is_given_back_is_told_however_full_the_bucket_is() {
    let (budgets, mut now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(0, 100);
    budgets.try_spend(1, limits, need(80), now).unwrap();
    let debit = budgets.debit(now);
    budgets.exchanged(&debit, &[80_000], now);
    now = now + Micros::new(60_000_000);
    budgets.settle(1, limits, need(80), 20, now);
    assert_eq!(budgets.standing(1, limits, now).tokens.unwrap().remaining, 100);
    now = now + Micros::new(60_000_000);
    assert_eq!(budgets.debit(now).due[0].spent, -60_000);
}

#[test]
fn what_flowed_back_of_a_debit_without_an_answer_is_not_told_again() {
    let (budgets, mut now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(600, 0);
    // What is spent later flows back later.
    for _ in 0..300 {
        budgets.try_spend(1, limits, need(0), now).unwrap();
    }
    let first = budgets.debit(now);
    for _ in 0..200 {
        budgets.try_spend(1, limits, need(0), now).unwrap();
    }
    for left in [250_000, 200_000] {
        now = now + Micros::new(5_000_000);
        let again = budgets.debit(now);
        assert_eq!((again.number, again.due[0].spent), (first.number, left));
    }
    budgets.exchanged(&first, &[200_000], now);
    assert_eq!(budgets.standing(1, limits, now).requests.unwrap().remaining, 200);
    assert_eq!(budgets.debit(now).due[0].spent, 200_000);
}

#[test]
fn a_debit_without_an_answer_is_dropped_before_redis_forgets_its_number() {
    let (budgets, start) = (Budgets::default(), Instant::ORIGIN + SECOND);
    let limits = limits(100, 0);
    budgets.try_spend(1, limits, need(0), start).unwrap();
    let first = budgets.debit(start);
    let kept = DEBIT_LIFE.get() - DEBIT_MARGIN.get();
    let now = start + Micros::new(kept - 1);
    assert_eq!(budgets.debit(now).number, first.number);
    let now = start + Micros::new(kept);
    budgets.try_spend(1, limits, need(0), now).unwrap();
    let second = budgets.debit(now);
    assert_eq!((second.number, second.due[0].spent), (first.number + 1, 1_000));
    // The answer to the one that was dropped says nothing of the other.
    budgets.exchanged(&first, &[0], now);
    assert_eq!(budgets.standing(1, limits, now).requests.unwrap().remaining, 99);
    assert_eq!(budgets.debit(now), second);
}

#[test]
fn cut_off_each_gateway_has_its_part() {
    let (budgets, mut now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(100, 0);
    budgets.note_gateways(4);
    budgets.exchanged(&Debit::default(), &[], now);
    assert_eq!(budgets.standing(1, limits, now).requests.unwrap().remaining, 100);
    now = now + EXCHANGE_LIFE;
    let admitted = (0..200).filter(|_| budgets.try_spend(1, limits, need(0), now).is_ok()).count();
    assert_eq!(admitted, 25);
}

/// A hundred at once whose answers are ten times as long as expected: some are let through, and what they
/// took beyond the budget flows in before anybody may spend again.
#[test]
fn an_overrun_is_bounded_and_paid_back_in_full() {
    let (budgets, mut now) = (Budgets::default(), Instant::ORIGIN);
    let (limits, used) = (limits(0, 10_000), 4_010);
    let open = Need { requests: 1, tokens: 280, extent: Extent::Unlimited };
    let served = (0..100).filter(|_| budgets.try_spend(1, limits, open, now).is_ok()).count();
    for _ in 0..served {
        budgets.settle(1, limits, open, used, now);
    }
    let spent = used * served as u64;
    assert!((10_000..=20_000).contains(&spent), "{served}");
    let reset = budgets.standing(1, limits, now).tokens.unwrap().reset;
    assert_eq!(reset.get(), spent * 6_000);
    now = now + Micros::new(reset.get() - 6_000 * 280 - 1);
    assert!(matches!(budgets.try_spend(1, limits, need(10_000), now), Err(RetryAfter::Tokens(_))));
    // Now it is known how long they are, and one after the other is let through.
    now = now + reset;
    let again = (0..100).filter(|_| budgets.try_spend(1, limits, open, now).is_ok()).count();
    assert_eq!(again, 5);
}

#[test]
fn short_answers_make_room_for_many_without_a_limit() {
    let (budgets, now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(0, 10_000);
    let open = Need { requests: 1, tokens: 100, extent: Extent::Unlimited };
    let most = || (0..200).filter(|_| budgets.try_spend(1, limits, open, now).is_ok()).count();
    let first = most();
    for _ in 0..first {
        budgets.settle(1, limits, open, 100, now);
    }
    assert!(first < 10 && 60 < most(), "{first}");
}

#[test]
fn one_that_was_forsaken_holds_nobody_back() {
    let (budgets, now) = (Budgets::default(), Instant::ORIGIN);
    let limits = limits(0, 100);
    let open = Need { requests: 1, tokens: 1, extent: Extent::Unlimited };
    for _ in 0..90 {
        assert_eq!(budgets.try_spend(1, limits, open, now), Ok(()));
        budgets.forsake(1, open);
    }
}
