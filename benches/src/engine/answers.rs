//! Answers of a real model: greedy continuations of questions, the text that it is sure about.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use overdraft_engine::gguf::Gguf;
use overdraft_engine::model::{KvBudget, Model, ModelSettings};
use overdraft_engine::{BatchSlot, tokenizer};
use overdraft_scheduler::batch::Logits;
use overdraft_tokenizer::Prompter;
use overdraft_units::{BlockId, Blocks, TokenId};
use overdraft_wire::Generation;
use serde_json::json;

use super::score::likeliest;

/// Tokens of a conversation at most.
const CONVERSATION_MAX: usize = 160;
/// Tokens per page.
const PAGE: usize = 16;

/// Questions of everyday kinds.
const QUESTIONS: [&str; 16] = [
    "What is the capital of France, and what is it known for?",
    "Explain photosynthesis to a ten-year-old.",
    "Write a short poem about the sea.",
    "How do I boil an egg?",
    "List five uses of a paper clip.",
    "What is the difference between a list and a tuple in Python?",
    "Write a function in Python that reverses a string.",
    "Summarize the plot of Romeo and Juliet in three sentences.",
    "Why is the sky blue?",
    "Translate 'good morning' into Spanish, French and German.",
    "Give me a recipe for pancakes.",
    "Who was Albert Einstein?",
    "What should I pack for a week in the mountains?",
    "Write a polite email that declines an invitation.",
    "What are the benefits of regular exercise?",
    "Tell me a story about a fox and a crow.",
];

/// One conversation as it goes on.
struct Conversation {
    tokens: Vec<TokenId>,
    /// Tokens whose keys and values are stored.
    computed: usize,
    table: Vec<BlockId>,
}

/// Each question with the model's greedy answer, as tokens.
pub(crate) fn answers(file: &Path, settings: &ModelSettings) -> Result<Vec<Vec<TokenId>>> {
    let gguf = Gguf::open(file)?;
    let source = tokenizer::source_from_metadata(gguf.metadata())?;
    let ends = source.eos.map(TokenId);
    let template = tokenizer::template_text(gguf.metadata());
    let prompter = Prompter::from_source(source, template, Arc::default())?;
    let pages = u32::try_from(CONVERSATION_MAX / PAGE)?;
    let mut conversations = Vec::new();
    for (first, question) in (0..).step_by(CONVERSATION_MAX / PAGE).zip(QUESTIONS) {
        let body = json!({ "messages": [{ "role": "user", "content": question }] }).to_string();
        let prompt = prompter.prompt_of(body.as_bytes(), Generation::Chat, 0);
        let tokens = prompt.context("a question was refused")?;
        let table = (first..first + pages).map(BlockId).collect();
        conversations.push(Conversation { tokens, computed: 0, table });
    }
    let kv = KvBudget::Blocks(Blocks::new(pages * u32::try_from(QUESTIONS.len())?));
    let mut model = Model::open(file, &ModelSettings { kv, ..settings.clone() })?;
    while advance(&mut model, &mut conversations, ends)? {}
    Ok(conversations.into_iter().map(|conversation| conversation.tokens).collect())
}

/// One more token for each conversation that has not ended; whether there was one.
fn advance(
    model: &mut Model,
    conversations: &mut [Conversation],
    ends: Option<TokenId>,
) -> Result<bool> {
    let mut open: Vec<&mut Conversation> =
        conversations.iter_mut().filter(|it| it.goes_on(ends)).collect();
    let slots: Vec<BatchSlot<'_>> = open
        .iter()
        .map(|it| {
            let start = u32::try_from(it.computed).unwrap_or(u32::MAX);
            let tokens = &it.tokens[it.computed..];
            BatchSlot { tokens, start, table: &it.table, logits: Logits::Last }
        })
        .collect();
    let mut logits = Vec::new();
    model.backend.forward(&slots, &mut logits)?;
    drop(slots);
    let vocabulary = model.backend.shape().vocabulary;
    for (conversation, row) in open.iter_mut().zip(logits.chunks_exact(vocabulary)) {
        conversation.computed = conversation.tokens.len();
        conversation.tokens.push(TokenId(likeliest(row).0));
    }
    Ok(!open.is_empty())
}

impl Conversation {
    fn goes_on(&self, ends: Option<TokenId>) -> bool {
        let answered = self.computed > 0;
        let ended = answered && self.tokens.last().copied() == ends;
        !ended && self.tokens.len() < CONVERSATION_MAX
    }
}
