//! What holds of the scheduler whatever happens to it.

mod batch_world;

use batch_world::{Ask, Event, World, ask, event, limits};
use overdraft_scheduler::batch::BatchLimits;
use overdraft_units::{Blocks, Tokens};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Pages are conserved, nobody reads what was not computed for the very same prefix and salt,
    /// budgets hold, refusals change nothing, and once nothing more arrives everyone finishes.
    #[test]
    fn every_plan_is_sound_and_nobody_starves(
        limits in limits(),
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut world = World::new(limits);
        for event in &events {
            world.handle(event);
        }
        world.drain();
    }

    /// Plans are a function of the inputs.
    #[test]
    fn same_inputs_give_same_plans(
        limits in limits(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let (mut one, mut other) = (World::new(limits), World::new(limits));
        for event in &events {
            one.handle(event);
        }
        for event in &events {
            other.handle(event);
        }
        prop_assert_eq!(one.trace, other.trace);
        prop_assert!(one.scheduler == other.scheduler);
    }

    /// While nothing must be evicted, no shareable page is computed twice: who arrives while a
    /// prefill computes the same prefix waits for it.
    #[test]
    fn a_shared_prefix_is_computed_once(
        limits in limits(),
        asks in prop::collection::vec((ask(), 0..3_u64), 1..10),
    ) {
        // Ten times the longest sequence, with pages of one token.
        let (blocks, context) = (Blocks::new(640), Tokens::new(100));
        let mut world = World::new(BatchLimits { blocks, context, waiting_max: 100, ..limits });
        for (ask, steps) in asks {
            world.handle(&Event::Arrive(Ask { every: false, ..ask }));
            for _ in 0..steps {
                world.handle(&Event::Step(u64::MAX));
            }
        }
        world.drain();
        prop_assert!(world.computed.values().all(|times| *times == 1));
    }

    /// Equal prompts of which half want every logit meet on the same pages in the same steps, and
    /// still each reads only what earlier slots, or none, have written.
    #[test]
    fn slots_that_yield_every_logit_depend_on_no_other(
        limits in limits(),
        asks in prop::collection::vec((ask(), any::<bool>(), any::<u64>()), 1..60),
    ) {
        let mut world = World::new(BatchLimits { blocks: Blocks::new(60), ..limits });
        for (ask, every, seed) in asks {
            let ask = Ask { family: 0, shared: ask.shared.max(20), salt: 0, every, ..ask };
            world.handle(&Event::Arrive(ask));
            if seed % 3 < 2 {
                world.handle(&Event::Step(seed));
            }
        }
        world.drain();
    }
}
