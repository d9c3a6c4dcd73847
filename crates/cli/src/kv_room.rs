//! Room of an embedded cache: whether a request of full length fits.
//!
//! The scheduler refuses what never fits, one request at a time. A cache that is smaller than one context is mostly a
//! slip, so the start says what is missing.

use overdraft_engine::ModelShape;

/// What to say of a cache in which no request of full length has room; nothing of a larger one. `block_bytes` is what a
/// block takes, 0 where nobody knows.
pub(crate) fn too_small(shape: ModelShape, block_bytes: impl FnOnce() -> u64) -> Option<String> {
    let needed = shape.block_size.pages_for(shape.context);
    if needed <= shape.blocks {
        return None;
    }
    let room = u64::from(shape.blocks.get()) * u64::from(shape.block_size.get());
    let (context, blocks) = (shape.context.get(), needed.get());
    let mend = match block_bytes().saturating_mul(u64::from(blocks)) {
        0 => format!("`--num-gpu-blocks-override {blocks}`"),
        bytes => format!("`--kv-cache-memory-bytes {bytes}`"),
    };
    Some(format!(
        "the cache has room for {room} tokens, the context is {context}: longer requests are refused; {mend} \
         holds one of full length, or choose a shorter `--max-model-len`"
    ))
}

#[cfg(test)]
mod tests {
    use overdraft_units::{BlockSize, Blocks, Tokens};

    use super::*;

    #[track_caller]
    fn check(blocks: u32, block_bytes: u64, expected: Option<&str>) {
        let block_size = BlockSize::new(16).expect("sixteen is not zero");
        let (context, blocks) = (Tokens::new(100), Blocks::new(blocks));
        let shape = ModelShape { vocabulary: 10, context, blocks, block_size };
        let said = too_small(shape, || block_bytes);
        assert_eq!(said.is_some(), expected.is_some(), "{said:?}");
        let (said, expected) = (said.unwrap_or_default(), expected.unwrap_or_default());
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn a_cache_below_one_context_is_told_with_what_one_takes() {
        check(7, 1_000, None);
        check(6, 1_000, Some("room for 96 tokens, the context is 100"));
        check(1, 1_000, Some("`--kv-cache-memory-bytes 7000` holds one of full length"));
        check(1, 0, Some("`--num-gpu-blocks-override 7` holds one of full length"));
    }
}
