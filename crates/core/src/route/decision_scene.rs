//! Scene of a decision: what a policy looks at.

use overdraft_units::{BlockSize, Instant, Tokens};

use super::Ask;
use super::settings::RouteSettings;
use crate::admit::{Ahead, Chain, Queue, Ticket};
use crate::fleet::{Behind, Fleet, WorkerId};
use crate::prefix::{Knowledge, Matches, PrefixIndex, PrefixKey};

/// Where the prompt's prefix is.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'a> {
    /// Who holds how much of it.
    pub matches: &'a Matches,
    /// What the matches rest on.
    pub index: &'a PrefixIndex,
    /// The keys of its full chunks.
    pub chain: &'a [PrefixKey],
    /// Tokens to a chunk.
    pub chunk: Tokens,
}

impl<'a> Prefix<'a> {
    /// The prompt as blocks, as far as `worker` is said to have them.
    pub(super) fn chain(self, worker: WorkerId) -> Chain<'a> {
        let (keys, chunk) = (self.chain, self.chunk.get());
        Chain { keys, chunk, matched: self.matches.leading(worker).get() }
    }

    /// Tokens of the prompt that `worker` should hold, by how far we trust what we know of it.
    pub(super) fn cached(self, worker: WorkerId, prompt: Tokens) -> Tokens {
        let chunks = u64::from(self.matches.leading(worker).get());
        if chunks == 0 {
            // Most of a fleet holds nothing of a prompt; how sure we are of that does not matter.
            return Tokens::ZERO;
        }
        let tokens = chunks * u64::from(self.chunk.get());
        let trusted = match self.index.knowledge(worker) {
            // Engines reuse whole blocks.
            Knowledge::Exact | Knowledge::Stale => tokens.min(self.whole(prompt)),
            Knowledge::Estimated { trust_permille } | Knowledge::Disputed { trust_permille } => {
                tokens * u64::from(trust_permille) / 1_000
            }
        };
        let most = prompt.get().saturating_sub(1);
        Tokens::new(u32::try_from(trusted).unwrap_or(u32::MAX).min(most))
    }

    /// Tokens in the whole blocks of a prompt before its last token, which is always computed: its
    /// logits are wanted.
    fn whole(self, prompt: Tokens) -> u64 {
        let (chunk, most) = (u64::from(self.chunk.get()).max(1), prompt.get().saturating_sub(1));
        u64::from(most) / chunk * chunk
    }

    /// Tokens in a worker's cache that requests may ask for again; it reports in blocks of `block`
    /// tokens, if it has said so.
    pub(super) fn held(self, worker: WorkerId, block: Option<BlockSize>) -> u64 {
        let block = block.map_or(self.chunk.get(), BlockSize::get);
        let (reported, routed) = self.index.held(worker);
        let reported = u64::from(reported.get()) * u64::from(block);
        reported.max(u64::from(routed.get()) * u64::from(self.chunk.get()))
    }
}

/// Those who wait, as seen by one request.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) queue: &'a Queue,
    /// The model it asks for, as a number.
    pub(super) model: u64,
    /// Its own place, if it has waited.
    pub(super) ticket: Option<Ticket>,
}

/// What a policy looks at.
pub(super) struct Scene<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) ask: Ask<'a>,
    pub(super) prefix: Option<Prefix<'a>>,
    /// Those who wait, if any do.
    pub(super) line: Option<Line<'a>>,
    /// How likely it is that what is pushed out of a cache is asked for again, in thousandths.
    pub(super) reuse: u64,
    /// How many a prompt delays for each second that it takes a worker.
    pub(super) behind: Behind,
    pub(super) settings: &'a RouteSettings,
    pub(super) now: Instant,
}

impl Scene<'_> {
    /// Who waits for room on `worker` before this request.
    pub(super) fn ahead(&self, worker: WorkerId) -> Ahead {
        self.line.map_or_else(Ahead::default, |line| {
            line.queue.ahead(line.model, worker, line.ticket, self.ask.priority)
        })
    }

    /// Tokens of the prompt that no request in flight on `worker` holds there.
    pub(super) fn own(&self, worker: WorkerId) -> Tokens {
        let forecast = self.fleet.worker(worker).forecast();
        let pinned = self.prefix.map_or(0, |prefix| forecast.held_of(prefix.chain(worker)));
        Tokens::new(self.ask.prompt.get().saturating_sub(pinned))
    }
}
