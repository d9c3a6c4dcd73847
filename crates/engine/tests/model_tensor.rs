//! The backend for CUDA and Metal, run on candle's processor device: the network is the same, so
//! only the device changes when a feature is enabled.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod model_support;

use candle_core::Device;
use candle_core::quantized::GgmlDType;
use model_support::{Random, Sequence, Tiny, relative_error, step};
use overdraft_engine::model::{CpuBackend, KvBudget, KvFormat, ModelSettings, TensorBackend};
use overdraft_scheduler::batch::Logits;
use overdraft_units::Blocks;

/// Runs two sequences in chunks on both backends and compares all logits.
#[track_caller]
fn check(tiny: &Tiny, kv_format: KvFormat, tolerance: f64) {
    let built = tiny.build();
    let kv = KvBudget::Blocks(Blocks::new(8));
    let settings = ModelSettings { kv, kv_format, ..ModelSettings::default() };
    let mut cpu = CpuBackend::open(built.bytes.clone(), &settings).unwrap();
    let mut tensor = TensorBackend::open(built.bytes, &settings, &Device::Cpu).unwrap();
    assert_eq!(overdraft_engine::Backend::shape(&cpu), overdraft_engine::Backend::shape(&tensor));
    let sequences: Vec<_> = (0..2)
        .map(|index| Sequence::new(&Random(40).tokens(37, tiny.vocabulary), index * 3, 16))
        .collect();
    for bounds in [[0, 20, 0, 5], [20, 21, 5, 30], [21, 37, 30, 31]] {
        let batch = [
            sequences[0].slot(bounds[0], bounds[1], Logits::Every),
            sequences[1].slot(bounds[2], bounds[3], Logits::Last),
        ];
        let (expected, found) = (step(&mut cpu, &batch), step(&mut tensor, &batch));
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let expected: Vec<f64> = expected.iter().map(|&logit| logit.into()).collect();
            let error = relative_error(found, &expected);
            assert!(error < tolerance, "relative error {error} of {}", tiny.architecture);
        }
    }
    let none = [sequences[0].slot(36, 37, Logits::None)];
    assert!(step(&mut tensor, &none).is_empty());
}

#[test]
fn every_family_is_the_same_on_both_backends() {
    for kind in [GgmlDType::F32, GgmlDType::F16] {
        let llama = Tiny::llama(kind);
        check(&llama, KvFormat::F32, 1e-4);
        check(&Tiny { rope_divisors: true, stretch: Some(2.0), ..llama }, KvFormat::F32, 1e-4);
        check(&Tiny::qwen2(kind), KvFormat::F32, 1e-4);
        check(&Tiny::qwen3(kind), KvFormat::F32, 1e-4);
    }
    check(&Tiny::llama(GgmlDType::F32), KvFormat::F16, 1e-2);
}

#[test]
fn quantized_weights_are_the_same_on_both_backends() {
    for kind in [GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4K, GgmlDType::Q5K, GgmlDType::Q6K] {
        // Each rounds the inputs in its own way.
        check(&Tiny::llama(kind), KvFormat::F16, 0.25);
    }
}
