//! Scores as servers tell them, and rubbish in their place.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use overdraft_units::Tokens;

use super::*;

/// What `numpy.save` writes: the dictionary filled up with spaces to a multiple of 64 bytes.
fn npy(dict: &str, numbers: &[f32]) -> Vec<u8> {
    let mut header = dict.to_owned();
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap();
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

fn dict(kind: &str, order: &str, shape: &str) -> String {
    format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}")
}

fn two_by_three() -> Vec<u8> {
    npy(&dict("<f4", "False", "(2, 3)"), &[-0.5, -1.0, f32::NEG_INFINITY, -0.25, -2.0, 0.0])
}

fn answer(array: &[u8]) -> String {
    json!({"request_id": "r", "choices": [{"index": 0, "token_ids": [5], "finish_reason": "length"}],
        "prompt_token_id_logprobs": STANDARD.encode(array), "prompt_logprobs": null})
    .to_string()
}

fn read(array: &[u8]) -> Result<Generated, ScoringError> {
    read_generate(answer(array).as_bytes(), 2, 3)
}

#[test]
fn vllm_is_asked_about_the_last_tokens_with_lists_of_one_length() {
    let rows = [vec![11, 7], vec![12]];
    let ask = GenerateAsk { model: "big", tokens: &[1, 2, 11, 12], rows: &rows, salt: Some("s") };
    let body: Value = serde_json::from_slice(&ask.to_json()).unwrap();
    let expected = json!({"model": "big", "token_ids": [1, 2, 11, 12], "stream": false, "cache_salt": "s",
        "sampling_params": {"max_tokens": 1, "temperature": 0.0, "skip_reading_prefix_cache": false,
            "prompt_logprob_start": 1, "prompt_logprob_token_ids": [[11, 7], [12, -1]]}});
    assert_eq!(body, expected);
    assert_eq!(ask.columns(), 2);
    let without = GenerateAsk { salt: None, ..ask }.to_json();
    assert_eq!(serde_json::from_slice::<Value>(&without).unwrap().get("cache_salt"), None);
}

#[test]
fn a_matrix_is_read_row_by_row() {
    let found = read(&two_by_three()).unwrap();
    let matrix = found.matrix.unwrap();
    let rows: Vec<&[f32]> = matrix.rows().collect();
    assert_eq!(rows, [&[-0.5, -1.0, f32::NEG_INFINITY][..], &[-0.25, -2.0, 0.0]]);
    assert!(!found.ends);
    // As another writer has it: version 2, other quotes and order, no spaces.
    let header = r#"{"shape":(2,3),"fortran_order":False,"descr":"<f4"}"#;
    let mut other = b"\x93NUMPY\x02\x00".to_vec();
    other.extend_from_slice(&u32::try_from(header.len()).unwrap().to_le_bytes());
    other.extend_from_slice(header.as_bytes());
    other.extend_from_slice(&two_by_three()[128..]);
    assert_eq!(read(&other).unwrap().matrix, Some(matrix));
}

#[test]
fn vllm_may_tell_no_matrix_and_whether_it_would_end() {
    for none in [
        json!({"choices": [{"index": 0, "finish_reason": "stop"}], "prompt_token_id_logprobs": null}),
        json!({"choices": [{"index": 0, "finish_reason": "stop"}]}),
    ] {
        let found = read_generate(none.to_string().as_bytes(), 2, 3).unwrap();
        assert_eq!(found, Generated { matrix: None, ends: true });
    }
    let two = json!({"choices": [{}, {}]}).to_string();
    assert_eq!(read_generate(two.as_bytes(), 2, 3), Err(ScoringError::Choices(2)));
}

#[test]
fn arrays_of_another_kind_or_shape_are_named() {
    let numbers = [-1.0; 6];
    let says = |array: &[u8], words: &str| {
        let told = read(array).unwrap_err().to_string();
        assert!(told.contains(words), "{told}, expected {words}");
    };
    let of = |kind, order, shape| npy(&dict(kind, order, shape), &numbers);
    says(&of("<f8", "False", "(2, 3)"), "numbers are `<f8`; expected `<f4`");
    says(&of(">f4", "False", "(2, 3)"), "numbers are `>f4`");
    says(&of("|O", "False", "(2, 3)"), "numbers are `|O`");
    says(&of("<f4", "True", "(2, 3)"), "column by column");
    says(&of("<f4", "False", "(3, 2)"), "the array is `(3,2)`; expected `(2,3)`");
    says(&of("<f4", "False", "(6,)"), "the array is `(6,)`");
    says(&of("<f4", "False", "(2, 3, 1)"), "the array is `(2,3,1)`");
    says(&of("<f4", "False", "(99999999999999999999, 3)"), "expected `(2,3)`");
    says(
        &npy(&dict("<f4", "False", "(2, 3)"), &numbers[1..]),
        "`20` bytes of numbers; expected 24",
    );
    says(&npy("{'descr': '<f4'}", &numbers), "it names no `fortran_order`");
    says(&npy("[1]", &numbers), "it is no dictionary");
    let mut version = two_by_three();
    version[6] = 9;
    says(&version, "its version is not 1.0, 2.0 or 3.0");
    let mut long = two_by_three();
    (long[8], long[9]) = (0xff, 0xff);
    says(&long, "longer than 1,024 bytes");
    says(b"", "it begins otherwise");
    for cut in 0..two_by_three().len() {
        read(&two_by_three()[..cut]).unwrap_err();
    }
}

#[test]
fn what_is_no_log_probability_is_no_score() {
    for (number, bad) in
        [(f32::NAN, true), (f32::INFINITY, true), (12.5, true), (0.002, true), (1e-6, false)]
    {
        let array = npy(&dict("<f4", "False", "(2, 3)"), &[-1.0, -1.0, -1.0, -1.0, number, -1.0]);
        assert_eq!(read(&array).is_err(), bad, "{number}");
    }
    let rounded = npy(&dict("<f4", "False", "(2, 3)"), &[1e-6; 6]);
    let matrix = read(&rounded).unwrap().matrix.unwrap();
    assert!(matrix.rows().flatten().all(|&number| number <= 0.0));
}

#[test]
fn text_that_is_no_base64_or_too_much_of_it_is_refused() {
    let of = |text: &str| {
        let told = json!({"choices": [{}], "prompt_token_id_logprobs": text}).to_string();
        read_generate(told.as_bytes(), 2, 3).unwrap_err()
    };
    let whole = STANDARD.encode(two_by_three());
    assert!(matches!(of(&whole[..whole.len() - 1]), ScoringError::Base64(_)));
    assert!(matches!(of("not base64!"), ScoringError::Base64(_)));
    assert!(matches!(of(&"A".repeat(4_000)), ScoringError::TooLong { found: 4_000, .. }));
}

#[test]
fn a_version_is_its_first_two_numbers() {
    let of = |version: &str| read_version(json!({"version": version}).to_string().as_bytes());
    assert_eq!(of("0.31.0"), Some((0, 31)));
    assert_eq!(of("0.33.1rc2.dev7+g0a1b2c3"), Some((0, 33)));
    assert_eq!(of("0.31rc1"), Some((0, 31)));
    assert_eq!(of("v1.0"), Some((1, 0)));
    assert_eq!(of("dev"), None);
    assert_eq!(of("1"), None);
    assert_eq!(of("0.99999999999999"), None);
    assert_eq!(read_version(b"{}"), None);
}

/// What `SGLang` answers about tokens 11 and 12 behind two others: a row for the last of the prompt comes before.
fn sglang() -> Value {
    json!({"text": "x", "output_ids": [5], "meta_info": {"id": "s", "finish_reason": {"type": "length", "length": 1},
        "prompt_tokens": 4, "cached_tokens": 2, "completion_tokens": 1,
        "input_token_logprobs": [[null, 2, null], [-0.5, 11, null], [null, 12, null]],
        "input_top_logprobs": [null, [[-0.5, 11, null]], [[-0.25, 7, "x"]]]}})
}

fn read_rows(answer: &Value) -> Result<SglangScore, ScoringError> {
    read_sglang(answer.to_string().as_bytes(), &[11, 12])
}

#[test]
fn sglang_is_asked_from_the_token_before_the_draft_on() {
    let ask = SglangAsk { tokens: &[1, 2, 11, 12], last: 2, salt: None };
    let body: Value = serde_json::from_slice(&ask.to_json()).unwrap();
    let expected = json!({"input_ids": [1, 2, 11, 12], "return_logprob": true, "logprob_start_len": 1,
        "top_logprobs_num": 1, "stream": false, "sampling_params": {"max_new_tokens": 1, "temperature": 0.0}});
    assert_eq!(body, expected);
    let salted: Value =
        serde_json::from_slice(&SglangAsk { salt: Some("s"), ..ask }.to_json()).unwrap();
    assert_eq!((&salted["cache_salt"], &salted["extra_key"]), (&json!("s"), &json!("s")));
}

#[test]
fn sglang_tells_each_token_and_the_likeliest() {
    let found = read_rows(&sglang()).unwrap();
    let row = |logprob, best, best_logprob| SglangRow { logprob, best, best_logprob };
    assert_eq!(found.rows, [row(-0.5, 11, -0.5), row(f32::NEG_INFINITY, 7, -0.25)]);
    assert_eq!(found.used.map(|used| used.map(Tokens::get)), Some([4, 2, 1]));
    assert!(!found.ends);
    let mut ended = sglang();
    ended["meta_info"]["finish_reason"] = json!({"type": "stop", "matched": 2});
    assert!(read_rows(&ended).unwrap().ends);
}

#[test]
fn what_sglang_tells_amiss_is_named() {
    let with = |name: &str, value: Value| {
        let mut answer = sglang();
        answer["meta_info"][name] = value;
        read_rows(&answer).unwrap_err()
    };
    assert_eq!(
        with("finish_reason", json!({"type": "abort", "message": "m"})),
        ScoringError::Aborted
    );
    let other = json!([[-0.5, 11, null], [-0.5, 13, null]]);
    assert_eq!(
        with("input_token_logprobs", other),
        ScoringError::Token { found: 13, expected: 12 }
    );
    let short = json!([[-0.5, 12, null]]);
    assert_eq!(with("input_token_logprobs", short), ScoringError::Rows { found: 1, expected: 2 });
    let none = ScoringError::Rows { found: 0, expected: 1 };
    assert_eq!(with("input_top_logprobs", json!([null, null])), none);
    assert_eq!(with("input_top_logprobs", json!([[], []])), none);
    assert_eq!(with("input_top_logprobs", json!([[[null, 1, null]], []])), none);
    let logit = json!([[-0.5, 11, null], [9.5, 12, null]]);
    assert_eq!(with("input_token_logprobs", logit), ScoringError::Number(9.5));
    assert!(matches!(with("input_top_logprobs", json!(7)), ScoringError::Json(_)));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read_generate(&bytes, 2, 3).is_err());
        prop_assert!(read_sglang(&bytes, &[1]).is_err());
        let _any = (read(&bytes), read_version(&bytes));
    }

    #[test]
    fn a_spoilt_array_is_an_error_or_another_matrix(at in 0_usize..152, byte in any::<u8>()) {
        let mut array = two_by_three();
        array[at] = byte;
        if let Ok(Generated { matrix: Some(matrix), .. }) = read(&array) {
            prop_assert_eq!(matrix.rows().count(), 2);
            prop_assert!(matrix.rows().flatten().all(|number| *number <= 0.0));
        }
    }

    #[test]
    fn what_is_written_is_read(numbers in prop::collection::vec(-60.0_f32..=0.0, 6)) {
        let array = npy(&dict("<f4", "False", "(2, 3)"), &numbers);
        let matrix = read(&array).unwrap().matrix.unwrap();
        prop_assert!(matrix.rows().flatten().eq(&numbers));
    }
}
