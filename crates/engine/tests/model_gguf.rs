//! Reading GGUF files: what candle writes is read back, and no bytes make the reader panic.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod model_support;

use std::io::Cursor;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use overdraft_engine::gguf::{Gguf, OpenError};
use overdraft_engine::tokenizer;
use proptest::prelude::*;

fn tensor(rows: usize, columns: usize, kind: GgmlDType) -> QTensor {
    let count = u16::try_from(rows * columns).unwrap();
    let values: Vec<f32> = (0..count).map(|index| f32::from(index % 97) - 48.0).collect();
    let tensor = Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap();
    QTensor::quantize(&tensor, kind).unwrap()
}

fn sample() -> Vec<u8> {
    let metadata = [
        ("general.architecture", Value::String("llama".to_owned())),
        ("llama.block_count", Value::U32(2)),
        ("a.float", Value::F64(0.5)),
        ("a.flag", Value::Bool(true)),
        ("a.list", Value::Array(vec![Value::I32(-3), Value::I32(4)])),
        ("a.texts", Value::Array(vec![Value::String("é".to_owned())])),
    ];
    let metadata: Vec<_> =
        metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let tensors = [
        ("one".to_owned(), tensor(3, 256, GgmlDType::Q4K)),
        ("two".to_owned(), tensor(5, 7, GgmlDType::F32)),
    ];
    model_support::write(&metadata, &tensors)
}

#[test]
fn reads_what_candle_writes() {
    let bytes = sample();
    let gguf = Gguf::open(bytes.clone()).unwrap();
    let metadata = gguf.metadata();
    assert_eq!(metadata.text("general.architecture").unwrap(), Some("llama"));
    assert_eq!(metadata.unsigned("llama.block_count").unwrap(), Some(2));
    assert_eq!(metadata.float("a.float").unwrap(), Some(0.5));
    assert_eq!(metadata.flag("a.flag").unwrap(), Some(true));
    assert_eq!(metadata.integers("a.list").unwrap(), Some(vec![-3, 4]));
    assert_eq!(metadata.texts("a.texts").unwrap(), Some(vec!["é"]));
    assert_eq!(metadata.text("absent").unwrap(), None);
    assert_eq!(gguf.parameters(), 3 * 256 + 5 * 7);

    let content = Content::read(&mut Cursor::new(&bytes)).unwrap();
    for (name, info) in gguf.tensors() {
        let theirs = content.tensor(&mut Cursor::new(&bytes), name, &Device::Cpu).unwrap();
        assert_eq!(theirs.shape().dims(), info.shape);
        let ours = gguf.tensor(name, &info.shape).unwrap();
        assert_eq!(ours.bytes, theirs.data().unwrap(), "{name}");
    }
}

#[test]
fn a_template_for_requests_with_tools_is_read_beside_the_usual_one() {
    let entry = |key: &str, text: &str| (key.to_owned(), Value::String(text.to_owned()));
    let metadata = [
        entry("general.architecture", "llama"),
        entry("tokenizer.chat_template", "usual"),
        entry("tokenizer.chat_template.tool_use", "tools"),
    ];
    let tensors = [("one".to_owned(), tensor(3, 256, GgmlDType::Q4K))];
    let gguf = Gguf::open(model_support::write(&metadata, &tensors)).unwrap();
    assert_eq!(tokenizer::template_text(gguf.metadata()), Some("usual"));
    assert_eq!(tokenizer::tool_template_text(gguf.metadata()), Some("tools"));
}

#[test]
fn a_file_and_its_bytes_in_memory_read_alike() {
    let bytes = sample();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, &bytes).unwrap();
    let (file, memory) = (Gguf::open(path).unwrap(), Gguf::open(bytes).unwrap());
    assert_eq!(file.tensors(), memory.tensors());
    let (left, right) = (file.tensor("two", &[5, 7]).unwrap(), memory.tensor("two", &[5, 7]));
    assert_eq!(left.bytes, right.unwrap().bytes);
}

/// A header written by hand: version, counts, then whatever follows.
fn header(version: u32, tensors: u64, entries: u64, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(entries.to_le_bytes());
    bytes.extend(rest);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// One metadata entry: key, type of value, value.
fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [text(key), kind.to_le_bytes().to_vec(), value.to_vec()].concat()
}

/// One tensor entry: name, dimensions, type, offset.
fn tensor_entry(name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = text(name);
    bytes.extend(u32::try_from(dimensions.len()).unwrap().to_le_bytes());
    for dimension in dimensions {
        bytes.extend(dimension.to_le_bytes());
    }
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

#[track_caller]
fn check(bytes: Vec<u8>, message: &str) {
    let error = Gguf::open(bytes).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert!(!error.hint().is_empty());
}

#[test]
fn says_in_one_sentence_what_is_wrong_with_a_file() {
    check(
        b"PK\x03\x04 is a zip".to_vec(),
        "the model file starts with the bytes `PK\\x03\\x04`; expected `GGUF`",
    );
    check(header(7, 0, 0, &[]), "the model file has GGUF version `7`; expected 2 or 3");
    check(
        b"GGUF\x03".to_vec(),
        "the model file is truncated: `the version` needs 4 bytes from byte 4 on, but the file \
         ends at byte 5",
    );
    check(
        header(3, 1 << 40, 0, &[]),
        "the model file declares `1099511627776` tensors; expected at most 65536",
    );
    check(
        header(3, 0, 1, &entry("a", 77, &[])),
        "the model file is corrupt: the metadata entry `a` has the value type `77`; expected 0 to \
         12",
    );
    let long = [4_u32.to_le_bytes().as_slice(), &u64::MAX.to_le_bytes()].concat();
    check(
        header(3, 0, 1, &entry("a", 9, &long)),
        "the model file declares `18446744073709551615` array elements in its metadata; expected \
         at most 16777216",
    );
    check(
        header(3, 0, 1, &entry("general.alignment", 4, &[0; 4])),
        "the metadata entry `general.alignment` is `0`; expected a power of two",
    );
    let twice = [entry("a", 7, &[1]), entry("a", 7, &[1])].concat();
    check(
        header(3, 0, 2, &twice),
        "the model file is corrupt: the metadata entry `a` occurs twice",
    );
}

#[test]
fn checks_tensors_against_the_length_of_the_file() {
    check(
        header(3, 1, 0, &tensor_entry("w", &[1 << 20, 1 << 20], 0, 0)),
        "the model file is truncated: the tensor `w` needs 4398046511104 bytes from byte 96 on, \
         but the file ends at byte 65",
    );
    check(
        header(3, 1, 0, &tensor_entry("w", &[u64::MAX, u64::MAX], 0, 0)),
        "the model file is corrupt: the tensor `w` cannot hold `[18446744073709551615, \
         18446744073709551615]` numbers as `F32`",
    );
    check(
        header(3, 1, 0, &tensor_entry("w", &[100], 12, 0)),
        "the model file is corrupt: the tensor `w` cannot hold `[100]` numbers as `Q4_K`",
    );
    check(
        header(3, 1, 0, &tensor_entry("w", &[1; 9], 0, 0)),
        "the model file is corrupt: the tensor `w` has `9` dimensions; expected 1 to 4",
    );
}

#[test]
fn names_the_encoding_that_it_cannot_read() {
    let bytes = header(3, 1, 0, &tensor_entry("w", &[256], 21, 0));
    let mut padded = bytes;
    padded.resize(1024, 0);
    let gguf = Gguf::open(padded).unwrap();
    let error = gguf.tensor("w", &[256]).unwrap_err();
    assert!(error.to_string().starts_with("the tensor `w` is encoded as `IQ3_S`"), "{error}");
    let error = gguf.tensor("v", &[256]).unwrap_err();
    assert_eq!(error.to_string(), "the tensor `v` is missing from the model file");
    let error = gguf.tensor("w", &[2, 128]).unwrap_err();
    assert_eq!(error.to_string(), "the tensor `w` has shape `[256]`; expected [2, 128]");
}

#[test]
fn counts_the_numbers_of_a_tensor_whatever_its_shape_claims() {
    let mut bytes = header(3, 1, 0, &tensor_entry("w", &[u64::MAX, u64::MAX], 21, 0));
    bytes.resize(1024, 0);
    let gguf = Gguf::open(bytes).unwrap();
    assert_eq!(gguf.info("w").unwrap().elements(), u64::MAX);
    assert_eq!(gguf.parameters(), u64::MAX);
}

#[test]
fn names_key_and_type_of_a_wrong_entry() {
    let gguf = Gguf::open(sample()).unwrap();
    let metadata = gguf.metadata();
    let error = metadata.unsigned("general.architecture").unwrap_err();
    let message = "the metadata entry `general.architecture` is `llama`; expected an integer that \
                   is not negative";
    assert_eq!(error.to_string(), message);
    let error = metadata.texts("a.list").unwrap_err();
    let message = "the metadata entry `a.list` is `a list of 2 elements`; expected a list of \
                   strings";
    assert_eq!(error.to_string(), message);
    let error = metadata.require_tokenizer().unwrap_err();
    assert!(matches!(error, OpenError::MissingTokenizer { .. }), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = Gguf::open(std::path::Path::new("/nonexistent/model.gguf")).unwrap_err();
    assert!(error.to_string().contains("`/nonexistent/model.gguf`"), "{error}");
    let error = Gguf::open(std::path::Path::new("/")).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

/// Opens bytes and reads every tensor they claim to have: anything but a panic will do.
fn exercise(bytes: Vec<u8>) {
    let Ok(gguf) = Gguf::open(bytes) else { return };
    for (name, info) in gguf.tensors() {
        let _ = gguf.tensor(name, &info.shape);
    }
}

proptest! {
    #[test]
    fn no_truncation_panics(length in 0_usize..4096) {
        let mut bytes = sample();
        bytes.truncate(length);
        exercise(bytes);
    }

    #[test]
    fn no_flipped_bytes_panic(flips in prop::collection::vec((0_usize..600, any::<u8>()), 1..8)) {
        let mut bytes = sample();
        for (at, value) in flips {
            bytes[at] = value;
        }
        exercise(bytes);
    }

    #[test]
    fn no_rubbish_panics(rest in prop::collection::vec(any::<u8>(), 0..200), tensors in 0_u64..4) {
        exercise(header(3, tensors, 2, &rest));
    }
}
