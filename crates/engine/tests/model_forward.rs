//! The forward pass: right for every family and encoding, and the same to the bit however a
//! sequence is cut up, batched or shared.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod model_support;

use candle_core::quantized::GgmlDType;
use model_support::{
    Built, Output, Random, Scaling, Sequence, Tiny, oracle, relative_error, step, top,
};
use overdraft_engine::Backend;
use overdraft_engine::model::{CpuBackend, Instructions, KvBudget, KvFormat, ModelSettings};
use overdraft_scheduler::batch::Logits;
use overdraft_units::{BlockId, Blocks, TokenId};

const BLOCK: usize = 16;
/// Length of the prompts here: several pages and a part of one.
const LENGTH: usize = 37;

fn open(built: &Built) -> CpuBackend {
    open_with(built, KvFormat::F16)
}

fn open_with(built: &Built, kv_format: KvFormat) -> CpuBackend {
    let kv = KvBudget::Blocks(Blocks::new(64));
    let settings = ModelSettings { kv, kv_format, ..ModelSettings::default() };
    CpuBackend::open(built.bytes.clone(), &settings).unwrap()
}

fn prompt(built: &Built, seed: u64, length: usize) -> Vec<TokenId> {
    Random(seed).tokens(length, built.tiny.vocabulary)
}

/// Computes a prompt in one step and compares every position with the oracle.
#[track_caller]
fn check(tiny: &Tiny, tolerance: f64) {
    check_with(tiny, KvFormat::F16, tolerance);
}

#[track_caller]
fn check_with(tiny: &Tiny, kv_format: KvFormat, tolerance: f64) {
    let built = tiny.build();
    let tokens = prompt(&built, 11, LENGTH);
    let expected = oracle::logits(&built, &tokens);
    let mut backend = open_with(&built, kv_format);
    let sequence = Sequence::new(&tokens, 3, BLOCK);
    let found = step(&mut backend, &[sequence.slot(0, LENGTH, Logits::Every)]);
    assert_eq!(found.len(), LENGTH);
    let errors: Vec<f64> = found.iter().zip(&expected).map(|(f, e)| relative_error(f, e)).collect();
    let mean = errors.iter().sum::<f64>() / f64::from(u32::try_from(errors.len()).unwrap());
    assert!(mean < tolerance, "relative error {mean} of {} {:?}", tiny.architecture, tiny.kind);
}

/// Half-precision keys and values are all that dense weights lose.
const DENSE_TOLERANCE: f64 = 2e-3;
/// Single precision throughout.
const EXACT_TOLERANCE: f64 = 1e-5;
/// Inputs are rounded to eight bits besides, and random weights make for sharp attention.
const QUANTIZED_TOLERANCE: f64 = 5e-2;

#[test]
fn llama_computes_what_the_oracle_says() {
    check(&Tiny::llama(GgmlDType::F32), DENSE_TOLERANCE);
}

#[test]
fn mistral_computes_what_the_oracle_says() {
    let tiny = Tiny { architecture: "mistral3", ..Tiny::llama(GgmlDType::F32) };
    check(&tiny, DENSE_TOLERANCE);
}

#[test]
fn qwen2_computes_what_the_oracle_says() {
    check(&Tiny::qwen2(GgmlDType::F32), DENSE_TOLERANCE);
}

#[test]
fn qwen3_computes_what_the_oracle_says() {
    check(&Tiny::qwen3(GgmlDType::F32), DENSE_TOLERANCE);
}

#[test]
fn single_precision_keys_and_values_lose_nothing() {
    check_with(&Tiny::llama(GgmlDType::F32), KvFormat::F32, EXACT_TOLERANCE);
    check_with(&Tiny::qwen3(GgmlDType::F16), KvFormat::F32, EXACT_TOLERANCE);
}

#[test]
fn stretched_and_divided_rope_computes_what_the_oracle_says() {
    check(&Tiny { rope_divisors: true, ..Tiny::llama(GgmlDType::F32) }, DENSE_TOLERANCE);
    for scaling in [Scaling::Linear(4.0), Scaling::Yarn] {
        check(&Tiny { scaling, ..Tiny::llama(GgmlDType::F32) }, DENSE_TOLERANCE);
        check(&Tiny { scaling, ..Tiny::qwen2(GgmlDType::F32) }, DENSE_TOLERANCE);
    }
}

#[test]
fn one_head_for_all_and_all_heads_apart_compute_what_the_oracle_says() {
    check(&Tiny { kv_heads: 1, ..Tiny::llama(GgmlDType::F32) }, DENSE_TOLERANCE);
    check(&Tiny { kv_heads: 4, ..Tiny::llama(GgmlDType::F32) }, DENSE_TOLERANCE);
}

#[test]
fn odd_widths_compute_what_the_oracle_says() {
    let llama = Tiny::llama(GgmlDType::F32);
    let tiny = Tiny { hidden: 72, heads: 3, kv_heads: 3, head: 24, feed_forward: 100, ..llama };
    check(&tiny, DENSE_TOLERANCE);
}

#[test]
fn dense_encodings_compute_what_the_oracle_says() {
    check(&Tiny::llama(GgmlDType::F16), DENSE_TOLERANCE);
    check(&Tiny::qwen2(GgmlDType::BF16), DENSE_TOLERANCE);
}

#[test]
fn quantized_encodings_compute_what_the_oracle_says() {
    for kind in [
        GgmlDType::Q8_0,
        GgmlDType::Q4_0,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q3K,
    ] {
        check(&Tiny::llama(kind), QUANTIZED_TOLERANCE);
        check(&Tiny { output: Output::Tied, ..Tiny::llama(kind) }, QUANTIZED_TOLERANCE);
    }
}

/// The logits of a sequence's positions, computed alone in one step.
fn alone(backend: &mut dyn Backend, tokens: &[TokenId]) -> Vec<Vec<f32>> {
    let sequence = Sequence::new(tokens, 0, BLOCK);
    step(backend, &[sequence.slot(0, tokens.len(), Logits::Every)])
}

/// One of each kind of kernel.
fn invariant_models() -> [Tiny; 4] {
    [
        Tiny::llama(GgmlDType::Q4K),
        Tiny::qwen2(GgmlDType::Q6K),
        Tiny::qwen3(GgmlDType::Q8_0),
        Tiny::llama(GgmlDType::F16),
    ]
}

#[test]
fn a_sequence_is_the_same_to_the_bit_alone_and_among_sixteen() {
    for tiny in invariant_models() {
        let built = tiny.build();
        let mut backend = open(&built);
        let prompts: Vec<_> = (0..16).map(|seed| prompt(&built, seed, 20)).collect();
        let sequences: Vec<_> =
            (0..).zip(&prompts).map(|(index, p)| Sequence::new(p, index * 2, BLOCK)).collect();
        // Prefill together, then one decode step together, each sequence at its own length.
        let prefill: Vec<_> = sequences
            .iter()
            .enumerate()
            .map(|(index, sequence)| sequence.slot(0, 3 + index, Logits::Last))
            .collect();
        let first = step(&mut backend, &prefill);
        let decode: Vec<_> = sequences
            .iter()
            .enumerate()
            .map(|(index, sequence)| sequence.slot(3 + index, 4 + index, Logits::Last))
            .collect();
        let second = step(&mut backend, &decode);
        for (index, tokens) in prompts.iter().enumerate() {
            let expected = alone(&mut backend, &tokens[..4 + index]);
            assert_eq!(first[index], expected[2 + index], "prefill of {index}");
            assert_eq!(second[index], expected[3 + index], "decode of {index}");
        }
    }
}

#[test]
fn a_prompt_is_the_same_to_the_bit_whole_and_in_any_chunks() {
    for tiny in invariant_models() {
        let built = tiny.build();
        let mut backend = open(&built);
        let tokens = prompt(&built, 5, LENGTH);
        let expected = alone(&mut backend, &tokens);
        for chunk in [1, 2, 5, 9, 16, 17] {
            let sequence = Sequence::new(&tokens, 8, BLOCK);
            for start in (0..LENGTH).step_by(chunk) {
                let end = LENGTH.min(start + chunk);
                let found = step(&mut backend, &[sequence.slot(start, end, Logits::Every)]);
                assert_eq!(found, expected[start..end], "chunks of {chunk} at {start}");
            }
        }
    }
}

#[test]
fn a_shared_prefix_is_the_same_to_the_bit_as_an_own_one() {
    for tiny in invariant_models() {
        let built = tiny.build();
        let mut backend = open(&built);
        let common = prompt(&built, 6, 2 * BLOCK);
        let tails: Vec<_> = (0..4).map(|seed| prompt(&built, 70 + seed, 7)).collect();
        let base = Sequence::new(&common, 20, BLOCK);
        step(&mut backend, &[base.slot(0, common.len(), Logits::None)]);
        let sequences: Vec<_> = (0..)
            .zip(&tails)
            .map(|(index, tail)| {
                let tokens = [common.as_slice(), tail].concat();
                let mut table = base.table.clone();
                table.push(BlockId(40 + index));
                Sequence { tokens, table }
            })
            .collect();
        let slots: Vec<_> = sequences
            .iter()
            .map(|sequence| sequence.slot(2 * BLOCK, 2 * BLOCK + 7, Logits::Every))
            .collect();
        let found = step(&mut backend, &slots);
        for (index, sequence) in sequences.iter().enumerate() {
            let expected = alone(&mut backend, &sequence.tokens);
            assert_eq!(found[index * 7..(index + 1) * 7], expected[2 * BLOCK..], "tail {index}");
        }
    }
}

#[test]
fn one_page_in_two_slots_of_a_step_counts_once() {
    let built = Tiny::llama(GgmlDType::Q4K).build();
    let mut backend = open(&built);
    let tokens = prompt(&built, 9, BLOCK);
    let expected = alone(&mut backend, &tokens);
    let sequence = Sequence::new(&tokens, 12, BLOCK);
    let slot = sequence.slot(0, BLOCK, Logits::Last);
    let found = step(&mut backend, &[slot, slot]);
    assert_eq!(found, [expected[BLOCK - 1].clone(), expected[BLOCK - 1].clone()]);
}

#[test]
fn any_threads_and_instructions_compute_the_same_bits() {
    let built = Tiny::llama(GgmlDType::Q4K).build();
    let tokens = prompt(&built, 4, LENGTH);
    let run = |threads, instructions| {
        let settings = ModelSettings {
            threads: std::num::NonZeroUsize::new(threads),
            instructions,
            kv: KvBudget::Blocks(Blocks::new(8)),
            ..ModelSettings::default()
        };
        alone(&mut CpuBackend::open(built.bytes.clone(), &settings).unwrap(), &tokens)
    };
    let expected = run(1, None);
    assert_eq!(run(2, None), expected);
    assert_eq!(run(5, None), expected);
    for instructions in Instructions::ALL.into_iter().filter(|set| set.is_available()) {
        assert_eq!(run(2, Some(instructions)), expected, "{}", instructions.name());
    }
}

#[test]
fn only_wanted_rows_yield_logits_in_slot_order() {
    let built = Tiny::llama(GgmlDType::F32).build();
    let mut backend = open(&built);
    let tokens = prompt(&built, 7, 12);
    let expected = alone(&mut backend, &tokens);
    let sequences: Vec<_> = (1..4).map(|index| Sequence::new(&tokens, index, BLOCK)).collect();
    let found = step(
        &mut backend,
        &[
            sequences[0].slot(0, 12, Logits::None),
            sequences[1].slot(0, 5, Logits::Every),
            sequences[2].slot(0, 12, Logits::Last),
        ],
    );
    let wanted: Vec<_> = expected[..5].iter().chain(&expected[11..]).cloned().collect();
    assert_eq!(found, wanted);
    assert!(step(&mut backend, &[]).is_empty());
    assert!(step(&mut backend, &[sequences[0].slot(0, 12, Logits::None)]).is_empty());
}

#[test]
fn quantized_weights_keep_the_likeliest_token() {
    for kind in [GgmlDType::Q8_0, GgmlDType::Q6K, GgmlDType::Q4K] {
        let built = Tiny::llama(kind).build();
        let mut backend = open(&built);
        let (mut same, mut clear) = (0, 0);
        for seed in 0..4 {
            let tokens = prompt(&built, 100 + seed, LENGTH);
            let expected = oracle::logits(&built, &tokens);
            for (found, expected) in alone(&mut backend, &tokens).iter().zip(&expected) {
                let mut order: Vec<usize> = (0..expected.len()).collect();
                order.sort_by(|&a, &b| expected[b].total_cmp(&expected[a]));
                // Random weights leave near ties, which any rounding may turn.
                if 0.5 < expected[order[0]] - expected[order[1]] {
                    clear += 1;
                    same += usize::from(top(found) == order[0]);
                }
            }
        }
        assert!(50 < clear && clear == same, "{kind:?}: {same} of {clear}");
    }
}

#[test]
fn a_slot_beyond_model_or_cache_is_refused() {
    let built = Tiny::llama(GgmlDType::F32).build();
    let mut backend = open(&built);
    let tokens = [TokenId(1), TokenId(2)];
    let mut check = |tokens: &[TokenId], start, table: &[BlockId], message: &str| {
        let slot = overdraft_engine::BatchSlot { tokens, start, table, logits: Logits::Last };
        let error = backend.forward(&[slot], &mut Vec::new()).unwrap_err();
        assert_eq!(error.reason, message);
    };
    check(&[TokenId(301)], 0, &[BlockId(0)], "token `301` is none of the 301 known");
    check(&tokens, 15, &[BlockId(0)], "position `16` has no page");
    check(&tokens, 0, &[BlockId(64)], "page `64` is none of the 64blk");
    check(&tokens, 511, &[BlockId(0); 33], "position `512` is beyond the 512tok");
}

/// Pages of one backend in another of the same weights, in other places.
#[test]
fn moved_pages_give_the_same_logits_to_the_bit() {
    for format in [KvFormat::F16, KvFormat::F32] {
        let built = Tiny::llama(GgmlDType::Q4K).build();
        let tokens = prompt(&built, 11, LENGTH);
        let (mut one, mut other) = (open_with(&built, format), open_with(&built, format));
        let (here, there) = (Sequence::new(&tokens, 3, BLOCK), Sequence::new(&tokens, 20, BLOCK));
        let last = LENGTH - 1;
        step(&mut one, &[here.slot(0, last, Logits::None)]);
        let layout = one.block_layout().unwrap();
        assert_eq!(Some(&layout), other.block_layout().as_ref());
        for (from, to) in here.table.iter().zip(&there.table) {
            let mut bytes = Vec::new();
            one.export_block(*from, &mut bytes).unwrap();
            assert_eq!(bytes.len(), layout.bytes);
            other.import_block(*to, &bytes).unwrap();
        }
        let expected = step(&mut one, &[here.slot(last, LENGTH, Logits::Last)]);
        let found = step(&mut other, &[there.slot(last, LENGTH, Logits::Last)]);
        assert_eq!(found, expected, "{format:?}");
    }
}
