//! Prompts of a chat template for bodies of `/v1/chat/completions`, to be held beside other renderers'.
//!
//! `render_template TEMPLATE < BODIES`, one body a line. Each gets a line of JSON: `{"text": …}`, or
//! `{"error": …}`. `bos_token` is `<|bos|>` and `eos_token` is `<|eos|>`; the clock stands at [`NOW`].
#![expect(clippy::print_stdout, reason = "printing prompts is what it is for")]

use std::io::BufRead;

use anyhow::Context;
use overdraft_tokenizer::{ChatInput, ChatTemplate, Tokenizer, TokenizerSource};
use overdraft_wire::ChatRequest;
use serde_json::{Value, json};

/// 2025-02-09T13:05:09Z.
const NOW: u64 = 1_739_106_309;

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("expected the path of a template")?;
    let source = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let mut vocabulary = TokenizerSource::bytes(&["<|bos|>", "<|eos|>"]);
    (vocabulary.bos, vocabulary.eos) = (Some(256), Some(257));
    let tokenizer = Tokenizer::new(vocabulary)?;
    let template = ChatTemplate::new(Some(&source), &tokenizer);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let text = match &template {
            Ok(template) => render(template, line.as_bytes()),
            Err(error) => json!({ "error": error.to_string() }),
        };
        println!("{text}");
    }
    Ok(())
}

fn render(template: &ChatTemplate, body: &[u8]) -> Value {
    let request = match ChatRequest::parse(body) {
        Ok(request) => request,
        Err(error) => return json!({ "error": error.message }),
    };
    let rendered = template.render(&ChatInput {
        messages: &request.messages,
        tools: &request.tools,
        rendering: &request.rendering,
        unix_seconds: NOW,
    });
    match rendered {
        Ok(rendered) => json!({ "text": rendered.text() }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
