//! The prefix index written down literally: sets of keys, and a walk along the chain.

use std::collections::{BTreeSet, VecDeque};

use overdraft_core::fleet::{Fleet, WorkerId};
use overdraft_core::prefix::{
    CAPACITY_UNKNOWN, Chunking, Chunks, Event, GENERATIONS_MAX, HINT_SETTLE, Hint, Knowledge,
    PENDING_SPAN, PrefixChain, PrefixIndex, PrefixKey, Receipt,
};
use overdraft_units::{BlockSize, CacheSalt, Instant, Micros, TokenId};
use proptest::prelude::*;

/// Workers in play.
pub(crate) const WORKERS: usize = 3;

/// A prompt, small enough that many share prefixes.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    salt: u64,
    tokens: Vec<u32>,
}

impl Prompt {
    pub(crate) fn keys(&self) -> Vec<PrefixKey> {
        let one = Chunking::Tokens(BlockSize::new(1).expect("one is a size"));
        let mut chain = PrefixChain::new(CacheSalt(self.salt), one);
        chain.push_tokens(&self.tokens.iter().map(|&token| TokenId(token)).collect::<Vec<_>>());
        chain.keys().to_vec()
    }
}

pub(crate) fn prompt() -> impl Strategy<Value = Prompt> {
    (0..2_u64, prop::collection::vec(0..2_u32, 1..20))
        .prop_map(|(salt, tokens)| Prompt { salt, tokens })
}

/// One thing that may happen.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Stored {
        worker: usize,
        prompt: Prompt,
        from: usize,
    },
    Removed {
        worker: usize,
        prompt: Prompt,
        which: u32,
    },
    /// As engines do it: the leaves of a prompt, last first.
    Evicted {
        worker: usize,
        prompt: Prompt,
        from: usize,
    },
    Cleared {
        worker: usize,
    },
    Missed {
        worker: usize,
    },
    Forgotten {
        worker: usize,
    },
    Left {
        worker: usize,
    },
    Routed {
        worker: usize,
        prompt: Prompt,
        later_s: u64,
    },
    Hinted {
        which: usize,
        cached: u32,
    },
    Resized {
        worker: usize,
        capacity: u32,
    },
    Ticked {
        later_s: u64,
    },
}

pub(crate) fn reported() -> impl Strategy<Value = Step> {
    let worker = || 0..WORKERS;
    prop_oneof![
        8 => (worker(), prompt(), 0..20_usize)
            .prop_map(|(worker, prompt, from)| Step::Stored { worker, prompt, from }),
        2 => (worker(), prompt(), any::<u32>())
            .prop_map(|(worker, prompt, which)| Step::Removed { worker, prompt, which }),
        5 => (worker(), prompt(), 0..20_usize)
            .prop_map(|(worker, prompt, from)| Step::Evicted { worker, prompt, from }),
        1 => worker().prop_map(|worker| Step::Cleared { worker }),
        1 => worker().prop_map(|worker| Step::Missed { worker }),
        1 => worker().prop_map(|worker| Step::Forgotten { worker }),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let worker = || 0..WORKERS;
    prop_oneof![
        6 => reported(),
        6 => (worker(), prompt(), 0..12_u64)
            .prop_map(|(worker, prompt, later_s)| Step::Routed { worker, prompt, later_s }),
        3 => (any::<usize>(), 0..20_u32).prop_map(|(which, cached)| Step::Hinted { which, cached }),
        1 => (worker(), 0..60_u32)
            .prop_map(|(worker, capacity)| Step::Resized { worker, capacity }),
        1 => worker().prop_map(|worker| Step::Left { worker }),
        1 => (0..12_u64).prop_map(|later_s| Step::Ticked { later_s }),
    ]
}

#[derive(Clone, Debug)]
struct Generation {
    sequence: u32,
    began: Instant,
    fresh: u32,
    keys: BTreeSet<PrefixKey>,
}

/// What is known of one worker.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) knowledge: &'static str,
    pub(crate) reported: BTreeSet<PrefixKey>,
    generations: VecDeque<Generation>,
    sequence: u32,
    capacity: u32,
}

impl Known {
    fn new() -> Self {
        Self {
            knowledge: "estimated",
            reported: BTreeSet::new(),
            generations: VecDeque::new(),
            sequence: 0,
            capacity: CAPACITY_UNKNOWN.get(),
        }
    }

    pub(crate) fn routed(&self) -> BTreeSet<PrefixKey> {
        self.generations.iter().flat_map(|generation| &generation.keys).copied().collect()
    }

    pub(crate) fn leading(&self, chain: &[PrefixKey]) -> u32 {
        let run =
            |set: &BTreeSet<PrefixKey>| chain.iter().take_while(|&key| set.contains(key)).count();
        u32::try_from(run(&self.reported).max(run(&self.routed()))).expect("prompts are short")
    }

    fn forget(&mut self) {
        self.reported.clear();
        self.generations.clear();
    }

    fn route(&mut self, chain: &[PrefixKey], now: Instant) -> Vec<u32> {
        let before = self.sequence;
        let mut claimed = Vec::new();
        for key in chain[..chain.len().min(self.capacity as usize)].iter().rev() {
            let has = |generation: &&mut Generation| generation.keys.contains(key);
            if let Some(old) = self.generations.iter_mut().find(has)
                && old.sequence <= before
            {
                claimed.insert(0, old.sequence);
            }
            self.begin(now);
            let mut moved = false;
            for generation in &mut self.generations {
                moved |= generation.keys.remove(key);
            }
            let newest = self.generations.back_mut().expect("one has just begun");
            newest.keys.insert(*key);
            newest.fresh += u32::from(!moved);
            self.fit();
        }
        claimed
    }

    fn begin(&mut self, now: Instant) {
        let capacity = self.capacity;
        let full = self.generations.back().is_none_or(|newest| {
            newest.fresh >= capacity.div_ceil(16).max(1)
                || newest.keys.len() >= (capacity as usize).div_ceil(4).max(1)
                || self.knowledge == "exact" && now.since(newest.began) >= PENDING_SPAN
        });
        if full {
            if self.generations.len() == GENERATIONS_MAX {
                self.generations.pop_front();
            }
            self.sequence += 1;
            let sequence = self.sequence;
            let keys = BTreeSet::new();
            self.generations.push_back(Generation { sequence, began: now, fresh: 0, keys });
        }
    }

    fn fit(&mut self) {
        while self.routed().len() > self.capacity as usize {
            self.generations.pop_front();
        }
    }
}

/// The index and its literal twin, fed alike.
pub(crate) struct World {
    pub(crate) index: PrefixIndex,
    pub(crate) known: Vec<Known>,
    pub(crate) workers: Vec<WorkerId>,
    pub(crate) now: Instant,
    receipts: Vec<(usize, Instant, Receipt, Vec<u32>)>,
}

impl World {
    pub(crate) fn new(index: PrefixIndex) -> Self {
        let mut fleet = Fleet::new();
        let workers =
            (0..WORKERS).map(|_| fleet.join(1).expect("a fleet has room for three")).collect();
        let known = vec![Known::new(); WORKERS];
        Self { index, known, workers, now: Instant::ORIGIN, receipts: Vec::new() }
    }

    pub(crate) fn handle(&mut self, step: &Step) {
        match step {
            Step::Stored { worker, prompt, from } => {
                let keys = prompt.keys();
                let from = from % keys.len();
                let parent = from.checked_sub(1).map(|before| keys[before]);
                self.report(*worker, Event::Stored { parent, keys: &keys[from..] });
            }
            Step::Removed { worker, prompt, which } => {
                let bits = (0..32).filter(|bit| which >> bit & 1 == 1);
                let keys = prompt.keys();
                let keys = bits.filter_map(|bit| keys.get(bit).copied()).collect::<Vec<_>>();
                self.report(*worker, Event::Removed { keys: &keys });
            }
            Step::Evicted { worker, prompt, from } => {
                let mut keys = prompt.keys();
                keys.drain(..from % keys.len());
                keys.reverse();
                self.report(*worker, Event::Removed { keys: &keys });
            }
            Step::Cleared { worker } => self.report(*worker, Event::Cleared),
            Step::Missed { worker } => self.report(*worker, Event::Missed),
            Step::Forgotten { worker } => self.report(*worker, Event::Forgotten),
            Step::Left { worker } => {
                self.index.leave(self.workers[*worker]);
                self.known[*worker] = Known::new();
                self.receipts.retain(|receipt| receipt.0 != *worker);
            }
            Step::Routed { worker, prompt, later_s } => self.route(*worker, prompt, *later_s),
            Step::Hinted { which, cached } => self.hint(*which, Chunks::new(*cached)),
            Step::Resized { worker, capacity } => {
                self.index.set_capacity(self.workers[*worker], Chunks::new(*capacity));
                self.known[*worker].capacity = *capacity;
                self.known[*worker].fit();
            }
            Step::Ticked { later_s } => {
                self.now = self.now + Micros::new(later_s * 1_000_000);
                self.index.tick(self.now);
                let over = PENDING_SPAN + PENDING_SPAN;
                for known in self.known.iter_mut().filter(|known| known.knowledge == "exact") {
                    known.generations.retain(|generation| self.now.since(generation.began) < over);
                }
            }
        }
    }

    /// The index says what the twin says, of this prompt and of every worker.
    pub(crate) fn check(&self, prompt: &Prompt, out: &mut overdraft_core::prefix::Matches) {
        let chain = prompt.keys();
        self.index.lookup(&chain, out);
        for (known, &worker) in self.known.iter().zip(&self.workers) {
            assert_eq!(out.leading(worker).get(), known.leading(&chain), "{worker:?} {prompt:?}");
            assert_eq!(knowledge(&self.index, worker), known.knowledge);
            assert_eq!(self.index.reported(worker).get() as usize, known.reported.len());
            assert_eq!(self.index.routed(worker).get() as usize, known.routed().len());
        }
        let found = out.iter().collect::<Vec<_>>();
        assert!(found.is_sorted_by_key(|&(_, chunks)| std::cmp::Reverse(chunks)));
        assert!(found.iter().all(|&(_, chunks)| chunks > Chunks::ZERO));
    }

    fn report(&mut self, worker: usize, event: Event<'_>) {
        self.index.handle(self.workers[worker], event);
        let known = &mut self.known[worker];
        match event {
            Event::Stored { keys, .. } => known.reported.extend(keys),
            Event::Removed { keys } => keys.iter().for_each(|key| {
                known.reported.remove(key);
            }),
            Event::Missed => {}
            Event::Cleared | Event::Forgotten => known.forget(),
        }
        known.knowledge = match (event, known.knowledge) {
            (Event::Cleared, _) => "exact",
            (Event::Forgotten, "exact") | (Event::Missed, _) => "stale",
            (Event::Stored { .. } | Event::Removed { .. }, "estimated") => "stale",
            (_, before) => before,
        };
    }

    fn route(&mut self, worker: usize, prompt: &Prompt, later_s: u64) {
        self.now = self.now + Micros::new(later_s * 1_000_000);
        let chain = prompt.keys();
        let receipt = self.index.record_routed(self.workers[worker], &chain, self.now);
        let claimed = self.known[worker].route(&chain, self.now);
        assert_eq!(receipt.claimed().get() as usize, claimed.len());
        self.receipts.push((worker, self.now, receipt, claimed));
    }

    fn hint(&mut self, which: usize, cached: Chunks) {
        if self.receipts.is_empty() {
            return;
        }
        let (worker, at, receipt, claimed) = self.receipts.swap_remove(which % self.receipts.len());
        let hint = self.index.record_hint(&receipt, cached);
        let expected = if claimed.is_empty() {
            Hint::Untested
        } else if cached.get() as usize + 1 >= claimed.len() {
            Hint::Confirmed
        } else {
            let gone = claimed[cached.get() as usize];
            let known = &mut self.known[worker];
            let next = known.generations.iter().find(|next| next.sequence == gone + 1);
            if next.is_some_and(|next| at.since(next.began) >= HINT_SETTLE) {
                known.generations.retain(|generation| generation.sequence > gone);
                Hint::Refuted
            } else {
                Hint::Unsure
            }
        };
        assert_eq!(hint, expected);
    }
}

pub(crate) fn knowledge(index: &PrefixIndex, worker: WorkerId) -> &'static str {
    match index.knowledge(worker) {
        Knowledge::Exact => "exact",
        Knowledge::Disputed { .. } => "disputed",
        Knowledge::Stale => "stale",
        Knowledge::Estimated { .. } => "estimated",
    }
}
