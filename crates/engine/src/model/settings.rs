//! Model settings: context length, KV cache size, page size and threads.

use std::num::NonZeroUsize;
use std::sync::Arc;

use overdraft_kernels::{Instructions, KvFormat, Pool};
use overdraft_units::{BlockSize, Blocks, Tokens};

use super::shape::Dimensions;
use crate::gguf::OpenError;

/// Maximum size of a KV cache, in sequences of full length.
const SEQUENCES_MAX: u32 = 64;
/// Default memory for keys and values: 1 GiB.
const KV_BYTES_DEFAULT: u64 = 1 << 30;
/// Default tokens per page.
const BLOCK_SIZE_DEFAULT: u32 = 16;

/// How a model is opened.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// Threads to compute with; `None`: as many as there are cores.
    pub threads: Option<NonZeroUsize>,
    /// Threads that another model computes with too, in turns; `None`: threads of its own. See
    /// [`sharing_threads`](Self::sharing_threads).
    pub pool: Option<Arc<Pool>>,
    /// Instructions to compute with; `None`: the fastest that the machine has. The results are the
    /// same to the bit.
    pub instructions: Option<Instructions>,
    /// Size of the key-value cache.
    pub kv: KvBudget,
    /// What a draft model keeps for each page out of the same memory; see
    /// [`Model::block_bytes`](super::Model::block_bytes).
    pub draft_block_bytes: u64,
    /// How its numbers are kept: binary16 for memory and speed, `f32` for exactness.
    pub kv_format: KvFormat,
    /// Tokens per page of it.
    pub block_size: BlockSize,
    /// Positions at most, where the model was trained for more.
    pub context_max: Option<Tokens>,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            threads: None,
            pool: None,
            instructions: None,
            kv: KvBudget::Bytes(KV_BYTES_DEFAULT),
            draft_block_bytes: 0,
            kv_format: KvFormat::F16,
            block_size: BlockSize::new(BLOCK_SIZE_DEFAULT).expect("sixteen is not zero"),
            context_max: None,
        }
    }
}

/// How large the key-value cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvBudget {
    /// This many pages.
    Blocks(Blocks),
    /// Pages for this much memory, and no more than 64 sequences of full length can use.
    Bytes(u64),
}

impl ModelSettings {
    /// The same, for models that compute in turns: a draft and its target. Threads wait for the next
    /// kernel for a moment before they sleep, and those of one model would keep the other's waiting.
    ///
    /// # Errors
    /// [`OpenError::Instructions`] where the machine lacks the instructions.
    pub fn sharing_threads(self) -> Result<Self, OpenError> {
        let pool = Some(self.threads()?);
        Ok(Self { pool, ..self })
    }

    /// The threads to compute with, on the chosen instructions.
    pub(crate) fn threads(&self) -> Result<Arc<Pool>, OpenError> {
        if let Some(pool) = &self.pool {
            return Ok(Arc::clone(pool));
        }
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = self.threads.unwrap_or_else(cores).get();
        let instructions = self.instructions.unwrap_or_else(Instructions::detect);
        if !instructions.is_available() {
            return Err(OpenError::Instructions { name: instructions.name() });
        }
        Ok(Arc::new(Pool::with_instructions(threads, instructions)))
    }

    /// Positions that may be used.
    pub(crate) fn context(&self, dimensions: &Dimensions) -> Tokens {
        let trained = Tokens::new(dimensions.context);
        self.context_max.map_or(trained, |most| most.min(trained)).max(Tokens::new(1))
    }

    /// Memory of a page in all layers, padding included.
    pub(crate) fn block_bytes(&self, dimensions: &Dimensions) -> u64 {
        let layer = dimensions.attention(self.block_size).block_memory(self.kv_format);
        (layer as u64).saturating_mul(dimensions.layers as u64)
    }

    /// Pages of the key-value cache, checked against the memory there is.
    pub(crate) fn blocks(&self, dimensions: &Dimensions) -> Result<Blocks, OpenError> {
        let block_bytes = self.block_bytes(dimensions);
        let blocks = match self.kv {
            KvBudget::Blocks(blocks) => u64::from(blocks.get()),
            KvBudget::Bytes(bytes) => {
                let context = self.block_size.pages_for(self.context(dimensions));
                let useful = u64::from(context.get()) * u64::from(SEQUENCES_MAX);
                (bytes / block_bytes.saturating_add(self.draft_block_bytes)).min(useful)
            }
        };
        let blocks = blocks.clamp(1, u64::from(u32::MAX));
        let bytes = blocks.saturating_mul(block_bytes);
        let refused = OpenError::OutOfMemory { what: "the key-value cache", bytes };
        let reserved = usize::try_from(bytes)
            .map(|bytes| Vec::<u8>::new().try_reserve_exact(bytes))
            .is_ok_and(|reserved| reserved.is_ok());
        match u32::try_from(blocks) {
            Ok(blocks) if reserved => Ok(Blocks::new(blocks)),
            _ => Err(refused),
        }
    }
}
