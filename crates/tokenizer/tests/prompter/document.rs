//! A document makes the prompter that it was written of; anything else is an error.

use std::sync::Arc;

use overdraft_tokenizer::tokenizer::Tokenizer;
use overdraft_tokenizer::{
    Framing, Prompter, SourceError, SpecialTokens, TOKENIZER_DOCUMENT_BYTES_MAX, TokenizerDocument,
    TokenizerSource,
};
use overdraft_units::CacheSalt;
use overdraft_wire::Generation;
use serde_json::{Value, json};

fn source() -> TokenizerSource {
    TokenizerSource { eos: Some(257), ..TokenizerSource::bytes(&["<|im_start|>", "<|im_end|>"]) }
}

fn read(document: &[u8]) -> Result<Prompter, SourceError> {
    Prompter::from_document(document, Arc::default())
}

#[test]
fn what_is_written_is_read() {
    let scored = TokenizerSource {
        model: "llama".to_owned(),
        tokens: ["<unk>", "▁", "a", "▁a"].map(str::to_owned).to_vec(),
        scores: Some(vec![0.0, -1.25, -3.402_823_5e38, 0.1]),
        unk: Some(0),
        ..TokenizerSource::default()
    };
    for (source, template) in [(source(), Some("{{ messages }}")), (source(), None), (scored, None)]
    {
        let document = TokenizerDocument::new(&source, template);
        let prompter = read(document.json()).unwrap();
        let twin = Tokenizer::new(source.clone()).unwrap();
        assert_eq!(prompter.tokenizer().digest(), twin.digest());
        let tokens = prompter.text("a a<|im_end|>", Framing::Added, CacheSalt(0));
        assert_eq!(tokens, twin.encode_prompt("a a<|im_end|>"));
        let json: Value = serde_json::from_slice(document.json()).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(json["chat_template"].as_str(), template);
        assert_eq!(json["digest"].as_str(), Some(document.digest()));
    }
}

#[test]
fn a_template_for_tools_goes_along_and_has_a_version_of_its_own() {
    let document = TokenizerDocument::with_tools(&source(), Some("plain"), Some("tools"));
    let json: Value = serde_json::from_slice(document.json()).unwrap();
    assert_eq!((&json["version"], &json["tool_template"]), (&json!(2), &json!("tools")));
    let prompter = read(document.json()).unwrap();
    let prompt = |tools: Value| {
        let body = json!({ "messages": [{ "role": "user", "content": "x" }], "tools": tools });
        let tokens = prompter.prompt_of(body.to_string().as_bytes(), Generation::Chat, 0).unwrap();
        prompter.tokenizer().decode(&tokens, SpecialTokens::Keep)
    };
    assert_eq!(prompt(Value::Null), "plain");
    assert_eq!(prompt(json!([{ "type": "function" }])), "tools");
    // Neither a text of both, nor none of either.
    let digest = |usual, of_tools| {
        TokenizerDocument::with_tools(&source(), usual, of_tools).digest().to_owned()
    };
    let both = digest(Some("plain"), Some("tools"));
    for other in [
        digest(Some("plaintools"), None),
        digest(Some("plain"), Some("")),
        digest(None, Some("tools")),
        digest(Some("tools"), Some("plain")),
    ] {
        assert_ne!(both, other);
    }
    let usual = TokenizerDocument::new(&source(), Some("plain"));
    assert_eq!(usual.digest(), digest(Some("plain"), None), "one that has none is as before");
}

#[test]
fn a_digest_is_the_contents() {
    let digest = |source: &TokenizerSource, template| {
        TokenizerDocument::new(source, template).digest().to_owned()
    };
    let plain = digest(&source(), None);
    assert_eq!(plain, digest(&source(), None));
    assert_eq!(plain.len(), 32);
    let other = TokenizerSource { eos: None, ..source() };
    for changed in [digest(&source(), Some("")), digest(&source(), Some("x")), digest(&other, None)]
    {
        assert_ne!(plain, changed);
    }
}

#[track_caller]
fn refused(change: impl Fn(&mut Value), expected: &str) {
    let document = TokenizerDocument::new(&source(), None);
    let mut json: Value = serde_json::from_slice(document.json()).unwrap();
    change(&mut json);
    let error = read(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn what_is_no_document_is_refused() {
    refused(
        |json| json["version"] = json!(3),
        "the tokenizer document has version `3`; expected 1 or 2",
    );
    refused(|json| json["tool_template"] = json!("x"), "the tokenizer document has digest `");
    refused(|json| *json = json!({}), "the tokenizer document cannot be understood: missing field");
    refused(|json| json["source"]["tokens"][3] = json!("x"), "the tokenizer document has digest `");
    refused(|json| json["chat_template"] = json!("x"), "the tokenizer document has digest `");
    refused(
        |json| json["source"]["bos"] = json!("x"),
        "the tokenizer document cannot be understood: invalid type",
    );
    let document = TokenizerDocument::new(&source(), None);
    let half = &document.json()[..document.json().len() / 2];
    assert!(matches!(read(half), Err(SourceError::Malformed { .. })));
    let large = vec![b' '; TOKENIZER_DOCUMENT_BYTES_MAX + 1];
    assert!(matches!(read(&large), Err(SourceError::TooLarge { .. })));
}

#[test]
fn a_document_of_something_useless_is_refused() {
    let refused = |source: &TokenizerSource, template: Option<&str>| {
        read(TokenizerDocument::new(source, template).json()).unwrap_err()
    };
    let unknown = TokenizerSource { model: "bert".to_owned(), ..source() };
    assert!(matches!(refused(&unknown, None), SourceError::Tokenizer(_)));
    assert!(matches!(refused(&source(), Some("{% if %}")), SourceError::Template(_)));
    let mut long = source();
    long.tokens[0] = "x".repeat(5_000);
    assert!(matches!(refused(&long, None), SourceError::Tokenizer(_)));
    let template = "x".repeat(2_000_000);
    assert!(matches!(refused(&source(), Some(&template)), SourceError::TooLarge { .. }));
}
