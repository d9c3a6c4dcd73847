//! Simulated engine backend: takes the time of a GPU by its profile and emits meaningless tokens.
//!
//! Time comes from a profile of [`overdraft_gpu_model`]. An answer has a length of its own, so that what
//! clients declare (`max_tokens`) is more than they get, as in life: `[answer:120]` in a prompt asks
//! for 120 tokens, any other prompt's answer has a length drawn by what the prompt says.
//!
//! As a model keeps keys and values in its pages, this keeps in each place what is known up to it: a
//! digest, and how much of an answer is left. So a step costs the host constant time per token, and
//! what is shared, recomputed or exchanged by the scheduler is right here as it is in a model.
//!
//! **Invariant:** as [`Backend`] demands, the logits of a position are a function of the tokens up to
//! it.

mod known;
#[cfg(test)]
mod tests;

use std::time::Duration;

use overdraft_gpu_model::{AnswerLengths, Batch, Chunk, Profile};
use overdraft_scheduler::batch::Logits;
use overdraft_telemetry::Clock;
use overdraft_tokenizer::{Tokenizer, TokenizerSource};
use overdraft_units::{BlockSize, Blocks, Instant, Micros, TokenId, Tokens};

use self::known::Known;
use crate::backend::{Backend, BackendError, BatchSlot, ModelShape};
use crate::echo::{self, ECHO_TURN_END};

/// Words of answers, over and over; they are the tokens after those of the echo.
const WORDS: [&str; 8] = [" every", " token", " of", " this", " answer", " was", " simulated", ";"];
/// The first of them.
const FIRST_WORD: TokenId = TokenId(echo::ECHO_VOCABULARY);
/// Tokens in all.
const VOCABULARY: u32 = echo::ECHO_VOCABULARY + 8;

/// Logit of the token that is said, and of the word that is said where a turn must not end.
const LOUD: f32 = 40.0;
const SECOND: f32 = 0.0;
const SILENT: f32 = -LOUD;

/// What the host took beyond a step's end is made good in the next, up to this: the profile knows
/// what a host adds, but a machine that is too busy must not look fast afterwards.
const LAG_MAX: Micros = Micros::new(4_000);

/// A simulated worker's dimensions and pace.
#[derive(Clone, Debug)]
pub struct SimulatedSettings {
    /// What it simulates.
    pub profile: Profile,
    /// Pages of its cache.
    pub blocks: Blocks,
    /// Tokens per page.
    pub block_size: BlockSize,
    /// Positions per sequence.
    pub context: Tokens,
    /// Simulated seconds in a real one; above zero.
    pub speed: f64,
    /// How long answers are whose prompts do not say.
    pub lengths: AnswerLengths,
    /// Decides those lengths, together with the prompt.
    pub seed: u64,
    /// What it waits by.
    pub clock: Clock,
}

/// The simulated model.
#[derive(Clone, Debug)]
pub struct SimulatedBackend {
    settings: SimulatedSettings,
    /// What is known at each position of each page.
    pages: Vec<Known>,
    /// For each page, the last step whose decodes read it.
    read_in: Vec<u64>,
    steps: u64,
    /// When the last step ended, or should have.
    ended: Instant,
}

impl SimulatedBackend {
    /// With an empty cache.
    pub fn new(settings: SimulatedSettings) -> Self {
        let positions = index(settings.blocks.get()) * index(settings.block_size.get());
        let read_in = vec![0; index(settings.blocks.get())];
        let pages = vec![Known::default(); positions];
        Self { settings, pages, read_in, steps: 0, ended: Instant::ORIGIN }
    }

    fn place(&self, slot: &BatchSlot<'_>, position: usize) -> Result<usize, BackendError> {
        let page = index(self.settings.block_size.get());
        let block = slot.table.get(position / page).ok_or_else(|| BackendError {
            reason: format!("position `{position}` lies past the sequence's pages"),
        })?;
        Ok(index(block.0) * page + position % page)
    }

    /// What is known before a position.
    fn before(&self, slot: &BatchSlot<'_>, position: usize) -> Result<Known, BackendError> {
        match position.checked_sub(1) {
            None => Ok(Known::default()),
            Some(last) => Ok(self.pages[self.place(slot, last)?]),
        }
    }

    fn write(&mut self, slot: &BatchSlot<'_>) -> Result<(), BackendError> {
        let mut known = self.before(slot, index(slot.start))?;
        for (position, &token) in (index(slot.start)..).zip(slot.tokens) {
            known = known.after(token, |asked, digest| self.length(asked, digest));
            let place = self.place(slot, position)?;
            self.pages[place] = known;
        }
        Ok(())
    }

    /// Words of an answer to a prompt. The token that ends the turn counts, as clients are told.
    fn length(&self, asked: Option<u32>, digest: u64) -> u32 {
        let tokens = asked
            .map_or_else(|| self.settings.lengths.draw(digest ^ self.settings.seed), Tokens::new);
        tokens.get().saturating_sub(1).max(1)
    }

    fn row(&self, known: Known, logits: &mut Vec<f32>) {
        let left = known.left(|asked, digest| self.length(asked, digest));
        let word = TokenId(FIRST_WORD.0 + left % 8);
        let start = logits.len();
        logits.resize(start + index(VOCABULARY), SILENT);
        logits[start + index(word.0)] = if left == 0 { SECOND } else { LOUD };
        logits[start + index(ECHO_TURN_END.0)] = if left == 0 { LOUD } else { SILENT };
    }

    /// Positions in the pages that the step's decodes read, each page counted once.
    fn distinct(&mut self, batch: &[BatchSlot<'_>]) -> Tokens {
        self.steps += 1;
        let page = self.settings.block_size.get();
        let mut pages = 0_u32;
        for slot in batch.iter().filter(|slot| slot.tokens.len() == 1) {
            let read = index((slot.start + 1).div_ceil(page));
            for block in slot.table.iter().take(read) {
                let Some(read_in) = self.read_in.get_mut(index(block.0)) else { continue };
                pages += u32::from(*read_in != self.steps);
                *read_in = self.steps;
            }
        }
        Tokens::new(pages.saturating_mul(page))
    }

    /// How long the step takes, in real time.
    fn duration(&mut self, slots: &[BatchSlot<'_>]) -> Duration {
        let chunk = |slot: &BatchSlot<'_>| Chunk {
            before: Tokens::new(slot.start),
            length: Tokens::new(u32::try_from(slot.tokens.len()).unwrap_or(u32::MAX)),
            samples: slot.logits != Logits::None,
        };
        let mut batch: Batch = slots.iter().map(chunk).collect();
        if 0.0 < self.settings.profile.shared_reads {
            batch.share(self.distinct(slots));
        }
        self.settings.profile.step(&batch).div_f64(self.settings.speed)
    }

    /// What a step takes longer, in real time, after so much of it in which there was nothing to do.
    fn waking(&self, idle: Micros) -> Micros {
        let SimulatedSettings { profile, speed, .. } = &self.settings;
        let idle = Micros::from(Duration::from(idle).mul_f64(*speed));
        Micros::from(Duration::from(profile.waking(idle)).div_f64(*speed))
    }

    /// Waits until the step is over.
    #[expect(clippy::disallowed_methods, reason = "the wait stands for a GPU's work")]
    fn wait(&mut self, duration: Duration) {
        let took = Micros::from(duration);
        let now = self.settings.clock.now();
        let began = if now.since(self.ended) <= LAG_MAX.min(took) { self.ended } else { now };
        self.ended = began + took + self.waking(began.since(self.ended));
        let left = self.ended.since(now);
        if Micros::ZERO < left {
            std::thread::sleep(Duration::from(left));
        }
    }
}

impl Backend for SimulatedBackend {
    fn shape(&self) -> ModelShape {
        ModelShape {
            vocabulary: index(VOCABULARY),
            context: self.settings.context,
            blocks: self.settings.blocks,
            block_size: self.settings.block_size,
        }
    }

    fn forward(
        &mut self,
        batch: &[BatchSlot<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        let duration = self.duration(batch);
        logits.clear();
        // In the plan's order: who shares a page has a later slot.
        for slot in batch {
            self.write(slot)?;
            let end = index(slot.start) + slot.tokens.len();
            let first = match slot.logits {
                Logits::None => end,
                Logits::Last => end - 1,
                Logits::Every => index(slot.start),
            };
            for position in first..end {
                let known = self.pages[self.place(slot, position)?];
                self.row(known, logits);
            }
        }
        self.wait(duration);
        Ok(())
    }
}

/// A tokenizer that goes with it: a token of a prompt is a byte, one of an answer a word.
pub fn tokenizer() -> Tokenizer {
    Tokenizer::new(tokenizer_source()).expect("a vocabulary of bytes and words is sound")
}

/// The description of that tokenizer.
pub fn tokenizer_source() -> TokenizerSource {
    /// How vocabularies of pairs of bytes spell a space.
    const SPACE: &str = "\u{120}";
    let mut source = echo::tokenizer_source();
    source.tokens.extend(WORDS.map(|word| word.replace(' ', SPACE)));
    if let Some(kinds) = &mut source.token_types {
        kinds.extend(WORDS.map(|_| 1));
    }
    source
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("usize holds 32 bits")
}
