//! The shipped pair: the draft guesses for the target, and the target's answers stay its own.
//!
//! The prompts are those of `models/reference.json`, and held-out questions of every family of the
//! model card.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use overdraft_engine::model::{KvBudget, Model, ModelSettings};
use overdraft_engine::{
    Drafter, Engine, EngineHandle, EngineSettings, Event, Lookup, Request, Sampling, Speculation,
    SpeculationStats, Tokenizer, Unobserved, tokenizer,
};
use overdraft_telemetry::Clock;
use overdraft_units::{Blocks, CacheSalt, Priority, TokenId, Tokens};

/// Tokens of an answer at most.
const ANSWER: u32 = 48;
/// Of an answer to a held-out question: two hundred are asked sixteen times over.
const ANSWER_SHORT: u32 = 24;
/// Held-out questions.
const QUESTIONS: usize = 200;
/// Questions asked at once: as they end one by one, each rule sees batches of many sizes.
const AT_ONCE: usize = 50;

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

fn prompts() -> Vec<Vec<TokenId>> {
    let text = std::fs::read_to_string(models().join("reference.json")).unwrap();
    let reference: serde_json::Value = serde_json::from_str(&text).unwrap();
    let token = |id: &serde_json::Value| TokenId(u32::try_from(id.as_u64().unwrap()).unwrap());
    let prompt = |case: &serde_json::Value| -> Vec<TokenId> {
        case["prompt_ids"].as_array().unwrap().iter().map(token).collect()
    };
    reference["prompts"].as_array().unwrap().iter().map(prompt).collect()
}

/// Held-out questions, of every family alike, one of each after the other.
fn questions() -> Vec<Vec<TokenId>> {
    let file = "../../benches/src/cascade/questions.json";
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let mut families: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for question in &all {
        let family = families.entry(question["family"].as_str().unwrap()).or_default();
        family.push(question["prompt"].as_str().unwrap());
    }
    assert_eq!(families.len(), 11, "the families of the model card");
    let (_, tokenizer) = open("overdraft-draft.q8_0.gguf");
    let longest = families.values().map(Vec::len).max().unwrap();
    let in_turn = (0..longest)
        .flat_map(|turn| families.values().filter_map(move |family| family.get(turn)).copied());
    in_turn.take(QUESTIONS).map(|prompt| tokenizer.encode_prompt(prompt)).collect()
}

fn open(name: &str) -> (Model, Arc<Tokenizer>) {
    let settings =
        ModelSettings { kv: KvBudget::Blocks(Blocks::new(512)), ..ModelSettings::default() };
    let model = Model::open(models().join(name).as_path(), &settings).unwrap();
    let tokenizer = Arc::new(tokenizer::from_metadata(&model.metadata).unwrap());
    (model, tokenizer)
}

fn start(policy: &str, drafters: &[Drafter]) -> Engine {
    let (target, codec) = open("overdraft-target.q8_0.gguf");
    let speculation = Speculation {
        policy: policy.parse().unwrap(),
        depth_max: 6,
        lookup: drafters.contains(&Drafter::Lookup).then(Lookup::default),
        draft: drafters
            .contains(&Drafter::Model)
            .then(|| open("overdraft-draft.q8_0.gguf").0.backend),
    };
    let settings = EngineSettings { entropy: 3, ..EngineSettings::new(Clock::start()) };
    let observer = Box::new(Unobserved);
    Engine::start_guessing(target.backend, codec, settings, observer, speculation).unwrap()
}

/// The answers to these prompts, asked for at once.
fn answers(
    engine: &EngineHandle,
    prompts: &[Vec<TokenId>],
    sampling: impl Fn(u64) -> Sampling,
) -> Vec<Vec<TokenId>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ask = |(number, prompt): (u64, &Vec<TokenId>)| {
        let request = Request {
            prompt: prompt.clone(),
            sampling: sampling(number),
            salt: CacheSalt(0),
            priority: Priority(0),
            prompt_logprobs: None,
        };
        runtime.block_on(engine.submit(request)).unwrap()
    };
    let streams: Vec<_> = (0..).zip(prompts).map(ask).collect();
    let read = |mut stream: overdraft_engine::RequestStream| {
        let mut tokens = Vec::new();
        while let Some(event) = stream.blocking_recv() {
            match event {
                Event::Tokens(more) => tokens.extend(more.into_iter().map(|token| token.id)),
                Event::Failed(sentence) => panic!("{sentence}"),
                Event::Started { .. } | Event::Finished { .. } => {}
            }
        }
        tokens
    };
    streams.into_iter().map(read).collect()
}

fn greedy(_: u64) -> Sampling {
    Sampling { temperature: 0.0, max_tokens: Tokens::new(ANSWER), ..Sampling::default() }
}

fn seeded(number: u64) -> Sampling {
    Sampling { temperature: 0.8, top_p: 0.95, seed: Some(number), ..greedy(number) }
}

const SETUPS: [(&str, &[Drafter]); 7] = [
    ("fixed:4", &[Drafter::Model]),
    ("fixed:6", &[Drafter::Lookup]),
    ("fixed:3", &[Drafter::Lookup, Drafter::Model]),
    ("threshold", &[Drafter::Model]),
    ("batch-table:1-8=5,9-64=2", &[Drafter::Lookup, Drafter::Model]),
    ("goodput", &[Drafter::Lookup, Drafter::Model]),
    ("off", &[Drafter::Lookup, Drafter::Model]),
];

#[test]
fn answers_are_token_for_token_the_targets() {
    let (plain, prompts) = (start("off", &[]), prompts());
    let best = answers(&plain.handle(), &prompts, greedy);
    let drawn = answers(&plain.handle(), &prompts, seeded);
    assert_ne!(best, drawn, "what is drawn is not always the likeliest");
    for (policy, drafters) in SETUPS {
        let engine = start(policy, drafters);
        assert_eq!(answers(&engine.handle(), &prompts, greedy), best, "{policy} {drafters:?}");
        let same = answers(&engine.handle(), &prompts, seeded);
        assert_eq!(same, drawn, "{policy} {drafters:?}, seeded");
    }
}

/// Every rule that guesses; the table changes its depth within a batch.
const POLICIES: [&str; 5] =
    ["fixed:1", "fixed:5", "threshold", "batch-table:1-8=6,9-64=2", "goodput"];

#[test]
fn two_hundred_answers_of_every_family_are_the_same_under_every_policy() {
    const BOTH: [Drafter; 2] = Drafter::ALL;
    let questions = questions();
    assert_eq!(questions.len(), QUESTIONS);
    let short = |_| Sampling { max_tokens: Tokens::new(ANSWER_SHORT), ..greedy(0) };
    let all = |engine: &Engine| -> Vec<Vec<TokenId>> {
        let some = questions.chunks(AT_ONCE);
        some.flat_map(|some| answers(&engine.handle(), some, short)).collect()
    };
    let expected = all(&start("off", &[]));
    assert!(8 * QUESTIONS < expected.iter().map(Vec::len).sum(), "answers have a length");
    assert_eq!(all(&start("off", &BOTH)), expected, "off");
    for policy in POLICIES {
        for drafters in [&BOTH[..1], &BOTH[1..], &BOTH[..]] {
            let engine = start(policy, drafters);
            let answers = all(&engine);
            let same = answers.iter().zip(&expected).filter(|(one, other)| one == other);
            assert_eq!(same.count(), QUESTIONS, "{policy} {drafters:?}");
            let guessed = engine.handle().stats().speculation;
            // Without right guesses nothing is shown; whether goodput makes any depends on the machine.
            assert!(
                policy == "goodput" || 0 < guessed.accepted_tokens,
                "{policy} {drafters:?}: {guessed:?}"
            );
        }
    }
}

#[test]
fn the_draft_is_right_as_often_as_the_model_card_says() {
    let engine = start("fixed:4", &[Drafter::Model]);
    answers(&engine.handle(), &prompts(), greedy);
    let SpeculationStats { draft_tokens_by, acceptance, .. } = engine.handle().stats().speculation;
    assert!(100 < draft_tokens_by[Drafter::Model.place()]);
    // The same greedy token at 93 % of positions; these are twenty prompts.
    let right = acceptance[Drafter::Model.place()].get();
    assert!((750_000..=1_000_000).contains(&right), "{right} millionths");
}
