//! Reports: what a worker says of its cache, what its answers say of that, and when it is forgotten.

use super::*;
use crate::prefix::{Chunks, Event, Knowledge, Verdict};

/// One worker that has reported the first `blocks` of a prompt since its start.
fn reporting(prompt: &PrefixChain, blocks: usize) -> (Router, WorkerId) {
    let (mut router, ids) = router(1);
    router.reports_by(ids[0], block());
    router.cache_changed(ids[0], Event::Cleared);
    router.cache_changed(ids[0], Event::Stored { parent: None, keys: &prompt.keys()[..blocks] });
    (router, ids[0])
}

#[test]
fn answers_confirm_or_dispute_what_was_reported() {
    let prompt = chain(1, 64);
    let (mut router, id) = reporting(&prompt, 32);
    assert_eq!(router.prefixes().verdict(id), Verdict::Untested);
    let mut answers = |cached: u32| {
        let tried = Attempted { tried: &Tried::default(), turn: Turn::First };
        // Not remembered, so that only what was reported is known.
        let placed = router.place(request(&prompt), &by(Policy::Cost), tried, LATER).unwrap();
        let outcome = Outcome {
            prompt: Some(Tokens::new(64 * 16)),
            cached: Some(Tokens::new(cached)),
            ..Outcome::of(Ending::Answered)
        };
        router.end(placed, outcome, LATER);
        (router.prefixes().verdict(id), router.prefixes().knowledge(id))
    };
    assert_eq!(answers(32 * 16), (Verdict::Confirmed, Knowledge::Exact));
    assert_eq!(answers(31 * 16), (Verdict::Confirmed, Knowledge::Exact), "one block may be gone");
    let (verdict, knowledge) = answers(0);
    assert_eq!(verdict, Verdict::Refuted, "one in three");
    let Knowledge::Disputed { trust_permille } = knowledge else { panic!("{knowledge:?}") };
    assert!(trust_permille < 800, "matches count by what was confirmed: {trust_permille}");
    let recovered = (0..4).map(|_| answers(32 * 16)).last();
    assert_eq!(recovered, Some((Verdict::Confirmed, Knowledge::Exact)));
}

#[test]
fn what_a_process_reported_goes_with_it() {
    let prompt = chain(1, 64);
    let (mut router, id) = reporting(&prompt, 32);
    assert_eq!(router.prefixes().knowledge(id), Knowledge::Exact);
    let losses = router.cache_losses(id);
    router.probed(id, Probe::NoConnection, LATER);
    assert!(!router.fleet().worker(id).health().is_up());
    assert_eq!(router.prefixes().knowledge(id), Knowledge::Exact, "the network lost a packet");
    assert_eq!(router.cache_losses(id), losses);
    router.probed(id, Probe::Unreachable, LATER);
    assert!(matches!(router.prefixes().knowledge(id), Knowledge::Estimated { .. }));
    assert_eq!(router.prefixes().reported(id), Chunks::ZERO);
    assert_ne!(router.cache_losses(id), losses, "who follows it begins anew");
}

// Faults: 49
#[test]
fn of_a_process_that_has_begun_anew_nothing_is_believed() {
    let prompt = chain(1, 64);
    let (mut router, id) = reporting(&prompt, 32);
    let losses = router.cache_losses(id);
    router.restarted(id);
    assert!(matches!(router.prefixes().knowledge(id), Knowledge::Estimated { .. }));
    assert_eq!(router.prefixes().reported(id), Chunks::ZERO);
    assert_ne!(router.cache_losses(id), losses, "who follows it begins anew");
}
