//! Draft model: proposes tokens for all sequences in batched passes.
//!
//! There is one pass per draft position, over all sequences that want a token there: after each
//! drafted token its pursuit decides whether another is worth a pass. The first pass prefills the
//! tokens that the model lacks, usually the one or two of the last step; a long backlog is
//! prefilled in chunks, and its sequence gets no drafts until that is done.

use std::collections::BTreeMap;

use overdraft_kernels::{Pool, greatest_probability};
use overdraft_scheduler::batch::{Logits, Scheduler};
use overdraft_scheduler::speculate::{Confidence, Fate, Pass, Pursuit};
use overdraft_units::{Micros, SequenceId, TokenId};

use super::View;
use super::pages::DraftPages;
use crate::backend::{Backend, BackendError, BatchSlot};
use crate::runtime::live::Live;
use crate::sample::Guess;

/// Maximum rows of the first pass, over all sequences with a backlog longer than the last step.
const CATCH_UP_ROWS: usize = 256;
/// Tokens that a step leaves to prefill: the last drafted one and the one after it.
const STEP_TOKENS: usize = 2;

/// A draft model with its cache.
pub(super) struct DraftModel {
    backend: Box<dyn Backend>,
    pages: DraftPages,
    vocabulary: usize,
    context: usize,
    logits: Vec<f32>,
    /// Reads confidences off logits: on the thread that asks.
    reader: Pool,
    /// Sequences whose guesses are being verified: known tokens, and guesses that were read.
    ahead: BTreeMap<SequenceId, (usize, usize)>,
    /// Passes since they were last asked for, and what each took.
    passes: Vec<(Pass, Micros)>,
}

/// A sequence that wants guesses; the places for as many as there may be are reserved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) sequence: SequenceId,
    pub(super) pursuit: Pursuit,
}

/// What was guessed for a sequence.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) sequence: SequenceId,
    /// To be verified.
    pub(super) guesses: Vec<Guess>,
    /// The next one, which is not worth it.
    pub(super) dropped: Option<Guess>,
    pursuit: Pursuit,
    /// Whether another is wanted.
    goes_on: bool,
}

/// A row of a pass.
#[derive(Debug)]
struct Row {
    sequence: SequenceId,
    tokens: Vec<TokenId>,
    start: usize,
    logits: Logits,
}

impl DraftModel {
    pub(super) fn new(backend: Box<dyn Backend>) -> Self {
        let shape = backend.shape();
        let small = |number: u32| usize::try_from(number).expect("usize holds 32 bits");
        Self {
            backend,
            pages: DraftPages::new(small(shape.blocks.get()), small(shape.block_size.get())),
            vocabulary: shape.vocabulary,
            context: small(shape.context.get()),
            logits: Vec::new(),
            reader: Pool::new(1),
            ahead: BTreeMap::new(),
            passes: Vec::new(),
        }
    }

    /// Positions it can attend over.
    pub(super) fn context(&self) -> usize {
        self.context
    }

    /// Tokens of a sequence that it would have to read.
    pub(super) fn backlog(&self, sequence: SequenceId, known: usize) -> usize {
        known.saturating_sub(self.pages.computed(sequence))
    }

    /// The passes since the last call, and what each took, drawing included.
    pub(super) fn take_passes(&mut self) -> Vec<(Pass, Micros)> {
        core::mem::take(&mut self.passes)
    }

    /// Guesses for all who ask and are not too far behind.
    ///
    /// # Errors
    /// [`BackendError`] when the device fails; nothing that was read is trusted.
    pub(super) fn draft(
        &mut self,
        asked: &[Asked],
        view: &mut View<'_>,
    ) -> Result<Vec<Draft>, BackendError> {
        let drafted = self.try_draft(asked, view);
        if drafted.is_err() {
            for asked in asked {
                self.forget(asked.sequence);
            }
        }
        drafted
    }

    fn try_draft(
        &mut self,
        asked: &[Asked],
        view: &mut View<'_>,
    ) -> Result<Vec<Draft>, BackendError> {
        self.ahead.clear();
        self.passes.clear();
        let first = self.first_rows(asked, view.scheduler);
        let began = view.clock.now();
        self.compute(&first, view.scheduler)?;
        for row in &first {
            self.pages.note_computed(row.sequence, row.start + row.tokens.len());
        }
        let mut drafts = Self::begin(&first, asked);
        for (place, draft) in drafts.iter_mut().enumerate() {
            self.extend(draft, view.live, place);
        }
        self.note_pass(&first, view.clock.now().since(began));
        loop {
            let rows = Self::next_rows(&drafts, view.scheduler);
            if rows.is_empty() {
                break;
            }
            let began = view.clock.now();
            self.compute(&rows, view.scheduler)?;
            for (place, draft) in drafts.iter_mut().filter(|draft| draft.goes_on).enumerate() {
                self.extend(draft, view.live, place);
            }
            self.note_pass(&rows, view.clock.now().since(began));
        }
        for Draft { sequence, guesses, dropped, .. } in &drafts {
            let known = view.scheduler.tokens(*sequence).len();
            // The last guess was read only where another was made of it.
            let read = if dropped.is_some() { guesses.len() } else { guesses.len().max(1) - 1 };
            self.ahead.insert(*sequence, (known, read));
        }
        Ok(drafts)
    }

    /// An empty draft for each row that yields a guess.
    fn begin(first: &[Row], asked: &[Asked]) -> Vec<Draft> {
        let pursuits: BTreeMap<SequenceId, Pursuit> =
            asked.iter().map(|asked| (asked.sequence, asked.pursuit)).collect();
        let read = first.iter().filter(|row| row.logits == Logits::Last);
        let draft = |row: &Row| {
            let pursuit = *pursuits.get(&row.sequence)?;
            let (sequence, goes_on) = (row.sequence, true);
            Some(Draft { sequence, guesses: Vec::new(), dropped: None, pursuit, goes_on })
        };
        read.filter_map(draft).collect()
    }

    /// Takes the guess of the row at `place`, and what becomes of it. Behind the end of a completion none is made.
    fn extend(&mut self, draft: &mut Draft, live: &mut BTreeMap<SequenceId, Live>, place: usize) {
        draft.goes_on = false;
        let ahead = draft.guesses.len();
        let row = self.logits.chunks_exact_mut(self.vocabulary).nth(place);
        let (Some(row), Some(live)) = (row, live.get_mut(&draft.sequence)) else { return };
        // None where the row has no number.
        let Ok(mut guess) = live.sampler.guess(row, ahead as u64) else { return };
        if draft.pursuit.asks() {
            guess.confidence = Some(Confidence::of(greatest_probability(row, &self.reader)));
        }
        let fate = draft.pursuit.follow(ahead, guess.confidence, guess.from.is_some());
        if fate == Fate::Drop {
            draft.dropped = Some(guess);
            return;
        }
        draft.goes_on = fate == Fate::GoOn && !live.would_end(guess.token, ahead);
        draft.guesses.push(guess);
    }

    /// What has not been read, those with the least first.
    fn first_rows(&mut self, asked: &[Asked], scheduler: &Scheduler) -> Vec<Row> {
        let mut missing = Vec::with_capacity(asked.len());
        for Asked { sequence, .. } in asked {
            let tokens = scheduler.tokens(*sequence);
            let computed = self.pages.look(*sequence, tokens, scheduler.block_table(*sequence));
            missing.push((tokens.len() - computed, *sequence, computed));
        }
        missing.sort_unstable();
        let mut budget = CATCH_UP_ROWS;
        let mut rows = Vec::with_capacity(missing.len());
        for (count, sequence, start) in missing {
            let most = if count <= STEP_TOKENS { count } else { budget.min(count) };
            if most == 0 {
                continue;
            }
            budget -= most.min(budget);
            let tokens = scheduler.tokens(sequence)[start..start + most].to_vec();
            let logits = if most == count { Logits::Last } else { Logits::None };
            rows.push(Row { sequence, tokens, start, logits });
        }
        rows
    }

    /// The newest guess of each sequence that wants another.
    fn next_rows(drafts: &[Draft], scheduler: &Scheduler) -> Vec<Row> {
        let row = |draft: &Draft| {
            let start = scheduler.tokens(draft.sequence).len() + draft.guesses.len() - 1;
            let tokens = vec![draft.guesses.last()?.token];
            Some(Row { sequence: draft.sequence, tokens, start, logits: Logits::Last })
        };
        drafts.iter().filter(|draft| draft.goes_on).filter_map(row).collect()
    }

    /// A pass took so long, drawing included.
    fn note_pass(&mut self, rows: &[Row], took: Micros) {
        let mut pass = Pass::default();
        for row in rows {
            let length = u32::try_from(row.tokens.len()).unwrap_or(u32::MAX);
            if STEP_TOKENS < row.tokens.len() {
                pass.reading += length;
            } else {
                pass.guessing += 1;
                pass.second += length.saturating_sub(1);
            }
        }
        if !rows.is_empty() {
            self.passes.push((pass, took));
        }
    }

    fn compute(&mut self, rows: &[Row], scheduler: &Scheduler) -> Result<(), BackendError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut batch = Vec::with_capacity(rows.len());
        for row in rows {
            let table = scheduler.block_table(row.sequence);
            let end = row.start + row.tokens.len();
            self.pages.write(row.sequence, table, row.start, end);
            let start = u32::try_from(row.start).expect("contexts fit 32 bits");
            batch.push(BatchSlot { tokens: &row.tokens, start, table, logits: row.logits });
        }
        self.backend.forward(&batch, &mut self.logits)?;
        let wanted = rows.iter().filter(|row| row.logits == Logits::Last).count();
        let (found, expected) = (self.logits.len(), wanted * self.vocabulary);
        if found == expected {
            return Ok(());
        }
        Err(BackendError { reason: format!("it gave `{found}` logits; expected {expected}") })
    }

    /// The first so many guesses were right: what was read of them stays read.
    pub(super) fn note_right(&mut self, sequence: SequenceId, right: usize) {
        if let Some((known, read)) = self.ahead.remove(&sequence) {
            self.pages.note_computed(sequence, known + right.min(read));
        }
    }

    pub(super) fn forget(&mut self, sequence: SequenceId) {
        self.pages.forget(sequence);
        self.ahead.remove(&sequence);
    }
}
