//! What does the draft model guess?
//!
//! One pass for each place of a draft, over all sequences that want one there. The first pass reads
//! what the model has not read yet, usually the one or two tokens of the last step; a long backlog is
//! read in chunks, and its sequence gets no guesses until it is through.

use std::collections::BTreeMap;

use overdraft_core::batch::{Logits, Scheduler};
use overdraft_units::{Micros, SequenceId, TokenId};

use super::View;
use super::pages::DraftPages;
use crate::backend::{Backend, BackendError, BatchSlot};
use crate::runtime::live::Live;
use crate::sample::Guess;

/// Rows of the first pass at most, over all sequences that have more to read than the last step.
const CATCH_UP_ROWS: usize = 256;
/// Tokens that a step leaves to be read: the last draft, which was not, and the one after it.
const STEP_TOKENS: usize = 2;

/// A draft model with its cache.
pub(super) struct DraftModel {
    backend: Box<dyn Backend>,
    pages: DraftPages,
    vocabulary: usize,
    context: usize,
    logits: Vec<f32>,
    /// Sequences whose guesses are being verified: known tokens, and guesses that were read.
    ahead: BTreeMap<SequenceId, (usize, usize)>,
    measured: Measured,
}

/// What passes took.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Each that only guessed, by its rows.
    pub(super) passes: Vec<(u32, Micros)>,
    /// All of them, as far as they read a backlog.
    pub(super) reading: Micros,
}

/// A sequence that wants so many guesses; the places for them are reserved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) sequence: SequenceId,
    pub(super) depth: usize,
}

/// A row of a pass.
#[derive(Debug)]
struct Row {
    sequence: SequenceId,
    tokens: Vec<TokenId>,
    start: usize,
    logits: Logits,
}

type Drafted = Vec<(SequenceId, Vec<Guess>)>;

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
            ahead: BTreeMap::new(),
            measured: Measured::default(),
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

    /// What passes took since the last call.
    pub(super) fn take_measured(&mut self) -> Measured {
        core::mem::take(&mut self.measured)
    }

    /// Guesses for all who ask and are not too far behind.
    ///
    /// # Errors
    /// [`BackendError`] when the device fails; nothing that was read is trusted.
    pub(super) fn draft(
        &mut self,
        asked: &[Asked],
        view: &mut View<'_>,
    ) -> Result<Drafted, BackendError> {
        let drafted = self.try_draft(asked, view);
        if drafted.is_err() {
            for asked in asked {
                self.forget(asked.sequence);
            }
        }
        drafted
    }

    fn try_draft(&mut self, asked: &[Asked], view: &mut View<'_>) -> Result<Drafted, BackendError> {
        self.ahead.clear();
        let first = self.first_rows(asked, view.scheduler);
        let mut drafted: Drafted = Vec::new();
        let began = view.clock.now();
        self.compute(&first, view.scheduler)?;
        for row in &first {
            self.pages.note_computed(row.sequence, row.start + row.tokens.len());
        }
        let read: Vec<_> = first.iter().filter(|row| row.logits == Logits::Last).collect();
        for (place, row) in read.into_iter().enumerate() {
            if let Some(guess) = self.guess(view.live, row.sequence, (place, 0)) {
                drafted.push((row.sequence, vec![guess]));
            }
        }
        self.note_pass(&first, view.clock.now().since(began));
        let depths: BTreeMap<SequenceId, usize> =
            asked.iter().map(|asked| (asked.sequence, asked.depth)).collect();
        let deepest = depths.values().copied().max().unwrap_or(0);
        for ahead in 1..deepest {
            let rows = Self::next_rows(&drafted, &depths, ahead, view.scheduler);
            if rows.is_empty() {
                break;
            }
            let began = view.clock.now();
            self.compute(&rows, view.scheduler)?;
            for (place, row) in rows.iter().enumerate() {
                let guess = self.guess(view.live, row.sequence, (place, ahead));
                let entry = drafted.iter_mut().find(|(sequence, _)| *sequence == row.sequence);
                if let (Some(guess), Some((_, guesses))) = (guess, entry) {
                    guesses.push(guess);
                }
            }
            self.note_pass(&rows, view.clock.now().since(began));
        }
        for (sequence, guesses) in &drafted {
            let known = view.scheduler.tokens(*sequence).len();
            self.ahead.insert(*sequence, (known, guesses.len() - 1));
        }
        Ok(drafted)
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
    fn next_rows(
        drafted: &Drafted,
        depths: &BTreeMap<SequenceId, usize>,
        ahead: usize,
        scheduler: &Scheduler,
    ) -> Vec<Row> {
        let wants = |entry: &&(SequenceId, Vec<Guess>)| {
            ahead < depths.get(&entry.0).copied().unwrap_or(0) && entry.1.len() == ahead
        };
        let row = |(sequence, guesses): &(SequenceId, Vec<Guess>)| {
            let start = scheduler.tokens(*sequence).len() + ahead - 1;
            let tokens = vec![guesses.last()?.token];
            Some(Row { sequence: *sequence, tokens, start, logits: Logits::Last })
        };
        drafted.iter().filter(wants).filter_map(row).collect()
    }

    /// A pass took so long, drawing included; one that reads a backlog is no measure of the next.
    fn note_pass(&mut self, rows: &[Row], took: Micros) {
        let count = |long: bool| -> u64 {
            let rows = rows.iter().map(|row| row.tokens.len());
            rows.filter(|length| long == (STEP_TOKENS < *length)).sum::<usize>() as u64
        };
        let (guessing, reading) = (count(false), count(true));
        let Some(part) = (took.get() * reading).checked_div(guessing + reading) else { return };
        self.measured.reading += Micros::new(part);
        if reading == 0 {
            self.measured.passes.push((u32::try_from(guessing).unwrap_or(u32::MAX), took));
        }
    }

    fn compute(&mut self, rows: &[Row], scheduler: &Scheduler) -> Result<(), BackendError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut batch = Vec::with_capacity(rows.len());
        for row in rows {
            let table = scheduler.block_table(row.sequence);
            self.pages.write(table, row.start, row.start + row.tokens.len());
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

    /// A guess from the row at `place`, so many places `ahead`; none where the row has no number.
    fn guess(
        &mut self,
        live: &mut BTreeMap<SequenceId, Live>,
        sequence: SequenceId,
        (place, ahead): (usize, usize),
    ) -> Option<Guess> {
        let row = self.logits.chunks_exact_mut(self.vocabulary).nth(place)?;
        live.get_mut(&sequence)?.sampler.guess(row, ahead as u64).ok()
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
