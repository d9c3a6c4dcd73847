//! SIMD abstraction: one generic kernel for AVX-512, AVX2 and portable code.
//!
//! A kernel is generic over [`Simd`]: sixteen lanes of `f32` or `i32`, or 64 bytes. AVX-512 holds
//! them in one register, AVX2 in two, the portable twin in arrays. Every operation is defined to
//! the bit: products are fused, rounding is to nearest even, integer sums are exact. So all
//! instruction sets give the same bits by construction and the portable twin is the oracle.
//!
//! Invariant: a token (a value of a type that implements [`Simd`]) exists only where its
//! instructions were found at run time. That is what makes the methods safe to call.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exponential;
mod portable;
#[cfg(test)]
mod tests;

pub(crate) use exponential::exponential;

/// Lanes of a vector, and rows of a weight tile.
pub(crate) const LANES: usize = 16;

/// A piece of work that is generic over the instruction set.
///
/// Implementations mark `run` `#[inline(always)]`: only then is the body compiled with the
/// instructions of the token that runs it.
pub(crate) trait Kernel {
    /// What the work yields.
    type Output;
    /// Does the work.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// As [`Kernel`], for work on a number of rows that the compiler must know to keep their sums in
/// registers.
pub(crate) trait RowsKernel {
    /// Does the work for `ROWS` rows.
    fn run<S: Simd, const ROWS: usize>(&self, simd: S);
}

/// A [`RowsKernel`] with its number of rows; yields that number.
pub(crate) struct WithRows<'a, K, const ROWS: usize>(&'a K);

impl<K: RowsKernel, const ROWS: usize> Kernel for WithRows<'_, K, ROWS> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        self.0.run::<S, ROWS>(simd);
        ROWS
    }
}

/// Sixteen lanes at a time. See the module's header for what is promised.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// Sixteen `f32`.
    type Floats: Copy;
    /// Sixteen `i32`.
    type Ints: Copy;
    /// Sixty-four bytes: four for each of sixteen lanes.
    type Bytes: Copy;
    /// Runs a kernel compiled for these instructions.
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output;

    /// Runs a kernel for as many of `rows` rows as go at once, at least one; returns how many.
    fn run_rows<K: RowsKernel>(self, rows: usize, kernel: &K) -> usize;

    /// All lanes equal.
    fn splat(self, value: f32) -> Self::Floats;
    /// Lanes from memory.
    fn load(self, source: &[f32; 16]) -> Self::Floats;
    /// Lanes to memory.
    fn store(self, value: Self::Floats, target: &mut [f32; 16]);
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a - b`.
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a / b`.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// `if a > b { a } else { b }`: a NaN in `b` stays.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `if a < b { a } else { b }`: a NaN in `b` stays.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The bits of each lane.
    fn bits(self, value: Self::Floats) -> Self::Ints;
    /// Lanes from their bits.
    fn floats_of_bits(self, value: Self::Ints) -> Self::Floats;
    /// Binary16 bits to `f32`.
    fn widen_f16(self, source: &[u16; 16]) -> Self::Floats;
    /// `f32` to binary16 bits, to nearest even.
    fn narrow_f16(self, value: Self::Floats) -> [u16; 16];
    /// Bfloat16 bits to `f32`.
    fn widen_bf16(self, source: &[u16; 16]) -> Self::Floats;
    /// Unsigned bytes to `f32`.
    fn widen_u8(self, source: &[u8; 16]) -> Self::Floats;
    /// Signed bytes to `f32`.
    fn widen_i8(self, source: &[i8; 16]) -> Self::Floats;

    /// All lanes equal.
    fn splat_int(self, value: i32) -> Self::Ints;
    /// `a + b`, wrapping.
    fn add_int(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// `a << 23`: an integer into the exponent's place.
    fn shift_to_exponent(self, a: Self::Ints) -> Self::Ints;
    /// To the nearest `f32`.
    fn to_floats(self, a: Self::Ints) -> Self::Floats;

    /// The lowest byte of each lane.
    fn narrow_bytes(self, a: Self::Ints) -> [u8; 16];
    /// The sum of all lanes, wrapping.
    fn sum_int(self, a: Self::Ints) -> i32;

    /// Bytes from memory.
    fn bytes(self, source: &[u8; 64]) -> Self::Bytes;
    /// Each byte `& mask`.
    fn mask(self, a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// `a | b`.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Each byte `(a >> COUNT) & mask`; `COUNT < 8` and `mask` keeps no bit shifted in from a neighbour.
    fn shift_right<const COUNT: u32>(self, a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Each byte `(a << COUNT) & mask`; `COUNT < 8` and `mask` keeps no bit shifted in from a neighbour.
    fn shift_left<const COUNT: u32>(self, a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// For each byte, which is below 16, the table's entry of that index.
    fn look_up(self, table: &[u8; 16], indices: Self::Bytes) -> Self::Bytes;
    /// Adds to each lane, for each of the `weights`, the products of its four unsigned bytes with
    /// the four signed bytes (each at least -127) packed in the value. `COUNT` times the greatest
    /// byte is at most 128.
    fn dot<const COUNT: usize>(
        self,
        sum: Self::Ints,
        weights: &[Self::Bytes],
        values: &[i32],
    ) -> Self::Ints;
    /// The start of a sum of [`Self::dot_signed`]: `minus_128_sum` is -128 times the sum of all
    /// values that the dots will see.
    fn seed_signed(self, minus_128_sum: i32) -> Self::Ints;
    /// As [`Self::dot`] with signed weights, each stored plus 128. The sum is right once every
    /// value that the seed counted was seen.
    fn dot_signed(self, sum: Self::Ints, weights: Self::Bytes, values: i32) -> Self::Ints;

    /// Asks for the cache line at `address`; any address is allowed, nothing is promised.
    fn prefetch(self, address: *const u8);

    /// The sum of all lanes in a fixed tree: halves, quarters, pairs.
    #[inline(always)]
    fn sum(self, value: Self::Floats) -> f32 {
        let mut lanes = [0.0; LANES];
        self.store(value, &mut lanes);
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
            width /= 2;
        }
        lanes[0]
    }

    /// The greatest lane; a NaN is not promised to be seen.
    fn greatest(self, value: Self::Floats) -> f32;
}

/// A token of some instruction set, known at run time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(avx512::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    Portable(portable::Portable),
}

impl Level {
    /// Runs a kernel on this level's instructions.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.vectorize(kernel),
            Self::Portable(simd) => simd.vectorize(kernel),
        }
    }
}

/// The instruction sets that the kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// Plain Rust: any machine; slow on x86 from before 2013, which has no fused multiply-add.
    Portable,
    /// x86-64 with AVX2, FMA and F16C (2013 and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL and VNNI.
    Avx512Vnni,
}

impl Instructions {
    /// All, slowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512Vnni];

    /// The fastest that this machine has.
    pub fn detect() -> Self {
        let mut best = Self::Portable;
        for candidate in Self::ALL {
            if candidate.is_available() {
                best = candidate;
            }
        }
        best
    }

    /// Whether this machine has them.
    pub fn is_available(self) -> bool {
        self.level().is_some()
    }

    /// As an operator would write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512Vnni => "avx512-vnni",
        }
    }

    /// The token, where the machine has the instructions.
    pub(crate) fn level(self) -> Option<Level> {
        match self {
            Self::Portable => Some(Level::Portable(portable::Portable)),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::Avx2::detect().map(Level::Avx2),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => avx512::Avx512::detect().map(Level::Avx512Vnni),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512Vnni => None,
        }
    }
}
