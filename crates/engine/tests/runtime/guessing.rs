//! Guessing ahead changes how many steps an answer takes, and nothing else of it.

use std::sync::Arc;

use overdraft_engine::echo::{ECHO_TURN_END, Noise};
use overdraft_engine::{
    Backend, BackendError, BlockPrefix, Drafter, EchoBackend, Engine, EngineSettings, FinishReason,
    GuessError, Guessing, Lookup, Policy, Request, Speculation, StartError, Unobserved,
};
use overdraft_units::{Blocks, CacheSalt, Tokens};
use proptest::prelude::*;

use crate::support::{
    Answer, TOKENIZER, altered, ask, chat, drawing, echo, read, request, settings, start, submit,
    wait,
};

/// An echo that is wrong at one position in so many: its best token changes places with another.
fn crooked(blocks: u32, wrong_one_in: u32) -> Box<dyn Backend> {
    Box::new(altered(echo(blocks, Noise::Lively), move |echo, batch, logits| {
        echo.forward(batch, logits)?;
        for row in logits.chunks_exact_mut(echo.shape().vocabulary) {
            // The noise is a function of the tokens so far, and so is what is made of it.
            if row[17].to_bits() / 64 % wrong_one_in == 0 {
                row.rotate_right(1);
            }
        }
        Ok(())
    }))
}

/// An echo that is wrong at one position in three, and unsure where it is; else it is sure.
fn unsure(blocks: u32) -> Box<dyn Backend> {
    Box::new(altered(echo(blocks, Noise::Lively), move |echo, batch, logits| {
        echo.forward(batch, logits)?;
        for row in logits.chunks_exact_mut(echo.shape().vocabulary) {
            let wrong = row[17].to_bits() / 64 % 3 == 0;
            if wrong {
                row.rotate_right(1);
            }
            for logit in row {
                *logit *= if wrong { 0.01 } else { 100.0 };
            }
        }
        Ok(())
    }))
}

/// An echo that takes its time, and as much again for each row.
fn slow(blocks: u32) -> Box<dyn Backend> {
    #[expect(clippy::disallowed_methods, reason = "a step that takes long is what is asked about")]
    fn wait(rows: u32) {
        std::thread::sleep(std::time::Duration::from_micros(200) * (rows + 1));
    }
    Box::new(altered(echo(blocks, Noise::Lively), move |echo, batch, logits| {
        let rows: usize = batch.iter().map(|slot| slot.tokens.len()).sum();
        wait(u32::try_from(rows).expect("few rows"));
        echo.forward(batch, logits)
    }))
}

#[test]
fn what_was_left_out_is_counted_and_the_answer_is_the_targets() {
    let plain = start(echo(64, Noise::Lively), settings());
    let speculation = Speculation {
        policy: Policy::Goodput,
        depth_max: 8,
        lookup: None,
        draft: Some(unsure(64)),
    };
    let (codec, observer) = (TOKENIZER.clone(), Box::new(Unobserved));
    let engine = Engine::start_guessing(slow(64), codec, settings(), observer, speculation);
    let engine = engine.expect("the settings are sound");
    let handle = engine.handle();
    let mut learnt = handle.stats().speculation;
    for number in 0..32 {
        if number == 16 {
            // By now it is known what a doubtful guess is worth.
            learnt = handle.stats().speculation;
        }
        let message =
            format!("{number} sheep are as good as any other {number} sheep, said the wolf");
        assert_eq!(ask(&engine, chat(&message)).tokens, ask(&plain, chat(&message)).tokens);
    }
    let stats = handle.stats().speculation.since(&learnt);
    assert!(0 < stats.dropped_tokens, "{stats:?}");
    // What is verified is mostly right, where two in three of all guesses are.
    let made = stats.draft_tokens + stats.dropped_tokens;
    assert!(0.85 < stats.acceptance_rate(), "{stats:?}");
    assert!(10 * stats.accepted_tokens < 8 * made, "{stats:?}");
    // Where a right guess is the last token of all, none is drawn after it.
    let most = stats.sequence_steps + stats.accepted_tokens;
    assert!((most - 16..=most).contains(&stats.tokens), "{stats:?}");
}

fn guessing(target: EchoBackend, settings: EngineSettings, speculation: Speculation) -> Engine {
    let codec = TOKENIZER.clone();
    Engine::start_guessing(Box::new(target), codec, settings, Box::new(Unobserved), speculation)
        .expect("the settings are sound")
}

/// The draft model has none of the pages that came from elsewhere, and reads them again.
#[test]
fn guesses_go_on_from_pages_that_came_from_elsewhere() {
    let message = "what somebody else has computed, and the draft model has never seen";
    let one = start(echo(64, Noise::Lively), settings());
    let right = ask(&one, chat(message));
    let prefix =
        BlockPrefix { salt: CacheSalt(0), tokens: Arc::from(chat(message).prompt.as_slice()) };
    let blocks = wait(one.handle().export_blocks(prefix.clone(), 0..64)).expect("an echo can");
    for policy_text in POLICIES {
        let speculation = Speculation {
            policy: policy(policy_text),
            depth_max: 4,
            lookup: None,
            draft: Some(crooked(64, 3)),
        };
        let other = guessing(echo(64, Noise::Lively), settings(), speculation);
        let handle = other.handle();
        let imported = wait(handle.import_blocks(prefix.clone(), 0, blocks.clone()));
        assert_eq!(imported.expect("an echo can").written, blocks.len());
        let answer = ask(&other, chat(message));
        assert_eq!(answer.tokens, right.tokens, "{policy_text}");
        assert!(Tokens::new(60) < answer.usage.cached, "{policy_text}");
    }
}

fn policy(text: &str) -> Policy {
    text.parse().expect("the name of a policy")
}

const POLICIES: [&str; 6] =
    ["off", "fixed:1", "fixed:5", "threshold", "batch-table:1-3=8,4-99=2", "goodput"];

/// Requests of every kind, some alike, some with ends inside of what is guessed.
fn requests(count: u16) -> Vec<Request> {
    let numbered = |number: u16| {
        let prompt = format!("{} sheep and {} sheep and ", number % 5, number % 5);
        let mut asked = match number % 4 {
            0 => request(&prompt),
            1 => chat(&format!("say it again, say it again: {number}")),
            _ => drawing(&prompt, number),
        };
        asked.salt = CacheSalt(u64::from(number % 2));
        asked.sampling.max_tokens = Tokens::new(20 + u32::from(number % 7));
        if number % 6 == 5 {
            asked.sampling.stop = vec!["p an".to_owned()];
        }
        if number % 6 == 3 {
            asked.sampling.stop_tokens = vec![overdraft_units::TokenId(u32::from(b'd'))];
            asked.sampling.min_tokens = Tokens::new(9);
        }
        asked
    };
    (0..count).map(numbered).collect()
}

fn all(engine: &Engine, requests: &[Request]) -> Vec<Answer> {
    let submit_one =
        |request: &Request| submit(&engine.handle(), request.clone()).expect("a place");
    let streams: Vec<_> = requests.iter().map(submit_one).collect();
    let answers = streams.into_iter().map(read);
    // What was cached depends on who ran when.
    answers
        .map(|answer| Answer {
            usage: overdraft_engine::Usage { cached: Tokens::ZERO, accepted: None, ..answer.usage },
            ..answer
        })
        .collect()
}

#[track_caller]
fn check_same(blocks: u32, lookup: Option<Lookup>, wrong_one_in: Option<u32>) {
    let asked = requests(24);
    let plain = guessing(echo(blocks, Noise::Lively), settings(), Speculation::default());
    let expected = all(&plain, &asked);
    for name in POLICIES {
        let speculation = Speculation {
            policy: policy(name),
            depth_max: 8,
            lookup,
            draft: wrong_one_in.map(|wrong| crooked(blocks, wrong)),
        };
        let engine = guessing(echo(blocks, Noise::Lively), settings(), speculation);
        assert_eq!(all(&engine, &asked), expected, "{name}");
        let stats = engine.handle().stats();
        let guessed = stats.speculation.accepted_tokens;
        assert_eq!(stats.batch.blocks_held, Blocks::ZERO, "{name}");
        let steps = stats.speculation.sequence_steps;
        assert_eq!(stats.generation_tokens, plain.handle().stats().generation_tokens);
        // First tokens come with prompts, not with decoding; and where a right guess is the last token
        // of all, none is drawn after it.
        let ends = u64::try_from(asked.len()).expect("few");
        let (tokens, again) = (stats.generation_tokens, stats.batch.preemptions);
        let counted = tokens - ends - again..=tokens;
        assert!(counted.contains(&(steps + guessed)), "{name}: {steps} {guessed} {tokens}");
        assert!(name != "off" || guessed == 0, "{name}: {guessed} guesses were right");
        assert!(!name.starts_with("fixed") || 0 < guessed, "{name}: no guess was right");
    }
}

#[test]
fn answers_are_the_same_with_lookups_under_every_policy() {
    check_same(512, Some(Lookup::default()), None);
}

#[test]
fn answers_are_the_same_with_a_draft_model_under_every_policy() {
    check_same(512, None, Some(3));
}

#[test]
fn answers_are_the_same_with_both_and_a_cache_that_is_too_small() {
    check_same(40, Some(Lookup::default()), Some(5));
}

#[test]
fn a_good_draft_model_saves_steps() {
    let speculation = Speculation {
        policy: policy("fixed:4"),
        depth_max: 8,
        lookup: None,
        draft: Some(Box::new(echo(64, Noise::Quiet))),
    };
    let engine = guessing(echo(64, Noise::Quiet), settings(), speculation);
    let answer = ask(&engine, request("one two. "));
    assert_eq!(answer.text, "one two. one two. one two. one t");
    let stats = engine.handle().stats();
    // The first token comes with the prompt; then 31 in steps of five.
    assert_eq!((stats.steps, stats.generation_tokens), (1 + 7, 32));
    // The last of those has room for one token, which is drawn.
    assert_eq!(stats.speculation.accepted_per_position[..5], [6, 6, 6, 6, 0]);
    assert_eq!((stats.speculation.drafts, stats.speculation.accepted_tokens), (6, 24));
    assert_eq!(
        stats.speculation.draft_tokens_by[Drafter::Model.place()],
        stats.speculation.draft_tokens
    );
}

#[test]
fn the_draft_models_cache_keeps_in_step_through_prefixes_and_turns() {
    let speculation = Speculation {
        policy: policy("fixed:4"),
        depth_max: 8,
        lookup: None,
        draft: Some(Box::new(echo(512, Noise::Quiet))),
    };
    let engine = guessing(echo(512, Noise::Quiet), settings(), speculation);
    for round in 0..20 {
        // Equal beginnings, so pages are shared; a wrong page would make the draft model stutter.
        let prompt = format!("a common beginning of some length, and then {}. ", round % 4);
        let answer = ask(&engine, request(&prompt));
        assert!(answer.text.starts_with("a common"), "{}", answer.text);
    }
    let stats = engine.handle().stats().speculation;
    // All but what the ends cut off.
    assert_eq!(stats.accepted_tokens, stats.draft_tokens);
}

#[test]
fn a_page_that_the_target_exchanges_is_read_again_by_the_draft_model() {
    let speculation = Speculation {
        policy: policy("fixed:4"),
        depth_max: 8,
        lookup: None,
        draft: Some(Box::new(echo(512, Noise::Quiet))),
    };
    let engine = guessing(echo(512, Noise::Quiet), settings(), speculation);
    let prompt = "a beginning of some length, and an end. ";
    let mut alone = request(prompt);
    alone.sampling.guessing = Guessing::Never;
    let expected = ask(&engine, alone);
    assert_eq!(engine.handle().stats().speculation.drafts, 0);
    // Each page that fills gives way to that of the first answer, which the draft model never wrote.
    let answer = ask(&engine, request(prompt));
    assert_eq!(answer.text, expected.text);
    let stats = engine.handle().stats().speculation;
    assert!(0 < stats.draft_tokens, "{stats:?}");
    assert_eq!(stats.accepted_tokens, stats.draft_tokens);
}

#[test]
fn an_end_inside_of_a_draft_ends_the_answer_there() {
    let speculation = || Speculation {
        policy: policy("fixed:8"),
        depth_max: 8,
        lookup: None,
        draft: Some(Box::new(echo(64, Noise::Quiet))),
    };
    let engine = guessing(echo(64, Noise::Quiet), settings(), speculation());
    let answer = ask(&engine, chat("hi"));
    assert_eq!((answer.text.as_str(), answer.reason), ("hi", FinishReason::Stop(None)));
    assert_eq!(answer.tokens.last(), Some(&ECHO_TURN_END));
    let mut short = request("one two. ");
    short.sampling.max_tokens = Tokens::new(3);
    let answer = ask(&engine, short);
    assert_eq!((answer.text.as_str(), answer.reason), ("one", FinishReason::Length));
    let mut stopped = request("one two. ");
    stopped.sampling.stop = vec!["e t".to_owned()];
    let answer = ask(&engine, stopped);
    assert_eq!((answer.text.as_str(), answer.tokens.len()), ("on", 5));
}

#[test]
fn who_asks_that_nobody_guesses_is_not_guessed_for() {
    let speculation = Speculation {
        policy: policy("fixed:4"),
        depth_max: 8,
        lookup: Some(Lookup::default()),
        draft: Some(Box::new(echo(64, Noise::Quiet))),
    };
    let engine = guessing(echo(64, Noise::Quiet), settings(), speculation);
    let mut never = request("one two. one two. ");
    never.sampling.guessing = Guessing::Never;
    ask(&engine, never);
    assert_eq!(engine.handle().stats().speculation.drafts, 0);
    let mut lookups = request("one two. one two. ");
    lookups.sampling.guessing = Guessing::Only(Drafter::Lookup);
    ask(&engine, lookups);
    let stats = engine.handle().stats().speculation;
    assert!(0 < stats.draft_tokens_by[0] && stats.draft_tokens_by[1] == 0, "{stats:?}");
}

#[test]
fn another_rule_counts_from_the_next_step_on() {
    let speculation = Speculation {
        policy: Policy::Off,
        depth_max: 8,
        lookup: None,
        draft: Some(Box::new(echo(64, Noise::Quiet))),
    };
    let engine = guessing(echo(64, Noise::Quiet), settings(), speculation);
    ask(&engine, request("one two. "));
    assert_eq!(engine.handle().stats().speculation.drafts, 0);
    engine.handle().set_speculation(Some(policy("fixed:2")), None).unwrap();
    ask(&engine, request("three four. "));
    let stats = engine.handle().stats().speculation;
    assert!(0 < stats.drafts && stats.draft_tokens <= 2 * stats.drafts, "{stats:?}");
    assert_eq!((stats.policy, stats.depth_max), ("fixed", 8));
    let refused = engine.handle().set_speculation(None, Some(9)).unwrap_err();
    assert_eq!(refused, GuessError::Depth { asked: 9 });
    let plain = guessing(echo(64, Noise::Quiet), settings(), Speculation::default());
    let refused = plain.handle().set_speculation(None, Some(4)).unwrap_err();
    assert_eq!(refused, GuessError::NoDrafter);
}

#[test]
fn a_draft_model_that_fails_is_done_without() {
    // The profile takes some eighty steps.
    for left in [1, 60, 90, 92, 94] {
        let mut steps = 0;
        let draft = altered(echo(64, Noise::Quiet), move |echo, batch, logits| {
            steps += 1;
            if left <= steps {
                return Err(BackendError { reason: "out of luck".to_owned() });
            }
            echo.forward(batch, logits)
        });
        let speculation = Speculation {
            policy: policy("fixed:4"),
            depth_max: 8,
            lookup: None,
            draft: Some(Box::new(draft)),
        };
        let engine = guessing(echo(64, Noise::Quiet), settings(), speculation);
        for _ in 0..4 {
            assert_eq!(ask(&engine, request("one two. ")).text, "one two. one two. one two. one t");
        }
        assert!(engine.handle().health().is_serving());
        assert_eq!(engine.handle().stats().steps_failed, 0);
    }
}

#[test]
fn a_draft_model_with_other_pages_is_refused() {
    let speculation = Speculation {
        policy: Policy::Goodput,
        depth_max: 4,
        lookup: None,
        draft: Some(Box::new(echo(63, Noise::Quiet))),
    };
    let target = Box::new(echo(64, Noise::Quiet));
    let codec = Arc::clone(&TOKENIZER);
    let started =
        Engine::start_guessing(target, codec, settings(), Box::new(Unobserved), speculation);
    let Err(error) = started else { panic!("too few pages") };
    assert!(matches!(error, StartError::Draft(_)));
    let sentence =
        "the draft model's number of blocks is `63`; expected at least 64, as the target's";
    assert_eq!(error.to_string(), sentence);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the drafter, the cache, the budget of a step, and whoever leaves in the middle: what
    /// is emitted is what the target alone says with the same seeds, no token twice, and every page
    /// comes back.
    #[test]
    fn the_emitted_stream_is_the_targets_own(
        blocks in 20..120_u32,
        step_tokens in 4..64_u32,
        wrong_one_in in 1..12_u32,
        both in any::<bool>(),
        name in prop::sample::select(POLICIES.to_vec()),
        count in 2..14_u16,
        leavers in prop::collection::vec((0..14_usize, 0..12_usize), 0..4),
    ) {
        let asked = requests(count);
        let plain = guessing(echo(512, Noise::Lively), settings(), Speculation::default());
        let expected = all(&plain, &asked);
        let speculation = Speculation {
            policy: policy(name),
            depth_max: 6,
            lookup: both.then(Lookup::default),
            draft: Some(crooked(blocks, wrong_one_in)),
        };
        let small = EngineSettings { step_tokens: Tokens::new(step_tokens), ..settings() };
        let engine = guessing(echo(blocks, Noise::Lively), small, speculation);
        let mut streams: Vec<_> = asked
            .iter()
            .map(|request| Some(submit(&engine.handle(), request.clone()).expect("it fits")))
            .collect();
        for (leaver, events) in leavers {
            if let Some(Some(mut stream)) = streams.get_mut(leaver).map(Option::take) {
                for _ in 0..events {
                    if stream.blocking_recv().is_none() {
                        break;
                    }
                }
            }
        }
        for (stream, expected) in streams.into_iter().zip(expected) {
            let Some(stream) = stream else { continue };
            let answer = read(stream);
            prop_assert_eq!(answer.tokens, expected.tokens);
            prop_assert_eq!(answer.logprobs, expected.logprobs);
            prop_assert_eq!((answer.text, answer.reason), (expected.text, expected.reason));
        }
        engine.handle().drain();
        wait(engine.handle().drained());
        let stats = engine.handle().stats();
        prop_assert_eq!((stats.batch.running, stats.batch.blocks_held), (0, Blocks::ZERO));
        prop_assert_eq!(stats.steps_failed, 0);
    }
}
