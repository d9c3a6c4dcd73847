//! Answers of the two demo models to held-out questions, with their log probabilities.
//!
//! The models answer greedily, through the engine's own loop. An answer is right when it equals one
//! of those that the question allows. Questions: `models/questions.py`.

use std::path::Path;
use std::sync::Arc;

use crate::questions::{Question, more_questions, questions};
use anyhow::{Context, Result, bail};
use overdraft_core::cascade::{
    Evidence, Finish, Label, LogProb, Nats, Observation, Script, Traits,
};
use overdraft_engine::model::{KvBudget, Model, ModelSettings};
use overdraft_engine::{
    Engine, EngineSettings, Event, FinishReason, PositionLogprobs, Request, RequestStream,
    Sampling, TextCodec, Unobserved, tokenizer,
};
use overdraft_telemetry::Clock;
use overdraft_units::{Blocks, CacheSalt, Priority, Tokens};
use serde_json::{Value, json};

/// Maximum tokens of an answer; no right one is longer.
const ANSWER_MAX: u32 = 192;
/// Alternatives whose entropy is taken, as the gateway asks of a draft.
const ALTERNATIVES: u32 = 20;
/// Questions in the engine at a time.
const AT_ONCE: usize = 32;
/// Pages of the cache: enough for all that are asked at a time.
const PAGES: u32 = 1_024;
/// Every so many of the repository's questions are asked when time is short.
const QUICK_STEP: usize = 3;
/// Questions of a family otherwise: with a tenth of that, drawing them anew moves the share at one point by twenty.
const OF_A_FAMILY: usize = 500;
/// The first window.
pub(crate) const WINDOW: Tokens = Tokens::new(8);

/// A question, and what came of it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "three facts that do not interact")]
pub(crate) struct Asked {
    pub(crate) family: String,
    pub(crate) draft_right: bool,
    pub(crate) target_right: bool,
    /// Whether both said the same.
    pub(crate) same: bool,
    /// Of the draft.
    pub(crate) evidence: Evidence,
}

/// What one model said.
struct Said {
    text: String,
    evidence: Evidence,
}

impl Asked {
    /// As it is kept with the raw results.
    pub(crate) fn told(&self) -> Value {
        let evidence = &self.evidence;
        json!([
            self.family,
            evidence.traits().prompt.get(),
            self.draft_right,
            self.target_right,
            self.same,
            evidence.tokens().get(),
            evidence.mean().get(),
            evidence.features().get()
        ])
    }

    /// What the draft's answer is worth beside the target's.
    pub(crate) const fn label(&self) -> Label {
        match (self.draft_right, self.target_right) {
            (true, false) => Label::Better,
            (false, true) => Label::Worse,
            _ => Label::AsGood,
        }
    }

    /// Whether the draft's answer is worse than the target's.
    pub(crate) const fn is_worse(&self) -> bool {
        self.target_right && !self.draft_right
    }
}

/// Asks both models some of the questions that lie in the repository, or, without haste, many more.
pub(crate) fn ask(quick: bool) -> Result<Vec<Asked>> {
    let questions = if quick {
        questions()?.into_iter().step_by(QUICK_STEP).collect()
    } else {
        more_questions(OF_A_FAMILY)?
    };
    let drafts = answers("overdraft-draft.q8_0.gguf", &questions)?;
    let targets = answers("overdraft-target.q8_0.gguf", &questions)?;
    let each = questions.into_iter().zip(drafts.into_iter().zip(targets));
    Ok(each
        .map(|(question, (draft, target))| {
            let right = |said: &Said| question.answers.contains(&said.text);
            Asked {
                draft_right: right(&draft),
                target_right: right(&target),
                same: draft.text == target.text,
                family: question.family,
                evidence: draft.evidence,
            }
        })
        .collect())
}

fn answers(file: &str, questions: &[Question]) -> Result<Vec<Said>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(file);
    let settings =
        ModelSettings { kv: KvBudget::Blocks(Blocks::new(PAGES)), ..ModelSettings::default() };
    let model = Model::open(path.as_path(), &settings)
        .with_context(|| format!("`{}` cannot be opened", path.display()))?;
    let tokenizer = Arc::new(tokenizer::from_metadata(&model.metadata)?);
    let codec: Arc<dyn TextCodec> = tokenizer.clone();
    let settings = EngineSettings { entropy: 1, ..EngineSettings::new(Clock::start()) };
    let engine = Engine::start(model.backend, codec, settings, Box::new(Unobserved))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut said = Vec::new();
    for batch in questions.chunks(AT_ONCE) {
        let mut streams = Vec::new();
        for question in batch {
            let prompt = tokenizer.encode_prompt(&question.prompt);
            let length = Tokens::new(u32::try_from(prompt.len())?);
            let request = Request {
                prompt,
                sampling: Sampling {
                    temperature: 0.0,
                    max_tokens: Tokens::new(ANSWER_MAX),
                    logprobs: Some(ALTERNATIVES),
                    ..Sampling::default()
                },
                salt: CacheSalt(0),
                priority: Priority(0),
                prompt_logprobs: None,
            };
            let traits = Traits {
                prompt: length,
                script: Script::of(&question.prompt),
                ..Traits::default()
            };
            streams.push((traits, runtime.block_on(engine.handle().submit(request))?));
        }
        for (traits, stream) in streams {
            said.push(read(traits, stream)?);
        }
    }
    engine.shutdown();
    Ok(said)
}

fn read(traits: Traits, mut stream: RequestStream) -> Result<Said> {
    let mut said = Said { text: String::new(), evidence: Evidence::new(traits, WINDOW) };
    while let Some(event) = stream.blocking_recv() {
        match event {
            Event::Started { .. } => {}
            Event::Tokens(tokens) => {
                for token in tokens {
                    said.text.push_str(&token.text);
                    let logprobs = token.logprobs.context("no log probability came")?;
                    said.evidence.observe(observed(&token.text, &logprobs));
                }
            }
            Event::Finished { reason, tail, .. } => {
                said.text.push_str(&tail);
                said.evidence.finish(match reason {
                    FinishReason::Stop(_) => Finish::Stop,
                    FinishReason::Length => Finish::Length,
                });
            }
            Event::Failed(sentence) => bail!(sentence),
        }
    }
    Ok(said)
}

/// What the engine tells of a token, as the core reads it.
fn observed(text: &str, logprobs: &PositionLogprobs) -> Observation {
    let logs: Vec<f64> = logprobs.top.iter().map(|one| f64::from(one.logprob)).collect();
    let margin = match logs[..] {
        [first, second, ..] => Some(Nats::from_nats(first - second)),
        _ => None,
    };
    let entropy: f64 = logs.iter().map(|log| -log * log.exp()).sum();
    Observation {
        logprob: LogProb::from_nats(f64::from(logprobs.chosen.logprob)),
        margin,
        entropy: (!logs.is_empty()).then(|| Nats::from_nats(entropy)),
        digit: text.bytes().any(|byte| byte.is_ascii_digit()),
    }
}
