//! Scorers of the llm-d router in the weights of its precise-prefix example: prefix 2, KV cache 1, queue 1.
//!
//! Each scorer gives a worker a number between 0 and 1, and the greatest weighted sum wins; equals are
//! drawn from. The cache and queue scorers read what was last scraped of a worker. Where the cache is
//! known by its events, the prefix scorer spreads the matches between the least and the greatest; where
//! it is estimated, it gives the matched share of the prompt's first 256 blocks of 16 tokens, which is
//! all that the estimate looks at.

use overdraft_units::Tokens;

use super::drawn;
use crate::fleet::WorkerId;
use crate::prefix::Knowledge;
use crate::route::candidate::{Candidate, Decision};
use crate::route::decision_scene::Scene;

/// What a scorer gives at most.
const WHOLE: u64 = 1_000_000;
const PREFIX_WEIGHT: u64 = 2;
/// `maxPrefixBlocksToMatch`, 256, times 16 tokens to a block.
const ESTIMATED_TOKENS_MAX: u32 = 256 * 16;

pub(in crate::route) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    let waiting = |one: &Candidate| {
        let scraped = scene.fleet.worker(one.worker).scraped();
        scraped.map_or(0, |scraped| u64::from(scraped.waiting))
    };
    let matched = |one: &Candidate| u64::from(one.cached.get());
    let queues = Range::of(decision.open().map(waiting))?;
    let matches = Range::of(decision.open().map(matched))?;
    for candidate in decision.open_mut() {
        let prefix = if is_exact(scene, candidate.worker) {
            matches.place(matched(candidate))
        } else {
            estimated(scene.ask.prompt, candidate.cached)
        };
        let scraped = scene.fleet.worker(candidate.worker).scraped();
        let used = scraped.and_then(|scraped| scraped.kv_use_permille).unwrap_or(0);
        let cache = WHOLE.saturating_sub(u64::from(used) * WHOLE / 1_000);
        let queue = WHOLE - queues.place(waiting(candidate));
        let queue = if queues.is_flat() { WHOLE } else { queue };
        candidate.score = PREFIX_WEIGHT * prefix + cache + queue;
    }
    let best = decision.open().map(|one| one.score).max()?;
    drawn(scene, decision, |one| one.score == best)
}

fn is_exact(scene: &Scene<'_>, worker: WorkerId) -> bool {
    let knowledge = scene.prefix.map(|prefix| prefix.index.knowledge(worker));
    matches!(knowledge, Some(Knowledge::Exact | Knowledge::Stale))
}

/// The matched share of what the estimate looks at.
fn estimated(prompt: Tokens, cached: Tokens) -> u64 {
    let seen = prompt.get().clamp(1, ESTIMATED_TOKENS_MAX);
    u64::from(cached.get().min(seen)) * WHOLE / u64::from(seen)
}

/// The least and the greatest of what candidates have.
#[derive(Clone, Copy, Debug)]
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    fn of(values: impl Iterator<Item = u64>) -> Option<Self> {
        values.fold(None, |range, value| {
            let Self { least, most } = range.unwrap_or(Self { least: value, most: value });
            Some(Self { least: least.min(value), most: most.max(value) })
        })
    }

    const fn is_flat(self) -> bool {
        self.least == self.most
    }

    /// Where a value lies between the two, 0 for the least.
    const fn place(self, value: u64) -> u64 {
        if self.is_flat() {
            return 0;
        }
        (value - self.least) * WHOLE / (self.most - self.least)
    }
}
