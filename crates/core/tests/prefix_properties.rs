//! Whatever is reported, routed and forgotten in whatever order, the prefix index says what its
//! literal twin says.

mod prefix_model;

use std::collections::BTreeMap;

use overdraft_core::prefix::{
    Chunks, GENERATIONS_MAX, Matches, PrefixIndex, PrefixKey, PrefixLimits,
};
use prefix_model::{Prompt, Step, WORKERS, World, knowledge, prompt, reported, step};
use proptest::prelude::*;

fn run(limits: PrefixLimits, steps: &[Step]) -> World {
    let mut world = World::new(PrefixIndex::new(limits));
    for step in steps {
        world.handle(step);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Holes, orphans, gaps, restarts, hints and salts included; after every event.
    #[test]
    fn the_index_equals_its_literal_twin(
        steps in prop::collection::vec((step(), prompt()), 1..80),
        prompts in prop::collection::vec(prompt(), 1..6),
    ) {
        let mut world = World::new(PrefixIndex::new(PrefixLimits::default()));
        let mut out = Matches::new();
        for (step, prompt) in &steps {
            world.handle(step);
            world.check(prompt, &mut out);
        }
        for prompt in &prompts {
            world.check(prompt, &mut out);
        }
    }

    /// An estimate is the top of the worker's own order of use: at most its capacity, and nothing
    /// that was used later than what was dropped is missing. What fits is dropped only if it may have
    /// taken more generations than there are.
    #[test]
    fn an_estimate_is_what_was_used_last(
        capacity in 1..40_u32,
        prompts in prop::collection::vec(prompt(), 1..60),
    ) {
        let mut world = World::new(PrefixIndex::new(PrefixLimits::default()));
        world.handle(&Step::Resized { worker: 0, capacity });
        let mut used: BTreeMap<PrefixKey, (usize, Vec<PrefixKey>)> = BTreeMap::new();
        let mut uses = 0;
        for prompt in &prompts {
            world.handle(&Step::Routed { worker: 0, prompt: prompt.clone(), later_s: 0 });
            let keys = prompt.keys();
            uses += keys.len().min(capacity as usize);
            for place in (0..keys.len().min(capacity as usize)).rev() {
                let stamp = used.values().map(|use_| use_.0).max().unwrap_or(0) + 1;
                used.insert(keys[place], (stamp, keys[..=place].to_vec()));
            }
            let mut out = Matches::new();
            let mut is_held = |chain: &[PrefixKey]| {
                world.index.lookup(chain, &mut out);
                out.leading(world.workers[0]).get() as usize == chain.len()
            };
            let (held, dropped): (Vec<_>, Vec<_>) =
                used.values().partition(|(_, chain)| is_held(chain));
            prop_assert!(held.len() <= capacity as usize);
            let first_held = held.iter().map(|use_| use_.0).min();
            let last_dropped = dropped.iter().map(|use_| use_.0).max();
            prop_assert!(last_dropped < first_held || dropped.is_empty());
            let capacity = capacity as usize;
            // Each ended with a sixteenth of the capacity new in it, or a quarter used.
            let ended = used.len() / capacity.div_ceil(16) + uses / capacity.div_ceil(4);
            prop_assert!(used.len() > capacity || dropped.is_empty() || ended >= GENERATIONS_MAX);
        }
    }

    /// A full index forgets, and says so; it never claims what its twin does not.
    #[test]
    fn a_full_index_stays_in_its_bounds(
        keys_max in 1..60_u32,
        steps in prop::collection::vec((reported(), prompt()), 1..60),
    ) {
        let mut world = World::new(PrefixIndex::new(PrefixLimits { keys_max }));
        let mut out = Matches::new();
        for (step, prompt) in &steps {
            world.handle(step);
            prop_assert!(world.index.memory().keys <= keys_max as usize);
            let chain = prompt.keys();
            world.index.lookup(&chain, &mut out);
            for (known, &worker) in world.known.iter().zip(&world.workers) {
                prop_assert!(out.leading(worker).get() <= known.leading(&chain));
                if knowledge(&world.index, worker) == "exact" {
                    prop_assert_eq!(out.leading(worker).get(), known.leading(&chain));
                }
            }
        }
    }

    /// Estimates share a full index without breaking its bound or their own order.
    #[test]
    fn estimates_make_room_for_each_other(
        keys_max in 1..200_u32,
        routed in prop::collection::vec((0..WORKERS, prompt()), 1..120),
    ) {
        let mut index = PrefixIndex::new(PrefixLimits { keys_max });
        let world = World::new(PrefixIndex::new(PrefixLimits { keys_max }));
        for (worker, prompt) in &routed {
            index.record_routed(world.workers[*worker], &prompt.keys(), world.now);
            prop_assert!(index.memory().keys <= keys_max as usize);
        }
        let sum: u32 = world.workers.iter().map(|&worker| index.routed(worker).get()).sum();
        prop_assert_eq!(u64::from(sum), index.memory().held);
    }

    /// Equal events give equal answers, and what is forgotten is cleared in the end.
    #[test]
    fn the_index_is_a_function_of_its_events(
        steps in prop::collection::vec(step(), 1..60),
        prompts in prop::collection::vec(prompt(), 1..8),
    ) {
        let (mut one, other) =
            (run(PrefixLimits::default(), &steps), run(PrefixLimits::default(), &steps));
        prop_assert_eq!(one.index.memory(), other.index.memory());
        for prompt in &prompts {
            prop_assert_eq!(look(&one, prompt), look(&other, prompt));
        }
        for worker in 0..WORKERS {
            one.handle(&Step::Left { worker });
        }
        for _ in 0..4 {
            one.index.tick(one.now);
        }
        prop_assert_eq!(one.index.memory().keys, 0);
        prop_assert_eq!(one.index.memory().held, 0);
    }
}

fn look(world: &World, prompt: &Prompt) -> Vec<(usize, Chunks)> {
    let mut out = Matches::new();
    world.index.lookup(&prompt.keys(), &mut out);
    out.iter().map(|(worker, chunks)| (worker.index(), chunks)).collect()
}
