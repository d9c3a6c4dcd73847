//! The shipped target model answers as `PyTorch` says it must.
//!
//! `models/reference.py` recorded prompts, greedy continuations and log-probabilities in single
//! precision from the same file. Quantized files are compared with their own weights widened to
//! single precision: what differs then is our arithmetic and nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod model_support;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use model_support::{Sequence, step, top, write};
use overdraft_engine::model::{CpuBackend, KvFormat, ModelSettings};
use overdraft_scheduler::batch::Logits;
use overdraft_units::TokenId;
use serde::Deserialize;

/// How far a log-probability may be from the recorded one.
const LOGPROB_TOLERANCE: f64 = 1e-3;
/// Positions of a hundred at which a quantized file must have the same likeliest token.
const SAME_PERCENT_MIN: usize = 99;
/// How far the perplexity of a quantized file may be from that of its weights in single precision.
const PERPLEXITY_TOLERANCE: f64 = 0.01;

/// What `PyTorch` computed.
#[derive(Deserialize)]
struct Reference {
    prompts: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    prompt_ids: Vec<u32>,
    /// Of each prompt token; the first has none.
    prompt_logprobs: Vec<Option<f64>>,
    greedy_ids: Vec<u32>,
    /// For each generated position, the likeliest tokens and their log-probabilities.
    top_logprobs: Vec<Vec<(usize, f64)>>,
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

fn reference() -> Reference {
    let text = std::fs::read_to_string(models().join("reference.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn open(bytes: Vec<u8>, kv_format: KvFormat) -> CpuBackend {
    let settings = ModelSettings { kv_format, ..ModelSettings::default() };
    CpuBackend::open(bytes, &settings).unwrap()
}

/// Natural logarithms of the probabilities of a row of logits.
fn log_probabilities(row: &[f32]) -> Vec<f64> {
    let greatest = row.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = row.iter().map(|logit| f64::from(logit - greatest).exp()).sum();
    row.iter().map(|logit| f64::from(logit - greatest) - sum.ln()).collect()
}

impl Case {
    fn tokens(&self) -> Vec<TokenId> {
        self.prompt_ids.iter().chain(&self.greedy_ids).copied().map(TokenId).collect()
    }

    /// Logits at every position of prompt and continuation.
    fn logits(&self, backend: &mut CpuBackend) -> Vec<Vec<f32>> {
        let tokens = self.tokens();
        let sequence = Sequence::new(&tokens, 0, 16);
        step(backend, &[sequence.slot(0, tokens.len(), Logits::Every)])
    }

    /// How unlikely these logits make the tokens, all but the first: their negative log-probability.
    fn surprise(&self, logits: &[Vec<f32>]) -> f64 {
        let tokens = self.tokens();
        let next = tokens.iter().skip(1);
        -logits
            .iter()
            .zip(next)
            .map(|(row, next)| log_probabilities(row)[next.0 as usize])
            .sum::<f64>()
    }
}

#[test]
fn the_target_continues_as_pytorch_does() {
    let bytes = std::fs::read(models().join("overdraft-target.f16.gguf")).unwrap();
    // The reference keeps keys and values in single precision.
    let mut backend = open(bytes, KvFormat::F32);
    let reference = reference();
    assert_eq!(reference.prompts.len(), 20);
    let mut worst: f64 = 0.0;
    let mut compare = |found: f64, expected: f64| worst = worst.max((found - expected).abs());
    for (index, prompt) in reference.prompts.iter().enumerate() {
        let tokens = prompt.tokens();
        let sequence = Sequence::new(&tokens, 0, 16);
        let start = prompt.prompt_ids.len();
        let mut rows = step(&mut backend, &[sequence.slot(0, start, Logits::Every)]);
        for (position, expected) in prompt.prompt_logprobs.iter().enumerate() {
            if let Some(expected) = expected {
                let found = log_probabilities(&rows[position - 1]);
                compare(found[prompt.prompt_ids[position] as usize], *expected);
            }
        }
        let mut row = rows.pop().unwrap();
        let mut greedy = Vec::new();
        for (at, likeliest) in prompt.top_logprobs.iter().enumerate() {
            let found = log_probabilities(&row);
            for (token, expected) in likeliest {
                compare(found[*token], *expected);
            }
            greedy.push(u32::try_from(top(&row)).unwrap());
            // As long as the tokens are the same, computing ours is computing theirs.
            assert_eq!(
                greedy,
                prompt.greedy_ids[..=at],
                "prompt {index}; were model and reference.json made together?"
            );
            let slot = sequence.slot(start + at, start + at + 1, Logits::Last);
            row = step(&mut backend, &[slot]).pop().unwrap();
        }
    }
    assert!(worst < LOGPROB_TOLERANCE, "a log-probability is off by {worst}");
}

/// The same file with other weights.
fn rewrite(bytes: &[u8], change: impl Fn(QTensor) -> QTensor) -> Vec<u8> {
    let content = Content::read(&mut Cursor::new(bytes)).unwrap();
    let metadata: Vec<(String, Value)> =
        content.metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let tensors: Vec<(String, QTensor)> = content
        .tensor_infos
        .keys()
        .map(|name| {
            let tensor = content.tensor(&mut Cursor::new(bytes), name, &Device::Cpu).unwrap();
            (name.clone(), change(tensor))
        })
        .collect();
    write(&metadata, &tensors)
}

fn converted(tensor: &QTensor, kind: GgmlDType) -> QTensor {
    let numbers = tensor.dequantize(&Device::Cpu).unwrap();
    QTensor::quantize(&numbers, kind).unwrap()
}

/// Compares the likeliest tokens and the perplexity of a file with those of its weights in single
/// precision.
#[track_caller]
fn check(bytes: &[u8]) {
    let widened = rewrite(bytes, |tensor| converted(&tensor, GgmlDType::F32));
    let mut quantized = open(bytes.to_vec(), KvFormat::F16);
    let mut exact = open(widened, KvFormat::F32);
    let (mut same, mut all, mut surprise) = (0, 0, 0.0);
    for prompt in &reference().prompts {
        let (found, expected) = (prompt.logits(&mut quantized), prompt.logits(&mut exact));
        all += found.len();
        same += found.iter().zip(&expected).filter(|(left, right)| top(left) == top(right)).count();
        surprise += prompt.surprise(&found) - prompt.surprise(&expected);
    }
    assert!(SAME_PERCENT_MIN * all <= 100 * same, "{same} of {all} likeliest tokens are the same");
    let off = (surprise / f64::from(u32::try_from(all).unwrap())).exp() - 1.0;
    assert!(off.abs() <= PERPLEXITY_TOLERANCE, "the perplexity is off by {off}");
}

#[test]
fn the_shipped_q8_0_target_keeps_likeliest_tokens_and_perplexity() {
    check(&std::fs::read(models().join("overdraft-target.q8_0.gguf")).unwrap());
}

#[test]
fn every_quantization_of_the_target_keeps_likeliest_tokens_and_perplexity() {
    let bytes = std::fs::read(models().join("overdraft-target.f16.gguf")).unwrap();
    for kind in [
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
    ] {
        let quantized = rewrite(&bytes, |tensor| match tensor.rank() {
            1 => tensor,
            _ => converted(&tensor, kind),
        });
        check(&quantized);
    }
}
