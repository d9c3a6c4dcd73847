//! Engine releases: what of a step's time and of a cache's size depends on who serves the model.
//!
//! Rates of a profile are a GPU's; how much of the CPU's part is hidden behind it, how much of its memory
//! is taken, and what is read once for several sequences are the engine's, and change by its release
//! (`docs/design/gpu-model.md#r11`).

use std::fmt;
use std::str::FromStr;

use overdraft_scheduler::batch::Batching;
use serde::Deserialize;

use crate::profile::{Profile, Scheduling};

/// Who serves the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Engine {
    /// vLLM up to 0.13: a step is planned when the one before it has ended.
    #[default]
    Vllm010,
    /// vLLM from 0.14 on: a step is planned while the one before it is computed.
    Vllm019,
    /// vLLM from 0.28 on, which takes more of the memory by default.
    Vllm032,
    /// `SGLang` 0.5 with its overlapped schedule.
    Sglang05,
}

/// What differs between engines.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Traits {
    name: &'static str,
    scheduling: Scheduling,
    batching: Batching,
    /// Share of a GPU's memory that is used by default.
    memory_share: f64,
    /// Of the cached positions that another decode of the step reads as well: the share that is not read again.
    shared_reads: f64,
}

/// A name that no engine has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no known engine; expected one of {known}")]
pub struct UnknownEngine {
    name: String,
    known: String,
}

/// Fitted to the decodes of one fleet (`docs/benchmarks/simulator.md`); what serves them is not known: caches of the
/// GPU, or how kernels order their work.
const SHARED_READS: f64 = 0.25;

impl Engine {
    /// All of them, the oldest first.
    pub const ALL: [Self; 4] = [Self::Vllm010, Self::Vllm019, Self::Vllm032, Self::Sglang05];

    const fn traits(self) -> Traits {
        let (name, scheduling, batching) = match self {
            Self::Vllm010 => ("vllm-0.10", Scheduling::Between, Batching::Mixed),
            Self::Vllm019 => ("vllm-0.19", Scheduling::Asynchronous, Batching::Mixed),
            Self::Vllm032 => ("vllm-0.32", Scheduling::Asynchronous, Batching::Mixed),
            Self::Sglang05 => ("sglang-0.5", Scheduling::Asynchronous, Batching::PrefillFirst),
        };
        let memory_share = if matches!(self, Self::Vllm032) { 0.92 } else { 0.9 };
        let shared_reads = if matches!(self, Self::Vllm010) { 0.0 } else { SHARED_READS };
        Traits { name, scheduling, batching, memory_share, shared_reads }
    }

    /// As it is asked for.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }
}

impl Profile {
    /// The same GPU and model, served by that engine with its defaults.
    #[must_use]
    pub fn served_by(self, engine: Engine) -> Self {
        let Traits { scheduling, batching, memory_share, shared_reads, name: _ } = engine.traits();
        Self { engine, memory_share, scheduling, batching, shared_reads, ..self }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        Self::ALL.into_iter().find(|engine| engine.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(|engine| format!("`{engine}`")).join(", ");
            UnknownEngine { name: name.to_owned(), known }
        })
    }
}

impl TryFrom<String> for Engine {
    type Error = UnknownEngine;

    fn try_from(name: String) -> Result<Self, UnknownEngine> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use overdraft_units::Tokens;

    use super::*;
    use crate::{Batch, Catalogue, Chunk};

    fn profile(engine: Engine) -> Profile {
        Catalogue::builtin().find("h100-tp2/qwen-3-32b-bf16").unwrap().served_by(engine)
    }

    fn decodes(sequences: u32, context: u32) -> Batch {
        let one = Chunk { before: Tokens::new(context), length: Tokens::new(1), samples: true };
        (0..sequences).map(|_| one).collect()
    }

    #[test]
    fn engines_are_found_by_their_names_and_others_are_told() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        let told = "vllm-0.9".parse::<Engine>().unwrap_err().to_string();
        assert!(
            told.contains("`vllm-0.9` is no known engine; expected one of `vllm-0.10`"),
            "{told}"
        );
    }

    #[test]
    fn newer_engines_hide_the_cpu_and_take_more_memory() {
        let batch = decodes(94, 7_700);
        let [old, new, newest, other] =
            Engine::ALL.map(|engine| profile(engine).step_parts(&batch));
        assert!(0.001 < old.host, "{}", old.host);
        for parts in [new, newest, other] {
            assert!(parts.host.abs() < 1e-12, "{}", parts.host);
            assert!(
                (parts.decode_attention - old.decode_attention).abs() < 1e-12,
                "nothing is shared"
            );
        }
        let tokens = |engine| profile(engine).kv_tokens().unwrap();
        assert_eq!(tokens(Engine::Vllm010), tokens(Engine::Vllm019));
        assert!(tokens(Engine::Vllm019) < tokens(Engine::Vllm032));
    }

    #[test]
    fn what_several_sequences_read_is_read_less_often_by_newer_engines() {
        let mut batch = decodes(94, 7_700);
        let alone = profile(Engine::Vllm019).step_parts(&batch).decode_attention;
        batch.share(Tokens::new(94 * 7_701 * 2));
        let whole = profile(Engine::Vllm019).step_parts(&batch).decode_attention;
        assert!((whole - alone).abs() < 1e-12, "more pages than are read are prompts' pages");
        batch.share(Tokens::new(250_000));
        let shared = profile(Engine::Vllm019).step_parts(&batch).decode_attention;
        assert!(shared < 0.9 * alone && 0.5 * alone < shared, "{shared} {alone}");
        let old = profile(Engine::Vllm010).step_parts(&batch).decode_attention;
        assert!((old - alone).abs() < 1e-12, "{old}");
    }

    #[test]
    fn only_sglang_computes_prompts_without_answers() {
        let batching = Engine::ALL.map(|engine| profile(engine).batching);
        let mixed = Batching::Mixed;
        assert_eq!(batching, [mixed, mixed, mixed, Batching::PrefillFirst]);
    }
}
