//! Profile: a GPU, their number, a model and its format.

use std::fmt;

use overdraft_scheduler::batch::Batching;
use overdraft_units::{BlockSize, Blocks, Micros, Tokens};
use serde::Deserialize;

use crate::engine::Engine;
use crate::error::ProfileError;
use crate::model::Model;

/// Share of a GPU's memory that an engine uses, as vLLM's `gpu_memory_utilization` defaults to.
pub(crate) const MEMORY_SHARE: f64 = 0.9;

/// How long a worker has nothing to do until its processors and caches are asleep, or others'.
const ASLEEP_AFTER: Micros = Micros::new(100_000);

/// Seconds in an hour.
const HOUR: f64 = 3_600.0;

/// A GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// How profiles call it, such as `h100`.
    pub name: String,
    /// How people call it.
    pub title: String,
    /// What the driver reports, in bytes.
    pub memory_bytes: f64,
    /// What is set aside beside weights, keys and values, in bytes.
    pub overhead_bytes: f64,
    /// Dollars for one GPU and hour.
    pub price_per_hour: f64,
    /// The lowest seen, in dollars for one GPU and hour.
    pub price_low: f64,
    /// Who asks that price, and when it was read.
    pub price_source: String,
}

/// What a GPU reaches with a model. Units are in the names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Of the layers; embeddings and output head have two.
    pub bytes_per_parameter: f64,
    /// Reading weights.
    pub weights_tb_per_s: f64,
    /// Multiplying them.
    pub gemm_tflops: f64,
    /// How smoothly reading and multiplying meet: p in (a^p + b^p)^(1/p).
    pub roofline_power: f64,
    /// Attention of prompts.
    pub prefill_attention_tflops: f64,
    /// Reading keys and values.
    pub kv_tb_per_s: f64,
    /// The share of it that decodes reach in a step that computes prompts too, above 0 to 1.
    pub kv_share_beside_prompts: f64,
    /// What attention takes at least in each layer.
    pub attention_us_per_layer: f64,
    /// Small kernels of each layer.
    pub kernels_us_per_layer: f64,
    /// Norms, activations, rotary embedding.
    pub elementwise_gb_per_s: f64,
    /// A sum over all GPUs, however small.
    pub allreduce_us: f64,
    /// What such a sum moves.
    pub allreduce_gb_per_s: f64,
    /// What the CPU adds to a step.
    pub host_ms: f64,
    /// What it adds for each sequence.
    pub host_us_per_sequence: f64,
    /// What it adds for each prompt of which a step computes something: lengths that kernels have not met before.
    pub host_us_per_prompt: f64,
    /// Of the experts, where the model has some.
    pub experts: Option<ExpertRates>,
}

/// What a GPU reaches with a model's routed experts. Units are in the names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertRates {
    /// Of the experts.
    pub bytes_per_parameter: f64,
    /// Reading those that are touched.
    pub weights_tb_per_s: f64,
    /// Multiplying them.
    pub gemm_tflops: f64,
    /// How smoothly the two meet.
    pub roofline_power: f64,
    /// What routing, sorting and gathering take at least in each layer.
    pub us_per_layer: f64,
}

/// When an engine's CPU does its part of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Between two steps, while the GPU waits.
    #[default]
    Between,
    /// While the GPU computes the step before; the GPU waits for what takes longer than that.
    Asynchronous,
}

/// How far figures are to be trusted; the first is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Confidence {
    /// The vendor's kernel timings, and end-to-end checks.
    A,
    /// Kernel timings, few end-to-end checks.
    #[serde(rename = "A-")]
    AMinus,
    /// End-to-end runs on that card.
    B,
    /// Scaled from a measured sibling by datasheet.
    C,
    /// An assumption.
    D,
}

/// So many GPUs of a kind with a model in a format.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// GPUs.
    pub hardware: Hardware,
    /// What they compute.
    pub model: Model,
    /// GPUs that share each layer.
    pub tensor_parallel: u32,
    /// The weights' format, such as `fp8`.
    pub weights: String,
    /// How fast it goes.
    pub rates: Rates,
    /// Tokens in a step that vLLM takes by default there.
    pub step_tokens: Tokens,
    /// Sequences at once that vLLM takes by default there.
    pub running_max: u32,
    /// Who serves the model; the four below are by default as it has them.
    pub engine: Engine,
    /// Share of a GPU's memory that the engine uses.
    pub memory_share: f64,
    /// Whether the CPU plans a step while the GPU computes the one before.
    pub scheduling: Scheduling,
    /// What a step may compute together.
    pub batching: Batching,
    /// What a step takes longer after a tenth of a second in which the worker had nothing to do ([`Profile::waking`]).
    pub wake: Micros,
    /// Of the cached positions that another decode of a step reads as well: the share that is not read again.
    pub shared_reads: f64,
    /// How far the rates are to be trusted.
    pub confidence: Confidence,
    /// Where they are from.
    pub source: String,
}

impl Hardware {
    /// Why no GPU can have these figures.
    pub(crate) fn fault(&self) -> Option<String> {
        let figures = [
            ("memory_bytes", self.memory_bytes),
            ("overhead_bytes", self.overhead_bytes),
            ("price_per_hour", self.price_per_hour),
            ("price_low", self.price_low),
        ];
        let cannot_be = |(_, figure): &(&str, f64)| !figure.is_finite() || *figure < 0.0;
        let (name, figure) = figures.into_iter().find(cannot_be)?;
        Some(format!("`{name} = {figure}`; expected a number, not below zero"))
    }

    /// Bytes left for weights, keys and values on one GPU whose engine uses that share of its memory.
    pub(crate) fn room(&self, share: f64) -> f64 {
        self.memory_bytes * share - self.overhead_bytes
    }
}

impl Profile {
    /// What a step takes longer before which the worker had nothing to do for so long.
    pub fn waking(&self, idle: Micros) -> Micros {
        if ASLEEP_AFTER <= idle { self.wake } else { Micros::ZERO }
    }

    /// As in `h100-tp2/llama-3-70b-fp8`.
    pub fn name(&self) -> String {
        let Self { hardware, model, tensor_parallel, weights, .. } = self;
        format!("{}-tp{tensor_parallel}/{}-{weights}", hardware.name, model.name)
    }

    /// Bytes of weights on one GPU, all experts included.
    pub fn weight_bytes(&self) -> f64 {
        let rates = &self.rates;
        let experts =
            rates.experts.map_or(rates.bytes_per_parameter, |experts| experts.bytes_per_parameter);
        self.model.weight_bytes(rates.bytes_per_parameter, experts) / self.gpus()
    }

    /// Parts that a token's keys and values are divided into, over GPUs that else hold the same: no more
    /// than there are heads to divide.
    pub(crate) fn kv_shards(&self) -> f64 {
        f64::from(self.tensor_parallel.min(self.model.kv_heads))
    }

    /// Tokens whose keys and values fit beside the weights (`docs/design/gpu-model.md#r2`).
    ///
    /// # Errors
    /// [`ProfileError::TooLarge`] when not even one does.
    pub fn kv_tokens(&self) -> Result<Tokens, ProfileError> {
        let (room, weights) = (self.hardware.room(self.memory_share), self.weight_bytes());
        let tokens = (room - weights) * self.kv_shards() / self.model.kv_bytes_per_token();
        if tokens < 1.0 {
            return Err(ProfileError::TooLarge { name: self.name(), weights, room });
        }
        Ok(Tokens::new(whole(tokens)))
    }

    /// The same in pages.
    ///
    /// # Errors
    /// As [`Profile::kv_tokens`], and when not even one page fits.
    pub fn kv_blocks(&self, size: BlockSize) -> Result<Blocks, ProfileError> {
        let blocks = self.kv_tokens()?.get() / size.get();
        if blocks == 0 {
            let (room, weights) = (self.hardware.room(self.memory_share), self.weight_bytes());
            return Err(ProfileError::TooLarge { name: self.name(), weights, room });
        }
        Ok(Blocks::new(blocks))
    }

    /// Pages that so many bytes hold, over all GPUs.
    pub fn blocks_in(&self, bytes: u64, size: BlockSize) -> Blocks {
        #[expect(clippy::cast_precision_loss, reason = "a cache is far below 2^52 bytes")]
        let bytes = bytes as f64 * (self.kv_shards() / self.gpus());
        let tokens = bytes / self.model.kv_bytes_per_token();
        Blocks::new(whole(tokens) / size.get())
    }

    /// Dollars an hour for all its GPUs.
    pub fn price_per_hour(&self) -> f64 {
        self.hardware.price_per_hour * self.gpus()
    }

    /// Dollars for so many seconds.
    pub fn price_of(&self, seconds: f64) -> f64 {
        self.price_per_hour() / HOUR * seconds
    }
}

/// The whole number below, cut at what 32 bits hold.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "negative and large numbers are cut, which is what is meant"
)]
pub(crate) fn whole(number: f64) -> u32 {
    number as u32
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::AMinus => "A-",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
        })
    }
}

#[cfg(test)]
mod tests {
    use overdraft_units::BlockSize;

    use crate::Catalogue;

    const GIB: f64 = 1_073_741_824.0;

    #[track_caller]
    fn check(name: &str, tokens: u32) {
        let found = Catalogue::builtin().find(name).unwrap().kv_tokens().unwrap().get();
        let off = f64::from(found) / f64::from(tokens) - 1.0;
        assert!(off.abs() < 0.03, "{name}: {found} tokens; expected {tokens}");
    }

    #[test]
    fn as_many_tokens_fit_as_published_deployments_report() {
        // vLLM's own reports, by llm-d: 70B bf16 TP4 and Qwen3-32B TP2 on H100.
        check("h100-tp4/llama-3-70b-bf16", 461_376);
        check("h100-tp2/qwen-3-32b-bf16", 307_328);
        // The study of the constants.
        check("h100-tp1/llama-3-8b-bf16", 442_047);
        check("h100-tp2/llama-3-70b-fp8", 229_938);
        check("a100-80g-tp4/llama-3-70b-bf16", 484_787);
        check("a10g-tp1/llama-3-8b-bf16", 30_746);
        check("l4-tp1/llama-3-8b-int4", 108_967);
    }

    #[test]
    fn as_much_of_models_with_experts_fits_as_deployments_report() {
        let find = |name: &str| Catalogue::builtin().find(name).unwrap();
        // vLLM 0.8.5, Qwen3-30B-A3B in bf16 on four GPUs: 14.2474 GiB of weights on each.
        let mut qwen = find("h100-tp1/qwen-3-30b-a3b-bf16");
        qwen.tensor_parallel = 4;
        let off = qwen.weight_bytes() / (14.2474 * GIB) - 1.0;
        assert!(off.abs() < 0.01, "{off}");
        // vLLM 0.14, gpt-oss-120b on one H100: 64.38 GiB.
        let off = find("h100-tp1/gpt-oss-120b-mxfp4").weight_bytes() / (64.38 * GIB) - 1.0;
        assert!(off.abs() < 0.01, "{off}");
        // Every GPU holds all of the latent rows: two more GPUs leave more room, but are no second cache.
        let deepseek = find("h200-tp8/deepseek-v3-fp8");
        let room = deepseek.hardware.room(0.9) - deepseek.weight_bytes();
        let tokens = f64::from(deepseek.kv_tokens().unwrap().get());
        assert!((tokens - room / 70_272.0).abs() < 1.0, "{tokens}");
        let size = BlockSize::new(16).unwrap();
        assert_eq!(deepseek.blocks_in(8 * 70_272 * 1_600, size).get(), 100);
        // Four heads on eight GPUs: each head is held twice.
        qwen.tensor_parallel = 8;
        let room = qwen.hardware.room(0.9) - qwen.weight_bytes();
        let tokens = f64::from(qwen.kv_tokens().unwrap().get());
        assert!((tokens - 4.0 * room / 98_304.0).abs() < 1.0, "{tokens}");
    }

    #[test]
    fn a_cache_is_as_large_as_the_engines_flags_make_it() {
        let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
        let tokens = |profile: &crate::Profile| f64::from(profile.kv_tokens().unwrap().get());
        let mut more = profile.clone();
        more.memory_share = 0.95;
        // 5 % of 85.52 GB at 128 KiB for a token.
        let added = tokens(&more) - tokens(&profile);
        assert!((added - 32_623.0).abs() < 5.0, "{added}");
        let mut small = profile.clone();
        small.model.kv_bytes_per_number = 1;
        assert!((tokens(&small) / tokens(&profile) - 2.0).abs() < 1e-4);
        let mut none = profile;
        none.memory_share = 0.1;
        assert!(none.kv_tokens().is_err(), "not even the weights fit");
    }

    #[test]
    fn all_gpus_are_paid_for() {
        let profile = Catalogue::builtin().find("h100-tp4/llama-3-70b-fp8").unwrap();
        assert!((profile.price_per_hour() - 14.0).abs() < 1e-9);
        assert!((profile.price_of(1_800.0) - 7.0).abs() < 1e-9);
    }
}
