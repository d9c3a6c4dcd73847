//! Cost of tokenizing a prompt, cold, warm, and grown. Prints the figures of
//! `docs/design/tokenizing.md`.
//!
//! A chat of 32 KB in turns of 1 KB, and one twice and four times as long, with a vocabulary trained
//! on this repository. Run with
//! `cargo run --release -p overdraft-tokenizer --example pieces_figures`.
#![expect(clippy::print_stdout, reason = "printing figures is what it is for")]

use std::sync::Arc;

use anyhow::{Context, Result};
use overdraft_tokenizer::{PieceCache, Prompter, TokenizerSource};
use overdraft_units::CacheSalt;
use overdraft_wire::ChatRequest;
use overdraft_wire::Generation;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const TEMPLATE: &str = include_str!("../tests/data/templates/qwen25.jinja");
const CORPUS: [&str; 5] = [
    include_str!("../../../ARCHITECTURE.md"),
    include_str!("../../../docs/design/batch.md"),
    include_str!("../../../docs/design/prefix.md"),
    include_str!("../../../docs/design/tokenizing.md"),
    include_str!("../src/tokenizer/mod.rs"),
];
/// Bytes of one turn.
const TURN: usize = 1_000;
/// Bytes that a prompt grows by.
const GROWTH: usize = 200;
/// Prompts per figure; the least of them is shown.
const RUNS: usize = 9;

fn main() -> Result<()> {
    let source = trained()?;
    println!("CPU time per prompt, least of {RUNS}; parsing alone, then all of it\n");
    println!(
        "{:>8} {:>8} {:>10} {:>10} {:>10} {:>14}",
        "prompt", "tokens", "parsing", "cold", "warm", "+200 B"
    );
    for turns in [8, 32, 64, 128] {
        let mut least = [f64::MAX; 4];
        let mut tokens = 0;
        for run in 0..RUNS {
            let prompter = Prompter::from_source(
                source.clone(),
                Some(TEMPLATE),
                Arc::new(PieceCache::default()),
            )?;
            // Buffers and tables of the thread are there before anything is timed.
            prompter.text("warm up", overdraft_tokenizer::Framing::Bare, CacheSalt(1));
            let mut messages = chat(run, turns);
            let body = json!({ "messages": messages }).to_string();
            let begun = micros();
            ChatRequest::parse(body.as_bytes())?;
            let parsing = (micros() - begun, 0);
            let cold = timed(&prompter, &body)?;
            let warm = timed(&prompter, &body)?;
            messages.push(json!({ "role": "assistant", "content": text(run + 7_919, GROWTH) }));
            let grown = timed(&prompter, &json!({ "messages": messages }).to_string())?;
            tokens = cold.1;
            for (least, (micros, _)) in least.iter_mut().zip([parsing, cold, warm, grown]) {
                *least = least.min(micros);
            }
        }
        let [parsing, cold, warm, grown] = least;
        let bytes = turns * TURN / 1_000;
        println!(
            "{bytes:>5} KB {tokens:>8} {parsing:>7.0} µs {cold:>7.0} µs {warm:>7.0} µs {grown:>11.0} µs"
        );
    }
    Ok(())
}

/// Microseconds of this thread, and the prompt's tokens.
fn timed(prompter: &Prompter, body: &str) -> Result<(f64, usize)> {
    let begun = micros();
    let tokens = prompter.prompt_of(body.as_bytes(), Generation::Chat, 0)?;
    Ok((micros() - begun, tokens.len()))
}

#[expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]
fn micros() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// Turns that no other run has.
fn chat(run: usize, turns: usize) -> Vec<Value> {
    (0..turns)
        .map(|turn| {
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            json!({ "role": role, "content": text(run * 1_000 + turn, TURN) })
        })
        .collect()
}

/// About so many bytes of the corpus, from a place of its own.
fn text(number: usize, bytes: usize) -> String {
    let words: Vec<&str> = CORPUS.iter().flat_map(|text| text.split_whitespace()).collect();
    let mut out = format!("{number}:");
    for word in words.iter().cycle().skip(number * 37 % words.len()) {
        if out.len() + word.len() > bytes {
            break;
        }
        out.push(' ');
        out.push_str(word);
    }
    out
}

/// A vocabulary of 8,000 tokens, as a folder in Hugging Face's layout has it.
fn trained() -> Result<TokenizerSource> {
    let mut tokenizer = tokenizers::Tokenizer::new(ModelWrapper::from(BPE::default()));
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, false, true)));
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(8_000)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    tokenizer
        .train(&mut TrainerWrapper::from(trainer), CORPUS.iter())
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let text = tokenizer.to_string(false).map_err(|error| anyhow::anyhow!("{error}"))?;
    let file: Value = serde_json::from_str(&text)?;
    let vocabulary = file["model"]["vocab"].as_object().context("a vocabulary")?;
    let mut source = TokenizerSource::bytes(&[]);
    source.tokens = vec![String::new(); vocabulary.len()];
    for (token, id) in vocabulary {
        let id = usize::try_from(id.as_u64().context("an id")?)?;
        source.tokens[id].clone_from(token);
    }
    let pairs = file["model"]["merges"].as_array().context("merges")?;
    let pair = |pair: &Value| Some(format!("{} {}", pair[0].as_str()?, pair[1].as_str()?));
    source.merges = pairs.iter().map(pair).collect();
    let mut kinds = vec![1; source.tokens.len()];
    for control in ["<|im_start|>", "<|im_end|>"] {
        source.tokens.push(control.to_owned());
        kinds.push(3);
    }
    source.token_types = Some(kinds);
    Ok(source)
}
