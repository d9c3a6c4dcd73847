//! Weight formats: the supported GGUF quantizations, and the bytes per row of each.
//!
//! Names, block sizes and type numbers are those of ggml, the library behind GGUF files.

use std::error::Error;
use std::fmt;

/// A weight format of GGUF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WeightFormat {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// Bfloat16.
    Bf16,
    /// Blocks of 32: a scale and 4-bit integers.
    Q4_0,
    /// Blocks of 32: a scale, a minimum and 4-bit integers.
    Q4_1,
    /// Blocks of 32: a scale and 5-bit integers.
    Q5_0,
    /// Blocks of 32: a scale, a minimum and 5-bit integers.
    Q5_1,
    /// Blocks of 32: a scale and 8-bit integers.
    Q8_0,
    /// Blocks of 256: eight 6-bit scales and minimums, 4-bit integers.
    Q4K,
    /// Blocks of 256: eight 6-bit scales and minimums, 5-bit integers.
    Q5K,
    /// Blocks of 256: sixteen 8-bit scales, 6-bit integers.
    Q6K,
    /// Blocks of 32: a scale and 4-bit indices of non-linear levels.
    Iq4Nl,
    /// Blocks of 256: eight 6-bit scales, 4-bit indices of non-linear levels.
    Iq4Xs,
}

impl WeightFormat {
    /// All formats.
    pub const ALL: [Self; 13] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Iq4Nl,
        Self::Iq4Xs,
    ];

    /// The format of ggml's type number, as GGUF files write it.
    pub fn from_ggml(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.ggml() == number)
    }

    /// ggml's type number.
    pub fn ggml(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q5_1 => 7,
            Self::Q8_0 => 8,
            Self::Q4K => 12,
            Self::Q5K => 13,
            Self::Q6K => 14,
            Self::Iq4Nl => 20,
            Self::Iq4Xs => 23,
            Self::Bf16 => 30,
        }
    }

    /// ggml's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
            Self::Iq4Nl => "IQ4_NL",
            Self::Iq4Xs => "IQ4_XS",
        }
    }

    /// Weights of a block; a row is whole blocks.
    pub fn block_columns(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 | Self::Iq4Nl => 32,
            Self::Q4K | Self::Q5K | Self::Q6K | Self::Iq4Xs => 256,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 | Self::Iq4Nl => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
            Self::Iq4Xs => 136,
        }
    }

    /// Bytes of a row of `columns` weights.
    pub fn row_bytes(self, columns: usize) -> Result<usize, PackError> {
        let block = self.block_columns();
        if columns == 0 || !columns.is_multiple_of(block) {
            return Err(PackError::Columns { columns, format: self });
        }
        Ok(columns / block * self.block_bytes())
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Why a tensor cannot be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// A row is not whole blocks.
    Columns {
        /// Columns asked for.
        columns: usize,
        /// The format.
        format: WeightFormat,
    },
    /// The bytes are not the matrix's.
    Length {
        /// Bytes given.
        found: usize,
        /// Bytes that the matrix has; 0 when it has no rows or too many.
        expected: usize,
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        columns: usize,
        /// The format.
        format: WeightFormat,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Columns { columns, format } => write!(
                out,
                "`{columns}` columns do not make {format} rows; expected a multiple of {}",
                format.block_columns()
            ),
            Self::Length { found, expected, rows, columns, format } => write!(
                out,
                "`{found}` bytes for a {format} matrix of {rows} x {columns}; expected {expected}, \
                 so the file is truncated or its shape is wrong"
            ),
        }
    }
}

impl Error for PackError {}
