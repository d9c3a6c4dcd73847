//! Engine flags: the size of an embedded engine; the names are vLLM's where vLLM has the knob.

use std::num::NonZeroUsize;

use overdraft_engine::EngineSettings;
use overdraft_engine::echo::EchoSettings;
use overdraft_engine::model::{KvBudget, ModelSettings};
use overdraft_gpu_model::Profile;
use overdraft_telemetry::Clock;
use overdraft_units::{BlockSize, Blocks, Tokens};

use crate::embedded::Source;
use crate::fault::Fault;

/// Sequences computed together, where neither the user nor a profile says.
const RUNNING_MAX: u32 = 64;
/// Tokens of a step, where neither the user nor a profile says.
const STEP_TOKENS: u32 = 256;
/// Sequences that may wait, where the user does not say.
const WAITING_MAX: u32 = 1_024;
/// Tokens of a block, where the user does not say.
const BLOCK_TOKENS: u32 = 16;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Embedded engine")]
pub(crate) struct EngineOptions {
    /// Threads that compute; all cores by default
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Positions a sequence may use; the model's own context by default
    #[arg(long, value_name = "TOKENS")]
    max_model_len: Option<u32>,
    /// Sequences computed together; 64 by default, or what vLLM takes on a simulated GPU
    #[arg(long, value_name = "COUNT")]
    max_num_seqs: Option<u32>,
    /// Tokens computed in one step, longer prompts being prefilled in chunks of this; 256 by
    /// default, or what vLLM takes on a simulated GPU
    #[arg(long, value_name = "TOKENS")]
    max_num_batched_tokens: Option<u32>,
    /// Sequences that may wait before new ones are refused with 503 [default: 1024]
    #[arg(long, value_name = "COUNT")]
    max_num_queued_reqs: Option<u32>,
    /// Memory for keys and values, in bytes
    #[arg(long, value_name = "BYTES", conflicts_with = "num_gpu_blocks_override")]
    kv_cache_memory_bytes: Option<u64>,
    /// Number of key-value blocks, instead of a size in bytes
    #[arg(long, value_name = "COUNT")]
    num_gpu_blocks_override: Option<u32>,
    /// Tokens per key-value block [default: 16]
    #[arg(long, value_name = "TOKENS")]
    block_size: Option<u32>,
}

impl EngineOptions {
    /// Those that were given, as they were typed.
    pub(crate) fn given(&self) -> impl Iterator<Item = String> {
        let number = |count: Option<u32>| count.map(u64::from);
        let threads = self.threads.and_then(|count| u64::try_from(count.get()).ok());
        let flags = [
            ("threads", threads),
            ("max-model-len", number(self.max_model_len)),
            ("max-num-seqs", number(self.max_num_seqs)),
            ("max-num-batched-tokens", number(self.max_num_batched_tokens)),
            ("max-num-queued-reqs", number(self.max_num_queued_reqs)),
            ("kv-cache-memory-bytes", self.kv_cache_memory_bytes),
            ("num-gpu-blocks-override", number(self.num_gpu_blocks_override)),
            ("block-size", number(self.block_size)),
        ];
        flags.into_iter().filter_map(|(flag, count)| Some(format!("`--{flag} {}`", count?)))
    }

    /// The model's half of the settings.
    ///
    /// # Errors
    /// A value out of its range.
    pub(crate) fn model(&self) -> Result<ModelSettings, Fault> {
        let blocks = self.num_gpu_blocks_override.map(u64::from);
        some("--num-gpu-blocks-override", blocks, "hold nothing")?;
        some("--kv-cache-memory-bytes", self.kv_cache_memory_bytes, "hold nothing")?;
        let kv = match (self.num_gpu_blocks_override, self.kv_cache_memory_bytes) {
            (Some(blocks), _) => KvBudget::Blocks(Blocks::new(blocks)),
            (None, Some(bytes)) => KvBudget::Bytes(bytes),
            (None, None) => ModelSettings::default().kv,
        };
        Ok(ModelSettings {
            threads: self.threads,
            context_max: self.max_model_len.map(Tokens::new),
            block_size: self.page()?,
            kv,
            ..ModelSettings::default()
        })
    }

    /// What of it an echo can follow.
    ///
    /// # Errors
    /// A block size of zero.
    pub(crate) fn shape_echo(&self, settings: &mut EchoSettings) -> Result<(), Fault> {
        settings.block_size = self.page()?;
        if let Some(blocks) = self.num_gpu_blocks_override {
            settings.blocks = Blocks::new(blocks);
        }
        if let Some(context) = self.max_model_len {
            settings.context = Tokens::new(context);
        }
        Ok(())
    }

    /// Tokens per page, pages and context of a simulated cache, as far as the user says.
    ///
    /// # Errors
    /// A block size of zero.
    pub(crate) fn cache(
        &self,
        profile: &Profile,
    ) -> Result<(BlockSize, Option<Blocks>, Option<Tokens>), Fault> {
        let size = self.page()?;
        let of_bytes = self.kv_cache_memory_bytes.map(|bytes| profile.blocks_in(bytes, size));
        let blocks = self.num_gpu_blocks_override.map(Blocks::new).or(of_bytes);
        Ok((size, blocks, self.max_model_len.map(Tokens::new)))
    }

    fn page(&self) -> Result<BlockSize, Fault> {
        BlockSize::new(self.block_size.unwrap_or(BLOCK_TOKENS))
            .ok_or_else(|| Fault::input("`--block-size 0` holds nothing; expected 8, 16 or 32"))
    }

    /// The scheduler's half of the settings.
    pub(crate) fn engine(&self, clock: Clock, source: &Source) -> EngineSettings {
        let (step_tokens, running_max) = match source {
            Source::Simulated(simulated) => {
                (simulated.profile.step_tokens.get(), simulated.profile.running_max)
            }
            _ => (STEP_TOKENS, RUNNING_MAX),
        };
        let mut settings = EngineSettings::new(clock);
        settings.step_tokens = Tokens::new(self.max_num_batched_tokens.unwrap_or(step_tokens));
        settings.running_max = self.max_num_seqs.unwrap_or(running_max);
        settings.waiting_max = self.max_num_queued_reqs.unwrap_or(WAITING_MAX);
        settings.context = self.max_model_len.map(Tokens::new);
        settings
    }
}

/// Refuses a flag of which there would be none.
fn some(flag: &str, count: Option<u64>, none: &str) -> Result<(), Fault> {
    match count {
        Some(0) => Err(Fault::input(format!("`{flag} 0` would {none}; expected 1 or more"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: EngineOptions,
    }

    fn options(flags: &[&str]) -> EngineOptions {
        Line::try_parse_from([&["line"][..], flags].concat()).expect("it parses").options
    }

    #[test]
    fn flags_that_were_given_are_told_as_they_were_typed() {
        assert_eq!(options(&[]).given().next(), None);
        let given = options(&["--threads", "4", "--block-size", "16"]).given().collect::<Vec<_>>();
        assert_eq!(given, ["`--threads 4`", "`--block-size 16`"]);
    }
}
