//! What the reader and writer of KV events promise, one sentence per test.

use super::*;

/// Two blocks stored, one dropped, all cleared; as maps, with fields that we do not use.
const MAPS: &str = "93cb41da26cb3010000093de000aa474797065ab426c6f636b53746f726564ac626c6f636b5f6861\
7368657392cf7b0bf7bf7fd01682cf0b368b33d87bf3bfb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f69\
6473dc00200102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20aa626c6f636b5f73697a6510a7\
6c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0a967726f75705f69647800b26b765f6361636865\
5f737065635f6b696e64ae66756c6c5f617474656e74696f6e84a474797065ac426c6f636b52656d6f766564ac626c6f636b\
5f68617368657391cf7b0bf7bf7fd01682a66d656469756da3475055a967726f75705f6964780081a474797065b0416c6c42\
6c6f636b73436c656172656400";

/// The same as arrays.
const ARRAYS: &str = "93cb41da26cb301000009399ab426c6f636b53746f72656492cf7b0bf7bf7fd01682cf0b368b33\
d87bf3bfc0dc00200102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2010c0a3475055c0c093ac\
426c6f636b52656d6f76656491cf7b0bf7bf7fd01682a347505591b0416c6c426c6f636b73436c656172656400";

/// The hash of its first block, in full.
const B1: &str = "cd7c51bc5a8fc8643f383a2b9e01522fba7473c669e9270c7b0bf7bf7fd01682";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap().to_le_bytes()[0];
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn sample(group: Option<u32>) -> Batch {
    let [first, second] =
        [8_866_452_693_264_111_234, 807_986_237_951_177_663].map(EngineHash::Number);
    let medium = Some("GPU".to_owned());
    Batch {
        at_seconds: 1_755_000_000.25,
        events: vec![
            KvEvent::Stored(Stored {
                hashes: vec![first.clone(), second],
                tokens: (1..=32).map(TokenId).collect(),
                block_size: 16,
                medium: medium.clone(),
                group,
                ..Stored::default()
            }),
            KvEvent::Removed(Removed { hashes: vec![first], medium, group }),
            KvEvent::Cleared,
        ],
        rank: Some(0),
    }
}

/// `MessagePack` of a JSON value, as an engine with other fields would send it.
fn packed(value: &serde_json::Value) -> Vec<u8> {
    rmp_serde::to_vec(value).unwrap()
}

#[track_caller]
fn refuses(value: &serde_json::Value, part: &str) {
    let message = decode(&packed(value)).unwrap_err().to_string();
    assert!(message.contains(part), "`{message}` lacks `{part}`");
    assert!(message.starts_with("not a batch of KV events: "), "{message}");
}

#[test]
fn both_forms_say_the_same() {
    assert_eq!(decode(&bytes(MAPS)).unwrap(), sample(Some(0)));
    assert_eq!(decode(&bytes(ARRAYS)).unwrap(), sample(None));
}

#[test]
fn what_is_written_reads_back() {
    let mut batch = sample(Some(3));
    batch.events.push(KvEvent::Stored(Stored {
        hashes: vec![EngineHash::Bytes([0xcd; 32].into())],
        parent: Some(EngineHash::Bytes([0xab; 32].into())),
        tokens: vec![TokenId(200_000)],
        block_size: 1,
        lora: Some("sql".to_owned()),
        extra: vec![
            ExtraKeys::Salt(SaltText::new("s")),
            ExtraKeys::Nothing,
            ExtraKeys::Other([1, 2].into()),
        ],
        ..Stored::default()
    }));
    batch.rank = None;
    assert_eq!(decode(&encode(&batch)).unwrap(), batch);
    batch.events.push(KvEvent::Unknown);
    assert_eq!(decode(&encode(&batch)).unwrap().events.len(), 4);
}

#[test]
fn what_later_releases_add_is_passed_over() {
    let batch = serde_json::json!([1.0, [
        {"type": "BlockMoved", "from": {"deep": [1, {"er": null}]}, "block_hashes": "all"},
        {"locality": "remote", "block_hashes": [1], "type": "BlockRemoved", "ownership": [[1]]},
        ["BlockHeated", 1, 2, 3],
        ["BlockRemoved", [2], "CPU", "more", {"and": "more"}],
        {"type": "AllBlocksCleared", "why": "reset"},
    ], 1, "more"]);
    let batch = decode(&packed(&batch)).unwrap();
    let removed = |hash, medium: Option<&str>| {
        let medium = medium.map(str::to_owned);
        let hashes = vec![EngineHash::Number(hash)];
        KvEvent::Removed(Removed { hashes, medium, group: None })
    };
    let expected = [
        KvEvent::Unknown,
        removed(1, None),
        KvEvent::Unknown,
        removed(2, Some("CPU")),
        KvEvent::Cleared,
    ];
    assert_eq!(batch.events, expected);
    assert_eq!(batch.rank, Some(1));
}

#[test]
fn arrays_of_every_age_are_read() {
    let salted = || vec![ExtraKeys::Salt(SaltText::new("s"))];
    for (more, lora, extra) in [
        (serde_json::json!([null]), None, vec![]),
        (serde_json::json!([7]), Some("#7"), vec![]),
        (serde_json::json!([null, "GPU"]), None, vec![]),
        (serde_json::json!([7, "GPU", "sql"]), Some("sql"), vec![]),
        (serde_json::json!([null, "GPU", null, null]), None, vec![]),
        (serde_json::json!([null, "GPU", null, [null]]), None, vec![]),
        (serde_json::json!([null, "GPU", null, [["s"]]]), None, salted()),
        (serde_json::json!([7, "GPU", "sql", [["sql", "s"]]]), Some("sql"), salted()),
    ] {
        let mut event = vec![serde_json::json!("BlockStored")];
        event.extend([serde_json::json!([-1]), serde_json::json!(5), serde_json::json!([9, 9])]);
        event.push(serde_json::json!(2));
        event.extend(more.as_array().unwrap().iter().cloned());
        let batch = decode(&packed(&serde_json::json!([0.0, [event]]))).unwrap();
        let [KvEvent::Stored(stored)] = &*batch.events else { panic!("{batch:?}") };
        assert_eq!(stored.hashes, [EngineHash::Number(u64::MAX)]);
        assert_eq!(stored.parent, Some(EngineHash::Number(5)));
        assert_eq!((stored.lora.as_deref(), &stored.extra), (lora, &extra));
    }
}

#[track_caller]
fn extras(extra_keys: &serde_json::Value, lora: Option<&str>) -> Vec<ExtraKeys> {
    let event = serde_json::json!({"type": "BlockStored", "block_hashes": [1], "token_ids": [1],
        "block_size": 1, "lora_name": lora, "extra_keys": extra_keys});
    let batch = decode(&packed(&serde_json::json!([0.0, [event]]))).unwrap();
    let [KvEvent::Stored(stored)] = &*batch.events else { panic!("{batch:?}") };
    stored.extra.clone()
}

#[test]
fn a_salt_is_told_from_whatever_else_entered_a_hash() {
    let salt = || ExtraKeys::Salt(SaltText::new("s"));
    let plain = ExtraKeys::Nothing;
    for (keys, lora, expected) in [
        (serde_json::json!([["s"], null]), None, vec![salt()]),
        (serde_json::json!([[["cache_salt", "s"]]]), None, vec![salt()]),
        (serde_json::json!(["s"]), None, vec![salt()]),
        (serde_json::json!([["sql", "s"], ["sql"]]), Some("sql"), vec![salt()]),
        (
            serde_json::json!([[["lora", "sql", "/a"], ["cache_salt", "s"]]]),
            Some("sql"),
            vec![salt()],
        ),
        (serde_json::json!([[], null, ["s"]]), None, vec![plain.clone(), plain, salt()]),
    ] {
        assert_eq!(extras(&keys, lora), expected, "{keys}");
    }
}

#[test]
fn what_is_no_salt_keeps_blocks_apart() {
    let all = [
        serde_json::json!([[["mm", "image", 3]]]),
        serde_json::json!([[["mm", "image", 4]]]),
        serde_json::json!([[["mm", "image", "3"]]]),
        serde_json::json!([[["image", 3], "s"]]),
        serde_json::json!([["image", 3, "s"]]),
        serde_json::json!([[["lora", "sql", "/a"]]]),
        serde_json::json!([[{"deep": [1.5, true, null]}]]),
        serde_json::json!([[7]]),
    ]
    .map(|keys| extras(&keys, None));
    for (place, one) in all.iter().enumerate() {
        let [ExtraKeys::Other(bytes)] = &**one else { panic!("{one:?}") };
        assert!(!bytes.is_empty());
        assert!(!all[..place].contains(one), "{place} equals one before it");
    }
}

#[test]
fn a_salt_is_never_shown() {
    let shown = format!("{:?}", extras(&serde_json::json!([["hush"]]), None));
    assert!(!shown.contains("hush"), "{shown}");
}

#[test]
fn a_block_has_one_name_in_either_form() {
    let whole = EngineHash::Bytes(bytes(B1).into());
    assert_eq!(whole.name(), 8_866_452_693_264_111_234);
    assert_eq!(EngineHash::Number(7).name(), 7);
    assert_eq!(EngineHash::Bytes([1, 2].into()).name(), 258);
    assert_eq!(EngineHash::Bytes([].into()).name(), 0);
}

#[test]
fn what_is_no_batch_is_refused() {
    refuses(&serde_json::json!({"ts": 1}), "expected an array of time, events and rank");
    refuses(&serde_json::json!([]), "invalid length 0");
    refuses(&serde_json::json!([1.0]), "invalid length 1");
    refuses(&serde_json::json!([1.0, ["BlockStored"]]), "begins with its name or a map");
    refuses(&serde_json::json!([1.0, [[]]]), "missing field `type`");
    refuses(&serde_json::json!([1.0, [{"block_hashes": [1]}]]), "missing field `type`");
    refuses(&serde_json::json!([1.0, [{"type": "BlockRemoved"}]]), "missing field `block_hashes`");
    refuses(&serde_json::json!([1.0, [["BlockStored", [1], null]]]), "missing field `token_ids`");
    refuses(&serde_json::json!([1.0, [["BlockRemoved", [{}]]]]), "expected a hash");
    let mut twice = bytes(MAPS);
    twice.push(0xc0);
    assert!(matches!(decode(&twice), Err(DecodeError::Trailing { bytes: 1 })));
    let large = vec![0xc0; BATCH_BYTES_MAX + 1];
    assert!(matches!(decode(&large), Err(DecodeError::TooLarge { .. })));
    let mut long = sample(None);
    long.events = vec![KvEvent::Removed(Removed {
        hashes: vec![EngineHash::Bytes([0; HASH_BYTES_MAX + 1].into())],
        ..Removed::default()
    })];
    assert!(decode(&encode(&long)).is_err());
}

#[test]
fn no_beginning_of_a_batch_is_a_batch() {
    for hex in [MAPS, ARRAYS] {
        let whole = bytes(hex);
        // The rank at the end may be missing, in batches that say that they have two parts.
        for end in 0..whole.len() {
            assert!(decode(&whole[..end]).is_err(), "{end}");
        }
    }
}

#[test]
fn lengths_that_lie_allocate_nothing() {
    // An array of four billion events, and a map and a string of as many.
    for head in [[0xdd_u8, 0xff, 0xff, 0xff, 0xff], [0xdf; 5], [0xdb; 5]] {
        let mut lie = vec![0x93, 0xca, 0, 0, 0, 0];
        lie.extend(head);
        assert!(decode(&lie).is_err());
    }
    let mut deep = vec![0x92, 0x00, 0x91, 0x82, 0xa1, b'x'];
    deep.extend(vec![0x91; 100_000]);
    assert!(decode(&deep).is_err());
}

#[test]
fn numbers_of_batches_are_read_as_they_were_written() {
    assert_eq!(read_sequence(&write_sequence(513)), Some(513));
    assert_eq!(write_sequence(513), [0, 0, 0, 0, 0, 0, 2, 1]);
    assert_eq!(read_sequence(&[0xff; 8]), Some(REPLAY_END));
    assert_eq!(read_sequence(b"short"), None);
}

#[test]
fn sources_are_read_whatever_else_stands_there() {
    let json = br#"[{"data_parallel_rank":1,"endpoint":"tcp://*:5558","replay_endpoint":null,
        "topic":"kv","encoding":"msgpack"},{"endpoint":"tcp://10.0.0.1:1"}]"#;
    let sources = read_sources(json).unwrap();
    let first = Source {
        data_parallel_rank: 1,
        endpoint: "tcp://*:5558".to_owned(),
        replay_endpoint: None,
        topic: "kv".to_owned(),
    };
    // Without a rank, the place in the list is it.
    let second = Source {
        data_parallel_rank: 1,
        endpoint: "tcp://10.0.0.1:1".to_owned(),
        ..Source::default()
    };
    assert_eq!(sources, [first, second]);
    assert_eq!(read_sources(&write_sources(&sources)).unwrap(), sources);
    assert!(read_sources(b"[1]").unwrap_err().to_string().contains("not a list"));
    let many = vec![Source::default(); SOURCES_MAX + 1];
    assert!(matches!(read_sources(&write_sources(&many)), Err(SourcesError::TooMany { .. })));
}

#[test]
fn sources_are_read_by_rank_as_vllm_answers_them() {
    let json = br#"{"1":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:15558",
        "replay_endpoint":null,"buffer_steps":10000,"hwm":100000,"max_queue_size":100000,"topic":""},
        "0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:15557",
        "replay_endpoint":"tcp://*:15657","topic":"kv-events"},
        "2":{"enable_kv_cache_events":false,"publisher":"null"}}"#;
    let sources = read_sources(json).unwrap();
    let told = |rank, endpoint: &str, replay: Option<&str>, topic: &str| Source {
        data_parallel_rank: rank,
        endpoint: endpoint.to_owned(),
        replay_endpoint: replay.map(str::to_owned),
        topic: topic.to_owned(),
    };
    let first = told(0, "tcp://*:15557", Some("tcp://*:15657"), "kv-events");
    assert_eq!(sources, [first, told(1, "tcp://*:15558", None, "")]);
    assert_eq!(read_sources(b"{}").unwrap(), [], "a server that publishes nothing");
    let nameless = read_sources(br#"{"3":{"topic":"kv"}}"#).unwrap_err().to_string();
    assert!(nameless.contains("rank `3` has no `endpoint`"), "{nameless}");
}

#[test]
fn who_listens_everywhere_is_reached_by_the_host_we_know() {
    let at = |endpoint: &str, host: &str| {
        let source = Source {
            endpoint: endpoint.to_owned(),
            replay_endpoint: Some(endpoint.to_owned()),
            ..Source::default()
        };
        let reached = source.reached_by(host);
        assert_eq!(reached.replay_endpoint.as_deref(), Some(&*reached.endpoint));
        reached.endpoint
    };
    assert_eq!(at("tcp://*:5557", "worker-3"), "tcp://worker-3:5557");
    assert_eq!(at("tcp://0.0.0.0:5557", "10.0.0.7"), "tcp://10.0.0.7:5557");
    assert_eq!(at("tcp://[::]:5557", "fd00::7"), "tcp://[fd00::7]:5557");
    assert_eq!(at("tcp://127.0.0.1:5557", "10.0.0.7"), "tcp://127.0.0.1:5557");
}
