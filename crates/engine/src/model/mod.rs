//! Model: opens a GGUF file and computes logits.
//!
//! [`Model::open`] reads the header, checks that the network is one we know, packs its tensors for
//! the kernels and lays out the key-value cache. The forward pass is in `cpu`; what differs
//! between the families is data in `shape`.

mod cpu;
mod layer;
mod numbers;
mod rope;
mod rows;
mod settings;
mod shape;
mod weights;

pub use overdraft_kernels::{Instructions, KvFormat};

pub use self::cpu::CpuBackend;
pub use self::settings::{KvBudget, ModelSettings};

use overdraft_units::Tokens;

use self::shape::Dimensions;
use crate::backend::Backend;
use crate::gguf::{Gguf, GgufSource, Metadata, OpenError};

/// An open model: what computes it, and what its file says.
pub struct Model {
    /// Computes steps.
    pub backend: Box<dyn Backend>,
    /// What there is to show of it.
    pub info: ModelInfo,
    /// The file's metadata: tokenizer and chat template are in it.
    pub metadata: Metadata,
}

/// What a model says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// `general.name`, or the name of the architecture.
    pub name: String,
    /// `general.architecture`.
    pub architecture: String,
    /// `general.size_label`, such as `7B`.
    pub size_label: Option<String>,
    /// The mixture of encodings, such as `Q4_K_M`.
    pub file_type: String,
    /// Weights in the file.
    pub parameters: u64,
    /// Positions that may be used.
    pub context: Tokens,
    /// Bytes of weights that every step reads: what memory bandwidth limits.
    pub step_bytes: u64,
}

impl Model {
    /// Opens a model file and makes it ready to compute.
    ///
    /// # Errors
    /// [`OpenError`] when the file cannot be read or the model cannot be run.
    pub fn open(
        source: impl Into<GgufSource>,
        settings: &ModelSettings,
    ) -> Result<Self, OpenError> {
        let gguf = Gguf::open(source)?;
        let dimensions = Dimensions::read(&gguf)?;
        let backend = CpuBackend::load(&gguf, dimensions, settings)?;
        let step_bytes = backend.step_bytes();
        let context = backend.shape().context;
        let info = ModelInfo { context, step_bytes, ..describe(&gguf)? };
        Ok(Self { backend: Box::new(backend), info, metadata: gguf.into_metadata() })
    }

    /// Memory that a model takes for each page of its key-value cache; the header alone is read.
    ///
    /// # Errors
    /// [`OpenError`] when the file cannot be read or the model cannot be run.
    pub fn block_bytes(
        source: impl Into<GgufSource>,
        settings: &ModelSettings,
    ) -> Result<u64, OpenError> {
        let dimensions = Dimensions::read(&Gguf::open(source)?)?;
        Ok(settings.block_bytes(&dimensions))
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shape = self.backend.shape();
        let mut fields = out.debug_struct("Model");
        fields.field("info", &self.info).field("shape", &shape).finish_non_exhaustive()
    }
}

/// What the header alone says.
fn describe(gguf: &Gguf) -> Result<ModelInfo, OpenError> {
    let metadata = gguf.metadata();
    let architecture = metadata.text("general.architecture")?.unwrap_or_default().to_owned();
    Ok(ModelInfo {
        name: metadata.text("general.name")?.unwrap_or(&architecture).to_owned(),
        size_label: metadata.text("general.size_label")?.map(str::to_owned),
        file_type: gguf.file_type()?,
        parameters: gguf.parameters(),
        context: Tokens::ZERO,
        step_bytes: 0,
        architecture,
    })
}
