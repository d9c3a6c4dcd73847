//! Echo model: a stand-in without weights that repeats its prompt, for tests.
//!
//! For tests of everything around a model, without one. The backend keeps the tokens themselves in
//! its pages, where a model keeps keys and values, and reads them back through the block tables it is
//! given: a scheduler that mixes pages up makes it stutter. In a chat it repeats the last message
//! and ends its turn; after a bare prompt it goes on with the prompt, again and again.
//!
//! **Invariant:** as [`Backend`] demands, the logits of a position are a function of the tokens up
//! to it.

#[cfg(test)]
mod tests;

use std::time::Duration;

use overdraft_scheduler::batch::Logits;
use overdraft_units::{BlockId, BlockSize, Blocks, TokenId, Tokens, split_mix};

use crate::backend::{Backend, BackendError, BatchSlot, BlockLayout, ModelShape};
use overdraft_tokenizer::{Tokenizer, TokenizerSource};

/// Starts a chat message.
pub const ECHO_TURN_START: TokenId = TokenId(256);
/// Ends a chat message: the end token.
pub const ECHO_TURN_END: TokenId = TokenId(257);
/// Tokens in all: the 256 bytes and the two above.
pub const ECHO_VOCABULARY: u32 = 258;

/// The chat template that goes with it: `ChatML`.
pub const ECHO_TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n\
    {{ message['content'] }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// How the tokens after the bytes are spelt.
const CONTROL: [&str; 2] = ["<|im_start|>", "<|im_end|>"];
/// What follows [`ECHO_TURN_START`] where the answer begins.
const ANSWER: &[u8] = b"assistant\n";
/// Logit of the token that echoes; the others lie in `0..NOISE`.
const LOUD: f32 = 40.0;
/// The same with [`Noise::Lively`]: every fifth token or so is another.
const LIVELY: f32 = 8.0;
const NOISE: f32 = 4.0;
/// Bytes of a token in an exported page.
const TOKEN_BYTES: usize = 4;

/// How sure the echo is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Noise {
    /// It says the right token at any usual temperature.
    #[default]
    Quiet,
    /// At temperature one it often says another, so that draws can be told apart.
    Lively,
}

/// An echo's dimensions and temper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoSettings {
    /// Pages of its cache.
    pub blocks: Blocks,
    /// Tokens per page.
    pub block_size: BlockSize,
    /// Positions per sequence.
    pub context: Tokens,
    /// How long a step takes, whatever is in it; for tests that must catch one at it.
    pub step_delay: Duration,
    /// How much longer it takes for each token of a sequence after the first: a stand-in for what
    /// computing a prompt costs. Decoding costs the step alone, as where memory is the limit.
    pub token_delay: Duration,
    /// How sure it is.
    pub noise: Noise,
}

/// The stand-in for a model.
#[derive(Clone, Debug)]
pub struct EchoBackend {
    settings: EchoSettings,
    /// The token at each position of each page.
    pages: Vec<TokenId>,
}

impl Default for EchoSettings {
    fn default() -> Self {
        Self {
            blocks: Blocks::new(1024),
            block_size: BlockSize::new(16).expect("sixteen is not zero"),
            context: Tokens::new(8192),
            step_delay: Duration::ZERO,
            token_delay: Duration::ZERO,
            noise: Noise::Quiet,
        }
    }
}

impl EchoBackend {
    /// An echo with an empty cache.
    pub fn new(settings: EchoSettings) -> Self {
        let positions = index(settings.blocks.get()) * index(settings.block_size.get());
        Self { settings, pages: vec![ECHO_TURN_END; positions] }
    }

    /// How long a step with these slots takes.
    fn delay(&self, batch: &[BatchSlot<'_>]) -> Duration {
        let after_first: usize = batch.iter().map(|slot| slot.tokens.len().saturating_sub(1)).sum();
        let tokens = u32::try_from(after_first).unwrap_or(u32::MAX);
        self.settings.step_delay.saturating_add(self.settings.token_delay.saturating_mul(tokens))
    }

    fn place(&self, slot: &BatchSlot<'_>, position: usize) -> Result<usize, BackendError> {
        let page = index(self.settings.block_size.get());
        let block = slot.table.get(position / page).ok_or_else(|| BackendError {
            reason: format!("position `{position}` lies past the sequence's pages"),
        })?;
        Ok(index(block.0) * page + position % page)
    }

    fn write(&mut self, slot: &BatchSlot<'_>) -> Result<(), BackendError> {
        for (offset, &token) in slot.tokens.iter().enumerate() {
            let place = self.place(slot, index(slot.start) + offset)?;
            self.pages[place] = token;
        }
        Ok(())
    }

    /// The tokens up to the end of the slot, as the pages hold them.
    fn read(&self, slot: &BatchSlot<'_>) -> Result<Vec<TokenId>, BackendError> {
        let end = index(slot.start) + slot.tokens.len();
        (0..end).map(|position| Ok(self.pages[self.place(slot, position)?])).collect()
    }

    fn row(&self, tokens: &[TokenId], logits: &mut Vec<f32>) {
        let said = echo(tokens);
        let seed = tokens.iter().fold(0, |hash, token| split_mix(hash ^ u64::from(token.0)));
        let loudness = match self.settings.noise {
            Noise::Quiet => LOUD,
            Noise::Lively => LIVELY,
        };
        logits.extend((0..ECHO_VOCABULARY).map(|id| {
            if TokenId(id) == said {
                loudness
            } else if TokenId(id) == ECHO_TURN_START {
                // Only prompts start messages.
                -loudness
            } else {
                noise(seed, id)
            }
        }));
    }
}

impl Backend for EchoBackend {
    fn shape(&self) -> ModelShape {
        ModelShape {
            vocabulary: index(ECHO_VOCABULARY),
            context: self.settings.context,
            blocks: self.settings.blocks,
            block_size: self.settings.block_size,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the delay stands for a model's work")]
    fn forward(
        &mut self,
        batch: &[BatchSlot<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        let delay = self.delay(batch);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        for slot in batch {
            self.write(slot)?;
        }
        logits.clear();
        for slot in batch {
            let first = match slot.logits {
                Logits::None => continue,
                Logits::Last => index(slot.start) + slot.tokens.len(),
                Logits::Every => index(slot.start) + 1,
            };
            let tokens = self.read(slot)?;
            for end in first..=tokens.len() {
                self.row(&tokens[..end], logits);
            }
        }
        Ok(())
    }

    fn block_layout(&self) -> Option<BlockLayout> {
        let page = self.settings.block_size.get();
        Some(BlockLayout { bytes: index(page) * TOKEN_BYTES, name: format!("echo by {page}") })
    }

    fn export_block(&self, block: BlockId, out: &mut Vec<u8>) -> Result<(), BackendError> {
        let page = index(self.settings.block_size.get());
        let tokens = &self.pages[index(block.0) * page..][..page];
        out.extend(tokens.iter().flat_map(|token| token.0.to_le_bytes()));
        Ok(())
    }

    fn import_block(&mut self, block: BlockId, bytes: &[u8]) -> Result<(), BackendError> {
        let page = index(self.settings.block_size.get());
        let places = &mut self.pages[index(block.0) * page..][..page];
        for (place, bytes) in places.iter_mut().zip(bytes.as_chunks::<TOKEN_BYTES>().0) {
            *place = TokenId(u32::from_le_bytes(*bytes));
        }
        Ok(())
    }
}

/// A tokenizer that goes with it: a token is a byte, or starts or ends a chat message.
pub fn tokenizer() -> Tokenizer {
    Tokenizer::new(tokenizer_source()).expect("a vocabulary of bytes is sound")
}

/// The description of that tokenizer.
pub fn tokenizer_source() -> TokenizerSource {
    TokenizerSource { eos: Some(ECHO_TURN_END.0), ..TokenizerSource::bytes(&CONTROL) }
}

/// What the echo says after `tokens`.
fn echo(tokens: &[TokenId]) -> TokenId {
    match answer(tokens) {
        Some((message, said)) => {
            let place = said % (message.len() + 1);
            message.get(place).copied().unwrap_or(ECHO_TURN_END)
        }
        None => tokens[period_match(tokens)],
    }
}

/// The message to repeat, and how much of an answer there is already.
fn answer(tokens: &[TokenId]) -> Option<(&[TokenId], usize)> {
    let opens = |start: &usize| {
        let header = &tokens[start + 1..];
        tokens[*start] == ECHO_TURN_START
            && header.len() >= ANSWER.len()
            && header.iter().zip(ANSWER).all(|(token, &byte)| token.0 == u32::from(byte))
    };
    let turn = (0..tokens.len()).rev().find(opens)?;
    let said = tokens.len() - turn - 1 - ANSWER.len();
    let before = &tokens[..turn];
    let start = before.iter().rposition(|&token| token == ECHO_TURN_START)?;
    let newline = before[start..].iter().position(|token| token.0 == u32::from(b'\n'))?;
    let message = &before[start + newline + 1..];
    let end = message.iter().position(|&token| token == ECHO_TURN_END)?;
    Some((&message[..end], said))
}

/// Length of the longest proper head of `tokens` that they also end with: the place in the prompt
/// where its repetition has got to. A prompt that does not end as it starts is repeated whole.
fn period_match(tokens: &[TokenId]) -> usize {
    let mut shorter = vec![0; tokens.len()];
    let mut matched = 0;
    for position in 1..tokens.len() {
        while matched > 0 && tokens[matched] != tokens[position] {
            matched = shorter[matched - 1];
        }
        if tokens[matched] == tokens[position] {
            matched += 1;
        }
        shorter[position] = matched;
    }
    matched
}

/// A number in `0..NOISE` that a seed and a token decide.
fn noise(seed: u64, id: u32) -> f32 {
    let bits = split_mix(seed ^ (u64::from(id) << 32)) >> 48;
    let bits = u16::try_from(bits).expect("sixteen bits are left");
    f32::from(bits) / f32::from(u16::MAX) * NOISE
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("usize holds 32 bits")
}
