//! Cascade of one route: joins exclusion, scoring, threshold, labels and kill switch.
//!
//! The shell asks [`Cascade::ask`] whether the draft is asked at all, feeds what the draft says into an
//! [`Evidence`], and asks [`Cascade::judge`] whose answer the client gets: at the first window of a stream, or when
//! the draft has ended. Where the judgement says so, the target is asked besides, its answer compared, and the
//! label given to [`Cascade::learn`].
//!
//! Both moments learn from every label; the loss is charged to the one that decided.

use alloc::vec::Vec;

use overdraft_units::{Ratio, Tokens};

use super::class::{Class, Traits};
use super::early_termination::{Prospects, Stand, Stands};
use super::evidence::{Evidence, Finish};
use super::features::Features;
use super::kill_switch::{KillSwitch, Sample, Standing};
use super::label_journal::{Account, Heard, Hearing, Journal, Lesson as Told, Note};
use super::mode::Mode;
use super::payback::{Payback, Unpaid, Upshot};
use super::probability::Propensity;
use super::report::Report;
use super::scorer::{Label, Scorer};
use super::shadow::Shadow;
use super::snapshot::{PartsError, Reader};
use super::threshold::{Bar, Choice, Lesson, Threshold};

/// The version of what [`Cascade::to_parts`] writes.
pub const PARTS_VERSION: i64 = 4;

/// The first version that says how far other gateways were heard.
const HEARD_SINCE: i64 = 3;

/// Maximum labels up to which a route that accepts nothing, or whose draft may be useless, goes on
/// as while learning.
const SETTLED_LABELS: u64 = 500;

/// How a route's cascade is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is done with drafts.
    pub mode: Mode,
    /// The share of answers that may be worse than the target's.
    pub loss: Ratio,
    /// The share of accepted drafts from which the cascade pays; see [`crate::cost`].
    pub break_even: Ratio,
    /// How often answers are checked.
    pub shadow: Shadow,
    /// The first window of a streamed answer: where the early judgement is made.
    pub first: Tokens,
    /// A draft that passes with less than this chance is ended early.
    pub abort_below: Ratio,
    /// How much longer than for the target alone clients may wait on average, as a share of its time; nothing where any
    /// time will do.
    pub slowdown: Option<Ratio>,
}

impl Default for Settings {
    /// Off; one in a hundred, a tenth, 32 tokens, one in twenty, 3 %.
    fn default() -> Self {
        Self {
            mode: Mode::Off,
            loss: Ratio::percent(1),
            break_even: Ratio::percent(10),
            shadow: Shadow::default(),
            first: Tokens::new(32),
            abort_below: Ratio::percent(5),
            slowdown: Some(Ratio::percent(3)),
        }
    }
}

/// When a draft is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// At its first window, for a stream.
    First,
    /// When it has ended.
    Whole,
}

/// Whether the draft is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// It is, and its answer may be given.
    Draft,
    /// The target answers; the draft is asked besides, with this chance, and judged, but never given.
    Beside(Propensity),
    /// Only the target is asked.
    Target,
}

/// What was decided about a draft; keep it until the label is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whose answer the client gets.
    pub serve: Choice,
    /// Whose answer the bar alone chose: the same, or the draft's where the route is off or only shadows.
    pub would: Choice,
    /// The draft's score.
    pub score: Ratio,
    /// What it had to reach.
    pub bar: Bar,
    /// Whether the label is to be found out. Where the target answered anyway, that costs a comparison.
    pub checked: bool,
    /// With which chance.
    pub propensity: Propensity,
    pub(super) least: Propensity,
    pub(super) moment: Moment,
    pub(super) class: Class,
    asked: Ask,
}

impl Judgement {
    /// What it means for whether drafts pay: of one that nobody waits for, what would have become of it.
    pub fn upshot(&self) -> Upshot {
        match (self.bar, self.would) {
            (Bar::Learning { .. } | Bar::Closed, _) => Upshot::Unjudged,
            (_, Choice::Draft) => Upshot::Given,
            (_, Choice::Target) => Upshot::Refused,
        }
    }
}

/// A scorer and the threshold that its scores are held against.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gate {
    scorer: Scorer,
    threshold: Threshold,
}

/// The cascade of one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cascade {
    settings: Settings,
    first: Gate,
    whole: Gate,
    switch: KillSwitch,
    prospects: Prospects,
    payback: Payback,
    heard: Heard,
    judged: u64,
    served: u64,
}

impl Gate {
    fn new(loss: Ratio) -> Self {
        Self { scorer: Scorer::new(), threshold: Threshold::new(loss) }
    }
}

impl Cascade {
    /// One that has learnt nothing: the target answers until enough labels are known.
    pub fn new(settings: Settings) -> Self {
        Self {
            first: Gate::new(settings.loss),
            whole: Gate::new(settings.loss),
            switch: KillSwitch::new(settings.loss, settings.break_even),
            prospects: Prospects::new(settings.abort_below),
            payback: Payback::new(settings.slowdown, settings.break_even),
            heard: Heard::default(),
            settings,
            judged: 0,
            served: 0,
        }
    }

    /// How it is meant.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the draft is asked for a request that nothing excludes, with a number drawn evenly from all 64-bit
    /// numbers.
    pub fn ask(&self, traits: &Traits, drawn: u64) -> Ask {
        let beside = match (self.settings.mode, self.switch.standing()) {
            (Mode::Off, _) => return Ask::Target,
            // The target vouches for every token, so no threshold has to be learnt.
            (Mode::Verify, Standing::On) => return self.ask_first(traits, drawn),
            (Mode::Gate, Standing::On) => match self.bar(Moment::Whole, traits) {
                // What cannot pay however good its answers are is not worth the labels.
                Bar::Learning { .. } => match self.payback.hopeless(traits) {
                    Some(why) => self.watching(why),
                    None => self.settings.shadow.learning,
                },
                // Young and perhaps useless: that is to be found out soon, and nothing served until then.
                Bar::Closed if self.is_young() => self.settings.shadow.learning,
                Bar::At(_) if self.is_young() && self.switch.doubts() => {
                    self.settings.shadow.learning
                }
                Bar::Closed => self.least(),
                Bar::At(_) => return self.ask_first(traits, drawn),
            },
            (Mode::Shadow, _) | (_, Standing::Off { .. }) => self.least(),
        };
        Self::ask_beside(beside, drawn)
    }

    /// The same for a route whose bar is set by hand: nothing has to be learnt of it.
    pub fn ask_at_fixed_bar(&self, traits: &Traits, drawn: u64) -> Ask {
        match self.switch.standing() {
            Standing::On => self.ask_first(traits, drawn),
            Standing::Off { .. } => Self::ask_beside(self.least(), drawn),
        }
    }

    /// Asks the draft first where that pays; where it does not, some are asked beside the target, to learn when it does.
    fn ask_first(&self, traits: &Traits, drawn: u64) -> Ask {
        let unpaid = self.payback.unpaid(traits);
        if let Some(why) = unpaid
            && self.settings.shadow.start != Ratio::NONE
        {
            return Self::ask_beside(self.watching(why), drawn);
        }
        let is_asked = match unpaid {
            Some(_) => self.payback.is_trial(drawn),
            None => self.payback.has_room(),
        };
        if is_asked { Ask::Draft } else { Ask::Target }
    }

    /// How often a draft that does not pay is asked beside the target. What fails costs little, and may be back soon.
    fn watching(&self, why: Unpaid) -> Ratio {
        match why {
            Unpaid::Failing => self.least().max(self.settings.shadow.start),
            Unpaid::Refused | Unpaid::Slow => self.least(),
        }
    }

    fn ask_beside(chance: Ratio, drawn: u64) -> Ask {
        let propensity = Propensity::new(chance);
        if propensity.chance().happens(drawn) { Ask::Beside(propensity) } else { Ask::Target }
    }

    /// What asking first costs and brings: how long a draft may take.
    pub const fn payback(&self) -> &Payback {
        &self.payback
    }

    /// The same, to be told how long drafts and the target took. A caller that never tells is asked first as if it paid.
    pub const fn payback_mut(&mut self) -> &mut Payback {
        &mut self.payback
    }

    /// An empty record for a draft of such a request.
    pub fn evidence(&self, traits: Traits) -> Evidence {
        Evidence::new(traits, self.settings.first)
    }

    /// What a draft of such a request must score at that moment.
    pub fn bar(&self, moment: Moment, traits: &Traits) -> Bar {
        self.gate(moment).threshold.bar(traits.class())
    }

    /// The score of what a draft has said so far.
    pub fn score(&self, moment: Moment, evidence: &Evidence) -> Ratio {
        let class = evidence.traits().class();
        self.gate(moment).scorer.score(&at(moment, evidence), class)
    }

    /// Whose answer is given, and whether the label is to be found out. `asked` is what [`Self::ask`] said, `drawn`
    /// another number drawn evenly from all 64-bit numbers.
    pub fn judge(
        &mut self,
        moment: Moment,
        evidence: &Evidence,
        asked: Ask,
        drawn: u64,
    ) -> Judgement {
        let traits = evidence.traits();
        let score = self.score(moment, evidence);
        let bar = self.bar(moment, traits);
        let would = bar.choose(score);
        let (serve, draw) = match asked {
            Ask::Draft => {
                let labels = self.gate(moment).threshold.seen();
                let draw = self.settings.shadow.draw(labels, score, bar, drawn);
                (would, (draw.checked, draw.propensity, draw.least))
            }
            Ask::Beside(propensity) => (Choice::Target, (true, propensity, propensity)),
            Ask::Target => (Choice::Target, (false, Propensity::CERTAIN, Propensity::CERTAIN)),
        };
        self.judged += 1;
        self.served += u64::from(serve == Choice::Draft);
        let (checked, propensity, least) = draw;
        let class = traits.class();
        Judgement { serve, would, score, bar, checked, propensity, least, moment, class, asked }
    }

    /// Where a running draft stands, and whether it should be ended because it will hardly pass. `drawn` is one number for
    /// the whole draft. Not for a draft whose beginning was shown.
    pub fn prospect(&self, evidence: &Evidence, drawn: u64) -> (Stand, bool) {
        let running = self.score(Moment::Whole, evidence);
        let stand = Prospects::stand(evidence.tokens().get(), running);
        let hopeless = evidence.finished() == Finish::Running
            && matches!(self.bar(Moment::Whole, evidence.traits()), Bar::At(_))
            && self.prospects.hopeless(stand, drawn);
        (stand, hopeless)
    }

    /// Learns how a draft came out that was not ended early, from where it stood on its way.
    pub fn came_out(&mut self, stands: Stands, judgement: &Judgement) {
        if let Bar::At(_) = judgement.bar {
            self.prospects.learn(stands, judgement.would);
        }
    }

    /// Learns what a checked draft was worth, from the evidence of all of it. Call it only where
    /// [`Judgement::checked`] says so, or the weights are wrong.
    pub fn learn(&mut self, judgement: &Judgement, evidence: &Evidence, label: Label) -> Standing {
        self.take(&Account::of(judgement, evidence, label))
    }

    /// Learns from a note, and notes it down for other gateways.
    pub fn tell(&mut self, note: Note, journal: &mut Journal) -> Standing {
        self.heard.note(journal.gateway(), journal.push(note));
        self.heed(&note)
    }

    /// Learns what another gateway has learnt since it was heard last; nothing twice.
    pub fn hear(&mut self, journal: &Journal) -> Hearing {
        let (missed, new) = journal.after(self.heard.of(journal.gateway()));
        let mut hearing = Hearing { learnt: 0, missed };
        for note in new {
            self.heed(note);
            hearing.learnt += 1;
        }
        if 0 < hearing.learnt + missed {
            self.heard.note(journal.gateway(), journal.told());
        }
        hearing
    }

    /// What two states know together, as far as one of them knows it or a journal tells: the one that has heard more,
    /// with all that it lacks. It does not matter which is which.
    #[must_use]
    pub fn joined(self, other: Self, journals: &[Journal]) -> Self {
        let more = |one: &Self| {
            (one.whole.threshold.seen().saturating_add(one.heard.sum()), one.to_parts())
        };
        // How long pools take is each gateway's own to know, and so is what is under way.
        let payback = self.payback.clone();
        let mut joined = if more(&self) < more(&other) { other } else { self };
        joined.payback = payback;
        let mut journals: Vec<&Journal> = journals.iter().collect();
        journals.sort_unstable_by_key(|journal| (journal.gateway(), journal.told()));
        for journal in journals {
            joined.hear(journal);
        }
        joined
    }

    fn heed(&mut self, note: &Note) -> Standing {
        match &note.0 {
            Told::Label(account) => self.take(account),
            Told::Part(accepted) => self.switch.learn_part(*accepted),
        }
    }

    fn take(&mut self, account: &Account) -> Standing {
        let Account { class, label, would, propensity, least, .. } = *account;
        for moment in [Moment::First, Moment::Whole] {
            let features = account.features(moment);
            let decided = moment == account.moment;
            let gate = self.gate_mut(moment);
            let score = if decided { account.score } else { gate.scorer.score(features, class) };
            let served = self.charged(moment, account, score);
            let lesson = Lesson { class, score, served, label, propensity };
            let gate = self.gate_mut(moment);
            if decided {
                gate.threshold.learn(&lesson);
            } else {
                gate.threshold.overhear(&lesson);
            }
            gate.scorer.learn(features, class, label);
        }
        self.switch.learn(&Sample { label, would, propensity, least })
    }

    /// Takes note of a draft of which the target accepted so much, in mode `verify`; [`Self::tell`] it which share.
    pub fn counted(&mut self, accepted: Tokens, drafted: Tokens) -> Note {
        self.judged += 1;
        self.served += u64::from(accepted == drafted);
        Note::part(Ratio::of(accepted.get().into(), drafted.get().into()))
    }

    /// Whether drafts may be served.
    pub const fn standing(&self) -> Standing {
        self.switch.standing()
    }

    /// How things stand, of whole answers and no class in particular.
    pub fn report(&self) -> Report {
        Report {
            standing: self.switch.standing(),
            unpaid: self.payback.unpaid_at_all(),
            bar: self.whole.threshold.bar(Class::new(0)),
            labels: self.whole.threshold.seen(),
            loss: self.whole.threshold.estimate(),
            judged: self.judged,
            served: self.served,
            shadow: self.least(),
        }
    }

    /// All that was learnt, as whole numbers.
    pub fn to_parts(&self) -> Vec<i64> {
        let mut row = Vec::new();
        row.push(PARTS_VERSION);
        for gate in [&self.first, &self.whole] {
            gate.scorer.write(&mut row);
            gate.threshold.write(&mut row);
        }
        self.switch.write(&mut row);
        self.prospects.write(&mut row);
        self.heard.write(&mut row);
        row
    }

    /// One that goes on from what was learnt.
    ///
    /// # Errors
    /// Where the numbers are not such a state.
    pub fn from_parts(settings: Settings, parts: &[i64]) -> Result<Self, PartsError> {
        let mut row = Reader::new(parts, PARTS_VERSION)?;
        let mut read = Self::new(settings);
        for gate in [&mut read.first, &mut read.whole] {
            gate.scorer = Scorer::read(&mut row)?;
            gate.threshold = Threshold::read(settings.loss, &mut row)?;
        }
        read.switch = KillSwitch::read(settings.loss, settings.break_even, &mut row)?;
        read.prospects = Prospects::read(settings.abort_below, &mut row)?;
        if HEARD_SINCE <= row.version() {
            read.heard = Heard::read(&mut row)?;
        }
        row.end()?;
        Ok(read)
    }

    const fn gate(&self, moment: Moment) -> &Gate {
        match moment {
            Moment::First => &self.first,
            Moment::Whole => &self.whole,
        }
    }

    const fn gate_mut(&mut self, moment: Moment) -> &mut Gate {
        match moment {
            Moment::First => &mut self.first,
            Moment::Whole => &mut self.whole,
        }
    }

    /// Whose answer counts as given at that moment: of the moment that decided what was served, or would have been
    /// where the route only shadows; of the other what it would have chosen.
    fn charged(&self, moment: Moment, account: &Account, score: Ratio) -> Choice {
        if moment != account.moment {
            self.gate(moment).threshold.bar(account.class).choose(score)
        } else if self.settings.mode == Mode::Shadow {
            account.would
        } else {
            account.serve
        }
    }

    fn is_young(&self) -> bool {
        self.whole.threshold.seen() < SETTLED_LABELS
    }

    fn least(&self) -> Ratio {
        let labels = self.whole.threshold.seen();
        let bar = Bar::At(Ratio::WHOLE);
        self.settings.shadow.least(labels, bar).chance()
    }
}

/// The features that are judged at that moment: an answer that ended within the first window is judged whole.
pub(super) fn at(moment: Moment, evidence: &Evidence) -> Features {
    match moment {
        Moment::First => evidence.first_window().unwrap_or_else(|| evidence.features()),
        Moment::Whole => evidence.features(),
    }
}
