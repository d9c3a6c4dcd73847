//! What is said after what, as text.

use super::*;
use crate::runtime::SpecialTokens;
use overdraft_tokenizer::ControlTokens;

fn encode(text: &str) -> Vec<TokenId> {
    tokenizer().encode(text, ControlTokens::Parsed)
}

/// The echo's next `count` tokens after `prompt`, spelt out.
#[track_caller]
fn check(prompt: &str, count: usize, said: &str) {
    let mut tokens = encode(prompt);
    let start = tokens.len();
    for _ in 0..count {
        tokens.push(echo(&tokens));
    }
    assert_eq!(tokenizer().decode(&tokens[start..], SpecialTokens::Keep), said);
}

#[test]
fn a_bare_prompt_is_repeated() {
    check("abc", 7, "abcabca");
    check("x", 3, "xxx");
}

#[test]
fn the_last_message_of_a_chat_is_repeated_and_the_turn_ended() {
    let chat = "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nhi\nyou<|im_end|>\n\
                <|im_start|>assistant\n";
    check(chat, 7, "hi\nyou<|im_end|>");
    check(chat, 9, "hi\nyou<|im_end|>hi");
}

#[test]
fn the_tokenizer_knows_the_bytes_and_both_control_tokens() {
    assert_eq!(tokenizer().vocabulary(), index(ECHO_VOCABULARY));
    assert_eq!(
        encode("<|im_start|>é<|im_end|>"),
        [ECHO_TURN_START, TokenId(0xc3), TokenId(0xa9), ECHO_TURN_END]
    );
    assert_eq!(crate::TextCodec::end_tokens(&tokenizer()), [ECHO_TURN_END]);
}

#[test]
fn a_table_that_is_too_short_is_an_error_and_no_panic() {
    let mut backend = EchoBackend::new(EchoSettings::default());
    let tokens = [TokenId(1); 17];
    let slot = BatchSlot { tokens: &tokens, start: 0, table: &[], logits: Logits::Last };
    let error = backend.forward(&[slot], &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("position `0`"), "{error}");
}

#[test]
fn prompts_take_time_by_the_token_and_decoding_by_the_step() {
    let (step_delay, token_delay) = (Duration::from_millis(10), Duration::from_micros(500));
    let settings = EchoSettings { step_delay, token_delay, ..EchoSettings::default() };
    let backend = EchoBackend::new(settings);
    let tokens = [TokenId(1); 101];
    let slot = |count: usize| BatchSlot {
        tokens: &tokens[..count],
        start: 0,
        table: &[],
        logits: Logits::Last,
    };
    assert_eq!(backend.delay(&[slot(1), slot(1)]), step_delay);
    assert_eq!(backend.delay(&[slot(1), slot(101)]), step_delay + 100 * token_delay);
}
