//! The kernels' arithmetic on AVX-512 with VNNI: sixteen lanes in one register.

use super::{Kernel, RowsKernel, Simd, WithRows};
use std::arch::x86_64::{
    __m512, __m512i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _mm_loadu_si128,
    _mm_prefetch, _mm_storeu_si128, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_add_epi32,
    _mm512_add_ps, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_cvtepi8_epi32, _mm512_cvtepi32_epi8, _mm512_cvtepi32_ps,
    _mm512_cvtepu8_epi32, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_cvtps_ph, _mm512_div_ps,
    _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_max_ps,
    _mm512_min_ps, _mm512_mul_ps, _mm512_or_si512, _mm512_reduce_add_epi32, _mm512_reduce_max_ps,
    _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_ps, _mm512_shuffle_epi8, _mm512_slli_epi16,
    _mm512_slli_epi32, _mm512_srli_epi16, _mm512_storeu_ps, _mm512_sub_ps,
};

/// The token; made only by [`Avx512::detect`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// A token where the machine has AVX-512 F, BW, DQ, VL and VNNI.
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        found.then_some(Self(()))
    }
}

/// Calls value-only intrinsics: their one demand is that the instructions exist.
macro_rules! on {
    ($call:expr) => {{
        // SAFETY: the token `self` is made only where `detect` found every feature used here.
        unsafe { $call }
    }};
}

impl Simd for Avx512 {
    type Floats = __m512;
    type Ints = __m512i;
    type Bytes = __m512i;

    #[inline]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        // A function of its own for each kernel: small ones are optimised better.
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn featured<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        on!(featured(self, kernel))
    }

    #[inline]
    fn run_rows<K: RowsKernel>(self, rows: usize, kernel: &K) -> usize {
        match rows {
            16.. => self.vectorize(WithRows::<K, 16>(kernel)),
            15 => self.vectorize(WithRows::<K, 15>(kernel)),
            14 => self.vectorize(WithRows::<K, 14>(kernel)),
            13 => self.vectorize(WithRows::<K, 13>(kernel)),
            12 => self.vectorize(WithRows::<K, 12>(kernel)),
            11 => self.vectorize(WithRows::<K, 11>(kernel)),
            10 => self.vectorize(WithRows::<K, 10>(kernel)),
            9 => self.vectorize(WithRows::<K, 9>(kernel)),
            8 => self.vectorize(WithRows::<K, 8>(kernel)),
            7 => self.vectorize(WithRows::<K, 7>(kernel)),
            6 => self.vectorize(WithRows::<K, 6>(kernel)),
            5 => self.vectorize(WithRows::<K, 5>(kernel)),
            4 => self.vectorize(WithRows::<K, 4>(kernel)),
            3 => self.vectorize(WithRows::<K, 3>(kernel)),
            2 => self.vectorize(WithRows::<K, 2>(kernel)),
            _ => self.vectorize(WithRows::<K, 1>(kernel)),
        }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        on!(_mm512_set1_ps(value))
    }
    #[inline(always)]
    fn load(self, source: &[f32; 16]) -> __m512 {
        // SAFETY: the reference covers the 64 bytes read; the token vouches for the instruction.
        unsafe { _mm512_loadu_ps(source.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, value: __m512, target: &mut [f32; 16]) {
        // SAFETY: the reference covers the 64 bytes written; the token vouches for the instruction.
        unsafe { _mm512_storeu_ps(target.as_mut_ptr(), value) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        on!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        on!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        on!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        on!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        on!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        on!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        on!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn bits(self, value: __m512) -> __m512i {
        on!(_mm512_castps_si512(value))
    }
    #[inline(always)]
    fn floats_of_bits(self, value: __m512i) -> __m512 {
        on!(_mm512_castsi512_ps(value))
    }
    #[inline(always)]
    fn widen_f16(self, source: &[u16; 16]) -> __m512 {
        // SAFETY: the reference covers the 32 bytes read; the token vouches for the instruction.
        let half = unsafe { _mm256_loadu_si256(source.as_ptr().cast()) };
        on!(_mm512_cvtph_ps(half))
    }
    #[inline(always)]
    fn narrow_f16(self, value: __m512) -> [u16; 16] {
        const NEAREST_EVEN: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        let half = on!(_mm512_cvtps_ph::<NEAREST_EVEN>(value));
        let mut out = [0; 16];
        // SAFETY: the array covers the 32 bytes written; the token vouches for the instruction.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), half) };
        out
    }
    #[inline(always)]
    fn widen_bf16(self, source: &[u16; 16]) -> __m512 {
        // SAFETY: the reference covers the 32 bytes read; the token vouches for the instruction.
        let half = unsafe { _mm256_loadu_si256(source.as_ptr().cast()) };
        let wide = on!(_mm512_cvtepu16_epi32(half));
        let wide = on!(_mm512_slli_epi32::<16>(wide));
        self.floats_of_bits(wide)
    }
    #[inline(always)]
    fn widen_u8(self, source: &[u8; 16]) -> __m512 {
        // SAFETY: the reference covers the 16 bytes read; the token vouches for the instruction.
        let bytes = unsafe { _mm_loadu_si128(source.as_ptr().cast()) };
        let wide = on!(_mm512_cvtepu8_epi32(bytes));
        self.to_floats(wide)
    }
    #[inline(always)]
    fn widen_i8(self, source: &[i8; 16]) -> __m512 {
        // SAFETY: the reference covers the 16 bytes read; the token vouches for the instruction.
        let bytes = unsafe { _mm_loadu_si128(source.as_ptr().cast()) };
        let wide = on!(_mm512_cvtepi8_epi32(bytes));
        self.to_floats(wide)
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> __m512i {
        on!(_mm512_set1_epi32(value))
    }
    #[inline(always)]
    fn add_int(self, a: __m512i, b: __m512i) -> __m512i {
        on!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn shift_to_exponent(self, a: __m512i) -> __m512i {
        on!(_mm512_slli_epi32::<23>(a))
    }
    #[inline(always)]
    fn to_floats(self, a: __m512i) -> __m512 {
        on!(_mm512_cvtepi32_ps(a))
    }

    #[inline(always)]
    fn narrow_bytes(self, a: __m512i) -> [u8; 16] {
        let bytes = on!(_mm512_cvtepi32_epi8(a));
        let mut out = [0; 16];
        // SAFETY: the array covers the 16 bytes written; the token vouches for the instruction.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), bytes) };
        out
    }
    #[inline(always)]
    fn sum_int(self, a: __m512i) -> i32 {
        on!(_mm512_reduce_add_epi32(a))
    }
    #[inline(always)]
    fn greatest(self, value: __m512) -> f32 {
        on!(_mm512_reduce_max_ps(value))
    }

    #[inline(always)]
    fn bytes(self, source: &[u8; 64]) -> __m512i {
        // SAFETY: the reference covers the 64 bytes read; the token vouches for the instruction.
        unsafe { _mm512_loadu_si512(source.as_ptr().cast()) }
    }
    #[inline(always)]
    fn mask(self, a: __m512i, mask: u8) -> __m512i {
        let mask = on!(_mm512_set1_epi8(mask.cast_signed()));
        on!(_mm512_and_si512(a, mask))
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        on!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn shift_right<const COUNT: u32>(self, a: __m512i, mask: u8) -> __m512i {
        let shifted = on!(_mm512_srli_epi16::<COUNT>(a));
        self.mask(shifted, mask)
    }
    #[inline(always)]
    fn shift_left<const COUNT: u32>(self, a: __m512i, mask: u8) -> __m512i {
        let shifted = on!(_mm512_slli_epi16::<COUNT>(a));
        self.mask(shifted, mask)
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: __m512i) -> __m512i {
        // SAFETY: the reference covers the 16 bytes read; the token vouches for the instruction.
        let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
        let table = on!(_mm512_broadcast_i32x4(table));
        on!(_mm512_shuffle_epi8(table, indices))
    }
    #[inline(always)]
    fn dot<const COUNT: usize>(
        self,
        mut sum: __m512i,
        weights: &[__m512i],
        values: &[i32],
    ) -> __m512i {
        for index in 0..COUNT {
            let values = self.splat_int(values[index]);
            sum = on!(_mm512_dpbusd_epi32(sum, weights[index], values));
        }
        sum
    }
    #[inline(always)]
    fn seed_signed(self, minus_128_sum: i32) -> __m512i {
        self.splat_int(minus_128_sum)
    }
    #[inline(always)]
    fn dot_signed(self, sum: __m512i, weights: __m512i, values: i32) -> __m512i {
        self.dot::<1>(sum, &[weights], &[values])
    }
    #[inline(always)]
    fn prefetch(self, address: *const u8) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
