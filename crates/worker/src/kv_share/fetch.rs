//! KV block fetch: a request waits for blocks from a peer before it is submitted.
//!
//! It waits for blocks that its prompt needs, that the cache lacks and that a peer has, if the
//! transfer is expected to be faster than recomputing them, and at most for that long. Blocks enter
//! the cache a few megabytes at a time, between the engine's steps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use overdraft_core::estimate::Pace;
use overdraft_core::transfer::{
    FETCH_TIME_MAX, FETCH_TOKENS_MIN, Link, Missing, Verdict, judge, judge_again,
};
use overdraft_engine::{BYTES_AT_ONCE, BlockPrefix, EngineHandle};
use overdraft_telemetry::metrics::FetchFacts;
use overdraft_units::{CacheSalt, Micros, TokenId, Tokens};
use overdraft_wire::kv_blocks::{
    BLOCKS_PER_ASK_MAX, BlockKey, BlocksAsk, EnvelopeReader, PrefixRoot,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::KvShare;
use super::client::{self, Break};
use super::peer::Peer;
use super::turn::Turn;

/// Maximum time to find the peer with the longest prefix; never longer than half the time of
/// recomputing.
const LOOKUP_TIME_MAX: Duration = Duration::from_secs(1);

/// Maximum attempts of one prompt to fetch, or to wait for a request that fetches the same.
const TURNS_MAX: usize = 4;

/// Maximum peers that are asked for the blocks of one fetch: each further one where all before were
/// busy.
const HOLDERS_ASKED_MAX: usize = 3;

/// A prefix whose blocks are missing from number `leading` on.
#[derive(Clone)]
struct Wanted {
    prefix: BlockPrefix,
    root: PrefixRoot,
    leading: usize,
    /// The keys of all its blocks.
    keys: Arc<[BlockKey]>,
}

/// The plan of the fetch.
struct Errand {
    peer: Peer,
    within: Micros,
    pace: Pace,
    /// Busy peers were asked before: what is left of the time says nothing of one that uses it up.
    is_retry: bool,
}

/// What came of asking one peer.
struct Fetched {
    /// How many blocks came.
    blocks: usize,
    /// Whether it serves others just now.
    busy: bool,
}

/// A fetch under way.
struct Fetch<'a> {
    share: &'a KvShare,
    engine: &'a EngineHandle,
    wanted: &'a Wanted,
    /// Blocks that were verified and are not in the cache yet.
    pending: Vec<Vec<u8>>,
    /// Blocks that were handed to the engine.
    handed: usize,
    /// Blocks that are in the cache.
    got: usize,
    bytes: u64,
    /// How long the peer took to answer.
    waited: Option<Micros>,
}

impl KvShare {
    /// Brings what is missing of a prompt's prefix into the cache, as far as that pays.
    pub(crate) async fn bring(
        &self,
        engine: &EngineHandle,
        tokens: &[TokenId],
        salt: CacheSalt,
        source: Option<Peer>,
    ) {
        if !self.fetches() {
            return;
        }
        let Some(mut wanted) = self.wanted(engine, tokens, salt).await else { return };
        self.0.metrics.missed(self.tokens(wanted.missing()));
        // Waiting for others is to cost no longer than computing would have.
        let until = Instant::now() + self.patience(&wanted);
        for _ in 0..TURNS_MAX {
            let before = wanted.leading;
            let Some(key) = wanted.keys.get(before) else { break };
            match Turn::take(&self.0, *key) {
                Ok(_turn) => {
                    // The request that had the turn before may have brought it since it was found missing.
                    // The turn is for this block alone: another one that is missing has its own.
                    wanted.look_again(engine).await;
                    if wanted.leading == before {
                        wanted.leading += self.fetch(engine, &wanted, source).await;
                        break;
                    }
                }
                Err(mut other) => {
                    // It ends by dropping its side: an error is the end, too.
                    let ended = timeout_at(until, other.changed()).await;
                    wanted.look_again(engine).await;
                    // What the other one did not get is not asked for again.
                    if ended.is_err() || wanted.leading == before {
                        break;
                    }
                }
            }
        }
        self.0.metrics.computed(count(wanted.missing()));
    }

    /// How long a prompt waits for the fetches of others, in all.
    fn patience(&self, wanted: &Wanted) -> Duration {
        let pace = self.beliefs().prefill.pace();
        let tokens = self.tokens(wanted.missing());
        Duration::from(pace.time_for(u64::from(tokens.get())).min(FETCH_TIME_MAX))
    }

    /// What the cache lacks of a prompt, if that is worth a thought.
    async fn wanted(
        &self,
        engine: &EngineHandle,
        tokens: &[TokenId],
        salt: CacheSalt,
    ) -> Option<Wanted> {
        let page = usize::try_from(self.0.block_size.get()).expect("usize holds 32 bits");
        // The last token is always computed: its logits are wanted.
        let full = tokens.len().saturating_sub(1) / page;
        if self.tokens(full) < FETCH_TOKENS_MIN {
            return None;
        }
        let root = self.0.roots.root_of(salt)?;
        let tokens: Arc<[TokenId]> = Arc::from(&tokens[..full * page]);
        let prefix = BlockPrefix { salt, tokens };
        let leading = engine.leading_blocks(prefix.clone()).await.ok()?;
        if full <= leading {
            return None;
        }
        let keys = root.keys(&prefix.tokens, self.0.block_size).collect();
        Some(Wanted { prefix, root, leading, keys })
    }

    /// How many blocks came.
    async fn fetch(&self, engine: &EngineHandle, wanted: &Wanted, source: Option<Peer>) -> usize {
        let Ok(_permit) = self.0.fetches.try_acquire() else {
            self.0.metrics.passed_over("busy");
            return 0;
        };
        let named = source.as_slice();
        let peers = if named.is_empty() { self.0.settings.peers.as_slice() } else { named };
        let errand = match self.errand(wanted, peers, None).await {
            Ok(errand) => errand,
            Err(why) => {
                self.0.metrics.passed_over(why);
                return 0;
            }
        };
        let until = Instant::now() + Duration::from(errand.within);
        let mut fetched = self.carry_out(engine, wanted, &errand, until).await;
        let mut asked = vec![errand.peer];
        while fetched.busy && asked.len() < HOLDERS_ASKED_MAX {
            let Some(errand) = self.next_errand(wanted, &asked, until).await else { break };
            fetched = self.carry_out(engine, wanted, &errand, until).await;
            asked.push(errand.peer);
        }
        fetched.blocks
    }

    /// Whom else to ask after busy peers, in the time that they left.
    async fn next_errand(&self, wanted: &Wanted, asked: &[Peer], until: Instant) -> Option<Errand> {
        let peers = self.0.settings.peers.iter().filter(|peer| !asked.contains(peer));
        let others: Vec<Peer> = peers.cloned().collect();
        timeout_at(until, self.errand(wanted, &others, Some(until))).await.ok()?.ok()
    }

    /// Asks one peer, and learns how that went.
    async fn carry_out(
        &self,
        engine: &EngineHandle,
        wanted: &Wanted,
        errand: &Errand,
        until: Instant,
    ) -> Fetched {
        let began = self.0.clock.now();
        let mut fetch = Fetch::new(self, engine, wanted);
        let ran = timeout_at(until, fetch.run(&errand.peer)).await;
        let mut broke = ran.unwrap_or(Err(Break::Timeout)).err();
        // What came before it broke off is as good as any.
        if let Err(error) = fetch.hand_over().await {
            broke.get_or_insert(error);
        }
        let took = self.0.clock.now().since(began);
        if matches!(broke, Some(Break::Timeout)) {
            fetch.count_again().await;
        }
        self.learn(errand, &fetch, took, broke.as_ref());
        Fetched { blocks: fetch.got, busy: broke.is_some_and(|error| error.is_busy()) }
    }

    /// Whom of these to ask, or why nobody. Where busy peers were asked before, the time is over at
    /// `until`.
    async fn errand(
        &self,
        wanted: &Wanted,
        peers: &[Peer],
        until: Option<Instant>,
    ) -> Result<Errand, &'static str> {
        let now = self.0.clock.now();
        let missing = self.cost(wanted.missing());
        let is_retry = until.is_some();
        // Each time with what is left then: looking up takes some of it.
        let verdict = |missing: Missing, link: &Link, pace: Pace| match until {
            None => judge(missing, link, pace, now),
            Some(until) => judge_again(missing, link, pace, now, left_until(until)),
        };
        let mut good = Vec::new();
        let mut why = "nobody";
        let pace = {
            let beliefs = self.beliefs();
            let pace = beliefs.prefill.pace();
            for peer in peers {
                match verdict(missing, &beliefs.link(peer), pace) {
                    Verdict::Fetch { within, .. } => good.push((peer.clone(), within)),
                    Verdict::Compute(reason) => why = reason.name(),
                }
            }
            pace
        };
        let (peer, within) = match good.as_slice() {
            [] => return Err(why),
            [(peer, within)] => (peer.clone(), *within),
            several => {
                let peers = several.iter().map(|(peer, _)| peer.clone()).collect();
                let longest = several.iter().map(|(_, within)| within.get()).max().unwrap_or(0);
                let half = Duration::from_micros(longest / 2).min(LOOKUP_TIME_MAX);
                let (peer, held) =
                    self.look_up(wanted, peers, half, is_retry).await.ok_or("nobody")?;
                // It may have less than all: is that still worth it?
                let link = self.beliefs().link(&peer);
                match verdict(self.cost(held.min(wanted.missing())), &link, pace) {
                    Verdict::Fetch { within, .. } => (peer, within),
                    Verdict::Compute(reason) => return Err(reason.name()),
                }
            }
        };
        Ok(Errand { peer, within, pace, is_retry })
    }

    /// Which of these peers has the most of what is missing, and how many blocks; the first that has all
    /// of it will do. When time is up, the best answer so far counts, and silence is noted.
    async fn look_up(
        &self,
        wanted: &Wanted,
        peers: Vec<Peer>,
        within: Duration,
        is_retry: bool,
    ) -> Option<(Peer, usize)> {
        let mut silent: BTreeSet<Peer> = peers.iter().cloned().collect();
        let mut asked = JoinSet::new();
        for peer in peers {
            let (share, ask) = (self.clone(), self.ask(wanted, 0));
            asked.spawn(async move {
                let answer = client::ask(&peer, &share.0.settings.token, &ask).await;
                (answer.map(|answer| answer.blocks), peer)
            });
        }
        let mut best: Option<(Peer, usize)> = None;
        let answers = async {
            while let Some(answer) = asked.join_next().await {
                let Ok((held, peer)) = answer else { continue };
                silent.remove(&peer);
                let held = held.unwrap_or_else(|error| {
                    self.give_up_on(&peer, &error);
                    0
                });
                if best.as_ref().map_or(0, |best| best.1) < held {
                    best = Some((peer, held));
                }
                if wanted.missing() <= held {
                    break;
                }
            }
        };
        let answered = timeout(within, answers).await;
        if answered.is_err() {
            for peer in &silent {
                self.note_silence(peer, within.into(), is_retry);
            }
        }
        best
    }

    /// Asks for so many of the missing blocks.
    fn ask(&self, wanted: &Wanted, blocks: usize) -> BlocksAsk {
        let (first, end) = (wanted.leading, wanted.leading + blocks.min(BLOCKS_PER_ASK_MAX));
        BlocksAsk {
            model: self.0.model,
            root: wanted.root,
            tokens: wanted.prefix.tokens.to_vec(),
            blocks: first..end,
        }
    }

    fn learn(&self, errand: &Errand, fetch: &Fetch<'_>, took: Micros, broke: Option<&Break>) {
        let now = self.0.clock.now();
        match broke {
            Some(Break::Timeout) if fetch.bytes == 0 => {
                self.note_silence(&errand.peer, took, errand.is_retry);
            }
            // Slow, not silent: the next decision knows better.
            Some(Break::Timeout) => self.0.metrics.rejected("timeout"),
            Some(error) => self.give_up_on(&errand.peer, error),
            None => {}
        }
        if let Some(waited) = fetch.waited
            && broke.is_none_or(|error| matches!(error, Break::Timeout) || !error.is_the_peers())
        {
            let sending = took.checked_sub(waited).unwrap_or(Micros::ZERO);
            self.beliefs().link_mut(&errand.peer).note(waited, fetch.bytes, sending, now);
        }
        if fetch.got == 0 {
            if broke.is_none() {
                self.0.metrics.passed_over("nobody");
            }
            return;
        }
        let tokens = self.tokens(fetch.got);
        let compute = errand.pace.time_for(u64::from(tokens.get()));
        self.0.metrics.fetched(&FetchFacts {
            blocks: count(fetch.got),
            tokens,
            bytes: fetch.bytes,
            took,
            saved: compute.checked_sub(took).unwrap_or(Micros::ZERO),
        });
    }

    /// A peer has not answered in that time. On a retry it had what busy peers left, which says nothing.
    fn note_silence(&self, peer: &Peer, lasted: Micros, is_retry: bool) {
        self.0.metrics.rejected(Break::Timeout.reason());
        if !is_retry {
            self.beliefs().link_mut(peer).note_silence(lasted, self.0.clock.now());
            tracing::warn!(%peer, ?lasted, "a peer did not answer in time");
        }
    }

    fn give_up_on(&self, peer: &Peer, error: &Break) {
        let reason = error.reason();
        self.0.metrics.rejected(reason);
        if error.is_the_peers() {
            self.beliefs().link_mut(peer).note_failure(self.0.clock.now());
        }
        tracing::warn!(%peer, %error, reason, "a peer gave no blocks, or not all of them");
    }

    fn tokens(&self, blocks: usize) -> Tokens {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Tokens::new(blocks.saturating_mul(self.0.block_size.get()))
    }

    fn cost(&self, blocks: usize) -> Missing {
        let bytes = count(blocks).saturating_mul(count(self.0.block_bytes));
        Missing { tokens: self.tokens(blocks), bytes }
    }
}

impl Wanted {
    fn missing(&self) -> usize {
        self.keys.len().saturating_sub(self.leading)
    }

    /// Asks the engine anew where the missing blocks begin.
    async fn look_again(&mut self, engine: &EngineHandle) {
        if let Ok(leading) = engine.leading_blocks(self.prefix.clone()).await {
            self.leading = leading;
        }
    }
}

impl<'a> Fetch<'a> {
    fn new(share: &'a KvShare, engine: &'a EngineHandle, wanted: &'a Wanted) -> Self {
        Self {
            share,
            engine,
            wanted,
            pending: Vec::new(),
            handed: wanted.leading,
            got: 0,
            bytes: 0,
            waited: None,
        }
    }

    /// Asks, and takes what comes.
    async fn run(&mut self, peer: &Peer) -> Result<(), Break> {
        let share = &self.share.0;
        let began = share.clock.now();
        let ask = self.share.ask(self.wanted, self.wanted.missing());
        let mut answer = client::ask(peer, &share.settings.token, &ask).await?;
        self.waited = Some(share.clock.now().since(began));
        let mut reader = EnvelopeReader::new(share.block_bytes);
        let promised = answer.blocks.min(ask.blocks.len());
        let mut expected = self.wanted.keys[self.wanted.leading..][..promised].iter();
        let mut next = expected.next();
        while let Some(key) = next {
            if let Some(block) = reader.next_block(*key)? {
                self.bytes += count(block.payload.len());
                self.pending.push(block.payload.to_vec());
                next = expected.next();
                if BYTES_AT_ONCE <= self.pending.len() * share.block_bytes {
                    self.hand_over().await?;
                }
                continue;
            }
            let bytes = answer.more().await?.ok_or(Break::Truncated)?;
            reader.push(&bytes);
        }
        self.hand_over().await
    }

    /// Has the engine take what is there.
    async fn hand_over(&mut self) -> Result<(), Break> {
        let blocks = std::mem::take(&mut self.pending);
        if blocks.is_empty() {
            return Ok(());
        }
        let (first, taken) = (self.handed, blocks.len());
        self.handed += taken;
        let prefix = self.wanted.prefix.clone();
        let imported = self.engine.import_blocks(prefix, first, blocks).await?;
        self.got += imported.leading.saturating_sub(first).min(taken);
        if imported.leading < self.handed {
            return Err(Break::NoRoom);
        }
        Ok(())
    }

    /// Counts what the engine took after nobody waited for its answer any more: it carries out what
    /// it was handed, and answers this question after that.
    async fn count_again(&mut self) {
        let before = self.wanted.leading;
        let handed = self.handed.saturating_sub(before);
        if self.got == handed {
            return;
        }
        if let Ok(leading) = self.engine.leading_blocks(self.wanted.prefix.clone()).await {
            self.got = leading.saturating_sub(before).min(handed).max(self.got);
        }
    }
}

fn left_until(until: Instant) -> Micros {
    Micros::from(until.saturating_duration_since(Instant::now()))
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
