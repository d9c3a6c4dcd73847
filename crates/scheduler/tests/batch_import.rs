//! Pages that came from elsewhere: found like computed ones, and never at the expense of who runs.

use overdraft_scheduler::batch::{
    Arrival, BatchLimits, Batching, Import, Logits, Outcome, PrefixReuse, Progress, Scheduler,
    Verdict,
};
use overdraft_units::{
    BlockSize, Blocks, CacheSalt, Instant, Priority, SequenceId, TokenId, Tokens,
};

const SALT: CacheSalt = CacheSalt(1);

fn scheduler(blocks: u32) -> Scheduler {
    Scheduler::new(BatchLimits {
        step_tokens: Tokens::new(64),
        running_max: 4,
        waiting_max: 4,
        blocks: Blocks::new(blocks),
        block_size: BlockSize::new(4).expect("four is not zero"),
        context: Tokens::new(64),
        batching: Batching::Mixed,
    })
}

fn tokens(count: u32) -> Vec<TokenId> {
    (0..count).map(TokenId).collect()
}

/// Arrives and is planned once; how many of its tokens were in the cache.
fn cached(scheduler: &mut Scheduler, salt: CacheSalt, length: u32) -> u32 {
    let arrival = Arrival {
        sequence: SequenceId(7),
        prompt: tokens(length),
        output_max: Tokens::new(1),
        salt,
        priority: Priority(0),
        reuse: PrefixReuse::Allowed,
        logits: Logits::Last,
    };
    assert_eq!(scheduler.handle_arrival(Instant::ORIGIN, arrival), Verdict::Queued);
    scheduler.plan(Instant::ORIGIN);
    let found = scheduler.cached(SequenceId(7)).get();
    let sequence = SequenceId(7);
    let last = Outcome { sequence, appended: vec![TokenId(9)], progress: Progress::Finished };
    scheduler.handle_step(Instant::ORIGIN, &[last]);
    scheduler.audit();
    found
}

/// Imports these pages of the first twenty tokens; which were asked for.
fn import(scheduler: &mut Scheduler, pages: std::ops::Range<usize>, written: usize) -> Vec<usize> {
    let tokens = tokens(20);
    let planned = scheduler.plan_import(&Import { salt: SALT, tokens: &tokens, pages });
    scheduler.audit();
    if !planned.is_empty() {
        scheduler.handle_import(written);
    }
    scheduler.audit();
    planned.into_iter().map(|page| page.number).collect()
}

#[test]
fn what_was_written_is_found_under_its_salt_and_nothing_else_is() {
    let mut scheduler = scheduler(16);
    assert_eq!(import(&mut scheduler, 0..3, 3), [0, 1, 2]);
    assert_eq!(import(&mut scheduler, 2..5, 1), [3, 4], "one of two was written");
    assert_eq!(cached(&mut scheduler, CacheSalt(2), 18), 0);
    assert_eq!(cached(&mut scheduler, SALT, 18), 16);
    assert_eq!(scheduler.stats().blocks_held, Blocks::ZERO);
}

#[test]
fn pages_that_follow_nothing_are_not_wanted() {
    let mut scheduler = scheduler(16);
    assert!(import(&mut scheduler, 1..5, 9).is_empty());
    assert_eq!(import(&mut scheduler, 0..1, 9), [0]);
    assert_eq!(import(&mut scheduler, 1..9, 9), [1, 2, 3, 4], "as far as there are tokens");
    assert!(import(&mut scheduler, 0..5, 9).is_empty(), "all of it is there");
}

#[test]
fn an_import_evicts_memories_and_leaves_each_running_sequence_a_page() {
    let mut scheduler = scheduler(6);
    let arrival = Arrival {
        sequence: SequenceId(1),
        prompt: (100..107).map(TokenId).collect(),
        output_max: Tokens::new(9),
        salt: SALT,
        priority: Priority(0),
        reuse: PrefixReuse::Allowed,
        logits: Logits::Last,
    };
    assert_eq!(scheduler.handle_arrival(Instant::ORIGIN, arrival), Verdict::Queued);
    scheduler.plan(Instant::ORIGIN);
    let sequence = SequenceId(1);
    let goes_on = Outcome { sequence, appended: vec![TokenId(9)], progress: Progress::Continues };
    scheduler.handle_step(Instant::ORIGIN, &[goes_on]);
    // Two pages are held, one is kept for the next step.
    assert_eq!(import(&mut scheduler, 0..5, 9), [0, 1, 2]);
    assert_eq!(import(&mut scheduler, 3..5, 9), Vec::<usize>::new(), "what they follow is kept");
}

#[test]
#[should_panic(expected = "an import is closed before a step is planned")]
fn a_plan_does_not_overtake_an_import() {
    let mut scheduler = scheduler(6);
    let tokens = tokens(8);
    scheduler.plan_import(&Import { salt: SALT, tokens: &tokens, pages: 0..2 });
    scheduler.plan(Instant::ORIGIN);
}
