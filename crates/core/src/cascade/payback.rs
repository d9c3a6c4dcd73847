//! Expected value of a draft: whether asking the draft first saves time and money.
//!
//! `expected = draft + (1 - given) * target`, against the target alone, for the first token and for
//! the whole answer, and `given` against the break-even in money. All three are learnt: from drafts
//! that ran first, and from drafts that ran beside the target, which delay no client. Three bounds
//! hold while that is being learnt: each draft call has a timeout, drafts in flight have a
//! concurrency limit, and a delay budget stops them when it is spent.
//!
//! **Invariant:** the total delay of clients compared with the target alone has three parts. They are
//! [`DEBT_MAX`] answers of the target, two thirds of the allowed slowdown of all answers' time, and
//! the delay in flight when the budget was spent, each at most. `docs/design/cascade.md#r13`.

use overdraft_units::{Micros, Ratio};

use super::class::{Delivery, Traits};
use super::latency::{MEMORY, MEMORY_LONG, MEMORY_SHORT, Mean, Paces, Pick, sample};

/// Delay budget, in answers of the target: beyond this total delay of all clients, drafts no longer
/// run first.
pub const DEBT_MAX: i64 = 12;
/// Maximum credit, in answers of the target: time saved earlier that slow drafts may spend.
const CREDIT_MAX: i64 = 4;
/// Minimum time of one answer of the target, as the unit of the budget.
const TARGET_LEAST: i64 = 50_000;
/// A mean delay up to this counts as noise; the budget is charged all the same.
const NOISE: i64 = 5_000;
/// Minimum timeout of a draft call: the target's time may have been learnt on an idle machine.
const LIMIT_MIN: i64 = 100_000;
/// Mean deviations above the mean after which a draft times out.
const LATE_SPREADS: i64 = 6;
/// Maximum timeout of a draft call before the target's time is known.
const LIMIT_UNKNOWN: Micros = Micros::new(10_000_000);
/// Timeout of a draft call where any delay is allowed, as a multiple of the target's time.
const LIMIT_LOOSE: i64 = 8;
/// Drafts under way at first, before one has come to its verdict.
const ROOM_FIRST: u32 = 8;
/// Maximum drafts in flight.
const ROOM_MAX: u32 = 4_096;
/// The room grows by this part of it with each verdict that comes in time.
const ROOM_GROWS: u32 = 16;
/// Exploration where no draft runs beside the target: one request in this many is a trial; the
/// number doubles after each failed trial.
const TRIAL_FIRST: u64 = 32;
/// Maximum doublings of it.
const TRIAL_DOUBLINGS: u32 = 5;

/// Why a draft is not asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpaid {
    /// Its answers are given too seldom to cost less.
    Refused,
    /// Clients would wait longer than is allowed.
    Slow,
    /// Most of its calls fail, or are given up.
    Failing,
}

impl Unpaid {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Slow => "slow",
            Self::Failing => "failing",
        }
    }
}

/// What came of a draft call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upshot {
    /// Its answer is given, or would be.
    Given,
    /// Its answer is not good enough.
    Refused,
    /// There is none: it failed, or its limit ran out.
    Failed,
    /// It is not known yet how good an answer must be.
    Unjudged,
}

/// Who waited for a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// A client.
    Client,
    /// Nobody: the target was asked at the same time.
    Nobody,
}

/// What asking first costs and brings, for one route as one gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payback {
    /// How much longer clients may wait, as a share of the target's time; nothing where any time will do.
    slowdown: Option<Ratio>,
    /// The share of drafts that must be given to cost less.
    break_even: Ratio,
    paces: Paces,
    /// The share of calls that come to a verdict: the others fail, or run into their limit. Of the pool as a whole.
    told: Mean,
    /// How long those others take.
    failure: Mean,
    /// How much longer clients have waited than for the target, in microseconds: for first tokens, and in all.
    debts: [i64; 2],
    /// Whether a debt has been full and is not down to three quarters yet.
    is_suspended: bool,
    /// Drafts that a client waits for, and how many may be.
    under_way: u32,
    room: u32,
    /// Trials that failed in a row.
    failed: u32,
}

/// A whole, in millionths.
const MILLION: i64 = 1_000_000;

/// The two debts.
const FIRST: usize = 0;
const END: usize = 1;

impl Payback {
    /// Nothing known.
    pub fn new(slowdown: Option<Ratio>, break_even: Ratio) -> Self {
        Self {
            slowdown,
            break_even,
            paces: Paces::default(),
            told: Mean::default(),
            failure: Mean::default(),
            debts: [0; 2],
            is_suspended: false,
            under_way: 0,
            room: ROOM_FIRST,
            failed: 0,
        }
    }

    /// Why a draft is not asked first for such a request; nothing where it pays, or where that is to be found out.
    pub fn unpaid(&self, traits: &Traits) -> Option<Unpaid> {
        let of = |pick: Pick| self.paces.of(traits, pick).map(|(mean, _)| mean);
        self.unpaid_of(traits.delivery, &of)
    }

    /// Why no draft is asked first, whatever the request; nothing where some are.
    pub fn unpaid_at_all(&self) -> Option<Unpaid> {
        let mut why = None;
        for delivery in [Delivery::Whole, Delivery::Streamed] {
            let of = |pick: Pick| self.paces.of_all(delivery, pick);
            if of(|cell| &cell.target_end).is_some() {
                why = Some(self.unpaid_of(delivery, &of)?);
            }
        }
        why
    }

    /// Why a draft is not worth asking beside the target for each request while its worth is learnt: most of its calls
    /// fail, or it takes twice as long as the target. Below that its pace may yet change.
    pub fn hopeless(&self, traits: &Traits) -> Option<Unpaid> {
        if self.told.known().is_some_and(|told| told < MILLION / 2) {
            return Some(Unpaid::Failing);
        }
        self.slowdown?;
        let of = |pick: Pick| self.paces.of(traits, pick).map(|(mean, _)| mean);
        let (verdict, target) = (of(|cell| &cell.verdict)?, of(|cell| &cell.target_end)?);
        (2 * target.max(TARGET_LEAST) < verdict).then_some(Unpaid::Slow)
    }

    /// Whether one more draft may be under way: those that are must come to their verdicts first, or a pool that stopped
    /// answering would hold all that comes.
    pub const fn has_room(&self) -> bool {
        self.under_way < self.room
    }

    /// Whether a request is a trial though drafts do not pay, where nothing is learnt beside the target. `drawn` is even
    /// among all 64-bit numbers.
    pub fn is_trial(&self, drawn: u64) -> bool {
        let one_in = TRIAL_FIRST << self.failed.min(TRIAL_DOUBLINGS);
        drawn.is_multiple_of(one_in) && self.under_way == 0
    }

    /// How long a draft of such a request may take to its verdict: as long as the target takes to the end of nearly all
    /// its answers, for a draft that takes longer spares no time whatever it says; and as long as nearly all drafts take,
    /// for one that takes longer is hardly to come.
    pub fn limit(&self, traits: &Traits) -> Micros {
        let Some((mean, spread)) = self.paces.of(traits, |cell| &cell.target_end) else {
            return LIMIT_UNKNOWN;
        };
        let limit = mean + 2 * spread;
        let limit = if self.slowdown.is_some() { limit } else { LIMIT_LOOSE * limit };
        let usual = self.paces.of(traits, |cell| &cell.verdict);
        let limit = usual.map_or(limit, |(mean, spread)| limit.min(mean + LATE_SPREADS * spread));
        Micros::new(limit.max(LIMIT_MIN).unsigned_abs())
    }

    /// The same for a draft that nobody waits for: what it is worth may be learnt though it comes too late to be given.
    pub fn limit_beside(&self, traits: &Traits) -> Micros {
        Micros::new(self.limit(traits).get().saturating_mul(LIMIT_LOOSE.unsigned_abs()))
    }

    /// A draft is asked that a client waits for. Each comes to [`Self::handle_verdict`] or [`Self::handle_left`].
    pub const fn handle_start(&mut self) {
        self.under_way = self.under_way.saturating_add(1);
    }

    /// It is known after so long whether a draft is given.
    pub fn handle_verdict(
        &mut self,
        traits: &Traits,
        took: Micros,
        upshot: Upshot,
        waited: Waited,
    ) {
        let limit = self.limit(traits);
        let (took, upshot) = match waited {
            // Had a client waited, it would have been given up by then.
            Waited::Nobody if limit < took => (limit, Upshot::Failed),
            _ => (took, upshot),
        };
        let took = sample(took);
        if waited == Waited::Client {
            self.make_room(upshot);
            self.charge(traits, took, upshot);
        }
        let share = |is_so: bool| if is_so { MILLION } else { 0 };
        self.told.note(share(upshot != Upshot::Failed), MEMORY_SHORT);
        if upshot == Upshot::Failed {
            self.failure.note(took, MEMORY_SHORT);
            return;
        }
        self.paces.note(traits, took, MEMORY, |cell| &mut cell.verdict);
        if upshot != Upshot::Unjudged {
            let given = share(upshot == Upshot::Given);
            self.paces.note(traits, given, MEMORY, |cell| &mut cell.given);
        }
    }

    /// A client left that waited for a draft: a draft that took longer than the target would have is at fault.
    pub fn handle_left(&mut self, traits: &Traits, took: Micros) {
        let usual = self.paces.of(traits, |cell| &cell.target_end);
        if usual.is_some_and(|(usual, _)| usual < sample(took)) {
            self.handle_verdict(traits, took, Upshot::Failed, Waited::Client);
        } else {
            self.under_way = self.under_way.saturating_sub(1);
        }
    }

    /// A draft's answer was whole after so long.
    pub fn handle_draft_end(&mut self, traits: &Traits, took: Micros, waited: Waited) {
        let took = sample(took);
        self.paces.note(traits, took, MEMORY, |cell| &mut cell.draft_end);
        if waited == Waited::Client
            && let Some((target, _)) = self.paces.of(traits, |cell| &cell.target_end)
        {
            let target = self.careful(traits.delivery, target, |cell| &cell.target_end);
            self.owe(END, took - target);
            self.forgive(END, target);
        }
    }

    /// The target has answered: after so long its first token was there, where that was seen, and all of it.
    pub fn handle_target(&mut self, traits: &Traits, first: Option<Micros>, end: Micros) {
        if let Some(first) = first.map(sample) {
            self.paces.note(traits, first, MEMORY_LONG, |cell| &mut cell.target_first);
            self.forgive(FIRST, first);
        }
        let end = sample(end);
        self.paces.note(traits, end, MEMORY_LONG, |cell| &mut cell.target_end);
        self.forgive(END, end);
    }

    /// Why requests of which `of` knows the means are not asked first.
    fn unpaid_of(&self, delivery: Delivery, of: &dyn Fn(Pick) -> Option<i64>) -> Option<Unpaid> {
        let told = self.told.known().unwrap_or(MILLION);
        let given = of(|cell| &cell.given).map(|given| told * given / MILLION);
        if given.unwrap_or(told) < i64::from(self.break_even.get()) {
            return Some(if told < MILLION / 2 { Unpaid::Failing } else { Unpaid::Refused });
        }
        self.slowdown?;
        // Before it is known how often a draft is given it is taken to be each time: if that is too slow, all is.
        let is_slow = || self.is_slow(delivery, told, given.unwrap_or(told), of);
        // What some streams gained others may spend: it takes both, so there is none where all answers come whole.
        let has_credit = self.debts.iter().all(|debt| *debt < 0);
        (self.is_suspended || (!has_credit && is_slow())).then_some(Unpaid::Slow)
    }

    /// Whether they would take longer than is allowed with a draft that comes to a verdict and is given that often.
    fn is_slow(
        &self,
        delivery: Delivery,
        told: i64,
        given: i64,
        of: &dyn Fn(Pick) -> Option<i64>,
    ) -> bool {
        let Some(target) = of(|cell| &cell.target_end) else { return false };
        let target = self.careful(delivery, target, |cell| &cell.target_end);
        let failure = self.failure.known();
        let Some(verdict) = of(|cell| &cell.verdict).or(failure) else { return false };
        let draft = of(|cell| &cell.draft_end).unwrap_or(verdict);
        let times = |share: i64, time: i64| i128::from(share) * i128::from(time);
        // What a draft took that is not given in the end.
        let lost = times(MILLION - told, failure.unwrap_or(verdict));
        let end = times(given, draft)
            + times(told - given, verdict)
            + lost
            + times(MILLION - given, target);
        if self.is_beyond(end, target) {
            return true;
        }
        let first = of(|cell| &cell.target_first).filter(|_| delivery == Delivery::Streamed);
        first.is_some_and(|target| {
            let target = self.careful(delivery, target, |cell| &cell.target_first);
            let first = times(told, verdict) + lost + times(MILLION - given, target);
            self.is_beyond(first, target)
        })
    }

    /// A time of the target, less what its mean may be too high by: drafts would else be asked just when it is, and be
    /// charged too little.
    fn careful(&self, delivery: Delivery, target: i64, pick: Pick) -> i64 {
        (target - self.paces.error_of_all(delivery, pick)).max(0)
    }

    /// Whether an expected time, in millionths of a microsecond, is more than the target's by more than is allowed.
    fn is_beyond(&self, expected: i128, target: i64) -> bool {
        let allowed = i128::from(self.slowdown.unwrap_or(Ratio::WHOLE).get());
        let more = (i128::from(target) * allowed).max(i128::from(NOISE) * i128::from(MILLION));
        i128::from(target) * i128::from(MILLION) + more < expected
    }

    /// Books what a client waited, once the verdict on its draft is known.
    fn charge(&mut self, traits: &Traits, took: i64, upshot: Upshot) {
        let is_given = upshot == Upshot::Given;
        if traits.delivery == Delivery::Streamed {
            let spared = self.paces.of(traits, |cell| &cell.target_first);
            let spared = spared.filter(|_| is_given).map_or(0, |(first, _)| {
                self.careful(traits.delivery, first, |cell| &cell.target_first)
            });
            self.owe(FIRST, took - spared);
            self.forgive(FIRST, spared);
        }
        // What a draft spares in all is known when its answer is whole.
        if !is_given {
            self.owe(END, took);
        }
        self.failed = match upshot {
            Upshot::Failed => self.failed.saturating_add(1),
            Upshot::Given => 0,
            Upshot::Refused | Upshot::Unjudged => self.failed,
        };
    }

    /// More was waited, or less: what is gained pays for what is lost later, up to a bound.
    fn owe(&mut self, which: usize, more: i64) {
        let least = -CREDIT_MAX * self.usual(which);
        self.debts[which] = (self.debts[which] + more).max(least);
        self.look();
    }

    /// Two thirds of what may be lost of an answer's time are let be lost for good.
    fn forgive(&mut self, which: usize, target: i64) {
        let share = i64::from(self.slowdown.unwrap_or(Ratio::WHOLE).get());
        let debt = self.debts[which];
        self.debts[which] = (debt - target / 3 * 2 * share / MILLION).max(debt.min(0));
        self.look();
    }

    /// How long the target takes, of all requests.
    fn usual(&self, which: usize) -> i64 {
        const TIMES: [Pick; 2] = [|cell| &cell.target_first, |cell| &cell.target_end];
        let of = |delivery| self.paces.of_all(delivery, TIMES[which]);
        of(Delivery::Whole).max(of(Delivery::Streamed)).unwrap_or(0).max(TARGET_LEAST)
    }

    /// Stops asking first where a debt is full, and goes on when both are down to three quarters.
    fn look(&mut self) {
        let quarters = |which: usize| self.debts[which] * 4 / (DEBT_MAX * self.usual(which));
        let fullest = quarters(FIRST).max(quarters(END));
        self.is_suspended = if self.is_suspended { 3 <= fullest } else { 4 <= fullest };
    }

    /// As TCP does with its window: grown while verdicts come and the room is used, halved when one fails.
    fn make_room(&mut self, upshot: Upshot) {
        let was_used = self.room <= self.under_way.saturating_mul(2);
        self.under_way = self.under_way.saturating_sub(1);
        if upshot == Upshot::Failed {
            self.room = (self.room / 2).max(1);
        } else if was_used {
            let more = (self.room / ROOM_GROWS).max(1);
            self.room = self.room.saturating_add(more).min(ROOM_MAX);
        }
    }
}
