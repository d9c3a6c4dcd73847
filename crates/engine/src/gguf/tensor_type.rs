//! GGUF tensor types: the number formats and quantizations, and their block sizes.

use candle_core::quantized::GgmlDType;

/// An encoding of numbers, by its number in the GGUF format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorType(u32);

/// The block layout of a supported encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// Numbers in one block.
    pub elements: usize,
    /// Bytes of one block.
    pub bytes: usize,
    /// Candle's name for it; `None` where candle cannot dequantize it.
    pub candle: Option<GgmlDType>,
}

/// The encodings of the format as of 2026, in the order of their numbers; those with a layout can
/// be read.
const TYPES: &[(u32, &str, Option<BlockLayout>)] = &[
    (0, "F32", layout(1, 4, GgmlDType::F32)),
    (1, "F16", layout(1, 2, GgmlDType::F16)),
    (2, "Q4_0", layout(32, 18, GgmlDType::Q4_0)),
    (3, "Q4_1", layout(32, 20, GgmlDType::Q4_1)),
    (6, "Q5_0", layout(32, 22, GgmlDType::Q5_0)),
    (7, "Q5_1", layout(32, 24, GgmlDType::Q5_1)),
    (8, "Q8_0", layout(32, 34, GgmlDType::Q8_0)),
    (9, "Q8_1", None),
    (10, "Q2_K", layout(256, 84, GgmlDType::Q2K)),
    (11, "Q3_K", layout(256, 110, GgmlDType::Q3K)),
    (12, "Q4_K", layout(256, 144, GgmlDType::Q4K)),
    (13, "Q5_K", layout(256, 176, GgmlDType::Q5K)),
    (14, "Q6_K", layout(256, 210, GgmlDType::Q6K)),
    (15, "Q8_K", None),
    (16, "IQ2_XXS", None),
    (17, "IQ2_XS", None),
    (18, "IQ3_XXS", None),
    (19, "IQ1_S", None),
    (20, "IQ4_NL", kernels_only(32, 18)),
    (21, "IQ3_S", None),
    (22, "IQ2_S", None),
    (23, "IQ4_XS", kernels_only(256, 136)),
    (24, "I8", None),
    (25, "I16", None),
    (26, "I32", None),
    (27, "I64", None),
    (28, "F64", None),
    (29, "IQ1_M", None),
    (30, "BF16", layout(1, 2, GgmlDType::BF16)),
    (34, "TQ1_0", None),
    (35, "TQ2_0", None),
    (39, "MXFP4", None),
];

/// `general.file_type`: what the writer called the mixture of encodings.
const FILE_TYPES: &[(u64, &str)] = &[
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (25, "IQ4_NL"),
    (30, "IQ4_XS"),
    (32, "BF16"),
];

#[expect(clippy::unnecessary_wraps, reason = "it fills a column of the table above")]
const fn layout(elements: usize, bytes: usize, candle: GgmlDType) -> Option<BlockLayout> {
    Some(BlockLayout { elements, bytes, candle: Some(candle) })
}

/// The layout of an encoding that our kernels read and candle does not.
#[expect(clippy::unnecessary_wraps, reason = "it fills a column of the table above")]
const fn kernels_only(elements: usize, bytes: usize) -> Option<BlockLayout> {
    Some(BlockLayout { elements, bytes, candle: None })
}

impl TensorType {
    /// The encodings that can be read, for messages.
    pub const SUPPORTED: &'static str = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS";
    /// Single precision.
    pub const F32: Self = Self(0);
    /// Half precision.
    pub const F16: Self = Self(1);
    /// Half precision with the exponent of single precision.
    pub const BF16: Self = Self(30);

    /// The encoding with this number; any number is one, though perhaps one nobody can read.
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// Its number in the format.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Its name, or its number where it has none.
    pub fn name(self) -> String {
        let row = TYPES.iter().find(|(id, _, _)| *id == self.0);
        row.map_or_else(|| format!("type {}", self.0), |(_, name, _)| (*name).to_owned())
    }

    /// How its blocks are laid out; `None` for an encoding that cannot be read.
    pub fn layout(self) -> Option<BlockLayout> {
        TYPES.iter().find(|(id, _, _)| *id == self.0).and_then(|(_, _, layout)| *layout)
    }

    /// Bytes that `shape` takes; `None` when the rows are not whole blocks, or the product does
    /// not fit 64 bits.
    pub(super) fn bytes_for(self, shape: &[usize]) -> Option<u64> {
        let Some(layout) = self.layout() else { return Some(0) };
        let columns = *shape.last()?;
        if !columns.is_multiple_of(layout.elements) {
            return None;
        }
        let mut bytes = (columns / layout.elements) as u64;
        for &dimension in &shape[..shape.len() - 1] {
            bytes = bytes.checked_mul(dimension as u64)?;
        }
        bytes.checked_mul(layout.bytes as u64)
    }
}

/// The name of a `general.file_type`.
pub(crate) fn file_type_name(id: u64) -> Option<&'static str> {
    FILE_TYPES.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
}
