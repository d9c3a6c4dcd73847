//! Scores of texts: the likeliest token at each position, and what the model gives the real one.
//!
//! Ours are computed here; those of the float reference and of llama.cpp come from
//! `score_reference.py`, in the same form.

use std::path::Path;

use anyhow::Result;
use overdraft_engine::BatchSlot;
use overdraft_engine::model::{KvBudget, Model, ModelSettings};
use overdraft_engine::{ControlTokens, tokenizer};
use overdraft_scheduler::batch::Logits;
use overdraft_units::{BlockId, Blocks, TokenId};
use serde::Deserialize;
use serde_json::json;

use super::reference::Script;

/// Tokens of a text at most.
pub(crate) const TEXT_TOKENS_MAX: usize = 512;
/// Tokens of a step; their logits are in memory at once.
const STEP_TOKENS: usize = 128;
/// Tokens per page.
const PAGE: usize = 16;

/// What one implementation makes of all texts.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Scores {
    /// The implementation.
    pub(crate) name: String,
    pub(crate) texts: Vec<TextScores>,
}

/// What it makes of one text.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct TextScores {
    /// The likeliest next token at each position.
    likeliest: Vec<u32>,
    /// The log-probability of each token but the first.
    log_probabilities: Vec<f64>,
}

impl Scores {
    /// Positions of a hundred at which both find the same token the likeliest.
    pub(crate) fn same_percent(&self, other: &Self) -> f64 {
        let ours = self.texts.iter().flat_map(|text| &text.likeliest);
        let theirs = other.texts.iter().flat_map(|text| &text.likeliest);
        let (mut same, mut all) = (0_u32, 0_u32);
        for (left, right) in ours.zip(theirs) {
            all += 1;
            same += u32::from(left == right);
        }
        100.0 * f64::from(same) / f64::from(all)
    }

    /// The perplexity over all texts.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand positions")]
    pub(crate) fn perplexity(&self) -> f64 {
        let all = self.texts.iter().flat_map(|text| &text.log_probabilities);
        let (count, sum) = all.fold((0_usize, 0.0), |(count, sum), log| (count + 1, sum + log));
        (-sum / count as f64).exp()
    }

    /// Positions scored.
    pub(crate) fn positions(&self) -> usize {
        self.texts.iter().map(|text| text.likeliest.len()).sum()
    }
}

/// The tokens of each text, cut to their bound, by the model's own tokenizer.
pub(crate) fn tokens(model: &Path, texts: &[&str]) -> Result<Vec<Vec<TokenId>>> {
    let gguf = overdraft_engine::gguf::Gguf::open(model)?;
    let tokenizer = tokenizer::from_metadata(gguf.metadata())?;
    let encoded = texts.iter().map(|text| {
        let mut tokens = tokenizer.encode(text, ControlTokens::AsText);
        tokens.truncate(TEXT_TOKENS_MAX);
        tokens
    });
    Ok(encoded.collect())
}

/// Our own scores, with the settings that users get.
pub(crate) fn ours(
    file: &Path,
    texts: &[Vec<TokenId>],
    settings: &ModelSettings,
) -> Result<Scores> {
    let pages = u32::try_from(TEXT_TOKENS_MAX.div_ceil(PAGE))?;
    let settings = ModelSettings { kv: KvBudget::Blocks(Blocks::new(pages)), ..settings.clone() };
    let mut model = Model::open(file, &settings)?;
    let table: Vec<BlockId> = (0..pages).map(BlockId).collect();
    let mut scores = Scores { name: "overdraft".to_owned(), texts: Vec::new() };
    for tokens in texts {
        scores.texts.push(score(&mut model, tokens, &table)?);
    }
    Ok(scores)
}

fn score(model: &mut Model, tokens: &[TokenId], table: &[BlockId]) -> Result<TextScores> {
    let vocabulary = model.backend.shape().vocabulary;
    let (mut scores, mut logits) = (TextScores::default(), Vec::new());
    for (index, piece) in tokens.chunks(STEP_TOKENS).enumerate() {
        let start = index * STEP_TOKENS;
        let slot =
            BatchSlot { tokens: piece, start: u32::try_from(start)?, table, logits: Logits::Every };
        model.backend.forward(&[slot], &mut logits)?;
        let next = tokens.iter().skip(start + 1).map(Some).chain([None]);
        for (row, next) in logits.chunks_exact(vocabulary).zip(next) {
            let (likeliest, greatest) = likeliest(row);
            scores.likeliest.push(likeliest);
            if let Some(next) = next {
                let sum: f64 = row.iter().map(|logit| f64::from(logit - greatest).exp()).sum();
                let logit = f64::from(row[next.0 as usize] - greatest);
                scores.log_probabilities.push(logit - sum.ln());
            }
        }
    }
    Ok(scores)
}

/// The first of the greatest logits, and its value.
pub(crate) fn likeliest(row: &[f32]) -> (u32, f32) {
    (0..).zip(row).fold(
        (0, f32::NEG_INFINITY),
        |best, (token, &logit)| {
            if logit > best.1 { (token, logit) } else { best }
        },
    )
}

/// The scores of `engine`, as `score_reference.py` names it.
pub(crate) fn theirs(
    python: &Path,
    engine: &'static str,
    model: &Path,
    texts: &[Vec<TokenId>],
) -> Result<Result<Scores, String>> {
    let texts: Vec<Vec<u32>> =
        texts.iter().map(|text| text.iter().map(|token| token.0).collect()).collect();
    let script = Script { file: "score_reference.py", engine, model };
    script.ask(python, &json!(texts))
}
