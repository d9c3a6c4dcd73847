//! KV cache number formats: binary16 and `f32`.
//!
//! Binary16 halves the memory and the time to read it, and moves log-probabilities by some
//! thousandths; `f32` keeps them as the model computed them.

use crate::simd::{LANES, Simd};
use half::f16;

/// A number format of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvFormat {
    /// IEEE binary16.
    #[default]
    F16,
    /// IEEE binary32.
    F32,
}

impl KvFormat {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 => size_of::<f16>(),
            Self::F32 => size_of::<f32>(),
        }
    }
}

/// A stored number: binary16 as its bits, or `f32`.
pub(super) trait Number: Copy + Default + Send + Sync {
    /// To `f32`.
    fn widen<S: Simd>(simd: S, lanes: &[Self; LANES]) -> S::Floats;

    /// From `f32`, to nearest even.
    fn narrow<S: Simd>(simd: S, value: S::Floats) -> [Self; LANES];

    /// Appends little-endian bytes.
    fn export(self, out: &mut Vec<u8>);

    /// From the bytes that [`Self::export`] appended.
    fn import(bytes: &[u8]) -> Self;
}

impl Number for u16 {
    #[inline(always)]
    fn widen<S: Simd>(simd: S, lanes: &[Self; LANES]) -> S::Floats {
        simd.widen_f16(lanes)
    }

    #[inline(always)]
    fn narrow<S: Simd>(simd: S, value: S::Floats) -> [Self; LANES] {
        simd.narrow_f16(value)
    }

    fn export(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn import(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("two bytes"))
    }
}

impl Number for f32 {
    #[inline(always)]
    fn widen<S: Simd>(simd: S, lanes: &[Self; LANES]) -> S::Floats {
        simd.load(lanes)
    }

    #[inline(always)]
    fn narrow<S: Simd>(simd: S, value: S::Floats) -> [Self; LANES] {
        let mut lanes = [0.0; LANES];
        simd.store(value, &mut lanes);
        lanes
    }

    fn export(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn import(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("four bytes"))
    }
}
