//! Capacity estimate: requests a second that a fleet can answer, from step costs, without a run.
//!
//! It only says where on the scale from idle to overloaded a draw lies, so a fifth more or less does not matter.

use anyhow::Result;
use overdraft_gpu_model::{Batch, Catalogue, Chunk, Profile};
use overdraft_sim::workload::Session;
use overdraft_units::Tokens;
use std::collections::BTreeSet;

use crate::figures::{float, length, whole, whole32};
use crate::world::World;

/// Share of what could be found in caches that a fleet does find, about.
const FOUND: f64 = 0.9;
/// What a fleet does of what its steps would allow: batches are not always full.
const DONE: f64 = 0.85;
/// The part of a worker's cache that prefixes nobody runs on keep.
const KEPT: f64 = 0.5;

/// A load as far as capacity depends on it, by the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) prompt: f64,
    pub(crate) output: f64,
    /// Tokens of prompts that came nowhere before.
    pub(crate) fresh: f64,
    /// Tokens of the longest prompt with its answer.
    pub(crate) most: f64,
    /// Tokens of all that comes twice.
    pub(crate) shared: f64,
    /// Requests.
    pub(crate) count: u64,
    /// Seconds from the first beginning to the last.
    pub(crate) span: f64,
}

impl Shape {
    /// Of these sessions.
    pub(crate) fn of(sessions: &[Session]) -> Self {
        let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
        let (mut prompt, mut output, mut fresh, mut shared) = (0_u64, 0_u64, 0_u64, 0_u64);
        let (mut most, mut count) = (0_u32, 0_u64);
        for turn in sessions.iter().flat_map(|session| &session.turns) {
            count += 1;
            output += u64::from(turn.answer.tokens.get());
            let tokens = turn.prompt_tokens().get();
            prompt += u64::from(tokens);
            most = most.max(tokens + turn.answer.tokens.get());
            for piece in &turn.prompt {
                let tokens = u64::from(piece.tokens.get());
                if seen.insert(piece.content) {
                    fresh += tokens;
                } else if twice.insert(piece.content) {
                    shared += tokens;
                }
            }
            // The answer will stand in the prompt of the next turn, and a worker has it then.
            seen.insert(turn.answer.content);
        }
        let mean = |sum: u64| float(sum) / float(count.max(1));
        let first = sessions.first().map(|session| session.at);
        let last = sessions.last().map(|session| session.at);
        let span =
            first.zip(last).map_or(0.0, |(first, last)| float(last.since(first).get()) / 1e6);
        Self {
            prompt: mean(prompt),
            output: mean(output),
            fresh: mean(fresh),
            most: f64::from(most),
            shared: float(shared),
            count,
            span,
        }
    }
}

/// Requests a second that the world's fleet answers of such a load, about.
pub(crate) fn requests_per_second(world: &World, shape: Shape) -> Result<f64> {
    let catalogue = Catalogue::builtin();
    let mut pools = Vec::new();
    for machines in &world.fleet {
        let profile = catalogue.find(&machines.profile)?;
        let kept = match world.kv_tokens {
            Some(tokens) => tokens,
            None => profile.kv_tokens()?.get(),
        };
        pools.push((machines.count, profile, f64::from(kept)));
    }
    let kept: f64 = pools.iter().map(|(count, _, kept)| f64::from(*count) * kept * KEPT).sum();
    // What does not fit all caches is found in part.
    let fits = (kept / shape.shared.max(1.0)).min(1.0);
    let found = (shape.prompt - shape.fresh).max(0.0) * FOUND * fits;
    let of = |(count, profile, kept): &(u32, Profile, f64)| {
        f64::from(*count) / seconds_each(profile, *kept, shape, found)
    };
    Ok(DONE * pools.iter().map(of).sum::<f64>())
}

/// Seconds of a worker that a request takes.
fn seconds_each(profile: &Profile, kept: f64, shape: Shape, found: f64) -> f64 {
    let computed = (shape.prompt - found).max(1.0);
    let resident = computed + shape.output / 2.0;
    let running = (kept / resident).floor().clamp(1.0, f64::from(profile.running_max));
    let context = Tokens::new(whole32(shape.prompt + shape.output / 2.0));
    let chunk = |before, length, samples| Chunk { before, length, samples };
    let step = profile.step_tokens;
    let half = Tokens::new(whole32(shape.prompt / 2.0));
    let prefill = seconds(profile, [chunk(half, step, false)]) / f64::from(step.get());
    let decode = chunk(context, Tokens::new(1), true);
    let telling = seconds(profile, std::iter::repeat_n(decode, whole(running)));
    computed * prefill + shape.output * telling / running
}

fn seconds(profile: &Profile, chunks: impl IntoIterator<Item = Chunk>) -> f64 {
    let batch: Batch = chunks.into_iter().collect();
    profile.step(&batch).as_secs_f64().max(1e-9)
}

/// Workers of the fleet.
pub(crate) fn workers(world: &World) -> u64 {
    length(world.fleet.iter().map(|one| usize::try_from(one.count).unwrap_or(0)).sum())
}
