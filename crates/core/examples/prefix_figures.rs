//! Cost of the prefix index. Prints the figures of `docs/design/prefix.md`.
//!
//! A fleet of 64 workers: all hold a common system prompt, each holds conversations of its own, up
//! to a million blocks in total. Run with `cargo run --release -p overdraft-core --example
//! prefix_figures`.
#![expect(clippy::print_stdout, reason = "printing figures is what it is for")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]
#![expect(clippy::disallowed_methods, reason = "it measures, so it needs a clock")]

use std::time::Instant;

use overdraft_core::fleet::{Fleet, WorkerId};
use overdraft_core::prefix::{
    Chunking, Chunks, Event, Matches, PrefixChain, PrefixIndex, PrefixKey, PrefixLimits,
};
use overdraft_units::{BlockSize, CacheSalt, TokenId};

const WORKERS: usize = 64;
/// Blocks of 16 tokens in a prompt of 8k tokens.
const BLOCKS: usize = 512;
/// Blocks of the system prompt that all share.
const COMMON: usize = 128;
const PROMPTS: usize = 2_560;

fn main() {
    let mut fleet = Fleet::new();
    let workers: Vec<WorkerId> = (0..WORKERS).map_while(|_| fleet.join(1)).collect();
    let prompts: Vec<Vec<PrefixKey>> = (0..PROMPTS).map(prompt).collect();
    hashing();
    let index = insertion(&workers, &prompts);
    lookups(&index, &prompts);
    estimates(&workers, &prompts);
}

/// A prompt whose first blocks are everybody's.
fn prompt(number: usize) -> Vec<PrefixKey> {
    let size = BlockSize::new(16).expect("sixteen is not zero");
    let mut chain = PrefixChain::new(CacheSalt(1), Chunking::Tokens(size));
    for place in 0..BLOCKS * 16 {
        let own = if place < COMMON * 16 { 0 } else { number * 31 };
        chain.push_tokens(&[TokenId(u32::try_from(place + own).unwrap_or(0))]);
    }
    chain.keys().to_vec()
}

fn hashing() {
    let tokens: Vec<TokenId> = (0..8_192).map(TokenId).collect();
    let size = BlockSize::new(16).expect("sixteen is not zero");
    let rounds = 2_000;
    let start = Instant::now();
    for salt in 0..rounds {
        let mut chain = PrefixChain::new(CacheSalt(salt), Chunking::Tokens(size));
        chain.push_tokens(&tokens);
        std::hint::black_box(chain.keys());
    }
    let each = start.elapsed().as_secs_f64() / rounds as f64;
    println!("chain of 8,192 tokens: {:.1} us", each * 1e6);
}

fn insertion(workers: &[WorkerId], prompts: &[Vec<PrefixKey>]) -> PrefixIndex {
    let mut index = PrefixIndex::new(PrefixLimits { keys_max: 2 << 20 });
    let start = Instant::now();
    for (number, keys) in prompts.iter().enumerate() {
        let worker = workers[number % WORKERS];
        index.handle(worker, Event::Stored { parent: None, keys });
    }
    let spent = start.elapsed().as_secs_f64();
    let blocks = prompts.len() * BLOCKS;
    println!("reported: {:.2} M blocks inserted a second", blocks as f64 / spent / 1e6);
    print_memory(&index);
    index
}

fn print_memory(index: &PrefixIndex) {
    let memory = index.memory();
    println!(
        "  {} keys, {} held, {:.1} MB, {:.1} bytes per block held",
        memory.keys,
        memory.held,
        memory.bytes as f64 / 1e6,
        memory.bytes as f64 / memory.held as f64
    );
}

fn lookups(index: &PrefixIndex, prompts: &[Vec<PrefixKey>]) {
    let half: Vec<Vec<PrefixKey>> = prompts
        .iter()
        .map(|keys| {
            let mut keys = keys.clone();
            let fresh = prompt(1_000_000);
            keys[BLOCKS / 2..].copy_from_slice(&fresh[BLOCKS / 2..]);
            keys
        })
        .collect();
    let miss: Vec<Vec<PrefixKey>> = vec![prompt(2_000_000)];
    for (name, chains) in
        [("all of it held by one", prompts), ("half of it", &half), ("the common part", &miss)]
    {
        let mut out = Matches::new();
        let rounds = 100_000;
        let start = Instant::now();
        for round in 0..rounds {
            // A stride that visits all, so that the next is never the one just seen.
            index.lookup(&chains[round * 797 % chains.len()], &mut out);
            std::hint::black_box(&out);
        }
        let each = start.elapsed().as_secs_f64() / rounds as f64;
        println!("lookup, 512 blocks, 64 workers, {name}: {:.2} us", each * 1e6);
    }
}

fn estimates(workers: &[WorkerId], prompts: &[Vec<PrefixKey>]) {
    let mut index = PrefixIndex::new(PrefixLimits { keys_max: 2 << 20 });
    for &worker in workers {
        index.set_capacity(worker, Chunks::new(13_568));
    }
    let rounds = 4;
    let start = Instant::now();
    for round in 0..rounds {
        for (number, keys) in prompts.iter().enumerate() {
            let worker = workers[(number + round * 7) % WORKERS];
            index.record_routed(worker, keys, overdraft_units::Instant::ORIGIN);
        }
    }
    let spent = start.elapsed().as_secs_f64();
    let blocks = rounds * prompts.len() * BLOCKS;
    println!("routed: {:.2} M blocks recorded a second", blocks as f64 / spent / 1e6);
    print_memory(&index);
}
