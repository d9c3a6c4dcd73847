//! Pages of one engine's cache in another's: the echo keeps tokens in its pages, so what it says after
//! a prefix that it never computed shows what came.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use overdraft_engine::echo::Noise;
use overdraft_engine::{BlockError, BlockPrefix, Engine, EngineSettings, Imported, Observation};
use overdraft_units::{CacheSalt, TokenId};

use crate::support::{
    Notes, ask, chat, echo, gated, observed, read, request, settings, start, submit, wait,
};

/// Twenty pages of four and a bit.
const MESSAGE: &str =
    "a message of some length that somebody will want to have repeated word for word";

fn prefix(tokens: &[TokenId], salt: u64) -> BlockPrefix {
    BlockPrefix { salt: CacheSalt(salt), tokens: Arc::from(tokens) }
}

fn pages(engine: &Engine, prefix: &BlockPrefix) -> Vec<Vec<u8>> {
    let handle = engine.handle();
    let exported = wait(handle.export_blocks(prefix.clone(), 0..1_000)).expect("an echo can");
    let leading = wait(handle.leading_blocks(prefix.clone())).expect("an echo can");
    assert_eq!(exported.len(), leading);
    exported
}

fn import(engine: &Engine, prefix: &BlockPrefix, first: usize, blocks: &[Vec<u8>]) -> Imported {
    let handle = engine.handle();
    wait(handle.import_blocks(prefix.clone(), first, blocks.to_vec())).expect("an echo can")
}

#[test]
fn what_another_engine_computed_is_found_and_read_like_the_own() {
    let (one, other) =
        (start(echo(64, Noise::Quiet), settings()), start(echo(64, Noise::Quiet), settings()));
    let computed = ask(&one, chat(MESSAGE));
    let prompt = prefix(&chat(MESSAGE).prompt, 0);
    let blocks = pages(&one, &prompt);
    assert_eq!(blocks.len(), prompt.tokens.len() / 4);

    let whole = Imported { leading: blocks.len(), written: blocks.len() };
    assert_eq!(import(&other, &prompt, 0, &blocks), whole);
    let fetched = ask(&other, chat(MESSAGE));
    assert_eq!(fetched.tokens, computed.tokens);
    let cached = usize::try_from(fetched.usage.cached.get()).expect("small");
    assert_eq!(cached, (prompt.tokens.len() - 1) / 4 * 4);
    let again = Imported { leading: blocks.len(), written: 0 };
    assert_eq!(import(&other, &prompt, 0, &blocks), again, "it has them");
}

#[test]
fn a_page_is_really_read_from_what_came() {
    let other = start(echo(64, Noise::Quiet), settings());
    let prompt = prefix(&chat(MESSAGE).prompt, 0);
    let one = start(echo(64, Noise::Quiet), settings());
    let right = ask(&one, chat(MESSAGE));
    let mut blocks = pages(&one, &prompt);
    // Nothing here knows what a page should hold; whoever fetches checks.
    blocks[5][0] ^= 1;
    import(&other, &prompt, 0, &blocks);
    assert_ne!(ask(&other, chat(MESSAGE)).text, right.text);
}

#[test]
fn a_part_is_gone_on_from_and_a_gap_is_not_filled() {
    let one = start(echo(64, Noise::Quiet), settings());
    let right = ask(&one, chat(MESSAGE));
    let prompt = prefix(&chat(MESSAGE).prompt, 0);
    let blocks = pages(&one, &prompt);
    let other = start(echo(64, Noise::Quiet), settings());
    assert_eq!(import(&other, &prompt, 3, &blocks[3..]), Imported::default());
    assert_eq!(import(&other, &prompt, 0, &blocks[..3]), Imported { leading: 3, written: 3 });
    let answer = ask(&other, chat(MESSAGE));
    assert_eq!((answer.tokens, answer.usage.cached.get()), (right.tokens, 12));
}

#[test]
fn pages_are_given_only_under_their_salt() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let mut asked = chat(MESSAGE);
    asked.salt = CacheSalt(9);
    ask(&engine, asked);
    assert!(pages(&engine, &prefix(&chat(MESSAGE).prompt, 0)).is_empty());
    assert!(!pages(&engine, &prefix(&chat(MESSAGE).prompt, 9)).is_empty());
}

#[test]
fn a_block_of_another_size_is_refused_by_name() {
    let engine = start(echo(64, Noise::Quiet), settings());
    let prompt = prefix(&chat(MESSAGE).prompt, 0);
    let refused = wait(engine.handle().import_blocks(prompt, 0, vec![vec![0; 15]]));
    assert_eq!(refused, Err(BlockError::Length { found: 15, expected: 16 }));
}

#[test]
fn a_backend_that_keeps_its_pages_says_so_at_once() {
    let (backend, _gate) = gated(echo(64, Noise::Quiet));
    let engine = start(backend, settings());
    assert_eq!(engine.handle().block_layout(), None);
    let refused = wait(engine.handle().leading_blocks(prefix(&[TokenId(1)], 0)));
    assert_eq!(refused, Err(BlockError::Fixed));
}

#[test]
fn who_arrived_before_has_the_turn_of_then() {
    let notes = Notes::default();
    let (backend, gate) = gated(echo(64, Noise::Quiet));
    let one_at_a_time = EngineSettings { running_max: 1, ..settings() };
    let arrived = one_at_a_time.clock.now();
    let engine = observed(backend, one_at_a_time, notes.clone());
    let handle = engine.handle();
    let first = submit(&handle, request("first")).expect("sound");
    gate.await_step();
    // Both lie in the inbox when the step ends; the second one waited elsewhere for its blocks.
    let mut late = pin!(handle.submit(request("the late one")));
    let mut early = pin!(handle.submit_since(request("the early one"), arrived));
    let mut context = Context::from_waker(Waker::noop());
    assert!(late.as_mut().poll(&mut context).is_pending());
    assert!(early.as_mut().poll(&mut context).is_pending());
    drop(gate);
    for stream in [wait(late), wait(early), Ok(first)] {
        read(stream.expect("sound"));
    }
    let notes = notes.0.lock().expect("nobody panics with it");
    let ended = notes.iter().filter_map(|note| match note {
        Observation::Ended(record) => Some(record.usage.prompt.get()),
        _ => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [5, 13, 12]);
}
