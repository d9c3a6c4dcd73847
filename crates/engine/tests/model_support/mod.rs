//! Small models of random weights, and a naive computation of what they should answer.
//!
//! The files are written with candle's GGUF writer, so the reader under test never sees its own
//! handwriting; the oracle computes in double precision, one position after the other, from the
//! weights as the file's encoding rounds them.

#![allow(dead_code, reason = "each test binary uses its own part of the support")]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "test sizes")]

pub(crate) mod oracle;

use std::collections::BTreeMap;
use std::io::Cursor;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use overdraft_engine::{Backend, BatchSlot};
use overdraft_scheduler::batch::Logits;
use overdraft_units::{BlockId, TokenId};

/// The dimensions and variations of a small model.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a variation of its own")]
pub(crate) struct Tiny {
    pub(crate) architecture: &'static str,
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head: usize,
    pub(crate) feed_forward: usize,
    pub(crate) vocabulary: usize,
    pub(crate) context: u32,
    pub(crate) output: Output,
    pub(crate) biases: bool,
    pub(crate) head_norms: bool,
    /// Divisors of the rope frequencies, as Llama 3.1 has them.
    pub(crate) rope_divisors: bool,
    pub(crate) scaling: Scaling,
    pub(crate) kind: GgmlDType,
    pub(crate) seed: u64,
}

/// How positions are stretched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scaling {
    None,
    Linear(f32),
    /// By [`oracle::YARN_FACTOR`] after [`oracle::YARN_CONTEXT`] positions.
    Yarn,
}

/// Whether the output projection is the embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Tied,
    Own,
}

impl Tiny {
    /// A Llama whose widths suit every encoding.
    pub(crate) fn llama(kind: GgmlDType) -> Self {
        Self {
            architecture: "llama",
            layers: 2,
            hidden: 256,
            heads: 4,
            kv_heads: 2,
            head: 64,
            feed_forward: 512,
            vocabulary: 301,
            context: 512,
            output: Output::Own,
            biases: false,
            head_norms: false,
            rope_divisors: false,
            scaling: Scaling::None,
            kind,
            seed: 1,
        }
    }

    /// Biases on queries, keys and values; an output tied to the embedding.
    pub(crate) fn qwen2(kind: GgmlDType) -> Self {
        let output = Output::Tied;
        Self { architecture: "qwen2", biases: true, output, seed: 2, ..Self::llama(kind) }
    }

    /// Norms per head, and heads wider than the model's width implies.
    pub(crate) fn qwen3(kind: GgmlDType) -> Self {
        Self { architecture: "qwen3", head: 128, head_norms: true, seed: 3, ..Self::llama(kind) }
    }

    /// Writes the file, and remembers its weights.
    pub(crate) fn build(&self) -> Built {
        let mut builder = Builder { random: Random(self.seed), kind: self.kind, tensors: vec![] };
        let (query, kv) = (self.heads * self.head, self.kv_heads * self.head);
        builder.matrix("token_embd.weight", self.vocabulary, self.hidden, 1.0);
        for layer in 0..self.layers {
            let name = |suffix: &str| format!("blk.{layer}.{suffix}");
            builder.norm(&name("attn_norm.weight"), self.hidden);
            builder.matrix(&name("attn_q.weight"), query, self.hidden, 2.0);
            builder.matrix(&name("attn_k.weight"), kv, self.hidden, 2.0);
            builder.matrix(&name("attn_v.weight"), kv, self.hidden, 1.0);
            builder.matrix(&name("attn_output.weight"), self.hidden, query, 1.0);
            builder.norm(&name("ffn_norm.weight"), self.hidden);
            builder.matrix(&name("ffn_gate.weight"), self.feed_forward, self.hidden, 1.0);
            builder.matrix(&name("ffn_up.weight"), self.feed_forward, self.hidden, 1.0);
            builder.matrix(&name("ffn_down.weight"), self.hidden, self.feed_forward, 1.0);
            if self.biases {
                builder.vector(&name("attn_q.bias"), query, |random| 0.5 * random.normal());
                builder.vector(&name("attn_k.bias"), kv, |random| 0.5 * random.normal());
                builder.vector(&name("attn_v.bias"), kv, |random| 0.5 * random.normal());
            }
            if self.head_norms {
                builder.norm(&name("attn_q_norm.weight"), self.head);
                builder.norm(&name("attn_k_norm.weight"), self.head);
            }
        }
        builder.norm("output_norm.weight", self.hidden);
        if self.output == Output::Own {
            builder.matrix("output.weight", self.vocabulary, self.hidden, 3.0);
        }
        if self.rope_divisors {
            builder.vector("rope_freqs.weight", self.head / 2, |random| 1.0 + 7.0 * random.unit());
        }
        Built::new(self.clone(), &builder.tensors)
    }

    fn metadata(&self) -> Vec<(String, Value)> {
        let key = |suffix: &str| format!("{}.{suffix}", self.architecture);
        let count = |value: usize| Value::U32(u32::try_from(value).unwrap());
        let mut entries = vec![
            ("general.architecture".to_owned(), Value::String(self.architecture.to_owned())),
            ("general.name".to_owned(), Value::String(format!("Tiny {}", self.architecture))),
            (key("block_count"), count(self.layers)),
            (key("embedding_length"), count(self.hidden)),
            (key("attention.head_count"), count(self.heads)),
            (key("attention.head_count_kv"), count(self.kv_heads)),
            (key("feed_forward_length"), count(self.feed_forward)),
            (key("context_length"), Value::U32(self.context)),
            (key("attention.layer_norm_rms_epsilon"), Value::F32(oracle::EPSILON)),
            (key("rope.freq_base"), Value::F32(oracle::ROPE_BASE)),
        ];
        if self.head != self.hidden / self.heads {
            entries.push((key("attention.key_length"), count(self.head)));
            entries.push((key("attention.value_length"), count(self.head)));
        }
        let mut scale = |method: &str, factor| {
            entries.push((key("rope.scaling.type"), Value::String(method.to_owned())));
            entries.push((key("rope.scaling.factor"), Value::F32(factor)));
        };
        match self.scaling {
            Scaling::None => {}
            Scaling::Linear(factor) => scale("linear", factor),
            Scaling::Yarn => {
                scale("yarn", oracle::YARN_FACTOR);
                let trained = Value::U32(oracle::YARN_CONTEXT);
                entries.push((key("rope.scaling.original_context_length"), trained));
            }
        }
        entries
    }
}

/// A written model and what is in it.
pub(crate) struct Built {
    pub(crate) tiny: Tiny,
    /// The file.
    pub(crate) bytes: Vec<u8>,
    /// The weights as their encoding rounds them.
    pub(crate) weights: BTreeMap<String, Vec<f32>>,
}

impl Built {
    fn new(tiny: Tiny, tensors: &[(String, QTensor)]) -> Self {
        let weights = tensors
            .iter()
            .map(|(name, tensor)| {
                let values = tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap();
                (name.clone(), values.to_vec1().unwrap())
            })
            .collect();
        let bytes = write(&tiny.metadata(), tensors);
        Self { tiny, bytes, weights }
    }

    /// The file with one metadata entry more, or another value of one.
    pub(crate) fn with_metadata(&self, key: &str, value: Value) -> Vec<u8> {
        let mut metadata = self.tiny.metadata();
        metadata.retain(|(present, _)| present != key);
        metadata.push((key.to_owned(), value));
        let content = gguf_file::Content::read(&mut Cursor::new(&self.bytes)).unwrap();
        let tensor = |name: &String| {
            content.tensor(&mut Cursor::new(&self.bytes), name, &Device::Cpu).unwrap()
        };
        let tensors: Vec<_> =
            content.tensor_infos.keys().map(|name| (name.clone(), tensor(name))).collect();
        write(&metadata, &tensors)
    }
}

/// Writes a GGUF file with candle.
pub(crate) fn write(metadata: &[(String, Value)], tensors: &[(String, QTensor)]) -> Vec<u8> {
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors).unwrap();
    file.into_inner()
}

struct Builder {
    random: Random,
    kind: GgmlDType,
    tensors: Vec<(String, QTensor)>,
}

impl Builder {
    fn matrix(&mut self, name: &str, rows: usize, columns: usize, gain: f32) {
        let scale = gain / (columns as f32).sqrt();
        let values: Vec<f32> = (0..rows * columns).map(|_| self.random.normal() * scale).collect();
        let tensor = Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap();
        self.tensors.push((name.to_owned(), QTensor::quantize(&tensor, self.kind).unwrap()));
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.vector(name, width, |random| 1.0 + 0.2 * random.normal());
    }

    fn vector(&mut self, name: &str, width: usize, draw: impl Fn(&mut Random) -> f32) {
        let values: Vec<f32> = (0..width).map(|_| draw(&mut self.random)).collect();
        let tensor = Tensor::from_vec(values, width, &Device::Cpu).unwrap();
        self.tensors.push((name.to_owned(), QTensor::quantize(&tensor, GgmlDType::F32).unwrap()));
    }
}

/// `SplitMix64`: the same numbers on every machine.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits() % bound as u64).unwrap()
    }

    /// Uniform in 0..1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// Near enough normal: the sum of twelve uniforms.
    pub(crate) fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.unit()).sum::<f32>() - 6.0
    }

    pub(crate) fn tokens(&mut self, count: usize, vocabulary: usize) -> Vec<TokenId> {
        (0..count).map(|_| TokenId(u32::try_from(self.below(vocabulary)).unwrap())).collect()
    }
}

/// A run of one sequence: its pages, and how many positions are computed.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) table: Vec<BlockId>,
}

impl Sequence {
    /// A sequence of these tokens on pages from `first` on.
    pub(crate) fn new(tokens: &[TokenId], first: u32, block_size: usize) -> Self {
        let pages = u32::try_from(tokens.len().div_ceil(block_size)).unwrap();
        Self { tokens: tokens.to_vec(), table: (first..first + pages).map(BlockId).collect() }
    }

    /// The part of it at `start..end`.
    pub(crate) fn slot(&self, start: usize, end: usize, logits: Logits) -> BatchSlot<'_> {
        let tokens = &self.tokens[start..end];
        BatchSlot { tokens, start: u32::try_from(start).unwrap(), table: &self.table, logits }
    }
}

/// One step, with its logits as rows.
pub(crate) fn step(backend: &mut dyn Backend, batch: &[BatchSlot<'_>]) -> Vec<Vec<f32>> {
    let mut logits = Vec::new();
    backend.forward(batch, &mut logits).unwrap();
    let vocabulary = backend.shape().vocabulary;
    logits.chunks(vocabulary).map(<[f32]>::to_vec).collect()
}

/// The likeliest token of a row; the first of equals.
pub(crate) fn top(row: &[f32]) -> usize {
    (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()
}

/// How far `found` is from `expected`, relative to the spread of `expected`.
pub(crate) fn relative_error(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let mean = expected.iter().sum::<f64>() / expected.len() as f64;
    let spread: f64 = expected.iter().map(|value| (value - mean).powi(2)).sum();
    let error: f64 =
        found.iter().zip(expected).map(|(&found, value)| (f64::from(found) - value).powi(2)).sum();
    (error / spread).sqrt()
}
