//! What the feed of engine events promises, one sentence per test.

use overdraft_core::fleet::{Fleet, WorkerId};
use overdraft_core::prefix::{
    BlockEvent, BlockName, BlockSizeMismatch, Chunking, Chunks, EventFeed, Knowledge, Matches,
    Medium, PrefixChain, PrefixIndex, PrefixLimits, Skipped, StoredBlocks, digest_of, salt_of,
    salt_with_adapter,
};
use overdraft_units::{BlockSize, CacheSalt, TokenId};

const PLAIN: CacheSalt = CacheSalt(0);

fn size() -> BlockSize {
    BlockSize::new(4).expect("four is a size")
}

fn tokens(from: u32, count: u32) -> Vec<TokenId> {
    (from..from + count).map(TokenId).collect()
}

struct World {
    feed: EventFeed,
    index: PrefixIndex,
    worker: WorkerId,
}

impl World {
    fn new() -> Self {
        let worker = Fleet::new().join(1).expect("a fleet has room for one");
        let index = PrefixIndex::new(PrefixLimits::default());
        let mut world = Self { feed: EventFeed::new(size()), index, worker };
        world.restart();
        world
    }

    fn restart(&mut self) {
        self.feed.restart(|event| self.index.handle(self.worker, event));
    }

    fn handle(&mut self, event: &BlockEvent<'_>) -> Option<BlockSizeMismatch> {
        self.feed.handle(event, |event| self.index.handle(self.worker, event))
    }

    /// Stores blocks with these names and tokens under the plain salt.
    fn store(&mut self, parent: Option<u64>, names: &[u64], tokens: &[TokenId]) {
        assert_eq!(self.handle(&stored(parent, &named(names), tokens)), None);
    }

    fn remove(&mut self, names: &[u64]) {
        let (names, medium) = (&*named(names), Medium::Device);
        self.handle(&BlockEvent::Removed { names, medium });
    }

    /// Leading blocks of a prompt that the worker holds.
    fn leading(&self, salt: CacheSalt, tokens: &[TokenId]) -> u32 {
        let mut chain = PrefixChain::new(salt, Chunking::Tokens(size()));
        chain.push_tokens(tokens);
        let mut out = Matches::new();
        self.index.lookup(chain.keys(), &mut out);
        out.leading(self.worker).get()
    }

    fn knowledge(&self) -> Knowledge {
        self.index.knowledge(self.worker)
    }
}

fn named(names: &[u64]) -> Vec<BlockName> {
    names.iter().copied().map(BlockName).collect()
}

fn stored<'a>(
    parent: Option<u64>,
    names: &'a [BlockName],
    tokens: &'a [TokenId],
) -> BlockEvent<'a> {
    BlockEvent::Stored(StoredBlocks {
        parent: parent.map(BlockName),
        names,
        tokens,
        block_size: size().get(),
        medium: Medium::Device,
        salt: PLAIN,
        extras: &[],
    })
}

#[test]
fn a_prompt_finds_what_the_engine_stored_under_names_of_its_own() {
    let mut world = World::new();
    world.store(None, &[71, 13], &tokens(0, 8));
    world.store(Some(13), &[99], &tokens(8, 4));
    assert_eq!(world.leading(PLAIN, &tokens(0, 16)), 3);
    assert_eq!(world.leading(CacheSalt(1), &tokens(0, 16)), 0);
    world.remove(&[99]);
    assert_eq!(world.leading(PLAIN, &tokens(0, 16)), 2);
    assert_eq!(world.knowledge(), Knowledge::Exact);
    world.restart();
    assert_eq!((world.leading(PLAIN, &tokens(0, 16)), world.feed.len()), (0, 0));
    assert_eq!(world.knowledge(), Knowledge::Exact);
}

#[test]
fn what_follows_an_unknown_block_is_skipped_and_said_to_be_missed() {
    let mut world = World::new();
    world.store(Some(5), &[6, 7], &tokens(4, 8));
    assert_eq!(world.knowledge(), Knowledge::Stale);
    assert_eq!(world.feed.skipped(), Skipped { unknown_parent: 2, ..Skipped::default() });
    world.store(Some(7), &[8], &tokens(12, 4));
    assert!(world.feed.is_empty(), "what follows it is unknown too");
    // What begins at the front is known all the same.
    world.store(None, &[9], &tokens(0, 4));
    assert_eq!(world.leading(PLAIN, &tokens(0, 4)), 1);
    world.restart();
    assert_eq!(world.knowledge(), Knowledge::Exact);
}

#[test]
fn a_block_held_twice_goes_with_its_last_copy() {
    let mut world = World::new();
    world.store(None, &[1], &tokens(0, 4));
    world.store(None, &[1, 2], &tokens(0, 8));
    world.remove(&[1]);
    assert_eq!(world.leading(PLAIN, &tokens(0, 8)), 2);
    world.remove(&[2, 1]);
    assert_eq!(world.leading(PLAIN, &tokens(0, 8)), 0);
    world.remove(&[1]);
    assert_eq!(world.knowledge(), Knowledge::Exact);
}

#[test]
fn a_name_given_to_another_content_leaves_the_first() {
    let mut world = World::new();
    world.store(None, &[1], &tokens(0, 4));
    world.store(None, &[1], &tokens(50, 4));
    assert_eq!(world.leading(PLAIN, &tokens(0, 4)), 0);
    assert_eq!(world.leading(PLAIN, &tokens(50, 4)), 1);
}

#[test]
fn what_lies_elsewhere_does_not_count_as_held() {
    let mut world = World::new();
    world.store(None, &[1], &tokens(0, 4));
    let (names, tokens_of) = (named(&[1, 2]), tokens(0, 8));
    let BlockEvent::Stored(blocks) = stored(None, &names, &tokens_of) else { unreachable!() };
    let medium = Medium::Elsewhere;
    world.handle(&BlockEvent::Stored(StoredBlocks { medium, ..blocks }));
    assert_eq!(world.leading(PLAIN, &tokens(0, 8)), 1);
    world.handle(&BlockEvent::Removed { names: &names, medium });
    assert_eq!(world.leading(PLAIN, &tokens(0, 8)), 1);
    assert_eq!(world.feed.skipped().elsewhere, 2);
    assert_eq!(world.knowledge(), Knowledge::Exact);
}

#[test]
fn another_block_size_is_told_once_and_never_matched() {
    let mut world = World::new();
    let (names, tokens_of) = (named(&[1]), tokens(0, 8));
    let BlockEvent::Stored(blocks) = stored(None, &names, &tokens_of) else { unreachable!() };
    let event = BlockEvent::Stored(StoredBlocks { block_size: 8, ..blocks });
    let mismatch = BlockSizeMismatch { found: 8, expected: size() };
    assert_eq!(world.handle(&event), Some(mismatch));
    assert_eq!(world.handle(&event), None);
    assert_eq!(world.leading(PLAIN, &tokens(0, 8)), 0);
    assert_eq!(world.knowledge(), Knowledge::Stale);
    assert_eq!(world.feed.skipped().block_size, 2);
}

#[test]
fn names_without_tokens_are_skipped() {
    let mut world = World::new();
    world.store(None, &[1, 2, 3], &tokens(0, 9));
    assert_eq!(world.leading(PLAIN, &tokens(0, 12)), 2);
    assert_eq!(world.feed.skipped().tokens_missing, 1);
    assert_eq!(world.knowledge(), Knowledge::Stale);
}

#[test]
fn salts_adapters_and_images_share_nothing() {
    let salts = [PLAIN, salt_of("a"), salt_of("b"), salt_with_adapter(PLAIN, "sql")];
    let more = [salt_with_adapter(salt_of("a"), "sql"), salt_of("sql"), salt_of("")];
    let salts = [&salts[..], &more[..]].concat();
    let mut world = World::new();
    for (place, &salt) in salts.iter().enumerate() {
        let (names, tokens_of) = (named(&[place as u64 * 2, place as u64 * 2 + 1]), tokens(0, 8));
        let BlockEvent::Stored(blocks) = stored(None, &names, &tokens_of) else { unreachable!() };
        for &earlier in &salts[place..] {
            assert_eq!(world.leading(earlier, &tokens_of), 0, "{place}");
        }
        world.handle(&BlockEvent::Stored(StoredBlocks { salt, ..blocks }));
        assert_eq!(world.leading(salt, &tokens_of), 2);
    }
    // An image in the second block keeps it, and what follows it, from the plain prompt.
    let mut world = World::new();
    let (names, tokens_of) = (named(&[1, 2, 3]), tokens(0, 12));
    let BlockEvent::Stored(blocks) = stored(None, &names, &tokens_of) else { unreachable!() };
    let extras = [0, digest_of(b"image")];
    world.handle(&BlockEvent::Stored(StoredBlocks { extras: &extras, ..blocks }));
    assert_eq!((world.feed.len(), world.leading(PLAIN, &tokens(0, 12))), (3, 1));
    assert_eq!(world.knowledge(), Knowledge::Exact);
}

#[test]
fn what_is_remembered_has_a_bound() {
    let mut world = World::new();
    world.feed.set_capacity(Chunks::new(8));
    let names: Vec<u64> = (0..20).collect();
    world.store(None, &names, &tokens(0, 80));
    assert_eq!(world.feed.len(), 16);
    assert_eq!(world.leading(PLAIN, &tokens(0, 80)), 16);
    assert_eq!(world.feed.skipped().full, 4);
    assert_eq!(world.knowledge(), Knowledge::Stale);
    // What is known already needs no room, and what goes makes some.
    world.store(None, &[0], &tokens(0, 4));
    world.remove(&[15]);
    world.store(Some(14), &[30], &tokens(60, 4));
    assert_eq!((world.feed.len(), world.leading(PLAIN, &tokens(0, 80))), (16, 16));
}

#[test]
fn a_name_costs_less_than_fifty_six_bytes() {
    let mut world = World::new();
    let names: Vec<u64> = (0..100_000).collect();
    let before = world.feed.bytes();
    for run in names.chunks(1_000) {
        let from = u32::try_from(run[0] * 4).expect("small");
        world.store(run[0].checked_sub(1), run, &tokens(from, 4_000));
    }
    assert_eq!(world.feed.len(), names.len());
    let each = (world.feed.bytes() - before) / names.len();
    assert!(each < 56, "{each} bytes");
}
