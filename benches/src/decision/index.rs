//! Cost of the prefix index: time and memory per block.

use overdraft_claims::as_float;
use overdraft_core::fleet::{Fleet, WorkerId};
use overdraft_core::prefix::{Chunks, Event, PrefixIndex, PrefixKey};
use overdraft_units::Instant;
use serde::Serialize;

use super::scene::{BLOCKS, LIMITS, WORKERS, nanoseconds, prompts};

/// Times that estimates are filled; the first fills them, the rest push others out.
const FILLS: usize = 3;

/// An index of reports.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Held {
    /// Blocks that one core takes in.
    pub(crate) per_second: f64,
    /// Memory for each pair of block and worker.
    pub(crate) bytes_per_block: f64,
}

/// An index of estimates at the workers' capacity.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Churn {
    pub(crate) per_second: f64,
    pub(crate) bytes_per_block: f64,
}

fn workers() -> Vec<WorkerId> {
    let mut fleet = Fleet::new();
    (0..WORKERS).map_while(|tag| fleet.join(u64::try_from(tag).ok()?)).collect()
}

/// A million blocks reported, the best of `rounds`.
pub(crate) fn reported(rounds: usize) -> Held {
    let (prompts, workers) = (prompts(), workers());
    let mut best = 0.0_f64;
    let mut bytes_per_block = f64::NAN;
    for _ in 0..rounds.min(5) {
        let mut index = PrefixIndex::new(LIMITS);
        let begun = nanoseconds();
        for (number, keys) in prompts.iter().enumerate() {
            let worker = workers[number % WORKERS];
            if number < WORKERS {
                index.handle(worker, Event::Cleared);
            }
            index.handle(worker, Event::Stored { parent: None, keys });
        }
        best = best.max(rate(prompts.len() * BLOCKS, begun));
        bytes_per_block = bytes(&index);
    }
    Held { per_second: best, bytes_per_block }
}

/// Twice as many blocks as fit, sent to workers that do not report; the best of `rounds`.
pub(crate) fn churned(rounds: usize) -> Churn {
    let (prompts, workers) = (prompts(), workers());
    let mut best = 0.0_f64;
    let mut index = PrefixIndex::new(LIMITS);
    for &worker in &workers {
        let room = u32::try_from(prompts.len() * BLOCKS / WORKERS).unwrap_or(u32::MAX);
        index.set_capacity(worker, Chunks::new(room));
    }
    for round in 0..FILLS.max(rounds.min(6)) {
        let begun = nanoseconds();
        fill(&mut index, (&prompts, &workers), round);
        best = best.max(rate(prompts.len() * BLOCKS, begun));
    }
    Churn { per_second: best, bytes_per_block: bytes(&index) }
}

/// Sends every prompt to another worker than the round before.
fn fill(
    index: &mut PrefixIndex,
    (prompts, workers): (&[Vec<PrefixKey>], &[WorkerId]),
    round: usize,
) {
    for (number, keys) in prompts.iter().enumerate() {
        let worker = workers[(number + round * 7) % WORKERS];
        index.record_routed(worker, keys, Instant::ORIGIN);
    }
}

fn rate(blocks: usize, begun: f64) -> f64 {
    as_float(blocks) / ((nanoseconds() - begun) / 1e9)
}

fn bytes(index: &PrefixIndex) -> f64 {
    let memory = index.memory();
    as_float(memory.bytes) / as_float(usize::try_from(memory.held).unwrap_or(usize::MAX))
}
