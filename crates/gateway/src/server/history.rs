//! History: the last quarter of an hour second by second, and since when conditions hold.
//!
//! What the dashboard keeps beside the log of requests; `views/sampler.rs` fills it once a second.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use overdraft_dash::conditions::Condition;
use overdraft_dash::views::{HistoryView, Sample, SpeculationRow, WorkerRow};

/// Seconds that are kept.
const SAMPLES_MAX: usize = 900;

/// Seconds over which shares and times are told.
pub(crate) const WINDOW: usize = 300;

/// Conditions whose beginning is remembered at most.
const CONDITIONS_MAX: usize = 256;

/// Samples of the drafts of each worker: one in so many seconds, for five minutes.
const DRAFTS_EVERY: u64 = 30;
const DRAFTS_MAX: usize = 11;

/// Marks of one second at most.
const MARKS_MAX: usize = 4;

/// Drafted tokens of a worker that guesses ahead, and those that were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drafted {
    pub(crate) drafted: u64,
    pub(crate) accepted: u64,
}

/// What became of requests over five minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) ended: u64,
    /// Of those, refused for want of room or budget.
    pub(crate) refused: u64,
    /// Of those, ended by a worker or a defect.
    pub(crate) failed: u64,
}

/// The last quarter of an hour.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    samples: VecDeque<Sample>,
    /// The number of the next request of the log.
    next: u64,
    seconds: u64,
    /// Since when conditions hold, by their keys.
    since: BTreeMap<String, u64>,
    conditions: Vec<Condition>,
    /// Drafted and accepted tokens of each worker that guesses ahead, the oldest first.
    drafts: BTreeMap<String, VecDeque<Drafted>>,
    /// The state of each worker a second ago, for the marks.
    states: BTreeMap<String, String>,
}

impl History {
    /// The last seconds, the oldest first.
    pub(crate) fn view(&self) -> HistoryView {
        HistoryView { samples: self.state().samples.iter().cloned().collect() }
    }

    /// The latest second.
    pub(crate) fn latest(&self) -> Option<Sample> {
        self.state().samples.back().cloned()
    }

    /// What holds now and needs an operator's eyes.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        self.state().conditions.clone()
    }

    /// What became of the requests of the last five minutes.
    pub(crate) fn ends(&self) -> Ends {
        let state = self.state();
        let recent = state.samples.iter().rev().take(WINDOW);
        recent.fold(Ends::default(), |sum, one| Ends {
            ended: sum.ended + u64::from(one.ended),
            refused: sum.refused + u64::from(one.refused),
            failed: sum.failed + u64::from(one.failed),
        })
    }

    /// What a worker drafted over five minutes, where its counts are `now`.
    pub(crate) fn drafted(&self, worker: &str, now: Drafted) -> Option<Drafted> {
        let then = self.state().drafts.get(worker)?.front().copied()?;
        // An engine that started anew counts from zero.
        Some(Drafted {
            drafted: now.drafted.checked_sub(then.drafted)?,
            accepted: now.accepted.checked_sub(then.accepted)?,
        })
    }

    /// The number of the next request of the log.
    pub(crate) fn next(&self) -> u64 {
        self.state().next
    }

    /// Another second has passed; `next` is the number of the next request of the log.
    pub(crate) fn take(
        &self,
        mut sample: Sample,
        next: u64,
        rows: &[WorkerRow],
        speculation: &[SpeculationRow],
    ) {
        let mut state = self.state();
        state.next = next;
        state.seconds += 1;
        sample.marks = marks(&mut state, rows);
        if state.samples.len() == SAMPLES_MAX {
            state.samples.pop_front();
        }
        state.samples.push_back(sample);
        if state.seconds % DRAFTS_EVERY == 1 {
            note_drafts(&mut state, speculation);
        }
    }

    /// This holds now; each condition is told since when.
    pub(crate) fn hold(&self, mut found: Vec<Condition>, now_ms: u64) {
        found.truncate(CONDITIONS_MAX);
        let mut state = self.state();
        let mut since = BTreeMap::new();
        for one in &mut found {
            one.since_ms = state.since.get(&one.key).copied().unwrap_or(now_ms);
            since.insert(one.key.clone(), one.since_ms);
        }
        (state.since, state.conditions) = (since, found);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Workers whose state is another than a second ago.
fn marks(state: &mut State, rows: &[WorkerRow]) -> Vec<String> {
    let word = |row: &WorkerRow| match (row.state.as_str(), row.breaker.as_str()) {
        ("up", "closed") => "up".to_owned(),
        ("up", breaker) => format!("breaker {breaker}"),
        (other, _) => other.to_owned(),
    };
    let is_first = state.states.is_empty();
    let now: BTreeMap<String, String> =
        rows.iter().map(|row| (row.worker.clone(), word(row))).collect();
    let before = std::mem::replace(&mut state.states, now);
    if is_first {
        return Vec::new();
    }
    let changed = state.states.iter().filter(|(name, word)| before.get(*name) != Some(word));
    let came = changed.map(|(name, word)| format!("{name} {word}"));
    let left = before.keys().filter(|name| !state.states.contains_key(*name));
    came.chain(left.map(|name| format!("{name} left"))).take(MARKS_MAX).collect()
}

fn note_drafts(state: &mut State, speculation: &[SpeculationRow]) {
    let mut noted = BTreeMap::new();
    for row in speculation {
        let counts = Drafted { drafted: row.draft_tokens, accepted: row.accepted_tokens };
        let mut known = state.drafts.remove(&row.worker).unwrap_or_default();
        if known.back().is_some_and(|last| counts.drafted < last.drafted) {
            known.clear();
        }
        if known.len() == DRAFTS_MAX {
            known.pop_front();
        }
        known.push_back(counts);
        noted.insert(row.worker.clone(), known);
    }
    state.drafts = noted;
}

/// Milliseconds since 1970 of a time in seconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is neither negative nor beyond 64 bits"
)]
pub(crate) fn unix_ms(seconds: f64) -> u64 {
    (seconds * 1_000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_the_time_since_which_it_holds() {
        let history = History::default();
        let one = |key: &str| Condition { key: key.to_owned(), ..Condition::default() };
        history.hold(vec![one("late")], 7);
        history.hold(vec![one("late"), one("down")], 9);
        let since: Vec<u64> = history.conditions().iter().map(|one| one.since_ms).collect();
        assert_eq!(since, [7, 9]);
        history.hold(vec![one("down")], 11);
        history.hold(vec![one("late")], 13);
        assert_eq!(history.conditions()[0].since_ms, 13, "what did not hold was forgotten");
    }

    #[test]
    fn marks_tell_who_changed() {
        let mut state = State::default();
        let row = |name: &str, word: &str| WorkerRow {
            worker: name.to_owned(),
            state: word.to_owned(),
            breaker: "closed".to_owned(),
            ..WorkerRow::default()
        };
        assert!(marks(&mut state, &[row("a", "up"), row("b", "up")]).is_empty(), "all are new");
        assert!(marks(&mut state, &[row("a", "up"), row("b", "up")]).is_empty());
        assert_eq!(marks(&mut state, &[row("a", "draining")]), ["a draining", "b left"]);
    }

    #[test]
    fn an_engine_that_starts_anew_counts_anew() {
        let history = History::default();
        let counts = |drafted, accepted| Drafted { drafted, accepted };
        let note = |drafted, accepted| {
            let row = SpeculationRow {
                worker: "w".to_owned(),
                draft_tokens: drafted,
                accepted_tokens: accepted,
                ..SpeculationRow::default()
            };
            note_drafts(&mut history.state(), &[row]);
        };
        note(100, 40);
        assert_eq!(history.drafted("w", counts(160, 70)), Some(counts(60, 30)));
        assert_eq!(history.drafted("w", counts(10, 5)), None);
        note(10, 5);
        assert_eq!(history.drafted("w", counts(20, 6)), Some(counts(10, 1)));
    }

    #[test]
    fn a_quarter_of_an_hour_is_kept() {
        let history = History::default();
        for second in 0..1_000_u64 {
            let sample = Sample { at_ms: second, ended: 2, refused: 1, ..Sample::default() };
            history.take(sample, second, &[], &[]);
        }
        let samples = history.view().samples;
        assert_eq!((samples.len(), samples[0].at_ms, history.next()), (900, 100, 999));
        assert_eq!(history.ends(), Ends { ended: 600, refused: 300, failed: 0 });
    }
}
