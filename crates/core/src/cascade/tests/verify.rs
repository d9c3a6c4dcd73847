//! What is kept of a draft that the target has scored.

use alloc::vec::Vec;

use overdraft_units::TokenId;

use super::super::{Finish, LogProb, Resume, TargetRow, VerifyError, verify, verify_told};
use super::Dice;

fn row(best: u32, best_micronats: i64, micronats: i64) -> TargetRow {
    TargetRow {
        best: TokenId(best),
        best_logprob: LogProb::micronats(best_micronats),
        logprob: LogProb::micronats(micronats),
    }
}

fn ids(ids: &[u32]) -> Vec<TokenId> {
    ids.iter().copied().map(TokenId).collect()
}

#[test]
fn a_greedy_draft_is_kept_up_to_where_the_target_differs() {
    let same = |id: u32| row(id, -100_000, -100_000);
    let draft = ids(&[5, 6, 7, 8]);
    let check = |rows: &[TargetRow], finish, accepted, ties, resume| {
        let found = verify(&draft, rows, finish).unwrap();
        assert_eq!((found.accepted, found.ties, found.resume), (accepted, ties, resume));
    };
    let all = [same(5), same(6), same(7), same(8)];
    check(&all, Finish::Stop, 4, 0, Resume::Nowhere);
    check(&all, Finish::Length, 4, 0, Resume::Behind);
    let mut rows = all;
    rows[2] = row(9, -100_000, -900_000);
    check(&rows, Finish::Stop, 2, 0, Resume::With(TokenId(9)));
    rows[2] = row(9, -700_000, -700_900);
    check(&rows, Finish::Stop, 4, 1, Resume::Nowhere);
    rows[2] = row(9, -700_000, -701_100);
    check(&rows, Finish::Stop, 2, 0, Resume::With(TokenId(9)));
    let short = verify(&draft, &all[..3], Finish::Stop);
    assert_eq!(short, Err(VerifyError::Rows { found: 3, expected: 4 }));
    let none = verify(&[], &[], Finish::Running).unwrap();
    assert_eq!((none.accepted, none.resume), (0, Resume::Behind));
}

/// Tokens with their chances, in hundredths.
fn told(chances: &[(u32, f64)]) -> Vec<(TokenId, LogProb)> {
    let log = |&(id, chance): &(u32, f64)| (TokenId(id), LogProb::from_nats((chance / 100.0).ln()));
    chances.iter().map(log).collect()
}

#[test]
fn a_token_is_kept_where_no_token_that_was_not_told_can_be_likelier() {
    let draft = ids(&[5, 6]);
    let sure = [(6, 99.0)];
    let check = |first: &[(u32, f64)], accepted, ties, resume| {
        let both = [told(first), told(&sure)];
        let found = verify_told(&draft, &both, Finish::Length).unwrap();
        assert_eq!(
            (found.accepted, found.ties, found.resume),
            (accepted, ties, resume),
            "{first:?}"
        );
    };
    // More than a half needs nobody else.
    check(&[(5, 51.0)], 2, 0, Resume::Behind);
    check(&[(5, 49.0)], 0, 0, Resume::Unproven);
    // The others leave less than its own chance, or more.
    check(&[(5, 40.0), (7, 30.0)], 2, 0, Resume::Behind);
    check(&[(5, 40.0), (7, 15.0)], 0, 0, Resume::Unproven);
    check(&[(5, 10.0), (7, 9.0), (8, 8.0)], 0, 0, Resume::Unproven);
    // Another is likelier, known to be the likeliest or not.
    check(&[(5, 30.0), (7, 60.0)], 0, 0, Resume::Astray);
    check(&[(5, 10.0), (7, 20.0)], 0, 0, Resume::Astray);
    check(&[(5, 0.0), (7, 20.0)], 0, 0, Resume::Astray);
    check(&[(5, 0.0)], 0, 0, Resume::Unproven);
    // As likely as another within a thousandth of a nat.
    check(&[(5, 40.0), (7, 40.02)], 2, 1, Resume::Behind);
    check(&[(5, 20.0), (7, 20.01)], 0, 0, Resume::Unproven);
    // Padding and tokens that cannot be said take nothing from the others.
    check(&[(5, 51.0), (7, 0.0), (8, 0.0)], 2, 0, Resume::Behind);
    let all = verify_told(&draft, &[told(&[(5, 99.0)]), told(&sure)], Finish::Stop).unwrap();
    assert_eq!(all.resume, Resume::Nowhere);
    assert_eq!(
        verify_told(&[], &[] as &[Vec<(TokenId, LogProb)>], Finish::Stop).unwrap().accepted,
        0
    );
}

#[test]
fn what_is_told_of_a_token_must_be_chances() {
    let draft = ids(&[5, 6]);
    let sure = told(&[(5, 99.0)]);
    // The first token goes astray, and still the second list is looked at.
    let astray = told(&[(5, 10.0), (9, 80.0)]);
    for bad in [told(&[(6, 70.0), (7, 40.0)]), told(&[(7, 90.0)]), told(&[])] {
        let found = verify_told(&draft, &[astray.clone(), bad], Finish::Stop);
        assert_eq!(found, Err(VerifyError::NoChances { place: 1 }));
    }
    let found = verify_told(&draft, &[sure], Finish::Stop);
    assert_eq!(found, Err(VerifyError::Rows { found: 1, expected: 2 }));
}

/// Whatever is told of a distribution, as 32-bit floats tell it: nothing but its likeliest token is ever accepted.
#[test]
fn what_is_proven_is_the_likeliest_of_all() {
    let mut dice = Dice::new(13);
    let (mut proven, mut open) = (0, 0);
    for _ in 0..20_000 {
        // From nearly even to nearly certain.
        let steep = 1 + dice.below(6);
        let weights: Vec<f64> =
            (0..12).map(|_| f64::from(1 + dice.below(1_000)).powi(steep.cast_signed())).collect();
        let sum: f64 = weights.iter().sum();
        let chances: Vec<f64> = weights.iter().map(|weight| weight / sum * 100.0).collect();
        let own = dice.below(12);
        let mut listed: Vec<(u32, f64)> = chances
            .iter()
            .enumerate()
            .map(|(id, &chance)| (u32::try_from(id).unwrap(), chance))
            .collect();
        listed.retain(|&(id, _)| id == own || dice.below(3) == 0);
        let found = verify_told(&[TokenId(own)], &[told(&listed)], Finish::Length).unwrap();
        let best = chances.iter().copied().fold(0.0, f64::max);
        let own = chances[usize::try_from(own).unwrap()];
        if found.accepted == 1 {
            proven += 1;
            assert!((best / own).ln() <= 0.001, "{own} of {best} was accepted: {listed:?}");
        } else if own >= best {
            open += 1;
            assert_eq!(found.resume, Resume::Unproven);
        }
    }
    assert!(proven > 300 && open > 300, "{proven} proven, {open} open: the test shows nothing");
}
