//! Timings of our engine: decode and prefill.

use std::path::Path;

use anyhow::Result;
use overdraft_engine::BatchSlot;
use overdraft_engine::model::{KvBudget, Model, ModelSettings};
use overdraft_scheduler::batch::Logits;
use overdraft_telemetry::Clock;
use overdraft_units::{BlockId, Blocks, TokenId};

use super::{CONTEXT, Case, PREFILL, PREFIX, SEQUENCES};

/// Repeats of a decode; the best counts.
const REPEATS: usize = 12;
/// Tokens per page.
const PAGE: usize = 16;
/// Pages of a sequence: its context, and what a step adds.
const SEQUENCE_PAGES: usize = CONTEXT / PAGE + 2;
/// Pages that a shared prefix fills; its rest is in a page of each sequence.
const PREFIX_PAGES: usize = PREFIX / PAGE;

/// Our engine with a model whose sequences all hold some tokens.
pub(crate) struct Ours {
    model: Model,
    clock: Clock,
    tables: Vec<Vec<BlockId>>,
    shared: Vec<Vec<BlockId>>,
    spare: Vec<BlockId>,
    logits: Vec<f32>,
}

impl Ours {
    pub(crate) fn open(file: &Path, settings: &ModelSettings, clock: Clock) -> Result<Self> {
        let pages = SEQUENCES * (SEQUENCE_PAGES + 1) + PREFIX_PAGES + PREFILL / PAGE;
        let kv = KvBudget::Blocks(Blocks::new(u32::try_from(pages)?));
        let settings = ModelSettings { kv, ..settings.clone() };
        let model = Model::open(file, &settings)?;
        let pages: Vec<BlockId> = (0..u32::try_from(pages)?).map(BlockId).collect();
        let (own, others) = pages.split_at(SEQUENCES * SEQUENCE_PAGES);
        let (prefix, others) = others.split_at(PREFIX_PAGES);
        let (rests, spare) = others.split_at(SEQUENCES);
        let mut ours = Self {
            model,
            clock,
            tables: own.chunks(SEQUENCE_PAGES).map(<[BlockId]>::to_vec).collect(),
            shared: rests.iter().map(|rest| [prefix, &[*rest]].concat()).collect(),
            spare: spare.to_vec(),
            logits: Vec::new(),
        };
        for sequence in 0..SEQUENCES {
            let tokens: Vec<_> = (0..CONTEXT).map(|at| ours.token(sequence, at)).collect();
            let table = ours.tables[sequence].clone();
            ours.step(&[slot(&tokens, 0, &table, Logits::Last)])?;
        }
        ours.fill_shared()?;
        Ok(ours)
    }

    /// Computes the prefix once, and the rest of it that is not a whole page for each sequence.
    fn fill_shared(&mut self) -> Result<()> {
        let tokens: Vec<_> = (0..PREFIX).map(|at| self.token(88, at)).collect();
        for (sequence, table) in self.shared.clone().iter().enumerate() {
            let start = if sequence == 0 { 0 } else { PREFIX_PAGES * PAGE };
            self.step(&[slot(&tokens[start..], u32::try_from(start)?, table, Logits::Last)])?;
        }
        Ok(())
    }

    /// Seconds for one step.
    pub(crate) fn measure(&mut self, case: Case) -> Result<f64> {
        match case {
            Case::Prefill { tokens } => {
                let tokens: Vec<_> = (0..tokens).map(|at| self.token(77, at)).collect();
                let table = self.spare.clone();
                self.step(&[slot(&tokens, 0, &table, Logits::Last)])
            }
            Case::Decode { sequences, tokens } => {
                let tables = self.tables[..sequences].to_vec();
                self.decode(&tables, CONTEXT, tokens)
            }
            Case::Shared { sequences } => {
                let tables = self.shared[..sequences].to_vec();
                self.decode(&tables, PREFIX, 1)
            }
        }
    }

    /// The best of several steps of `tokens` after `start` for each of `tables`.
    fn decode(&mut self, tables: &[Vec<BlockId>], start: usize, tokens: usize) -> Result<f64> {
        let mut best = f64::INFINITY;
        for repeat in 0..REPEATS {
            let ids: Vec<Vec<TokenId>> = (0..tables.len())
                .map(|s| (0..tokens).map(|at| self.token(s, 1000 + 31 * repeat + at)).collect())
                .collect();
            let start = u32::try_from(start)?;
            let slots: Vec<_> = ids
                .iter()
                .zip(tables)
                .map(|(tokens, table)| slot(tokens, start, table, Logits::Every))
                .collect();
            best = best.min(self.step(&slots)?);
        }
        Ok(best)
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn step(&mut self, slots: &[BatchSlot<'_>]) -> Result<f64> {
        let start = self.clock.now();
        self.model.backend.forward(slots, &mut self.logits)?;
        Ok(self.clock.now().since(start).get() as f64 / 1e6)
    }

    /// The same tokens as `llama_peer.py` uses.
    fn token(&self, sequence: usize, position: usize) -> TokenId {
        let others = self.vocabulary().saturating_sub(5).max(1);
        let id = 5 + (position * 7919 + sequence * 104_729) % others;
        TokenId(u32::try_from(id).unwrap_or(0))
    }

    pub(crate) fn vocabulary(&self) -> usize {
        self.model.backend.shape().vocabulary
    }

    pub(crate) fn describe(&self) -> String {
        let info = &self.model.info;
        let millions = info.parameters / 1_000_000;
        format!("{} ({millions} M weights, {})", info.name, info.file_type)
    }

    pub(crate) fn step_bytes(&self) -> u64 {
        self.model.info.step_bytes
    }

    pub(crate) fn parameters(&self) -> u64 {
        self.model.info.parameters
    }
}

fn slot<'a>(
    tokens: &'a [TokenId],
    start: u32,
    table: &'a [BlockId],
    logits: Logits,
) -> BatchSlot<'a> {
    BatchSlot { tokens, start, table, logits }
}
