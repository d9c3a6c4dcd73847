//! Tokenizer of a real model: the same tokens as Hugging Face's library and llama.cpp make.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use overdraft_claims::{Aim, Claim};
use overdraft_engine::gguf::Gguf;
use overdraft_engine::tokenizer;
use overdraft_tokenizer::{Framing, Prompter};
use overdraft_units::{CacheSalt, TokenId};
use overdraft_wire::Generation;
use serde::Deserialize;
use serde_json::{Value, json};

use super::reference;
use crate::dice::Dice;

/// Texts cut from prose.
const CUTS: usize = 2_000;
/// Texts drawn from what tokenizers disagree about.
const DRAWN: usize = 1_500;
/// Conversations.
const CONVERSATIONS: usize = 500;
/// Characters of a cut at most.
const CUT_MAX: usize = 600;
/// Pieces of a drawn text at most.
const PIECES_MAX: usize = 24;
/// Messages of a conversation at most.
const MESSAGES_MAX: usize = 6;
/// What a report shows of a text that differs.
const SHOWN_MAX: usize = 3;

/// What tokenizers disagree about: spaces, digits, contractions, scripts, marks, control tokens.
const PIECES: [&str; 40] = [
    " ",
    "  ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "a",
    "The",
    " the",
    "it's",
    "WE'LL",
    "don'T",
    "1",
    "42",
    " 1234567",
    "3.14",
    "½",
    "٣٤",
    "_",
    "snake_case",
    "camelCase",
    "HTTPServer",
    "!!!",
    "?!",
    "(ok)",
    "`x`",
    "größe",
    "café",
    "e\u{301}",
    "你好，世界",
    "こんにちは",
    "안녕",
    "😀",
    "👨‍👩‍👧",
    "\u{a0}",
    "\u{200b}",
    "Привет",
    "\u{3000}",
    "ﬁ",
    "\u{1e69}",
];
/// The model's words that are no text.
const CONTROLS: [&str; 3] = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"];

/// What is tokenized.
struct Inputs {
    texts: Vec<String>,
    /// Messages without control tokens, which are text here and end a turn elsewhere.
    conversations: Vec<Value>,
}

/// Their tokens.
#[derive(Deserialize)]
struct Tokens {
    name: String,
    texts: Vec<Vec<u32>>,
    conversations: Vec<Option<Vec<u32>>>,
}

/// How one implementation compares with ours.
struct Comparison {
    /// As claims name it.
    label: &'static str,
    /// Its name, or why it could not be asked.
    name: Result<String, String>,
    compared: usize,
    /// What was tokenized otherwise.
    differing: Vec<String>,
}

/// Ours beside all others.
pub(crate) struct TokenizerReport {
    comparisons: Vec<Comparison>,
}

impl TokenizerReport {
    /// Tokenizes drawn texts and conversations; `prose` is what texts are cut from.
    pub(crate) fn measure(file: &Path, python: &Path, prose: &[&str]) -> Result<Self> {
        let inputs = Inputs::draw(prose);
        let ours = ours(file, &inputs)?;
        let given = json!({ "texts": inputs.texts, "conversations": inputs.conversations });
        let mut comparisons = Vec::new();
        for (engine, label) in [("tokenizers", "hugging_face"), ("llama_cpp", "llama_cpp")] {
            let script = reference::Script { file: "token_reference.py", engine, model: file };
            let theirs: Result<Tokens, String> = script.ask(python, &given)?;
            comparisons.push(match theirs {
                Ok(theirs) => Comparison::new(label, &inputs, &ours, theirs),
                Err(why) => {
                    Comparison { label, name: Err(why), compared: 0, differing: Vec::new() }
                }
            });
        }
        Ok(Self { comparisons })
    }

    /// That all are alike.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let claims = self.comparisons.iter().map(|comparison| Claim {
            demonstration: "S8",
            figure: format!("tokens_unlike_{}", comparison.label),
            measured: comparison.name.as_ref().map_err(Clone::clone).map(|_| {
                let count = u32::try_from(comparison.differing.len()).unwrap_or(u32::MAX);
                f64::from(count)
            }),
            aim: Aim::AtMost(0.0),
        });
        claims.collect()
    }

    /// The figures, for the raw results.
    pub(crate) fn json(&self) -> Value {
        let rows = self.comparisons.iter().map(|comparison| {
            json!({ "peer": comparison.name, "compared": comparison.compared,
                    "differing": comparison.differing.len() })
        });
        rows.collect()
    }
}

impl Inputs {
    fn draw(prose: &[&str]) -> Self {
        let mut dice = Dice::new(34);
        let prose: Vec<Vec<char>> = prose.iter().map(|text| text.chars().collect()).collect();
        let mut texts: Vec<String> = (0..CUTS)
            .map(|_| {
                let text = &prose[dice.below(prose.len())];
                let start = dice.below(text.len());
                let length = 1 + dice.below(CUT_MAX);
                text[start..text.len().min(start + length)].iter().collect()
            })
            .collect();
        let conversations = (0..CONVERSATIONS).map(|_| conversation(&mut dice, &texts)).collect();
        texts.extend((0..DRAWN).map(|_| drawn(&mut dice)));
        Self { texts, conversations }
    }

    /// What the `index`th text or conversation is.
    fn shown(&self, index: usize) -> String {
        match self.texts.get(index) {
            Some(text) => format!("{text:?}"),
            None => self.conversations[index - self.texts.len()].to_string(),
        }
    }
}

fn drawn(dice: &mut Dice) -> String {
    let pieces = 1 + dice.below(PIECES_MAX);
    let piece = |_| {
        let at = dice.below(PIECES.len() + CONTROLS.len());
        PIECES.get(at).copied().unwrap_or_else(|| CONTROLS[at - PIECES.len()])
    };
    (0..pieces).map(piece).collect()
}

/// Users and assistants in turns, sometimes after a system message.
fn conversation(dice: &mut Dice, texts: &[String]) -> Value {
    let first = if dice.below(2) == 0 { ["system", "user"] } else { ["user", "assistant"] };
    let others = ["user", "assistant"];
    let messages = (0..=dice.below(MESSAGES_MAX)).map(|turn| {
        let role = match turn {
            0 => first[0],
            _ if first[0] == "system" => others[(turn + 1) % 2],
            _ => others[turn % 2],
        };
        json!({ "role": role, "content": texts[dice.below(texts.len())] })
    });
    messages.collect()
}

/// Our tokens of the same inputs.
fn ours(file: &Path, inputs: &Inputs) -> Result<Vec<Vec<TokenId>>> {
    let gguf = Gguf::open(file)?;
    let source = tokenizer::source_from_metadata(gguf.metadata())?;
    let template = tokenizer::template_text(gguf.metadata());
    let prompter = Prompter::from_source(source, template, Arc::default())?;
    let mut tokens: Vec<Vec<TokenId>> =
        inputs.texts.iter().map(|text| prompter.text(text, Framing::Bare, CacheSalt(0))).collect();
    for messages in &inputs.conversations {
        let body = json!({ "messages": messages }).to_string();
        let prompt = prompter.prompt_of(body.as_bytes(), Generation::Chat, 0);
        tokens.push(prompt.context("a conversation was refused")?);
    }
    Ok(tokens)
}

impl Comparison {
    fn new(label: &'static str, inputs: &Inputs, ours: &[Vec<TokenId>], theirs: Tokens) -> Self {
        let Tokens { name, texts, conversations } = theirs;
        let theirs = texts.into_iter().map(Some).chain(conversations);
        let (mut compared, mut differing) = (0, Vec::new());
        for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            let Some(theirs) = theirs else { continue };
            compared += 1;
            if !ours.iter().map(|token| token.0).eq(theirs) {
                differing.push(inputs.shown(index));
            }
        }
        Self { label, name: Ok(name), compared, differing }
    }
}

impl fmt::Display for TokenizerReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Comparison { name, compared, differing, .. } in &self.comparisons {
            match name {
                Ok(name) => writeln!(
                    out,
                    "tokens  {compared} texts and conversations, {} unlike {name}",
                    differing.len()
                )?,
                Err(why) => writeln!(out, "tokens  not compared: {why}")?,
            }
            for text in differing.iter().take(SHOWN_MAX) {
                writeln!(out, "        {text}")?;
            }
        }
        Ok(())
    }
}
