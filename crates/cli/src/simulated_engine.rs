//! Engine flags of a simulated worker, under vLLM's names: what its cache holds and what a step takes.

use std::str::FromStr;

use overdraft_gpu_model::{Engine, Profile, Scheduling};
use overdraft_scheduler::batch::Batching;
use overdraft_units::{BlockSize, Tokens};

use crate::fault::Fault;

/// How a cache keeps its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KvDtype {
    /// As the model does.
    #[default]
    Auto,
    /// In so many bytes each.
    Bytes(u32),
}

impl FromStr for KvDtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "bfloat16" | "float16" | "half" => Ok(Self::Bytes(2)),
            "fp8" | "fp8_e4m3" | "fp8_e5m2" => Ok(Self::Bytes(1)),
            _ => Err("expected auto, bfloat16, float16, fp8, fp8_e4m3 or fp8_e5m2".to_owned()),
        }
    }
}

/// What the engine of a simulated GPU is like, beside a profile.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct GpuEngineOptions {
    /// Engine of a simulated GPU: vllm-0.10, vllm-0.19, vllm-0.32, sglang-0.5; by default the profile's
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,
    /// Share of a simulated GPU's memory that its engine uses; by default as that engine takes
    #[arg(long, value_name = "SHARE", value_parser = share)]
    gpu_memory_utilization: Option<f64>,
    /// How a simulated cache keeps its numbers: auto, bfloat16, float16, fp8, `fp8_e4m3`, `fp8_e5m2`
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    kv_cache_dtype: KvDtype,
    /// Simulates an engine that plans a step while the GPU computes the one before, as newer ones do by default
    #[arg(long)]
    async_scheduling: bool,
    /// Simulates an `SGLang` that computes prompts and answers in the same step, as vLLM does
    #[arg(long)]
    enable_mixed_chunk: bool,
}

/// The engine of each worker of `overdraft simulate`.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Engine of each worker")]
pub(crate) struct SimulatedEngineOptions {
    #[command(flatten)]
    gpu: GpuEngineOptions,
    /// Sequences computed together, instead of what vLLM takes on that GPU
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_num_seqs: Option<u32>,
    /// Tokens computed in one step, instead of what vLLM takes on that GPU
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    max_num_batched_tokens: Option<u32>,
    /// Tokens per key-value block
    #[arg(long, value_name = "TOKENS", default_value_t = 16)]
    block_size: u32,
}

impl GpuEngineOptions {
    /// The profile with a cache as it was asked for.
    pub(crate) fn apply(&self, mut profile: Profile) -> Profile {
        if let Some(engine) = self.engine {
            profile = profile.served_by(engine);
        }
        if let Some(share) = self.gpu_memory_utilization {
            profile.memory_share = share;
        }
        if let KvDtype::Bytes(bytes) = self.kv_cache_dtype {
            profile.model.kv_bytes_per_number = bytes;
        }
        if self.async_scheduling {
            profile.scheduling = Scheduling::Asynchronous;
        }
        if self.enable_mixed_chunk {
            profile.batching = Batching::Mixed;
        }
        profile
    }

    /// Nothing else goes by these flags.
    ///
    /// # Errors
    /// When one of them was given.
    pub(crate) fn refuse_without_simulation(&self) -> Result<(), Fault> {
        if self.settings().is_empty() {
            return Ok(());
        }
        let why = "`--engine`, `--gpu-memory-utilization`, `--kv-cache-dtype`, `--async-scheduling` and `--enable-mixed-chunk` are of simulated GPUs";
        Err(Fault::input(why).hint("give `--simulate PROFILE`, or `--kv-cache-memory-bytes`"))
    }

    fn settings(&self) -> Vec<(String, String)> {
        let engine = self.engine.map(|engine| ("engine".to_owned(), engine.to_string()));
        let share = self.gpu_memory_utilization;
        let share = share.map(|share| ("gpu-memory-utilization".to_owned(), share.to_string()));
        let bytes = match self.kv_cache_dtype {
            KvDtype::Auto => None,
            KvDtype::Bytes(bytes) => {
                Some(("bytes of a cached number".to_owned(), bytes.to_string()))
            }
        };
        let ahead =
            self.async_scheduling.then(|| ("scheduling".to_owned(), "asynchronous".to_owned()));
        let mixed =
            self.enable_mixed_chunk.then(|| ("mixed chunks".to_owned(), "enabled".to_owned()));
        engine.into_iter().chain(share).chain(bytes).chain(ahead).chain(mixed).collect()
    }
}

impl SimulatedEngineOptions {
    /// The profile with an engine as it was asked for.
    pub(crate) fn apply(&self, profile: Profile) -> Profile {
        let mut profile = self.gpu.apply(profile);
        profile.running_max = self.max_num_seqs.unwrap_or(profile.running_max);
        let step_tokens = self.max_num_batched_tokens.map(Tokens::new);
        profile.step_tokens = step_tokens.unwrap_or(profile.step_tokens);
        profile
    }

    /// Tokens per page of a cache.
    ///
    /// # Errors
    /// A page of no token.
    pub(crate) fn page(&self) -> Result<BlockSize, Fault> {
        BlockSize::new(self.block_size)
            .ok_or_else(|| Fault::input("`--block-size 0` holds nothing; expected 8, 16 or 32"))
    }

    /// What was set, for the report.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let mut settings = self.gpu.settings();
        let mut tell = |name: &str, value: Option<u32>| {
            settings.extend(value.map(|value| (name.to_owned(), value.to_string())));
        };
        tell("max-num-seqs", self.max_num_seqs);
        tell("max-num-batched-tokens", self.max_num_batched_tokens);
        tell("block-size", Some(self.block_size).filter(|size| *size != 16));
        settings
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| 0.0 < *share && *share <= 1.0);
    share.ok_or_else(|| "expected a share above zero, at most 1, as in `0.9`".to_owned())
}
