//! How long answers are, and that pages hold what they should.

use overdraft_gpu_model::Catalogue;
use overdraft_tokenizer::{ControlTokens, SpecialTokens};
use overdraft_units::BlockId;

use super::*;

const PAGE: u32 = 16;

fn backend(lengths: AnswerLengths) -> SimulatedBackend {
    SimulatedBackend::new(SimulatedSettings {
        profile: Catalogue::builtin().find("h100/llama-3-8b-fp8").unwrap(),
        blocks: Blocks::new(512),
        block_size: BlockSize::new(PAGE).unwrap(),
        context: Tokens::new(4096),
        // Steps of milliseconds become microseconds.
        speed: 10_000.0,
        lengths,
        seed: 3,
        clock: Clock::start(),
    })
}

/// Pages `from..` in order.
fn table(from: u32) -> Vec<BlockId> {
    (from..from + 128).map(BlockId).collect()
}

/// The likeliest token after `tokens[start..]`, computed into those pages.
fn next(backend: &mut SimulatedBackend, tokens: &[TokenId], start: usize, from: u32) -> TokenId {
    let mut logits = Vec::new();
    let table = table(from);
    let slot = BatchSlot {
        tokens: &tokens[start..],
        start: u32::try_from(start).unwrap(),
        table: &table,
        logits: Logits::Last,
    };
    backend.forward(&[slot], &mut logits).unwrap();
    assert_eq!(logits.len(), index(VOCABULARY));
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
    TokenId(u32::try_from(best).unwrap())
}

/// The whole answer, computed token by token.
fn answer(backend: &mut SimulatedBackend, prompt: &str, from: u32) -> Vec<TokenId> {
    let mut tokens = tokenizer().encode(prompt, ControlTokens::Parsed);
    let (asked, mut start) = (tokens.len(), 0);
    while tokens.last() != Some(&ECHO_TURN_END) || tokens.len() == asked {
        assert!(tokens.len() < 2_000, "the answer has no end");
        let said = next(backend, &tokens, start, from);
        start = tokens.len();
        tokens.push(said);
    }
    tokens.split_off(asked)
}

#[track_caller]
fn check(prompt: &str, tokens: usize) {
    let mut backend = backend(AnswerLengths::Fixed(Tokens::new(7)));
    assert_eq!(answer(&mut backend, prompt, 0).len(), tokens);
}

#[test]
fn an_answer_has_the_length_that_its_prompt_asks_for() {
    check("tell me [answer:120]", 120);
    check("[answer:5] or rather [answer:50] please", 50);
    check("[[answer:9]", 9);
    check("[answer:12x] [answer:] is nothing", 2);
    check("tell me", 7);
    check("[answer:0]", 2);
}

#[test]
fn what_was_asked_for_in_an_earlier_turn_is_forgotten() {
    let mut backend = backend(AnswerLengths::Fixed(Tokens::new(7)));
    let mut tokens = tokenizer().encode("[answer:30]", ControlTokens::Parsed);
    tokens.extend([FIRST_WORD, ECHO_TURN_END]);
    tokens.extend(tokenizer().encode("and now?", ControlTokens::Parsed));
    let asked = tokens.len();
    let mut start = 0;
    while *tokens.last().unwrap() != ECHO_TURN_END {
        let said = next(&mut backend, &tokens, start, 0);
        start = tokens.len();
        tokens.push(said);
    }
    assert_eq!(tokens.len() - asked, 7);
}

#[test]
fn an_answer_is_words_that_can_be_read() {
    let mut backend = backend(AnswerLengths::Fixed(Tokens::new(9)));
    let said = answer(&mut backend, "hello", 0);
    let text = tokenizer().decode(&said, SpecialTokens::Skip);
    assert!(text.contains(" every") && text.contains(" simulated"), "{text}");
    let spelt = tokenizer().encode(" every token", ControlTokens::Parsed);
    assert!(spelt.iter().all(|token| token.0 < 256), "prompts are bytes: {spelt:?}");
}

#[test]
fn the_same_prompt_is_answered_alike_wherever_its_pages_lie_and_however_it_is_cut() {
    let mut backend = backend(AnswerLengths::default());
    let prompt = "a prompt that is longer than a page of sixteen tokens, and then some";
    let whole = answer(&mut backend, prompt, 0);
    assert_eq!(answer(&mut backend, prompt, 200), whole);
    // Preempted and computed again, what was said included, in other pages.
    let mut tokens = tokenizer().encode(prompt, ControlTokens::Parsed);
    let asked = tokens.len();
    tokens.extend(&whole[..whole.len() / 2]);
    for start in [0, asked, asked + 1] {
        let pages = if start == 0 { 300 } else { 0 };
        assert_eq!(next(&mut backend, &tokens, start, pages), whole[whole.len() / 2]);
    }
    let other = answer(&mut backend, "another prompt", 0);
    assert_ne!(other.len(), whole.len(), "lengths are drawn by the prompt");
}

#[test]
fn a_step_takes_what_the_profile_says_and_speed_divides_it() {
    let mut backend = backend(AnswerLengths::default());
    let tokens = [TokenId(1); 1000];
    let (long, short) = (table(0), table(200));
    let slots = [
        BatchSlot { tokens: &tokens, start: 0, table: &long, logits: Logits::Last },
        BatchSlot { tokens: &tokens[..1], start: 50, table: &short, logits: Logits::Last },
    ];
    let batch: Batch = [(0, 1000), (50, 1)]
        .map(|(before, length)| Chunk {
            before: Tokens::new(before),
            length: Tokens::new(length),
            samples: true,
        })
        .into_iter()
        .collect();
    let whole = backend.settings.profile.step(&batch);
    assert_eq!(backend.duration(&slots), whole.div_f64(10_000.0));
    backend.settings.speed = 0.5;
    assert_eq!(backend.duration(&slots), whole.div_f64(0.5));
}

#[test]
fn a_step_takes_longer_after_a_simulated_tenth_of_a_second_without_one() {
    let mut backend = backend(AnswerLengths::default());
    backend.settings.profile.wake = Micros::new(50_000);
    backend.settings.speed = 2.0;
    assert_eq!(backend.waking(Micros::new(49_000)), Micros::ZERO);
    assert_eq!(backend.waking(Micros::new(50_000)), Micros::new(25_000));
}

#[test]
fn a_page_that_several_decodes_read_counts_once() {
    let mut backend = backend(AnswerLengths::default());
    let token = [TokenId(1)];
    let (one, other) = (table(0), table(200));
    let slot = |table, start| BatchSlot { tokens: &token, start, table, logits: Logits::Last };
    let page = backend.settings.block_size.get();
    let pages = |slots: &[BatchSlot<'_>], backend: &mut SimulatedBackend| {
        backend.distinct(slots).get() / page
    };
    assert_eq!(pages(&[slot(&one, 5 * page)], &mut backend), 6);
    let both = [slot(&one, 5 * page), slot(&one, 3 * page), slot(&other, page - 1)];
    assert_eq!(pages(&both, &mut backend), 7, "six and one");
    assert_eq!(pages(&both, &mut backend), 7, "each step counts anew");
}

#[test]
fn a_table_that_is_too_short_is_an_error_and_no_panic() {
    let mut backend = backend(AnswerLengths::default());
    let tokens = [TokenId(1); 17];
    let slot = BatchSlot { tokens: &tokens, start: 0, table: &[], logits: Logits::Last };
    let error = backend.forward(&[slot], &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("position `0`"), "{error}");
}
