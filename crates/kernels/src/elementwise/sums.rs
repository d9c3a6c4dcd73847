//! Residual sums, biases, and the gated activation `silu(gate) * up`.

use super::{CHUNK_NUMBERS, chunk_of_rows};
use crate::pool::Pool;
use crate::simd::{Kernel, LANES, Simd, exponential};

/// `target += addend`, number by number. Panics when lengths differ.
pub fn add(target: &mut [f32], addend: &[f32], pool: &Pool) {
    assert_eq!(target.len(), addend.len(), "target and addend differ in length");
    pool.run_chunks(target, CHUNK_NUMBERS, |index, target| {
        let addend = &addend[index * CHUNK_NUMBERS..][..target.len()];
        pool.kernel(Add { target, addend });
    });
}

/// Adds `bias` to each row of `bias.len()` numbers. Panics when rows are not whole.
pub fn add_bias(rows: &mut [f32], bias: &[f32], pool: &Pool) {
    assert!(!bias.is_empty(), "a bias of 0 numbers");
    assert_eq!(rows.len() % bias.len(), 0, "`{}` numbers are not whole rows", rows.len());
    pool.run_chunks(rows, chunk_of_rows(bias.len()), |_, rows| {
        for row in rows.chunks_exact_mut(bias.len()) {
            pool.kernel(Add { target: row, addend: bias });
        }
    });
}

/// `gate = gate / (1 + exp(-gate)) * up`, number by number; relative error of the exponential
/// below 3e-7. Panics when lengths differ.
pub fn silu_multiply(gate: &mut [f32], up: &[f32], pool: &Pool) {
    assert_eq!(gate.len(), up.len(), "gate and up differ in length");
    pool.run_chunks(gate, CHUNK_NUMBERS, |index, gate| {
        let up = &up[index * CHUNK_NUMBERS..][..gate.len()];
        pool.kernel(SiluMultiply { gate, up });
    });
}

struct Add<'a> {
    target: &'a mut [f32],
    addend: &'a [f32],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        for (target, addend) in self.target.iter_mut().zip(self.addend) {
            *target += addend;
        }
    }
}

struct SiluMultiply<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl Kernel for SiluMultiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (gates, gate_rest) = self.gate.as_chunks_mut::<LANES>();
        let (ups, up_rest) = self.up.as_chunks::<LANES>();
        for (gate, up) in gates.iter_mut().zip(ups) {
            let result = silu_multiply_lanes(simd, simd.load(gate), simd.load(up));
            simd.store(result, gate);
        }
        if !gate_rest.is_empty() {
            let (mut gate, mut up) = ([0.0; LANES], [0.0; LANES]);
            gate[..gate_rest.len()].copy_from_slice(gate_rest);
            up[..up_rest.len()].copy_from_slice(up_rest);
            let result = silu_multiply_lanes(simd, simd.load(&gate), simd.load(&up));
            simd.store(result, &mut gate);
            gate_rest.copy_from_slice(&gate[..gate_rest.len()]);
        }
    }
}

#[inline(always)]
fn silu_multiply_lanes<S: Simd>(simd: S, gate: S::Floats, up: S::Floats) -> S::Floats {
    let decay = exponential(simd, simd.sub(simd.splat(0.0), gate));
    let silu = simd.div(gate, simd.add(simd.splat(1.0), decay));
    simd.mul(silu, up)
}
