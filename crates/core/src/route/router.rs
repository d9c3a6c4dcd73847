//! Router: the fleet, the prefix index, the wait queue and the estimates, behind one interface.
//!
//! Gateway and simulator drive this and nothing below it: a request is [`Router::place`]d, its
//! first token and its end are reported, and so is what workers say. **Invariant:** a [`Placed`]
//! cannot be copied and is consumed when it ends, so no exit path can leave it on the books twice.
//! None is left at all as long as the shell ends each one that it drops.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use overdraft_units::{BlockSize, Instant, Tokens};

use super::candidate::Decision;
use super::decide::decide_in;
use super::decision_scene::{Line, Prefix, Scene};
use super::fit_score::fit_score_permille;
use super::placed_request::{Outcome, Placed};
use super::routing_request::{Asked, model_number};
use super::settings::RouteSettings;
use super::{Attempted, Choice, Tried, fast_path};
use crate::admit::{Chain, Portion, Priority, Queue, QueueSettings, Tenant, Tenants, Ticket};
use crate::estimate::{Kind, Lengths, Media, MovingAverage, Texts};
use crate::fleet::{Change, Demand, Ending, FirstToken, Fleet, Scraped, WorkerId};
use crate::hedge::Hedging;
use crate::prefix::{Chunks, Hint, Matches, PrefixIndex, PrefixKey, PrefixLimits};

/// Maximum models with estimates.
pub const MODELS_MAX: usize = 1_024;

/// Tokens to a chunk where nothing has been routed yet.
pub(super) const CHUNK_FIRST: Tokens = Tokens::new(64);

/// A request as routing sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The model it names.
    pub model: &'a str,
    /// Its prompt.
    pub prompt: Prompt<'a>,
    /// Tokens that each of its answers may have, if it says.
    pub limit: Option<u32>,
    /// Answers it wants.
    pub choices: u32,
    /// Whether its first token will be seen.
    pub first_token: FirstToken,
    /// Its session as a number, if it has one.
    pub session: Option<u64>,
    /// A number of its own, for draws.
    pub dice: u64,
    /// How much it matters.
    pub priority: Priority,
    /// Whose it is.
    pub tenant: Tenant,
    /// What kind of request it is: those of a kind have answers of like lengths.
    pub kind: Kind,
}

/// A prompt, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub enum Prompt<'a> {
    /// Its tokens were counted.
    Counted {
        /// How many.
        tokens: Tokens,
        /// The keys of its full blocks.
        chain: &'a [PrefixKey],
        /// Tokens to a block.
        block: BlockSize,
    },
    /// It is text whose tokens are estimated.
    Text {
        /// How long, what is no text aside.
        bytes: u64,
        /// Pictures and sounds in it.
        media: Media,
        /// Bytes of it that are sure to be words: none where something is in it that is not.
        words: u64,
        /// The keys of its full chunks.
        chain: &'a [PrefixKey],
        /// Bytes to a chunk.
        chunk: NonZeroU32,
    },
}

/// Where requests go, and why.
#[derive(Debug)]
pub struct Router {
    pub(super) fleet: Fleet,
    pub(super) prefixes: PrefixIndex,
    pub(super) texts: BTreeMap<String, Texts>,
    pub(super) lengths: Lengths,
    tenants: Tenants,
    pub(super) queue: Queue,
    /// Whose first tokens are late.
    pub(super) hedging: Hedging,
    /// Prompt tokens that were expected to be found where they were sent, over all.
    pub(super) found: MovingAverage,
    /// By place in the fleet: tokens to a chunk of what was last routed there.
    pub(super) chunks: Vec<Tokens>,
    /// By place in the fleet: tokens to a block of those that report.
    pub(super) blocks: Vec<Option<BlockSize>>,
    /// By place in the fleet: how often a cache was lost with its process.
    pub(super) cache_losses: Vec<u32>,
    pub(super) matches: Matches,
    pub(super) decision: Decision,
}

impl Router {
    /// A router without workers.
    pub fn new(limits: PrefixLimits) -> Self {
        Self {
            fleet: Fleet::new(),
            prefixes: PrefixIndex::new(limits),
            texts: BTreeMap::new(),
            lengths: Lengths::new(),
            tenants: Tenants::new(),
            queue: Queue::new(QueueSettings::default()),
            hedging: Hedging::default(),
            found: MovingAverage::new(),
            chunks: Vec::new(),
            blocks: Vec::new(),
            cache_losses: Vec::new(),
            matches: Matches::new(),
            decision: Decision::default(),
        }
    }

    /// The workers.
    pub const fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Who holds which prefix.
    pub const fn prefixes(&self) -> &PrefixIndex {
        &self.prefixes
    }

    /// What is believed of the requests for `model`.
    pub fn texts(&self, model: &str) -> Texts {
        self.texts.get(model).copied().unwrap_or_default()
    }

    /// Tokens that the prompt and the answers of `request` are expected to have.
    pub fn expected(&self, request: Request<'_>) -> (Tokens, Tokens) {
        let Asked { ask, .. } = self.ask(request);
        (ask.prompt, ask.completion)
    }

    /// What a request leaves to others.
    pub(super) fn portion(&self, request: Request<'_>) -> Portion {
        let workers = self.fleet.serving(request.model).map_or(1, <[_]>::len);
        self.tenants.portion(request.tenant, request.priority, u64::try_from(workers).unwrap_or(1))
    }

    /// Tokens that `worker` is believed to hold for others to share.
    pub fn prefix_tokens(&self, worker: WorkerId) -> u64 {
        let chunks = self.prefixes.reported(worker).max(self.prefixes.routed(worker));
        let chunk = self.chunks.get(worker.index()).map_or(CHUNK_FIRST, |chunk| *chunk);
        u64::from(chunks.get()) * u64::from(chunk.get())
    }

    /// The last decision.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Who held how much of the prompt that was decided on last.
    pub(super) const fn matches(&self) -> &Matches {
        &self.matches
    }

    /// Takes in what a worker said of its load.
    pub fn scraped(&mut self, worker: WorkerId, scraped: Scraped) {
        if !self.fleet.is_member(worker) {
            return;
        }
        self.fleet.scraped(worker, scraped, &self.lengths);
        self.queue.freed(worker);
        if let Some(capacity) = self.fleet.worker(worker).kv_capacity() {
            let chunk = self.chunks.get(worker.index()).map_or(CHUNK_FIRST, |chunk| *chunk);
            let room = Chunks::new(capacity.get() / chunk.get().max(1));
            self.prefixes.set_capacity(worker, room);
        }
    }

    /// Lets time pass; call it about once a second.
    pub fn tick(&mut self, now: Instant) {
        self.prefixes.tick(now);
        self.tenants.tick(now);
        // That a trial is due is told by nothing else, and it may be one of those that are held.
        if self.fleet.probes_due(now).next().is_some() {
            self.queue.freed_all();
        }
    }

    /// Decides where `request` would go, says why it would go nowhere else, and changes nothing.
    pub fn explain(
        &mut self,
        request: Request<'_>,
        settings: &RouteSettings,
        tried: &Tried,
        now: Instant,
    ) -> &Decision {
        let Asked { ask, chain, chunk } = self.ask(request);
        self.prefixes.lookup(chain, &mut self.matches);
        let prefix = Prefix { matches: &self.matches, index: &self.prefixes, chain, chunk };
        let line = Line { queue: &self.queue, model: model_number(request.model), ticket: None };
        let fleet = &self.fleet;
        let (reuse, behind) = (self.reuse(), self.fleet.behind());
        let (prefix, line) = (Some(prefix), Some(line));
        let scene = Scene { fleet, ask, prefix, line, reuse, behind, settings, now };
        decide_in(&scene, tried, &mut self.decision);
        &self.decision
    }

    /// Decides where `request` would go, as [`place`](Self::place) does, and changes nothing. Where all is
    /// as usual the decision tells of the chosen worker only; it is the one that
    /// [`explain`](Self::explain) tells.
    pub fn choose(
        &mut self,
        request: Request<'_>,
        settings: &RouteSettings,
        tried: &Tried,
        now: Instant,
    ) -> &Decision {
        let asked = self.ask(request);
        self.decide(&asked, None, settings, tried, now);
        &self.decision
    }

    fn decide(
        &mut self,
        asked: &Asked<'_>,
        ticket: Option<Ticket>,
        settings: &RouteSettings,
        tried: &Tried,
        now: Instant,
    ) {
        let Asked { ask, chain, chunk } = *asked;
        self.prefixes.lookup(chain, &mut self.matches);
        let prefix = Prefix { matches: &self.matches, index: &self.prefixes, chain, chunk };
        let waits = !self.queue.is_empty();
        let line = || Line { queue: &self.queue, model: model_number(ask.model), ticket };
        let line = waits.then(line);
        // Where others wait, the cheapest is mostly full, and all would be looked at for a second time.
        let is_full = line.is_some_and(|line| 0 < self.queue.waiting_for(line.model));
        let (reuse, behind) = (self.reuse(), self.fleet.behind());
        let (fleet, prefix) = (&self.fleet, Some(prefix));
        let scene = Scene { fleet, ask, prefix, line, reuse, behind, settings, now };
        if is_full || !fast_path::decide(&scene, tried, &mut self.decision) {
            decide_in(&scene, tried, &mut self.decision);
        }
    }

    /// Decides where `request` goes and books it there. That it will hold the prompt is only
    /// noted: once the request is on its way, [`remember`](Self::remember) it.
    ///
    /// # Errors
    /// The choice, where it is nobody.
    pub fn place(
        &mut self,
        request: Request<'_>,
        settings: &RouteSettings,
        attempted: Attempted<'_>,
        now: Instant,
    ) -> Result<Placed, Choice> {
        self.place_waiting(None, request, settings, attempted, now)
    }

    /// The same for one that has waited, if it has.
    pub(super) fn place_waiting(
        &mut self,
        ticket: Option<Ticket>,
        request: Request<'_>,
        settings: &RouteSettings,
        attempted: Attempted<'_>,
        now: Instant,
    ) -> Result<Placed, Choice> {
        let asked = self.ask(request);
        self.decide(&asked, ticket, settings, attempted.tried, now);
        let Asked { ask, chain, chunk } = asked;
        let Choice::Send(worker) = self.decision.choice else {
            return Err(self.decision.choice);
        };
        let cached = self.decision.chosen().map_or(Tokens::ZERO, |chosen| chosen.cached);
        let matched = self.matches.leading(worker).get();
        let known = Chain { keys: chain, chunk: chunk.get(), matched };
        let pinned = self.fleet.worker(worker).forecast().held_of(known);
        let reported = self.reported_sample(worker, request, pinned);
        self.found.note(u64::from(cached.get()), u64::from(ask.prompt.get()));
        let demand = Demand {
            prompt: ask.prompt,
            cached,
            pinned: Tokens::new(pinned.min(ask.prompt.get())),
            completion: ask.completion,
            first_token: request.first_token,
            prospect: ask.prospect,
        };
        let fit = fit_score_permille(self.fleet.worker(worker), ask.prompt, settings.fit_score);
        self.decision.fit_permille = Some(fit);
        let prediction = self.fleet.predict(worker, demand, now);
        let attempt = self.fleet.start(worker, demand, attempted.turn, now);
        let watch = self.watch(request, worker, demand, now);
        let tokens = u64::from(demand.whole().get());
        let counted = self.tenants.start(request.tenant, request.priority, tokens, now);
        let announced = self.prefixes.announce(worker, chain);
        let text = match request.prompt {
            Prompt::Text { bytes, media, .. } => Some((bytes, media)),
            Prompt::Counted { .. } => None,
        };
        Ok(Placed {
            attempt,
            prediction,
            tenant: counted.then_some(request.tenant),
            model: String::from(request.model),
            text,
            chunk,
            announced,
            matched,
            reported,
            receipt: None,
            first_token: None,
            watch,
            source: self.decision.source,
            progress: (now, 0),
            policy: self.decision.policy,
            arm: self.decision.arm,
        })
    }

    /// The first token of a placed request has come.
    pub fn first_token(&mut self, placed: &mut Placed, now: Instant) -> Option<Change> {
        placed.first_token = Some(now);
        if let Some(watch) = placed.watch.take() {
            self.hedging.first_token(watch, now);
        }
        self.queue.freed(placed.worker());
        let change = self.fleet.first_token(&mut placed.attempt, now);
        self.note(change);
        change
    }

    /// So many tokens of all answers of a placed request have come, since it was placed. Call it
    /// about every 32 tokens of a stream: it is what keeps a worker's predicted peak true.
    pub fn progress(
        &mut self,
        placed: &mut Placed,
        streamed: Tokens,
        now: Instant,
    ) -> Option<Change> {
        let change = self.fleet.progress(&mut placed.attempt, streamed, &self.lengths, now);
        self.note(change);
        let each = streamed.get() / placed.demand().prospect.answers.max(1);
        self.learn_step(placed, each, now);
        let class = placed.demand().prospect.class;
        self.lengths.note_growth(class, placed.progress.1, each);
        placed.progress = (now, each.max(placed.progress.1));
        change
    }

    /// A placed request has ended.
    pub fn end(&mut self, mut placed: Placed, outcome: Outcome, now: Instant) -> Option<Change> {
        self.forget_note(&mut placed);
        if let Some(watch) = placed.watch.take() {
            self.hedging.ended(watch, now);
        }
        if let Some(tenant) = placed.tenant {
            let tokens = u64::from(placed.demand().whole().get());
            self.tenants.end(tenant, tokens, now);
        }
        if outcome.ending == Ending::Answered {
            self.learn(&placed, outcome, now);
            self.hedging.served(placed.tokens(outcome));
        }
        self.queue.freed(placed.worker());
        let computed = placed.computed_unseen(outcome).map(|tokens| (placed.worker(), tokens));
        let change = self.fleet.end(placed.attempt, outcome.ending, now);
        if let Some((worker, tokens)) = computed {
            self.fleet.computed(worker, tokens, now);
        }
        self.note(change);
        change
    }

    fn learn(&mut self, placed: &Placed, outcome: Outcome, now: Instant) {
        // Who asks for no tokens says nothing of how many others get.
        let prospect = placed.demand().prospect;
        let completion = outcome.completion.filter(|_| prospect.limit != Some(0));
        let each = completion.map(|completion| completion.get() / prospect.answers.max(1));
        if let Some(each) = each {
            self.lengths.note_end(prospect.class, placed.progress.1, each);
            self.learn_step(placed, each, now);
        }
        if let (Some(receipt), Some(cached)) = (&placed.receipt, outcome.cached) {
            let chunks = Chunks::new(cached.get() / placed.chunk.get().max(1));
            let _: Hint = self.prefixes.record_hint(receipt, chunks);
        }
        self.compare(placed, outcome);
        if self.texts.len() == MODELS_MAX && !self.texts.contains_key(&placed.model) {
            return;
        }
        if !self.texts.contains_key(&placed.model) {
            self.texts.insert(placed.model.clone(), Texts::new());
        }
        let Some(texts) = self.texts.get_mut(&placed.model) else { return };
        if let (Some((bytes, media)), Some(prompt)) = (placed.text, outcome.prompt) {
            texts.note_prompt(bytes, media, prompt);
        }
        if let Some(each) = each {
            texts.note_completion(Tokens::new(each));
        }
    }

    /// Each answer has `tokens` by now: how long did those take that are new?
    fn learn_step(&mut self, placed: &Placed, tokens: u32, now: Instant) {
        let (since, before) = match (placed.progress, placed.first_token) {
            ((_, 0), Some(began)) => (began, 1),
            ((_, 0), None) => return,
            (told, _) => told,
        };
        let new = Tokens::new(tokens.saturating_sub(before));
        self.fleet.decoded(placed.worker(), new, now.since(since));
    }
}
