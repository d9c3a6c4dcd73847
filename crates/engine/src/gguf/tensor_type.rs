//! GGUF tensor types: the number formats and quantizations, and their block sizes.

use candle_core::quantized::GgmlDType;
use overdraft_kernels::WeightFormat;

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

/// The encodings of the format as of 2026, in the order of their numbers.
const NAMES: &[(u32, &str)] = &[
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (8, "Q8_0"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (30, "BF16"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];

/// Encodings that only candle reads, with the columns and bytes of a block; the kernels know of theirs.
const CANDLE_ONLY: &[(u32, usize, usize)] = &[(10, 256, 84), (11, 256, 110)];

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

/// What candle calls an encoding; `None` where it cannot dequantize it.
const fn candle(number: u32) -> Option<GgmlDType> {
    Some(match number {
        0 => GgmlDType::F32,
        1 => GgmlDType::F16,
        2 => GgmlDType::Q4_0,
        3 => GgmlDType::Q4_1,
        6 => GgmlDType::Q5_0,
        7 => GgmlDType::Q5_1,
        8 => GgmlDType::Q8_0,
        10 => GgmlDType::Q2K,
        11 => GgmlDType::Q3K,
        12 => GgmlDType::Q4K,
        13 => GgmlDType::Q5K,
        14 => GgmlDType::Q6K,
        30 => GgmlDType::BF16,
        _ => return None,
    })
}

impl TensorType {
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
        let row = NAMES.iter().find(|(id, _)| *id == self.0);
        row.map_or_else(|| format!("type {}", self.0), |(_, name)| (*name).to_owned())
    }

    /// How its blocks are laid out; `None` for an encoding that cannot be read.
    pub fn layout(self) -> Option<BlockLayout> {
        let packed = WeightFormat::from_ggml(self.0)
            .map(|format| (format.block_columns(), format.block_bytes()));
        let of_candle = || CANDLE_ONLY.iter().find(|row| row.0 == self.0).map(|row| (row.1, row.2));
        let (elements, bytes) = packed.or_else(of_candle)?;
        Some(BlockLayout { elements, bytes, candle: candle(self.0) })
    }

    /// The names of the encodings that can be read, for messages.
    pub fn supported() -> String {
        let readable = NAMES.iter().filter(|row| Self(row.0).layout().is_some());
        readable.map(|row| row.1).collect::<Vec<_>>().join(", ")
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
