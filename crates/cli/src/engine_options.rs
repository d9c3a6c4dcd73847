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
    /// Each flag with its number.
    fn counts(&self) -> [(&'static str, Option<u64>); 8] {
        let number = |count: Option<u32>| count.map(u64::from);
        let threads = self.threads.and_then(|count| u64::try_from(count.get()).ok());
        [
            ("threads", threads),
            ("max-model-len", number(self.max_model_len)),
            ("max-num-seqs", number(self.max_num_seqs)),
            ("max-num-batched-tokens", number(self.max_num_batched_tokens)),
            ("max-num-queued-reqs", number(self.max_num_queued_reqs)),
            ("kv-cache-memory-bytes", self.kv_cache_memory_bytes),
            ("num-gpu-blocks-override", number(self.num_gpu_blocks_override)),
            ("block-size", number(self.block_size)),
        ]
    }

    /// Those that were given, as they were typed.
    pub(crate) fn given(&self) -> impl Iterator<Item = String> {
        let given = |(flag, count): (&str, Option<u64>)| Some(format!("`--{flag} {}`", count?));
        self.counts().into_iter().filter_map(given)
    }

    /// Refuses bounds of which nothing would be left: the engine calls them by names of its own.
    fn check(&self) -> Result<(), Fault> {
        match self.counts().into_iter().find(|(_, count)| *count == Some(0)) {
            Some((flag, _)) => {
                let why = format!("`--{flag} 0` would leave the engine nothing");
                Err(Fault::input(why).hint("expected 1 or more; leave it out for the default"))
            }
            None => Ok(()),
        }
    }

    /// The model's half of the settings.
    ///
    /// # Errors
    /// A value out of its range.
    pub(crate) fn model(&self) -> Result<ModelSettings, Fault> {
        let block_size = self.page()?;
        self.check()?;
        let kv = match (self.num_gpu_blocks_override, self.kv_cache_memory_bytes) {
            (Some(blocks), _) => KvBudget::Blocks(Blocks::new(blocks)),
            (None, Some(bytes)) => KvBudget::Bytes(bytes),
            (None, None) => ModelSettings::default().kv,
        };
        Ok(ModelSettings {
            threads: self.threads,
            context_max: self.max_model_len.map(Tokens::new),
            block_size,
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
        if let Source::Simulated(simulated) = source {
            settings.batching = simulated.profile.batching;
        }
        settings
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
    fn a_bound_of_nothing_is_refused_by_the_name_of_its_flag() {
        for (flag, count) in options(&["--block-size", "16"]).counts() {
            // The command line takes no threads of 0, and a size of blocks has a sentence of its own.
            if flag != "threads" && count.is_none() {
                let fault =
                    options(&[&format!("--{flag}"), "0"]).model().expect_err("none is left");
                assert!(format!("{fault:?}").contains(&format!("`--{flag} 0` would leave")));
            }
        }
        assert!(options(&["--max-num-seqs", "1", "--max-num-queued-reqs", "1"]).model().is_ok());
    }

    #[test]
    fn flags_that_were_given_are_told_as_they_were_typed() {
        assert_eq!(options(&[]).given().next(), None);
        let given = options(&["--threads", "4", "--block-size", "16"]).given().collect::<Vec<_>>();
        assert_eq!(given, ["`--threads 4`", "`--block-size 16`"]);
    }
}
