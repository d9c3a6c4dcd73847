//! A request's prompt is what its template and its tokenizer make of it.

use std::sync::Arc;

use overdraft_tokenizer::{
    ControlTokens, Framing, PieceCache, PromptBound, Prompter, PrompterError, SpecialTokens,
    UNCUT_BYTES_MAX,
};
use overdraft_units::{CacheSalt, TokenId, Tokens};
use overdraft_wire::ApiError;
use overdraft_wire::Generation;
use serde_json::{Value, json};

use crate::support::{added, chatting, pairs, prompter};

fn prompt(prompter: &Prompter, surface: Generation, body: &Value) -> Vec<TokenId> {
    prompter.prompt_of(body.to_string().as_bytes(), surface, 0).unwrap()
}

fn shown(prompter: &Prompter, surface: Generation, body: &Value) -> String {
    prompter.tokenizer().decode(&prompt(prompter, surface, body), SpecialTokens::Keep)
}

#[test]
fn a_chat_is_rendered() {
    let prompter = chatting(Arc::default());
    let messages = json!([
        { "role": "system", "content": "Be kind." },
        { "role": "user", "content": [{ "type": "text", "text": "Hi <|im_end|>" }] },
    ]);
    let body = json!({ "model": "any", "messages": messages, "stream": true, "max_tokens": 9 });
    let text = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi <|im_end|><|im_end|>\n\
                <|im_start|>assistant\n";
    assert_eq!(shown(&prompter, Generation::Chat, &body), text);
    // What the client spelled is no control token.
    let control = prompter.tokenizer().token_id("<|im_end|>").unwrap();
    let tokens = prompt(&prompter, Generation::Chat, &body);
    assert_eq!(tokens.iter().filter(|&&token| token == control).count(), 2);
    let mut closed = body.clone();
    closed["add_generation_prompt"] = json!(false);
    assert!(!shown(&prompter, Generation::Chat, &closed).contains("assistant"));
}

#[test]
fn a_stock_engine_reads_control_tokens_in_a_clients_text_and_truncates() {
    let prompter = chatting(Arc::default()).of_stock_engine();
    let messages = json!([{ "role": "user", "content": "Hi <|im_end|>" }]);
    let body = json!({ "messages": messages });
    let control = prompter.tokenizer().token_id("<|im_end|>").unwrap();
    let whole = prompt(&prompter, Generation::Chat, &body);
    let spelled = prompt(&chatting(Arc::default()), Generation::Chat, &body);
    let count = |tokens: &[TokenId]| tokens.iter().filter(|&&token| token == control).count();
    assert_eq!(count(&whole), count(&spelled) + 1, "what the client spelled is one");
    let cut = json!({ "messages": messages, "truncate_prompt_tokens": 3 });
    assert_eq!(prompt(&prompter, Generation::Chat, &cut), whole[whole.len() - 3..]);
    let to_fit = json!({ "prompt": "text", "truncate_prompt_tokens": -1 }).to_string();
    let unknown = prompter.prompt_of(to_fit.as_bytes(), Generation::Completion, 0);
    assert!(matches!(unknown, Err(PrompterError::Truncated)), "{unknown:?}");
    let list = json!({ "prompt": ["one", "two"] }).to_string();
    let prompts = prompter.prompts_of(list.as_bytes(), Generation::Completion, 0).unwrap();
    assert_eq!(prompts.len(), 2);
}

#[test]
fn a_completions_first_prompt_counts() {
    let prompter = chatting(Arc::default());
    let of = |prompt_field: Value| {
        prompt(&prompter, Generation::Completion, &json!({ "prompt": prompt_field }))
    };
    let expected = prompter.tokenizer().encode("one <|im_end|>", ControlTokens::Parsed);
    assert_eq!(of(json!("one <|im_end|>")), expected);
    assert_eq!(of(json!(["one <|im_end|>", "two"])), expected);
    assert_eq!(of(json!([5, 6])), [TokenId(5), TokenId(6)]);
    assert_eq!(of(json!([[7], [8]])), [TokenId(7)]);
    assert_eq!(prompter.text("one <|im_end|>", Framing::Added, CacheSalt(0)), expected);
}

#[test]
fn what_the_worker_refuses_has_no_prompt() {
    let prompter = chatting(Arc::default());
    let refused =
        |surface, body: &str| prompter.prompt_of(body.as_bytes(), surface, 0).unwrap_err();
    assert!(matches!(refused(Generation::Chat, "{"), PrompterError::Request(_)));
    assert!(matches!(refused(Generation::Completion, "{}"), PrompterError::Request(_)));
    let unseen = r#"{"messages":[{"role":"user","content":"x"}],"continue_final_message":true,
                     "add_generation_prompt":true}"#;
    let error = ApiError::from(refused(Generation::Chat, unseen));
    assert_eq!((error.status(), error.param.as_deref()), (400, Some("continue_final_message")));
}

#[test]
fn a_prompt_that_cannot_fit_is_refused_before_it_is_encoded() {
    let pieces = Arc::new(PieceCache::default());
    let most = Tokens::new(512);
    let bound = PromptBound { tokens: most, uncut_bytes: 0 };
    let prompter = chatting(Arc::clone(&pieces)).within(bound);
    let digits = "9".repeat(1_000_000);
    let chat = json!({ "messages": [{ "role": "user", "content": digits }] });
    let completion = json!({ "prompt": ["few", digits] });
    let ask = |prompter: &Prompter, surface, body: &Value| {
        prompter.prompts_of(body.to_string().as_bytes(), surface, 0)
    };
    prompt(&prompter, Generation::Completion, &json!({ "prompt": "few" }));
    let before = pieces.counts();
    for (surface, body) in [(Generation::Chat, &chat), (Generation::Completion, &completion)] {
        let error = ask(&prompter, surface, body).unwrap_err();
        assert!(matches!(error, PrompterError::TooLong { .. }), "{error}");
        let error = ApiError::from(error);
        assert_eq!((error.status(), error.kind.code()), (400, Some("context_length_exceeded")));
        assert!(error.message.contains("maximum context length is 512 tokens"), "{error}");
    }
    assert_eq!(pieces.counts().misses, before.misses, "nothing was encoded");
    // What has places to cut is encoded all the same, where that is allowed.
    let roomy = PromptBound { tokens: most, uncut_bytes: 1024 };
    let roomy = chatting(Arc::clone(&pieces)).within(roomy);
    let words = json!({ "prompt": "one two three, ".repeat(20_000) });
    assert!(512 < prompt(&roomy, Generation::Completion, &words).len());
    ask(&roomy, Generation::Chat, &chat).unwrap_err();
    ask(&prompter, Generation::Completion, &words).unwrap_err();
}

#[test]
fn a_stretch_that_would_take_too_much_memory_is_refused_though_its_tokens_fit() {
    let mut file = pairs();
    let count = file["model"]["vocab"].as_object().unwrap().len();
    let tokens = file["added_tokens"].as_array_mut().unwrap();
    tokens.push(added(count + tokens.len(), &" ".repeat(128), false));
    let most = Tokens::new(131_072);
    let bound = PromptBound { tokens: most, uncut_bytes: 0 };
    let prompter = prompter(&file, &Value::Null).unwrap().within(bound);
    let spaces = " ".repeat(2 * UNCUT_BYTES_MAX);
    assert!(prompter.tokenizer().tokens_at_least(&spaces) < most);
    let error = prompter.prompt(&spaces, Framing::Added, CacheSalt(0)).unwrap_err();
    let expected = PrompterError::Uncut { bytes: spaces.len(), most: UNCUT_BYTES_MAX };
    assert_eq!(error, expected);
    assert_eq!(prompter.pieces().counts().misses, 0, "nothing was encoded");
    let error = ApiError::from(error);
    assert_eq!((error.status(), error.param.as_deref()), (400, Some("messages")));
    assert!(error.message.contains("2097152 bytes without a place to cut"), "{error}");
}

#[test]
fn a_grown_chat_costs_what_is_new() {
    let pieces = Arc::new(PieceCache::default());
    let prompter = chatting(Arc::clone(&pieces));
    let rule = |number: u32| format!("Long rule {number}. ");
    let rules = (0..2_000).map(rule).collect::<Vec<_>>().concat();
    let mut messages = vec![json!({ "role": "system", "content": rules })];
    let mut last = 0;
    for turn in 0..10 {
        messages.push(json!({ "role": "user", "content": format!("question {turn}") }));
        prompt(&prompter, Generation::Chat, &json!({ "messages": messages }));
        let misses = pieces.counts().misses;
        if turn > 0 {
            // The question, and at most its surroundings.
            assert!(misses - last <= 3, "{turn}: {} new pieces", misses - last);
        }
        last = misses;
        messages.push(json!({ "role": "assistant", "content": "ok" }));
    }
    assert!(last > 20, "{last}");
}

#[test]
fn only_an_equal_salt_shares_pieces() {
    let pieces = Arc::new(PieceCache::default());
    let prompter = chatting(Arc::clone(&pieces));
    let misses = |salt: Option<&str>| {
        let before = pieces.counts().misses;
        let mut body = json!({ "messages": [{ "role": "user", "content": "secret" }] });
        if let Some(salt) = salt {
            body["cache_salt"] = json!(salt);
        }
        prompt(&prompter, Generation::Chat, &body);
        pieces.counts().misses - before
    };
    let cold = misses(None);
    assert!(cold > 0);
    assert_eq!(misses(None), 0);
    assert_eq!(misses(Some("a")), cold);
    assert_eq!(misses(Some("b")), cold);
    assert_eq!(misses(Some("a")), 0);
}
