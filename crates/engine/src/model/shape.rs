//! Model architecture: dimensions and variations of the Llama family (Llama, Qwen, …).
//!
//! All supported families are one network: rms norm, rotary attention with grouped heads, gated
//! feed-forward. They differ in four answers (biases, per-head norms, which halves of a head are
//! rotated together, how far positions are stretched), and those are data here, not code.

use std::fmt::Display;

use overdraft_kernels::AttentionShape;
use overdraft_units::BlockSize;

use super::rope::{Rope, RopeStyle};
use crate::gguf::{Gguf, Metadata, OpenError};

/// What tells one architecture from another.
struct Architecture {
    /// As `general.architecture` spells it.
    name: &'static str,
    rope: RopeStyle,
    head_norms: HeadNorms,
    /// Projections that have a bias; others may have one.
    biases: &'static [&'static str],
}

/// The architectures that work.
const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "llama",
        rope: RopeStyle::Interleaved,
        head_norms: HeadNorms::Absent,
        biases: &[],
    },
    Architecture {
        name: "mistral3",
        rope: RopeStyle::Interleaved,
        head_norms: HeadNorms::Absent,
        biases: &[],
    },
    Architecture {
        name: "qwen2",
        rope: RopeStyle::Halves,
        head_norms: HeadNorms::Absent,
        biases: &["attn_q", "attn_k", "attn_v"],
    },
    Architecture {
        name: "qwen3",
        rope: RopeStyle::Halves,
        head_norms: HeadNorms::Present,
        biases: &[],
    },
];

/// Any one dimension at most: keeps products within 64 bits whatever the file claims.
const DIMENSION_MAX: u64 = 1 << 24;

/// Whether queries and keys are normalised head by head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadNorms {
    Present,
    Absent,
}

/// The dimensions of a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) architecture: &'static str,
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head: usize,
    pub(crate) feed_forward: usize,
    pub(crate) vocabulary: usize,
    /// Positions the model was trained for, or fewer where its attention window is shorter.
    pub(crate) context: u32,
    pub(crate) norm_epsilon: f32,
    pub(crate) head_norms: HeadNorms,
    pub(crate) rope: Rope,
}

impl Dimensions {
    /// Width of all query heads together.
    pub(crate) fn query_width(&self) -> usize {
        self.heads * self.head
    }

    /// Width of all key heads together, and of all value heads.
    pub(crate) fn kv_width(&self) -> usize {
        self.kv_heads * self.head
    }

    /// The shape of one layer's attention, in pages of this size.
    pub(crate) fn attention(&self, page: BlockSize) -> AttentionShape {
        AttentionShape {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head,
            block_size: page.get() as usize,
        }
    }

    /// Reads the dimensions from the metadata and the shape of the embedding.
    pub(crate) fn read(gguf: &Gguf) -> Result<Self, OpenError> {
        let metadata = gguf.metadata();
        let &Architecture { name: architecture, rope, head_norms, biases } =
            architecture(metadata)?;
        let keys = Keys { metadata, architecture };
        keys.refuse_variants()?;

        let hidden = keys.dimension("embedding_length")?;
        let heads = keys.dimension("attention.head_count")?;
        let kv_heads = keys.optional("attention.head_count_kv")?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            return Err(keys.wrong("attention.head_count_kv", kv_heads, "a divisor of the heads"));
        }
        let head = match keys.optional("attention.key_length")? {
            Some(length) => length,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(keys.wrong("attention.head_count", heads, "a divisor of the width"));
            }
        };
        if !head.is_multiple_of(2) {
            return Err(keys.wrong("attention.key_length", head, "an even number"));
        }
        if keys.optional("attention.value_length")?.is_some_and(|length| length != head) {
            let feature = "values of another length than its keys".to_owned();
            return Err(OpenError::UnsupportedFeature { feature });
        }
        let layers = keys.dimension("block_count")?;
        for layer in 0..layers {
            for part in biases {
                gguf.info(&format!("blk.{layer}.{part}.bias"))?;
            }
        }
        Ok(Self {
            architecture,
            layers,
            hidden,
            heads,
            kv_heads,
            head,
            feed_forward: keys.dimension("feed_forward_length")?,
            vocabulary: vocabulary(gguf)?,
            context: keys.context()?,
            norm_epsilon: keys.norm_epsilon()?,
            head_norms,
            rope: Rope::read(gguf, &keys, rope, head)?,
        })
    }
}

fn architecture(metadata: &Metadata) -> Result<&'static Architecture, OpenError> {
    let key = "general.architecture";
    let named = Metadata::required(metadata.text(key)?, key, "the name of an architecture")?;
    ARCHITECTURES.iter().find(|known| known.name == named).ok_or_else(|| {
        let names: Vec<_> = ARCHITECTURES.iter().map(|known| known.name).collect();
        OpenError::UnknownArchitecture { found: named.to_owned(), supported: names.join(", ") }
    })
}

fn vocabulary(gguf: &Gguf) -> Result<usize, OpenError> {
    let name = "token_embd.weight";
    match gguf.info(name)?.shape.as_slice() {
        &[rows, _] if 0 < rows && rows as u64 <= DIMENSION_MAX => Ok(rows),
        found => Err(OpenError::TensorShape {
            name: name.to_owned(),
            found: found.to_vec(),
            expected: vec![1, 1],
        }),
    }
}

/// Metadata entries under the name of the architecture.
pub(super) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'static str,
}

impl Keys<'_> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture)
    }

    pub(super) fn text(&self, suffix: &str) -> Result<Option<&str>, OpenError> {
        self.metadata.text(&self.key(suffix))
    }

    pub(super) fn float(&self, suffix: &str) -> Result<Option<f32>, OpenError> {
        self.metadata.float(&self.key(suffix))
    }

    pub(super) fn wrong(&self, suffix: &str, found: impl Display, expected: &str) -> OpenError {
        OpenError::Metadata {
            key: self.key(suffix),
            found: found.to_string(),
            expected: expected.to_owned(),
        }
    }

    pub(super) fn optional(&self, suffix: &str) -> Result<Option<usize>, OpenError> {
        match self.metadata.unsigned(&self.key(suffix))? {
            None => Ok(None),
            Some(found) if found == 0 || DIMENSION_MAX < found => {
                Err(self.wrong(suffix, found, &format!("1 to {DIMENSION_MAX}")))
            }
            Some(found) => Ok(usize::try_from(found).ok()),
        }
    }

    pub(super) fn dimension(&self, suffix: &str) -> Result<usize, OpenError> {
        Metadata::required(self.optional(suffix)?, &self.key(suffix), "a positive integer")
    }

    fn context(&self) -> Result<u32, OpenError> {
        let suffix = "context_length";
        let trained = self.metadata.unsigned(&self.key(suffix))?;
        let trained = Metadata::required(trained, &self.key(suffix), "a positive integer")?;
        // Within the window, attention over a sliding window is attention over everything.
        let window = self.metadata.unsigned(&self.key("attention.sliding_window"))?;
        let positions = window.filter(|&window| 0 < window).map_or(trained, |w| w.min(trained));
        match u32::try_from(positions) {
            Ok(positions) if 0 < positions => Ok(positions),
            _ => Err(self.wrong(suffix, positions, "1 to 4294967295")),
        }
    }

    fn norm_epsilon(&self) -> Result<f32, OpenError> {
        let suffix = "attention.layer_norm_rms_epsilon";
        let found = self.float(suffix)?;
        let epsilon = Metadata::required(found, &self.key(suffix), "a small positive number")?;
        if epsilon.is_finite() && 0.0 <= epsilon {
            return Ok(epsilon);
        }
        Err(self.wrong(suffix, epsilon, "a small positive number"))
    }

    fn refuse_variants(&self) -> Result<(), OpenError> {
        let refuse = |feature: String| Err(OpenError::UnsupportedFeature { feature });
        if self.metadata.unsigned(&self.key("expert_count"))?.is_some_and(|count| 0 < count) {
            return refuse("a mixture of experts".to_owned());
        }
        if self.metadata.value(&self.key("attention.temperature_scale")).is_some() {
            return refuse("attention whose temperature grows with the position".to_owned());
        }
        Ok(())
    }
}
