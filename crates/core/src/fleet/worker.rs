//! Worker state in the fleet: health, breaker, load and speeds of one worker.

use alloc::string::String;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros, Tokens};

use super::attempt::{Demand, FirstToken};
use super::health::Health;
use super::load::{Load, Scraped, Share};
use super::nonstreamed_prefill::Unseen;
use super::refusals::Refusals;
use super::seats::Seats;
use super::seen_prefills::SeenPrefills;
use super::traffic::SentLately;
use crate::admit::{Booking, Caution, Correction, Forecast, Peak, Place, Strain};
use crate::breaker::Breaker;
use crate::estimate::{Histogram, Lengths, Pace, PrefillRate, StepTime};

/// For how long a worker that came up gets less than its share, unless set otherwise.
pub const SLOW_START: Micros = Micros::new(10_000_000);

/// One worker.
#[derive(Debug)]
pub struct Worker {
    pub(super) membership: Membership,
    /// Its name as a number: what consistent hashing goes by, the same in every gateway.
    pub(super) tag: u64,
    pub(super) health: Health,
    pub(super) breaker: Breaker,
    pub(super) refusals: Refusals,
    pub(super) came_up: Instant,
    pub(super) drains: Drains,
    pub(super) models: Vec<String>,
    pub(super) booked: Booked,
    pub(super) sent: SentLately,
    /// Since when it has been computing the prompt whose first token is due next.
    pub(super) prefill_since: Instant,
    pub(super) load: Load,
    pub(super) unseen: Unseen,
    pub(super) prefill_rate: PrefillRate,
    pub(super) step_time: StepTime,
    /// What first tokens took beyond what was expected.
    pub(super) lateness: Histogram,
    /// How long its decode steps take without what the tokens in its cache add to them.
    pub(super) step_bare: StepTime,
    /// From here to there and back, at the least.
    pub(super) round_trip: Micros,
    pub(super) blocks: BlockSharing,
    pub(super) forecast: Forecast,
    pub(super) correction: Correction,
    pub(super) caution: Caution,
    pub(super) seats: Seats,
    /// The fleet's count of starts when this worker last got one: what rotates ties.
    pub(super) started_last: u64,
}

/// Whether a worker fetches blocks that it lacks from those of its model that have them, and gives
/// them its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockSharing {
    /// It computes what it lacks.
    #[default]
    Alone,
    /// It does, and how long fetching took, once it has.
    Shared(Option<Pace>),
}

impl BlockSharing {
    /// Whether it does.
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

/// Why a worker is sent nothing new: any of these is enough, and each is called off by who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drains {
    /// An operator, or a notice that its machine is taken away.
    pub(super) ordered: bool,
    /// A repair of its memory.
    pub(super) repair: bool,
}

impl Drains {
    /// It is sent what comes.
    pub(super) const NONE: Self = Self { ordered: false, repair: false };
}

/// Whether a place of the fleet is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Member,
    /// It left, and what is in flight on it has yet to end.
    Leaving,
    Vacant,
}

/// The ledger of one worker: sums over the attempts in flight on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Booked {
    /// Attempts.
    pub requests: u32,
    /// Attempts that have yet to see their first token.
    pub prefilling: u32,
    /// Tokens that have to be computed before the last of those sees its first, where that will
    /// be seen.
    pub prefill_tokens: u64,
    /// Tokens of all prompts and of all that may be generated.
    pub tokens: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
}

impl Booked {
    /// Of the tokens that have to be computed, the part of one prompt.
    pub(super) fn prefill_one(self) -> u64 {
        self.prefill_tokens / u64::from(self.prefilling.max(1))
    }
}

impl Worker {
    pub(super) const fn new(tag: u64) -> Self {
        Self {
            membership: Membership::Member,
            tag,
            health: Health::Unproven,
            breaker: Breaker::new(),
            refusals: Refusals::new(),
            came_up: Instant::ORIGIN,
            drains: Drains::NONE,
            models: Vec::new(),
            booked: Booked {
                requests: 0,
                prefilling: 0,
                prefill_tokens: 0,
                tokens: 0,
                prompt_tokens: 0,
            },
            sent: SentLately::NONE,
            prefill_since: Instant::ORIGIN,
            load: Load::new(),
            unseen: Unseen::new(),
            prefill_rate: PrefillRate::new(),
            step_time: StepTime::new(),
            lateness: Histogram::new(),
            step_bare: StepTime::new(),
            round_trip: Micros::ZERO,
            blocks: BlockSharing::Alone,
            forecast: Forecast::new(),
            correction: Correction::new(),
            caution: Caution::new(),
            seats: Seats::new(),
            started_last: 0,
        }
    }

    /// Whether it shares the blocks of its cache.
    pub const fn blocks(&self) -> BlockSharing {
        self.blocks
    }

    /// What is known of its health.
    pub const fn health(&self) -> Health {
        self.health
    }

    /// Its name as a number.
    pub const fn tag(&self) -> u64 {
        self.tag
    }

    /// Whether it finishes what it has and takes nothing new.
    pub const fn is_draining(&self) -> bool {
        self.drains.ordered || self.drains.repair
    }

    /// Whether a repair of its memory asks for it.
    pub(crate) const fn is_drained_for_repair(&self) -> bool {
        self.drains.repair
    }

    /// Attempts in flight on it.
    pub const fn requests(&self) -> u32 {
        self.booked.requests
    }

    /// Estimated tokens of the attempts in flight on it.
    pub const fn tokens(&self) -> u64 {
        self.booked.tokens
    }

    /// All that is in flight on it.
    pub const fn booked(&self) -> Booked {
        self.booked
    }

    /// Prompt tokens that it has yet to compute of what we sent it, going at `pace`.
    pub fn queued(&self, pace: Pace, now: Instant) -> u64 {
        self.prefill_left(pace, now).saturating_add(self.unseen.left(pace, now))
    }

    /// Prompt tokens that it has yet to compute before the last first token that will be seen.
    pub(super) fn prefill_left(&self, pace: Pace, now: Instant) -> u64 {
        self.seen_prefills().left(pace, now)
    }

    /// The prompts whose first token will be seen.
    pub(super) fn seen_prefills(&self) -> SeenPrefills {
        SeenPrefills {
            tokens: self.booked.prefill_tokens,
            one: self.booked.prefill_one(),
            since: self.prefill_since,
            round_trip: self.round_trip,
        }
    }

    /// When it last got an attempt, as a count of the fleet's starts; zero for never.
    pub const fn started_last(&self) -> u64 {
        self.started_last
    }

    /// The models it listed when it last answered a probe.
    pub fn models(&self) -> &[String] {
        &self.models
    }

    /// When it last came up.
    pub(crate) const fn came_up(&self) -> Instant {
        self.came_up
    }

    /// What it last said of its load, and when; `None` if it never did.
    pub const fn scraped(&self) -> Option<&Scraped> {
        self.load.scraped()
    }

    /// How old its word on its load is; `None` if it never gave it.
    pub fn staleness(&self, now: Instant) -> Option<Micros> {
        self.scraped().map(|scraped| now.since(scraped.at))
    }

    /// Tokens its cache has room for; `None` while unknown.
    pub fn kv_capacity(&self) -> Option<Tokens> {
        self.load.kv_capacity()
    }

    /// Tokens of its cache that requests hold: those on our books, and what it held beyond them when
    /// it was last asked. `None` while the capacity is unknown.
    pub fn kv_used(&self) -> Option<u64> {
        self.load.kv_used(self.forecast.sums().used)
    }

    /// Tokens that requests hold of its cache and have yet to generate: as if none ended before all have.
    pub(super) fn kv_booked(&self) -> u64 {
        let used = self.kv_used().unwrap_or(0);
        used.saturating_add(self.forecast.remaining())
    }

    /// How long it takes until a thousand tokens of its cache come free, as a mean until all that is in flight has
    /// ended.
    pub(crate) fn frees_thousand_in(&self) -> Micros {
        let (sums, remaining) = (self.forecast.sums(), self.forecast.remaining());
        // Where answers are spread evenly, the last one to end has twice the mean before it.
        let all_end = self.step_time.micros().get().saturating_mul(2 * remaining);
        let held = sums.sequences.saturating_mul(sums.used + remaining);
        Micros::new(all_end.saturating_mul(1_000).checked_div(held).unwrap_or(0))
    }

    /// Tokens that it has had to find room for since it last spoke of its load, less those of requests
    /// that have ended since: our own ledger (C4).
    pub const fn sent_since(&self) -> u64 {
        self.load.since()
    }

    /// Requests on it: those in flight through this gateway, and those that others sent it,
    /// judging by its last word.
    pub fn requests_all(&self) -> u32 {
        self.booked.requests.saturating_add(self.load.foreign())
    }

    /// Sequences on it: ours, each answer for itself, and others' requests.
    pub fn sequences_all(&self) -> u64 {
        u64::from(self.sequences_ours()).saturating_add(self.load.foreign().into())
    }

    /// Sequences on it that are ours: an engine counts each answer of a request for itself.
    pub(super) fn sequences_ours(&self) -> u32 {
        let sequences = self.forecast.sums().sequences.max(u64::from(self.booked.requests));
        u32::try_from(sequences).unwrap_or(u32::MAX)
    }

    /// How many sequences it computes at once.
    pub const fn seats(&self) -> &Seats {
        &self.seats
    }

    /// Sequences that it may have at once, if that is bounded: as many as it computes, and those whose ends are
    /// heard of only after a round trip.
    pub(crate) fn sequences_max(&self) -> Option<u64> {
        let seats = u64::from(self.seats.limit()?);
        let (sequences, remaining) = (self.forecast.sums().sequences, self.forecast.remaining());
        // Each has half of its answer before it, as a mean.
        let lasts = 2 * remaining.saturating_mul(self.step_time.micros().get());
        let ends = sequences.saturating_mul(sequences).saturating_mul(self.round_trip.get());
        Some(seats.saturating_add(ends.checked_div(lasts).unwrap_or(0).min(seats)))
    }

    /// Tokens of the requests that end there within a round trip, and so before one that is sent now comes: whoever waits
    /// for their end to be heard leaves that room idle for as long.
    pub(crate) fn ends_unheard(&self) -> u64 {
        let sums = self.forecast.sums();
        let remaining = self.forecast.remaining();
        let lasts = 2 * remaining.saturating_mul(self.step_time.micros().get());
        let ended = sums.used.saturating_mul(sums.sequences).saturating_mul(self.round_trip.get());
        ended.checked_div(lasts).unwrap_or(0).min(sums.used)
    }

    /// What other gateways say that they have in flight on it.
    pub const fn others(&self) -> Share {
        self.load.others()
    }

    /// Requests that wait there and are not ours.
    pub const fn foreign_waiting(&self) -> u32 {
        self.load.foreign_waiting()
    }

    /// How fast it computes prompts.
    pub const fn prefill_rate(&self) -> &PrefillRate {
        &self.prefill_rate
    }

    /// From here to there and back, at the least.
    pub const fn round_trip(&self) -> Micros {
        self.round_trip
    }

    /// How long its decode steps take.
    pub const fn step_time(&self) -> &StepTime {
        &self.step_time
    }

    /// The most that what is in flight on it will hold of its cache at once, others' requests as
    /// they are now included.
    pub fn predicted_peak(&self) -> Peak {
        let peak = self.forecast.peak();
        Peak { mean: peak.mean.saturating_add(self.correction.foreign()), ..peak }
    }

    /// Tokens that requests in flight hold of its cache, by our own books and what it reported
    /// beyond them.
    pub const fn expected_use(&self) -> u64 {
        self.forecast.sums().used.saturating_add(self.correction.foreign())
    }

    /// Prompts and declared answers of all that is in flight, over its capacity, in thousandths:
    /// what it was promised. `None` while the capacity is unknown.
    pub fn overcommit_permille(&self) -> Option<u64> {
        let capacity = u64::from(self.kv_capacity()?.get());
        self.forecast.sums().declared.saturating_mul(1_000).checked_div(capacity)
    }

    /// What its preemptions have added to the caution, in thousandths of a deviation.
    pub const fn caution_milli(&self) -> u32 {
        self.caution.milli()
    }

    /// How long until so many tokens should have come free; `None` where even all will not do.
    pub(crate) fn drained_in(&self, tokens: u64) -> Option<Micros> {
        let steps = self.forecast.steps_until_free(tokens)?;
        Some(Micros::new(steps.saturating_mul(self.step_time.micros().get())))
    }

    pub(crate) const fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    pub(crate) const fn correction(&self) -> &Correction {
        &self.correction
    }

    /// How far it is through its slow start, in thousandths; 1,000 once that is over.
    pub fn warmth_permille(&self, slow_start: Micros, now: Instant) -> u32 {
        let up = now.since(self.came_up).get();
        if slow_start.get() <= up {
            return 1_000;
        }
        // Never nothing: a worker that gets no request learns nothing.
        u32::try_from(up * 1_000 / slow_start.get()).unwrap_or(1_000).max(100)
    }
}

impl Worker {
    /// Books what an attempt will hold of the cache; `computed` is when its prompt should have been.
    pub(super) fn book(&mut self, demand: Demand, computed: Instant) -> Option<Place> {
        self.forecast.start(Booking {
            prospect: demand.prospect,
            own: demand.prompt.checked_sub(demand.pinned).unwrap_or_default(),
            unseen: (demand.first_token == FirstToken::Unseen).then_some(computed),
        })
    }

    /// Brings answers up to date that nobody sees before they are whole.
    pub(super) fn advance(&mut self, lengths: &Lengths, now: Instant) {
        self.forecast.advance(self.step_time.micros(), lengths, now);
    }

    /// Learns from what it just said of its load.
    pub(super) fn correct(&mut self) {
        let Some(&scraped) = self.load.scraped() else { return };
        let used = scraped.kv_use_permille.unwrap_or(0);
        let strain = if used > 500 { Strain::Working } else { Strain::Idle };
        self.caution.note(scraped.preemptions, strain, scraped.at);
        if let (Some(capacity), Some(used)) = (scraped.kv_capacity, scraped.kv_use_permille) {
            let reported = u64::from(capacity.get()) * u64::from(used) / 1_000;
            self.correction.note(reported, self.forecast.sums().used);
        }
    }

    /// Learns from its end: what it held then may have been too much.
    pub(super) fn died(&mut self, now: Instant) {
        let capacity = self.kv_capacity().map_or(0, |capacity| u64::from(capacity.get()));
        let is_working = 0 < capacity && capacity < 2 * self.expected_use();
        self.caution.died(if is_working { Strain::Working } else { Strain::Idle }, now);
    }

    /// Its process is gone, and what it had room for.
    pub(super) fn forget_process(&mut self) {
        self.load.forget_process();
    }

    /// Forgets what it said: the process it came from may be gone.
    pub(super) fn forget_load(&mut self) {
        self.load.forget();
        self.correction = Correction::new();
        self.seats.forget();
    }
}
