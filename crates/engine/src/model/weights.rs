//! Weight loading: packs the tensors of a file into matrices for the kernels.
//!
//! Each tensor is read, packed and dropped before the next is read: at no time does more than one
//! exist twice. The embedding is packed like any other matrix and its rows are decoded on demand,
//! so a model whose output is tied to its embedding holds one copy of both.

use overdraft_kernels::{Matrix, Pool, WeightFormat};

use super::numbers;
use super::shape::{Dimensions, HeadNorms};
use crate::gguf::{Gguf, OpenError, TensorData, TensorType};

/// A matrix and, where the model has one, what is added to its product.
#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

/// The weights of one layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    /// Norms of each query head and each key head.
    pub(crate) head_norms: Option<(Vec<f32>, Vec<f32>)>,
    pub(crate) output: Linear,
    pub(crate) feed_forward_norm: Vec<f32>,
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

/// The weights of a network.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) embedding: Matrix,
    pub(crate) layers: Vec<Layer>,
    pub(crate) output_norm: Vec<f32>,
    /// `None`: the embedding serves.
    output: Option<Matrix>,
}

impl Weights {
    /// Reads and packs all tensors that the dimensions call for.
    pub(crate) fn load(
        gguf: &Gguf,
        dimensions: &Dimensions,
        pool: &Pool,
    ) -> Result<Self, OpenError> {
        let loader = Loader { gguf, pool };
        let (vocabulary, hidden) = (dimensions.vocabulary, dimensions.hidden);
        let embedding = loader.matrix("token_embd.weight", vocabulary, hidden)?;
        let output_norm = loader.vector("output_norm.weight", hidden)?;
        let name = "output.weight";
        let own = gguf.has(name).then(|| loader.matrix(name, vocabulary, hidden));
        let mut layers = Vec::new();
        for layer in 0..dimensions.layers {
            layers.push(loader.layer(layer, dimensions)?);
        }
        Ok(Self { embedding, layers, output_norm, output: own.transpose()? })
    }

    /// The matrix from the last state to logits.
    pub(crate) fn output(&self) -> &Matrix {
        self.output.as_ref().unwrap_or(&self.embedding)
    }

    /// Bytes of weights that a step reads, whatever its tokens.
    pub(crate) fn step_bytes(&self) -> u64 {
        let layers = self.layers.iter().flat_map(Layer::linears).map(|linear| &linear.matrix);
        layers.chain([self.output()]).map(|matrix| matrix.bytes() as u64).sum()
    }
}

impl Layer {
    fn linears(&self) -> [&Linear; 7] {
        let Self { query, key, value, output, gate, up, down, .. } = self;
        [query, key, value, output, gate, up, down]
    }
}

/// Reads tensors of one file.
struct Loader<'a> {
    gguf: &'a Gguf,
    pool: &'a Pool,
}

impl Loader<'_> {
    fn layer(&self, layer: usize, dimensions: &Dimensions) -> Result<Layer, OpenError> {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let hidden = dimensions.hidden;
        let (query, kv) = (dimensions.query_width(), dimensions.kv_width());
        let feed_forward = dimensions.feed_forward;
        let head_norms = match dimensions.head_norms {
            HeadNorms::Absent => None,
            HeadNorms::Present => Some((
                self.vector(&name("attn_q_norm.weight"), dimensions.head)?,
                self.vector(&name("attn_k_norm.weight"), dimensions.head)?,
            )),
        };
        Ok(Layer {
            attention_norm: self.vector(&name("attn_norm.weight"), hidden)?,
            query: self.linear(&name("attn_q"), query, hidden)?,
            key: self.linear(&name("attn_k"), kv, hidden)?,
            value: self.linear(&name("attn_v"), kv, hidden)?,
            head_norms,
            output: self.linear(&name("attn_output"), hidden, query)?,
            feed_forward_norm: self.vector(&name("ffn_norm.weight"), hidden)?,
            gate: self.linear(&name("ffn_gate"), feed_forward, hidden)?,
            up: self.linear(&name("ffn_up"), feed_forward, hidden)?,
            down: self.linear(&name("ffn_down"), hidden, feed_forward)?,
        })
    }

    fn linear(&self, name: &str, rows: usize, columns: usize) -> Result<Linear, OpenError> {
        let matrix = self.matrix(&format!("{name}.weight"), rows, columns)?;
        let bias = format!("{name}.bias");
        let bias = self.gguf.has(&bias).then(|| self.vector(&bias, rows)).transpose()?;
        Ok(Linear { matrix, bias })
    }

    fn vector(&self, name: &str, width: usize) -> Result<Vec<f32>, OpenError> {
        numbers::to_f32(&self.gguf.tensor(name, &[width])?, name)
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, OpenError> {
        let data = self.gguf.tensor(name, &[rows, columns])?;
        let corrupt =
            |reason: String| OpenError::Corrupt { what: format!("the tensor `{name}`: {reason}") };
        let pack = |format, bytes: &[u8]| {
            Matrix::pack(format, rows, columns, bytes, self.pool)
                .map_err(|error| corrupt(error.to_string()))
        };
        match WeightFormat::from_ggml(data.kind.number()) {
            Some(format) => pack(format, &data.bytes),
            // No kernel reads it: half precision holds more than its few bits.
            None => pack(WeightFormat::F16, &as_f16(&data, name)?),
        }
    }
}

fn as_f16(data: &TensorData<'_>, name: &str) -> Result<Vec<u8>, OpenError> {
    debug_assert_ne!(data.kind, TensorType::F32, "single precision has a kernel of its own");
    let numbers = numbers::to_f32(data, name)?;
    Ok(numbers.iter().flat_map(|&number| half::f16::from_f32(number).to_le_bytes()).collect())
}
