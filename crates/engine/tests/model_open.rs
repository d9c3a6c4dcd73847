//! Opening a model: what it tells about itself, and one clear sentence for each way to be wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod model_support;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use model_support::{Random, Sequence, Tiny, step};
use overdraft_engine::gguf::OpenError;
use overdraft_engine::model::{KvBudget, Model, ModelSettings};
use overdraft_kernels::{AttentionShape, KvCache};
use overdraft_scheduler::batch::Logits;
use overdraft_units::{BlockSize, Blocks, Tokens};
use proptest::prelude::*;

/// The smallest model that has everything.
fn small() -> Tiny {
    Tiny {
        layers: 1,
        hidden: 32,
        heads: 2,
        kv_heads: 1,
        head: 16,
        feed_forward: 32,
        vocabulary: 20,
        ..Tiny::llama(GgmlDType::F32)
    }
}

fn settings() -> ModelSettings {
    ModelSettings { kv: KvBudget::Blocks(Blocks::new(4)), ..ModelSettings::default() }
}

#[test]
fn a_model_tells_what_it_is() {
    let bytes = Tiny::qwen3(GgmlDType::Q4K).build().bytes;
    let file_bytes = u64::try_from(bytes.len()).unwrap();
    let model = Model::open(bytes, &settings()).unwrap();
    assert_eq!(model.info.name, "Tiny qwen3");
    assert_eq!(model.info.architecture, "qwen3");
    assert_eq!(model.info.file_type, "Q4_K");
    assert_eq!(model.info.context, Tokens::new(512));
    assert!(model.info.step_bytes < file_bytes * 2);
    let shape = model.backend.shape();
    assert_eq!((shape.vocabulary, shape.blocks), (301, Blocks::new(4)));
}

#[test]
fn settings_bound_context_and_cache() {
    let bytes = small().build().bytes;
    let shorter = ModelSettings { context_max: Some(Tokens::new(100)), ..ModelSettings::default() };
    let model = Model::open(bytes.clone(), &shorter).unwrap();
    assert_eq!(model.info.context, Tokens::new(100));
    // The default budget is more than 64 sequences of seven pages can use.
    assert_eq!(model.backend.shape().blocks, Blocks::new(64 * 7));
    let bytes_given = ModelSettings { kv: KvBudget::Bytes(1 << 14), ..shorter };
    let model = Model::open(bytes, &bytes_given).unwrap();
    let blocks = model.backend.shape().blocks.get();
    assert!((1..64 * 7).contains(&blocks), "{blocks}");
}

/// Memory of so many pages of a model's cache, in the default format.
fn cache_bytes(tiny: &Tiny, blocks: Blocks, page: BlockSize) -> usize {
    let shape = AttentionShape {
        heads: tiny.heads,
        kv_heads: tiny.kv_heads,
        head_dim: tiny.head,
        block_size: page.get() as usize,
    };
    tiny.layers * KvCache::new(blocks.get() as usize, shape).bytes()
}

#[test]
fn the_caches_stay_within_their_memory_whatever_the_size_of_a_page() {
    const BUDGET: u64 = 256 * 1024;
    let (target, draft) = (Tiny { layers: 3, ..small() }, Tiny { head: 18, ..small() });
    for page in [1, 8, 12, 16, 24] {
        let page = BlockSize::new(page).unwrap();
        let alone = ModelSettings {
            kv: KvBudget::Bytes(BUDGET),
            block_size: page,
            ..ModelSettings::default()
        };
        let draft_block_bytes = Model::block_bytes(draft.build().bytes, &alone).unwrap();
        let beside = ModelSettings { draft_block_bytes, ..alone.clone() };
        for settings in [alone, beside] {
            let model = Model::open(target.build().bytes, &settings).unwrap();
            let blocks = model.backend.shape().blocks;
            let bytes = |blocks| {
                let own = cache_bytes(&target, blocks, page);
                let guesses = 0 < settings.draft_block_bytes;
                own + if guesses { cache_bytes(&draft, blocks, page) } else { 0 }
            };
            let budget = usize::try_from(BUDGET).unwrap();
            assert!(bytes(blocks) <= budget, "{settings:?}");
            assert!(budget < bytes(blocks + Blocks::new(1)), "{settings:?}");
        }
    }
}

#[test]
fn a_cache_beyond_memory_is_refused() {
    let huge = ModelSettings { kv: KvBudget::Blocks(Blocks::new(u32::MAX)), ..settings() };
    let error = Model::open(Tiny::llama(GgmlDType::F32).build().bytes, &huge).unwrap_err();
    assert!(matches!(error, OpenError::OutOfMemory { .. }), "{error}");
}

/// Opens the small model with some metadata changed, and compares the refusal.
#[track_caller]
fn check(key: &str, value: Value, message: &str) {
    let built = small().build();
    let bytes = built.with_metadata(key, value);
    let error = Model::open(bytes, &settings()).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert!(!error.hint().is_empty());
}

#[test]
fn says_in_one_sentence_what_is_wrong_with_a_model() {
    let text = |text: &str| Value::String(text.to_owned());
    check(
        "general.architecture",
        text("mamba"),
        "the model architecture `mamba` is not supported; expected one of llama, mistral3, qwen2, \
         qwen3",
    );
    check(
        "general.architecture",
        text("qwen3"),
        "the metadata entry `qwen3.embedding_length` is missing; expected a positive integer",
    );
    check(
        "llama.embedding_length",
        text("wide"),
        "the metadata entry `llama.embedding_length` is `wide`; expected an integer that is not \
         negative",
    );
    check(
        "llama.embedding_length",
        Value::U32(64),
        "the tensor `token_embd.weight` has shape `[20, 32]`; expected [20, 64]",
    );
    check(
        "llama.attention.head_count_kv",
        Value::U32(5),
        "the metadata entry `llama.attention.head_count_kv` is `5`; expected a divisor of the \
         heads",
    );
    check(
        "llama.block_count",
        Value::U32(2),
        "the tensor `blk.1.attn_norm.weight` is missing from the model file",
    );
    check(
        "llama.block_count",
        Value::U64(1 << 60),
        "the metadata entry `llama.block_count` is `1152921504606846976`; expected 1 to 16777216",
    );
    check(
        "llama.rope.scaling.type",
        text("longrope"),
        "the model uses rope scaling of type `longrope`, which is not supported",
    );
    check(
        "llama.expert_count",
        Value::U32(8),
        "the model uses a mixture of experts, which is not supported",
    );
}

#[test]
fn a_bias_that_the_family_has_is_missed() {
    let tiny = Tiny { architecture: "qwen2", ..small() };
    let error = Model::open(tiny.build().bytes, &settings()).unwrap_err();
    assert_eq!(error.to_string(), "the tensor `blk.0.attn_q.bias` is missing from the model file");
}

#[test]
fn a_model_without_tokenizer_opens_and_says_so_when_asked() {
    let model = Model::open(small().build().bytes, &settings()).unwrap();
    let error = model.metadata.require_tokenizer().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model file has no tokenizer: the metadata entry `tokenizer.ggml.model` is missing"
    );
}

/// Opens bytes and computes a step with what opens: anything but a panic will do.
fn exercise(bytes: Vec<u8>) {
    let Ok(mut model) = Model::open(bytes, &settings()) else { return };
    let shape = model.backend.shape();
    let length = 5.min(shape.context.get() as usize);
    let tokens = Random(1).tokens(length, shape.vocabulary);
    let sequence = Sequence::new(&tokens, 0, 16);
    let logits = step(model.backend.as_mut(), &[sequence.slot(0, length, Logits::Last)]);
    assert_eq!(logits.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_truncated_model_panics(share in 0_usize..1000) {
        let mut bytes = small().build().bytes;
        bytes.truncate(bytes.len() * share / 1000);
        exercise(bytes);
    }

    #[test]
    fn no_flipped_bits_panic(flips in prop::collection::vec((0_usize..1600, 0_u8..8), 1..4)) {
        let mut bytes = small().build().bytes;
        for (at, bit) in flips {
            bytes[at] ^= 1 << bit;
        }
        exercise(bytes);
    }
}
