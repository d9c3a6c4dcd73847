//! A world that drives a scheduler and believes nothing it says.
//!
//! It keeps what a cache would really hold (for each place of each page, the exact prefix it was
//! computed from) and what each sequence really is. Every plan is checked against both, slot by slot.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use overdraft_scheduler::batch::{
    Arrival, BatchLimits, Batching, Import, Logits, Outcome, Plan, PrefixReuse, Progress,
    Scheduler, Slot, Verdict,
};
use overdraft_units::{
    BlockId, BlockSize, Blocks, CacheSalt, Instant, Micros, Priority, SequenceId, TokenId, Tokens,
};
use proptest::prelude::*;

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A sequence arrives.
    Arrive(Ask),
    /// The nth living sequence is cancelled between steps.
    Cancel(usize),
    /// A step is planned and done; the seed says what is sampled.
    Step(u64),
    /// A step is planned, the nth living sequence is cancelled, another arrives, then it is done.
    Interrupted(u64, usize, Ask),
    /// A step is planned, perhaps the nth living sequence is cancelled, and the backend fails.
    Lost(Option<usize>),
    /// Time passes.
    Wait(u64),
    /// Pages of a prefix come from elsewhere.
    Import(Parcel),
}

/// Pages of a family's common tokens that are at hand, and how many of those asked for are written.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) family: u32,
    pub(crate) shared: u32,
    pub(crate) salt: u64,
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) written: usize,
}

/// What arrives: a family's common tokens, then its own.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) family: u32,
    pub(crate) shared: u32,
    pub(crate) own: u32,
    pub(crate) output_max: u32,
    pub(crate) salt: u64,
    pub(crate) priority: i32,
    /// Whether prompt log probabilities are wanted.
    pub(crate) every: bool,
}

/// Any [`Ask`]; some are refused.
pub(crate) fn ask() -> impl Strategy<Value = Ask> {
    let prompt = (0..3_u32, 0..40_u32, 0..12_u32);
    (prompt, 1..12_u32, 0..2_u64, -2..4_i32, prop::bool::weighted(0.1)).prop_map(
        |((family, shared, own), output_max, salt, priority, every)| Ask {
            family,
            shared,
            own,
            output_max,
            salt,
            priority,
            every,
        },
    )
}

/// Any [`Event`], steps mostly.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => ask().prop_map(Event::Arrive),
        1 => (0..8_usize).prop_map(Event::Cancel),
        10 => any::<u64>().prop_map(Event::Step),
        1 => (any::<u64>(), 0..8_usize, ask()).prop_map(|(s, n, a)| Event::Interrupted(s, n, a)),
        1 => prop::option::of(0..8_usize).prop_map(Event::Lost),
        2 => (0..9_000_u64).prop_map(Event::Wait),
        3 => parcel().prop_map(Event::Import),
    ]
}

/// Any [`Parcel`]; some follow nothing that is cached.
fn parcel() -> impl Strategy<Value = Parcel> {
    (0..3_u32, 0..40_u32, 0..2_u64, 0..5_usize, 0..12_usize, 0..12_usize).prop_map(
        |(family, shared, salt, first, count, written)| Parcel {
            family,
            shared,
            salt,
            first,
            count,
            written,
        },
    )
}

/// Tiny limits, so that everything runs short all the time.
pub(crate) fn limits() -> impl Strategy<Value = BatchLimits> {
    let batching = prop_oneof![2 => Just(Batching::Mixed), 1 => Just(Batching::PrefillFirst)];
    (1..40_u32, 1..7_u32, 1..10_u32, 4..40_u32, 1..6_u32, 8..60_u32, batching).prop_map(
        |(step_tokens, running_max, waiting_max, blocks, size, context, batching)| BatchLimits {
            step_tokens: Tokens::new(step_tokens),
            running_max,
            waiting_max,
            blocks: Blocks::new(blocks),
            block_size: BlockSize::new(size).expect("not zero"),
            context: Tokens::new(context),
            batching,
        },
    )
}

/// What is true of a living sequence.
#[derive(Clone, Debug)]
struct Truth {
    salt: u64,
    prompt: usize,
    ceiling: usize,
    every: bool,
    tokens: Vec<TokenId>,
    /// Positions whose prompt logits were handed out.
    delivered: usize,
}

/// The exact prefix that a place of a page was computed from.
pub(crate) type Content = u64;

/// A scheduler, a cache, and the truth about every sequence.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    limits: BatchLimits,
    now: Instant,
    next: u64,
    alive: BTreeMap<SequenceId, Truth>,
    cache: Vec<Vec<Option<Content>>>,
    /// How often each shareable page of a prompt was computed, by its exact prefix.
    pub(crate) computed: BTreeMap<Content, u32>,
    /// Drafts that were found right.
    pub(crate) drafts_right: usize,
    /// Pages that came from elsewhere.
    pub(crate) imported: usize,
    /// Every plan so far, as text.
    pub(crate) trace: Vec<String>,
}

fn content(salt: u64, prefix: &[TokenId]) -> Content {
    let mut hasher = DefaultHasher::new();
    (salt, prefix).hash(&mut hasher);
    hasher.finish()
}

fn token(number: u64) -> TokenId {
    TokenId(u32::try_from(number).expect("small"))
}

fn range(slot: &Slot) -> std::ops::Range<usize> {
    slot.start.get() as usize..(slot.start + slot.length).get() as usize
}

impl World {
    pub(crate) fn new(limits: BatchLimits) -> Self {
        let (blocks, size) = (limits.blocks.get() as usize, limits.block_size.get() as usize);
        Self {
            scheduler: Scheduler::new(limits),
            limits,
            now: Instant::ORIGIN,
            next: 0,
            alive: BTreeMap::new(),
            cache: vec![vec![None; size]; blocks],
            computed: BTreeMap::new(),
            drafts_right: 0,
            imported: 0,
            trace: Vec::new(),
        }
    }

    /// Lets something happen and checks everything.
    pub(crate) fn handle(&mut self, event: &Event) {
        match event {
            Event::Arrive(ask) => self.arrive(ask),
            Event::Cancel(nth) => self.cancel(*nth),
            Event::Step(seed) => {
                self.draft(*seed);
                let plan = self.plan();
                self.compute(&plan);
                self.close(&plan, *seed);
            }
            Event::Interrupted(seed, nth, ask) => {
                self.draft(*seed);
                let plan = self.plan();
                let gone = self.victim(*nth);
                self.cancel(*nth);
                self.arrive(ask);
                self.compute_with(&plan, gone);
                self.close(&plan, *seed);
            }
            Event::Lost(nth) => {
                self.draft(self.next);
                let plan = self.plan();
                if let Some(nth) = nth {
                    self.cancel(*nth);
                }
                self.lose(&plan);
            }
            Event::Wait(millis) => self.now = self.now + Micros::new(millis * 1_000),
            Event::Import(parcel) => self.import(parcel),
        }
        self.check();
    }

    /// Steps until nothing is left to do; fails if that takes too long.
    pub(crate) fn drain(&mut self) {
        let bound: usize = self.alive.values().map(|truth| 2 * truth.ceiling).sum();
        for _ in 0..bound {
            if self.scheduler.is_idle() {
                break;
            }
            // Nobody is finished early by this seed.
            let plan = self.plan();
            self.compute(&plan);
            self.close(&plan, u64::MAX);
            self.check();
        }
        assert!(self.scheduler.is_idle(), "starved: {:?}", self.alive.keys());
        assert_eq!(self.scheduler.stats().blocks_held, Blocks::ZERO);
    }

    fn arrive(&mut self, ask: &Ask) {
        self.next += 1;
        let id = SequenceId(self.next);
        let shared = (0..ask.shared).map(|n| TokenId(1_000 * ask.family + n));
        let own = (0..ask.own).map(|n| token(100_000 + self.next % 3 * 100 + u64::from(n)));
        let prompt: Vec<_> = shared.chain(own).collect();
        let reuse = if ask.every { PrefixReuse::Forbidden } else { PrefixReuse::Allowed };
        let arrival = Arrival {
            sequence: id,
            prompt: prompt.clone(),
            output_max: Tokens::new(ask.output_max),
            salt: CacheSalt(ask.salt),
            priority: Priority(ask.priority),
            reuse,
            logits: if ask.every { Logits::Every } else { Logits::Last },
        };
        let before = self.scheduler.clone();
        match self.scheduler.handle_arrival(self.now, arrival) {
            Verdict::Queued => {
                let ceiling = prompt.len() + ask.output_max as usize;
                let ceiling = ceiling.min(self.limits.context.get() as usize);
                let (salt, every) = (ask.salt, ask.every);
                let prompt_length = prompt.len();
                let truth = Truth {
                    salt,
                    prompt: prompt_length,
                    ceiling,
                    every,
                    tokens: prompt,
                    delivered: 0,
                };
                self.alive.insert(id, truth);
            }
            Verdict::Refused(_) => assert!(before == self.scheduler, "a refusal changes nothing"),
        }
    }

    /// Writes what is asked for, or less, and checks that nothing else was touched.
    fn import(&mut self, parcel: &Parcel) {
        let size = self.limits.block_size.get() as usize;
        let tokens: Vec<_> =
            (0..parcel.shared).map(|n| TokenId(1_000 * parcel.family + n)).collect();
        let salt = CacheSalt(parcel.salt);
        let before = self.scheduler.leading_pages(salt, &tokens);
        let pages = parcel.first..parcel.first + parcel.count;
        let import = Import { salt, tokens: &tokens, pages: pages.clone() };
        let planned = self.scheduler.plan_import(&import);
        self.scheduler.audit();
        let found = before.len();
        for (at, page) in planned.iter().enumerate() {
            assert_eq!(page.number, found + at, "what is asked for follows what is there");
            assert!(pages.contains(&page.number), "nothing is asked for that is not at hand");
            assert_eq!(self.scheduler.holders(page.block), 1, "nobody else has it");
        }
        self.imported += planned.len().min(parcel.written);
        for page in planned.iter().take(parcel.written) {
            for position in page.number * size..(page.number + 1) * size {
                let value = content(parcel.salt, &tokens[..=position]);
                self.cache[page.block.0 as usize][position % size] = Some(value);
            }
        }
        // Of the rest, half a page may have been written.
        for page in planned.iter().skip(parcel.written) {
            self.cache[page.block.0 as usize][0] = None;
        }
        if !planned.is_empty() {
            self.scheduler.handle_import(parcel.written);
        }
        let after = self.scheduler.leading_pages(salt, &tokens);
        assert_eq!(after.len(), found + planned.len().min(parcel.written));
        for (number, block) in after.iter().enumerate() {
            let last = content(parcel.salt, &tokens[..(number + 1) * size]);
            assert_eq!(self.cache[block.0 as usize][size - 1], Some(last), "page {number}");
        }
    }

    fn victim(&self, nth: usize) -> Option<(SequenceId, Truth)> {
        let nth = nth.checked_rem(self.alive.len())?;
        self.alive.iter().nth(nth).map(|(id, truth)| (*id, truth.clone()))
    }

    fn cancel(&mut self, nth: usize) {
        let Some((id, _)) = self.victim(nth) else { return };
        self.alive.remove(&id);
        assert!(self.scheduler.handle_cancel(id), "it lives");
        assert!(!self.scheduler.handle_cancel(id), "once is enough");
    }

    /// Half of the steps have tokens drafted, out of as few as are sampled.
    fn draft(&mut self, seed: u64) {
        let decoding: Vec<_> = self.scheduler.decoding().collect();
        for sequence in decoding.into_iter().filter(|_| seed.is_multiple_of(2)) {
            let guess = content(!seed, &[token(sequence.0)]);
            let ahead = Tokens::new(1 + u32::try_from(guess % 5).expect("small"));
            let room = self.scheduler.reserve(sequence, ahead);
            assert!(room <= ahead);
            self.scheduler.audit();
            // Sometimes more than there are places for.
            let drafts = (0..ahead.get()).map(|n| token(500_000 + (guess >> (8 + n)) % 2));
            self.scheduler.handle_drafts(sequence, drafts.collect());
        }
    }

    fn plan(&mut self) -> Plan {
        let asked = self.alive.keys().any(|id| !self.scheduler.drafts(*id).is_empty());
        let decoding: BTreeSet<_> = self.scheduler.decoding().collect();
        let plan = self.scheduler.plan(self.now);
        self.trace.push(plan.to_string());
        self.scheduler.audit();
        let drafts: u32 = plan.slots.iter().map(|slot| slot.drafts.get()).sum();
        assert!(asked || drafts == 0, "drafts come from somewhere");
        assert_eq!(plan.slots.is_empty(), self.alive.is_empty(), "whoever lives is served");
        let total: u32 = plan.slots.iter().map(|slot| slot.length.get()).sum();
        assert!(total <= self.limits.step_tokens.get(), "{total} tokens in a step");
        let names: BTreeSet<_> = plan.slots.iter().map(|slot| slot.sequence).collect();
        assert_eq!(names.len(), plan.slots.len(), "one slot each");
        assert!(names.len() <= self.limits.running_max as usize);
        match self.limits.batching {
            Batching::Mixed => {
                let running = self.scheduler.stats().running as usize;
                assert_eq!(names.len(), running, "all that run progress");
            }
            Batching::PrefillFirst => {
                let alone = names.is_disjoint(&decoding) || plan.admitted.is_empty();
                assert!(alone, "no prompt begins beside an answer: {plan}");
            }
        }
        for preempted in &plan.preempted {
            assert!(!names.contains(preempted));
            assert!(plan.admitted.is_empty(), "nobody joins where somebody must go");
        }
        for slot in &plan.slots {
            let truth = &self.alive[&slot.sequence];
            assert_eq!(self.scheduler.tokens(slot.sequence), truth.tokens, "tokens are kept");
            Self::check_logits(slot, truth);
        }
        plan
    }

    fn check_logits(slot: &Slot, truth: &Truth) {
        let range = range(slot);
        let owed = truth.every && truth.delivered.max(range.start) < truth.prompt.min(range.end);
        let expected = match (owed, range.end == truth.tokens.len()) {
            (true, _) => Logits::Every,
            (false, true) => Logits::Last,
            (false, false) if slot.drafts > Tokens::ZERO => Logits::Every,
            (false, false) => Logits::None,
        };
        if slot.drafts > Tokens::ZERO {
            assert_eq!(range.end - slot.drafts.get() as usize, truth.tokens.len());
            assert!(range.end < truth.ceiling, "one more token may be sampled");
        }
        assert_eq!(slot.logits, expected);
        if truth.every {
            assert!(range.start <= truth.delivered, "no row of the prompt is left out");
        }
    }

    fn compute(&mut self, plan: &Plan) {
        self.compute_with(plan, None);
    }

    /// Each slot's writes, then its reads, through the tables as they are when the step is computed.
    ///
    /// A backend may compute slots that yield every logit ahead of the others, in any order, and the
    /// others one by one in this order. Together is easier: then all writes come before all reads.
    fn compute_with(&mut self, plan: &Plan, gone: Option<(SequenceId, Truth)>) {
        let mut everyone = self.alive.clone();
        everyone.extend(gone);
        let mut written = BTreeMap::new();
        let ahead = plan.slots.iter().filter(|slot| slot.logits == Logits::Every);
        let others = plan.slots.iter().filter(|slot| slot.logits != Logits::Every);
        for slot in ahead.rev().chain(others) {
            self.compute_slot(slot, &everyone[&slot.sequence], &mut written);
        }
    }

    fn compute_slot(
        &mut self,
        slot: &Slot,
        truth: &Truth,
        written: &mut BTreeMap<(BlockId, usize), Content>,
    ) {
        let size = self.limits.block_size.get() as usize;
        let table = self.scheduler.block_table(slot.sequence);
        let tokens = [&truth.tokens, self.scheduler.drafts(slot.sequence)].concat();
        for position in range(slot) {
            let place = (table[position / size], position % size);
            let value = content(truth.salt, &tokens[..=position]);
            if position % size == size - 1 && position + 1 < truth.prompt {
                *self.computed.entry(value).or_default() += 1;
            }
            let before = written.insert(place, value);
            assert!(before.is_none_or(|before| before == value), "two values for {place:?}");
            self.cache[place.0.0 as usize][place.1] = Some(value);
        }
        for position in 0..range(slot).end {
            let held = self.cache[table[position / size].0 as usize][position % size];
            let needed = content(truth.salt, &tokens[..=position]);
            assert_eq!(held, Some(needed), "{slot} reads position {position}");
        }
    }

    /// Half of what should have been written is rubbish now.
    fn lose(&mut self, plan: &Plan) {
        let size = self.limits.block_size.get() as usize;
        for slot in &plan.slots {
            let Some(truth) = self.alive.get(&slot.sequence) else { continue };
            let tokens = [&truth.tokens, self.scheduler.drafts(slot.sequence)].concat();
            let table = self.scheduler.block_table(slot.sequence);
            for position in range(slot) {
                let place = &mut self.cache[table[position / size].0 as usize][position % size];
                let value = content(truth.salt, &tokens[..=position]);
                if *place != Some(value) {
                    *place = None;
                }
            }
        }
        let planned: Vec<_> = plan.slots.iter().map(|slot| slot.sequence).collect();
        let expected: Vec<_> =
            planned.into_iter().filter(|sequence| self.alive.contains_key(sequence)).collect();
        assert_eq!(self.scheduler.handle_step_lost(), expected, "the lost are named once");
        for lost in expected {
            self.alive.remove(&lost);
        }
    }

    /// Samples: usually one token out of few, so that completions coincide; sometimes several, none
    /// or the last.
    fn close(&mut self, plan: &Plan, seed: u64) {
        let mut outcomes = Vec::new();
        for slot in &plan.slots {
            let end = range(slot).end - slot.drafts.get() as usize;
            let draw = content(seed, &[token(slot.sequence.0), token(end as u64)]);
            let tame = seed == u64::MAX;
            let Some(truth) = self.alive.get_mut(&slot.sequence) else {
                // Cancelled meanwhile; what the engine says of it is not to matter.
                let appended = vec![TokenId(1)];
                outcomes.push(Outcome {
                    sequence: slot.sequence,
                    appended,
                    progress: Progress::Continues,
                });
                continue;
            };
            truth.delivered = truth.delivered.max(end);
            if end < truth.tokens.len() {
                continue;
            }
            let room = truth.ceiling - truth.tokens.len();
            let wanted = match draw % 16 {
                0 | 1 if !tame => 3,
                2 if !tame => 0,
                _ => 1,
            };
            let drafts = self.scheduler.drafts(slot.sequence);
            let count = if drafts.is_empty() { wanted } else { drafts.len() + 1 }.min(room);
            let mut appended: Vec<_> =
                (0..count).map(|n| token(500_000 + (draw >> (8 + n)) % 2)).collect();
            // The first draw that differs from its draft is the last that counts.
            let right = appended.iter().zip(drafts).take_while(|(a, b)| a == b).count();
            if !drafts.is_empty() {
                appended.truncate(right + 1);
                self.drafts_right += right;
                truth.delivered = truth.delivered.max(end + right.min(appended.len() - 1));
            }
            truth.tokens.extend(&appended);
            let finished = truth.tokens.len() == truth.ceiling || (!tame && draw % 16 == 15);
            let progress = if finished { Progress::Finished } else { Progress::Continues };
            if finished {
                self.alive.remove(&slot.sequence);
            }
            outcomes.push(Outcome { sequence: slot.sequence, appended, progress });
        }
        if seed.is_multiple_of(5) {
            outcomes.reverse();
        }
        self.scheduler.handle_step(self.now, &outcomes);
    }

    /// What must hold between calls, as far as anyone outside can see it.
    fn check(&self) {
        self.scheduler.audit();
        let mut named: BTreeMap<BlockId, u32> = BTreeMap::new();
        for sequence in self.alive.keys() {
            for block in self.scheduler.block_table(*sequence) {
                *named.entry(*block).or_default() += 1;
            }
        }
        let stats = self.scheduler.stats();
        assert_eq!(stats.blocks_held.get() as usize, named.len(), "held pages are those named");
        assert!(stats.blocks_held + stats.blocks_cached <= stats.blocks, "pages are counted once");
        assert_eq!((stats.running + stats.waiting) as usize, self.alive.len());
        for (block, times) in &named {
            assert_eq!(self.scheduler.holders(*block), *times);
        }
        self.check_sharing();
    }

    /// Sequences name the same page only for the same prefix under the same salt.
    fn check_sharing(&self) {
        let size = self.limits.block_size.get() as usize;
        let mut meaning: BTreeMap<BlockId, (usize, Content)> = BTreeMap::new();
        for (sequence, truth) in &self.alive {
            for (number, block) in self.scheduler.block_table(*sequence).iter().enumerate() {
                if self.scheduler.holders(*block) == 1 {
                    continue;
                }
                let prefix = &truth.tokens[..(number + 1) * size];
                let mine = (number, content(truth.salt, prefix));
                assert_eq!(*meaning.entry(*block).or_insert(mine), mine, "page {}", block.0);
            }
        }
    }
}
