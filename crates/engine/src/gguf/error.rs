//! Model open errors: why a model could not be opened, and what to do about it.

use super::TensorType;

/// A model file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system would not give us the bytes.
    #[error("the model file `{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file, or `<memory>`.
        path: String,
        /// What the operating system said.
        reason: String,
    },
    /// It is some other kind of file.
    #[error("the model file starts with the bytes `{found}`; expected `GGUF`")]
    NotGguf {
        /// Its first bytes, escaped.
        found: String,
    },
    /// A version of the format that is not known.
    #[error("the model file has GGUF version `{found}`; expected 2 or 3")]
    Version {
        /// The version it claims.
        found: u32,
    },
    /// The file ends before what it promises.
    #[error(
        "the model file is truncated: {what} needs {needed} bytes from byte {offset} on, but the \
         file ends at byte {length}"
    )]
    Truncated {
        /// What was being read.
        what: String,
        /// Where it starts.
        offset: u64,
        /// How many bytes it takes.
        needed: u64,
        /// Where the file ends.
        length: u64,
    },
    /// The header contradicts itself.
    #[error("the model file is corrupt: {what}")]
    Corrupt {
        /// The contradiction.
        what: String,
    },
    /// A count beyond any real model.
    #[error("the model file declares `{found}` {what}; expected at most {most}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The count it declares.
        found: u64,
        /// The bound.
        most: u64,
    },
    /// A metadata entry of another type or range.
    #[error("the metadata entry `{key}` is `{found}`; expected {expected}")]
    Metadata {
        /// The entry.
        key: String,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: String,
    },
    /// A metadata entry that is needed and absent.
    #[error("the metadata entry `{key}` is missing; expected {expected}")]
    MissingMetadata {
        /// The entry.
        key: String,
        /// What it should hold.
        expected: String,
    },
    /// A kind of model that is not implemented.
    #[error("the model architecture `{found}` is not supported; expected one of {supported}")]
    UnknownArchitecture {
        /// The value of `general.architecture`.
        found: String,
        /// The values that work.
        supported: String,
    },
    /// A known architecture in a variant that is not implemented.
    #[error("the model uses {feature}, which is not supported")]
    UnsupportedFeature {
        /// The variant.
        feature: String,
    },
    /// A tensor that the architecture needs.
    #[error("the tensor `{name}` is missing from the model file")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A tensor whose shape does not fit the metadata.
    #[error("the tensor `{name}` has shape `{found:?}`; expected {expected:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// Its shape, rows first.
        found: Vec<usize>,
        /// The shape that the metadata implies.
        expected: Vec<usize>,
    },
    /// An encoding that no kernel reads.
    #[error(
        "the tensor `{name}` is encoded as `{found}`; expected one of {}",
        TensorType::supported()
    )]
    TensorType {
        /// Its name.
        name: String,
        /// The name of its encoding.
        found: String,
    },
    /// The file has no tokenizer.
    #[error("the model file has no tokenizer: the metadata entry `{key}` is missing")]
    MissingTokenizer {
        /// The first entry that was looked for.
        key: String,
    },
    /// The machine has not enough memory.
    #[error("{what} needs {bytes} bytes of memory, more than can be had")]
    OutOfMemory {
        /// What the memory is for.
        what: &'static str,
        /// How much.
        bytes: u64,
    },
    /// The processor lacks the instructions that were asked for.
    #[error("the instructions `{name}` cannot be used: the processor does not have them")]
    Instructions {
        /// Which instructions.
        name: &'static str,
    },
}

impl OpenError {
    /// What the reader can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path and the permissions of the file",
            Self::NotGguf { .. } | Self::Version { .. } => {
                "pass a GGUF file, as llama.cpp's convert_hf_to_gguf.py writes it"
            }
            Self::Truncated { .. } => "download the file again; its copy is incomplete",
            Self::Corrupt { .. } | Self::TooMany { .. } => {
                "download the file again and compare its checksum"
            }
            Self::Metadata { .. }
            | Self::MissingMetadata { .. }
            | Self::MissingTensor { .. }
            | Self::TensorShape { .. } => "convert the model anew with a current llama.cpp",
            Self::UnknownArchitecture { .. } | Self::UnsupportedFeature { .. } => {
                "use another model, or run this one in llama-server and pass it as a worker"
            }
            Self::TensorType { .. } => {
                "quantize the model as Q4_K_M, Q5_K_M, Q6_K or Q8_0 with llama-quantize"
            }
            Self::MissingTokenizer { .. } => {
                "convert the model together with its tokenizer files, not the weights alone"
            }
            Self::OutOfMemory { .. } => "use a smaller model or a smaller key-value cache",
            Self::Instructions { .. } => "leave the choice of instructions to the program",
        }
    }
}
