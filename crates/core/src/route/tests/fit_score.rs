//! Fit score: the formula of the write-up, budgets and refusals (C2, C3, C6).

use super::*;

#[test]
fn fit_score_is_the_write_ups_formula() {
    let (mut fleet, ids) = fleet(3);
    fleet.scraped(ids[0], scrape(500, 10_000, LATER), &Lengths::new());
    fleet.scraped(ids[1], scrape(400, 10_000, LATER), &Lengths::new());
    fleet.scraped(ids[2], scrape(0, 50, LATER), &Lengths::new());
    // The second has 6,000 tokens free, and was sent 2,500 since it said so.
    let held = fleet.start(ids[1], demand(2_500), Turn::First, LATER);
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::FitScore));
    let scores: Vec<u64> = decision.candidates.iter().map(|one| one.score).collect();
    // 0.5 * 0.8 + 0.5 * 0.2, and 0.6 * 0.8 + 0.35 * 0.2.
    assert_eq!(scores[..2], [500_000, 550_000]);
    assert_eq!(decision.candidates[2].reason, Reason::NoRoom, "fifty tokens for a hundred");
    assert_eq!(told(decision.choice), "send 1");
    // Long prompts weigh free cache at 0.95: 0.5 against 0.5875.
    let long = Ask { prompt: Tokens::new(2_049), ..ask(MODEL) };
    let decision = choose(&fleet, long, &Tried::default(), &by(Policy::FitScore));
    assert_eq!(decision.candidates[1].score, 587_500);
    assert_eq!(told(decision.choice), "send 1");
    let whole = Ask { prompt: Tokens::new(10_001), ..ask(MODEL) };
    let decision = choose(&fleet, whole, &Tried::default(), &by(Policy::FitScore));
    assert_eq!(told(decision.choice), "no room for 10001 in 5000");
    end(&mut fleet, held, Ending::Answered);
}

/// What `fit-score` makes of a prompt of so many tokens on one worker that said this of itself, and
/// was sent so much since: the score in thousandths, or what is free.
#[track_caller]
fn check_fit((use_permille, capacity): (u16, u32), sent: u32, prompt: u32, expected: &str) {
    let (mut fleet, ids) = fleet(1);
    let capacity = (0 < capacity).then_some(Tokens::new(capacity));
    let said = Scraped { kv_capacity: capacity, ..scrape(use_permille, 1, LATER) };
    fleet.scraped(ids[0], said, &Lengths::new());
    let held = (0 < sent).then(|| fleet.start(ids[0], demand(sent), Turn::First, LATER));
    let asked = Ask { prompt: Tokens::new(prompt), ..ask(MODEL) };
    let decision = choose(&fleet, asked, &Tried::default(), &by(Policy::FitScore));
    let shown = match decision.choice {
        Choice::Send(_) => format!("{}", (decision.candidates[0].score + 500) / 1_000),
        Choice::NoRoom { free, .. } => format!("{free} free"),
        other => told(other),
    };
    assert_eq!(shown, expected, "{decision:?}");
    if let Some(held) = held {
        end(&mut fleet, held, Ending::Answered);
    }
}

#[test]
fn c2_the_budget_is_what_the_worker_reports_less_what_was_sent_since() {
    // Full but for 410 of 8,192: it is skipped.
    check_fit((950, 8_192), 0, 3_008, "410 free");
    check_fit((950, 8_192), 0, 410, "50");
    check_fit((500, 8_192), 0, 3_008, "500");
    check_fit((500, 8_192), 2_000, 1_008, "451");
    check_fit((500, 8_192), 2_000, 3_008, "2096 free");
    // It says how much is in use, and not of how much: 8,192 as the write-up has it.
    check_fit((950, 0), 0, 3_008, "410 free");
    check_fit((250, 0), 0, 2_048, "750");
    check_fit((250, 0), 3_072, 2_048, "675");
    check_fit((250, 0), 3_072, 2_049, "731");
}

#[test]
fn c2_a_budget_that_is_set_counts_whatever_the_worker_could_hold() {
    let (mut fleet, ids) = fleet(1);
    fleet.scraped(ids[0], scrape(100, 400_000, LATER), &Lengths::new());
    let set = FitScore { token_budget: Some(8_192), ..FitScore::default() };
    let settings = RouteSettings { fit_score: set, ..by(Policy::FitScore) };
    let asked = Ask { prompt: Tokens::new(9_000), ..ask(MODEL) };
    let decision = choose(&fleet, asked, &Tried::default(), &settings);
    assert_eq!(told(decision.choice), "no room for 9000 in 7373");
    let decision = choose(&fleet, asked, &Tried::default(), &by(Policy::FitScore));
    assert_eq!(told(decision.choice), "send 0");
}

/// What becomes of a prompt of text on one worker with room for 8,192 tokens, under the settings as they
/// come.
#[track_caller]
fn check_text(policy: Policy, (bytes, words): (u64, u64), expected: &str) {
    let (mut router, ids) = router(1);
    router.scraped(ids[0], scrape(0, 8_192, LATER));
    let (media, chunk) = (Media::default(), 512.try_into().unwrap());
    let prompt = Prompt::Text { bytes, words, media, chain: &[], chunk };
    let short = chain(1, 1);
    let asked = Request { prompt, ..request(&short) };
    let settings = RouteSettings { policy, ..RouteSettings::default() };
    let placed = router.place(
        asked,
        &settings,
        Attempted { tried: &Tried::default(), turn: Turn::First },
        LATER,
    );
    let told = match &placed {
        Ok(_) => "sent".to_string(),
        Err(Choice::NoRoom { asked, most, .. }) if most < asked => format!("{asked} over {most}"),
        Err(choice) => told(*choice),
    };
    assert_eq!(told, expected, "{policy}");
    if let Ok(placed) = placed {
        router.end(placed, Outcome::of(Ending::Answered), LATER);
    }
}

#[test]
fn c3_text_that_no_cache_could_hold_is_refused_at_once_and_pictures_are_sent() {
    for policy in [Policy::Cost, Policy::LeastLoad] {
        check_text(policy, (32_000, 32_000), "sent");
        // Twice the usual bytes to a token, and it would fit.
        check_text(policy, (64_000, 64_000), "sent");
        check_text(policy, (68_000, 68_000), "17000 over 8192");
        check_text(policy, (680_000, 0), "sent");
    }
    check_text(Policy::FitScore, (32_000, 32_000), "sent");
    check_text(Policy::FitScore, (36_000, 36_000), "9000 over 8192");
    check_text(Policy::FitScore, (36_000, 0), "sent");
}

#[test]
fn c6_the_fit_score_that_is_told_is_the_one_that_decided() {
    let (mut router, ids) = router(1);
    router.scraped(ids[0], scrape(400, 8_192, LATER));
    let prompt = chain(1, 20);
    let settings = by(Policy::FitScore);
    let first = Attempted { tried: &Tried::default(), turn: Turn::First };
    let placed = router.place(request(&prompt), &settings, first, LATER).unwrap();
    // 0.6 * 0.8 + 0.6 * 0.2; after booking 320 tokens it would be 0.592.
    assert_eq!(router.decision().fit_permille, Some(600));
    router.end(placed, Outcome::of(Ending::Answered), LATER);
}
