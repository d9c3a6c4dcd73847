//! Vocabularies of both kinds, trained on the test data by Hugging Face's library, as `tokenizer.json`.

use std::sync::{Arc, LazyLock};

use overdraft_tokenizer::{PieceCache, Prompter, SourceError};
use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::{AddedToken, PreTokenizerWrapper, Tokenizer};

const CORPUS: [&str; 4] = [
    include_str!("../data/conversations.json"),
    include_str!("../data/words.json"),
    include_str!("../data/record.py"),
    include_str!("../../src/pieces.rs"),
];
pub(crate) const CHATML: &str = include_str!("../data/templates/qwen25.jinja");
pub(crate) const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Texts that tokenizers trip over.
pub(crate) const TEXTS: &[&str] = &[
    "",
    " ",
    "Hello world",
    " leading and  double   spaces \n\n and\r\n\ttabs  ",
    "it's WE'LL don'T 12345 3.14 ½ snake_case camelCase HTTPServer",
    "def f(x):\n    return x+1\n\nfn main() { println!(\"{}\", 1); }",
    "你好，世界。こんにちは 안녕하세요 ΑΒΓ Привет größe ÜBER",
    "😀👍🏽 e\u{301} \u{1e69} \u{a0}nbsp\u{3000}wide \u{0} ▁x ▁",
    "<|im_start|>user\nhi<|im_end|>\n<tool>x</tool> <|im_start",
];

/// Words of bytes.
pub(crate) fn pairs() -> Value {
    static TRAINED: LazyLock<Value> = LazyLock::new(|| {
        let split = json!({
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split", "pattern": { "Regex": LLAMA3 }, "behavior": "Isolated",
                    "invert": false,
                },
                byte_level(false),
            ],
        });
        let mut file = trained(&split, &[]);
        let count = file["model"]["vocab"].as_object().unwrap().len();
        let names = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool>"];
        file["added_tokens"] = names
            .iter()
            .enumerate()
            .map(|(place, name)| added(count + place, name, *name != "<tool>"))
            .collect();
        file
    });
    TRAINED.clone()
}

/// Pieces, spaces spelled as `▁`, bytes for what they cannot spell.
pub(crate) fn pieces() -> Value {
    static TRAINED: LazyLock<Value> = LazyLock::new(|| {
        let spaces = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true });
        let mut file = trained(&spaces, &["<unk>", "<s>", "</s>"]);
        let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
        for byte in 0..=u8::MAX {
            vocabulary.insert(format!("<0x{byte:02X}>"), json!(vocabulary.len()));
        }
        for (key, value) in [
            ("unk_token", json!("<unk>")),
            ("fuse_unk", json!(true)),
            ("byte_fallback", json!(true)),
        ] {
            file["model"][key] = value;
        }
        file["pre_tokenizer"] = Value::Null;
        file["normalizer"] = json!({
            "type": "Sequence",
            "normalizers": [
                { "type": "Prepend", "prepend": "▁" },
                { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
            ],
        });
        file
    });
    TRAINED.clone()
}

pub(crate) fn byte_level(use_regex: bool) -> Value {
    json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": use_regex,
    })
}

pub(crate) fn added(id: usize, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "special": special, "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false,
    })
}

/// What a library's post-processor does that puts a token before every prompt.
pub(crate) fn beginning(token: &str, id: u64) -> Value {
    let text = |name: &str| json!({ "Sequence": { "id": name, "type_id": 0 } });
    let first = json!({ "SpecialToken": { "id": token, "type_id": 0 } });
    json!({
        "type": "TemplateProcessing",
        "single": [first, text("A")],
        "pair": [first, text("A"), text("B")],
        "special_tokens": { token: { "id": token, "ids": [id], "tokens": [token] } },
    })
}

/// A prompter from a folder with these files; absent configurations are `null`.
pub(crate) fn prompter(file: &Value, config: &Value) -> Result<Prompter, SourceError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), file.to_string()).unwrap();
    if !config.is_null() {
        std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    }
    Prompter::from_folder(folder.path(), Arc::default())
}

/// The chat model of most tests.
pub(crate) fn chatting(pieces: Arc<PieceCache>) -> Prompter {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), pairs().to_string()).unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), CHATML).unwrap();
    Prompter::from_folder(folder.path(), pieces).unwrap()
}

fn trained(pre_tokenizer: &Value, special: &[&str]) -> Value {
    let words: PreTokenizerWrapper = serde_json::from_value(pre_tokenizer.clone()).unwrap();
    let mut tokenizer = Tokenizer::new(ModelWrapper::from(BPE::default()));
    tokenizer.with_pre_tokenizer(Some(words));
    let special = special.iter().map(|&text| AddedToken::from(text.to_owned(), true));
    let bytes = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(2_500)
        .special_tokens(special.map(|token| token.normalized(false)).collect())
        .initial_alphabet(bytes.into_iter().collect());
    let mut trainer = TrainerWrapper::from(trainer.build());
    tokenizer.train(&mut trainer, CORPUS.iter()).unwrap();
    serde_json::from_str(&tokenizer.to_string(false).unwrap()).unwrap()
}
