//! What the scheduler tells of its cache adds up to what its cache holds.

mod batch_world;

use std::collections::BTreeMap;

use batch_world::{World, event, limits};
use overdraft_core::fleet::Fleet;
use overdraft_core::prefix::{
    BlockEvent, BlockName, Event as IndexEvent, EventFeed, Knowledge, Medium, PrefixIndex,
    PrefixLimits, StoredBlocks,
};
use overdraft_scheduler::batch::{
    Arrival, BatchLimits, Batching, CacheChange, Logits, Outcome, PageName, PageParent,
    PrefixReuse, Progress, Scheduler, StoredPages, Verdict,
};
use overdraft_units::{
    BlockSize, Blocks, CacheSalt, Instant, Priority, SequenceId, TokenId, Tokens,
};
use proptest::prelude::*;

/// What somebody believes who was told every change.
#[derive(Default)]
struct Believed {
    /// How many pages have a name, and what the name stands for.
    pages: BTreeMap<PageName, u32>,
    places: BTreeMap<PageName, (PageParent, Vec<TokenId>)>,
}

impl Believed {
    fn apply(&mut self, change: &CacheChange, limits: &BatchLimits) {
        match change {
            CacheChange::Stored(stored) => self.store(stored, limits),
            CacheChange::Removed(names) => {
                for name in names {
                    let count = self.pages.get_mut(name).expect("only what was stored goes");
                    *count -= 1;
                    if *count == 0 {
                        self.pages.remove(name);
                    }
                }
            }
            CacheChange::Lost => panic!("a step stores less than that"),
        }
    }

    fn store(&mut self, stored: &StoredPages, limits: &BatchLimits) {
        let size = limits.block_size.get() as usize;
        assert_eq!(stored.tokens.len(), stored.names.len() * size);
        let mut after = stored.after;
        for (&name, page) in stored.names.iter().zip(stored.tokens.chunks(size)) {
            if let PageParent::Page(parent) = after {
                assert!(self.pages.contains_key(&parent), "a parent is stored first");
            }
            let place = (after, page.to_vec());
            assert_eq!(*self.places.entry(name).or_insert_with(|| place.clone()), place);
            *self.pages.entry(name).or_default() += 1;
            after = PageParent::Page(name);
        }
    }

    fn names(&self) -> Vec<PageName> {
        let copies = |(&name, &count): (&PageName, &u32)| vec![name; count as usize];
        self.pages.iter().flat_map(copies).collect()
    }
}

/// The same, told to a feed in front of an index.
fn feed(feed: &mut EventFeed, change: &CacheChange, tell: impl FnMut(IndexEvent<'_>)) {
    let block_size = feed.block_size().get();
    let all = |names: &[PageName]| names.iter().map(|name| BlockName(name.0)).collect::<Vec<_>>();
    let medium = Medium::Device;
    match change {
        CacheChange::Stored(StoredPages { after, names, tokens }) => {
            let (parent, salt) = match *after {
                PageParent::Root(salt) => (None, salt),
                PageParent::Page(parent) => (Some(BlockName(parent.0)), CacheSalt(0)),
            };
            let (names, extras) = (&*all(names), &[][..]);
            let stored = StoredBlocks { parent, names, tokens, block_size, medium, salt, extras };
            assert_eq!(feed.handle(&BlockEvent::Stored(stored), tell), None);
        }
        CacheChange::Removed(names) => {
            feed.handle(&BlockEvent::Removed { names: &all(names), medium }, tell);
        }
        CacheChange::Lost => panic!("a step stores less than that"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// After every step, whatever was cancelled, preempted or lost; and an index that is fed with it
    /// knows the worker exactly.
    #[test]
    fn changes_add_up_to_what_can_be_found(
        limits in limits(),
        events in prop::collection::vec(event(), 1..100),
    ) {
        let mut world = World::new(limits);
        world.scheduler.listen_to_cache();
        let worker = Fleet::new().join(1).expect("a fleet has room for one");
        let mut index = PrefixIndex::new(PrefixLimits::default());
        let mut reports = EventFeed::new(limits.block_size);
        reports.restart(|event| index.handle(worker, event));
        let mut believed = Believed::default();
        for event in &events {
            world.handle(event);
            for change in world.scheduler.take_changes() {
                believed.apply(&change, &limits);
                feed(&mut reports, &change, |event| index.handle(worker, event));
            }
            prop_assert_eq!(believed.names(), world.scheduler.findable());
            prop_assert_eq!(index.reported(worker).get() as usize, believed.pages.len());
            prop_assert_eq!(index.knowledge(worker), Knowledge::Exact);
        }
    }

    /// Who does not listen is told nothing, and decides the same.
    #[test]
    fn listening_changes_no_decision(
        limits in limits(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let (mut one, mut other) = (World::new(limits), World::new(limits));
        other.scheduler.listen_to_cache();
        for event in &events {
            one.handle(event);
            other.handle(event);
            prop_assert!(one.scheduler.take_changes().is_empty());
        }
        one.drain();
        other.drain();
        prop_assert_eq!(one.trace, other.trace);
    }
}

#[test]
fn what_nobody_takes_is_lost_and_said_to_be() {
    let limits = BatchLimits {
        step_tokens: Tokens::new(20_000),
        running_max: 1,
        waiting_max: 1,
        blocks: Blocks::new(20_000),
        block_size: BlockSize::new(1).expect("one is a size"),
        context: Tokens::new(20_000),
        batching: Batching::Mixed,
    };
    let mut scheduler = Scheduler::new(limits);
    scheduler.listen_to_cache();
    let now = Instant::ORIGIN;
    for number in 0..5_u32 {
        let verdict = scheduler.handle_arrival(
            now,
            Arrival {
                sequence: SequenceId(u64::from(number)),
                prompt: (0..19_000).map(|place| TokenId(place * 8 + number)).collect(),
                output_max: Tokens::new(1),
                salt: CacheSalt(0),
                priority: Priority(0),
                reuse: PrefixReuse::Allowed,
                logits: Logits::Last,
            },
        );
        assert_eq!(verdict, Verdict::Queued);
        while !scheduler.is_idle() {
            let plan = scheduler.plan(now);
            let outcomes: Vec<_> = plan
                .slots
                .iter()
                .filter(|slot| slot.logits != Logits::None)
                .map(|slot| Outcome {
                    sequence: slot.sequence,
                    appended: vec![TokenId(0)],
                    progress: Progress::Finished,
                })
                .collect();
            scheduler.handle_step(now, &outcomes);
        }
    }
    assert_eq!(scheduler.take_changes(), [CacheChange::Lost]);
    assert!(scheduler.take_changes().is_empty());
}
