//! Whatever an engine sends, its metrics and events are read or refused, and never a panic.

use overdraft_units::TokenId;
use overdraft_wire::kv_events::{
    Batch, EngineHash, ExtraKeys, KvEvent, Removed, SaltText, Stored, decode, encode,
};
use overdraft_wire::prometheus::{engine, lines};
use proptest::prelude::*;

fn hash() -> impl Strategy<Value = EngineHash> {
    prop_oneof![
        any::<u64>().prop_map(EngineHash::Number),
        prop::collection::vec(any::<u8>(), 0..=64)
            .prop_map(|bytes| EngineHash::Bytes(bytes.into())),
    ]
}

/// Extra keys of each block; plain blocks at the end are not written.
fn extra() -> impl Strategy<Value = Vec<ExtraKeys>> {
    let keys = prop_oneof![
        Just(ExtraKeys::Nothing),
        "[a-z]{1,4}".prop_map(|salt| ExtraKeys::Salt(SaltText::new(&salt))),
        prop::collection::vec(any::<u8>(), 0..4).prop_map(|bytes| ExtraKeys::Other(bytes.into())),
    ];
    prop::collection::vec(keys, 0..4).prop_map(|mut keys| {
        while keys.last() == Some(&ExtraKeys::Nothing) {
            keys.pop();
        }
        keys
    })
}

fn event() -> impl Strategy<Value = KvEvent> {
    let hashes = || prop::collection::vec(hash(), 0..5);
    let stored = (
        hashes(),
        prop::option::of(hash()),
        prop::collection::vec(any::<u32>().prop_map(TokenId), 0..40),
        any::<u32>(),
        prop::option::of("[A-Z]{1,8}"),
        prop::option::of(any::<u32>()),
        extra(),
    );
    prop_oneof![
        stored.prop_map(|(hashes, parent, tokens, block_size, name, group, extra)| {
            let (medium, lora) = (name.clone(), name);
            KvEvent::Stored(Stored {
                hashes,
                parent,
                tokens,
                block_size,
                medium,
                lora,
                extra,
                group,
            })
        }),
        (hashes(), prop::option::of("[A-Z]{1,8}"), prop::option::of(any::<u32>())).prop_map(
            |(hashes, medium, group)| KvEvent::Removed(Removed { hashes, medium, group })
        ),
        Just(KvEvent::Cleared),
    ]
}

fn batch() -> impl Strategy<Value = Batch> {
    (-1e12..1e12, prop::collection::vec(event(), 0..6), prop::option::of(any::<u32>()))
        .prop_map(|(at_seconds, events, rank)| Batch { at_seconds, events, rank })
}

/// Pages that are nearly metrics.
fn page() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:cache_config_info",
        "sglang:num_queue_reqs",
        "{",
        "}",
        "engine=\"0\"",
        ",",
        "\"",
        "block_size=\"16\"",
        "\\",
        "\n",
        "\n",
        " ",
        " ",
        "1",
        "-1e400",
        "NaN",
        "+Inf",
        "#",
        "é",
    ]);
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat() + "\n")
}

proptest! {
    #[test]
    fn events_read_back_as_they_were_written(batch in batch()) {
        prop_assert_eq!(decode(&encode(&batch)).ok(), Some(batch));
    }

    #[test]
    fn broken_batches_are_read_or_refused(
        batch in batch(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        noise in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut bytes = encode(&batch);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode(&bytes);
        let _ = decode(&noise);
        prop_assert!(decode(&bytes[..at]).is_err());
    }

    #[test]
    fn broken_pages_are_read_or_refused(page in page(), noise in any::<Vec<u8>>()) {
        let _ = engine::report(&noise);
        let _ = engine::report(page.as_bytes());
        let samples = lines(page.as_bytes()).into_iter().flatten().flatten();
        for sample in samples.filter_map(|line| line.read().ok()) {
            prop_assert!(page.contains(sample.name));
            prop_assert!(sample.labels.iter().all(|(name, _)| page.contains(name)));
        }
    }
}
