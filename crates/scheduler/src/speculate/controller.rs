//! Speculation controller: how many tokens the next step drafts (draft depth).
//!
//! The engine asks it before every step and reports the outcome after every step. The policy may be
//! changed at any time and applies from the next step on. Lookups are free and learn from every
//! token, used or not; the draft model costs passes and its cache must be kept up to date. So in a
//! batch it is switched by its average benefit over some steps (`worth.rs`). It goes deeper for a
//! gain of 1 %, and shallower when eight consecutive steps prefer that (hysteresis). While it is off it
//! is probed now and then on one sequence (`docs/design/speculation.md#r5`).

use alloc::vec::Vec;

use overdraft_units::{Instant, Ratio};

use super::acceptance::DEPTH_MAX;
use super::admission_cost::{Beginnings, Reading};
use super::allocation::{Allotment, Drafter, Field, Grant, Market, Outlook, Prospect, Rate};
use super::confidence::{Confidence, Pursuit};
use super::costs::{GuessPrice, Nanos, Pass, StepCosts, float};
use super::facts::{Decision, Load, Reason, Trial};
use super::guard::Guard;
use super::policy::Policy;
use super::prices::{Prices, Ran};
use super::probe::{PROBE_OFF_DEPTH, Probe};
use super::text_classes::{Terms, TextClasses};
use super::threshold::{Measure, Threshold};
use super::worth::BenefitAverage;
use crate::batch::DraftRoom;

/// Exploration: one step in this many goes one deeper for one sequence (2 %).
pub const PROBE_EVERY_STEPS: u64 = 50;
/// Steps with drafts after which one goes without, where no prefill runs: only such steps measure
/// the cost without drafts.
pub const PLAIN_EVERY_STEPS: u64 = 96;
/// Minimum of that number where the draft model's benefit is small: then a step without drafts
/// loses little, and the measured cost matters more.
const PLAIN_SOON_STEPS: u64 = 12;
/// A step without drafts is made where its loss is at most this many hundredths of a step per step
/// since the last.
const PLAIN_LOSES_HUNDREDTHS: f64 = 0.5;
/// Where confidence does not discriminate, one step in this many reads it all the same: computing
/// it costs a tenth of a pass.
const CONFIDENCE_EVERY_STEPS: u64 = 8;
/// While the draft model is off, one step in this many evaluates whether to switch it on.
const CONSIDER_EVERY_STEPS: u64 = 4;
/// Maximum decoding sequences at which every step evaluates it: with few sequences the benefit
/// changes from step to step.
const CONSIDER_ALWAYS_MOST: u32 = 4;
/// Minimum gain, in percent, required to switch the draft model on for a single sequence: its
/// prefill comes first.
const BEGIN_HUNDREDTHS: f64 = 3.0;
/// Minimum gain, in percent, required to increase the depth.
const DEEPER_HUNDREDTHS: f64 = 1.0;
/// Steps between two changes of depth, and in a row that want the draft model to begin, or less of it.
const DWELL_STEPS: u64 = 8;

/// The controller of one engine.
#[derive(Clone, Debug)]
pub struct Controller {
    policy: Policy,
    depth_max: usize,
    costs: StepCosts,
    prices: Prices,
    beginnings: Beginnings,
    reading: Reading,
    /// What the next step is expected to bring, where the draft model guesses in it and confidence is heeded.
    pace: Option<Rate>,
    /// Steps with guesses since the last without.
    unpinned: u64,
    classes: TextClasses,
    threshold: Threshold,
    /// How deep the draft model may go.
    model_depth: usize,
    /// The deepest grant of the last step; a draft that is pursued by confidence may end before or behind it.
    depth: usize,
    /// The deepest grant when a lookup last had found something, steps that explore apart.
    lookup_depth: usize,
    reason: Reason,
    changes: u64,
    steps: u64,
    changed_at: u64,
    /// Steps in a row that wanted it lower.
    lower: u64,
    /// What it brings of late beside others.
    benefit: BenefitAverage,
    guard: Guard,
    /// The last step without guesses because they were out of place.
    guarded_at: u64,
    probe: Probe,
}

impl Controller {
    /// A controller that knows what steps cost and nothing of the text. `depth_max` is cut at
    /// [`DEPTH_MAX`].
    pub fn new(policy: Policy, depth_max: usize, costs: StepCosts) -> Self {
        Self {
            policy,
            depth_max: depth_max.min(DEPTH_MAX),
            costs,
            prices: Prices::default(),
            beginnings: Beginnings::default(),
            reading: Reading::default(),
            pace: None,
            unpinned: 0,
            classes: TextClasses::default(),
            threshold: Threshold::new(),
            model_depth: 0,
            depth: 0,
            lookup_depth: 0,
            reason: Reason::Start,
            changes: 0,
            steps: 0,
            changed_at: 0,
            lower: 0,
            benefit: BenefitAverage::default(),
            guard: Guard::default(),
            guarded_at: 0,
            probe: Probe::default(),
        }
    }

    /// Another policy from the next step on; what was learnt stays.
    pub fn set_policy(&mut self, policy: Policy, depth_max: usize) {
        self.policy = policy;
        self.depth_max = depth_max.min(DEPTH_MAX);
        self.threshold = Threshold::new();
        self.lookup_depth = 0;
        self.change(self.model_depth.min(self.depth_max), Reason::Policy);
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Tokens of a draft at most.
    pub fn depth_max(&self) -> usize {
        self.depth_max
    }

    /// The deepest grant of the last step; a draft that is pursued by confidence may end before or behind it.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The depth in force: what a rule has chosen, or what `goodput` lets the draft model guess, or lookups where that is
    /// more. Steps that explore, and those without anything to guess for, leave it as it is.
    pub fn depth_in_force(&self) -> usize {
        let depth = match &self.policy {
            Policy::Off => 0,
            Policy::Fixed(depth) => *depth,
            Policy::Threshold | Policy::ThresholdPerToken => self.threshold.chosen(),
            Policy::BatchTable(_) => self.model_depth,
            Policy::Goodput => self.model_depth.max(self.lookup_depth),
        };
        depth.min(self.depth_max)
    }

    /// Why the depth last changed, and how often it did.
    pub fn last_change(&self) -> (Reason, u64) {
        (self.reason, self.changes)
    }

    /// The share of tried tokens that were right, by drafter; none before any was tried.
    pub fn acceptance(&self, drafter: Drafter) -> Ratio {
        self.classes.mean(drafter)
    }

    /// What steps cost, as far as is known.
    pub fn costs(&self) -> &StepCosts {
        &self.costs
    }

    /// Takes note of drafts that were put to the test.
    pub fn learn(&mut self, trial: Trial) {
        if trial.drafter == Drafter::Model && 0 < trial.drafted {
            self.probe.observe(trial.right);
            if 0 < self.model_depth {
                self.reading.emit(trial.right as u64 + 1);
            }
        }
        self.classes.observe(trial);
    }

    /// Takes note of whether a guess of the draft model was right, verified or not, where all before it were.
    pub fn calibrate(&mut self, class: u64, confidence: Confidence, right: bool) {
        self.classes.calibrate(class, confidence, right);
    }

    /// Takes note of a draft that was used, for rules that go by those.
    pub fn note_used(&mut self, drafted: usize, right: usize) {
        self.threshold.observe(drafted, right);
    }

    /// Takes note of an answer that has ended, for rules that go by those: tokens drafted for it, and
    /// those of them that it kept.
    pub fn note_answer(&mut self, drafted: u64, accepted: u64) {
        self.threshold.observe_answer(drafted, accepted);
    }

    /// Takes note of what the target took for a step.
    pub fn measure(&mut self, ran: &Ran, took: Nanos) {
        self.beginnings.observe(ran);
        self.prices.observe(&self.costs, ran, took);
        self.costs.guess = GuessPrice::of_rows(self.prices.guess());
        if 0 < ran.guesses {
            self.unpinned += 1;
        } else if 0 < ran.sequences {
            let unpinned = core::mem::take(&mut self.unpinned);
            if ran.prompts == 0 {
                self.costs.measure_plain(ran.sequences, took, unpinned);
            }
        }
    }

    /// Takes note of the passes of the draft model in a step in which it was asked, in their order, with what each took.
    pub fn measure_draft(&mut self, passes: &[(Pass, Nanos)]) {
        let usual = |(pass, took): &(Pass, Nanos)| (*pass, self.prices.at_usual_pace(*took));
        let reads = self.costs.measure_passes(passes.iter().map(usual));
        // A try reads a sequence for a few steps only: that says nothing of what reading comes to.
        if 0 < self.model_depth {
            self.reading.observe(reads);
        }
    }

    /// Whether lookups are worth making: not where nothing may come of them.
    pub fn wants_lookups(&self) -> bool {
        self.policy != Policy::Off
    }

    /// How deep the next step guesses for each of these.
    pub fn decide(&mut self, now: Instant, load: &Load, prospects: &[Prospect<'_>]) -> Decision {
        self.steps += 1;
        if prospects.is_empty() || self.depth_max == 0 {
            self.depth = 0;
            let grants = prospects.iter().map(|_| Grant::NONE).collect();
            return Decision { grants, pursuits: alloc::vec![Pursuit::fixed(0); prospects.len()] };
        }
        if self.model_depth == 0 {
            self.reading.forget();
        }
        let costs = core::mem::take(&mut self.costs);
        let DraftRoom { decodes, prefill, room } = load.room;
        let (prefill, room) = (prefill.get(), room.get());
        let begins = self.beginnings.each(decodes);
        let reading = self.reading.each(decodes);
        let field = Field { costs: &costs, reading, decodes, prefill, room, begins };
        let terms = Terms { depth_max: self.depth_max, asks_model: self.considers_model(decodes) };
        let outlooks = self.classes.outlooks(prospects, terms);
        self.pace = None;
        let grants = match self.policy.clone() {
            Policy::Off => field.even(&outlooks, 0),
            Policy::Fixed(depth) => self.obey(&field, &outlooks, depth),
            Policy::BatchTable(table) => self.obey(&field, &outlooks, table.depth(decodes)),
            Policy::Threshold => {
                let depth = self.threshold.depth(Measure::PerAnswer, now);
                self.obey_or_probe(&field, &outlooks, prospects, depth)
            }
            Policy::ThresholdPerToken => {
                let depth = self.threshold.depth(Measure::PerToken, now);
                self.obey_or_probe(&field, &outlooks, prospects, depth)
            }
            Policy::Goodput => self.goodput(now, load, &field, &outlooks, prospects),
        };
        let pursuits = self.pursuits(&field, &outlooks, prospects, &grants);
        self.costs = costs;
        self.depth = grants.iter().map(|grant| grant.depth).max().unwrap_or(0);
        Decision { grants, pursuits }
    }

    /// How far each draft is pursued: by confidence where the draft model guesses at a known pace, and as deep as granted
    /// elsewhere.
    fn pursuits(
        &self,
        field: &Field<'_>,
        outlooks: &[Outlook],
        prospects: &[Prospect<'_>],
        grants: &[Grant],
    ) -> Vec<Pursuit> {
        let is_model = |grant: &&Grant| grant.drafter == Drafter::Model && 0 < grant.depth;
        let asked = grants.iter().filter(is_model).count();
        let Some(pace) = self.pace.filter(|_| 0 < asked) else {
            let heeds = self.policy == Policy::Goodput;
            let pursuit = if heeds { Pursuit::asking } else { Pursuit::fixed };
            return grants.iter().map(|grant| pursuit(grant.depth)).collect();
        };
        let bar = field.bar(pace, asked);
        // Where rows are short nobody gets more than was granted.
        let is_ample = prospects.len() * self.depth_max <= field.room as usize;
        let pursuit = |((grant, outlook), prospect): ((&Grant, &Outlook), &Prospect<'_>)| {
            if !is_model(&grant) {
                return Pursuit::fixed(grant.depth);
            }
            let most = if is_ample { prospect.model.min(self.depth_max) } else { grant.depth };
            let reliance = self.classes.reliance(prospect.class);
            if reliance.says_nothing() && !self.steps.is_multiple_of(CONFIDENCE_EVERY_STEPS) {
                return Pursuit::fixed(grant.depth);
            }
            Pursuit::by_confidence(
                grant.depth,
                most,
                &outlook.survival[Drafter::Model.place()],
                &reliance,
                bar,
            )
        };
        grants.iter().zip(outlooks).zip(prospects).map(pursuit).collect()
    }

    /// A depth that a rule chose.
    fn obey(&mut self, field: &Field<'_>, outlooks: &[Outlook], depth: usize) -> Vec<Grant> {
        let depth = depth.min(self.depth_max);
        self.change(depth, Reason::Policy);
        field.even(outlooks, depth)
    }

    /// The same for a rule that would learn nothing any more where it chose none.
    fn obey_or_probe(
        &mut self,
        field: &Field<'_>,
        outlooks: &[Outlook],
        prospects: &[Prospect<'_>],
        depth: usize,
    ) -> Vec<Grant> {
        let grants = self.obey(field, outlooks, depth);
        if depth == 0 { self.probe_off(field, outlooks, prospects, grants) } else { grants }
    }

    fn goodput(
        &mut self,
        now: Instant,
        load: &Load,
        field: &Field<'_>,
        outlooks: &[Outlook],
        prospects: &[Prospect<'_>],
    ) -> Vec<Grant> {
        if let Some(reason) = self.guard.objection(now, load, field) {
            self.guarded_at = self.steps;
            self.lookup_depth = 0;
            self.change(0, reason);
            return field.even(outlooks, 0);
        }
        let market = Market::new(field, outlooks);
        let mut free = market.best(self.depth_max);
        if 0 < self.model_depth && free.model_depth() == 0 {
            free = self.hopeful(field, outlooks).unwrap_or(free);
        }
        let wanted = free.model_depth();
        self.lower = if wanted < self.model_depth { self.lower + 1 } else { 0 };
        if self.considers_model(field.decodes) && 1 < field.decodes {
            let gain = free.gain_over(&market.best(0));
            self.benefit.observe(self.steps, gain, self.model_depth == 0);
        }
        let settled = self.changes == 0 || DWELL_STEPS <= self.steps - self.changed_at;
        let (mut grants, mut pace) = (free.grants.clone(), free.rate);
        if self.model_depth < wanted {
            let capped = market.best(self.model_depth);
            let begins = self.model_depth == 0;
            // What is beside a lone sequence does not change from step to step.
            let alone = field.decodes == 1 || self.changes == 0;
            let goes_on = self.is_interrupted();
            let pays = match (begins, alone) {
                (true, _) if goes_on => free.exceeds(&capped, 0.0),
                (true, true) => settled && free.exceeds(&capped, BEGIN_HUNDREDTHS),
                (true, false) => settled && self.benefit.begins(),
                (false, _) => settled && free.exceeds(&capped, DEEPER_HUNDREDTHS),
            };
            if pays {
                self.change(wanted, Reason::PaysMore);
            } else {
                (grants, pace) = (capped.grants, capped.rate);
            }
        } else if DWELL_STEPS <= self.lower
            && (0 < wanted || field.decodes == 1 || self.benefit.ends())
        {
            self.change(wanted, Reason::PaysLess);
        }
        if prospects.iter().any(|one| 0 < one.lookup) {
            let of_lookups = grants.iter().filter(|grant| grant.drafter == Drafter::Lookup);
            self.lookup_depth = of_lookups.map(|grant| grant.depth).max().unwrap_or(0);
        }
        if self.is_time_for_plain(&market, &free) {
            return field.even(outlooks, 0);
        }
        match self.model_depth {
            0 => self.probe_off(field, outlooks, prospects, grants),
            depth => {
                self.pace = Some(pace);
                self.probe_deeper(depth, prospects, grants)
            }
        }
    }

    /// One guess each, where that would pay if guesses were as cheap as they may be.
    fn hopeful(&self, field: &Field<'_>, outlooks: &[Outlook]) -> Option<Allotment> {
        let guess = GuessPrice::of_rows(self.prices.hoped());
        let costs = StepCosts { guess, ..field.costs.clone() };
        let best = Market::new(&Field { costs: &costs, ..*field }, outlooks).best(1);
        (0 < best.model_depth()).then_some(best)
    }

    /// Whether the draft model may guess in this step. For many sequences it takes a while to tell, so not in every
    /// step is it asked whether it should begin.
    fn considers_model(&self, decodes: u32) -> bool {
        let is_off = self.model_depth == 0 && !self.benefit.is_wanted() && 0 < self.changes;
        let may_spare = self.policy == Policy::Goodput && !self.is_interrupted();
        let spares = may_spare && is_off && CONSIDER_ALWAYS_MOST < decodes;
        !spares || self.steps.is_multiple_of(CONSIDER_EVERY_STEPS)
    }

    /// Whether the draft model is off only because guesses were out of place until a moment ago: then it goes on where
    /// it would have been kept, without having to bring what one that begins must.
    fn is_interrupted(&self) -> bool {
        let was_guarded = matches!(self.reason, Reason::CacheFull | Reason::Queue);
        was_guarded && self.steps - self.guarded_at <= DWELL_STEPS
    }

    /// Whether it is time to see again what a step without guesses takes.
    fn is_time_for_plain(&self, market: &Market<'_>, free: &Allotment) -> bool {
        // To say whether it is close takes about as long as to decide.
        let asks = 0 < self.model_depth && self.unpinned.is_multiple_of(PLAIN_SOON_STEPS);
        let lost = float(self.unpinned) * PLAIN_LOSES_HUNDREDTHS;
        let soon = || asks && !free.exceeds(&market.best(0), lost);
        PLAIN_EVERY_STEPS <= self.unpinned || PLAIN_SOON_STEPS <= self.unpinned && soon()
    }

    /// Now and then one sequence goes one deeper than the rest, or nothing would be learnt of it.
    fn probe_deeper(
        &self,
        depth: usize,
        prospects: &[Prospect<'_>],
        mut grants: Vec<Grant>,
    ) -> Vec<Grant> {
        if depth < self.depth_max && self.steps.is_multiple_of(PROBE_EVERY_STEPS) {
            let turn = self.steps / PROBE_EVERY_STEPS % prospects.len() as u64;
            let turn = usize::try_from(turn).expect("a place among them");
            if depth < prospects[turn].model && prospects[turn].backlog <= 2 {
                grants[turn] = Grant { drafter: Drafter::Model, depth: depth + 1 };
            }
        }
        grants
    }

    /// The draft model is tried on one sequence, whichever costs least: one that nobody guesses for, if
    /// there is any, or what is found by lookups would be lost meanwhile.
    fn probe_off(
        &mut self,
        field: &Field<'_>,
        outlooks: &[Outlook],
        prospects: &[Prospect<'_>],
        mut grants: Vec<Grant>,
    ) -> Vec<Grant> {
        let able = prospects.iter().enumerate().filter(|(_, prospect)| 0 < prospect.model);
        let costs_least = able.min_by_key(|(place, one)| (0 < grants[*place].depth, one.backlog));
        let Some((place, one)) = costs_least else {
            return grants;
        };
        let expected = self.classes.first_of_model();
        let displaced = field.tokens_of(&grants[place], &outlooks[place]);
        self.probe.look(field, one.backlog, displaced, expected);
        if self.probe.take_step() {
            let depth = PROBE_OFF_DEPTH.min(one.model).min(self.depth_max);
            grants[place] = Grant { drafter: Drafter::Model, depth };
        }
        grants
    }

    fn change(&mut self, depth: usize, reason: Reason) {
        self.lower = 0;
        if depth != self.model_depth || reason == Reason::Policy && self.reason == Reason::Start {
            self.probe.forget();
            self.model_depth = depth;
            self.reason = reason;
            self.changes += 1;
            self.changed_at = self.steps;
        }
    }
}
