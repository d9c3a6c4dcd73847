//! Keys and envelopes of a model whose weights are a sentence.

use overdraft_units::{BlockSize, TokenId};

use super::*;

fn model(weights: &str, layout: &str) -> KvModel {
    KvModel::read(weights.as_bytes(), layout).unwrap()
}

fn keys(root: PrefixRoot, tokens: &[u32], size: u32) -> Vec<BlockKey> {
    let tokens: Vec<_> = tokens.iter().copied().map(TokenId).collect();
    root.keys(&tokens, BlockSize::new(size).unwrap()).collect()
}

fn some_keys() -> Vec<BlockKey> {
    keys(model("weights", "f16").root(None), &[1, 2, 3, 4, 5], 2)
}

#[test]
fn a_key_depends_on_all_that_decides_a_block() {
    let plain = some_keys();
    assert_eq!(plain.len(), 2, "the last token fills no block");
    let root = model("weights", "f16").root(None);
    let mut all = plain.clone();
    all.extend(keys(model("weight", "f16").root(None), &[1, 2, 3, 4], 2));
    all.extend(keys(model("weights", "f32").root(None), &[1, 2, 3, 4], 2));
    all.extend(keys(model("weights", "f16").root(Some("")), &[1, 2, 3, 4], 2));
    all.extend(keys(model("weights", "f16").root(Some("tenant")), &[1, 2, 3, 4], 2));
    all.extend(keys(root, &[1, 3, 3, 4], 2));
    all.extend(keys(root, &[1, 2, 3, 4], 4));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "no two are equal");
    assert_eq!(keys(root, &[1, 2, 3, 9], 2)[0], plain[0], "what follows does not count");
}

#[test]
fn hashes_are_read_as_they_are_written_and_a_root_is_not_logged() {
    let model = model("weights", "f16");
    assert_eq!(KvModel::parse(&model.to_string()), Some(model));
    let root = model.root(Some("tenant"));
    assert_eq!(PrefixRoot::parse(&root.to_string()), Some(root));
    assert_eq!(KvModel::parse(&model.to_string()[1..]), None);
    assert_eq!(KvModel::parse(&model.to_string().to_uppercase()), None);
    assert!(!format!("{root:?}").contains(&root.to_string()[..8]));
}

#[test]
fn an_ask_comes_back_and_one_that_asks_too_much_is_refused() {
    let model = model("weights", "f16");
    let tokens = [1, 2, 3, 4].map(TokenId).to_vec();
    let ask = BlocksAsk { model, root: model.root(None), tokens, blocks: 1..2 };
    assert_eq!(BlocksAsk::parse(&ask.to_json()).unwrap(), ask);
    let refused = |change: (&str, &str)| {
        let text = String::from_utf8(ask.to_json()).unwrap().replace(change.0, change.1);
        BlocksAsk::parse(text.as_bytes()).unwrap_err().to_string()
    };
    assert!(refused(("\"format\":1", "\"format\":7")).contains("`7` is not a format"));
    assert!(refused(("\"count\":1", "\"count\":4097")).contains("`4097` blocks are too many"));
    assert!(refused(("\"root\":\"", "\"root\":\"x")).contains("`root` is not a hash"));
    assert!(refused(("\"first\"", "\"last\"")).contains("missing field `first`"));
}

/// Two blocks, handed over in pieces of so many bytes, after `change`.
fn read(piece: usize, change: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<Vec<u8>>, EnvelopeError> {
    let keys = some_keys();
    let mut bytes = Vec::new();
    for (key, payload) in keys.iter().zip([b"first", b"other"]) {
        write_envelope(*key, payload, &mut bytes);
    }
    change(&mut bytes);
    let mut reader = EnvelopeReader::new(5);
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for piece in bytes.chunks(piece) {
        reader.push(piece);
        while let Some(key) = keys.get(blocks.len()) {
            let Some(block) = reader.next_block(*key)? else { break };
            blocks.push(block.payload.to_vec());
        }
    }
    Ok(blocks)
}

#[test]
fn blocks_come_back_however_they_are_cut() {
    for piece in [1, 7, 81, 82, 1_000] {
        assert_eq!(read(piece, |_| {}).unwrap(), [b"first", b"other"]);
    }
    assert_eq!(read(9, |bytes| bytes.truncate(160)).unwrap(), [b"first"]);
}

/// Flips a bit of every byte of the first envelope in turn: none is read, each is named.
#[test]
fn no_byte_can_change_unseen() {
    let head = ENVELOPE_HEAD_BYTES;
    for at in (0..head + 5).filter(|at| !(6..8).contains(at)) {
        let error = read(50, |bytes| bytes[at] ^= 1).unwrap_err();
        let expected = match at {
            0..4 => "magic",
            4..6 => "format",
            8..12 => "length",
            12..44 => "key",
            _ => "checksum",
        };
        assert_eq!(error.reason(), expected, "byte {at}");
    }
}

#[test]
fn a_long_claim_is_refused_before_it_is_kept() {
    let mut reader = EnvelopeReader::new(5);
    let mut bytes = Vec::new();
    write_envelope(some_keys()[0], &[0; 500], &mut bytes);
    reader.push(&bytes[..ENVELOPE_HEAD_BYTES]);
    let error = reader.next_block(some_keys()[0]).unwrap_err();
    assert_eq!(error, EnvelopeError::Length { found: 500, expected: 5 });
}
