//! The loop over an echo: what a request gets, alone and among others.

use std::iter;
use std::task::{Context, Waker};

use crate::support::{
    Answer, ask, chat, drawing, echo, gated, read, request, settings, start, submit, wait,
};
use overdraft_engine::echo::{ECHO_TURN_END, Noise};
use overdraft_engine::{EngineSettings, FinishReason, Sampling, StopCause};
use overdraft_scheduler::batch::BatchStats;
use overdraft_units::{CacheSalt, Tokens};

#[test]
fn a_chat_is_answered_with_its_last_message() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let answer = ask(&engine, chat("héllo 🦀"));
    assert_eq!(answer.text, "héllo 🦀");
    assert_eq!(answer.reason, FinishReason::Stop(None));
    assert_eq!(answer.tokens.last(), Some(&ECHO_TURN_END));
}

#[test]
fn a_bare_prompt_is_repeated_until_the_limit() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let answer = ask(&engine, request("one two. "));
    assert_eq!(answer.text, "one two. one two. one two. one t");
    assert_eq!(answer.reason, FinishReason::Length);
    assert_eq!(answer.usage.prompt, Tokens::new(9));
    assert_eq!(answer.usage.completion, Tokens::new(32));
}

#[test]
fn the_context_ends_a_completion_that_has_room_left() {
    let context = Some(Tokens::new(20));
    let engine = start(echo(64, Noise::Quiet), EngineSettings { context, ..settings() });
    let answer = ask(&engine, request("sixteen tokens.."));
    assert_eq!((answer.text.as_str(), answer.reason), ("sixt", FinishReason::Length));
}

#[test]
fn sixteen_at_once_get_what_each_gets_alone() {
    let prompt = |number: u16| format!("{number} sheep jump over fence {}", number * 7);
    let alone: Vec<Answer> = (0..16)
        .map(|number| {
            let engine = start(echo(256, Noise::Lively), settings());
            ask(&engine, drawing(&prompt(number), number))
        })
        .collect();
    let small_steps = EngineSettings { step_tokens: Tokens::new(24), ..settings() };
    let engine = start(echo(256, Noise::Lively), small_steps);
    let streams: Vec<_> = (0..16)
        .map(|number| submit(&engine.handle(), drawing(&prompt(number), number)).unwrap())
        .collect();
    for (stream, alone) in streams.into_iter().zip(alone) {
        assert_eq!(read(stream), alone);
    }
}

#[test]
fn a_cached_prefix_changes_nothing_but_the_work() {
    let engine = start(echo(256, Noise::Lively), settings());
    let first = ask(&engine, drawing("a prefix that is long enough to fill pages", 3));
    let second = ask(&engine, drawing("a prefix that is long enough to fill pages", 3));
    assert_eq!(first.usage.cached, Tokens::ZERO);
    assert_eq!(second.usage.cached, Tokens::new(40));
    assert_eq!((second.tokens, second.logprobs), (first.tokens, first.logprobs));
}

#[test]
fn a_different_salt_shares_nothing() {
    let engine = start(echo(256, Noise::Quiet), settings());
    let prompt = "a prefix that is long enough to fill pages";
    ask(&engine, request(prompt));
    let mut other = request(prompt);
    other.salt = CacheSalt(1);
    assert_eq!(ask(&engine, other).usage.cached, Tokens::ZERO);
}

#[test]
fn a_prefix_shared_by_sixteen_at_once_is_computed_once() {
    let engine = start(echo(1024, Noise::Quiet), settings());
    let prefix = "0123456789abcdef".repeat(16);
    let streams: Vec<_> = (0..16)
        .map(|number| submit(&engine.handle(), request(&format!("{prefix}{number:02}"))).unwrap())
        .collect();
    for stream in streams {
        read(stream);
    }
    let BatchStats { prefix_hit, positions_computed, .. } = engine.handle().stats().batch;
    assert_eq!(prefix_hit, 15 * 256);
    // The prefix once, and of each sequence two prompt tokens and all but the last drawn one.
    assert_eq!(positions_computed, 256 + 16 * (2 + 31));
}

#[test]
fn preemption_changes_no_draw() {
    let prompt = |number: u16| format!("prompt number {number}");
    let alone: Vec<Answer> = (0..6)
        .map(|number| {
            let engine = start(echo(64, Noise::Lively), settings());
            ask(&engine, drawing(&prompt(number), number))
        })
        .collect();
    // Each needs twelve pages at the end; twenty are not enough for six. The first waits in its first step until
    // all are there, or it might be done before the others come.
    let (backend, gate) = gated(echo(20, Noise::Lively));
    let engine = start(backend, settings());
    let handle = engine.handle();
    let first = submit(&handle, drawing(&prompt(0), 0)).unwrap();
    gate.await_step();
    let mut others: Vec<_> =
        (1..6).map(|number| Box::pin(handle.submit(drawing(&prompt(number), number)))).collect();
    let mut context = Context::from_waker(Waker::noop());
    assert!(others.iter_mut().all(|other| other.as_mut().poll(&mut context).is_pending()));
    drop(gate);
    let others = others.into_iter().map(|other| wait(other).unwrap());
    for (stream, alone) in iter::once(first).chain(others).zip(alone) {
        let answer = read(stream);
        assert_eq!((answer.tokens, answer.logprobs), (alone.tokens, alone.logprobs));
    }
    assert!(engine.handle().stats().batch.preemptions > 0, "the cache was too large to preempt");
}

#[test]
fn requests_without_a_seed_draw_differently_from_one_another() {
    let engine = start(echo(256, Noise::Lively), settings());
    let unseeded = || {
        let mut request = drawing("tell me something", 1);
        request.sampling.seed = None;
        request
    };
    assert_ne!(ask(&engine, unseeded()).tokens, ask(&engine, unseeded()).tokens);
}

#[test]
fn greedy_log_probabilities_rank_the_choice_first() {
    let engine = start(echo(64, Noise::Lively), settings());
    let mut request = request("rank me");
    request.sampling.logprobs = Some(2);
    for (token, logprobs) in {
        let answer = ask(&engine, request);
        answer.tokens.into_iter().zip(answer.logprobs)
    } {
        let logprobs = logprobs.expect("they were asked for");
        assert_eq!((logprobs.chosen.id, logprobs.chosen.rank), (token, 1));
        assert_eq!(logprobs.top[0], logprobs.chosen);
        assert!(logprobs.top[1].logprob <= logprobs.chosen.logprob);
    }
}

#[test]
fn a_stop_string_across_tokens_cuts_the_text_and_not_the_tokens() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let mut request = request("one two. ");
    request.sampling.stop = vec!["two".to_owned(), "never".to_owned()];
    let answer = ask(&engine, request.clone());
    assert_eq!(answer.text, "one ");
    assert_eq!(answer.tokens.len(), 7);
    assert_eq!(answer.reason, FinishReason::Stop(Some(StopCause::Text("two".to_owned()))));

    request.sampling.include_stop = true;
    assert_eq!(ask(&engine, request).text, "one two");
}

#[test]
fn text_held_back_for_a_stop_string_is_released_at_the_end() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let mut request = request("one two. ");
    request.sampling.stop = vec!["two!".to_owned()];
    request.sampling.max_tokens = Tokens::new(7);
    assert_eq!(ask(&engine, request).text, "one two");
}

#[test]
fn a_stop_token_ends_the_completion_and_is_reported_without_its_text() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let mut request = request("one two. ");
    let stop = overdraft_units::TokenId(u32::from(b'w'));
    request.sampling.stop_tokens = vec![stop];
    let answer = ask(&engine, request);
    assert_eq!(answer.text, "one t");
    assert_eq!(answer.tokens.last(), Some(&stop));
    assert_eq!(answer.reason, FinishReason::Stop(Some(StopCause::Token(stop))));
}

#[test]
fn nothing_ends_a_completion_before_its_minimum() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let mut request = chat("ab");
    request.sampling.min_tokens = Tokens::new(6);
    request.sampling.stop = vec!["b".to_owned()];
    let answer = ask(&engine, request);
    // The end token is masked, so something else is said; stop strings do not count either.
    assert!(answer.tokens.len() >= 6, "ended after {} tokens", answer.tokens.len());
    assert!(answer.text.starts_with("ab"));
    assert!(!answer.tokens[..6].contains(&ECHO_TURN_END));
}

#[test]
fn an_ignored_end_token_does_not_end() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let mut request = chat("ab");
    request.sampling.ignore_eos = true;
    let answer = ask(&engine, request);
    assert_eq!(answer.reason, FinishReason::Length);
    assert_eq!(answer.tokens.len(), 32);
    assert!(answer.text.starts_with("ababab"), "special tokens are left out of the text");
}

#[test]
fn special_tokens_are_shown_when_asked_for() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let mut request = chat("ab");
    request.sampling = Sampling {
        ignore_eos: true,
        skip_special_tokens: false,
        max_tokens: Tokens::new(4),
        ..request.sampling
    };
    assert_eq!(ask(&engine, request).text, "ab<|im_end|>a");
}

#[test]
fn prompt_log_probabilities_do_not_depend_on_chunks_or_cache() {
    let prompt = "the quick brown fox jumps over the lazy dog, ".repeat(5);
    let mut wanted = request(&prompt);
    wanted.prompt_logprobs = Some(2);
    let by_steps_of = |step_tokens: u32| {
        let step_tokens = Tokens::new(step_tokens);
        let engine = start(echo(256, Noise::Lively), EngineSettings { step_tokens, ..settings() });
        let first = ask(&engine, wanted.clone());
        let again = ask(&engine, wanted.clone());
        assert_eq!(first, again, "the second finds the prompt cached and computes it anew");
        first
    };
    let whole = by_steps_of(512);
    assert_eq!(by_steps_of(7), whole);
    assert_eq!(by_steps_of(100), whole);

    let entries = whole.prompt_logprobs.expect("they were asked for");
    assert_eq!(entries.len(), prompt.len());
    assert_eq!(entries[0], None);
    for (entry, token) in entries.iter().zip(&wanted.prompt).skip(1) {
        let entry = entry.as_ref().expect("every position but the first has one");
        assert_eq!(entry.chosen.id, *token);
        assert_eq!(entry.top.len(), 2);
    }
}

#[test]
fn many_who_want_prompt_log_probabilities_get_their_own() {
    let prompt = |number: u32| format!("number {number} ").repeat(12);
    let wanted = |number: u32| {
        let mut request = request(&prompt(number));
        request.prompt_logprobs = Some(1);
        request
    };
    let engine = start(echo(512, Noise::Lively), settings());
    let streams: Vec<_> =
        (0..5).map(|number| submit(&engine.handle(), wanted(number)).unwrap()).collect();
    for (number, stream) in (0..5).zip(streams) {
        let alone = ask(&start(echo(512, Noise::Lively), settings()), wanted(number));
        assert_eq!(read(stream), alone);
    }
}

#[test]
fn an_idle_engine_drains_at_once() {
    let engine = start(echo(64, Noise::Quiet), settings());
    engine.handle().drain();
    wait(engine.handle().drained());
    engine.shutdown();
}
