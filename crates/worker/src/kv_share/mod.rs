//! KV cache sharing between workers: offers blocks to peers and fetches missing ones.
//!
//! A worker *offers* the full blocks of its cache to peers that present the fleet's token
//! ([`offer`]). It *fetches* blocks that its own cache lacks from its peers where that is expected
//! to be faster than recomputing ([`fetch`]). Requests wait for their blocks here, outside of the
//! engine, which goes on with the others; the blocks enter the prefix cache, and then the requests
//! are submitted in the order of their arrival (`docs/design/kv-share.md`).
//!
//! **Invariant:** no peer can change an answer or fail a request: a block is verified before it is
//! used, every wait has a deadline, and missing blocks are recomputed.

mod client;
mod fetch;
pub(crate) mod offer;
mod peer;
mod roots;
mod settings;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use overdraft_core::estimate::PrefillRate;
use overdraft_core::transfer::Link;
use overdraft_engine::{BlockLayout, CacheChanges, Observation, Observer};
use overdraft_telemetry::Clock;
use overdraft_telemetry::metrics::KvShareMetrics;
use overdraft_units::{BlockSize, CacheSalt};
use overdraft_wire::kv_blocks::{BlockKey, KvModel, SOURCE_HEADER};
use tokio::sync::{Semaphore, watch};

pub use self::peer::{Peer, PeerError};
use self::roots::Roots;
pub use self::settings::{KvShareError, KvShareSettings};

/// Maximum requests that wait for blocks at once; further ones recompute.
const FETCHES_MAX: usize = 4;

/// Maximum peers that are served at once; others are told to retry.
const OFFERS_MAX: usize = 4;

/// Maximum peers whose link estimates are remembered: those that a gateway named come and go.
const LINKS_MAX: usize = 64;

/// What one worker shares; clones are the same.
#[derive(Clone, Debug)]
pub struct KvShare(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: KvShareSettings,
    model: KvModel,
    block_size: BlockSize,
    block_bytes: usize,
    clock: Clock,
    metrics: KvShareMetrics,
    roots: Roots,
    beliefs: Mutex<Beliefs>,
    /// Fetches under way by the first block they lack; who needs the same waits for it.
    under_way: Mutex<BTreeMap<BlockKey, watch::Receiver<()>>>,
    fetches: Semaphore,
    offers: Arc<Semaphore>,
}

/// What was measured.
#[derive(Debug, Default)]
struct Beliefs {
    links: BTreeMap<Peer, Link>,
    prefill: PrefillRate,
}

impl KvShare {
    /// Shares the blocks of `model`, which look like `layout`.
    pub fn new(
        settings: KvShareSettings,
        model: KvModel,
        block_size: BlockSize,
        layout: &BlockLayout,
        clock: Clock,
        metrics: KvShareMetrics,
    ) -> Self {
        Self(Arc::new(Inner {
            roots: Roots::new(model),
            settings,
            model,
            block_size,
            block_bytes: layout.bytes,
            clock,
            metrics,
            beliefs: Mutex::default(),
            under_way: Mutex::default(),
            fetches: Semaphore::new(FETCHES_MAX),
            offers: Arc::new(Semaphore::new(OFFERS_MAX)),
        }))
    }

    /// What the engine is to be started with: learns how long prompts take, and tells `inner` of
    /// everything.
    pub fn observer(&self, inner: Box<dyn Observer>) -> Box<dyn Observer> {
        Box::new(PaceObserver { inner, share: self.clone() })
    }

    /// Whether blocks are ever fetched.
    pub(crate) fn fetches(&self) -> bool {
        !self.0.settings.peers.is_empty() || self.0.settings.trusts_gateway
    }

    /// Remembers which text a salt stands for: the cache knows only the salt, and peers only the text.
    pub(crate) fn note_salt(&self, salt: CacheSalt, text: &str) {
        self.0.roots.note(salt, text);
    }

    /// The peer that a gateway says has the prefix: one of ours, or any where gateways are trusted.
    pub(crate) fn source(&self, headers: &HeaderMap) -> Option<Peer> {
        let named = headers.get(SOURCE_HEADER)?.to_str().ok()?;
        let peer: Peer = named.parse().ok()?;
        let settings = &self.0.settings;
        (settings.trusts_gateway || settings.peers.contains(&peer)).then_some(peer)
    }

    fn beliefs(&self) -> MutexGuard<'_, Beliefs> {
        // Numbers that a panic elsewhere leaves whole.
        self.0.beliefs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Beliefs {
    fn link(&self, peer: &Peer) -> Link {
        self.links.get(peer).copied().unwrap_or_default()
    }

    fn link_mut(&mut self, peer: &Peer) -> &mut Link {
        if !self.links.contains_key(peer) && self.links.len() >= LINKS_MAX {
            // Any will do: what is forgotten is tried again.
            self.links.pop_first();
        }
        self.links.entry(peer.clone()).or_default()
    }
}

/// Measures steps for the decision, beside another observer.
struct PaceObserver {
    inner: Box<dyn Observer>,
    share: KvShare,
}

impl Observer for PaceObserver {
    fn observe(&mut self, observation: &Observation) {
        if let Observation::StepRan { tokens, duration } = *observation {
            self.share.beliefs().prefill.note(u64::from(tokens.get()), duration);
        }
        self.inner.observe(observation);
    }

    fn watches_cache(&self) -> bool {
        self.inner.watches_cache()
    }

    fn observe_cache(&mut self, changes: CacheChanges) {
        self.inner.observe_cache(changes);
    }
}
