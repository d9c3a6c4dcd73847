//! Random-weight model: made for the benches when no model file is given.
//!
//! Weights do not change the work, so they are random: written once as `Q4_K_M` would be (`Q4_K`, with
//! `Q6_K` for the output and for the more sensitive half of values and down projections), and kept
//! beside the build.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::{Context, Result};
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};

/// Random weights that all tensors are cut from.
const BANK: usize = 1 << 20;
/// Their standard deviation, as in trained models of this width.
const DEVIATION: f32 = 0.02;
/// Positions that the file claims to be trained for.
const CONTEXT: u32 = 4096;

/// How large a model is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    /// 100M weights, for quick runs.
    Small,
    /// 1.04G weights, in the shape of Llama 3.2 1B with a smaller vocabulary.
    Large,
    /// 10M weights, to guess for the small one; most of them are its vocabulary.
    SmallDraft,
    /// 50M weights, a twentieth of the large one, to guess for it.
    LargeDraft,
}

/// A Llama's dimensions.
struct Shape {
    name: &'static str,
    layers: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    feed_forward: usize,
}

/// Tokens that the models know.
pub(crate) const VOCABULARY: usize = 16_384;

impl Size {
    fn shape(self) -> Shape {
        match self {
            Self::Small => Shape {
                name: "random-110m",
                layers: 12,
                hidden: 768,
                heads: 12,
                kv_heads: 4,
                feed_forward: 2048,
            },
            Self::Large => Shape {
                name: "random-1b",
                layers: 16,
                hidden: 2048,
                heads: 32,
                kv_heads: 8,
                feed_forward: 8192,
            },
            Self::SmallDraft => Shape {
                name: "random-10m",
                layers: 2,
                hidden: 256,
                heads: 4,
                kv_heads: 2,
                feed_forward: 1024,
            },
            Self::LargeDraft => Shape {
                name: "random-50m",
                layers: 4,
                hidden: 768,
                heads: 12,
                kv_heads: 4,
                feed_forward: 2048,
            },
        }
    }
}

/// The file of random weights of this size; written on first use.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn random(size: Size) -> Result<PathBuf> {
    let shape = size.shape();
    let program = std::env::current_exe().context("the bench cannot find itself")?;
    let folder = program.parent().context("the bench is in no folder")?.join("bench-models");
    let file = folder.join(format!("{}-q4_k_m.gguf", shape.name));
    if file.is_file() {
        return Ok(file);
    }
    fs::create_dir_all(&folder)
        .with_context(|| format!("`{}` cannot be made", folder.display()))?;
    // Renamed when complete: an interrupted run must not leave half a model.
    let unfinished = file.with_extension("part");
    write(&shape, &unfinished)?;
    fs::rename(&unfinished, &file)?;
    Ok(file)
}

fn write(shape: &Shape, path: &std::path::Path) -> Result<()> {
    let tensors = Bank::new()?.tensors(shape)?;
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let metadata = metadata(shape);
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let mut file = BufWriter::new(File::create(path)?);
    gguf_file::write(&mut file, &metadata, &tensors).context("the model cannot be written")
}

fn metadata(shape: &Shape) -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::String(text.to_owned());
    let count = |count: usize| Value::U32(u32::try_from(count).unwrap_or(u32::MAX));
    vec![
        ("general.architecture", text("llama")),
        ("general.name", text(shape.name)),
        ("general.file_type", Value::U32(15)),
        ("llama.block_count", count(shape.layers)),
        ("llama.context_length", Value::U32(CONTEXT)),
        ("llama.embedding_length", count(shape.hidden)),
        ("llama.feed_forward_length", count(shape.feed_forward)),
        ("llama.attention.head_count", count(shape.heads)),
        ("llama.attention.head_count_kv", count(shape.kv_heads)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.dimension_count", count(shape.hidden / shape.heads)),
        ("llama.vocab_size", count(VOCABULARY)),
        // llama.cpp's word for a model without a tokenizer.
        ("tokenizer.ggml.model", text("none")),
    ]
}

/// Quantized random numbers.
struct Bank {
    fine: Vec<u8>,
    coarse: Vec<u8>,
    /// Where the next tensor is cut, in blocks.
    next: usize,
}

impl Bank {
    fn new() -> Result<Self> {
        let mut state = 1_u64;
        let numbers: Vec<f32> = (0..BANK).map(|_| DEVIATION * normal(&mut state)).collect();
        let numbers = Tensor::from_vec(numbers, BANK, &Device::Cpu)?;
        let quantized = |kind| -> Result<Vec<u8>> {
            Ok(QTensor::quantize(&numbers, kind)?.data()?.into_owned())
        };
        Ok(Self { fine: quantized(GgmlDType::Q6K)?, coarse: quantized(GgmlDType::Q4K)?, next: 0 })
    }

    fn tensors(mut self, shape: &Shape) -> Result<Vec<(String, QTensor)>> {
        let Shape { hidden, feed_forward, .. } = *shape;
        let kv = hidden / shape.heads * shape.kv_heads;
        let mut tensors = vec![
            ("token_embd.weight".to_owned(), self.matrix(VOCABULARY, hidden, GgmlDType::Q4K)?),
            ("output_norm.weight".to_owned(), ones(hidden)?),
            ("output.weight".to_owned(), self.matrix(VOCABULARY, hidden, GgmlDType::Q6K)?),
        ];
        for layer in 0..shape.layers {
            // The layers that llama.cpp's Q4_K_M gives more bits.
            let eighth = shape.layers / 8;
            let sensitive =
                layer < eighth || 7 * shape.layers / 8 <= layer || (layer - eighth) % 3 == 2;
            let mixed = if sensitive { GgmlDType::Q6K } else { GgmlDType::Q4K };
            let matrices = [
                ("attn_q", hidden, hidden, GgmlDType::Q4K),
                ("attn_k", kv, hidden, GgmlDType::Q4K),
                ("attn_v", kv, hidden, mixed),
                ("attn_output", hidden, hidden, GgmlDType::Q4K),
                ("ffn_gate", feed_forward, hidden, GgmlDType::Q4K),
                ("ffn_up", feed_forward, hidden, GgmlDType::Q4K),
                ("ffn_down", hidden, feed_forward, mixed),
            ];
            for (part, rows, columns, kind) in matrices {
                let name = format!("blk.{layer}.{part}.weight");
                tensors.push((name, self.matrix(rows, columns, kind)?));
            }
            for part in ["attn_norm", "ffn_norm"] {
                tensors.push((format!("blk.{layer}.{part}.weight"), ones(hidden)?));
            }
        }
        Ok(tensors)
    }

    /// Cuts a matrix from the bank, which starts again at its end.
    fn matrix(&mut self, rows: usize, columns: usize, kind: GgmlDType) -> Result<QTensor> {
        let bank = if kind == GgmlDType::Q6K { &self.fine } else { &self.coarse };
        let needed = rows * columns / kind.block_size() * kind.type_size();
        let offset = self.next * kind.type_size() % bank.len();
        let bytes: Vec<u8> = bank.iter().cycle().skip(offset).take(needed).copied().collect();
        // A prime stride, so that no two tensors are cut alike.
        self.next = (self.next + 1009) % (BANK / kind.block_size());
        let storage = QStorage::from_data(bytes.into(), &Device::Cpu, kind)?;
        Ok(QTensor::new(storage, (rows, columns))?)
    }
}

fn ones(width: usize) -> Result<QTensor> {
    let numbers = Tensor::from_vec(vec![1_f32; width], width, &Device::Cpu)?;
    Ok(QTensor::quantize(&numbers, GgmlDType::F32)?)
}

/// Near enough normal: the sum of twelve uniforms of a linear congruential generator.
fn normal(state: &mut u64) -> f32 {
    let mut sum = -6.0;
    for _ in 0..12 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let high = u16::try_from(*state >> 48).unwrap_or(u16::MAX);
        sum += f32::from(high) / 65_536.0;
    }
    sum
}
