//! How is the same network computed where our kernels do not reach: on CUDA and Metal devices?
//!
//! With candle's tensors: weights stay quantized, keys and values are one tensor a layer whose rows
//! the pages address. Unlike on the processor, a position's logits may differ in their last bits with
//! the size of the batch, as candle picks its kernels by it.

use candle_core::quantized::{QMatMul, QStorage, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor};
use overdraft_kernels::KvFormat;

use super::rows::Rows;
use super::settings::ModelSettings;
use super::shape::{Dimensions, HeadNorms, RopeStyle};
use crate::backend::{Backend, BackendError, BatchSlot, ModelShape};
use crate::gguf::{Gguf, GgufSource, OpenError};

/// A model on a device of candle's.
pub struct TensorBackend {
    shape: ModelShape,
    dimensions: Dimensions,
    device: Device,
    embedding: QTensor,
    layers: Vec<Layer>,
    output_norm: Tensor,
    output: QMatMul,
    frequencies: Tensor,
    rows: Rows,
}

impl std::fmt::Debug for TensorBackend {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = out.debug_struct("TensorBackend");
        fields.field("shape", &self.shape).field("device", &self.device).finish_non_exhaustive()
    }
}

/// A matrix, and what is added to its product.
struct Linear {
    matrix: QMatMul,
    bias: Option<Tensor>,
}

struct Layer {
    attention_norm: Tensor,
    query: Linear,
    key: Linear,
    value: Linear,
    head_norms: Option<(Tensor, Tensor)>,
    output: Linear,
    feed_forward_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
    /// One row of all key heads for each token slot of each page.
    keys: Tensor,
    values: Tensor,
}

impl TensorBackend {
    /// Opens a model for a device of candle's.
    ///
    /// # Errors
    /// [`OpenError`] when the file cannot be read or the model cannot be run there.
    pub fn open(
        source: impl Into<GgufSource>,
        settings: &ModelSettings,
        device: &Device,
    ) -> std::result::Result<Self, OpenError> {
        let gguf = Gguf::open(source)?;
        let dimensions = Dimensions::read(&gguf)?;
        Self::load(&gguf, dimensions, settings, device)
    }

    pub(super) fn load(
        gguf: &Gguf,
        dimensions: Dimensions,
        settings: &ModelSettings,
        device: &Device,
    ) -> std::result::Result<Self, OpenError> {
        let shape = ModelShape {
            vocabulary: dimensions.vocabulary,
            context: settings.context(&dimensions),
            blocks: settings.blocks(&dimensions)?,
            block_size: settings.block_size,
        };
        let slots = shape.blocks.get() as usize * shape.block_size.get() as usize;
        let kind = match settings.kv_format {
            KvFormat::F16 => DType::F16,
            KvFormat::F32 => DType::F32,
        };
        let loader = Loader { gguf, dimensions: &dimensions, device, cache: (slots, kind) };
        let (vocabulary, hidden) = (dimensions.vocabulary, dimensions.hidden);
        let layers = (0..dimensions.layers).map(|layer| loader.layer(layer));
        let layers = layers.collect::<std::result::Result<_, OpenError>>()?;
        let name = if gguf.has("output.weight") { "output.weight" } else { "token_embd.weight" };
        let output = loader.matrix(name, vocabulary, hidden)?;
        let frequencies = dimensions.rope.frequencies.as_slice();
        Ok(Self {
            shape,
            embedding: loader.tensor("token_embd.weight", &[vocabulary, hidden])?,
            layers,
            output_norm: loader.vector("output_norm.weight", hidden)?,
            output,
            frequencies: loader.device(Tensor::new(frequencies, device))?,
            rows: Rows::default(),
            device: device.clone(),
            dimensions,
        })
    }

    fn compute(&self, logits: &mut Vec<f32>) -> Result<()> {
        let rows = &self.rows;
        let step = Step::new(self, rows)?;
        let tokens = Tensor::new(rows.tokens.as_slice(), &self.device)?;
        let mut states = self.embedding.embedding(&tokens)?.to_dtype(DType::F32)?;
        for layer in &self.layers {
            states = step.attend(layer, &states)?;
            states = step.feed_forward(layer, &states)?;
        }
        if rows.wanted.is_empty() {
            return Ok(());
        }
        let wanted: Vec<u32> = rows.wanted.iter().map(|&row| index(row)).collect();
        let states = states.index_select(&Tensor::new(wanted, &self.device)?, 0)?;
        let states = rms_norm(&states, &self.output_norm, self.dimensions.norm_epsilon)?;
        logits.extend(self.output.forward(&states)?.flatten_all()?.to_vec1::<f32>()?);
        Ok(())
    }
}

impl Backend for TensorBackend {
    fn shape(&self) -> ModelShape {
        self.shape
    }

    fn forward(
        &mut self,
        batch: &[BatchSlot<'_>],
        logits: &mut Vec<f32>,
    ) -> std::result::Result<(), BackendError> {
        logits.clear();
        self.rows.lay_out(batch, &self.shape)?;
        if self.rows.tokens.is_empty() {
            return Ok(());
        }
        self.compute(logits).map_err(|error| BackendError { reason: error.to_string() })
    }
}

/// What all layers of a step share.
struct Step<'a> {
    dimensions: &'a Dimensions,
    cosines: Tensor,
    sines: Tensor,
    /// The token slot that each row is stored in, repeated over the row's width.
    stored: Tensor,
    runs: Vec<Run>,
}

/// Consecutive rows of one sequence.
struct Run {
    first: usize,
    count: usize,
    /// The token slots that they attend to.
    slots: Tensor,
    /// Minus infinity where a row would see what comes after it: `[1, rows, 1, slots]`.
    mask: Tensor,
}

impl<'a> Step<'a> {
    fn new(backend: &'a TensorBackend, rows: &Rows) -> Result<Self> {
        let (device, dimensions) = (&backend.device, &backend.dimensions);
        let block_size = backend.shape.block_size.get() as usize;
        let contexts = rows.contexts();
        let slot = |table: &[u32], position: usize| {
            table[position / block_size] * index(block_size) + index(position % block_size)
        };
        let stored: Vec<u32> =
            contexts.iter().map(|context| slot(context.table, context.position)).collect();
        let stored = Tensor::from_vec(stored, (contexts.len(), 1), device)?;
        let positions: Vec<u32> = rows.positions.iter().map(|&position| index(position)).collect();
        let positions = Tensor::new(positions, device)?.to_dtype(DType::F32)?.unsqueeze(1)?;
        let angles = positions.broadcast_mul(&backend.frequencies)?.unsqueeze(1)?;
        let mut runs = Vec::new();
        let mut first = 0;
        while first < contexts.len() {
            let start = contexts[first];
            let follows = |offset: &usize| {
                contexts.get(first + offset).is_some_and(|next| {
                    std::ptr::eq(next.table, start.table)
                        && next.position == start.position + offset
                })
            };
            let count = (0..contexts.len() - first).take_while(follows).count();
            let end = start.position + count;
            let slots: Vec<u32> = (0..end).map(|past| slot(start.table, past)).collect();
            let mask: Vec<f32> = (0..count)
                .flat_map(|row| (0..end).map(move |past| (row, past)))
                .map(
                    |(row, past)| {
                        if past <= start.position + row { 0.0 } else { f32::NEG_INFINITY }
                    },
                )
                .collect();
            let slots = Tensor::new(slots, device)?;
            let mask = Tensor::from_vec(mask, (1, count, 1, end), device)?;
            runs.push(Run { first, count, slots, mask });
            first += count;
        }
        Ok(Self {
            dimensions,
            cosines: angles.cos()?,
            sines: angles.sin()?,
            stored: stored.broadcast_as((contexts.len(), dimensions.kv_width()))?.contiguous()?,
            runs,
        })
    }

    fn attend(&self, layer: &Layer, states: &Tensor) -> Result<Tensor> {
        let Dimensions { heads, kv_heads, head, norm_epsilon, .. } = *self.dimensions;
        let input = rms_norm(states, &layer.attention_norm, norm_epsilon)?;
        let norms = layer.head_norms.as_ref();
        let queries = self.heads(&layer.query, &input, heads, norms.map(|(query, _)| query))?;
        let keys = self.heads(&layer.key, &input, kv_heads, norms.map(|(_, key)| key))?;
        let kind = layer.keys.dtype();
        let keys = keys.flatten_from(1)?.to_dtype(kind)?.contiguous()?;
        let values = layer.value.forward(&input)?.to_dtype(kind)?.contiguous()?;
        layer.keys.scatter_set(&self.stored, &keys, 0)?;
        layer.values.scatter_set(&self.stored, &values, 0)?;
        let (group, scale) = (heads / kv_heads, 1.0 / f64::from(index(head)).sqrt());
        let mut mixed = Vec::new();
        for run in &self.runs {
            // [kv heads, slots, head] and [kv heads, rows * group, head]
            let past = |cache: &Tensor| {
                let rows = cache.index_select(&run.slots, 0)?.to_dtype(DType::F32)?;
                rows.reshape(((), kv_heads, head))?.transpose(0, 1)?.contiguous()
            };
            let rows = queries.narrow(0, run.first, run.count)?;
            let rows = rows.reshape((run.count, kv_heads, group, head))?.permute((1, 0, 2, 3))?;
            let rows = rows.contiguous()?.reshape((kv_heads, run.count * group, head))?;
            let scores = rows.matmul(&past(&layer.keys)?.transpose(1, 2)?)?;
            let scores = (scores * scale)?;
            let scores = scores.reshape((kv_heads, run.count, group, ()))?;
            let shares = softmax(&scores.broadcast_add(&run.mask)?)?;
            let shares = shares.reshape((kv_heads, run.count * group, ()))?;
            let found = shares.matmul(&past(&layer.values)?)?;
            let found = found.reshape((kv_heads, run.count, group, head))?.permute((1, 0, 2, 3))?;
            mixed.push(found.contiguous()?.reshape((run.count, heads * head))?);
        }
        states + layer.output.forward(&Tensor::cat(&mixed, 0)?)?
    }

    fn feed_forward(&self, layer: &Layer, states: &Tensor) -> Result<Tensor> {
        let input = rms_norm(states, &layer.feed_forward_norm, self.dimensions.norm_epsilon)?;
        let gated = (layer.gate.forward(&input)?.silu()? * layer.up.forward(&input)?)?;
        states + layer.down.forward(&gated)?
    }

    /// Projects rows to heads, normalises them where the model does, and turns them.
    fn heads(
        &self,
        linear: &Linear,
        input: &Tensor,
        heads: usize,
        norm: Option<&Tensor>,
    ) -> Result<Tensor> {
        let head = self.dimensions.head;
        let rows = linear.forward(input)?.reshape(((), heads, head))?;
        let rows = match norm {
            Some(norm) => rms_norm(&rows, norm, self.dimensions.norm_epsilon)?,
            None => rows,
        };
        let pairs = self.dimensions.rope.frequencies.len();
        let turned = rows.narrow(2, 0, 2 * pairs)?;
        let stays = rows.narrow(2, 2 * pairs, head - 2 * pairs)?;
        let (left, right) = match self.dimensions.rope.style {
            RopeStyle::Halves => (turned.narrow(2, 0, pairs)?, turned.narrow(2, pairs, pairs)?),
            RopeStyle::Interleaved => {
                let turned = turned.reshape(((), heads, pairs, 2))?;
                (turned.narrow(3, 0, 1)?.squeeze(3)?, turned.narrow(3, 1, 1)?.squeeze(3)?)
            }
        };
        let (cosines, sines) = (&self.cosines, &self.sines);
        let first = (left.broadcast_mul(cosines)? - right.broadcast_mul(sines)?)?;
        let second = (left.broadcast_mul(sines)? + right.broadcast_mul(cosines)?)?;
        let turned = match self.dimensions.rope.style {
            RopeStyle::Halves => Tensor::cat(&[first, second], 2)?,
            RopeStyle::Interleaved => Tensor::stack(&[first, second], 3)?.flatten_from(2)?,
        };
        if head == 2 * pairs { Ok(turned) } else { Tensor::cat(&[turned, stays], 2) }
    }
}

impl Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let product = self.matrix.forward(input)?;
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}

fn rms_norm(rows: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    let mean = (rows.sqr()?.mean_keepdim(D::Minus1)? + f64::from(epsilon))?;
    rows.broadcast_div(&mean.sqrt()?)?.broadcast_mul(weight)
}

fn softmax(scores: &Tensor) -> Result<Tensor> {
    let shares = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    shares.broadcast_div(&shares.sum_keepdim(D::Minus1)?)
}

fn index(number: usize) -> u32 {
    u32::try_from(number).expect("rows and positions are counted in 32 bits")
}

/// Reads tensors of one file onto one device.
struct Loader<'a> {
    gguf: &'a Gguf,
    dimensions: &'a Dimensions,
    device: &'a Device,
    /// Token slots of the key-value cache, and the type of its numbers.
    cache: (usize, DType),
}

impl Loader<'_> {
    fn layer(&self, layer: usize) -> std::result::Result<Layer, OpenError> {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let Dimensions { hidden, head, feed_forward, .. } = *self.dimensions;
        let (query, kv) = (self.dimensions.query_width(), self.dimensions.kv_width());
        let head_norms = match self.dimensions.head_norms {
            HeadNorms::Absent => None,
            HeadNorms::Present => Some((
                self.vector(&name("attn_q_norm.weight"), head)?,
                self.vector(&name("attn_k_norm.weight"), head)?,
            )),
        };
        let (slots, kind) = self.cache;
        let cache = || self.device(Tensor::zeros((slots, kv), kind, self.device));
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
            keys: cache()?,
            values: cache()?,
        })
    }

    fn linear(
        &self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> std::result::Result<Linear, OpenError> {
        let matrix = self.matrix(&format!("{name}.weight"), rows, columns)?;
        let bias = format!("{name}.bias");
        let bias = self.gguf.has(&bias).then(|| self.vector(&bias, rows)).transpose()?;
        Ok(Linear { matrix, bias })
    }

    fn vector(&self, name: &str, width: usize) -> std::result::Result<Tensor, OpenError> {
        self.device(self.tensor(name, &[width])?.dequantize(self.device))
    }

    fn matrix(
        &self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> std::result::Result<QMatMul, OpenError> {
        self.device(QMatMul::from_qtensor(self.tensor(name, &[rows, columns])?))
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> std::result::Result<QTensor, OpenError> {
        let data = self.gguf.tensor(name, shape)?;
        let layout = data.kind.layout().expect("tensor() refuses what has no layout");
        // Candle wants the blocks aligned, which bytes inside a program need not be.
        let bytes = data.bytes.into_owned();
        let storage = QStorage::from_data(bytes.into(), self.device, layout.candle);
        self.device(storage.and_then(|storage| QTensor::new(storage, shape.to_vec())))
    }

    /// Says which device refused.
    fn device<T>(&self, result: Result<T>) -> std::result::Result<T, OpenError> {
        result.map_err(|error| OpenError::Device {
            device: format!("{:?}", self.device.location()),
            reason: error.to_string(),
        })
    }
}
