//! Of draws without a seed, guessing changes the tokens and not how they are distributed.
//!
//! Six tokens, a target and a draft that look at the last one only, and the exact distribution of each
//! position by going through all that may stand before it.

use std::sync::Arc;

use overdraft_engine::sample::Sampler;
use overdraft_engine::{
    Backend, BackendError, BatchSlot, Engine, EngineSettings, Lookup, ModelShape, Policy, Request,
    Sampling, Speculation, Unobserved,
};
use overdraft_scheduler::batch::Logits;
use overdraft_units::{BlockSize, Blocks, CacheSalt, Priority, TokenId, Tokens};

use crate::support::{TOKENIZER, read, settings, submit};

/// Completions of each rule, so draws of each position.
const DRAWS: u32 = 50_000;
/// Completions asked for at once.
const AT_ONCE: u32 = 250;
/// Tokens of a completion.
const LENGTH: usize = 4;
const VOCABULARY: usize = 6;
/// It repeats itself, so lookups find something.
const PROMPT: [TokenId; 7] =
    [TokenId(3), TokenId(1), TokenId(5), TokenId(3), TokenId(1), TokenId(5), TokenId(3)];

/// What follows each token, as logits.
type Table = [[f32; VOCABULARY]; VOCABULARY];

const TARGET: Table = [
    [0.4, 1.9, 0.2, -0.5, 1.1, 0.0],
    [1.3, -0.2, 0.7, 0.1, -1.0, 2.1],
    [0.0, 0.9, 1.8, 0.6, 0.3, -0.4],
    [-0.6, 2.0, 1.2, 0.5, 0.0, 0.8],
    [1.0, 0.3, -0.8, 1.7, 0.9, 0.2],
    [0.5, -0.3, 0.6, 1.6, 0.1, 1.4],
];
/// Alike, and wrong about all of it.
const DRAFT: Table = [
    [0.9, 1.2, 0.0, 0.5, 0.4, 0.2],
    [0.6, 0.4, 1.3, -0.5, 0.0, 1.5],
    [1.1, 0.2, 1.0, 0.9, -0.3, 0.1],
    [0.3, 1.6, 0.4, 0.8, 0.9, -0.7],
    [0.2, 1.0, 0.5, 1.1, 0.3, 0.6],
    [1.3, 0.1, 0.9, 0.7, 0.8, 0.4],
];

/// A model that looks its logits up.
struct Chain(Table);

impl Backend for Chain {
    fn shape(&self) -> ModelShape {
        ModelShape {
            vocabulary: VOCABULARY,
            context: Tokens::new(64),
            blocks: Blocks::new(2_048),
            block_size: BlockSize::new(8).expect("eight is not zero"),
        }
    }

    fn forward(
        &mut self,
        batch: &[BatchSlot<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        logits.clear();
        for slot in batch {
            let wanted = match slot.logits {
                Logits::None => &[],
                Logits::Last => &slot.tokens[slot.tokens.len() - 1..],
                Logits::Every => slot.tokens,
            };
            logits.extend(wanted.iter().flat_map(|token| row(&self.0, *token)));
        }
        Ok(())
    }
}

fn place(token: TokenId) -> usize {
    usize::try_from(token.0).expect("one of six")
}

fn row(table: &Table, last: TokenId) -> [f32; VOCABULARY] {
    table[place(last)]
}

fn sampling() -> Sampling {
    Sampling {
        temperature: 0.8,
        top_p: 0.95,
        presence_penalty: 0.3,
        frequency_penalty: 0.2,
        repetition_penalty: 1.1,
        logit_bias: vec![(TokenId(2), 0.4)],
        max_tokens: Tokens::new(u32::try_from(LENGTH).expect("few")),
        ignore_eos: true,
        ..Sampling::default()
    }
}

/// The chance of each token at each position, by going through all completions.
fn exact() -> [[f64; VOCABULARY]; LENGTH] {
    let mut chances = [[0.0; VOCABULARY]; LENGTH];
    let sampler = Sampler::new(&sampling(), &PROMPT, &[], 0);
    let mut open = vec![(sampler, PROMPT[PROMPT.len() - 1], 1.0)];
    for position in &mut chances {
        let mut longer = Vec::new();
        for (mut sampler, last, before) in open {
            let distribution = sampler.distribution(&mut row(&TARGET, last)).expect("numbers");
            for (token, chance) in distribution.entries() {
                let chance = before * f64::from(*chance);
                position[place(*token)] += chance;
                let mut sampler = sampler.clone();
                sampler.accept(*token);
                longer.push((sampler, *token, chance));
            }
        }
        open = longer;
    }
    chances
}

/// Who guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guessers {
    Lookup,
    Draft,
    Both,
}

/// How often each token was drawn at each position, and how many guesses were right.
fn drawn(policy: &str, guessers: Guessers) -> ([[u32; VOCABULARY]; LENGTH], u64) {
    let (lookup, draft) = (guessers != Guessers::Draft, guessers != Guessers::Lookup);
    let speculation = Speculation {
        policy: policy.parse::<Policy>().expect("the name of a policy"),
        depth_max: 4,
        lookup: lookup.then(Lookup::default),
        draft: draft.then(|| Box::new(Chain(DRAFT)) as Box<dyn Backend>),
    };
    let codec = Arc::clone(&TOKENIZER);
    // Nobody's draws are another's: else all rules would be right, or wrong, together.
    let entropy = 11 + policy.len() as u64 + 2 * u64::from(lookup) + 4 * u64::from(draft);
    let settings = EngineSettings { entropy, ..settings() };
    let (target, observer) = (Box::new(Chain(TARGET)), Box::new(Unobserved));
    let engine = Engine::start_guessing(target, codec, settings, observer, speculation)
        .expect("the settings are sound");
    let request = Request {
        prompt: PROMPT.to_vec(),
        sampling: sampling(),
        salt: CacheSalt(0),
        priority: Priority(0),
        prompt_logprobs: None,
    };
    let mut counts = [[0; VOCABULARY]; LENGTH];
    for _ in 0..DRAWS / AT_ONCE {
        let ask = |_| submit(&engine.handle(), request.clone()).expect("a place");
        let streams: Vec<_> = (0..AT_ONCE).map(ask).collect();
        for stream in streams {
            for (counts, token) in counts.iter_mut().zip(read(stream).tokens) {
                counts[place(token)] += 1;
            }
        }
    }
    (counts, engine.handle().stats().speculation.accepted_tokens)
}

#[track_caller]
fn check(policy: &str, guessers: Guessers) {
    let (counts, right) = drawn(policy, guessers);
    assert_eq!(0 < right, policy != "off", "{policy}: {right} guesses were right");
    for (position, (counts, chances)) in counts.iter().zip(exact()).enumerate() {
        let (mut square, mut freedom) = (0.0, -1.0);
        for (count, chance) in counts.iter().zip(chances) {
            let wanted = chance * f64::from(DRAWS);
            if wanted == 0.0 {
                assert_eq!(*count, 0, "{policy}: what has no chance at {position}");
                continue;
            }
            square += (f64::from(*count) - wanted).powi(2) / wanted;
            freedom += 1.0;
        }
        // Four standard deviations above the mean of chi-square, as in the tests of the rule itself.
        let bound = freedom + 4.0 * f64::sqrt(2.0 * freedom) + 4.0;
        assert!(
            square < bound,
            "{policy}: chi-square {square:.1} of {freedom} degrees of freedom at {position}"
        );
    }
}

#[test]
fn draws_are_distributed_as_without_guesses_under_every_policy() {
    check("off", Guessers::Both);
    check("fixed:2", Guessers::Draft);
    check("fixed:3", Guessers::Both);
    check("threshold", Guessers::Draft);
    check("batch-table:1-64=3,65-999=1", Guessers::Both);
    check("goodput", Guessers::Both);
    check("goodput", Guessers::Lookup);
}
