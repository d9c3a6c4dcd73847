//! GGUF reader: the header read into memory, the tensors read on demand.
//!
//! The reader is ours and not candle's because a model file is foreign input: every count is
//! bounded, every size is checked against the length of the file before a byte is allocated, and
//! every refusal names the tensor or key it is about. Values and block layouts are candle's.
//! **Invariant:** whatever bytes it is given, opening and reading return; they never panic and
//! never allocate more than a small multiple of what the file really holds.

mod error;
mod header;
mod metadata;
mod source;
mod tensor_type;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use candle_core::quantized::gguf_file::Value;

pub use self::error::OpenError;
pub use self::metadata::Metadata;
pub use self::source::GgufSource;
pub use self::tensor_type::TensorType;

use self::source::Opened;

/// Where a tensor lies in the file, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// How its numbers are encoded.
    pub kind: TensorType,
    /// Its dimensions, rows first: `[rows, columns]` for a matrix.
    pub shape: Vec<usize>,
    /// Where its data starts, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes it takes; zero for an encoding this program cannot read.
    pub bytes: u64,
}

impl TensorInfo {
    /// Numbers in it. The shape is a claim where the encoding cannot be read: what exceeds 64 bits
    /// counts as their largest number.
    pub fn elements(&self) -> u64 {
        let dimensions = self.shape.iter().map(|&dimension| dimension as u64);
        dimensions.fold(1, u64::saturating_mul)
    }
}

/// The encoded bytes of one tensor.
#[derive(Debug)]
pub struct TensorData<'a> {
    /// How they are encoded.
    pub kind: TensorType,
    /// Dimensions, rows first.
    pub shape: &'a [usize],
    /// The bytes as the file has them.
    pub bytes: Cow<'a, [u8]>,
}

/// An open GGUF file.
#[derive(Debug)]
pub struct Gguf {
    source: Opened,
    metadata: Metadata,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Gguf {
    /// Opens a file, or bytes in memory, and reads the header.
    ///
    /// # Errors
    /// [`OpenError`] when it cannot be read, is no GGUF, or its header contradicts itself.
    pub fn open(source: impl Into<GgufSource>) -> Result<Self, OpenError> {
        let source = Opened::open(source.into())?;
        let (metadata, tensors) = header::read(&source)?;
        Ok(Self { source, metadata, tensors })
    }

    /// What the file says about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Gives up the file and keeps what it says about itself.
    pub fn into_metadata(self) -> Metadata {
        self.metadata
    }

    /// All tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }

    /// Numbers in all tensors together.
    pub fn parameters(&self) -> u64 {
        self.tensors.values().map(TensorInfo::elements).fold(0, u64::saturating_add)
    }

    /// The name of its mixture of encodings, such as `Q4_K_M`: as the writer says, or else the
    /// encoding of most of its bytes.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] when `general.file_type` is no number.
    pub fn file_type(&self) -> Result<String, OpenError> {
        let declared = self.metadata.unsigned("general.file_type")?;
        if let Some(name) = declared.and_then(tensor_type::file_type_name) {
            return Ok(name.to_owned());
        }
        let mut bytes: BTreeMap<TensorType, u64> = BTreeMap::new();
        for info in self.tensors.values() {
            *bytes.entry(info.kind).or_default() += info.bytes;
        }
        let most = bytes.iter().max_by_key(|(_, bytes)| **bytes);
        Ok(most.map_or_else(|| "unknown".to_owned(), |(kind, _)| kind.name()))
    }

    /// Whether the file has a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Where the tensor `name` lies.
    ///
    /// # Errors
    /// [`OpenError::MissingTensor`] when it is not in the file.
    pub fn info(&self, name: &str) -> Result<&TensorInfo, OpenError> {
        self.tensors.get(name).ok_or_else(|| OpenError::MissingTensor { name: name.to_owned() })
    }

    /// Reads the tensor `name`, which must have the given shape.
    ///
    /// # Errors
    /// [`OpenError`] when it is missing, has another shape, an encoding that is not supported, or
    /// cannot be read.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<TensorData<'_>, OpenError> {
        let info = self.info(name)?;
        if info.shape != shape {
            return Err(OpenError::TensorShape {
                name: name.to_owned(),
                found: info.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        if info.kind.layout().is_none() {
            return Err(OpenError::TensorType { name: name.to_owned(), found: info.kind.name() });
        }
        let bytes = self.source.bytes(info.offset, info.bytes, name)?;
        Ok(TensorData { kind: info.kind, shape: &info.shape, bytes })
    }
}
