//! Target and draft models of the speculation bench, and their prompts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::Dice;
use crate::model::{self, Size};
use crate::questions::questions;
use anyhow::{Context, Result};
use overdraft_engine::model::{KvBudget, Model, ModelSettings};
use overdraft_engine::{
    Backend, Detokenize, Engine, EngineSettings, Lookup, Observer, Policy, Request, Sampling,
    SpecialTokens, Speculation, TextCodec, Tokenizer, tokenizer,
};
use overdraft_telemetry::Clock;
use overdraft_units::{Blocks, CacheSalt, Priority, TokenId, Tokens};

use super::steer::{Role, Steered, Text};

/// Pages of each of the two caches.
const PAGES: u32 = 768;
/// Maximum tokens of a draft.
pub(crate) const DEPTH: usize = 8;
/// Tokens of a prompt of random weights, and of its answer.
const PROMPT: u32 = 80;
const ANSWER: u32 = 256;
/// Tokens of an answer of the shipped pair at most; most end by themselves.
const ANSWER_SHIPPED: u32 = 192;

/// A target and a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    /// The demo models of 5.8M and 1.8M weights.
    Shipped,
    /// Random weights of 110M and 10M, steered.
    Small,
    /// Random weights of 1.04G and 50M, steered.
    Large,
}

/// Both, ready to compute.
pub(crate) struct Opened {
    pub(crate) target: Box<dyn Backend>,
    pub(crate) draft: Box<dyn Backend>,
    pub(crate) codec: Arc<dyn TextCodec>,
}

/// Who may guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drafters {
    Lookup,
    Model,
    Both,
}

/// What a pair can be asked.
pub(crate) struct Questions {
    /// Prompts of each kind for the shipped pair; none for random weights.
    prompts: Arc<[(Text, Vec<TokenId>)]>,
}

/// What is asked next.
pub(crate) struct Source {
    dice: Dice,
    prompts: Arc<[(Text, Vec<TokenId>)]>,
}

impl Pair {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shipped => "shipped",
            Self::Small => "random-110m",
            Self::Large => "random-1b",
        }
    }

    /// What there is to know about it in one line.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Shipped => {
                "the shipped pair, 5.8M and 1.8M weights: held-out questions, answered greedily"
            }
            Self::Small => {
                "random weights of 110M and 10M, Q4_K_M: every pass is computed, which token is said is steered"
            }
            Self::Large => {
                "random weights of 1.04G and 50M, Q4_K_M: every pass is computed, which token is said is steered"
            }
        }
    }

    /// A turn of one engine among others lasts so long: ten steps to a few dozen, so that the first, which finds nothing of its
    /// own in the processor's caches, counts little. No longer: a machine that is slow for a while is so for whoever has
    /// his turn. Weights of the larger pairs never are in a cache.
    pub(crate) const fn turn(self) -> Duration {
        Duration::from_millis(match self {
            Self::Shipped => 60,
            Self::Small => 100,
            Self::Large => 300,
        })
    }

    pub(crate) fn open(self) -> Result<Opened> {
        let (target, draft) = match self {
            Self::Shipped => return shipped(),
            Self::Small => (Size::Small, Size::SmallDraft),
            Self::Large => (Size::Large, Size::LargeDraft),
        };
        let settings = settings()?;
        let steered = |size, role| -> Result<Box<dyn Backend>> {
            Ok(Box::new(Steered::new(load(&model::random(size)?, &settings)?.backend, role)))
        };
        let (target, draft) = (steered(target, Role::Target)?, steered(draft, Role::Draft)?);
        Ok(Opened { target, draft, codec: Arc::new(Numbers) })
    }

    /// An engine of its own under a rule.
    pub(crate) fn start(
        self,
        policy: &Policy,
        drafters: Drafters,
        observer: Box<dyn Observer>,
        clock: Clock,
    ) -> Result<Engine> {
        let Opened { target, draft, codec } = self.open()?;
        let speculation = Speculation {
            policy: policy.clone(),
            depth_max: DEPTH,
            lookup: (drafters != Drafters::Model).then(Lookup::default),
            draft: (drafters != Drafters::Lookup).then_some(draft),
        };
        let settings = EngineSettings { entropy: 1, ..EngineSettings::new(clock) };
        Ok(Engine::start_guessing(target, codec, settings, observer, speculation)?)
    }

    /// Read once: it takes as long as a turn.
    pub(crate) fn questions(self) -> Result<Questions> {
        let prompts = if self == Self::Shipped { held_out()? } else { Vec::new() };
        Ok(Questions { prompts: prompts.into() })
    }
}

impl Questions {
    /// The same for the same seed.
    pub(crate) fn source(&self, seed: u64) -> Source {
        Source { dice: Dice::new(seed), prompts: Arc::clone(&self.prompts) }
    }
}

impl Source {
    /// Another request for a text of this kind. None finds a prefix that another left.
    pub(crate) fn next(&mut self, text: Text) -> Request {
        let dice = self.dice.any();
        let of_kind: Vec<_> = self.prompts.iter().filter(|(kind, _)| *kind == text).collect();
        let (prompt, length) = if of_kind.is_empty() {
            (text.prompt(dice, PROMPT), ANSWER)
        } else {
            (of_kind[self.dice.below(of_kind.len())].1.clone(), ANSWER_SHIPPED)
        };
        greedy(prompt, length, CacheSalt(dice))
    }
}

/// A greedy request.
pub(crate) fn greedy(prompt: Vec<TokenId>, length: u32, salt: CacheSalt) -> Request {
    let max_tokens = Tokens::new(length);
    let sampling = Sampling { temperature: 0.0, max_tokens, ..Sampling::default() };
    Request { prompt, sampling, salt, priority: Priority(0), prompt_logprobs: None }
}

/// Of both models of a pair: they compute in turns, as in a worker.
fn settings() -> Result<ModelSettings> {
    let kv = KvBudget::Blocks(Blocks::new(PAGES));
    Ok(ModelSettings { kv, ..ModelSettings::default() }.sharing_threads()?)
}

fn load(file: &Path, settings: &ModelSettings) -> Result<Model> {
    Model::open(file, settings).with_context(|| format!("`{}` cannot be opened", file.display()))
}

/// A file of the shipped pair.
pub(crate) fn demo_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(name)
}

fn demo(name: &str, settings: &ModelSettings) -> Result<Model> {
    load(&demo_file(name), settings)
}

fn shipped() -> Result<Opened> {
    let settings = settings()?;
    let target = demo("overdraft-target.q8_0.gguf", &settings)?;
    let draft = demo("overdraft-draft.q8_0.gguf", &settings)?;
    let codec = Arc::new(tokenizer::from_metadata(&target.metadata)?);
    Ok(Opened { target: target.backend, draft: draft.backend, codec })
}

/// The shipped pair's tokenizer.
pub(crate) fn shipped_tokenizer() -> Result<Tokenizer> {
    Ok(tokenizer::from_metadata(&demo("overdraft-draft.q8_0.gguf", &settings()?)?.metadata)?)
}

/// The questions by how often the draft's greedy token is the target's (`models/README.md`).
fn held_out() -> Result<Vec<(Text, Vec<TokenId>)>> {
    let tokenizer = shipped_tokenizer()?;
    let kind = |family: &str| match family {
        // 94 to 100 of a hundred.
        "arithmetic" | "convert" | "facts" | "overdraft" | "lists" => Some(Text::Easy),
        // 67 and 78.
        "strings" | "sorting" => Some(Text::Hard),
        // The answer says again what the question says.
        "text" | "code" => Some(Text::Copy),
        _ => None,
    };
    let questions = questions()?;
    let kept = questions.iter().filter_map(|question| {
        Some((kind(&question.family)?, tokenizer.encode_prompt(&question.prompt)))
    });
    Ok(kept.collect())
}

/// A vocabulary without words: nobody reads what random weights say.
struct Numbers;

impl TextCodec for Numbers {
    fn detokenizer(&self, _: SpecialTokens) -> Box<dyn Detokenize> {
        Box::new(Self)
    }

    fn end_tokens(&self) -> &[TokenId] {
        &[]
    }
}

impl Detokenize for Numbers {
    fn push(&mut self, _: TokenId, text: &mut String) {
        text.push('.');
    }

    fn finish(&mut self, _: &mut String) {}
}
