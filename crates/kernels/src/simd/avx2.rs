//! The kernels' arithmetic on AVX2 with FMA and F16C: sixteen lanes in two registers.

use super::{Kernel, RowsKernel, Simd, WithRows};
use std::arch::x86_64::{
    __m256, __m256i, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _mm_add_epi32, _mm_cvtsi32_si128,
    _mm_cvtsi128_si32, _mm_cvtss_f32, _mm_loadl_epi64, _mm_loadu_si128, _mm_max_ps, _mm_max_ss,
    _mm_movehdup_ps, _mm_movehl_ps, _mm_packus_epi16, _mm_prefetch, _mm_shuffle_epi32,
    _mm_storeu_si128, _mm256_abs_epi8, _mm256_add_epi16, _mm256_add_epi32, _mm256_add_ps,
    _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_castps_si256, _mm256_castps256_ps128,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps,
    _mm256_cvtepu8_epi32, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_div_ps,
    _mm256_extractf128_ps, _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_ps, _mm256_min_ps,
    _mm256_mul_ps, _mm256_or_si256, _mm256_packus_epi32, _mm256_permute4x64_epi64,
    _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_sign_epi8, _mm256_sll_epi16, _mm256_slli_epi32, _mm256_srl_epi16,
    _mm256_storeu_ps, _mm256_sub_ps, _mm256_xor_si256,
};

/// Calls value-only intrinsics: their one demand is that the instructions exist.
macro_rules! on {
    ($call:expr) => {{
        // SAFETY: whoever calls has a token, made only where `detect` found every feature used here.
        unsafe { $call }
    }};
}
/// The token; made only by [`Avx2::detect`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// A token where the machine has AVX2, FMA and F16C.
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        found.then_some(Self(()))
    }
}

/// Calls a value-only intrinsic on both halves.
macro_rules! both {
    ($name:ident($a:expr)) => {
        [on!($name($a[0])), on!($name($a[1]))]
    };
    ($name:ident($a:expr, $b:expr)) => {
        [on!($name($a[0], $b[0])), on!($name($a[1], $b[1]))]
    };
    ($name:ident($a:expr, $b:expr, $c:expr)) => {
        [on!($name($a[0], $b[0], $c[0])), on!($name($a[1], $b[1], $c[1]))]
    };
}

/// The two halves of sixteen lanes.
#[inline(always)]
fn halves<T>(source: &[T; 16]) -> (&[T; 8], &[T; 8]) {
    let (low, high) = source.split_at(8);
    (low.try_into().expect("eight of sixteen"), high.try_into().expect("eight of sixteen"))
}

/// Adds the products of unsigned and signed bytes, four to a lane. The pairwise sums must fit in
/// 16 bits: at most 128 * 127 twice.
#[inline(always)]
fn products(_: Avx2, sum: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
    let pairs = on!(_mm256_maddubs_epi16(unsigned, signed));
    let ones = on!(_mm256_set1_epi16(1));
    let fours = on!(_mm256_madd_epi16(pairs, ones));
    on!(_mm256_add_epi32(sum, fours))
}

impl Simd for Avx2 {
    type Floats = [__m256; 2];
    type Ints = [__m256i; 2];
    type Bytes = [__m256i; 2];

    #[inline]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        // A function of its own for each kernel: small ones are optimised better.
        #[inline(never)]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn featured<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        on!(featured(self, kernel))
    }

    #[inline]
    fn run_rows<K: RowsKernel>(self, rows: usize, kernel: &K) -> usize {
        match rows {
            4.. => self.vectorize(WithRows::<K, 4>(kernel)),
            3 => self.vectorize(WithRows::<K, 3>(kernel)),
            2 => self.vectorize(WithRows::<K, 2>(kernel)),
            _ => self.vectorize(WithRows::<K, 1>(kernel)),
        }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [__m256; 2] {
        [on!(_mm256_set1_ps(value)); 2]
    }
    #[inline(always)]
    fn load(self, source: &[f32; 16]) -> [__m256; 2] {
        let (low, high) = halves(source);
        // SAFETY: the reference covers the 32 bytes read; the token vouches for the instruction.
        let low = unsafe { _mm256_loadu_ps(low.as_ptr()) };
        // SAFETY: as above.
        let high = unsafe { _mm256_loadu_ps(high.as_ptr()) };
        [low, high]
    }
    #[inline(always)]
    fn store(self, value: [__m256; 2], target: &mut [f32; 16]) {
        let (low, high) = target.split_at_mut(8);
        // SAFETY: the slice covers the 32 bytes written; the token vouches for the instruction.
        unsafe { _mm256_storeu_ps(low.as_mut_ptr(), value[0]) };
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(high.as_mut_ptr(), value[1]) };
    }
    #[inline(always)]
    fn add(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        both!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        both!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        both!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        both!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
        both!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        both!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        both!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn bits(self, value: [__m256; 2]) -> [__m256i; 2] {
        both!(_mm256_castps_si256(value))
    }
    #[inline(always)]
    fn floats_of_bits(self, value: [__m256i; 2]) -> [__m256; 2] {
        both!(_mm256_castsi256_ps(value))
    }
    #[inline(always)]
    fn widen_f16(self, source: &[u16; 16]) -> [__m256; 2] {
        let (low, high) = halves(source);
        // SAFETY: the reference covers the 16 bytes read; the token vouches for the instruction.
        let low = unsafe { _mm_loadu_si128(low.as_ptr().cast()) };
        // SAFETY: as above.
        let high = unsafe { _mm_loadu_si128(high.as_ptr().cast()) };
        [on!(_mm256_cvtph_ps(low)), on!(_mm256_cvtph_ps(high))]
    }
    #[inline(always)]
    fn narrow_f16(self, value: [__m256; 2]) -> [u16; 16] {
        const NEAREST_EVEN: i32 = _MM_FROUND_TO_NEAREST_INT;
        let mut out = [0; 16];
        for (half, target) in value.into_iter().zip(out.chunks_exact_mut(8)) {
            let half = on!(_mm256_cvtps_ph::<NEAREST_EVEN>(half));
            // SAFETY: the slice covers the 16 bytes written; the token vouches for the instruction.
            unsafe { _mm_storeu_si128(target.as_mut_ptr().cast(), half) };
        }
        out
    }
    #[inline(always)]
    fn widen_bf16(self, source: &[u16; 16]) -> [__m256; 2] {
        let (low, high) = halves(source);
        // SAFETY: the reference covers the 16 bytes read; the token vouches for the instruction.
        let low = unsafe { _mm_loadu_si128(low.as_ptr().cast()) };
        // SAFETY: as above.
        let high = unsafe { _mm_loadu_si128(high.as_ptr().cast()) };
        let wide = both!(_mm256_cvtepu16_epi32([low, high]));
        self.floats_of_bits([
            on!(_mm256_slli_epi32::<16>(wide[0])),
            on!(_mm256_slli_epi32::<16>(wide[1])),
        ])
    }
    #[inline(always)]
    fn widen_u8(self, source: &[u8; 16]) -> [__m256; 2] {
        let (low, high) = halves(source);
        // SAFETY: the reference covers the 8 bytes read; the token vouches for the instruction.
        let low = unsafe { _mm_loadl_epi64(low.as_ptr().cast()) };
        // SAFETY: as above.
        let high = unsafe { _mm_loadl_epi64(high.as_ptr().cast()) };
        let wide = both!(_mm256_cvtepu8_epi32([low, high]));
        self.to_floats(wide)
    }
    #[inline(always)]
    fn widen_i8(self, source: &[i8; 16]) -> [__m256; 2] {
        let (low, high) = halves(source);
        // SAFETY: the reference covers the 8 bytes read; the token vouches for the instruction.
        let low = unsafe { _mm_loadl_epi64(low.as_ptr().cast()) };
        // SAFETY: as above.
        let high = unsafe { _mm_loadl_epi64(high.as_ptr().cast()) };
        let wide = both!(_mm256_cvtepi8_epi32([low, high]));
        self.to_floats(wide)
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> [__m256i; 2] {
        [on!(_mm256_set1_epi32(value)); 2]
    }
    #[inline(always)]
    fn add_int(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        both!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn shift_to_exponent(self, a: [__m256i; 2]) -> [__m256i; 2] {
        [on!(_mm256_slli_epi32::<23>(a[0])), on!(_mm256_slli_epi32::<23>(a[1]))]
    }
    #[inline(always)]
    fn to_floats(self, a: [__m256i; 2]) -> [__m256; 2] {
        both!(_mm256_cvtepi32_ps(a))
    }

    #[inline(always)]
    fn narrow_bytes(self, a: [__m256i; 2]) -> [u8; 16] {
        let low_byte = on!(_mm256_set1_epi32(0xff));
        let a = both!(_mm256_and_si256(a, [low_byte, low_byte]));
        // Packing works within 128 bits: words come out as lanes 0..4, 8..12, 4..8, 12..16.
        let words = on!(_mm256_packus_epi32(a[0], a[1]));
        let words = on!(_mm256_permute4x64_epi64::<0b11_01_10_00>(words));
        let low = on!(_mm256_castsi256_si128(words));
        let high = on!(_mm256_extracti128_si256::<1>(words));
        let bytes = on!(_mm_packus_epi16(low, high));
        let mut out = [0; 16];
        // SAFETY: the array covers the 16 bytes written; the token vouches for the instruction.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), bytes) };
        out
    }
    #[inline(always)]
    fn sum_int(self, a: [__m256i; 2]) -> i32 {
        let eight = on!(_mm256_add_epi32(a[0], a[1]));
        let low = on!(_mm256_castsi256_si128(eight));
        let high = on!(_mm256_extracti128_si256::<1>(eight));
        let four = on!(_mm_add_epi32(low, high));
        let swapped = on!(_mm_shuffle_epi32::<0b01_00_11_10>(four));
        let two = on!(_mm_add_epi32(four, swapped));
        let swapped = on!(_mm_shuffle_epi32::<0b10_11_00_01>(two));
        let one = on!(_mm_add_epi32(two, swapped));
        on!(_mm_cvtsi128_si32(one))
    }
    #[inline(always)]
    fn greatest(self, value: [__m256; 2]) -> f32 {
        let eight = on!(_mm256_max_ps(value[0], value[1]));
        let low = on!(_mm256_castps256_ps128(eight));
        let high = on!(_mm256_extractf128_ps::<1>(eight));
        let four = on!(_mm_max_ps(low, high));
        let two = on!(_mm_max_ps(four, _mm_movehl_ps(four, four)));
        let one = on!(_mm_max_ss(two, _mm_movehdup_ps(two)));
        on!(_mm_cvtss_f32(one))
    }

    #[inline(always)]
    fn bytes(self, source: &[u8; 64]) -> [__m256i; 2] {
        let (low, high) = source.split_at(32);
        // SAFETY: the slice covers the 32 bytes read; the token vouches for the instruction.
        let low = unsafe { _mm256_loadu_si256(low.as_ptr().cast()) };
        // SAFETY: as above.
        let high = unsafe { _mm256_loadu_si256(high.as_ptr().cast()) };
        [low, high]
    }
    #[inline(always)]
    fn mask(self, a: [__m256i; 2], mask: u8) -> [__m256i; 2] {
        let mask = on!(_mm256_set1_epi8(mask.cast_signed()));
        both!(_mm256_and_si256(a, [mask, mask]))
    }
    #[inline(always)]
    fn or(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        both!(_mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn shift_right<const COUNT: u32>(self, a: [__m256i; 2], mask: u8) -> [__m256i; 2] {
        let count = on!(_mm_cvtsi32_si128(COUNT.cast_signed()));
        let shifted = [on!(_mm256_srl_epi16(a[0], count)), on!(_mm256_srl_epi16(a[1], count))];
        self.mask(shifted, mask)
    }
    #[inline(always)]
    fn shift_left<const COUNT: u32>(self, a: [__m256i; 2], mask: u8) -> [__m256i; 2] {
        let count = on!(_mm_cvtsi32_si128(COUNT.cast_signed()));
        let shifted = [on!(_mm256_sll_epi16(a[0], count)), on!(_mm256_sll_epi16(a[1], count))];
        self.mask(shifted, mask)
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the reference covers the 16 bytes read; the token vouches for the instruction.
        let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
        let table = on!(_mm256_broadcastsi128_si256(table));
        both!(_mm256_shuffle_epi8([table, table], indices))
    }
    #[inline(always)]
    fn dot<const COUNT: usize>(
        self,
        mut sum: [__m256i; 2],
        weights: &[[__m256i; 2]],
        values: &[i32],
    ) -> [__m256i; 2] {
        let ones = on!(_mm256_set1_epi16(1));
        for half in 0..2 {
            // Sums of pairs stay in 16 bits: COUNT times 2 * 127 times the greatest weight fits.
            let mut pairs = on!(_mm256_setzero_si256());
            for index in 0..COUNT {
                let values = on!(_mm256_set1_epi32(values[index]));
                let products = on!(_mm256_maddubs_epi16(weights[index][half], values));
                pairs = on!(_mm256_add_epi16(pairs, products));
            }
            let fours = on!(_mm256_madd_epi16(pairs, ones));
            sum[half] = on!(_mm256_add_epi32(sum[half], fours));
        }
        sum
    }
    #[inline(always)]
    fn seed_signed(self, _minus_128_sum: i32) -> [__m256i; 2] {
        [on!(_mm256_setzero_si256()); 2]
    }
    #[inline(always)]
    fn dot_signed(self, mut sum: [__m256i; 2], weights: [__m256i; 2], values: i32) -> [__m256i; 2] {
        // |w| times x with w's sign: sums of |w| <= 128 fit where those of w + 128 would not.
        let values = on!(_mm256_set1_epi32(values));
        let offset = on!(_mm256_set1_epi8(-128));
        for half in 0..2 {
            let signed = on!(_mm256_xor_si256(weights[half], offset));
            let magnitude = on!(_mm256_abs_epi8(signed));
            let turned = on!(_mm256_sign_epi8(values, signed));
            sum[half] = products(self, sum[half], magnitude, turned);
        }
        sum
    }
    #[inline(always)]
    fn prefetch(self, address: *const u8) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
