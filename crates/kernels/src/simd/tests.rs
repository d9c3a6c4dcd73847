//! Every operation of every instruction set against the portable twin, to the bit.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "test data is cut from random bits"
)]

use super::{Instructions, Kernel, LANES, Simd, exponential};

/// A small generator of test numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }
    fn float(&mut self) -> f32 {
        (self.next() as f32 / 2_147_483_648.0 - 1.0) * 2.0_f32.powi(self.next() as i32 % 20)
    }
}

/// What all operations yield, as bits.
struct AllOperations {
    a: [f32; LANES],
    b: [f32; LANES],
    c: [f32; LANES],
    small: [u8; 64],
    any: [u8; 64],
    halves: [u16; LANES],
    values: i32,
}

struct Trace<S>(S, Vec<u32>);

impl<S: Simd> Trace<S> {
    fn floats(&mut self, value: S::Floats) {
        let mut lanes = [0.0; LANES];
        self.0.store(value, &mut lanes);
        self.1.extend(lanes.map(f32::to_bits));
    }
    fn ints(&mut self, value: S::Ints) {
        self.floats(self.0.floats_of_bits(value));
    }
    fn bytes(&mut self, value: S::Bytes) {
        for column in [1, 1 << 8, 1 << 16, 1 << 24] {
            self.ints(self.0.dot::<1>(self.0.splat_int(0), &[value], &[column]));
        }
    }
}

impl Kernel for AllOperations {
    type Output = Vec<u32>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Vec<u32> {
        let (a, b, c) = (s.load(&self.a), s.load(&self.b), s.load(&self.c));
        let mut trace = Trace(s, Vec::new());
        trace.floats(s.splat(self.a[3]));
        for operation in [S::add, S::sub, S::mul, S::div, S::max, S::min] {
            trace.floats(operation(s, a, b));
        }
        trace.floats(s.fma(a, b, c));
        trace.floats(exponential(s, a));
        trace.ints(s.bits(a));
        trace.floats(s.widen_f16(&self.halves));
        trace.floats(s.widen_bf16(&self.halves.map(|half| half & 0xbfff)));
        trace.1.extend(s.narrow_f16(a).map(u32::from));
        trace.floats(s.widen_u8(self.any[..16].try_into().unwrap()));
        trace.floats(s.widen_i8(&std::array::from_fn(|at| self.any[at].cast_signed())));
        trace.ints(s.add_int(s.bits(a), s.bits(b)));
        trace.ints(s.shift_to_exponent(s.bits(a)));
        trace.floats(s.to_floats(s.bits(a)));
        trace.1.extend(s.narrow_bytes(s.bits(a)).map(u32::from));
        trace.1.push(s.sum_int(s.bits(a)).cast_unsigned());
        let (small, any) = (s.bytes(&self.small), s.bytes(&self.any));
        trace.ints(s.dot::<1>(s.bits(a), &[small], &[self.values]));
        let (half, few) = (s.mask(small, 63), s.mask(small, 15));
        trace.ints(s.dot::<2>(s.bits(a), &[half; 2], &[self.values; 2]));
        trace.ints(s.dot::<8>(s.bits(a), &[few; 8], &[self.values; 8]));
        trace.bytes(s.mask(any, 0x35));
        trace.bytes(s.or(small, s.mask(any, 0x35)));
        trace.bytes(s.shift_right::<2>(any, 0x30));
        trace.bytes(s.shift_right::<4>(any, 0x0f));
        trace.bytes(s.shift_left::<3>(any, 0x10));
        trace.bytes(s.mask(s.look_up(self.any[..16].try_into().unwrap(), few), 127));
        let sum: i32 =
            self.values.to_le_bytes().iter().map(|byte| i32::from(byte.cast_signed())).sum();
        trace.ints(s.dot_signed(s.seed_signed(-128 * sum), any, self.values));
        trace.1.push(s.sum(a).to_bits());
        trace.1.push(s.greatest(a).to_bits());
        trace.1
    }
}

fn all_operations(numbers: &mut Numbers) -> AllOperations {
    let byte = |numbers: &mut Numbers| (numbers.next() % 255) as u8 as i8;
    let mut values = [0; 4];
    for value in &mut values {
        *value = byte(numbers).max(-127) as u8;
    }
    AllOperations {
        a: std::array::from_fn(|_| numbers.float()),
        b: std::array::from_fn(|_| numbers.float()),
        c: std::array::from_fn(|_| numbers.float()),
        small: std::array::from_fn(|_| (numbers.next() % 129) as u8),
        any: std::array::from_fn(|_| numbers.next() as u8),
        // Finite: exponents below the highest.
        halves: std::array::from_fn(|_| (numbers.next() as u16) & 0xbbff),
        values: i32::from_le_bytes(values),
    }
}

#[test]
fn all_instruction_sets_give_the_bits_of_the_portable_twin() {
    for instructions in Instructions::ALL {
        let Some(level) = instructions.level() else { continue };
        let portable = Instructions::Portable.level().unwrap();
        for seed in 1..200 {
            let expected = portable.run(all_operations(&mut Numbers(seed * 77_777)));
            let found = level.run(all_operations(&mut Numbers(seed * 77_777)));
            assert_eq!(found, expected, "{instructions:?}, seed {seed}");
        }
    }
}

struct Exponentials([f32; LANES]);

impl Kernel for Exponentials {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        simd.store(exponential(simd, simd.load(&self.0)), &mut out);
        out
    }
}

#[test]
fn the_exponential_is_within_three_tenths_of_a_millionth() {
    let level = Instructions::detect().level().unwrap();
    let mut worst = 0.0_f64;
    for step in 0..20_000 {
        let x: [f32; LANES] =
            std::array::from_fn(|lane| -87.0 + 175.0 * (step * LANES + lane) as f32 / 320_000.0);
        let found = level.run(Exponentials(x));
        for (x, found) in x.into_iter().zip(found) {
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(found) / exact - 1.0).abs());
        }
    }
    assert!(worst < 3e-7, "{worst:e}");
}

#[test]
fn the_exponential_stays_finite_at_its_ends_and_keeps_nan() {
    let level = Instructions::detect().level().unwrap();
    let mut x = [f32::NEG_INFINITY; LANES];
    (x[1], x[2], x[3]) = (f32::INFINITY, f32::NAN, 0.0);
    let found = level.run(Exponentials(x));
    assert!(found[0] > 0.0 && found[0] < 2e-38, "{}", found[0]);
    assert!(found[1].is_finite() && found[1] > 1e38, "{}", found[1]);
    assert!(found[2].is_nan());
    assert_eq!(found[3].to_bits(), 1.0_f32.to_bits());
}

#[test]
fn the_portable_twin_is_always_there_and_the_best_is_available() {
    assert!(Instructions::Portable.is_available());
    assert!(Instructions::detect().is_available());
    assert!(
        Instructions::ALL.iter().all(|set| !set.is_available() || *set <= Instructions::detect())
    );
}
