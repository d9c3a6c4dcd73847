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

use arc_swap::ArcSwap;
use overdraft_core::cascade::{
    Action, Cascade, Choice, Event, Hearing, Journal, Parity, Protocol, Report, Settings, Standing,
    Terms, Unpaid,
};
use overdraft_core::estimate::SlidingRatio;
use overdraft_core::scale::MISS_RESTS;
use overdraft_units::{Instant, Ratio};
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::settings::{CascadeLogEntry, CascadeSettings};

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
    /// As the log has it.
    known: Switches,
}

/// Whether drafts are served and asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Switches {
    standing: Standing,
    unpaid: Option<Unpaid>,
}

impl Switches {
    fn of(cascade: &Cascade) -> Self {
        Self { standing: cascade.standing(), unpaid: cascade.payback().unpaid_at_all() }
    }
}

impl Learnt {
    fn new(cascade: Cascade, journal: Journal) -> Self {
        Self { known: Switches::of(&cascade), cascade, journal }
    }
}

/// When workers of both models were last there and told too little of their tokenizers.
///
/// To wake a worker of the draft is in vain then, for as long as a draft rests that no worker comes for: the next one may
/// be of another version, and a single look may have failed for a reason that has passed.
#[derive(Clone, Copy, Debug, Default)]
struct Untold(Option<Instant>);

impl Untold {
    fn holds(self, now: Instant) -> bool {
        self.0.is_some_and(|noted| now.since(noted) < MISS_RESTS)
    }
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
    /// Requests so far.
    begun: AtomicU64,
    /// Lessons since it was kept last.
    lessons: AtomicU64,
    /// Whether what it learnt in another life has been looked for.
    recalled: AtomicBool,
    parity: Mutex<Parity>,
    untold: Mutex<Untold>,
    /// Drafts that were judged, and those that were given.
    judged: [AtomicU64; 2],
    /// The share of these of late.
    recent: Mutex<SlidingRatio>,
}

impl CascadeState {
    fn new(name: &str, settings: CascadeSettings, learnt: Option<(Vec<i64>, Journal)>) -> Self {
        let meant = Settings::from(&settings);
        let recalled = learnt.is_some();
        let learnt = learnt.and_then(|(parts, journal)| {
            let cascade = Cascade::from_parts(meant, &parts).ok()?;
            Some(Learnt::new(cascade, journal))
        });
        let new = || {
            // Which gateway it is among those that share a store: another with each life.
            let journal = Journal::new(RandomState::new().hash_one(name));
            Learnt::new(Cascade::new(meant), journal)
        };
        Self {
            name: name.to_owned(),
            places: Arc::new(Semaphore::new(settings.at_once)),
            prefills: Arc::new(Semaphore::new(PREFILLS_MAX)),
            learnt: Mutex::new(learnt.unwrap_or_else(new)),
            begun: AtomicU64::new(0),
            lessons: AtomicU64::new(0),
            recalled: AtomicBool::new(recalled),
            parity: Mutex::new(Parity::NotKnown),
            untold: Mutex::default(),
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

    /// The protocol of a request that arrives now, and the request's number.
    pub(super) fn begin(&self, terms: Terms, now: Instant) -> (u64, Protocol) {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        (number, Protocol::new(&self.state().cascade, terms, now))
    }

    /// What would be done about a request that arrived now. Nothing is learnt of it.
    pub(super) fn preview(&self, terms: Terms, now: Instant) -> Vec<Action> {
        let learnt = self.state();
        let (mut cascade, mut journal) = (learnt.cascade.clone(), learnt.journal.clone());
        drop(learnt);
        let mut protocol = Protocol::new(&cascade, terms, now);
        protocol.handle(&mut cascade, &mut journal, Event::Arrived, now)
    }

    /// Whether the draft would be asked for a request if anybody knew its tokenizer, which a worker of it may tell.
    pub(super) fn misses_draft(&self, protocol: &Protocol, now: Instant) -> bool {
        let parity = self.parity();
        parity == Parity::NotKnown
            && !self.untold().holds(now)
            && protocol.misses_draft(&self.state().cascade, &parity)
    }

    /// Takes in an event of a request: what is to be done. All events of a cascade are taken in here, one by one.
    pub(super) fn handle(
        &self,
        number: u64,
        protocol: &mut Protocol,
        event: Event,
        now: Instant,
    ) -> Vec<Action> {
        let log = self.settings.log.as_ref().map(|log| (log, event.clone()));
        let is_word = matches!(event, Event::Said(_));
        let mut learnt = self.state();
        let Learnt { cascade, journal, .. } = &mut *learnt;
        let lessons = journal.told();
        let actions = protocol.handle(cascade, journal, event, now);
        let lessons = journal.told() - lessons;
        if let Some((log, event)) = log {
            let (terms, actions) = (*protocol.terms(), actions.clone());
            log.add(CascadeLogEntry { request: number, terms, at: now, event, actions });
        }
        // Most words of a draft change nothing.
        if !(is_word && actions.is_empty()) {
            self.note_switches(learnt);
        }
        self.lessons.fetch_add(lessons, Ordering::Relaxed);
        for action in &actions {
            if let Action::CountDraft(choice) = action {
                self.count(*choice == Choice::Draft);
            }
        }
        actions
    }

    /// Whether anything is ever compared.
    pub(super) fn compares(&self) -> bool {
        self.settings.shadow.start != Ratio::NONE
    }

    fn count(&self, given: bool) {
        let [judged, served] = &self.judged;
        judged.fetch_add(1, Ordering::Relaxed);
        served.fetch_add(given.into(), Ordering::Relaxed);
    }

    /// Drafts whose answer was given, of those that were judged of late; none where none were, and while the
    /// cascade is off.
    pub(super) fn acceptance(&self, now: Instant) -> Option<Ratio> {
        let [judged, served] = self.judged.each_ref().map(|count| count.load(Ordering::Relaxed));
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = recent.read(served, judged, now);
        drop(recent);
        let is_on = self.state().cascade.standing() == Standing::On;
        seen.filter(|_| is_on).map(|(served, judged)| Ratio::of(served, judged))
    }

    /// Learns what another gateway told that it has not listened.
    pub(super) fn hear(&self, journal: &Journal) {
        let mut learnt = self.state();
        let hearing: Hearing = learnt.cascade.hear(journal);
        self.note_switches(learnt);
        self.lessons.fetch_add(hearing.learnt, Ordering::Relaxed);
        if 0 < hearing.missed {
            let (cascade, missed) = (&self.name, hearing.missed);
            tracing::debug!(cascade, missed, "another gateway learnt more than it could tell");
        }
    }

    /// Tells the log where drafts are served or asked first no more, or again.
    fn note_switches(&self, mut learnt: MutexGuard<'_, Learnt>) {
        let after = Switches::of(&learnt.cascade);
        let before = std::mem::replace(&mut learnt.known, after);
        drop(learnt);
        match (before.unpaid, after.unpaid) {
            (None, Some(why)) => {
                let (cascade, reason) = (&self.name, why.name());
                tracing::warn!(cascade, reason, "the draft is not asked first: it does not pay");
            }
            (Some(_), None) => {
                tracing::info!(cascade = self.name, "the draft is asked first: it may pay");
            }
            _ => {}
        }
        match (before.standing, after.standing) {
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
        match Cascade::from_parts(Settings::from(&self.settings), parts) {
            Ok(other) => {
                let mut state = self.state();
                let journals = [state.journal.clone()];
                state.cascade = state.cascade.clone().joined(other, &journals);
                state.known = Switches::of(&state.cascade);
                true
            }
            Err(error) => {
                tracing::warn!(cascade = self.name, %error, "what the cascade learnt before cannot be used; it begins anew");
                false
            }
        }
    }

    pub(super) fn parity(&self) -> Parity {
        self.parity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Workers of both models were there, and how their tokenizers compare is still not known.
    pub(super) fn note_untold(&self, now: Instant) {
        *self.untold() = Untold(Some(now));
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use overdraft_units::Micros;

    use super::*;

    #[test]
    fn what_two_workers_did_not_tell_holds_for_as_long_as_a_draft_rests() {
        assert!(!Untold::default().holds(Instant::ORIGIN));
        let untold = Untold(Some(Instant::ORIGIN));
        let end = Instant::ORIGIN + MISS_RESTS;
        assert!(untold.holds(Instant::ORIGIN));
        assert!(untold.holds(Instant::ORIGIN + Micros::new(MISS_RESTS.get() - 1)));
        assert!(!untold.holds(end));
    }
}
