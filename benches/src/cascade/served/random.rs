//! Kill switch with a random-weight draft: how soon its route switches itself off (S5).
//!
//! The demo draft with the numbers of every quantized block drawn anew: the same tokenizer and pace, and nothing known.

use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use crate::Dice;
use anyhow::{Context, Result, ensure};
use candle_core::quantized::{GgmlDType, gguf_file::Content};
use overdraft_claims::{Aim, Claim, as_float};
use serde::Serialize;
use serde_json::json;

use super::client;
use super::fleet::{DRAFT, Fleet, model};

/// No route is watched for longer.
const REQUESTS_MAX: usize = 500;
/// Tokens of an answer: the fewest that meet a draft.
const ANSWER_MAX: u32 = 32;
/// After so many requests it is looked whether the route is off.
const LOOK_EVERY: usize = 5;
/// Bytes of a scale before the numbers of a block.
const SCALE_BYTES: usize = 2;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Random {
    /// Requests after which the gateway said that the route is off; as many as were made where it never did.
    requests: usize,
    is_off: bool,
    /// Answers that were the draft's.
    served: usize,
}

pub(super) async fn ask(binary: &Path) -> Result<Random> {
    let draft = scrambled()?;
    let fleet = Fleet::start(binary, draft.path(), json!({})).await?;
    let questions = super::single_turns(REQUESTS_MAX)?;
    let mut random = Random { requests: 0, is_off: false, served: 0 };
    for question in &questions {
        let body = json!({"model": "chat", "stream": true, "temperature": 0, "max_tokens": ANSWER_MAX,
            "messages": [{"role": "user", "content": question}]});
        let heard = client::chat(fleet.gateway, &body, 1).await?;
        random.requests += 1;
        random.served += usize::from(heard.served.as_deref() != Some("target"));
        if random.requests.is_multiple_of(LOOK_EVERY) {
            let health = client::page(fleet.gateway, "/healthz").await?;
            random.is_off = health.contains("\"cascades_off\":{\"chat\":\"useless\"}");
        }
        if random.is_off {
            break;
        }
    }
    Ok(random)
}

/// The demo draft with other numbers in every block; the scales stay.
fn scrambled() -> Result<tempfile::NamedTempFile> {
    let mut bytes = std::fs::read(model(DRAFT)).context("the demo draft cannot be read")?;
    let mut dice = Dice::new(1);
    let blocks = quantized(&bytes)?;
    ensure!(!blocks.is_empty(), "the demo draft has no quantized tensor");
    for block in blocks {
        for byte in &mut bytes[block] {
            *byte = u8::try_from(dice.below(256))?;
        }
    }
    let mut file = tempfile::Builder::new().suffix(".gguf").tempfile()?;
    file.write_all(&bytes)?;
    Ok(file)
}

/// Where the numbers of every `Q8_0` block lie.
fn quantized(bytes: &[u8]) -> Result<Vec<Range<usize>>> {
    let content = Content::read(&mut std::io::Cursor::new(bytes))?;
    let begin = usize::try_from(content.tensor_data_offset)?;
    let mut blocks = Vec::new();
    for tensor in content.tensor_infos.values() {
        if tensor.ggml_dtype != GgmlDType::Q8_0 {
            continue;
        }
        let (numbers, size) = (tensor.ggml_dtype.block_size(), tensor.ggml_dtype.type_size());
        let first = begin + usize::try_from(tensor.offset)?;
        let count = tensor.shape.elem_count() / numbers;
        blocks.extend((0..count).map(|place| {
            let at = first + place * size;
            at + SCALE_BYTES..at + size
        }));
    }
    ensure!(blocks.iter().all(|block| block.end <= bytes.len()), "the demo draft was cut");
    // In the order of the file, whatever the order of names: the same draft every time.
    blocks.sort_unstable_by_key(|block| block.start);
    Ok(blocks)
}

impl Random {
    pub(super) fn print(&self) {
        let state = if self.is_off { "off" } else { "still on" };
        println!(
            "\nreal gateway and workers, a draft of random weights: {state} after {} requests; {} of its answers given",
            self.requests, self.served
        );
    }

    pub(super) fn claims(&self) -> Vec<Claim> {
        let claim = |figure: &str, measured: f64, aim| Claim {
            demonstration: "S5",
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        let beyond = if self.is_off { self.requests } else { self.requests + 1 };
        vec![
            claim("random_weights_requests_until_off", as_float(beyond), Aim::AtMost(500.0)),
            claim("random_weights_answers_given", as_float(self.served), Aim::AtMost(0.0)),
        ]
    }
}
