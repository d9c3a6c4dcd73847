//! Cascade state: what is known of one cascade, and of all of them.
//!
//! The core's state is behind a lock that is held for microseconds; the shell draws its random
//! numbers and reports the outcomes.
//!
//! Invariant: the learnt state survives a reload as long as both models stay the same.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use overdraft_core::cascade::{
    Ask, Bar, Cascade, Chance, Choice, Evidence, Hearing, Journal, Judgement, Label, Mode, Moment,
    Note, Parity, Payback, Report, Settings, Stand, Standing, Stands, Traits,
};
use overdraft_core::cost::{Pools, Shape, Verification, break_even};
use overdraft_core::estimate::SlidingRatio;
use overdraft_units::{Instant, Tokens};
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::settings::CascadeSettings;

/// What requests are taken to be like before any was seen: a page of prompt, half a page of answer.
const TYPICAL: Shape = Shape {
    prompt: Tokens::new(1_000),
    cached_draft: Tokens::ZERO,
    cached_target: Tokens::ZERO,
    completion: Tokens::new(250),
};

/// Prefills of a cascade that run at once, at most; what is drawn beyond that is left out and counted.
pub(super) const PREFILLS_MAX: usize = 16;

/// The cascades by the names that clients ask for.
#[derive(Debug, Default)]
pub(crate) struct Cascades(ArcSwap<BTreeMap<String, Arc<CascadeState>>>);

impl Cascades {
    pub(crate) fn new(settings: &BTreeMap<String, CascadeSettings>) -> Self {
        let cascades = Self::default();
        cascades.adopt(settings);
        cascades
    }

    /// Puts other settings in force.
    pub(crate) fn adopt(&self, settings: &BTreeMap<String, CascadeSettings>) {
        let before = self.0.load_full();
        let state = |(name, settings): (&String, &CascadeSettings)| {
            let known = before.get(name).filter(|known| known.has_the_models_of(settings));
            let state = match known {
                Some(known) if known.settings == *settings => Arc::clone(known),
                Some(known) => {
                    let learnt = (known.to_parts(), known.journal());
                    Arc::new(CascadeState::new(name, settings.clone(), Some(learnt)))
                }
                None => Arc::new(CascadeState::new(name, settings.clone(), None)),
            };
            (name.clone(), state)
        };
        self.0.store(Arc::new(settings.iter().map(state).collect()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// The cascade that `named` asks for; `behind` is the model that it is an alias of.
    pub(super) fn of(&self, named: &str, behind: &str) -> Option<Arc<CascadeState>> {
        let cascades = self.0.load();
        cascades.get(named).or_else(|| cascades.get(behind)).map(Arc::clone)
    }

    /// All of them, in the order of their names.
    pub(super) fn all(&self) -> Vec<Arc<CascadeState>> {
        self.0.load().values().map(Arc::clone).collect()
    }
}

/// What was learnt, and what of it other gateways are told.
#[derive(Debug)]
struct Learnt {
    cascade: Cascade,
    journal: Journal,
}

/// One cascade.
#[derive(Debug)]
pub(super) struct CascadeState {
    pub(super) name: String,
    pub(super) settings: CascadeSettings,
    /// Comparisons that may run.
    pub(super) places: Arc<Semaphore>,
    /// Prefills that may run.
    pub(super) prefills: Arc<Semaphore>,
    learnt: Mutex<Learnt>,
    /// Lessons since it was kept last.
    lessons: AtomicU64,
    /// Whether what it learnt in another life has been looked for.
    recalled: AtomicBool,
    parity: Mutex<Parity>,
    /// Drafts that were judged, and those that were given.
    judged: [AtomicU64; 2],
    /// The share of these of late.
    recent: Mutex<SlidingRatio>,
}

impl CascadeState {
    fn new(name: &str, settings: CascadeSettings, learnt: Option<(Vec<i64>, Journal)>) -> Self {
        let meant = meant(&settings);
        let recalled = learnt.is_some();
        let learnt = learnt.and_then(|(parts, journal)| {
            let cascade = Cascade::from_parts(meant, &parts).ok()?;
            Some(Learnt { cascade, journal })
        });
        let new = || {
            // Which gateway it is among those that share a store: another with each life.
            let journal = Journal::new(RandomState::new().hash_one(name));
            Learnt { cascade: Cascade::new(meant), journal }
        };
        Self {
            name: name.to_owned(),
            places: Arc::new(Semaphore::new(settings.at_once)),
            prefills: Arc::new(Semaphore::new(PREFILLS_MAX)),
            learnt: Mutex::new(learnt.unwrap_or_else(new)),
            lessons: AtomicU64::new(0),
            recalled: AtomicBool::new(recalled),
            parity: Mutex::new(Parity::NotKnown),
            judged: [AtomicU64::new(0), AtomicU64::new(0)],
            recent: Mutex::new(SlidingRatio::new()),
            settings,
        }
    }

    fn has_the_models_of(&self, settings: &CascadeSettings) -> bool {
        self.settings.draft == settings.draft && self.settings.target == settings.target
    }

    fn state(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name under which what was learnt is kept: other models learn anew.
    pub(super) fn key(&self) -> u64 {
        let CascadeSettings { draft, target, .. } = &self.settings;
        let seed = xxh3_64_with_seed(draft.as_bytes(), xxh3_64_with_seed(target.as_bytes(), 0));
        xxh3_64_with_seed(self.name.as_bytes(), seed)
    }

    /// Whether the draft is asked.
    pub(super) fn ask(&self, traits: &Traits, drawn: u64) -> Ask {
        let state = self.state();
        let fixed = self.settings.threshold.is_some() && self.settings.mode == Mode::Gate;
        let asked = if fixed {
            state.cascade.ask_at_fixed_bar(traits, drawn)
        } else {
            state.cascade.ask(traits, drawn)
        };
        match asked {
            Ask::Beside(_) if !self.compares() => Ask::Target,
            ask => ask,
        }
    }

    /// Whether anything is ever compared.
    pub(super) fn compares(&self) -> bool {
        self.settings.shadow.start != Chance::NONE
    }

    /// An empty record for a draft.
    pub(super) fn evidence(&self, traits: Traits) -> Evidence {
        self.state().cascade.evidence(traits)
    }

    /// Whose answer is given.
    pub(super) fn judge(
        &self,
        moment: Moment,
        evidence: &Evidence,
        ask: Ask,
        drawn: u64,
    ) -> Judgement {
        let mut judgement = self.state().cascade.judge(moment, evidence, ask, drawn);
        if let Some(fixed) = self.settings.threshold {
            judgement.bar = Bar::At(fixed);
            judgement.would = judgement.bar.choose(judgement.score);
            if ask == Ask::Draft {
                judgement.serve = judgement.would;
            }
        }
        judgement.checked &= self.compares();
        if ask == Ask::Draft {
            self.count(is_given(&judgement));
        }
        judgement
    }

    fn count(&self, given: bool) {
        let [judged, served] = &self.judged;
        judged.fetch_add(1, Ordering::Relaxed);
        served.fetch_add(given.into(), Ordering::Relaxed);
    }

    /// Drafts whose answer was given, of those that were judged of late; none where none were, and while the
    /// cascade is off.
    pub(super) fn acceptance(&self, now: Instant) -> Option<Chance> {
        let [judged, served] = self.judged.each_ref().map(|count| count.load(Ordering::Relaxed));
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = recent.read(served, judged, now);
        drop(recent);
        let is_on = self.state().cascade.standing() == Standing::On;
        seen.filter(|_| is_on).map(|(served, judged)| Chance::of(served, judged))
    }

    /// What a later window scores, and what it must reach.
    pub(super) fn running(&self, evidence: &Evidence) -> (Chance, Bar) {
        let state = self.state();
        let bar = state.cascade.bar(Moment::Whole, evidence.traits());
        let bar = self.settings.threshold.map_or(bar, Bar::At);
        (state.cascade.score(Moment::Whole, evidence), bar)
    }

    /// Where a running draft stands, and whether it is hopeless.
    pub(super) fn prospect(&self, evidence: &Evidence, drawn: u64) -> (Stand, bool) {
        self.state().cascade.prospect(evidence, drawn)
    }

    pub(super) fn came_out(&self, stands: Stands, judgement: &Judgement) {
        self.state().cascade.came_out(stands, judgement);
    }

    /// Learns what a compared draft was worth.
    pub(super) fn learn(&self, judgement: &Judgement, evidence: &Evidence, label: Label) {
        let note = Note::label(judgement, evidence, label);
        self.lessons.fetch_add(1, Ordering::Relaxed);
        self.switched(|learnt| learnt.cascade.tell(note, &mut learnt.journal));
    }

    /// Learns how much of a draft the target accepted.
    pub(super) fn verified(&self, accepted: usize, drafted: usize) {
        let tokens = |count: usize| Tokens::new(u32::try_from(count).unwrap_or(u32::MAX));
        self.count(accepted == drafted);
        self.lessons.fetch_add(1, Ordering::Relaxed);
        self.switched(|learnt| {
            let note = learnt.cascade.counted(tokens(accepted), tokens(drafted));
            learnt.cascade.tell(note, &mut learnt.journal)
        });
    }

    /// Learns what another gateway told that it has not listened.
    pub(super) fn hear(&self, journal: &Journal) {
        let mut hearing = Hearing::default();
        self.switched(|learnt| {
            hearing = learnt.cascade.hear(journal);
            learnt.cascade.standing()
        });
        self.lessons.fetch_add(hearing.learnt, Ordering::Relaxed);
        if 0 < hearing.missed {
            let (cascade, missed) = (&self.name, hearing.missed);
            tracing::debug!(cascade, missed, "another gateway learnt more than it could tell");
        }
    }

    /// How long a draft of such a request may take to its verdict.
    pub(super) fn limit(&self, traits: &Traits) -> Duration {
        Duration::from_micros(self.state().cascade.payback().limit(traits).get())
    }

    /// How long one may take that nobody waits for.
    pub(super) fn limit_beside(&self, traits: &Traits) -> Duration {
        Duration::from_micros(self.state().cascade.payback().limit_beside(traits).get())
    }

    /// Tells the core how long draft or target took, and the log if drafts are asked first no more, or again.
    pub(super) fn timed(&self, tell: impl FnOnce(&mut Payback)) {
        let mut state = self.state();
        let before = state.cascade.payback().unpaid_at_all();
        tell(state.cascade.payback_mut());
        let after = state.cascade.payback().unpaid_at_all();
        drop(state);
        match (before, after) {
            (None, Some(why)) => {
                let (cascade, reason) = (&self.name, why.name());
                tracing::warn!(cascade, reason, "the draft is not asked first: it does not pay");
            }
            (Some(_), None) => {
                tracing::info!(cascade = self.name, "the draft is asked first: it may pay");
            }
            _ => {}
        }
    }

    /// Does so, and tells the log if the switch was thrown.
    fn switched(&self, learn: impl FnOnce(&mut Learnt) -> Standing) {
        let mut state = self.state();
        let before = state.cascade.standing();
        let after = learn(&mut state);
        drop(state);
        match (before, after) {
            (Standing::On, Standing::Off { reason, .. }) => {
                tracing::warn!(
                    cascade = self.name,
                    reason = reason.name(),
                    "the cascade is off: comparisons speak against its draft; the target answers"
                );
            }
            (Standing::Off { .. }, Standing::On) => {
                tracing::info!(cascade = self.name, "the cascade is on again");
            }
            _ => {}
        }
    }

    pub(super) fn report(&self) -> Report {
        self.state().cascade.report()
    }

    /// Whether there is something to be kept; it counts as kept then.
    pub(super) fn take_lessons(&self) -> bool {
        0 < self.lessons.swap(0, Ordering::Relaxed)
    }

    /// Whether it is still to be looked for what was learnt before; it has been then.
    pub(super) fn take_recall(&self) -> bool {
        !self.recalled.swap(true, Ordering::Relaxed)
    }

    pub(super) fn to_parts(&self) -> Vec<i64> {
        self.state().cascade.to_parts()
    }

    /// What other gateways are told.
    pub(super) fn journal(&self) -> Journal {
        self.state().journal.clone()
    }

    /// Takes up what was learnt before or elsewhere, beside what has been learnt since; false where that is no such
    /// state.
    pub(super) fn restore(&self, parts: &[i64]) -> bool {
        match Cascade::from_parts(meant(&self.settings), parts) {
            Ok(other) => {
                let mut state = self.state();
                let journals = [state.journal.clone()];
                state.cascade = state.cascade.clone().joined(other, &journals);
                true
            }
            Err(error) => {
                tracing::warn!(cascade = self.name, %error, "what it learnt before is left");
                false
            }
        }
    }

    pub(super) fn parity(&self) -> Parity {
        self.parity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the draft is not asked because it makes other tokens than the target (A8).
    pub(super) fn is_refused(&self) -> bool {
        !self.settings.any_tokenizers && matches!(self.parity(), Parity::Different(_))
    }

    /// Takes note of how the models' tokenizers compare.
    pub(super) fn compared(&self, parity: Parity) {
        let mut known = self.parity.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != parity {
            let (cascade, CascadeSettings { draft, target, .. }) = (&self.name, &self.settings);
            if matches!(parity, Parity::Different(_)) && self.settings.any_tokenizers {
                tracing::warn!(cascade, draft, target, %parity, "tokenizers differ");
            } else if matches!(parity, Parity::Different(_)) {
                tracing::error!(cascade, draft, target, %parity,
                    "the cascade is refused, and the target answers: tokenizers differ; \
                     `tokenizers: any` lets the draft answer all the same");
            } else {
                tracing::info!(cascade, draft, target, %parity, "tokenizers were compared");
            }
            *known = parity;
        }
    }
}

/// As the core has it.
fn meant(settings: &CascadeSettings) -> Settings {
    Settings {
        mode: settings.mode,
        loss: settings.loss,
        break_even: break_even_of(settings).unwrap_or(Settings::default().break_even),
        shadow: settings.shadow,
        first: Tokens::new(settings.first_window),
        abort_below: Settings::default().abort_below,
        slowdown: settings.slowdown,
    }
}

/// The share of accepted drafts from which typical requests cost less, where prices are known.
pub(super) fn break_even_of(settings: &CascadeSettings) -> Option<Chance> {
    let [draft, target] = settings.prices?;
    let pools = Pools { draft, target, ..Pools::default() };
    let how = match settings.mode {
        Mode::Verify => Verification::Whole,
        _ => Verification::None,
    };
    let reach = break_even(&TYPICAL, &pools, how).money?;
    Some(reach.share().unwrap_or(Chance::CERTAIN))
}

/// Whether a draft's answer is given.
pub(super) fn is_given(judgement: &Judgement) -> bool {
    judgement.serve == Choice::Draft
}
